"""Streams through five processes: every report equals another engine's windows, although processes are killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections import Counter

import pytest
from real_streams import data
from real_streams.through_nodes import play
from windows_oracle import CountExtent, Element, Extent, WindowsOracle

import p2prdf
from p2prdf.continuous.reports import time_of
from p2prdf.rdf.terms import lexical

SECONDS = 120.0
IDLE_SECONDS = 3
"""Seconds of silence after which a publisher is not waited for: longer than a busy machine delays a heartbeat."""
RANGE, STEP = 10_000, 2_000
SENSORS = 3
OPTIONS = {"hello_seconds": 1, "stream_idle_seconds": IDLE_SECONDS}
_names = itertools.count()


@pytest.fixture(scope="module")
def nodes(launcher_in, until, all_know_each_other):
    """Five nodes that all tests share that do not hurt them."""
    with launcher_in("streams") as launcher:
        started = launcher.overlay(5, **OPTIONS)
        asyncio.run(until(lambda: all_know_each_other(started), seconds=15))
        yield started


@pytest.fixture
async def run_command():
    """Start the command line in a process of its own, which does not outlive the test."""
    processes = []

    async def start(*arguments, **options):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("P2PRDF_")}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "p2prdf_cli", *map(str, arguments), stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=environment, **{"stdin": asyncio.subprocess.DEVNULL, **options},
        )  # fmt: skip
        processes.append(process)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


class Readings:
    """A stream for one test: values of sensors; the places of the sensors are published as plain triples."""

    def __init__(self):
        self.ns = f"urn:streams{next(_names)}:"
        self.iri = f"{self.ns}stream"
        self.elements = []
        self.static = [(f"<{self.ns}s{n}>", f"<{self.ns}at>", f"<{self.ns}place{n % 2}>") for n in range(SENSORS)]

    def query(self, told):
        return f"""
            REGISTER {told} <{self.ns}query> AS SELECT ?s ?v ?at
            FROM NAMED WINDOW <{self.ns}w> ON <{self.iri}> [RANGE PT10S STEP PT2S]
            WHERE {{ ?s <{self.ns}at> ?at WINDOW <{self.ns}w> {{ ?s <{self.ns}value> ?v }} }}"""

    def some(self, *times, publisher):
        """Return a triple for each time, and take note of it as an element."""
        found = []
        for time in times:
            sensor = f"<{self.ns}s{len(self.elements) % SENSORS}>"
            triple = (sensor, f"<{self.ns}value>", f'"{publisher} {time}"')
            self.elements.append(Element(round(time * 1000), self.iri, triple))
            found.append(triple)
        return found

    def oracle(self):
        extent = Extent(self.iri, RANGE, STEP)
        return WindowsOracle(self.query("RSTREAM"), {f"<{self.ns}w>": extent}, self.static, self.elements)

    def reports(self, upto):
        """Return the times of all reports up to one, in milliseconds."""
        first = -(-min(element.time for element in self.elements) // STEP) * STEP
        return range(first, upto * 1000 + 1, STEP)

    def told(self, reported, upto):
        """Return rows with the times of their reports."""
        reports = self.oracle().told(reported, self.reports(upto))
        return Counter({(*row, now): count for now, rows in reports for row, count in rows.items()})


class CountedReadings(Readings):
    """The same readings, with the last seven elements evaluated at each third one."""

    def query(self, told):
        return super().query(told).replace("[RANGE PT10S STEP PT2S]", "[ELEMENTS 7 STEP 3]")

    def told(self, reported, upto):
        """Return rows with the times and numbers of their reports."""
        extent = CountExtent(self.iri, 7, 3)
        times = extent.reports(self.elements, upto * 1000)
        windows = {f"<{self.ns}w>": extent}
        oracle = WindowsOracle(self.query("RSTREAM"), windows, self.static, self.elements)
        reports = oracle.told(reported, list(times))
        return Counter({(*row, times[k], k): count for k, rows in reports for row, count in rows.items()})


async def rows_of(subscription, wanted):
    """Return ``wanted`` rows of a stream of reports; each comes once, and reports in their order."""
    rows, identities, last = Counter(), set(), -1
    while rows.total() < wanted:
        solution = await anext(subscription)
        *row, term = solution.terms
        number = () if term.endswith("dateTime>") else (int(lexical(term)),)  # behind the time, if windows are by count
        now = time_of(row.pop() if number else term)
        assert not solution.removed
        assert solution.identity not in identities
        assert now >= last
        identities.add(solution.identity)
        last = now
        rows[*row, now, *number] += 1
    return rows


async def all_rows(subscription, readings, reported, upto):
    """Read the rows up to a report, and compare them."""
    expected = readings.told(reported, upto)
    assert expected.total()
    rows = await rows_of(subscription, expected.total())
    assert rows == expected, (rows - expected, expected - rows)


async def test_every_report_of_two_publishers_out_of_order(nodes):
    """As a stream of the window's content, of its new rows, and as changes, which are compared step by step."""
    readings, end = Readings(), 24
    async with (
        asyncio.timeout(SECONDS),
        p2prdf.connect(nodes[0].address) as one,
        p2prdf.connect(nodes[1].address) as other,
        p2prdf.connect(nodes[2].address) as subscriber,
    ):
        await one.publish(readings.static)
        whole = await subscriber.subscribe(readings.query("RSTREAM"), since="beginning")
        news = await other.subscribe(readings.query("ISTREAM"), since="beginning")
        changes = await one.subscribe(readings.query("QUERY"), since="beginning")
        held = Counter()

        async def follow():
            async for solution in changes:
                held[solution.terms] += -1 if solution.removed else 1

        following = asyncio.create_task(follow())
        async with one.stream(readings.iri, lateness=2) as first, other.stream(readings.iri, lateness=2) as second:
            for now in range(2, end + 1, 2):
                for stream, name, times in (
                    (first, "a", (now, now - 1.5)), (second, "b", (now - 0.5, now - 1.9, now - 0.001)),
                ):  # fmt: skip
                    await stream.publish(readings.some(*times, publisher=name), time=times)
                    await stream.heartbeat(now)
                _, expected = readings.oracle().solutions(now * 1000)
                while +held != expected:
                    await asyncio.sleep(0)
        following.cancel()
        await all_rows(whole, readings, "rstream", end)
        await all_rows(news, readings, "istream", end)
        # Only rows published later follow.
        async with one.stream(readings.iri) as first:
            await first.publish(readings.some(end + 20, publisher="a"), time=end + 20)
            for subscription, reported in ((whole, "rstream"), (news, "istream")):
                later = readings.told(reported, end + 20) - readings.told(reported, end)
                assert await rows_of(subscription, later.total()) == later


