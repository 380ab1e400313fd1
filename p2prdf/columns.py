"""Columns: batches of rows in wire, peer and tables, as lists or as numpy arrays.

A batch of rows is a few parallel columns of non-negative integers.  Plain lists are faster for a tiny peer or single
triples, numpy arrays for batches.  The peer is written once against :class:`Columns`, and uses the kind of its
tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["ARRAYS", "LISTS", "ArrayColumns", "Column", "Columns", "Index", "ListColumns", "as_array", "as_list"]

Column: TypeAlias = "list[int] | npt.NDArray[Any]"
Index: TypeAlias = "list[int] | npt.NDArray[np.intp]"


class Columns(Protocol):
    """Operations on columns.  All arguments and results of one call are of the same kind."""

    def column(self, values: Iterable[int], dtype: Any = np.uint64) -> Column:
        """Make a column."""
        ...

    def adopt(self, column: Column, dtype: Any = np.uint64) -> Column:
        """Convert a column of either kind to this one."""
        ...

    def full(self, count: int, value: int, dtype: Any = np.uint64) -> Column:
        """Make a column of ``count`` equal values."""
        ...

    def concat(self, columns: Sequence[Column]) -> Column:
        """Join columns end to end; at least one."""
        ...

    def take(self, column: Column, index: Index) -> Column:
        """Return the values at ``index``."""
        ...

    def split(self, groups: Column) -> list[tuple[int, Index]]:
        """Return each distinct value with the positions that hold it, values ascending."""
        ...


class ListColumns:
    """Plain Python lists of ints."""

    def column(self, values: Iterable[int], dtype: Any = np.uint64) -> list[int]:  # noqa: ARG002
        """Make a column."""
        return list(values)

    def adopt(self, column: Column, dtype: Any = np.uint64) -> list[int]:  # noqa: ARG002
        """Convert a column of either kind to this one."""
        return column if isinstance(column, list) else column.tolist()

    def full(self, count: int, value: int, dtype: Any = np.uint64) -> list[int]:  # noqa: ARG002
        """Make a column of ``count`` equal values."""
        return [value] * count

    def concat(self, columns: Sequence[Column]) -> list[int]:
        """Join columns end to end; at least one."""
        return list(chain.from_iterable(columns))

    def take(self, column: Column, index: Index) -> list[int]:
        """Return the values at ``index``."""
        return [column[i] for i in index]

    def split(self, groups: Column) -> list[tuple[int, Index]]:
        """Return each distinct value with the positions that hold it, values ascending."""
        found: dict[int, list[int]] = {}
        for position, value in enumerate(groups):
            found.setdefault(value, []).append(position)
        return sorted(found.items())


class ArrayColumns:
    """numpy arrays."""

    def column(self, values: Iterable[int], dtype: Any = np.uint64) -> npt.NDArray[Any]:
        """Make a column."""
        return np.array(values if isinstance(values, list) else list(values), dtype)

    def adopt(self, column: Column, dtype: Any = np.uint64) -> npt.NDArray[Any]:
        """Convert a column of either kind to this one."""
        return np.asarray(column, dtype)

    def full(self, count: int, value: int, dtype: Any = np.uint64) -> npt.NDArray[Any]:
        """Make a column of ``count`` equal values."""
        return np.full(count, value, dtype)

    def concat(self, columns: Sequence[Column]) -> npt.NDArray[Any]:
        """Join columns end to end; at least one."""
        return np.asarray(columns[0]) if len(columns) == 1 else np.concatenate(columns)

    def take(self, column: Column, index: Index) -> npt.NDArray[Any]:
        """Return the values at ``index``."""
        taken: npt.NDArray[Any] = np.asarray(column)[index]
        return taken

    def split(self, groups: Column) -> list[tuple[int, Index]]:
        """Return each distinct value with the positions that hold it, values ascending."""
        array = np.asarray(groups)
        if len(array) == 0:
            return []
        first = array[0]
        if (array == first).all():
            return [(int(first), np.arange(len(array)))]
        order = np.argsort(array, kind="stable")
        ranked = array[order]
        starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        return [
            (int(ranked[start]), part)
            for start, part in zip(starts, np.split(order, starts[1:]), strict=True)
        ]


LISTS: Columns = ListColumns()
ARRAYS: Columns = ArrayColumns()


def as_list(column: Column) -> list[int]:
    """Return any column as a list of Python ints."""
    return column if isinstance(column, list) else column.tolist()


def as_array(column: Column, dtype: Any = np.uint64) -> npt.NDArray[Any]:
    """Return any column as an array."""
    return np.asarray(column, dtype)
