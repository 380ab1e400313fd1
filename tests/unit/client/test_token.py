"""Resume tokens, and the query that each of them belongs to."""

from __future__ import annotations

import hashlib

import pytest

from p2prdf.client.token import Token, canonical_query, query_mark
from p2prdf.errors import TokenMismatch

QUERY = "PREFIX x: <urn:x:> SELECT ?s { ?s x:goals 3 }"
SAME = (
    QUERY,
    "SELECT ?s\n{ ?s <urn:x:goals> 3 } # every scorer of three",
    "prefix : <urn:x:> select $s { $s :goals 3 }",
    "SELECT ?s { ?s <urn:x:goals> '3'^^<http://www.w3.org/2001/XMLSchema#integer> }",
)
OTHER = (
    "SELECT ?s { ?s <urn:x:goals> 4 }",
    "SELECT ?s { ?s <urn:x:goals> '3' }",
    "SELECT ?o { ?s <urn:x:goals> ?o }",
    "SELECT ?s { GRAPH <urn:g> { ?s <urn:x:goals> 3 } }",
    "ASK { ?s <urn:x:goals> 3 }",
    "SELECT DISTINCT ?s { ?s <urn:x:goals> 3 }",
    "SELEKT nonsense {",
    "",
)


def token(mark):
    return Token.decode(Token(mark, 7, 3, 0, (1, 2)).encode())


def of_version_0_1(query, algorithm="csbv", per_event=False):
    text = f"{algorithm}\n{per_event}\n{query}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") | 1


@pytest.mark.parametrize("query", SAME)
def test_token_is_taken_with_every_spelling_of_its_query(query):
    token(query_mark(QUERY, "csbv", per_event=False)).check(query, "csbv", per_event=False)


@pytest.mark.parametrize("query", OTHER)
def test_token_of_another_query_is_refused_with_a_remedy(query):
    with pytest.raises(TokenMismatch, match=r"subscription 0{15}7 of another query: resume with the query"):
        token(query_mark(QUERY, "csbv", per_event=False)).check(query, "csbv", per_event=False)


@pytest.mark.parametrize(("algorithm", "per_event"), [("cqc", False), ("csbv", True)])
def test_token_of_another_algorithm_or_way_of_counting_is_refused(algorithm, per_event):
    with pytest.raises(TokenMismatch):
        token(query_mark(QUERY, "csbv", per_event=False)).check(QUERY, algorithm, per_event=per_event)


def test_token_of_version_0_1_is_taken_with_the_text_it_was_made_for_alone():
    token(of_version_0_1(QUERY)).check(QUERY, "csbv", per_event=False)
    with pytest.raises(TokenMismatch):
        token(of_version_0_1(QUERY)).check(SAME[1], "csbv", per_event=False)


def test_token_of_an_attachment_by_number_names_no_query():
    token(0).check(OTHER[0], "csbv", per_event=False)


def test_rules_belong_to_a_query():
    rules = "PREFIX x: <urn:x:> RULES { ?a x:in ?c :- ?a x:in ?b , ?b x:in ?c . } SELECT * { ?a x:in ?b }"
    assert canonical_query(rules) == canonical_query(rules.replace(" ", "\n"))
    assert canonical_query(rules) != canonical_query("PREFIX x: <urn:x:> SELECT * { ?a x:in ?b }")
    assert canonical_query(rules) != canonical_query(rules.replace("?a x:in ?c", "?c x:in ?a"))


def test_terms_and_words_that_look_alike_are_other_queries():
    texts = [
        "SELECT ?s { ?s ?p 'a b' }", "SELECT ?s { ?s ?p 'a  b' }", "SELECT ?s { ?s ?p 'A b' }",
        "SELECT ?s { ?s ?p 'a b'@en }", "SELECT ?s { ?s ?p <urn:a> }", "SELECT ?s { ?s ?p '<urn:a>' }",
        "SELECT ?s { ?s ?p 1.0 }", "SELECT ?s { ?s ?p 1 }", "SELECT ?S { ?S ?p 1 }",
    ]  # fmt: skip
    assert len({canonical_query(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("settled", [False, True])
def test_token_tells_whether_its_subscription_is_settled(settled):
    made = Token(1, 2, 3, 0, (4, 5), settled)
    assert Token.decode(made.encode()) == made
    assert Token.decode(made.encode()).settled is settled
