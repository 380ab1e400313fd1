"""The lessons of one way to assign categories, for one channel.

*Learning*: for each binding that was not predicted, the learner searches the graphs published since the last
run. The first graph that contains all key elements of the binding gives an entry of the mapping table. If a key
element occurs at several positions, those come first with the same preceding element as in the binding
(``GraduateStudent`` before ``44``), then key positions of the graph, then earlier ones. The first choices give
an entry, and so does each second choice, up to a bound; hit rates decide between them.

*Predicting*: the entries for a graph give candidates, which the caller tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from p2prdf.channels.category import Categories, History, Publication
from p2prdf.channels.elements import Cut
from p2prdf.channels.mapping import Entry, MappingTable, skeleton_of

__all__ = ["BINDING_ELEMENTS_MAX", "RECENT_BINDINGS", "Learner"]

BINDING_ELEMENTS_MAX: Final = 256
"""Bound on the elements of a binding for learning."""
_PLACES_MAX: Final = 64
"""Bound on the positions considered per element of a graph."""

RECENT_BINDINGS: Final = 40
"""Number of recent new bindings by which heuristics are compared."""


class Learner:
    """Histories, mapping table and success rate for one way to assign categories."""

    def __init__(
        self, categories: Categories, *, threshold: int, entries_max: int, alternatives_max: int, skeletons_tried: int
    ):
        self.categories = categories
        self.bindings = History(threshold)
        self.graphs = History(threshold)
        self.table = MappingTable(entries_max)
        self._alternatives = alternatives_max
        self._skeletons = skeletons_tried
        self.foreseen: deque[bool] = deque(maxlen=RECENT_BINDINGS)
        """For each of the last new bindings asked about, whether the learner would have predicted it."""

    @property
    def rate(self) -> float:
        """The fraction of recent bindings that it would have predicted."""
        return sum(self.foreseen) / len(self.foreseen) if self.foreseen else 0.0

    def candidates(self, publication: Publication) -> Iterator[tuple[Entry, str]]:
        """Yield the texts of candidate bindings of a graph with their entries, the best first."""
        category, elements = publication.seen(self.categories)
        for entry in self.table.entries(category):
            for text in entry.texts(elements, self._skeletons):
                yield entry, text

    def foresees(self, text: str, publications: Iterable[Publication], candidates_max: int) -> bool:
        """Return whether a binding is among the first candidates of any of some graphs."""
        return any(
            text == candidate
            for publication in publications
            for _, candidate in islice(self.candidates(publication), candidates_max)
        )

    def note(self, binding: Cut) -> None:
        """Add a binding to the histories without a cause."""
        category = self.categories.of_binding(binding)
        if len(binding.elements) <= BINDING_ELEMENTS_MAX and self.bindings.note(category, binding.elements):
            self.table.forget(category)

    def learn(self, binding: Cut, publications: Sequence[Publication]) -> bool:
        """Learn from a new binding and its possible causes; return whether a graph has all its keys."""
        if len(binding.elements) > BINDING_ELEMENTS_MAX:
            return False
        self.note(binding)
        category = self.categories.of_binding(binding)
        keys = self.bindings.keys(category)
        if not keys:
            return False
        for publication in publications:
            places = publication.places(self.categories)
            standing = [places.get(binding.elements[key]) for key in keys]
            if all(standing):
                self._take(publication, category, binding, keys, [each or [] for each in standing])
                return True
        return False

    def _take(
        self, publication: Publication, category: object, binding: Cut, keys: tuple[int, ...],
        standing: Sequence[list[int]],
    ) -> None:  # fmt: skip
        graph, elements = publication.seen(self.categories)
        self.graphs.note(graph, elements)
        graph_keys = set(self.graphs.keys(graph))

        def order(key: int, place: int) -> tuple[bool, bool, int]:
            before = key > 0 and place > 0 and binding.elements[key - 1] == elements[place - 1]
            return (not before, place not in graph_keys, place)

        ranked = [
            sorted(places[:_PLACES_MAX], key=lambda place, key=key: order(key, place))  # type: ignore[misc]
            for key, places in zip(keys, standing, strict=True)
        ]
        first = tuple(places[0] for places in ranked)
        others = [
            (*first[:at], places[1], *first[at + 1 :]) for at, places in enumerate(ranked) if len(places) > 1
        ]
        skeleton = skeleton_of(binding, keys)
        for places in (first, *others[: self._alternatives - 1]):
            self.table.entry(graph, category, keys, places).note(skeleton)
