"""A subscriber that does not read, a node that is stopped in the middle, and the garbage collector."""

from __future__ import annotations

import asyncio
import functools
import socket
import time

import pytest

import p2prdf
from p2prdf.client import Gap
from p2prdf.client.session import open_session
from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import messages
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import CLIENT_VERSION


def frame(*parts):
    return FrameCodec(TermDictionary(), LISTS).encode(list(parts))


async def test_a_subscriber_that_stops_reading_costs_a_bounded_amount_and_others_nothing(
    launcher, until, all_know_each_other, status
):
    """Answers pile up for a sleeping subscriber; another subscriber gets all, and the backlog stays within bounds."""
    nodes = launcher.overlay(2, solutions_window=1000, solutions_pending_max=3000)
    await until(lambda: all_know_each_other(nodes))
    query = "SELECT ?s ?o { ?s <urn:slow> ?o }"
    sleeper = socket.create_connection(("127.0.0.1", nodes[0].port))
    sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # or the kernel may buffer a whole window
    _, writer = await asyncio.open_connection(sock=sleeper, limit=1024)
    try:
        writer.write(frame(messages.ClientHello(CLIENT_VERSION, "sleeper")))
        writer.write(frame(messages.ClientSubscribe(1, query, "csbv", False, 60.0)))

        async def asleep():
            return (await status(nodes[0]))["clients"]["deliveries"] == 1

        async def piled_up(read):
            """Tell whether half a window of the sleeper is written or waits, besides the answers already read."""
            clients = (await status(nodes[0]))["clients"]
            return read + 500 < clients["solutions"] + clients["solutions_waiting"] <= read + 1000

        await until(asleep)
        async with (
            p2prdf.connect(nodes[0].address) as client,
            p2prdf.connect(nodes[1].address) as publisher,
        ):
            awake = await client.subscribe(query)
            text = "x" * 10_000

            async def publish(first, last):
                source = ((f"<urn:s{n}>", "<urn:slow>", f'"{text}{n}"') for n in range(first, last))
                assert await publisher.publish(source, batch_triples=50) == last - first

            async def read(count):
                seen = 0
                async for batch in awake.batches():
                    assert batch.lost == 0
                    seen += len(batch)
                    if seen == count:
                        return

            async with asyncio.timeout(40):
                for first in range(0, 4000, 2000):
                    await asyncio.gather(publish(first, first + 2000), read(2000))
                    await until(functools.partial(piled_up, first + 2000))  # solutions for the sleeper may come later
                    assert (await status(nodes[0]))["clients"]["solutions_waiting"] <= 1000
    finally:
        writer.transport.abort()


async def test_a_subscriber_that_stopped_reading_is_sent_the_gap_of_dropped_solutions(launcher):
    """The coordinator keeps the newest solutions; the older ones are reported as a gap, in order."""
    node = launcher.start(solutions_window=100, solutions_pending_max=1000)
    count = 5000
    async with p2prdf.connect(node.address) as client, p2prdf.connect(node.address) as publisher:
        subscription = await client.subscribe("SELECT ?o { <urn:s> <urn:p> ?o }", auto_acknowledge=False)
        await publisher.publish((("<urn:s>", "<urn:p>", f'"{n}"') for n in range(count)), batch_triples=100)
        expected, seen = 1, []
        async with asyncio.timeout(20):
            async for batch in subscription.batches():
                assert batch.first == expected + batch.lost
                expected = batch.last + 1
                seen += batch.columns[0]
                subscription.acknowledge()
                if batch.last == count:
                    break
        assert 1000 <= len(seen) <= 1100
        assert len(set(seen)) == len(seen) == count - subscription.lost
        assert seen[-1000:] == [f'"{n}"' for n in range(count - 1000, count)]


async def test_sigterm_in_the_middle_of_a_publication_is_prompt_and_loses_nothing_acknowledged(
    launcher, until, all_know_each_other
):
    nodes = launcher.overlay(2)
    await until(lambda: all_know_each_other(nodes))
    async with p2prdf.connect(nodes[0].address) as subscriber:
        await subscriber.subscribe("SELECT ?s { ?s <urn:p> <urn:o> }")
        publisher = await p2prdf.connect(nodes[1].address, reconnect_seconds=0)
        acknowledged = 0

        def note(progress):
            nonlocal acknowledged
            acknowledged = progress.triples
            if acknowledged == 1000:
                nodes[1].terminate()

        try:
            await publisher.publish(
                ((f"<urn:s{n}>", "<urn:p>", "<urn:o>") for n in range(1_000_000)),
                batch_triples=100, on_progress=note,
            )  # fmt: skip
            raise AssertionError("the publication should have been cut off")
        except p2prdf.Unavailable:
            pass
        finally:
            await publisher.close()
        began = time.monotonic()
        assert await asyncio.to_thread(nodes[1].wait) == 0
        assert time.monotonic() - began < 8
    assert acknowledged >= 1000


async def test_the_garbage_collector_is_tamed(overlay, status):
    state = (await status(overlay[0]))["garbage_collector"]
    assert state["thresholds"] == [100_000, 50, 100]
    assert state["frozen"] > 10_000


async def test_status_has_the_figures_that_operators_need(overlay, status):
    state = await status(overlay[0])
    assert len(state["peers"]) == 4
    assert state["memory_bytes"] > 10_000_000
    assert state["peer"]["key"] == overlay[0].key
    assert {"links", "waiting"} <= set(state["transport"])


async def test_absent_subscriber_is_sent_the_gap_of_expired_solutions_and_publishers_notice_nothing(
    launcher, until, status
):
    node = launcher.start(retention_seconds=1)
    async with p2prdf.connect(node.address) as client:
        subscription = await client.subscribe("SELECT ?o { ?s <urn:p> ?o }", lease_seconds=600, auto_acknowledge=False)
        token = subscription.token()
    async with p2prdf.connect(node.address) as client:
        assert await client.publish((f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(100)) == 100

        async def dropped():
            return (await client.status())["peer"]["solutions_dropped"] == 100

        await until(dropped, seconds=30)
        again = await client.attach(token, auto_acknowledge=False)
        batches = again.batches()
        batch = await asyncio.wait_for(anext(batches), 30)
        assert (len(batch), batch.lost, batch.gap) == (0, 100, Gap(1, 100))
        await client.publish([("<urn:s>", "<urn:p>", '"new"')])
        batch = await asyncio.wait_for(anext(batches), 30)
        assert (batch.first, batch.gap, batch.columns) == (101, None, (['"new"'],))


async def test_a_lease_below_a_second_is_refused(overlay, status):
    """A subscription with a lease over before it opens made a node search for expired items without end."""
    before = (await status(overlay[0]))["peer"]["subscriptions_coordinated"]
    session = await open_session("127.0.0.1", overlay[0].port, connect_seconds=60.0)
    try:
        for lease in (0.0, 1e-6, 0.999, 1e12):
            with pytest.raises(p2prdf.LocalProtocolError, match=r"a lease of .* s is not within 1 to"):
                await session.ask(
                    lambda request, lease=lease: messages.ClientSubscribe(request, "ASK {}", "csbv", False, lease),
                    timeout_seconds=60.0,
                )
        await session.ask(messages.ClientPing, timeout_seconds=60.0)
    finally:
        session.close()
    assert (await status(overlay[0]))["peer"]["subscriptions_coordinated"] == before
