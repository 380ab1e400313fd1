"""Facts by label, so that those that expire are found without looking at others.

What never expires is not filed: nobody would ever take it out, so whatever comes and goes would stay here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.maintenance import FOREVER

__all__ = ["Levels"]


class Levels:
    """Facts under labels that they have, or had: whoever takes them out looks whether they still do."""

    def __init__(self) -> None:
        self._levels: dict[int, list[Fact]] = {}
        self._order: list[int] = []
        """The labels, a heap."""

    def __bool__(self) -> bool:
        return bool(self._order)

    def put(self, label: int, facts: list[Fact]) -> None:
        """File facts under a label; the list belongs to this from now on."""
        if label == FOREVER:
            return
        if label in self._levels:
            self._levels[label] += facts
        else:
            self._levels[label] = facts
            heapq.heappush(self._order, label)

    def pop_below(self, label: int) -> Iterator[tuple[int, list[Fact]]]:
        """Take out what is filed under smaller labels, smallest first."""
        while self._order and self._order[0] < label:
            first = heapq.heappop(self._order)
            yield first, self._levels.pop(first)

    def descending(self) -> Iterator[tuple[int, list[Fact]]]:
        """Yield labels and what is filed under them, largest first."""
        for label in sorted(self._levels, reverse=True):
            yield label, self._levels[label]

    def clear(self) -> None:
        """Forget all."""
        self._levels.clear()
        self._order.clear()
