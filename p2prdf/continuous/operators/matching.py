"""An index of rows that finds the rows compatible with a given row.

Two rows are compatible if no shared variable is bound differently in both (SPARQL 1.1, 18.3).  If all rows of both
sides bind the shared variables, compatible rows lie under one key of a hash table.  If a variable may be unbound, for
example after OPTIONAL, a row also matches rows that lack one of its values, and a single key does not find them.

Rows are therefore kept in *classes* by the optional columns (``doubtful``) that they bind.  A given row and a class
determine the columns that both bind; the class has a hash table on exactly these columns, built at the first look-up.
There are as many classes as combinations of bound columns occur: few.  A look-up costs its matches plus one probe per
class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from p2prdf.continuous.operators.zset import UNBOUND, Delta, Row

__all__ = ["Matching", "OfTwo", "Sides"]


@dataclasses.dataclass(frozen=True, slots=True)
class Sides:
    """The columns that left and right rows share, and whether they are always bound.

    ``pairs``: columns of left and right rows; ``certain``, ``doubtful``: places in ``pairs``.  ``counted``, for
    MINUS: bits of ``doubtful``, one of which both rows must bind to match at all; None: rows without a common value
    match too.
    """

    pairs: tuple[tuple[int, int], ...]
    certain: tuple[int, ...]
    doubtful: tuple[int, ...]
    counted: int | None = None

    @classmethod
    def of(
        cls, pairs: tuple[tuple[int, int], ...], left: tuple[bool, ...], right: tuple[bool, ...],
        counted: Iterable[int] | None = None,
    ) -> Sides:  # fmt: skip
        """Return the sides for rows of two layouts; ``counted``: places in ``pairs``, for MINUS."""
        certain = tuple(at for at, (a, b) in enumerate(pairs) if left[a] and right[b])
        doubtful = tuple(at for at in range(len(pairs)) if at not in certain)
        bits: int | None = None
        if counted is not None:
            places = frozenset(counted)
            # A certain column that counts is always in common; nothing else has to be.
            if not places.intersection(certain):
                bits = sum(1 << bit for bit, at in enumerate(doubtful) if at in places)
        return cls(pairs, certain, doubtful, bits)

    def narrowed(self) -> Sides:
        """Return the sides for right rows that are reduced to the shared columns, in the order of the pairs."""
        return dataclasses.replace(self, pairs=tuple((left, at) for at, (left, _) in enumerate(self.pairs)))

    def left(self) -> Matching:
        """Return an empty index of left rows."""
        return Matching(self, 0)

    def right(self) -> Matching:
        """Return an empty index of right rows."""
        return Matching(self, 1)


class _Class:
    """Rows that bind the same doubtful columns."""

    __slots__ = ("rows", "tables")

    def __init__(self) -> None:
        self.rows: Delta = {}
        self.tables: dict[int, dict[Row, Delta]] = {}
        """By the set of optional columns in the key, besides the certain ones."""


class Matching:
    """Rows of one side with their multiplicities, found by rows of the other side.

    Adding costs one step per table of the row's class.
    """

    __slots__ = ("_classes", "_counted", "_mine", "_others", "_size")

    def __init__(self, sides: Sides, side: int):
        columns = [tuple(sides.pairs[at][which] for at in places) for which in (side, 1 - side)
                   for places in (sides.certain, sides.doubtful)]  # fmt: skip
        self._mine = columns[:2]
        self._others = columns[2:]
        self._counted = sides.counted
        self._classes: dict[int, _Class] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Yield all rows with their multiplicities."""
        for kept in self._classes.values():
            yield from kept.rows.items()

    def get(self, row: Row) -> int:
        """Return the multiplicity of a row, 0 if it is not held."""
        kept = self._classes.get(_bound(row, self._mine[1]))
        return 0 if kept is None else kept.rows.get(row, 0)

    def add(self, row: Row, weight: int) -> tuple[int, int]:
        """Add to the multiplicity of a row; return the multiplicity before and after."""
        certain, doubtful = self._mine
        mask = _bound(row, doubtful)
        kept = self._classes.get(mask)
        if kept is None:
            kept = self._classes[mask] = _Class()
        before = kept.rows.get(row, 0)
        after = before + weight
        if after:
            kept.rows[row] = after
            for common, table in kept.tables.items():
                table.setdefault(_key(row, certain, doubtful, common), {})[row] = after
            self._size += not before
        elif before:
            del kept.rows[row]
            for common, table in kept.tables.items():
                key = _key(row, certain, doubtful, common)
                bucket = table[key]
                del bucket[row]
                if not bucket:
                    del table[key]
            self._size -= 1
            if not kept.rows:
                del self._classes[mask]
        return before, after

    def matches(self, row: Row) -> Iterator[tuple[Row, int]]:
        """Yield the rows that match a row of the other side, with their multiplicities."""
        certain, doubtful = self._others
        mask = _bound(row, doubtful)
        for other, kept in self._classes.items():
            common = mask & other
            if self._counted is not None and not common & self._counted:
                continue
            table = kept.tables.get(common)
            if table is None:
                table = kept.tables[common] = self._table(kept, common)
            bucket = table.get(_key(row, certain, doubtful, common))
            if bucket is not None:
                yield from bucket.items()

    def _table(self, kept: _Class, common: int) -> dict[Row, Delta]:
        certain, doubtful = self._mine
        table: dict[Row, Delta] = {}
        for row, weight in kept.rows.items():
            table.setdefault(_key(row, certain, doubtful, common), {})[row] = weight
        return table


def _bound(row: Row, columns: tuple[int, ...]) -> int:
    """Return the columns that a row binds, among some columns, as bits."""
    mask = 0
    for bit, at in enumerate(columns):
        if row[at] != UNBOUND:
            mask |= 1 << bit
    return mask


def _key(row: Row, certain: tuple[int, ...], doubtful: tuple[int, ...], common: int) -> Row:
    key = [row[at] for at in certain]
    key += [row[at] for bit, at in enumerate(doubtful) if common >> bit & 1]
    return tuple(key)


class OfTwo:
    """An operator that holds its two inputs."""

    def __init__(self, sides: Sides):
        self._left, self._right = sides.left(), sides.right()

    @property
    def rows_held(self) -> int:
        """Number of rows in its state."""
        return len(self._left) + len(self._right)
