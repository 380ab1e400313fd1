"""The client goes on at another node: the requests that it repeats or drops, and the time when it gives up."""

from __future__ import annotations

import asyncio
import socket

import pytest
from scripted_nodes import ScriptedNode, nodes

import p2prdf
from p2prdf.wire import messages

SECONDS = 30.0
QUERY = "SELECT ?o { <urn:s> <urn:p> ?o }"
NUMBER = 0x0123_4567_89AB_CDEF
TRIPLES = [("<urn:s>", "<urn:p>", f'"{n}"') for n in range(100)]


def both(*others, **options):
    """Return a connection to nodes of which the first is the first to be tried."""
    return p2prdf.connect(",".join(node.address for node in others), **options)


def subscribed(visit, message, number=NUMBER):
    visit.send(messages.ClientSubscribed(message.request, number, 0, ("o",), (0,)))


async def test_an_end_that_comes_along_with_the_confirmation_is_reported():
    """A query that holds too much may be ended before the subscriber's task has run again."""

    def ended_at_once(visit, message):
        confirmed = messages.ClientSubscribed(message.request, NUMBER, 0, ("o",), (0,))
        visit.send(confirmed, messages.ClientEnded(NUMBER, p2prdf.SubscriptionGone.code, "the query holds too much"))

    node = ScriptedNode(on={messages.ClientSubscribe: ended_at_once})
    async with asyncio.timeout(SECONDS), nodes(node), both(node) as client:
        subscription = await client.subscribe(QUERY)
        with pytest.raises(p2prdf.SubscriptionGone, match="the query holds too much"):
            await anext(subscription)


def refusing(code, text):
    return lambda visit, message: visit.send(messages.ClientError(message.request, code, text))


def silent(_visit, _message):
    """Do not answer."""


def breaking(visit, message):
    visit.abort()


def events(visits):
    """Return the ranges of events that were published, with their publishers."""
    heard = [message for visit in visits for message in visit.of(messages.ClientPublish)]
    return [(m.publisher, m.first_event, m.first_event + len(m)) for m in heard]


async def test_a_publication_goes_on_at_another_node_with_the_unacknowledged_triples():
    def three(visit, message):
        if len(visit.of(messages.ClientPublish)) <= 3:
            visit.send(messages.ClientPublished(message.request, 1))
        elif len(visit.of(messages.ClientPublish)) == 6:
            visit.abort()

    first, second = ScriptedNode(on={messages.ClientPublish: three}), ScriptedNode()
    told = []
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        count = await client.publish(
            TRIPLES, publisher=7, first_event=1000, batch_triples=10, on_progress=lambda p: told.append(p.triples)
        )
        assert client.peer_address == second.address
    assert count == 100
    assert told == list(range(10, 101, 10))
    assert events(second.visits) == [(7, 1000 + n, 1010 + n) for n in range(30, 100, 10)]


async def test_the_next_node_is_not_sent_more_than_its_credit():
    under_way = most = 0

    def later(visit, message):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)

        def done():
            nonlocal under_way
            under_way -= 1
            visit.send(messages.ClientPublished(message.request, 1))

        asyncio.get_running_loop().call_later(0.002, done)

    def eight(visit, message):
        if len(visit.of(messages.ClientPublish)) == 8:
            visit.abort()

    first = ScriptedNode(credit=8, on={messages.ClientPublish: eight})
    second = ScriptedNode(credit=3, on={messages.ClientPublish: later})
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        assert await client.publish(TRIPLES, batch_triples=5) == 100
    assert most == 3
    assert [each[1:] for each in events(second.visits)] == [(n, n + 5) for n in range(0, 100, 5)]


