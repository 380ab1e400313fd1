"""The languages in which queries of a matcher use stems, so that texts are stemmed only for those.

A condition with stems applies to literals of a language, so a text is stemmed in its own language or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from p2prdf.rdf.fulltext import Text
from p2prdf.rdf.fulltext.stems import algorithm_of, algorithm_of_key

__all__ = ["Languages"]

_NONE: Final[frozenset[str]] = frozenset()


class Languages:
    """Snowball's algorithms, and the number of keys in use for each."""

    __slots__ = ("_uses",)

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._uses)

    def use(self, keys: Iterable[str]) -> None:
        """Count keys, words and stems, as in use."""
        for algorithm in filter(None, map(algorithm_of_key, keys)):
            self._uses[algorithm] = self._uses.get(algorithm, 0) + 1

    def release(self, keys: Iterable[str]) -> None:
        """Remove one use of each of these keys."""
        for algorithm in filter(None, map(algorithm_of_key, keys)):
            self._uses[algorithm] -= 1
            if not self._uses[algorithm]:
                del self._uses[algorithm]

    def keys(self, text: Text) -> AbstractSet[str]:
        """Return the words of a text, and its stems if some key in use needs those of its language."""
        stems = self.stems(text)
        return text.places.keys() | stems if stems else text.places.keys()

    def stems(self, text: Text) -> AbstractSet[str]:
        """Return the keys of a text's stems; empty if no key in use needs those of its language."""
        algorithm = algorithm_of(text.language) if self._uses else None
        return text.stems(algorithm).keys() if algorithm in self._uses and algorithm is not None else _NONE
