"""Conditional transactions: refused unless their subjects are unchanged since the versions that the writer read.

A version is a stamp V up to which the writer has read: no publication up to V was in flight then, so the read missed
none.  A transaction with the stamp T needs a *grant* of each subject, from a majority of the replicas of the subject's
key.  A replica grants if it knows no change of the subject after V, and no grant of another transaction after V.  Two
majorities have a common replica, so of two transactions that depend on one version at most one is granted.

A grant has no end and no lock.  If its transaction fails, a reader that has read up to T or later knows that nothing of
it is in flight, and names a later version.  The transaction is *open* from its stamp on: a low watermark does not pass
it before it is indexed or refused.

A replica that has forgotten grants, or has joined the replicas, refuses all versions before its *floor*: a stamp at or
after all grants that it may lack.  It sets the floor after it has compared its data with the other replicas in the
present view, and grants only to askers with this view.

When a transaction is staged, its entry peer has the grants renewed with a new stamp before it indexes anything: the
peer may have been cut off since, and readers may have passed the first stamp.  A staged copy is delivered if the
peer is lost.

The entry peer asks the primaries first.  Of writers that compete, the first one therefore gets all its grants.

Design: docs/explanation/design/conditional.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from p2prdf.columns import as_list
from p2prdf.errors import Busy, ChangedMeanwhile, DataRefused, P2PRDFError
from p2prdf.peer.network.component import Component, Handlers, Restorers, earliest
from p2prdf.wire.messages import AskGrants, Contact, GrantsAnswer, GrantsKept, Message

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["Conditions", "Requirement"]

GRANTS_MAX: Final = 65_536
"""Grants that a replica remembers; it forgets the oldest first, and raises its floor."""
OPEN_MAX: Final = 1024
"""Conditional transactions that wait for grants at one entry peer."""
GIVE_UP_SECONDS: Final = 5.0
"""After this time without a majority, a transaction is refused as busy."""
_AGAIN_SECONDS: Final = 0.25
"""Pause before the replicas are asked again that could not tell."""
_PRIMARY_SECONDS: Final = 1.0
"""Time for the primaries, before the other replicas are asked without their answer."""

_GRANTED, _NOT_YET, _IN_PARTS = range(3)


@dataclass(frozen=True, slots=True)
class Requirement:
    """The condition of one transaction: by subject, a term identifier, the version since which it is unchanged."""

    versions: Mapping[int, int]
    attempt: int


@dataclass(slots=True, eq=False)
class _Open:
    """A transaction that waits for grants."""

    stamp: int
    requirement: Requirement
    message: Message
    """Its statements."""
    granted: Callable[[], None]
    refused: Callable[[P2PRDFError], None]
    give_up_at: float
    primary_until: float
    view: int = 0
    """The view in which the replicas were asked."""
    replicas: dict[int, list[Contact]] = field(default_factory=dict)
    """By subject the replicas of its key, the primary first."""
    grants: dict[int, set[int]] = field(default_factory=dict)
    """By subject the keys of the peers that granted."""
    asked: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of subject and key of a peer: its answer is awaited or known."""
    again_at: float | None = None

    def enough(self, subject: int) -> bool:
        """Return whether a majority of the replicas has granted a subject."""
        return 2 * len(self.grants[subject]) > len(self.replicas[subject])


