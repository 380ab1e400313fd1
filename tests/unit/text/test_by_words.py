"""The keywords of a condition, and the patterns that wait under keywords."""

from __future__ import annotations

import random

import pytest
from text_workloads import random_condition, random_literal

from p2prdf.errors import QueryRefused
from p2prdf.rdf import quads
from p2prdf.rdf.fulltext import condition_holds, parse_condition, text_of
from p2prdf.rdf.query import ConjunctiveQuery, Filter
from p2prdf.rdf.spelling import spell_pattern
from p2prdf.rdf.standing.query import parse_query
from p2prdf.text.by_words import by_words, selective_words

P, Q = "<urn:p>", "<urn:q>"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ('"olympic" ftAND "games"', ("olympic",)),
        ('"the" ftAND "of" ftAND "rio"', ("rio",)),  # a short word before one without keywords
        ('"whatever" ftAND "before"', ("whatever",)),
        ('"through the night"', ("night",)),
        ('"red teas" ftOR "teapot"', ("teapot", "teas")),
        ('("green" ftOR "blue") ftAND "teapot"', ("teapot",)),
        ('"red" ftOR ("red" ftAND "a")', ("red",)),
        ('"teapot" ftNEAR[0,2] "rio"', ("teapot",)),
        ('"teapot" ftAND ftNOT "hippopotamus"', ("teapot",)),
        ('"tea" ftAND "hippo*"', ("tea",)),
        ('"tea", "en"', ("tea",)),
        ('"tea" ftAND ("games" using stemming), "en"', ("tea",)),
        ('"games" using stemming, "en"', ()),
        ('"tea*"', ()),
        ('ftNOT "tea"', ()),
        ('"tea" ftOR "rio*"', ()),
        ('ftSIMILAR[1] "tea"', ("tea",)),
        (" ftAND ".join(f'("a{n}" ftOR "b{n}")' for n in range(5)) + ' ftAND "tea"', ("tea",)),
        (" ftAND ".join(f'("a{n}" ftOR "b{n}")' for n in range(5)), ()),
    ],
)  # fmt: skip
def test_of_each_alternative_the_most_telling_word_is_chosen(condition, words):
    assert selective_words(parse_condition(condition)) == words


def test_every_text_that_satisfies_a_condition_has_one_of_its_words():
    rng = random.Random(1)
    chosen = satisfied = 0
    for _ in range(600):
        condition = random_condition(rng)
        words = selective_words(condition)
        chosen += bool(words)
        for _ in range(20):
            text = text_of(random_literal(rng))
            if words and text is not None and condition_holds(condition, text):
                satisfied += 1
                assert not set(words).isdisjoint(text.words), (str(condition), text.words)
    assert chosen > 200
    assert satisfied > 500


def conjunctive(body: str) -> ConjunctiveQuery:
    query = parse_query(f"SELECT * WHERE {{ {body} }}").conjunctive
    assert query is not None
    return query


def predicates(query: ConjunctiveQuery) -> list[str]:
    return [query.constants[~p] if p < 0 else "?" for _, p, _ in query.patterns]


