"""Settings of channels: how they predict, and within which bounds."""

from __future__ import annotations

import dataclasses
from typing import Final

from p2prdf.channels.category import Categories
from p2prdf.channels.evaluation import Evaluation
from p2prdf.channels.mapping import ENTRIES_MAX
from p2prdf.errors import LocalProtocolError

__all__ = ["BEYOND_PAPER", "PAPER", "SKIP_MAX", "Settings"]

SKIP_MAX: Final = 10
"""Bound on the publications from one run of a query to the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one channel.  Times are in the units of the channels' timer, such as seconds."""

    evaluation: Evaluation = Evaluation.REEXECUTED
    heuristics: tuple[Categories, ...] = tuple(Categories)
    """Ways to assign categories, which compete; none: no predictions."""
    skip_max: int = SKIP_MAX
    """Bound on the interval of runs, in publications: a binding waits for at most ``skip_max`` - 1."""
    threshold: int = 10
    """Number of different elements that make a position key."""
    test_budget: float = 0.005
    """Bound on the time for testing candidates at one publication."""
    analysis_budget: float = 0.005
    """Bound on the time for learning at one publication."""
    candidates_max: int = 16
    """Bound on the candidates tested at one publication."""
    skeletons_tried: int = 2
    """Number of skeletons of one entry that give candidates."""
    alternatives_max: int = 4
    """Bound on the entries that one binding adds."""
    entries_max: int = ENTRIES_MAX
    """Bound on the entries of one mapping table."""
    bindings_first: int = 64
    """Number of initial bindings, evenly spread, that enter the histories."""
    switched: bool = True
    """Whether prediction is off while it has saved less time than it took."""
    patience: float = 0.01
    """Time that prediction may take before it has saved any."""
    patience_runs: float = 8.0
    """Bound on ``patience``, in runs of the query: where runs are cheap, little can be saved."""
    share: float = 0.03
    """Fraction of all processing time that prediction may always take, to notice when it pays again."""

    def validate(self) -> None:
        """Raise LocalProtocolError for values out of bounds."""
        bounds = (
            ("skip_max", 1, SKIP_MAX), ("threshold", 2, 1000), ("candidates_max", 1, 10_000),
            ("skeletons_tried", 1, 32), ("alternatives_max", 1, 64), ("entries_max", 1, 1_000_000),
            ("bindings_first", 0, 100_000),
        )  # fmt: skip
        for name, least, most in bounds:
            if not least <= getattr(self, name) <= most:
                raise LocalProtocolError(f"{name}: {getattr(self, name)} is not between {least} and {most:,}")
        for name in ("test_budget", "analysis_budget", "patience", "patience_runs", "share"):
            if not getattr(self, name) >= 0:  # NaN, too
                raise LocalProtocolError(f"{name}: {getattr(self, name)} is below 0")
        if len(set(self.heuristics)) != len(self.heuristics):
            raise LocalProtocolError("heuristics: a name is repeated")


PAPER: Final = Settings(heuristics=(Categories.COUNT,))
"""The paper's single heuristic."""
BEYOND_PAPER: Final = Settings()
"""All heuristics, in competition."""
