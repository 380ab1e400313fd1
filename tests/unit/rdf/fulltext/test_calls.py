"""Full-text conditions stand in queries, standing and conjunctive, as other conditions do."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf.algebra import Extend
from p2prdf.rdf.compiled import compile_expression, compile_filter
from p2prdf.rdf.fulltext import FULL_TEXT, sole_condition
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.form import decode, encode
from p2prdf.rdf.standing.query import parse_query

TEXTS = ['"the Olympic games"', '"winter games"@en', '"jeux d\'hiver"@fr', '"5"^^<urn:t>', "<urn:games>", None]


def where(group):
    return f"PREFIX : <urn:> SELECT ?x ?v WHERE {{ ?x :p ?v . {group} }}"


def held(group):
    """Return which of some terms of ?v pass all conditions of a group that are about it alone."""
    conjunctive, standing = parse_select(where(group)), parse_query(where(group))
    assert standing.leaves[0].filters == conjunctive.filters
    assert decode(encode(standing)).leaves == standing.leaves
    tests = [compile_filter(each) for each in conjunctive.filters]
    return [term for term in TEXTS if all(test([term]) for test in tests)]


@pytest.mark.parametrize(
    ("group", "places"),
    [
        ('FILTER ftcontains(?v, "games")', [0, 1]),
        ('FILTER (?v ftcontains "games")', [0, 1]),
        ('FILTER FTCONTAINS(?v, "games" ftAND ftNOT "winter")', [0]),
        ('FILTER (?v ftContains "games" ftAND ftNOT "winter")', [0]),
        ('FILTER ftcontains(?v, "*", "en") FILTER ftcontains(?v, "ga*")', None),
        ('FILTER ftcontains(?v, "ga*", "en")', [1]),
        ('FILTER ftcontains(?v, "the gaming" using stemming using stop words, "en")', [1]),
        ('FILTER (?v ftcontains "gaming" using stemming)', None),
        ('FILTER ftsimilar(?v, "olympic games", 0.8)', [0]),
        ('FILTER (ftSimilar(?v, "games" using stemming using corpus[9, "games" 3], .5, "en") && lang(?v) = "en")', [1]),
        ('FILTER (!ftsimilar(?v, "olympic games", 0.8) || ?v ftcontains ftSIMILAR[0.8] "olympic games")', [0, 1, 2]),
        ('FILTER ftsimilar(?v, "games", 1.5)', None),
        ('FILTER (ftcontains(?v, "olympic") || ?v ftcontains "jeux")', [0, 2]),
        ('FILTER (?v ftcontains "olympic" ftOR "jeux" || ?v ftcontains ("winter" ftNEAR[0,0] "games"))', [0, 1, 2]),
        ('FILTER (!ftcontains(?v, "games"))', [2]),
        ('FILTER (ftcontains(?v, "games") && lang(?v) = "en")', [1]),
        ('FILTER (?v ftcontains "games" && lang(?v) = "en")', [1]),
        ('FILTER ftcontains(?v, "the" ftNEAR[1,1] "games")', [0]),
        ('FILTER (coalesce(ftcontains(?v, "games"), true))', [0, 1, 3, 4, 5]),
    ],
)
def test_a_condition_holds_of_the_texts_it_holds_of(group, places):
    if places is None:
        with pytest.raises(QueryRefused):
            held(group)
    else:
        assert held(group) == [TEXTS[place] for place in places]


def test_it_is_a_value_too():
    query = parse_query('SELECT ?v ?has { ?x <urn:p> ?v BIND(ftcontains(?v, "games") AS ?has) }')
    (extend,) = (each for each in query.operators if isinstance(each, Extend))
    compute = compile_expression(extend.expression)
    true = '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'
    assert [compute([term]) for term in TEXTS[:2] + TEXTS[3:4]] == [true, true, None]


def test_equal_conditions_are_equal_however_they_are_written():
    queries = [
        parse_select(where(group))
        for group in (
            'FILTER ftcontains(?v, "Olympic" ftAND "games")', 'FILTER (?v ftcontains ("olympic" FTAND ("Games")))',
            "FILTER ftcontains ( ?v , 'OLYMPIC' ftand \"\"\"games\"\"\" )",
        )
    ]  # fmt: skip
    assert queries[0] == queries[1] == queries[2]
    assert FULL_TEXT in queries[0].filters[0].text


def test_prefixes_and_brackets_behind_a_condition_are_the_querys():
    group = 'FILTER (?v ftcontains "a") ?x :q [ :r ?w ] . FILTER ftcontains(?w, "b" ftNEAR[0,2] "c") ?w :s ( 1 2 )'
    assert len(parse_query(where(group)).leaves[0].patterns) == len(parse_select(where(group)).patterns) == 8


@pytest.mark.parametrize(
    ("group", "spelled"),
    [
        ('FILTER ftcontains(?v, "a" ftAND "b\\"c")', ['"a" ftAND "b c"']),
        ('FILTER ((?v ftcontains "a") && ftcontains(?v, "b", "en") && ?x != ?v)', ['"a"', '"b", "en"', None]),
        ('FILTER (ftcontains(?v, "a") || ftcontains(?v, "b"))', [None]),
        ('FILTER (!ftcontains(?v, "a"))', [None]),
        ('FILTER (ftcontains(?v, "a") = true)', [None]),
        ('FILTER ftcontains(?other, "a")', [None]),
    ],
)
def test_a_filter_that_is_one_condition_is_distinguished_from_others(group, spelled):
    found = [sole_condition(each.text) for each in parse_select(where(group)).filters]
    assert [call and str(call[1]) for call in found] == spelled
    assert {call[0] for call in found if call} <= {1}


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ('FILTER ftcontains(?v, "a" ftAND )', "line 1, column 81"),
        ('FILTER ftcontains("x", "a")', "its first argument must be the variable"),
        ("FILTER ftcontains(?v)", "syntax error"),
        ("FILTER (?v ftcontains )", "a string of one or more words"),
        ("FILTER (?v ftcontains", "closes nothing"),
        ('FILTER (?v ftcontains "a" "b")', "ftAND, ftOR, ftNEAR"),
        ('FILTER (?v ftcontains "a", "en")', "syntax error"),
        ("FILTER ftcontains ?v", "in parentheses"),
        ('FILTER (ftcontains(?v, "a" ftNEAR[2,1] "b"))', "line 1"),
        (f'FILTER {FULL_TEXT}(?v, "((")', "syntax error"),
        (f"FILTER {FULL_TEXT}(?v, ?x)", "ftcontains"),
        (f'FILTER {FULL_TEXT}(?v, IRI("a"))', "ftcontains"),
        ('FILTER (?v ftcontains "' + "a " * 300 + '")', "words"),
    ],
)
def test_a_bad_condition_is_refused_at_its_place(group, reason):
    for parse in (parse_select, parse_query):
        with pytest.raises(QueryRefused) as refused:
            parse(where(group))
        assert reason in f"{refused.value.construct} {refused.value}"


def test_a_condition_that_peers_could_not_read_is_refused_where_it_stands():
    """Options written once behind parentheses are repeated for each string."""
    words = " ftOR ".join(f'"{"tea" * 14}{number}"' for number in range(250))
    group = f'FILTER ftcontains(?v, ({words}){{}}, "en")'
    assert parse_query(where(group.format("")))
    with pytest.raises(QueryRefused, match=r"expanded, it has .* bytes, more than 16384") as refused:
        parse_query(where(group.format(" using stemming using stop words")))
    assert refused.value.column == where(group).index("ftcontains") + 1
