"""The address cache: owners of keys known without asking.

The problem
-----------
The owner of a key is the peer whose ring position is XOR-closest to it.  The seed paper keeps
pairs of identifier and address (its IPC), which help only when the very same key comes again.
Keys of an RDF stream are mostly new, and a lookup costs several round trips.

The idea: remember knowledge, not answers
-----------------------------------------
A lookup of key K returns the k live peers closest to K, none closer than the last one missing.
Let d be the distance of the last.  Whoever has a distance to K of at most d is in the list; so
every peer in the subtree ``{x : x ^ K < 2^b}``, with 2^b <= d + 1, is known.  Such a subtree, all
of whose peers are known, is a *zone*.  A peer inside a subtree is closer to any key of that
subtree than all peers outside; hence *in a zone that holds at least one live peer, the owner of
every key is known*.

A zone may hold no peer.  Then its sibling does the answering: with q' = q with the bit flipped in
which the siblings differ, every x of the sibling has x ^ q = (x ^ q') + 2^b, so the order of its
peers is the same from q and from q', and q has the owner of q' if the sibling holds any peer.  So
a lookup whose contacts all lie beyond 2^b proves two things: nobody is nearer than 2^b, and, as a
lookup of K' = K with bit b flipped, a zone around K'.

With 20 peers and lookups of 8 a few lookups cover the ring for good.  Zones are aligned blocks
of the ring; two covered siblings are one zone.  A peer that joins tells of itself and becomes a
contact like the others; a peer that is lost leaves a zone whose remaining peers are still all
known.  So membership changes cost no zone, and a stale one (a peer joined unheard) is found out
by the receiver's ownership check, which answers with the peer it knows.

Finding the closest
-------------------
Among sorted positions, the XOR-closest to q is found as in a PATRICIA tree: at the highest bit
in which the candidates differ, keep the half that agrees with q in that bit; bits in which they
all agree cannot tell them apart and are never looked at.  The candidates are always a range of
the sorted array.  For many contacts a table over the top bits of the key holds the range that is
left after those bits; then a few rounds remain for the keys whose range is not a single peer.
For a few contacts a matrix of distances is faster.

Contacts have numbers: 0 is the own peer, others count up as they are met.  A number keeps its
contact until ``contacts_max`` numbers are used up; then those of lost contacts are given out
again, the longest lost first.  Use numbers at once, keep contacts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from p2prdf.keys import U64
    from p2prdf.wire.messages import Contact

__all__ = ["CONTACTS_MAX", "AddressCache"]

CONTACTS_MAX: Final = 1 << 17
"""Default bound on contacts; each takes a few hundred bytes."""

I64 = npt.NDArray[np.int64]

_BITS: Final = 64
_RING: Final = 1 << 64
_MATRIX_MAX: Final = 12
_TABLE_BITS_MAX: Final = 16
_FORGET_CONTACTS: Final = 8
"""How much a stale zone loses at once: about what one lookup brings back."""


class AddressCache:
    """All contacts known, and the zones of the ring where these are all there are."""

    def __init__(self, own: Contact, contacts_max: int = CONTACTS_MAX):
        """Start with the own peer, which is always live and has number 0."""
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
        self._zones = _Zones()
        self._closest: _Closest | None = None
        self._spans: _Spans | None = None

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
        """The zones as (first key, bits): each holds ``1 << bits`` keys.  Ascending."""
        return list(zip(self._zones.starts, self._zones.bits, strict=True))

    def contact(self, number: int) -> Contact:
        """Return the contact of a number that this cache gave out."""
        return self._contacts[number]

    def number(self, contact: Contact) -> int:
        """Return the number under which a live contact of this key is known, or -1."""
        return self._number.get(contact.key, -1)

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
        self._closest = self._spans = None
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
        self._closest = self._spans = None
        return True

    def learn(self, key: int, contacts: Sequence[Contact], complete: bool) -> None:
        """Take in the outcome of a lookup of ``key``: its closest live peers, all of them.

        ``complete``: there are no peers but these and the own one.  Contacts known before that
        the outcome does not name stay: a lookup may miss a peer that is busy, a connection tells.
        """
        for contact in contacts:
            self.seen(contact)
        if any(contact.key not in self._number for contact in contacts):
            return  # refused above: there is no complete knowledge here
        self._spans = None
        if complete:
            self._zones.add(key, _BITS)
            return
        distances = [contact.key ^ key for contact in contacts]
        while distances:
            bits = (max(distances) + 1).bit_length() - 1
            self._zones.add(key, bits)
            if min(distances) >> bits == 0:
                return
            key ^= 1 << bits
            distances = [distance ^ 1 << bits for distance in distances]

    def forget(self, key: int) -> None:
        """Drop the zone around a key, because it proved stale.

        Of a zone with many contacts only the part around the key goes that one lookup restores.
        """
        place = self._zones.find(key)
        if place < 0:
            return
        bits = self._zones.bits[place]
        while bits and self._count(key >> bits << bits, bits) > _FORGET_CONTACTS:
            bits -= 1
        self._zones.cut(place, key, bits)
        self._spans = None

    def gap(self) -> int | None:
        """Return a key that no zone covers, or None when the ring is covered.

        Looking up one gap after the other enumerates all peers.
        """
        return self._zones.gap()

    # --- owners ----------------------------------------------------------------------------------

    def resolve(self, keys: U64) -> I64:
        """Return the contact number of each key's owner, -1 where no zone tells."""
        owners = self.nearest_known(keys)
        if not self._zones.whole:
            owners[~self._told(keys)] = -1
        missed = int(np.count_nonzero(owners < 0))
        self.misses += missed
        self.hits += len(keys) - missed
        return owners

    def resolve_list(self, keys: Iterable[int]) -> list[int]:
        """Do what :meth:`resolve` does, for a few keys in a plain list."""
        owners = [self._nearest(key) if self._told_one(key) else -1 for key in keys]
        missed = owners.count(-1)
        self.misses += missed
        self.hits += len(owners) - missed
        return owners

    def nearest_known(self, keys: U64) -> I64:
        """Return the number of the closest live contact of each key, whatever the zones."""
        if self._closest is None:
            self._closest = _Closest(np.array(self._positions, np.uint64), np.array(self._numbers, np.int64))
        return self._closest.find(keys)

    def nearest_known_list(self, keys: Iterable[int]) -> list[int]:
        """Do what :meth:`nearest_known` does, for a few keys in a plain list."""
        return [self._nearest(key) for key in keys]

    def closest(self, key: int, count: int) -> list[Contact]:
        """Return the ``count`` live contacts closest to a key, closest first, the own peer among them."""
        bits = 0 if count < self.size else _BITS
        low, high = self._range(key, bits)
        while high - low < count and bits < _BITS:
            bits += 1
            low, high = self._range(key, bits)
        near = sorted(range(low, high), key=lambda place: self._positions[place] ^ key)[:count]
        return [self._contacts[self._numbers[place]] for place in near]

    # --- inside ----------------------------------------------------------------------------------

    def _free_number(self, contact: Contact) -> int:
        if len(self._contacts) < self.contacts_max:
            self._contacts.append(contact)
            return len(self._contacts) - 1
        number = self._lost.popleft()  # contacts_max numbers, fewer of them live
        self._contacts[number] = contact
        return number

    def _nearest(self, key: int) -> int:
        positions = self._positions
        low, high = 0, len(positions)
        while high - low > 1:
            first, last = positions[low], positions[high - 1]
            bit = (first ^ last).bit_length() - 1
            middle = bisect_left(positions, last >> bit << bit, low, high)
            if (first ^ key) < (last ^ key):
                high = middle
            else:
                low = middle
        return self._numbers[low]

    def _range(self, key: int, bits: int) -> tuple[int, int]:
        """Return the range of positions in the block of ``1 << bits`` keys around ``key``."""
        start = key >> bits << bits
        low = bisect_left(self._positions, start)
        return low, bisect_left(self._positions, start + (1 << bits), low)

    def _count(self, start: int, bits: int) -> int:
        low, high = self._range(start, bits)
        return high - low

    def _told_one(self, key: int) -> bool:
        """Return whether the zones prove the closest live contact to be the owner of ``key``."""
        zones = self._zones
        while (place := zones.find(key)) >= 0:
            bits = zones.bits[place]
            if self._count(key, bits):
                return True
            key ^= 1 << bits
        return False

    def _told(self, keys: U64) -> npt.NDArray[np.bool_]:
        """Do for a column what :meth:`_told_one` does for one key."""
        if self._spans is None:
            self._spans = _Spans(self.zones, [self._count(*zone) > 0 for zone in self.zones])
        return self._spans.tell(keys)


