"""Counting derivations (A. Gupta, I. S. Mumick, V. S. Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993).

Every fact has the number of rule instances that derive it from facts that hold, and one more if it is given.  A fact
that comes adds one to what each instance it completes derives; a fact that goes takes one from it, and what has come
down to nothing goes, too.  Nothing is deleted that has to be derived again.  The price: all instances are walked, where
others stop at the first, and the counts are wrong as soon as a fact supports itself.  Take ``a isIn b`` and
``b isIn a``: ``a isIn a`` follows, and with it derives ``a isIn b`` again, which then has a count of two and stays when
it is taken back.

So this program takes only what it gets right:

- rules among which no predicate depends on itself, except by a rule that says just that it is transitive
  (``?x p ?z :- ?x p ?y, ?y p ?z``) and is the only one through which it does; others are refused at once;
- facts none of which supports itself: with such rules that is so unless a transitive relation runs in a circle, and
  then some ``a p a`` follows, which derives itself from itself and itself.  That instance is seen when it is counted,
  and refused.  The program has no use after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning.facts import Fact
from p2prdf.reasoning.given import Given
from p2prdf.reasoning.joins import Derivation, Program, Tell
from p2prdf.reasoning.maintenance import HELD, Change
from p2prdf.reasoning.rule import Rule, is_transitivity

__all__ = ["Counting"]


class Counting:
    """All that follows by some rules, by counts: a :class:`Maintenance`.

    The label of a fact is its count.  Raises LocalProtocolError for rules, and in a step for facts, that it would get
    wrong.
    """

    def __init__(self, rules: Iterable[Rule], intern: Callable[[str], int]):
        """``intern``: the number of a term, as facts name it."""
        program = Program(rules, intern)
        _check(program.rules)
        self._facts = program.facts
        self._each = program.telling(Tell.EACH)
        self._counts: dict[Fact, int] = {}
        self._given = Given()
        self.touched = 0
        """Facts and rule instances looked at, so far."""

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        return iter(self._counts.items())

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Go on to a moment, as :meth:`Maintenance.step` says."""
        turn = self._given.step(now, given or {}, taken_back)
        gone = self._take_away(turn.left())
        came = self._add(turn.entered())
        return Change(
            {fact: HELD for fact in came if fact not in gone}, [fact for fact in gone if fact not in self._counts]
        )

    def _take_away(self, left: Iterable[Fact]) -> dict[Fact, None]:
        """Count facts as not given any more; return what is gone with them."""
        facts, each = self._facts, self._each
        out: list[Derivation] = []
        queue = self._lowered((s, p, o, HELD) for s, p, o in left)
        for fact in queue:
            for fire in each.of(*fact[1:]):  # this one still is there, what went before it is not: each goes once
                fire((fact,), HELD, out.append)
            facts.drop((fact,))
            queue += self._lowered(out)
            self.touched += len(out)
            out.clear()
        return dict.fromkeys(queue)

    def _add(self, entered: Iterable[Fact]) -> list[Fact]:
        """Count facts as given; return what comes with them."""
        facts, each = self._facts, self._each
        out: list[Derivation] = []
        queue = self._raised((s, p, o, HELD) for s, p, o in entered)
        for fact in queue:
            facts.put(fact, HELD)
            for fire in each.of(*fact[1:]):  # what comes later is not there yet: each instance is counted once
                fire((fact,), HELD, out.append)
            if (*fact, HELD) in out:
                raise LocalProtocolError(f"counting is wrong where facts support themselves, as {fact} does here")
            queue += self._raised(out)
            self.touched += len(out)
            out.clear()
        return queue

    def _lowered(self, instances: Iterable[Derivation]) -> list[Fact]:
        """Take one from what each instance derives; return what has come down to nothing."""
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
        """Add one to what each instance derives; return what had nothing."""
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
    """Raise LocalProtocolError for rules by which a fact may support itself unseen."""
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
    """Return the predicates whose facts may be derived with facts of this one, itself included."""
    found, queue = {predicate}, [predicate]
    for each in queue:
        for rule in rules:
            if rule.head.p not in found and any(atom.p == each for atom in rule.body):
                found.add(rule.head.p)
                queue.append(rule.head.p)
    return found
