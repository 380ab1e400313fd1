"""``kill -9`` of the node that a client is connected to: the client goes on at another one."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import pytest

import p2prdf

SECONDS = 120.0
TRIPLES = 3000
QUERY = "SELECT ?s ?o { ?s <urn:p> ?m . ?m <urn:q> ?o }"


def triples():
    """Yield triples of which each two make an answer."""
    for n in range(TRIPLES // 2):
        yield (f"<urn:s{n}>", "<urn:p>", f"<urn:m{n}>")
        yield (f"<urn:m{n}>", "<urn:q>", f'"{n}"')


def expected():
    return Counter((f"<urn:s{n}>", f'"{n}"') for n in range(TRIPLES // 2))


@pytest.fixture
async def cluster(launcher, until, status):
    """Five nodes that keep three copies of everything, in sync."""
    nodes = launcher.overlay(5, hello_seconds=1)

    async def in_sync():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(len(peer["contacts"]) == 5 and peer["settled"] and peer["in_sync"] for peer in peers)

    await until(in_sync, seconds=60)
    return nodes


async def collect(subscription, wanted):
    """Return ``wanted`` answers or more, and check that their numbers are consecutive."""
    found = Counter()
    async for batch in subscription.batches():
        assert batch.first == found.total() + 1
        found.update(zip(*batch.columns, strict=True))
        if found.total() >= wanted:
            return found
    return found


@pytest.mark.parametrize("ending", ["kill", "terminate"])
async def test_a_publication_survives_its_node_and_counts_once(cluster, ending):
    """Seen by a query that counts events.  The client was given one address: it knows others from the node itself."""
    async with (
        asyncio.timeout(SECONDS),
        p2prdf.connect(cluster[0].address) as subscriber,
        p2prdf.connect(cluster[1].address) as publisher,
    ):
        subscription = await subscriber.subscribe(QUERY, per_event=True)
        told = []

        def progress(done):
            told.append(done.triples)
            if done.triples == 1000:
                getattr(cluster[1], ending)()

        reading = asyncio.create_task(collect(subscription, TRIPLES // 2))
        assert await publisher.publish(triples(), batch_triples=20, on_progress=progress) == TRIPLES
        assert told == list(range(20, TRIPLES + 1, 20))
        if ending == "kill":  # a leaving node may have finished the publication that it had taken
            assert publisher.peer_address in {node.address for node in cluster if node is not cluster[1]}
        assert await reading == expected()
        await publisher.publish([("<urn:end>", "<urn:p>", "<urn:end>"), ("<urn:end>", "<urn:q>", "<urn:end>")])
        assert (await anext(subscription))["s"] == "<urn:end>", "nothing came twice"


async def test_a_subscription_survives_its_node_with_every_answer_once(cluster):
    addresses = ",".join(node.address for node in cluster[1:3])
    moved = []
    async with (
        asyncio.timeout(SECONDS),
        p2prdf.connect(cluster[0].address) as publisher,
        p2prdf.connect(addresses, on_reconnect=moved.append) as subscriber,
    ):
        subscription = await subscriber.subscribe(QUERY)

        def progress(done):
            if done.triples == 1000:
                cluster[1].kill()

        reading = asyncio.create_task(collect(subscription, TRIPLES // 2))
        assert await publisher.publish(triples(), batch_triples=20, on_progress=progress) == TRIPLES
        assert await reading == expected()
        await publisher.publish([("<urn:end>", "<urn:p>", "<urn:end>"), ("<urn:end>", "<urn:q>", "<urn:end>")])
        assert (await anext(subscription))["s"] == "<urn:end>", "nothing came twice"
    assert len(moved) == 1


async def test_a_subscriber_leaves_a_node_that_hangs(cluster):
    """SIGSTOP: for the kernel it is alive, and so is the connection."""
    hung = cluster[1]
    options = {"ping_seconds": 0.5, "timeout_seconds": 3.0}
    async with asyncio.timeout(SECONDS), p2prdf.connect(hung.address, **options) as subscriber:
        subscription = await subscriber.subscribe("SELECT ?s { ?s <urn:p> <urn:o> }")
        hung.process.send_signal(signal.SIGSTOP)
        try:
            async with p2prdf.connect(cluster[0].address) as publisher:
                await publisher.publish([("<urn:s>", "<urn:p>", "<urn:o>")])
            assert (await anext(subscription))["s"] == "<urn:s>"
            assert subscriber.peer_address != hung.address
        finally:
            hung.process.send_signal(signal.SIGCONT)
