"""The budget of a turn: how long a peer works before its driver continues with other tasks.

A peer reads no clock.  Its work is measured by a *meter*: the driver's, which reads processor time, or, without one, a
nominal cost per step and row, so that simulations stay deterministic.  Steps are never interrupted; after each step
:attr:`Pace.over` shows whether the budget is spent.  See docs/explanation/design/turns.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Pace"]

STEP_SECONDS: Final = 0.000_5
"""Nominal cost of a step: a received message, a stored batch, an answered question of anti-entropy."""
ROW_SECONDS: Final = 0.000_005
"""Nominal cost of a row in a step."""


class Pace:
    """Measures the work of the current turn, in all and by component.

    ``budget_seconds``: the work of one turn.  ``meter``: returns seconds of work since any moment; without it
    the nominal cost counts, multiplied by ``slowness``.
    """

    def __init__(self, budget_seconds: float, meter: Callable[[], float] | None = None, *, slowness: float = 1.0):
        self.budget_seconds = budget_seconds
        self.slowness = slowness
        self.by_component: dict[str, float] = {}
        """Seconds of work by component, until the driver clears it."""
        self._meter = meter
        self._nominal = 0.0
        self._began = self._since = self._now()
        self._component = ""

    def _now(self) -> float:
        return self._nominal if self._meter is None else self._meter()

    def begin(self, component: str = "") -> None:
        """Begin a budget, with a component."""
        self.enter("")
        self.enter(component)
        self._began = self._since

    def enter(self, component: str) -> None:
        """Count the work that follows for a component."""
        if component == self._component:
            return
        now = self._nominal if self._meter is None else self._meter()
        if self._component:
            before = self.by_component.get(self._component, 0.0)
            self.by_component[self._component] = before + now - self._since
        self._component, self._since = component, now

    def did(self, rows: int = 0) -> None:
        """Note a step with so many rows; it counts only without a meter."""
        self._nominal += self.slowness * (STEP_SECONDS + ROW_SECONDS * rows)

    @property
    def spent(self) -> float:
        """Seconds of work since the budget began."""
        return self._now() - self._began

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        now = self._nominal if self._meter is None else self._meter()
        return now - self._began >= self.budget_seconds

    def over_share(self, share: float) -> bool:
        """Return whether the current component has used a share of the budget, or the budget is spent."""
        now = self._now()
        limit = share * self.budget_seconds
        return now - self._since >= limit or now - self._began >= self.budget_seconds
