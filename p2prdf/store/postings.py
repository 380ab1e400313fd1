"""Dense ordinals to growing lists of values: the second half of a join.

:class:`~p2prdf.hash_index.HashIndex` turns join keys into ordinals; postings hold, for each
ordinal, the rows that have the key.  The values of one ordinal lie side by side in one shared
pool, so that a batch of lookups is a ``repeat`` and one gather, with no loop over rows.

A list that outgrows its block moves to the end of the pool with doubled capacity and leaves a
hole; a list of one costs one slot.  When more than half of the pool is holes it is rewritten.
Doubling alone leaves at most as many slots in holes as in blocks, so rewriting is rare, and both
are amortised constants per value appended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Postings"]

I64 = npt.NDArray[np.int64]
Ints = npt.NDArray[Any]

_POOL_MIN = 64


class Postings:
    """A multimap from ordinals (0 and up, expected to be dense) to int32 or int64 values."""

    __slots__ = ("_capacity", "_end", "_holes", "_length", "_pool", "_start", "_total")

    def __init__(self, dtype: type[np.signedinteger[Any]] = np.int32):
        """Hold values of type ``dtype``."""
        self._start: I64 = np.zeros(0, np.int64)
        self._length: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._capacity: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._pool: Ints = np.empty(_POOL_MIN, dtype)
        self._end = 0
        self._holes = 0
        self._total = 0

    def __len__(self) -> int:
        """Return the number of values held under all ordinals."""
        return self._total

    @property
    def nbytes(self) -> int:
        """Bytes taken by pool and blocks, used or not."""
        return self._pool.nbytes + self._start.nbytes + self._length.nbytes + self._capacity.nbytes

    def append(self, ordinals: Ints, values: Ints) -> None:
        """Append ``values[i]`` to the list of ``ordinals[i]``; rows of one ordinal keep their order."""
        count = len(ordinals)
        assert count == len(values), "an ordinal for each value"
        if count == 0:
            return
        if count == 1:
            self.append_one(int(ordinals[0]), int(values[0]))
            return
        owners, counts = ordinals, None
        if not (ordinals[1:] > ordinals[:-1]).all():
            owners, counts, order = _runs(ordinals)
            values = values[order]
        assert owners[0] >= 0, "ordinals count from 0"
        self._cover(int(owners[-1]) + 1)
        length = self._length[owners]
        grown = length + (1 if counts is None else counts)
        outgrown = grown > self._capacity[owners]
        if outgrown.any():
            self._move(owners[outgrown], grown[outgrown])
        at = self._start[owners] + length
        self._pool[at if counts is None else _spread(at, counts)] = values
        self._length[owners] = grown
        self._total += count
        if self._holes * 2 > self._end > _POOL_MIN:
            self._compact()

    def append_one(self, ordinal: int, value: int) -> None:
        """Append one value; a single triple should not pay for a batch."""
        assert ordinal >= 0, "ordinals count from 0"
        self._cover(ordinal + 1)
        length = int(self._length[ordinal])
        if length == self._capacity[ordinal]:
            self._move_one(ordinal, length)
        self._pool[self._start[ordinal] + length] = value
        self._length[ordinal] = length + 1
        self._total += 1
        if self._holes * 2 > self._end > _POOL_MIN:
            self._compact()

    def expand(self, ordinals: Ints) -> tuple[I64, Ints]:
        """Return all values of the ordinals, and for each its place in ``ordinals``.

        Places with -1 or an ordinal never appended to give nothing.
        """
        if len(ordinals) == 1:
            return self._expand_one(int(ordinals[0]))
        asking = ((ordinals >= 0) & (ordinals < len(self._length))).nonzero()[0]
        held = ordinals[asking]
        counts = self._length[held]
        return np.repeat(asking, counts), self._pool.take(_spread(self._start[held], counts))

    def at(self, ordinals: Ints, places: Ints) -> Ints:
        """Return the value at one place (from 0) of the list of each ordinal; both must be held.

        A value keeps its place in its list for good.
        """
        values: Ints = self._pool.take(self._start[ordinals] + places)
        return values

    def counts(self, ordinals: Ints) -> I64:
        """Return the number of values of each ordinal, 0 for -1."""
        found = np.zeros(len(ordinals), np.int64)
        known = (ordinals >= 0) & (ordinals < len(self._length))
        found[known] = self._length[ordinals[known]]
        return found

    def _expand_one(self, ordinal: int) -> tuple[I64, Ints]:
        if not 0 <= ordinal < len(self._length):
            return np.zeros(0, np.int64), self._pool[:0].copy()
        start, length = int(self._start[ordinal]), int(self._length[ordinal])
        return np.zeros(length, np.int64), self._pool[start : start + length].copy()

    def _cover(self, size: int) -> None:
        """Have blocks, if empty ones, for ordinals below ``size``."""
        held = len(self._length)
        if size <= held:
            return
        room = max(size, held * 2) - held
        self._start = np.concatenate((self._start, np.zeros(room, np.int64)))
        self._length = np.concatenate((self._length, np.zeros(room, np.int32)))
        self._capacity = np.concatenate((self._capacity, np.zeros(room, np.int32)))

    def _claim(self, size: int) -> int:
        """Return the start of ``size`` slots at the pool's end."""
        start = self._end
        self._end += size
        if self._end > len(self._pool):
            spare = np.empty(max(self._end, 2 * start) - start, self._pool.dtype)
            self._pool = np.concatenate((self._pool[:start], spare))
        return start

    def _move(self, owners: Ints, needed: Ints) -> None:
        """Give lists larger blocks at the pool's end."""
        before = self._capacity[owners]
        capacity = np.maximum(needed, before * 2)
        ends = np.cumsum(capacity, dtype=np.int64)
        target = self._claim(int(ends[-1])) + ends - capacity
        held = before.nonzero()[0]
        if len(held):
            length = self._length[owners[held]]
            kept = self._pool.take(_spread(self._start[owners[held]], length))
            self._pool[_spread(target[held], length)] = kept
        self._start[owners] = target
        self._capacity[owners] = capacity
        self._holes += int(before.sum())

    def _move_one(self, owner: int, length: int) -> None:
        """Do for one full list what :meth:`_move` does for many."""
        capacity = max(1, 2 * length)
        target = self._claim(capacity)
        if length:
            start = int(self._start[owner])
            self._pool[target : target + length] = self._pool[start : start + length]
        self._start[owner] = target
        self._capacity[owner] = capacity
        self._holes += length

    def _compact(self) -> None:
        """Rewrite the pool without holes; blocks keep their capacity."""
        capacity = self._capacity
        start = np.cumsum(capacity, dtype=np.int64) - capacity
        self._end -= self._holes
        pool = np.empty(max(_POOL_MIN, self._end), self._pool.dtype)
        pool[_spread(start, self._length)] = self._pool.take(_spread(self._start, self._length))
        self._start, self._pool, self._holes = start, pool, 0


def _runs(ordinals: Ints) -> tuple[Ints, I64, I64]:
    """Return the distinct ordinals ascending, their counts, and the stable order that sorts."""
    # Sorting (ordinal, place) packed into one number is several times faster than a stable argsort.
    bits = len(ordinals).bit_length()
    packed = ordinals.astype(np.int64) << bits
    packed |= np.arange(len(ordinals))
    packed.sort()
    ranked = packed >> bits
    packed &= (1 << bits) - 1
    first = np.concatenate(([0], np.flatnonzero(ranked[1:] != ranked[:-1]) + 1))
    return ranked[first], np.diff(first, append=len(ranked)), packed


def _spread(start: Ints, counts: Ints) -> I64:
    """Return start[0], start[0]+1, ... for counts[0] steps, then the same from start[1], and so on."""
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(start - ends + counts, counts)
