"""Evaluation of a query with a window by count for one subscription, report by report.

The rules of :mod:`p2prdf.continuous.reports` hold, with two differences: reports are numbered, and a report is due
when the next ``step`` elements are known.  A new primary must continue the numbering of its predecessor.  Replicas
therefore learn the progress as a :class:`~p2prdf.continuous.counts.Mark`, with the number and the last element of
some report.  It need not be the last report: the new primary makes the later ones again, in the same order from the
same element, so they are equal and their deliveries are not repeated.

Rows of a stream of reports end with the report's time and number, since several reports may have the same time.
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
    from p2prdf.continuous.delivered_set import DeliveredSet
    from p2prdf.continuous.leaf import Leaf
    from p2prdf.continuous.operators.zset import Row
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["CountedReports"]


class CountedReports(Reports):
    """The operators of a query with a window by count, that window, and the delivered set."""

    def __init__(
        self, query: StandingQuery, leaves: Sequence[Leaf], since: int, dictionary: TermDictionary, mark: Mark
    ):
        """``mark``: the progress of earlier reports; without a number, the event time from which reports are wanted."""
        self._mark = mark
        super().__init__(query, leaves, since, dictionary, mark.upto)

    def _queue(self, window: Window | CountWindow) -> CountQueue:
        assert isinstance(window, CountWindow)
        self._counted = CountQueue(window, self._dictionary.text, self._first or 0)
        return self._counted

    @property
    def reports(self) -> dict[str, float | int | None]:
        """The watermark, and time and number of the last report, for display."""
        made = self._at is not None and self._at > 0
        found = super().reports | {"last": self._counted.last.time / 1000 if made else None}
        return found | {"number": self._at if made else 0}

    @property
    def mark(self) -> Mark:
        """The progress of the reports that are made and their deliveries replicated."""
        if super().reported < 1:
            return Mark()
        last = self._counted.last
        return Mark(last.time, self._counted.number, self._hash_of(last))

    @property
    def reported(self) -> int:
        """Event time (ms) up to which reports are made and their deliveries replicated; -1: none."""
        return self.mark.upto

    @property
    def _marked_upto(self) -> int:
        """Event time (ms) up to which elements are counted already; -1: none."""
        return self._mark.upto if self._mark.number else -1

    def _hash_of(self, place: Place) -> int:
        s, p, o = (self._dictionary.hashes[term] for term in place.row)
        return keys.triple_id(s, p, o)

    # --- reports ---------------------------------------------------------------------------------

    def advance(self, upto: int, began: int, stamp: int, whole: int = 0) -> None:
        """Take in the stream's watermark, and the event time from which its elements are kept (``whole``)."""
        super().advance(upto, began, stamp, whole)
        self._counted.known_upto(self._upto)

    def _due(self) -> int | None:
        """Return the number of the next report to make, if there is one."""
        if self._at is None:
            return 0 if self._upto >= max(0, self._marked_upto) else None
        if self._at < self._counted.due:
            return self._at + 1
        return self._at if self._again and not self.streams and self._at > 0 else None

    def _start(self, contents: DeliveredSet) -> None:
        """Determine the first report: the one before the mark, or number 1.

        This waits until the watermark has reached the mark.  Without a mark, counting begins with the first element
        that is kept.  Retention (:mod:`p2prdf.peer.progress.retention`) forgets no further elements before there is a
        mark, so a new primary begins with the same element until then.
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
        elif told or contents.rows:  # it is compared with the current output
            told = queue.due
        self._deliver_from = max(1, told)

    def _behind(self, report: int) -> Row:
        """Return the suffix of a report's rows in a stream: its time and its number, as terms."""
        number = terms.literal(str(report), XSD + "integer")
        return tuple(self._dictionary.intern_all((time_term(self._counted.last.time), number)))
