"""Five processes, 100,000 real triples, 1,000 standing queries: every answer arrives, none twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
import real_data

import p2prdf

NODES = 5
DEADLINE_SECONDS = 120.0

pytestmark = pytest.mark.skipif(not real_data.available(), reason="the shared data does not lie beside the repository")


async def subscribe_all(clients, queries):
    """Subscribe to every query at one of the nodes, forty at a time."""
    held = [None] * len(queries)

    async def one(at):
        held[at] = await clients[at % len(clients)].subscribe(queries[at][0], lease_seconds=300)

    for start in range(0, len(queries), 40):
        await asyncio.gather(*(one(at) for at in range(start, min(start + 40, len(queries)))))
    return held


async def collect(subscription, expected, bag, identities):
    """Take solutions until the expected number has come."""
    async for batch in subscription.batches():
        assert batch.lost == 0
        bag.update(zip(*batch.columns, strict=True))
        identities.update(batch.identities)
        if bag.total() >= expected:
            return


HOT = {
    "membership": "overlay", "replicas": 1, "copies_min": 1,
    "hot_interval_seconds": 0.1, "hot_rate_min": 50, "hot_share": 0.05,
}  # fmt: skip
"""Keys are split early and deep, while everything is under way; only where there is one copy of everything."""


@pytest.mark.parametrize("options", [
    pytest.param({}, id=""), pytest.param(HOT, id="hot", marks=pytest.mark.long),
    pytest.param({"overlay": "chord"}, id="chord", marks=pytest.mark.long),
])  # fmt: skip
async def test_every_answer_arrives_and_none_twice(launcher, options):
    """Queries and publications at all nodes; some triples are published twice, at different nodes."""
    triples = real_data.load()
    queries = real_data.draw_queries(triples)
    nodes = launcher.overlay(NODES, drain_seconds=1, **options)  # all go at once: no node remains for a handoff
    clients = [await p2prdf.connect(node.address) for node in nodes]
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            subscriptions = await subscribe_all(clients, queries)
            bags = [Counter() for _ in queries]
            identities = [Counter() for _ in queries]
            collecting = [
                asyncio.create_task(collect(subscription, len(rows), bag, seen))
                for subscription, (_, rows), bag, seen in zip(subscriptions, queries, bags, identities, strict=True)
            ]
            parts = [triples[at::NODES] for at in range(NODES)]
            again = [part[: len(part) // 20] for part in parts]
            await asyncio.gather(*(client.publish(part) for client, part in zip(clients, parts, strict=True)))
            await asyncio.gather(*(client.publish(part) for client, part in zip(clients[1:], again, strict=False)))
            await asyncio.gather(*collecting)
            while not all(state["peer"]["idle"] for state in [await client.status() for client in clients]):
                await asyncio.sleep(0)
            states = [(await client.status())["peer"] for client in clients]
        wrong = [
            (query, (Counter(rows) - bag), (bag - Counter(rows)))
            for (query, rows), bag in zip(queries, bags, strict=True)
            if Counter(rows) != bag
        ]
        assert not wrong, wrong[:3]
        assert all(max(seen.values()) == 1 for seen in identities)
        split = [(state["keys_split"], state["sub_keys_held"]) for state in states]
        assert all(held for _, held in split) == (options is HOT), split
        assert [subscription.lost for subscription in subscriptions] == [0] * len(queries)
    finally:
        for client in clients:
            await client.close()
