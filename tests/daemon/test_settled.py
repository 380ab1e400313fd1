"""Settled delivery through real nodes: 16 publishers, and no state at a mark that never existed."""

from __future__ import annotations

import asyncio

import pytest

import p2prdf
from p2prdf import hlc
from p2prdf.errors import LocalProtocolError, QueryRefused

PUBLISHERS = 16
EACH = 12
EACH_MAX = 600
ZERO = '"0"^^<http://www.w3.org/2001/XMLSchema#integer>'
QUERIES = {
    "OPTIONAL": "SELECT * { ?x <urn:a> ?y OPTIONAL { ?x <urn:b> ?z } }",
    "COUNT": "SELECT (COUNT(*) AS ?n) { ?x <urn:a> ?y FILTER NOT EXISTS { ?x <urn:b> ?z } }",
    "MINUS": "SELECT ?x { ?x <urn:a> ?y MINUS { ?x <urn:b> ?z } }",
}
"""Each transaction holds both triples, so ?z is always bound, the count is 0, and MINUS leaves nothing."""


def is_possible(name, held):
    """Tell whether the rows held are those of some states of the graph."""
    if name == "OPTIONAL":
        return all(row[2] is not None for row in held.values())
    return [*held.values()] == [(ZERO,)] if name == "COUNT" else not held


class Watched:
    """The states that one subscriber was told: at marks, or in immediate delivery after each batch."""

    def __init__(self, name, *, settled):
        self.name = name
        self.settled = settled
        self.states = self.impossible = 0
        self.held = {}

    async def follow(self, client, upto):
        """Take batches until a mark is at or after the stamp that ``upto`` will have."""
        subscription = await client.subscribe(QUERIES[self.name], settled=self.settled, since="beginning")
        async for batch in subscription.batches():
            for row in batch:
                if row.removed:
                    del self.held[row.identity]
                else:
                    self.held[row.identity] = row.terms
            if batch.bookmark is not None or not self.settled:
                self.states += 1
                self.impossible += not is_possible(self.name, self.held)
            if batch.bookmark is not None and upto.done() and batch.bookmark >= hlc.seconds(upto.result()):
                return
        raise AssertionError("the subscription ended")


async def published(address, number, watched):
    """Publish transactions until all watched subscribers were told some states; return the last stamp, and how many."""
    at = 0
    async with p2prdf.connect(address) as client:
        while at < EACH or (at < EACH_MAX and any(each.states <= 2 for each in watched)):
            async with client.transaction() as transaction:
                name = f"<urn:x{number}-{at}>"
                transaction.publish([(name, "<urn:a>", "<urn:y>"), (name, "<urn:b>", "<urn:z>")])
            at += 1
    return transaction.stamp, at


async def test_no_impossible_state_at_marks_while_16_publishers_publish(launcher):
    nodes = [launcher.start()]
    nodes += [launcher.launch(bootstrap=nodes[0].address) for _ in range(2)]
    for node in nodes[1:]:
        node.wait_ready()
    upto = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(150), p2prdf.connect(nodes[0].address) as client:
        settled = [Watched(name, settled=True) for name in QUERIES]
        immediate = [Watched(name, settled=False) for name in QUERIES]
        marked = [asyncio.create_task(each.follow(client, upto)) for each in settled]
        beside = [asyncio.create_task(each.follow(client, upto)) for each in immediate]
        done = await asyncio.gather(*(published(nodes[at % 3].address, at, settled) for at in range(PUBLISHERS)))
        upto.set_result(max(stamp for stamp, _ in done))
        await asyncio.gather(*marked)
        for task in beside:
            task.cancel()
    for each in (*settled, *immediate):
        mode = "settled" if each.settled else "immediate"
        print(f"{each.name}, {mode}: {each.states} states told, {each.impossible} impossible")
    assert [each.impossible for each in settled] == [0, 0, 0]
    assert [len(each.held) for each in settled] == [sum(count for _, count in done), 1, 0]
    assert all(each.states > 2 for each in settled)


async def test_settled_subscriptions_are_refused_for_windows_and_events(launcher):
    node = launcher.start()
    window = "REGISTER QUERY q AS SELECT ?a FROM STREAM <urn:s> [RANGE 5s STEP 5s] WHERE { ?a <urn:p> ?b }"
    async with asyncio.timeout(30), p2prdf.connect(node.address) as client:
        with pytest.raises(QueryRefused, match="settled delivery"):
            await client.subscribe(window, settled=True)
        with pytest.raises(LocalProtocolError, match="not per event"):
            await client.subscribe(QUERIES["MINUS"], settled=True, per_event=True)


async def test_settled_subscriptions_read_named_graphs_with_any_predicate(launcher):
    node, quads = launcher.start(), [("<urn:x>", "<urn:a>", f"<urn:y{number}>") for number in range(2)]
    patterns = (
        "GRAPH <urn:g> { ?s ?p ?o }", "GRAPH ?g { ?s ?p ?o }", "?s ?p ?o",
        "?s ?p ?o FILTER(isIRI(?p) || isLiteral(?p))",  # predicates in named graphs are stored as literals
    )  # fmt: skip
    queries = [f"SELECT ?o {{ {each} }}" for each in patterns]
    async with asyncio.timeout(60), p2prdf.connect(node.address) as client:
        await client.publish(quads[:1], graph="<urn:g>")
        subscriptions = [await client.subscribe(each, settled=True) for each in queries]
        async with client.transaction() as transaction:
            transaction.publish(quads[1:], graph="<urn:g>")
            transaction.publish([("<urn:x>", "<urn:a>", "<urn:default>")])
        held = []
        for subscription in subscriptions:
            rows = []
            async for batch in subscription.batches():
                rows += [row["o"] for row in batch]
                if batch.bookmark is not None and batch.bookmark >= hlc.seconds(transaction.stamp):
                    break
            held.append(sorted(rows))
    assert held == [["<urn:y0>", "<urn:y1>"], ["<urn:y0>", "<urn:y1>"], ["<urn:default>"], ["<urn:default>"]]


async def test_a_settled_subscription_continues_with_its_token(launcher):
    node = launcher.start()
    async with asyncio.timeout(60), p2prdf.connect(node.address) as client:
        subscription = await client.subscribe(QUERIES["MINUS"], settled=True, auto_acknowledge=False)
        await client.publish([("<urn:x>", "<urn:a>", "<urn:y>")])
        batches = subscription.batches()
        first = [row.terms async for batch in _until_rows(batches) for row in batch]
        subscription.acknowledge()
        token = subscription.token()
    async with asyncio.timeout(60), p2prdf.connect(node.address) as client:
        again = await client.attach(token)
        async with client.transaction() as transaction:
            transaction.publish([("<urn:x>", "<urn:b>", "<urn:z>"), ("<urn:v>", "<urn:a>", "<urn:y>")])
        told = []
        async for batch in again.batches():
            told += [(row.removed, row.terms) for row in batch]
            if batch.bookmark is not None and batch.bookmark >= hlc.seconds(transaction.stamp):
                break
    assert first == [("<urn:x>",)]
    assert sorted(told) == [(False, ("<urn:v>",)), (True, ("<urn:x>",))]


async def _until_rows(batches):
    """Yield batches up to the first mark after any solution."""
    seen = 0
    async for batch in batches:
        yield batch
        seen += len(batch)
        if seen and batch.bookmark is not None:
            return
