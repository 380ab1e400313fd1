"""The address cache: owners of keys known without asking.

The problem
-----------
The owner of a key is the peer whose ring position is nearest to it.  The seed paper keeps pairs
of identifier and address (its IPC), which help only when the very same key comes again.  Keys of
an RDF stream are mostly new, and a lookup costs several round trips.

The idea: remember knowledge, not answers
-----------------------------------------
A lookup returns the live peers nearest to its key, none of them missing.  That proves more than
the owner of one key: there is a stretch of the ring, a *zone*, all of whose peers are now known.
Which stretch that is, how zones grow together, and for which keys they prove the owner depends on
what "nearest" means: :mod:`p2prdf.overlay.ownership` says what is asked of a metric.  A few lookups
cover a small ring for good.

*Membership changes cost no zone.*  A peer that joins tells of itself and becomes a contact like
the others; a peer that is lost leaves a zone whose remaining peers are still all known.  A stale
zone (a peer joined unheard) is found out by the receiver's ownership check, which answers with the
peer it knows.

Contacts have numbers: 0 is the own peer, others count up as they are met.  A number keeps its
contact until ``contacts_max`` numbers are used up; then those of lost contacts are given out
again, the longest lost first.  Use numbers at once, keep contacts.
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
"""Default bound on contacts; each takes a few hundred bytes."""

OVERLAYS: Final[dict[str, Callable[[list[int]], Ownership]]] = {
    "kademlia": XorOwnership,
    "chord": ClockwiseOwnership,
}
"""What each overlay calls the owner of a key."""


class AddressCache:
    """All contacts known, and the zones of the ring where these are all there are."""

    def __init__(self, own: Contact, overlay: str = "kademlia", contacts_max: int = CONTACTS_MAX):
        """Start with the own peer, which is always live and has number 0.

        ``overlay`` is one of ``OVERLAYS`` and says what "closest" means.
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
        """Number of live contacts, the own peer among them."""
        return len(self._positions)

    @property
    def zones(self) -> list[tuple[int, int]]:
        """The zones as (first key, last key), disjoint and ascending."""
        return self._ownership.zones

    def contact(self, number: int) -> Contact:
        """Return the contact of a number that this cache gave out."""
        return self._contacts[number]

    def number(self, contact: Contact) -> int:
        """Return the number under which a live contact of this key is known, or -1."""
        return self._number.get(contact.key, -1)

    def knows(self, key: int) -> bool:
        """Return whether a live contact has this key."""
        return key in self._number

    def contacts(self) -> list[Contact]:
        """Return the live contacts in order of ring position, the own peer among them."""
        return [self._contacts[number] for number in self._numbers]

    # --- membership ------------------------------------------------------------------------------

    def seen(self, contact: Contact) -> bool:
        """Take a live peer in; return whether that changed anything.

        A known key under a new address replaces the old one.  Beyond ``contacts_max`` live
        contacts a new one is refused, and its zone with it, for not all its peers are known then.
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
        """Drop a peer believed to be gone; return whether it was known under this very address."""
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
        """Take in the outcome of a lookup of ``key``: its closest live peers, all of them.

        ``complete``: there are no peers but these and the own one.  ``before``: the last live peer
        before the key, where the overlay tells.  Contacts known before that the outcome does not
        name stay: a lookup may miss a peer that is busy, a connection tells.
        """
        for contact in contacts:
            self.seen(contact)
        if before is not None:
            self.seen(before)
        if any(contact.key not in self._number for contact in contacts):
            return  # refused above: there is no complete knowledge here
        self._ownership.learn(
            key, [contact.key for contact in contacts], complete, None if before is None else before.key
        )

    def forget(self, key: int) -> None:
        """Drop the zone around a key, because it proved stale.

        Of a zone with many contacts only the part around the key goes that one lookup restores.
        """
        self._ownership.forget(key)

    def gap(self) -> int | None:
        """Return a key that no zone covers, or None when the ring is covered.

        Looking up one gap after the other enumerates all peers.
        """
        return self._ownership.gap()

    # --- owners ----------------------------------------------------------------------------------

    def resolve(self, keys: U64) -> I64:
        """Return the contact number of each key's owner, -1 where no zone tells."""
        owners = self.proven(keys)
        missed = int(np.count_nonzero(owners < 0))
        self.misses += missed
        self.hits += len(keys) - missed
        return owners

    def resolve_list(self, keys: Iterable[int]) -> list[int]:
        """Do what :meth:`resolve` does, for a few keys in a plain list."""
        owners = self.proven_list(keys)
        missed = owners.count(-1)
        self.misses += missed
        self.hits += len(owners) - missed
        return owners

    def proven(self, keys: U64) -> I64:
        """Do what :meth:`resolve` does without counting hits and misses."""
        return self._numbered(self._ownership.owner_column(keys))

    def proven_list(self, keys: Iterable[int]) -> list[int]:
        """Do what :meth:`proven` does, for a few keys in a plain list."""
        owner, numbers = self._ownership.owner, self._numbers
        return [numbers[place] if (place := owner(key)) >= 0 else -1 for key in keys]

    def toward(self, keys: U64) -> I64:
        """Return the number of the contact nearest to each key's owner on the way there; 0 if none is nearer."""
        return self._numbered(self._ownership.toward_column(keys))

    def toward_list(self, keys: Iterable[int]) -> list[int]:
        """Do what :meth:`toward` does, for a few keys in a plain list."""
        toward, numbers = self._ownership.toward, self._numbers
        return [numbers[toward(key)] for key in keys]

    def before(self, contact: Contact) -> Contact | None:
        """Return the last peer before a live contact, where the metric cares and that is proven."""
        if contact.key not in self._number:
            return None
        place = self._ownership.before(bisect_left(self._positions, contact.key))
        return None if place < 0 else self._contacts[self._numbers[place]]

    def nearest_known(self, keys: U64) -> I64:
        """Return the number of the closest live contact of each key, whatever the zones."""
        return self._numbered(self._ownership.nearest_column(keys))

    def nearest_known_list(self, keys: Iterable[int]) -> list[int]:
        """Do what :meth:`nearest_known` does, for a few keys in a plain list."""
        nearest, numbers = self._ownership.nearest, self._numbers
        return [numbers[nearest(key)] for key in keys]

    def closest(self, key: int, count: int) -> list[Contact]:
        """Return the ``count`` live contacts closest to a key, closest first, the own peer among them."""
        return [self._contacts[self._numbers[place]] for place in self._ownership.closest(key, count)]

    # --- inside ----------------------------------------------------------------------------------

    def _free_number(self, contact: Contact) -> int:
        if len(self._contacts) < self.contacts_max:
            self._contacts.append(contact)
            return len(self._contacts) - 1
        number = self._lost.popleft()  # contacts_max numbers, fewer of them live
        self._contacts[number] = contact
        return number

    def _changed(self) -> None:
        self._numbers_column = None
        self._ownership.changed()

    def _numbered(self, places: I64) -> I64:
        """Return the numbers of contacts by place; -1 stays -1, for that is what the column ends with."""
        if self._numbers_column is None:
            self._numbers_column = np.array([*self._numbers, -1], np.int64)
        return self._numbers_column.take(places)
