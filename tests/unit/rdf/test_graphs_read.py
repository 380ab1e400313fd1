"""The graphs that a query reads, in any way of naming them."""

from __future__ import annotations

import pytest

from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.reach import ANY, graphs_read
from p2prdf.rdf.standing.query import parse_query

G, H = "<x:g>", "<x:h>"


@pytest.mark.parametrize(("group", "expected"), [
    ("?s :p ?o", {DEFAULT}),
    ("?s ?p ?o", {DEFAULT}),
    ("GRAPH :g { ?s :p ?o }", {G}),
    ("GRAPH :g { ?s ?p ?o }", {G}),
    ("GRAPH ?g { ?s :p ?o }", {ANY}),
    ("GRAPH ?g { ?s ?p ?o }", {ANY}),
    ("?s :p ?o . GRAPH :g { ?o ?q ?x } OPTIONAL { GRAPH :h { ?x :r ?y } }", {DEFAULT, G, H}),
    ("GRAPH :g { ?s :p ?o } FILTER NOT EXISTS { ?s ?p ?o }", {DEFAULT, G}),
    ("GRAPH :g { ?s :p+ ?o }", {G}),
    ("GRAPH :g { ?s :p ?o } GRAPH ?g { ?o ?q ?x }", {G, ANY}),
    ("BIND(1 AS ?s)", set()),
])  # fmt: skip
def test_which_graphs_a_query_reads(group: str, expected: set[str]) -> None:
    assert graphs_read(parse_query(f"PREFIX : <x:> CONSTRUCT {{ ?s :found ?o }} {{ {group} }}")) == expected
