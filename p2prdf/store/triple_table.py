"""Triples as columns: one table for set semantics, one for publication events.

A triple that is deleted and published again has several validity intervals (:mod:`p2prdf.store.intervals`), each a row
of its own.  The index finds the first; most triples are never deleted and need no further state.

The row of a forgotten interval is free: it has no index and 0 as time.  The next interval of the same triple takes it
over with its postings, which depend on the terms alone.  Nothing is copied, and all numbers stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.hlc import GONE
from p2prdf.store.intervals import Superseded, ValidityIntervals
from p2prdf.store.items import Seen

__all__ = ["TripleTable", "later_times", "pack"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_SHIFT = np.uint64(32)
_GONE = np.uint64(GONE)
_NO_PAIR = np.uint64((1 << 32) - 1)
"""The high half of the index key of an interval that is not the first of its triple: there are fewer pairs."""
_TOUCHED_MAX = 65_536
"""Minimum number of changes to known rows that are remembered."""


def pack(high: npt.NDArray[Any], low: npt.NDArray[Any]) -> U64:
    """Return an exact key of two columns of terms (or ordinals)."""
    packed: U64 = (high.astype(np.uint64) << _SHIFT) | low.astype(np.uint64, copy=False)
    return packed


def later_times(times: U64, others: U64) -> U64:
    """Return :func:`p2prdf.store.intervals.later_time` of columns."""
    over = np.minimum(times, others)
    return np.where(over >= _GONE, over, np.maximum(times, others))


class TripleTable:
    """Validity intervals of triples (or publication events), each once: a row per ordinal of its identity."""

    def __init__(self, *, per_event: bool, room: int = 0, superseded: Superseded[int] | None = None):
        """``room``: number of rows to reserve; ``superseded``: notes triples by the row of their first interval."""
        self.per_event = per_event
        self.index = HashIndex(room)
        self.pairs = HashIndex()
        self.s, self.p, self.o = (GrowingColumn(np.uint32) for _ in range(3))
        self.time = GrowingColumn(np.uint64)
        self.roles = GrowingColumn(np.uint16)
        self.event = GrowingColumn(np.uint64)
        self.pair = GrowingColumn(np.int32)
        self._mark = GrowingColumn(np.int64)
        self.version = 0
        """Grows whenever a row gets another time or another index."""
        self._touched = GrowingColumn(np.int64)
        self._forgotten = 0
        self.layout = 0
        """Changes when the rows are renumbered."""
        self.dead = 0
        """Number of forgotten rows; they have no index, and 0 as time (:mod:`p2prdf.store.columnar_forget`)."""
        self._superseded: Superseded[int] = Superseded(noted=False) if superseded is None else superseded
        self.free_roles = 0
        """Number of index entries of free rows."""
        self._free: dict[int, list[tuple[int, int]]] = {}
        """The free rows of a triple, each with the indexes that have postings of it."""
        self.any_over = False
        """Whether anything was ever deleted."""
        self._intervals: ValidityIntervals[int] = ValidityIntervals()
        self._rows_of_intervals: dict[tuple[int, int], int] = {}
        """Rows by the row of the first interval, and the beginning."""
        self._begin: GrowingColumn | None = None
        self._first: GrowingColumn | None = None
        """For the intervals of deleted triples, the row of the first one."""
        self._heard: GrowingColumn | None = None
        """For first intervals, the stamp of the latest news of the triple, if it was ever deleted."""

    def __len__(self) -> int:
        return len(self.s)

    @property
    def nbytes(self) -> int:
        """Bytes used by columns and indexes."""
        columns = [self.s, self.p, self.o, self.time, self.roles, self.event, self.pair, self._mark]
        columns += [column for column in self._of_intervals if column is not None]
        return sum(column.nbytes for column in columns) + self.index.nbytes + self.pairs.nbytes

    @property
    def _of_intervals(self) -> tuple[GrowingColumn | None, ...]:
        return self._begin, self._first, self._heard

    def pair_keys(self, s: U32, p: U32, o: U32) -> tuple[U64, I64]:
        """Return exact keys of triples (ordinal of predicate and object, and subject), and those ordinals."""
        pairs, _ = self.pairs.insert(pack(p, o))
        return pack(pairs, s), pairs

    def insert(self, s: U32, p: U32, o: U32, event: U64) -> I64:
        """Return the row of each triple, adding rows (without index, time 0) for new ones."""
        identity, pairs = (event, None) if self.per_event else self.pair_keys(s, p, o)
        rows, fresh = self.index.insert(identity)
        count = int(np.count_nonzero(fresh))
        if count:
            added: list[tuple[GrowingColumn, npt.NDArray[Any]]] = [(self.s, s), (self.p, p), (self.o, o)]
            added.append((self.event, event) if pairs is None else (self.pair, pairs))
            for column, values in added:
                column.append(values[fresh] if count < len(fresh) else values)
            self._extend(count)
        return rows

    def _extend(self, count: int) -> None:
        for column in (self.time, self.roles, self._mark, *self._of_intervals):
            if column is not None:
                column.extend(count)

    # --- validity intervals ----------------------------------------------------------------------

    def begins(self, rows: I64) -> U64 | None:
        """Return the deletions after which rows begin (0: none); None if that is 0 for all."""
        return None if self._begin is None else self._begin.values[rows]

    def divided(self, rows: I64, time: U64) -> npt.NDArray[np.bool_] | None:
        """Return which items of a batch, given by first interval and time, concern a triple with deletions.

        These are deletions and publications of triples that were ever deleted.  None: no item does.
        """
        over = time >= _GONE
        if self._heard is not None:
            over |= self._heard.values[rows] != 0
        return over if over.any() else None

    def heard(self, rows: I64) -> U64:
        """Return the stamp of the latest news of deleted triples, given by their intervals."""
        assert self._first is not None
        assert self._heard is not None
        heard: U64 = self._heard.values[self._first.values[rows]]
        return heard

    def resolve(self, row: int, time: int, bits: int) -> list[tuple[int, int, int]]:
        """Return the intervals that a publication or deletion changes or makes: row, time, and indexes to copy.

        ``row``: that of the first interval of the triple; ``bits``: the indexes under which it came.
        """

        def lacks(begin: int) -> bool:
            return bool(bits & ~self._roles_of(row, begin))

        def time_of(begin: int) -> int:
            return self._time_of(row, begin)

        if time < GONE:
            self._hear(row, time)
            intervals = list(self._intervals.publish(row, time, time_of, lacks))
        else:
            if self.time.values[row] < _GONE:
                self._divide(row)
            self._hear(row, time - GONE)
            intervals = list(self._intervals.remove(row, time - GONE, time_of, lacks))
        self._superseded.changed(row, divided=self._intervals.divides(row))
        return [
            (self._row_of(row, begin), at, 0 if source is None else self._roles_of(row, source))
            for begin, at, source in intervals
        ]

    def _hear(self, row: int, stamp: int) -> None:
        assert self._heard is not None
        self._heard.values[row] = max(int(self._heard.values[row]), stamp)

    def _divide(self, row: int) -> None:
        """Note that a triple, given by its first interval, is deleted for the first time."""
        self.any_over = True
        if self._begin is None or self._first is None:
            self._begin, self._first, self._heard = (GrowingColumn(each) for each in (np.uint64, np.int64, np.uint64))
            for column in (self._begin, self._first, self._heard):
                column.extend(len(self))
        self._first.values[row] = row
        self._hear(row, int(self.time.values[row]))

    def _time_of(self, row: int, begin: int) -> int:
        found = self._rows_of_intervals.get((row, begin)) if begin else row
        return 0 if found is None else int(self.time.values[found])

    def _roles_of(self, first: int, begin: int) -> int:
        found = self._rows_of_intervals.get((first, begin)) if begin else first
        return 0 if found is None else int(self.roles.values[found])

    def _row_of(self, first: int, begin: int) -> int:
        """Return the row of an interval; a new one (without index, time 0) if there is none."""
        if not begin:
            return first
        row = self._rows_of_intervals.get((first, begin))
        if row is None:
            if first in self._free:
                return self._take_free(first, begin)
            row = self._rows_of_intervals[first, begin] = len(self)
            self.index.insert(pack(np.array([_NO_PAIR]), np.array([row])))
            for column in (self.s, self.p, self.o, self.pair):
                column.append(column.values[first : first + 1].copy())
            self._extend(1)
            assert self._begin is not None
            assert self._first is not None
            self._begin.values[row], self._first.values[row] = begin, first
        return row

    def _take_free(self, first: int, begin: int) -> int:
        """Return a free row of a triple as the row of a new interval, under the indexes that have postings of it."""
        assert self._begin is not None
        row, roles = self._free[first].pop()
        if not self._free[first]:
            del self._free[first]
        self._rows_of_intervals[first, begin] = row
        self._begin.values[row] = begin
        self.roles.values[row] = roles
        self.free_roles -= roles.bit_count()
        self.dead -= 1
        return row

    def rows_under(self, role: int) -> I64:
        """Return the rows with an index, and the free rows that will have it when they are used again."""
        rows: I64 = np.flatnonzero(self.roles.values >> np.uint16(role) & np.uint16(1))
        free = [row for each in self._free.values() for row, roles in each if roles >> role & 1]
        return np.concatenate([rows, np.array(free, np.int64)]) if free else rows

    def forget(self, first: int, before: int, most: int) -> tuple[int, int]:
        """Forget up to ``most`` intervals of a triple that ended before a stamp, except the first.

        Returns the number of intervals, and that of their rows: there is none if nothing was published between two
        deletions.
        """
        begins = self._intervals.forget(
            first, before, lambda begin: self._time_of(first, begin), lambda begin: self._roles_of(first, begin), most
        )
        if begins:
            self.time.values[first] = GONE | self._intervals.first_end(first)
            self.touched(np.array([first]), anything=True)
        count = 0
        for begin in begins:
            row = self._rows_of_intervals.pop((first, begin), None)
            if row is None:
                continue
            count += 1
            roles = int(self.roles.values[row])
            self._free.setdefault(first, []).append((row, roles))
            self.roles.values[row] = self.time.values[row] = 0
            self.free_roles += roles.bit_count()
            self.dead += 1
            self.touched(np.array([row]), anything=True)
        if not self._intervals.divides(first):
            self._superseded.undivided(first)
        return len(begins), count

    @staticmethod
    def rounds(rows: I64) -> list[I64]:
        """Split the places of a batch into rounds, in order, such that no round names a row twice."""
        # The number of a place among those of its row is its round.
        by_row = np.argsort(rows, kind="stable")
        begins = np.flatnonzero(np.diff(rows[by_row], prepend=-1))
        numbers = np.empty(len(rows), np.int64)
        numbers[by_row] = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
        by_round = np.argsort(numbers, kind="stable")
        return np.split(by_round, np.cumsum(np.bincount(numbers))[:-1])

    def each_once(self, rows: I64) -> bool:
        """Return whether a batch names no row twice."""
        mark = self._mark.values
        places = np.arange(len(rows))
        mark[rows] = places  # of several writers the last place stays
        return bool((mark[rows] == places).all())

    def touched(self, rows: I64, *, anything: bool) -> None:
        """Record the changed ones among known rows, and whether anything changed."""
        self.version += anything
        if len(rows):
            if len(self._touched) > _TOUCHED_MAX + self.dead:
                self._forgotten += len(self._touched)
                self._touched = GrowingColumn(np.int64)
            self._touched.append(rows)

    def changed_since(self, seen: Seen) -> tuple[I64 | None, Seen]:
        """Return the rows that came or changed after ``seen`` (None if unknown), and the new position."""
        now = Seen(len(self), self._forgotten + len(self._touched), self.layout)
        if seen.rows < 0 or seen.touched < self._forgotten or seen.layout != self.layout:
            return None, now
        again = np.unique(self._touched.values[seen.touched - self._forgotten :])
        return np.concatenate([again[again < seen.rows], np.arange(seen.rows, len(self))]), now

    def terms(self, rows: I64, position: int) -> U32:
        """Return the terms at one position of rows."""
        taken: U32 = (self.s, self.p, self.o)[position].values[rows]
        return taken