async def test_a_subscription_goes_on_with_every_answer_once():
    """Two answers are acknowledged, one more was delivered, one waited in the client: a new node sends all but two."""

    def begin(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 1, [11, 12, 13, 14])

    def again(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 1, [13, 14, 15], epoch=2)

    first = ScriptedNode(on={messages.ClientSubscribe: begin, messages.ClientAcknowledge: silent})
    second = ScriptedNode(on={messages.ClientAttach: again})
    found, moved = [], []
    async with (
        asyncio.timeout(SECONDS),
        nodes(first, second),
        both(first, second, on_reconnect=moved.append) as client,
    ):
        subscription = await client.subscribe(QUERY, auto_acknowledge=False)
        async for solution in subscription:
            found.append((solution.sequence, solution["o"]))
            if len(found) == 3:
                subscription.acknowledge(2)
                first.visits[0].abort()
                await second.came.wait()
            if len(found) == 5:
                break
        acknowledged = await second.visits[0].first_of(messages.ClientAcknowledge)
    assert found == [(n, f'"{10 + n}"') for n in range(1, 6)]
    assert moved == [second.address]
    (attach,) = second.visits[0].of(messages.ClientAttach)
    assert (attach.subscription, sorted(attach.have)) == (NUMBER, [11, 12])
    assert sorted(acknowledged.identity) == [11, 12], "until it is known to be settled"


async def test_answers_that_wait_in_the_client_are_given_out_while_no_node_is_there():
    def begin(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 1, [1, 2, 3])

    node = ScriptedNode(on={messages.ClientSubscribe: begin})
    async with asyncio.timeout(SECONDS), nodes(node), both(node) as client:
        subscription = await client.subscribe(QUERY)
        first = await anext(subscription)
        await node.stop()
        rest = [await anext(subscription), await anext(subscription)]
        assert [first["o"], *(each["o"] for each in rest)] == ['"1"', '"2"', '"3"']


async def test_unsubscribing_while_the_subscription_is_attached_again_raises_no_error():
    """The node answers both that it is ended, and that there is nothing to attach any more."""

    def ended(visit, message):
        attach = visit.of(messages.ClientAttach)[0]
        gone = messages.ClientError(attach.request, p2prdf.SubscriptionGone.code, "no subscription")
        visit.send(messages.ClientDone(message.request), gone)

    first = ScriptedNode(on={messages.ClientSubscribe: subscribed})
    second = ScriptedNode(on={messages.ClientAttach: silent, messages.ClientUnsubscribe: ended})
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        subscription = await client.subscribe(QUERY)
        first.visits[0].abort()
        await second.came.wait()
        while not second.visits:
            await asyncio.sleep(0)
        await second.visits[0].first_of(messages.ClientAttach)
        iterating = asyncio.ensure_future(anext(subscription, None))
        await subscription.unsubscribe()
        assert await iterating is None


async def test_a_subscription_that_is_gone_ends_at_once():
    first = ScriptedNode(on={messages.ClientSubscribe: subscribed})
    second = ScriptedNode(on={messages.ClientAttach: refusing("subscription-gone", "no subscription")})
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        subscription = await client.subscribe(QUERY)
        first.visits[0].abort()
        with pytest.raises(p2prdf.SubscriptionGone):
            await anext(subscription)
        assert await client.publish(TRIPLES) == 100, "the client goes on"


@pytest.mark.parametrize("broken", [breaking, silent], ids=["breaks off", "does not answer"])
async def test_requests_in_flight_are_asked_again_at_another_node(broken):
    """A silent node is left when the answer is overdue."""
    kinds = (messages.ClientSubscribe, messages.ClientAttach, messages.ClientUnsubscribe, messages.ClientStatus)
    answers = {
        messages.ClientSubscribe: subscribed,
        messages.ClientAttach: subscribed,
        messages.ClientStatus: lambda visit, m: visit.send(messages.ClientReply(m.request, '{"key": "b"}')),
    }
    for kind in kinds:
        first, second = ScriptedNode(on=dict.fromkeys(kinds, broken)), ScriptedNode(on=answers)
        async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second, timeout_seconds=0.2) as client:
            if kind is messages.ClientSubscribe:
                assert (await client.subscribe(QUERY)).id == NUMBER
            elif kind is messages.ClientAttach:
                assert (await client.attach(NUMBER)).names == ("o",)
            elif kind is messages.ClientUnsubscribe:
                await client.unsubscribe(NUMBER)
            else:
                assert await client.status() == {"key": "b"}
            assert len(first.visits[0].of(kind)) == len(second.visits[0].of(kind)) == 1


@pytest.mark.parametrize("kind", [messages.ClientPublish, messages.ClientSubscribe])
async def test_a_node_that_takes_nothing_more_is_left(kind):
    stopping = refusing("unavailable", "the node is stopping")
    first = ScriptedNode(on={kind: stopping})
    second = ScriptedNode(on={messages.ClientSubscribe: subscribed})
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        if kind is messages.ClientPublish:
            assert await client.publish(TRIPLES, batch_triples=10) == 100
        else:
            await client.subscribe(QUERY)
        assert client.peer_address == second.address


