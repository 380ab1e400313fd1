"""Ownership in Kademlia: the owner of a key is the peer with the smallest ``position ^ key``.

A lookup of key K returns the closest live peers, none missing up to the distance d of the last.  So all peers of the
subtree ``{x : x ^ K < 2^b}``, 2^b <= d + 1, are known: a *zone*.  A zone that contains a live peer proves the owner of
each of its keys, because its peers are closer to these keys than all peers outside.  An empty zone refers to its
sibling subtree: the owner of key q is the owner of q with the differing bit flipped.  Proof and example:
docs/explanation/design/routing.md.

Zones are aligned blocks of the ring; two covered siblings merge.

The closest of sorted positions is found as in a PATRICIA tree.  For columns of keys a table over the top bits of the
key replaces the first steps; for a few contacts a matrix of distances is faster.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from p2prdf.overlay.ownership import FORGET_CONTACTS, I64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.keys import U64

__all__ = ["XorOwnership"]

_BITS: Final = 64
_RING: Final = 1 << 64
_MATRIX_MAX: Final = 12
_TABLE_BITS_MAX: Final = 16


class XorOwnership:
    """Ownership with aligned blocks of the ring as zones; see the module's docstring."""

    __slots__ = ("_closest", "_positions", "_spans", "_zones")

    def __init__(self, positions: list[int]):
        self._positions = positions
        self._zones = _Zones()
        self._closest: _Closest | None = None
        self._spans: _Spans | None = None

    def changed(self) -> None:
        """Note that a position was added or removed."""
        self._closest = self._spans = None

    @property
    def zones(self) -> list[tuple[int, int]]:
        """The zones as (first key, last key), disjoint and ascending."""
        return [(start, start + (1 << bits) - 1) for start, bits in self._zones.blocks]

    def learn(self, key: int, positions: Sequence[int], complete: bool, _before: int | None, /) -> None:
        """Add the result of a lookup of ``key``: these positions, nearest first, none missing.

        The position ``before`` a key has no meaning in XOR.
        """
        self._spans = None
        if complete:
            self._zones.add(key, _BITS)
            return
        distances = [position ^ key for position in positions]
        while distances:
            bits = (max(distances) + 1).bit_length() - 1
            self._zones.add(key, bits)
            if min(distances) >> bits == 0:
                return
            key ^= 1 << bits
            distances = [distance ^ 1 << bits for distance in distances]

    def forget(self, key: int) -> None:
        """Drop the zone around a key; of a large zone only the part that one lookup restores."""
        place = self._zones.find(key)
        if place < 0:
            return
        bits = self._zones.bits[place]
        while bits and self._count(key >> bits << bits, bits) > FORGET_CONTACTS:
            bits -= 1
        self._zones.cut(place, key, bits)
        self._spans = None

    def gap(self) -> int | None:
        """Return a key outside all zones, or None if they cover the ring."""
        return self._zones.gap()

    # --- one key ---------------------------------------------------------------------------------

    def nearest(self, key: int) -> int:
        """Return the place of the contact nearest to a key, regardless of zones."""
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
        return low

    def owner(self, key: int) -> int:
        """Return the place of a key's owner, or -1 if no zone proves it."""
        return self.nearest(key) if self._is_proven(key) else -1

    def toward(self, key: int) -> int:
        """Return the place of the contact nearest to a key."""
        return self.nearest(key)

    def before(self, place: int) -> int:  # noqa: ARG002
        """Return -1: the order of positions has no meaning in XOR."""
        return -1

    def closest(self, key: int, count: int) -> list[int]:
        """Return the places of the ``count`` contacts nearest to a key, nearest first."""
        bits = 0 if count < len(self._positions) else _BITS
        low, high = self._range(key, bits)
        while high - low < count and bits < _BITS:
            bits += 1
            low, high = self._range(key, bits)
        return sorted(range(low, high), key=lambda place: self._positions[place] ^ key)[:count]

    def _range(self, key: int, bits: int) -> tuple[int, int]:
        """Return the range of positions in the block of ``1 << bits`` keys around ``key``."""
        start = key >> bits << bits
        low = bisect_left(self._positions, start)
        return low, bisect_left(self._positions, start + (1 << bits), low)

    def _count(self, start: int, bits: int) -> int:
        low, high = self._range(start, bits)
        return high - low

    def _is_proven(self, key: int) -> bool:
        """Return whether the zones prove that the nearest contact owns ``key``."""
        zones = self._zones
        while (place := zones.find(key)) >= 0:
            bits = zones.bits[place]
            if self._count(key, bits):
                return True
            key ^= 1 << bits
        return False

    # --- a column of keys ------------------------------------------------------------------------

    def nearest_column(self, keys: U64) -> I64:
        """Apply :meth:`nearest` to a column of keys."""
        if self._closest is None:
            self._closest = _Closest(np.array(self._positions, np.uint64))
        return self._closest.find(keys)

    def toward_column(self, keys: U64) -> I64:
        """Apply :meth:`toward` to a column of keys."""
        return self.nearest_column(keys)

    def owner_column(self, keys: U64) -> I64:
        """Apply :meth:`owner` to a column of keys."""
        places = self.nearest_column(keys)
        if not self._zones.whole:
            if self._spans is None:
                blocks = self._zones.blocks
                self._spans = _Spans(blocks, [self._count(*block) > 0 for block in blocks])
            places[~self._spans.proven(keys)] = -1
        return places


