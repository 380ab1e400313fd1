"""What the demonstration's subscribers hold: rows, identities, and how long answers took."""

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
    """One standing query: where it was left, and everything that came for it.

    ``bulk`` and ``steady`` hold the latencies, in seconds, of answers born before and after
    ``steady_since``.
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
        """Number of answers delivered."""
        return self.rows.total()

    async def collect(self, subscription: Subscription, show: Callable[[Holding, Batch], None]) -> None:
        """Take in batches until cancelled; ``show`` sees each."""
        async for batch in subscription.batches():
            now = time.time()
            for born in batch.born:
                (self.steady if born >= self.steady_since else self.bulk).append(max(0.0, now - born))
            self.rows.update(zip(*batch.columns, strict=True))
            self.identities.update(batch.identities)
            self.lost += batch.lost
            show(self, batch)


def percentile(values: Sequence[float], part: float) -> float | None:
    """Return the value that ``part`` (0 to 1) of the values do not exceed; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
