"""Several heuristics competing on one channel: the one that foresaw most of the recent bindings is asked.

The others are asked as well, about some of the new bindings, what they would have foreseen, and learn from what they
would not.  That costs as much as foreseeing does, so it is done often at the beginning, and rarely as long as the one
that is asked foresees nearly all: none can be much better.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

from p2prdf.channels.category import Categories, Publication
from p2prdf.channels.heuristic import Heuristic, Outcome
from p2prdf.channels.query import Row

__all__ = ["Competition"]

_COMPARED_FIRST: Final = 64
"""New bindings about which all are asked at the beginning."""
_COMPARED_EVERY: Final = 8
"""Later it is one of so many,"""
_COMPARED_RARELY: Final = 64
"""or of so many, also at the beginning, as long as the one that is asked foresees nearly all."""
_NEARLY_ALL: Final = 0.9
_COMPARED_LEAST: Final = 10
"""New bindings from which a rate says something."""
_BETTER: Final = 0.05
"""By how much more of the new bindings another one must foresee to be the one that is asked."""


class Competition:
    """The heuristics of a channel."""

    def __init__(self, heuristics: Sequence[Heuristic]):
        """``heuristics``: at least one; the first is asked until another is better."""
        self.every = tuple(heuristics)
        self._active = 0
        self._heard = 0

    @property
    def categories(self) -> Categories:
        """What the one that is asked goes by."""
        return self.every[self._active].categories

    @property
    def entries(self) -> int:
        """Entries of all of them."""
        return sum(len(each.table) for each in self.every)

    def begin(self, rows: Sequence[Row]) -> None:
        """Let all take in some bindings that there are at the beginning."""
        for each in self.every:
            each.begin(rows)

    def test(self, publication: Publication, known: Sequence[Container[Row]], over: Callable[[], bool]) -> Outcome:
        """Return what is foreseen at a publication, as :meth:`Heuristic.test` does."""
        return self.every[self._active].test(publication, known, over)

    def heard(self, row: Row, publications: Sequence[Publication], *, foreseen: bool) -> None:
        """Learn from a new binding that some publications may have brought; ``foreseen``: it was told early."""
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
        """Give up the worst entries."""
        for each in self.every:
            if len(each.table):
                each.table.prune()

    def _compared(self) -> bool:
        """Tell whether all are asked about the next new binding."""
        if len(self.every) == 1:
            return False
        self._heard += 1
        active = self.every[self._active]
        if len(active.foreseen) >= _COMPARED_LEAST and active.rate >= _NEARLY_ALL:
            return self._heard % _COMPARED_RARELY == 0
        return self._heard <= _COMPARED_FIRST or self._heard % _COMPARED_EVERY == 0

    def _choose(self) -> None:
        """Ask the one that foresaw most of the recent bindings from now on, if it is clearly better."""
        best = max(range(len(self.every)), key=lambda at: self.every[at].rate)
        enough = len(self.every[best].foreseen) >= _COMPARED_LEAST
        if enough and self.every[best].rate > self.every[self._active].rate + _BETTER:
            self._active = best
