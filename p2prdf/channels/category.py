"""Categories: graphs, or bindings, that are considered to be of the same kind.

A lesson from one graph applies only to graphs of its category, and a position means the same in all of them:
the n-th element of the graph's text. Several ways to assign categories compete
(:mod:`p2prdf.channels.competition`). Three of them read texts (:mod:`p2prdf.channels.learner`):

- *count*, the paper's: the number of elements. Statements stay in the order of publication. Different kinds may
  have the same count, and one more course makes another category.
- *shape*: the gaps between the elements of each term, statement by statement. It never mixes kinds, but one
  more course still makes another category.
- *signature*: the predicates and classes, in any order and number; only the first statement of each is read.
  All students with an advisor thus have one category.

The fourth, *change*, reads new facts (:mod:`p2prdf.channels.seeding`).
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from p2prdf.channels.elements import ELEMENTS_MAX, Cut, Cuts
from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning import Fact, Triple
from p2prdf.reasoning.vocabulary import TYPE

__all__ = ["POSITIONS_MAX", "Categories", "History", "Publication"]

POSITIONS_MAX: Final = 65_536
"""Bound on the positions with a history, in all categories; the oldest category is dropped first."""


class Categories(enum.Enum):
    """A way to assign categories."""

    CHANGE = "change"
    COUNT = "count"
    SHAPE = "shape"
    SIGNATURE = "signature"

    def of_graph(self, statements: Sequence[Triple], cuts: Cuts) -> tuple[Hashable, tuple[str, ...]]:
        """Return the category of a graph, and its elements in the order of their positions."""
        assert self is not Categories.CHANGE, "of no text"
        if self is Categories.SIGNATURE:
            return _signature(statements, cuts)
        elements = cuts.elements(term for statement in statements for term in statement)
        if self is Categories.COUNT:
            return len(elements), elements
        return tuple(cuts.of(term).gaps for statement in statements for term in statement), elements

    def of_binding(self, binding: Cut) -> Hashable:
        """Return the category of a binding's text."""
        return len(binding.elements) if self is Categories.COUNT else binding.gaps


def _signature(statements: Sequence[Triple], cuts: Cuts) -> tuple[Hashable, tuple[str, ...]]:
    first: dict[str, Triple] = {}
    numbers: dict[str, int] = {}
    for s, p, o in statements:  # the category includes the numbers of the subjects, by first mention
        number = numbers.setdefault(s, len(numbers))
        first.setdefault(f"{number} {p} {o}" if p == TYPE else f"{number} {p}", (s, p, o))
    names = sorted(first)
    found = [cuts.of(term) for name in names for term in first[name]]
    elements = tuple(element for each in found for element in each.elements)
    return (*names, *(len(each.elements) for each in found)), elements


class Publication:
    """A published graph for the learners: its category and elements by each way, computed on demand."""

    __slots__ = ("_by_predicate", "_cuts", "_places", "_seen", "added", "number", "statements")

    def __init__(
        self, number: int, statements: Sequence[Triple], cuts: Cuts, added: Mapping[Fact, int] | None = None
    ):
        """``added``: the facts that became true with it."""
        self.number = number
        self.statements = statements
        self.added: Mapping[Fact, int] = {} if added is None else added
        self._by_predicate: dict[int, list[Fact]] | None = None
        self._cuts = cuts
        self._seen: dict[Categories, tuple[Hashable, tuple[str, ...]]] = {}
        self._places: dict[Categories, dict[str, list[int]]] = {}

    def look(self, categories: Categories) -> None:
        """Compute the data that learners of a kind need first."""
        if categories is Categories.CHANGE:
            assert self.by_predicate is not None
        else:
            self.seen(categories)

    @property
    def by_predicate(self) -> dict[int, list[Fact]]:
        """The facts that became true, by predicate."""
        found = self._by_predicate
        if found is None:
            found = self._by_predicate = {}
            for fact in self.added:
                predicate = fact[1]
                if predicate in found:
                    found[predicate].append(fact)
                else:
                    found[predicate] = [fact]
        return found

    def seen(self, categories: Categories) -> tuple[Hashable, tuple[str, ...]]:
        """Return category and elements; None and no elements if there are too many."""
        found = self._seen.get(categories)
        if found is None:
            found = categories.of_graph(self.statements, self._cuts)
            if len(found[1]) > ELEMENTS_MAX:
                found = (None, ())
            self._seen[categories] = found
        return found

    def places(self, categories: Categories) -> dict[str, list[int]]:
        """Return the positions of each element."""
        found = self._places.get(categories)
        if found is None:
            found = self._places[categories] = {}
            for place, element in enumerate(self.seen(categories)[1]):
                found.setdefault(element, []).append(place)
        return found


class History:
    """The elements seen at each position of the texts of a category.

    The diversity index of a position is the number of different elements seen there. A position with at least
    ``threshold`` of them is *key*: it distinguishes texts. The others are *structure*, which texts share. Each
    position stores at most ``threshold`` elements.
    """

    def __init__(self, threshold: int, positions_max: int = POSITIONS_MAX):
        """Raises LocalProtocolError for a threshold below 2, with which every position would be key."""
        if threshold < 2:
            raise LocalProtocolError(f"the threshold of key positions is at least 2, not {threshold}")
        self._threshold = threshold
        self._positions_max = positions_max
        self._positions = 0
        self._seen: dict[Hashable, list[dict[str, None]]] = {}
        self._keys: dict[Hashable, tuple[int, ...]] = {}

    def note(self, category: Hashable, elements: Sequence[str]) -> bool:
        """Add a text of a category; return whether a position became key."""
        seen = self._seen.get(category)
        if seen is None:
            self._make_room(len(elements))
            seen = self._seen[category] = [{} for _ in elements]
        threshold, became = self._threshold, False
        for known, element in zip(seen, elements, strict=True):
            if len(known) < threshold and element not in known:
                known[element] = None
                became = became or len(known) == threshold
        if became:
            self._keys[category] = tuple(at for at, known in enumerate(seen) if len(known) >= threshold)
        return became

    def _make_room(self, positions: int) -> None:
        self._positions += positions
        while self._positions > self._positions_max and self._seen:
            oldest = next(iter(self._seen))
            self._positions -= len(self._seen.pop(oldest))
            self._keys.pop(oldest, None)

    def diversity(self, category: Hashable) -> tuple[int, ...]:
        """Return the diversity index of each position, counted up to the threshold."""
        return tuple(map(len, self._seen.get(category, ())))

    def keys(self, category: Hashable) -> tuple[int, ...]:
        """Return the key positions of a category."""
        return self._keys.get(category, ())
