"""Links and connections between real sockets of one process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import weakref

import pytest

from p2prdf.columns import ARRAYS
from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import Acknowledge, Contact, Envelope, IndexTriples
from p2prdf_node import transport
from p2prdf_node.connection import Connection, Connections
from p2prdf_node.transport import Links, PeerInlet, bind_pair, rows_of

KEY = 42


class Side:
    """One node's transport without the rest."""

    def __init__(self, *, confirmed=True):
        self.codec = FrameCodec(TermDictionary(), ARRAYS)
        self.connections = Connections(connections_max=10, hello_seconds=5, frame_seconds=5)
        self.confirmed = confirmed
        self.tasks = set()
        self.received = []
        self.broken = []
        self.gone = []
        self.inlets = []
        self.hold_after = None
        self.arrived = asyncio.Event()
        self.contact = None

    async def __aenter__(self):
        stream, datagram = bind_pair("127.0.0.1", 0)
        datagram.close()
        self.contact = Contact(KEY, *stream.getsockname())
        await self.listen(0, stream)
        self.links = Links(
            self.contact, self.codec, self.connections, connect_seconds=1, idle_seconds=60,
            spawn=self.spawn, broken=self.broken.append,
        )  # fmt: skip
        return self

    async def listen(self, port, stream=None):
        def accept():
            return Connection(self.connections, self.codec, self)

        where = {"sock": stream} if stream else {"host": "127.0.0.1", "port": port}
        self.server = await asyncio.get_running_loop().create_server(accept, **where)

    async def __aexit__(self, *_):
        self.links.close()
        self.server.close()
        for connection in list(self.connections.open):
            connection.abort()
        for task in list(self.tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await asyncio.sleep(0)

    def spawn(self, work, name):
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def confirm(self, contact):
        return self.confirmed

    def receive(self, envelope, sender, connection):
        self.received.append((envelope, sender))
        self.arrived.set()
        if len(self.received) == self.hold_after:
            connection.hold("test")

    def take(self, connection, message):
        connection.identified = True
        inlet = PeerInlet(
            KEY, connection, message, confirm=self.confirm, receive=self.receive, gone=self.gone.append,
            spawn=self.spawn,
        )  # fmt: skip
        self.inlets.append(connection)
        return inlet

    def writable(self, *, room):
        pass

    def refused(self, connection, error):
        pass

    def closed(self, reason):
        pass

    async def until(self, condition):
        async with asyncio.timeout(5):
            while not condition():
                self.arrived.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await self.arrived.wait()


def envelope(number):
    return Envelope(number, 0, Acknowledge(ARRAYS.column([number])))


def numbers(side):
    return [envelope.transfer for envelope, _ in side.received]


async def test_all_envelopes_of_a_turn_leave_in_one_frame_and_arrive_in_order():
    async with Side() as a, Side() as b:
        for number in range(100):
            a.links.post(b.contact, envelope(number))
        a.links.flush()
        await b.until(lambda: len(b.received) == 100)
        assert numbers(b) == list(range(100))
        assert a.links.counts["frames"] == 1
        assert {sender for _, sender in b.received} == {a.contact}
        assert a.links.established(KEY)
        a.links.post(b.contact, envelope(100))
        a.links.flush()
        await b.until(lambda: len(b.received) == 101)
        assert len(b.inlets) == 1


async def test_nothing_is_connected_before_it_is_needed_and_idle_links_are_closed():
    async with Side() as a, Side() as b:
        assert not a.links.established(KEY)
        a.links.post(b.contact, envelope(1))
        a.links.flush()
        await b.until(lambda: b.received)
        a.links.sweep(asyncio.get_running_loop().time() + 1e6)
        await b.until(lambda: b.gone)
        assert not a.links.established(KEY)
        assert a.broken == []


async def test_closed_links_open_no_connection():
    async with Side() as a, Side() as b:
        a.links.close()
        a.links.post(b.contact, envelope(1))
        a.links.flush()
        assert not a.tasks
        assert not a.links.waiting
        assert a.links.status()["links"] == 0


async def test_a_peer_that_is_not_confirmed_gives_nothing():
    async with Side() as a, Side(confirmed=False) as b:
        a.links.post(b.contact, envelope(1))
        a.links.flush()
        await a.until(lambda: a.broken)
        assert b.received == []
        assert b.connections.refused == {"remote-protocol": 1}


async def test_a_connection_meant_for_another_peer_is_refused():
    """The address has a new owner: the sender expects the peer that had it before."""
    async with Side() as a, Side() as b:
        a.links.post(Contact(KEY + 1, b.contact.host, b.contact.port), envelope(1))
        a.links.flush()
        await a.until(lambda: a.broken == [KEY + 1])
        assert b.received == []


async def test_an_unreachable_peer_costs_no_memory(monkeypatch):
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.01)
    async with Side() as a:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            nobody = Contact(9, *probe.getsockname())
            for number in range(10):
                a.links.post(nobody, envelope(number))
            a.links.flush()
            await a.until(lambda: a.links.counts["dropped_unreachable"] == 10)
            assert a.links.waiting == 0
            assert a.broken == [9] * transport.ATTEMPTS


