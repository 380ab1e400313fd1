"""Validity intervals of triples: from a publication to a deletion.

Publications and deletions of a triple arrive in any order, repeatedly, and not everywhere at first; all peers must
reach the same state.  Each deletion divides the triple's time.  The time between two deletions is one *validity
interval*, named by the stamp of the deletion that it begins after (0: none).  A publication belongs to the
interval that contains its stamp; a deletion ends all intervals that began before it and wins over a publication with
the same stamp.  The known deletions alone determine the intervals and which of them have ended.  An interval has an
identity of its own, *begins once and ends once*, so solutions derived from different intervals differ.

A peer that has not heard of a deletion assigns later publications to the earlier interval, perhaps for long: a
deletion goes under the indexes in use at its time and misses the replicas of later indexes.  An ended interval is
therefore held under all indexes of later intervals too, so that its solutions there are retracted.  The end of an
interval, received in one index, counts in that index for all later intervals: replicas with different deletions
become equal in one exchange, not one per deletion.  docs/explanation/design/deletions.md has the argument.

Ended intervals can be forgotten (:meth:`ValidityIntervals.forget`).  The first interval then stands for all of them:
it ends with the latest.  That deletion ends whatever is published before it, so nothing returns, and a peer that knows
no deletion of the triple credits its publications to the first interval (docs/explanation/design/forgetting.md).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice, pairwise
from typing import Final, Generic, TypeVar

from p2prdf import hlc
from p2prdf.hlc import GONE

__all__ = ["LATE", "Superseded", "ValidityIntervals", "later_time"]

K = TypeVar("K", bound=Hashable)

LATE: Final = hlc.from_seconds(600.0)
"""The longest time for which a deletion is in flight.

