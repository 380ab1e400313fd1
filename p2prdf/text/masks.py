"""Which of many masks a word fits, without trying them all.

A mask is filed under a few characters that a word has to have: how it begins, or ends, or the longest part between its
stars.  What a word fits is remembered, for texts repeat their words, until the masks change.
"""

from __future__ import annotations

from typing import Final

from p2prdf.rdf.fulltext import word_fits

__all__ = ["Masks"]

_EDGE_MAX: Final = 4
"""Most characters of a beginning or an end that masks are filed under."""
_MIDDLE: Final = 3
"""Characters of a part between stars that masks are filed under."""
_REMEMBERED_MAX: Final = 65_536

_Key = tuple[str, str]


class Masks:
    """Masks, each with a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._by_key: dict[_Key, list[str]] = {}
        self._remembered: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, mask: str) -> int:
        return self._numbers[mask]

    def __contains__(self, mask: str) -> bool:
        return mask in self._numbers

    def add(self, mask: str, number: int) -> None:
        """Take in a mask that is not there yet."""
        self._numbers[mask] = number
        self._by_key.setdefault(_filed_under(mask), []).append(mask)
        self._remembered.clear()

    def remove(self, mask: str) -> None:
        """Forget a mask."""
        del self._numbers[mask]
        key = _filed_under(mask)
        self._by_key[key].remove(mask)
        if not self._by_key[key]:
            del self._by_key[key]
        self._remembered.clear()

    def fitting(self, word: str) -> tuple[int, ...]:
        """Return the numbers of the masks that a word fits."""
        found = self._remembered.get(word)
        if found is None:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            found = self._remembered[word] = tuple(
                self._numbers[mask]
                for key in _keys_of(word)
                for mask in self._by_key.get(key, ())
                if word_fits(mask, word)
            )
        return found


def _filed_under(mask: str) -> _Key:
    head, *middle, tail = mask.split("*")
    if head:
        return "head", head[:_EDGE_MAX]
    if tail:
        return "tail", tail[-_EDGE_MAX:]
    return "middle", max(middle, key=len)[:_MIDDLE]


def _keys_of(word: str) -> dict[_Key, None]:
    """Return all that masks which a word fits may be filed under, each once."""
    edges = range(1, min(_EDGE_MAX, len(word)) + 1)
    keys = [("head", word[:size]) for size in edges] + [("tail", word[-size:]) for size in edges]
    keys += [("middle", word[at : at + size]) for size in range(1, _MIDDLE + 1) for at in range(len(word) - size + 1)]
    return dict.fromkeys(keys)
