"""Calls to come of one machine: a heap, one deadline, and an eye on whether the machine itself is held up.

A loop that is held up finds its timers late, and what others said meanwhile still unread.  Then their silence
proves nothing.  So after a late wake there is a time of *grace*, in which nobody should be judged by it
(Lifeguard: Dadgar, Phillips, Currey, "Lifeguard: local health awareness for more accurate failure
detection", 2018, where a late member trusts itself less).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LATE_SECONDS", "Timers"]

LATE_SECONDS: Final = 0.1
"""A wake is late from here on."""
GRACE_SECONDS_MAX: Final = 0.5


class Timers:
    """Calls at times, those of one time in the order they were made.  What is called finds out if it still applies."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0
        self.grace_until = float("-inf")
        self.late = 0
        """Number of late wakes."""

    @property
    def deadline(self) -> float | None:
        """When the next call is due."""
        return self._heap[0][0] if self._heap else None

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Have ``call`` made at a time."""
        self._made += 1
        heappush(self._heap, (when, self._made, call))

    def run(self, now: float) -> bool:
        """Make the calls that are due, and tell whether that was late.  Calls made meanwhile wait for the next time."""
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
        """Forget all calls."""
        self._heap.clear()
