"""TLS between a socket and a connection: two ends, and a wire in memory between them."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from tls_files import Certificates, careless

from p2prdf.columns import ARRAYS
from p2prdf.errors import RemoteProtocolError, TlsRefused
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import ClientHello
from p2prdf_node.config import NodeConfig
from p2prdf_node.connection import Connection, Connections
from p2prdf_node.tls import NodeTls


class Wire:
    """A socket's transport in memory: written bytes wait until they are carried over."""

    def __init__(self):
        self.waiting = bytearray()
        self.reading, self.closing, self.lost = True, False, False

    def write(self, data):
        assert not self.closing
        self.waiting += data

    def close(self):
        self.closing = True

    abort = close

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_extra_info(self, name, default=None):
        return ("127.0.0.1", 9) if name == "peername" else default


class End:
    """One end: wire, stream, connection and its handler."""

    def __init__(self, **limits):
        self.connections = Connections(**{"connections_max": 10, "hello_seconds": 5, "frame_seconds": 5, **limits})
        self.connection = Connection(self.connections, FrameCodec(TermDictionary(), ARRAYS), self, secure=True)
        self.wire = Wire()
        self.taken, self.told = [], []
        self.hold = False

    def take(self, connection, message):
        self.taken.append(message)
        if self.hold:
            connection.hold("test")

    def writable(self, *, room):
        pass

    def refused(self, connection, error):
        connection.send([ClientHello(1, str(error))])

    def closed(self, reason):
        self.told.append(reason)


def carry(one, other, piece=1000):
    """Carry all bytes over in pieces until neither end writes any more."""
    while True:
        moved = False
        for here, there in ((one, other), (other, one)):
            while here.wire.waiting and there.wire.reading and not there.wire.lost:
                part = bytes(here.wire.waiting[:piece])
                del here.wire.waiting[:piece]
                there.stream.data_received(part)
                moved = True
        if not moved:
            break
    for end in (one, other):
        if (end.wire.closing or (other if end is one else one).wire.closing) and not end.wire.lost:
            end.wire.lost = end.wire.closing = True
            end.stream.connection_lost(None)


@pytest.fixture
def made(tmp_path):
    return Certificates(tmp_path)


@pytest.fixture
def tls(made):
    """Two nodes."""
    return [NodeTls(NodeConfig(**made.settings(made.node()))) for _ in range(2)]


def connect(tls, **limits):
    server, client = End(**limits), End()
    server.stream = tls[0].accepted(server.connection)
    client.stream = tls[1].made(client.connection, tls[0].key)
    return server, client


def begin(*ends):
    for end in ends:
        end.stream.connection_made(end.wire)


async def test_frames_arrive_whole_and_in_order_in_any_pieces(tls):
    server, client = connect(tls)
    begin(server, client)
    carry(server, client, piece=7)
    await client.stream.done
    assert (server.connection.identity.key, client.connection.identity.key) == (tls[1].key, tls[0].key)
    sent = [ClientHello(number, "x" * 300_000) for number in range(5)]
    for message in sent:
        client.connection.send([message])
    assert len(client.wire.waiting) > 1_500_000
    assert b"xxxxxxxx" not in client.wire.waiting
    carry(server, client, piece=70_000)
    assert server.taken == sent
    client.connection.close()
    carry(server, client)
    assert (client.told, server.told) == (["closed"], ["closed"])
    assert not server.connections.refused + server.connections.tls_refused


async def test_a_held_connection_is_given_nothing_more(tls):
    server, client = connect(tls)
    begin(server, client)
    carry(server, client)
    server.hold = True
    for number in range(3):
        client.connection.send([ClientHello(number, "")])
    carry(server, client, piece=100_000)
    assert len(server.taken) == 1
    assert not server.wire.reading
    client.connection.send([ClientHello(3, "")])
    carry(server, client)
    assert client.wire.waiting
    server.hold = False
    server.connection.release("test")
    assert server.wire.reading
    carry(server, client)
    await asyncio.sleep(0)
    assert [message.version for message in server.taken] == [0, 1, 2, 3]


async def test_bytes_received_in_one_piece_wait_encrypted_while_a_connection_is_held(tls):
    server, client = connect(tls)
    begin(server, client)
    carry(server, client)
    server.hold = True
    for number in range(9):
        client.connection.send([ClientHello(number, "x" * 300_000)])
    carry(server, client, piece=10_000_000)
    assert len(server.taken) == 1
    assert server.connection.received < 700_000
    server.hold = False
    server.connection.release("test")
    await asyncio.sleep(0)
    assert [message.version for message in server.taken] == list(range(9))


