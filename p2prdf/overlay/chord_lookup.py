"""Chord's routing table, and its lookup as a state machine.

A lookup finds the first live peers at or after a key, none missing, through the last peer *before* the key, which knows
its successors (Stoica et al. 2001, section 4).

*Answers.*  Names strictly between the answering peer and the key are *next hops*.  Names at or after the key are its
*owners*: the end of the answering peer's successor list, nearest first, without gaps.

*Search.*  The closest contact before the key that has neither answered nor failed is asked next.  The lookup is done
when the closest contact that has not failed has named owners.  If its next hops failed and no other contact names new
ones, the lookup fails.

*Result.*  Owners may have died since.  A caller that excludes this asks them and calls :meth:`Lookup.failed`, also
after the end.

Bounds: :mod:`p2prdf.overlay.search`.  Design: docs/explanation/design/routing.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from p2prdf.overlay.search import ANSWERED, FAILED, Search

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact

__all__ = ["WAYS_ON", "ChordTable", "Lookup", "ahead", "between", "successor_list"]

WAYS_ON: Final = 3
"""Number of next hops in an answer: the best one, and two more in case it is dead."""

_RING: Final = 1 << 64


def ahead(start: int, end: int) -> int:
    """Return the clockwise distance of two positions, 1 to 2^64; from a position to itself it is the whole ring."""
    return (end - start - 1) % _RING + 1


def between(start: int, key: int, end: int) -> bool:
    """Return whether a key lies strictly between two positions clockwise.

    From a position to itself all other keys lie between.
    """
    return key != end and ahead(start, key) < ahead(start, end)


def successor_list(own: Contact, first: Contact, rest: Sequence[Contact], count: int) -> tuple[Contact, ...]:
    """Return the successor list of ``own`` from its first successor and the list ``rest`` of that one.

    It has at most ``count`` contacts, ends with ``own`` if the list goes around the ring, and omits contacts that would
    go around a second time.
    """
    successors = [first]
    for contact in rest:
        if len(successors) == count:
            break
        if contact.key == own.key:
            successors.append(own)
            break
        if ahead(own.key, contact.key) <= ahead(own.key, successors[-1].key):
            break
        successors.append(contact)
    return tuple(successors)


@dataclass(frozen=True, slots=True)
class ChordTable:
    """The contacts of one peer on the ring.

    ``successors``: the next peers clockwise, nearest first, never empty.  The list ends with the own peer if it goes
    around the ring; a peer without contacts is its own successor.  ``predecessor``: the last peer before the own one,
    None if unknown.  ``fingers``: any other live peers.
    """

    own: Contact
    predecessor: Contact | None
    successors: tuple[Contact, ...]
    fingers: tuple[Contact, ...]
    _ranked: list[Contact] = field(init=False, repr=False, compare=False)
    _ahead: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort all contacts clockwise from the own position."""
        assert self.successors, "a peer without contacts is its own successor"
        known = {contact.key: contact for contact in self.fingers}
        if self.predecessor is not None:
            known[self.predecessor.key] = self.predecessor
        known.update((contact.key, contact) for contact in self.successors)
        known.pop(self.own.key, None)
        ranked = sorted(known.values(), key=lambda contact: ahead(self.own.key, contact.key))
        object.__setattr__(self, "_ranked", ranked)
        object.__setattr__(self, "_ahead", [ahead(self.own.key, contact.key) for contact in ranked])

    def answer(self, key: int) -> tuple[Contact, ...]:
        """Return this peer's answer for a key: next hops and owners (see the module's docstring).

        At most the successor list and ``WAYS_ON`` further names.
        """
        distance = ahead(self.own.key, key)
        end = bisect_left(self._ahead, distance)
        ways_on = self._ranked[max(0, end - WAYS_ON) : end][::-1]
        if distance > ahead(self.own.key, self.successors[-1].key):
            return tuple(ways_on)
        return tuple(dict.fromkeys((*ways_on, *self.successors)))

    def without(self, gone: Iterable[Contact]) -> ChordTable:
        """Return this table without some contacts."""
        out = set(gone)
        successors = tuple(contact for contact in self.successors if contact not in out)
        predecessor = None if self.predecessor in out else self.predecessor
        fingers = tuple(contact for contact in self.fingers if contact not in out)
        return ChordTable(self.own, predecessor, successors or (self.own,), fingers)

    def contacts(self) -> list[Contact]:
        """Return all contacts except the own peer, clockwise from the own position."""
        return list(self._ranked)


