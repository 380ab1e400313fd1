"""Backfill completion: all solutions that were true when a subscription was opened are at its coordinator.

A solution is as young as the last publication of its youngest triple.  If its triples are published again and again,
the solution may be in flight and younger than every low watermark, so a bookmark says nothing about it.  A one-time
query, which reads up to a bookmark, must not miss it.

The backfill is a chain: the query goes to the replicas of its first pattern, rows go from step to step, solutions go
to the coordinator and then to its replicas.  It is complete if nothing of the query was in flight at a cut after the
opening.  Otherwise each further low watermark proves one link: messages sent before a cut have earlier stamps, so a
watermark beyond the cut shows that they were handled, and their results were sent before the watermark's own cut.
After as many watermarks as the chain has links it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2prdf.peer.progress.low_watermark import Known

__all__ = ["Backfill"]

_OTHER_LINKS = 3
"""Links besides those between patterns: the query, solutions to the coordinator, and solutions to its replicas."""


class Backfill:
    """The backfill of one subscription, until it is complete."""

    __slots__ = ("_after", "_home", "_marks")

    def __init__(self, home: int, opened: int, patterns: int):
        """``home``: the ring key of the coordinator; ``opened``: a stamp; ``patterns``: the number of patterns."""
        self._home = home
        self._after = opened
        self._marks = patterns - 1 + _OTHER_LINKS

    def over(self, known: Known) -> bool:
        """Take a low watermark; return whether the backfill is complete.  Call it no more after that."""
        if known.upto <= self._after:
            return False
        self._after = known.at
        self._marks -= 1
        return not self._marks or known.quiet(self._home)
