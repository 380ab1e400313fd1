"""Deeply nested triple terms, which would end the process in the parser, are refused."""

from __future__ import annotations

import io

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import BadLine, Syntax, read_triples
from p2prdf.rdf.terms import TRIPLE_TERM_DEPTH_MAX

DEEP = b"<urn:a> <urn:b> " + b"<<( <urn:a> <urn:b> " * 200_000 + b"<urn:c>" + b" )>>" * 200_000 + b" .\n"
GOOD = b"<urn:a> <urn:b> <urn:c> .\n"


def count(stream: io.BytesIO, syntax: Syntax, bad: list[BadLine] | None = None) -> int:
    batches = read_triples(
        stream, publication_id="x", syntax=syntax, strict=bad is None, on_bad_line=None if bad is None else bad.append
    )
    return sum(len(batch.s) for batch in batches)


class Slowly(io.BytesIO):
    """Returns a byte at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(1)


@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.N_QUADS, Syntax.TURTLE, Syntax.TRIG])
def test_deep_terms_are_refused(syntax: Syntax) -> None:
    by_line = syntax in (Syntax.N_TRIPLES, Syntax.N_QUADS)
    told = "more than 2,000 occurrences of <<" if by_line else "nest deeper than 2,000"
    with pytest.raises(DataRefused, match=told):
        count(io.BytesIO(GOOD + DEEP), syntax)
    if not by_line:
        for deep in (DEEP, DEEP.replace(b"<<(", b"# )>>\n<<("), DEEP.replace(b"<<(", b"#\r# <x> )>>\r<<(")):
            with pytest.raises(DataRefused, match=told):
                count(Slowly(deep), syntax)
        before = b'<urn:a> <urn:b> "' + b")>>" * 200_000 + b'" . '
        with pytest.raises(DataRefused, match=told):
            count(io.BytesIO(before + DEEP), syntax)


@pytest.mark.parametrize("syntax", list(Syntax)[:4])
def test_many_triple_terms_are_read(syntax: Syntax) -> None:
    line = b'<urn:a#b> <urn:b> <<( <urn:a#b> <urn:b> <<( <urn:a#b> <urn:b> "x" )>> )>> .'
    assert count(io.BytesIO((line + b"\n") * 5000), syntax) == 5000
    if syntax in (Syntax.TURTLE, Syntax.TRIG):
        assert count(io.BytesIO(line * 30_000), syntax) == 30_000


@pytest.mark.parametrize("syntax", list(Syntax)[:4])
def test_nesting_of_a_term_is_bounded(syntax: Syntax) -> None:
    def nested(levels: int) -> io.BytesIO:
        text = "<urn:a> <urn:b> " + "<<( <urn:a> <urn:b> " * levels + "<urn:c>" + " )>>" * levels + " .\n"
        return io.BytesIO(text.encode())

    assert count(nested(TRIPLE_TERM_DEPTH_MAX), syntax) == 1
    with pytest.raises(DataRefused, match="nest deeper than 16"):
        count(nested(TRIPLE_TERM_DEPTH_MAX + 1), syntax)


@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.N_QUADS])
def test_a_line_of_deep_terms_costs_itself_alone(syntax: Syntax) -> None:
    bad: list[BadLine] = []
    assert count(io.BytesIO(GOOD + DEEP + GOOD), syntax, bad) == 2
    assert [each.line for each in bad] == [2]


def test_literals_with_the_same_characters_are_read() -> None:
    line = b'<urn:a> <urn:b> "' + b"<<(" * 1999 + b'" .\n'
    assert count(io.BytesIO(line * 3), Syntax.N_TRIPLES) == 3
    assert count(io.BytesIO(line), Syntax.TURTLE) == 1
