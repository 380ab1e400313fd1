"""The dataset of a request takes the place of the FROM clauses of its query."""

from __future__ import annotations

import pytest

from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.rdf.dataset_clauses import with_dataset
from p2prdf.rdf.standing.query import parse_query

WINDOW = "FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 10s STEP 1s]"
USED = "{ WINDOW <urn:w> { ?s <urn:p> ?o } ?s <urn:q> 1 }"
GIVEN = "FROM <urn:d> FROM NAMED <urn:n>"


def replaced(text, default=("urn:d",), named=("urn:n",), bytes_max=10_000):
    return with_dataset(text, default, named, bytes_max=bytes_max)


@pytest.mark.parametrize(("text", "equal"), [
    ("ASK { ?s ?p ?o }", f"ASK {GIVEN} {{ ?s ?p ?o }}"),
    ("ASK FROM <urn:x>\n FROM NAMED <urn:y> { ?s ?p ?o }", f"ASK {GIVEN} {{ ?s ?p ?o }}"),
    ("SELECT (EXISTS { ?s ?p 1 } AS ?x) WHERE { ?s ?p ?o }",
     f"SELECT (EXISTS {{ ?s ?p 1 }} AS ?x) {GIVEN} {{ ?s ?p ?o }}"),
    ("PREFIX from: <urn:> CONSTRUCT { ?s ?p ?o } FROM from:g { ?s ?p ?o }",
     f"CONSTRUCT {{ ?s ?p ?o }} {GIVEN} {{ ?s ?p ?o }}"),
    ("CONSTRUCT FROM <urn:g> WHERE { ?s ?p ?o }", f"CONSTRUCT {GIVEN} WHERE {{ ?s ?p ?o }}"),
    ("SEL\\u0045CT * # FROM <urn:x>\n{ ?s ?p 'FROM' }", f"SELECT * {GIVEN} {{ ?s ?p 'FROM' }}"),
    (f"SELECT * {WINDOW} FROM <urn:x> {USED}", f"SELECT * {WINDOW} {GIVEN} {USED}"),
])  # fmt: skip
def test_clauses_for_graphs_are_replaced_and_those_for_streams_stay(text, equal):
    assert parse_query(replaced(text)) == parse_query(equal)


def test_lines_of_the_query_keep_their_numbers():
    with pytest.raises(QueryRefused, match="line 4") as refused:
        parse_query(replaced("ASK\nFROM\n<urn:x> {\n ?s ?p }"))
    assert refused.value.line == 4


def test_a_text_without_a_form_is_left_to_the_parser():
    assert replaced("{ ?s ?p ?o }") == "{ ?s ?p ?o }"


def test_names_are_absolute_iris_and_texts_are_bounded():
    for name in ("no iri", "g", "urn:x> { } #", "urn:x\\u003E"):
        with pytest.raises(DataRefused):
            replaced("ASK { }", default=(name,))
    with pytest.raises(QueryRefused, match="more than 20"):
        replaced("ASK { ?s ?p ?o . ?a ?b ?c }", bytes_max=20)