An interval that ended before a query began may have led to solutions all the same, from a later publication at a peer
that had not heard of the deletion.  They are retracted if the deletion is not older than this, or if the triple had
any news since (:meth:`ValidityIntervals.heard`): the deletion may have gone under other indexes.  Otherwise such
intervals are ignored, or a new query would have to retract solutions of everything that was ever deleted.
"""


def later_time(time: int, other: int) -> int:
    """Return the later state of two times of an interval: ended before valid, the earlier end, the later publication.
    """
    if time >= GONE and other >= GONE:
        return min(time, other)
    return max(time, other)


class ValidityIntervals(Generic[K]):
    """The known deletions of some triples; the table keeps a row per interval with its time.

    The time of an interval is the stamp of its latest publication or, once it has ended, ``GONE`` and the stamp of the
    deletion that ended it; an interval of which nothing is known has no row, and 0 as time.  ``time_of`` returns the
    time of the interval of a triple with a beginning.  The first interval of a deleted triple has ended, so a single
    deletion needs no record here.
    """

    def __init__(self) -> None:
        self._removals: dict[K, list[int]] = {}
        """The deletions of triples that were deleted more than once; a single one is the end of the first interval."""
        self._merged: set[K] = set()
        """The triples whose first interval stands for forgotten ones: deletions before its end change nothing."""

    def _known(self, triple: K, time_of: Callable[[int], int]) -> list[int]:
        """Return the known deletions of a triple, in order."""
        removals = self._removals.get(triple)
        if removals is None:
            end = time_of(0)
            return [end - GONE] if end >= GONE else []
        return removals

    def publish(
        self, triple: K, stamp: int, time_of: Callable[[int], int], lacks: Callable[[int], bool]
    ) -> Iterator[tuple[int, int, int | None]]:
        """Yield the interval that a publication belongs to, which may have ended already.

        Each comes as beginning, time and source, see :meth:`remove`.  The source of an interval of which nothing was
        known is the one before it: deletions came under its indexes.
        Earlier intervals follow, since other peers may have assigned the publication to them, until one ``lacks``
        none of the indexes that the publication came under; then all before it lack none either.  ``lacks`` takes an
        interval's beginning.
        """
        removals = self._known(triple, time_of)
        at = bisect_left(removals, stamp)
        begin = removals[at - 1] if at else 0
        source = (removals[at - 2] if at > 1 else 0) if at and not time_of(begin) else None
        yield begin, GONE | removals[at] if at < len(removals) else stamp, source
        for before in range(at - 1, -1, -1):
            begin = removals[before - 1] if before else 0
            if not lacks(begin):
                return
            yield begin, GONE | removals[before], None

    def remove(
        self, triple: K, stamp: int, time_of: Callable[[int], int], lacks: Callable[[int], bool]
    ) -> Iterator[tuple[int, int, int | None]]:
        """Record a deletion; yield the intervals that it changes or makes.

        Each comes as beginning, time and source.  The interval after the deletion is the first, unless nothing is
        known of it.  The interval that the deletion ends follows, then those that ``lacks`` reports to be missing in
        an index that the deletion came under; a time of 0 changes nothing.
        Intervals of a triple get indexes from the newest to the oldest, so one that lacks none proves that no older
        one does: the cost of a deletion is independent of the number of intervals.

        The source is the beginning of another interval that was credited with this one's publication or end until
        now: this interval must be held as that one was; else None.  Recording a known deletion again changes nothing.
        A deletion that ended a forgotten interval counts as the one that the first interval ends with.
        """
        removals = self._known(triple, time_of)
        if triple in self._merged:
            stamp = max(stamp, removals[0])
        at = bisect_left(removals, stamp)
        before = removals[at - 1] if at else 0
        latest = time_of(before)
        if at == len(removals) or removals[at] != stamp:
            removals.insert(at, stamp)
            if len(removals) == 2:
                self._removals[triple] = removals
        newer = self._lacking(removals, len(removals), at + 1, lacks)
        if at + 1 < len(removals):
            yield stamp, GONE | removals[at + 1], before  # until now this end was the end of the interval before
        elif stamp < latest < GONE:  # it was published again, and the publication arrived first
            yield stamp, latest, before
        elif time_of(stamp):
            yield stamp, 0, None
        yield before, GONE | stamp, None
        for begin, _ in newer:
            if time_of(begin):
                yield begin, 0, None
        for begin, end in self._lacking(removals, at - 1, -1, lacks):
            yield begin, GONE | end, None

    def forget(
        self, triple: K, before: int, time_of: Callable[[int], int], roles_of: Callable[[int], int], most: int
    ) -> list[int]:
        """Forget up to ``most`` intervals that ended before a stamp, except the first; return their beginnings.

        The first interval stands for them from now on: it ends with the latest of them (:meth:`first_end`), and the
        caller sets its time so.  It is held under all indexes of later ones; an interval with an index that it lacks
        would stay.  ``roles_of`` returns the indexes of an interval by its beginning.
        """
        removals = self._known(triple, time_of)
        forgotten = 0
        for begin, end in islice(pairwise(removals), most):
            if end >= before or roles_of(begin) & ~roles_of(0):
                break
            forgotten += 1
        if forgotten:
            self._merged.add(triple)
            self._removals[triple] = removals[forgotten:]
        return removals[:forgotten]

    def first_end(self, triple: K) -> int:
        """Return the stamp of the deletion that ended the first interval of a triple with forgotten ones."""
        return self._removals[triple][0]

    @staticmethod
    def _lacking(
        removals: list[int], newest: int, oldest: int, lacks: Callable[[int], bool]
    ) -> Iterator[tuple[int, int]]:
        """Yield beginnings and ends of intervals by number, from the newest on until one lacks nothing.

        Interval 0 begins with the triple, interval n after the n-th deletion.
        """
        for number in range(newest, oldest, -1):
            begin = removals[number - 1] if number else 0
            if not lacks(begin):
                return
            yield begin, removals[number] if number < len(removals) else 0

    def divides(self, triple: K) -> bool:
        """Return whether there is an interval of a triple to forget, now or once the horizon is later."""
        return len(self._removals.get(triple, ())) > 1

    def heard(self, triple: K, time_of: Callable[[int], int]) -> int:
        """Return the stamp of the latest news of a deleted triple."""
        last = self._known(triple, time_of)[-1]
        return max(last, time_of(last))


class Superseded(Generic[K]):
    """The triples that may have a validity interval to forget, and those of them to look at (``due``)."""

    def __init__(self, *, noted: bool):
        """``noted``: False: intervals are never forgotten, so nothing is noted."""
        self.due: dict[K, None] = {}
        """Those that have changed since they were last looked at."""
        self._noted = noted
        self._several: dict[K, None] = {}

    def __bool__(self) -> bool:
        return bool(self._several)

    def changed(self, triple: K, *, divided: bool) -> None:
        """Note a publication or deletion of a triple; ``divided``: it was deleted several times."""
        if divided and self._noted:
            self._several[triple] = self.due[triple] = None

    def undivided(self, triple: K) -> None:
        """Drop a triple without any interval to forget."""
        self._several.pop(triple, None)
        self.due.pop(triple, None)

    def look_at_all(self) -> None:
        """Look at all these triples: other intervals may go."""
        self.due = dict.fromkeys(self._several)

    def look_again(self, triples: Iterable[K]) -> None:
        """Look at some triples once more, after the others."""
        self.due |= dict.fromkeys(triples)

    def take(self, most: int) -> list[K]:
        """Return some triples to look at, which are due no more."""
        taken = list(islice(self.due, most))
        for each in taken:
            del self.due[each]
        return taken
