"""The terms that index named graphs: made, taken apart, and distinguished from all others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quads_as_triples import as_triples

from p2prdf.rdf import quads, terms

P, Q, G = "<urn:p>", "<urn:q>", "<urn:g>"
IRIS = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1).map(lambda text: f"urn:{text}").filter(
    lambda text: not set(text) & set('<>"{}|^`\\') and all(ord(c) > 0x20 and not 0x7F <= ord(c) < 0xA0 for c in text)
)


@given(IRIS, IRIS)
def test_a_qualified_predicate_is_a_canonical_literal_and_comes_apart_again(p: str, g: str) -> None:
    predicate, graph = f"<{p}>", f"<{g}>"
    term = quads.qualified(predicate, graph)
    assert terms.parse_term(term) == term
    assert terms.kind(term) is terms.Kind.LITERAL
    assert quads.is_reserved(term)
    assert not quads.is_directory(term)
    assert quads.parts_of(term) == (predicate, graph)
    assert quads.graph_of(term) == graph


def test_the_directorys_terms_are_its_own() -> None:
    for term, predicate in ((quads.directory_term(P), P), (quads.OF, None)):
        assert terms.parse_term(term) == term
        assert quads.is_reserved(term)
        assert quads.is_directory(term)
        assert quads.parts_of(term) is None
        assert quads.graph_of(term) == quads.DEFAULT
        assert quads.predicate_of(term) == predicate
    assert len({quads.OF, quads.directory_term(P), quads.directory_term(Q), quads.qualified(P, G)}) == 4


@pytest.mark.parametrize(
    "term",
    [
        P, "?x", "", '"<urn:p> <urn:g>"', '"<urn:p> <urn:g>"@en', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
        '"\\"^^<urn:p2prdf:in>"', '"\\"^^<urn:p2prdf:in>"^^<urn:other>', "<urn:p2prdf:in>", '"x"^^<urn:p2prd>',
    ],
)  # fmt: skip
def test_no_other_term_is_taken_for_a_reserved_one(term: str) -> None:
    assert not quads.is_reserved(term)
    assert not quads.is_directory(term)
    assert quads.parts_of(term) is None
    assert quads.predicate_of(term) is None


def test_each_statement_is_one_triple_and_the_directory_says_each_thing_once() -> None:
    statements = [("<a>", P, "<b>", G), ("<a>", P, '"1"', ""), ("<b>", P, "<c>", G), ("<a>", Q, "<b>", "<urn:h>")]
    triples, directory = as_triples(statements)
    pg, qh = quads.qualified(P, G), quads.qualified(Q, "<urn:h>")
    assert triples == [("<a>", pg, "<b>"), ("<a>", P, '"1"'), ("<b>", pg, "<c>"), ("<a>", qh, "<b>")]
    dp, dq = quads.directory_term(P), quads.directory_term(Q)
    assert directory == [(pg, dp, G), (dp, quads.OF, P), (qh, dq, "<urn:h>"), (dq, quads.OF, Q)]
    assert as_triples(statements, removed=True) == (triples, [])
