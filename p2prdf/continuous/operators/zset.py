"""Rows and Z-sets: the data that operators exchange.

A row is a tuple of term numbers of the :class:`~p2prdf.rdf.dictionary.TermDictionary`; UNBOUND stands for a variable
without a value.  A Z-set is a dict of rows with their multiplicities, none of which is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeAlias

__all__ = ["FIXED_UNBOUND", "UNBOUND", "Delta", "OfOne", "Operator", "Row", "add", "consolidated"]

Row: TypeAlias = tuple[int, ...]
Delta: TypeAlias = dict[Row, int]

UNBOUND: Final = -1
"""No value."""
FIXED_UNBOUND: Final = -2
"""The value of a fixed copy of an unbound column: equal to itself, and not a term."""


class Operator(Protocol):
    """An operator takes changes of its inputs and returns the change of its output."""

    @property
    def rows_held(self) -> int:
        """Number of rows in its state."""
        ...

    def apply(self, *changes: Delta) -> Delta:
        """Take a change of each input, in order; return the change of the output."""
        ...


class OfOne:
    """An operator that holds its one input."""

    def __init__(self) -> None:
        self._rows: Delta = {}

    @property
    def rows_held(self) -> int:
        """Number of rows in its state."""
        return len(self._rows)

    def _changed(self, change: Delta) -> Iterator[tuple[Row, int, int]]:
        """Take a change; yield rows with their multiplicities before and after, zero for those below it."""
        for row, weight in change.items():
            before = self._rows.get(row, 0)
            add(self._rows, row, weight)
            yield row, max(before, 0), max(before + weight, 0)


def add(delta: Delta, row: Row, weight: int) -> None:
    """Add to the multiplicity of a row."""
    found = delta.get(row, 0) + weight
    if found:
        delta[row] = found
    else:
        delta.pop(row, None)


def consolidated(rows: Iterable[tuple[Row, int]]) -> Delta:
    """Return rows with weights, which may repeat, as a Z-set."""
    delta: Delta = {}
    for row, weight in rows:
        add(delta, row, weight)
    return delta
