"""Real nodes at their bounds: they refuse with the reason and a time to retry."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import p2prdf
from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import CLIENT_VERSION, ClientHello

TRIPLES = [(f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(3000)]


async def test_a_quota_is_reported_and_enforced_and_nothing_is_lost(launcher):
    node = launcher.start(publish_triples_per_second=1000, admission_seconds=0.1)
    async with p2prdf.connect(node.address) as client:
        with pytest.raises(p2prdf.Busy, match="used up its quota") as refused:
            await client.publish(TRIPLES, batch_triples=500, busy_seconds=0)
        assert 0 < refused.value.retry_after < 5
        subscription = await client.subscribe("SELECT ?o WHERE { ?s <urn:p> ?o }")
        assert await client.publish(TRIPLES, batch_triples=500) == 3000
        got = [(await anext(subscription))["o"] for _ in range(3000)]
        assert sorted(got) == sorted(o for _, _, o in TRIPLES)


async def test_clients_are_told_how_many_copies_are_possible_while_nodes_are_missing(launcher, until, status):
    nodes = launcher.overlay(2, replicas=2, copies_min=2, admission_seconds=0.2)

    async def met():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(len(peer["contacts"]) == 2 and peer["settled"] for peer in peers)

    await until(met, seconds=60)
    async with p2prdf.connect(nodes[0].address) as client:
        await client.publish(TRIPLES[:1])
        nodes[1].kill()

        async def missed():
            return (await client.status())["peer"]["busy"]

        await until(missed, seconds=60)
        with pytest.raises(p2prdf.Busy, match="only 1 of the 2 nodes are there") as refused:
            await client.publish(TRIPLES[1:], busy_seconds=0)
        assert refused.value.retry_after == 1
        with pytest.raises(p2prdf.Busy, match="copies_min"):
            await client.subscribe("SELECT ?o WHERE { ?s <urn:p> ?o }", busy_seconds=0)


async def test_a_client_that_exceeds_the_connection_bound_is_refused_as_busy(launcher):
    node = launcher.start(connections_max=1)
    async with p2prdf.connect(node.address) as client:
        await client.status()  # a connection without any request would make room
        with pytest.raises(p2prdf.Busy, match="setting connections_max") as refused:
            await p2prdf.connect(node.address)
        assert refused.value.retry_after > 0
    node.expected.append("connection_refused")


async def test_connections_that_only_say_hello_make_room_for_clients_that_work(launcher):
    node = launcher.start(connections_max=4)
    hello = FrameCodec(TermDictionary(), LISTS).encode([ClientHello(CLIENT_VERSION, "")])
    async with p2prdf.connect(node.address) as works, contextlib.AsyncExitStack() as stack:
        await works.status()
        idle = []
        for number in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
            stack.callback(lambda writer=writer: writer.transport.abort())
            if number:
                writer.write(hello)
                await reader.readexactly(4)
                idle.append(reader)
        async with p2prdf.connect(node.address) as other:
            assert await other.publish([("<urn:s>", "<urn:p>", "<urn:o>")])
            connections = (await other.status())["connections"]
        async with asyncio.timeout(10):
            last_words = await idle[0].read()  # the oldest that said hello
        assert b"this one has made no request" in last_words
        assert connections["evicted"] == {"silent": 1, "idle": 5}
        await works.status()
    node.expected.append("connection_refused")


async def test_an_evicted_client_connects_again_when_it_has_a_request(launcher):
    node = launcher.start(connections_max=1)
    async with p2prdf.connect(node.address) as idle:
        async with p2prdf.connect(node.address) as other:
            await other.status()
        assert (await idle.status())["connections"]["evicted"] == {"idle": 1}
    node.expected.append("connection_refused")


async def test_one_address_cannot_take_all_places(launcher):
    node = launcher.start(connections_per_address_max=1)
    async with p2prdf.connect(node.address) as client:
        await client.status()
        with pytest.raises(p2prdf.Busy, match=r"from 127\.0\.0\.1 \(setting connections_per_address_max\)"):
            await p2prdf.connect(node.address)
        _, writer = await asyncio.open_connection("127.0.0.1", node.port, local_addr=("127.0.0.2", 0))
        try:
            async with asyncio.timeout(10):
                while (connections := (await client.status())["connections"])["open"] < 2:
                    pass
            assert connections["refused"] == {"busy": 1}
        finally:
            writer.transport.abort()
            await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])
    node.expected.append("connection_refused")
