"""The choice between maintenance and recomputation, by counts of facts; no clock is read here.

Maintenance processes every fact with a new label and drops expired ones; recomputation puts every fact once.  The
estimate for maintenance is the number of changed given facts, times the facts that a change touched recently, times
the relative cost of a touched fact.  The facts per change depend on the data, and fall in large steps, because
changes then touch the same facts.

Recomputing steps would let this estimate grow old.  One in ``_COUNT_STEPS`` of them therefore compares the labels
before and after: maintenance would have touched as many facts as differ.  Rejected: an occasional maintained step
instead, which was expensive.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLOSED_MEND_FACTOR", "MEND_FACTOR", "Effort"]

MEND_FACTOR: Final = 1.8
"""The cost of a touched fact in maintenance, relative to that of a fact in recomputation.

From ``p2prdf experiment incremental-reasoning --scale 1``: both take equally long when a third of the window changes
in a step.  The step then raises 13,300 facts, and drops 12,000, of 22,400, which makes 1.7.  The factor is a little
larger because in small windows, which stay in the processor's cache, recomputation is cheaper still.
"""
CLOSED_MEND_FACTOR: Final = 1.4
"""The same with transitive relations that are closed edge by edge: their maintenance costs less.

From the same command: both take equally long when half of the window changes, in trees; with two parents a node
(``--scale 0.05 --depth 10 --parents 2 --steps 25``) when two fifths change.
"""
_WEIGHT: Final = 0.5
"""Weight of the last step in the moving average."""
_COUNT_STEPS: Final = 8
"""One of so many recomputing steps counts the touched facts, which takes some hundredths of its time."""


class Effort:
    """The number of facts that a change touches, and the decision for the next step."""

    def __init__(self, mend_factor: float = MEND_FACTOR) -> None:
        """``mend_factor``: the cost of a fact in maintenance, relative to that of a fact in recomputation."""
        self._mend_factor = mend_factor
        self._per_change = 1.0
        self._steps_anew = 0

    @property
    def counts(self) -> bool:
        """Whether the current recomputing step must count the facts that maintenance would touch.

        The count goes to :meth:`touched`.
        """
        return self._steps_anew % _COUNT_STEPS == 1

    def anew(self, changes: int, facts: int) -> bool:
        """Return whether a step with so many changes of given facts, among so many facts, should recompute."""
        if changes * self._per_change * self._mend_factor > facts:
            self._steps_anew += 1
            return True
        self._steps_anew = 0
        return False

    def touched(self, changes: int, facts: int) -> None:
        """Record the number of facts that a step touched."""
        if changes:
            self._per_change += _WEIGHT * (facts / changes - self._per_change)