async def test_a_node_that_says_farewell_is_left_before_the_connection_ends():
    first, second = ScriptedNode(), ScriptedNode()
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        first.visits[0].send(messages.ClientError(0, "unavailable", "the node is stopping"))
        await second.came.wait()
        assert await client.publish(TRIPLES) == 100
    assert events(first.visits) == []


async def test_a_client_turns_to_nodes_that_a_node_names():
    second = ScriptedNode()
    first = ScriptedNode(others=[second])
    async with asyncio.timeout(SECONDS), nodes(second, first), p2prdf.connect(first.address) as client:
        await first.stop()
        assert await client.publish(TRIPLES) == 100
        assert client.peer_address == second.address


async def test_the_same_node_is_come_back_to():
    node = ScriptedNode(on={messages.ClientSubscribe: subscribed, messages.ClientAttach: subscribed})
    async with asyncio.timeout(SECONDS), nodes(node), both(node) as client:
        subscription = await client.subscribe(QUERY)
        await node.stop()
        await node.start()
        assert await client.publish(TRIPLES) == 100
        await node.visits[-1].first_of(messages.ClientAttach)
        node.visits[-1].rows(NUMBER, 1, [5], epoch=2)
        assert (await anext(subscription))["o"] == '"5"'


async def test_after_the_time_for_it_everything_open_is_unavailable_and_a_later_call_tries_again():
    node = ScriptedNode(on={messages.ClientSubscribe: subscribed})
    async with asyncio.timeout(SECONDS), nodes(node), both(node, reconnect_seconds=0.3) as client:
        subscription = await client.subscribe(QUERY)
        await node.stop()
        with pytest.raises(p2prdf.Unavailable, match=r"no node answered for 0\.3 s; the last error: .*127\.0\.0\.1"):
            await anext(subscription)
        with pytest.raises(p2prdf.Unavailable, match="no node answered"):
            await client.publish(TRIPLES)
        await node.start()
        assert await client.publish(TRIPLES) == 100


async def test_a_node_that_welcomes_and_breaks_off_ends_no_outage_and_is_not_stormed():
    node = ScriptedNode(on={messages.ClientSubscribe: subscribed, messages.ClientAttach: breaking})
    async with asyncio.timeout(SECONDS), nodes(node), both(node, reconnect_seconds=1.5) as client:
        subscription = await client.subscribe(QUERY)
        node.visits[0].abort()
        with pytest.raises(p2prdf.Unavailable):
            await anext(subscription)
    assert 2 < len(node.visits) < 12, "pauses of 0.05, 0.1, 0.2, 0.4, 0.8 s, each between half of it and all"


async def test_a_coordinator_that_does_not_answer_ends_its_subscription_alone():
    """The node works: the client does not leave it for one subscription that cannot be attached there."""
    other = NUMBER + 1

    def begin(visit, message):
        subscribed(visit, message, NUMBER if "urn:p" in message.query else other)

    def attach(visit, message):
        if message.subscription == NUMBER:
            refusing("unavailable", "the home of the query did not answer in time")(visit, message)
        else:
            subscribed(visit, message, other)
            visit.rows(other, 1, [9], epoch=2)

    node = ScriptedNode(on={messages.ClientSubscribe: begin, messages.ClientAttach: attach})
    async with asyncio.timeout(SECONDS), nodes(node), both(node, reconnect_seconds=0.5) as client:
        lost = await client.subscribe(QUERY)
        kept = await client.subscribe(QUERY.replace("urn:p", "urn:q"))
        node.visits[0].abort()
        assert (await anext(kept))["o"] == '"9"'
        with pytest.raises(p2prdf.Unavailable, match="home of the query"):
            await anext(lost)
        assert await client.publish(TRIPLES) == 100
    assert len(node.visits) == 2


async def test_without_reconnecting_the_end_of_the_connection_is_reported_at_once():
    first, second = ScriptedNode(on={messages.ClientSubscribe: subscribed}), ScriptedNode()
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second, reconnect_seconds=0) as client:
        subscription = await client.subscribe(QUERY)
        first.visits[0].abort()
        for work in (anext(subscription), client.publish(TRIPLES)):
            with pytest.raises(p2prdf.Unavailable, match="closed the connection"):
                await work
    assert second.visits == []


