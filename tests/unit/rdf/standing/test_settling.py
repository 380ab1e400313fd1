"""Queries with settled delivery: single patterns as leaves, and the same answers."""

from __future__ import annotations

from random import Random

import pytest
from quads_as_triples import as_triples

from p2prdf.errors import QueryRefused, RemoteProtocolError
from p2prdf.rdf import algebra
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.form import decode, encode
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.standing.settling import default_delivery, settled_query
from schedules.standing import standing_answers

TWO = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
QUERIES = (
    "SELECT * { ?a <urn:p> ?b . ?c <urn:q> ?d . ?b <urn:r> ?c FILTER(?d > 1 && ?a != ?c) }",
    "SELECT ?c { ?a <urn:p> ?b . ?b <urn:q> ?c OPTIONAL { ?c <urn:p> ?d . ?d <urn:q> ?e } }",
    "SELECT (COUNT(*) AS ?n) { ?a ?p ?a MINUS { ?a <urn:p> ?b } }",
    "SELECT ?a (COUNT(?b) AS ?n) { ?a <urn:p> ?b . ?b <urn:q> ?c } GROUP BY ?a",
    "SELECT DISTINCT ?a { ?a <urn:p> ?b . ?b <urn:q> ?c FILTER(STR(?a) != '?v1') }",
    "ASK { ?a <urn:p> ?b FILTER NOT EXISTS { ?b <urn:q> ?c . ?c <urn:r> ?a } }",
)


@pytest.mark.parametrize("text", QUERIES)
def test_a_settled_query_has_the_same_answers_and_single_patterns(text):
    query = parse_query(text)
    settled = settled_query(query)
    assert decode(encode(settled)) == settled
    assert settled.is_settled
    assert not query.is_settled
    assert all(len(leaf.patterns) == 1 for leaf in settled.leaves)
    rng = Random(text)
    for _ in range(20):
        things = [f"<urn:{number}>" for number in range(3)]
        objects = [*things, TWO]
        triples = {(rng.choice(things), f"<urn:{rng.choice('pqr')}>", rng.choice(objects)) for _ in range(9)}
        assert standing_answers(settled, sorted(triples)) == standing_answers(query, sorted(triples))


@pytest.mark.parametrize("text", [
    "SELECT * { GRAPH <urn:g> { ?s ?p ?o } }",
    "SELECT * { GRAPH ?g { ?s ?p ?o . ?o <urn:p> ?q } }",
    "SELECT * { ?s ?p ?o }",
    "SELECT * { ?s ?p ?o . ?p <urn:q> ?x }",
    "SELECT * { ?s <urn:p> ?o OPTIONAL { GRAPH ?g { ?o ?p ?s } } }",
    "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } MINUS { ?s <urn:q> ?o } } GROUP BY ?g",
])  # fmt: skip
def test_patterns_of_a_settled_query_read_the_graphs_that_they_read_together(text):
    query = parse_query(text)
    settled, rng, found = settled_query(query), Random(text), 0
    for _ in range(20):
        names, graphs = [f"<urn:{name}>" for name in "pqr"], (DEFAULT, "<urn:g>", "<urn:h>")
        statements = {(*(rng.choice(names) for _ in range(3)), rng.choice(graphs)) for _ in range(9)}
        triples = sorted({each for part in as_triples(sorted(statements)) for each in part})
        expected = standing_answers(query, triples)
        assert standing_answers(settled, triples) == expected
        found += len(expected)
    assert found > 10


@pytest.mark.parametrize("text", [
    "SELECT * { ?a <urn:p> ?b . ?b <urn:q> ?c FILTER(?c > 1) }",
    "SELECT DISTINCT ?a { { ?a <urn:p> ?b } UNION { ?a <urn:q>+ ?b } }",
    "CONSTRUCT { ?a <urn:r> ?b } { ?a <urn:p> ?b BIND(STR(?b) AS ?c) }",
    "ASK { ?a <urn:p> ?b FILTER EXISTS { ?b <urn:q> ?c } }",
    "SELECT * { ?a <urn:p> ?b VALUES ?b { 1 2 } }",
    "SELECT * { ?a <urn:p> ?b } ORDER BY ?b",
    "REGISTER QUERY q AS SELECT (COUNT(*) AS ?n) FROM STREAM <urn:s> [RANGE 5s STEP 5s] WHERE { ?a <urn:p> ?b }",
    "SELECT * { ?a ?q ?z OPTIONAL { " + " . ".join(f"?a <urn:p{number}> ?b{number}" for number in range(40)) + " } }",
])  # fmt: skip
def test_default_of_monotone_queries_and_of_those_that_cannot_be_settled_is_immediate(text):
    query = parse_query(text)
    assert default_delivery(query) == query


@pytest.mark.parametrize("group", [
    "?a <urn:p> ?b OPTIONAL { ?b <urn:q> ?c }", "?a <urn:p> ?b MINUS { ?b <urn:q> ?c }",
    "?a <urn:p> ?b FILTER NOT EXISTS { ?b <urn:q> ?c }", "?a <urn:p> ?b BIND(EXISTS { ?b <urn:q> ?c } AS ?d)",
    "{ SELECT ?a (MAX(?b) AS ?m) { ?a <urn:p> ?b } GROUP BY ?a }", "{ SELECT * { ?a <urn:p> ?b } LIMIT 1 }",
])  # fmt: skip
def test_default_of_other_queries_is_settled(group):
    query = parse_query(f"SELECT * {{ {group} }}")
    assert default_delivery(query) == settled_query(query)


def test_a_conjunctive_query_becomes_a_standing_one_with_its_names():
    settled = settled_query(parse_select("SELECT DISTINCT ?b ?a { ?a <urn:p> ?b . ?b <urn:q> ?c }"))
    assert settled.names == ("b", "a")
    assert any(isinstance(each, algebra.Distinct) for each in settled.operators)


@pytest.mark.parametrize("text", [
    "REGISTER QUERY q AS SELECT ?a FROM STREAM <urn:s> [RANGE 5s STEP 5s] WHERE { ?a <urn:p> ?b }",
    "SELECT * { " + " . ".join(f"?a <urn:p{number}> ?b{number}" for number in range(40)) + " }",
])  # fmt: skip
def test_windows_and_too_many_patterns_are_refused(text):
    with pytest.raises(QueryRefused, match=r"settled delivery"):
        settled_query(parse_query(text))


def test_a_form_that_tells_no_single_triples_is_refused():
    query = settled_query(parse_query("SELECT * { ?a <urn:p> ?b }"))
    with pytest.raises(RemoteProtocolError, match="single triples"):
        decode(encode(query).replace(b'["leaf",[[[0,-1,1]],["<urn:p>"],[0,1]', b'["leaf",[[[0,-1,1]],["<urn:p>"],[0]'))


def test_exact_plans_differ_from_others():
    query = parse_select("SELECT * { ?a <urn:p> ?b }")
    plans = [make_plan(query, [0], Algorithm.CSBV, exact=exact) for exact in (False, True)]
    assert plans[0] != plans[1]
    assert "exact" in plans[1].text
