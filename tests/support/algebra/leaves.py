"""The network's part, done by hand: the answers of conjunctive queries, and their changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from quads_as_triples import as_triples

from p2prdf.continuous.dataflow import Dataflow
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.query import ConjunctiveQuery, Pattern

Triple = tuple[str, str, str]
Statement = Triple | tuple[str, str, str, str]
"""A triple of the default graph, or one and its graph."""
Terms = tuple[str | None, ...]
CHOICES_MAX = 5000
"""Bound on the choices of elements listed for a leaf."""


def answers(query: ConjunctiveQuery, triples: Iterable[Triple]) -> Counter[tuple[str, ...]]:
    """Return the bag of answers of a leaf, pattern by pattern, looking at every triple of the predicate."""
    by_predicate: dict[str, list[Triple]] = {}
    for triple in triples:
        by_predicate.setdefault(triple[1], []).append(triple)
    solutions: list[dict[int, str]] = [{}]
    for pattern in query.patterns:
        p = pattern[1]
        found = []
        for solution in solutions:
            known = query.constants[~p] if p < 0 else solution.get(p)
            lists = by_predicate.values() if known is None else [by_predicate.get(known, [])]
            if known is None and all(p != each[0] for each in query.patterns):  # it is about the default graph
                lists = [some for predicate, some in by_predicate.items() if predicate[0] != '"']
            for triple in (triple for some in lists for triple in some):
                extended = _extended(query, pattern, triple, solution)
                if extended is not None:
                    found.append(extended)
        solutions = found
    for condition in query.filters:
        holds = compile_filter(condition)
        solutions = [s for s in solutions if holds([s[v] for v in condition.variables])]
    return Counter(tuple(solution[v] for v in query.answer) for solution in solutions)


def _extended(
    query: ConjunctiveQuery, pattern: Pattern, triple: Triple, solution: dict[int, str]
) -> dict[int, str] | None:
    extended = dict(solution)
    for slot, term in zip(pattern, triple, strict=True):
        wanted = query.constants[~slot] if slot < 0 else extended.setdefault(slot, term)
        if wanted != term:
            return None
    return extended


def choices(
    query: ConjunctiveQuery, elements: Iterable[tuple[int, Triple]]
) -> list[tuple[tuple[str, ...], int, int]]:
    """Return for each choice of elements that answers a leaf its row, and its oldest and youngest time.

    The directory of predicates is included.  Raises OverflowError for more than ``CHOICES_MAX``.
    """
    by_predicate: dict[str, list[tuple[int, Triple]]] = {}
    for element in elements:
        by_predicate.setdefault(element[1][1], []).append(element)
    found: list[tuple[dict[int, str], list[int]]] = [({}, [])]
    for pattern in query.patterns:
        found = [
            (extended, [*times, time])
            for solution, times in found
            for time, triple in by_predicate.get(query.constants[~pattern[1]], ())
            if (extended := _extended(query, pattern, triple, solution)) is not None
        ]
        if len(found) > CHOICES_MAX:
            raise OverflowError(f"{len(found)} choices of elements")
    for condition in query.filters:
        holds = compile_filter(condition)
        found = [each for each in found if holds([each[0][v] for v in condition.variables])]
    return [(tuple(solution[v] for v in query.answer), min(times), max(times)) for solution, times in found]


class Home:
    """A dataflow with leaves that answer from a set of triples, which tests change at will.

    The changes of the leaves come in an order and in pieces drawn at random, and now and then with detours:
    rows that come and go again, or go before they come.
    """

    def __init__(self, query: StandingQuery, rng: random.Random):
        self.query = query
        self.dictionary = TermDictionary()
        self.dataflow = Dataflow(query, self.dictionary)
        self.deltas = 0
        self._rng = rng
        self._directory: dict[Triple, None] = {}
        self._held = [Counter[tuple[str, ...]]() for _ in query.leaves]
        self.rows: Counter[Terms] = Counter()
        self._take(self.dataflow.initial)

    def change(self, statements: Iterable[Statement]) -> None:
        """Let the leaves answer from these statements instead; the directory of graphs only grows, as usual."""
        triples, directory = as_triples((*each, DEFAULT) if len(each) == 3 else each for each in statements)
        self._directory.update(dict.fromkeys(directory))
        triples += self._directory
        pieces: list[tuple[int, tuple[int, ...], int]] = []
        known = list(triples)
        for leaf, query in enumerate(self.query.leaves):
            now = answers(query, known)
            for row in sorted({*now, *self._held[leaf]}):
                more = now[row] - self._held[leaf][row]
                numbers = tuple(self.dictionary.intern_all(row))
                pieces += [(leaf, numbers, 1 if more > 0 else -1)] * abs(more)
                if self._rng.random() < 0.1:
                    pieces += [(leaf, numbers, 1), (leaf, numbers, -1)]
            self._held[leaf] = now
        self._rng.shuffle(pieces)
        while pieces:
            size = self._rng.choice((1, 1, 2, 3, 5, len(pieces)))
            batch, pieces = pieces[:size], pieces[size:]
            by_leaf: dict[int, list[tuple[tuple[int, ...], int]]] = {}
            for leaf, row, weight in batch:
                by_leaf.setdefault(leaf, []).append((row, weight))
            if self._rng.random() < 0.5:
                self._take(self.dataflow.apply_all(by_leaf))
            else:
                for leaf, rows in by_leaf.items():
                    self._take(self.dataflow.apply(leaf, rows))

    def _take(self, delta: dict[tuple[int, ...], int]) -> None:
        self.deltas += 1
        for row, weight in delta.items():
            assert weight, "a delta holds a row without a change"
            terms = tuple(self.dictionary.text(cell) if cell >= 0 else None for cell in row)
            self.rows[terms] += weight
            if not self.rows[terms]:
                del self.rows[terms]

    def check_output(self) -> None:
        """Assert that the sum of all deltas equals the output of the dataflow."""
        output = self.dataflow.output()
        held = {
            tuple(self.dictionary.text(cell) if cell >= 0 else None for cell in row): n for row, n in output.items()
        }
        assert held == dict(self.rows)
