"""Routing of simulated peers in either overlay: ideal, static tables, and lookups over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from p2prdf.overlay import chord_lookup, kademlia
from p2prdf.sim.ideal_tables import chord_tables, kademlia_tables
from p2prdf.wire.contract import OwnersFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.search import Search
    from p2prdf.sim.ring import Ring
    from p2prdf.wire.messages import Contact

__all__ = ["ROUTINGS", "Routing"]


class Routing(Protocol):
    """All routing tables of a simulation."""

    def known_to(self, contact: Contact) -> list[Contact]:
        """Return all contacts in a peer's routing table."""
        ...

    def neighbourhood(self, contact: Contact) -> OwnersFound:
        """Return a peer's neighbourhood at its start, in the form of a lookup of its own position."""
        ...

    def lookup(self, contact: Contact, key: int) -> Search:
        """Start a lookup at a peer."""
        ...

    def answer(self, contact: Contact, key: int) -> tuple[Contact, ...]:
        """Return the contacts in a peer's answer to a request for a key."""
        ...


class _Kademlia:
    """Buckets by length of shared prefix."""

    def __init__(self, ring: Ring, bucket: int):
        self._ring = ring
        self._bucket = bucket
        self._tables = kademlia_tables(ring, bucket)

    def known_to(self, contact: Contact) -> list[Contact]:
        return self._tables[contact.key]

    def neighbourhood(self, contact: Contact) -> OwnersFound:
        near = self._ring.closest(contact.key, self._bucket)
        return OwnersFound(contact.key, near, complete=len(near) == len(self._ring))

    def lookup(self, contact: Contact, key: int) -> Search:
        start = kademlia.closest(self.known_to(contact), key, self._bucket)
        return kademlia.Lookup(key, contact, start, count=self._bucket)

    def answer(self, contact: Contact, key: int) -> tuple[Contact, ...]:
        return tuple(kademlia.closest([*self.known_to(contact), contact], key, self._bucket))


class _Chord:
    """Predecessor, successor list and fingers."""

    def __init__(self, ring: Ring, bucket: int):
        self._ring = ring
        self._bucket = bucket
        self._tables = chord_tables(ring, bucket)

    def known_to(self, contact: Contact) -> list[Contact]:
        return self._tables[contact.key].contacts()

    def neighbourhood(self, contact: Contact) -> OwnersFound:
        near = self._ring.closest(contact.key, 1 + self._bucket)  # itself and its successor list
        return OwnersFound(
            contact.key, near, complete=len(near) == len(self._ring), before=self._ring.before(contact.key)
        )

    def lookup(self, contact: Contact, key: int) -> Search:
        return chord_lookup.Lookup(key, contact, self._tables[contact.key], count=self._bucket)

    def answer(self, contact: Contact, key: int) -> tuple[Contact, ...]:
        return self._tables[contact.key].answer(key)


ROUTINGS: Final[dict[str, Callable[[Ring, int], Routing]]] = {"kademlia": _Kademlia, "chord": _Chord}
"""Constructors by overlay, with the ring and the length of buckets, answers and successor lists."""
