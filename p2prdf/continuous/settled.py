"""Settled evaluation: the subscriber is told states of the graph that existed, at marks.

A *mark* is a stamp.  After a mark, the delivered solutions that are not retracted are the answer to the graph as of
that stamp.  Changes of the leaves are held back until a low watermark shows that all changes up to a stamp are here.
Those up to it then pass through the operators together, and the difference to the delivered set is delivered before
the mark.  Changes with later stamps stay held back.

A leaf has one pattern, so a change has an exact stamp: that of the publication which began the interval of a triple,
or of the deletion which ended it.  There are two exceptions.  A solution that a backfill or a recomputation derives
has the stamp of the *latest* publication, and a solution that was retracted before the evaluation began is unknown.
The first mark therefore comes after everything that was known at the beginning, and so does the first mark of each
view of the members.

While a mark is being delivered, further low watermarks only raise the next goal: a slow subscriber gets fewer marks,
each with the net change.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from p2prdf import hlc
from p2prdf.continuous.counts import Mark
from p2prdf.continuous.evaluation import Evaluation, News

if TYPE_CHECKING:
    from p2prdf.continuous.delivered_set import DeliveredSet
    from p2prdf.continuous.leaf import Change, Leaf
    from p2prdf.continuous.operators.zset import Row
    from p2prdf.rdf.algebra import StandingQuery
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.result_log import ResultLog

__all__ = ["SettledEvaluation"]


class SettledEvaluation(Evaluation):
    """The operators of a query, the changes that are held back, and the delivered set."""

    def __init__(self, query: StandingQuery, leaves: Sequence[Leaf], dictionary: TermDictionary, clock: int):
        """``clock``: the present stamp; everything that was recorded until now has an earlier one."""
        super().__init__(query, leaves, hlc.FIRST, dictionary)
        self._held: list[tuple[int, int, int, Row, int]] = []
        """Changes that are held back, by stamp: stamp, a serial number, leaf, row and weight."""
        self._serial = 0
        self._view = 0
        self._not_before = max(clock, super().born)
        self._filled = False
        """Whether all solutions of the backfill are here."""
        self._low = 0
        """The latest low watermark that may become a mark."""
        self._goal = 0
        """The stamp up to which changes are applied, or are about to be; 0: none."""
        self._reached = False
        """Whether the delivered set is the answer as of the goal."""
        self._touched: dict[Row, None] = {}
        """Rows of the output that changed since the last mark."""

    # --- state -----------------------------------------------------------------------------------

    @property
    def mark(self) -> Mark:
        """No report is made."""
        return Mark(-1)

    @property
    def reached(self) -> int:
        """The stamp as of which the delivered set is the answer; 0: none at present."""
        return self._goal if self._reached and not self.staged else 0

    @property
    def born(self) -> int:
        """The next mark: deliveries hold as of it."""
        return self._goal

    @property
    def rows_held(self) -> int:
        """Rows in the states of all operators and solutions of leaves, and the changes that are held back."""
        return super().rows_held + len(self._held)

    @property
    def waits(self) -> bool:
        """Whether there is work to do now."""
        return bool(self._waiting) or bool(self._goal and not self._reached and not self.staged)

    @property
    def hurries(self) -> bool:
        """Whether a mark is due soon: changes are held back, or there was no mark yet."""
        return bool(self._held) or not self._goal

    @property
    def settled(self) -> bool:
        """Always False: marks take the place of bookmarks."""
        return False

    # --- arrivals --------------------------------------------------------------------------------

    def changed(self, leaf: int, changes: Iterable[Change]) -> None:
        """Take in changes of a leaf, and hold them back unless the backfill is incomplete."""
        for change in changes:
            weight = change.weight(self._since)
            if not weight:
                continue
            if self._filled:
                self._serial += 1
                heapq.heappush(self._held, (change.born, self._serial, leaf, change.row, weight))
            else:
                self._waiting.append((leaf, change.row, weight))
                self._not_before = max(self._not_before, change.born)

    def filled(self) -> None:
        """Note that all solutions of the backfill are here."""
        self._filled = True

    def known_upto(self, upto: int, at: int, view: int) -> None:
        """Take in a low watermark, which became known at a cut ``at`` in a view of the members."""
        if view != self._view:
            self._view, self._not_before = view, max(self._not_before, at)
        if self._filled and upto >= self._not_before:
            self._low = max(self._low, upto)

    def go_on(self) -> bool:
        """Begin with the next mark if the last one is reached and a later one is known; return whether it begins."""
        if self._low <= self._goal or (self._goal and not self.reached):
            return False
        self._goal, self._reached = self._low, False
        while self._held and self._held[0][0] <= self._goal:
            _, _, leaf, row, weight = heapq.heappop(self._held)
            self._waiting.append((leaf, row, weight))
        return True

    # --- work ------------------------------------------------------------------------------------

    def work(
        self, contents: DeliveredSet, log: ResultLog, rows_max: int = 1 << 62, stamp: int = 0  # noqa: ARG002
    ) -> list[News]:
        """Process a piece; return the solutions to deliver before the mark.  ``stamp`` does not matter."""
        touched, _ = self._apply_piece(rows_max)
        self._touched |= touched
        if self._waiting or not self._goal or self.staged:
            return []
        if self.stale:
            self._begin_to_compare(contents)
            self._touched.clear()
        if self._to_compare:
            return self._compare(contents, log, 0)
        news = self._deliver(map(self._as_delivered, self._touched), log)
        self._touched = {}
        self._reached = not (news or self.stale)
        return news
