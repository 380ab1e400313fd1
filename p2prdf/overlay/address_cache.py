"""The address cache: owners of keys that are known without a lookup.

The papers cache pairs of key and address (IPC), but most keys of an RDF stream are new.  This cache stores *zones*: a
lookup returns the live peers nearest to its key, none missing, which proves that all peers in some range of the ring
are known.  :mod:`p2prdf.overlay.ownership` defines zones for each metric.  A few lookups cover a small ring.

Membership changes keep zones valid.  A peer that joins announces itself and becomes a contact; a lost peer leaves a
zone with all remaining peers known.  A zone is stale if a join went unnoticed: the receiver's ownership check then
answers with the right peer.

Contacts have numbers; 0 is the own peer.  After ``contacts_max`` numbers those of lost contacts are reused, the longest
lost first.  So callers may keep contacts, but not numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf.overlay.clockwise import ClockwiseOwnership
from p2prdf.overlay.xor import XorOwnership

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from p2prdf.keys import U64
    from p2prdf.overlay.ownership import I64, Ownership
    from p2prdf.wire.messages import Contact

__all__ = ["CONTACTS_MAX", "OVERLAYS", "AddressCache"]

CONTACTS_MAX: Final = 1 << 17
"""Default maximum number of contacts; each takes a few hundred bytes."""

OVERLAYS: Final[dict[str, Callable[[list[int]], Ownership]]] = {
    "kademlia": XorOwnership,
    "chord": ClockwiseOwnership,
}
"""The ownership rule of each overlay."""


class AddressCache:
    """All known contacts, and the zones of the ring in which all peers are known."""

    def __init__(self, own: Contact, overlay: str = "kademlia", contacts_max: int = CONTACTS_MAX):
        """Start with the own peer, which is always live and has number 0.

        ``overlay`` is one of ``OVERLAYS`` and defines "closest".
        """
        assert contacts_max >= 1
        self.contacts_max = contacts_max
        self.hits = 0
        self.misses = 0
        self.refused = 0
        self._contacts: list[Contact] = [own]
        self._number: dict[int, int] = {own.key: 0}
        self._lost: deque[int] = deque()
        self._positions: list[int] = [own.key]
        self._numbers: list[int] = [0]
        self._numbers_column: I64 | None = None
        self._ownership: Ownership = OVERLAYS[overlay](self._positions)

    @property
    def own(self) -> Contact:
        """The own peer."""
        return self._contacts[0]

    @property
    def size(self) -> int:
        """Number of live contacts, the own peer included."""
        return len(self._positions)

    @property
    def zones(self) -> list[tuple[int, int]]:
        """The zones as (first key, last key), disjoint and ascending."""
        return self._ownership.zones

    def contact(self, number: int) -> Contact:
        """Return the contact of a number that this cache assigned."""
        return self._contacts[number]

    def number(self, contact: Contact) -> int:
        """Return the number of the live contact with this key, or -1."""
        return self._number.get(contact.key, -1)

    def present(self, contact: Contact) -> Contact:
        """Return the live contact with this key, which may have another address; the given one if there is none."""
        number = self._number.get(contact.key, -1)
        return contact if number < 0 else self._contacts[number]

    def knows(self, key: int) -> bool:
        """Return whether a live contact has this key."""
        return key in self._number

    def contacts(self) -> list[Contact]:
        """Return the live contacts in order of ring position, the own peer included."""
        return [self._contacts[number] for number in self._numbers]

    # --- membership ------------------------------------------------------------------------------

    def seen(self, contact: Contact) -> bool:
        """Add a live peer; return whether anything changed.

        A new address of a known key replaces the old one.  If there are ``contacts_max`` live contacts, a new one is
        refused, and its zone is dropped because not all its peers are known.
        """
        known = self._number.get(contact.key)
        if known is not None:
            if known == 0 or self._contacts[known] == contact:
                return False
            self.lost(self._contacts[known])
        if self.size >= self.contacts_max:
            self.refused += 1
            self.forget(contact.key)
            return False
        number = self._free_number(contact)
        self._number[contact.key] = number
        place = bisect_left(self._positions, contact.key)
        self._positions.insert(place, contact.key)
        self._numbers.insert(place, number)
        self._changed()
        return True

    def lost(self, contact: Contact) -> bool:
        """Remove a lost peer; return whether it was known under exactly this address."""
        number = self._number.get(contact.key)
        if not number or self._contacts[number] != contact:
            return False
        del self._number[contact.key]
        self._lost.append(number)
        place = bisect_left(self._positions, contact.key)
        del self._positions[place], self._numbers[place]
        self._changed()
        return True

    def learn(
        self, key: int, contacts: Sequence[Contact], complete: bool, before: Contact | None = None
    ) -> None:
        """Add the result of a lookup of ``key``: its closest live peers, none missing.

        ``complete``: only these peers and the own one exist.  ``before``: the last live peer before the key, if the
        overlay reports it.  Known contacts that the result omits stay, as a lookup may miss a busy peer; a broken
        connection removes them.
        """
        for contact in contacts:
            self.seen(contact)
        if before is not None:
            self.seen(before)
        if any(contact.key not in self._number for contact in contacts):
            return  # refused above: not all peers of the zone are known
        self._ownership.learn(
            key, [contact.key for contact in contacts], complete, None if before is None else before.key
        )

    def forget(self, key: int) -> None:
        """Drop the zone around a key, because it is stale.

        Of a large zone only the part around the key is dropped that one lookup restores.
        """
        self._ownership.forget(key)

    def gap(self) -> int | None:
        """Return a key outside all zones, or None if they cover the ring.

        Repeated lookups of gaps enumerate all peers.
        """
        return self._ownership.gap()

    # --- owners ----------------------------------------------------------------------------------

    def resolve(self, keys: U64) -> I64:
        """Return the contact number of each key's owner, -1 if no zone proves it."""
        owners = self.proven(keys)
        missed = int(np.count_nonzero(owners < 0))
        self.misses += missed
        self.hits += len(keys) - missed
        return owners

    def resolve_list(self, keys: Iterable[int]) -> list[int]:
        """Apply :meth:`resolve` to a few keys in a plain list."""
        owners = self.proven_list(keys)
        missed = owners.count(-1)
        self.misses += missed
        self.hits += len(owners) - missed
        return owners

    def proven(self, keys: U64) -> I64:
        """Do the same as :meth:`resolve` without counting hits and misses."""
        return self._numbered(self._ownership.owner_column(keys))

    def proven_list(self, keys: Iterable[int]) -> list[int]:
        """Apply :meth:`proven` to a few keys in a plain list."""
        owner, numbers = self._ownership.owner, self._numbers
        return [numbers[place] if (place := owner(key)) >= 0 else -1 for key in keys]

    def toward(self, keys: U64) -> I64:
        """Return the number of the next contact on the way to each key's owner; 0 if no contact is nearer."""
        return self._numbered(self._ownership.toward_column(keys))

    def toward_list(self, keys: Iterable[int]) -> list[int]:
        """Apply :meth:`toward` to a few keys in a plain list."""
        toward, numbers = self._ownership.toward, self._numbers
        return [numbers[toward(key)] for key in keys]

    def before(self, contact: Contact) -> Contact | None:
        """Return the last peer before a live contact if the metric proves it, else None."""
        if contact.key not in self._number:
            return None
        place = self._ownership.before(bisect_left(self._positions, contact.key))
        return None if place < 0 else self._contacts[self._numbers[place]]

    def nearest_known(self, keys: U64) -> I64:
        """Return the number of the closest live contact of each key, regardless of zones."""
        return self._numbered(self._ownership.nearest_column(keys))

    def nearest_known_list(self, keys: Iterable[int]) -> list[int]:
        """Apply :meth:`nearest_known` to a few keys in a plain list."""
        nearest, numbers = self._ownership.nearest, self._numbers
        return [numbers[nearest(key)] for key in keys]

    def closest(self, key: int, count: int) -> list[Contact]:
        """Return the ``count`` live contacts closest to a key, closest first, the own peer included."""
        return [self._contacts[self._numbers[place]] for place in self._ownership.closest(key, count)]

    # --- inside ----------------------------------------------------------------------------------

    def _free_number(self, contact: Contact) -> int:
        if len(self._contacts) < self.contacts_max:
            self._contacts.append(contact)
            return len(self._contacts) - 1
        number = self._lost.popleft()  # of contacts_max numbers some belong to lost contacts
        self._contacts[number] = contact
        return number

    def _changed(self) -> None:
        self._numbers_column = None
        self._ownership.changed()

    def _numbered(self, places: I64) -> I64:
        """Return the numbers of contacts by place; place -1 takes the column's last item, -1."""
        if self._numbers_column is None:
            self._numbers_column = np.array([*self._numbers, -1], np.int64)
        return self._numbers_column.take(places)
