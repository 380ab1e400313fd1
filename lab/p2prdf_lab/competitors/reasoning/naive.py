"""The baseline: recompute everything at every step.

The closure of the given facts is computed semi-naively, without labels, and compared with the facts before the step.
A step costs the size of the closure, however small the change.  Every incremental program must beat this one, so all
share the compiled joins and the storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from p2prdf.reasoning.closing import Closing, only_in
from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.given import Given
from p2prdf.reasoning.joins import Program
from p2prdf.reasoning.maintenance import Change
from p2prdf.reasoning.rule import Rule
from p2prdf_lab.competitors.reasoning.maintenance import HELD

__all__ = ["Naive"]


class Naive:
    """The closure under some rules, recomputed at every step: a :class:`Maintenance`."""

    def __init__(self, rules: Iterable[Rule], intern: Callable[[str], int]):
        """``intern``: the number of a term in facts."""
        program = Program(rules, intern)
        self._facts = program.facts
        self._closing = Closing(program)
        self._given = Given()
        self.touched = 0
        """Number of facts processed so far."""

    @property
    def given(self) -> Mapping[Fact, int]:
        """The given facts that hold, with their labels."""
        return self._given.labels

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        return iter(self._facts)

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Advance to a moment, as :meth:`Maintenance.step` says."""
        self._given.step(now, given or {}, taken_back)
        was = self._facts.renew()
        self.touched += len(self._closing.take(self._given.labels, HELD))
        return Change(only_in(self._facts.pso, was), list(only_in(was, self._facts.pso)), anew=True)
