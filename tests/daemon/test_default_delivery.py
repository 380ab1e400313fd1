"""Nodes with ``default_delivery = settled``: queries that are not monotone are settled, unless it is named."""

from __future__ import annotations

import asyncio
import time

import pytest
from commands import command
from gateways import Events, gateway
from settled_states import States, query_of, replaced

import p2prdf

MONOTONE = "SELECT ?o { ?s <urn:p> ?o }"
COUNTED = "SELECT (COUNT(*) AS ?n) { ?s <urn:p> ?o }"
WINDOW = "REGISTER QUERY q AS SELECT ?a FROM STREAM <urn:s> [RANGE 5s STEP 5s] WHERE { ?a <urn:p> ?b }"
SECONDS = 60.0


@pytest.fixture
def node(launcher):
    return launcher.start(default_delivery="settled")


async def test_client_gets_the_default_of_the_query_or_what_it_names(node):
    async with asyncio.timeout(SECONDS), p2prdf.connect(node.address) as client:
        for query, how, settled in (
            (COUNTED, {}, True), (COUNTED, {"since": "beginning"}, True), (COUNTED, {"settled": True}, True),
            (COUNTED, {"settled": False}, False), (COUNTED, {"since": "now"}, False), (COUNTED, {"since": 1e9}, False),
            (MONOTONE, {}, False), (MONOTONE, {"settled": True}, True), (MONOTONE, {"per_event": True}, False),
            (WINDOW, {}, False), (query_of("urn:d:"), {}, True),
        ):  # fmt: skip
            subscription = await client.subscribe(query, **how)
            assert subscription.settled is settled, (query, how)
            again = await client.attach(subscription.token())
            assert again.settled is settled


async def test_default_is_immediate_where_nothing_is_said(launcher):
    for node in (launcher.start(), launcher.start(default_delivery="settled", indexes="on-demand")):
        async with asyncio.timeout(SECONDS), p2prdf.connect(node.address) as client:
            assert not (await client.subscribe(COUNTED)).settled


async def test_subscriber_by_default_is_told_states_alone(node):
    states = {settled: States() for settled in (None, False)}
    async with asyncio.timeout(SECONDS), p2prdf.connect(node.address) as client:
        told = {each: (await client.subscribe(query_of("urn:d:"), settled=each)).batches() for each in states}
        last, _ = await replaced(node.address, "urn:d:")
        for settled, batches in told.items():
            marked = False
            while states[settled].values != [last] or not marked:
                batch = await anext(batches)
                rows = [(row.removed, row.value("o")) for row in batch]
                states[settled].take([o for gone, o in rows if not gone], [o for gone, o in rows if gone])
                marked = settled is False or batch.bookmark is not None
                if marked:
                    states[settled].mark()
    assert states[None].impossible == 0
    assert states[False].impossible > 0


async def test_gateway_delivers_by_the_default_of_the_query(node):
    async with asyncio.timeout(SECONDS), gateway(node.address) as (session, _):
        immediate = {"settled": "false"}
        for query, named, settled in ((COUNTED, {}, True), (COUNTED, immediate, False), (MONOTONE, {}, False)):
            async with session.get("/events", params={"query": query, **named}) as answer:
                assert (await Events(answer).next())[1].get("settled", False) is settled
            async with session.ws_connect("/subscribe") as socket:
                await socket.send_json({"subscribe": {"sparql": query, **named}})
                assert ("mark" in (await socket.receive_json())["notification"]) is settled


async def test_spark_source_reads_by_the_default_of_the_query(node):
    pytest.importorskip("pyspark")
    from p2prdf.publish.following import BEGINNING, Follower
    from p2prdf.publish.read_options import reading_options

    def marked(query, **options):
        follower = Follower(reading_options({"peers": node.address, "query": query, "sign": "true", **options}))
        try:
            place, deadline = BEGINNING, time.monotonic() + SECONDS
            while not follower.rows(BEGINNING, place):
                assert time.monotonic() < deadline
                place = follower.advance(place, 10)
            return Follower.mark(place) is not None
        finally:
            follower.close()

    await replaced(node.address, "urn:d:", count=1)
    query = query_of("urn:d:")
    assert await asyncio.to_thread(marked, query)
    assert not await asyncio.to_thread(marked, query, settled="false", since="beginning")


def test_command_names_the_delivery(node):
    asyncio.run(replaced(node.address, "urn:d:", count=1))
    words = ("subscribe", "--peer", node.address, "--json", "--count", "1", query_of("urn:d:"))
    for more in ((), ("--immediate", "--since", "beginning"), ("--settled",)):
        code, out, err = command(*words, *more)
        assert (code, len(out.splitlines())) == (0, 1), (more, err)
    assert "give either --settled or --immediate" in command(*words, "--settled", "--immediate")[2]
