"""A query's solutions by the reference engine, and a history with a comparison after each step."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyoxigraph as ox

from algebra.leaves import Home, Statement, Terms
from algebra.queries import GRAPHS, NODES, QueryWriter, draw_statements, for_engine, for_us
from p2prdf.errors import QueryRefused
from p2prdf.rdf import terms, values
from p2prdf.rdf.standing import form
from p2prdf.rdf.standing.query import parse_query

STEPS = 8


@dataclass
class Tally:
    """Counts of a comparison."""

    queries: int = 0
    steps: int = 0
    deltas: int = 0
    answers: int = 0
    changed: int = 0
    """Steps with other solutions than the step before."""
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Dataset:
    """The graphs that a query chooses: those merged to its default graph, and those that GRAPH reaches (None: all)."""

    default: tuple[str, ...]
    named: tuple[str, ...] | None

    def choose(self, query: str) -> str:
        """Return a query of :class:`QueryWriter` that chooses these graphs."""
        if self.named is None:
            return f"WITH {self.default[0]} {query}"
        clauses = [f"FROM {each}" for each in self.default] + [f"FROM NAMED {each}" for each in self.named]
        form = re.match(r"ASK|.*?(?= WHERE)", query, re.DOTALL)
        assert form is not None
        return f"{form[0]} {' '.join(clauses)}{query[form.end() :]}"


class Engine:
    """An independent engine with a set of triples, in the default graph and named ones.

    ``dataset``: the graphs of the query.  The engine gets their merge as its default graph, since its own FROM
    counts a triple of two graphs twice.
    """

    def __init__(self, dataset: Dataset | None = None) -> None:
        self._store = ox.Store()
        self._dataset = dataset
        self._merged: set[Statement] = set()

    def change(self, gone: Iterable[Statement], come: Iterable[Statement]) -> None:
        """Take triples out and in."""
        gone, come = list(gone), list(come)
        self._merged.difference_update(gone)
        self._merged.update(come)
        for each in gone:
            if self._dataset is None or each[3]:
                self._store.remove(_quad(each))
        for each in come:
            if self._dataset is None or each[3]:
                self._store.add(_quad(each))
        if self._dataset is not None:
            self._store.clear_graph(ox.DefaultGraph())
            for s, p, o, graph in sorted(self._merged):
                if graph in self._dataset.default:
                    self._store.add(_quad((s, p, o, "")))

    def solutions(self, query: str) -> tuple[list[str], Counter[Terms]]:
        """Return the names and the bag of solutions; of ASK and CONSTRUCT, as a standing query has them."""
        named = None if self._dataset is None else self._dataset.named
        graphs = None if named is None else [ox.NamedNode(each[1:-1]) for each in named]
        found = self._store.query(query, default_graph=ox.DefaultGraph(), named_graphs=graphs)
        if isinstance(found, ox.QueryBoolean):
            return [], Counter({(): 1} if found else {})
        if isinstance(found, ox.QueryTriples):
            triples = {(str(each.subject), str(each.predicate), str(each.object)) for each in found}
            return ["subject", "predicate", "object"], Counter(triples)
        names = [variable.value for variable in found.variables]
        return names, Counter(tuple(None if value is None else str(value) for value in row) for row in found)


def _quad(statement: Statement) -> ox.Quad:
    (quad,) = ox.parse(" ".join((*filter(None, statement), ".")).encode(), format=ox.RdfFormat.N_QUADS)
    return quad


def same_values(rows: Counter[Terms]) -> Counter[Terms]:
    """Return a bag in which numbers are spelled in one way, also computed ones."""
    found = Counter[Terms]()
    for row, count in rows.items():
        found[tuple(None if term is None else _spelled(term) for term in row)] += count
    return found


def _spelled(term: str) -> str:
    value = values.decode(term)
    if value.family is not values.Family.NUMBER:
        return term
    found, rank = values.number_parts(value)
    return terms.literal(values.number(found, rank).lexical, value.datatype)


def play(seed: int, tally: Tally, query: str | None = None, dataset: Dataset | None = None) -> None:
    """Draw a query and a history, and compare after every step; add to the tally.

    ``dataset``: the graphs that the query is to choose.
    """
    rng = random.Random(seed)
    drawn = QueryWriter(rng).query() if query is None else query
    text = for_us(drawn if dataset is None else dataset.choose(drawn))
    pool = draw_statements(rng, 28)
    try:
        standing = parse_query(text)
    except QueryRefused as refused:
        tally.refused[refused.construct] += 1
        return
    assert form.decode(form.encode(standing)) == standing
    tally.queries += 1
    engine, home = Engine(dataset), Home(standing, rng)
    always = {(node, "<urn:always>", node, graph) for node in NODES for graph in GRAPHS}
    present = set(always)
    engine.change((), sorted(always))
    home.change(sorted(always))
    before = Counter[Terms]()
    for step in range(STEPS + 1):
        names, expected = engine.solutions(for_engine(drawn))
        order = [names.index(name) if name in names else -1 for name in standing.names]
        laid_out = Counter[Terms]()
        for row, count in expected.items():
            laid_out[tuple(row[at] if at >= 0 else None for at in order)] += count
        more = same_values(home.rows)
        more.subtract(same_values(laid_out))
        if any(more.values()):
            rows = [(row, count) for row, count in more.items() if count]
            tally.wrong.append(f"seed {seed}, step {step}: {text}\n  {len(rows)} rows differ: {rows[:3]}")
            return
        home.check_output()
        tally.steps += 1
        tally.changed += laid_out != before
        before = laid_out
        tally.answers += expected.total()
        if step == STEPS:
            break
        gone = {t for t in sorted(present - always) if rng.random() < rng.choice((0.1, 0.3))}
        come = {t for t in pool if t not in present and rng.random() < 0.4}
        present = (present - gone) | come
        engine.change(gone, come)
        home.change(sorted(present))
    home.change(())
    fresh = Home(standing, rng)
    if home.rows != fresh.rows or home.dataflow.sizes() != fresh.dataflow.sizes():
        tally.wrong.append(f"seed {seed}, when all is gone: {text}\n  {home.dataflow.sizes()}")
    tally.deltas += home.deltas
