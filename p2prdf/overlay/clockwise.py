"""Ownership in Chord: the owner of a key is Successor(key), the first peer at or after it clockwise.

A lookup of key K returns the peers that follow K, none missing.  If L is the last of them and B the last peer before K,
all peers of the *arc* (B, L] are known; without B, those of [K, L].  Adjacent arcs merge, also across position 0. The
first known contact at or after a key owns it if one arc covers the whole way from the key to that contact.

Membership changes keep arcs valid: a peer that joins becomes a contact, and a lost peer leaves its keys to the next
contact of the arc.  If the last contact of an arc is lost, the keys behind the last but one have no proven owner until
the next lookup.

For a column, each position has a *reach*: the number of keys up to it that one arc covers.  A key's owner is proven if
its distance to the contact is below the contact's reach.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf.overlay.ownership import FORGET_CONTACTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.keys import U64
    from p2prdf.overlay.ownership import I64

__all__ = ["ClockwiseOwnership"]

_RING: Final = 1 << 64
_LAST: Final = _RING - 1


class ClockwiseOwnership:
    """Ownership with arcs of the ring as zones; see the module's docstring."""

    __slots__ = ("_arcs", "_column", "_positions", "_reach")

    def __init__(self, positions: list[int]):
        self._positions = positions
        self._arcs = _Arcs()
        self._column: U64 | None = None
        self._reach: U64 | None = None

    def changed(self) -> None:
        """Note that a position was added or removed."""
        self._column = self._reach = None

    @property
    def zones(self) -> list[tuple[int, int]]:
        """The arcs as (first key, last key), disjoint and ascending; an arc across position 0 is two."""
        return list(zip(self._arcs.starts, self._arcs.ends, strict=True))

    def learn(self, key: int, positions: Sequence[int], complete: bool, before: int | None, /) -> None:
        """Add a lookup's result: these positions follow ``key``, none missing, and ``before`` precedes it."""
        self._reach = None
        if complete:
            self._arcs.add(0, _LAST)
        elif positions:
            ahead = max((position - key) % _RING for position in positions)
            behind = 0 if before is None else (key - before - 1) % _RING
            if ahead + behind >= _LAST:  # the arc covers the whole ring
                self._arcs.add(0, _LAST)
            else:
                self._arcs.add((key - behind) % _RING, (key + ahead) % _RING)

    def forget(self, key: int) -> None:
        """Drop the keys of the next ``FORGET_CONTACTS`` contacts, if an arc covers this key."""
        if self._arcs.find(key) < 0:
            return
        positions = self._positions
        place = self.nearest(key)
        count = min(FORGET_CONTACTS, len(positions))
        last = positions[(place + count - 1) % len(positions)]
        self._arcs.remove((positions[place - 1] + 1) % _RING, last)
        self._reach = None

    def gap(self) -> int | None:
        """Return the first key outside all arcs, or None if they cover the ring."""
        starts, ends = self._arcs.starts, self._arcs.ends
        if not starts or starts[0] > 0:
            return 0
        return ends[0] + 1 if ends[0] < _LAST else None

    # --- one key ---------------------------------------------------------------------------------

    def nearest(self, key: int) -> int:
        """Return the place of the first contact at or after a key, regardless of arcs."""
        place = bisect_left(self._positions, key)
        return place if place < len(self._positions) else 0

    def owner(self, key: int) -> int:
        """Return the place of a key's owner, or -1 if no arc proves it."""
        place = self.nearest(key)
        return place if self._arcs.join(key, self._positions[place]) else -1

    def toward(self, key: int) -> int:
        """Return the place of the last contact before a key: that peer knows its successors."""
        return (bisect_left(self._positions, key) or len(self._positions)) - 1

    def before(self, place: int) -> int:
        """Return the place of the contact before another, or -1 if an unknown peer may lie between."""
        before = place - 1 if place else len(self._positions) - 1
        proven = self._arcs.join((self._positions[before] + 1) % _RING, self._positions[place])
        return before if proven else -1

    def closest(self, key: int, count: int) -> list[int]:
        """Return the places of the ``count`` contacts that follow a key, in ring order."""
        size = len(self._positions)
        first = self.nearest(key)
        return [(first + step) % size for step in range(min(count, size))]

    # --- a column of keys ------------------------------------------------------------------------

    def nearest_column(self, keys: U64) -> I64:
        """Apply :meth:`nearest` to a column of keys."""
        if self._column is None:
            self._column = np.array(self._positions, np.uint64)
        places = np.searchsorted(self._column, keys)
        places[places == len(self._column)] = 0
        return places

    def toward_column(self, keys: U64) -> I64:
        """Apply :meth:`toward` to a column of keys."""
        places = self.nearest_column(keys) - 1
        places[places < 0] = len(self._positions) - 1
        return places

    def owner_column(self, keys: U64) -> I64:
        """Apply :meth:`owner` to a column of keys."""
        places = self.nearest_column(keys)
        if not self._arcs.whole:
            assert self._column is not None
            if self._reach is None:
                self._reach = self._arcs.reach(self._column)
            # 64-bit numbers wrap around as the ring does.
            unproven = self._column.take(places) - keys >= self._reach.take(places)
            places[unproven] = -1
        return places