async def test_plain_braces_of_c_sparql_join_a_stream_with_a_static_graph(nodes):
    readings = Readings()
    query = f"""REGISTER STREAM q AS SELECT ?s ?v ?at
        FROM STREAM <{readings.iri}> [RANGE 10s STEP 2s] FROM <{readings.ns}graph>
        WHERE {{ ?s <{readings.ns}at> ?at . ?s <{readings.ns}value> ?v }}"""
    async with (
        asyncio.timeout(SECONDS),
        p2prdf.connect(nodes[0].address) as publisher,
        p2prdf.connect(nodes[2].address) as subscriber,
    ):
        await publisher.publish(readings.static, graph=f"<{readings.ns}graph>")
        await publisher.publish([(f"<{readings.ns}s0>", f"<{readings.ns}at>", f"<{readings.ns}nowhere>")])
        subscription = await subscriber.subscribe(query, since="beginning")
        async with publisher.stream(readings.iri) as stream:
            for now in range(2, 13, 2):
                times = (now - 1, now)
                await stream.publish(readings.some(*times, publisher="a"), time=times)
                await stream.heartbeat(now)
            await all_rows(subscription, readings, "rstream", 12)


async def test_a_killed_publisher_is_waited_for_for_a_while_and_its_elements_count(nodes, run_command):
    """One by the command line, fed line by line; the other one goes on."""
    readings = Readings()
    async with (
        asyncio.timeout(SECONDS),
        p2prdf.connect(nodes[3].address) as client,
        p2prdf.connect(nodes[4].address) as subscriber,
    ):
        await client.publish(readings.static)
        whole = await subscriber.subscribe(readings.query("RSTREAM"), since="beginning")
        options = ("--stream", readings.iri, "--timed", "--peer", nodes[2].address)
        killed = await run_command("publish", "-", *options, stdin=asyncio.subprocess.PIPE)
        for time in (1, 2, 3, 5):
            for triple in readings.some(time, publisher="killed"):
                killed.stdin.write(f"{time}\t{' '.join(triple)} .\n".encode())
        async with client.stream(readings.iri) as stream:
            for time in (1, 4, 7):
                await stream.publish(readings.some(time, publisher="alive"), time=time)
            await stream.heartbeat(12)
            expected = readings.told("rstream", 4)
            assert await rows_of(whole, expected.total()) == expected, "up to what the other one has said"
            killed.kill()
            later = readings.told("rstream", 12) - expected
            assert await rows_of(whole, later.total()) == later


