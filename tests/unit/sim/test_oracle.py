"""The oracle against the definition itself: all vectors of triples (or events), tried one by one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from quads_as_triples import as_triples

from p2prdf.rdf.quads import Quad, stream_conditions, streamed
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.oracle import Oracle, Publication, Row
from p2prdf_lab.workloads.random_queries import conjunctive_query, draw_query, draw_triples, draw_vocabulary

if TYPE_CHECKING:
    from p2prdf.rdf.query import ConjunctiveQuery

A, B, P = "<urn:a>", "<urn:b>", "<urn:p>"


def _log(*triples: tuple[str, str, str]) -> list[Publication]:
    return [Publication(stamp, 100 + stamp, triple) for stamp, triple in enumerate(triples, 1)]


def _as_log(quads: list[Quad]) -> list[tuple[str, str, str]]:
    """Return the statements of graphs and their directory as triples."""
    return [triple for part in as_triples(quads) for triple in part]


def _by_definition(
    log: list[Publication], query: ConjunctiveQuery, since: int, *, per_event: bool
) -> Counter[Row]:
    live = [publication for publication in log if publication.stamp >= since]
    if not per_event:
        live = list({publication.triple: publication for publication in live}.values())
    rows: Counter[Row] = Counter()
    for vector in product(live, repeat=len(query.patterns)):
        binding: dict[int, str] = {}
        good = True
        for pattern, publication in zip(query.patterns, vector, strict=True):
            for slot, part in zip(pattern, publication.triple, strict=True):
                good &= (query.constants[~slot] if slot < 0 else binding.setdefault(slot, part)) == part
        if good:
            rows[tuple(binding[v] for v in query.answer)] += 1
    return Counter(dict.fromkeys(rows, 1)) if query.distinct else rows


@pytest.mark.parametrize("seed", range(60))
def test_random_queries_agree_with_the_definition(seed: int):
    rng = random.Random(seed)
    vocabulary = draw_vocabulary(rng)
    data = draw_triples(rng, vocabulary, 9)
    log = [Publication(rng.randint(1, 5), at, triple) for at, triple in enumerate(data)]
    oracle = Oracle(log[:4])
    oracle.add(log[4:])
    for _ in range(6):
        query = draw_query(rng, data, vocabulary)
        if len(query.patterns) > 4 or query.filters:
            continue
        for per_event in (False, True):
            for since in (0, 3):
                got = oracle.answers(query, since, per_event=per_event)
                assert got == _by_definition(log, query, since, per_event=per_event)


def test_a_triple_published_again_counts_once_as_a_set_and_twice_per_event():
    oracle = Oracle(_log((A, P, B), (A, P, B)))
    query = conjunctive_query([("?x", P, "?y")], ["?x"])
    assert oracle.answers(query, 0) == {(A,): 1}
    assert oracle.answers(query, 0, per_event=True) == {(A,): 2}


def test_a_pattern_that_stands_twice_chooses_events_independently():
    oracle = Oracle(_log((A, P, B), (A, P, B)))
    query = conjunctive_query([("?x", P, "?y"), ("?x", P, "?y")], ["?x"])
    assert oracle.answers(query, 0) == {(A,): 1}
    assert oracle.answers(query, 0, per_event=True) == {(A,): 4}


def test_the_stamp_of_the_subscription_itself_counts_and_earlier_ones_do_not():
    oracle = Oracle(_log((A, P, A), (A, P, B)))
    query = conjunctive_query([("?x", P, "?y")], ["?y"])
    assert oracle.answers(query, 2) == {(B,): 1}
    assert oracle.answers(query, 3) == {}


def test_an_old_triple_published_again_counts_for_subscriptions_made_in_between():
    oracle = Oracle(_log((A, P, B), (B, P, B), (A, P, B)))
    assert oracle.answers(conjunctive_query([("?x", P, "?y")], ["?x"]), 2) == {(A,): 1, (B,): 1}


def test_a_repeated_variable_needs_equal_terms_and_a_literal_is_no_iri():
    oracle = Oracle(_log((A, P, A), (A, P, '"urn:a"'), (A, P, '""'), (A, P, "<urn:ab>")))
    assert oracle.answers(conjunctive_query([("?x", P, "?x")], ["?x"]), 0) == {(A,): 1}


def test_projection_keeps_multiplicities_and_distinct_drops_them():
    oracle = Oracle(_log((A, P, A), (A, P, B)))
    patterns = [("?x", P, "?y")]
    assert oracle.answers(conjunctive_query(patterns, ["?x"]), 0) == {(A,): 2}
    assert oracle.answers(conjunctive_query(patterns, ["?x"], distinct=True), 0) == {(A,): 1}


def test_a_ground_pattern_must_hold_and_adds_nothing():
    oracle = Oracle(_log((A, P, B)))
    assert oracle.answers(conjunctive_query([("?x", P, B), (A, P, B)], ["?x"]), 0) == {(A,): 1}
    assert oracle.answers(conjunctive_query([("?x", P, B), (B, P, B)], ["?x"]), 0) == {}
    assert oracle.answers(conjunctive_query([(A, P, B)], []), 0) == {(): 1}


def test_filters_decide_solutions_and_an_error_is_not_true():
    integer = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
    oracle = Oracle(_log((A, P, integer), (A, P, '"two"'), (A, P, B)))
    query = conjunctive_query([("?x", P, "?y")], ["?y"], filters=["?y + 1 > 2"])
    assert oracle.answers(query, 0) == {(integer,): 1}
    query = conjunctive_query([("?x", P, "?y")], ["?y"], filters=["isIRI(?y)", "?x != ?y"])
    assert oracle.answers(query, 0) == {(B,): 1}


def test_a_variable_predicate_reads_the_default_graph_and_neither_named_graphs_nor_their_directory():
    quads = [("<urn:b>", "<urn:q>", "<urn:b>", "<urn:g>")]
    oracle = Oracle(_log((A, P, B), *_as_log(quads), ("<urn:c>", streamed(P, "<urn:s>"), B)))
    assert oracle.answers(conjunctive_query([("?s", "?p", "?o")], ["?s"]), 0) == {(A,): 1}
    joined = [("?s", "?p", "?o"), ("?s", "?q", "?o")]
    assert oracle.answers(conjunctive_query(joined, ["?s"]), 0) == {(A,): 1}
    named_twice = [("?p", "?x", "?y"), ("?s", "?p", "?o")]
    assert oracle.answers(conjunctive_query(named_twice, ["?s"]), 0) == {}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT ?s { GRAPH ?g { ?s <urn:q> ?o } }", {(B,): 1}),
        ("SELECT ?p ?g { GRAPH ?g { ?s ?p ?o } }", {("<urn:q>", "<urn:g>"): 1}),
        ("SELECT ?p { GRAPH <urn:g> { ?s ?p ?o } }", {("<urn:q>",): 1}),
        ("SELECT ?p { GRAPH <urn:g> { ?s ?p ?o } ?x ?any ?s }", {("<urn:q>",): 1}),
    ],
)  # fmt: skip
def test_graph_with_variables_reads_named_graphs_by_the_directory(text: str, rows: dict[Row, int]):
    oracle = Oracle(_log((A, P, B), *_as_log([(B, "<urn:q>", B, "<urn:g>")])))
    query = parse_query(text).conjunctive
    assert query is not None
    assert oracle.answers(query, 0) == rows


def test_a_condition_on_the_datatype_of_a_predicate_reads_a_stream():
    oracle = Oracle(_log((A, P, B), (B, streamed(P, "<urn:s>"), A), (B, streamed(P, "<urn:t>"), B)))
    query = conjunctive_query([("?s", "?p", "?o")], ["?o"])
    conditions = tuple(Filter(text, (1,)) for text in stream_conditions(1, "<urn:s>"))
    assert query.patterns == ((0, 1, 2),)
    assert oracle.answers(replace(query, filters=conditions), 0) == {(A,): 1}


def test_an_event_that_is_logged_twice_is_a_mistake_of_the_log():
    with pytest.raises(AssertionError, match="twice"):
        Oracle([Publication(1, 7, (A, P, A)), Publication(2, 7, (A, P, A))])


def test_a_hundred_thousand_triples_and_a_thousand_queries_are_evaluated_by_look_ups():
    """Counts steps, not seconds: a selective query looks at its few candidates only."""
    looked = 0

    class Counting(Oracle):
        def _count(self, triple, since):
            nonlocal looked
            looked += 1
            return super()._count(triple, since)

    oracle = Counting(Publication(1, at, (f"<urn:{at}>", P, f"<urn:{at + 1}>")) for at in range(100_000))
    for at in range(1_000):
        query = conjunctive_query([(f"<urn:{at}>", P, "?x"), ("?x", P, "?y"), ("?y", P, "?z")], ["?z"])
        assert oracle.answers(query, 0) == {(f"<urn:{at + 3}>",): 1}
    assert looked == 3_000
