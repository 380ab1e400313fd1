"""What a home is asked about and does not know: wait, ask the other replicas, and only then say that it is gone.

The problem
-----------
"I do not know it" is the most dangerous thing a replica can say.  It tells links to drop the rows of a group, and
subscribers that their subscription is lost.  A replica may not know a name because it has ended.  Or because
its record is still on the way: a subscription counts as safe when enough replicas have it, not all; its query is
installed meanwhile, and answers overtake records.  Or because this peer has only just become one of its replicas,
or takes itself for one while views differ.

The rule
--------
Whatever is asked about a name is held here until its record comes, or its end.  The other replicas are asked what
they know, again and again.  A name is *gone* when all of them have said, and this peer too, that they have compared
what they keep and do not know it, asked after the name was unknown for longer than views of the ring differ; and
only the primary acts on it.  Nor is anything gone while as many peers are missing as copies make it safe, unless they
are missing for long: of a network that was cut the one half may have known of it alone.  For groups there is no hurry,
so it takes longer than for subscriptions, for which
somebody waits.  A group that was known here, whose last subscription has ended, is no news that others may be waiting
for: it is asked about at once, and gone if all say so and nobody at all is missing.

Answers of unknown groups, and withdrawals of these answers, are kept and acknowledged, for they may be the only copies.
A peer refuses only those for which it has no room.  Everything else that it refused would deadlock: until repair has
delivered all records of a home, a replica is not in step, and while it is not, no replica may conclude that a group is
gone.  A group becomes known with its first subscription, and others follow; so its answers are held, and taken in again
with each of these, for a while longer.

Without replicas nobody else could know: what is unknown is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from p2prdf.columns import as_list
from p2prdf.continuous.home import Home, Known, group_of, subscription_home
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.messenger import Exchange
from p2prdf.wire.messages import Answers, AskKnown, Contact, GroupsGone, KeepWithdrawn, Message, TellKnown

__all__ = ["Unknown"]

NAMES_MAX: Final = 4096
ROWS_MAX: Final = 100_000
REQUESTS_MAX: Final = 1024
GONE_MAX: Final = 4096
"""Names found to be gone that are remembered."""
ASK_SECONDS: Final = 1.25
"""How often the other replicas are asked."""
SUBSCRIPTION_SECONDS: Final = 2.5
GROUP_SECONDS: Final = 10.0
"""How long a name must have been unknown when they are asked for the last time."""

AFTER_SECONDS: Final = 20.0
"""How long answers are held after their group has become known."""

Name = tuple[bool, int]
"""Whether it is a subscription, and its number."""
Held = Answers | KeepWithdrawn
"""Answers of a group or leaf, or the withdrawal of some."""


@dataclass(slots=True)
class _Case:
    """A name that is not known here."""

    since: float
    ask_at: float
    unheard: dict[int, None] = field(default_factory=dict)
    """Replicas that were asked last and have not said that they do not know it either."""
    asked: bool = False
    """Whether it was unknown for long enough when they were."""
    answers: list[Held] = field(default_factory=list)
    holders: dict[tuple[Contact, int], None] = field(default_factory=dict)
    """Who is to be told if it is gone, and by which name: a group's leaves have names of their own."""
    requests: list[Message] = field(default_factory=list)
    nowhere: Callable[[], None] | None = None
    """Whoever left it here is told so when nobody knows it."""
    left: bool = False
    """Whether another replica knew it, and knows no subscription of it any more."""


