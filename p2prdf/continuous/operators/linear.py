"""Linear operators, which have no state: the output of a sum is the sum of the outputs.

Each costs one step per row of the change.
"""

from __future__ import annotations

from collections.abc import Callable

from p2prdf.continuous.operators.zset import FIXED_UNBOUND, UNBOUND, Delta, Row, add

__all__ = ["Extend", "Filter", "Fix", "Project", "Union"]


class Project:
    """Output: the given columns of each row; -1 stands for UNBOUND."""

    rows_held = 0

    def __init__(self, columns: tuple[int, ...]):
        self._columns = columns

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        out: Delta = {}
        columns = self._columns
        for row, weight in changes[0].items():
            add(out, tuple([row[at] if at >= 0 else UNBOUND for at in columns]), weight)
        return out


class Filter:
    """Output: the rows that meet a condition."""

    rows_held = 0

    def __init__(self, holds: Callable[[Row], bool]):
        self._holds = holds

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        holds = self._holds
        return {row: weight for row, weight in changes[0].items() if holds(row)}


class Extend:
    """Output: each row with a computed term appended, UNBOUND if the computation fails."""

    rows_held = 0

    def __init__(self, compute: Callable[[Row], int]):
        self._compute = compute

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        compute = self._compute
        return {(*row, compute(row)): weight for row, weight in changes[0].items()}


class Fix:
    """Output: each row with copies of columns appended, FIXED_UNBOUND if the column is unbound."""

    rows_held = 0

    def __init__(self, columns: tuple[int, ...]):
        self._columns = columns

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        return {
            (*row, *(FIXED_UNBOUND if row[at] == UNBOUND else row[at] for at in self._columns)): weight
            for row, weight in changes[0].items()
        }


class Union:
    """Output: the sum of the inputs."""

    rows_held = 0

    def apply(self, *changes: Delta) -> Delta:
        """See the package; any number of inputs."""
        out = dict(changes[0])
        for change in changes[1:]:
            for row, weight in change.items():
                add(out, row, weight)
        return out
