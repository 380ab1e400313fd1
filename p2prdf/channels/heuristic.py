"""The interface of all heuristics of a channel, and the heuristics that read texts.

A heuristic is asked, in this order: which bindings a publication brings (:meth:`Heuristic.test`; it returns
only true ones), whether it would have predicted a new binding, and, if not, to learn from that binding. It
predicts only when asked, so comparing several heuristics costs only the questions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, Protocol

from p2prdf.channels.category import Categories, Publication
from p2prdf.channels.elements import Cut, cut
from p2prdf.channels.evaluator import Evaluator
from p2prdf.channels.knowledge import Numbers
from p2prdf.channels.learner import Learner
from p2prdf.channels.mapping import MappingTable
from p2prdf.channels.query import Row

__all__ = ["Heuristic", "OfTexts", "Outcome", "Texts"]


class Outcome(NamedTuple):
    """The result of testing a publication."""

    rows: list[Row]
    """New bindings that hold."""
    candidates: int
    """Number of candidates tested."""
    cut_short: bool
    """Whether a bound was reached before all candidates were tested."""


class Heuristic(Protocol):
    """A way to predict the bindings of one channel."""

    categories: Categories
    table: MappingTable
    """The bindings that graphs of each category have brought, with hit rates."""
    foreseen: deque[bool]
    """For each of the last new bindings asked about, whether the heuristic would have predicted it."""

    @property
    def rate(self) -> float:
        """The fraction of recent bindings that it would have predicted."""
        ...

    def begin(self, rows: Sequence[Row]) -> None:
        """Learn from some of the bindings that hold when the channel is created."""
        ...

    def test(self, publication: Publication, known: Sequence[Container[Row]], over: Callable[[], bool]) -> Outcome:
        """Return the predicted bindings of a publication that hold and are in none of ``known``.

        It stops when ``over`` returns True.
        """
        ...

    def foresees(self, row: Row, publications: Sequence[Publication]) -> bool:
        """Return whether one of some publications would have given a prediction of a binding."""
        ...

    def learn(self, row: Row, publications: Sequence[Publication]) -> None:
        """Learn from a binding that was not predicted, and its possible causes, in order."""
        ...


class Texts:
    """Texts of bindings: their terms with line breaks in between.  The last one is cached."""

    def __init__(self, numbers: Numbers, width: int):
        """``width``: number of terms of a binding."""
        self._numbers = numbers
        self._width = width
        self._last: tuple[Row | None, str, Cut] = (None, "", cut(""))

    def of(self, row: Row) -> str:
        """Return the text of a binding."""
        text = self._numbers.text
        return "\n".join([text(number) for number in row])

    def both(self, row: Row) -> tuple[str, Cut]:
        """Return the text of a binding, and its elements."""
        if self._last[0] != row:
            text = self.of(row)
            self._last = row, text, cut(text)
        return self._last[1:]

    def row(self, text: str) -> Row | None:
        """Return the binding of a text; None for unknown terms, with which no binding holds."""
        terms = text.split("\n")
        find = self._numbers.find
        row = [number for number in map(find, terms) if number is not None]
        return tuple(row) if len(row) == self._width == len(terms) else None


class OfTexts:
    """Derives texts of bindings from texts of graphs (:mod:`p2prdf.channels.learner`)."""

    def __init__(self, learner: Learner, texts: Texts, evaluator: Evaluator, candidates_max: int):
        """``candidates_max``: bound on the candidates tested per publication."""
        self.categories = learner.categories
        self.table = learner.table
        self.foreseen = learner.foreseen
        self.learner = learner
        self._texts = texts
        self._evaluator = evaluator
        self._candidates_max = candidates_max

    @property
    def rate(self) -> float:
        """See Heuristic."""
        return self.learner.rate

    def begin(self, rows: Sequence[Row]) -> None:
        """See Heuristic: the histories learn the key positions, without causes."""
        for row in rows:
            self.learner.note(self._texts.both(row)[1])

    def test(self, publication: Publication, known: Sequence[Container[Row]], over: Callable[[], bool]) -> Outcome:
        """See Heuristic: each candidate is substituted into the query, and all patterns are looked up."""
        found: list[Row] = []
        seen: dict[str, bool | None] = {}
        tested = 0
        for entry, text in self.learner.candidates(publication):
            outcome = seen.get(text)
            if text not in seen:
                if len(seen) >= self._candidates_max or over():
                    return Outcome(found, tested, True)
                row = self._texts.row(text)
                if row is not None and any(row in each for each in known):
                    seen[text] = None  # neither a hit nor a miss
                    continue
                tested += 1
                outcome = seen[text] = row is not None and self._evaluator.holds(row)
                if outcome and row is not None:
                    found.append(row)
            if outcome is not None:
                entry.tries += 1
                entry.hits += outcome
        return Outcome(found, tested, False)

    def foresees(self, row: Row, publications: Sequence[Publication]) -> bool:
        """See Heuristic."""
        return self.learner.foresees(self._texts.both(row)[0], publications, self._candidates_max)

    def learn(self, row: Row, publications: Sequence[Publication]) -> None:
        """See Heuristic."""
        self.learner.learn(self._texts.both(row)[1], publications)