async def test_closing_a_client_that_searches_for_a_node_fails_all_waiting_calls():
    node = ScriptedNode()
    async with asyncio.timeout(SECONDS), nodes(node):
        client = await both(node)
        await node.stop()
        publishing = asyncio.create_task(client.publish(TRIPLES))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(p2prdf.Unavailable, match="the client was closed"):
            await publishing


async def test_a_request_that_the_node_takes_for_an_offence_is_not_repeated():
    def offended(visit, message):
        visit.send(messages.ClientError(0, "remote-protocol", "what is this?"))
        visit.abort()

    first, second = ScriptedNode(on={messages.ClientPublish: offended}), ScriptedNode()
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        with pytest.raises(p2prdf.RemoteProtocolError, match="what is this"):
            await client.publish(TRIPLES)
    assert events(second.visits) == []


@pytest.mark.parametrize("busy_seconds", [0.0, 5.0])
async def test_a_busy_node_is_asked_again_for_as_long_as_is_wanted(busy_seconds):
    def busy_once(visit, message):
        if len(visit.heard) == 1:
            visit.send(messages.ClientError(message.request, "busy", "full (try again in 0.1 s)"))
        else:
            subscribed(visit, message)

    node = ScriptedNode(on={messages.ClientSubscribe: busy_once})
    async with asyncio.timeout(SECONDS), nodes(node), both(node) as client:
        if busy_seconds:
            assert (await client.subscribe(QUERY, busy_seconds=busy_seconds)).id == NUMBER
        else:
            with pytest.raises(p2prdf.Busy, match="full"):
                await client.subscribe(QUERY, busy_seconds=0)
    assert len(node.visits) == 1


async def test_publications_that_are_refused_together_wait_together():
    """One after the other, each would wait for all the publications refused before it."""

    def hold(visit, _message):
        if len(visit.of(messages.ClientPublish)) == 20:
            visit.abort()

    def busy_at_first(visit, message):
        if len(visit.of(messages.ClientPublish)) <= 20:
            visit.send(messages.ClientError(message.request, "busy", "nodes are missing", 0.5))
        else:
            visit.send(messages.ClientPublished(message.request, 1))

    first = ScriptedNode(on={messages.ClientPublish: hold})
    second = ScriptedNode(on={messages.ClientPublish: busy_at_first})
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        began = loop.time()
        assert await client.publish(TRIPLES, batch_triples=5) == 100
        assert loop.time() - began < 3
    assert sorted(first for _, first, _ in events(second.visits)) == sorted(2 * list(range(0, 100, 5)))


async def test_an_address_that_says_nothing_holds_nobody_up():
    """The first connection tries one address after the other, the next one all known addresses at once."""
    first, last = ScriptedNode(), ScriptedNode()
    with socket.create_server(("127.0.0.1", 0)) as mute:  # the system takes connections, nobody welcomes
        quiet = f"127.0.0.1:{mute.getsockname()[1]}"
        async with asyncio.timeout(SECONDS), nodes(first, last):
            addresses = ",".join([first.address, quiet, last.address])
            async with p2prdf.connect(addresses, connect_seconds=3600.0) as client:
                await first.stop()
                assert await client.publish(TRIPLES) == 100
                assert client.peer_address == last.address


async def test_a_node_that_hangs_is_left_though_nothing_is_asked_of_it():
    """Its connection stands, and the subscriber only waits."""

    def attach(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 1, [8])

    first = ScriptedNode(on={messages.ClientSubscribe: subscribed, messages.ClientPing: silent})
    second = ScriptedNode(on={messages.ClientAttach: attach})
    quick = {"ping_seconds": 0.1, "timeout_seconds": 0.2}
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second, **quick) as client:
        assert (await anext(await client.subscribe(QUERY)))["o"] == '"8"'
        await second.visits[0].first_of(messages.ClientPing)
        assert client.peer_address == second.address, "one that answers is not left"


