"""A standing query being evaluated for one subscription, where that is delivered from.

Changes of the leaves wait in order, and go through the operators a piece at a time.  What comes out is compared
with what the subscriber was told (:mod:`p2prdf.continuous.told`); the difference is what it is to be told next.

When it begins, and when another replica has told the subscriber something, all that is true is compared with all that
was told, once nothing is under way that the log does not know.  That goes row by row, so it is done in pieces, too: a
row that changes before its turn has come is compared as it is then.

A row is *doubtful* that was told, or taken back, and now does not follow from what is here, or follows again: whoever
told it may know of a change of a leaf that is still on its way.  It stays as it was told, all copies of it, until a low
mark says that all has come which was known when it was compared (:meth:`Evaluation.sure`); then it alone is compared
again.  A row that nobody told is told at once, and so is what changes after its row was compared, though what undoes
that may be on its way as well: to wait for it would leave every old COUNT standing for seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from p2prdf.continuous.counts import Mark
from p2prdf.continuous.dataflow import Dataflow
from p2prdf.continuous.operators.zset import UNBOUND, Row
from p2prdf.continuous.told import Told
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import UNBOUND_TEXT
from p2prdf.wire.messages import WITHDRAWN

if TYPE_CHECKING:
    from p2prdf.continuous.contents import Contents
    from p2prdf.continuous.leaf import Change, Leaf
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.result_log import ResultLog

__all__ = ["PIECE", "Evaluation", "News"]

PIECE: Final = 2048
"""Changes of leaves, or rows to be compared, that are worked off at a time, so that nothing else waits for long."""
PAIRS: Final = 4_000_000
"""Of so many pairs of changes and rows held all may match: no more are tried before it is seen how many there are."""


class News(NamedTuple):
    """Something to be told: the identity of an answer, or of a withdrawal (``over``), and the row."""

    identity: int
    over: bool
    row: Row


class Evaluation:
    """The operators of a standing query and what its subscriber was told."""

    def __init__(self, query: StandingQuery, leaves: Sequence[Leaf], since: int, dictionary: TermDictionary):
        self._since = since
        self._leaves = leaves
        self._flow = Dataflow(query, dictionary)
        self._unbound = dictionary.intern(UNBOUND_TEXT)
        self._told = Told(lambda term: dictionary.hashes[term])
        self._waiting: deque[tuple[int, Row, int]] = deque()
        for number, leaf in enumerate(leaves):
            assert leaf.answers is not None
            if leaf.window is None:
                self._waiting.extend((number, row, weight) for row, weight in leaf.answers.since(since))
        self._loading = len(self._waiting)
        self._to_compare: dict[Row, int] = {}
        """Rows that are compared with what was told, as they are told, and how many copies are held by the contents."""
        self._doubtful: dict[Row, tuple[int, int]] = {}
        """Rows that stay as they were told; the stamp by which they were seen to differ, and copies in the contents."""
        self._sure_upto = 0
        """By which stamp nothing is on its way any more that was known then."""
        self.stale = True
        """Whether what the subscriber was told must be looked up."""
        self.staged = 0
        """Answers on their way to the other replicas, and not told yet."""

    @property
    def born(self) -> int:
        """When the youngest was published, or removed, of what it follows from."""
        youngest = [leaf.answers.youngest for leaf in self._leaves if leaf.answers is not None]
        return max(self._since, *youngest, 0)

    @property
    def waits(self) -> bool:
        """Whether there is anything to do now."""
        return bool(self._waiting) or (not self.staged if self.stale else bool(self._to_compare))

    @property
    def settled(self) -> bool:
        """Whether the subscriber was handed all that follows from what the leaves answered."""
        return not (self._waiting or self._to_compare or self.stale or self.staged or self._doubtful)

    @property
    def doubts(self) -> bool:
        """Whether low marks are waited for, to tell or take back what is doubtful."""
        return bool(self._doubtful)

    @property
    def rows_by_operator(self) -> dict[int, int]:
        """Rows in the state of each operator that holds any, by its number in the query."""
        return self._flow.rows_by_operator()

    @property
    def rows_held(self) -> int:
        """Rows in the states of all operators, or answers of the largest leaf if these are more."""
        answers = (len(leaf.answers) for leaf in self._leaves if leaf.answers is not None)
        return max(self._flow.rows_held, *answers, 0)

    @property
    def reports(self) -> dict[str, float | int | None] | None:
        """Where reports are, in words for people, if there are any (:mod:`p2prdf.continuous.reports`)."""
        return None

    @property
    def reported(self) -> int:
        """Up to which event time (ms) reports are made, and what they told is kept; -1: there are none."""
        return -1

    @property
    def mark(self) -> Mark:
        """The same with the number of the last of these reports and its last element, where windows are by count."""
        return Mark(self.reported)

    def advance(self, upto: int, began: int, stamp: int, whole: int = 0) -> None:
        """Take note how far the streams are that are read: none here (:mod:`p2prdf.continuous.reports`)."""

    def changed(self, leaf: int, changes: Iterable[Change]) -> None:
        """Take note of changes of a leaf."""
        weighed = ((leaf, change.row, change.weight(self._since)) for change in changes)
        self._waiting.extend(each for each in weighed if each[2])

    def sure(self, upto: int) -> None:
        """Take note that all has come which anybody knew by a stamp; what was doubtful then is compared again."""
        self._sure_upto = max(self._sure_upto, upto)
        if self.stale:  # all is compared anyway
            return
        for row, (since, count) in self._doubtful.items():
            if since <= self._sure_upto:  # nothing was told of it since, so as many copies are held
                self._to_compare.setdefault(row, count)

    def work(self, contents: Contents, log: ResultLog, rows_max: int = 1 << 62, stamp: int = 0) -> list[News]:
        """Work off a piece, no more than makes it hold ``rows_max`` rows, about; return what is to be told.

        ``stamp``: of now; 0 if nobody else can know anything, so nothing is doubtful.
        """
        touched: dict[Row, None] = {}
        done = 0
        while done < PIECE and self._waiting and self.rows_held <= rows_max:
            count = min(PIECE - done, len(self._waiting), 1 + PAIRS // (1 + self._flow.rows_held))
            touched.update(dict.fromkeys(self._apply(count)))
            done += count
        self._loading = max(0, self._loading - done)
        if self.stale:
            if self._loading or self.staged:  # all is compared when all is there
                return []
            self._begin_to_compare(contents)
        changed = self._clear(map(self._as_told, touched))
        return [*self._tell(changed, log), *self._compare(contents, log, stamp)]

    def _apply(self, count: int) -> Iterable[Row]:
        """Apply some changes; return the rows of the output that changed."""
        piece: dict[int, list[tuple[Row, int]]] = {}
        for _ in range(count):
            leaf, row, weight = self._waiting.popleft()
            piece.setdefault(leaf, []).append((row, weight))
        return self._flow.apply_all(piece)

    def _begin_to_compare(self, contents: Contents) -> None:
        """Compare all that is true, all that the contents say was told, and what was doubtful and may be neither."""
        self.stale = False
        self._told.forget()
        self._to_compare = dict.fromkeys((*map(self._as_told, self._flow.output()), *self._doubtful), 0)
        self._to_compare |= Counter(contents.rows.values())

    def _compare(self, contents: Contents, log: ResultLog, stamp: int) -> list[News]:
        """Compare some of the rows that are to be compared; what is doubtful is not taken back."""
        held = {row: self._to_compare.pop(row) for row in list(islice(self._to_compare, PIECE))}
        self._told.recall(held, log.knows)
        self._doubt(held, stamp)
        clear = {row: held[row] for row in self._clear(held)}
        strays = self._strays(contents, clear)
        for stray in strays:
            clear.pop(stray.row, None)
            self.stale = True  # it is compared again when they are over
        return [*strays, *self._tell(clear, log)]

    def _doubt(self, held: Mapping[Row, int], stamp: int) -> None:
        """See which of some rows are doubtful: they differ from what was told of them, and it is not sure yet."""
        for row, count in held.items():
            told, wanted = self._told.count(row), self._wanted(row)
            too_many = told > wanted or count > told  # more than follows, or under names that nobody thinks of
            differs = too_many or (told < wanted and self._told.came_and_went(row))
            since, _ = self._doubtful.pop(row, (stamp, 0))
            if differs and since > self._sure_upto:
                self._doubtful[row] = since, count

    def _clear(self, rows: Iterable[Row]) -> list[Row]:
        """Return those of some rows that are neither doubtful nor still to be compared."""
        return [row for row in rows if row not in self._to_compare and row not in self._doubtful]

    def _strays(self, contents: Contents, held: dict[Row, int]) -> list[News]:
        """Take back what was told under names that nobody would think of.

        Such are left if who told it was lost with the only record of what it had told before: of another copy of the
        row, or of a withdrawal.
        """
        odd = {row: self._told.names(row) for row, count in held.items() if count > self._told.count(row)}
        if not odd:
            return []
        return [
            News(name ^ WITHDRAWN, True, row)
            for name, row in contents.rows.items()
            if row in odd and name not in odd[row]
        ]

    def _tell(self, rows: Iterable[Row], log: ResultLog) -> list[News]:
        """Return what is to be told of some rows, what is over first."""
        wanted = {row: self._wanted(row) for row in rows}
        news = [News(identity, over, row) for row, identity, over in self._told.changes(wanted, log.knows)]
        return sorted(news, key=lambda each: not each.over)

    def _wanted(self, row: Row) -> int:
        """Return how many copies of a row follow."""
        return max(0, self._flow.count(self._as_computed(row)))

    def _as_told(self, row: Row) -> Row:
        return tuple(self._unbound if term == UNBOUND else term for term in row)

    def _as_computed(self, row: Row) -> Row:
        return tuple(UNBOUND if term == self._unbound else term for term in row)
