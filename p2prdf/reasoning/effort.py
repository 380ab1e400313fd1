"""When it is cheaper to begin anew than to mend: a step is estimated by what such steps have touched."""

from __future__ import annotations

from typing import Final

__all__ = ["Effort"]

MEND_FACTOR: Final = 1.0
"""What a fact that is touched costs when mended, in those of a fact when beginning anew."""
_WEIGHT: Final = 0.25
"""Of the last step in what is remembered."""
_PROBE_STEPS: Final = 32
"""After so many steps in a row that began anew one is mended, to see what that costs now."""


class Effort:
    """How many facts a change touches, and what follows from it for the next step.  Counts only: no clock is read."""

    def __init__(self) -> None:
        self._per_change = 0.0
        self._steps_anew = 0

    def anew(self, changes: int, facts: int) -> bool:
        """Return whether a step with so many changes of given facts is to begin anew, if it leads to so many facts."""
        dear = changes * self._per_change * MEND_FACTOR > facts
        if dear and self._steps_anew < _PROBE_STEPS:
            self._steps_anew += 1
            return True
        self._steps_anew = 0
        return False

    def mended(self, changes: int, touched: int) -> None:
        """Note what a step touched that was mended."""
        if changes:
            self._per_change += _WEIGHT * (touched / changes - self._per_change)
