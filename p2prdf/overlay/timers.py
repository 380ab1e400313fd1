"""Scheduled calls of one state machine, with one deadline and the detection of late wakes.

A stalled event loop runs its timers late while messages of other peers wait unread, so their silence proves nothing.
After a late wake follows a *grace* period, in which no peer should be judged by its silence.  (Lifeguard: Dadgar,
Phillips, Currey, "Lifeguard: local health awareness for more accurate failure detection", 2018.)
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LATE_SECONDS", "Timers"]

LATE_SECONDS: Final = 0.1
"""A wake with more delay counts as late."""
GRACE_SECONDS_MAX: Final = 0.5


class Timers:
    """Scheduled calls, in order of time and then of scheduling.  A call itself checks whether it still applies."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0
        self.grace_until = float("-inf")
        self.late = 0
        """Number of late wakes."""

    @property
    def deadline(self) -> float | None:
        """The time of the next call."""
        return self._heap[0][0] if self._heap else None

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Schedule a call."""
        self._made += 1
        heappush(self._heap, (when, self._made, call))

    def run(self, now: float) -> bool:
        """Run the calls that are due; return whether this wake was late.

        Calls scheduled meanwhile wait for the next wake.
        """
        deadline = self.deadline
        late = deadline is not None and now - deadline > LATE_SECONDS
        if deadline is not None and late:
            self.late += 1
            self.grace_until = now + min(now - deadline, GRACE_SECONDS_MAX)
        last = self._made
        kept = []
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)
            if entry[1] > last:
                kept.append(entry)
            else:
                entry[2]()
        for entry in kept:
            heappush(self._heap, entry)
        return late

    def clear(self) -> None:
        """Cancel all calls."""
        self._heap.clear()