@pytest.mark.long
async def test_a_command_that_was_killed_goes_on_and_its_elements_count_once(nodes, run_command, tmp_path, until):
    readings, end = Readings(), 40
    times = [number / 50 for number in range(50, 50 * end)]
    triples = readings.some(*times, publisher="a")
    rows = zip(times, triples, strict=True)
    (tmp_path / "readings.tsv").write_text("".join(f"{time}\t{' '.join(triple)} .\n" for time, triple in rows))
    state = tmp_path / "state.json"
    options = ("--stream", readings.iri, "--timed", "--lateness", 1, "--state", state, "--upto", end, "--json")
    arguments = ("publish", tmp_path / "readings.tsv", *options, "--peer", nodes[0].address)
    async with asyncio.timeout(SECONDS), p2prdf.connect(nodes[1].address) as client:
        await client.publish(readings.static)
        whole = await client.subscribe(readings.query("RSTREAM"), since="beginning")

        async def statements():
            return state.exists() and json.loads(state.read_text())["files"][0]["statements"]

        done = 0
        for _ in range(2):
            command = await run_command(*arguments, "--pace", 4)
            await until(lambda done=done: statements_beyond(statements, done + 20), seconds=60)
            command.kill()
            await command.wait()
            done = await statements()
        command = await run_command(*arguments)
        out, err = await command.communicate()
        report = json.loads(out)
        assert (command.returncode, report["resumed_after"], report["upto"]) == (0, done, end), err
        assert 0 < done < len(times)
        await all_rows(whole, readings, "rstream", end)


async def statements_beyond(statements, number):
    return (await statements()) > number


async def test_reports_by_the_command_line(nodes, run_command):
    """As JSON, and as tab-separated values: the time of the report is the last column."""
    readings = Readings()
    query = readings.query("RSTREAM")
    common = ("--since", "beginning", "--count", "2", "--peer", nodes[4].address)
    commands = [await run_command("subscribe", query, *common, *more) for more in ((), ("--json",))]
    for command in commands:
        assert b"subscription" in await command.stderr.readline()
    async with asyncio.timeout(SECONDS), p2prdf.connect(nodes[0].address) as client:
        await client.publish(readings.static)
        async with client.stream(readings.iri) as stream:
            (triple,) = readings.some(3, publisher="a")
            await stream.publish([triple], time=3)
            await stream.heartbeat(6)
            tabs, lines = [(await command.communicate())[0].decode().splitlines() for command in commands]
    place = readings.static[0][2]
    moment = "http://www.w3.org/2001/XMLSchema#dateTime"
    assert tabs == [
        "?s\t?v\t?at\t?report_time",
        *(f'{triple[0]}\t"a 3"\t{place}\t"1970-01-01T00:00:0{at}Z"^^<{moment}>' for at in (4, 6)),
    ]
    assert [json.loads(line)["bindings"]["report_time"] for line in lines] == [
        {"type": "literal", "value": f"1970-01-01T00:00:0{at}Z", "datatype": moment} for at in (4, 6)
    ]


