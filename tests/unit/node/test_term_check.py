from __future__ import annotations

import pytest

from p2prdf.columns import ARRAYS
from p2prdf.errors import DataRefused
from p2prdf.rdf import quads
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf_node.term_check import TermCheck

IRI = "<urn:a>"
GOOD_OBJECTS = [
    IRI, '""', '"text"', '"a \\"quoted\\" \\\\ text\\n"', '"é \U0001f600"', '"hallo"@de', '"x"@en-gb',
    '"3"^^<http://www.w3.org/2001/XMLSchema#integer>', '"' + "x" * 1_000_000 + '"',
]  # fmt: skip
NO_TERMS = [
    "a", "<>", "<a b>", "<a>b", "<a<b>", '"', '"a', '"a"b', '"a\nb"', '"a\\x"', '"a"@', '"a"@EN', '"a"^^<>',
    '"a"^^b', "_:b0", "<<( <a> <b> <c> )>>", "<a\\u0041>", '"a\\u00e9"',
]  # fmt: skip


def check(*triples):
    dictionary = TermDictionary()
    columns = [ARRAYS.column(dictionary.intern_all(column), "uint32") for column in zip(*triples, strict=True)]
    TermCheck(dictionary).check(*columns)


@pytest.mark.parametrize("text", GOOD_OBJECTS, ids=range(len(GOOD_OBJECTS)))
def test_canonical_terms_pass(text):
    check((IRI, IRI, text))


@pytest.mark.parametrize("text", NO_TERMS)
def test_a_bad_term_is_refused_by_place_and_name(text):
    for place, triple in (("subject", (text, IRI, IRI)), ("predicate", (IRI, text, IRI)), ("object", (IRI, IRI, text))):
        with pytest.raises(DataRefused) as caught:
            check((IRI, IRI, IRI), triple)
        assert place in str(caught.value)
        assert repr(text) in str(caught.value)


def test_literals_are_objects_only():
    for place, triple in (("subject", ('"x"', IRI, IRI)), ("predicate", (IRI, '"x"', IRI))):
        with pytest.raises(DataRefused, match=f"{place} .* is a literal"):
            check((IRI, IRI, IRI), triple)


def test_graphs_are_iris_or_the_default_graph_and_that_is_no_term_elsewhere():
    for graph in (IRI, "<urn:bnode:f:x>", ""):
        check((IRI, IRI, '"x"', graph), (IRI, IRI, IRI, ""))
    for graph, reason in (('"x"', "is a literal"), ("_:g", "is not a term"), ("urn:g", "is not a term")):
        with pytest.raises(DataRefused, match=f"graph .* {reason}"):
            check((IRI, IRI, IRI, ""), (IRI, IRI, IRI, graph))
    for place in range(3):
        with pytest.raises(DataRefused, match="'' is not a term"):
            check(tuple("" if at == place else IRI for at in range(4)))


@pytest.mark.parametrize("text", [quads.qualified(IRI, IRI), quads.OF, '"x"^^<urn:p2prdf:whatever>'])
def test_terms_that_stand_for_statements_of_graphs_are_refused_wherever_a_client_puts_them(text):
    for place in ("subject", "predicate", "object", "graph"):
        row = [IRI, IRI, IRI, IRI]
        row[("subject", "predicate", "object", "graph").index(place)] = text
        with pytest.raises(DataRefused) as caught:
            check((IRI, IRI, IRI, IRI), tuple(row))
        assert str(caught.value) == f"{place} {text!r} has a datatype that is reserved: <urn:p2prdf:...>"
    check((IRI, IRI, '"\\"^^<urn:p2prdf:in>"', IRI))  # text that only mentions it


def test_terms_interned_after_a_check_are_checked_too():
    dictionary = TermDictionary()
    terms = TermCheck(dictionary)
    for number in range(3):
        good, bad = dictionary.intern_all([f"<urn:good:{number}>", f"<urn: bad:{number}>"])
        terms.check([good], [good], [good])
        with pytest.raises(DataRefused, match=f"bad:{number}"):
            terms.check([good], [good], [bad])


def test_columns_must_be_of_one_length():
    dictionary = TermDictionary()
    term = ARRAYS.column([dictionary.intern(IRI)], "uint32")
    with pytest.raises(DataRefused, match="different length: 1, 1, 0"):
        TermCheck(dictionary).check(term, term, term[:0])
    with pytest.raises(DataRefused, match="different length: 1, 1, 1, 0"):
        TermCheck(dictionary).check(term, term, term, term[:0])


def test_a_long_bad_term_is_not_repeated_in_full():
    with pytest.raises(DataRefused) as caught:
        check((IRI, IRI, "<" + "a " * 100_000 + ">"))
    assert len(str(caught.value)) < 400
