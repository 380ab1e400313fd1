"""DESCRIBE: descriptions with pyoxigraph as oracle, their bounds, and refusals with positions."""

from __future__ import annotations

import asyncio
import random

import pyoxigraph as ox
import pytest
from held_graphs import HeldGraphs

from p2prdf.client import describing
from p2prdf.errors import QueryRefused, Unavailable
from p2prdf.rdf import terms
from p2prdf.rdf.algebra import LEAVES_MAX, Form
from p2prdf.rdf.standing.descriptions import parse_description
from p2prdf.rdf.standing.query import parse_query
from p2prdf.reasoning.ruled_query import parse_ruled, parse_ruled_description, result_form

PREFIX = "PREFIX : <x:> "


def blank(name):
    return f"<urn:bnode:f:{name}>"


def iri(name):
    return f"<x:{name}>"


@pytest.fixture
def held(monkeypatch):
    """Return a function that makes a client with statements."""

    def hold(statements):
        client = HeldGraphs(statements)
        monkeypatch.setattr(describing, "answer_once", client.answer_once)
        return client

    return hold


def described(client, text, **options):
    result = asyncio.run(
        describing.answer(client, PREFIX + text, **{"algorithm": "csbv", "timeout_seconds": 60.0, **options})
    )
    assert result.names == ("subject", "predicate", "object")
    assert len(set(result.rows)) == len(result.rows)
    return set(result.rows)


def of_oxigraph(statements, text):
    store = ox.Store()
    for s, p, o, *g in statements:
        graph = [ox.NamedNode(g[0][1:-1])] if g else []
        store.add(ox.Quad(*map(_term, (s, p, o)), *graph))
    return {tuple(map(_text, (each.subject, each.predicate, each.object))) for each in store.query(PREFIX + text)}


def _term(text):
    return ox.BlankNode(text.rpartition(":")[2][:-1]) if terms.is_skolem(text) else terms.to_pyoxigraph(text)


def _text(term):
    return blank(term.value) if isinstance(term, ox.BlankNode) else str(term)


