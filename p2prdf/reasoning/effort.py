"""When it is cheaper to begin anew than to mend: counts of facts, for no clock is read here.

Mending looks at every fact that gets another label, and drops what expired; beginning anew puts every fact once.  So
the two are compared by how many facts a change of a given fact touches, which is remembered from step to step, times
what a fact costs when mended in those of a fact put anew.  What a change touches depends on the data, and falls when
much changes at once, because changes then touch the same facts.

After steps that began anew nothing would be known of what mending costs by now, so now and then such a step compares
the labels it leads to with those there were: as many as differ, mending would have touched.  Mending once in a while
to see was tried before that; it made each such step dear.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLOSED_MEND_FACTOR", "MEND_FACTOR", "Effort"]

MEND_FACTOR: Final = 1.8
"""What a fact that is touched costs when mended, in those of a fact when beginning anew.

From ``p2prdf experiment incremental-reasoning --scale 1``: mending takes as long as beginning anew when a third of the
window changes with a step.  It then raises 13,300 facts, and drops 12,000, of 22,400: that makes 1.7.  A little more,
because in small windows, which stay in the processor's cache, beginning anew is cheaper still."""
CLOSED_MEND_FACTOR: Final = 1.4
"""The same where there are transitive relations that are closed edge by edge: mending them costs less.

From the same command: mending takes as long as beginning anew when half of the window changes, in trees; with two
parents a node (``--scale 0.05 --depth 10 --parents 2 --steps 25``) when two fifths do."""
_WEIGHT: Final = 0.5
"""Of the last step in what is remembered."""
_COUNT_STEPS: Final = 8
"""One step of so many that begin anew counts: that takes some hundredths of its time."""


class Effort:
    """How many facts a change touches, and what follows from it for the next step."""

    def __init__(self, mend_factor: float = MEND_FACTOR) -> None:
        """``mend_factor``: what a fact costs when mended, in those of a fact when beginning anew."""
        self._mend_factor = mend_factor
        self._per_change = 1.0
        self._steps_anew = 0

    @property
    def counts(self) -> bool:
        """Whether the step that begins anew now is to count what mending would have touched, for :meth:`touched`."""
        return self._steps_anew % _COUNT_STEPS == 1

    def anew(self, changes: int, facts: int) -> bool:
        """Return whether a step with so many changes of given facts is to begin anew, there being so many facts."""
        if changes * self._per_change * self._mend_factor > facts:
            self._steps_anew += 1
            return True
        self._steps_anew = 0
        return False

    def touched(self, changes: int, facts: int) -> None:
        """Note how many facts a step touched."""
        if changes:
            self._per_change += _WEIGHT * (facts / changes - self._per_change)
