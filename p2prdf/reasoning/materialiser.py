"""What follows from facts that expire, kept up to date step by step.

*Labels.*  Every fact has a label, the last moment at which it holds (its expiration time); what a rule derives from
some facts holds until the first of them expires, and of several derivations the one that lasts longest counts::

    E(f) = max(label of f as a given fact, max over rule instances with head f of (min over their bodies of E))

the least solution, that is.  So for any moment t from now on: f follows from the given facts with labels from t on
if and only if E(f) >= t.  When time goes on nothing has to be worked out: what has expired is dropped, by labels alone.

*A step* (D. F. Barbieri, D. Braga, S. Ceri, E. Della Valle, M. Grossniklaus: Incremental Reasoning on Streams and Rich
Background Knowledge, ESWC 2010, with the defects of its printed program mended: docs/explanation/rules.md):

1. drop what has expired;
2. take back what was removed before its time: drop all that has its label through it, then give each of these the best
   label that what is left supports (Delete and Rederive; where all labels are equal it is just that);
3. take in what is given, largest label first, and what follows with labels that are better than before.

Where all that is given lasts for ever, and is not taken back, all labels are the same: then 3 puts what is not there,
with what follows and is not there (:mod:`p2prdf.reasoning.closing`).

In 3 a fact that is looked at has its final label, for whatever follows later has no larger one
(:mod:`p2prdf.reasoning.raising`).  Transitive relations are closed edge by edge (:mod:`p2prdf.reasoning.transitive`).

*Windows of several sizes at once.*  Let the label be the time of the *oldest* fact of a derivation, of all derivations
the latest.  Adding the size of a window to labels changes nothing in what is max and min of what, so one
materialisation serves all windows up to the size after which facts are dropped: :meth:`Materialiser.since`.

*When much changes* it is cheaper to begin anew than to mend (:class:`Effort`), and begun anew with the largest labels
first, each fact has its label as soon as it is found, so labels cost nothing.
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
from p2prdf.reasoning.rule import Rule
from p2prdf.reasoning.withdrawal import Withdrawal

__all__ = ["FOREVER", "Change", "Materialiser"]

class Materialiser:
    """All that follows by some rules from facts given with expiration times.

    Times are whole numbers from 0 in any unit, and never go back.
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
        """``intern``: the number of a term, as facts name it.  ``effort``: when to begin anew.

        ``orders``: those in which ``facts`` are kept whatever the rules need (:data:`p2prdf.reasoning.facts.ORDERS`).

        ``is_literal``: whether a number is that of a literal.  A rule whose head would have one as its subject or
        predicate then says nothing there, for that is no triple: ``?y a :Name :- ?x :name ?y`` of plain names, say.

        ``closes``: transitive relations are closed edge by edge where they can be, instead of by their rule.
        """
        self._program = Program(rules, intern, is_literal, orders, closes=closes)
        self._facts = self._program.facts
        self._closing = Closing(self._program)
        self._withdrawal = Withdrawal(self._program)
        self._given = Given()
        self._levels = Levels()
        self._raising = Raising(self._program, self._levels)
        self._effort = effort or Effort(CLOSED_MEND_FACTOR if self._program.transitive else MEND_FACTOR)
        self._count = 0
        self.touched = 0
        """Facts looked at or dropped, so far."""

    @property
    def now(self) -> int:
        """The moment of the last step."""
        return self._given.now

    @property
    def late(self) -> int:
        """How many facts were given that had expired by then."""
        return self._given.late

    # --- what holds ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        """Yield what holds, with labels; not while stepping."""
        return iter(self._facts)

    @property
    def facts(self) -> Facts:
        """What holds, by its parts: to be read, not while stepping.  The dictionaries of a predicate stay the same."""
        return self._facts

    def is_given(self, fact: Fact) -> bool:
        """Tell whether a fact was given and neither taken back nor expired since: it does not rest on rules alone."""
        return fact in self._given.labels

    def label(self, fact: Fact) -> int | None:
        """Return the label of a fact, None if it does not hold."""
        label = self._facts.label(fact)
        return None if label == ABSENT else label

    def since(self, label: int) -> Iterator[Fact]:
        """Yield what holds with a label from ``label`` on: what follows from facts of such labels alone."""
        return (fact for fact, each in self._facts if each >= label)

    # --- steps -----------------------------------------------------------------------------------

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Go on to a moment; take back given facts, then take in others with their labels.

        A fact given again keeps the larger label; one that has expired already is counted as late.  What was not
        given, or has expired, cannot be taken back: nothing happens.  Raises LocalProtocolError if time goes back.
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
        withdrawn, left = self._withdrawal.of(turn.taken_back, labels) if turn.taken_back else ({}, {})
        added, raised, touched = self._raising.of({fact: labels[fact] for fact in turn.taken}, left)
        self.touched += touched + len(expired) + len(withdrawn)
        self._effort.touched(changes, touched + len(withdrawn))
        return _change(expired, withdrawn, added, raised)

    def _only_lasting_come(self, turn: Turn) -> bool:
        """Tell whether all labels are the same before and after a step, so that none rises and what is new is enough.

        Not for edges of transitive relations, which are entered in a way of their own.
        """
        if turn.expired or turn.taken_back or self._levels or not self._given.lasting:
            return False
        transitive = self._program.transitive
        return not transitive or not any(fact[1] in transitive for fact in turn.taken)

    def _expire(self, given: list[Fact]) -> list[Fact]:
        """Drop what has expired, by its label; return it.  ``given``: what was given until now."""
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
        """Return those of facts that are filed under their labels: all but those of transitive predicates."""
        transitive = self._program.transitive
        if not transitive:
            return facts
        if self._facts.pso.keys() <= transitive.keys():  # there are no others: nothing to look through
            return []
        return [fact for fact in facts if fact[1] not in transitive]

    # --- beginning anew --------------------------------------------------------------------------

    def _begin_anew(self, changes: int) -> Change:
        """Work everything out again from what is given, largest labels first."""
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
    """Return the change that facts that expired, were withdrawn, then added, then raised amount to."""
    for fact in [each for each in raised if each in added]:
        added[fact] = raised.pop(fact)
    for fact in [each for each in withdrawn if each in added]:
        label = added.pop(fact)
        if withdrawn.pop(fact) != label:
            raised[fact] = label
    if not added.keys().isdisjoint(expired):  # seldom, so that nothing is done for each otherwise
        back = [fact for fact in expired if fact in added]
        raised |= {fact: added[fact] for fact in back}
        expired = [fact for fact in expired if fact not in added]
        for fact in back:
            del added[fact]
    return Change(added, [*expired, *withdrawn], raised)
