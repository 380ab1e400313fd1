"""The similarity of a text to given words in the vector space model, equal at all peers.

Words and texts are vectors with a component for each word.  Similarity is the cosine of the angle between them, from
0 (no common word) to 1 (the same words in the same proportions).  Weights are *lnc.ltc* (Manning, Raghavan and
Schuetze, Introduction to Information Retrieval, section 6.4.3):

* a word that occurs n times, in the text or among the given words, has the weight 1 + ln n;
* in the vector of the given words only, this is multiplied by the word's rarity, 1 + ln((N + 1) / (n + 1)) if n of N
  texts of a corpus contain it.

The condition states N and n; without a corpus both are 0 and all words weigh alike.  The result depends only on the
condition and the literal.  Weights are integers, in ten-thousandths, from correctly rounded decimal logarithms;
cosines are compared as squares, without floating point.

See docs/explanation/full-text.md for the reason why the condition states the corpus.
"""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

from p2prdf.rdf.fulltext import stems
from p2prdf.rdf.fulltext.expression import PLAIN, THRESHOLD_SCALE, Similar, Using
from p2prdf.rdf.fulltext.stop_words import stop_words_of

if TYPE_CHECKING:
    from p2prdf.rdf.fulltext.evaluation import Text

__all__ = [
    "Measure", "Needed", "Vector", "frequency_weight", "measured", "needed", "similar_holds", "similarity_of",
    "terms_of", "vector_of",
]  # fmt: skip

_SCALE: Final = 10_000
"""The integer weight of 1."""
_ARITHMETIC: Final = Context(prec=28, rounding=ROUND_HALF_EVEN)


class Measure(NamedTuple):
    """The frequency of each term in a text, and the squared length of its vector."""

    counts: dict[str, int]
    square: int


class Needed(NamedTuple):
    """Terms that a text must contain, and terms of which it must contain one (empty: no such requirement)."""

    all_of: tuple[str, ...]
    one_of: tuple[str, ...]


class Vector(NamedTuple):
    """Terms with their weights in descending order, and the squared length."""

    weights: tuple[tuple[str, int], ...]
    square: int


def similar_holds(similar: Similar, text: Text, language: str | None) -> bool:
    """Tell whether a text reaches the threshold; ``language``: the range of the condition."""
    dot, square = _product(similar, text, language)
    wanted = similar.threshold**2 * vector_of(similar, language).square * square
    return dot > 0 and dot**2 * THRESHOLD_SCALE**2 >= wanted


def similarity_of(similar: Similar, text: Text, language: str | None = None) -> float:
    """Return the similarity of a text, rounded for display; :func:`similar_holds` is exact."""
    dot, square = _product(similar, text, language)
    return dot / sqrt(vector_of(similar, language).square * square) if dot else 0.0


def _product(similar: Similar, text: Text, language: str | None) -> tuple[int, int]:
    """Return the product of the two vectors, and the squared length of the text's vector."""
    counts, square = text.measure(similar.using, stems.algorithm_of(language) if similar.using != PLAIN else None)
    weights = vector_of(similar, language).weights
    return sum(weight * frequency_weight(counts[term]) for term, weight in weights if term in counts), square


def measured(words: dict[str, int], using: Using, algorithm: str | None) -> Measure:
    """Return the measure of a text, given the frequency of each word."""
    counts = words
    if using != PLAIN:
        assert algorithm is not None, "conditions in unknown languages are refused on construction"
        kept = list(words)
        if using.stop_words:
            stopped = stop_words_of(algorithm)
            kept = [word for word in kept if word not in stopped]
        counts = {}
        for term, word in zip(terms_of(kept, using, algorithm), kept, strict=True):
            counts[term] = counts.get(term, 0) + words[word]
    alike = Counter(counts.values())
    return Measure(counts, sum(number * frequency_weight(count) ** 2 for count, number in alike.items()))


def terms_of(words: list[str], using: Using, algorithm: str | None) -> list[str]:
    """Return the terms for words other than stop words: the words themselves, or the keys of their stems."""
    if not using.stemming or algorithm is None:
        return words
    return [stems.key_of(stem, algorithm) for stem in stems.stems_of(words, algorithm)]


@lru_cache(maxsize=1 << 14)
def needed(similar: Similar, language: str | None) -> Needed:
    """Return the terms without which a text cannot reach the threshold.

    A text with only a subset S of the given words has at most the similarity |S| / |all|, where |S| is the length of
    the vector of these words (Cauchy-Schwarz).  So a word is required if all others are together shorter than the
    threshold.  Of the rest, ordered by weight, a text must contain one word of a prefix that leaves a remainder below
    the threshold: a prefix filter, as in similarity joins (Chaudhuri, Ganti and Kaushik, ICDE 2006; Bayardo, Ma and
    Srikant, WWW 2007).
    """
    weights, square = vector_of(similar, language)
    least = similar.threshold**2 * square

    def too_short(some: int) -> bool:
        return some * THRESHOLD_SCALE**2 < least

    all_of = tuple(term for term, weight in weights if too_short(square - weight**2))
    others = [(term, weight) for term, weight in weights if term not in all_of]
    behind = square - sum(weight**2 for _, weight in others)
    if not too_short(behind):
        return Needed(all_of, ())
    while others and too_short(behind + others[-1][1] ** 2):
        behind += others.pop()[1] ** 2
    return Needed(all_of, tuple(term for term, _ in others))


@lru_cache(maxsize=1 << 14)
def vector_of(similar: Similar, language: str | None) -> Vector:
    """Return the vector of the given words."""
    algorithm = stems.algorithm_of(language) if similar.using != PLAIN else None
    stopped = stop_words_of(algorithm) if similar.using.stop_words and algorithm is not None else frozenset[str]()
    words = [word for word in similar.words if word not in stopped]
    assert words, "conditions with only stop words are refused on construction"
    term_of = dict(zip(words, terms_of(words, similar.using, algorithm), strict=True))
    counted = dict(similar.corpus.counts)
    known: dict[str, int] = {}
    for word, term in term_of.items():
        known[term] = max(known.get(term, 0), counted.get(word, 0))
    weights = {
        term: frequency_weight(count) * _rarity_weight(similar.corpus.texts, known[term])
        for term, count in Counter(map(term_of.__getitem__, words)).items()
    }
    ordered = sorted(weights.items(), key=lambda each: (-each[1], each[0]))
    return Vector(tuple(ordered), sum(weight**2 for weight in weights.values()))


@lru_cache(maxsize=1 << 12)
def frequency_weight(count: int) -> int:
    """Return the weight of a word by its frequency: 1 + ln count, in ten-thousandths."""
    return _whole(_ARITHMETIC.ln(Decimal(count)))


def _rarity_weight(texts: int, count: int) -> int:
    """Return the weight of a word by the number of texts with it: 1 + ln((texts + 1) / (count + 1))."""
    return _whole(_ARITHMETIC.subtract(_ARITHMETIC.ln(Decimal(texts + 1)), _ARITHMETIC.ln(Decimal(count + 1))))


def _whole(logarithm: Decimal) -> int:
    """Return one plus a logarithm, in ten-thousandths."""
    weight = _ARITHMETIC.add(Decimal(1), logarithm)
    return int(_ARITHMETIC.to_integral_value(_ARITHMETIC.multiply(weight, Decimal(_SCALE))))
