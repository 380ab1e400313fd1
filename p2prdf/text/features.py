"""Features of publications as small numbers, which select candidate queries.

A feature is a subject, or one of these for a given or any predicate: the predicate itself, an object, a word in the
text, a word that matches a glob or has a stem, or a text with a given similarity.  Only features that queries use
have numbers, so one lookup of a publication's word, among the words in use for its predicate, dismisses all others.
A number is freed when no query uses it.
"""

from __future__ import annotations

import sys
from array import array
from typing import Final, NamedTuple

from p2prdf.rdf.fulltext import Condition, algorithm_of_key
from p2prdf.text.globs import Globs
from p2prdf.text.languages import Languages
from p2prdf.text.publication import Publication
from p2prdf.text.set_trie import END
from p2prdf.text.similars import Similars

__all__ = ["ANY_PREDICATE", "Feature", "Features"]

ANY_PREDICATE: Final = ""
"""The predicate of features for any predicate."""


class Feature(NamedTuple):
    """A feature: its kind, its predicate and its value.

    ``kind``: ``object``, ``word`` (or stem), ``glob``, ``similar``, ``itself`` (no value) or ``subject``.
    """

    kind: str
    predicate: str
    value: str | Condition
    """A text; for a similarity, its condition."""


class _OfPredicate:
    """The features in use for one predicate."""

    __slots__ = ("globs", "itself", "languages", "objects", "several", "similars", "words")

    def __init__(self) -> None:
        self.itself: int | None = None
        self.objects: dict[str, int] = {}
        self.words: dict[str, int] = {}
        self.languages: Languages | None = None
        """The languages of the stems in ``words``; None until the first one."""
        self.globs: Globs | None = None
        self.similars: Similars | None = None
        self.several = 0
        """Number of patterns with more than one feature.

        One triple must have all features of such a pattern, which features cannot tell.
        """


class Features:
    """Numbers of features, with counts of the paths that use each and of the publications that had it."""

    def __init__(self) -> None:
        self._names: list[Feature | None] = [None] * (END + 1)
        self._free: list[int] = []
        self._uses = array("i", [0] * (END + 1))
        self._seen = array("i", [0] * (END + 1))
        self._by_predicate: dict[str, _OfPredicate] = {}
        self._subjects: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._names) - len(self._free) - (END + 1)

    def use(self, feature: Feature) -> int:
        """Return the number of a feature and count one more use."""
        number = self._number(feature)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._names[number], self._seen[number] = feature, 0
            else:
                number = len(self._names)
                self._names.append(feature)
                self._uses.append(0)
                self._seen.append(0)
            self._insert(feature, number)
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Remove one use; the last one frees the number."""
        self._uses[number] -= 1
        if self._uses[number] == 0:
            feature = self._names[number]
            assert feature is not None, "it was in use"
            self._names[number] = None
            self._free.append(number)
            self._delete(feature)

    def several(self, predicate: str, change: int) -> None:
        """Change the count of patterns with more than one feature for a predicate."""
        of = self._by_predicate.setdefault(predicate, _OfPredicate())
        of.several += change
        self._drop_if_empty(predicate)

    def frequency(self, number: int, queries: int, publications: int) -> float:
        """Return the estimated share of publications that have a feature.

        Until many publications have been seen, features that many queries use count as frequent.
        """
        prior = 100.0
        return (self._seen[number] + prior * self._uses[number] / (queries or 1)) / (publications + prior)

    def count(self, present: set[int]) -> None:
        """Count the features of a publication as seen."""
        seen = self._seen
        for number in present:
            seen[number] += 1

    def of(self, publication: Publication) -> tuple[set[int], bool]:
        """Return the features of a publication, END included, and whether several triples may share them.

        The second is true if a predicate with several triples has a pattern with more than one feature.
        """
        present: set[int | None] = {END}
        predicates: set[str] = set()
        hidden = False
        anywhere = self._by_predicate.get(ANY_PREDICATE)
        for place, (s, p, o) in enumerate(publication.triples):
            own = self._by_predicate.get(p)
            if own is not None:
                if p in predicates:
                    hidden = hidden or own.several > 0
                predicates.add(p)
                self._add(present, own, o, place, publication)
            if anywhere is not None:
                hidden = hidden or (anywhere.several > 0 and place > 0)
                self._add(present, anywhere, o, place, publication)
            if self._subjects:
                present.add(self._subjects.get(s))
        present.discard(None)
        return present, hidden  # type: ignore[return-value]

    @staticmethod
    def _add(present: set[int | None], of: _OfPredicate, o: str, place: int, publication: Publication) -> None:
        present.add(of.itself)
        present.add(of.objects.get(o))
        if (of.words or of.globs or of.similars) and o[0] == '"':
            text = publication.text(place)
            if text is not None:
                present.update(map(of.words.get, text.words))
                if of.languages:
                    present.update(map(of.words.get, of.languages.stems(text)))
                if of.globs:
                    for word in text.words:
                        present.update(of.globs.fitting(word))
                if of.similars:
                    present.update(of.similars.fitting(text))

    def _number(self, feature: Feature) -> int | None:
        """Return the number of a feature; None if no query uses it."""
        if feature.kind == "subject":
            return self._subjects.get(str(feature.value))
        of = self._by_predicate.get(feature.predicate)
        if of is None:
            return None
        if isinstance(feature.value, Condition):
            return None if of.similars is None else of.similars.number(feature.value)
        match feature.kind:
            case "itself":
                return of.itself
            case "object":
                return of.objects.get(feature.value)
            case "word":
                return of.words.get(feature.value)
            case _:
                return None if of.globs is None else of.globs.number(feature.value)

    def _insert(self, feature: Feature, number: int) -> None:
        if feature.kind == "subject":
            self._subjects[str(feature.value)] = number
            return
        of = self._by_predicate.setdefault(feature.predicate, _OfPredicate())
        if isinstance(feature.value, Condition):
            of.similars = of.similars or Similars()
            of.similars.add(feature.value, number)
            return
        match feature.kind:
            case "itself":
                of.itself = number
            case "object":
                of.objects[feature.value] = number
            case "word":
                # Interning shares one object between predicates, so frequent words stay in the processor's caches.
                of.words[sys.intern(feature.value)] = number
                if algorithm_of_key(feature.value) is not None:
                    of.languages = of.languages or Languages()
                    of.languages.use((feature.value,))
            case _:
                of.globs = of.globs or Globs()
                of.globs.add(feature.value, number)

    def _delete(self, feature: Feature) -> None:
        if feature.kind == "subject":
            del self._subjects[str(feature.value)]
            return
        of = self._by_predicate[feature.predicate]
        if isinstance(feature.value, Condition):
            assert of.similars is not None, "it was filed there"
            of.similars.remove(feature.value)
            self._drop_if_empty(feature.predicate)
            return
        match feature.kind:
            case "itself":
                of.itself = None
            case "object":
                del of.objects[feature.value]
            case "word":
                del of.words[feature.value]
                if of.languages is not None:
                    of.languages.release((feature.value,))
            case _:
                assert of.globs is not None, "it was filed there"
                of.globs.remove(feature.value)
        self._drop_if_empty(feature.predicate)

    def _drop_if_empty(self, predicate: str) -> None:
        of = self._by_predicate[predicate]
        if of.itself is None and not (of.objects or of.words or of.globs or of.similars or of.several):
            del self._by_predicate[predicate]
