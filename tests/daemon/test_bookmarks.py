"""Bookmarks through real processes: sent after all answers up to a time, and held back until all are known."""

from __future__ import annotations

import asyncio
import time

import pytest

import p2prdf

JOIN = "SELECT ?a ?c WHERE { ?a <urn:%s:p> ?b . ?b <urn:%s:q> ?c }"


async def until_bookmark(batches, after, found, seconds=45.0):
    """Take batches until a bookmark is later than a time; return it."""
    async with asyncio.timeout(seconds):
        async for batch in batches:
            found += [(row["a"], row["c"]) for row in batch]
            if batch.bookmark is not None and batch.bookmark >= after:
                return batch.bookmark
    raise AssertionError("the subscription ended")


def chain(name, numbers):
    return [
        triple
        for number in numbers
        for triple in (
            (f"<urn:{name}:a{number}>", f"<urn:{name}:p>", f"<urn:{name}:b{number}>"),
            (f"<urn:{name}:b{number}>", f"<urn:{name}:q>", f"<urn:{name}:c{number}>"),
        )
    ]


@pytest.mark.long
async def test_a_bookmark_follows_all_answers_before_its_time(launcher, tmp_path):
    """Also while a node is killed: the bookmark waits until others have done its part."""
    nodes = [launcher.start(data=tmp_path / "data0")]
    nodes += [launcher.launch(data=tmp_path / f"data{at}", bootstrap=nodes[0].address) for at in range(1, 5)]
    for node in nodes[1:]:
        node.wait_ready()
    query = JOIN % ("book", "book")
    async with (
        p2prdf.connect(nodes[0].address) as subscriber,
        p2prdf.connect(nodes[1].address) as publisher,
        p2prdf.connect(nodes[0].address) as other,
    ):
        subscription = await subscriber.subscribe(query, bookmarks=True)
        plain = await other.subscribe(query)
        batches, found = subscription.batches(), []
        told = [subscription.since]
        for part in range(4):
            if part == 2:
                nodes[4].kill()
            await publisher.publish(chain("book", range(100 * part, 100 * part + 100)), batch_triples=10)
            told.append(await until_bookmark(batches, time.time(), found))
            assert len(found) == len(set(found)) == 100 * (part + 1)
        assert told == sorted(told)
        assert subscription.bookmark == told[-1]
        async with asyncio.timeout(20):
            count = 0
            async for batch in plain.batches():
                assert batch.bookmark is None
                count += len(batch)
                if count == 400:
                    break


@pytest.mark.long
async def test_bookmarks_go_on_at_another_node_and_stop_with_their_subscription(launcher):
    nodes = launcher.overlay(3)
    addresses = ",".join(node.address for node in nodes[1:])
    async with p2prdf.connect(addresses) as subscriber, p2prdf.connect(nodes[0].address) as publisher:
        subscription = await subscriber.subscribe(JOIN % ("move", "move"), bookmarks=True)
        batches, found = subscription.batches(), []
        await publisher.publish(chain("move", range(20)))
        first = await until_bookmark(batches, time.time(), found)
        next(node for node in nodes if node.address == subscriber.peer_address).kill()
        await publisher.publish(chain("move", range(20, 40)))
        second = await until_bookmark(batches, time.time(), found)
        assert first < second
        assert len(found) == len(set(found)) == 40
        await subscription.unsubscribe()
        async with asyncio.timeout(10):
            assert [batch async for batch in batches if len(batch)] == []