class Lookup(Search):
    """One lookup.  Ask the peers of :meth:`requests` and report the outcomes, until :attr:`done`."""

    __slots__ = ("_own_ways", "_owners", "_table")

    def __init__(self, target: int, own: Contact, table: ChordTable, *, count: int = 8, parallel: int = 1):
        """Look for the ``count`` peers at or after ``target``, starting from the own peer's ``table``.

        ``parallel``: requests in flight at once.  More than one costs requests and saves timeouts of dead peers.
        """
        assert table.own == own
        super().__init__(target, own, count=count, parallel=parallel)
        self._table = table
        self._owners: dict[Contact, tuple[Contact, ...]] = {}  # the owners that each contact named
        self._own_ways: tuple[Contact, ...] = ()
        self._ask_own_table()
        self._advance()

    def answered(self, contact: Contact, contacts: Sequence[Contact]) -> None:
        """Add an answer of ``contact`` (:meth:`ChordTable.answer`).  An unexpected answer changes nothing."""
        if self._take_answer(contact):
            self._hear_names(contact, contacts[: 2 * self.count])
            self._advance()

    def failed(self, contact: Contact) -> None:
        """Note that a peer is gone or silent: an asked one or, after the end, one of the result."""
        if self.done and self._state.get(contact) != ANSWERED:
            self._state[contact] = FAILED
        elif self._take_failure(contact):
            self._ask_own_table()
            self._advance()

    @property
    def before(self) -> Contact | None:
        """The last peer before the target, None if the lookup failed or is not done."""
        return self._ranked[0][-1] if self.result else None

    @property
    def result(self) -> tuple[Contact, ...]:
        """The peers at or after the target, nearest first; empty if the lookup failed."""
        return self._live_owners()[: self.count]

    @property
    def complete(self) -> bool:
        """Whether the result is the whole ring: the predecessor's successor list goes around to itself."""
        owners = self._live_owners()
        return 0 < len(owners) <= self.count and owners[-1] == self._ranked[0][-1]

    # --- inside ----------------------------------------------------------------------------------

    def _distance(self, key: int) -> int:
        return ahead(key, self.target)

    def _candidates(self) -> Iterator[Contact]:
        """Return the contacts that are closer than the closest one with owners."""
        return takewhile(lambda contact: contact not in self._owners, (contact for *_, contact in self._ranked))

    def _ask_own_table(self) -> None:
        """Add the own table's answer, without failed peers.

        The own table is used again only after all its former next hops have failed; further ones are more distant.
        """
        if any(self._state.get(contact) != FAILED for contact in self._own_ways):
            return
        failed = [contact for contact, state in self._state.items() if state == FAILED]
        table = self._table.without(failed) if failed else self._table
        answer = table.answer(self.target)
        distance = ahead(self.own.key, self.target)
        self._own_ways = tuple(contact for contact in answer if ahead(self.own.key, contact.key) < distance)
        self._hear_names(self.own, answer)

    def _hear_names(self, sender: Contact, names: Sequence[Contact]) -> None:
        """Add names: next hops if they lie between the answering peer and the target, else owners."""
        way = ahead(sender.key, self.target)
        owners = []
        for contact in names:
            if contact == sender or ahead(sender.key, contact.key) >= way:
                owners.append(self.own if contact.key == self.own.key else contact)
            else:
                self._hear(contact)
        if owners:
            owners.sort(key=lambda contact: ((contact.key - self.target) % _RING, contact.host, contact.port))
            self._owners[sender] = tuple(
                contact for at, contact in enumerate(owners) if not at or owners[at - 1].key != contact.key
            )

    def _live_owners(self) -> tuple[Contact, ...]:
        """Return the owners that the closest contact before the target named, without failed ones."""
        if not self.done or self._too_many:
            return ()
        owners = self._owners.get(self._ranked[0][-1], ())
        return tuple(contact for contact in owners if self._state.get(contact) != FAILED)
