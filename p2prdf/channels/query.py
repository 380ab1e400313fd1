"""The query of a channel: a basic graph pattern, compiled to one Python expression over the facts.

The expression has one clause for each pattern, over exactly the dictionary that holds the matches. Three forms
exist: one lists all rows; one tests whether a row is true, with one look-up for each pattern if all variables
are projected; one lists the rows that contain a given fact at a given pattern. Patterns are ordered by the
estimated number of facts visited, from the sizes of the dictionaries. The expression is compiled again when the
number of facts has doubled or halved. It contains only names made here and numbers, and no user text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from p2prdf.channels.knowledge import KnowledgeBase
from p2prdf.errors import QueryRefused
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.query import ConjunctiveQuery, Filter
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.reasoning import Fact

__all__ = ["CompiledQuery", "Pattern", "Row", "Seeded", "join_order", "matching", "parse_channel", "variables"]

Row: TypeAlias = tuple[int, ...]
"""A binding: the numbers of the terms of the projected variables, in order."""
Pattern: TypeAlias = tuple[int, int, int]
"""Three slots: the number of a variable, or ``~`` the number of a term."""

Seeded: TypeAlias = Callable[[Row, dict[Row, None], int], int]
"""Adds the rows that have given values for one pattern's variables to a dictionary.

Takes the values, the dictionary and a number of steps; returns the steps left. A negative number means that the
steps ran out before all rows were found.
"""

_LOOPS_MAX: Final = 18
"""Bound on the loops of one function: Python allows 20 nested blocks."""
_SAMPLE: Final = 64
"""Number of rows sampled for the mean size of a dictionary."""


def parse_channel(text: str) -> ConjunctiveQuery:
    """Return the query of a channel: a SELECT over one graph pattern with optional filters.

    Raises QueryRefused for other queries, and for patterns that no variable connects, which would form a cross
    product.
    """
    query = parse_select(text)
    if not query.answer:
        raise QueryRefused("the query of a channel must project a variable", construct="projection")
    groups = [{slot for slot in pattern if slot >= 0} for pattern in query.patterns]
    reached = groups.pop(0)
    while near := next((group for group in groups if group & reached), None):
        groups.remove(near)
        reached = reached | near
    if any(groups) and reached:
        reason = "no variable connects some triple patterns with the others"
        raise QueryRefused(reason, construct="cross product")
    return query


class CompiledQuery:
    """A conjunctive query over a knowledge base."""

    def __init__(self, query: ConjunctiveQuery, knowledge: KnowledgeBase):
        self._knowledge = knowledge
        intern = knowledge.numbers.intern
        constants = [~intern(constant) for constant in query.constants]
        self.patterns: tuple[Pattern, ...] = tuple(
            _pattern(slot if slot >= 0 else constants[~slot] for slot in pattern) for pattern in query.patterns
        )
        """With numbers of terms in place of the query's constants."""
        self.answer = query.answer
        self._filters = query.filters
        self._written_at = -1
        self._writer: _Writer
        self._rows: Callable[[], dict[Row, None]]
        self._holds: Callable[[Row], bool]
        self._seeded: dict[int, Seeded | None] = {}
        self._solution: Callable[[Row], Row | None] | None = None

    def rows(self) -> dict[Row, None]:
        """Return all bindings, each once, in the order in which they are found."""
        self._keep_written()
        return self._rows()

    def holds(self, row: Row) -> bool:
        """Return whether a binding holds now."""
        self._keep_written()
        return self._holds(row)

    def seeded(self, number: int) -> Seeded | None:
        """Return the function that lists the bindings with a given fact at a pattern.

        None: the query has too many patterns.
        """
        self._keep_written()
        if number not in self._seeded:
            self._seeded[number] = self._writer.seeded(self.patterns[number])
        return self._seeded[number]

    def solution(self, row: Row) -> Row | None:
        """Return the values of all variables in one derivation of a binding; None if it does not hold."""
        self._keep_written()
        if self._solution is None:
            self._solution = self._writer.solution()
        return self._solution(row)

    def _keep_written(self) -> None:
        count = len(self._knowledge)
        if not self._written_at // 2 <= count <= self._written_at * 2 or self._written_at < 0:
            self._written_at = max(count, 16)
            self._writer = writer = _Writer(self._knowledge, self.patterns, self._filters, self.answer)
            self._rows, self._holds = writer.rows(), writer.holds()
            self._seeded.clear()  # compiled on first use
            self._solution = None