class _Zones:
    """A set of disjoint aligned blocks of the ring, siblings merged, ascending."""

    __slots__ = ("bits", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.bits: list[int] = []

    @property
    def whole(self) -> bool:
        """Whether one zone is the whole ring."""
        return self.bits == [_BITS]

    def find(self, key: int) -> int:
        """Return the place of the block that holds ``key``, or -1."""
        place = bisect_right(self.starts, key) - 1
        return place if place >= 0 and key < self.starts[place] + (1 << self.bits[place]) else -1

    def add(self, key: int, bits: int) -> None:
        """Add the block of ``1 << bits`` keys around ``key``."""
        start = key >> bits << bits
        place = self.find(start)
        if place >= 0 and self.bits[place] >= bits:
            return
        place = bisect_left(self.starts, start)
        after = bisect_left(self.starts, start + (1 << bits), place)
        del self.starts[place:after], self.bits[place:after]
        while bits < _BITS:
            other = start ^ (1 << bits)
            beside = place if other > start else place - 1
            if not 0 <= beside < len(self.starts):
                break
            if (self.starts[beside], self.bits[beside]) != (other, bits):
                break
            del self.starts[beside], self.bits[beside]
            place = min(place, beside)
            start = min(start, other)
            bits += 1
        self.starts.insert(place, start)
        self.bits.insert(place, bits)

    def cut(self, place: int, key: int, bits: int) -> None:
        """Take the block of ``1 << bits`` keys around ``key`` out of the block at ``place``."""
        outer = self.bits[place]
        rest = sorted(((key >> bit ^ 1) << bit, bit) for bit in range(bits, outer))
        self.starts[place : place + 1] = [start for start, _ in rest]
        self.bits[place : place + 1] = [bit for _, bit in rest]

    def gap(self) -> int | None:
        """Return the first key outside all blocks."""
        free = 0
        for start, bits in zip(self.starts, self.bits, strict=True):
            if start != free:
                return free
            free = start + (1 << bits)
        return free if free < _RING else None


class _Spans:
    """Zones as columns: which keys have an owner that they prove."""

    __slots__ = ("_ends", "_inhabited", "_sizes", "_starts")

    def __init__(self, zones: list[tuple[int, int]], inhabited: list[bool]):
        self._starts: U64 = np.array([start for start, _ in zones], np.uint64)
        self._ends: U64 = np.array([start + (1 << bits) - 1 for start, bits in zones], np.uint64)
        self._sizes: U64 = np.array([1 << bits for _, bits in zones], np.uint64)
        self._inhabited = np.array(inhabited, np.bool_)

    def tell(self, keys: U64) -> npt.NDArray[np.bool_]:
        told = np.zeros(len(keys), np.bool_)
        if len(self._starts) == 0:
            return told
        pending = np.arange(len(keys))
        while len(pending):
            place = np.searchsorted(self._starts, keys, side="right") - 1
            inside = (place >= 0) & (keys <= self._ends[place])
            inhabited = self._inhabited[place]
            told[pending[inside & inhabited]] = True
            on = np.flatnonzero(inside & ~inhabited)  # ask the sibling; its zones are smaller, so this ends
            pending, keys = pending[on], keys[on] ^ self._sizes[place[on]]
        return told


class _Closest:
    """XOR-closest of sorted positions, by the column."""

    __slots__ = ("_high", "_low", "_numbers", "_positions", "_shift")

    def __init__(self, positions: U64, numbers: I64):
        self._positions = positions
        self._numbers = numbers
        self._shift = np.uint64(0)
        self._low: I64 = np.zeros(1, np.int64)
        self._high: I64 = np.full(1, len(positions))
        if len(positions) > _MATRIX_MAX:
            self._build(min(len(positions).bit_length() + 1, _TABLE_BITS_MAX))

    def _build(self, depth: int) -> None:
        """Make the table of candidate ranges by the top ``depth`` bits, bit by bit."""
        low, high = self._low, self._high
        for bit in range(_BITS - 1, _BITS - 1 - depth, -1):
            # All of a range agree above this bit, so its upper half starts at the first with it set.
            shift, one = np.uint64(bit), np.uint64(1)
            split = ((self._positions[low] >> shift) | one) << shift
            middle = np.clip(np.searchsorted(self._positions, split), low, high)
            whole = (middle == low) | (middle == high)
            left = np.where(whole, high, middle)
            right = np.where(whole, low, middle)
            low = np.stack((low, right), axis=1).ravel()
            high = np.stack((left, high), axis=1).ravel()
        self._low, self._high = low, high
        self._shift = np.uint64(_BITS - depth)

    def find(self, keys: U64) -> I64:
        """Return the number of the position closest to each key."""
        positions = self._positions
        if len(positions) <= _MATRIX_MAX:
            nearest: I64 = (keys[:, None] ^ positions).argmin(axis=1)
            return self._numbers.take(nearest)
        prefix = (keys >> self._shift).view(np.int64)
        found, high = self._low[prefix], self._high[prefix]
        pending = np.flatnonzero(high - found > 1)
        low, high, wanted = found[pending], high[pending], keys[pending]
        while len(pending):
            first, last = positions[low], positions[high - 1]
            middle = np.searchsorted(positions, last & ~_below_top_bit(first ^ last))
            left = (first ^ wanted) < (last ^ wanted)
            high = np.where(left, middle, high)
            low = np.where(left, low, middle)
            found[pending] = low
            on = np.flatnonzero(high - low > 1)
            pending, low, high, wanted = pending[on], low[on], high[on], wanted[on]
        return self._numbers.take(found)


def _below_top_bit(x: U64) -> U64:
    """Return a mask of the bits below each number's highest set bit."""
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(shift))
    return x >> np.uint64(1)
