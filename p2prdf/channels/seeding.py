"""Prediction from new facts: which pattern of the query to begin with.

The paper's heuristic predicts no binding with a part outside of the graph's text. A new binding, however,
depends on a new fact, published or derived: its *seed*. The seed matches a pattern of the query, and the rest
of the query takes a few look-ups. The heuristic learns where to begin:

- The *category* of a publication is the set of patterns that its new facts match.
- An *entry* says: in this category, facts at this pattern brought new bindings.
- A *candidate* is a fact at that pattern. Its test, within a bounded number of steps, gives all bindings that
  contain the fact, and all of them hold.

*Rehearsal.* The order of facts published before the channel is unknown. For some of its bindings, each subject
in turn is assumed to have come last. A wrong assumption only costs a try in vain.

docs/explanation/channels.md compares the heuristics.
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
"""Bound on the loop iterations for the tests of one publication: one or two milliseconds."""


class Seeding:
    """Predicts bindings of one channel from new facts."""

    categories = Categories.CHANGE

    def __init__(self, query: CompiledQuery, knowledge: KnowledgeBase, *, entries_max: int, candidates_max: int):
        """``candidates_max``: bound on the facts tried per publication."""
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
            if seeded is None:  # it was usable when there were fewer facts and the patterns had another order
                continue
            for seed in seeds[_place(entry.binding)]:
                if tried >= self._candidates_max or steps < 0 or (tried and over()):
                    return Outcome(list(found), tried, True)
                tried += 1
                rows: dict[Row, None] = {}
                steps = seeded(seed, rows, steps)
                new = [row for row in rows if not any(row in each for each in known)]
                if new or not rows:  # known bindings are neither hits nor misses
                    entry.tries += 1
                    entry.hits += bool(new)
                found.update(dict.fromkeys(new))
        return Outcome(list(found), tried, steps < 0)

    def _look(self, publication: Publication) -> tuple[int, list[list[Row]]]:
        """Return a publication's category, and for each pattern the values of its variables."""
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
        """See Heuristic; ignores the bounds on steps and candidates."""
        facts = self._rests_on(row)
        for publication in publications:
            brought = [number for number, fact in enumerate(facts) if fact in publication.added]
            if brought and self.table.known(self._look(publication)[0], brought):
                return True
        return False

    # --- learning --------------------------------------------------------------------------------

    def learn(self, row: Row, publications: Sequence[Publication]) -> None:
        """See Heuristic: the cause is the last publication that brought one of the binding's facts."""
        facts = self._rests_on(row)
        for publication in reversed(publications):
            brought = [number for number, fact in enumerate(facts) if fact in publication.added]
            if brought:
                category, seeds = self._look(publication)
                self._take(category, brought, seeds)
                return

    def begin(self, rows: Sequence[Row]) -> None:
        """See Heuristic: each subject in a binding is assumed to have come last."""
        for row in rows:
            facts = self._rests_on(row)
            described: dict[int, list[int]] = {}
            for number, (subject, _, _) in enumerate(facts):
                described.setdefault(subject, []).append(number)
            for subject, brought in described.items():
                category = sum(1 << at for at, each in enumerate(self._query.patterns) if self._said(subject, each))
                self._take(category, brought, [])

    def _take(self, category: int, brought: Sequence[int], seeds: Sequence[Sequence[Row]]) -> None:
        """Add an entry for facts that brought a binding, unless an entry would have predicted it."""
        if self.table.known(category, brought):
            return

        def cost(number: int) -> tuple[int, int, int]:  # few facts to try, then many known variables
            return len(seeds[number]) if seeds else 0, -self._bound[number], number

        for number in sorted(brought, key=cost):
            if self._query.seeded(number) is not None:
                self.table.entry(category, number, (), ())
                return

    def _rests_on(self, row: Row) -> list[Fact]:
        """Return the facts, by pattern, of one derivation of a binding; none if it does not hold."""
        solution = self._query.solution(row)
        if solution is None:
            return []
        found = []
        for pattern in self._query.patterns:
            s, p, o = (solution[slot] if slot >= 0 else ~slot for slot in pattern)
            found.append((s, p, o))
        return found

    def _said(self, subject: int, pattern: Pattern) -> bool:
        """Return whether a fact about a subject matches a pattern."""
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
    """Return the pattern of an entry, which takes the place of a category of bindings."""
    assert isinstance(binding, int)
    return binding
