"""What follows from facts that expire, kept up to date step by step.

*Labels.*  Every fact has a label, the last moment at which it holds (its expiration time); what a rule derives from
some facts holds until the first of them expires, and of several derivations the one that lasts longest counts::

    E(f) = max(label of f as a given fact, max over rule instances with head f of (min over their bodies of E))

the least solution, that is.  So for any moment t from now on: f follows from the given facts with labels from t on
if and only if E(f) >= t.  When time goes on nothing has to be worked out: what has expired is dropped, by labels alone.

*A step* (D. F. Barbieri, D. Braga, S. Ceri, E. Della Valle, M. Grossniklaus: Incremental Reasoning on Streams and Rich
Background Knowledge, ESWC 2010, with the defects of its printed program mended: docs/reasoning.md):

1. drop what has expired;
2. take back what was removed before its time: drop all that has its label through it, then give each of these the best
   label that what is left supports (Delete and Rederive; where all labels are equal it is just that);
3. take in what is given, largest label first, and what follows with labels that are better than before.

In 3 a fact that is looked at has its final label, for whatever follows later has no larger one (as in Dijkstra's
algorithm, with the narrowest part of a path instead of its length).  So no fact is looked at twice in a step.

*Windows of several sizes at once.*  Let the label be the time of the *oldest* fact of a derivation, of all derivations
the latest.  Adding the size of a window to labels changes nothing in what is max and min of what, so one
materialisation serves all windows up to the size after which facts are dropped: :meth:`Materialiser.since`.

*When much changes* it is cheaper to begin anew than to mend (:class:`Effort`), and begun anew with the largest labels
first, each fact has its label as soon as it is found, so labels cost nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning.effort import Effort
from p2prdf.reasoning.facts import ABSENT, Fact, Nested
from p2prdf.reasoning.joins import Derivation, Program, Tell
from p2prdf.reasoning.levels import Levels
from p2prdf.reasoning.rule import Rule

__all__ = ["FOREVER", "Change", "Materialiser"]

FOREVER: Final = (1 << 63) - 1
"""The label of what does not expire: background knowledge."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a step did to the facts that hold."""

    added: dict[Fact, int] = field(default_factory=dict)
    """With their labels."""
    removed: list[Fact] = field(default_factory=list)
    relabelled: dict[Fact, int] = field(default_factory=dict)
    """What holds longer than it was known to, or less long after something was taken back: the new labels.

    After a step that began anew (``anew``) these are left out, for they are most.
    """
    anew: bool = False


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
    ):
        """``intern``: the number of a term, as facts name it.  ``effort``: when to begin anew.

        ``is_literal``: whether a number is that of a literal.  A rule whose head would have one as its subject or
        predicate then says nothing there, for that is no triple: ``?y a :Name :- ?x :name ?y`` of plain names, say.
        """
        self._program = Program(rules, intern, is_literal)
        self._facts = self._program.facts
        self._raised = self._program.firing(Tell.RAISED)
        self._supported = self._program.firing(Tell.SUPPORTED)
        self._missing = self._program.firing(Tell.MISSING)
        self._best = self._program.best()
        self._given: dict[Fact, int] = {}
        self._levels, self._given_levels = Levels(), Levels()
        self._effort = effort or Effort()
        self.now = 0
        self.late = 0
        """Facts given that had expired by then."""

    # --- what holds ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        """Yield what holds, with labels; not while stepping."""
        return iter(self._facts)

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
        if now < self.now:
            raise LocalProtocolError(f"time goes back from {self.now} to {now}")
        self.now = now
        self._forget_expired()
        back = [fact for fact in dict.fromkeys(taken_back) if fact in self._given]
        gone = {fact: self._given.pop(fact) for fact in back}
        arrivals = self._taken(given or {})
        effort, changes = self._effort, len(arrivals) + len(gone)
        if effort.anew(changes, len(self._facts)):
            return self._begin_anew()
        before: dict[Fact, int] = {}
        self._expire(before)
        pending = self._take_back(gone, before) if gone else {}
        for fact in arrivals:
            pending[fact] = max(self._given[fact], pending.get(fact, ABSENT))
        touched = self._raise(pending, before)
        effort.mended(changes, touched)
        return self._change(before)

    def _taken(self, given: Mapping[Fact, int]) -> list[Fact]:
        known, taken = self._given, []
        levels: dict[int, list[Fact]] = {}
        for fact, label in given.items():
            if label < self.now:
                self.late += 1
            elif label > known.get(fact, ABSENT):
                known[fact] = label
                taken.append(fact)
                levels.setdefault(label, []).append(fact)
        for label, facts in levels.items():
            self._given_levels.put(label, facts)
        return taken

    def _forget_expired(self) -> None:
        """Forget given facts that have expired; what holds may do so for other reasons."""
        for label, expired in self._given_levels.pop_below(self.now):
            for fact in expired:
                if self._given.get(fact) == label:
                    del self._given[fact]

    def _expire(self, before: dict[Fact, int]) -> None:
        """Drop what has expired, by its label."""
        facts = self._facts
        for label, expired in self._levels.pop_below(self.now):
            for fact in expired:
                if facts.label(fact) == label:
                    facts.drop(fact)
                    before[fact] = label

    def _take_back(self, gone: Mapping[Fact, int], before: dict[Fact, int]) -> dict[Fact, int]:
        """Drop what has its label through facts that are gone; return the best label of each that is left, if any."""
        facts, given, supported = self._facts, self._given, self._supported
        dropped = {fact: label for fact, label in gone.items() if facts.label(fact) == label}
        queue = list(dropped)
        out: list[Derivation] = []
        for fact in queue:
            s, p, o = fact
            for fire in supported.of(p, o):
                fire(s, p, o, dropped[fact], out.append)
            for *parts, label in out:
                head = (parts[0], parts[1], parts[2])
                if head not in dropped and given.get(head) != label:
                    dropped[head] = label
                    queue.append(head)
            out.clear()
        for fact, label in dropped.items():
            facts.drop(fact)
            before.setdefault(fact, label)
        found = {fact: max(self._best(fact), given.get(fact, ABSENT)) for fact in queue}
        return {fact: label for fact, label in found.items() if label != ABSENT}

    def _raise(self, pending: Mapping[Fact, int], before: dict[Fact, int]) -> int:
        """Give facts labels, and what follows from them, if these are better than theirs; return how many."""
        facts, raised, touched = self._facts, self._raised, 0
        put = facts.put
        levels: dict[int, list[Fact]] = {}
        for fact, label in pending.items():
            was = facts.label(fact)
            if was < label:
                put(fact, label)
                before.setdefault(fact, was)
                levels.setdefault(label, []).append(fact)
        order = [-label for label in levels]
        heapq.heapify(order)
        out: list[Derivation] = []
        while order:
            level = -heapq.heappop(order)
            queue = levels[level]
            for fact in queue:
                if facts.label(fact) != level:
                    continue
                touched += 1
                s, p, o = fact
                for fire in raised.of(p, o):
                    fire(s, p, o, level, out.append)
                for s, p, o, label in out:
                    head = (s, p, o)
                    was = facts.label(head)
                    if was < label:
                        put(head, label)
                        before.setdefault(head, was)
                        if label not in levels:
                            levels[label] = []
                            heapq.heappush(order, -label)
                        levels[label].append(head)
                out.clear()
        for level, queue in levels.items():
            self._levels.put(level, queue)
        return touched

    def _change(self, before: Mapping[Fact, int]) -> Change:
        change = Change()
        for fact, was in before.items():
            label = self._facts.label(fact)
            if was == ABSENT:
                if label != ABSENT:
                    change.added[fact] = label
            elif label == ABSENT:
                change.removed.append(fact)
            elif label != was:
                change.relabelled[fact] = label
        return change

    # --- beginning anew --------------------------------------------------------------------------

    def _begin_anew(self) -> Change:
        """Work everything out again from what is given, largest labels first."""
        facts, given, missing = self._facts, self._given, self._missing
        was = facts.renew()
        put = facts.put
        self._levels.clear()
        out: list[Derivation] = []
        for level, filed in self._given_levels.descending():
            queue = []
            for fact in filed:
                if given.get(fact) == level and facts.label(fact) == ABSENT:
                    put(fact, level)
                    queue.append(fact)
            for s, p, o in queue:
                for fire in missing.of(p, o):
                    fire(s, p, o, level, out.append)
                for s, p, o, _ in out:
                    head = (s, p, o)
                    if put(head, level) == ABSENT:
                        queue.append(head)
                out.clear()
            self._levels.put(level, queue)
        return Change(_only(facts.pso, was), list(_only(was, facts.pso)), anew=True)


def _only(these: Nested, those: Nested) -> dict[Fact, int]:
    """Return what is in the one and not in the other, by predicate and subject both."""
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