async def test_a_stranger_counts_from_the_first_moment_and_is_closed_in_time(tls):
    server, _ = connect(tls, connections_max=1)
    begin(server)
    assert len(server.connections.open) == 1
    second = Connection(server.connections, FrameCodec(TermDictionary(), ARRAYS), server, secure=True)
    stream, wire = tls[0].accepted(second), Wire()
    stream.connection_made(wire)
    assert (server.wire.closing, wire.closing) == (True, False)  # it made room
    assert server.connections.evicted == {"silent": 1}
    server.connections.sweep(second.opened_at + 4.9)
    assert not wire.closing
    server.connections.sweep(second.opened_at + 5.1)
    assert wire.closing
    stream.connection_lost(None)
    server.stream.connection_lost(None)
    assert server.connections.tls_refused == {"timeout": 1}
    assert not server.connections.open


async def test_a_connection_without_a_handshake_is_counted_and_not_logged(tls, capsys):
    server, _ = connect(tls)
    begin(server)
    server.stream.connection_lost(None)
    assert server.connections.tls_refused == {"closed": 1}
    assert not server.connections.refused
    assert "refused" not in capsys.readouterr().out


async def test_both_ends_learn_why_a_handshake_fails(tls, made):
    made.revoke(made.folder / "ca-2")
    server, client = connect(tls)
    client.stream = tls[1].made(client.connection, 1234)
    begin(server, client)
    carry(server, client)
    with pytest.raises(TlsRefused, match="not of node 00000000000004d2"):
        await client.stream.done
    assert client.connections.tls_refused == {"other-key": 1}
    assert await tls[0].poll()
    server, client = connect(tls)
    begin(server, client)
    carry(server, client)
    assert server.connections.tls_refused == {"revoked": 1}
    assert "is revoked" in client.taken[0].agent


async def test_messages_written_before_the_handshake_are_not_sent(tls):
    server, _ = connect(tls)
    begin(server)
    server.connection.send([ClientHello(1, "in the clear?")])
    server.connection.refuse(RemoteProtocolError("in the clear?"))
    assert not server.wire.waiting


async def test_garbage_after_the_handshake_ends_the_connection(tls):
    server, client = connect(tls)
    begin(server, client)
    carry(server, client)
    server.stream.data_received(b"\x17\x03\x03\x00\x10" + bytes(16))
    assert server.wire.closing
    assert server.connections.refused == {"tls-refused": 1}
    assert server.taken == []


async def test_nothing_of_a_certificate_that_was_revoked_meanwhile_stays_open(tls, made):
    server, client = connect(tls)
    begin(server, client)
    carry(server, client)
    tls[0].close_refused(server.connections.open)
    assert not server.wire.closing
    made.revoke(made.folder / "ca-2")
    assert await tls[0].poll()
    assert tls[0].is_revoked(tls[1].key)
    assert not tls[0].is_revoked(tls[0].key)
    tls[0].close_refused(list(server.connections.open))
    assert server.wire.closing
    assert server.connections.tls_refused == {"revoked": 1}
    carry(server, client)
    assert "is revoked" in client.taken[0].agent


async def test_a_certificate_that_expires_while_a_connection_stands_ends_it(tls, monkeypatch):
    server, client = connect(tls)
    begin(server, client)
    carry(server, client)
    expires = server.connection.identity.expires
    for seconds, closing in ((-1, False), (1, True)):
        monkeypatch.setattr("p2prdf_node.tls.time.time", lambda at=expires + seconds: at)
        tls[0].close_refused(list(server.connections.open))
        assert server.wire.closing == closing
    assert server.connections.tls_refused == {"expired": 1}


async def test_a_damaged_list_is_reported_once_and_the_old_one_stays_in_use(tls, made):
    made.revoke(made.folder / "ca-2")
    assert await tls[0].poll()
    good = made.crl.read_bytes()
    made.crl.write_bytes(good[:100])
    assert not await tls[0].poll()
    problem = tls[0].status()["problem"]
    assert "crl.pem" in problem
    assert tls[0].is_revoked(tls[1].key)
    assert not await tls[0].poll()
    made.crl.unlink()
    assert not await tls[0].poll()
    assert "No such file" in tls[0].status()["problem"]
    assert tls[0].is_revoked(tls[1].key)
    made.crl.write_bytes(good)
    assert await tls[0].poll()
    assert tls[0].status()["problem"] is None


async def test_a_client_hello_of_an_older_version_is_answered_by_an_alert(tls, made):
    server, _ = connect(tls)
    begin(server)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = careless(made.client())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    old = context.wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        old.do_handshake()
    server.stream.data_received(outgoing.read())
    assert server.connections.tls_refused == {"version": 1}
    incoming.write(bytes(server.wire.waiting))
    with pytest.raises(ssl.SSLError, match=r"(?i)alert protocol version"):
        old.do_handshake()
