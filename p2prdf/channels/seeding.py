"""Foreseeing from what came to hold: which pattern of the query to begin with.

The problem.  What the paper's heuristic makes candidates of is the text of a graph, so it foresees no binding with a
part that is not in the graph.  A department that is published after its students brings hundreds of bindings at once,
each with a student's name that its graph does not have.

The idea.  A binding that is new rests on a fact that is new, one that a publication brought itself or that follows: its
*seed*.  It matches one of the query's patterns, and with its terms for that pattern's variables the rest of the query
is a matter of a few look-ups.  So what is learned is where to begin:

- The *category* of a publication is which patterns of the query are matched by anything that came to hold.  (Predicates
  and classes, as far as the channel cares about them.)
- An *entry* says: in publications of this category, facts in the place of this pattern brought new bindings.
- A *candidate* is a fact in that place.  Its test is to look up the other patterns, for at most so many steps.  It
  gives all bindings that the fact is part of, and all of them are true.

What was learned about one student holds for all others, for nothing in an entry is a term.  Entries compete by hit
rates as those of texts do.  Publications of a category that never brought anything are not looked into: that, and that
nothing is kept beside entries and facts, is the difference from evaluating incrementally.

*Rehearsal.*  What is there when a channel is made was published once, in an unknown order.  For some of its bindings it
is taken that each thing described in them came last: its facts' patterns are the category.  That may be wrong, and then
an entry is tried in vain; what is told is true all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Final

from p2prdf.channels.category import Categories, Publication
from p2prdf.channels.heuristic import Outcome
from p2prdf.channels.knowledge import KnowledgeBase
from p2prdf.channels.learner import RECENT_BINDINGS
from p2prdf.channels.mapping import MappingTable
from p2prdf.channels.query import CompiledQuery, Pattern, Row, matching, variables
from p2prdf.reasoning import Fact

__all__ = ["STEPS_MAX", "Seeding"]

STEPS_MAX: Final = 20_000
"""Most turns of loops that the tests of one publication take: a millisecond or two."""


class Seeding:
    """Foresees bindings of one channel from what came to hold."""

    categories = Categories.CHANGE

    def __init__(self, query: CompiledQuery, knowledge: KnowledgeBase, *, entries_max: int, candidates_max: int):
        """``candidates_max``: most facts that are tried at one publication."""
        self.table = MappingTable(entries_max)
        self.foreseen: deque[bool] = deque(maxlen=RECENT_BINDINGS)
        self._query = query
        self._facts = knowledge.facts
        self._candidates_max = candidates_max
        patterns = query.patterns
        self._matching = [(None if each[1] >= 0 else ~each[1], matching(each)) for each in patterns]
        self._bound = [len(variables(each)) for each in patterns]

    @property
    def rate(self) -> float:
        """See Heuristic."""
        return sum(self.foreseen) / len(self.foreseen) if self.foreseen else 0.0

    # --- foreseeing ------------------------------------------------------------------------------

    def test(self, publication: Publication, known: Sequence[Container[Row]], over: Callable[[], bool]) -> Outcome:
        """See Heuristic."""
        if not len(self.table):
            return Outcome([], 0, False)
        category, seeds = self._look(publication)
        found: dict[Row, None] = {}
        known = (*known, found)
        tried, steps = 0, STEPS_MAX
        for entry in self.table.entries(category):
            seeded = self._query.seeded(_place(entry.binding))
            if seeded is None:  # it was one to begin with when there was less, and patterns came in another order
                continue
            for seed in seeds[_place(entry.binding)]:
                if tried >= self._candidates_max or steps < 0 or (tried and over()):
                    return Outcome(list(found), tried, True)
                tried += 1
                rows: dict[Row, None] = {}
                steps = seeded(seed, rows, steps)
                new = [row for row in rows if not any(row in each for each in known)]
                if new or not rows:  # what is known already is neither a hit nor a miss
                    entry.tries += 1
                    entry.hits += bool(new)
                found.update(dict.fromkeys(new))
        return Outcome(list(found), tried, steps < 0)

    def _look(self, publication: Publication) -> tuple[int, list[list[Row]]]:
        """Return a publication's category, and by pattern what its variables are in facts that match."""
        category, seeds = 0, list[list[Row]]()
        every = publication.by_predicate
        for number, (predicate, match) in enumerate(self._matching):
            facts = publication.added if predicate is None else every.get(predicate)
            rows = match(facts) if facts else []
            seeds.append(rows)
            if rows:
                category |= 1 << number
        return category, seeds

    def foresees(self, row: Row, publications: Sequence[Publication]) -> bool:
        """See Heuristic: bounds on steps and candidates are not looked at."""
        facts = self._rests_on(row)
        for publication in publications:
            brought = [number for number, fact in enumerate(facts) if fact in publication.added]
            if brought and self.table.known(self._look(publication)[0], brought):
                return True
        return False

    # --- learning --------------------------------------------------------------------------------

    def learn(self, row: Row, publications: Sequence[Publication]) -> None:
        """See Heuristic: it came to hold with the last publication that brought anything it rests on."""
        facts = self._rests_on(row)
        for publication in reversed(publications):
            brought = [number for number, fact in enumerate(facts) if fact in publication.added]
            if brought:
                category, seeds = self._look(publication)
                self._take(category, brought, seeds)
                return

    def begin(self, rows: Sequence[Row]) -> None:
        """See Heuristic: each thing described in a binding is taken to have come last."""
        for row in rows:
            facts = self._rests_on(row)
            described: dict[int, list[int]] = {}
            for number, (subject, _, _) in enumerate(facts):
                described.setdefault(subject, []).append(number)
            for subject, brought in described.items():
                category = sum(1 << at for at, each in enumerate(self._query.patterns) if self._said(subject, each))
                self._take(category, brought, [])

    def _take(self, category: int, brought: Sequence[int], seeds: Sequence[Sequence[Row]]) -> None:
        """Take in that facts in the places of some patterns brought a binding, if nothing does that foresees it."""
        if self.table.known(category, brought):
            return

        def cost(number: int) -> tuple[int, int, int]:  # few to try, then many variables that are known
            return len(seeds[number]) if seeds else 0, -self._bound[number], number

        for number in sorted(brought, key=cost):
            if self._query.seeded(number) is not None:
                self.table.entry(category, number, (), ())
                return

    def _rests_on(self, row: Row) -> list[Fact]:
        """Return the facts, by pattern, that make a binding true in one way; none if it is not."""
        solution = self._query.solution(row)
        if solution is None:
            return []
        found = []
        for pattern in self._query.patterns:
            s, p, o = (solution[slot] if slot >= 0 else ~slot for slot in pattern)
            found.append((s, p, o))
        return found

    def _said(self, subject: int, pattern: Pattern) -> bool:
        """Tell whether anything that is said of a subject matches a pattern."""
        s, p, o = pattern
        if s < 0 and ~s != subject:
            return False
        if p >= 0:
            return True
        objects = self._facts.pso.get(~p, {}).get(subject, {})
        if o >= 0:
            return bool(objects) if s != o else subject in objects
        return ~o in objects


def _place(binding: object) -> int:
    """Return the pattern that an entry is about: what it has in place of a category of bindings."""
    assert isinstance(binding, int)
    return binding
