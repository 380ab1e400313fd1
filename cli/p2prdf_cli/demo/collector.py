"""Received solutions of the demonstration's subscribers: rows, identities and latencies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from p2prdf.client import Batch, Subscription
from p2prdf_cli.demo.queries import StandingQuery

__all__ = ["Holding", "percentile"]


@dataclass(slots=True)
class Holding:
    """One standing query: its node, and all received solutions.

    ``bulk`` and ``steady`` hold the latencies, in seconds, of solutions with a stamp before and after ``steady_since``.
    """

    query: StandingQuery
    node: str
    rows: Counter[tuple[str, ...]] = field(default_factory=Counter)
    identities: Counter[int] = field(default_factory=Counter)
    bulk: list[float] = field(default_factory=list)
    steady: list[float] = field(default_factory=list)
    steady_since: float = float("inf")
    lost: int = 0

    @property
    def answers(self) -> int:
        """Number of delivered solutions."""
        return self.rows.total()

    async def collect(self, subscription: Subscription, show: Callable[[Holding, Batch], None]) -> None:
        """Receive batches until cancelled; ``show`` is called with each."""
        async for batch in subscription.batches():
            now = time.time()
            for born in batch.born:
                (self.steady if born >= self.steady_since else self.bulk).append(max(0.0, now - born))
            self.rows.update(zip(*batch.columns, strict=True))
            self.identities.update(batch.identities)
            self.lost += batch.lost
            show(self, batch)


def percentile(values: Sequence[float], part: float) -> float | None:
    """Return the least value that a share ``part`` (0 to 1) of the values does not exceed; None without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
