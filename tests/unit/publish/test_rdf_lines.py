"""Lines by the column and lines by the parser: the same statements, the same faults, in the same order."""

from __future__ import annotations

import io
import random

import pytest

pa = pytest.importorskip("pyarrow")

from p2prdf.publish.rdf_lines import parse_lines, publication_of  # noqa: E402
from p2prdf.rdf.ntriples import Syntax, read_triples  # noqa: E402

LINES = (
    "", "# nothing", "  # nothing", "<urn:a> <urn:p> <urn:o> .", '<urn:a> <urn:p> "x" .', "<urn:a> <urn:p> _:b .",
    "_:x <urn:p> <urn:o> <urn:g> .", '<urn:a> <urn:p> "x\\ny"@EN .', "<urn:a> <urn:p> <urn:o>.",
    "<urn:a> <urn:p> <urn:o> . # behind", "<urn:a>\t<urn:p> <urn:o> .", "<urn:a> <urn:p> <urn:o> .\r", "bad",
    '<urn:a> <urn:p> "x .', '<urn:a> <urn:p> "x" y .', '<urn:a> "p" <urn:o> .', "<a> <urn:p> <urn:o> .",
    '<urn:a> <urn:p> "a"^^<http://www.w3.org/2001/XMLSchema#string> .', '<urn:a> <urn:p> "x" <urn:g> .',
    '<urn:a> <urn:p> " . " .', '<urn:a> <urn:p> "x"@en--ltr .', '<urn:a> <urn:p> "\\u00e9" .',
    "<urn:a> <urn:p> <<( <urn:a> <urn:p> <urn:o> )>> .", '<urn:a> <urn:p> "x"^^<urn:p2prdf:in> .',
)  # fmt: skip


def taken(lines, syntax, publications):
    bad = []
    found = parse_lines(pa.array(lines, pa.string()), syntax, publications, lambda row, _: bad.append(row))
    assert len(found) == len(lines)
    return [tuple(each.values()) for line in found.to_pylist() for each in line], sorted(bad)


def parsed(lines, syntax, publications):
    found, bad = [], []
    for row, line in enumerate(lines):
        publication = next(name for at, name in reversed(publications) if at <= row)
        batches = read_triples(
            io.BytesIO(line.encode()), publication_id=publication, syntax=syntax,
            on_bad_line=lambda _, row=row: bad.append(row),
        )  # fmt: skip
        for batch in batches:
            graphs = [name or None for name in batch.g] or [None] * len(batch.s)
            found += zip(batch.s, batch.p, batch.o, graphs, strict=True)
    return found, bad


@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.N_QUADS])
@pytest.mark.parametrize("seed", range(50))
def test_lines_are_taken_by_the_column_as_they_are_parsed_one_by_one(seed, syntax):
    rng = random.Random(seed)
    simple = LINES[3:5] if seed % 2 else LINES
    lines = [rng.choice(rng.choice((LINES, simple))) for _ in range(rng.randrange(60))]
    lines = [line for line in lines if "urn:p2prdf" not in line]
    publications = [(0, "one"), *([(len(lines) // 2, "two")] if len(lines) > 1 else [])]
    assert taken(lines, syntax, publications) == parsed(lines, syntax, publications)


def test_bytes_that_are_no_text_are_a_bad_line():
    lines = pa.array([b"<urn:a> <urn:p> <urn:o> .", b'<urn:a> <urn:p> "\xff" .'], pa.binary()).view(pa.string())
    bad = []
    found = parse_lines(lines, Syntax.N_TRIPLES, [(0, "f")], lambda row, _: bad.append(row))
    assert [len(line) for line in found.to_pylist()] == [1, 0]
    assert bad == [1]


def test_the_namespace_of_blank_nodes_follows_from_the_file():
    names = {
        publication_of(*each)
        for each in (("", "a", 1, 1), ("s", "a", 1, 1), ("", "b", 1, 1), ("", "a", 2, 1), ("", "a", 1, 2))
    }
    assert len(names) == 5
    assert publication_of("", "a", 1, 1) in names