class _Writer:
    def __init__(
        self, knowledge: KnowledgeBase, patterns: Sequence[Pattern], filters: Sequence[Filter], answer: Sequence[int]
    ):
        orders = knowledge.facts.orders
        self._pso, self._pos = orders["pso"], orders["pos"]
        self._patterns, self._answer = patterns, answer
        self._filters = [each.variables for each in filters]
        self._size = len(knowledge)
        self._space: dict[str, Any] = {"E": {}, "pso": self._pso, "pos": self._pos, "ONE": (None,)}
        text = knowledge.numbers.text
        for number, each in enumerate(filters):
            self._space[f"f{number}"] = _filter(each, text)

    def rows(self) -> Callable[[], dict[Row, None]]:
        """Compile the function that lists all bindings."""
        made: Callable[[], dict[Row, None]]
        made = self._made(f"lambda: {{({_names(self._answer)}): None {' '.join(self._clauses(set()))}}}")
        return made

    def holds(self) -> Callable[[Row], bool]:
        """Compile the function that tests one binding."""
        clauses = " ".join(self._clauses(set(self._answer)))
        made: Callable[[Row], bool]
        made = self._made(f"lambda row: any(True for {_names(self._answer)} in (row,) {clauses})")
        return made

    def solution(self) -> Callable[[Row], Row | None]:
        """Compile the function that completes one binding."""
        clauses = " ".join(self._clauses(set(self._answer)))
        every = _names(range(1 + max((slot for pattern in self._patterns for slot in pattern), default=-1)))
        made: Callable[[Row], Row | None]
        made = self._made(f"lambda row: next((({every}) for {_names(self._answer)} in (row,) {clauses}), None)")
        return made

    def seeded(self, pattern: Pattern) -> Seeded | None:
        """Compile the function that lists the bindings with given values for a pattern's variables.

        It counts a step for each iteration of a loop, so the number of steps bounds its work.
        """
        seed = variables(pattern)
        clauses = self._clauses(set(seed), without=pattern)
        if sum(clause.startswith("for") for clause in clauses) > _LOOPS_MAX:
            return None
        lines = ["def seeded(row, found, steps):", *([f"    {_names(seed)} = row"] if seed else [])]
        depth = 1
        for clause in clauses:
            lines.append(f"{'    ' * depth}{clause}:")
            depth += 1
            if clause.startswith("for"):
                lines += [f"{'    ' * depth}steps -= 1", f"{'    ' * depth}if steps < 0: return steps"]
        lines += [f"{'    ' * depth}found[({_names(self._answer)})] = None", "    return steps"]
        made: Seeded = self._made("\n".join(lines), "seeded")
        return made

    def _made(self, text: str, name: str = "") -> Any:
        if not name:
            return eval(compile(text, "<channel>", "eval"), self._space)  # noqa: S307 - made of the texts of this module
        exec(compile(text, "<channel>", "exec"), self._space)  # noqa: S102 - as above
        return self._space.pop(name)

    def _clauses(self, bound: set[int], without: Pattern | None = None) -> list[str]:
        """Return loops and tests, in order, for all patterns except one that is already matched."""
        bound, written = set(bound), list[str]()
        tested: set[int] = set()

        def test() -> None:
            for number, variables in enumerate(self._filters):
                if number not in tested and bound.issuperset(variables):
                    tested.add(number)
                    written.append(f"if f{number}({', '.join(f'v{slot}' for slot in variables)})")

        if not bound:
            written.append("for _ in ONE")
        test()
        rest = [pattern for pattern in self._patterns if pattern != without]  # equal patterns match alike
        for pattern in join_order(rest, bound, self._estimate):
            written += self._clause(pattern, bound)
            bound.update(slot for slot in pattern if slot >= 0)
            test()
        return written

    def _clause(self, pattern: Pattern, bound: set[int]) -> list[str]:
        """Return the clauses that find the matches of a pattern."""
        s, p, o = (str(~slot) if slot < 0 else f"v{slot}" for slot in pattern)
        known_s, known_p, known_o = (slot < 0 or slot in bound for slot in pattern)
        written = []
        if pattern[1] < 0:
            subjects, objects = self._constant("pso", ~pattern[1]), self._constant("pos", ~pattern[1])
        elif known_p:
            subjects, objects = f"pso.get({p}, E)", f"pos.get({p}, E)"
        else:
            subjects = objects = "rows"
            known_s, known_o = known_s or pattern[0] == pattern[1], known_o or pattern[2] == pattern[1]
            written.append(f"for {p}, rows in {'pso' if known_s or not known_o else 'pos'}.items()")
        if known_s and known_o:
            written.append(f"if {o} in {subjects}.get({s}, E)")
        elif known_s:
            written.append(f"for {o} in {subjects}.get({s}, E)")
        elif known_o:
            written.append(f"for {s} in {objects}.get({o}, E)")
        elif s == o:
            written += [f"for {s}, row_ in {subjects}.items()", f"if {s} in row_"]
        else:
            written += [f"for {s}, row_ in {subjects}.items()", f"for {o} in row_"]
        return written

    def _constant(self, order: str, predicate: int) -> str:
        """Return the name of a predicate's dictionary, which stays the same object."""
        name = f"{order}_{predicate}"
        self._space[name] = (self._pso if order == "pso" else self._pos).setdefault(predicate, {})
        return name

    # --- cost estimates ------------------------------------------------------------------------

    def _estimate(self, pattern: Pattern, bound: set[int]) -> float:
        """Return the approximate number of facts that match a pattern, given the bound variables."""
        s, p, o = pattern
        known = [slot < 0 or slot in bound for slot in pattern]
        if p >= 0:
            return self._size / (1.0 + 20.0 * (known[0] + known[1] + known[2]))
        subjects, objects = self._pso.get(~p, {}), self._pos.get(~p, {})
        if known[0] and known[2]:
            return 0.5  # a test: as early as possible
        if known[0]:
            return float(len(subjects.get(~s, ()))) if s < 0 else _mean(subjects)
        if known[2]:
            return float(len(objects.get(~o, ()))) if o < 0 else _mean(objects)
        return len(subjects) * _mean(subjects)


