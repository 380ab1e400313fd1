"""Decide whether a text satisfies an expression, from the positions of its words.

Nearness is evaluated along the chain: for each phrase, only positions near some position of the previous phrase are
kept, found by bisection in sorted lists.  The time for a chain is thus proportional to the positions of its words,
not to their combinations.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from p2prdf.rdf import terms
from p2prdf.rdf.fulltext import stems
from p2prdf.rdf.fulltext.expression import PLAIN, And, Condition, Expression, Gap, Near, Not, Or, Phrase, Similar, Using
from p2prdf.rdf.fulltext.parts import length_of, parts_of
from p2prdf.rdf.fulltext.similarity import Measure, measured, similar_holds
from p2prdf.rdf.fulltext.words import word_fits, words_of

__all__ = ["Text", "condition_holds", "expression_holds", "language_fits", "recent_text_of", "text_of"]

_NOWHERE: Final[list[int]] = []
_TEXTS_MAX: Final = 1024
_WORDS_MAX: Final = 1 << 16
"""Most words in all remembered texts; a batch fits unless its texts are whole books."""


class Text:
    """The words of one literal, its language if it has one, and the positions of words and stems.

    Positions are computed on first use, those of stems for each language separately.
    """

    __slots__ = ("_measures", "_places", "_stems", "language", "words")

    def __init__(self, words: list[str], language: str | None = None):
        self.words = words
        self.language = language
        self._places: dict[str, list[int]] | None = None
        self._stems: dict[str, dict[str, list[int]]] | None = None
        self._measures: dict[tuple[Using, str | None], Measure] | None = None

    @property
    def places(self) -> dict[str, list[int]]:
        """The positions of each word, in ascending order."""
        if self._places is None:
            found: dict[str, list[int]] = {}
            for place, word in enumerate(self.words):
                found.setdefault(word, []).append(place)
            self._places = found
        return self._places

    def stems(self, algorithm: str) -> dict[str, list[int]]:
        """Return the positions of each stem's key by one of Snowball's algorithms, in ascending order."""
        if self._stems is None:
            self._stems = {}
        found = self._stems.get(algorithm)
        if found is None:
            found = self._stems[algorithm] = _stemmed(self.places, algorithm)
        return found

    def places_of(self, key: str) -> list[int]:
        """Return the positions of a word, or of the words with a stem, in ascending order."""
        algorithm = stems.algorithm_of_key(key)
        return (self.places if algorithm is None else self.stems(algorithm)).get(key, _NOWHERE)

    def measure(self, using: Using, algorithm: str | None) -> Measure:
        """Return the frequency of each term under a comparison, and the squared length of their vector."""
        if self._measures is None:
            self._measures = {}
        found = self._measures.get((using, algorithm))
        if found is None:
            counts = {word: len(places) for word, places in self.places.items()}
            found = self._measures[using, algorithm] = measured(counts, using, algorithm)
        return found


def _stemmed(places: dict[str, list[int]], algorithm: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    several = set()
    words = list(places)
    for word, stem in zip(words, stems.stems_of(words, algorithm), strict=True):
        key = stems.key_of(stem, algorithm)
        if key in found:
            found[key] = found[key] + places[word]
            several.add(key)
        else:
            found[key] = places[word]
    for key in several:
        found[key].sort()
    return found


def text_of(term: str) -> Text | None:
    """Return the text of a canonical term; None unless it is a plain literal or has a language."""
    if not term.startswith('"'):
        return None
    if term.endswith('"'):  # plain, most often without escapes
        lexical = term[1:-1] if "\\" not in term else terms.lexical(term)
        return Text(words_of(lexical))
    lexical, datatype, _ = terms.literal_parts(term)
    return None if datatype is not None else Text(words_of(lexical), terms.language(term))


class _Recent:
    """Cache of recently used texts."""

    __slots__ = ("_texts", "_words")

    def __init__(self) -> None:
        self._texts: dict[str, Text | None] = {}
        self._words = 0

    def of(self, term: str) -> Text | None:
        found = self._texts.get(term)
        if found is None and term not in self._texts:
            found = text_of(term)
            words = 0 if found is None else len(found.words)
            if len(self._texts) >= _TEXTS_MAX or self._words + words > _WORDS_MAX:
                self._texts.clear()
                self._words = 0
            self._texts[term] = found
            self._words += words
        return found


_recent: Final = _Recent()


def recent_text_of(term: str) -> Text | None:
    """Return the same as :func:`text_of`, with a cache: many conditions are tested on one text in a row."""
    return _recent.of(term)


def condition_holds(condition: Condition, text: Text | None) -> bool:
    """Tell whether a condition holds for a text; it never does for None."""
    return (
        text is not None
        and language_fits(condition.language, text.language)
        and expression_holds(condition.expression, text, condition.language)
    )


def language_fits(wanted: str | None, language: str | None) -> bool:
    """Tell whether a language matches a range: basic filtering of RFC 4647, as SPARQL's ``langMatches``."""
    if wanted is None:
        return True
    if language is None:
        return False
    return wanted == "*" or language == wanted or language.startswith(wanted + "-")


def expression_holds(expression: Expression, text: Text, language: str | None = None) -> bool:
    """Tell whether the words of a text satisfy an expression; ``language``: the range of its condition."""
    match expression:
        case Phrase(words, using):
            if len(words) == 1 and using == PLAIN and "*" not in words[0]:
                return words[0] in text.places
            return bool(_starts(expression, text, language))
        case Similar():
            return similar_holds(expression, text, language)
        case Near(phrases, gaps):
            return _chain_holds(phrases, gaps, text, language)
        case And(parts):
            return all(expression_holds(each, text, language) for each in parts)
        case Or(parts):
            return any(expression_holds(each, text, language) for each in parts)
        case Not(part):
            return not expression_holds(part, text, language)


def _starts(phrase: Phrase, text: Text, language: str | None) -> list[int]:
    """Return the positions of a phrase's first part, in ascending order."""
    (_, first), *rest = parts_of(phrase, language)
    starts = _key_places(first, text)
    words = text.words
    for offset, key in rest:
        if not starts:
            return starts
        if "*" in key:
            starts = [at for at in starts if at + offset < len(words) and word_fits(key, words[at + offset])]
        elif stems.algorithm_of_key(key) is not None:
            there = frozenset(text.places_of(key))
            starts = [at for at in starts if at + offset in there]
        else:
            starts = [at for at in starts if at + offset < len(words) and words[at + offset] == key]
    return starts


def _key_places(key: str, text: Text) -> list[int]:
    if "*" not in key:
        return text.places_of(key)
    glob = key
    return sorted(place for word, places in text.places.items() if word_fits(glob, word) for place in places)


def _chain_holds(phrases: tuple[Phrase, ...], gaps: tuple[Gap, ...], text: Text, language: str | None) -> bool:
    reached = _starts(phrases[0], text, language)
    for before, gap, phrase in zip(phrases, gaps, phrases[1:], strict=False):
        if not reached:
            return False
        length, own = length_of(before, language), length_of(phrase, language)
        reached = [
            at
            for at in _starts(phrase, text, language)
            if _any_within(reached, at - length - gap.most, at - length - gap.least)
            or (not gap.ordered and _any_within(reached, at + own + gap.least, at + own + gap.most))
        ]
    return bool(reached)


def _any_within(places: list[int], low: int, high: int) -> bool:
    at = bisect_left(places, low)
    return at < len(places) and places[at] <= high
