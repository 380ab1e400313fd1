"""When all has come that was true when a subscription was opened.

The problem.  An answer is born with the last publication of its latest triple.  If its triples are published again and
again, it may still be under way when the low mark is past the opening, and be younger than the mark: the mark
does not tell of it.  A bookmark says so much and no more: what follows is born later.  But who reads a query once,
up to a bookmark, would miss an answer that has been true for long.

The idea.  What follows from what was stored at the opening is a chain: the query goes to the peers that keep its
first pattern, rows from step to step, answers to the home and from there to its replicas.  If nothing at all was
under way for the query at a cut after the opening, whatever its stamp, all of the chain is done.  If triples of the
query come without end there may be no such cut.  But marks show one link after the other to be done: what was sent
before a cut has a stamp before it, so a mark past that cut tells that it has been dealt with; what followed from it
was sent before the mark's own cut, which the next mark must pass.  So after as many marks as the chain has links it is
done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2prdf.peer.progress.low_watermark import Known

__all__ = ["Seeking"]

_OTHER_LINKS = 3
"""Of a chain, beside those from pattern to pattern: the query, the answers to the home, and to its replicas."""


class Seeking:
    """What is not known yet of one subscription: that all which was true at its opening has come to its home."""

    __slots__ = ("_after", "_home", "_marks")

    def __init__(self, home: int, opened: int, patterns: int):
        """``home``: its ring key; ``opened``: the stamp; ``patterns``: how many the query has."""
        self._home = home
        self._after = opened
        self._marks = patterns - 1 + _OTHER_LINKS

    def over(self, known: Known) -> bool:
        """Take in a low mark; return whether all has come.  It is not to be asked again then."""
        if known.upto <= self._after:
            return False
        self._after = known.at
        self._marks -= 1
        return not self._marks or known.quiet(self._home)
