"""Deeply nested triple terms, which would end the process in the parser, are refused."""

from __future__ import annotations

import io

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import BadLine, Syntax, read_triples

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
    with pytest.raises(DataRefused, match="more than 2,000 occurrences of <<"):
        count(io.BytesIO(GOOD + DEEP), syntax)
    if syntax in (Syntax.TURTLE, Syntax.TRIG):
        with pytest.raises(DataRefused, match="more than 2,000 occurrences of <<"):
            count(Slowly(DEEP), syntax)


@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.N_QUADS])
def test_a_line_of_deep_terms_costs_itself_alone(syntax: Syntax) -> None:
    bad: list[BadLine] = []
    assert count(io.BytesIO(GOOD + DEEP + GOOD), syntax, bad) == 2
    assert [each.line for each in bad] == [2]


def test_literals_with_the_same_characters_are_read() -> None:
    line = b'<urn:a> <urn:b> "' + b"<<(" * 1999 + b'" .\n'
    assert count(io.BytesIO(line * 3), Syntax.N_TRIPLES) == 3
    assert count(io.BytesIO(line), Syntax.TURTLE) == 1
