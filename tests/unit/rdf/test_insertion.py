"""Rules as texts of SPARQL: their meaning, and refusals with their place."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf import quads
from p2prdf.rdf.query import Concludes
from p2prdf.rdf.standing.insertion import parse_insertion

IN_G = quads.qualified("<urn:p>", "<urn:g>")


def rule(template, body, before=""):
    return parse_insertion(f"{before} INSERT {{ GRAPH <urn:g> {{ {template} }} }} WHERE {{ {body} }}")


def test_the_last_pattern_is_the_conclusion():
    found = rule("?x <urn:p> ?z", "?x <urn:p> ?y . ?y <urn:q> ?z FILTER(?x != ?z)")
    assert found.patterns == ((0, ~0, 1), (1, ~1, 2), (0, ~2, 2))
    assert found.constants == ("<urn:p>", "<urn:q>", IN_G)
    assert (found.answer, found.names, found.distinct) == ((), (), False)
    assert [each.variables for each in found.filters] == [(0, 2)]


@pytest.mark.parametrize(
    ("body", "concludes"),
    [
        ("?x <urn:p> ?z", Concludes.FROM_GIVEN),
        ("?x ?any ?z", Concludes.FROM_GIVEN),  # a variable stands for predicates of the default graph
        ("?x <urn:p> ?y GRAPH <urn:g> { ?y <urn:p> ?z }", Concludes.FROM_ANYTHING),
        ("GRAPH <urn:other> { ?x <urn:p> ?z }", Concludes.FROM_ANYTHING),  # into which other rules may conclude
        ("GRAPH ?any { ?x <urn:p> ?z }", Concludes.FROM_ANYTHING),
    ],
)
def test_only_the_default_graph_holds_nothing_that_is_concluded(body, concludes):
    assert rule("?x <urn:p> ?z", body).concludes is concludes


def test_declarations_constants_and_abbreviations():
    found = rule(":a a ?z", "?x :p/:q ?z", "BASE <http://b/> PREFIX : <urn:>\nPREFIX x: <y>")
    *_, conclusion = found.patterns
    terms = [found.constants[~slot] if slot < 0 else slot for slot in conclusion]
    type_in_g = quads.qualified("<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<urn:g>")
    assert terms[:2] == ["<urn:a>", type_in_g]
    assert [found.constants[~p] for _, p, _ in found.patterns[:-1]] == ["<urn:p>", "<urn:q>"]
    assert terms[2] == found.patterns[1][2]
    named = parse_insertion("PREFIX : <urn:> INSERT { GRAPH :g { ?x :p ?z } } WHERE { ?x :q ?z }")
    assert named.constants == ("<urn:q>", IN_G)


@pytest.mark.parametrize(
    "text", ["SELECT ?insert { ?x ?p ?insert }", "ASK { ?x <urn:insert> ?y }", "", "PREFIX : <urn:>"]
)
def test_a_text_that_does_not_begin_with_insert_is_no_rule(text):
    assert parse_insertion(text) is None


TO_G = "INSERT { GRAPH <urn:g> { ?x <urn:p> ?z } } WHERE"
BODY = "{ ?x <urn:q> ?z }"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"INSERT {{ ?x <urn:p> ?z }} WHERE {BODY}", "INSERT: a rule inserts into a named graph.*line 1, column 1"),
        ("INSERT", "into a named graph"),
        ("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> <urn:b> } }", "INSERT DATA: it is no query"),
        ("Insert Data { <urn:a> <urn:p> <urn:b> }", "INSERT DATA: it is no query"),
        (f"INSERT {{ GRAPH ?g {{ ?x <urn:p> ?z }} }} WHERE {BODY}", "GRAPH: .* an IRI at line 1, column 16"),
        (f"INSERT {{ GRAPH <urn:g> {{ ?x <urn:p> ?z . ?z <urn:p> ?x }} }} WHERE {BODY}", "a rule inserts one triple"),
        (f"INSERT {{ GRAPH <urn:g> {{ ?x <urn:p> ?z {{ }} }} }} WHERE {BODY}", "the graph must contain one triple"),
        (f"INSERT {{ GRAPH <urn:g> {{ ?x <urn:p> ?y }} }} WHERE {BODY}", "a rule creates no nodes"),
        (f"INSERT {{ GRAPH <urn:g> {{ _:x <urn:p> ?z }} }} WHERE {BODY}", "a rule creates no nodes"),
        ("INSERT { GRAPH <urn:g> { ?x ?p ?z } } WHERE { ?x ?p ?z }", "the predicate of the inserted triple must be"),
        (f"{TO_G} {{ ?x <urn:q> ?z OPTIONAL {{ ?z <urn:r> ?y }} }}", "basic graph pattern"),
        (f"{TO_G} {{ {BODY} UNION {{ ?z <urn:q> ?x }} }}", "basic graph pattern"),
        (f"{TO_G} {{ ?x <urn:q>+ ?z }}", "basic graph pattern"),
        (f"{TO_G} {{ ?x <urn:q> ?z . bad }}", "'bad' is out of place at line 1, column 68"),
        ("\nINSERT { GRAPH <urn:g> {\n ?x <urn:p> ?z } } WHERE { ?x <urn:q> ?z . bad }", "line 3, column 44"),
        ("INSERT { GRAPH <urn:g> { ?x <urn:p> ?z ", "'{' is never closed"),
        (
            "INSERT { GRAPH <urn:g> { ?x0 <urn:p> ?x1 } } WHERE { "
            + " . ".join(f"?x{n} <urn:q> ?x{n + 1}" for n in range(16)) + " }",
            "at most 15 patterns",
        ),
    ],
)  # fmt: skip
def test_a_refused_text_is_named_with_its_place(text, why):
    with pytest.raises(QueryRefused, match=why):
        parse_insertion(text)
