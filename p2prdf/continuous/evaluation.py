"""Evaluation of a standing query for one subscription, at the peer that delivers it.

Changes of the leaves queue in order and pass through the operators in pieces.  The output is compared with the
delivered set (:mod:`p2prdf.continuous.incarnations`); the difference is delivered next.

When an evaluation begins, and after another replica has delivered something, the whole output is compared with the
whole delivered set, as soon as no delivery is in flight that the log does not know.  This comparison also runs in
pieces, row by row.  A row that changes before its turn is compared with its new state.

A row is *tentative* if it was delivered, or retracted, and the output here disagrees: the peer that
delivered it may know a change of a leaf that is still in flight.  Such a row and all its copies stay as delivered
until a low watermark guarantees that every change known at the comparison has arrived (:meth:`Evaluation.sure`); then
the row is compared again.  A row that was never delivered is delivered at once, and so is a change after a row's
comparison, even if its opposite may be in flight: waiting would leave every old COUNT standing for seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from p2prdf.continuous.counts import Mark
from p2prdf.continuous.dataflow import Dataflow
from p2prdf.continuous.incarnations import Incarnations
from p2prdf.continuous.operators.zset import UNBOUND, Row
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import UNBOUND_TEXT
from p2prdf.wire.messages import WITHDRAWN

if TYPE_CHECKING:
    from p2prdf.continuous.delivered_set import DeliveredSet
    from p2prdf.continuous.leaf import Change, Leaf
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.result_log import ResultLog

__all__ = ["PIECE", "Evaluation", "News"]

PIECE: Final = 2048
"""Number of leaf changes or row comparisons per piece; it bounds the time that other work waits."""
PAIRS: Final = 4_000_000
"""Bound on the pairs of changes and held rows per step; only after the step is the number of matches known."""


class News(NamedTuple):
    """A solution to deliver or retract (``over``): the identity of the solution or of the retraction, and the row."""

    identity: int
    over: bool
    row: Row


class Evaluation:
    """The operators of a standing query and its delivered set."""

    def __init__(self, query: StandingQuery, leaves: Sequence[Leaf], since: int, dictionary: TermDictionary):
        self._since = since
        self._leaves = leaves
        self._flow = Dataflow(query, dictionary)
        self._unbound = dictionary.intern(UNBOUND_TEXT)
        self._incarnations = Incarnations(lambda term: dictionary.hashes[term])
        self._waiting: deque[tuple[int, Row, int]] = deque()
        for number, leaf in enumerate(leaves):
            assert leaf.answers is not None
            if leaf.window is None:
                self._waiting.extend((number, row, weight) for row, weight in leaf.answers.since(since))
        self._loading = len(self._waiting)
        self._to_compare: dict[Row, int] = {}
        """Rows to compare with the delivered set, in delivered form, with their number of copies in the contents."""
        self._tentative: dict[Row, tuple[int, int]] = {}
        """Tentative rows: the stamp at which the difference was seen, and the number of copies in the contents."""
        self._sure_upto = 0
        """The stamp up to which every known change has arrived."""
        self.stale = True
        """Whether the delivered set must be looked up again."""
        self.staged = 0
        """Number of solutions that are being replicated and are not delivered yet."""

    @property
    def born(self) -> int:
        """The latest publication or deletion that the output depends on."""
        youngest = [leaf.answers.youngest for leaf in self._leaves if leaf.answers is not None]
        return max(self._since, *youngest, 0)

    @property
    def waits(self) -> bool:
        """Whether there is work to do now."""
        return bool(self._waiting) or (not self.staged if self.stale else bool(self._to_compare))

    @property
    def settled(self) -> bool:
        """Whether everything that follows from the leaves' solutions has been handed to the subscriber."""
        return not (self._waiting or self._to_compare or self.stale or self.staged or self._tentative)

    @property
    def doubts(self) -> bool:
        """Whether tentative rows wait for a low watermark."""
        return bool(self._tentative)

    @property
    def rows_by_operator(self) -> dict[int, int]:
        """Rows in the state of each operator that holds any, by the operator's number in the query."""
        return self._flow.rows_by_operator()

    @property
    def rows_held(self) -> int:
        """Rows in the states of all operators, or solutions of the largest leaf if these are more."""
        answers = (len(leaf.answers) for leaf in self._leaves if leaf.answers is not None)
        return max(self._flow.rows_held, *answers, 0)

    @property
    def reports(self) -> dict[str, float | int | None] | None:
        """The progress of reports for display; None without reports (:mod:`p2prdf.continuous.reports`)."""
        return None

    @property
    def reported(self) -> int:
        """Event time (ms) up to which reports are made and their deliveries replicated; -1: there are none."""
        return -1

    @property
    def mark(self) -> Mark:
        """``reported`` together with number and last element of the last such report, for windows by count."""
        return Mark(self.reported)

    def advance(self, upto: int, began: int, stamp: int, whole: int = 0) -> None:
        """Take in the watermark of the streams; it matters only to :mod:`p2prdf.continuous.reports`."""

    def changed(self, leaf: int, changes: Iterable[Change]) -> None:
        """Take in changes of a leaf."""
        weighed = ((leaf, change.row, change.weight(self._since)) for change in changes)
        self._waiting.extend(each for each in weighed if each[2])

    def sure(self, upto: int) -> None:
        """Take in a low watermark and compare the tentative rows of then again.

        All changes known at stamp ``upto`` have arrived.
        """
        self._sure_upto = max(self._sure_upto, upto)
        if self.stale:  # everything will be compared anyway
            return
        for row, (since, count) in self._tentative.items():
            if since <= self._sure_upto:  # no delivery of the row since, so the number of copies is unchanged
                self._to_compare.setdefault(row, count)

    def work(self, contents: DeliveredSet, log: ResultLog, rows_max: int = 1 << 62, stamp: int = 0) -> list[News]:
        """Process a piece, as long as about ``rows_max`` rows are not exceeded; return the solutions to deliver.

        ``stamp``: the current stamp; 0 if no other peer can know more, so no row is tentative.
        """
        touched, done = self._apply_piece(rows_max)
        self._loading = max(0, self._loading - done)
        if self.stale:
            if self._loading or self.staged:  # the comparison begins when all initial rows are there
                return []
            self._begin_to_compare(contents)
        changed = self._clear(map(self._as_delivered, touched))
        return [*self._deliver(changed, log), *self._compare(contents, log, stamp)]

    def _apply_piece(self, rows_max: int) -> tuple[dict[Row, None], int]:
        """Apply a piece of the changes; return the rows of the output that changed, and the number of changes."""
        touched: dict[Row, None] = {}
        done = 0
        while done < PIECE and self._waiting and self.rows_held <= rows_max:
            count = min(PIECE - done, len(self._waiting), 1 + PAIRS // (1 + self._flow.rows_held))
            touched.update(dict.fromkeys(self._apply(count)))
            done += count
        return touched, done

    def _apply(self, count: int) -> Iterable[Row]:
        """Apply ``count`` changes; return the rows of the output that changed."""
        piece: dict[int, list[tuple[Row, int]]] = {}
        for _ in range(count):
            leaf, row, weight = self._waiting.popleft()
            piece.setdefault(leaf, []).append((row, weight))
        return self._flow.apply_all(piece)

    def _begin_to_compare(self, contents: DeliveredSet) -> None:
        """Queue for comparison the whole output, the whole delivered set, and tentative rows that may be in neither."""
        self.stale = False
        self._incarnations.forget()
        self._to_compare = dict.fromkeys((*map(self._as_delivered, self._flow.output()), *self._tentative), 0)
        self._to_compare |= Counter(contents.rows.values())

    def _compare(self, contents: DeliveredSet, log: ResultLog, stamp: int) -> list[News]:
        """Compare some of the queued rows; tentative rows are not retracted."""
        held = {row: self._to_compare.pop(row) for row in list(islice(self._to_compare, PIECE))}
        self._incarnations.recall(held, log.knows)
        self._mark_tentative(held, stamp)
        clear = {row: held[row] for row in self._clear(held)}
        strays = self._strays(contents, clear)
        for stray in strays:
            clear.pop(stray.row, None)
            self.stale = True  # compared again when their retractions are done
        return [*strays, *self._deliver(clear, log)]

    def _mark_tentative(self, held: Mapping[Row, int], stamp: int) -> None:
        """Mark the tentative rows, which differ from the delivered set without a low watermark after the difference."""
        for row, count in held.items():
            told, wanted = self._incarnations.count(row), self._wanted(row)
            too_many = told > wanted or count > told  # more copies than follow, or copies under unexpected identities
            differs = too_many or (told < wanted and self._incarnations.came_and_went(row))
            since, _ = self._tentative.pop(row, (stamp, 0))
            if differs and since > self._sure_upto:
                self._tentative[row] = since, count

    def _clear(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that are neither tentative nor queued for comparison."""
        return [row for row in rows if row not in self._to_compare and row not in self._tentative]

    def _strays(self, contents: DeliveredSet, held: dict[Row, int]) -> list[News]:
        """Retract the copies that were delivered under identities that the lookup does not find.

        Such copies remain if the peer that delivered them was lost together with the only record of an earlier
        delivery: of another copy of the row, or of a retraction.
        """
        known = self._incarnations
        odd = {row: known.names(row) for row, count in held.items() if count > known.count(row)}
        if not odd:
            return []
        return [
            News(name ^ WITHDRAWN, True, row)
            for name, row in contents.rows.items()
            if row in odd and name not in odd[row]
        ]

    def _deliver(self, rows: Iterable[Row], log: ResultLog) -> list[News]:
        """Return the deliveries for some rows, retractions first."""
        wanted = {row: self._wanted(row) for row in rows}
        news = [News(identity, over, row) for row, identity, over in self._incarnations.changes(wanted, log.knows)]
        return sorted(news, key=lambda each: not each.over)

    def _wanted(self, row: Row) -> int:
        """Return the number of copies of a row in the output."""
        return max(0, self._flow.count(self._as_computed(row)))

    def _as_delivered(self, row: Row) -> Row:
        return tuple(self._unbound if term == UNBOUND else term for term in row)

    def _as_computed(self, row: Row) -> Row:
        return tuple(UNBOUND if term == self._unbound else term for term in row)
