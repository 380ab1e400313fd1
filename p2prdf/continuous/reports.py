"""Evaluation of a windowed query for one subscription, report by report.

A report is due when the watermarks of all streams of the query have reached its time: all elements up to then, and
all solutions that follow from them, are here.  The elements that have entered or left a window then pass through the
operators, as leaf changes do elsewhere; patterns outside streams are read in their state at the report.  The output
is delivered as changes, as without windows (:mod:`p2prdf.continuous.evaluation`), or as a stream of reports.

Rows of a stream of reports end with the report's time, so each row is unique and its identity follows from the row
alone.  A report is delivered when enough replicas know the one before.  A new primary finds the last report with any
delivery, computes the one before it silently, and continues from there.

A solution may arrive late, if a publisher published behind its own watermark or was no longer waited for.  With
changes, the last report is made again.  In a stream, past reports stay; the solution counts in later reports with
it in their window.  ``late`` counts such solutions.

Reports at which nothing can change are skipped, except for RSTREAM, which repeats the current rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from p2prdf import hlc
from p2prdf.continuous.counts import CountQueue
from p2prdf.continuous.evaluation import PIECE, Evaluation, News
from p2prdf.continuous.leaf import ElementAnswers
from p2prdf.continuous.operators.zset import Row
from p2prdf.continuous.windows import WindowQueue, next_multiple
from p2prdf.rdf.algebra import CountWindow, Reported, StandingQuery, Window

if TYPE_CHECKING:
    from p2prdf.continuous.delivered_set import DeliveredSet
    from p2prdf.continuous.leaf import Change, Leaf
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.result_log import ResultLog

__all__ = ["Reports", "time_of", "time_term"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DATE_TIME: Final = "^^<http://www.w3.org/2001/XMLSchema#dateTime>"


def time_term(milliseconds: int) -> str:
    """Return an event time as a canonical term, an xsd:dateTime."""
    moment = _EPOCH + milliseconds * _MILLISECOND
    spelled = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    fraction = f".{milliseconds % 1000:03d}".rstrip("0").rstrip(".")
    return f'"{spelled}{fraction}Z"{_DATE_TIME}'


def time_of(term: str) -> int:
    """Return the event time of a term, in milliseconds.  Raises ValueError if the term is not an xsd:dateTime."""
    lexical, _, datatype = term[1:].partition('"')
    if datatype != _DATE_TIME:
        raise ValueError(f"{term!r:.60} is not an xsd:dateTime")
    return (datetime.fromisoformat(lexical) - _EPOCH) // _MILLISECOND


class Reports(Evaluation):
    """The operators and windows of a windowed query, and its delivered set."""

    def __init__(
        self, query: StandingQuery, leaves: Sequence[Leaf], since: int, dictionary: TermDictionary, reported: int = -1
    ):
        """``reported``: event time (ms) up to which reports were made before, or are not wanted."""
        super().__init__(query, leaves, hlc.FIRST, dictionary)
        self._reported_before = reported
        report = query.report
        assert report is not None
        self._reported, self._every = report.reported, report.every
        self._dictionary = dictionary
        self._first = None if since == hlc.FIRST else hlc.seconds_ms(since)
        """Event time (ms) before which nothing is reported; None: reports begin with the earliest element."""
        self._queues: dict[int, WindowQueue | CountQueue] = {}
        for number, leaf in enumerate(leaves):
            if leaf.window is not None:
                self._queues[number] = queue = self._queue(leaf.window)
                assert isinstance(leaf.answers, ElementAnswers)
                for row, oldest, youngest in leaf.answers.timed():
                    queue.add(row, oldest, youngest)
        self._stamp = since
        self._upto = -1
        self._began: int | None = None
        self._whole = 0
        """Event time (ms) from which windows have all their elements, as known before the first report."""
        self._begins = -1
        self._at: int | None = None
        """The last report made, or the one before the first."""
        self._deliver_from = 0
        """Reports before this one are made without delivery."""
        self._open: int | None = None
        """The report that is being made."""
        self._changes: Iterator[tuple[int, Row, int]] = iter(())
        """The changes still to be applied for the open report."""
        self._touched: dict[Row, int] = self._flow.output()
        """Changes of the output's rows for the open report.

        At first the output without solutions, such as a count of 0.
        """
        self._again = False
        """Whether the last report must be made again."""
        self.late = 0
        """Number of solutions that arrived after a report that should have had them."""

    def _queue(self, window: Window | CountWindow) -> WindowQueue | CountQueue:
        """Return an empty window."""
        assert isinstance(window, Window)
        return WindowQueue(window, self._every)

    @property
    def streams(self) -> bool:
        """Whether a stream of reports is delivered."""
        return self._reported is not Reported.CHANGES

    @property
    def reports(self) -> dict[str, float | int | None]:
        """The watermark and the last report, as event times in seconds, and the number of late solutions.

        ``begins``: the first report made, if earlier reports were wanted but have lost elements that are forgotten.
        """
        known = {
            "watermark": self._upto, "last": -1 if self._at is None else self._at, "begins": self._begins,
        }  # fmt: skip
        return {name: each / 1000 if each >= 0 else None for name, each in known.items()} | {"late": self.late}

    @property
    def born(self) -> int:
        """The stamp of the last watermark; the deliveries of now follow from it."""
        return self._stamp

    @property
    def rows_held(self) -> int:
        """Rows in the states of all operators and in the windows."""
        return self._flow.rows_held + sum(map(len, self._queues.values()))

    @property
    def waits(self) -> bool:
        """Whether there is work to do now."""
        if self.streams and self.staged:
            return False
        if self._open is not None or self._due() is not None:
            return True
        return not self.streams and self._at is not None and self._compares

    @property
    def reported(self) -> int:
        """Event time (ms) up to which reports are made and their deliveries replicated; -1: none."""
        if self._open is not None or self.staged or self._at is None or self._at < self._deliver_from:
            return -1
        return self._at if self.streams or not (self.stale or self._to_compare or self.doubts) else -1

    @property
    def _compares(self) -> bool:
        return not self.staged if self.stale else bool(self._to_compare)

    @property
    def settled(self) -> bool:
        """Always False: reports over the present elements are unknown before the watermark."""
        return False

    # --- arrivals --------------------------------------------------------------------------------

    def advance(self, upto: int, began: int, stamp: int, whole: int = 0) -> None:
        """Take in the watermark of all streams, an event time (ms).

        ``began``: the earliest element; ``stamp``: when the watermark became known.  ``whole``: windows of reports
        before that time have lost elements that are forgotten; an evaluation that begins now begins there.
        """
        if self._at is None:
            self._whole = max(whole, self._whole)
        self._began = began if self._began is None else min(began, self._began)
        self._upto, self._stamp = max(upto, self._upto), max(stamp, self._stamp)

    def changed(self, leaf: int, changes: Iterable[Change]) -> None:
        """Take in changes of a leaf."""
        queue = self._queues.get(leaf)
        if queue is None:
            super().changed(leaf, changes)
            self._again = self._again or bool(self._waiting)
            return
        for change in changes:
            first = queue.add(change.row, hlc.element_ms(change.after), hlc.element_ms(change.born))
            if self._at is not None and first <= self._at:
                self.late += 1
                self._again = True

    # --- reports ---------------------------------------------------------------------------------

    def _due(self) -> int | None:
        """Return the next report to make, if there is one."""
        if self._at is None:
            return 0 if self._upto >= 0 else None
        last = self._upto // self._every * self._every
        if last <= self._at:
            return self._at if self._again and not self.streams and self._at >= 0 else None
        following = self._at + self._every
        if self._waiting or self._touched or (self._reported is Reported.RSTREAM and not self._flow.empty):
            return following
        queues = [queue for queue in self._queues.values() if isinstance(queue, WindowQueue)]
        return min(last, max(following, min(queue.next for queue in queues)))

    def _start(self, contents: DeliveredSet) -> None:
        """Determine the first report."""
        assert self._began is not None
        before = self._reported_before
        wanted = next_multiple(self._began if self._first is None else self._first, self._every)
        first = max(wanted, next_multiple(self._whole, self._every))
        self._begins = first if first > wanted else -1
        if self.streams and contents.rows:
            told = {row[-1] for row in contents.rows.values()}
            before = max(before, *(time_of(self._dictionary.text(term)) for term in told))
        elif contents.rows:  # it is compared with the current output
            first = max(first, self._upto // self._every * self._every)
        again = before // self._every * self._every
        self._deliver_from = max(first, again)
        self._at = self._deliver_from - (2 if again >= first else 1) * self._every

    def work(self, contents: DeliveredSet, log: ResultLog, rows_max: int = 1 << 62, stamp: int = 0) -> list[News]:
        """Process a piece, unless ``rows_max`` rows are held; return the solutions to deliver."""
        if (self.streams and self.staged) or self.rows_held > rows_max:
            return []
        if self._at is None and self._upto >= 0:
            self._start(contents)
        if self._open is None:
            self._begin()
        if self._open is not None:
            return self._go_on(contents, log, stamp)
        if self.streams or self._at is None or not self._compares:
            return []
        if self.stale:
            self._begin_to_compare(contents)
        return self._compare(contents, log, stamp)

    def _begin(self) -> None:
        due = self._due()
        if self._at is None or due is None:
            return
        self._open, self._again = due, False
        waiting, self._waiting = self._waiting, type(self._waiting)()
        self._changes = self._all_changes(waiting, due)

    def _all_changes(self, waiting: Iterable[tuple[int, Row, int]], report: int) -> Iterator[tuple[int, Row, int]]:
        yield from waiting
        for leaf, queue in self._queues.items():
            for row, weight in queue.at(report):
                yield leaf, row, weight

    def _go_on(self, contents: DeliveredSet, log: ResultLog, stamp: int) -> list[News]:
        """Apply a piece of the open report's changes; after the last piece return the report's deliveries."""
        assert self._open is not None
        piece: dict[int, list[tuple[Row, int]]] = {}
        done = 0
        for leaf, row, weight in self._changes:
            piece.setdefault(leaf, []).append((row, weight))
            done += 1
            if done >= PIECE:
                break
        for row, weight in (self._flow.apply_all(piece) if piece else {}).items():
            self._touched[row] = self._touched.get(row, 0) + weight
        if done >= PIECE:
            return []
        report, self._open, self._at = self._open, None, self._open
        touched, self._touched = self._touched, {}
        if report < self._deliver_from:
            return []
        if self.streams:
            return self._stream(report, touched, log)
        if self.stale:
            if self.staged:
                return []
            self._begin_to_compare(contents)
        changed = self._clear(map(self._as_delivered, touched))
        return [*self._deliver(changed, log), *self._compare(contents, log, stamp)]

    def _stream(self, report: int, touched: dict[Row, int], log: ResultLog) -> list[News]:
        """Return the rows of a report in a stream."""
        if self._reported is Reported.RSTREAM:
            wanted = {row: count for row, count in self._flow.output().items() if count > 0}
        elif self._reported is Reported.ISTREAM:
            wanted = {row: change for row, change in touched.items() if change > 0}
        else:
            wanted = {row: -change for row, change in touched.items() if change < 0}
        if not wanted:
            return []
        behind = self._behind(report)
        told = {(*self._as_delivered(row), *behind): count for row, count in wanted.items()}
        self._incarnations.forget()
        return [News(identity, over, row) for row, identity, over in self._incarnations.changes(told, log.knows)]

    def _behind(self, report: int) -> Row:
        """Return the suffix of a report's rows in a stream: its time, as a term."""
        return (self._dictionary.intern(time_term(report)),)
