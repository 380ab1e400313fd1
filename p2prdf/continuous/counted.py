"""A query with a window by count being evaluated for one subscription, report by report.

What is said of reports (:mod:`p2prdf.continuous.reports`) holds for these, too, but that they are numbered, and are due
when as many elements are known.  Who takes over must count on where the one before it was: so what other replicas
are told of reports that are made is a :class:`~p2prdf.continuous.counts.Mark`, with the number and the last element of
one of them.  It need not be the last one: reports behind it are counted again, in the same order, from the same element
on, so they are the same, and what was told of them is not told again.

Rows of a stream of reports have the number of the report behind its time, for of one time there may be several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.continuous.counts import CountQueue, Mark, Place
from p2prdf.continuous.reports import Reports, time_term
from p2prdf.rdf import terms
from p2prdf.rdf.algebra import CountWindow, StandingQuery, Window
from p2prdf.rdf.terms import XSD

if TYPE_CHECKING:
    from p2prdf.continuous.contents import Contents
    from p2prdf.continuous.leaf import Leaf
    from p2prdf.continuous.operators.zset import Row
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["CountedReports"]


class CountedReports(Reports):
    """The operators of a query with a window by count, that window, and what its subscriber was told."""

    def __init__(
        self, query: StandingQuery, leaves: Sequence[Leaf], since: int, dictionary: TermDictionary, mark: Mark
    ):
        """``mark``: how far reports are that were made before; without a number, from when on they are asked for."""
        self._mark = mark
        super().__init__(query, leaves, since, dictionary, mark.upto)

    def _queue(self, window: Window | CountWindow) -> CountQueue:
        assert isinstance(window, CountWindow)
        self._counted = CountQueue(window, self._dictionary.text, self._first or 0)
        return self._counted

    @property
    def reports(self) -> dict[str, float | int | None]:
        """The watermark, and time and number of the last report made, in words for people."""
        made = self._at is not None and self._at > 0
        found = super().reports | {"last": self._counted.last.time / 1000 if made else None}
        return found | {"number": self._at if made else 0}

    @property
    def mark(self) -> Mark:
        """How far reports are that are made, and of which is kept what they told."""
        if super().reported < 1:
            return Mark()
        last = self._counted.last
        return Mark(last.time, self._counted.number, self._hash_of(last))

    @property
    def reported(self) -> int:
        """Up to which event time (ms) reports are made, and what they told is kept; -1: none is."""
        return self.mark.upto

    @property
    def _marked_upto(self) -> int:
        """Up to which event time elements are counted already."""
        return self._mark.upto if self._mark.number else -1

    def _hash_of(self, place: Place) -> int:
        s, p, o = (self._dictionary.hashes[term] for term in place.row)
        return keys.triple_id(s, p, o)

    # --- reports ---------------------------------------------------------------------------------

    def advance(self, upto: int, began: int, stamp: int, whole: int = 0) -> None:
        """Take note that the stream is known up to an event time, and of which on it is kept (``whole``)."""
        super().advance(upto, began, stamp, whole)
        self._counted.known_upto(self._upto)

    def _due(self) -> int | None:
        """Return the number of the report to be made next, if there is one."""
        if self._at is None:
            return 0 if self._upto >= max(0, self._marked_upto) else None
        if self._at < self._counted.due:
            return self._at + 1
        return self._at if self._again and not self.streams and self._at > 0 else None

    def _start(self, contents: Contents) -> None:
        """See which report is the first: the one before the mark, or number 1; not before all is known up to there.

        Who begins to count begins with the first element that is kept.  No more of them are forgotten before there is a
        mark (:mod:`p2prdf.peer.retention`), so until then whoever takes over begins with the same.
        """
        queue, mark = self._counted, self._mark
        if self._upto < self._marked_upto:
            return
        if not mark.number:
            queue.skip(self._whole)
            wanted = self._began if self._first is None else self._first
            self._begins = self._whole if wanted is not None and self._whole > wanted else -1
        else:
            queue.begin(mark.number, lambda place: self._hash_of(place) == mark.last, mark.upto)
            queue.back()
        self._at = queue.number - 1 if queue.number else 0
        told = mark.number
        if self.streams:
            numbers = {row[-1] for row in contents.rows.values()}
            told = max(told, *(int(terms.lexical(self._dictionary.text(term))) for term in numbers), 0)
        elif told or contents.rows:  # it is compared with what holds now
            told = queue.due
        self._tell_from = max(1, told)

    def _behind(self, report: int) -> Row:
        """Return what stands behind the rows of a report in a stream: its time and its number, as terms."""
        number = terms.literal(str(report), XSD + "integer")
        return tuple(self._dictionary.intern_all((time_term(self._counted.last.time), number)))
