"""Cohorts through real nodes: several queries, one mark, one token, one end."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import p2prdf
import p2prdf.sync
from p2prdf import hlc
from p2prdf.errors import LocalProtocolError, QueryRefused, StampRefused, TokenMismatch

INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
QUERIES = (
    "SELECT ?x { ?x <urn:a> ?y }",
    "SELECT (COUNT(*) AS ?n) { ?x <urn:a> ?y }",
    "SELECT ?x ?z { ?x <urn:a> ?y OPTIONAL { ?x <urn:b> ?z } }",
    "ASK { ?x <urn:a> ?y FILTER NOT EXISTS { ?x <urn:b> ?z } }",
)
"""Each transaction holds both triples: the first three have equally many rows, and the last one has none."""


class States:
    """The rows of each query, and how many states were impossible."""

    def __init__(self, count):
        self.rows = [{} for _ in range(count)]
        self.marks = self.impossible = 0

    def take(self, advance):
        for rows, changes in zip(self.rows, advance.changes, strict=True):
            for row in changes:
                if row.removed:
                    del rows[row.identity]
                else:
                    rows[row.identity] = row.terms
        if advance.stamp:
            self.marks += 1
            self.impossible += not self.possible()

    def possible(self):
        xs, count, pairs, alone = (list(rows.values()) for rows in self.rows)
        return (
            count == [(f'"{len(xs)}"{INTEGER}',)]
            and Counter(x for (x,) in xs) == Counter(x for x, _ in pairs)
            and all(z is not None for _, z in pairs)
            and not alone
        )


async def publish(client, prefix, count):
    for at in range(count):
        async with client.transaction() as transaction:
            name = f"<urn:{prefix}-{at}>"
            transaction.publish([(name, "<urn:a>", "<urn:y>"), (name, "<urn:b>", "<urn:z>")])
    return transaction.stamp


async def follow(cohort, states, upto):
    """Take advances up to a mark at or after the stamp that ``upto`` will have."""
    async for advance in cohort:
        states.take(advance)
        if upto.done() and advance.stamp >= upto.result():
            return
    raise AssertionError("the cohort ended")


async def test_all_queries_answer_one_graph_at_each_mark_and_after_resumption_elsewhere(launcher):
    nodes = [launcher.start()]
    nodes += [launcher.launch(bootstrap=nodes[0].address) for _ in range(2)]
    for node in nodes[1:]:
        node.wait_ready()
    states, loop = States(len(QUERIES)), asyncio.get_running_loop()
    async with asyncio.timeout(120), p2prdf.connect(nodes[0].address) as client:
        cohort = await client.cohort(*QUERIES, auto_acknowledge=False)
        assert cohort.names == [("x",), ("n",), ("x", "z"), ()]
        upto = loop.create_future()
        following = asyncio.create_task(follow(cohort, states, upto))
        stamps = await asyncio.gather(*(publish(client, f"first{at}", 10) for at in range(6)))
        upto.set_result(max(stamps))
        await following
        cohort.acknowledge()
        token = cohort.token()
    async with asyncio.timeout(120), p2prdf.connect(nodes[1].address) as client:
        with pytest.raises(TokenMismatch):
            await client.cohort(*QUERIES[:2], token=token)
        again = await client.cohort(*QUERIES, token=token)
        upto = loop.create_future()
        upto.set_result(await publish(client, "second", 10))
        await follow(again, states, upto)
        await again.unsubscribe()
        assert [advance async for advance in again if advance.stamp == 0] == []
    assert states.impossible == 0
    assert states.marks > 5
    assert [len(rows) for rows in states.rows] == [70, 1, 70, 0]


async def test_one_refused_query_refuses_all(launcher):
    node = launcher.start()
    async with asyncio.timeout(30), p2prdf.connect(node.address) as client:
        with pytest.raises(QueryRefused, match="query 2 of the cohort"):
            await client.cohort(QUERIES[0], "SELECT ?x { ?x <urn:a }")
        window = "REGISTER QUERY q AS SELECT ?a FROM STREAM <urn:s> [RANGE 5s STEP 5s] WHERE { ?a <urn:p> ?b }"
        with pytest.raises(QueryRefused, match="query 2 of the cohort: a query over windows"):
            await client.cohort(QUERIES[0], window)
        with pytest.raises(QueryRefused, match="a cohort of 33 queries"):
            await client.cohort(*QUERIES[:1] * 33)
        with pytest.raises(LocalProtocolError, match="separate arguments"):
            await client.cohort(list(QUERIES))
        single = await client.subscribe(QUERIES[0], auto_acknowledge=False)
        with pytest.raises(QueryRefused, match="not one of a cohort"):
            await client.cohort(token=single.token())
        assert (await client.status())["peer"]["subscriptions_local"] == 1


def test_a_large_change_comes_in_parts_of_one_mark(launcher):
    node = launcher.start()
    queries = ("SELECT ?x { ?x <urn:a> ?y }", "SELECT (COUNT(*) AS ?n) { ?x <urn:a> ?y }")
    count = 9000
    with p2prdf.sync.connect(node.address) as client:
        client.publish((f"<urn:x{at}>", "<urn:a>", "<urn:y>") for at in range(count))
        cohort = client.cohort(*queries, auto_acknowledge=False)
        seen, counts = 0, []
        for advance in cohort.advances(timeout_seconds=60):
            seen += len(advance.changes[0])
            counts += [row.value("n") for row in advance.changes[1] if not row.removed]
            cohort.acknowledge()
            if advance.stamp and seen:
                break
        assert (seen, counts) == (count, [count])
        cohort.unsubscribe()


async def test_queries_of_one_snapshot_are_answers_as_of_one_stamp(launcher):
    """While four clients publish pairs, and one reads at another node at once after an acknowledgement elsewhere."""
    nodes = [launcher.start()]
    nodes += [launcher.launch(bootstrap=nodes[0].address) for _ in range(2)]
    for node in nodes[1:]:
        node.wait_ready()
    async with (
        asyncio.timeout(150), p2prdf.connect(nodes[0].address) as writer, p2prdf.connect(nodes[1].address) as reader,
    ):  # fmt: skip
        busy = [asyncio.create_task(publish(writer, f"busy{at}", 500)) for at in range(4)]
        for at in range(4):
            stamp = await publish(writer, f"own{at}", 1)
            states = States(len(QUERIES))
            results = await reader.snapshot(*QUERIES, after=stamp)
            assert len({result.stamp for result in results}) == 1
            assert results[0].stamp >= stamp
            assert [result.names for result in results] == [("x",), ("n",), ("x", "z"), ()]
            states.rows = [dict(enumerate(result.rows)) for result in results]
            assert states.possible()
            assert (f"<urn:own{at}-0>",) in results[0].rows
        for task in busy:
            task.cancel()
        await writer.publish([("<urn:late>", "<urn:a>", "<urn:y>")])
        (found,) = await writer.snapshot("ASK { <urn:late> <urn:a> ?y }")
        assert found
        with pytest.raises(LocalProtocolError, match="no stamp"):
            await reader.snapshot(*QUERIES, after=-1)
        with pytest.raises(StampRefused, match="ahead of this clock"):
            await reader.snapshot(*QUERIES, after=stamp + hlc.from_seconds(3600))


def test_an_advance_that_an_interrupt_took_is_not_covered_by_the_token(launcher):
    """The blocking client puts it back; the application may store the token before it goes on."""
    with p2prdf.sync.connect(launcher.start().address) as client:
        client.publish([("<urn:first>", "<urn:a>", "<urn:y>")])
        cohort = client.cohort(*QUERIES[:2], auto_acknowledge=False)
        advances = cohort.advances(timeout_seconds=60.0)
        next(advances)
        cohort.acknowledge()
        before = cohort.token()
        client.publish([("<urn:second>", "<urn:a>", "<urn:y>")])
        taken = next(each for each in advances if any(each.changes))
        client._background.read(lambda: cohort._behind.put_back(taken))
        assert len(cohort.token()) <= len(before)
        cohort.acknowledge()
        again = next(advances)
        assert again.stamp == taken.stamp
        assert [[row.identity for row in each] for each in again.changes] == [
            [row.identity for row in each] for each in taken.changes
        ]  # fmt: skip
        assert len(cohort.token()) > len(before)
        cohort.unsubscribe()


async def test_a_cancelled_request_loses_nothing(launcher):
    node = launcher.start()
    async with asyncio.timeout(60), p2prdf.connect(node.address) as client:
        cohort = await client.cohort(*QUERIES[:2], auto_acknowledge=False)
        upto, states = asyncio.get_running_loop().create_future(), [0, 0]
        upto.set_result(await publish(client, "cancelled", 5))
        while True:
            try:
                async with asyncio.timeout(0.05):
                    advance = await anext(cohort)
            except TimeoutError:
                continue
            for at, changes in enumerate(advance.changes):
                states[at] += sum(-1 if row.removed else 1 for row in changes)
            if advance.stamp >= upto.result():
                break
        assert states == [5, 1]
