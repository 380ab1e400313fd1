"""Facts by label, so that expired facts are found without a scan.

Facts that never expire are not filed: nothing would ever remove them, so repeated additions would accumulate.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.maintenance import FOREVER

__all__ = ["Levels"]


class Levels:
    """Facts under the labels that they have or had; a reader checks the current label."""

    def __init__(self) -> None:
        self._levels: dict[int, list[Fact]] = {}
        self._order: list[int] = []
        """The labels, as a heap."""

    def __bool__(self) -> bool:
        return bool(self._order)

    def put(self, label: int, facts: list[Fact]) -> None:
        """File facts under a label; the list belongs to this object from now on."""
        if label == FOREVER:
            return
        if label in self._levels:
            self._levels[label] += facts
        else:
            self._levels[label] = facts
            heapq.heappush(self._order, label)

    def pop_below(self, label: int) -> Iterator[tuple[int, list[Fact]]]:
        """Remove and yield the facts filed under smaller labels, smallest label first."""
        while self._order and self._order[0] < label:
            first = heapq.heappop(self._order)
            yield first, self._levels.pop(first)

    def descending(self) -> Iterator[tuple[int, list[Fact]]]:
        """Yield labels and the facts filed under them, largest label first."""
        for label in sorted(self._levels, reverse=True):
            yield label, self._levels[label]

    def clear(self) -> None:
        """Remove all facts."""
        self._levels.clear()
        self._order.clear()
