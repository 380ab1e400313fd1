"""Errors that travel as messages arrive with the text and fields that they were sent with."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf.dictionary import TermNames
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import client_error, error_of


@pytest.mark.parametrize(
    "error",
    [
        QueryRefused("is not supported: leave it out", construct="GRAPH", line=3, column=7),
        QueryRefused("has 9 triples", construct="triple patterns"),
        QueryRefused("?x is not bound", construct="function STRLEN", line=1, column=2),
        QueryRefused("unknown prefix: ex: at line 9, column 9"),
        QueryRefused("a: b", construct="a long construct of many words: even a colon", line=1, column=1),
        QueryRefused("no node keeps an index for it"),
        QueryRefused("every part of the query that was asked for: is too long", line=2, column=1),
    ],
    ids=str,
)
def test_a_refusal_keeps_its_construct_and_its_place(error):
    codec = FrameCodec(TermNames())
    (message,) = codec.decode(codec.encode([client_error(error, 7)])[4:])
    rebuilt = error_of(message)
    assert isinstance(rebuilt, QueryRefused)
    assert str(rebuilt) == str(error)
    found = rebuilt.construct, rebuilt.reason, rebuilt.line, rebuilt.column
    assert found == (error.construct, error.reason, error.line, error.column)
