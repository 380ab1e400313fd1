"""Publish at one node, subscribe at another: the whole way through real processes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter

import pytest

import p2prdf
from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import TripleBatch

_names = itertools.count()
BOTH_OVERLAYS = pytest.mark.parametrize("overlay", ["kademlia", "chord"], indirect=True)


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:test{next(_names)}:"


def numbered(ns, name, number):
    return f"<{ns}{name}{number}>"


async def take(subscription, count, seconds=15.0):
    """Return the next ``count`` solutions."""
    found = []
    async with asyncio.timeout(seconds):
        async for solution in subscription:
            found.append(solution)
            if len(found) == count:
                break
    return found


async def nothing_more(subscription, client, ns):
    """Check that no solution is left: the answer to a marker published now is the very next one."""
    marker = f"<{ns}marker>"
    probe = await client.subscribe(f"SELECT ?o {{ <{ns}marker> <{ns}marker> ?o }}")
    await client.publish([(marker, marker, marker)])
    await take(probe, 1)
    await probe.unsubscribe()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await anext(subscription)


@BOTH_OVERLAYS
@pytest.mark.parametrize("algorithm", ["csbv", "cqc"])
async def test_a_path_is_answered_across_nodes(overlay, ns, algorithm):
    query = f"SELECT ?a ?d WHERE {{ ?a <{ns}p> ?b . ?b <{ns}q> ?c . ?c <{ns}r> ?d }}"
    triples = [
        (numbered(ns, "a", n), f"<{ns}p>", numbered(ns, "b", n % 7)) for n in range(50)
    ] + [(numbered(ns, "b", n), f"<{ns}q>", numbered(ns, "c", n % 3)) for n in range(7)] + [
        (numbered(ns, "c", n), f"<{ns}r>", f'"{n}"') for n in range(3)
    ]  # fmt: skip
    async with p2prdf.connect(overlay[1].address) as subscriber, p2prdf.connect(overlay[4].address) as publisher:
        subscription = await subscriber.subscribe(query, algorithm=algorithm)
        assert subscription.names == ("a", "d")
        before = time.time()
        assert await publisher.publish(triples) == len(triples)
        found = await take(subscription, 50)
        assert Counter((s["a"], s["d"]) for s in found) == Counter(
            (numbered(ns, "a", n), f'"{n % 7 % 3}"') for n in range(50)
        )
        assert [s.sequence for s in found] == list(range(1, 51))
        assert len({s.identity for s in found}) == 50
        assert all(before - 1 < s.born < time.time() + 1 for s in found)
        assert all(s.lost == 0 for s in found)
        await subscription.unsubscribe()


@BOTH_OVERLAYS
async def test_every_pair_of_nodes_reaches_each_other(overlay, ns):
    clients = [await p2prdf.connect(node.address) for node in overlay]
    try:
        for at, client in enumerate(clients):
            subscription = await client.subscribe(f"SELECT ?s {{ ?s <{ns}at> <{ns}{at}> }}")
            for number, publisher in enumerate(clients):
                await publisher.publish([(numbered(ns, "x", number), f"<{ns}at>", f"<{ns}{at}>")])
            found = await take(subscription, len(clients))
            assert {s["s"] for s in found} == {numbered(ns, "x", n) for n in range(len(clients))}
    finally:
        for client in clients:
            await client.close()


@BOTH_OVERLAYS
async def test_a_triple_again_changes_nothing_unless_events_are_asked_for(overlay, ns):
    triple = (f"<{ns}s>", f"<{ns}p>", f"<{ns}o>")
    query = f"SELECT ?s {{ ?s <{ns}p> <{ns}o> }}"
    async with p2prdf.connect(overlay[0].address) as client:
        plain = await client.subscribe(query)
        events = await client.subscribe(query, per_event=True)
        for _ in range(3):
            await client.publish([triple], publisher=7, first_event=100)
        await client.publish([triple], publisher=7, first_event=101)
        assert len({s.identity for s in await take(events, 2)}) == 2
        await take(plain, 1)
        await nothing_more(plain, client, ns)
        await nothing_more(events, client, ns)


async def test_sources_of_every_kind_are_published(overlay, ns):
    async def later():
        for n in range(5):
            yield (numbered(ns, "async", n), f"<{ns}p>", f'"{n}"')

    batches = [
        TripleBatch([numbered(ns, "batch", n)] * 2, [f"<{ns}p>"] * 2, [f'"{n}"', f'"{n}"@en'], 2 * n + 2, n)
        for n in range(10)
    ]
    async with p2prdf.connect(overlay[2].address) as client:
        subscription = await client.subscribe(f"SELECT ?s ?o {{ ?s <{ns}p> ?o }}")
        assert await client.publish(later(), batch_triples=2) == 5
        told = []
        assert await client.publish(iter(batches), on_progress=told.append) == 20
        assert [p.triples for p in told] == list(range(2, 21, 2))
        assert [p.statements for p in told] == list(range(2, 21, 2))
        assert await client.publish([]) == 0
        assert len(await take(subscription, 25)) == 25


async def test_a_megabyte_literal_arrives_whole(overlay, ns):
    literal = '"' + "long \\\"text\\\" é" * 75_000 + '"'
    async with p2prdf.connect(overlay[0].address) as publisher, p2prdf.connect(overlay[3].address) as subscriber:
        subscription = await subscriber.subscribe(f"SELECT ?o {{ <{ns}s> <{ns}p> ?o }}")
        assert await publisher.publish([(f"<{ns}s>", f"<{ns}p>", literal)] * 3) == 3
        assert (await take(subscription, 1))[0]["o"] == literal


async def test_bad_terms_of_any_client_are_refused_by_name_and_its_connection_goes_on(overlay, monkeypatch, ns):
    """Without the library's own check, as a client of another library has none."""
    monkeypatch.setattr("p2prdf.client.publishing.terms.check_all", lambda _texts: None)
    iri = f"<{ns}a>"
    async with p2prdf.connect(overlay[0].address) as client:
        bad = ("<rel>", "no term", "<urn:a b>", "", "<urn:a#b#c>", '"x"^^<rel>', '"x"@EN')
        for triple in (*((iri, iri, each) for each in bad), ('"x"', iri, iri), (iri, '"x"', iri)):
            with pytest.raises(DataRefused):
                await client.publish([triple])
            session = await client._sessions.current()
            assert await client.publish([(iri, iri, iri)]) == 1
            assert await client._sessions.current() is session, "the connection goes on"


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("SELECT ?s WHERE { ?s <urn:p> }", "line 1"),
        ("SELECT ?s\nWHERE {\n  ?s <urn:p> ?o ;;; ] }", "line 3"),
        ("", "ends too early"),
        ("DESCRIBE <urn:x>", "DESCRIBE"),
        ("SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }", "SERVICE"),
        ("SELECT * { ?s ?p ?o " + "{" * 5000, "nest deeper than 64"),
        ("SELECT * { ?s ?p ?o } #" + "x" * 263_000, "262144"),
    ],
)
async def test_bad_queries_are_refused_with_their_place_and_the_session_lives_on(overlay, query, complaint):
    async with p2prdf.connect(overlay[1].address) as client:
        with pytest.raises(p2prdf.QueryRefused) as caught:
            await client.subscribe(query)
        assert complaint in str(caught.value)
        assert (await client.status())["key"] == overlay[1].key


