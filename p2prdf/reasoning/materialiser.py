"""The product's maintenance program: the closure of facts that expire, step by step.

*Labels.*  The label of a fact is the last moment at which it holds (its expiration time)::

    E(f) = max(label of f as a given fact, max over rule instances with head f of (min over their bodies of E))

This is the least solution.  For every moment t from now on, f follows from the given facts with labels of at least t
if and only if E(f) >= t.  The progress of time therefore computes nothing: expired facts are dropped by their labels.

*A step* (D. F. Barbieri, D. Braga, S. Ceri, E. Della Valle, M. Grossniklaus: Incremental Reasoning on Streams
and Rich Background Knowledge, ESWC 2010, with the defects of the printed program corrected:
docs/explanation/rules.md):

1. Drop expired facts.
2. Retract facts that are removed before their time: drop all facts that owe their label to them, then give each of
   these the best label that the rest supports (Delete and Rederive with labels, :mod:`p2prdf.reasoning.retraction`).
3. Add the given facts, largest label first, and the conclusions that improve a label
   (:mod:`p2prdf.reasoning.raising`, :mod:`p2prdf.reasoning.transitive`).

If all given facts last for ever and none is retracted, all labels are equal, and part 3 only adds missing facts
(:mod:`p2prdf.reasoning.closing`).

*Windows of several sizes.*  Let the label be the time of the *oldest* fact of a derivation, and take the latest over
all derivations.  Adding a window's size to all labels changes no maximum or minimum, so one materialisation serves
all windows up to the size after which facts are dropped: :meth:`Materialiser.since`.

A large change is cheaper to recompute than to maintain (:class:`Effort`).  Recomputed with the largest labels first,
each fact has its label as soon as it is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from p2prdf.reasoning.closing import Closing, count_relabelled, only_in
from p2prdf.reasoning.effort import CLOSED_MEND_FACTOR, MEND_FACTOR, Effort
from p2prdf.reasoning.facts import ABSENT, Fact, Facts
from p2prdf.reasoning.given import Given, Turn
from p2prdf.reasoning.joins import Program
from p2prdf.reasoning.levels import Levels
from p2prdf.reasoning.maintenance import FOREVER, Change
from p2prdf.reasoning.raising import Raising
from p2prdf.reasoning.retraction import Retraction
from p2prdf.reasoning.rule import Rule

__all__ = ["FOREVER", "Change", "Materialiser"]

class Materialiser:
    """The closure, under some rules, of facts given with expiration times.

    Times are integers from 0 in any unit, and never go back.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        intern: Callable[[str], int],
        *,
        is_literal: Callable[[int], bool] | None = None,
        effort: Effort | None = None,
        orders: Iterable[str] = (),
        closes: bool = True,
    ):
        """``intern``: the number of a term in facts.  ``effort``: decides between maintenance and recomputation.

        ``orders``: the orders of ``facts`` to keep besides those that the rules need
        (:data:`p2prdf.reasoning.facts.ORDERS`).

        ``is_literal``: whether a number is that of a literal.  A rule with a literal as subject or predicate of its
        head concludes nothing, since that is no triple: for example ``?y a :Name :- ?x :name ?y`` of plain names.

        ``closes``: transitive relations are closed edge by edge where possible, instead of by their rule.
        """
        self._program = Program(rules, intern, is_literal, orders, closes=closes)
        self._facts = self._program.facts
        self._closing = Closing(self._program)
        self._retraction = Retraction(self._program)
        self._given = Given()
        self._levels = Levels()
        self._raising = Raising(self._program, self._levels)
        self._effort = effort or Effort(CLOSED_MEND_FACTOR if self._program.transitive else MEND_FACTOR)
        self._count = 0
        self.touched = 0
        """Number of facts processed or dropped so far."""

    @property
    def now(self) -> int:
        """The moment of the last step."""
        return self._given.now

    @property
    def late(self) -> int:
        """Number of facts that had expired when they were given."""
        return self._given.late

    # --- present facts ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        """Yield the present facts with their labels; not during a step."""
        return iter(self._facts)

    @property
    def facts(self) -> Facts:
        """The present facts, by their parts: read-only, not during a step.

        A predicate's dictionaries stay the same objects.
        """
        return self._facts

    def is_given(self, fact: Fact) -> bool:
        """Return whether a fact is given and neither retracted nor expired: it does not depend on rules alone."""
        return fact in self._given.labels

    def label(self, fact: Fact) -> int | None:
        """Return the label of a fact, None if it does not hold."""
        label = self._facts.label(fact)
        return None if label == ABSENT else label

    def since(self, label: int) -> Iterator[Fact]:
        """Yield the facts with labels of at least ``label``: the closure of the given facts with such labels."""
        return (fact for fact, each in self._facts if each >= label)

    # --- steps -----------------------------------------------------------------------------------

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Advance to a moment; retract given facts, then add others with their labels.

        A fact given again keeps the larger label; a fact that has expired already counts as late.  Retracting a fact
        that was not given, or has expired, has no effect.  Raises LocalProtocolError if time goes back.
        """
        turn = self._given.step(now, given or {}, taken_back)
        changes = len(turn.taken) + len(turn.taken_back)
        if self._effort.anew(changes, self._count):
            change = self._begin_anew(changes)
        else:
            change = self._mend(turn, changes)
        self._count += len(change.added) - len(change.removed)
        return change

    def _mend(self, turn: Turn, changes: int) -> Change:
        if self._only_lasting_come(turn):
            added = dict.fromkeys(self._closing.take(turn.taken, FOREVER), FOREVER)
            self.touched += len(added)
            self._effort.touched(changes, len(added))
            return Change(added)
        expired = self._expire(turn.expired)
        labels = self._given.labels
        withdrawn, left = self._retraction.of(turn.taken_back, labels) if turn.taken_back else ({}, {})
        added, raised, touched = self._raising.of({fact: labels[fact] for fact in turn.taken}, left)
        self.touched += touched + len(expired) + len(withdrawn)
        self._effort.touched(changes, touched + len(withdrawn))
        return _change(expired, withdrawn, added, raised)

    def _only_lasting_come(self, turn: Turn) -> bool:
        """Return whether all labels are equal before and after a step, so that adding the missing facts is enough.

        False for edges of transitive relations, which :mod:`p2prdf.reasoning.transitive` enters.
        """
        if turn.expired or turn.taken_back or self._levels or not self._given.lasting:
            return False
        transitive = self._program.transitive
        return not transitive or not any(fact[1] in transitive for fact in turn.taken)

    def _expire(self, given: list[Fact]) -> list[Fact]:
        """Drop the expired facts, by label, and return them.  ``given``: those of them that were given."""
        found: list[Fact] = []
        transitive = self._program.transitive
        edges: dict[int, list[Fact]] = {p: [] for p in transitive}
        for fact in given if edges else ():
            if fact[1] in edges:
                edges[fact[1]].append(fact)
        for p, part in edges.items():
            found += transitive[p].expire(part, self.now)
        for label, filed in self._levels.pop_below(self.now):
            found += self._facts.drop_labelled(filed, label)
        return found

    def _filed(self, facts: list[Fact]) -> list[Fact]:
        """Return the facts that are filed under their labels: all except those of transitive predicates."""
        transitive = self._program.transitive
        if not transitive:
            return facts
        if self._facts.pso.keys() <= transitive.keys():  # there are no others, so no scan is needed
            return []
        return [fact for fact in facts if fact[1] not in transitive]

    # --- recomputation ---------------------------------------------------------------------------

    def _begin_anew(self, changes: int) -> Change:
        """Compute the closure of the given facts again, largest labels first."""
        was = self._facts.renew()
        self._levels.clear()
        for level, filed in self._given.descending():
            found = self._closing.take(filed, level)
            self.touched += len(found)
            self._levels.put(level, self._filed(found))
        if self._effort.counts:
            self._effort.touched(changes, count_relabelled(self._facts.pso, was))
        return Change(only_in(self._facts.pso, was), list(only_in(was, self._facts.pso)), anew=True)


def _change(
    expired: list[Fact], withdrawn: dict[Fact, int], added: dict[Fact, int], raised: dict[Fact, int]
) -> Change:
    """Return the net change of facts that expired, were retracted, then added, then raised."""
    for fact in [each for each in raised if each in added]:
        added[fact] = raised.pop(fact)
    for fact in [each for each in withdrawn if each in added]:
        label = added.pop(fact)
        if withdrawn.pop(fact) != label:
            raised[fact] = label
    if not added.keys().isdisjoint(expired):  # rare, so the usual case costs nothing per fact
        back = [fact for fact in expired if fact in added]
        raised |= {fact: added[fact] for fact in back}
        expired = [fact for fact in expired if fact not in added]
        for fact in back:
            del added[fact]
    return Change(added, [*expired, *withdrawn], raised)
