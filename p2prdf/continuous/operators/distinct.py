"""Distinct: each row once."""

from __future__ import annotations

from p2prdf.continuous.operators.zset import Delta, OfOne

__all__ = ["Distinct"]


class Distinct(OfOne):
    """Output: each row above zero, once.  Holds the input.  One step per changed row."""

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        out: Delta = {}
        for row, before, after in self._changed(changes[0]):
            if more := (after > 0) - (before > 0):
                out[row] = more
        return out