async def test_requests_that_make_no_sense_are_refused(overlay):
    async with p2prdf.connect(overlay[1].address) as client:
        query = "SELECT * { ?s <urn:x> ?o }"
        with pytest.raises(p2prdf.LocalProtocolError, match="neither csbv nor cqc"):
            await client.subscribe(query, algorithm="magic")
        for lease in (0, -1, 1e9, float("nan")):
            with pytest.raises(p2prdf.LocalProtocolError, match="lease"):
                await client.subscribe(query, lease_seconds=lease)
        with pytest.raises(p2prdf.P2PRDFError, match="no subscription"):
            await client.attach(12345)
        await client.unsubscribe(12345)  # ending an ended subscription changes nothing


async def test_a_token_of_another_query_is_refused(overlay, ns):
    query = f"SELECT ?o {{ ?s <{ns}p> ?o }}"
    async with p2prdf.connect(overlay[0].address) as client:
        subscription = await client.subscribe(query, auto_acknowledge=False)
        token = subscription.token()
        with pytest.raises(p2prdf.TokenMismatch, match="of another query"):
            await client.attach(token, query=query.replace("?o", "?who"))
        with pytest.raises(p2prdf.TokenMismatch):
            await client.attach(token, query=query, algorithm="cqc")
        with pytest.raises(p2prdf.LocalProtocolError, match="number cannot be compared"):
            await client.attach(subscription.id, query=query)
        again = await client.attach(token, query=f"# the same\n{query}")
        assert again.id == subscription.id
        with pytest.raises(p2prdf.TokenMismatch):
            await client.attach(again.token(), query="ASK { ?s ?p ?o }")


@BOTH_OVERLAYS
async def test_subscription_attached_at_another_node_omits_acknowledged_solutions(overlay, ns):
    query = f"SELECT ?o {{ <{ns}s> <{ns}p> ?o }}"

    def triples(numbers):
        return [(f"<{ns}s>", f"<{ns}p>", f'"{n}"') for n in numbers]

    async with p2prdf.connect(overlay[0].address) as first:
        subscription = await first.subscribe(query, auto_acknowledge=False)
        await first.publish(triples(range(10)))
        taken = await take(subscription, 6)
        subscription.acknowledge(4)
        with pytest.raises(p2prdf.LocalProtocolError, match="not delivered yet"):
            subscription.acknowledge(7)
    async with p2prdf.connect(overlay[3].address) as second:
        await second.publish(triples(range(10, 20)))
        again = await second.attach(subscription.id)
        rest = await take(again, 16)
        assert [s.sequence for s in rest] == list(range(1, 17))
        assert again.names == ("o",)
        assert again.since == subscription.since
        assert {s["o"] for s in taken[:4]} | {s["o"] for s in rest} == {f'"{n}"' for n in range(20)}
        await nothing_more(again, second, ns)
        await again.unsubscribe()
        with pytest.raises(StopAsyncIteration):
            await anext(again)


