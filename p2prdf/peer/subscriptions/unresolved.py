"""Unresolved names: a replica holds messages about an unknown query or subscription until its record or end arrives.

"Unresolved" is a dangerous answer: it makes peers drop the rows of a query, and subscribers lose their subscription.  A
name may be unknown because it has ended, because its record is in flight (a subscription is safe once enough replicas
have it, and solutions overtake records), or because this peer has only just become a replica.

- Messages about an unknown name are held.  The replica asks the others every ``ASK_SECONDS``.
- A name is *gone* when all replicas, each caught up, have said that they do not know it, asked after it was unknown
  for ``SUBSCRIPTION_SECONDS`` or ``GROUP_SECONDS``.  Only the primary acts on that, and not while so many peers are
  missing as keep a record safe.
- Solutions and retractions of unknown groups are acknowledged, since these may be the only copies; without room the
  sender repeats them.  They are applied again with each further subscription of the group for ``AFTER_SECONDS``.

Without replicas an unknown name is gone.  docs/explanation/design/coordinators.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from p2prdf.columns import as_list
from p2prdf.continuous.home import Home, Known, group_of, subscription_home
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Component
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.messages import Answers, Contact, GroupsGone, KeepRetracted, Message, NamesRequest, NamesResponse

__all__ = ["Unresolved"]

NAMES_MAX: Final = 4096
ROWS_MAX: Final = 100_000
REQUESTS_MAX: Final = 1024
GONE_MAX: Final = 4096
"""Names known to be gone that are remembered."""
ASK_SECONDS: Final = 1.25
"""Seconds between two questions to the other replicas."""
SUBSCRIPTION_SECONDS: Final = 2.5
GROUP_SECONDS: Final = 10.0
"""Seconds for which a group must have been unknown at the last question."""

AFTER_SECONDS: Final = 20.0
"""Seconds for which solutions are held after their group has become known."""

Name = tuple[bool, int]
"""Whether the name is that of a subscription, and its number."""
Held = Answers | KeepRetracted
"""Solutions of a group or leaf, or the retraction of some."""


@dataclass(slots=True)
class _Case:
    """A name that this peer does not know."""

    since: float
    ask_at: float
    unheard: dict[int, None] = field(default_factory=dict)
    """Replicas that were asked last and have not answered that the name is unknown."""
    asked: bool = False
    """Whether the name was unknown for long enough when they were asked."""
    answers: list[Held] = field(default_factory=list)
    holders: dict[tuple[Contact, int], None] = field(default_factory=dict)
    """Peers to tell if the name is gone, each with the name that it used: leaves of a group have their own names."""
    requests: list[Message] = field(default_factory=list)
    nowhere: Callable[[], None] | None = None
    """Called when no replica knows the name."""
    left: bool = False
    """Whether another replica knows the group as an orphan, without subscriptions."""


class Unresolved(Component):
    """The unknown names of one peer and the messages that wait for them.

    ``record`` takes held solutions and retractions when their group has become known.
    """

    def __init__(
        self, messenger: Messenger, by_key: ByKey, home: Home, record: Callable[[Held], None]
    ):
        self._messenger = messenger
        self._placement = messenger.placement
        self._by_key = by_key
        self._home = home
        self._record = record
        self._columns = messenger.columns
        self._cases: dict[Name, _Case] = {}
        self._gone: dict[Name, bool] = {}
        """Names that no replica knows, each with whether this peer was the primary, which may act on it."""
        self._after: dict[int, tuple[float, list[Held]]] = {}
        """By group that became known recently, the time until which its solutions are held, and the solutions."""
        self._early: list[Message] = []
        self.rows = 0
        """Held solutions and retractions."""
        messenger.recovery.requires(lambda: not self.lacking)

    def __len__(self) -> int:
        return len(self._cases)

    @property
    def lacking(self) -> bool:
        """Whether a message waits for an unknown name, other than that of an orphaned group."""
        return any(case.requests or not (case.left or case.nowhere) for case in self._cases.values())

    # --- holding ---------------------------------------------------------------------------------

    def is_gone(self, name: int, *, subscription: bool) -> bool:
        """Return whether an unknown name is gone; false means that the message is to be held."""
        ended = self._home.known(name, subscription=subscription) is Known.ENDED
        name = name if subscription else group_of(name)
        return ended or not self._placement.replicated or self._gone.get((subscription, name), False)

    def when_nowhere(self, group: int, nowhere: Callable[[], None]) -> None:
        """Ask the other replicas about an orphaned group, and call ``nowhere`` when none of them knows it.

        It is not called if a record comes first, if another peer is the primary by then, or without room.
        """
        now = self._messenger.now
        case = self._case((False, group), now)
        if case is not None:  # a replica that has not heard of the last end answers that the group is alive
            case.since, case.ask_at, case.nowhere = min(case.since, now - GROUP_SECONDS), now, nowhere
            self.dirty = True

    def wait(self, message: Message) -> None:
        """Hold a request until this peer may serve it; beyond the bound the sender repeats it."""
        if len(self._early) < REQUESTS_MAX:
            self._early.append(message)

    def view_changed(self) -> None:
        """Handle the requests that waited for this peer to know its place in the view."""
        early, self._early = self._early, []
        for message in early:
            self._messenger.to_self.append(message)

    def hold_request(self, subscription: int, message: Message) -> None:
        """Hold a request about an unknown subscription."""
        case = self._case((True, subscription), self._messenger.now)
        if case is not None and len(case.requests) < REQUESTS_MAX:
            case.requests.append(message)

    def hold_holder(self, group: int, holder: Contact) -> None:
        """Remember a peer that asks whether the group of a name is alive."""
        case = self._case((False, group_of(group)), self._messenger.now + ASK_SECONDS)
        if case is not None:
            case.holders[holder, group] = None

    def hold_answers(self, group: int, answers: Answers, holder: Contact | None) -> bool:
        """Hold solutions of a group or leaf; return False without room."""
        if self.rows + len(answers.rows) > ROWS_MAX:
            self._messenger.trace("answers-not-taken", rows=len(answers.rows))
            return False
        case = self._case((False, group_of(group)), self._messenger.now + ASK_SECONDS)
        if case is None:
            return False
        case.answers.append(answers)
        self.rows += len(answers.rows)
        if holder is not None:
            case.holders[holder, group] = None
        return True

    def is_nowhere(self, group: int) -> bool:
        """Return whether no replica knows the group of a name.

        Every replica may act on that for its own copies; only the primary may tell others.
        """
        return self.is_gone(group, subscription=False) or (False, group_of(group)) in self._gone

    def hold_withdrawn(self, message: KeepRetracted) -> bool:
        """Hold a retraction until its group is known or gone; return False without room."""
        case = self._case((False, group_of(message.leaf)), self._messenger.now + ASK_SECONDS)
        if case is None or self.rows + _rows_of(message) > ROWS_MAX:
            return False
        case.answers.append(message)
        self.rows += _rows_of(message)
        return True

    def _case(self, name: Name, ask_at: float) -> _Case | None:
        case = self._cases.get(name)
        if case is None and len(self._cases) < NAMES_MAX:
            case = self._cases[name] = _Case(self._messenger.now, ask_at)
            self.dirty = True
        return case

    def messages(self) -> Iterator[Message]:
        """Return the held solutions and retractions in the order of their arrival."""
        for case in list(self._cases.values()):
            yield from list(case.answers)
        for _, answers in list(self._after.values()):
            yield from answers

    # --- asking ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask the other replicas about the names that are due."""
        now = self._messenger.now
        for group in [group for group, (until, _) in self._after.items() if until <= now]:
            self._drop(self._after.pop(group)[1])
        questions: dict[Contact, list[Name]] = {}
        for name, case in list(self._cases.items()):
            if case.ask_at > now:
                continue
            fellows = self._placement.fellows(subscription_home(name[1]))
            case.unheard = {fellow.key: None for fellow in fellows}
            case.asked = now - case.since >= (SUBSCRIPTION_SECONDS if name[0] else GROUP_SECONDS)
            case.ask_at = now + ASK_SECONDS
            for fellow in fellows:
                questions.setdefault(fellow, []).append(name)
            self._judge(name, case)
        for fellow, names in questions.items():
            make = self._columns.column
            identities, kinds = make([each for _, each in names]), make([int(kind) for kind, _ in names], "uint32")
            self._messenger.send(fellow, NamesRequest(identities, kinds))

    @property
    def deadline(self) -> float | None:
        """The time of the next question."""
        due = [case.ask_at for case in self._cases.values()]
        due += [until for until, _ in self._after.values()]
        return min(due, default=None)

    def tell(self, asker: Contact, message: NamesRequest, tell: Callable[[Contact, int, bool], None]) -> None:
        """Answer which names this peer knows; ``tell`` sends the records or the end of a known one."""
        known = []
        for name, kind in zip(as_list(message.identities), as_list(message.kinds), strict=True):
            found = self._home.known(name, subscription=bool(kind))
            if found is Known.UNKNOWN and not self._messenger.recovery.caught_up:
                found = Known.UNSURE
            elif found is Known.UNKNOWN and not kind and name in self._home.left:
                found = Known.LEFT
            if found in (Known.LIVES, Known.ENDED):
                tell(asker, name, bool(kind))
            known.append(int(found))
        answer = NamesResponse(message.identities, message.kinds, self._columns.column(known, "uint32"))
        self._by_key.reply(asker, answer)

    def told(self, sender: Contact, message: NamesResponse) -> None:
        """Take the answer of another replica about names."""
        columns = (as_list(message.identities), as_list(message.kinds), as_list(message.known))
        for number, kind, known in zip(*columns, strict=True):
            name = (bool(kind), number)
            case = self._cases.get(name)
            if case is not None and known == Known.LIVES:
                case.left = False
            elif case is not None and known in (Known.UNKNOWN, Known.LEFT):
                case.left |= known == Known.LEFT
                case.unheard.pop(sender.key, None)
                self._judge(name, case)

    def _judge(self, name: Name, case: _Case) -> None:
        """Decide whether a name is gone."""
        messenger = self._messenger
        if case.unheard or not case.asked or not messenger.recovery.caught_up or messenger.members.copies_missing:
            return
        if messenger.members.somebody_missing and not name[0] and name[1] in self._home.left:
            return
        primary = self._placement.rank(subscription_home(name[1])) == 0
        self._gone[name] = primary
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self._close(name, case)
        if primary:
            self._tell_gone(case)
            if case.nowhere is not None:
                case.nowhere()

    # --- learning --------------------------------------------------------------------------------

    def learned(self, name: int, *, subscription: bool) -> None:
        """Handle the messages that waited for the record or the end of a name."""
        self._gone.pop((subscription, name), None)
        case = self._cases.get((subscription, name))
        lives = self._home.known(name, subscription=subscription) is Known.LIVES
        if case is not None:
            if lives and case.answers:
                self._after[name] = (self._messenger.now + AFTER_SECONDS, case.answers)
                self.dirty = True
                case.answers = []
            self._close((subscription, name), case)
            if not lives:
                self._tell_gone(case)
        if subscription or name not in self._after:
            return
        if lives:
            for answers in self._after[name][1]:
                self._record(answers)
        else:
            self._drop(self._after.pop(name)[1])

    def _close(self, name: Name, case: _Case) -> None:
        """Drop the case of a name; its requests are routed to their present coordinator."""
        del self._cases[name]
        self._drop(case.answers)
        for message in case.requests:
            self._messenger.to_self.append(message)

    def _drop(self, answers: list[Held]) -> None:
        self.rows -= sum(map(_rows_of, answers))

    def _tell_gone(self, case: _Case) -> None:
        for holder, group in case.holders:
            self._by_key.reply(holder, GroupsGone(self._columns.column([group])))


def _rows_of(message: Held) -> int:
    return len(message.identity if isinstance(message, KeepRetracted) else message.rows)
