"""Real nodes that have no room: they say so, why, and when to try again."""

from __future__ import annotations

import pytest

import p2prdf

TRIPLES = [(f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(3000)]


async def test_a_quota_is_told_and_kept_to_and_nothing_is_lost(launcher):
    node = launcher.start(publish_triples_per_second=1000, admission_seconds=0.1)
    async with p2prdf.connect(node.address) as client:
        with pytest.raises(p2prdf.Busy, match="used up its quota") as refused:
            await client.publish(TRIPLES, batch_triples=500, busy_seconds=0)
        assert 0 < refused.value.retry_after < 5
        subscription = await client.subscribe("SELECT ?o WHERE { ?s <urn:p> ?o }")
        assert await client.publish(TRIPLES, batch_triples=500) == 3000
        got = [(await anext(subscription))["o"] for _ in range(3000)]
        assert sorted(got) == sorted(o for _, _, o in TRIPLES)


async def test_where_nodes_are_missing_clients_are_told_how_many_copies_can_be_had(launcher, until, status):
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


async def test_whoever_finds_no_room_to_connect_is_told_so(launcher):
    node = launcher.start(connections_max=1)
    async with p2prdf.connect(node.address):
        with pytest.raises(p2prdf.Busy, match="setting connections_max") as refused:
            await p2prdf.connect(node.address)
        assert refused.value.retry_after > 0
    node.expected.append("connection_refused")
