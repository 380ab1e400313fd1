"""The tokeniser: which words a text has.

Words are maximal runs of letters and numbers (Unicode's L and N) with the combining marks (M) behind them, after
compatibility normalisation and case folding (NFKC, as for Unicode's caseless match of identifiers): ``Café``, written
with one character or two, is the word ``café``, ``STRASSE`` and ``Straße`` are one word, ``rock-n-roll`` are three.
Numbers that are no decimal digits (``½``, ``²``, ``①``) and symbols that are letters or digits after normalisation
(``™``, ``㎏``) join no word beside them, as in Unicode's word boundaries: ``3½`` is ``3``, ``1`` and ``2``, not ``31``.
Scripts without spaces: each Han ideograph and each hiragana is a word of its own, as in Unicode's word boundaries
(UAX #29), so that a phrase finds them in any text; runs of katakana, Hangul, Thai and the like are one word.

In a query a word may have ``*`` in it, which stands for any characters within one word, or none: a glob.

This is the one place where a text becomes words, for data and queries alike.  They depend on no language.  Which words
have one stem, and which say little, does: a condition says whether it wants that (``stems``, ``stop_words``), and texts
keep all their words at their places.
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
"""What is neither part of a word by Python's own account nor ASCII: combining marks are among these."""
_IDEOGRAPH: Final = re.compile(
    "[\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_STARS: Final = re.compile(r"\*{2,}")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order, as they are compared.  Takes time linear in the text."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    return _cut(_folded(text), _RUNS)


def globs_of(text: str) -> list[str]:
    """Return the words of a text that stands in a query, which may have ``*`` in them."""
    text = _STARS.sub("*", text)
    if text.isascii():
        return _ASCII_GLOBS.findall(text.lower())
    return [_STARS.sub("*", glob) for glob in _cut(_folded(text), _RUN_GLOBS)]


def word_fits(glob: str, word: str) -> bool:
    """Tell whether a word is one that a glob, or a word without ``*``, stands for.

    The parts between stars are looked for from the left, each once: no glob takes more than linear time.
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
    folded = unicodedata.normalize("NFKC", folded)  # folding takes some letters apart
    return _IDEOGRAPH.sub(r" \g<0> ", folded) if _IDEOGRAPH.search(folded) else folded


def _cut(text: str, runs: re.Pattern[str]) -> list[str]:
    """Cut at all that belongs to no word."""
    marks = {each for each in set(_NEITHER.findall(text)) if _is_mark(each)}  # a text may have all 2,000 there are
    if not marks:
        return runs.findall(text)
    star = "*" if runs is _RUN_GLOBS else ""
    kept = "".join(each if each.isalnum() or each in marks or each == star else " " for each in text)
    return [run for run in kept.split() if runs.search(run)]  # marks behind nothing are no word


@lru_cache(maxsize=4096)
def _stands_apart(character: str) -> bool:
    """Tell whether a character has a compatible text that must not join its neighbours.

    The circled and squared letters are letters to Unicode's word boundaries (UAX #29), so they stay in their words.
    """
    if unicodedata.category(character) not in ("No", "So"):
        return False
    compatible = unicodedata.normalize("NFKC", character)
    return compatible != character and not (len(compatible) == 1 and compatible.isalpha() and compatible.isascii())


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"
