"""The closure of given facts: semi-naive, facts of one label at a time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from p2prdf.reasoning.facts import Fact, Nested
from p2prdf.reasoning.joins import Program

__all__ = ["Closing", "count_relabelled", "only_in"]

BATCH_FACTS: Final = 128
"""Facts per batch: of two new facts that join, mostly only the second then finds the pair."""


class Closing:
    """Adds facts to those of a program, with all conclusions."""

    def __init__(self, program: Program):
        self._facts = program.facts
        self._adding = program.adding()

    def take(self, these: Iterable[Fact], label: int) -> list[Fact]:
        """Put the missing ones of some facts and all missing conclusions; return the facts that were put.

        If the label is smaller than those of all present facts, it is the label of each of these by any rule.
        """
        found: list[Fact] = []
        rest = iter(these)
        while part := list(islice(rest, BATCH_FACTS)):
            batch = self._facts.put_missing(part, label)
            while batch:
                found += batch
                batch = self._follow(batch, label)
        return found

    def _follow(self, batch: list[Fact], label: int) -> list[Fact]:
        """Put the missing conclusions of facts in one step, and return them."""
        new: list[Fact] = []
        for adds, facts in self._adding.parts(batch):
            for add in adds:
                add(facts, label, new.append)
        return new


def only_in(these: Nested, those: Nested) -> dict[Fact, int]:
    """Return the facts of the one that the other lacks, both by predicate and subject."""
    found: dict[Fact, int] = {}
    for p, subjects in these.items():
        others = those.get(p, {})
        for s, row in subjects.items():
            other = others.get(s)
            if other is None:
                found |= {(s, p, o): label for o, label in row.items()}
            elif row.keys() != other.keys():
                found |= {(s, p, o): label for o, label in row.items() if o not in other}
    return found


def count_relabelled(these: Nested, those: Nested) -> int:
    """Return the number of facts of the one that the other lacks, or has with another label.

    Both are by predicate and subject.
    """
    count = 0
    for p, subjects in these.items():
        others = those.get(p, {})
        for s, row in subjects.items():
            other = others.get(s)
            if other is None:
                count += len(row)
            elif row != other:
                count += sum(other.get(o) != label for o, label in row.items())
    return count
