"""Exists and Minus: left rows, filtered or marked by whether a matching right row exists."""

from __future__ import annotations

from p2prdf.continuous.operators.matching import OfTwo, Sides
from p2prdf.continuous.operators.zset import Delta, Row, add

__all__ = ["Existence"]


class Existence(OfTwo):
    """Output: the left rows with a matching right row, or those without one, or all with a mark.

    ``sides`` define the match: compatible rows for EXISTS; for MINUS, additionally with a common bound variable.
    Linear in the left input.  Of the right input only the shared columns count, and only rows above zero.  Holds the
    left rows, each with its number of distinct matches, and the right rows, reduced to the shared columns.  A changed
    left row costs its matches.  Right rows that appear or vanish cost the left rows they match.
    """

    def __init__(self, sides: Sides, found: tuple[int, ...] | None, missing: tuple[int, ...] | None):
        """``found``: the suffix of a left row with a match; ``missing``: of one without; None drops the row."""
        self._columns = tuple(right for _, right in sides.pairs)
        super().__init__(sides.narrowed())
        self._found, self._missing = found, missing
        self._partners: dict[Row, int] = {}
        """The number of distinct matches of each left row held."""

    def apply(self, *changes: Delta) -> Delta:
        """See the package; left and right input."""
        of_left, of_right = changes
        out: Delta = {}
        columns = self._columns
        narrowed: Delta = {}
        for row, weight in of_right.items():
            add(narrowed, tuple([row[at] for at in columns]), weight)
        before: dict[Row, int] = {}
        for row, weight in narrowed.items():
            old, new = self._right.add(row, weight)
            more = (new > 0) - (old > 0)
            if more:
                for left, _ in self._left.matches(row):
                    before.setdefault(left, self._partners[left])
                    self._partners[left] += more
        for left, count in before.items():
            if (count > 0) != (self._partners[left] > 0):
                times = self._left.get(left)
                self._give(out, left, -times, there=count > 0)
                self._give(out, left, times, there=count == 0)
        for row, weight in of_left.items():
            partners = sum(times > 0 for _, times in self._right.matches(row))
            self._give(out, row, weight, there=partners > 0)
            if self._left.add(row, weight)[1]:
                self._partners[row] = partners
            else:
                self._partners.pop(row, None)
        return out

    def _give(self, out: Delta, row: Row, weight: int, *, there: bool) -> None:
        behind = self._found if there else self._missing
        if behind is not None:
            add(out, row + behind, weight)
