"""Join: compatible rows merged."""

from __future__ import annotations

from p2prdf.continuous.operators.matching import OfTwo, Sides
from p2prdf.continuous.operators.zset import UNBOUND, Delta, Row, add

__all__ = ["Join", "Merge"]


class Merge:
    """Merges two compatible rows: the left columns, then the right columns that are not shared."""

    __slots__ = ("_doubtful", "_others", "_padding")

    def __init__(self, sides: Sides, right_width: int):
        shared = {right for _, right in sides.pairs}
        self._others = tuple(at for at in range(right_width) if at not in shared)
        self._doubtful = tuple(sides.pairs[at] for at in sides.doubtful)
        self._padding = (UNBOUND,) * len(self._others)

    def __call__(self, left: Row, right: Row) -> Row:
        """Return the merged row."""
        merged = (*left, *[right[at] for at in self._others])
        for mine, other in self._doubtful:
            if merged[mine] == UNBOUND and right[other] != UNBOUND:
                merged = (*merged[:mine], right[other], *merged[mine + 1 :])
        return merged

    def alone(self, left: Row) -> Row:
        """Return a left row merged with nothing."""
        return left + self._padding


class Join(OfTwo):
    """Output: each two compatible rows merged, with the product of their multiplicities.

    Bilinear, also for negative multiplicities.  Holds both inputs.  A changed row costs its matches on the other
    side.
    """

    def __init__(self, sides: Sides, right_width: int):
        super().__init__(sides)
        self._merge = Merge(sides, right_width)

    def apply(self, *changes: Delta) -> Delta:
        """See the package; left and right input."""
        of_left, of_right = changes
        out: Delta = {}
        merge = self._merge
        # dL with the old right side, then the new left side with dR: each pair once.
        for row, weight in of_left.items():
            for other, times in self._right.matches(row):
                add(out, merge(row, other), weight * times)
            self._left.add(row, weight)
        for row, weight in of_right.items():
            for other, times in self._left.matches(row):
                add(out, merge(other, row), weight * times)
            self._right.add(row, weight)
        return out