def graph_of(rng):
    """Return random triples: resources, nested blank nodes, cycles, literals."""
    nodes = [*(iri(f"r{n}") for n in range(6)), *(blank(f"b{n}") for n in range(12))]
    ends = [*nodes, *(blank(f"b{n}") for n in range(12)), '"text"', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>']
    return list({(rng.choice(nodes), iri(f"p{rng.randrange(3)}"), rng.choice(ends)) for _ in range(40)})


@pytest.mark.parametrize("seed", range(4))
def test_description_equals_that_of_oxigraph(held, seed):
    rng = random.Random(seed)
    statements = graph_of(rng)
    client = held(statements)
    for text in (
        "DESCRIBE :r0", "DESCRIBE :r1 :r2 :unknown", "DESCRIBE ?x WHERE { ?x :p1 ?y }",
        "DESCRIBE ?x ?y { ?x :p1/:p2 ?y FILTER(isIRI(?x)) }", "DESCRIBE * { :r0 :p0 ?y OPTIONAL { ?y :p1 ?z } }",
        "DESCRIBE ?none { :r0 :p1 ?x }", "DESCRIBE ?x { { ?x :p0 :r1 } UNION { :r1 :p0 ?x } }",
    ):  # fmt: skip
        assert described(client, text) == of_oxigraph(statements, text)


def test_named_resources_are_described_without_any_solution(held):
    client = held([(iri("a"), iri("p"), iri("b")), (iri("c"), iri("q"), iri("d"))])
    assert described(client, "DESCRIBE :a ?x { ?x :unknown ?y }") == {(iri("a"), iri("p"), iri("b"))}


def test_long_chain_of_blank_nodes_is_followed_to_its_end(held):
    chain = [(blank(f"l{n}"), iri("rest"), blank(f"l{n + 1}")) for n in range(60)]
    statements = [(iri("list"), iri("is"), blank("l0")), *chain, (iri("other"), iri("is"), blank("m"))]
    assert described(held(statements), "DESCRIBE :list") == set(statements[:-1])


def test_symmetric_description_follows_subjects_and_blank_nodes_on_both_sides(held):
    belonging = {
        (iri("a"), iri("p"), iri("b")), (iri("c"), iri("p"), iri("a")), (blank("x"), iri("about"), iri("a")),
        (blank("x"), iri("says"), '"text"'), (iri("d"), iri("has"), blank("x")),
    }  # fmt: skip
    others = {(iri("b"), iri("p"), iri("c")), (iri("d"), iri("p"), iri("e")), (blank("y"), iri("about"), iri("b"))}
    client = held(belonging | others)
    assert described(client, "DESCRIBE :a", symmetric=True) == belonging
    assert described(client, "DESCRIBE :a") == {(iri("a"), iri("p"), iri("b"))}


def test_chosen_graphs_are_described_and_others_are_not(held):
    g, h = (iri("a"), iri("p"), blank("x"), iri("g")), (blank("x"), iri("q"), '"h"', iri("h"))
    client = held([(iri("a"), iri("p"), '"default"'), g, h])
    assert described(client, "DESCRIBE :a FROM :g") == {g[:3]}
    assert described(client, "DESCRIBE :a FROM :g FROM :h WHERE { }") == {g[:3], h[:3]}
    assert described(client, "DESCRIBE ?s FROM NAMED :g { GRAPH ?g { ?s :p ?o } }") == set()
    assert described(client, "DESCRIBE ?s { GRAPH ?g { ?s :p ?o } }") == {(iri("a"), iri("p"), '"default"')}
    assert described(client, "WITH :g DESCRIBE :a") == {g[:3]}


def test_order_and_limit_choose_the_resources(held):
    statements = [(iri(f"r{n}"), iri("n"), f'"{n}"^^<{terms.XSD}integer>') for n in range(9)]
    found = described(held(statements), "DESCRIBE ?x { ?x :n ?n } ORDER BY DESC(?n) LIMIT 2")
    assert found == set(statements[7:])


def test_a_query_for_triples_has_at_most_the_leaves_of_a_query(held):
    statements = [(iri(f"r{n}"), iri("p"), iri(f"r{n + 1}")) for n in range(200)]
    client = held(statements)
    assert described(client, "DESCRIBE ?x { ?x :p ?y }", symmetric=True) == set(statements)
    assert len(client.queries) == 1 + -(-200 // (LEAVES_MAX // 2))
    for query in client.queries:
        assert len(parse_ruled(query).leaves) <= LEAVES_MAX


@pytest.mark.parametrize(
    ("bound", "what"),
    [("NODES_MAX", "resources and blank nodes"), ("SOLUTIONS_MAX", "solutions of WHERE"), ("TRIPLES_MAX", "triples")],
)
def test_description_beyond_a_bound_is_refused(held, monkeypatch, bound, what):
    client = held([(iri(f"r{n}"), iri("p"), iri("o")) for n in range(40)])
    assert len(described(client, "DESCRIBE ?x { ?x :p ?y }")) == 40
    monkeypatch.setattr(describing, bound, 39)
    with pytest.raises(QueryRefused) as refused:
        described(client, "DESCRIBE ?x { ?x :p ?y }")
    assert refused.value.construct == "DESCRIBE"
    assert f"more than 39 {what}" in refused.value.reason


def test_description_ends_at_its_deadline(held):
    client = held([(iri("a"), iri("p"), iri("o"))])
    with pytest.raises(Unavailable):
        described(client, "DESCRIBE :a", timeout_seconds=0)


@pytest.mark.parametrize(
    ("text", "construct", "line", "column"),
    [
        ("DESCRIBE", "syntax error", 1, 9), ("DESCRIBE { ?x ?p ?o }", "syntax error", 1, 10),
        ("DESCRIBE <x:a> ?x\n{ ?x <x:p> ?y FILTER(?y <) }", "syntax error", 2, 22),
        ("DESCRIBE ?x\nFROM ?g { ?x ?p ?o }", "syntax error", 2, 6),
        ("DESCRIBE <a> ?x\n{ ?x <x:p> ?y }", "IRI", 1, 10),
        ("DESCRIBE ?x { ?x ?p ?o }\nSELECT", "syntax error", 2, 1),
        ("DESCRIBE ?x { SERVICE <x:s> { ?x ?p ?o } }", "SERVICE", 1, 15),
    ],
)  # fmt: skip
def test_malformed_description_is_refused_with_its_position(text, construct, line, column):
    with pytest.raises(QueryRefused) as refused:
        parse_description(text)
    assert (refused.value.construct, refused.value.line, refused.value.column) == (construct, line, column)


def test_only_describe_is_a_description():
    others = "SELECT ?describe { ?describe ?p 'DESCRIBE' }", "ASK { <x:describe> ?p ?o }", "", "PREFIX d: <x:describe>"
    for text in others:
        assert parse_description(text) is None
    assert result_form("DESCRIBE <x:a>") is Form.CONSTRUCT
    assert result_form("ASK { }") is Form.ASK
    assert parse_description("\\u0044ESCRIBE <x:a>").resources == ("<x:a>",)


def test_rules_stay_before_the_query_for_resources():
    rules = "RULES {\n ?x <x:in> ?z :- ?x <x:in> ?y , ?y <x:in> ?z .\n}"
    found = parse_ruled_description(f"{rules}\nDESCRIBE ?x {{ ?x <x:in> ?y }}")
    assert found.query == f"{rules}\nSELECT DISTINCT  ?x {{ ?x <x:in> ?y }}"
    assert parse_ruled(found.query).form is Form.SELECT
    assert parse_ruled_description(f"{rules} SELECT ?describe {{ ?describe <x:in> ?y }}") is None


def test_standing_description_is_refused_with_the_alternative():
    with pytest.raises(QueryRefused) as refused:
        parse_query("DESCRIBE <x:a>")
    assert refused.value.construct == "DESCRIBE"
    assert "CONSTRUCT" in refused.value.reason
