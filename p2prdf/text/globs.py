"""Find the globs that match a word, without trying all of them.

A glob is indexed by a few characters that each matching word has: its beginning, its end, or the longest part between
stars.  Matches are remembered until the globs change, since texts repeat their words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from p2prdf.rdf.fulltext import word_fits

__all__ = ["Globs"]

_EDGE_MAX: Final = 4
"""Most characters of a beginning or an end used as index key."""
_MIDDLE_MAX: Final = 3
"""Most characters of a part between stars used as index key."""
_REMEMBERED_MAX: Final = 65_536
_REMEMBERED_LENGTH_MAX: Final = 64
"""Longest remembered word: in scripts without spaces, a word may be as long as a literal."""

_Filed = dict[str, list[str]]


class Globs:
    """Globs, each with a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._heads: _Filed = {}
        self._tails: _Filed = {}
        self._middles: _Filed = {}
        self._remembered: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, glob: str) -> int | None:
        """Return the number of a glob; None if it is unknown."""
        return self._numbers.get(glob)

    def add(self, glob: str, number: int) -> None:
        """Add a new glob."""
        self._numbers[glob] = number
        filed, key = self._index_key(glob)
        filed.setdefault(key, []).append(glob)
        self._remembered.clear()

    def remove(self, glob: str) -> None:
        """Remove a glob."""
        del self._numbers[glob]
        filed, key = self._index_key(glob)
        filed[key].remove(glob)
        if not filed[key]:
            del filed[key]
        self._remembered.clear()

    def fitting(self, word: str) -> tuple[int, ...]:
        """Return the numbers of the globs that match a word, each once."""
        found = self._remembered.get(word)
        if found is None:
            found = tuple(self._numbers[glob] for glob in self._candidates(word) if word_fits(glob, word))
            if len(word) <= _REMEMBERED_LENGTH_MAX:
                if len(self._remembered) >= _REMEMBERED_MAX:
                    self._remembered.clear()
                self._remembered[word] = found
        return found

    def _candidates(self, word: str) -> Iterator[str]:
        """Yield the globs indexed by some part of a word."""
        for size in range(1, min(_EDGE_MAX, len(word)) + 1):
            yield from self._heads.get(word[:size], ())
            yield from self._tails.get(word[-size:], ())
        if self._middles:
            parts = (word[at : at + size] for size in range(1, _MIDDLE_MAX + 1) for at in range(len(word) - size + 1))
            for part in dict.fromkeys(part for part in parts if part in self._middles):
                yield from self._middles[part]

    def _index_key(self, glob: str) -> tuple[_Filed, str]:
        head, *middle, tail = glob.split("*")
        if head:
            return self._heads, head[:_EDGE_MAX]
        if tail:
            return self._tails, tail[-_EDGE_MAX:]
        return self._middles, max(middle, key=len)[:_MIDDLE_MAX]
