"""Labels by language: both forms of the label service, its choice among labels, and refusals by name."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from algebra.leaves import Home

from p2prdf.errors import QueryRefused
from p2prdf.interest.expression import parse_interest
from p2prdf.rdf import algebra
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.form import decode, encode
from p2prdf.rdf.standing.labels import LANGUAGES_MAX
from p2prdf.rdf.standing.query import parse_query

P = """PREFIX : <http://e.org/> PREFIX wikibase: <http://wikiba.se/ontology#> PREFIX bd: <http://www.bigdata.com/rdf#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX skos: <http://www.w3.org/2004/02/skos/core#>
PREFIX schema: <http://schema.org/> """
SERVICE = 'SERVICE wikibase:label { bd:serviceParam wikibase:language "[AUTO_LANGUAGE],de,en" . }'
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
DESCRIPTION = "<http://schema.org/description>"
ALIAS = "<http://www.w3.org/2004/02/skos/core#altLabel>"
KIND, OF = "<http://e.org/kind>", "<http://e.org/of>"
A, B, C = "<http://e.org/a>", "<http://e.org/b#c>", "<urn:x:z>"
DATA: list[tuple[str, str, str]] = [
    (A, KIND, '"k"'), (B, KIND, '"k"'), (C, KIND, '"k"'), (A, OF, B),
    (A, LABEL, '"apple"@en'), (A, LABEL, '"Apfel"@de'), (A, LABEL, '"Appel"@de'), (A, LABEL, '"pomme"@fr'),
    (B, LABEL, '"bean"@en'), (B, LABEL, '"plain"'), ("<http://e.org/other>", LABEL, '"other"@de'),
    (A, DESCRIPTION, '"a fruit"@en'), (A, ALIAS, '"malus"@en'), (A, ALIAS, '"pome"@en'),
]  # fmt: skip


def test_the_example_of_the_documents_is_taken() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "semantics.md").read_text()
    _, _, example = page.partition("### Labels by language")[2].partition("```sparql\n")
    assert parse_query(example.partition("```")[0]).names == ("item", "itemLabel", "itemDescription")


def home(text: str) -> Home:
    query = parse_query(P + text)
    assert decode(encode(query)) == query
    return Home(query, random.Random(1))


def rows(text: str, data: list[tuple[str, str, str]] = DATA) -> Counter[tuple[str | None, ...]]:
    found = home(text)
    found.change(data)
    return +found.rows


def test_a_label_is_of_the_first_language_that_has_one_and_else_the_local_name() -> None:
    assert rows(f'SELECT ?x ?xLabel {{ ?x :kind "k" {SERVICE} }}') == {
        (A, '"Apfel"@de'): 1, (B, '"bean"@en'): 1, (C, '"z"'): 1,
    }  # fmt: skip


def test_descriptions_and_aliases_are_unbound_without_any() -> None:
    text = f'SELECT ?x ?xDescription ?xAltLabel {{ ?x :kind "k" {SERVICE} }}'
    assert rows(text) == {(A, '"a fruit"@en', '"malus, pome"@en'): 1, (B, None, None): 1, (C, None, None): 1}


def test_the_explicit_form_names_the_variables() -> None:
    service = SERVICE.replace(" }", " ?x rdfs:label ?name ; schema:description ?text . :a skos:altLabel ?other }")
    assert rows(f'SELECT ?name ?text ?other {{ {service} ?x :kind "k" FILTER(?x = :a) }}') == {
        ('"Apfel"@de', '"a fruit"@en', '"malus, pome"@en'): 1
    }


def test_labels_follow_the_data() -> None:
    found = home(f'SELECT ?x ?xLabel {{ ?x :kind "k" {SERVICE} }}')
    kept = [each for each in DATA if each[2] not in ('"Apfel"@de', '"bean"@en')]
    found.change(DATA)
    found.change(kept)
    assert +found.rows == {(A, '"Appel"@de'): 1, (B, '"c"'): 1, (C, '"z"'): 1}
    found.change([*kept, (C, LABEL, '"cherry"@en')])
    assert +found.rows == {(A, '"Appel"@de'): 1, (B, '"c"'): 1, (C, '"cherry"@en'): 1}
    found.check_output()


def test_an_unbound_term_has_no_label_and_a_literal_has_its_text() -> None:
    assert rows(f'SELECT ?x ?yLabel ?kLabel {{ ?x :kind ?k OPTIONAL {{ ?x :of ?y }} {SERVICE} }}') == {
        (A, '"bean"@en', '"k"'): 1, (B, None, '"k"'): 1, (C, None, '"k"'): 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'SELECT ?x (COUNT(*) AS ?n) ?xLabel {{ ?x :kind "k" {} }} GROUP BY ?x ?xLabel',
        'SELECT ?x (COUNT(*) AS ?n) ?xLabel {{ {{ SELECT ?x {{ ?x :kind "k" }} }} {} }} GROUP BY ?x ?xLabel',
        'SELECT ?x ?n ?xLabel {{ {{ SELECT ?x (COUNT(*) AS ?n) {{ ?x :kind "k" }} GROUP BY ?x }} {} }}',
        'SELECT ?x ?n ?xLabel {{ {{ ?x :kind ?k }} UNION {{ VALUES ?x {{ :y }} ?x :kind ?k }} VALUES ?n {{ 1 }} {} }}',
        "SELECT ?x ?n ?xLabel {{ VALUES ?x {{ :a <http://e.org/b#c> <urn:x:z> }} VALUES ?n {{ 1 }} {} }}",
    ],
)  # fmt: skip
def test_the_service_works_beside_groups_unions_and_fixed_values(text: str) -> None:
    one = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    expected = {(A, one, '"Apfel"@de'): 1, (B, one, '"bean"@en'): 1, (C, one, '"z"'): 1}
    assert rows(text.format(SERVICE)) == expected


