"""Real nodes that are told to stop: their accepted publications and their copies of others' data stay."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from functools import partial

import pytest
from chaos import workload
from chaos.cluster import Cluster
from chaos.following import Follower
from chaos.judge import Judge
from chaos.publishing import Publication, Publisher

import p2prdf

NAMES = [(f"<urn:s{n}>", "<urn:name>", f'"{n}"') for n in range(1000)]
AGES = [(f"<urn:s{n}>", "<urn:age>", f'"{n}"') for n in range(1000)]
WHO = "SELECT ?s ?n ?a WHERE { ?s <urn:name> ?n . ?s <urn:age> ?a }"


def told(node, event):
    """Return the records of an event in a node's log."""
    return [json.loads(line) for line in node.text().splitlines() if f'"{event}"' in line]


async def until_back(cluster, until):
    """Wait until all nodes know each other, and may be primaries again."""

    async def back():
        peers = [(state or {}).get("peer") for state in await cluster.statuses()]
        return all(p and len(p["contacts"]) == len(peers) and p["settled"] and p["in_sync"] for p in peers)

    await until(back, seconds=60)


async def until_whole(nodes, status, until):
    """Wait until all copies are at their replicas."""

    async def whole():
        peers = [(await status(node))["peer"] for node in nodes]
        met = all(len(peer["contacts"]) == len(nodes) and peer["settled"] for peer in peers)
        return met and all(p["in_sync"] and not p["comparing"] and not p["recomputing"] for p in peers)

    await until(whole, seconds=60)


@pytest.mark.long
async def test_nodes_restarted_one_after_the_other_lose_and_repeat_nothing_while_clients_go_on(until):
    """Every node, with a disk, is told to stop once; publishers and subscribers use any node that is there."""
    cluster = Cluster(5, {})
    try:
        await cluster.start()
        addresses = [node.address for node in cluster.nodes]
        queries = workload.generated_queries()[:8]
        followers = [Follower(addresses, queries[number::2], random.Random(number)) for number in range(2)]
        tasks = [asyncio.create_task(each.run()) for each in followers]
        await asyncio.gather(*(each.live.wait() for each in followers))
        publications = workload.publications(0)
        stopped = False

        async def next_publication():
            await asyncio.sleep(0.1)
            return None if stopped else Publication(next(publications), 0.0)

        publisher = Publisher(addresses, next_publication, random.Random(2))
        publishing = asyncio.create_task(publisher.run())
        for node in cluster.nodes:
            await node.leave(60)
            await node.start()
            await until_back(cluster, until)
        stopped = True
        await asyncio.wait_for(publishing, 60)
        judge = Judge(publisher.publications)
        followed = [each for follower in followers for each in follower.followed]
        async with asyncio.timeout(60):
            while not judge.complete(followed):
                await asyncio.sleep(0.05)
        verdict, _ = judge.judge_all(followed)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert verdict.good, verdict
        assert verdict.delivered > 100
        drained = [
            json.loads(line)
            for node in cluster.nodes
            for line in node.log.read_text().splitlines()
            if '"node_drained"' in line
        ]
        assert [(each["complete"], each["publications_open"]) for each in drained] == [(True, 0)] * 5
        assert sum((each.failures for each in followers), publisher.failures).keys() <= {"leaving", "unavailable"}
        assert await cluster.stop() == []
    finally:
        await cluster.close()


@pytest.mark.long
async def test_two_replicas_of_the_same_data_may_leave_at_once_and_others_keep_it(launcher, status, until):
    """Two of four nodes leave, with two copies and no disks: they hand their data to the remaining nodes."""
    nodes = launcher.overlay(4, replicas=2, copies_min=2)
    await until_whole(nodes, status, until)
    async with p2prdf.connect(nodes[0].address) as client:
        subscription = await client.subscribe(WHO, lease_seconds=600, auto_acknowledge=False)
        await client.publish(NAMES)
        token = subscription.token()
    for node in nodes[2:]:
        node.terminate()
    for node in nodes[2:]:
        assert await asyncio.to_thread(node.wait, 60) == 0
        (drained,) = told(node, "node_drained")
        assert drained["handed_off"]

    async def both_have_all():
        return [(await status(node))["peer"]["triples"] for node in nodes[:2]] == [1000, 1000]

    await until(both_have_all, seconds=30)
    async with p2prdf.connect(nodes[1].address) as client:
        again = await client.attach(token)
        await client.publish(AGES)
        answers = set()
        async with asyncio.timeout(60):
            while len(answers) < 1000:
                answers.add((await anext(again))["s"])
    assert answers == {s for s, _, _ in NAMES}


async def test_a_node_that_left_in_order_is_not_waited_for_and_a_killed_node_is(launcher, status, until):
    """The remaining nodes wait for a missing node, as it may hold the only copy of some data."""
    nodes = launcher.overlay(3, replicas=2, copies_min=1)
    await until_whole(nodes, status, until)

    async def counted_on(alive, expected):
        peer = (await status(nodes[0]))["peer"]
        return (len(peer["contacts"]), peer["members_max"]) == (alive, expected)

    assert await counted_on(3, 3)
    nodes[2].terminate()
    assert await asyncio.to_thread(nodes[2].wait, 60) == 0
    await until(lambda: counted_on(2, 2), seconds=60)
    nodes[1].kill()
    await until(lambda: counted_on(1, 2), seconds=60)


async def test_a_leaving_node_reports_it_and_a_second_signal_ends_the_waiting(launcher, status, until):
    """The only other node does not answer, so there is no node for a handoff."""
    options = {"ping_strikes_linked": 100_000, "drain_seconds": 600, "replicas": 2, "copies_min": 2}
    node, other = launcher.overlay(2, **options)
    await until_whole([node, other], status, until)
    stay = partial(p2prdf.connect, node.address, reconnect_seconds=0)
    async with stay() as publisher, stay() as subscriber:
        subscription = await subscriber.subscribe(WHO)
        await publisher.publish(NAMES[:1])
        other.process.send_signal(signal.SIGSTOP)
        publishing = asyncio.create_task(publisher.publish(AGES))

        async def under_way():
            return (await status(node))["clients"]["publications_in_flight"]

        await until(under_way)
        async def all_that_comes():
            async for _ in subscription:  # answers that need no other node may come before it leaves
                pass

        node.terminate()
        with pytest.raises(p2prdf.NodeLeaving, match="connect to another one"):
            await asyncio.wait_for(all_that_comes(), 30)
        with pytest.raises(p2prdf.NodeLeaving):
            await stay()
        assert not publishing.done()
        assert not told(node, "node_drained")
        node.terminate()
        with pytest.raises(p2prdf.NodeLeaving):
            await asyncio.wait_for(publishing, 30)
    assert await asyncio.to_thread(node.wait, 60) == 0
    (drained,) = told(node, "node_drained")
    assert (drained["complete"], drained["publications_open"]) == (False, 1)
    other.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("ignored", [False, True])
async def test_a_node_leaves_on_sigint_unless_it_was_started_with_sigint_ignored(launcher, status, ignored):
    """A shell ignores SIGINT in the background jobs of a script, and Ctrl-C is not meant for these."""
    before = signal.getsignal(signal.SIGINT)
    try:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        node = launcher.start(drain_seconds=1)
    finally:
        signal.signal(signal.SIGINT, before)
    node.process.send_signal(signal.SIGINT)
    if ignored:
        assert (await status(node))["address"] == node.address
        node.terminate()
    assert await asyncio.to_thread(node.wait) == 0
