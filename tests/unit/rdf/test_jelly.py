"""Jelly: streams of other writers, our own, malformed ones and bombs."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import pytest

pytest.importorskip("pyjelly", reason="pyjelly is not installed (extra jelly)")

from pyjelly import jelly as messages
from pyjelly.integrations.generic import generic_sink as foreign
from pyjelly.integrations.generic.parse import parse_jelly_flat
from pyjelly.integrations.generic.serialize import grouped_stream_to_file
from pyjelly.options import StreamParameters
from pyjelly.serialize.streams import SerializerOptions

from p2prdf.errors import DataRefused
from p2prdf.rdf import graph_formats, jelly
from p2prdf.rdf.graph_formats import GraphFormat, respelled
from p2prdf.rdf.ntriples import JELLY_MISSING, Syntax, detect, read_triples

XSD = "http://www.w3.org/2001/XMLSchema#"
LINES = "".join(
    f'<http://e.org/a{n}> <http://e.org/p{n % 3}> "{n}\\r\\n\\"é"@de-at .\n'
    f'_:b{n} <http://e.org/p> "{n}"^^<{XSD}integer> .\n<urn:a> <urn:p> "plain" .\n'
    for n in range(700)
)


def read(data: bytes | io.RawIOBase, **options: Any) -> list[tuple[str, ...]]:
    stream: Any = io.BytesIO(data) if isinstance(data, bytes) else data
    found = []
    for batch in read_triples(stream, publication_id="p", syntax=Syntax.JELLY, source="x.jelly", **options):
        found += zip(batch.s, batch.p, batch.o, batch.g or [""] * len(batch.s), strict=True)
    return found


def plain(lines: str, syntax: Syntax = Syntax.N_TRIPLES) -> list[tuple[str, ...]]:
    batches = read_triples(io.BytesIO(lines.encode()), publication_id="p", syntax=syntax, strict=True)
    return [row for each in batches for row in zip(each.s, each.p, each.o, each.g or [""] * len(each.s), strict=True)]


def delimited(*frames: bytes) -> bytes:
    found = b""
    for frame in frames:
        size, length = len(frame), b""
        while size > 0x7F:
            length += bytes([size & 0x7F | 0x80])
            size >>= 7
        found += length + bytes([size]) + frame
    return found


def frame(*rows: messages.RdfStreamRow, physical_type: int = 1, version: int = 1, options: bool = True) -> bytes:
    first = messages.RdfStreamRow(options=messages.RdfStreamOptions(
        physical_type=physical_type, version=version, max_name_table_size=8, max_prefix_table_size=8,
    ))  # type: ignore[arg-type]  # fmt: skip
    return bytes(messages.RdfStreamFrame(rows=[first, *rows] if options else rows).SerializeToString())


NAME = messages.RdfStreamRow(name=messages.RdfNameEntry(value="urn:n"))
SAME = messages.RdfIri(name_id=1)
TRIPLE = messages.RdfStreamRow(triple=messages.RdfTriple(s_iri=SAME, p_iri=SAME, o_iri=SAME))


def test_what_is_written_is_read_by_this_and_a_foreign_reader() -> None:
    data = respelled(LINES, GraphFormat.JELLY)
    assert len(data) < len(LINES)
    back = [(s, p, o, g) for s, p, o, g in read(data)]
    expected = plain(LINES)
    # The writer of graphs gives each blank node's label a leading letter.
    assert back == [tuple(part.replace("<urn:bnode:p:b", "<urn:bnode:p:bb") for part in row) for row in expected]
    assert sum(isinstance(each, foreign.Triple) for each in parse_jelly_flat(io.BytesIO(data))) == len(expected)


def test_quads_and_graphs_of_a_foreign_writer_are_read() -> None:
    sink = foreign.GenericStatementSink()
    for n in range(600):
        graph = foreign.DefaultGraph if n % 3 == 0 else foreign.IRI(f"urn:g{n % 3}")
        sink.add(foreign.Quad(foreign.IRI("urn:s"), foreign.IRI("urn:p"), foreign.Literal(str(n), "EN", None), graph))
    out = io.BytesIO()
    options = SerializerOptions(logical_type=messages.LOGICAL_STREAM_TYPE_FLAT_QUADS, params=StreamParameters())
    grouped_stream_to_file((each for each in [sink]), out, options=options)
    assert read(out.getvalue()) == [
        ("<urn:s>", "<urn:p>", f'"{n}"@en', f"<urn:g{n % 3}>" if n % 3 else "") for n in range(600)
    ]


def test_graph_rows_name_the_graph_of_the_statements_between_them() -> None:
    start = messages.RdfStreamRow(graph_start=messages.RdfGraphStart(g_iri=SAME))
    end = messages.RdfStreamRow(graph_end=messages.RdfGraphEnd())
    assert read(delimited(frame(NAME, start, TRIPLE, end, TRIPLE, physical_type=3))) == [
        ("<urn:n>",) * 4, ("<urn:n>",) * 3 + ("",),
    ]  # fmt: skip


def test_one_frame_without_length_and_empty_frames_are_read() -> None:
    one = frame(NAME, TRIPLE)
    for data in (one, delimited(one), delimited(b"", one, b""), delimited(b"", b"", b"", one)):
        assert read(data) == [("<urn:n>",) * 3 + ("",)]
    assert read(b"") == []


def test_a_frame_is_delivered_before_the_next_one_arrives() -> None:
    reading, writing = os.pipe()
    first = frame(NAME, TRIPLE)
    following = frame(TRIPLE, TRIPLE, options=False)
    with os.fdopen(reading, "rb", buffering=0) as raw:
        batches = read_triples(raw, publication_id="p", syntax=Syntax.JELLY, live=True)  # type: ignore[arg-type]
        os.write(writing, delimited(first))
        assert len(next(batches).s) == 1
        os.write(writing, delimited(following))
        assert len(next(batches).s) == 2
        os.close(writing)
        assert list(batches) == []


def test_reading_continues_after_the_statements_done() -> None:
    data = respelled(LINES, GraphFormat.JELLY)
    assert read(data, skip=1234) == read(data)[1234:]


def test_frames_are_the_batches() -> None:
    data = delimited(frame(NAME, TRIPLE), frame(*[TRIPLE] * 5, options=False), frame(*[TRIPLE] * 2500, options=False))
    batches = read_triples(io.BytesIO(data), publication_id="p", syntax=Syntax.JELLY)
    assert [len(each.s) for each in batches] == [1, 5, 1000, 1000, 500]


def row(**parts: Any) -> messages.RdfStreamRow:
    return messages.RdfStreamRow(**parts)


@pytest.mark.parametrize(("data", "told"), [
    (frame(NAME, TRIPLE, options=False), "not the options"),
    (delimited(frame(NAME, version=3)), "version 3"),
    (delimited(frame(NAME, physical_type=0)), "no type of statements"),
    (delimited(frame(TRIPLE)), "malformed Jelly"),  # a name that is not in the table
    (delimited(frame(NAME, row(triple=messages.RdfTriple(s_iri=SAME)))), "malformed Jelly"),
    (delimited(frame(NAME, row(triple=messages.RdfTriple(
        s_literal=messages.RdfLiteral(lex="x"), p_iri=SAME, o_iri=SAME)))), "malformed Jelly"),
    (delimited(frame(row(name=messages.RdfNameEntry(value="no iri")), TRIPLE)), "Invalid IRI"),
    (delimited(frame(NAME, row(triple=messages.RdfTriple(
        s_iri=SAME, p_iri=SAME, o_literal=messages.RdfLiteral(lex="x", langtag="no tag"))))), "malformed Jelly"),
    (delimited(frame(NAME, messages.RdfStreamRow())), "malformed Jelly"),
    (delimited(frame(NAME))[:-2], "breaks off"),
    (b"\x80", "breaks off"), (b"\xff" * 20, "write smaller frames"), (b"\x05abcde", "malformed Jelly"),
    (b"<urn:a> <urn:b> <urn:c> .\n" * 9, "malformed Jelly"),
])  # fmt: skip
def test_malformed_stream_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(DataRefused, match=told) as refused:
        read(data)
    assert refused.value.source == "x.jelly"


def test_statements_before_a_fault_are_delivered() -> None:
    data = delimited(frame(NAME, TRIPLE, TRIPLE), frame(TRIPLE, row(), options=False))
    batches = read_triples(io.BytesIO(data), publication_id="p", syntax=Syntax.JELLY)
    assert [len(next(batches).s), len(next(batches).s)] == [2, 1]
    with pytest.raises(DataRefused, match="malformed Jelly"):
        next(batches)


def test_bombs_are_refused_within_bounds() -> None:
    rows = frame() + b"\x0a\x00" * (jelly.FRAME_ROWS_MAX + 1)
    long_name = row(name=messages.RdfNameEntry(value="urn:" + "n" * 1_000_000))
    same = row(triple=messages.RdfTriple())
    many = [delimited(frame(*[same] * 200, options=False)) for _ in range(100)]
    for data, told in (
        (rows, "rows"), (delimited(rows), "rows"), (delimited(b"\x0a" * (jelly.FRAME_BYTES_MAX + 1)), "bytes"),
        (b"\x0a\x01" + b"\x0a" * jelly.FRAME_BYTES_MAX, "bytes"),
        (delimited(frame(long_name, TRIPLE, *[same] * 10_000)), "200 times"),
        (delimited(frame(long_name, TRIPLE)) + b"".join(many), "200 times"),
    ):
        with pytest.raises(DataRefused, match=told):
            read(data)


def test_pieces_of_expanded_statements_are_small() -> None:
    long_name = row(name=messages.RdfNameEntry(value="urn:" + "n" * 1_000_000))
    data = delimited(frame(long_name, TRIPLE, *[row(triple=messages.RdfTriple())] * 20))
    sizes = [len(piece) for piece in jelly.pieces(io.BytesIO(data), "p", DataRefused)]
    assert sum(sizes) == 21
    assert max(sizes) <= 2


def test_names_of_files_tell_the_format() -> None:
    assert detect("a.jelly") == (Syntax.JELLY, False)
    assert detect("a.jelly.gz") == (Syntax.JELLY, True)


def test_without_the_package_jelly_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("p2prdf.rdf.jelly")
    monkeypatch.setitem(sys.modules, "p2prdf.rdf.jelly", None)
    with pytest.raises(DataRefused) as refused:
        read(b"")
    assert refused.value.reason == JELLY_MISSING
    with pytest.raises(DataRefused, match="pyjelly"):
        respelled("<urn:a> <urn:b> <urn:c> .\n", GraphFormat.JELLY)
    assert graph_formats.GraphFormat.JELLY is GraphFormat.JELLY
