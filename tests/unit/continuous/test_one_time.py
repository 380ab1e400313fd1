"""One-time queries over triples read by key, with few or many triples per key, are answered as by the oracle."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from p2prdf import keys
from p2prdf.continuous.one_time import KEYS_MAX, ROWS_MAX, Reading, TooLarge, evaluated, is_readable
from p2prdf.errors import QueryRefused
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.standing.query import parse_query
from p2prdf_lab.workloads.random_queries import draw_triples, draw_vocabulary
from schedules.standing import draw_standing, standing_answers


def understood(text):
    standing = parse_query(text)
    simple = standing.conjunctive
    return standing if simple is None or simple.distinct else simple


def answer(query, triples, most=1 << 20):
    """Return the bag of answers, and the number of rounds; a key with more than ``most`` triples is left out."""
    dictionary = TermDictionary()
    stored = [tuple(dictionary.intern_all(triple)) for triple in triples]
    reading, rounds = Reading(query, dictionary), 0
    while wanted := reading.next_keys():
        rounds += 1
        for role, *parts in wanted:
            places = [at for at, bit in enumerate((keys.S, keys.P, keys.O)) if role & bit]
            found = [each for each in stored if all(each[at] == parts[at] for at in places)]
            reading.take((role, *parts), [(each, 1) for each in found] if len(found) <= most else None)
    *_, last = evaluated(query, reading, dictionary, 1)
    assert len(set(last.identity)) == len(last.identity)
    rows = zip(*last.bindings, strict=True) if last.bindings else [()] * len(last.identity)
    return Counter(tuple(dictionary.texts(row)) for row in rows), rounds


@pytest.mark.parametrize("seed", range(120))
def test_random_queries_are_answered_as_by_the_oracle(seed):
    rng = Random(seed)
    vocabulary = draw_vocabulary(rng)
    triples = draw_triples(rng, vocabulary, 25)
    query = understood(draw_standing(rng, triples, vocabulary))
    if not is_readable(query):
        return
    expected = standing_answers(query, triples)
    for most in (1 << 20, 3):
        try:
            assert answer(query, triples, most)[0] == expected
        except TooLarge:  # a pattern without constants shares no variable, or a key has too many triples
            continue


def test_most_of_the_random_queries_can_be_read():
    read = 0
    for seed in range(60):
        rng = Random(seed)
        vocabulary = draw_vocabulary(rng)
        triples = draw_triples(rng, vocabulary, 25)
        query = understood(draw_standing(rng, triples, vocabulary))
        try:
            read += is_readable(query) and answer(query, triples)[1] > 0
        except TooLarge:
            continue
    assert read > 30


CHAIN = [(f"<urn:s{at}>", "<urn:p>", f"<urn:s{at + 1}>") for at in range(100)]


def test_patterns_without_constants_are_read_by_the_values_of_the_others():
    query = understood("SELECT ?z WHERE { <urn:s5> ?p ?x . ?x ?q ?y . ?y ?r ?z }")
    assert answer(query, CHAIN) == (Counter([("<urn:s8>",)]), 3)


def test_a_key_with_too_many_triples_is_read_by_the_values_of_the_other_patterns():
    query = understood("SELECT ?x ?y WHERE { <urn:s5> <urn:p> ?x . ?x <urn:p> ?y }")
    assert answer(query, CHAIN, most=10) == (Counter([("<urn:s6>", "<urn:s7>")]), 2)


def test_a_pattern_without_variables_is_read_by_two_of_its_terms():
    assert answer(understood("ASK { <urn:s5> <urn:p> <urn:s6> }"), CHAIN)[0].total() == 1
    assert answer(understood("ASK { <urn:s5> <urn:p> <urn:s7> }"), CHAIN)[0].total() == 0


def test_more_than_the_bounds_is_refused():
    product = understood("SELECT * WHERE { ?a <urn:p> ?b . ?c <urn:p> ?d . ?e <urn:p> ?f }")
    with pytest.raises(TooLarge):
        answer(product, CHAIN)
    optional = understood("SELECT * WHERE { ?a <urn:p> ?b OPTIONAL { ?c <urn:p> ?d OPTIONAL { ?e <urn:p> ?f } } }")
    with pytest.raises(TooLarge):
        answer(optional, CHAIN)
    all_left_out = understood("SELECT * WHERE { ?a <urn:p> ?b }")
    with pytest.raises(TooLarge):
        answer(all_left_out, CHAIN, most=10)
    many = [(f"<urn:s{at}>", "<urn:p>", f"<urn:o{at}>") for at in range(KEYS_MAX + 1)]
    with pytest.raises(TooLarge):
        answer(understood("SELECT * WHERE { ?a <urn:p> ?b . ?b ?q ?c }"), many)
    assert ROWS_MAX > KEYS_MAX


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("SELECT * WHERE { ?s <urn:p> ?o OPTIONAL { ?o <urn:q> ?x } }", True),
        ("SELECT (COUNT(*) AS ?n) WHERE { ?s <urn:p> ?o }", True),
        ("SELECT * WHERE { GRAPH <urn:g> { ?s <urn:p> ?o } }", True),
        ("SELECT * WHERE { ?s ?p ?o }", False),
        ("SELECT * WHERE { <urn:s> <urn:p> ?o { ?s ?p ?x } UNION { ?x ?p ?s } }", False),
    ],
)
def test_a_query_without_any_constant_in_a_part_cannot_be_read(text, readable):
    assert is_readable(understood(text)) == readable


def test_a_syntax_error_is_not_answered():
    with pytest.raises(QueryRefused):
        understood("SELECT")
