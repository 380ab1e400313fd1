"""A plan for all elements of a stream meets these alone; other plans without constants meet none of them."""

from __future__ import annotations

import pytest
from store_tables import BOTH_KINDS, Harness, bindings

from p2prdf import hlc
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import qualified, streamed
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.standing.leaves import whole_stream
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.light import LightTables

ANYTHING = ConjunctiveQuery(((0, 1, 2),), (), (0, 1, 2), ("s", "p", "o"))
ELEMENTS = [
    ("<urn:a>", streamed("<urn:p>", "<urn:s>"), "<urn:b>"), ("<urn:a>", streamed("<urn:q>", "<urn:s>"), '"1"'),
    ("<urn:a>", streamed("<urn:p>", "<urn:t>"), "<urn:b>"), ("<urn:a>", streamed("<urn:p>", "<urn:s:s>"), "<urn:b>"),
]  # fmt: skip
OTHERS = [
    ("<urn:a>", qualified("<urn:p>", "<urn:s>"), "<urn:b>"), ("<urn:a>", "<urn:p>", "<urn:b>"),
    ("<urn:a>", "<urn:p>", '"<urn:p> <urn:s>"'),
]  # fmt: skip


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("query", "expected"), [(whole_stream("<urn:s>"), ELEMENTS[:2]), (ANYTHING, OTHERS[1:])], ids=["stream", "anything"]
)
@pytest.mark.parametrize("made", [LightTables, ColumnarTables])
def test_all_elements_of_a_stream_and_nothing_else(made, query, expected, before):
    dictionary = TermDictionary()
    harness = Harness(made(dictionary, compile_filter))

    def publish():
        elements, others = ([*map(dictionary.intern_all, each)] for each in (ELEMENTS, OTHERS))
        found = harness.triples(elements, hlc.element(1000, 7), BOTH_KINDS, 0)
        return found + harness.triples(others, hlc.from_seconds(9.0), BOTH_KINDS, 100)

    found = publish() if before else harness.query(query, dictionary, 1, per_event=True)[1]
    found += harness.query(query, dictionary, 1, per_event=True)[1] if before else publish()
    rows = {tuple(map(dictionary.text, row)): count for row, count in bindings(found).items()}
    assert rows == dict.fromkeys(expected, 1)
