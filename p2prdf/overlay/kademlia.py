"""Kademlia's lookup as a state machine.

It finds the ``count`` live peers closest to a key, none missing, by asking peers for the closest contacts they know.

*Rolling window.*  All contacts are kept by distance, without the failed ones; the closest ``count`` are the *front*.
At most ``parallel`` requests to the front are in flight.  When the whole front has answered, it is the result.

*Horizon.*  An answer names ``count`` contacts, dead ones included, so it may omit live ones further away.  The result
ends at the smallest distance up to which an answer was exhaustive.

The own peer counts as answered.  Only peers that answered are returned, each key once; late answers count until the
lookup is done.  One key at two addresses makes two contacts.

Bounds: a peer is asked once; at most ``REQUESTS_MAX`` peers are asked and ``HEARD_MAX`` remembered; of one answer ``2 *
count`` contacts are used.  A lookup that exceeds them, or gets no answer, has an empty result.

Design: docs/explanation/design/routing.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from p2prdf.wire.messages import Contact

__all__ = [
    "HEARD_MAX", "REQUESTS_MAX", "FindNode", "Leaving", "Lookup", "Nodes", "Ping", "Pong", "closest",
]  # fmt: skip

REQUESTS_MAX: Final = 256
HEARD_MAX: Final = 2048

_RING: Final = 1 << 64

_HEARD, _ASKED, _ANSWERED, _FAILED = range(4)


@dataclass(frozen=True, slots=True)
class Ping:
    """To any peer: ask whether it lives.  Answered by Pong."""

    request: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Answer to Ping."""

    request: int


@dataclass(frozen=True, slots=True)
class FindNode:
    """To any peer, for a lookup: ask for the peers closest to ``key``.  Answered by Nodes."""

    request: int
    key: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """Answer to FindNode: the closest peers that the sender knows, without the asking peer."""

    request: int
    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Leaving:
    """To all contacts: the sender leaves."""


class Lookup:
    """One lookup.  Ask the peers of :meth:`requests` and report the outcomes, until :attr:`done`."""

    __slots__ = (
        "_by_distance", "_horizon", "_state", "_too_many", "_under_way", "asked", "count", "done", "own", "parallel",
        "target",
    )  # fmt: skip

    def __init__(
        self, target: int, own: Contact, start: Iterable[Contact], *, count: int = 8, parallel: int = 3
    ):
        """Look for the ``count`` peers closest to ``target``, starting from the peers in ``start``."""
        assert count >= 1
        assert parallel >= 1
        self.target = target
        self.own = own
        self.count = count
        self.parallel = parallel
        self.asked = 0  # number of requests so far
        self.done = False
        self._under_way = 0
        self._too_many = False
        self._horizon = _RING
        self._state: dict[Contact, int] = {own: _ANSWERED}
        self._by_distance: list[tuple[int, str, int, Contact]] = []  # contacts that have not failed
        self._enter(own)
        for contact in start:
            self._hear(contact)
        self._advance()

    def requests(self) -> list[Contact]:
        """Return the peers to ask now for those closest to the target; each is returned once."""
        if self.done:
            return []
        asking = []
        for contact in self._front():
            if self._under_way >= self.parallel or self.asked >= REQUESTS_MAX:
                break
            if self._state[contact] == _HEARD:
                self._state[contact] = _ASKED
                self._under_way += 1
                self.asked += 1
                asking.append(contact)
        return asking

    def answered(self, contact: Contact, contacts: Sequence[Contact]) -> None:
        """Add the contacts that ``contact`` named.  An unexpected answer changes nothing."""
        state = self._state.get(contact)
        if self.done or state not in (_ASKED, _FAILED):
            return
        if state == _ASKED:
            self._under_way -= 1
        else:
            self._enter(contact)
        self._state[contact] = _ANSWERED
        for heard in contacts[: 2 * self.count]:
            self._hear(heard)
        self._horizon = min(self._horizon, self._seen_by(contact, contacts[: 2 * self.count]))
        self._advance()

    def failed(self, contact: Contact) -> None:
        """Note that an asked peer is gone or silent."""
        if self.done or self._state.get(contact) != _ASKED:
            return
        self._under_way -= 1
        self._state[contact] = _FAILED
        del self._by_distance[bisect_left(self._by_distance, self._place(contact))]
        self._advance()

    @property
    def result(self) -> tuple[Contact, ...]:
        """The live peers closest to the target, closest first; empty if the lookup failed."""
        others = [state for contact, state in self._state.items() if contact is not self.own]
        if self._too_many or (others and _ANSWERED not in others):
            return ()
        if self.done and self._waiting():
            return ()
        found: dict[int, Contact] = {}
        for distance, *_, contact in self._by_distance:
            if len(found) == self.count or (distance > self._horizon and found):
                break
            if self._state[contact] == _ANSWERED:
                found.setdefault(contact.key, contact)
        return tuple(found.values())

    @property
    def complete(self) -> bool:
        """Whether the result is the whole network: fewer than ``count`` peers, and all known ones answered."""
        whole = len(self._state) < self.count and all(state == _ANSWERED for state in self._state.values())
        return self.done and whole

    @property
    def before(self) -> None:
        """None: the order of positions has no meaning in XOR."""
        return

    def _hear(self, contact: Contact) -> None:
        if contact.key == self.own.key or contact in self._state:
            return
        if len(self._state) >= HEARD_MAX:
            self._too_many = True
            return
        self._state[contact] = _HEARD
        self._enter(contact)

    def _seen_by(self, contact: Contact, contacts: Sequence[Contact]) -> int:
        """Return the distance up to which a peer's answer is exhaustive.

        A peer that names fewer than ``count`` contacts knows no others.  A peer may count itself among the ``count`` or
        not.
        """
        distances = [other.key ^ self.target for other in contacts if other.key != contact.key]
        if len(distances) == self.count - 1:
            distances.append(contact.key ^ self.target)
        return max(distances) if len(distances) >= self.count else _RING

    def _place(self, contact: Contact) -> tuple[int, str, int, Contact]:
        return contact.key ^ self.target, contact.host, contact.port, contact

    def _enter(self, contact: Contact) -> None:
        insort(self._by_distance, self._place(contact))

    def _front(self) -> list[Contact]:
        return [contact for *_, contact in self._by_distance[: self.count]]

    def _waiting(self) -> bool:
        return any(self._state[contact] != _ANSWERED for contact in self._front())

    def _advance(self) -> None:
        self.done = not self._waiting() or (self.asked >= REQUESTS_MAX and self._under_way == 0)


def closest(table: Iterable[Contact], key: int, count: int) -> list[Contact]:
    """Return the ``count`` contacts of a table closest to a key, closest first."""
    return nsmallest(count, table, key=lambda contact: contact.key ^ key)
