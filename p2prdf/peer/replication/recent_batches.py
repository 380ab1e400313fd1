"""The latest batches of triples, for indexes that are advertised later.

:mod:`p2prdf.peer.joins.index_advertisements` sends them to the owners of a new index.

Many publications consist of one triple.  Its six columns take almost a kilobyte, and may keep the whole received frame
in memory.  Small batches that were published under the same indexes are therefore joined, which copies them.  A request
for all triples since a stamp then returns a few earlier ones as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from p2prdf.columns import Columns
from p2prdf.peer.network.batches import TripleBatch, joined_batches

__all__ = ["JOINED_ROWS", "RecentBatches"]

JOINED_ROWS: Final = 256
"""Batches of fewer rows are joined up to this size."""
_KINDS_MAX: Final = 16
"""Number of index sets with small batches that wait to be joined."""


class RecentBatches:
    """The latest batches, with ``rows_max`` rows at most."""

    def __init__(self, columns: Columns, rows_max: int):
        self._columns = columns
        self._rows_max = rows_max
        self._rows = 0
        self._batches: deque[TripleBatch] = deque()
        self._small: dict[int, list[TripleBatch]] = {}
        """Small batches by the indexes of their publication, in the order of the oldest of each."""
        self._small_rows: dict[int, int] = {}
        """The number of rows of these batches."""

    def __iter__(self) -> Iterator[TripleBatch]:
        yield from self._batches
        for each in self._small.values():
            yield self._joined(each)

    def add(self, batch: TripleBatch) -> None:
        """Remember a batch, and forget the oldest beyond the bound."""
        count = len(batch.s)
        self._rows += count
        if count >= JOINED_ROWS:
            self._batches.append(batch)
        else:
            published = batch.published
            self._small.setdefault(published, []).append(batch)
            rows = self._small_rows[published] = self._small_rows.get(published, 0) + count
            if rows >= JOINED_ROWS:
                self._settle(published)
            elif len(self._small) > _KINDS_MAX:
                self._settle(next(iter(self._small)))
        while self._rows > self._rows_max:
            if not self._batches:
                self._settle(next(iter(self._small)))
            self._rows -= len(self._batches.popleft())

    def _settle(self, published: int) -> None:
        del self._small_rows[published]
        self._batches.append(self._joined(self._small.pop(published)))

    def _joined(self, batches: list[TripleBatch]) -> TripleBatch:
        return joined_batches(self._columns, batches)
