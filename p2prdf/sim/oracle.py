"""The oracle: a slow, simple, central evaluator of the answers that a subscriber must get, from the log.

This text defines the semantics for product and tests.

*The log* is the list of acknowledged publications: each has a stamp (the publication time that
the product reported), the identity of its event and a triple.  A subscription is a conjunctive
query with a stamp ``since`` (reported likewise) and counts publications with ``stamp >= since``;
equality counts.

*By default* the database of a query is the **set** of triples with at least one such
publication: the same triple again changes nothing.  Its solutions are those of SPARQL for the
basic graph pattern: the mappings of its variables under which every pattern is a triple of the
database and every filter is true (an error in a filter is not true).  The answer is the **bag**
of solutions projected on the answer variables, so a row occurs as often as there are solutions
that project to it.  As patterns hold no blank nodes (they were replaced by variables), a
solution and the position-indexed vector of triples that its patterns become determine each
other.  With DISTINCT the answer is the **set** of projected solutions.

*Per event* there is one answer for every position-indexed vector of publication *events*, so a
solution counts as often as there are ways to choose, independently for each pattern, one of the
counting publications of its triple.  DISTINCT makes that a set too.

Terms are equal if and only if their canonical N-Triples forms are.  Variables of one name bind
to one term wherever they stand; a query may hold the same pattern twice, patterns without
variables (they must hold) and patterns without constants (they match every triple of their graph).

The log may hold statements of named graphs and streams, and the directory of graphs
(:mod:`p2prdf.rdf.quads`).  Their predicates are reserved literals.  A pattern with a variable
predicate reads the default graph: it matches none of them.  Exceptions are the patterns made for
``GRAPH`` and for streams: the directory binds the predicate of the former, and a condition on its
datatype that of the latter.

The evaluator extends partial solutions pattern by pattern, with dictionary look-ups on the bound
places.  It shares no code with the product's engines except the evaluation of one filter on one
solution, and the spelling of reserved terms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p2prdf.rdf import quads
from p2prdf.rdf.compiled import compile_filter

if TYPE_CHECKING:
    from p2prdf.rdf.query import ConjunctiveQuery, Filter, Pattern

__all__ = ["Oracle", "Publication", "Row", "Triple"]

Triple = tuple[str, str, str]
Row = tuple[str, ...]
Solution = list[str]
_Test = Callable[[Solution], bool]

_UNBOUND = ""
"""No canonical term is empty."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One acknowledged publication event; terms are canonical N-Triples."""

    stamp: int
    event: int
    triple: Triple


