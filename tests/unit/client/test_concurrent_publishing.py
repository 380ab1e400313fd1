"""Many publications of one client at a time, and sources that keep a publication waiting."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest
from scripted_nodes import ScriptedNode, nodes

import p2prdf
from p2prdf.client.window import Window
from p2prdf.columns import as_list
from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.wire import messages

P = "<urn:p>"
CALLS = 64
DEADLINE_SECONDS = 30


def triple(number):
    return f"<urn:s{number}>", P, f'"{number}"'


def subjects(visit, message):
    """Return the numbers of a publication's subjects."""
    return [int(text.removeprefix("<urn:s")[:-1]) for text in visit.terms[message.request].texts(as_list(message.s))]


def confirm(visit, message):
    visit.send(messages.ClientPublished(message.request, 1))


class Rounds:
    """Answers publications when a number of them are there, all at once: one round."""

    def __init__(self, size):
        self.size, self.rounds, self.open, self.most = size, 0, [], 0

    def __call__(self, visit, message):
        self.open.append(message)
        self.most = max(self.most, len(self.open))
        if len(self.open) == self.size:
            self.rounds += 1
            taken, self.open = self.open, []
            for each in taken:
                confirm(visit, each)


@pytest.mark.parametrize(("credit", "rounds"), [(64, 1), (100, 1), (16, 4), (1, 64)])
async def test_concurrent_publications_take_one_round_trip_for_each_credit(credit, rounds):
    answering = Rounds(min(credit, CALLS))
    node = ScriptedNode(credit=credit, on={messages.ClientPublish: answering})
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        counts = await asyncio.gather(*(client.publish([triple(number)]) for number in range(CALLS)))
        assert counts == [1] * CALLS
        assert answering.rounds == rounds
        assert answering.most <= credit
        published = node.visits[0].of(messages.ClientPublish)
        assert sorted(number for each in published for number in subjects(node.visits[0], each)) == [*range(CALLS)]
        assert len({each.publisher for each in published}) == CALLS