class Conditions(Component):
    """The grants of one peer as a replica, and the transactions that wait for grants at it as an entry peer."""

    def __init__(
        self, messenger: Messenger, dictionary: TermDictionary, latest_news: Callable[[int], int],
        key_of: Callable[[int], int], in_parts: Callable[[int], bool],
    ):  # fmt: skip
        """``latest_news`` returns the stamp of the last change of a subject here, ``key_of`` the subject's key.

        ``in_parts``: whether several peers share the statements under a key.
        """
        self.dirty = False
        self._messenger = messenger
        self._dictionary = dictionary
        self._latest_news = latest_news
        self._key_of = key_of
        self._in_parts = in_parts
        self._grants: dict[int, tuple[int, int]] = {}
        """By subject the stamp and the attempt of the latest granted transaction, oldest first."""
        self._floor = 0
        self._floor_due = messenger.placement.replicated
        """Whether a grant may be unknown here since the view changed."""
        self._open: dict[int, _Open] = {}
        """By stamp."""
        self.granted = self.refused = 0
        messenger.signals.view_changed.connect(self.ring_changed)
        messenger.signals.compared.connect(self._set_floor)
        messenger.obsolete_if(AskGrants, lambda message: message.stamp not in self._open)

    # --- contract --------------------------------------------------------------------------------

    def handlers(self) -> Handlers:
        """Return the handlers of questions of entry peers and of answers of replicas."""
        return {AskGrants: self.asked, GrantsAnswer: lambda sender, message: self.answered(sender, message)}

    def restorers(self) -> Restorers:
        """Return the method that takes back the grants of the earlier process."""
        return {GrantsKept: self._restore}

    def kept(self) -> Iterator[GrantsKept]:
        """Return the record of the grants."""
        if self._grants or self._floor:
            yield self._record(list(self._grants))

    def status(self) -> Mapping[str, object]:
        """Return the counters of conditional transactions."""
        return {
            "conditions_open": len(self._open), "conditions_granted": self.granted,
            "conditions_refused": self.refused, "grants": len(self._grants),
        }  # fmt: skip

    def ring_changed(self) -> None:
        """Note that the replicas of keys have changed: ask the present ones, and set the floor anew."""
        self._floor_due = True
        if not self._messenger.placement.replicated:
            self._set_floor()
        if self._open:
            self.dirty = True

    def _set_floor(self) -> None:
        """Refuse all versions before now: another peer may have grants that this one does not know."""
        self._floor_due = False
        self._floor = max(self._floor, self._messenger.clock, self._messenger.present)

    def queued(self) -> Iterable[Message]:
        """Return the statements of the transactions that wait for grants."""
        return [each.message for each in self._open.values()]

    # --- replica ---------------------------------------------------------------------------------

    def asked(self, sender: Contact, message: AskGrants) -> None:
        """Grant or refuse each subject, and store the grants before the answer leaves."""
        subjects = as_list(message.subjects)
        present = [
            self._decide(subject, version, message)
            for subject, version in zip(subjects, as_list(message.versions), strict=True)
        ]
        if new := [subject for subject, each in zip(subjects, present, strict=True) if each == _GRANTED]:
            self._messenger.persist(self._record(new))
        make = self._messenger.columns.column
        answer = GrantsAnswer(message.subjects, make(present), message.stamp, message.view)
        if sender.key == self._messenger.own.key:
            self._messenger.to_self.append(answer)
        else:
            self._messenger.send(sender, answer)

    def _decide(self, subject: int, version: int, message: AskGrants) -> int:
        """Return the answer about one subject; note the grant."""
        key = self._key_of(subject)
        if not self._may_tell(key, message.view):
            return _NOT_YET
        if self._in_parts(key):
            return _IN_PARTS
        stamp, attempt = self._latest_grant(subject)
        if stamp and attempt == message.attempt:  # its own earlier attempt, which may have taken effect
            version = max(version, stamp)
        latest = max(stamp, self._floor, self._latest_news(subject))
        if latest > version:
            return latest
        self._note(subject, max(stamp, message.stamp), message.attempt)
        return _GRANTED

    def _latest_grant(self, subject: int) -> tuple[int, int]:
        """Return the stamp and the attempt of the latest known grant of a subject; zeros: there is none."""
        return self._grants.get(subject, (0, 0))

    def _may_tell(self, key: int, view: int) -> bool:
        """Return whether this peer is a replica of a key by a view that the asker has as well, and lacks nothing."""
        messenger = self._messenger
        if messenger.placement.replicated:
            same = view == messenger.view != 0 and not self._floor_due
            return same and messenger.recovery.compared and messenger.placement.rank(key) >= 0
        if not self._floor:  # the first question of this process
            self._set_floor()
        return bool(as_list(messenger.closest_known([key]))[0] == 0)

    def _note(self, subject: int, stamp: int, attempt: int) -> None:
        self._grants.pop(subject, None)
        self._grants[subject] = stamp, attempt
        while len(self._grants) > GRANTS_MAX:
            forgotten, _ = self._grants.pop(next(iter(self._grants)))
            self._floor = max(self._floor, forgotten)

    def _record(self, subjects: Sequence[int]) -> GrantsKept:
        make = self._messenger.columns.column
        stamps, attempts = zip(*(self._grants[each] for each in subjects), strict=True) if subjects else ((), ())
        return GrantsKept(make(list(subjects), "uint32"), make(list(stamps)), make(list(attempts)), self._floor)

    def _restore(self, message: GrantsKept) -> None:
        self._floor = max(self._floor, message.floor)
        columns = (as_list(column) for column in (message.subjects, message.stamps, message.attempts))
        for subject, stamp, attempt in zip(*columns, strict=True):
            self._note(subject, stamp, attempt)

    # --- entry peer ------------------------------------------------------------------------------

    def require(
        self, stamp: int, requirement: Requirement, message: Message,
        granted: Callable[[], None], refused: Callable[[P2PRDFError], None], *, at_once: bool = False,
    ) -> None:  # fmt: skip
        """Call ``granted`` when the transaction with a stamp may take effect, or ``refused`` with the reason.

        ``at_once``: ask all replicas at once, not the primaries first.
        """
        now = self._messenger.now
        later = self._messenger.traces.later(granted)
        alone_until = 0.0 if at_once else now + _PRIMARY_SECONDS
        waiting = _Open(stamp, requirement, message, later, refused, now + GIVE_UP_SECONDS, alone_until)
        self._open[stamp] = waiting
        self.dirty = True
        self._ask(waiting)

    @property
    def full(self) -> bool:
        """Whether as many transactions wait here as may."""
        return len(self._open) >= OPEN_MAX

    def _ask(self, waiting: _Open) -> None:
        """Ask the replicas for the answers that are needed now."""
        if not self._find_replicas(waiting):
            waiting.again_at = self._messenger.now + _AGAIN_SECONDS
            return
        to_ask: dict[int, tuple[Contact, list[int]]] = {}
        all_primaries = self._messenger.now >= waiting.primary_until or all(
            each[0].key in waiting.grants[subject] for subject, each in waiting.replicas.items()
        )
        for subject, replicas in waiting.replicas.items():
            for replica in replicas if all_primaries else replicas[:1]:
                if (subject, replica.key) not in waiting.asked:
                    waiting.asked.add((subject, replica.key))
                    to_ask.setdefault(replica.key, (replica, []))[1].append(subject)
        make = self._messenger.columns.column
        for replica, subjects in to_ask.values():
            versions = [waiting.requirement.versions[each] for each in subjects]
            question = AskGrants(
                make(subjects, "uint32"), make(versions), waiting.stamp, waiting.requirement.attempt, waiting.view
            )
            if replica.key == self._messenger.own.key:
                self._messenger.to_self.append(question)
            else:
                self._messenger.send(replica, question)

    def _find_replicas(self, waiting: _Open) -> bool:
        """Find the replicas of all subjects in the present view; return whether they are known."""
        messenger = self._messenger
        if messenger.placement.replicated and messenger.view == 0:
            return False
        if waiting.replicas and waiting.view == messenger.view:
            return True
        found: dict[int, list[Contact]] = {}
        for subject in waiting.requirement.versions:
            key = self._key_of(subject)
            replicas = messenger.placement.replica_set(key)
            if not replicas:
                messenger.park(messenger.placement.wanted([key]), lambda: None)
                return False
            found[subject] = replicas
        waiting.view, waiting.replicas = messenger.view, found
        waiting.grants = {subject: set() for subject in found}
        waiting.asked.clear()
        return True

    def answered(self, sender: Contact, message: GrantsAnswer) -> None:
        """Take the answer of a replica."""
        waiting = self._open.get(message.stamp)
        if waiting is None:
            return
        for subject, present in zip(as_list(message.subjects), as_list(message.present), strict=True):
            if subject not in waiting.replicas or message.view != waiting.view:
                continue
            if present == _GRANTED:
                waiting.grants[subject].add(sender.key)
            elif present == _NOT_YET:
                waiting.asked.discard((subject, sender.key))
                waiting.again_at = waiting.again_at or self._messenger.now + _AGAIN_SECONDS
            elif present == _IN_PARTS:
                reason = f"{self._text(subject)} has so many statements that several nodes share them, so no version"
                self._refuse(waiting, DataRefused(reason))
                return
            else:
                expected = waiting.requirement.versions[subject]
                self._refuse(waiting, ChangedMeanwhile(self._text(subject), expected, present))
                return
        if waiting.view == self._messenger.view and all(map(waiting.enough, waiting.replicas)):
            del self._open[waiting.stamp]
            self.granted += 1
            waiting.granted()
        elif waiting.again_at is None:
            self._ask(waiting)

    def _refuse(self, waiting: _Open, error: P2PRDFError) -> None:
        del self._open[waiting.stamp]
        self.refused += 1
        waiting.refused(error)

    def _text(self, subject: int) -> str:
        return self._dictionary.texts([subject])[0]

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask again where an answer is missing; refuse the transactions that have waited too long."""
        now = self._messenger.now
        for waiting in list(self._open.values()):
            if now >= waiting.give_up_at:
                reason = "too few replicas could tell in time whether the subjects of the transaction have changed"
                self._refuse(waiting, Busy(reason))
            elif (
                (waiting.again_at is not None and now >= waiting.again_at)
                or now >= waiting.primary_until or waiting.view != self._messenger.view
            ):  # fmt: skip
                waiting.again_at = None
                if now >= waiting.primary_until:
                    waiting.primary_until = float("-inf")
                self._ask(waiting)

    @property
    def deadline(self) -> float | None:
        """When a transaction is to be refused, or replicas asked again."""
        due = None
        for each in self._open.values():
            primary = each.primary_until if each.primary_until > 0 else None
            due = earliest(due, each.again_at, each.give_up_at, primary)
        return due