@pytest.mark.parametrize(
    ("body", "waiting"),
    [
        (f'?s {P} ?t FILTER ftcontains(?t, "tea")', [quads.worded(P, ["tea"])]),
        (f'?s {P} ?t FILTER ftcontains(?t, "red" ftOR "tea")', [quads.worded(P, ["tea", "red"])]),
        (f'?s {P} ?t FILTER(ftcontains(?t, "tea") && ftcontains(?t, "red" ftOR "rio"))', [quads.worded(P, ["tea"])]),
        (
            f'?s {P} ?t FILTER ftcontains(?t, "tea") ?s {Q} ?u FILTER ftcontains(?u, "rio")',
            [quads.worded(P, ["tea"]), quads.worded(Q, ["rio"])],
        ),
        (f'?s {P} ?t . ?s {Q} ?u FILTER ftcontains(?u, "rio")', [P, quads.worded(Q, ["rio"])]),
        (f'?s {P} ?t . ?r {Q} ?t FILTER ftcontains(?t, "rio")', [P, Q]),  # its value may be known before
        (f'<urn:s> {P} ?t FILTER ftcontains(?t, "tea")', [P]),
        ('?s ?p ?t FILTER ftcontains(?t, "tea")', ["?"]),
        (f'GRAPH <urn:g> {{ ?s {P} ?t FILTER ftcontains(?t, "tea") }}', [quads.qualified(P, "<urn:g>")]),
        (f'?s {P} ?t FILTER(ftcontains(?t, "tea") || ?s = <urn:s>)', [P]),
        (f'?s {P} ?t FILTER ftcontains(?t, ftNOT "tea")', [P]),
    ],
)  # fmt: skip
def test_a_pattern_waits_by_words_where_every_text_it_wants_has_one(body, waiting):
    query = conjunctive(body)
    found = by_words(query)
    assert isinstance(found, ConjunctiveQuery)
    assert predicates(found) == waiting
    assert (found.filters, found.answer, found.names) == (query.filters, query.answer, query.names)
    assert list(found.constants) == list(dict.fromkeys(found.constants))
    assert found is query or waiting != predicates(query)


def test_a_keyword_predicate_is_recognised_and_spelled_as_its_condition():
    term = quads.worded(P, ["tea", "green"])
    assert quads.word_parts_of(term) == (P, ("green", "tea"))
    assert quads.is_reserved(term)
    for other in (quads.qualified(P, "<urn:g>"), quads.streamed(P, "<urn:g>"), P, '"tea"'):
        assert quads.word_parts_of(other) is None
    assert spell_pattern((0, ~0, 1), (term,), ("s", "t")) == f"?s {P} ?t with green or tea"


def test_constants_keep_their_order_of_occurrence():
    """Equal queries must have the same coordinator."""
    found = by_words(conjunctive(f'?s {P} <urn:o> . ?s {P} ?t . ?s {Q} <urn:o> FILTER ftcontains(?t, "tea")'))
    assert isinstance(found, ConjunctiveQuery)
    assert found.constants == (P, "<urn:o>", quads.worded(P, ["tea"]), Q)


def test_leaves_of_a_standing_query_wait_by_words_but_not_beside_a_window():
    text = f'SELECT * WHERE {{ ?s {P} ?t FILTER ftcontains(?t, "tea") OPTIONAL {{ ?s {Q} ?u }} }}'
    query = parse_query(text)
    found = by_words(query)
    assert found != query
    assert [predicates(leaf) for leaf in found.leaves] == [[quads.worded(P, ["tea"])], [Q]]
    windowed = parse_query(
        f'REGISTER RSTREAM <urn:out> AS SELECT * FROM NAMED WINDOW <urn:w> ON <urn:in> [RANGE PT1M STEP PT1M] '
        f'WHERE {{ ?s {P} ?t FILTER ftcontains(?t, "tea") WINDOW <urn:w> {{ ?s {Q} ?x }} }}'
    )
    assert by_words(windowed) is windowed


def test_a_predicate_that_is_not_allowed_stays_as_it_is():
    query = conjunctive(f'?s {P} ?t FILTER ftcontains(?t, "tea")')
    asked = []
    assert by_words(query, lambda predicate: bool(asked.append(predicate))) is query
    assert asked == [quads.worded(P, ["tea"])]


def test_a_bad_condition_is_refused():
    query = conjunctive(f'?s {P} ?t FILTER ftcontains(?t, "tea")')
    wrong = Filter(query.filters[0].text.replace("tea", "ftAND"), query.filters[0].variables).text.replace('\\"', "")
    broken = ConjunctiveQuery(query.patterns, query.constants, (0,), ("s",), filters=(Filter(wrong, (1,)),))
    with pytest.raises(QueryRefused):
        by_words(broken)
