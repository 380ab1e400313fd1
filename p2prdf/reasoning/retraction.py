"""Retraction of given facts before their time, with labels: Delete and Rederive.

First all facts that owe their label to a retracted fact are dropped, because they may support only each other.  Then
each of them gets the best label that the rest still supports.  Facts with a *better* derivation stay untouched.  With
equal labels this is plain Delete and Rederive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from p2prdf.reasoning.facts import ABSENT, Fact
from p2prdf.reasoning.joins import Derivation, Program, Tell

__all__ = ["Retraction"]


class Retraction:
    """Drops from a program's facts those that owe their label to retracted facts."""

    def __init__(self, program: Program):
        self._facts = program.facts
        self._supported = program.telling(Tell.SUPPORTED)
        self._best = program.best()
        self._transitive = program.transitive

    def of(self, gone: Mapping[Fact, int], given: Mapping[Fact, int]) -> tuple[dict[Fact, int], dict[Fact, int]]:
        """Drop facts; return them with their labels, and the best remaining label of each that has one.

        ``given``: the facts that are still given.
        """
        dropped = self._over_deleted(gone, given)
        self._facts.drop(dropped)
        left = {}
        for fact, label in self._labelled(dropped):
            best = max(label, given.get(fact, ABSENT))
            if best != ABSENT:
                left[fact] = best
        return dropped, left

    def _labelled(self, dropped: Mapping[Fact, int]) -> Iterator[tuple[Fact, int]]:
        """Yield facts with their best labels by other facts, ABSENT without a derivation."""
        edges: dict[int, list[Fact]] = {p: [] for p in self._transitive}
        for fact in dropped:
            if fact[1] in edges:
                edges[fact[1]].append(fact)
            else:
                yield fact, self._best(fact)
        for p, part in edges.items():
            yield from zip(part, self._transitive[p].best(part), strict=True)

    def _over_deleted(self, gone: Mapping[Fact, int], given: Mapping[Fact, int]) -> dict[Fact, int]:
        facts, supported, transitive = self._facts, self._supported, self._transitive
        dropped: dict[Fact, int] = {}
        for fact, label in gone.items():
            if facts.label(fact) == label:
                if fact[1] in transitive:
                    transitive[fact[1]].note_dropped(fact, label, given, dropped)
                else:
                    dropped[fact] = label
        waiting: dict[int, list[Fact]] = {}
        for fact, label in dropped.items():
            if fact[1] not in transitive or transitive[fact[1]].consumed:
                waiting.setdefault(label, []).append(fact)
        out: list[Derivation] = []
        while waiting:
            label, batch = waiting.popitem()
            for fires, part in supported.parts(batch):
                for fire in fires:
                    fire(part, label, out.append)
            for s, p, o, found in out:
                head = (s, p, o)
                if head not in dropped and given.get(head) != found:
                    dropped[head] = found
                    waiting.setdefault(found, []).append(head)
            out.clear()
        return dropped
