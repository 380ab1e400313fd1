"""Stems of words: ``games``, ``gaming`` and ``game`` share the stem ``game``.

Stems depend on the language.  The algorithms are Snowball's, from PyStemmer, which only this module imports, on the
first condition that uses stems.

All peers must compute the same stems; otherwise results would depend on the peer that evaluates a condition.
Snowball's algorithms change between its minor versions, so one minor version is required: a peer with another one
refuses conditions with stems.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from p2prdf.errors import QueryRefused

__all__ = ["ALGORITHMS", "SNOWBALL", "algorithm_of", "algorithm_of_key", "key_of", "stems_of"]

SNOWBALL: Final = "3.1"
"""The required version of Snowball."""

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
"""Separates a stem from its algorithm; it occurs in no word."""


def algorithm_of(language: str | None) -> str | None:
    """Return the algorithm for a language range, by its first subtag; None if there is none.

    ``en`` and ``en-gb`` are English; ``*`` and None have no algorithm.
    """
    return None if language is None else ALGORITHMS.get(language.split("-")[0])


def stems_of(words: Sequence[str], algorithm: str) -> list[str]:
    """Return the stem of each word.  Raises QueryRefused without Snowball in the required version."""
    stems: list[str] = _stemmer(algorithm).stemWords(words)
    return stems


def key_of(stem: str, algorithm: str) -> str:
    """Return a key for a stem that differs from every word: ``game=english``."""
    return f"{stem}{_MARK}{algorithm}"


def algorithm_of_key(key: str) -> str | None:
    """Return the algorithm of a key made by :func:`key_of`; None for a word."""
    return key.rpartition(_MARK)[2] if _MARK in key else None


@lru_cache(maxsize=len(ALGORITHMS))
def _stemmer(algorithm: str):  # type: ignore[no-untyped-def]  # the library has no types
    try:
        import Stemmer
    except ImportError as error:
        raise QueryRefused(f"PyStemmer is not installed: {error}", construct="using stemming") from None
    version = Stemmer.version()
    if not version.startswith(SNOWBALL + "."):
        reason = f"Snowball {SNOWBALL} is required, but {version} is installed"
        raise QueryRefused(reason, construct="using stemming")
    return Stemmer.Stemmer(algorithm)
