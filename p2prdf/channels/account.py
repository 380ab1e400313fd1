"""Whether prediction pays, and for how many publications the query may be skipped.

A channel's account debits the time of tests and of learning. It credits the time by which each predicted
binding was reported earlier, and the time of each run skipped *because bindings are predicted*. (Runs skipped
because new bindings are rare are not credited.) While the balance is negative the channel neither tests nor
learns.

A small share of all processing time is credited in any case, so that the channel notices when its data changes.
If the next test saves nothing, the share is halved, down to a sixteenth; any saving restores it. Prediction
without savings therefore costs at most that share and the initial patience, which is at most the time of a few
runs. docs/explanation/channels.md describes the account.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from typing import Final

__all__ = ["HITS_CONSIDERED", "HITS_NEEDED", "RATE_WINDOW", "Account", "Schedule"]

HITS_CONSIDERED: Final = 10
"""Number of recent new bindings that decide how good predictions are (the paper's Figures 4 and 5)."""
HITS_NEEDED: Final = 0.8
"""The fraction of these that must be predicted for runs to be skipped."""
_HITS_LEAST: Final = 3
"""Least number of new bindings for that decision, at the beginning."""
_HALVED_MAX: Final = 4
RATE_WINDOW: Final = 100
"""Number of publications over which the rate of new bindings is measured."""


@dataclasses.dataclass(slots=True)
class Account:
    """Time that prediction took and saved, in the timer's units."""

    patience: float
    share: float
    patience_runs: float = math.inf
    """Bound on the patience, in runs of the query."""
    balance: float = dataclasses.field(init=False)
    took: float = 0.0
    saved: float = 0.0
    run_time: float = 0.0
    """Mean time of a run, weighted towards the last runs."""
    runs: int = 0
    running: float = 0.0
    """Total time of all runs."""
    _vain: int = 0
    """How often the share was halved."""

    def __post_init__(self) -> None:
        self.balance = self.patience

    @property
    def in_credit(self) -> bool:
        """Whether prediction may take time."""
        return self.balance >= 0

    @property
    def _credit_max(self) -> float:
        return min(self.patience, self.patience_runs * self.run_time) if self.runs else self.patience

    def spend(self, time: float) -> None:
        """Debit time that prediction took."""
        was = self.balance
        self.took += time
        self.balance -= time
        if self.balance < 0 <= was and self._vain < _HALVED_MAX:
            self._vain += 1

    def save(self, time: float) -> None:
        """Credit time that prediction saved; the balance is at most the patience."""
        self.saved += time
        self.balance = min(self.balance + time, self._credit_max)
        if time > 0:
            self._vain = 0

    def ran(self, time: float) -> None:
        """Note the time of a run."""
        self.runs += 1
        self.running += time
        self.run_time = time if self.runs == 1 else self.run_time + (time - self.run_time) / 8
        self.worked(time)

    def worked(self, time: float) -> None:
        """Credit the share of other processing time."""
        self.balance = min(self.balance + self.share * time / (1 << self._vain), self._credit_max)


class Schedule:
    """Decides at which publications a query runs.

    It runs at every n-th publication, n between 1 and ``skip_max``. If at least eight of the last ten new
    bindings were predicted (or that fraction of the first few), most are reported without a run, and n is the
    paper's maximum. Otherwise the query runs no more often than new bindings appear.
    """

    def __init__(self, skip_max: int):
        self._skip_max = skip_max
        self.hits: deque[bool] = deque(maxlen=HITS_CONSIDERED)
        """For each of the last new bindings, whether it was predicted."""
        self._foreseen = 0
        """Their sum. It is read at each publication and changes only with new bindings."""
        self._news: deque[int] = deque(maxlen=RATE_WINDOW)
        self._total = 0
        self.waiting = 0
        """Publications since the last run."""

    def published(self) -> None:
        """Note a publication."""
        self.waiting += 1
        if len(self._news) == RATE_WINDOW:
            self._total -= self._news[0]
        self._news.append(0)

    def reported(self, foreseen: bool) -> None:
        """Note that a new binding was reported, early or by a run."""
        self.hits.append(foreseen)
        self._foreseen = sum(self.hits)
        if self._news:
            self._news[-1] += 1
            self._total += 1

    def ran(self) -> None:
        """Note a run of the query."""
        self.waiting = 0

    @property
    def by_hits(self) -> int:
        """Publications between runs, by the quality of predictions."""
        known = len(self.hits)
        return self._skip_max if known >= _HITS_LEAST and self._foreseen >= HITS_NEEDED * known else 1

    @property
    def by_rate(self) -> int:
        """Publications between runs, by the rarity of new bindings; at least one."""
        seen = len(self._news)
        if seen < HITS_CONSIDERED:
            return 1
        return min(self._skip_max, seen // self._total if self._total else seen)

    @property
    def interval(self) -> int:
        """Publications between runs."""
        by_hits = self.by_hits
        return by_hits if by_hits >= self._skip_max else max(by_hits, self.by_rate)

    @property
    def due(self) -> bool:
        """Whether the query must run now."""
        return self.waiting >= self.interval
