"""A histogram of durations, from which percentiles and alerts are computed."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Any, Final

__all__ = ["SECONDS", "Histogram"]

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets: from a turn of the event loop to a client's timeout; 15 series, and one for all."""


class Histogram:
    """Counts of durations by bucket; an observation takes one binary search."""

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(SECONDS, seconds)] += 1
        self._sum += seconds

    def status(self) -> dict[str, Any]:
        """Return the cumulative counts for the bounds in ``le``, the count of all, and the sum of seconds."""
        *upto, count = accumulate(self._counts)
        return {"le": list(SECONDS), "upto": upto, "count": count, "sum": round(self._sum, 6)}