async def test_a_refused_publication_fails_its_own_call_alone():
    def refuse_seven(visit, message):
        if 7 in subjects(visit, message):
            visit.send(messages.ClientError(message.request, DataRefused.code, "seven is refused", 0.0))
        else:
            confirm(visit, message)

    node = ScriptedNode(on={messages.ClientPublish: refuse_seven})
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        calls = [client.publish([triple(number)]) for number in range(CALLS)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(outcomes.pop(7), DataRefused)
        assert outcomes == [1] * (CALLS - 1)


async def test_concurrent_publications_go_on_at_another_node_each_once():
    def half(visit, message):
        number = len(visit.of(messages.ClientPublish))
        if number % 2:
            confirm(visit, message)
        if number == CALLS:
            visit.abort()

    first, second = ScriptedNode(on={messages.ClientPublish: half}), ScriptedNode(credit=5)
    async with (
        asyncio.timeout(DEADLINE_SECONDS), nodes(first, second),
        p2prdf.connect(f"{first.address},{second.address}") as client,
    ):  # fmt: skip
        await asyncio.gather(*(client.publish([triple(number)], publisher=number) for number in range(CALLS)))
        again = [(each.publisher, each.first_event) for each in second.visits[0].of(messages.ClientPublish)]
        before = first.visits[0].of(messages.ClientPublish)
        assert max(Counter(again).values()) == 1
        assert {each.publisher for each in before[1::2]} <= {number for number, _ in again}
        assert {number for number, _ in again} | {each.publisher for each in before[::2]} == {*range(CALLS)}


async def test_a_long_publication_does_not_keep_a_short_one_waiting():
    held = []
    node = ScriptedNode(credit=4, on={messages.ClientPublish: lambda visit, message: held.append((visit, message))})
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        long = asyncio.create_task(client.publish(map(triple, range(100)), batch_triples=1))
        visit = await first_visit(node)
        await published(visit, 4)
        short = asyncio.create_task(client.publish([triple(1000)]))
        answered = 0
        while not any(1000 in subjects(*each) for each in held):
            confirm(*held.pop(0))
            answered += 1
            await published(visit, 4 + answered)
        assert answered <= 2
        node.on[messages.ClientPublish] = confirm
        for each in held:
            confirm(*each)
        assert (await short, await long) == (1, 100)


async def test_a_call_that_is_cancelled_frees_its_slot_when_the_node_answers():
    held = []
    node = ScriptedNode(credit=1, on={messages.ClientPublish: lambda visit, message: held.append((visit, message))})
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        calls = [asyncio.create_task(client.publish([triple(number)])) for number in range(3)]
        visit = await first_visit(node)
        await published(visit, 1)
        calls[0].cancel()
        calls[1].cancel()  # it waits for a slot
        await asyncio.wait(calls[:2])
        assert len(held) == 1
        confirm(*held[0])
        await published(visit, 2)
        assert subjects(*held[1]) == [2]
        confirm(*held[1])
        assert await calls[2] == 1


async def test_a_slot_that_comes_together_with_a_cancellation_is_given_to_the_next():
    window = Window(1)
    assert window.take()
    waiting = [asyncio.create_task(window.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    window.give()
    waiting[0].cancel()
    assert await waiting[1]
    window.close()
    assert not await window.wait()


# --- sources that keep one waiting ---------------------------------------------------------------


async def first_visit(node):
    await node.came.wait()
    return node.visits[0]


async def published(visit, count):
    """Wait until a number of publications were sent."""
    while len(visit.of(messages.ClientPublish)) < count:
        visit.news.clear()
        await visit.news.wait()


class Arrivals:
    """Counts the triples that a node was sent, for a source that waits until its own are there."""

    def __init__(self):
        self.sizes = []
        self._changed = threading.Condition()

    def __call__(self, visit, message):
        with self._changed:
            self.sizes.append(len(message))
            self._changed.notify_all()
        confirm(visit, message)

    def wait_for(self, triples):
        with self._changed:
            assert self._changed.wait_for(lambda: sum(self.sizes) >= triples, DEADLINE_SECONDS)


def blocking(arrivals, count):
    """Yield triples; the next one only when the node has the one before."""
    for number in range(count):
        yield triple(number)
        arrivals.wait_for(number + 1)


async def waiting(arrivals, count):
    for number in range(count):
        yield triple(number)
        await asyncio.to_thread(arrivals.wait_for, number + 1)


class Lazy:
    """An iterable that is no generator itself."""

    def __init__(self, *arguments):
        self._arguments = arguments

    def __iter__(self):
        return blocking(*self._arguments)


@pytest.mark.parametrize("source", [blocking, waiting, Lazy])
@pytest.mark.parametrize("through", ["publish", "retract", "stream"])
async def test_no_item_of_a_live_source_is_held_back(source, through):
    arrivals = Arrivals()
    node = ScriptedNode(on={messages.ClientPublish: arrivals})
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        if through == "stream":
            async with client.stream("urn:stream") as stream:
                assert await stream.publish(source(arrivals, 5)) == 5
        else:
            assert await getattr(client, through)(source(arrivals, 5)) == 5
    assert arrivals.sizes == [1] * 5


async def test_a_batch_that_is_full_does_not_linger_and_the_rest_goes_when_the_source_ends():
    arrivals = Arrivals()

    async def source():
        for number in range(3):
            yield triple(number)
        await asyncio.to_thread(arrivals.wait_for, 2)

    node = ScriptedNode(on={messages.ClientPublish: arrivals})
    async with (
        asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address, linger_seconds=3600) as client,
    ):  # fmt: skip
        assert await client.publish(source(), batch_triples=2) == 3
    assert arrivals.sizes == [2, 1]


@pytest.mark.parametrize("kind", [list, iter, tuple, dict.fromkeys])
async def test_a_source_that_does_not_wait_is_sent_in_full_batches(kind):
    arrivals = Arrivals()
    node = ScriptedNode(on={messages.ClientPublish: arrivals})
    async with (
        asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address, linger_seconds=3600) as client,
    ):  # fmt: skip
        assert await client.publish(kind([triple(number) for number in range(2500)])) == 2500
    assert arrivals.sizes == [1000, 1000, 500]


async def test_a_generator_is_read_ahead_by_one_batch_at_most():
    read, hold = [], []

    def source():
        for number in range(1000):
            read.append(number)
            yield triple(number)

    node = ScriptedNode(credit=2, on={messages.ClientPublish: lambda *each: hold.append(each)})
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        work = asyncio.create_task(client.publish(source(), batch_triples=10))
        await published(await first_visit(node), 2)
        for each in hold:
            assert len(read) <= 10 * (len(node.visits[0].of(messages.ClientPublish)) + 4)
            confirm(*each)
            await asyncio.sleep(0)
        node.on[messages.ClientPublish] = confirm
        for each in hold:
            confirm(*each)
        assert await work == 1000


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_error_of_the_source_is_raised_and_the_client_goes_on(asynchronous):
    def plain():
        yield triple(1)
        raise OSError("the disk is gone")

    async def later():
        yield triple(1)
        raise OSError("the disk is gone")

    node = ScriptedNode()
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        with pytest.raises(OSError, match="the disk is gone"):
            await client.publish(later() if asynchronous else plain())
        assert await client.publish([triple(2)]) == 1


async def test_a_live_source_is_left_when_its_publication_is_cancelled():
    ended = []

    async def source():
        try:
            yield triple(1)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    node = ScriptedNode()
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        work = asyncio.create_task(client.publish(source()))
        await published(await first_visit(node), 1)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert ended == [True]
        assert await client.publish([triple(2)]) == 1


async def test_a_linger_that_is_no_time_is_refused():
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(LocalProtocolError, match="linger_seconds"):
            p2prdf.connect("127.0.0.1:1", linger_seconds=wrong)
    node = ScriptedNode()
    async with nodes(node), p2prdf.connect(node.address) as client:
        with pytest.raises(LocalProtocolError, match="linger_seconds"):
            await client.publish([triple(1)], linger_seconds=-1)
