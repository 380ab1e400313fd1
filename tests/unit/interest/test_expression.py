"""Accepted interests, and refusals by name and place."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.interest import parse_interest
from p2prdf.interest.expression import OPTIONALS_MAX, PATTERNS_MAX, connected

P = "PREFIX : <urn:> "


def test_groups_are_the_required_patterns_and_each_optional() -> None:
    found = parse_interest(
        P + "SELECT * { ?a a :Athlete ; :goals ?g . OPTIONAL { ?a :page ?p } OPTIONAL { ?a :team ?t . ?t :name ?n } }"
    )
    assert found.required.patterns == (
        ("?a", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<urn:Athlete>"), ("?a", "<urn:goals>", "?g"),
    )  # fmt: skip
    assert [group.patterns for group in found.optionals] == [
        (("?a", "<urn:page>", "?p"),), (("?a", "<urn:team>", "?t"), ("?t", "<urn:name>", "?n")),
    ]  # fmt: skip
    assert found.variables == ("?a", "?g", "?p", "?t", "?n")


def test_a_construct_query_says_the_same() -> None:
    body = "{ ?a :p ?b . OPTIONAL { ?b :q ?c } }"
    select = parse_interest(f"{P} SELECT * {body}")
    construct = parse_interest(f"{P} CONSTRUCT {{ ?b :q ?c . ?a :p ?b }} WHERE {body}")
    assert (construct.required, construct.optionals) == (select.required, select.optionals)
    assert parse_interest(f"{P} CONSTRUCT WHERE {{ ?a :p ?b }}").required.patterns == (("?a", "<urn:p>", "?b"),)


def test_conditions_are_taken_apart_and_those_always_true_left_out() -> None:
    found = parse_interest(P + "SELECT * { ?a :p ?b FILTER (?b > 1 && ?b < 9) FILTER (1 < 2) }")
    assert [condition.variables for condition in found.required.conditions] == [(1,), (1,)]


def test_blank_nodes_are_variables() -> None:
    found = parse_interest(P + "SELECT * { ?a :p [ :q ?c ] }")
    assert connected(found.required.patterns)
    assert len(found.variables) == 3


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("ASK { ?a :p ?b }", "ASK"),
        ("SELECT ?a { ?a :p ?b }", "SELECT"),
        ("SELECT * { ?a :p ?b } LIMIT 3", "ORDER BY, LIMIT or OFFSET"),
        ("SELECT * { ?a :p ?b } ORDER BY ?a", "ORDER BY, LIMIT or OFFSET"),
        ("SELECT * { ?a :p ?b } GROUP BY ?a", "GROUP BY"),
        ("SELECT * { ?a :p ?b } VALUES ?a { :x }", "VALUES"),
        ("SELECT * { }", "empty pattern"),
        ("SELECT * { OPTIONAL { ?a :p ?b } }", "empty pattern"),
        ("SELECT * { ?a :p ?b . ?c :q ?d }", "unconnected pattern"),
        ("SELECT * { ?a :p :x . ?c :q :x }", "unconnected pattern"),
        ("SELECT * { ?a :p ?b . :x :y :z }", "unconnected pattern"),
        ("SELECT * { ?a :p ?b OPTIONAL { ?c :q ?d } }", "unconnected pattern"),
        ("SELECT * { ?a :p ?b OPTIONAL { ?a :q ?c } OPTIONAL { ?a :r ?c } }", "shared variable ?c"),
        ("SELECT * { ?a :p ?b OPTIONAL { ?a :q ?c OPTIONAL { ?c :r ?d } } }", "OPTIONAL in OPTIONAL"),
        ("SELECT * { ?a :p ?b OPTIONAL { FILTER (?a = 1) } }", "OPTIONAL"),
        ("SELECT * { { ?a :p ?b } UNION { ?a :q ?b } }", "UNION"),
        ("SELECT * { ?a :p ?b { ?a :q ?b } }", "{ } in a group"),
        ("SELECT * { ?a :p ?b MINUS { ?a :q ?b } }", "MINUS"),
        ("SELECT * { GRAPH :g { ?a :p ?b } }", "GRAPH"),
        ("SELECT * { ?a :p ?b BIND (1 AS ?c) }", "BIND"),
        ("SELECT * { ?a :p ?b VALUES ?a { :x } }", "VALUES"),
        ("SELECT * { SELECT ?a { ?a :q ?b } }", "sub-SELECT"),
        ("SELECT * { ?a :p/:q ?b }", "property path"),
        ('SELECT * { "x" :p ?b }', "literal"),
        ("SELECT * { ?a :p ?b FILTER EXISTS { ?a :q ?c } }", "EXISTS"),
        ("SELECT * { ?a :p ?b FILTER (?c > 1) OPTIONAL { ?a :q ?c } }", "FILTER on ?c"),
        ("SELECT * { ?a :p ?b FILTER (1 > 2) }", "FILTER"),
        ("CONSTRUCT { ?a :p :x } { ?a :p ?b }", "CONSTRUCT"),
        ("SELECT * { ?a :p ?b", "syntax error"),
        ("INSERT DATA { :a :b :c }", "INSERT"),
        (f"SELECT * {{ {' '.join(f'?a :p ?b{n} .' for n in range(PATTERNS_MAX + 1))} }}", "triple patterns"),
        (f"SELECT * {{ ?a :p ?b {'OPTIONAL { ?a :q ?b } ' * (OPTIONALS_MAX + 1)} }}", "OPTIONAL"),
        ("SELECT * " + "{" * 100, "nesting"),
    ],
)  # fmt: skip
def test_a_bad_interest_is_refused_by_name_and_place(text: str, construct: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_interest(P + text)
    assert refused.value.construct == construct
    assert refused.value.line == 1
    assert refused.value.column