async def test_a_query_with_windows_is_left_and_not_asked_once(nodes):
    async with asyncio.timeout(SECONDS), p2prdf.connect(nodes[0].address) as client:
        with pytest.raises(p2prdf.QueryRefused, match="subscribe to it"):
            await client.query(Readings().query("RSTREAM"))


@pytest.mark.long
async def test_a_node_is_killed_while_reports_go_on(launcher, until, status):
    """The node is the query's coordinator and serves a publisher, too: nothing is lost, and nothing comes twice.

    Reports pause until the surviving nodes know that they have all of the killed node's data.
    """
    readings, end = Readings(), 20
    nodes = launcher.overlay(5, **OPTIONS)

    async def in_sync():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(len(peer["contacts"]) == 5 and peer["settled"] and peer["in_sync"] for peer in peers)

    await until(in_sync, seconds=60)
    async with asyncio.timeout(SECONDS), p2prdf.connect(nodes[0].address) as subscriber:
        await subscriber.publish(readings.static)
        whole = await subscriber.subscribe(readings.query("RSTREAM"), since="beginning", lease_seconds=300)
        home = (await subscriber.explain(whole))["home"]["nodes"][0]
        (killed,) = [node for node in nodes if node.address == home]
        second = next(node for node in nodes[1:] if node is not killed)
        rows = Counter()
        async with (
            p2prdf.connect(killed.address) as one,
            p2prdf.connect(second.address) as other,
            one.stream(readings.iri, lateness=2) as a,
            other.stream(readings.iri, lateness=2) as b,
        ):
            for now in range(2, end + 1):
                for stream, name, times in ((a, "a", (now, now - 1.5)), (b, "b", (now - 0.5, now - 1.9))):
                    await stream.publish(readings.some(*times, publisher=name), time=times)
                if now == end // 2:  # some reports have come
                    expected = readings.told("rstream", end // 2 - 4)
                    rows += await rows_of(whole, expected.total())
                    assert rows == expected
                    killed.kill()
            for stream in (a, b):
                await stream.heartbeat(end)
            expected = readings.told("rstream", end)
            rows += await rows_of(whole, expected.total() - rows.total())
            assert rows == expected, (rows - expected, expected - rows)
            # Only rows published later follow.
            await a.publish(readings.some(end + 20, publisher="a"), time=end + 20)
            for stream in (a, b):
                await stream.heartbeat(end + 20)
            later = readings.told("rstream", end + 20) - expected
            assert await rows_of(whole, later.total()) == later


@pytest.mark.long
async def test_counting_of_elements_goes_on_when_the_counting_node_is_killed(launcher, until, status):
    """Event time advances so fast that the coordinator has replicated its progress and dropped ended windows."""
    readings, end = CountedReadings(), 400
    nodes = launcher.overlay(5, **OPTIONS)

    async def in_sync():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(len(peer["contacts"]) == 5 and peer["settled"] and peer["in_sync"] for peer in peers)

    await until(in_sync, seconds=60)
    async with asyncio.timeout(SECONDS), p2prdf.connect(nodes[0].address) as subscriber:
        await subscriber.publish(readings.static)
        whole = await subscriber.subscribe(readings.query("RSTREAM"), since="beginning", lease_seconds=300)
        news = await subscriber.subscribe(readings.query("DSTREAM"), since="beginning", lease_seconds=300)
        home = (await subscriber.explain(whole))["home"]["nodes"][0]
        (killed,) = [node for node in nodes if node.address == home]
        second = next(node for node in nodes[1:] if node is not killed)
        told = {whole: ("rstream", Counter()), news: ("dstream", Counter())}

        async def all_told(upto):
            for subscription, (reported, rows) in told.items():
                expected = readings.told(reported, upto)
                rows += await rows_of(subscription, expected.total() - rows.total())
                assert rows == expected, (reported, rows - expected, expected - rows)

        async with (
            p2prdf.connect(killed.address) as one,
            p2prdf.connect(second.address) as other,
            one.stream(readings.iri, lateness=40) as a,
            other.stream(readings.iri, lateness=40) as b,
        ):
            for now in range(40, end + 1, 10):
                for stream, name, times in ((a, "a", (now, now - 15)), (b, "b", (now - 5, now - 15, now - 38))):
                    await stream.publish(readings.some(*times, publisher=name), time=times)
                if now == end // 2:
                    for stream in (a, b):
                        await stream.heartbeat(now - 30)
                    await all_told(now - 30)
                    killed.kill()
            for stream in (a, b):
                await stream.heartbeat(end)
            await all_told(end)
            # Only rows published later follow.
            for stream, name in ((a, "a"), (b, "b")):
                await stream.publish(readings.some(end + 20, end + 20, publisher=name), time=end + 20)
                await stream.heartbeat(end + 20)
            await all_told(end + 20)


@pytest.mark.long
async def test_publishers_close_at_different_times_and_one_subscribes_when_all_have(launcher, until, status):
    """Nobody has it open any more, and the node that they were connected to is killed: all is reported."""
    readings, end = Readings(), 20
    nodes = launcher.overlay(5, **OPTIONS)

    async def in_sync():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(len(peer["contacts"]) == 5 and peer["settled"] and peer["in_sync"] for peer in peers)

    await until(in_sync, seconds=60)
    async with asyncio.timeout(SECONDS), p2prdf.connect(nodes[0].address) as subscriber:
        await subscriber.publish(readings.static)
        early = await subscriber.subscribe(readings.query("RSTREAM"), since="beginning")
        async with p2prdf.connect(nodes[4].address) as publisher:
            first, second = (publisher.stream(readings.iri, lateness=2) for _ in range(2))
            await first.publish(readings.some(9, 8, publisher="first"), time=[9, 8])
            await second.publish(readings.some(2, publisher="second"), time=2)
            await first.close(upto=end)
            await second.publish(readings.some(7, 6, publisher="second"), time=[7, 6])
            await second.close()
        nodes[4].kill()
        await all_rows(early, readings, "rstream", end)
        late = await subscriber.subscribe(readings.query("ISTREAM"), since="beginning")
        await all_rows(late, readings, "istream", end)
        # Only rows published later follow, by a publisher that opens the stream again.
        async with subscriber.stream(readings.iri) as again:
            await again.publish(readings.some(end + 20, publisher="again"), time=end + 20)
            await again.heartbeat(end + 30)
            for subscription, reported in ((early, "rstream"), (late, "istream")):
                later = readings.told(reported, end + 30) - readings.told(reported, end)
                assert await rows_of(subscription, later.total()) == later


@pytest.mark.skipif(not data.available(), reason="the shared data does not lie beside the repository")
async def test_real_sensors(nodes):
    """Half of CSRBench; all of it and more is ``make windows``."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(p2prdf.connect(node.address)) for node in nodes]
        async with asyncio.timeout(SECONDS):
            outcome = await play(data.load("csrbench", "urn:csrbench").upto(12), clients)
    assert outcome.wrong == []
    assert outcome.reports > 100
    assert outcome.rows > 20
    assert outcome.published_answers > 15
