"""Hostile bytes over TCP and UDP cost their sender the connection, and nobody else anything."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import time

import msgpack
import pytest

import p2prdf
from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import messages
from p2prdf.wire.codec import FRAME_BYTES_MAX, FrameCodec, FrameReader
from p2prdf.wire.messages import CLIENT_VERSION, ClientHello, Contact, PeerHello


def frame(*parts):
    return FrameCodec(TermDictionary(), LISTS).encode(list(parts))


def packed(value):
    body = msgpack.packb(value)
    return struct.pack(">I", len(body)) + body


class Stranger:
    """A raw connection."""

    def __init__(self, node):
        self.node = node

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.node.port)
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort()

    async def last_words(self, seconds=10.0):
        """Read until the node closes; return the messages it sent."""
        found = []
        frames = FrameReader()
        async with asyncio.timeout(seconds):
            try:
                while data := await self.reader.read(65536):
                    for body in frames.feed(data):
                        found += FrameCodec(TermDictionary(), LISTS).decode(body)
            except ConnectionResetError:
                pass
        return found


def nested(depth):
    return b"\x91" * depth + b"\xc0"


def body(raw):
    return struct.pack(">I", len(raw)) + raw


HOSTILE = {
    "a frame of 4 GiB": struct.pack(">I", 0xFFFF_FFFF) + b"x" * 1000,
    "a frame just too long": struct.pack(">I", FRAME_BYTES_MAX + 1),
    "an empty frame": struct.pack(">I", 0),
    "text": b"GET / HTTP/1.1\r\nHost: node\r\n\r\n",
    "noise": random.Random(1).randbytes(5000),
    "unknown version": packed([99, [], [[64, 1, ""]]]),
    "unknown message type": packed([1, [], [[255, 1]]]),
    "too few fields": packed([1, [], [[64]]]),
    "wrong types": packed([1, [], [[64, "one", 7]]]),
    "not an array": packed({"a": 1}),
    "nothing": packed(None),
    "deep nesting": body(nested(100_000)),
    "an array that says it has 2^32 elements": body(b"\xdd\xff\xff\xff\xff"),
    "a string that says it has 4 GiB": body(b"\x93\x01\xdb\xff\xff\xff\xff"),
    "a million empty maps": body(b"\xdd\x00\x0f\x42\x40" + b"\x80" * 1_000_000),
    "invalid UTF-8": body(b"\x93\x01\x91\xa2\xff\xfe\x90"),
    "an extension type": body(b"\x93\x01\x90\x91\xd4\x05\x00"),
    "a timestamp": body(b"\x93\x01\x90\x91\xd6\xff\x00\x00\x00\x00"),
}


async def healthy(node):
    async with p2prdf.connect(node.address) as client:
        return (await client.status())["key"] == node.key


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("after_hello", [False, True], ids=["at first", "after hello"])
async def test_bytes_that_are_no_frame_end_the_connection_with_a_typed_reason(overlay, name, after_hello):
    node = overlay[0]
    async with Stranger(node) as stranger:
        if after_hello:
            stranger.writer.write(frame(ClientHello(CLIENT_VERSION, "hostile")))
        stranger.writer.write(HOSTILE[name])
        said = await stranger.last_words()
    assert said
    assert isinstance(said[-1], messages.ClientError)
    assert said[-1].request == 0
    assert said[-1].code == "remote-protocol"
    assert said[-1].text
    assert await healthy(node)


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        (messages.ClientStatus(1), "the first frame is ClientStatus, not a hello"),
        (messages.Acknowledge([1]), "not a hello"),
        (ClientHello(CLIENT_VERSION + 1, "from the future"), f"version {CLIENT_VERSION + 1} of the client protocol"),
        (PeerHello(Contact(1, "127.0.0.1", 9), 0), "this is peer"),
    ],
)
async def test_the_first_frame_must_be_a_hello(overlay, first, complaint):
    async with Stranger(overlay[0]) as stranger:
        stranger.writer.write(frame(first))
        said = await stranger.last_words()
    assert complaint in said[-1].text


@pytest.mark.parametrize(
    "message",
    [
        messages.ClientWelcome(Contact(1, "127.0.0.1", 9), 5),
        messages.ClientRows(1, 1, 0, [1], [1], ()),
        messages.Envelope(1, 0, messages.Acknowledge([1])),
        PeerHello(Contact(1, "127.0.0.1", 9), 0),
        ClientHello(CLIENT_VERSION, "again"),
    ],
    ids=lambda message: type(message).__name__,
)
async def test_messages_reserved_to_nodes_end_a_client(overlay, message):
    async with Stranger(overlay[0]) as stranger:
        stranger.writer.write(frame(ClientHello(CLIENT_VERSION, "")) + frame(message))
        said = await stranger.last_words()
    assert said[-1].code == "remote-protocol"
    assert type(message).__name__ in said[-1].text


@pytest.mark.parametrize("overlay", ["kademlia", "chord"], indirect=True)
async def test_messages_of_an_unconfirmed_peer_are_refused(overlay, status, until):
    """It knows the node's key and speaks the protocol, but answers no sealed ping."""
    node = overlay[0]

    async def settled():  # a new node takes all indexes for used until the advertisements of others arrive
        found = await status(node)
        return found if found["peer"]["settled"] else None

    before = await until(settled)
    liar = Contact(int(overlay[1].key, 16), "127.0.0.1", 9)
    bomb = messages.Envelope(1, 0, messages.AdvertiseIndexes(0xFFFF))
    async with Stranger(node) as stranger:
        stranger.writer.write(frame(PeerHello(liar, int(node.key, 16))) + frame(bomb) * 100)
        said = await stranger.last_words()
    assert "no member of this cluster answers" in said[-1].text
    assert (await status(node))["peer"]["indexes"] == before["peer"]["indexes"]


