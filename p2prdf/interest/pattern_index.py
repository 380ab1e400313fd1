"""The index from a triple to the matching patterns of all interests: a look-up per kind of pattern.

Patterns are filed by their constants.  There are eight combinations of places for these, of which few occur; a triple
is looked up once for each that does, independently of the number of patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Final, TypeAlias

from p2prdf.interest.changeset import Triple
from p2prdf.interest.relation import Selection

__all__ = ["PatternIndex"]

_Constants: TypeAlias = str | tuple[str, ...]


def _all(triple: Triple) -> _Constants:
    del triple
    return ()


_GETTERS: Final[dict[tuple[int, ...], Callable[[Triple], _Constants]]] = {
    (): _all, (0,): itemgetter(0), (1,): itemgetter(1), (2,): itemgetter(2), (0, 1): itemgetter(0, 1),
    (0, 2): itemgetter(0, 2), (1, 2): itemgetter(1, 2), (0, 1, 2): itemgetter(0, 1, 2),
}  # fmt: skip


class PatternIndex:
    """Selections by their constants."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, ...], dict[_Constants, list[Selection]]] = {}
        self._predicates: dict[str, int] = {}
        self._any_predicate = 0

    def add(self, selection: Selection) -> None:
        """Add a selection."""
        places, key = self._filed(selection)
        self._tables.setdefault(places, {}).setdefault(key, []).append(selection)
        self._count(selection, 1)

    def remove(self, selection: Selection) -> None:
        """Remove a selection."""
        places, key = self._filed(selection)
        table = self._tables[places]
        table[key].remove(selection)
        if not table[key]:
            del table[key]
        if not table:
            del self._tables[places]
        self._count(selection, -1)

    def matching(self, triple: Triple) -> list[Selection]:
        """Return the selections that match a triple, in the order of their filing."""
        if not self._any_predicate and triple[1] not in self._predicates:
            return []  # most triples end here
        found: list[Selection] = []
        for places, table in self._tables.items():
            selections = table.get(_GETTERS[places](triple))
            if selections:
                found += [each for each in selections if not each.twice or each.takes(triple)]
        return found

    @staticmethod
    def _filed(selection: Selection) -> tuple[tuple[int, ...], _Constants]:
        places = tuple(at for at, part in enumerate(selection.constants) if part is not None)
        parts = tuple(part for part in selection.constants if part is not None)
        return places, parts[0] if len(parts) == 1 else parts

    def _count(self, selection: Selection, change: int) -> None:
        predicate = selection.constants[1]
        if predicate is None:
            self._any_predicate += change
            return
        count = self._predicates.get(predicate, 0) + change
        if count:
            self._predicates[predicate] = count
        else:
            del self._predicates[predicate]
