"""Inference: the closure of triples under rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from p2prdf.continuous.operators.zset import Delta, add
from p2prdf.rdf.algebra import InferenceRule
from p2prdf.reasoning import FOREVER, Atom, Materialiser, Rule

__all__ = ["Inferred"]


class Inferred:
    """Output: the closure of the input triples under rules, each triple once.

    A triple is a base fact while its multiplicity is above zero.  The materialiser
    (:mod:`p2prdf.reasoning.materialiser`) finds the derived facts that end with a base fact, also in cycles.
    """

    def __init__(
        self, rules: Iterable[InferenceRule], intern: Callable[[str], int], is_literal: Callable[[int], bool]
    ):
        """``intern``: returns the number of a term in rows; ``is_literal``: whether a number is that of a literal."""
        made = [Rule(Atom(*head), tuple(Atom(*atom) for atom in body)) for head, body in rules]
        self._closure = Materialiser(made, intern, is_literal=is_literal)
        self._given: Delta = {}

    def apply(self, *changes: Delta) -> Delta:
        """Take a change of the base facts; return the change of the closure."""
        (change,) = changes
        come, gone = {}, []
        for row, weight in change.items():
            before = self._given.get(row, 0) > 0
            add(self._given, row, weight)
            after = self._given.get(row, 0) > 0
            s, p, o = row
            if after and not before:
                come[s, p, o] = FOREVER
            elif before and not after:
                gone.append((s, p, o))
        if not come and not gone:
            return {}
        found = self._closure.step(0, come, gone)
        return {**dict.fromkeys(found.added, 1), **dict.fromkeys(found.removed, -1)}

    @property
    def rows_held(self) -> int:
        """Number of triples, base and derived."""
        return len(self._closure) + len(self._given)