@BOTH_OVERLAYS
async def test_holder_of_a_subscription_hears_at_once_that_another_client_has_ended_it(overlay, ns):
    """At the same node or at another, attached or not; its lease is a day long, and would show nothing for hours."""
    query = f"SELECT ?o {{ <{ns}s> <{ns}p> ?o }}"
    for holder, other in itertools.product(overlay[:3], overlay[:2]):
        async with p2prdf.connect(holder.address) as first, p2prdf.connect(other.address) as second:
            held = await first.subscribe(query, lease_seconds=86_400.0)
            if holder is overlay[2]:
                held = await first.attach(held.id)
            await second.unsubscribe(held.id)
            with pytest.raises(p2prdf.SubscriptionGone):
                async with asyncio.timeout(5):
                    await anext(held)


async def test_attach_that_races_with_an_unsubscribe_is_refused_or_followed_by_the_end(overlay, ns):
    """In either order nobody waits: the client hears of the end, or of the attachment and then of the end."""
    query, outcomes = f"SELECT ?o {{ <{ns}s> <{ns}p> ?o }}", Counter()

    async def hold(client, number, attached):
        try:
            held = await client.attach(number)
        except p2prdf.SubscriptionGone:
            return "refused"
        attached.set()
        with pytest.raises(p2prdf.SubscriptionGone):
            await anext(held)
        return "told"

    addresses = [node.address for node in overlay]
    async with (
        p2prdf.connect(addresses[0]) as leaves, p2prdf.connect(addresses[1]) as ends,
        p2prdf.connect(addresses[1]) as same, p2prdf.connect(addresses[2]) as other,
    ):  # fmt: skip
        for turn in range(20):
            left = await leaves.subscribe(query, lease_seconds=86_400.0)
            attached = asyncio.Event()
            holding = asyncio.create_task(hold((same, other)[turn % 2], left.id, attached))
            async with asyncio.timeout(10):
                for _ in range(turn // 4):  # a little later each time
                    await ends.status()
                if turn >= 18:
                    await attached.wait()
                await ends.unsubscribe(left.id)
                outcomes[await holding] += 1
    assert outcomes["told"] >= 2, outcomes


async def test_another_client_of_the_same_node_takes_a_subscription_over(overlay, ns):
    async with p2prdf.connect(overlay[0].address) as first, p2prdf.connect(overlay[0].address) as second:
        subscription = await first.subscribe(f"SELECT ?o {{ <{ns}s> <{ns}p> ?o }}")
        taken = await second.attach(subscription.id)
        with pytest.raises(p2prdf.Unavailable, match="another client attached it"):
            async with asyncio.timeout(5):
                await anext(subscription)
        await first.publish([(f"<{ns}s>", f"<{ns}p>", '"1"')])
        assert (await take(taken, 1))[0]["o"] == '"1"'


async def test_batches_are_columns_and_mix_with_single_solutions(overlay, ns):
    async with p2prdf.connect(overlay[2].address) as client:
        subscription = await client.subscribe(f"SELECT ?s ?o {{ ?s <{ns}p> ?o }}")
        await client.publish([(numbered(ns, "s", n), f"<{ns}p>", f'"{n}"') for n in range(1000)])
        found = {s["o"] for s in await take(subscription, 10)}
        async with asyncio.timeout(15):
            async for batch in subscription.batches():
                assert len(batch.columns) == 2
                assert len(batch.columns[1]) == len(batch) == len(batch.born)
                found.update(batch.columns[batch.names.index("o")])
                if len(found) == 1000:
                    break
        assert found == {f'"{n}"' for n in range(1000)}


async def test_a_stream_longer_than_every_window_arrives_complete_and_in_order(overlay, ns):
    """40,000 answers: more than coordinator, entry node and client let out unacknowledged."""
    count = 40_000
    async with p2prdf.connect(overlay[0].address) as publisher, p2prdf.connect(overlay[1].address) as subscriber:
        subscription = await subscriber.subscribe(f"SELECT ?s {{ ?s <{ns}p> <{ns}o> }}")

        async def read():
            seen, expected = set(), 1
            async for batch in subscription.batches():
                assert batch.first == expected
                assert batch.lost == 0
                expected = batch.last + 1
                seen.update(batch.columns[0])
                if len(seen) == count:
                    return seen
            return seen

        async with asyncio.timeout(40):
            reading = asyncio.create_task(read())
            source = ((numbered(ns, "s", n), f"<{ns}p>", f"<{ns}o>") for n in range(count))
            assert await publisher.publish(source) == count
            assert await reading == {numbered(ns, "s", n) for n in range(count)}


async def test_the_client_says_when_it_was_closed(overlay):
    client = await p2prdf.connect(overlay[0].address)
    subscription = await client.subscribe("SELECT ?s { ?s <urn:closed> ?o }")
    await client.close()
    with pytest.raises(p2prdf.Unavailable, match="closed"):
        await anext(subscription)
    with pytest.raises(p2prdf.Unavailable, match="closed"):
        await client.publish([("<urn:a>", "<urn:b>", "<urn:c>")])
