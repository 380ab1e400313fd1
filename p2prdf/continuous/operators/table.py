"""Table: fixed rows."""

from __future__ import annotations

from p2prdf.continuous.operators.zset import Delta

__all__ = ["Table"]


class Table:
    """Output: its rows, all in the first call."""

    rows_held = 0

    def __init__(self, rows: Delta):
        self._rows = rows

    def apply(self, *changes: Delta) -> Delta:
        """See the package; no input."""
        assert not changes, "a table has no input"
        rows, self._rows = self._rows, {}
        return rows