async def test_an_unreported_gap_is_reported_once():
    """The first node reports it with answers that are not delivered any more; the second repeats it with them."""

    def begin(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 4, [14, 15], lost=3)

    def again(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 4, [14, 15, 16], lost=3, epoch=2)

    first, second = ScriptedNode(on={messages.ClientSubscribe: begin}), ScriptedNode(on={messages.ClientAttach: again})
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        subscription = await client.subscribe(QUERY)
        while not subscription.waiting:
            await asyncio.sleep(0)
        first.visits[0].abort()
        await second.came.wait()
        await second.visits[0].first_of(messages.ClientAttach)
        await client.unsubscribe(1)  # answered after the answers were delivered
        found = [await anext(subscription) for _ in range(3)]
        assert [(each.sequence, each.lost) for each in found] == [(4, 3), (5, 0), (6, 0)]
        assert subscription.lost == 3


async def test_triples_acknowledged_out_of_order_are_not_sent_again():
    def all_but_the_first(visit, message):
        if message.first_event == 50:
            visit.abort()
        elif message.first_event:
            visit.send(messages.ClientPublished(message.request, 1))

    first, second = ScriptedNode(on={messages.ClientPublish: all_but_the_first}), ScriptedNode()
    heard = asyncio.Event()

    async def source():
        for triple in TRIPLES[:50]:
            yield triple
        await asyncio.wait_for(heard.wait(), SECONDS)
        for triple in TRIPLES[50:]:
            yield triple

    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        publishing = asyncio.create_task(client.publish(source(), batch_triples=10))
        await first.visits[0].first_of(messages.ClientPublish)
        await client.unsubscribe(1)  # answered after the four publications were
        heard.set()
        assert await publishing == 100
    assert [each[1] for each in events(second.visits)] == [0, *range(50, 100, 10)]


async def test_a_subscription_attached_twice_goes_to_the_last_attachment():
    """Answers that come with the confirmation are not for the former one."""

    def attach(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 1, [len(visit.of(messages.ClientAttach))])

    node = ScriptedNode(on={messages.ClientAttach: attach})
    async with asyncio.timeout(SECONDS), nodes(node), both(node) as client:
        first = await client.attach(NUMBER)
        assert (await anext(first))["o"] == '"1"'
        second = await client.attach(NUMBER)
        assert (await anext(second))["o"] == '"2"'
        with pytest.raises(p2prdf.Unavailable, match="attached again"):
            await anext(first)


async def test_a_slow_coordinator_is_waited_for_as_long_as_the_node_is_there():
    """Attaching once more, or elsewhere, would make the coordinator begin again."""

    def later(visit, message):
        asyncio.get_running_loop().call_later(0.8, subscribed, visit, message)
        asyncio.get_running_loop().call_later(0.8, visit.rows, NUMBER, 1, [3])

    node = ScriptedNode(on={messages.ClientSubscribe: subscribed, messages.ClientAttach: later})
    quick = {"ping_seconds": 0.1, "timeout_seconds": 0.3}
    async with asyncio.timeout(SECONDS), nodes(node), both(node, **quick) as client:
        subscription = await client.subscribe(QUERY)
        node.visits[0].abort()
        assert (await anext(subscription))["o"] == '"3"'
    assert [len(visit.of(messages.ClientAttach)) for visit in node.visits] == [0, 1]


async def test_an_attachment_from_an_abandoned_attempt_is_taken_back_once():
    """The node goes during an attachment; carried out late, that takes the subscription from its present node."""

    def begin(visit, message):
        subscribed(visit, message)
        visit.rows(NUMBER, 1, [11])

    def attach(visit, message):
        if len(second.visits) == 1:
            visit.abort()
            return
        count = len(visit.of(messages.ClientAttach))
        subscribed(visit, message)
        visit.rows(NUMBER, 1, [11, 12, 13][: 1 + count], epoch=count)
        visit.send(messages.ClientEnded(NUMBER, p2prdf.Unavailable.code, "it was attached by another client"))

    first = ScriptedNode(on={messages.ClientSubscribe: begin})
    second = ScriptedNode(on={messages.ClientAttach: attach})
    async with asyncio.timeout(SECONDS), nodes(first, second), both(first, second) as client:
        subscription = await client.subscribe(QUERY)
        found = [(await anext(subscription)).identity]
        await first.stop()
        found += [(await anext(subscription)).identity, (await anext(subscription)).identity]
        with pytest.raises(p2prdf.Unavailable, match="attached by another client"):
            await anext(subscription)
        assert [len(visit.of(messages.ClientAttach)) for visit in second.visits] == [1, 2]
    assert found == [11, 12, 13]