@pytest.mark.parametrize("host", ["peer.example", "h" * 255, "a..b", ""])
async def test_host_names_of_peers_are_not_resolved(monkeypatch, host):
    """Peers have addresses: a contact with a host name is not resolved, and nothing fails unexpectedly."""
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.01)

    async def looked_up(*_, **__):
        raise AssertionError("a name was looked up")

    async with Side() as a:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up)
        a.links.post(Contact(9, host, 7400), envelope(1))
        a.links.flush()
        await a.until(lambda: a.links.counts["dropped_unreachable"] == 1)


async def test_waiting_messages_are_sent_when_a_later_attempt_succeeds(monkeypatch):
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.01)
    async with Side() as a, Side() as b:
        b.server.close()
        a.links.post(b.contact, envelope(1))
        a.links.flush()
        await a.until(lambda: a.broken)
        await b.listen(b.contact.port)
        await b.until(lambda: numbers(b) == [1])
        assert a.links.counts["failed"] >= 1


async def test_a_receiver_that_does_not_read_gets_as_much_as_fits_and_the_rest_is_dropped(monkeypatch):
    """Backpressure: socket buffers, then the queue, then drops that are counted; then it goes on."""
    monkeypatch.setattr(transport, "ENVELOPES_MAX", 50)
    terms = ["<urn:" + "x" * 2000 + f"{n}>" for n in range(1000)]
    async with Side() as a, Side() as b:
        b.hold_after = 1
        column = ARRAYS.column(a.codec._encoder._dictionary.intern_all(terms), "uint32")
        stamps = ARRAYS.full(1000, 1)
        big = IndexTriples(column, column, column, stamps, stamps, ARRAYS.full(1000, 2, "uint32"))
        a.links.post(b.contact, envelope(0))
        a.links.flush()
        await b.until(lambda: b.received)
        posted = 1
        while not a.links.counts["dropped_full"]:
            a.links.post(b.contact, Envelope(posted, 0, big))
            a.links.flush()
            posted += 1
            await asyncio.sleep(0)
            assert posted < 500
        assert a.links.waiting == 50
        (connection,) = b.inlets
        connection.release("test")
        await b.until(lambda: len(b.received) == posted - 1)
        assert numbers(b) == list(range(posted - 1))


async def test_frames_are_cut_by_rows_and_halved_when_too_long(monkeypatch):
    monkeypatch.setattr(transport, "FRAME_ROWS", 10)
    async with Side() as a, Side() as b:
        for number in range(25):
            a.links.post(b.contact, envelope(number))
        a.links.flush()
        await b.until(lambda: len(b.received) == 25)
        assert a.links.counts["frames"] == 3
        monkeypatch.setattr(transport, "FRAME_ROWS", 1000)
        encode = a.codec.encode

        def short_frames(messages):
            if len(messages) > 4:
                raise LocalProtocolError("too long")
            return encode(messages)

        monkeypatch.setattr(a.codec, "encode", short_frames)
        for number in range(25, 50):
            a.links.post(b.contact, envelope(number))
        a.links.flush()
        await b.until(lambda: len(b.received) == 50)
        assert numbers(b) == list(range(50))


async def test_a_broken_connection_is_reported_and_made_again(monkeypatch):
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.0)
    async with Side() as a, Side() as b:
        a.links.post(b.contact, envelope(1))
        a.links.flush()
        await b.until(lambda: b.received)
        b.inlets[0].abort()
        await a.until(lambda: a.broken == [KEY])
        a.links.post(b.contact, envelope(2))
        a.links.flush()
        await b.until(lambda: len(b.received) == 2)


def test_both_sockets_get_the_same_port():
    stream, datagram = bind_pair("127.0.0.1", 0)
    with stream, datagram:
        assert stream.getsockname() == datagram.getsockname()
        with pytest.raises(LocalProtocolError, match="cannot listen on"):
            bind_pair(*stream.getsockname())


def test_rows_are_those_of_the_message():
    column = ARRAYS.column([1, 2, 3])
    triples = IndexTriples(column, column, column, column, column, column)
    assert rows_of(Envelope(1, 0, triples)) == 3
    assert rows_of(envelope(1)) == 1


class _Knowing:
    """A handler that knows its connection, as a client's session does."""

    def __init__(self, gone):
        self.connection = None
        self._gone = gone

    def closed(self, reason):
        self._gone.set()


async def test_a_connection_that_is_gone_and_its_handler_leave_no_memory_behind():
    """A node's garbage collector comes round rarely, and clients come and go."""
    connections = Connections(connections_max=10, hello_seconds=5, frame_seconds=5)
    codec, gone, left = FrameCodec(TermDictionary(), ARRAYS), asyncio.Event(), []

    def accept():
        handler = _Knowing(gone)
        handler.connection = Connection(connections, codec, handler)
        left.extend([weakref.ref(handler), weakref.ref(handler.connection)])
        return handler.connection

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    gc.disable()
    try:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.close()
        async with asyncio.timeout(5):
            await gone.wait()
            while any(each() is not None for each in left):  # the loop's transport lets go in one of its next turns
                await asyncio.sleep(0)
    finally:
        gc.enable()
        server.close()
    assert len(left) == 2
