"""``p2prdf export`` against real nodes: a consistent file while publications go on, kills and refusals."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys

import pytest

import p2prdf
from p2prdf.client.export import LAST_PLACE
from p2prdf_cli.export import Progress

GRAPHS = ("", "<urn:g:one>", "<urn:g:two>")


def command(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("P2PRDF_")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    return {"args": [sys.executable, "-m", "p2prdf_cli", *map(str, arguments)], "env": environment, "text": True}


def run(*arguments, seconds=90):
    return subprocess.run(**command(*arguments), capture_output=True, timeout=seconds, check=False)


def lines_of(path):
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as stream:
        return stream.read().splitlines()


class Writing:
    """A publisher that adds and deletes statements until it is stopped, and knows the stamp of each change."""

    def __init__(self, client, statements=300):
        self.client, self.changes, self.on = client, [], True
        self.statements = [(f"<urn:s{n % 40}>", f"<urn:p{n % 5}>", f'"{n}"', GRAPHS[n % 3]) for n in range(statements)]

    async def run(self):
        number = 0
        while self.on:
            graph = GRAPHS[number % 3]
            some = [each for each in self.statements if each[3] == graph][number % 7 :: 7]
            removed = number % 5 == 4
            change = self.client.retract if removed else self.client.publish
            await change([each[:3] for each in some], **({"graph": graph} if graph else {}))
            self.changes.append((self.client._sessions.latest, some, removed))
            number += 1

    def lines(self, stamp):
        """Return the lines as of a stamp."""
        held = set()
        for at, some, removed in self.changes:  # the stamps of one publisher ascend
            if at <= stamp:
                held = held - set(some) if removed else held | set(some)
        return {f"{s} {p} {o} {g} ." if g else f"{s} {p} {o} ." for s, p, o, g in held}


BEFORE = [(f"<urn:before:{n}>", f"<urn:q{n % 9}>", f'"value {n}"') for n in range(12_000)]
"""Statements of several pages."""
BEFORE_LINES = {f"{s} {p} {o} ." for s, p, o in BEFORE}


@pytest.fixture(scope="module")
def filled(launcher_in):
    """Three nodes with the statements of several pages."""

    async def fill(address):
        async with p2prdf.connect(address) as client:
            await client.publish(BEFORE)

    with launcher_in("exports") as launcher:
        nodes = launcher.overlay(3, hello_seconds=1, drain_seconds=1)
        asyncio.run(fill(nodes[0].address))
        yield nodes


async def while_writing(address, work):
    """Do some work while a publisher writes; return the result and the publisher's record."""
    async with p2prdf.connect(address) as client:
        writing = Writing(client)
        task = asyncio.create_task(writing.run())
        try:
            async with asyncio.timeout(60):
                while len(writing.changes) < 10:
                    await asyncio.sleep(0.02)
            result = await work()
        finally:
            writing.on = False
            await task
    return result, writing


def exported(*arguments):
    """Run the command in a thread; return its report."""
    done = run("export", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_export_equals_the_state_at_its_stamp_while_publications_go_on(filled, tmp_path):
    for name in ("all.nq", "all.nq.gz"):
        path = tmp_path / name
        told, writing = asyncio.run(while_writing(
            filled[0].address, lambda path=path: asyncio.to_thread(exported, path, "--peer", filled[1].address)
        ))  # fmt: skip
        lines = lines_of(path)
        assert len(set(lines)) == len(lines) == told["statements"]
        assert writing.changes[0][0] < told["stamp"] < writing.changes[-1][0]
        assert set(lines) == BEFORE_LINES | writing.lines(told["stamp"])
        assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(name + ".")) == []


async def killed_in_the_middle(path, address):
    """Kill an export after its first page; return its stored progress."""
    stored = path.with_name(path.name + ".progress")
    with subprocess.Popen(**command("export", path, "--peer", address), stderr=subprocess.PIPE) as process:
        for _ in range(4000):
            progress = Progress.read(stored)
            if progress is not None and progress.place:
                break
            assert process.poll() is None, process.stderr.read()
            await asyncio.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    progress = Progress.read(stored)
    assert progress is not None
    assert 0 < progress.place < LAST_PLACE
    return progress


@pytest.mark.parametrize("name", ["killed.nq", "killed.nq.gz"])
def test_killed_export_continues_to_the_state_at_its_first_stamp(filled, tmp_path, name):
    path = tmp_path / name

    async def work():
        progress = await killed_in_the_middle(path, filled[1].address)
        with path.with_name(name + ".partial").open("ab") as partial:  # a page that was being written
            partial.write(b"half a li")
        return progress, await asyncio.to_thread(exported, path, "--peer", filled[2].address)

    (progress, told), writing = asyncio.run(while_writing(filled[0].address, work))
    assert told["stamp"] == progress.stamp
    assert told["resumed_after"] == progress.lines > 0
    lines = lines_of(path)
    assert len(set(lines)) == len(lines)
    assert set(lines) == BEFORE_LINES | writing.lines(told["stamp"])


