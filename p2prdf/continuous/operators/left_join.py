"""LeftJoin: OPTIONAL; a row without a match is output alone and retracted when a match arrives."""

from __future__ import annotations

from collections.abc import Callable

from p2prdf.continuous.operators.join import Merge
from p2prdf.continuous.operators.matching import OfTwo, Sides
from p2prdf.continuous.operators.zset import Delta, Row, add

__all__ = ["LeftJoin"]


class LeftJoin(OfTwo):
    """Output: each left row merged with each compatible right row that meets the condition; alone if there is none.

    The condition is evaluated on the merged row.  Linear in the left input.  Of the right input only rows above zero
    count.  Holds both inputs, and the number of distinct matches of each left row.  A changed row costs its matches
    on the other side.
    """

    def __init__(self, sides: Sides, right_width: int, holds: Callable[[Row], bool] | None):
        super().__init__(sides)
        self._merge = Merge(sides, right_width)
        self._holds = holds
        self._partners: dict[Row, int] = {}
        """The number of distinct matches of each left row held."""

    def apply(self, *changes: Delta) -> Delta:
        """See the package; left and right input."""
        of_left, of_right = changes
        out: Delta = {}
        self._apply_right(of_right, out)
        for row, weight in of_left.items():
            self._apply_left(row, weight, out)
        return out

    def _apply_right(self, change: Delta, out: Delta) -> None:
        """Add and remove right rows; then handle left rows that gained their first match or lost their last."""
        before: dict[Row, int] = {}
        for row, weight in change.items():
            old, new = self._right.add(row, weight)
            more = max(new, 0) - max(old, 0)
            if not more:
                continue
            for left, times in self._left.matches(row):
                merged = self._merge(left, row)
                if self._holds is not None and not self._holds(merged):
                    continue
                add(out, merged, times * more)
                before.setdefault(left, self._partners[left])
                self._partners[left] += (new > 0) - (old > 0)
        for left, count in before.items():
            if (count > 0) != (self._partners[left] > 0):
                add(out, self._merge.alone(left), self._left.get(left) * (1 if count else -1))

    def _apply_left(self, row: Row, weight: int, out: Delta) -> None:
        partners = 0
        for other, times in self._right.matches(row):
            if times < 0:
                continue
            merged = self._merge(row, other)
            if self._holds is None or self._holds(merged):
                partners += 1
                add(out, merged, weight * times)
        if not partners:
            add(out, self._merge.alone(row), weight)
        if self._left.add(row, weight)[1]:
            self._partners[row] = partners
        else:
            self._partners.pop(row, None)
