"""The two ways to evaluate a channel's query, behind one interface.

*Re-executed*: the query runs over all facts, and the difference from the last run is new. A run costs as much
as the query, however little changed, so predictions and skipped runs save time.

*Incremental*: changes flow through a dataflow (:mod:`p2prdf.continuous.dataflow`). The cost depends on the
consequences of a change, so there is nothing to skip and little to predict. The dataflow stores the state of
its joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from p2prdf.channels.knowledge import KnowledgeBase
from p2prdf.channels.query import CompiledQuery, Pattern, Row, join_order, variables
from p2prdf.rdf import algebra
from p2prdf.rdf.algebra import Form, StandingQuery
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.reasoning import Change, Fact

if TYPE_CHECKING:
    from p2prdf.continuous.dataflow import Dataflow

__all__ = ["Evaluator", "Incremental", "Reexecuted"]


class Evaluator(Protocol):
    """A query over a knowledge base, and the results of its last run."""

    skippable: bool
    """Whether skipping a run saves time."""
    found: dict[Row, None]
    """The results of the last run."""
    query: CompiledQuery
    """The query over the facts themselves."""

    def changed(self, change: Change) -> None:
        """Note a change of the knowledge base; call it for each change."""
        ...

    def run(self) -> list[Row]:
        """Evaluate the query; return the bindings that hold now and were not in the last results."""
        ...

    def holds(self, row: Row) -> bool:
        """Return whether a binding holds now, independently of the last run."""
        ...


class Reexecuted:
    """Runs the query over all facts."""

    skippable = True

    def __init__(self, query: ConjunctiveQuery, knowledge: KnowledgeBase):
        self.query = CompiledQuery(query, knowledge)
        self.found: dict[Row, None] = {}

    def changed(self, change: Change) -> None:
        """See Evaluator; a run reads the facts themselves."""

    def run(self) -> list[Row]:
        """See Evaluator."""
        before, self.found = self.found, self.query.rows()
        return [row for row in self.found if row not in before]

    def holds(self, row: Row) -> bool:
        """See Evaluator."""
        return self.query.holds(row)


class Incremental:
    """Applies the changes since the last run to a dataflow of joins."""

    skippable = False

    def __init__(self, query: ConjunctiveQuery, knowledge: KnowledgeBase):
        from p2prdf.continuous.dataflow import Dataflow

        self.query = CompiledQuery(query, knowledge)
        self._leaves = _Leaves(self.query.patterns)
        self._flow: Dataflow = Dataflow(_standing(self._leaves.patterns, query), knowledge.numbers)
        self.found: dict[Row, None] = {}
        self._begun = False
        self._waiting: dict[Fact, int] = {}
        self._flow.apply_all(self._leaves.rows((fact, 1) for fact, _ in knowledge.facts))

    def changed(self, change: Change) -> None:
        """See Evaluator."""
        for facts, weight in ((change.added, 1), (change.removed, -1)):
            for fact in facts:
                total = self._waiting.get(fact, 0) + weight
                if total:
                    self._waiting[fact] = total
                else:
                    del self._waiting[fact]

    def run(self) -> list[Row]:
        """See Evaluator."""
        new: list[Row] = []
        if not self._begun:
            self._begun = True
            self.found = dict.fromkeys(self._flow.output())
            new = list(self.found)
        touched = self._flow.apply_all(self._leaves.rows(self._waiting.items()))
        self._waiting = {}
        for row in touched:
            if not self._flow.count(row):
                self.found.pop(row, None)
            elif row not in self.found:
                self.found[row] = None
                new.append(row)
        return [row for row in new if row in self.found]

    def holds(self, row: Row) -> bool:
        """See Evaluator."""
        return self.query.holds(row)


class _Leaves:
    """The patterns of a query in join order; each is a leaf of the dataflow."""

    def __init__(self, patterns: Iterable[Pattern]):
        def estimate(pattern: Pattern, bound: set[int]) -> float:
            return -float(sum(slot < 0 or slot in bound for slot in pattern))

        self.patterns = join_order(list(patterns), set(), estimate)
        self._by_predicate: dict[int, list[tuple[int, Callable[[Fact], Row | None]]]] = {}
        self._of_any: list[tuple[int, Callable[[Fact], Row | None]]] = []
        for number, pattern in enumerate(self.patterns):
            leaf = (number, _matcher(pattern))
            if pattern[1] < 0:
                self._by_predicate.setdefault(~pattern[1], []).append(leaf)
            else:
                self._of_any.append(leaf)

    def rows(self, facts: Iterable[tuple[Fact, int]]) -> dict[int, list[tuple[Row, int]]]:
        """Return the rows of each leaf for some facts with weights."""
        found: dict[int, list[tuple[Row, int]]] = {}
        of_any, by_predicate = self._of_any, self._by_predicate
        for fact, weight in facts:
            for number, match in (*by_predicate.get(fact[1], ()), *of_any):
                row = match(fact)
                if row is not None:
                    found.setdefault(number, []).append((row, weight))
        return found


def _matcher(pattern: Pattern) -> Callable[[Fact], Row | None]:
    """Return a function that converts a fact to a leaf's row, or to None if it does not match."""
    constants = [(at, ~slot) for at, slot in enumerate(pattern) if slot < 0]
    places = [pattern.index(slot) for slot in variables(pattern)]
    equal = [(at, pattern.index(slot)) for at, slot in enumerate(pattern) if slot >= 0 and pattern.index(slot) != at]

    def match(fact: Fact) -> Row | None:
        for at, number in constants:
            if fact[at] != number:
                return None
        for one, other in equal:
            if fact[one] != fact[other]:
                return None
        return tuple([fact[at] for at in places])

    return match


def _standing(patterns: list[Pattern], query: ConjunctiveQuery) -> StandingQuery:
    """Return the operators of the dataflow: leaves, left-deep joins, filters, projection."""
    operators: list[algebra.Operator] = []
    columns: list[int] = []
    root = -1
    for number, pattern in enumerate(patterns):
        own = variables(pattern)
        slots = [own.index(slot) if slot >= 0 else ~at for at, slot in enumerate(pattern)]
        s, p, o = slots
        leaf = ConjunctiveQuery(((s, p, o),), (f"<urn:leaf:{number}>",) * 3, tuple(range(len(own))), ("",) * len(own))
        operators.append(algebra.Leaf(leaf))
        here = len(operators) - 1
        if root < 0:
            root, columns = here, own
            continue
        shared = tuple((columns.index(slot), own.index(slot)) for slot in own if slot in columns)
        operators.append(algebra.Join(root, here, shared))
        root = len(operators) - 1
        columns += [slot for slot in own if slot not in columns]
    operators.append(algebra.Project(root, tuple(map(columns.index, range(len(columns))))))  # column n is variable n
    operators += [algebra.Filter(len(operators) - 1 + at, each) for at, each in enumerate(query.filters)]
    operators.append(algebra.Project(len(operators) - 1, query.answer))
    operators.append(algebra.Distinct(len(operators) - 1))
    return StandingQuery(Form.SELECT, query.names, tuple(operators))

