"""How much a client may bring per second: a bucket that fills evenly and is emptied by what it brings.

A publication is let in while there is anything in the bucket, and may overdraw it: so one of any size gets in, and
what follows waits until the debt is paid.  On average a client gets what the quota says; at once, after a pause, one
second's worth and one publication.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["Bucket"]

BURST_SECONDS: Final = 1.0


class Bucket:
    """One quota of one client, or of one connection, in units per second; ``math.inf`` for none."""

    def __init__(self, rate: float, now: float):
        self._rate = rate
        self._level = rate * BURST_SECONDS
        self._at = now

    @property
    def full(self) -> bool:
        """Whether nothing is missing in it, as it was seen last."""
        return self._rate == math.inf or self._level >= self._rate * BURST_SECONDS

    def wait(self, now: float) -> float:
        """Return the seconds until something may come in: 0 if it may now."""
        if self._rate == math.inf:
            return 0.0
        self._level = min(self._level + (now - self._at) * self._rate, self._rate * BURST_SECONDS)
        self._at = now
        return 0.0 if self._level > 0 else (1.0 - self._level) / self._rate

    def take(self, amount: float) -> None:
        """Note what came in."""
        self._level -= amount