class Oracle:
    """Answers of any query over a log of publications.

    Indexes are made when a query first needs them; the log may grow by :meth:`add`.
    """

    def __init__(self, log: Iterable[Publication] = ()):
        self._stamps: dict[Triple, list[int]] = {}
        self._events: set[int] = set()
        self._indexes: dict[int, dict[Row, list[Triple]]] = {}
        self.add(log)

    def __len__(self) -> int:
        """Return the number of distinct triples."""
        return len(self._stamps)

    def add(self, log: Iterable[Publication]) -> None:
        """Take further publications into the log."""
        touched = set()
        for publication in log:
            assert publication.event not in self._events, f"event {publication.event:#x} is in the log twice"
            self._events.add(publication.event)
            self._stamps.setdefault(publication.triple, []).append(publication.stamp)
            touched.add(publication.triple)
        for triple in touched:
            self._stamps[triple].sort()
        self._indexes.clear()

    def answers(self, query: ConjunctiveQuery, since: int, *, per_event: bool = False) -> Counter[Row]:
        """Return the bag of rows that a subscription to ``query`` from ``since`` on must get."""
        rows: Counter[Row] = Counter()
        tests = [(frozenset(f.variables), _test(f)) for f in query.filters]
        order = self._order(query)
        patterns = [query.patterns[position] for position in order]
        elsewhere = _beyond_default_graph(query)

        def extend(depth: int, bound: frozenset[int], solution: Solution, times: int) -> None:
            if depth == len(patterns):
                rows[tuple(solution[v] for v in query.answer)] += times
                return
            pattern = patterns[depth]
            reached = bound | {slot for slot in pattern if slot >= 0}
            decided = [test for needs, test in tests if needs <= reached and not (depth and needs <= bound)]
            default_graph = pattern[1] >= 0 and pattern[1] not in elsewhere
            for triple in self._candidates(query, pattern, solution):
                if default_graph and quads.is_reserved(triple[1]):
                    continue
                count = self._count(triple, since)
                extended = _match(pattern, triple, solution) if count else None
                if extended is not None and all(test(extended) for test in decided):
                    extend(depth + 1, reached, extended, times * count if per_event else 1)

        extend(0, frozenset(), [_UNBOUND] * query.variable_count, 1)
        return Counter(dict.fromkeys(rows, 1)) if query.distinct else rows

    def _count(self, triple: Triple, since: int) -> int:
        """Return how many publications of a triple count from ``since`` on."""
        stamps = self._stamps[triple]
        return len(stamps) - bisect_left(stamps, since)

    def _candidates(self, query: ConjunctiveQuery, pattern: Pattern, solution: Solution) -> Sequence[Triple]:
        """Return the triples that agree with the constants and bound variables of the pattern."""
        mask, parts = 0, []
        for place, slot in enumerate(pattern):
            part = query.constants[~slot] if slot < 0 else solution[slot]
            if part:
                mask |= 1 << place
                parts.append(part)
        return self._index(mask).get(tuple(parts), ())

    def _index(self, mask: int) -> dict[Row, list[Triple]]:
        index = self._indexes.get(mask)
        if index is None:
            places = [place for place in range(3) if mask >> place & 1]
            index = self._indexes[mask] = {}
            for triple in self._stamps:
                index.setdefault(tuple(triple[place] for place in places), []).append(triple)
        return index

    def _order(self, query: ConjunctiveQuery) -> list[int]:
        """Return the patterns, rarest first, connected ones preferred; the order affects only speed."""
        nothing = [_UNBOUND] * query.variable_count
        sizes = [len(self._candidates(query, pattern, nothing)) for pattern in query.patterns]
        left = sorted(range(len(sizes)), key=lambda at: (sizes[at], at))
        order: list[int] = []
        bound: set[int] = set()
        while left:
            near = [at for at in left if bound.intersection(query.patterns[at])]
            ground = [at for at in left if all(slot < 0 for slot in query.patterns[at])]
            at = (ground or near or left)[0]
            left.remove(at)
            order.append(at)
            bound.update(slot for slot in query.patterns[at] if slot >= 0)
        return order


def _test(condition: Filter) -> _Test:
    """Return a filter as a function of a solution that binds its variables."""
    holds = compile_filter(condition)
    return lambda solution: holds([solution[v] for v in condition.variables])


def _beyond_default_graph(query: ConjunctiveQuery) -> frozenset[int]:
    """Return the variables that stand for predicates in named graphs, of the directory and in streams."""
    listed = {s for s, p, _ in query.patterns if p < 0 and quads.is_directory(query.constants[~p])}
    in_graphs = {s for s, p, _ in query.patterns if p in listed}
    allowed = {
        v for each in query.filters for v in each.variables
        if quads.reads_beyond_default(each.text, v)
    }  # fmt: skip
    return frozenset(listed | in_graphs | allowed)


def _match(pattern: Pattern, triple: Triple, solution: Solution) -> Solution | None:
    """Return the solution extended by the bindings of the triple; None if a repeated variable gets two values.

    The look-up has already compared constants and bound variables.
    """
    extended = solution.copy()
    for slot, part in zip(pattern, triple, strict=True):
        if slot < 0:
            continue
        if not extended[slot]:
            extended[slot] = part
        elif extended[slot] != part:
            return None
    return extended
