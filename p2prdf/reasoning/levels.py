"""Facts by label, so that those that expire are found without looking at others.

What never expires is not filed: nobody would ever take it out, so whatever comes and goes would stay here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.maintenance import FOREVER

__all__ = ["Levels"]


class Levels:
    """Facts under labels that they have, or had: whoever takes them out looks whether they still do."""

    def __init__(self) -> None:
        self._order: list[int] = []
        """The labels, a heap."""
        self._levels = _Lists(self._order)

    @property
    def lists(self) -> Mapping[int, list[Fact]]:
        """The list of each label, for facts to be filed one by one; any label has one."""
        return self._levels

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


class _Lists(dict[int, list[Fact]]):
    """Lists by label, made when they are asked for; what is filed under FOREVER is forgotten."""

    def __init__(self, order: list[int]) -> None:
        """``order``: the heap that labels are entered in."""
        super().__init__()
        self._order = order

    def __missing__(self, label: int) -> list[Fact]:
        found: list[Fact] = []
        if label != FOREVER:
            heapq.heappush(self._order, label)
            self[label] = found
        return found
