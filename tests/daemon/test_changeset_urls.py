"""Changesets of a web server, published through real nodes by a command that is killed, and run again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from random import Random

from changeset_web import put, served
from commands import command
from dataset_histories import history

import p2prdf

SECONDS = 60.0
HOURS = ("2014/10/02/21", "2014/10/02/22", "2014/10/03/00")


def written(folder, count):
    """Write a history in the layout of DBpedia Live; return positions and the dataset's triples after each."""
    held = {}
    for number, (_, changeset, after) in enumerate(history(Random(7), count)):
        position = f"{HOURS[number * len(HOURS) // count]}/{number % (count // len(HOURS)):06}"
        for word in ("removed", "added"):
            lines = "".join(" ".join(triple) + " .\n" for triple in getattr(changeset, word))
            put(folder, f"{position}.{word}.nt.gz", lines)
        held[position] = after
    return held


class Command:
    """``p2prdf changesets publish`` as a process."""

    def __init__(self, scratch, *words):
        """``scratch``: where downloads are kept."""
        scratch.mkdir(exist_ok=True)
        self._environment = {**os.environ, "TMPDIR": str(scratch)}
        self._words = [sys.executable, "-m", "p2prdf_cli", "changesets", "publish", *map(str, words), "--json"]

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            *self._words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        return self

    async def __aexit__(self, *error):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.communicate()

    async def told(self):
        """Return the position of the next changeset that is published, None at the end."""
        line = await self.process.stdout.readline()
        return json.loads(line)["position"] if line else None

    async def ended(self):
        """Return the positions up to the end, and how it ended."""
        out, err = await self.process.communicate()
        return [json.loads(line)["position"] for line in out.splitlines()], self.process.returncode, err.decode()


async def dataset_of(client, dataset):
    found = await client.query(f"SELECT ?s ?p ?o {{ GRAPH <{dataset}> {{ ?s ?p ?o }} }}")
    return {tuple(map(str, row)) for row in found.rows}


async def test_a_server_is_published_as_its_folder_is_whenever_the_command_is_killed(keeping_all, tmp_path):
    folder, dataset = tmp_path / "web", "urn:from-a-server"
    held = written(folder, 12)
    positions = list(held)
    put(folder, "lastPublishedFile.txt", positions[8].replace("/", "-"))
    for position in positions[9:]:
        for word in ("removed", "added"):
            (folder / f"{position}.{word}.nt.gz").rename(tmp_path / f"{position.replace('/', '-')}.{word}")
    (tmp_path / "start.nt").write_text("")
    async with (
        asyncio.timeout(SECONDS), served(folder, index=False) as web, p2prdf.connect(keeping_all[0].address) as client
    ):  # fmt: skip
        words = [web.url, "--dataset", dataset, "--peer", keeping_all[1].address]
        words += ["--start", tmp_path / "start.nt", "--start-at", "2014/10/02/21"]
        async with Command(tmp_path / "first", *words) as first:
            assert await first.told() == positions[0]  # and is killed somewhere in the next one
        hangs = asyncio.Event()

        async def hang(request):
            hangs.set()
            await asyncio.Event().wait()

        web.faults[f"/{positions[4]}.added.nt.gz"] = [hang]
        async with Command(tmp_path / "second", *words) as second:
            assert await second.told() in positions[1:3]
            await hangs.wait()  # it is killed in the middle of a download
        async with Command(tmp_path / "third", *words, "--follow", "--interval", "0.05") as third:
            told = [await third.told()]
            assert positions.index(told[0]) in (3, 4)
            while told[-1] != positions[8]:
                told.append(await third.told())
            assert told == positions[positions.index(told[0]) : 9]
            assert await dataset_of(client, dataset) == held[positions[8]]
            for position in positions[9:]:
                put(folder, "lastPublishedFile.txt", position.replace("/", "-"))
                for word in ("added", "removed"):
                    (tmp_path / f"{position.replace('/', '-')}.{word}").rename(folder / f"{position}.{word}.nt.gz")
                assert await third.told() == position
                assert await dataset_of(client, dataset) == held[position]
            put(folder, "lastPublishedFile.txt", "2014-10-03-01-000000")
            third.process.send_signal(signal.SIGTERM)
            assert (await third.ended())[:2] == ([], 143)
        assert not list((tmp_path / "third").iterdir()), "who is stopped leaves nothing behind"


def test_bad_sources_are_refused_and_the_start_position_can_be_given_later(keeping_all, tmp_path):
    put(tmp_path, "start.nt", "<urn:a> <urn:b> <urn:c> .\n")
    put(tmp_path, "000007.added.nt", "<urn:a> <urn:b> <urn:d> .\n")
    words = ("--peer", keeping_all[0].address, "--dataset", "urn:nowhere", "--start", tmp_path / "start.nt")
    for name, reason in (
        ("file:///changes", "'file:///changes' is not an http:// or https:// URL with a host"),
        ("http://me:secret@h/", "a URL must not contain credentials"),
    ):
        code, out, err = command("changesets", "publish", name, *words)
        assert (code, out, reason in err, "secret" in err) == (4, "", True, False), err
    code, out, err = command("changesets", "publish", tmp_path, *words, "--start-at", "yesterday")
    assert (code, "not a position, as 2014/10/02/21/000004 or 000004: 'yesterday'" in err) == (4, True)
    assert command("changesets", "publish", tmp_path / "absent", *words)[0] == 4, "the start is published"
    code, out, err = command("changesets", "publish", tmp_path, *words, "--start-at", "000005")
    assert (code, out, "000006 is missing" in err) == (1, "", True)
    code, out, err = command("changesets", "publish", tmp_path, *words, "--start-at", "000006")
    assert (code, out, err) == (0, "000007: 0 removed, 1 added\n", "")