class _Arcs:
    """Disjoint, non-adjacent ranges of 0 .. 2^64 - 1, ascending, ends inclusive.

    An arc across position 0 is two ranges: the first and the last.
    """

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    @property
    def whole(self) -> bool:
        """Whether the whole ring is covered."""
        return self.ends == [_LAST] and self.starts == [0]

    def find(self, key: int) -> int:
        """Return the place of the range that contains ``key``, or -1."""
        place = bisect_right(self.starts, key) - 1
        return place if place >= 0 and key <= self.ends[place] else -1

    def join(self, key: int, to: int) -> bool:
        """Return whether all keys from ``key`` clockwise to ``to`` are covered."""
        place = self.find(key)
        if place < 0:
            return False
        if key <= to:
            return to <= self.ends[place]
        return self.ends[place] == _LAST and self.starts[0] == 0 and to <= self.ends[0]

    def add(self, first: int, last: int) -> None:
        """Cover the keys from ``first`` clockwise to ``last``."""
        if first > last:
            self.add(first, _LAST)
            self.add(0, last)
            return
        low = bisect_left(self.ends, first - 1)  # an adjacent range merges with the new one
        high = bisect_right(self.starts, last + 1, low)
        if low < high:
            first, last = min(first, self.starts[low]), max(last, self.ends[high - 1])
        self.starts[low:high], self.ends[low:high] = [first], [last]

    def remove(self, first: int, last: int) -> None:
        """Uncover the keys from ``first`` clockwise to ``last``."""
        if first > last:
            self.remove(first, _LAST)
            self.remove(0, last)
            return
        low = bisect_left(self.ends, first)
        high = bisect_right(self.starts, last, low)
        rest = []
        if low < high and self.starts[low] < first:
            rest.append((self.starts[low], first - 1))
        if low < high and self.ends[high - 1] > last:
            rest.append((last + 1, self.ends[high - 1]))
        self.starts[low:high], self.ends[low:high] = [start for start, _ in rest], [end for _, end in rest]

    def reach(self, positions: U64) -> U64:
        """Return for each position the number of consecutive keys up to it that one arc covers."""
        if not self.starts:
            return np.zeros(len(positions), np.uint64)
        starts = np.array(self.starts, np.uint64)
        ends = np.array(self.ends, np.uint64)
        origins = starts.copy()
        if self.starts[0] == 0 and self.ends[-1] == _LAST:
            origins[0] = starts[-1]  # the start of the arc across position 0
        place = np.searchsorted(starts, positions, side="right") - 1
        inside = (place >= 0) & (positions <= ends[place])
        return np.where(inside, positions - origins[place] + np.uint64(1), np.uint64(0))
