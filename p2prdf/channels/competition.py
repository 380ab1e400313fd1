"""Competing heuristics of one channel: the one with the best recent predictions is active.

For some of the new bindings, the others are also asked whether they would have predicted them, and they learn
from those they would not. That costs as much as predicting. It is done often at the beginning, and rarely while
the active heuristic predicts nearly all bindings, since no other can be much better.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

from p2prdf.channels.category import Categories, Publication
from p2prdf.channels.heuristic import Heuristic, Outcome
from p2prdf.channels.query import Row

__all__ = ["Competition"]

_COMPARED_FIRST: Final = 64
"""At the beginning, all heuristics are compared at this many new bindings."""
_COMPARED_EVERY: Final = 8
"""Later, at one in this many new bindings."""
_COMPARED_RARELY: Final = 64
"""At one in this many while the active heuristic predicts nearly all, also at the beginning."""
_NEARLY_ALL: Final = 0.9
_COMPARED_LEAST: Final = 10
"""Least number of new bindings that give a meaningful rate."""
_BETTER: Final = 0.05
"""The advantage, as a fraction of new bindings, with which another heuristic becomes active."""


class Competition:
    """The heuristics of a channel."""

    def __init__(self, heuristics: Sequence[Heuristic]):
        """``heuristics``: at least one; the first is active until another is better."""
        self.every = tuple(heuristics)
        self._active = 0
        self._heard = 0

    @property
    def categories(self) -> Categories:
        """The categories of the active heuristic."""
        return self.every[self._active].categories

    @property
    def entries(self) -> int:
        """Number of entries of all heuristics."""
        return sum(len(each.table) for each in self.every)

    def begin(self, rows: Sequence[Row]) -> None:
        """Let all heuristics learn from some of the bindings at the beginning."""
        for each in self.every:
            each.begin(rows)

    def test(self, publication: Publication, known: Sequence[Container[Row]], over: Callable[[], bool]) -> Outcome:
        """Return the active heuristic's predictions for a publication; see :meth:`Heuristic.test`."""
        return self.every[self._active].test(publication, known, over)

    def heard(self, row: Row, publications: Sequence[Publication], *, foreseen: bool) -> None:
        """Learn from a new binding and its possible causes; ``foreseen``: it was reported early."""
        compared = self._compared()
        if foreseen and not compared:
            return
        for number, each in enumerate(self.every):
            if number == self._active:
                right = foreseen
            elif not compared:
                continue
            else:
                right = each.foresees(row, publications)
            if compared:
                each.foreseen.append(right)
            if not right:
                each.learn(row, publications)
        if compared:
            self._choose()

    def prune(self) -> None:
        """Drop the worst entries."""
        for each in self.every:
            if len(each.table):
                each.table.prune()

    def _compared(self) -> bool:
        """Return whether all heuristics are compared at the next new binding."""
        if len(self.every) == 1:
            return False
        self._heard += 1
        active = self.every[self._active]
        if len(active.foreseen) >= _COMPARED_LEAST and active.rate >= _NEARLY_ALL:
            return self._heard % _COMPARED_RARELY == 0
        return self._heard <= _COMPARED_FIRST or self._heard % _COMPARED_EVERY == 0

    def _choose(self) -> None:
        """Activate the heuristic with the best recent predictions, if it is clearly better."""
        best = max(range(len(self.every)), key=lambda at: self.every[at].rate)
        enough = len(self.every[best].foreseen) >= _COMPARED_LEAST
        if enough and self.every[best].rate > self.every[self._active].rate + _BETTER:
            self._active = best
