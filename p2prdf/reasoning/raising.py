"""Better labels for facts and their conclusions, largest labels first.

A fact that is processed has its final label, since later conclusions have no larger ones: as in Dijkstra's algorithm,
with the narrowest part of a path as its length.  No fact needs to be processed twice in a step.

Facts are processed in batches, because a function call costs more than a join.  A small batch also takes facts of
smaller labels, so a fact may be processed again if another fact of its batch raises its label.  New facts are put
batch by batch: of two new facts that join, mostly only the second then finds the pair.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterator, Mapping
from typing import Final

from p2prdf.reasoning.facts import ABSENT, Fact
from p2prdf.reasoning.joins import Filed, Program, Raise
from p2prdf.reasoning.levels import Levels

__all__ = ["BATCH_FACTS", "Raising"]

BATCH_FACTS: Final = 128
"""Facts per batch, by measurement: with 1 or with 10,000 everything takes twice as long."""

_LABEL: Final = operator.itemgetter(1)


class Raising:
    """Raises labels of a program's facts, once."""

    def __init__(self, program: Program, filed: Levels):
        """``filed``: files facts under their new labels."""
        self._facts = program.facts
        self._raising = program.raising()
        self._by_rules = program.raising(by_rules=True)
        self._transitive = program.transitive
        self._filed = filed
        self._levels = _Pending()
        self._added: dict[Fact, int] = {}
        self._raised: dict[Fact, int] = {}

    def of(
        self, given: Mapping[Fact, int], left: Mapping[Fact, int]
    ) -> tuple[dict[Fact, int], dict[Fact, int], int]:
        """Give facts and their conclusions labels, if these improve the present ones.

        ``left``: facts that were dropped, with the best labels that other facts still give them.  Returns the new
        labels of new facts, those of known facts, and the number of facts processed.  A fact may be in both: it was
        new, and the second label counts.
        """
        self._added, self._raised, touched = {}, {}, 0
        if self._transitive:
            if left:  # closes those relations again
                touched = self._take(left, self._by_rules)
            given, looked_at = self._enter(given)
            touched += looked_at
        elif left:
            given = _best_of(given, left)
        touched += self._take(given, self._raising)
        return self._added, self._raised, touched

    def _take(self, pending: Mapping[Fact, int], raising: Filed[Raise]) -> int:
        touched = 0
        for level, part in _parts(pending):
            self._put(part, level)
            touched += self._look(level, raising)
        return touched + self._look(ABSENT, raising)

    def _enter(self, facts: Mapping[Fact, int]) -> tuple[dict[Fact, int], int]:
        """Put the facts of transitive predicates, with conclusions; return the others, and the number that is done."""
        others: dict[Fact, int] = {}
        edges: dict[int, list[tuple[Fact, int]]] = {}
        transitive, added, raised, touched = self._transitive, self._added, self._raised, 0
        for pair in facts.items():
            p = pair[0][1]
            if p in edges:
                edges[p].append(pair)
            elif p in transitive:
                edges[p] = [pair]
            else:
                others[pair[0]] = pair[1]
        for p, pairs in edges.items():
            pairs.sort(key=_LABEL, reverse=True)
            before = len(added) + len(raised)
            transitive[p].enter(pairs, added, raised, self._levels)
            if not transitive[p].consumed:
                touched += len(added) + len(raised) - before
        return others, touched

    def _put(self, part: list[Fact], level: int) -> None:
        facts = self._facts
        for fact in part:
            was = facts.label(fact)
            if was < level:
                facts.put(fact, level)
                (self._added if was == ABSENT else self._raised)[fact] = level
                self._levels[level].append(fact)

    def _look(self, least: int, raising: Filed[Raise]) -> int:
        """Process all waiting facts with labels of at least ``least``, and their conclusions; return the number."""
        levels, added, raised, touched = self._levels, self._added, self._raised, 0
        while batch := self._batch(least):
            touched += len(batch)
            for raises, part in raising.parts(batch):
                pairs = batch.items() if part is batch else [(fact, batch[fact]) for fact in part]
                for each in raises:
                    each(pairs, added, raised, levels)
        return touched

    def _batch(self, least: int) -> dict[Fact, int]:
        """Remove facts of the largest labels, and file them."""
        levels = self._levels
        batch: dict[Fact, int] = {}
        while levels.order and -levels.order[0] >= least and len(batch) < BATCH_FACTS:
            level = -heapq.heappop(levels.order)
            waiting = levels.pop(level)
            if self._raised:  # a fact with a better label since then waits under that label too
                waiting = self._facts.having(waiting, level)
            batch |= dict.fromkeys(waiting, level)
            self._filed.put(level, waiting)
        return batch


class _Pending(dict[int, list[Fact]]):
    """Waiting facts by label; ``order`` holds the labels, negative, as a heap."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[int] = []

    def __missing__(self, label: int) -> list[Fact]:
        heapq.heappush(self.order, -label)
        found: list[Fact] = []
        self[label] = found
        return found


def _best_of(some: Mapping[Fact, int], others: Mapping[Fact, int]) -> dict[Fact, int]:
    """Return the larger label of each fact."""
    found = dict(some)
    for fact, label in others.items():
        found[fact] = max(label, found.get(fact, ABSENT))
    return found


def _parts(pending: Mapping[Fact, int]) -> Iterator[tuple[int, list[Fact]]]:
    """Yield facts of one label, few at a time, largest label first."""
    levels: dict[int, list[Fact]] = {}
    for fact, label in pending.items():
        levels.setdefault(label, []).append(fact)
    for level in sorted(levels, reverse=True):
        facts = levels[level]
        for start in range(0, len(facts), BATCH_FACTS):
            yield level, facts[start : start + BATCH_FACTS]
