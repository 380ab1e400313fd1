"""Giving facts better labels, with all that follows: largest labels first.

A fact that is looked at has its final label, for whatever follows later has no larger one: as in Dijkstra's algorithm,
with the narrowest part of a path instead of its length.  So facts need not be looked at twice in a step.

They are looked at in batches, for calling a function costs more than a join.  A batch takes in facts of smaller labels,
too, as long as it is small, so a fact may be looked at once more if its label rises through another one of its batch.
What comes is put in piece by piece and not all at once: two facts that join and are both new are then mostly found from
the second one only.
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
"""From measurements: with 1 or with 10,000 everything takes twice as long."""

_LABEL: Final = operator.itemgetter(1)


class Raising:
    """Raises labels of a program's facts, once."""

    def __init__(self, program: Program, filed: Levels):
        """``filed``: where facts are filed under the labels they get."""
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
        """Give facts labels, and what follows from them, if these are better than theirs.

        ``left``: facts that were dropped, with the best labels that others give them still.  Returns the new labels of
        what was not there, those of what was, and how many facts were looked at.  A fact may be in both: it was not
        there then, and the second label counts.
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
        """Put those of transitive predicates, with what follows; return the others, and how many need no other look."""
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
        """Look at all that waits with labels from ``least`` on, and at what follows with such; return how many."""
        levels, added, raised, touched = self._levels, self._added, self._raised, 0
        while batch := self._batch(least):
            touched += len(batch)
            for raises, part in raising.parts(batch):
                pairs = batch.items() if part is batch else [(fact, batch[fact]) for fact in part]
                for each in raises:
                    each(pairs, added, raised, levels)
        return touched

    def _batch(self, least: int) -> dict[Fact, int]:
        """Take out facts of the largest labels, and file them."""
        levels = self._levels
        batch: dict[Fact, int] = {}
        while levels.order and -levels.order[0] >= least and len(batch) < BATCH_FACTS:
            level = -heapq.heappop(levels.order)
            waiting = levels.pop(level)
            if self._raised:  # what has got a better label since waits under that, too
                waiting = self._facts.having(waiting, level)
            batch |= dict.fromkeys(waiting, level)
            self._filed.put(level, waiting)
        return batch


class _Pending(dict[int, list[Fact]]):
    """Facts to be looked at by label; ``order`` has the labels, negative, as a heap."""

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
    """Yield facts of one label, few at a time, those of the largest first."""
    levels: dict[int, list[Fact]] = {}
    for fact, label in pending.items():
        levels.setdefault(label, []).append(fact)
    for level in sorted(levels, reverse=True):
        facts = levels[level]
        for start in range(0, len(facts), BATCH_FACTS):
            yield level, facts[start : start + BATCH_FACTS]
