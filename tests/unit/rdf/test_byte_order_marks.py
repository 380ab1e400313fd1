"""A byte order mark at the beginning of data, which some editors and tools write, is ignored."""

from __future__ import annotations

import gzip
import io
from codecs import BOM_UTF8
from pathlib import Path

import pyarrow as pa
import pytest
from field_cases import field_case

from p2prdf.publish.rdf_lines import parse_lines
from p2prdf.rdf.lines import opened
from p2prdf.rdf.ntriples import Syntax, TripleBatch, detect, read_triples
from p2prdf.rdf.timed_lines import read_timed
from p2prdf.replica.changeset_files import read_file
from p2prdf.sim.events import parse_events

XML = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    b'xmlns:e="urn:e:"><rdf:Description rdf:about="urn:a"><e:p>1</e:p></rdf:Description></rdf:RDF>'
)
LINE = b'<urn:a> <urn:e:p> "1" .\n'
TEXTS = {
    Syntax.N_TRIPLES: LINE,
    Syntax.N_QUADS: b'<urn:a> <urn:e:p> "1" <urn:g> .\n',
    Syntax.TURTLE: b'@prefix e: <urn:e:> . <urn:a> e:p "1" .',
    Syntax.TRIG: b'GRAPH <urn:g> { <urn:a> <urn:e:p> "1" }',
    Syntax.RDF_XML: XML,
    Syntax.JSON_LD: b'{"@id": "urn:a", "urn:e:p": "1"}',
}


def statements(batches: list[TripleBatch]) -> list[tuple[str, ...]]:
    columns = [(batch.s, batch.p, batch.o, *([batch.g] if batch.g else [])) for batch in batches]
    return [row for each in columns for row in zip(*each, strict=True)]


class Dribbling(io.RawIOBase):
    """Gives one byte at a time."""

    def __init__(self, data: bytes):
        super().__init__()
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        return self._data.readinto(memoryview(buffer)[:1])


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("syntax", list(TEXTS))
def test_statements_are_those_of_the_file_without_the_mark(syntax: Syntax, compressed: bool) -> None:
    def read(data: bytes, *, dribbling: bool = False) -> list[tuple[str, ...]]:
        data = gzip.compress(data) if compressed else data
        stream = Dribbling(data) if dribbling and not compressed else io.BytesIO(data)
        batches = read_triples(
            stream, publication_id="x", syntax=syntax, compressed=compressed, strict=True  # type: ignore[arg-type]
        )
        return statements(list(batches))

    plain = read(TEXTS[syntax])
    assert len(plain) == 1
    assert read(BOM_UTF8 + TEXTS[syntax]) == plain
    assert read(BOM_UTF8 + TEXTS[syntax], dribbling=True) == plain
    if syntax not in (Syntax.RDF_XML, Syntax.JSON_LD):
        assert read(BOM_UTF8) == []


def test_mark_within_a_file_is_no_mark() -> None:
    bad: list[int] = []
    data = BOM_UTF8 + LINE + BOM_UTF8 + LINE
    batches = read_triples(io.BytesIO(data), publication_id="x", on_bad_line=lambda line: bad.append(line.line))
    assert len(statements(list(batches))) == 1
    assert bad == [2]


@pytest.mark.parametrize("size", [1, 2, 3, 5, -1])
def test_stream_without_mark_is_given_whole(size: int) -> None:
    for data in (b"", b"a", b"\xef\xbb", b"\xef\xbb\xbf", b"\xef\xbb\xbfabc", b"abcdefgh"):
        stream = opened(io.BytesIO(data))
        found = b"".join(iter(lambda stream=stream: stream.read(size), b""))  # type: ignore[misc]
        assert found == data.removeprefix(BOM_UTF8)


def test_timed_lines_and_events_may_begin_with_a_mark() -> None:
    (batch,) = read_timed(io.BytesIO(BOM_UTF8 + b"1\t" + LINE), publication_id="x", strict=True)
    assert batch.times == [1000]
    (event,) = parse_events(io.BytesIO(BOM_UTF8 + b"1\tA\t" + LINE))
    assert event.time == 1.0


def test_files_of_spark_and_of_changesets_may_begin_with_a_mark(tmp_path: Path) -> None:
    line = LINE.decode().rstrip("\n")
    told: list[tuple[int, str]] = []
    found = parse_lines(
        pa.array(["\ufeff" + line, line, "\ufeff" + line]), Syntax.N_TRIPLES, [(0, "a"), (2, "b")],
        lambda row, reason: told.append((row, reason)),
    )  # fmt: skip
    assert [len(each) for each in found.to_pylist()] == [1, 1, 1]
    assert told == []
    (tmp_path / "1.added.nt").write_bytes(BOM_UTF8 + LINE)
    assert len(list(read_file(tmp_path / "1.added.nt"))) == 1


@pytest.mark.parametrize("name", ["bom.nt", "bom.ttl"])
def test_field_case_of_byte_order_marks_is_read(name: str) -> None:
    file = field_case("09-bom") / name
    data = file.read_bytes()
    assert data.startswith(BOM_UTF8)
    syntax, _ = detect(name)
    found = [
        statements(list(read_triples(io.BytesIO(each), publication_id="x", syntax=syntax, strict=True)))
        for each in (data, data.removeprefix(BOM_UTF8))
    ]
    assert found[0] == found[1] != []
