"""Windows by time: the reports at which a solution over stream elements enters and leaves a window.

Event times are milliseconds since 1970.  At a report, a window ends at the last multiple of its step.  A solution
enters with the first end at or after its latest element, and leaves with the first end that excludes its earliest
element.  Both follow from the solution alone, so a window is two queues.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from p2prdf.continuous.operators.zset import Row
from p2prdf.rdf.algebra import Window

__all__ = ["NEVER", "WindowQueue", "next_multiple"]

NEVER: Final = 1 << 62
"""Later than every report."""


def next_multiple(time: int, step: int) -> int:
    """Return the first multiple of a step at or after a time."""
    return -(-time // step) * step


class WindowQueue:
    """The solutions of one leaf on their way through its window; reports are at the multiples of ``every``."""

    def __init__(self, window: Window, every: int):
        self._window = window
        self._every = every
        self._coming: list[tuple[int, int, int, Row]] = []
        self._going: list[tuple[int, int, Row]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._coming) + len(self._going)

    def add(self, row: Row, oldest: int, youngest: int) -> int:
        """Take in a solution with the times of its earliest and latest element.

        Returns the report at which it enters the window; ``NEVER`` if it never does.
        """
        window = self._window
        first = self._report(youngest)
        if window.range is None:
            last = NEVER if oldest >= window.start else 0
        else:
            last = self._report(oldest + window.range)
        if first >= last:
            return NEVER
        self._count += 1
        heapq.heappush(self._coming, (first, self._count, last, row))
        return first

    def _report(self, end: int) -> int:
        """Return the first report at which the window ends at or after a time."""
        return next_multiple(next_multiple(end, self._window.step), self._every)

    def at(self, report: int) -> Iterable[tuple[Row, int]]:
        """Return the changes of the window up to a report: 1 for solutions that enter, -1 for those that leave."""
        while self._coming and self._coming[0][0] <= report:
            _, number, last, row = heapq.heappop(self._coming)
            if last > report:
                if last < NEVER:
                    heapq.heappush(self._going, (last, number, row))
                yield row, 1
        while self._going and self._going[0][0] <= report:
            yield heapq.heappop(self._going)[2], -1

    @property
    def next(self) -> int:
        """The next report at which the window changes; ``NEVER`` if none is known."""
        coming = self._coming[0][0] if self._coming else NEVER
        return min(coming, self._going[0][0] if self._going else NEVER)