def join_order(
    patterns: Sequence[Pattern], bound: set[int], estimate: Callable[[Pattern, set[int]], float]
) -> list[Pattern]:
    """Return patterns in greedy join order: the cheapest next, connected ones first."""
    rest, bound, found = list(patterns), set(bound), list[Pattern]()
    while rest:
        near = [each for each in rest if any(slot in bound for slot in each) or all(slot < 0 for slot in each)]
        best = min(near or rest, key=lambda each: estimate(each, bound))
        rest.remove(best)
        found.append(best)
        bound.update(slot for slot in best if slot >= 0)
    return found


def variables(pattern: Pattern) -> list[int]:
    """Return the variables of a pattern, each once, in order."""
    return list(dict.fromkeys(slot for slot in pattern if slot >= 0))


def matching(pattern: Pattern) -> Callable[[Iterable[Fact]], list[Row]]:
    """Return a function that lists the values of a pattern's variables in the facts that match it."""
    tests = [f"{part} == {~slot}" for part, slot in zip("spo", pattern, strict=True) if slot < 0]
    first: dict[int, str] = {}
    for part, slot in zip("spo", pattern, strict=True):
        if slot >= 0 and first.setdefault(slot, part) != part:
            tests.append(f"{part} == {first[slot]}")
    row = "".join(f"{part}," for part in first.values())
    test = f" if {' and '.join(tests)}" if tests else ""
    made: Callable[[Iterable[Fact]], list[Row]]
    made = eval(f"lambda facts: [({row}) for s, p, o in facts{test}]", {})  # noqa: S307 - nothing of a user's is in it
    return made


def _names(slots: Iterable[int]) -> str:
    return "".join(f"v{slot}," for slot in slots)


def _mean(rows: dict[int, dict[int, int]]) -> float:
    sample = [len(row) for row in islice(rows.values(), _SAMPLE)]
    return sum(sample) / len(sample) if sample else 0.0


def _filter(each: Filter, text: Callable[[int], str]) -> Callable[..., bool]:
    holds = compile_filter(each)
    return lambda *numbers: bool(holds([text(number) for number in numbers]))


def _pattern(slots: Any) -> Pattern:
    s, p, o = slots
    return s, p, o