class _Zones:
    """Disjoint aligned blocks of the ring, siblings merged, ascending."""

    __slots__ = ("bits", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.bits: list[int] = []

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The blocks as (first key, bits): each contains ``1 << bits`` keys."""
        return list(zip(self.starts, self.bits, strict=True))

    @property
    def whole(self) -> bool:
        """Whether one zone is the whole ring."""
        return self.bits == [_BITS]

    def find(self, key: int) -> int:
        """Return the place of the block that contains ``key``, or -1."""
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
        """Cut the block of ``1 << bits`` keys around ``key`` out of the block at ``place``."""
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
    """Zones as columns, to find the keys with a proven owner."""

    __slots__ = ("_ends", "_inhabited", "_sizes", "_starts")

    def __init__(self, blocks: list[tuple[int, int]], inhabited: list[bool]):
        self._starts: U64 = np.array([start for start, _ in blocks], np.uint64)
        self._ends: U64 = np.array([start + (1 << bits) - 1 for start, bits in blocks], np.uint64)
        self._sizes: U64 = np.array([1 << bits for _, bits in blocks], np.uint64)
        self._inhabited = np.array(inhabited, np.bool_)

    def proven(self, keys: U64) -> npt.NDArray[np.bool_]:
        proven = np.zeros(len(keys), np.bool_)
        if len(self._starts) == 0:
            return proven
        pending = np.arange(len(keys))
        while len(pending):
            place = np.searchsorted(self._starts, keys, side="right") - 1
            inside = (place >= 0) & (keys <= self._ends[place])
            inhabited = self._inhabited[place]
            proven[pending[inside & inhabited]] = True
            on = np.flatnonzero(inside & ~inhabited)  # refer to the sibling; its zones are smaller, so this ends
            pending, keys = pending[on], keys[on] ^ self._sizes[place[on]]
        return proven


class _Closest:
    """The XOR-closest of sorted positions, for columns of keys."""

    __slots__ = ("_high", "_low", "_positions", "_shift")

    def __init__(self, positions: U64):
        self._positions = positions
        self._shift = np.uint64(0)
        self._low: I64 = np.zeros(1, np.int64)
        self._high: I64 = np.full(1, len(positions))
        if len(positions) > _MATRIX_MAX:
            self._build(min(len(positions).bit_length() + 1, _TABLE_BITS_MAX))

    def _build(self, depth: int) -> None:
        """Build the table of candidate ranges by the top ``depth`` bits, bit by bit."""
        low, high = self._low, self._high
        for bit in range(_BITS - 1, _BITS - 1 - depth, -1):
            # Positions of a range agree above this bit, so the upper half starts at the first with the bit set.
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
        """Return the place of the position closest to each key."""
        positions = self._positions
        if len(positions) <= _MATRIX_MAX:
            nearest: I64 = (keys[:, None] ^ positions).argmin(axis=1)
            return nearest
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
        return found


def _below_top_bit(x: U64) -> U64:
    """Return a mask of the bits below each number's highest set bit."""
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(shift))
    return x >> np.uint64(1)
