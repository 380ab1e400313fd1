"""Rows in sorted order with multiplicities and ranks.

A top-k operator must find the row that moves up when a row above it goes; MIN must find the next value.  A sorted
list gives these, but the n-th row of a bag also needs the sum of the multiplicities before it.

The sorted list is cut into blocks of some hundred entries, each with the sum of its multiplicities.  An insertion
moves the entries of one block; a rank walks over the blocks and then over one block's entries.  A block that grows
too large is halved, an empty one is removed.  For n entries and blocks of B an operation takes O(B + n/B) simple
moves: a few microseconds for a hundred thousand entries.  A balanced tree would need fewer moves and, in Python, more
time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, TypeVar

from p2prdf.rdf.ordering import OrderKey

__all__ = ["Ranked"]

_BLOCK_MAX = 512

_Entry = TypeVar("_Entry")


class Ranked(Generic[_Entry]):
    """Entries by key, each with a multiplicity above zero; keys are distinct."""

    __slots__ = ("_counts", "_entries", "_firsts", "_keys", "_size", "_sums", "total")

    def __init__(self) -> None:
        # For each block: first key, sorted keys, their entries, their multiplicities, and the sum of these.
        self._firsts: list[OrderKey] = []
        self._keys: list[list[OrderKey]] = []
        self._entries: list[list[_Entry]] = []
        self._counts: list[list[int]] = []
        self._sums: list[int] = []
        self._size = 0
        self.total = 0
        """Sum of all multiplicities."""

    def __len__(self) -> int:
        return self._size

    def change(self, key: OrderKey, entry: _Entry, more: int) -> None:
        """Change the multiplicity of an entry, which must not fall below zero; the entry is removed at zero."""
        block = self._block(key)
        if block == len(self._keys):
            for parts in (self._keys, self._entries, self._counts):
                parts.append([])
            self._sums.append(0)
            self._firsts.append(key)
        keys = self._keys[block]
        place = bisect_left(keys, key)
        if place == len(keys) or keys[place] != key:
            keys.insert(place, key)
            self._entries[block].insert(place, entry)
            self._counts[block].insert(place, 0)
            self._size += 1
        counts = self._counts[block]
        counts[place] += more
        self._sums[block] += more
        self.total += more
        assert counts[place] >= 0, "an entry was taken out more often than it was put in"
        if not counts[place]:
            del keys[place], self._entries[block][place], counts[place]
            self._size -= 1
        self._tidy(block)

    def _block(self, key: OrderKey) -> int:
        """Return the block that a key belongs to: the last with a first key not above it."""
        block = bisect_left(self._firsts, key)
        if block < len(self._firsts) and self._firsts[block] == key:
            return block
        return max(block - 1, 0)

    def _tidy(self, block: int) -> None:
        keys = self._keys[block]
        if not keys:
            del self._keys[block], self._entries[block], self._counts[block], self._sums[block], self._firsts[block]
            return
        self._firsts[block] = keys[0]
        if len(keys) <= _BLOCK_MAX:
            return
        half = len(keys) // 2
        self._firsts.insert(block + 1, keys[half])
        self._keys.insert(block + 1, keys[half:])
        self._entries.insert(block + 1, self._entries[block][half:])
        self._counts.insert(block + 1, self._counts[block][half:])
        self._sums.insert(block + 1, sum(self._counts[block + 1]))
        del keys[half:], self._entries[block][half:], self._counts[block][half:]
        self._sums[block] -= self._sums[block + 1]

    def rank(self, key: OrderKey) -> int:
        """Return the sum of the multiplicities before a key."""
        if not self._keys:
            return 0
        block = self._block(key)
        place = bisect_left(self._keys[block], key)
        return sum(self._sums[:block]) + sum(self._counts[block][:place])

    def between(self, start: int, stop: int) -> Iterator[tuple[_Entry, int]]:
        """Yield the entries at the ranks from ``start`` to before ``stop``, each with its number of copies there."""
        at = block = 0
        while block < len(self._sums) and at + self._sums[block] <= start:
            at += self._sums[block]
            block += 1
        for entries, counts in zip(self._entries[block:], self._counts[block:], strict=True):
            for entry, count in zip(entries, counts, strict=True):
                if at >= stop:
                    return
                times = min(at + count, stop) - max(at, start)
                at += count
                if times > 0:
                    yield entry, times

    def __iter__(self) -> Iterator[tuple[_Entry, int]]:
        """Yield all entries in order, with their multiplicities."""
        for entries, counts in zip(self._entries, self._counts, strict=True):
            yield from zip(entries, counts, strict=True)

    @property
    def first(self) -> _Entry:
        """The first entry; raises IndexError if there is none."""
        return self._entries[0][0]

    @property
    def last(self) -> _Entry:
        """The last entry; raises IndexError if there is none."""
        return self._entries[-1][-1]
