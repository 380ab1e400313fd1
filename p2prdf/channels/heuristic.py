"""What all heuristics of a channel have in common, and those that read texts.

A heuristic is asked, in this order: what a publication brings (:meth:`Heuristic.test`; all that it returns is true),
whether it would have foreseen a binding that is new now, and if not, to learn from it.  It does not say what it
foresees when it is not asked, so several can be compared at the cost of the questions.
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
    """What testing a publication came to."""

    rows: list[Row]
    """Bindings that are true and not known."""
    candidates: int
    """That were tested."""
    cut_short: bool
    """Whether a bound was met before all candidates were tested."""


class Heuristic(Protocol):
    """One way to foresee the bindings of one channel."""

    categories: Categories
    table: MappingTable
    """Which bindings a graph of some category has brought, with hit rates."""
    foreseen: deque[bool]
    """Of the last new bindings that it was asked about, which it would have foreseen."""

    @property
    def rate(self) -> float:
        """The share of recent bindings that it would have foreseen."""
        ...

    def begin(self, rows: Sequence[Row]) -> None:
        """Take in some of the bindings that there are when the channel is made."""
        ...

    def test(self, publication: Publication, known: Sequence[Container[Row]], over: Callable[[], bool]) -> Outcome:
        """Return what a publication brings, as far as it is foreseen, true and in none of ``known``.

        It stops when ``over`` says so.
        """
        ...

    def foresees(self, row: Row, publications: Sequence[Publication]) -> bool:
        """Tell whether a binding would have been foreseen at one of some publications."""
        ...

    def learn(self, row: Row, publications: Sequence[Publication]) -> None:
        """Learn from a binding that nobody foresaw, and the publications that may have brought it, in order."""
        ...


class Texts:
    """Texts of bindings: their terms, a line break between them.  The last one is remembered."""

    def __init__(self, numbers: Numbers, width: int):
        """``width``: terms of a binding."""
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
        """Return the binding of a text, None if it has terms that never came: it holds nowhere."""
        terms = text.split("\n")
        find = self._numbers.find
        row = [number for number in map(find, terms) if number is not None]
        return tuple(row) if len(row) == self._width == len(terms) else None


class OfTexts:
    """A heuristic that makes the texts of bindings from the texts of graphs (:mod:`p2prdf.channels.learner`)."""

    def __init__(self, learner: Learner, texts: Texts, evaluator: Evaluator, candidates_max: int):
        """``candidates_max``: most candidates that are tested at one publication."""
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
        """See Heuristic: histories learn what is key, and nothing is known of where it came from."""
        for row in rows:
            self.learner.note(self._texts.both(row)[1])

    def test(self, publication: Publication, known: Sequence[Container[Row]], over: Callable[[], bool]) -> Outcome:
        """See Heuristic: a candidate is put into the query, and all patterns are looked up."""
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