QUERIES = (
    "SELECT ?s ?o { ?s <urn:p1> ?o }",
    "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
    "SELECT ?p (COUNT(?s) AS ?n) { ?s ?p ?o } GROUP BY ?p",
    "SELECT ?s { GRAPH <urn:g:one> { ?s <urn:p2> ?o } MINUS { ?s <urn:p3> ?x } }",
    "SELECT ?s ?a ?b { GRAPH <urn:g:one> { ?s ?p ?a } OPTIONAL { GRAPH <urn:g:two> { ?s ?p ?b } } }",
    'ASK { <urn:before:77> ?p "value 77" }',
)


def test_published_export_gives_equal_answers_in_another_cluster(filled, launcher, tmp_path):
    path = tmp_path / "moved.nq.gz"
    asyncio.run(while_writing(filled[0].address, lambda: asyncio.sleep(0.1)))
    exported(path, "--peer", filled[0].address)
    other = launcher.start(replicas=1, copies_min=1)
    done = run("publish", path, "--peer", other.address, "--state", tmp_path / "publish.json")
    assert done.returncode == 0, done.stderr

    async def compare():
        async with p2prdf.connect(filled[0].address) as here, p2prdf.connect(other.address) as there:
            for query in QUERIES:
                found, again = await here.query(query), await there.query(query)
                assert sorted(map(str, found.rows)) == sorted(map(str, again.rows)), query
                assert found.rows, query

    asyncio.run(compare())


def test_elements_of_one_stream_are_exported_with_their_times(filled, launcher, tmp_path):
    path = tmp_path / "readings.tsv.gz"
    given = [f"{1_700_000_000 + n}.{n % 10}00\t<urn:sensor{n % 7}> <urn:reads> \"{n % 50}\" ." for n in range(700)]
    source = tmp_path / "given.tsv"
    source.write_text("\n".join(given) + "\n")
    for stream in ("urn:readings", "urn:others"):
        done = run(
            "publish", source, "--stream", stream, "--timed", "--peer", filled[0].address, "--state", tmp_path / "s",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    told = exported(path, "--stream", "urn:readings", "--peer", filled[1].address)
    assert told["elements"] == len(given)
    assert sorted(lines_of(path)) == sorted(given)
    other = launcher.start(replicas=1, copies_min=1)
    done = run(
        "publish", path, "--stream", "urn:readings", "--timed", "--peer", other.address, "--state", tmp_path / "t",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    again = tmp_path / "again.tsv"
    exported(again, "--stream", "urn:readings", "--peer", other.address)
    assert sorted(lines_of(again)) == sorted(given)


def test_export_survives_the_death_of_its_entry_node(launcher):
    nodes = launcher.overlay(4, hello_seconds=1, drain_seconds=1)

    async def work():
        async with p2prdf.connect(nodes[1].address, reconnect_seconds=60) as client:
            export, lines, pages = await client.export(), [], 0
            async for page in export.pages():
                lines += page.lines
                pages += 1
                if pages == 1:
                    nodes[1].kill()
            await export.end()
        return export.stamp, lines, pages

    async def play():
        async with p2prdf.connect(nodes[0].address) as client:
            await client.publish(BEFORE)
        return await while_writing(nodes[0].address, work)

    (stamp, lines, pages), writing = asyncio.run(play())
    assert pages > 1
    assert len(set(lines)) == len(lines)
    assert set(lines) == BEFORE_LINES | writing.lines(stamp)


# --- refusals ---------------------------------------------------------------------------------------


def refused(*arguments):
    done = run("export", *arguments)
    assert done.returncode in (1, 2, 3, 4), (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


def stored(path, **fields):
    """Store the progress of an export that was interrupted."""
    Progress(**({"stream": "", "number": 7, "stamp": 9, "place": 5, "lines": 1, "size": 4} | fields)).write(
        path.with_name(path.name + ".progress")
    )
    path.with_name(path.name + ".partial").write_text("line")


def test_files_that_an_export_cannot_write_are_refused_and_stay(filled, tmp_path):
    address = filled[0].address
    path = tmp_path / "there.nq"
    path.write_text("mine")
    assert "exists; remove it" in refused(path, "--peer", address)
    assert path.read_text() == "mine"
    assert "No such file or directory" in refused(tmp_path / "no" / "such.nq", "--peer", address)
    assert "must end in .nq or .nq.gz" in refused(tmp_path / "file.ttl", "--peer", address)
    assert "must end in .tsv or .tsv.gz" in refused(tmp_path / "file.nq", "--stream", "urn:x", "--peer", address)


def test_progress_that_does_not_fit_is_refused_and_forgotten_with_restart(filled, tmp_path):
    address, path = filled[0].address, tmp_path / "out.nq"
    progress = path.with_name("out.nq.progress")
    for content in ("no json", "[]", '{"stream": ""}', '{"stream": "", "number": 1, "stamp": 1, "more": 1}'):
        progress.write_text(content)
        assert "is not the progress of an export" in refused(path, "--peer", address), content
    stored(path, stream="<urn:x>")
    assert "belongs to an export of the stream <urn:x>" in refused(path, "--peer", address)
    stored(path, size=5)
    assert "has 4 bytes, 5 are expected" in refused(path, "--peer", address)
    stored(path)
    told = refused(path, "--peer", address, "--reconnect", 1)
    assert "does not keep export 0000000000000007" in told
    assert "--restart begins a new export" in told
    assert exported(path, "--restart", "--peer", address)["resumed_after"] == 0
    assert set(lines_of(path)) >= BEFORE_LINES
