"""Find the conditions about similarity that hold for a text, without trying all of them.

A text of sixty words is not very similar to any three, so thresholds are low, and a single common word makes a text a
candidate (:func:`p2prdf.rdf.fulltext.similarity.needed`).  A trie would therefore lead to every condition with a
common word.  Instead, each word has a posting list of the conditions that contain it, with its weight in each: the
products over the words of a text are summed for all conditions at once, as search engines score documents.  The sums
are floating point numbers and only select candidates: a condition near or above its threshold is evaluated exactly.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import inf, sqrt
from typing import Final, NamedTuple

import numpy as np

from p2prdf.rdf.fulltext import Condition, Similar, Text, condition_holds, frequency_weight, vector_of
from p2prdf.rdf.fulltext.expression import PLAIN, THRESHOLD_SCALE, Using
from p2prdf.rdf.fulltext.stems import algorithm_of

__all__ = ["Similars"]

_NEARLY: Final = 1 - 1e-9
"""Factor on thresholds that covers rounding: sums of some hundred products have 14 exact digits."""


class _Kind(NamedTuple):
    """The comparison of words, and the stemming algorithm if it needs one."""

    using: Using
    algorithm: str | None


class _List:
    """The posting list of a word: conditions by index, and its weight in each."""

    __slots__ = ("places", "weights")

    def __init__(self) -> None:
        self.places = array("i")
        self.weights = array("d")


class Similars:
    """Conditions of a single similarity each, with their numbers."""

    def __init__(self) -> None:
        self._places: dict[Condition, int] = {}
        self._held: list[tuple[Condition, int] | None] = []
        self._reached = array("d")
        """The sum that each condition requires, by index, for a text of length 1."""
        self._free: list[int] = []
        self._lists: dict[_Kind, dict[str, _List]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def number(self, condition: Condition) -> int | None:
        """Return the number of a condition; None if it is unknown."""
        place = self._places.get(condition)
        held = None if place is None else self._held[place]
        return None if held is None else held[1]

    def add(self, condition: Condition, number: int) -> None:
        """Add a new condition."""
        kind, similar = _kind(condition)
        weights, square = vector_of(similar, condition.language)
        if self._free:
            place = self._free.pop()
        else:
            place = len(self._held)
            self._held.append(None)
            self._reached.append(inf)
        self._places[condition] = place
        self._held[place] = condition, number
        self._reached[place] = similar.threshold / THRESHOLD_SCALE * sqrt(square) * _NEARLY
        lists = self._lists.setdefault(kind, {})
        for term, weight in weights:
            of = lists.setdefault(term, _List())
            of.places.append(place)
            of.weights.append(weight)

    def remove(self, condition: Condition) -> None:
        """Remove a condition."""
        kind, similar = _kind(condition)
        place = self._places.pop(condition)
        self._held[place] = None
        self._reached[place] = inf
        self._free.append(place)
        lists = self._lists[kind]
        for term, _ in vector_of(similar, condition.language).weights:
            of = lists[term]
            at = of.places.index(place)
            of.places[at], of.weights[at] = of.places[-1], of.weights[-1]
            of.places.pop()
            of.weights.pop()
            if not of.places:
                del lists[term]
        if not lists:
            del self._lists[kind]

    def fitting(self, text: Text) -> Iterable[int]:
        """Yield the numbers of the conditions that hold for a text, each once."""
        for kind, lists in self._lists.items():
            if kind.using != PLAIN and kind.algorithm != algorithm_of(text.language):
                continue
            counts, square = text.measure(*kind)
            there = sorted(lists.keys() & counts.keys())
            if there:
                yield from self._near(lists, {term: counts[term] for term in there}, sqrt(square), text)

    def _near(self, lists: dict[str, _List], counts: dict[str, int], length: float, text: Text) -> Iterable[int]:
        sizes = [len(lists[term].places) for term in counts]
        factors = np.repeat(np.array([float(frequency_weight(each)) for each in counts.values()]), sizes)
        places = np.concatenate([np.frombuffer(lists[term].places, np.intc) for term in counts])
        weights = np.concatenate([np.frombuffer(lists[term].weights, np.float64) for term in counts])
        sums = np.bincount(places, weights * factors)
        near = sums >= np.frombuffer(self._reached, np.float64)[: len(sums)] * length
        for place in np.flatnonzero(near).tolist():
            held = self._held[place]
            if held is not None and condition_holds(held[0], text):
                yield held[1]


def _kind(condition: Condition) -> tuple[_Kind, Similar]:
    similar = condition.expression
    assert isinstance(similar, Similar), "nothing else is filed here"
    return _Kind(similar.using, None if similar.using == PLAIN else algorithm_of(condition.language)), similar
