"""Random workloads are small, legal and full of coincidences."""

from __future__ import annotations

import dataclasses
import random

import pytest

from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.sim.oracle import Oracle, Publication
from p2prdf_lab.workloads.random_queries import (
    conjunctive_query,
    draw_query,
    draw_triples,
    draw_vocabulary,
    sparql_text,
)


def _draw(seed: int):
    rng = random.Random(seed)
    vocabulary = draw_vocabulary(rng)
    data = draw_triples(rng, vocabulary, 40)
    return data, [draw_query(rng, data, vocabulary) for _ in range(5)]


def test_triples_hold_no_literal_before_the_object():
    for seed in range(30):
        data, _ = _draw(seed)
        assert not any(s.startswith('"') or p.startswith('"') for s, p, _ in data)


def test_queries_never_have_very_many_answers_not_even_per_event():
    for seed in range(30):
        data, queries = _draw(seed)
        oracle = Oracle(Publication(1, at, triple) for at, triple in enumerate(data))
        for query in queries:
            bare = dataclasses.replace(query, distinct=False, filters=())
            assert oracle.answers(bare, 0, per_event=True).total() <= 400


def test_most_queries_have_answers_and_every_odd_shape_occurs():
    shapes: set[str] = set()
    answered = total = 0
    for seed in range(150):
        data, queries = _draw(seed)
        oracle = Oracle(Publication(1, at, triple) for at, triple in enumerate(data))
        for query in queries:
            total += 1
            answered += oracle.answers(query, 0).total() > 0
            shapes |= _shapes(query)
    assert answered > total / 2
    assert shapes == {
        "1 pattern", "2 patterns", "3 patterns", "4 patterns", "5 patterns", "ground pattern", "no constants",
        "same pattern twice", "variable twice in a pattern", "literal as subject or predicate", "distinct",
        "filter", "projection", "no variables", "cartesian product",
    }  # fmt: skip


def _shapes(query) -> set[str]:
    count = len(query.patterns)
    found = {f"{count} pattern{'s' if count > 1 else ''}"}
    conditions = {
        "ground pattern": any(all(slot < 0 for slot in pattern) for pattern in query.patterns),
        "no constants": any(all(slot >= 0 for slot in pattern) for pattern in query.patterns),
        "same pattern twice": len(set(query.patterns)) < count,
        "variable twice in a pattern": any(
            len({s for s in p if s >= 0}) < sum(s >= 0 for s in p) for p in query.patterns
        ),
        "literal as subject or predicate": any(
            slot < 0 and query.constants[~slot].startswith('"') for p in query.patterns for slot in p[:2]
        ),
        "distinct": query.distinct,
        "filter": bool(query.filters),
        "projection": len(query.answer) < query.variable_count,
        "no variables": query.variable_count == 0,
        "cartesian product": not _connected(query),
    }
    return found | {name for name, holds in conditions.items() if holds}


def _connected(query) -> bool:
    parts = [{slot for slot in pattern if slot >= 0} for pattern in query.patterns]
    reached, left = parts[0], parts[1:]
    while near := [part for part in left if part & reached]:
        reached = reached.union(*near)
        left = [part for part in left if part not in near]
    return not left


@pytest.mark.parametrize("seed", range(20))
def test_queries_are_canonical_as_the_parser_makes_them(seed: int):
    """A query that can be spelt in SPARQL comes back from the parser as it was drawn, except for names."""
    compared = 0
    for query in _draw(seed)[1]:
        literals = {at for at, text in enumerate(query.constants) if text.startswith('"')}
        odd = any(~slot in literals for pattern in query.patterns for slot in pattern[:2])
        if odd or query.filters or not query.answer:
            continue
        parsed = parse_select(sparql_text(query))
        assert dataclasses.replace(parsed, names=query.names) == query
        compared += 1
    assert compared or seed


def test_filters_are_spelt_over_canonical_variables():
    query = conjunctive_query([("?b", "<urn:p>", "?a")], ["?a"], filters=['?a != ?b || isIRI(?a)'])
    assert query.filters[0].text == '?v1 != ?v0 || isIRI(?v1)'
    assert query.filters[0].variables == (0, 1)
    assert query.names == ("a",)
