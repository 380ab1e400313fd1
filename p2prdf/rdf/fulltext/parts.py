"""The parts of a phrase by position, for the language of its condition.

A part is a *key* and its offset from the first part of the phrase.  A key is a word, a word with ``*`` in it, or a
stem (:func:`~p2prdf.rdf.fulltext.stems.key_of`).  An ignored stop word has no part: at the edges of a phrase it is
dropped, and within the phrase any one word matches in its place.  Offsets therefore count all words of the text:
``"state of the art"`` without its stop words is *state*, any two words, and *art*.
"""

from __future__ import annotations

from functools import lru_cache

from p2prdf.rdf.fulltext import stems
from p2prdf.rdf.fulltext.expression import PLAIN, Phrase, Using
from p2prdf.rdf.fulltext.stop_words import stop_words_of

__all__ = ["Part", "length_of", "parts_of", "phrase_keys"]


Part = tuple[int, str]
"""The offset of a key from the first part of its phrase, and the key."""


def parts_of(phrase: Phrase, language: str | None) -> tuple[Part, ...]:
    """Return the parts of a phrase in the language of its condition, in order; there is at least one."""
    if phrase.using == PLAIN:
        return tuple(enumerate(phrase.words))
    algorithm = stems.algorithm_of(language)
    assert algorithm is not None, "conditions in unknown languages are refused on construction"
    return _parts(phrase.words, phrase.using, algorithm)


def length_of(phrase: Phrase, language: str | None) -> int:
    """Return the number of positions in a text that a phrase takes."""
    return len(phrase.words) if phrase.using == PLAIN else parts_of(phrase, language)[-1][0] + 1


def phrase_keys(phrase: Phrase, language: str | None) -> tuple[str, ...]:
    """Return the keys of a phrase, in order, with repetitions."""
    return phrase.words if phrase.using == PLAIN else tuple(key for _, key in parts_of(phrase, language))


@lru_cache(maxsize=1 << 14)
def _parts(words: tuple[str, ...], using: Using, algorithm: str) -> tuple[Part, ...]:
    kept = list(enumerate(words))
    if using.stop_words:
        stopped = stop_words_of(algorithm)
        kept = [each for each in kept if each[1] not in stopped]
    assert kept, "conditions with only stop words are refused on construction"
    keys = [word for _, word in kept]
    if using.stemming:
        found = stems.stems_of(keys, algorithm)
        keys = [
            word if "*" in word else stems.key_of(stem, algorithm) for word, stem in zip(keys, found, strict=True)
        ]
    first = kept[0][0]
    return tuple((at - first, key) for (at, _), key in zip(kept, keys, strict=True))
