"""How channels speculate, and within what bounds."""

from __future__ import annotations

import dataclasses
from typing import Final

from p2prdf.channels.category import Categories
from p2prdf.channels.evaluation import Evaluation
from p2prdf.channels.mapping import ENTRIES_MAX
from p2prdf.errors import LocalProtocolError

__all__ = ["BEYOND_PAPER", "PAPER", "SKIP_MAX", "Settings"]

SKIP_MAX: Final = 10
"""Most publications from one run of a query to the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Of one channel.  Times are in the units of the timer that the channels are given: seconds, say."""

    evaluation: Evaluation = Evaluation.REEXECUTED
    heuristics: tuple[Categories, ...] = tuple(Categories)
    """Ways to tell categories apart, which compete; none: nothing is foreseen."""
    skip_max: int = SKIP_MAX
    """Queries run at each publication (1), or at every n-th at most: no binding waits for more than n - 1 others."""
    threshold: int = 10
    """Different elements that make a position key."""
    test_budget: float = 0.005
    """Time that testing candidates may take at one publication."""
    analysis_budget: float = 0.005
    """Time that learning may take at one publication."""
    candidates_max: int = 16
    """Most candidates that are tested at one publication."""
    skeletons_tried: int = 2
    """Of one entry's skeletons, how many give candidates."""
    alternatives_max: int = 4
    """Most entries that one binding gives."""
    entries_max: int = ENTRIES_MAX
    """Most entries of one mapping table."""
    bindings_first: int = 64
    """Of the bindings that there are at the beginning, how many enter the histories, spread evenly."""
    switched: bool = True
    """Whether speculation is off while it has saved less than it took."""
    patience: float = 0.01
    """Time that speculation may take before it has saved anything,"""
    patience_runs: float = 8.0
    """or what so many runs of the query take, if that is less: then little can be saved."""
    share: float = 0.03
    """Part of all processing that speculation may always take: how a channel finds out that it pays again."""

    def validate(self) -> None:
        """Raise LocalProtocolError for what cannot be."""
        bounds = (
            ("skip_max", 1, SKIP_MAX), ("threshold", 2, 1000), ("candidates_max", 1, 10_000),
            ("skeletons_tried", 1, 32), ("alternatives_max", 1, 64), ("entries_max", 1, 1_000_000),
            ("bindings_first", 0, 100_000),
        )  # fmt: skip
        for name, least, most in bounds:
            if not least <= getattr(self, name) <= most:
                raise LocalProtocolError(f"{name}: {getattr(self, name)} is not between {least} and {most:,}")
        for name in ("test_budget", "analysis_budget", "patience", "patience_runs", "share"):
            if not getattr(self, name) >= 0:  # also what is no number
                raise LocalProtocolError(f"{name}: {getattr(self, name)} is below 0")
        if len(set(self.heuristics)) != len(self.heuristics):
            raise LocalProtocolError("heuristics: each is named once")


PAPER: Final = Settings(heuristics=(Categories.COUNT,))
"""The paper's one heuristic."""
BEYOND_PAPER: Final = Settings()
"""All heuristics, competing."""
