"""Rate limit of a client: a token bucket, filled evenly and drained by the client's publications.

A publication is admitted while the bucket is not empty, and may overdraw it: one of any size gets in, and the next
waits until the debt is paid.  On average a client gets its rate; after a pause it gets one second's worth and one
publication at once.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["Bucket"]

BURST_SECONDS: Final = 1.0


class Bucket:
    """One rate limit of a client or connection, in units per second; ``math.inf``: no limit."""

    def __init__(self, rate: float, now: float):
        self._rate = rate
        self._level = rate * BURST_SECONDS
        self._at = now

    @property
    def full(self) -> bool:
        """Whether the bucket was full at the last look."""
        return self._rate == math.inf or self._level >= self._rate * BURST_SECONDS

    def wait(self, now: float) -> float:
        """Return the seconds until the next admission; 0: now."""
        if self._rate == math.inf:
            return 0.0
        self._level = min(self._level + (now - self._at) * self._rate, self._rate * BURST_SECONDS)
        self._at = now
        return 0.0 if self._level > 0 else (1.0 - self._level) / self._rate

    def take(self, amount: float) -> None:
        """Note an admitted amount."""
        self._level -= amount
