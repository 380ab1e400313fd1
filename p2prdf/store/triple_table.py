"""Triples as columns: one table for set semantics, one for publication events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.store.items import Seen

__all__ = ["TripleTable", "pack"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_SHIFT = np.uint64(32)
_TOUCHED_MAX = 65_536
"""So many changes of rows known before are remembered, at least."""


def pack(high: npt.NDArray[Any], low: npt.NDArray[Any]) -> U64:
    """Return an exact key of two columns of terms (or ordinals)."""
    packed: U64 = (high.astype(np.uint64) << _SHIFT) | low.astype(np.uint64, copy=False)
    return packed


class TripleTable:
    """Triples (or publication events), each once: a row per ordinal of its identity."""

    def __init__(self, *, per_event: bool):
        self.per_event = per_event
        self.index = HashIndex()
        self.pairs = HashIndex()
        self.s, self.p, self.o = (GrowingColumn(np.uint32) for _ in range(3))
        self.time = GrowingColumn(np.uint64)
        self.roles = GrowingColumn(np.uint16)
        self.event = GrowingColumn(np.uint64)
        self.pair = GrowingColumn(np.int32)
        self._mark = GrowingColumn(np.int64)
        self.version = 0
        """Grows whenever a row gets another time or another role."""
        self._touched = GrowingColumn(np.int64)
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self.s)

    @property
    def nbytes(self) -> int:
        """Bytes taken by columns and indexes."""
        columns = (self.s, self.p, self.o, self.time, self.roles, self.event, self.pair, self._mark)
        return sum(column.nbytes for column in columns) + self.index.nbytes + self.pairs.nbytes

    def pair_keys(self, s: U32, p: U32, o: U32) -> tuple[U64, I64]:
        """Return exact keys of whole triples (the ordinal of predicate and object, and the subject),
        and those ordinals."""
        pairs, _ = self.pairs.insert(pack(p, o))
        return pack(pairs, s), pairs

    def insert(self, s: U32, p: U32, o: U32, event: U64) -> I64:
        """Return the row of each triple, adding rows (of no role and time 0) for new ones."""
        identity, pairs = (event, None) if self.per_event else self.pair_keys(s, p, o)
        rows, fresh = self.index.insert(identity)
        count = int(np.count_nonzero(fresh))
        if count:
            added: list[tuple[GrowingColumn, npt.NDArray[Any]]] = [(self.s, s), (self.p, p), (self.o, o)]
            added.append((self.event, event) if pairs is None else (self.pair, pairs))
            for column, values in added:
                column.append(values[fresh] if count < len(fresh) else values)
            self.time.extend(count)
            self.roles.extend(count)
            self._mark.extend(count)
        return rows

    def rounds(self, rows: I64) -> Iterator[I64 | None]:
        """Yield places in the batch such that each round names each row once; None: all at once."""
        mark = self._mark.values
        places = np.arange(len(rows))
        mark[rows[::-1]] = places[::-1]  # of several writers the first place stays
        if (mark[rows] == places).all():
            yield None
            return
        while len(places):
            mark[rows[places][::-1]] = places[::-1]
            first = mark[rows[places]] == places
            yield places[first]
            places = places[~first]

    def touched(self, rows: I64, *, anything: bool) -> None:
        """Note that rows known before have changed, and whether these or others did."""
        self.version += anything
        if len(rows):
            if len(self._touched) > _TOUCHED_MAX:
                self._forgotten += len(self._touched)
                self._touched = GrowingColumn(np.int64)
            self._touched.append(rows)

    def changed_since(self, seen: Seen) -> tuple[I64 | None, Seen]:
        """Return the rows that came or changed since somebody looked (None: that is not known), and how far that is."""
        now = Seen(len(self), self._forgotten + len(self._touched))
        if seen.rows < 0 or seen.touched < self._forgotten:
            return None, now
        again = np.unique(self._touched.values[seen.touched - self._forgotten :])
        return np.concatenate([again[again < seen.rows], np.arange(seen.rows, len(self))]), now

    def terms(self, rows: I64, position: int) -> U32:
        """Return the terms at one position of rows."""
        taken: U32 = (self.s, self.p, self.o)[position].values[rows]
        return taken
