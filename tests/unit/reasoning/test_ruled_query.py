"""Queries as text bring rules along, and are refused where they are wrong."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf.algebra import Inferred
from p2prdf.rdf.standing.query import parse_query
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.ruled_query import RULED_BYTES_MAX, parse_ruled, rule_forms, with_rules

RULES = "?x <urn:p> ?z :- ?x <urn:p> ?y , ?y <urn:p> ?z ."
QUERY = "SELECT ?x ?y { ?x <urn:p> ?y }"
TEXT = """PREFIX : <urn:>
RULES {
  named: ?x :p ?z :- ?x :p ?y , ?y :p ?z .   # with a { in a comment
}
SELECT ?x ?y { ?x :p ?y }"""


def test_a_text_is_the_query_with_the_rules():
    expected = parse_query(QUERY, rules=rule_forms(parse_rules(RULES)))
    assert parse_ruled(TEXT) == parse_ruled(with_rules(QUERY, parse_rules(RULES))) == expected
    assert any(isinstance(each, Inferred) for each in expected.operators)
    assert parse_ruled(TEXT.replace("RULES", "rules").replace("\n", "\r\n")) == expected
    assert parse_ruled(QUERY, ordered=True) == parse_query(QUERY, ordered=True)


def test_the_word_elsewhere_is_no_block():
    for query in ("SELECT ?rules { ?rules <urn:rules> 'RULES { }' }", "SELECT ?x { ?x <urn:p> ?y } # RULES {"):
        assert parse_ruled(query) == parse_query(query)


def test_rules_before_declarations_and_before_windows():
    window = "FROM NAMED WINDOW :w ON :s [RANGE 1s] { WINDOW :w { ?x :p ?y } }"
    query = f"PREFIX : <urn:> REGISTER RSTREAM :o AS SELECT * {window}"
    found = parse_ruled(with_rules(query, parse_rules(RULES)))
    assert any(isinstance(each, Inferred) for each in found.operators)


def test_much_of_it_is_taken_and_too_much_is_not():
    many = parse_rules("\n".join(f"?x <urn:p{n}> ?y :- ?x <urn:p{n + 1}> ?y ." for n in range(900)))
    assert len(with_rules(QUERY, many)) > 30_000
    assert parse_ruled(with_rules("SELECT ?x { ?x <urn:p895> ?y }", many)).leaves
    with pytest.raises(QueryRefused, match=f"more than {RULED_BYTES_MAX}"):
        parse_ruled(with_rules(QUERY, many) + "#" * RULED_BYTES_MAX)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXT.replace("?y :p ?z .", "?y :p ?w ."), "?z of the head is not in the body at line 3, column 10"),
        (TEXT.replace("?x :p ?y }", "?x :p }"), "line 5, column 22"),
        (TEXT.replace("SELECT", "SELEKT"), "'SELEKT' is out of place at line 5, column 1"),
        (TEXT.replace("RULES {", "RULES"), "'}' closes nothing at line 4, column 1"),
        ("RULES SELECT * { ?x <urn:p> ?y }", "rules stand in braces behind it at line 1, column 1"),
        ("RULES", "rules stand in braces"),
        (TEXT + "\n}", "line 6, column 1"),
        (TEXT.replace("?y :p ?z .", "?y :p ?z"), "line 3"),
        (TEXT.replace("SELECT", "RULES { } SELECT"), "line 5"),
    ],
)
def test_an_error_is_named_with_its_place_in_the_whole(text, reason):
    with pytest.raises(QueryRefused) as refused:
        parse_ruled(text)
    assert reason in str(refused.value)
