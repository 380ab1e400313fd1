"""Reading for publication: files, compression, standard input as it comes."""

from __future__ import annotations

import asyncio
import gzip
import os
from pathlib import Path

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import BadLine, Syntax
from p2prdf_cli.sources import Feeder, Input, choose_input

LINES = 2500
GOOD = b"".join(b"<urn:s%d> <urn:p> _:b .\n" % n for n in range(LINES))


def _feeder(source: Input, *, skip: int = 0, strict: bool = False, bad: list[BadLine] | None = None) -> Feeder:
    told = [] if bad is None else bad
    return Feeder(source, publication_id="test", strict=strict, skip=skip, base=None, on_bad_line=told.append)


async def _subjects(feeder: Feeder) -> list[str]:
    async with asyncio.timeout(20):
        return [subject async for batch in feeder for subject in batch.s]


@pytest.mark.parametrize(
    ("name", "syntax", "expected"),
    [
        ("a.nt", None, (Syntax.N_TRIPLES, False)),
        ("a.ttl.gz", None, (Syntax.TURTLE, True)),
        ("a.data", "nq", (Syntax.N_QUADS, False)),
        ("a.trig.gz", None, (Syntax.TRIG, True)),
        ("-", "trig", (Syntax.TRIG, False)),
        ("-", None, (Syntax.N_TRIPLES, False)),
        ("-", "ttl", (Syntax.TURTLE, False)),
    ],
)
def test_the_format_comes_from_the_name_or_the_option(
    name: str, syntax: str | None, expected: tuple[Syntax, bool]
) -> None:
    source = choose_input(name, syntax)
    assert (source.syntax, source.compressed) == expected
    assert (source.path is None) == (name == "-")


def test_a_name_without_a_known_format_is_refused() -> None:
    with pytest.raises(DataRefused, match=r"a\.xls"):
        choose_input("a.xls", None)


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_file_is_read_to_its_end_and_resumed_after_any_statement(tmp_path: Path, compressed: bool) -> None:
    file = tmp_path / ("data.nt.gz" if compressed else "data.nt")
    file.write_bytes(gzip.compress(GOOD) if compressed else GOOD)
    source = choose_input(str(file), None)
    every = await _subjects(_feeder(source))
    assert every == [f"<urn:s{n}>" for n in range(LINES)]
    feeder = _feeder(source, skip=1234)
    assert await _subjects(feeder) == every[1234:]
    assert feeder.position == file.stat().st_size


async def test_graphs_come_with_the_triples_of_files_and_pipes(tmp_path: Path, stdin: int) -> None:
    quads = b"<urn:a> <urn:p> <urn:b> <urn:g> .\n<urn:a> <urn:p> <urn:c> .\n"
    file = tmp_path / "data.nq"
    file.write_bytes(quads)
    os.write(stdin, quads)
    os.close(stdin)
    for source in (choose_input(str(file), None), choose_input("-", "nq")):
        async with asyncio.timeout(20):
            assert [graph async for batch in _feeder(source) for graph in batch.g] == ["<urn:g>", ""]


async def test_an_error_comes_after_everything_before_it(tmp_path: Path) -> None:
    file = tmp_path / "data.nt"
    file.write_bytes(GOOD + b"nonsense\n")
    feeder = _feeder(choose_input(str(file), None), strict=True)
    assert len(await _subjects(feeder)) == LINES
    assert isinstance(feeder.error, DataRefused)
    assert feeder.error.line == LINES + 1


async def test_bad_lines_are_reported_and_skipped(tmp_path: Path) -> None:
    file = tmp_path / "data.nt"
    file.write_bytes(b"<urn:a> <urn:p> <urn:b> .\nnonsense\n<urn:c> <urn:p> \xff .\n<urn:d> <urn:p> <urn:e> .\n")
    bad: list[BadLine] = []
    feeder = _feeder(choose_input(str(file), None), bad=bad)
    assert await _subjects(feeder) == ["<urn:a>", "<urn:d>"]
    assert [line.line for line in bad] == [2, 3]
    assert feeder.bad_lines == 2
    assert feeder.error is None


async def test_a_missing_file_is_an_error_of_the_stream(tmp_path: Path) -> None:
    feeder = _feeder(choose_input(str(tmp_path / "none.nt"), None))
    assert await _subjects(feeder) == []
    assert isinstance(feeder.error, FileNotFoundError)


@pytest.fixture
def stdin() -> int:
    """Put a pipe in the place of standard input; return its writing end."""
    saved = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    yield writing
    os.dup2(saved, 0)
    os.close(saved)


async def test_lines_of_a_pipe_are_delivered_as_they_come(stdin: int) -> None:
    """The pipe stays open all the while: nothing waits for its end, and numbers go on over the pieces."""
    bad: list[BadLine] = []
    feeder = _feeder(choose_input("-", None), bad=bad)
    batches = aiter(feeder)
    async with asyncio.timeout(20):
        os.write(stdin, b"<urn:a> <urn:p> _:x .\nnonsense\n<urn:b> <urn")
        first = await anext(batches)
        os.write(stdin, b":p> _:x .\n")
        second = await anext(batches)
        os.write(stdin, b"more nonsense\n<urn:c> <urn:p> <urn:d> .")
        os.close(stdin)
        rest = [batch async for batch in batches]
    assert (first.s, second.s, rest[0].s) == (["<urn:a>"], ["<urn:b>"], ["<urn:c>"])
    assert [first.statements_done, second.statements_done, rest[0].statements_done] == [1, 2, 3]
    assert first.o == second.o, "one blank node label of one stream is one node"
    assert [line.line for line in bad] == [2, 4]


@pytest.mark.parametrize("timed", [False, True])
async def test_lines_of_a_named_pipe_are_delivered_as_they_come(tmp_path: Path, timed: bool) -> None:
    pipe, before = tmp_path / "lines.nt", b"1\t" if timed else b""
    os.mkfifo(pipe)
    batches = aiter(_feeder(choose_input(str(pipe), None, timed=timed)))
    async with asyncio.timeout(20):
        first = asyncio.ensure_future(anext(batches))
        writing = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)
        os.write(writing, before + b"<urn:a> <urn:p> <urn:o> .\n")
        assert (await first).s == ["<urn:a>"]
        os.write(writing, before + b"<urn:b> <urn:p> <urn:o> .\n")
        assert (await anext(batches)).s == ["<urn:b>"]
        os.close(writing)
        assert await anext(batches, None) is None


async def test_the_reader_stops_when_nobody_listens(tmp_path: Path) -> None:
    file = tmp_path / "data.nt"
    file.write_bytes(GOOD * 100)
    feeder = _feeder(choose_input(str(file), None))
    batches = aiter(feeder)
    await anext(batches)
    await batches.aclose()
    assert feeder.position < file.stat().st_size
