"""The translation of each form of GRAPH, and refused forms; tests with random queries check the answers."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf import algebra
from p2prdf.rdf.quads import OF, directory_term, qualified
from p2prdf.rdf.spelling import Names, spell_pattern
from p2prdf.rdf.standing.query import parse_query

P = "PREFIX : <x:> "
PG, QG, PH = qualified("<x:p>", "<x:g>"), qualified("<x:q>", "<x:g>"), qualified("<x:p>", "<x:h>")
DP, DQ = directory_term("<x:p>"), directory_term("<x:q>")


def leaves(group: str) -> list[list[tuple[str, ...]]]:
    """Return the patterns of each leaf, with constants and numbered variables."""
    return [
        [tuple(f"?{slot}" if slot >= 0 else leaf.constants[~slot] for slot in pattern) for pattern in leaf.patterns]
        for leaf in parse_query(f"{P}SELECT * {{ {group} }}").leaves
    ]


@pytest.mark.parametrize(
    ("group", "patterns"),
    [
        ("GRAPH :g { ?s :p ?o }", [("?0", PG, "?1")]),
        ("?s :p ?o GRAPH :g { ?o :p/^:q ?x }", [("?0", "<x:p>", "?1"), ("?1", PG, "?2"), ("?3", QG, "?2")]),
        ("GRAPH :g { ?s :p ?o GRAPH :h { ?o :p 1 } }",
         [("?0", PG, "?1"), ("?1", PH, '"1"^^<http://www.w3.org/2001/XMLSchema#integer>')]),
        ("GRAPH ?g { ?s :p ?o }", [("?0", DP, "?1"), ("?2", "?0", "?3")]),
        # Several patterns share one look-up in the directory.
        ("GRAPH ?g { ?s :p ?o . ?o :p ?x . ?x :q ?g }",
         [("?0", DP, "?1"), ("?2", "?0", "?3"), ("?3", "?0", "?4"), ("?5", DQ, "?1"), ("?4", "?5", "?1")]),
        ("GRAPH ?g { ?s :p ?o } GRAPH ?h { ?o :p ?x }",
         [("?0", DP, "?1"), ("?2", "?0", "?3"), ("?4", DP, "?5"), ("?3", "?4", "?6")]),
        ("GRAPH ?g { ?s ?p ?o . ?o ?p ?x }",
         [("?0", OF, "?1"), ("?2", "?0", "?3"), ("?4", "?2", "?5"), ("?5", "?2", "?6")]),
        ("GRAPH :g { ?s ?p ?o }", [("?0", OF, "?1"), ("?2", "?0", "<x:g>"), ("?3", "?2", "?4")]),
    ],
)  # fmt: skip
def test_a_pattern_in_a_graph_is_triple_patterns(group: str, patterns: list[tuple[str, ...]]) -> None:
    assert leaves(group) == [patterns]


def test_a_query_about_the_default_graph_stays_unchanged() -> None:
    (leaf,) = leaves("?s ?p ?o . ?o :q ?x")
    assert leaf == [("?0", "?1", "?2"), ("?2", "<x:q>", "?3")]
    assert not parse_query(P + "SELECT * { ?s ?p ?o }").leaves[0].filters


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("GRAPH ?g { ?s :p ?o }", "GRAPH ?a { ?b :p ?c . }"),
        ("GRAPH :g { ?s :p ?o . ?o :q ?x }", "GRAPH <x:g> { ?s :p ?o } GRAPH :g { ?o :q ?x }"),
        ("GRAPH ?g { ?s :p ?o . ?o :p ?x }", "GRAPH ?g { ?s :p ?o } GRAPH ?g { ?o :p ?x }"),
    ],
)
def test_equal_queries_are_equal(first: str, second: str) -> None:
    assert parse_query(f"{P}ASK {{ {first} }}") == parse_query(f"{P}ASK {{ {second} }}")


def test_only_variables_of_the_query_are_shown_the_graphs_first() -> None:
    names = parse_query(P + "SELECT * { GRAPH ?g { ?s ?p ?o OPTIONAL { ?o :p/:q ?x } } }").names
    assert names == ("g", "s", "p", "o", "x")
    assert parse_query(P + "SELECT * { { SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s :p ?o } } } }").names == ("n",)


def test_minus_does_not_count_the_graph_as_shared() -> None:
    """Solutions that have nothing else in common are not taken away (18.5)."""
    plain = parse_query(P + "ASK { GRAPH ?g { ?s :p ?o } }")
    assert parse_query(P + "ASK { GRAPH ?g { ?s :p ?o MINUS { ?x :q ?y } } }") == plain
    operators = parse_query(P + "SELECT * { GRAPH ?g { ?s :p ?o MINUS { ?s :q ?y } } }").operators
    (minus,) = (each for each in operators if isinstance(each, algebra.Minus))
    assert (len(minus.keys), len(minus.shared)) == (1, 1)
    behind = parse_query(P + "SELECT * { GRAPH ?g { ?s :p ?o } MINUS { GRAPH ?g { ?x :q ?y } } }").operators
    (minus,) = (each for each in behind if isinstance(each, algebra.Minus))
    assert (len(minus.keys), len(minus.shared)) == (0, 1)


ANYTHING = [("?0", OF, "?1"), ("?2", "?0", "<x:g>"), ("?3", "?2", "?4")]


def test_a_path_of_no_steps_starts_from_nodes_of_its_own_graph() -> None:
    for group in ("GRAPH :g { ?s :q ?x . ?s :p* ?o }", "GRAPH :g { ?s ?y ?x . ?s :p* ?o }", "GRAPH :g { :a :p* ?o }"):
        assert leaves(group)
    for group in ("?s :q ?x GRAPH :g { ?s :p* ?o }", "GRAPH ?g { ?s :q ?x } GRAPH :g { ?s :p* ?o }"):
        assert leaves(group).count(ANYTHING) == 3, "the subjects and the objects of the graph, and whether it exists"
    for group in ("GRAPH :g { ?s :q ?x } ?s :p* ?o", "GRAPH :g { :a :q+ ?s } ?s :p* ?o",
                  "GRAPH :g { :a :q+ ?s FILTER(ISIRI(?s)) } ?s :p* ?o"):  # fmt: skip
        assert [("?0", "?1", "?2")] in leaves(group)


@pytest.mark.parametrize(
    ("group", "asked"),
    [
        ("", True), ("OPTIONAL { ?s :p ?o }", True), ("VALUES ?s { 1 } OPTIONAL { ?s :p ?o }", True),
        (":a :p* ?o", True),
        ("{ ?s :p ?o } UNION { VALUES ?s { 1 } }", True), ("VALUES ?s { 1 } MINUS { ?s :p ?o }", True),
        ("BIND(EXISTS { ?s :p ?o } AS ?x)", True), ("FILTER NOT EXISTS { ?s :p ?o }", True),
        ("{ SELECT (COUNT(*) AS ?n) { ?s :p ?o } }", True), ("GRAPH :h { ?s :p ?o }", True),
        ("?s :p ?o", False), ("?s ?p 1", False), (":a :p+ ?o", False), ("OPTIONAL { ?s :p ?o } ?s :q ?x", False),
        ("{ ?s :p ?o } UNION { ?s :q ?o BIND(1 AS ?x) }", False), ("FILTER EXISTS { ?s :p ?o }", False),
        ("{ SELECT ?s (COUNT(*) AS ?n) { ?s :p ?o } GROUP BY ?s }", False), ("GRAPH :h { ?s :p ?o } ?s :p ?x", False),
        ("{ SELECT DISTINCT ?s { ?s :p ?o } LIMIT 3 }", False), ("?s :p ?o MINUS { ?s :q ?o }", False),
    ],
)  # fmt: skip
def test_whether_a_graph_is_there_is_asked_where_nothing_else_says_so(group: str, asked: bool) -> None:
    assert (ANYTHING in leaves(f"GRAPH :g {{ {group} }}")) is asked


IN_EVERY_GRAPH = "GRAPH with a variable"


@pytest.mark.parametrize(
    ("group", "construct"),
    [
        ("GRAPH ?g { }", IN_EVERY_GRAPH),
        ("GRAPH ?g { VALUES ?x { 1 } }", IN_EVERY_GRAPH),
        ("GRAPH ?g { OPTIONAL { ?s :p ?o } }", IN_EVERY_GRAPH),
        ("GRAPH ?g { VALUES ?s { 1 } OPTIONAL { ?s :p ?o } ?s :q ?x }", IN_EVERY_GRAPH),
        ("GRAPH ?g { { ?s :p ?o } UNION { VALUES ?s { 1 } } }", IN_EVERY_GRAPH),
        ("GRAPH ?g { VALUES ?s { 1 } MINUS { ?s :p ?o } }", IN_EVERY_GRAPH),
        ("GRAPH ?g { VALUES ?s { 1 } FILTER EXISTS { ?s :p ?o } }", IN_EVERY_GRAPH),
        ("GRAPH ?g { ?s :q ?x OPTIONAL { VALUES ?o { 1 } FILTER(NOT EXISTS { ?s :p ?o } || ?x = 1) } }", ""),
        ("GRAPH ?g { VALUES ?x { 1 } OPTIONAL { VALUES ?o { 1 } FILTER NOT EXISTS { ?x :p ?o } } }", IN_EVERY_GRAPH),
        ("GRAPH ?g { BIND(EXISTS { ?s :p ?o } AS ?x) ?s :q ?o }", IN_EVERY_GRAPH),
        ("GRAPH ?g { GRAPH ?h { ?s :p ?o } }", IN_EVERY_GRAPH),
        ("GRAPH ?g { ?s :p ?o FILTER(?g = :x) }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o { ?s :q ?x FILTER(BOUND(?g)) } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o BIND(?g AS ?x) }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o BIND(?o AS ?g) }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o VALUES ?g { :x } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o OPTIONAL { ?g :q ?x } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o MINUS { ?s :q ?g } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o FILTER EXISTS { ?s :q ?g } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o FILTER EXISTS { GRAPH ?g { ?s :q ?o } } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o GRAPH :h { ?s :q ?g } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o { SELECT ?g { ?s :q ?g } } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o { SELECT * { ?s :q ?g } } }", "GRAPH ?g"),
        ("GRAPH ?g { ?s :p ?o { SELECT ?s { ?s :q ?g } } }", ""),  # another variable
        ("GRAPH ?g { ?g :p+ ?o }", "repeated property path in GRAPH"),
        ("GRAPH ?g { ?s :q ?o . ?s :p? ?g }", "repeated property path in GRAPH"),
        ("GRAPH ?g { ?g :q|(:p/:p*) ?o }", "repeated property path in GRAPH"),
        ("GRAPH ?g {" + "".join(f" ?a :a{n} {n} ." for n in range(33)) + "}", "triple patterns"),
        ("GRAPH _:g { ?s :p ?o }", "syntax error"),
        ("GRAPH 'g' { ?s :p ?o }", "syntax error"),
        ("GRAPH :g ?s :p ?o", "syntax error"),
        ("?s :p '<x:p> <x:g>'^^<urn:p2prdf:in>", "literal"),
        ("?s :p ?o FILTER(?o != 'x'^^<urn:p2prdf:other>)", "literal"),
        ("VALUES ?l { 'of'^^<urn:p2prdf:predicate> } ?s ?l ?o", "literal"),
        ("?s ?p ?o FILTER(DATATYPE(?p) = <urn:p2prdf:in>)", "IRI"),
        ("?s ?p ?o FILTER(DATATYPE(?p) = <urn:p2prdf:predicate>)", "IRI"),
        ("?s ?p ?o FILTER(DATATYPE(?p) = <urn:p2prdf:on>)", "IRI"),
    ],
)  # fmt: skip
def test_an_unanswerable_form_of_graph_is_refused_by_name(group: str, construct: str) -> None:
    if not construct:
        assert leaves(group)
        return
    with pytest.raises(QueryRefused) as refused:
        leaves(group)
    assert refused.value.construct == construct, refused.value
    assert refused.value.line == 1


@pytest.mark.parametrize(
    ("query", "patterns"),
    [
        ("SELECT * FROM :g { ?s :p ?o }", [[("?0", PG, "?1")]]),
        ("SELECT * FROM :g FROM :g FROM NAMED :h { ?s :p ?o GRAPH :h { ?o :p ?x } }",
         [[("?0", PG, "?1"), ("?1", PH, "?2")]]),
        ("SELECT * FROM :g FROM :h { ?s :p ?o }", [[("?0", PG, "?1")], [("?0", PH, "?1")]]),
        ("SELECT * FROM NAMED :g { ?s :p ?o }", []),
        ("SELECT * FROM NAMED :g { GRAPH :h { ?s :p ?o } }", []),
        ("SELECT * FROM :g { GRAPH ?h { ?s :p ?o } }", [[("?0", DP, "?1"), ("?2", "?0", "?3")]]),
        ("WITH :g SELECT * { ?s :p ?o GRAPH :h { ?o :p ?x } }", [[("?0", PG, "?1"), ("?1", PH, "?2")]]),
    ],
)  # fmt: skip
def test_from_chooses_the_default_graph_and_the_reach_of_graph(query: str, patterns: list[list[tuple[str, ...]]]):
    found = [
        [tuple(f"?{slot}" if slot >= 0 else leaf.constants[~slot] for slot in pattern) for pattern in leaf.patterns]
        for leaf in parse_query(P + query).leaves
    ]
    assert found == patterns


def test_templates_have_no_graphs_and_sub_queries_no_data_sets() -> None:
    for text, construct, reason in (
        ("SELECT * { { SELECT * FROM <x:g> { ?s ?p ?o } } }", "FROM", "not in a sub-query"),
        ("SELECT * FROM ?g { ?s ?p ?o }", "syntax error", "out of place"),
        ("WITH <x:g> SELECT * FROM <x:h> { ?s ?p ?o }", "FROM", "use one of both"),
        ("CONSTRUCT { GRAPH <x:g> { ?s ?p ?o } } { ?s ?p ?o }", "GRAPH", "a template has no graphs"),
        ("CONSTRUCT WHERE { GRAPH <x:g> { ?s ?p ?o } }", "syntax error", "takes triples only"),
    ):
        with pytest.raises(QueryRefused, match=reason) as refused:
            parse_query(text)
        assert refused.value.construct == construct


def test_with_a_graph_that_is_named_everything_is_answered() -> None:
    group = (
        "?s :p+ ?o . :a :q* ?s OPTIONAL { ?o :q ?x FILTER NOT EXISTS { ?x !:p ?y } } MINUS { ?s :q ?x } "
        "{ SELECT ?s (SUM(?n) AS ?sum) { { ?s :n ?n } UNION { ?n ^:n ?s } } GROUP BY ?s HAVING(SUM(?n) > 1) } "
        "BIND(1 AS ?one) VALUES ?z { 1 } GRAPH ?g { ?s :p ?o }"
    )
    standing = parse_query(f"{P}SELECT * {{ GRAPH :g {{ {group} }} }}")
    constants = {term for leaf in standing.leaves for term in leaf.constants}
    assert "<x:p>" not in constants
    assert {PG, QG, DP} <= constants


def test_an_explanation_spells_patterns_of_graphs_as_they_are_meant() -> None:
    (leaf,) = parse_query(f"{P}SELECT ?s ?g {{ GRAPH ?g {{ ?s :p ?o }} GRAPH :g {{ ?s :q ?g ; ?x ?o }} }}").leaves
    (names,) = Names(leaf).leaves
    spelled = [spell_pattern(pattern, leaf.constants, names) for pattern in leaf.patterns]
    assert "GRAPH <x:g> { ?0 <x:q> ?1 }" in spelled
    assert any(text.endswith("stands for <x:p> in GRAPH ?1") for text in spelled)
    assert any("stands for predicate" in text for text in spelled)
    assert not any("urn:p2prdf" in text for text in spelled)
