"""Triples deleted at one node retract solutions at subscribers of another, also through crashes and resumption."""

from __future__ import annotations

import asyncio
import itertools
import random
import time

import pytest

import p2prdf

_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:removal{next(_names)}:"


async def held(subscription, wanted, seconds=20.0):
    """Take changes until the solutions that are true are those wanted; each must come once and leave once."""
    true = {}
    async with asyncio.timeout(seconds):
        while sorted(true.values()) != sorted(wanted):
            solution = await anext(subscription)
            if solution.removed:
                assert true.pop(solution.identity) == solution.terms
            else:
                assert solution.identity not in true
                true[solution.identity] = solution.terms
    return true


def data(ns, knows, names):
    return [(f"<{ns}{a}>", f"<{ns}knows>", f"<{ns}{b}>") for a, b in knows] + [
        (f"<{ns}{who}>", f"<{ns}name>", f'"{name}"') for who, name in names.items()
    ]


@pytest.mark.parametrize("algorithm", ["csbv", "cqc"])
async def test_solutions_come_and_go_with_their_triples(overlay, ns, algorithm):
    query = f"SELECT ?who ?name {{ ?who <{ns}knows> ?other . ?other <{ns}name> ?name }}"
    async with p2prdf.connect(overlay[1].address) as subscriber, p2prdf.connect(overlay[4].address) as publisher:
        subscription = await subscriber.subscribe(query, algorithm=algorithm)
        await publisher.publish(data(ns, [("a", "b"), ("a", "c"), ("b", "c")], {"b": "B", "c": "C"}))
        a, b = f"<{ns}a>", f"<{ns}b>"
        await held(subscription, [(a, '"B"'), (a, '"C"'), (b, '"C"')])
        assert await publisher.retract(data(ns, [("a", "c")], {})) == 1
        gone = await anext(subscription)
        assert (gone.removed, gone.terms) == (True, (a, '"C"'))
        await publisher.publish(data(ns, [("a", "c")], {}))
        back = await anext(subscription)
        assert (back.removed, back.terms) == (False, (a, '"C"'))
        assert back.identity != gone.identity
        await subscription.unsubscribe()


async def test_operations_of_one_client_at_different_nodes_stay_in_order(overlay, ns):
    """The second node's clock may be behind the first's, but the client passes on the latest time that it has seen.

    Notifications come in no order, and a solution that ends early need not be reported: only the solutions at
    bookmarks are compared.
    """
    triple, held = data(ns, [("x", "y")], {}), set()
    async with p2prdf.connect(overlay[2].address) as subscriber:
        query = f"SELECT ?a ?b {{ ?a <{ns}knows> ?b }}"
        subscription = await subscriber.subscribe(query, bookmarks=True, hurry=True)
        batches = subscription.batches()
        clients = [await p2prdf.connect(node.address) for node in overlay]
        latest = 0
        for at in range(21):
            client = clients[at % len(clients)]
            client._sessions.latest = latest
            await (client.publish if at % 2 == 0 else client.retract)(triple)
            latest = client._sessions.latest
            if at in (13, 20):
                done = time.time()
                async with asyncio.timeout(40.0):
                    async for batch in batches:
                        for each in batch:
                            (held.discard if each.removed else held.add)(each.identity)
                        if batch.bookmark is not None and batch.bookmark >= done:
                            break
                assert len(held) == (1 if at % 2 == 0 else 0)
        for client in clients:
            await client.close()
        await subscription.unsubscribe()


async def test_a_returning_subscriber_hears_of_the_removals_during_its_absence(overlay, ns):
    """Only of solutions that it had: solutions that came and went during its absence are never reported to it."""
    query = f"SELECT ?a ?b {{ ?a <{ns}knows> ?b }}"
    async with p2prdf.connect(overlay[3].address) as publisher:
        async with p2prdf.connect(overlay[0].address) as subscriber:
            subscription = await subscriber.subscribe(query, lease_seconds=600.0, auto_acknowledge=False)
            await publisher.publish(data(ns, [("a", "b"), ("c", "d")], {}))
            await held(subscription, [(f"<{ns}a>", f"<{ns}b>"), (f"<{ns}c>", f"<{ns}d>")])
            token = subscription.token()
            subscription.acknowledge()
        await publisher.publish(data(ns, [("e", "f")], {}))
        await publisher.retract(data(ns, [("a", "b"), ("e", "f")], {}))
        await publisher.publish(data(ns, [("g", "h")], {}))
        async with p2prdf.connect(overlay[4].address) as subscriber:
            subscription = await subscriber.attach(token)
            async with asyncio.timeout(20.0):
                changes = [await anext(subscription) for _ in range(2)]
            assert {(each.removed, each.terms) for each in changes} == {
                (True, (f"<{ns}a>", f"<{ns}b>")), (False, (f"<{ns}g>", f"<{ns}h>")),
            }  # fmt: skip
            await subscription.unsubscribe()


async def test_a_subscriber_holds_the_true_solutions_in_the_end_though_nodes_are_killed(
    launcher, tmp_path, until, status
):
    """Additions and removals of a few triples, while one node after the other is killed and comes back."""
    options = {"replicas": 3, "copies_min": 2}
    folders = [tmp_path / f"data{number}" for number in range(4)]
    nodes = [launcher.start(data=folders[0], **options)]
    nodes += [launcher.start(data=each, bootstrap=nodes[0].address, **options) for each in folders[1:]]

    async def all_in_sync():
        return all([(await status(node))["peer"]["in_sync"] for node in nodes])

    await until(all_in_sync, 30.0)
    chance = random.Random(7)
    space = [(f"<urn:{a}>", p, f"<urn:{b}>") for a in "abcd" for p in ("<urn:p>", "<urn:q>") for b in "abcd"]
    addresses = ",".join(node.address for node in nodes)
    query = "SELECT ?a ?c { ?a <urn:p> ?b . ?b <urn:q> ?c }"
    true: set[tuple[str, str, str]] = set()
    async with p2prdf.connect(addresses) as publisher, p2prdf.connect(addresses) as subscriber:
        subscription = await subscriber.subscribe(query, lease_seconds=600.0)
        for turn in range(60):
            chosen = chance.sample(space, 3)
            if chance.random() < 0.6:
                await publisher.publish(chosen)
                true.update(chosen)
            else:
                await publisher.retract(chosen)
                true.difference_update(chosen)
            if turn in (15, 30, 45):
                at = turn // 15
                nodes[at].kill()
                again = options | {"listen": nodes[at].address, "data": folders[at], "bootstrap": nodes[at - 1].address}
                nodes[at] = await asyncio.to_thread(launcher.start, **again)
        wanted = [(a, c) for a, p, b in true if p == "<urn:p>" for other, q, c in true if (other, q) == (b, "<urn:q>")]
        await held(subscription, wanted, 60.0)
