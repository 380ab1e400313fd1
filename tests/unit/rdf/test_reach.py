"""The graphs that queries are about, pattern by pattern, in any way of naming them."""

from __future__ import annotations

import pytest

from p2prdf.rdf import quads
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.reach import ANY, Access, Reach, accesses, reach_of
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.standing.settling import cohort_query, settled_query

PREFIX = "PREFIX : <x:> "


def parsed(group: str) -> ConjunctiveQuery:
    query = parse_query(f"{PREFIX} SELECT * {{ {group} }}").conjunctive
    assert query is not None
    return query


@pytest.mark.parametrize(("group", "expected"), [
    ("?s :p ?o", [(DEFAULT, "?s <x:p> ?o")]),
    ("?s ?p ?o", [(DEFAULT, "?s ?p ?o")]),
    ("GRAPH :g { ?s :p ?o }", [("<x:g>", "GRAPH <x:g> { ?s <x:p> ?o }")]),
    ("GRAPH :g { ?s ?p ?o }", [("<x:g>", "GRAPH <x:g> { ?s ?p ?o }")]),
    ("GRAPH ?g { ?s :p ?o }", [(ANY, "GRAPH ?g { ?s <x:p> ?o }")]),
    ("GRAPH ?g { ?s ?p ?o }", [(ANY, "GRAPH ?g { ?s ?p ?o }")]),
    ("?s :p ?o GRAPH :h { ?o ?q 1 . ?o :r ?w }", [
        (DEFAULT, "?s <x:p> ?o"),
        ("<x:h>", 'GRAPH <x:h> { ?o ?q "1"^^<http://www.w3.org/2001/XMLSchema#integer> }'),
        ("<x:h>", "GRAPH <x:h> { ?o <x:r> ?w }"),
    ]),
])  # fmt: skip
def test_each_pattern_is_listed_with_its_graph(group: str, expected: list[tuple[str, str]]) -> None:
    assert [(each.place, each.pattern) for each in accesses(parsed(group))] == expected


@pytest.mark.parametrize(("group", "expected"), [
    ("GRAPH :g { OPTIONAL { ?s :p ?o } }", {"<x:g>"}),
    ("GRAPH :g { VALUES ?x { 1 } }", {"<x:g>"}),
    ("GRAPH :g { ?s !:p ?o }", {"<x:g>"}),
    ("GRAPH :g { ?s (:p|^:q)+ ?o } FILTER NOT EXISTS { GRAPH :h { ?s ?p ?o } }", {"<x:g>", "<x:h>"}),
    ("{ ?s :p ?o } MINUS { GRAPH ?g { ?s :q ?o } }", {DEFAULT, ANY}),
    ("{ SELECT ?s { GRAPH :g { ?s :p ?o } } }", {"<x:g>"}),
    ("BIND(1 AS ?x)", set()),
])  # fmt: skip
def test_nothing_of_a_larger_query_is_left_out(group: str, expected: set[str]) -> None:
    assert set(reach_of(parse_query(f"{PREFIX} SELECT * {{ {group} }}")).reads) == expected


@pytest.mark.parametrize("group", [
    "GRAPH :g { ?s ?p ?o }", "GRAPH ?g { ?s ?p ?o }", "GRAPH ?g { ?s :p ?o }", "GRAPH :g { ?s :p ?o }", "?s ?p ?o",
    "?s ?p ?o . ?p :q ?x", "GRAPH :g { ?s ?p ?o OPTIONAL { ?o ?q ?x } } MINUS { GRAPH :h { ?s ?p ?o } }",
    "GRAPH :g { ?s ?p ?o } GRAPH :h { ?p ?q ?o }", "GRAPH :g { SELECT (COUNT(*) AS ?n) { ?s ?p ?o } }",
])  # fmt: skip
def test_a_settled_query_reads_the_same_graphs(group: str) -> None:
    """Each pattern stands alone there, and its permission must be that of the whole query."""
    query = parse_query(f"{PREFIX} SELECT * {{ {group} }}")
    expected = set(reach_of(query).reads)
    assert set(reach_of(settled_query(query)).reads) == expected
    assert set(reach_of(cohort_query([query, parse_query("ASK { ?a ?b ?c }")])).reads) == expected | {DEFAULT}


def test_windows_are_about_their_streams() -> None:
    start = f"{PREFIX} SELECT ?s ?o FROM NAMED WINDOW :w ON :st"
    by_time = (
        f"{start} [RANGE 10s STEP 1s] FROM NAMED WINDOW :n ON :su [RANGE 1s STEP 1s]"
        " WHERE { WINDOW :w { ?s :p ?o } WINDOW :n { ?s :r ?z } GRAPH :g { ?s :q ?y } }"
    )
    found = {(each.place, each.stream) for each in accesses(parse_query(by_time))}
    assert found == {("<x:st>", True), ("<x:su>", True), ("<x:g>", False)}
    by_count = f"{start} [TRIPLES 10 STEP 5] WHERE {{ WINDOW :w {{ ?s :p ?o }} ?s :q ?y }}"
    found = {(each.place, each.stream) for each in accesses(parse_query(by_count))}
    assert found == {("<x:st>", True), (DEFAULT, False)}


def test_a_rule_writes_its_conclusion() -> None:
    rule = parse_insertion(f"{PREFIX} INSERT {{ GRAPH :in {{ ?x :is ?z }} }} WHERE {{ ?x :is ?y . ?y :is ?z }}")
    assert rule is not None
    assert reach_of(rule) == Reach((DEFAULT,), ("<x:in>",))
    assert [each.pattern for each in accesses(rule) if each.writes] == ["GRAPH <x:in> { ?v0 <x:is> ?v2 }"]


def test_a_query_with_unknown_graphs_is_about_any_graph() -> None:
    """No text gives such queries: elements of streams without a window, or a predicate of an unknown kind."""
    element = ConjunctiveQuery(((0, ~0, 1),), (quads.streamed("<x:p>", "<x:st>"),), (0, 1), ("s", "o"))
    assert list(accesses(element)) == [Access("<x:st>", "STREAM <x:st> { ?s <x:p> ?o }", stream=True)]
    unknown = ConjunctiveQuery(((0, ~0, 1),), ('"?"^^<urn:p2prdf:later>',), (0, 1), ("s", "o"))
    listed = ConjunctiveQuery(((0, ~0, 1),), (quads.directory_term("<x:p>"),), (0, 1), ("g", "l"))
    for query in (unknown, listed):
        assert reach_of(query).reads == (ANY,)


def test_words_stay_in_the_default_graph_and_long_terms_are_cut() -> None:
    worded = ConjunctiveQuery(((0, ~0, 1),), (quads.worded("<x:p>", ["games"]),), (0, 1), ("s", "o"))
    assert reach_of(worded).reads == (DEFAULT,)
    (access,) = accesses(parsed(f"?s :p{'p' * 500} ?o"))
    assert len(access.pattern) < 100