async def test_a_connection_without_a_valid_hello_is_closed(overlay):
    began = time.monotonic()
    async with Stranger(overlay[0]) as silent, Stranger(overlay[0]) as slow:
        slow.writer.write(frame(ClientHello(CLIENT_VERSION, ""))[:-1])
        assert "no valid hello" in (await silent.last_words())[-1].text
        assert "no valid hello" in (await slow.last_words())[-1].text
    assert 0.9 < time.monotonic() - began < 5


async def test_frames_that_never_end_and_connections_beyond_the_bound_are_closed(launcher, status, until):
    node = launcher.start(frame_seconds=0.5, connections_max=5)
    async with Stranger(node) as stranger:
        stranger.writer.write(frame(ClientHello(CLIENT_VERSION, "")) + struct.pack(">I", 1000) + b"begun")
        said = await stranger.last_words()
    assert isinstance(said[0], messages.ClientWelcome)
    assert "was not complete" in said[-1].text
    strangers = [Stranger(node) for _ in range(5)]
    for stranger in strangers:
        await stranger.__aenter__()
        stranger.writer.write(frame(ClientHello(CLIENT_VERSION, ""), messages.ClientStatus(1)))
        await stranger.reader.readuntil(b"uptime_seconds")
    async with Stranger(node) as one_too_many:
        (told,) = await one_too_many.last_words()
        assert (told.code, told.text) == ("busy", "this node has 5 connections (setting connections_max)")
    for stranger in strangers:
        await stranger.__aexit__()

    async def recovered():
        try:
            return await status(node)
        except p2prdf.Busy:
            return None

    assert (await until(recovered))["connections"]["refused"]["busy"] >= 1


async def test_acknowledging_answers_that_were_never_sent_changes_nothing_for_others(overlay):
    query = "SELECT ?o { <urn:never> <urn:sent> ?o }"
    async with p2prdf.connect(overlay[0].address) as client, p2prdf.connect(overlay[1].address) as liar:
        subscription = await client.subscribe(query)
        other = await liar.subscribe(query)
        await client.publish([("<urn:never>", "<urn:sent>", f'"{n}"') for n in range(3)])
        async with asyncio.timeout(10):
            identities = [(await anext(other)).identity for _ in range(3)]
        liar.acknowledge(other, [*identities, *range(1, 50_000)])
        await liar.status()
        async with asyncio.timeout(10):
            assert {(await anext(subscription))["o"] for _ in range(3)} == {f'"{n}"' for n in range(3)}


# --- datagrams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", ["kademlia", "chord"], indirect=True)
async def test_datagrams_that_are_not_sealed_change_nothing_and_get_no_answer(overlay, status):
    import msgpack

    node = overlay[0]
    before = await status(node)
    generator = random.Random(3)
    ping = msgpack.packb([1, [generator.getrandbits(64), "127.0.0.1", 9], 7])
    store = msgpack.packb(["store", [generator.getrandbits(64), "127.0.0.1", 9], b"k" * 20, "v" * 1000])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
        forger.bind(("127.0.0.1", 0))
        forger.settimeout(0.3)
        for number in range(2000):
            datagram = (ping, store, os.urandom(number % 1400), b"")[number % 4]
            forger.sendto(datagram, ("127.0.0.1", node.port))
        with pytest.raises(TimeoutError):
            forger.recv(65536)
    after = await status(node)
    assert after["peers"] == before["peers"]
    assert sum(after["discovery"]["datagrams_refused"].values()) > sum(
        before["discovery"]["datagrams_refused"].values()
    )
    assert len(node.text().splitlines()) < 1000


async def test_a_recorded_datagram_does_nothing_the_second_time(launcher, status, until, tmp_path):
    """A relay between two nodes records the datagrams that it passes on, and sends them again to both of them."""
    first = launcher.start()
    recorded = []
    loop = asyncio.get_running_loop()

    class Relay(asyncio.DatagramProtocol):
        def connection_made(self, transport):
            self.transport = transport
            self.last_stranger = None

        def datagram_received(self, data, addr):
            recorded.append(data)
            if addr[1] == first.port:
                self.transport.sendto(data, self.last_stranger)
            else:
                self.last_stranger = addr
                self.transport.sendto(data, ("127.0.0.1", first.port))

    transport, _ = await loop.create_datagram_endpoint(Relay, local_addr=("127.0.0.1", 0))
    relay_port = transport.get_extra_info("sockname")[1]
    second = await asyncio.to_thread(launcher.start, bootstrap=f"127.0.0.1:{relay_port}")

    async def met():
        return len((await status(first))["peers"]) == 1

    await until(met)
    count = len(recorded)
    assert count >= 1
    before = await status(first)
    for node in (first, second):
        for datagram in recorded[:count]:
            transport.sendto(datagram, ("127.0.0.1", node.port))

    async def refused():
        return (await status(first))["discovery"]["datagrams_refused"]["replayed"] > 0

    await until(refused)
    assert (await status(first))["peers"] == before["peers"]
    transport.close()
