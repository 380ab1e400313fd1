"""Bound the text that short documents expand to.

Prefixes, bases and default namespaces abbreviate IRIs.  A document of a mebibyte with one long prefix stands for
gibibytes of terms.  A reader therefore counts the bytes that it reads and, piece by piece, the characters of their
statements, and refuses a document that expands more than any real one does.  Lists of numbers expand most: some 120
times.
"""

from __future__ import annotations

from typing import IO, Final

__all__ = ["EXPANSION_MAX", "Expansion"]

EXPANSION_MAX: Final = 200
"""Most characters of statements from one byte, on average over a text that expands to more than a mebibyte."""

_EXPANDED_FREELY: Final = 1 << 20


class Expansion:
    """A readable stream that counts its bytes, and the characters of their statements."""

    def __init__(self, data: IO[bytes]):
        self._data = data
        self._received = self._characters = 0

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        found = self._data.read(size)
        self._received += len(found)
        return found

    def exceeded(self, characters: int) -> bool:
        """Count characters of statements; tell whether the text has expanded too much."""
        self._characters += characters
        return self._characters > max(_EXPANDED_FREELY, EXPANSION_MAX * self._received)
