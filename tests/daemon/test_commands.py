"""Commands killed, or with a killed node: ``subscribe --name`` and ``publish`` go on from their last position."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import sys
from collections import Counter

import pytest

import p2prdf

SECONDS = 120.0
QUERY = "SELECT ?s { ?s <urn:p> <urn:o> }"


class Command:
    """One run of ``p2prdf`` in a process of its own; use with ``async with``."""

    def __init__(self, *arguments):
        self._arguments = [sys.executable, "-m", "p2prdf_cli", *map(str, arguments)]
        self.process = None

    async def __aenter__(self):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("P2PRDF_")}
        self.process = await asyncio.create_subprocess_exec(
            *self._arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=environment | {"COLUMNS": "200"},
        )  # fmt: skip
        return self

    async def __aexit__(self, *_):
        await self.kill()

    async def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self.process.communicate()

    async def told(self, word):
        """Wait for a line on standard error that has a word; return it."""
        said = []
        async with asyncio.timeout(SECONDS):
            async for line in self.process.stderr:
                said.append(line.decode())
                if word in said[-1]:
                    return said[-1]
        raise AssertionError(f"no {word!r} in {said}")

    async def end(self):
        """Wait for the end; return exit code, output and errors."""
        async with asyncio.timeout(SECONDS):
            out, err = await self.process.communicate()
        return self.process.returncode, out.decode(), err.decode()


async def run(*arguments):
    async with Command(*arguments) as command:
        return await command.end()


@pytest.fixture
async def cluster(launcher, until, status):
    """Four nodes that keep three copies of everything, in sync."""
    nodes = launcher.overlay(4, hello_seconds=1)

    async def in_sync():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(len(peer["contacts"]) == 4 and peer["settled"] and peer["in_sync"] for peer in peers)

    await until(in_sync, seconds=60)
    return nodes


@pytest.fixture
def named(tmp_path, cluster):
    """Return the arguments of a subscription by name, and its output."""
    addresses = ",".join(node.address for node in cluster)
    arguments = ("subscribe", "--name", "n", "--state", tmp_path / "names", "--peer", addresses)
    return (*arguments, "--output", tmp_path / "out.tsv"), tmp_path / "out.tsv"


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def triples(numbers):
    return [(f"<urn:s{n}>", "<urn:p>", "<urn:o>") for n in numbers]


async def test_a_subscriber_killed_at_random_writes_every_answer_once(named, cluster, until):
    """Lives of random length, while answers flow; some end as soon as they have begun."""
    arguments, output = named
    rng = random.Random(7)
    async with p2prdf.connect(cluster[0].address) as publisher:
        async with Command(*arguments, QUERY) as first:
            await first.told("subscription ")
            published = 0
            ended = asyncio.Event()

            async def publish():
                nonlocal published
                while not ended.is_set():
                    await publisher.publish(triples(range(published, published + 20)))
                    published += 20

            publishing = asyncio.create_task(publish())
            await until(lambda: _more_than(output, 100), seconds=60)
        for life in range(4):
            async with Command(*arguments, *([] if life % 2 else [QUERY])) as subscriber:
                if life % 3:
                    await subscriber.told("after solution")
                    had = len(lines(output))
                    await until(lambda had=had: _more_than(output, had), seconds=60)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(subscriber.process.wait(), rng.uniform(0.0, 0.5))
        ended.set()
        await publishing
        async with Command(*arguments) as last:
            await until(lambda: _more_than(output, published), seconds=60)
            await publisher.publish(triples(["end"]))
            await until(lambda: _more_than(output, published + 1), seconds=60)
            await last.kill()
    header, *found = lines(output)
    assert header == "?s"
    assert Counter(found) == Counter(f"<urn:s{n}>" for n in [*range(published), "end"])


async def _more_than(output, count):
    return len(lines(output)) > count


async def test_a_name_stands_for_one_query_until_it_is_renewed_or_ended(named, cluster, tmp_path):
    arguments, output = named
    other = "SELECT ?o { <urn:s> <urn:p> ?o }"
    async with p2prdf.connect(cluster[0].address) as client:
        async with Command(*arguments, QUERY, "--count", "1") as command:
            number = int((await command.told("subscription ")).split()[2], 16)
            await client.publish(triples([1]))
            assert (await command.end())[0] == 0
        code, _, err = await run(*arguments, other)
        assert (code, err.count("\n")) == (4, 1)
        assert QUERY in err
        assert other in err
        state = tmp_path / "names" / "n.json"
        kept = state.read_text("utf-8")
        foreign = await client.subscribe(other)
        state.write_text(json.dumps(json.loads(kept) | {"token": foreign.token().hex()}), "utf-8")
        code, _, err = await run(*arguments, QUERY)
        assert code == 4
        assert "error [token-mismatch]" in err
        state.write_text(kept, "utf-8")
        await foreign.unsubscribe()
        async with Command(*arguments, QUERY.replace(" ", "\n ") + "# the same") as holder:
            await holder.told("after solution 1")
            code, _, err = await run(*arguments, QUERY)
            assert (code, "subscription n is in use by another process" in err) == (4, True)
        await client.unsubscribe(number)  # as if its lease had run out
        await client.publish(triples([2]))
        code, _, err = await run(*arguments, QUERY)
        assert code == 4
        assert err.startswith("p2prdf: error [subscription-gone]: n: ")
        assert "--renew" in err
        async with Command(*arguments, QUERY, "--renew", "--count", "1") as renewed:
            await renewed.told("subscription ")
            await client.publish(triples([3]))
            assert (await renewed.end())[0] == 0
        assert lines(output) == ["?s", "<urn:s1>", "<urn:s3>"]
        address = cluster[1].address
        ending = ("unsubscribe", "--name", "n", "--state", tmp_path / "names", "--peer", address)
        assert await run(*ending) == (0, "", "")
        code, _, err = await run(*ending)
        assert (code, "there is no subscription n" in err) == (4, True)
        code, _, err = await run(*arguments)
        assert (code, "give it a query" in err) == (4, True)


async def test_commands_go_on_when_their_node_is_killed(named, cluster, tmp_path, until):
    """The subscriber is at the first node, the publisher at the second; both are killed, and the second stays so."""
    arguments, output = named
    count = 5000
    data = tmp_path / "data.nt"
    data.write_text("".join(f"<urn:s{n}> <urn:p> <urn:o> .\n" for n in range(count)))
    publish = ("publish", data, "--peer", ",".join(node.address for node in cluster[1:]), "--state", tmp_path / "p")
    async with Command(*arguments, QUERY, "--per-event") as subscriber:
        await subscriber.told("subscription ")
        async with Command(*publish) as publisher:
            await until(lambda: _more_than(output, 100), seconds=60)
            cluster[1].kill()
            code, out, err = await publisher.end()
            assert code == 0, err
            assert f"{count:,} triples published" in out
        await until(lambda: _more_than(output, count), seconds=60)
        cluster[0].kill()
        assert cluster[0].address in await subscriber.told("; reconnecting")
        await subscriber.told("reconnected after")
        last = tmp_path / "last.nt"
        last.write_text("<urn:end> <urn:p> <urn:o> .\n")
        code, _, err = await run("publish", last, "--peer", cluster[2].address, "--state", tmp_path / "p")
        assert code == 0, err
        await until(lambda: _more_than(output, count + 1), seconds=60)
    assert Counter(lines(output)[1:]) == Counter([f"<urn:s{n}>" for n in range(count)] + ["<urn:end>"])


async def test_a_publication_that_is_killed_and_run_again_counts_once(named, cluster, tmp_path, until):
    arguments, output = named
    count = 30_000
    data = tmp_path / "data.nt"
    data.write_text("".join(f"<urn:s{n}> <urn:p> <urn:o> .\n" for n in range(count)))
    publish = ("publish", data, "--peer", cluster[2].address, "--state", tmp_path / "p")
    async with Command(*arguments, QUERY, "--per-event") as subscriber:
        await subscriber.told("subscription ")
        for _ in range(2):
            had = len(lines(output)) + 1  # a moment later it is killed, far from its end
            async with Command(*publish):
                await until(lambda had=had: _more_than(output, had), seconds=60)
        code, _, err = await run(*publish)
        assert code == 0, err
        await until(lambda: _more_than(output, count), seconds=60)
    assert Counter(lines(output)[1:]) == Counter(f"<urn:s{n}>" for n in range(count))


async def test_a_blank_node_has_one_label_in_all_outputs_and_is_asked_about_by_it(keeping_all, tmp_path):
    data, query = tmp_path / "data.nt", "SELECT ?s ?o { ?s <urn:bb:p> ?o }"
    data.write_text("_:b <urn:bb:p> _:c .\n", "utf-8")
    where = ("--peer", keeping_all[0].address)
    assert (await run("publish", data, *where))[0] == 0
    async with p2prdf.connect(keeping_all[1].address) as client:
        ((s, o),) = (await client.query(query)).rows
        subscription = await client.subscribe(query, since="beginning")
        solution = await anext(aiter(subscription))
        assert solution.terms == (s, o)
        label = solution["s"].removeprefix("_:")
        assert dict(solution) == {"s": f"_:{label}", "o": f"_:{label.removesuffix('b')}c"}
        assert re.fullmatch("[0-9a-f]+_3Ab", label)
    _, told, _ = await run("query", query, "--format", "tsv", *where)
    assert told.splitlines() == ["?s\t?o", "\t".join(solution.values())]
    subscribe = ("subscribe", query, "--since", "beginning", "--count", "1", *where)
    assert (await run(*subscribe))[1] == told
    _, written, _ = await run(*subscribe, "--json")
    binding = {"type": "bnode", "value": label}
    assert json.loads(written)["bindings"]["s"] == binding
    _, written, _ = await run("query", query, "--format", "json", *where)
    assert json.loads(written)["results"]["bindings"][0]["s"] == binding
    about = f"SELECT ?o {{ <_:{label}> <urn:bb:p> ?o }}"
    assert (await run("query", about, "--format", "csv", *where))[1].split() == ["o", solution["o"]]
    code, _, err = await run("query", "ASK { <_:b0> ?p ?o }", *where)
    assert (code, "copy the label from a result" in err) == (4, True), err
    simulated = tmp_path / "query.rq"
    simulated.write_text(query, "utf-8")
    _, written, _ = await run("simulate", "--peers", "4", "--file", simulated, "--data", data, "--json")
    assert json.loads(written)["results"]["bindings"][0]["s"] == {"type": "bnode", "value": "data_3Ab"}
