"""The tokeniser: splits a text into words, for data and queries alike.

Words are maximal runs of letters and numbers (Unicode's L and N) with the combining marks (M) that follow them, after
compatibility normalisation and case folding (NFKC, as for Unicode's caseless match of identifiers): ``Café``, with
one character or two for its last letter, is the word ``café``, ``STRASSE`` and ``Straße`` are one word,
``rock-n-roll`` is three.  Numbers that are no decimal digits (``½``, ``²``, ``①``) and symbols that are letters or
digits after normalisation (``™``, ``㎏``) do not join the word beside them, as in Unicode's word boundaries: ``3½`` is
``3``, ``1`` and ``2``, not ``31``.  In scripts without spaces, each Han ideograph and each hiragana is a word, as in
Unicode's word boundaries (UAX #29), so a phrase matches in any text; runs of katakana, Hangul, Thai and the like are
one word.

A word of a query may be a glob: ``*`` in it stands for any number of characters within one word.

Words do not depend on the language.  Stems and stop words do: a condition requests them (``stems``, ``stop_words``),
and texts keep all their words at their positions.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

__all__ = ["globs_of", "word_fits", "words_of"]

_ASCII: Final = re.compile(r"[a-z0-9]+")
_ASCII_GLOBS: Final = re.compile(r"[a-z0-9*]+")
_RUNS: Final = re.compile(r"[^\W_]+")
_RUN_GLOBS: Final = re.compile(r"(?:[^\W_]|\*)+")
_NEITHER: Final = re.compile(r"[^\w\x00-\x7f]")
"""Characters outside ASCII that are no word characters in Python, among them combining marks."""
_IDEOGRAPH: Final = re.compile(
    "[\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_STARS: Final = re.compile(r"\*{2,}")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order, normalised for comparison, in time linear in the text."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    return _cut(_folded(text), _RUNS)


def globs_of(text: str) -> list[str]:
    """Return the words of a query's text, which may contain ``*``."""
    text = _STARS.sub("*", text)
    if text.isascii():
        return _ASCII_GLOBS.findall(text.lower())
    return [_STARS.sub("*", glob) for glob in _cut(_folded(text), _RUN_GLOBS)]


def word_fits(glob: str, word: str) -> bool:
    """Tell whether a word matches a glob, or equals a word without ``*``.

    The parts between stars are searched from the left, each once, so the time is linear for any glob.
    """
    if "*" not in glob:
        return glob == word
    head, *middle, tail = glob.split("*")
    at, end = len(head), len(word) - len(tail)
    if at > end or not word.startswith(head) or not word.endswith(tail):
        return False
    for part in middle:
        found = word.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _folded(text: str) -> str:
    apart = "".join(each for each in set(text) if _stands_apart(each))
    if apart:
        text = re.sub(f"(?<![*])(?=[{apart}])|(?<=[{apart}])(?![*])", " ", text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFKC", folded)  # folding decomposes some letters
    return _IDEOGRAPH.sub(r" \g<0> ", folded) if _IDEOGRAPH.search(folded) else folded


def _cut(text: str, runs: re.Pattern[str]) -> list[str]:
    """Split at all characters that belong to no word."""
    marks = {each for each in set(_NEITHER.findall(text)) if _is_mark(each)}  # a text may have all 2,000 there are
    if not marks:
        return runs.findall(text)
    star = "*" if runs is _RUN_GLOBS else ""
    kept = "".join(each if each.isalnum() or each in marks or each == star else " " for each in text)
    return [run for run in kept.split() if runs.search(run)]  # a mark without a letter before it is no word


@lru_cache(maxsize=4096)
def _stands_apart(character: str) -> bool:
    """Tell whether a character has a compatible text that must not join its neighbours.

    Unicode's word boundaries (UAX #29) treat circled and squared letters as letters, so they stay in their words.
    """
    if unicodedata.category(character) not in ("No", "So"):
        return False
    compatible = unicodedata.normalize("NFKC", character)
    return compatible != character and not (len(compatible) == 1 and compatible.isalpha() and compatible.isascii())


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"
