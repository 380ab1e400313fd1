"""Group: one row per group, with its aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from p2prdf.continuous.operators.aggregates import Accumulator
from p2prdf.continuous.operators.zset import Delta, OfOne, Row, add

__all__ = ["Group"]


class _Group:
    __slots__ = ("accumulators", "size")

    def __init__(self, makers: Sequence[Callable[[], Accumulator]]):
        self.size = 0
        self.accumulators = [make() for make in makers]


class Group(OfOne):
    """Output: keys and aggregates of each group of rows above zero; without keys, one row also if it is empty.

    Holds the input, since rows below zero may rise later, and the state of each aggregate.  A change costs one step
    per row and aggregate, and one result per aggregate of each group that it touches.
    """

    def __init__(
        self,
        keys: tuple[int, ...],
        arguments: Sequence[tuple[int, ...]],
        makers: Sequence[Callable[[], Accumulator]],
    ):
        """``arguments``: the columns that each aggregate reads; ``makers``: the factories of its accumulators."""
        super().__init__()
        self._keys = keys
        self._arguments = arguments
        self._makers = makers
        self._groups: dict[Row, _Group] = {}
        self._given: dict[Row, Row] = {}
        """The output by key."""

    @property
    def rows_held(self) -> int:
        """Number of rows in its state."""
        return len(self._rows) + len(self._given)

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        touched: dict[Row, None] = {}
        for row, before, after in self._changed(changes[0]):
            if after != before:
                key = tuple([row[at] for at in self._keys])
                touched[key] = None
                self._take(key, row, after - before)
        if not self._keys and not self._given:
            touched[()] = None
        out: Delta = {}
        for key in touched:
            self._give(key, out)
        return out

    def _take(self, key: Row, row: Row, more: int) -> None:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(self._makers)
        group.size += more
        for accumulator, columns in zip(group.accumulators, self._arguments, strict=True):
            accumulator.add(tuple([row[at] for at in columns]), more)

    def _give(self, key: Row, out: Delta) -> None:
        """Replace a group's row in the output."""
        group = self._groups.get(key)
        if group is not None and not group.size:
            group = None
            del self._groups[key]
        if group is None and not self._keys:
            group = _Group(self._makers)
        before = self._given.pop(key, None)
        if before is not None:
            add(out, before, -1)
        if group is not None:
            row = self._given[key] = key + tuple([each.result() for each in group.accumulators])
            add(out, row, 1)
