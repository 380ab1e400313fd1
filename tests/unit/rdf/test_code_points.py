"""Codepoint escapes and byte order marks in the texts of queries, updates, rules and interests."""

from __future__ import annotations

import pytest
from field_cases import field_case

from p2prdf.errors import QueryRefused
from p2prdf.interest import parse_interest
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.update import parse_update
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.ruled_query import parse_ruled

PLAIN = "PREFIX : <urn:f:>\nSELECT ?y { :café :p ?y }"


@pytest.mark.parametrize(
    "text",
    [
        "PREFIX : <urn:f:>\nSELECT ?y { :caf\\u00e9 :p ?y }",
        "PREFIX : <urn:f:>\nSELECT ?y { :caf\\U000000E9 :p ?y }",
        "PREFIX : <urn:f:>\nS\\u0045LECT ?\\u0079 \\u007B :café :p ?y \\u007D",
        "PREFIX\\u0020: \\u003Curn:f:\\u003E\nSELECT ?y { :caf\\u00e9 :\\u0070 ?y }",
        "PREFIX : <urn:\\u0066:>\nSELECT ?y { :caf\\u00e9 :p ?y }",
        "\ufeffPREFIX : <urn:f:>\nSELECT ?y { :café :p ?y }",
        "\ufeff# it's \\u00e9 \"\nPREFIX : <urn:f:>\nSELECT ?y { :caf\\u00e9 :p ?y }",
    ],
)
def test_escape_stands_for_its_character_anywhere_in_a_query(text: str) -> None:
    assert parse_query(text) == parse_query(PLAIN)
    assert parse_ruled(text) == parse_query(PLAIN)
    assert parse_select(text) == parse_select(PLAIN)


def test_escapes_in_strings_stay_escapes_of_the_string() -> None:
    text = "PREFIX : <urn:f:> SELECT ?s { ?s :p 'a\\u0022\\u005Cn' ; :it\\'s\\u00e9 '''\\u0027''' }"
    assert parse_query(text) == parse_query("""SELECT ?s { ?s <urn:f:p> 'a"\\\\n' ; <urn:f:it'sé> "'" }""")


def test_escapes_stand_anywhere_in_updates_rules_interests_and_window_queries() -> None:
    assert parse_update("\ufeffINSERT D\\u0041TA { <urn:a> <urn:p> \\u0022x\\u0022 }", scope="a") == parse_update(
        "INSERT DATA { <urn:a> <urn:p> 'x' }", scope="a"
    )
    interest = "SELECT * {{ ?s <urn:p> {} FILTER({} > 1) }}"
    assert parse_interest(interest.format("?\\u00e9", "?é")) == parse_interest(interest.format("?é", "?é"))
    rule = "PREFIX : <urn:x:> INSERT {{ GRAPH :g {{ ?x :is{}n ?y }} }} WHERE {{ ?x :p ?y }}"
    assert parse_insertion(rule.format("\\u0049")) == parse_insertion(rule.format("I"))
    rules = "PREFIX : <urn:x:> {} ?x :q ?y :- ?x :{} ?y ."
    assert parse_rules("\ufeff" + rules.format("", "\\u0070")) == parse_rules(rules.format("", "p"))
    ruled = "RULES {{ ?x <urn:q> ?y :- ?x <urn:p> ?y . }} SELECT ?s {{ ?s <urn:q> {} }}"
    assert parse_ruled(ruled.format("\\u003Furn")) == parse_ruled(ruled.format("?urn"))
    window = (
        "REGISTER RSTREAM <urn:w> AS SELECT ?s FROM NAMED WINDOW <urn:win> ON <urn:st> [RANGE PT10S STEP PT5S] "
        "WHERE {{ {} <urn:win> {{ ?s <urn:p> ?o }} }}"
    )
    assert parse_query(window.format("W\\u0049NDOW")) == parse_query(window.format("WINDOW"))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("PREFIX : <urn:f:> SELECT ?y { :caf\\u00e9 :p ]", "]"),
        ("PREFIX : <urn:f:> SELECT ?y\n{ :caf\\u00e9 :\\u0070\n ]", "]"),
        ("PREFIX : <urn:f:> SELECT ?y { :caf\\u00e9 other:p ?y }", "other:p"),
        ("SELECT ?y\\u000A{ x:p ?y }", "x:p"),
        ("\ufeffSELECT ?y { x:p ?y }", "x:p"),
        ("SELECT ?y { ?y <urn:p> 1 } \\uD800", "\\uD800"),
        ("SELECT ?y { ?y <urn:p> 1 } \\U00110000", "\\U00110000"),
        ("SELECT ?y { ?y <urn:p> \\u005Cu0031 }", "\\u005C"),
        ("SELECT ?y { ?y <urn:p> 1 \\u12", "\\u12"),
        ("SELECT ?x\\u0020y z { ?y <urn:p> 1 }", "y z"),
    ],
)
def test_refusal_names_the_place_in_the_text_as_written(text: str, wrong: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_query(text)
    seen = text.removeprefix("\ufeff")
    at = seen.rindex(wrong)
    place = (seen.count("\n", 0, at) + 1, at - seen.rfind("\n", 0, at))
    assert (refused.value.line, refused.value.column) == place


def test_field_case_of_codepoint_escapes_is_read() -> None:
    text = (field_case("11-codepoint-escapes") / "q.rq").read_text("utf-8")
    assert parse_query(text) == parse_query(text.replace("\\u00e9", "é"))
