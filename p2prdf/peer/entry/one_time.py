"""One-time queries that the entry peer answers by itself, from triples that it reads at other members.

1. It draws a stamp T and asks every member for its work in flight up to T, and one replica of each key of the query for
   the triples under it (:mod:`p2prdf.peer.progress.stable_reads`).
2. When all have answered, it asks those again that have read before the last work up to T had ended.
3. Patterns without constants, or with too many triples, are read by the values of the others, at some members.
4. It evaluates the query (:mod:`p2prdf.continuous.one_time`), delivers the solutions, and the bookmark T when the
   client asks for bookmarks.

No other peer keeps anything about the query, and no record is written.  If a member is lost or restarts meanwhile, if
the view changes, or if a triple has changed after T, the attempt is repeated with a later stamp.  After
``ATTEMPTS_MAX`` attempts later changes are accepted.  After ``GIVE_UP_SECONDS``, or if the query exceeds a bound, it is
opened as a subscription (:meth:`p2prdf.peer.entry.entry.ClientEdge.subscribe`).

Bounds: ``OPEN_MAX`` queries at a time; the bounds of an answer and of the evaluation.

Design: docs/explanation/design/one-time-queries.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.continuous.one_time import Answer, Key, Reading, TooLarge, evaluated, is_readable
from p2prdf.errors import Busy
from p2prdf.hlc import FIRST
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Component, Handlers, earliest
from p2prdf.peer.progress.stable_reads import LAST_BIT
from p2prdf.rdf.query import Algorithm
from p2prdf.wire.contract import Bookmark, Completed, Notify, Subscribe, Subscribed
from p2prdf.wire.messages import Contact, ReadTriples, TriplesRead

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["ATTEMPTS_MAX", "GIVE_UP_SECONDS", "OneTimeQueries"]

OPEN_MAX: Final = 256
ANSWERED_MAX: Final = 4096
MEMBERS_MAX: Final = 64
"""Members that are asked; in a larger overlay every query is opened as a subscription."""
ATTEMPTS_MAX: Final = 4
GIVE_UP_SECONDS: Final = 2.0
"""Seconds after which a query is opened as a subscription."""
PAUSE_SECONDS: Final = 2.0
"""Seconds after that in which further queries are opened so at once: a member does not answer."""
_REPEAT_SECONDS: Final = 0.1
"""Seconds until a question is repeated; doubled each time."""
_LEASE: Final = 1 << hlc.COUNTER_BITS
"""A millisecond: the query is opened so long before its bookmark."""


@dataclass(slots=True, eq=False)
class _Question:
    """A question to one member that has no answer yet."""

    to: Contact
    keys: list[Key]
    message: ReadTriples
    repeat_at: float
    repeat_seconds: float = _REPEAT_SECONDS


@dataclass(slots=True, eq=False)
class _Asked:
    """The last answer of a member, without its triples."""

    to: Contact
    keys: list[Key]
    message: TriplesRead


@dataclass(slots=True, eq=False)
class _Query:
    """A query being read or evaluated."""

    request: Subscribe
    give_up_at: float
    number: int
    attempt: int = 0
    stamp: int = 0
    view: int = 0
    changes: int = 0
    """The number of changes of the members at the beginning of the attempt."""
    is_late: bool = False
    """Whether the next stamp is later than all publications acknowledged before the query, by any clock."""
    is_changed: bool = False
    """Whether triples have changed after ``stamp``, in the last attempt."""
    reading: Reading | None = None
    processes: dict[int, int] = field(default_factory=dict)
    """By key of a member the process that answered."""
    cut: int = 0
    """A stamp after which no work up to ``stamp`` is in flight, once all members have answered."""
    questions: dict[int, _Question] = field(default_factory=dict)
    answers: list[_Asked] = field(default_factory=list)
    """Answers of this round."""
    evaluation: Iterator[Answer | None] | None = None


class OneTimeQueries(Component):
    """The one-time queries of clients of one peer.

    ``open_subscription`` opens a query as a subscription.
    """

    def __init__(
        self, messenger: Messenger, dictionary: TermDictionary, open_subscription: Callable[[Subscribe], None]
    ):
        self._messenger = messenger
        self._dictionary = dictionary
        self._open_subscription = open_subscription
        self._by_key = ByKey(messenger)
        self._queries: dict[int, _Query] = {}
        """By request."""
        self._asked: dict[int, _Query] = {}
        """By number of a question without answer."""
        self._changes = 0
        self._paused_until = 0.0
        self.answered: dict[int, int] = {}
        """The bookmarks of the queries that were answered here and not ended by their clients, by number, at most
        ``ANSWERED_MAX``."""
        self._bookmarks_due: list[int] = []
        """Queries of which the bookmark was asked for."""
        self.read = self.opened = self.repeated = 0
        self.late = 0
        """Number of answers that may contain changes from after their bookmark."""
        messenger.signals.view_changed.connect(self.members_changed)

    def handlers(self) -> Handlers:
        """Return the handler of members' answers."""
        return {TriplesRead: self._received}

    def status(self) -> Mapping[str, object]:
        """Return the numbers of queries read here, opened as subscriptions, and of repeated attempts."""
        return {
            "queries_read": self.read, "queries_read_late": self.late, "queries_opened": self.opened,
            "queries_repeated": self.repeated,
        }  # fmt: skip

    def begin(self, request: Subscribe) -> bool:
        """Begin to read a query; return False if it must be opened as a subscription."""
        if not self._may_read(request):
            self.opened += request.once
            return False
        query = _Query(request, self._messenger.now + GIVE_UP_SECONDS, self._messenger.draw(62))
        self._queries[request.request] = query
        self.dirty = True
        self._attempt(query)
        return True

    def _may_read(self, request: Subscribe) -> bool:
        messenger = self._messenger
        return (
            messenger.config.read_queries and request.once and request.since == FIRST and not request.per_event
            and request.algorithm is Algorithm.CSBV and messenger.placement.replicated
            and messenger.now >= self._paused_until and len(self._queries) < OPEN_MAX
            and messenger.cache.size <= MEMBERS_MAX and messenger.config.indexes in ("all", "csbv")
            and is_readable(request.query)
        )  # fmt: skip

    # --- attempts --------------------------------------------------------------------------------

    def _attempt(self, query: _Query) -> None:
        """Begin anew, with a later stamp."""
        messenger = self._messenger
        self._forget_questions(query)
        query.view, query.changes = messenger.view, self._changes
        query.reading = query.evaluation = None
        query.cut, query.processes, query.is_changed = 0, {}, False
        if not query.view or messenger.placement.replica_set(0) is None:
            return  # the next change of the members, or the time, goes on
        query.attempt += 1
        self.repeated += query.attempt > 1
        query.stamp = messenger.tick()
        try:
            query.reading = Reading(query.request.query, self._dictionary)
            self._ask(query, query.reading.next_keys(), everyone=True)
        except (TooLarge, Busy):
            self._give_up(query)

    def _ask(self, query: _Query, wanted: list[Key], *, everyone: bool = False) -> None:
        """Ask one replica of each key for its triples; ``everyone``: ask the other members about their work, too."""
        messenger = self._messenger
        at: dict[int, tuple[Contact, list[Key]]] = {}
        if everyone:
            at = {contact.key: (contact, []) for contact in messenger.cache.contacts()}
        hashes = self._dictionary.hashes
        for key in wanted:
            role, *parts = key
            ring = int(keys.role_key(role, *(hashes[part] for part in parts)))
            replicas = messenger.placement.replica_set(ring)
            assert replicas, "a complete view has replicas of each key"
            chosen = next((each for each in replicas if each.key == messenger.own.key), replicas[0])
            at.setdefault(chosen.key, (chosen, []))[1].append(key)
        for contact, some in at.values():
            self._ask_one(query, contact, some)

    def _ask_one(self, query: _Query, contact: Contact, some: list[Key]) -> None:
        messenger, make = self._messenger, self._messenger.columns.column
        number = messenger.draw(62)
        columns = (make(column, "uint32") for column in (zip(*some, strict=True) if some else ([],) * 4))
        message = ReadTriples(number, query.view, query.stamp, *columns)
        query.questions[number] = _Question(contact, some, message, messenger.now + _REPEAT_SECONDS)
        self._asked[number] = query
        self._by_key.reply(contact, message)

    def _forget_questions(self, query: _Query) -> None:
        for number in query.questions:
            self._asked.pop(number, None)
        query.questions.clear()
        query.answers.clear()

    # --- answers ---------------------------------------------------------------------------------

    def _received(self, sender: Contact, message: TriplesRead) -> None:
        query = self._asked.get(message.request)
        if query is None or query.questions[message.request].to.key != sender.key or message.view != query.view:
            return
        question = query.questions.pop(message.request)
        del self._asked[message.request]
        query.answers.append(_Asked(question.to, question.keys, message))
        if query.processes.setdefault(sender.key, message.process) != message.process:
            self._attempt(query)  # the member has restarted since its first answer
        elif not query.questions:
            self._round_over(query)

    def _round_over(self, query: _Query) -> None:
        """Go on when all members have answered: ask again, repeat the attempt, read further keys or evaluate."""
        answers, query.answers = query.answers, []
        query.cut = max(query.cut, *(each.message.busy_until for each in answers))
        early = [each for each in answers if each.message.at <= query.cut]
        if early:
            query.answers = [each for each in answers if each.message.at > query.cut]
            for each in early:
                self._ask_one(query, each.to, each.keys)
            return
        if self._is_outdated(query, answers):
            self._attempt(query)
            return
        assert query.reading is not None, "an attempt begins with a reading"
        try:
            for each in answers:
                _take(query.reading, each)
            wanted = query.reading.next_keys()
        except (TooLarge, Busy):
            self._give_up(query)
            return
        if wanted:
            self._ask(query, wanted)
        else:
            query.evaluation = evaluated(query.request.query, query.reading, self._dictionary, query.number)
            self.dirty = True

    def _is_outdated(self, query: _Query, answers: list[_Asked]) -> bool:
        """Return whether a later stamp is needed.

        It must be later than all publications acknowledged before the query, by any clock.  Until the last attempt no
        key may have changed since the stamp: the triples are then those of the stamp.
        """
        issued = not query.is_late and any(each.message.issued > query.stamp for each in answers)
        query.is_late = True
        changed = any(each.message.latest > query.stamp for each in answers)
        if changed and query.attempt >= ATTEMPTS_MAX:
            query.is_changed, changed = True, False
        return issued or changed

    # --- outcome ---------------------------------------------------------------------------------

    def _evaluate(self, query: _Query) -> None:
        """Evaluate a piece of a query, or several as long as the turn has time."""
        assert query.evaluation is not None, "the query is evaluated"
        try:
            for answer in query.evaluation:
                if answer is not None:
                    self._finish(query, answer)
                    return
                self._messenger.pace.did()
                if self._messenger.pace.over:
                    return
        except (TooLarge, Busy):
            self._give_up(query)

    def _finish(self, query: _Query, answer: Answer) -> None:
        del self._queries[query.request.request]
        self.read += 1
        self.late += query.is_changed
        number, effects, make = query.number, self._messenger.effects, self._messenger.columns.column
        self.answered[number] = query.stamp
        if len(self.answered) > ANSWERED_MAX:
            del self.answered[next(iter(self.answered))]
        order = tuple(range(sum(map(len, query.reading.counts)))) if query.reading is not None else ()
        subscribed = Subscribed(number, FIRST, order, query.stamp - _LEASE)
        effects.append(Completed(query.request.request, subscribed))
        if answer.identity:
            bindings = tuple(make(column, "uint32") for column in answer.bindings)
            effects.append(Notify(number, 1, 0, make(answer.identity), make(answer.born), bindings, 1))

    def want_bookmark(self, number: int) -> bool:
        """Deliver the bookmark of a query in the next turn; return False if the query was not answered here."""
        if number in self.answered:
            self._bookmarks_due.append(number)
            self.dirty = True
            return True
        return False

    def _give_up(self, query: _Query) -> None:
        """Open a query as a subscription."""
        self._forget_questions(query)
        del self._queries[query.request.request]
        self.opened += 1
        self._open_subscription(query.request)

    # --- time ------------------------------------------------------------------------------------

    def members_changed(self) -> None:
        """Note a change of the members: the present attempts count no more."""
        self._changes += 1
        self.dirty = True

    def wake(self) -> None:
        """Evaluate queries, repeat attempts and questions, and give up."""
        now = self._messenger.now
        due, self._bookmarks_due = self._bookmarks_due, []
        for number in due:
            if number in self.answered:
                self._messenger.effects.append(Bookmark(number, self.answered[number]))
        for query in list(self._queries.values()):
            if query.evaluation is not None:
                self._evaluate(query)
            elif now >= query.give_up_at:
                self._paused_until = now + PAUSE_SECONDS
                self._give_up(query)
            elif query.changes != self._changes or query.view != self._messenger.view or not query.view:
                self._attempt(query)
            else:
                self._repeat(query)

    def _repeat(self, query: _Query) -> None:
        now = self._messenger.now
        for question in query.questions.values():
            if question.repeat_at <= now:
                question.repeat_seconds *= 2
                question.repeat_at = now + question.repeat_seconds
                self._by_key.reply(question.to, question.message)

    @property
    def deadline(self) -> float | None:
        """When the next action is due."""
        due = self._messenger.now if self._bookmarks_due else None
        for query in self._queries.values():
            if query.evaluation is not None:
                return self._messenger.now
            due = earliest(due, query.give_up_at, *(each.repeat_at for each in query.questions.values()))
        return due


def _take(reading: Reading, asked: _Asked) -> None:
    """Take the triples of an answer, by key."""
    message = asked.message
    found: dict[int, list[tuple[tuple[int, int, int], int]]] = {}
    columns = (as_list(column) for column in (message.places, message.s, message.p, message.o, message.time))
    for number, s, p, o, time in zip(*columns, strict=True):
        found.setdefault(number, []).append(((s, p, o), time))
    for number, key in enumerate(asked.keys):
        left_out = message.left_out >> min(number, LAST_BIT) & 1
        reading.take(key, None if left_out else found.get(number, []))
