"""Plans as people read them: names that lead back to those of the query, and texts that are bounded."""

from __future__ import annotations

import pytest

from p2prdf.rdf import algebra
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.spelling import TEXT_CHARACTERS_MAX, Names, spell_expression, spell_pattern
from p2prdf.rdf.standing.query import parse_query


def patterns(text):
    """The patterns of each leaf of a query."""
    query = parse_query(text)
    names = Names(query)
    return [
        [spell_pattern(pattern, leaf.constants, known) for pattern in leaf.patterns]
        for leaf, known in zip(query.leaves, names.leaves, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("SELECT ?s { ?s <u:p> ?o }", [["?s <u:p> ?v0"]]),
        ("SELECT ?v0 { ?v0 <u:p> ?o }", [["?v0 <u:p> ?v1"]]),
        ("SELECT ?s ?n { ?s <u:p> ?o OPTIONAL { ?o <u:n> ?n } }", [["?s <u:p> ?v0"], ["?v0 <u:n> ?n"]]),
        ("SELECT ?s { ?s <u:p> ?o MINUS { ?s <u:h> <u:x> } }", [["?s <u:p> ?v0"], ["?s <u:h> <u:x>"]]),
        ("SELECT ?s { { ?s <u:p> ?o } UNION { ?s <u:q> ?o } }", [["?s <u:p> ?v0"], ["?s <u:q> ?v1"]]),
        ("SELECT ?s (COUNT(?o) AS ?n) { ?s <u:p> ?o } GROUP BY ?s", [["?s <u:p> ?v0"]]),
        ("ASK { ?s <u:p> ?o FILTER NOT EXISTS { ?o <u:q> ?s } }", [["?v0 <u:p> ?v1"], ["?v1 <u:q> ?v0"]]),
    ],
)
def test_names_are_followed_to_the_leaves_and_a_join_variable_has_one_name(text, spelled):
    assert patterns(text) == spelled


def test_a_conjunctive_query_keeps_the_names_of_its_answers():
    query = ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), ("<p>", "<q>"), (2, 0), ("who", "v0"))
    assert Names(query).leaves == [("v0", "v1", "who")]


EVERYTHING = """
SELECT ?s (SUM(?x) AS ?sum) WHERE {
  VALUES ?s { <u:1> <u:2> }
  { ?s <u:p> ?x } UNION { ?s <u:q>+ ?y OPTIONAL { ?y <u:n> ?x FILTER(?x > 1) } }
  FILTER NOT EXISTS { ?s <u:gone> ?g }
  MINUS { ?s <u:h> ?z . FILTER(?z != ?s) }
  BIND(STR(?s) AS ?text)
} GROUP BY ?s ORDER BY DESC(?sum) LIMIT 3"""


def test_every_operator_is_described_in_a_few_words():
    for text in (EVERYTHING, "CONSTRUCT { ?s <u:x> ?o } WHERE { ?s <u:p> ?o OPTIONAL { ?o <u:q> ?z } }"):
        query = parse_query(text)
        names = Names(query)
        told = {
            type(operator).__name__: names.spell_operator(number) for number, operator in enumerate(query.operators)
        }
        assert all(len(each) <= TEXT_CHARACTERS_MAX for each in told.values())
        if "Slice" in told:
            assert told["Slice"] == "at most 3 after 0 by ?sum descending"
            assert told["Group"] == "by ?s: SUM"
            assert told["Table"] == "2 fixed rows"
            assert told["Closure"].startswith("one or more steps")
            assert told["Minus"].startswith("on ?s")
            assert "not exists" in told["Exists"]
        else:
            assert told["Construct"] == "1 triple"
    assert isinstance(query.operators[-1], algebra.Distinct | algebra.Construct)


def test_texts_are_cut():
    assert spell_pattern((0, ~0, 0), ("<" + "x" * 5000 + ">",), ("a",)).endswith("…> ?a")
    assert len(spell_pattern((~0, ~0, ~0), ('"' + "x" * 5000 + '"',), ())) < 400
    assert len(spell_expression("?v0 = " * 4000, ["?a"])) == TEXT_CHARACTERS_MAX
    assert spell_expression("?v1 > ?v10 && ?v7", ["?a", "?b"]) == "?b > ?v10 && ?v7"
