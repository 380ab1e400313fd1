"""Delete and Rederive, without labels, for comparison.

R. Volz, S. Staab, B. Motik: Incrementally Maintaining Materializations of Ontologies Stored in Logic Databases, J.
Data Semantics II, 2005.  A fact that leaves the window is a deletion like any other:

1. over-delete: all facts that a rule instance derived from a lost fact, joined with the facts before the step, because
   without labels it is unknown which facts support only each other;
2. rederive: facts that the rest still derives come back;
3. insert new facts, and the conclusions of both.

As printed, a fact that is both given and derived is lost with its derivation, because over-deleted facts come back
through rules only.  Here given facts are never over-deleted, nor their conclusions on that account; this is the flag
"explicit" of the corrected program.  Two more differences save work and add none: facts after the step (New) are
looked up instead of copied, and an insertion that holds already (Ins) is not followed.  If each fact has one
derivation, none of the three matters.

The cost of a step is proportional to the dependents of lost facts, even if nearly all have other derivations.  A fact
that is given again before it expires costs nothing: the program has no labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from p2prdf.reasoning.closing import Closing
from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.given import Given
from p2prdf.reasoning.joins import Derivation, Program, Tell
from p2prdf.reasoning.maintenance import Change
from p2prdf.reasoning.rule import Rule
from p2prdf_lab.competitors.reasoning.maintenance import HELD

__all__ = ["Volz"]


class Volz:
    """The closure under some rules, by Delete and Rederive: a :class:`Maintenance`."""

    def __init__(self, rules: Iterable[Rule], intern: Callable[[str], int]):
        """``intern``: the number of a term in facts."""
        program = Program(rules, intern)
        self._facts = program.facts
        self._present = program.telling(Tell.PRESENT)
        self._holds = program.holds()
        self._closing = Closing(program)
        self._given = Given()
        self.touched = 0
        """Number of facts processed so far."""

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        return iter(self._facts)

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Advance to a moment, as :meth:`Maintenance.step` says."""
        turn = self._given.step(now, given or {}, taken_back)
        deleted = self._over_delete(turn.left())
        rederived = [fact for fact in deleted if self._holds(fact)]
        came = dict.fromkeys(self._closing.take([*rederived, *turn.entered()], HELD), HELD)
        self.touched += len(deleted) + len(came)
        if deleted.keys().isdisjoint(came):
            return Change(came, list(deleted))
        added = {fact: HELD for fact in came if fact not in deleted}
        return Change(added, [fact for fact in deleted if fact not in came])

    def _over_delete(self, left: Iterable[Fact]) -> dict[Fact, None]:
        """Drop facts that are no longer given and everything that any rule derived from them; return all these."""
        given, present = self._given.labels, self._present
        deleted = dict.fromkeys(left)
        batch = list(deleted)
        out: list[Derivation] = []
        while batch:
            for fires, facts in present.parts(batch):
                for fire in fires:
                    fire(facts, HELD, out.append)
            batch = []
            for s, p, o, _ in out:
                head = (s, p, o)
                if head not in deleted and head not in given:
                    deleted[head] = None
                    batch.append(head)
            out.clear()
        self._facts.drop(deleted)
        return deleted
