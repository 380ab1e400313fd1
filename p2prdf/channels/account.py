"""Whether speculation pays, and how many publications a query may be left out for.

The account of a channel has on one side what speculation took: testing candidates, and learning.  On the other side is
what it saved: for each binding that was foreseen the time by which it was told earlier, and for each run that was left
out *because bindings are foreseen* what a run takes.  (Runs that are left out because new bindings are rare are no
merit of it.)  While the balance is negative nothing is tested and nothing learned.

A small share of all processing is credited in any case, so a channel finds out when its data changes: once in a while
the balance is positive again, one publication is looked at, and if that saves nothing the balance is negative
again, and the share is halved, down to a sixteenth; it is whole again when anything is saved.  So what speculation
takes without saving anything is never more than that share and the patience at the beginning.  The patience is no more
than what a few runs take: where a run takes hardly any time there is little to save.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from typing import Final

__all__ = ["HITS_CONSIDERED", "HITS_NEEDED", "RATE_WINDOW", "Account", "Schedule"]

HITS_CONSIDERED: Final = 10
"""New bindings by which it is judged how well they are foreseen (the paper's Figures 4 and 5)."""
HITS_NEEDED: Final = 0.8
"""The part of these that must be foreseen for queries to be left out."""
_HITS_LEAST: Final = 3
"""New bindings from which that is judged, at the beginning."""
_HALVED_MAX: Final = 4
RATE_WINDOW: Final = 100
"""Publications over which the rate of new bindings is taken."""


@dataclasses.dataclass(slots=True)
class Account:
    """What speculation took and saved, in the timer's units."""

    patience: float
    share: float
    patience_runs: float = math.inf
    """The patience is no more than what so many runs take."""
    balance: float = dataclasses.field(init=False)
    took: float = 0.0
    saved: float = 0.0
    run_time: float = 0.0
    """What a run takes: the mean, the last ones counting most."""
    runs: int = 0
    running: float = 0.0
    """All time that runs took."""
    _vain: int = 0
    """How often the share was halved."""

    def __post_init__(self) -> None:
        self.balance = self.patience

    @property
    def in_credit(self) -> bool:
        """Whether speculation may take time."""
        return self.balance >= 0

    @property
    def _credit_max(self) -> float:
        return min(self.patience, self.patience_runs * self.run_time) if self.runs else self.patience

    def spend(self, time: float) -> None:
        """Speculation took time."""
        was = self.balance
        self.took += time
        self.balance -= time
        if self.balance < 0 <= was and self._vain < _HALVED_MAX:
            self._vain += 1

    def save(self, time: float) -> None:
        """Speculation saved time; no more than the patience is kept as credit."""
        self.saved += time
        self.balance = min(self.balance + time, self._credit_max)
        if time > 0:
            self._vain = 0

    def ran(self, time: float) -> None:
        """A run took time."""
        self.runs += 1
        self.running += time
        self.run_time = time if self.runs == 1 else self.run_time + (time - self.run_time) / 8
        self.worked(time)

    def worked(self, time: float) -> None:
        """Other processing than speculation took time: a share is credited."""
        self.balance = min(self.balance + self.share * time / (1 << self._vain), self._credit_max)


class Schedule:
    """At which publications a query runs.

    A query runs at every n-th publication, n between 1 and ``skip_max``: as many as the paper allows if at least eight
    of the last ten new bindings were foreseen (or so many of the first few), for then most are told without it; and no
    more often than new bindings come.
    """

    def __init__(self, skip_max: int):
        self._skip_max = skip_max
        self.hits: deque[bool] = deque(maxlen=HITS_CONSIDERED)
        """Of the last new bindings, which were foreseen."""
        self._foreseen = 0
        """How many of these; it is asked for at each publication, and changes with new bindings alone."""
        self._news: deque[int] = deque(maxlen=RATE_WINDOW)
        self._total = 0
        self.waiting = 0
        """Publications since the last run."""

    def published(self) -> None:
        """A graph was published."""
        self.waiting += 1
        if len(self._news) == RATE_WINDOW:
            self._total -= self._news[0]
        self._news.append(0)

    def told(self, foreseen: bool) -> None:
        """A new binding was told of, early or by a run."""
        self.hits.append(foreseen)
        self._foreseen = sum(self.hits)
        if self._news:
            self._news[-1] += 1
            self._total += 1

    def ran(self) -> None:
        """The query ran."""
        self.waiting = 0

    @property
    def by_hits(self) -> int:
        """Publications from run to run, by how well bindings are foreseen."""
        known = len(self.hits)
        return self._skip_max if known >= _HITS_LEAST and self._foreseen >= HITS_NEEDED * known else 1

    @property
    def by_rate(self) -> int:
        """Publications from run to run, by how rare new bindings are; at least one."""
        seen = len(self._news)
        if seen < HITS_CONSIDERED:
            return 1
        return min(self._skip_max, seen // self._total if self._total else seen)

    @property
    def interval(self) -> int:
        """Publications from run to run."""
        by_hits = self.by_hits
        return by_hits if by_hits >= self._skip_max else max(by_hits, self.by_rate)

    @property
    def due(self) -> bool:
        """Whether the query is to run now."""
        return self.waiting >= self.interval
