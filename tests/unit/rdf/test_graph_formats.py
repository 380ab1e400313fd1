"""Graphs in RDF/XML and JSON-LD: a foreign parser reads back the triples written."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf import graph_formats, terms
from p2prdf.rdf.graph_formats import GraphFormat, respelled

LINES = """\
<urn:a> <urn:p#x> "1\\r\\n<&>\\"]]>"@de-AT .
<urn:a> <urn:p#x> "2"^^<http://www.w3.org/2001/XMLSchema#integer> .
<urn:a> <urn:p#y> _:7-x .
_:7-x <urn:p#y> _:b7-x .
"""


@pytest.mark.parametrize(("wanted", "syntax"), [
    (GraphFormat.RDF_XML, ox.RdfFormat.RDF_XML), (GraphFormat.JSON_LD, ox.RdfFormat.JSON_LD),
])  # fmt: skip
def test_written_graphs_read_back_equal(wanted, syntax):
    expected, found = (ox.Dataset(ox.parse(each, format=kind)) for each, kind in (
        (LINES, ox.RdfFormat.N_TRIPLES), (respelled(LINES, wanted), syntax),
    ))  # fmt: skip
    for each in (expected, found):
        each.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    assert found == expected
    assert len(found) == 4


def test_unwritable_terms_are_refused(monkeypatch):
    for predicate in ("urn:p#1", "urn:p?", "http://x/"):
        with pytest.raises(DataRefused, match="predicate with this ending"):
            respelled(f'<urn:a> <{predicate}> "x" .\n', GraphFormat.RDF_XML)
        assert predicate.encode() in respelled(f'<urn:a> <{predicate}> "x" .\n', GraphFormat.JSON_LD)
    for predicate in ("li", "Description", "about", "RDF"):
        with pytest.raises(DataRefused, match="cannot be written"):
            respelled(f'<urn:a> <{terms.RDF}{predicate}> "x" .\n', GraphFormat.RDF_XML)
    for wanted in (GraphFormat.RDF_XML, GraphFormat.JSON_LD):
        for bad in ("<rel>", "<//x>", '"x"^^<rel>'):
            with pytest.raises(DataRefused, match="cannot be written"):
                respelled(f"<urn:a> <urn:p> {bad} .\n", wanted)
    with pytest.raises(DataRefused, match=r"U\+0001"):
        respelled('<urn:a> <urn:p> "x\\u0001" .\n', GraphFormat.RDF_XML)
    monkeypatch.setattr(graph_formats, "WHOLE_CHARACTERS_MAX", 10)
    with pytest.raises(DataRefused, match="ask for N-Triples"):
        respelled(LINES, GraphFormat.JSON_LD)


@pytest.mark.parametrize("wanted", [GraphFormat.RDF_XML, GraphFormat.JSON_LD])
@pytest.mark.parametrize("term", ["<rel>", "<//x>", '"x"^^<rel>', "<urn:a b>", '"x"@-'])
def test_a_stored_term_that_is_no_rdf_is_refused_by_name(wanted, term):
    """It may have been stored before terms were checked: an answer with it is refused, and nothing fails."""
    with pytest.raises(DataRefused, match="ask for N-Triples or Turtle") as refused:
        respelled(f"<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p> {term} .\n", wanted)
    assert term in str(refused.value)
