"""Distinct: each row once."""

from __future__ import annotations

from p2prdf.continuous.operators.zset import Delta, add

__all__ = ["Distinct"]


class Distinct:
    """Output: each row above zero, once.  Holds the input.  One step per changed row."""

    def __init__(self) -> None:
        self._rows: Delta = {}

    @property
    def rows_held(self) -> int:
        """Number of rows in its state."""
        return len(self._rows)

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        out: Delta = {}
        for row, weight in changes[0].items():
            before = self._rows.get(row, 0)
            add(self._rows, row, weight)
            more = (before + weight > 0) - (before > 0)
            if more:
                out[row] = more
        return out
