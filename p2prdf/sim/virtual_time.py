"""Virtual time: a heap of pending calls, and the detection of rest.

There are two kinds of calls.  A *scheduled* call is pending work (a transfer, a script): the world rests only after it.
A *timer* guards (a lease, a retry): the world is at rest if every timer is beyond a horizon.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from p2prdf.errors import P2PRDFError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Restless", "Timer", "VirtualTime"]


class Restless(P2PRDFError):
    """A simulation does not come to rest, or a peer spins without progress."""

    code = "restless"


class Timer:
    """A call at a time; ``cancelled`` ones are skipped."""

    __slots__ = ("action", "arguments", "cancelled", "waited_for", "when")

    def __init__(
        self, when: float, action: Callable[..., None], arguments: tuple[Any, ...], *, waited_for: bool
    ):
        self.when = when
        self.action = action
        self.arguments = arguments
        self.waited_for = waited_for
        self.cancelled = False


class VirtualTime:
    """A clock that jumps from call to call; calls of one instant run in the order they were made.

    ``horizon_seconds``: timers beyond this do not keep the world from rest.  ``events_max``: more calls than this are
    taken for a livelock.
    """

    def __init__(self, start: float, *, horizon_seconds: float, events_max: int):
        self.now = start
        self.under_way = 0
        self._horizon = horizon_seconds
        self._events_max = events_max
        self._events = 0
        self._made = 0
        self._heap: list[tuple[float, int, Timer]] = []

    def schedule(self, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        """Call ``action`` after ``delay`` seconds; the world does not rest before the call."""
        self.under_way += 1
        self._push(Timer(self.now + delay, action, arguments, waited_for=True))

    def set_timer(self, when: float, action: Callable[..., None], *arguments: Any) -> Timer:
        """Call ``action`` at a time, unless the timer is cancelled before; nothing waits for it."""
        return self._push(Timer(when, action, arguments, waited_for=False))

    def _push(self, timer: Timer) -> Timer:
        self._made += 1
        heapq.heappush(self._heap, (timer.when, self._made, timer))
        return timer

    def _next(self) -> float | None:
        """Return when the next call is due."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Make the next call; raises Restless after ``events_max`` of them."""
        self._events += 1
        if self._events > self._events_max:
            raise Restless(f"{self._events} events and no rest: {self.state()}")
        when, _, timer = heapq.heappop(self._heap)
        if not timer.cancelled:
            if when > self.now:
                self.now = when
            self.under_way -= timer.waited_for
            timer.action(*timer.arguments)

    def run_for(self, seconds: float) -> None:
        """Let ``seconds`` of virtual time pass."""
        end, heap = self.now + seconds, self._heap
        while heap and heap[0][0] <= end:
            if heap[0][2].cancelled:
                heapq.heappop(heap)
            else:
                self.step()
        self.now = end

    def run_until(self, condition: Callable[[], bool], limit_seconds: float = 900.0) -> None:
        """Run until the condition holds; raises Restless if it does not within ``limit_seconds``."""
        end = self.now + limit_seconds
        while not condition():
            due = self._next()
            if due is None or due > end:
                raise Restless(f"the condition did not come true in {limit_seconds:g} s: {self.state()}")
            self.step()

    def run_until_quiet(self, limit_seconds: float = 900.0) -> None:
        """Run until nothing is under way and all timers are beyond the horizon.

        Raises Restless, with a description of the pending work, after ``limit_seconds`` of virtual time.
        """
        end = self.now + limit_seconds
        while not self.quiet:
            due = self._next()
            assert due is not None, "what is waited for is in the heap"
            if due > end:
                raise Restless(f"the world did not come to rest in {limit_seconds:g} s: {self.state()}")
            self.step()

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way and every timer is beyond the horizon."""
        if self.under_way:
            return False
        due = self._next()
        return due is None or due > self.now + self._horizon

    def state(self) -> str:
        """Describe the pending work, for an error message."""
        return f"{self.under_way} calls are waited for, {len(self._heap)} are to come"