class Unknown:
    """Names that are not known here, and what waits for them.

    ``record`` takes in answers and withdrawals of groups that have become known.
    """

    def __init__(
        self, exchange: Exchange, by_key: ByKey, home: Home, record: Callable[[Held], None]
    ):
        self._exchange = exchange
        self._by_key = by_key
        self._home = home
        self._record = record
        self._columns = exchange.columns
        self._cases: dict[Name, _Case] = {}
        self._gone: dict[Name, bool] = {}
        """Names that all replicas have said that they do not know; whether this one was the primary, and acts on it."""
        self._after: dict[int, tuple[float, list[Held]]] = {}
        """By group that became known: until when its answers are held, and these."""
        self._early: list[Message] = []
        self.rows = 0
        """Answers and withdrawals held."""
        exchange.recovery.requires(lambda: not self.lacking)

    def __len__(self) -> int:
        return len(self._cases)

    @property
    def lacking(self) -> bool:
        """Whether anything waits for a name that is not known here, and is not of a query that is about to end."""
        return any(case.requests or not (case.left or case.nowhere) for case in self._cases.values())

    # --- holding ---------------------------------------------------------------------------------

    def is_gone(self, name: int, *, subscription: bool) -> bool:
        """Return whether something that is not kept here does not exist; if that is not known yet, hold it."""
        ended = self._home.known(name, subscription=subscription) is Known.ENDED
        name = name if subscription else group_of(name)
        return ended or not self._exchange.replicated or self._gone.get((subscription, name), False)

    def when_nowhere(self, group: int, nowhere: Callable[[], None]) -> None:
        """Ask the other replicas about a group that was known here, and call ``nowhere`` when none of them knows it.

        Not if its record comes first, another peer is its primary by then, or there is no room.
        """
        now = self._exchange.now
        case = self._case((False, group), now)
        if case is not None:  # whoever has not heard yet that its last subscription ended says that it lives
            case.since, case.ask_at, case.nowhere = min(case.since, now - GROUP_SECONDS), now, nowhere

    def wait(self, message: Message) -> None:
        """Hold a request until this peer speaks for its home; if there are too many, it will be repeated."""
        if len(self._early) < REQUESTS_MAX:
            self._early.append(message)

    def view_changed(self) -> None:
        """Take up what waited until this peer knows what it is the home of."""
        early, self._early = self._early, []
        for message in early:
            self._exchange.to_self.append(message)

    def hold_request(self, subscription: int, message: Message) -> None:
        """Hold a request about a subscription."""
        case = self._case((True, subscription), self._exchange.now)
        if case is not None and len(case.requests) < REQUESTS_MAX:
            case.requests.append(message)

    def hold_holder(self, group: int, holder: Contact) -> None:
        """Remember who asks whether a group, or that of a leaf, still lives."""
        case = self._case((False, group_of(group)), self._exchange.now + ASK_SECONDS)
        if case is not None:
            case.holders[holder, group] = None

    def hold_answers(self, group: int, answers: Answers, holder: Contact | None) -> bool:
        """Keep answers of a group, or of a leaf of one; False if there is no room."""
        if self.rows + len(answers.rows) > ROWS_MAX:
            self._exchange.trace("answers-not-taken", rows=len(answers.rows))
            return False
        case = self._case((False, group_of(group)), self._exchange.now + ASK_SECONDS)
        if case is None:
            return False
        case.answers.append(answers)
        self.rows += len(answers.rows)
        if holder is not None:
            case.holders[holder, group] = None
        return True

    def is_nowhere(self, group: int) -> bool:
        """Return whether it is known here that no replica knows a group, or that of a leaf.

        Every replica may act on that for what it was itself asked to keep; it takes the primary to say so to others.
        """
        return self.is_gone(group, subscription=False) or (False, group_of(group)) in self._gone

    def hold_withdrawn(self, message: KeepWithdrawn) -> bool:
        """Keep a withdrawal until its group is known, or is known to no replica; False if there is no room."""
        case = self._case((False, group_of(message.leaf)), self._exchange.now + ASK_SECONDS)
        if case is None or self.rows + _rows_of(message) > ROWS_MAX:
            return False
        case.answers.append(message)
        self.rows += _rows_of(message)
        return True

    def _case(self, name: Name, ask_at: float) -> _Case | None:
        case = self._cases.get(name)
        if case is None and len(self._cases) < NAMES_MAX:
            case = self._cases[name] = _Case(self._exchange.now, ask_at)
        return case

    def messages(self) -> Iterator[Message]:
        """Return the answers and withdrawals held, as they came."""
        for case in list(self._cases.values()):
            yield from list(case.answers)
        for _, answers in list(self._after.values()):
            yield from answers

    # --- asking ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask the other replicas what is due."""
        now = self._exchange.now
        for group in [group for group, (until, _) in self._after.items() if until <= now]:
            self._drop(self._after.pop(group)[1])
        questions: dict[Contact, list[Name]] = {}
        for name, case in list(self._cases.items()):
            if case.ask_at > now:
                continue
            fellows = self._exchange.fellows(subscription_home(name[1]))
            case.unheard = {fellow.key: None for fellow in fellows}
            case.asked = now - case.since >= (SUBSCRIPTION_SECONDS if name[0] else GROUP_SECONDS)
            case.ask_at = now + ASK_SECONDS
            for fellow in fellows:
                questions.setdefault(fellow, []).append(name)
            self._judge(name, case)
        for fellow, names in questions.items():
            make = self._columns.column
            identities, kinds = make([each for _, each in names]), make([int(kind) for kind, _ in names], "uint32")
            self._exchange.send(fellow, AskKnown(identities, kinds))

    @property
    def deadline(self) -> float | None:
        """When somebody is to be asked."""
        due = [case.ask_at for case in self._cases.values()]
        due += [until for until, _ in self._after.values()]
        return min(due, default=None)

    def tell(self, asker: Contact, message: AskKnown, tell: Callable[[Contact, int, bool], None]) -> None:
        """Answer what is known here; ``tell`` sends what there is about a name that is."""
        known = []
        for name, kind in zip(as_list(message.identities), as_list(message.kinds), strict=True):
            found = self._home.known(name, subscription=bool(kind))
            if found is Known.UNKNOWN and not self._exchange.recovery.caught_up:
                found = Known.UNSURE
            elif found is Known.UNKNOWN and not kind and name in self._home.left:
                found = Known.LEFT
            if found in (Known.LIVES, Known.ENDED):
                tell(asker, name, bool(kind))
            known.append(int(found))
        answer = TellKnown(message.identities, message.kinds, self._columns.column(known, "uint32"))
        self._by_key.reply(asker, answer)

    def told(self, sender: Contact, message: TellKnown) -> None:
        """Note what another replica does not know."""
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
        """See whether a name is gone."""
        exchange = self._exchange
        if case.unheard or not case.asked or not exchange.recovery.caught_up or exchange.members.copies_missing:
            return
        if exchange.members.somebody_missing and not name[0] and name[1] in self._home.left:
            return
        primary = exchange.rank(subscription_home(name[1])) == 0
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
        """Go on with what waited for a name, of which a record or its end has come."""
        self._gone.pop((subscription, name), None)
        case = self._cases.get((subscription, name))
        lives = self._home.known(name, subscription=subscription) is Known.LIVES
        if case is not None:
            if lives and case.answers:
                self._after[name] = (self._exchange.now + AFTER_SECONDS, case.answers)
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
        """Hold a name's case no longer; requests go to whoever is to answer them now."""
        del self._cases[name]
        self._drop(case.answers)
        for message in case.requests:
            self._exchange.to_self.append(message)

    def _drop(self, answers: list[Held]) -> None:
        self.rows -= sum(map(_rows_of, answers))

    def _tell_gone(self, case: _Case) -> None:
        for holder, group in case.holders:
            self._by_key.reply(holder, GroupsGone(self._columns.column([group])))


def _rows_of(message: Held) -> int:
    return len(message.identity if isinstance(message, KeepWithdrawn) else message.rows)
