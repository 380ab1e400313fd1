"""Counting of derivations, for comparison.

A. Gupta, I. S. Mumick, V. S. Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993.  Each fact has the
number of rule instances that derive it from present facts, plus one if it is given.  A new fact adds one to the
conclusion of each instance that it completes; a lost fact subtracts one, and a fact with count 0 is lost too.  No
fact is deleted only to be derived again.  In return all instances are walked, where other programs stop at the first,
and counts are wrong as soon as a fact supports itself.  With ``a isIn b`` and ``b isIn a``, ``a isIn a`` follows and
derives ``b isIn a`` again, which then has a count of two and stays after its retraction.

The program therefore accepts only input for which it is correct:

- rules in which no predicate depends on itself, except through a single rule of transitivity (``?x p ?z :- ?x p ?y,
  ?y p ?z``); other rules are refused at once;
- facts that do not support themselves.  With such rules only a cycle of a transitive relation violates this, and then
  some ``a p a`` follows, derived from itself and itself.  That instance is refused when it is counted, and the
  program cannot be used afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.given import Given
from p2prdf.reasoning.joins import Derivation, Program, Tell
from p2prdf.reasoning.maintenance import Change
from p2prdf.reasoning.rule import Rule, is_transitivity
from p2prdf_lab.competitors.reasoning.maintenance import HELD

__all__ = ["Counting"]


class Counting:
    """The closure under some rules, by counts: a :class:`Maintenance`.

    The label of a fact is its count.  Raises LocalProtocolError for rules, and in a step for facts, for which counts
    would be wrong.
    """

    def __init__(self, rules: Iterable[Rule], intern: Callable[[str], int]):
        """``intern``: the number of a term in facts."""
        program = Program(rules, intern)
        _check(program.rules)
        self._facts = program.facts
        self._each = program.telling(Tell.EACH)
        self._counts: dict[Fact, int] = {}
        self._given = Given()
        self.touched = 0
        """Number of facts and rule instances processed so far."""

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        return iter(self._counts.items())

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Advance to a moment, as :meth:`Maintenance.step` says."""
        turn = self._given.step(now, given or {}, taken_back)
        gone = self._take_away(turn.left())
        came = self._add(turn.entered())
        return Change(
            {fact: HELD for fact in came if fact not in gone}, [fact for fact in gone if fact not in self._counts]
        )

    def _take_away(self, left: Iterable[Fact]) -> dict[Fact, None]:
        """Count facts as no longer given; return the facts that are lost with them."""
        facts, each = self._facts, self._each
        out: list[Derivation] = []
        queue = self._lowered((s, p, o, HELD) for s, p, o in left)
        for fact in queue:
            # this fact is still present, earlier ones are not: each instance is subtracted once
            for fire in each.of(*fact[1:]):
                fire((fact,), HELD, out.append)
            facts.drop((fact,))
            queue += self._lowered(out)
            self.touched += len(out)
            out.clear()
        return dict.fromkeys(queue)

    def _add(self, entered: Iterable[Fact]) -> list[Fact]:
        """Count facts as given; return the facts that appear with them."""
        facts, each = self._facts, self._each
        out: list[Derivation] = []
        queue = self._raised((s, p, o, HELD) for s, p, o in entered)
        for fact in queue:
            facts.put(fact, HELD)
            for fire in each.of(*fact[1:]):  # later facts are not present yet: each instance is counted once
                fire((fact,), HELD, out.append)
            if (*fact, HELD) in out:
                raise LocalProtocolError(f"counting is wrong where facts support themselves, as {fact} does here")
            queue += self._raised(out)
            self.touched += len(out)
            out.clear()
        return queue

    def _lowered(self, instances: Iterable[Derivation]) -> list[Fact]:
        """Subtract one from the conclusion of each instance; return the facts with count 0."""
        counts, none = self._counts, []
        for s, p, o, _ in instances:
            head = (s, p, o)
            count = counts[head] - 1
            if count:
                counts[head] = count
            else:
                del counts[head]
                none.append(head)
        self.touched += len(none)
        return none

    def _raised(self, instances: Iterable[Derivation]) -> list[Fact]:
        """Add one to the conclusion of each instance; return the facts that had count 0."""
        counts, new = self._counts, []
        for s, p, o, _ in instances:
            head = (s, p, o)
            count = counts.get(head, 0)
            counts[head] = count + 1
            if not count:
                new.append(head)
        self.touched += len(new)
        return new


def _check(rules: Iterable[Rule]) -> None:
    """Raise LocalProtocolError for rules by which a fact may support itself unnoticed."""
    rules = list(rules)
    for rule in rules:
        for atom in (rule.head, *rule.body):
            if atom.p.startswith("?"):
                raise LocalProtocolError(f"{rule}: counting needs to know which predicates depend on which: {atom.p}")
    for rule in rules:
        from_head = _dependent(rule.head.p, rules)
        for atom in rule.body:
            if atom.p in from_head and not is_transitivity(rule):
                raise LocalProtocolError(f"{rule}: {atom.p} depends on itself, and counting would be wrong in circles")


def _dependent(predicate: str, rules: Iterable[Rule]) -> set[str]:
    """Return the predicates with facts that may be derived from facts of this one, itself included."""
    found, queue = {predicate}, [predicate]
    for each in queue:
        for rule in rules:
            if rule.head.p not in found and any(atom.p == each for atom in rule.body):
                found.add(rule.head.p)
                queue.append(rule.head.p)
    return found
