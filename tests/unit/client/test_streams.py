"""Publishers of streams: event times, watermarks and the moments of sending them, and repetitions after a failure."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from scripted_nodes import ScriptedNode, nodes

import p2prdf
from p2prdf.client import TermColumns
from p2prdf.client import stream as streams
from p2prdf.client.event_times import milliseconds
from p2prdf.columns import as_list
from p2prdf.errors import Busy, DataRefused, LateElement, LocalProtocolError, Unavailable
from p2prdf.hlc import ELEMENT_MS_MAX
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.wire import messages

A, P, S = "<urn:a>", "<urn:p>", "<urn:stream>"
SECONDS = 20.0


def triples(*numbers):
    return [(A, P, f'"{number}"') for number in numbers]


def connected(up, **options):
    return p2prdf.connect(",".join(node.address for node in up), **options)


def run(test, *scripted, **options):
    """Run a test with a client of scripted nodes; the first is the one that it connects to."""

    async def go():
        async with asyncio.timeout(SECONDS), nodes(*scripted) as up, connected(up, **options) as client:
            return await test(client)

    return asyncio.run(go())


def elements(node):
    """Return the elements received by a node: event number, time in milliseconds, object and stream of each."""
    found = []
    for visit in node.visits:
        for each in visit.of(messages.ClientPublish):
            texts, (times,), (graph,) = visit.terms[each.request].texts, each.times, each.graph
            rows = zip(as_list(times), texts(as_list(each.o)), texts(as_list(graph)), strict=True)
            found += [(each.first_event + at, *row) for at, row in enumerate(rows)]
    return found


def heartbeats(node):
    return [(each.began, each.upto) for visit in node.visits for each in visit.of(messages.ClientHeartbeat)]


def test_event_times_are_moments_or_seconds():
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert milliseconds(noon) == milliseconds(noon.astimezone(timezone(timedelta(hours=5)))) == 1_767_268_800_000
    assert milliseconds(noon + timedelta(microseconds=1999)) == 1_767_268_800_001
    assert [milliseconds(each) for each in (0, 1.001, 4.35, np.float64(2.5), ELEMENT_MS_MAX / 1000)] == [
        0, 1001, 4350, 2500, ELEMENT_MS_MAX
    ]  # fmt: skip
    no_numbers = (float("nan"), float("inf"), "now", None)
    for wrong in (-0.001, ELEMENT_MS_MAX / 1000 + 1, *no_numbers, datetime(2026, 1, 1), 10**400):
        with pytest.raises(LocalProtocolError, match="event time"):
            milliseconds(wrong)


def test_elements_have_one_time_or_each_its_own_and_are_numbered_through():
    node = ScriptedNode()

    async def test(client):
        async with client.stream("urn:stream", publisher=7) as stream:
            assert await stream.publish(triples(1, 2), time=5) == 2
            assert await stream.publish(triples(3, 4), time=[datetime(1970, 1, 1, 0, 0, 6, tzinfo=UTC), 7.5]) == 2
            batch = TripleBatch([A], [P], ['"5"'], 1, 1, times=[8000])
            texts = [A, P, '"6"', '"7"']
            columns = [np.array(each, np.uint32) for each in ([0, 0], [1, 1], [2, 3])]
            numbered = TermColumns(texts, *columns, times=np.array([9000, 10_000], np.uint64))
            assert await stream.publish([batch, numbered]) == 3
            assert (stream.events, stream.began, stream.promised) == (7, 5000, 10_000)
        with pytest.raises(LocalProtocolError, match="was closed"):
            await stream.publish(triples(1))

    run(test, node)
    times = [5000, 5000, 6000, 7500, 8000, 9000, 10_000]
    assert elements(node) == [(at, time, f'"{at + 1}"', S) for at, time in enumerate(times)]
    assert {each.publisher for each in node.visits[0].of(messages.ClientPublish)} == {7}
    assert heartbeats(node)[-1] == (5000, 10_000)


def test_a_time_is_never_promised_while_an_element_of_it_is_not_acknowledged():
    """Three frames: acknowledging the last promises nothing, the first then only the time before the second."""
    asked = []
    node = ScriptedNode(on={messages.ClientPublish: lambda _, each: asked.append(each.request)})

    async def test(client):
        stream = client.stream("urn:stream", lateness=1.0)
        publishing = asyncio.create_task(stream.publish(triples(1, 2, 3), time=[20, 10, 30], batch_triples=1))
        await node.came.wait()
        (visit,) = node.visits
        while len(asked) < 3:
            visit.news.clear()
            await visit.news.wait()
        for request, promised in ((asked[2], None), (asked[0], 9_999)):
            visit.send(messages.ClientPublished(request, 1))
            await client._sessions.ask(messages.ClientPing)
            assert stream.promised == promised
        visit.send(messages.ClientPublished(asked[1], 1))
        await publishing
        assert stream.promised == 29_000
        await stream.close()
        assert stream.promised == 30_000

    run(test, node)
    assert heartbeats(node)[-1] == (10_000, 30_000)
    assert {upto for _, upto in heartbeats(node)} <= {9_999, 18_999, 28_999, 29_000, 30_000}


def test_elements_of_a_waiting_source_are_acknowledged_and_promised_meanwhile():
    node = ScriptedNode()

    async def test(client):
        more = asyncio.Event()

        async def source():
            yield TripleBatch([A], [P], ['"1"'], 1, 1, times=[5000])
            await more.wait()
            yield TripleBatch([A], [P], ['"2"'], 2, 2, times=[5000])

        stream = client.stream("urn:stream")
        publishing = asyncio.create_task(stream.publish(source()))
        heard = await first_visit(node)
        beat = await heard.first_of(messages.ClientHeartbeat)
        assert beat.upto == 4999, "elements of the same time may follow in the same call"
        more.set()
        assert await publishing == 2
        assert stream.promised == 5000

    run(test, node)


async def first_visit(node):
    await node.came.wait()
    return node.visits[0]


def test_late_elements_are_refused_with_their_batch_or_sent_if_one_wants_that():
    node = ScriptedNode()

    async def test(client):
        stream = client.stream("urn:stream", lateness=2)
        await stream.publish(triples(1), time=10)
        await stream.publish(triples(2), time=8.001)
        why = r"<urn:stream> at 8\.000 s since 1970 is late.*all up to 8\.000 s"
        with pytest.raises(LateElement, match=why) as late:
            await stream.publish([*triples(3, 4, 5)], time=[11, 12, 8], batch_triples=2)
        assert (late.value.time, late.value.promised, late.value.code) == (8000, 8000, "late-element")
        await stream.publish(triples(6), time=13)
        await stream.close()
        stream = client.stream("urn:stream", late="send")
        await stream.publish(triples(7), time=10)
        await stream.publish(triples(8), time=9)
        assert stream.promised == 10_000

    run(test, node)
    assert [value for _, _, value, _ in elements(node)] == ['"1"', '"2"', '"3"', '"4"', '"6"', '"7"', '"8"']
    assert [number for number, *_ in elements(node)][:5] == [0, 1, 2, 3, 4]


def test_without_times_the_clock_counts_and_never_a_promised_time():
    node = ScriptedNode()

    async def test(client):
        now = 5.0
        stream = streams.Stream(client._sessions, client.publish, "urn:stream", clock=lambda: now)
        for number in range(3):  # all within one millisecond
            await stream.publish(triples(number))
        assert stream.promised == 5002

    run(test, node)
    assert [time for _, time, _, _ in elements(node)] == [5000, 5001, 5002]


def test_a_live_stream_promises_by_the_clock_while_nothing_is_published(monkeypatch):
    monkeypatch.setattr(streams, "REPEAT_SECONDS", 0.001)
    node = ScriptedNode()

    async def test(client):
        moments = iter(range(100, 10_000))
        stream = streams.Stream(
            client._sessions, client.publish, "urn:stream", live=True, lateness=3, clock=lambda: next(moments)
        )
        visit = await first_visit(node)
        while len(visit.of(messages.ClientHeartbeat)) < 5:
            visit.news.clear()
            await visit.news.wait()
        stream.stop()

    run(test, node)
    told = heartbeats(node)
    assert {began for began, _ in told} == {100_000}
    assert [upto for _, upto in told[:5]] == [98_000, 99_000, 100_000, 101_000, 102_000]


def test_heartbeats_are_repeated_and_said_at_once_at_the_next_node(monkeypatch):
    first, second = ScriptedNode(), ScriptedNode()

    async def test(client):
        stream = client.stream("urn:stream")
        await stream.publish(triples(1), time=3)
        monkeypatch.setattr(streams, "REPEAT_SECONDS", 0.001)
        await stream.heartbeat(4)
        visit = first.visits[0]
        while len(visit.of(messages.ClientHeartbeat)) < 4:
            visit.news.clear()
            await visit.news.wait()
        monkeypatch.setattr(streams, "REPEAT_SECONDS", 3600.0)
        visit.abort()
        assert (await (await first_visit(second)).first_of(messages.ClientHeartbeat)).upto == 4000
        await stream.close(upto=9)

    run(test, first, second)
    assert heartbeats(first)[-2:] == [(3000, 4000)] * 2
    assert heartbeats(second)[-1] == (3000, 9000)


def test_a_last_heartbeat_that_a_node_may_not_have_read_is_said_to_the_next_one():
    def break_off(visit, _):
        visit.abort()

    first, second = ScriptedNode(on={messages.ClientPing: break_off}), ScriptedNode()

    async def test(client):
        stream = client.stream("urn:stream")
        await stream.publish(triples(1), time=3)
        await stream.heartbeat(4)

    run(test, first, second)
    assert heartbeats(second)[-1] == (3000, 4000)


def test_an_end_is_said_until_a_node_keeps_it_and_then_nothing_more():
    def break_off(visit, _):
        visit.abort()

    first, second = ScriptedNode(on={messages.ClientEndStream: break_off}), ScriptedNode()

    async def test(client):
        async with client.stream("urn:stream", publisher=7) as stream:
            await stream.publish(triples(1), time=3)
        assert stream._timer.cancelled()
        async with client.stream("urn:stream", publisher=7, first_event=stream.events) as again:
            await again.heartbeat(9)

    run(test, first, second)
    ends = [each for node in (first, second) for visit in node.visits for each in visit.of(messages.ClientEndStream)]
    said = [each for node in (first, second) for visit in node.visits for each in visit.of(messages.ClientHeartbeat)]
    assert [(each.stream, each.publisher, each.began, each.upto) for each in ends] == [
        (S, 7, 3000, 3000), (S, 7, 3000, 3000), (S, 7, 9000, 9000)
    ]  # fmt: skip
    assert ends[0].opening == ends[1].opening != ends[2].opening, "who opens it again is not taken for who closed"
    assert {each.opening for each in said if each.upto == 9000} == {ends[2].opening}


def test_a_publisher_without_a_promise_has_nothing_to_end():
    node = ScriptedNode()

    async def test(client):
        async with client.stream("urn:stream"):
            pass

    run(test, node)
    assert not [each for visit in node.visits for each in visit.of(messages.ClientEndStream)]


def test_after_a_failure_nothing_is_promised_and_the_same_numbers_go_on():
    def none(visit, message):
        visit.send(messages.ClientError(message.request, "busy", "no room", 0.01))

    busy = {messages.ClientPublish: none}
    node = ScriptedNode(on=busy)

    async def test(client):
        async with client.stream("urn:stream", publisher=7) as stream:
            with pytest.raises(Busy):
                await stream.publish(triples(1, 2), time=3, busy_seconds=0.0)
            with pytest.raises(LocalProtocolError, match="publisher=7 and first_event=0"):
                await stream.publish(triples(1, 2), time=3)
            with pytest.raises(LocalProtocolError, match="with unknown outcome"):
                await stream.heartbeat(9)
        assert (stream.promised, stream.events) == (None, 0)
        node.on[messages.ClientPublish] = lambda visit, m: visit.send(messages.ClientPublished(m.request, 1))
        async with client.stream("urn:stream", publisher=7, first_event=stream.events) as stream:
            await stream.publish(triples(1, 2), time=3)

    run(test, node)
    assert heartbeats(node)[0] == (3000, 2999), "of the first one there is none"
    assert [number for number, *_ in elements(node)] == [0, 1, 0, 1]


def test_refused_elements_are_left_out_and_reported_in_the_end():
    def choosy(visit, message):
        if '"2"' in visit.terms[message.request].texts(as_list(message.o)):
            visit.send(messages.ClientError(message.request, "data-refused", "not this one", 0.0))
        else:
            visit.send(messages.ClientPublished(message.request, 1))

    node = ScriptedNode(on={messages.ClientPublish: choosy})

    async def test(client):
        stream = client.stream("urn:stream")
        with pytest.raises(DataRefused, match="not this one"):
            await stream.publish(triples(1, 2, 3, 2), time=[1, 2, 3, 4])
        assert (stream.promised, stream.events) == (4000, 4)
        await stream.publish(triples(5), time=5)

    run(test, node)
    assert elements(node)[-1] == (4, 5000, '"5"', S)


@pytest.mark.parametrize(
    ("publication", "why"),
    [
        ((triples(1, 2), [1]), "fewer event times"),
        ((triples(1), [1, 2]), "more event times"),
        (([(A, P, A, S)], 1), "neither a triple"),
        (([TripleBatch([A], [P], [A], 1, 1, [S])], 1), "have no graph"),
        (([TripleBatch([A], [P], [A], 1, 1, times=[5])], 1), "have event times already"),
        (([TermColumns([A], *[np.zeros(1, np.uint32)] * 3, removed=True)], 1), "cannot be deleted"),
    ],
)
def test_a_bad_element_is_refused_and_the_elements_before_it_are_there(publication, why):
    node = ScriptedNode()

    async def test(client):
        stream = client.stream("urn:stream")
        with pytest.raises(LocalProtocolError, match=why):
            await stream.publish(publication[0], time=publication[1])
        await stream.publish(triples(9), time=9)
        assert stream.events == len(elements(node))

    run(test, node)
    numbers = [number for number, *_ in elements(node)]
    assert numbers == list(range(len(numbers)))


def test_streams_are_named_by_iris_and_settings_make_sense():
    async def test(client):
        assert client.stream("<urn:stream>").iri == S
        lateness = [{"lateness": -1}, {"lateness": float("inf")}]
        for wrong in ({"iri": "no iri"}, {"late": "drop"}, {"first_event": -1}, *lateness):
            with pytest.raises(LocalProtocolError):
                client.stream(**{"iri": "urn:stream", **wrong})

    run(test, ScriptedNode())


def test_a_closed_client_says_nothing_any_more():
    node = ScriptedNode()

    async def test(client):
        stream = client.stream("urn:stream", live=True)
        await client.close()
        assert stream._timer.cancelled()
        with contextlib.suppress(Unavailable):
            await stream.close()

    run(test, node)