def test_a_condition_on_a_label_and_a_constructed_label_are_possible() -> None:
    assert rows(f'SELECT ?x {{ ?x :kind "k" {SERVICE} FILTER(STRSTARTS(?xLabel, "A")) }}') == {(A,): 1}
    found = rows(f'CONSTRUCT {{ ?x :named ?xLabel }} {{ ?x :kind "k" {SERVICE} }}')
    assert (A, "<http://e.org/named>", '"Apfel"@de') in found


def test_a_variable_that_the_group_binds_itself_is_left_alone() -> None:
    assert rows(f"SELECT ?x ?xLabel {{ ?x :of ?xLabel {SERVICE} }}") == {(A, B): 1}
    assert rows(f"SELECT ?yLabel {{ ?x :of ?z {SERVICE} }}") == {(None,): 1}


def test_labels_of_a_graph_are_those_in_it() -> None:
    found = home(f"SELECT ?x ?xLabel {{ GRAPH ?g {{ ?x :of ?y {SERVICE} }} }}")
    g, h = "<http://e.org/g>", "<http://e.org/h>"
    found.change([(A, OF, B, g), (A, OF, B, h), (A, LABEL, '"in g"@en', g), (A, LABEL, '"outside"@de')])
    assert +found.rows == {(A, '"in g"@en'): 1, (A, '"a"'): 1}


def test_the_terms_of_a_stream_have_the_labels_of_the_default_graph() -> None:
    query = parse_query(P + f"SELECT ?x ?xLabel FROM STREAM <urn:s> [RANGE 1m] {{ ?x :of ?y {SERVICE} }}")
    leaves = [type(each) for each in query.operators if isinstance(each, algebra.Leaf)]
    assert leaves == [algebra.Windowed, algebra.Leaf]


def test_only_labels_of_terms_that_the_query_can_reach_are_asked_for() -> None:
    text = f"SELECT ?xLabel ?yLabel ?zLabel {{ VALUES ?z {{ :a :b }} ?x :kind ?z OPTIONAL {{ ?x :of ?y }} {SERVICE} }}"
    labels = [leaf for leaf in parse_query(P + text).leaves if LABEL in leaf.constants]
    assert len(labels) == 3
    assert all(len(leaf.patterns) > 1 or len(leaf.filters) > 1 for leaf in labels)


@pytest.mark.parametrize("silent", ["", "SILENT "])
@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ("bd:serviceParam wikibase:limit 5", "is not supported, only wikibase:language"),
        ("bd:serviceParam wikibase:language ?l", "takes a string of language tags"),
        ("?x rdfs:comment ?c", "it has no <http://www.w3.org/2000/01/rdf-schema#comment>"),
        ('?x rdfs:label "a"', "is no variable for the label"),
        ("?other rdfs:label ?l", "?other has no value in the group of the service"),
        ("?x rdfs:label ?k", "?k is bound already"),
        (f'bd:serviceParam wikibase:language "{",".join(f"a-{at}" for at in range(LANGUAGES_MAX + 1))}"', "more than"),
    ],
)
def test_other_uses_are_refused_with_their_reason(inside: str, reason: str, silent: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        parse_query(P + f"SELECT * {{ ?x :kind ?k SERVICE {silent}wikibase:label {{ {inside} }} }}")
    assert caught.value.construct == "SERVICE wikibase:label"
    assert reason in caught.value.reason
    assert caught.value.line == 3


def test_readers_of_smaller_languages_refuse_the_service() -> None:
    for parse in (parse_select, parse_interest):
        with pytest.raises(QueryRefused) as caught:
            parse(P + f"SELECT * {{ ?x :kind ?k {SERVICE} }}")
        assert caught.value.construct == "SERVICE"


def test_without_languages_labels_are_english() -> None:
    assert rows('SELECT ?xLabel { ?x :of ?y SERVICE wikibase:label { } }') == {('"apple"@en',): 1}
    assert rows('SELECT ?xLabel { ?x :of ?y SERVICE wikibase:label { bd:serviceParam wikibase:language "" } }') == {
        ('"apple"@en',): 1
    }


def test_many_labels_in_many_languages_are_taken() -> None:
    languages = ",".join(f"x{number}" for number in range(60))
    many = SERVICE.replace('de,en"', f'{languages},de,en"')
    parts = " ".join(f"OPTIONAL {{ ?x :of{number} ?y{number} }}" for number in range(6))
    text = f'SELECT ?xLabel {" ".join(f"?y{number}Label" for number in range(6))} {{ ?x :kind "k" {parts} {many} }}'
    assert rows(text)['"Apfel"@de', *[None] * 6] == 1


def test_unknown_values_of_wikidata_are_blank_nodes() -> None:
    text = "SELECT ?x {{ ?x :kind ?k FILTER(!{0}(?x)) }}"
    assert parse_query(P + text.format("wikibase:isSomeValue")) == parse_query(P + text.format("isBLANK"))
