"""Stems of words: ``games``, ``gaming`` and ``game`` are one, ``game``.

Which words have one stem is a matter of a language; the algorithms are those of Snowball, by PyStemmer, which this
module alone imports, and only when the first condition asks for stems.

All peers have to find the same stems, or an answer would depend on which of them was asked.  Snowball's algorithms
change between its minor versions, so one of them is required: a peer that has another refuses conditions with stems
and does not decide them in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from p2prdf.errors import QueryRefused

__all__ = ["ALGORITHMS", "SNOWBALL", "algorithm_of", "key_of", "algorithm_of_key", "stems_of"]

SNOWBALL: Final = "3.1"
"""The version whose stems are meant."""

ALGORITHMS: Final = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "nb": "norwegian", "ne": "nepali", "nl": "dutch", "nn": "norwegian",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "st": "sesotho", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
"""Snowball's algorithms by the language subtags of BCP 47 (those of ISO 639-1)."""

_MARK: Final = "="
"""Between a stem and its algorithm: no word has it."""


def algorithm_of(language: str | None) -> str | None:
    """Return the algorithm for a language range, by its first subtag; None if there is none.

    ``en`` and ``en-gb`` are English; ``*`` and None are no language.
    """
    return None if language is None else ALGORITHMS.get(language.split("-")[0])


def stems_of(words: Sequence[str], algorithm: str) -> list[str]:
    """Return the stem of each word.  Raises QueryRefused if Snowball is not there, or not in the version meant."""
    stems: list[str] = _stemmer(algorithm).stemWords(words)
    return stems


def key_of(stem: str, algorithm: str) -> str:
    """Return a stem as what stands among words and is none: ``game=english``."""
    return f"{stem}{_MARK}{algorithm}"


def algorithm_of_key(key: str) -> str | None:
    """Return the algorithm of a key that :func:`key_of` made, None for a word."""
    return key.rpartition(_MARK)[2] if _MARK in key else None


@lru_cache(maxsize=len(ALGORITHMS))
def _stemmer(algorithm: str):  # type: ignore[no-untyped-def]  # the library has no types
    try:
        import Stemmer
    except ImportError as error:
        raise QueryRefused(f"PyStemmer is not there: {error}", construct="using stemming") from None
    version = Stemmer.version()
    if not version.startswith(SNOWBALL + "."):
        reason = f"the stems meant are those of Snowball {SNOWBALL}, and what is installed is {version}"
        raise QueryRefused(reason, construct="using stemming")
    return Stemmer.Stemmer(algorithm)
