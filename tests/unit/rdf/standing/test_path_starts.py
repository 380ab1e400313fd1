"""Repeated paths with ends that are bound elsewhere, or nowhere, with pyoxigraph as oracle."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from algebra.leaves import Home
from algebra.statements import of_oxigraph, positive

from p2prdf.errors import QueryRefused
from p2prdf.rdf import terms
from p2prdf.rdf.standing import form
from p2prdf.rdf.standing.query import parse_query

QUERIES = [
    "SELECT ?x ?c { VALUES ?c { :n1 :n2 :unknown } ?x :p* ?c }",
    "SELECT ?x ?c { ?x :p* ?c VALUES ?c { :n1 } }",
    "SELECT ?x ?c { VALUES ?c { :n0 :n1 :n2 :n3 :n4 :n5 :n6 :n7 :n8 :unknown } ?c :p* ?x }",
    "SELECT ?x ?c { VALUES (?c ?d) { (:n1 1) (UNDEF 2) } ?x :p* ?c }",
    "SELECT ?x ?c { VALUES ?c { :n1 'text' 1 } ?x :p? ?c }",
    "SELECT ?v { VALUES ?v { 1 :n1 } ?v :p? ?v }",
    "SELECT ?x ?c { BIND(:n1 AS ?c) ?x :p* ?c }",
    "SELECT ?x ?c { BIND(IRI(CONCAT('x:', 'n1')) AS ?c) ?x (:p|:q)* ?c }",
    "SELECT ?x ?c { ?s :q ?n BIND(IRI(CONCAT(STR(?n), '')) AS ?c) ?c :p? ?x }",
    "SELECT ?x ?y { ?x :p* ?y }", "SELECT ?x ?y { ?x (:p/:q)* ?y }", "SELECT ?x { ?x :p* ?x }",
    "SELECT DISTINCT ?x ?y { ?x (:p|:q?) ?y }", "SELECT ?x ?y { ?x :p?/:q* ?y }", "SELECT * { ?x ^:p* ?y . ?y :q* ?z }",
    "SELECT ?x ?y { ?a :q ?b OPTIONAL { ?b :r ?x } ?x :p* ?y }",
    "SELECT ?x ?c { { SELECT ?c (COUNT(*) AS ?n) { ?c :q ?z } GROUP BY ?c } ?x :p* ?c }",
    "SELECT ?x ?c { { VALUES ?c { :n1 } } UNION { ?c :q ?z } ?x :p* ?c }",
    "SELECT ?x ?c { GRAPH :g { ?c :p ?z } ?x :p* ?c }", "SELECT ?x ?c { VALUES ?c { :n1 :n9 } GRAPH :g { ?x :p* ?c } }",
    "SELECT ?x ?c { VALUES ?c { :n1 } ?x :q/:p* ?c }", "ASK { VALUES ?c { :unknown } ?c :p* ?c }",
    "SELECT ?s { ?s :q ?o FILTER EXISTS { VALUES ?c { :n1 :n3 } ?s :p* ?c } }",
    "SELECT ?s ?c { ?s :q ?o OPTIONAL { VALUES ?c { :n1 :n3 } ?s :p* ?c } }",
]  # fmt: skip


def triples_of(rng):
    nodes = [f"<x:n{number}>" for number in range(9)]
    found = {(rng.choice(nodes[:7]), f"<x:{rng.choice('ppq')}>", rng.choice(nodes)) for _ in range(12)}
    found |= {(rng.choice(nodes), "<x:r>", f'"1"^^<{terms.XSD}integer>') for _ in range(2)}
    return [*found, *((*each, "<x:g>") for each in sorted(found)[::2])]


@pytest.mark.parametrize("text", QUERIES)
def test_solutions_are_those_of_oxigraph(text):
    text = "PREFIX : <x:> " + text
    query = parse_query(text)
    assert form.decode(form.encode(query)) == query
    for seed in range(3):
        rng = random.Random(seed)
        statements = triples_of(rng)
        home = Home(query, rng)
        for part in (statements[:5], statements, statements[3:]):
            home.change(part)
            home.check_output()
            assert positive(home.rows) == Counter(of_oxigraph(part, text)), (seed, len(part))


def test_constants_are_looked_up_one_by_one_as_long_as_they_are_few():
    def leaves(count):
        values = " ".join(f"<x:c{number}>" for number in range(count))
        return parse_query(f"SELECT * {{ VALUES ?c {{ {values} }} ?x <x:p>* ?c }}").leaves

    assert len(leaves(1)) == 1 + 2
    assert len(leaves(8)) == 1 + 16
    assert len(leaves(9)) == 1 + 2
    assert all(leaf.constants for leaf in leaves(8))


def test_the_nodes_of_a_window_are_unknown():
    with pytest.raises(QueryRefused) as refused:
        parse_query(
            "SELECT * FROM NAMED WINDOW <x:w> ON <x:s> [RANGE PT10S] { WINDOW <x:w> { ?x <x:p>* ?y } }"
        )
    assert refused.value.construct == "property path *"
