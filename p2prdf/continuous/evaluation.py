"""A standing query being evaluated for one subscription, where that is delivered from.

Changes of the leaves wait in order, and go through the operators a piece at a time.  What comes out is compared
with what the subscriber was told (:mod:`p2prdf.continuous.told`); the difference is what it is to be told next.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

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
"""Changes of leaves that are worked off at a time, so that nothing else waits for long."""
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
            self._waiting.extend((number, row, weight) for row, weight in leaf.answers.since(since))
        self._loading = len(self._waiting)
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
        return bool(self._waiting) or (self.stale and not self.staged)

    @property
    def settled(self) -> bool:
        """Whether the subscriber was handed all that follows from what the leaves answered."""
        return not (self._waiting or self.stale or self.staged)

    @property
    def rows_by_operator(self) -> dict[int, int]:
        """Rows in the state of each operator that holds any, by its number in the query."""
        return self._flow.rows_by_operator()

    @property
    def rows_held(self) -> int:
        """Rows in the states of all operators, or answers of the largest leaf if these are more."""
        answers = (len(leaf.answers) for leaf in self._leaves if leaf.answers is not None)
        return max(self._flow.rows_held, *answers, 0)

    def changed(self, leaf: int, changes: Iterable[Change]) -> None:
        """Take note of changes of a leaf."""
        weighed = ((leaf, change.row, change.weight(self._since)) for change in changes)
        self._waiting.extend(each for each in weighed if each[2])

    def work(self, contents: Contents, log: ResultLog, rows_max: int = 1 << 62) -> list[News]:
        """Work off a piece, no more than makes it hold ``rows_max`` rows, about; return what is to be told."""
        touched: dict[Row, None] = {}
        done = 0
        while done < PIECE and self._waiting and self.rows_held <= rows_max:
            count = min(PIECE - done, len(self._waiting), 1 + PAIRS // (1 + self._flow.rows_held))
            touched.update(dict.fromkeys(self._apply(count)))
            done += count
        self._loading = max(0, self._loading - done)
        if self.stale:  # all is compared then, when all is there
            return [] if self._loading or self.staged else self._compare(contents, log)
        return self._tell({self._as_told(row): self._flow.count(row) for row in touched}, log)

    def _apply(self, count: int) -> Iterable[Row]:
        """Apply some changes; return the rows of the output that changed."""
        piece: dict[int, list[tuple[Row, int]]] = {}
        for _ in range(count):
            leaf, row, weight = self._waiting.popleft()
            piece.setdefault(leaf, []).append((row, weight))
        return self._flow.apply_all(piece)

    def _compare(self, contents: Contents, log: ResultLog) -> list[News]:
        """Compare all that is true with all that was told."""
        counts = {self._as_told(row): count for row, count in self._flow.output().items()}
        held = Counter(contents.rows.values())
        counts |= {row: 0 for row in held if row not in counts}
        self._told.forget()
        self._told.recall(counts, log.knows)
        strays = self._strays(contents, held)
        if strays:  # compared again when they are over
            return strays
        self.stale = False
        return self._tell(counts, log)

    def _strays(self, contents: Contents, held: Counter[Row]) -> list[News]:
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

    def _tell(self, counts: dict[Row, int], log: ResultLog) -> list[News]:
        """Return what is to be told for some rows to be told so often, what is over first."""
        wanted = {row: max(0, count) for row, count in counts.items()}
        news = [News(identity, over, row) for row, identity, over in self._told.changes(wanted, log.knows)]
        return sorted(news, key=lambda each: not each.over)

    def _as_told(self, row: Row) -> Row:
        return tuple(self._unbound if term == UNBOUND else term for term in row)
