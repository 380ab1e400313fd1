"""The fault proxy on real sockets: passed and dropped bytes, and each end's view of a fault."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from chaos.proxy import Proxy

from p2prdf_node.transport import bind_pair

SECONDS = 10.0


class Node(asyncio.DatagramProtocol):
    """A node as the proxy sees it: it listens for streams and datagrams at one port."""

    def __init__(self):
        self.streams: asyncio.Queue = asyncio.Queue()
        self.datagrams: asyncio.Queue = asyncio.Queue()
        self.address = self.front = ("", 0)
        self.opened = []

    async def start(self, proxy, name):
        stream, datagram = bind_pair("127.0.0.1", 0)
        self.address = stream.getsockname()
        self.front = await proxy.open(name, self.address)
        self.server = await asyncio.start_server(self.accept, sock=stream)
        self.transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=datagram)
        return self

    def accept(self, reader, writer):
        self.opened.append(writer)
        self.streams.put_nowait((reader, writer))

    async def dial(self, other, hello):
        """Open a stream to another node's front and say something."""
        reader, writer = await asyncio.open_connection(*other.front)
        self.opened.append(writer)
        writer.write(hello)
        return reader, writer

    def datagram_received(self, data, addr):
        self.datagrams.put_nowait((data, addr))

    def send(self, data, to):
        self.transport.sendto(data, to)

    async def heard(self):
        async with asyncio.timeout(SECONDS):
            return await self.datagrams.get()

    async def connect(self, other, name):
        """Open a stream to another node's front and introduce this one; return both ends."""
        reader, writer = await self.dial(other, name.encode() + b"\n")
        async with asyncio.timeout(SECONDS):
            there = await other.streams.get()
            assert await there[0].readline() == name.encode() + b"\n"
        return (reader, writer), there

    async def close(self):
        self.server.close()
        self.transport.close()
        for writer in self.opened:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def named(received):
    """The tests' hello: a name and the end of a line."""
    return received.split(b"\n")[0].decode() if b"\n" in received else None


@pytest.fixture
async def world():
    """A proxy and three nodes behind it."""
    proxy = Proxy(named, seed=1)
    nodes = [await Node().start(proxy, name) for name in "abc"]
    yield proxy, *nodes
    for node in nodes:
        await node.close()
    await proxy.close()
    assert len(asyncio.all_tasks()) == 1, "the proxy leaves tasks behind"


async def read(reader, count):
    async with asyncio.timeout(SECONDS):
        return await reader.readexactly(count)


async def ended(reader):
    """How a stream ends: at its end, or by a reset."""
    async with asyncio.timeout(SECONDS):
        try:
            return "ended" if await reader.read() == b"" else "more"
        except ConnectionResetError:
            return "reset"


async def test_streams_carry_bytes_both_ways_and_end_half_by_half(world):
    _, a, b, _ = world
    (reader, writer), (there_reader, there_writer) = await a.connect(b, "a")
    sent = bytes(range(256)) * 8192
    writer.write(sent)
    writer.write_eof()
    async with asyncio.timeout(SECONDS):
        assert await there_reader.read() == sent
    there_writer.write(b"answer after the end")
    assert await read(reader, 20) == b"answer after the end"
    there_writer.close()
    assert await ended(reader) == "ended"


async def test_datagrams_come_from_the_front_of_their_sender_and_answers_find_back(world):
    _, a, b, _ = world
    a.send(b"question", b.front)
    data, source = await b.heard()
    assert (data, source) == (b"question", a.front)
    b.send(b"answer", source)
    assert await a.heard() == (b"answer", b.front)


async def test_strangers_datagrams_are_dropped(world):
    proxy, a, b, _ = world
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=b.front)
    transport.sendto(b"from nowhere")
    async with asyncio.timeout(SECONDS):
        while not proxy.counts["datagrams_of_strangers"]:
            await asyncio.sleep(0)
    transport.close()
    a.send(b"known", b.front)
    assert (await b.heard())[0] == b"known"


async def test_loss_duplication_and_corruption_of_datagrams(world):
    proxy, a, b, _ = world
    proxy.change("a", "b", loss=1.0)
    a.send(b"lost", b.front)
    while not proxy.counts["datagrams_lost"]:
        await asyncio.sleep(0)
    proxy.heal()
    proxy.change("a", "b", duplicate=1.0)
    a.send(b"twice", b.front)
    assert [(await b.heard())[0] for _ in range(2)] == [b"twice", b"twice"]
    proxy.heal()
    proxy.change("a", "b", corrupt=1.0)
    a.send(b"\0\0\0", b.front)
    data, _ = await b.heard()
    assert int.from_bytes(data, "big").bit_count() == 1


async def test_delay_is_kept_and_jitter_never_reorders_a_stream(world):
    proxy, a, b, _ = world
    (_, writer), (there, _) = await a.connect(b, "a")
    proxy.change("a", "b", delay=0.05, jitter=0.05)
    loop = asyncio.get_running_loop()
    start = loop.time()
    for number in range(20):
        writer.write(bytes([number]))
        await asyncio.sleep(0)
    assert await read(there, 20) == bytes(range(20))
    assert loop.time() - start >= 0.05
    start = loop.time()
    a.send(b"late", b.front)
    await b.heard()
    assert loop.time() - start >= 0.05


async def test_bandwidth_spreads_a_burst(world):
    proxy, a, b, _ = world
    (_, writer), (there, _) = await a.connect(b, "a")
    proxy.change("a", "b", bytes_per_second=1_000_000)
    start = asyncio.get_running_loop().time()
    writer.write(bytes(200_000))
    await read(there, 200_000)
    assert asyncio.get_running_loop().time() - start >= 0.1  # the last chunk waits for those before it


async def test_a_cut_holds_streams_and_drops_datagrams_and_healing_delivers_the_held_bytes(world):
    proxy, a, b, c = world
    (reader, writer), (there, there_writer) = await a.connect(b, "a")
    proxy.part("a", "b")
    writer.write(b"held")
    there_writer.write(b"held too")
    a.send(b"lost", b.front)
    a.send(b"elsewhere", c.front)
    assert (await c.heard())[0] == b"elsewhere"
    proxy.heal()
    a.send(b"after", b.front)
    assert (await b.heard())[0] == b"after"
    assert await read(there, 4) == b"held"
    assert await read(reader, 8) == b"held too"


async def test_a_one_way_cut_lets_datagrams_pass_the_other_way_but_no_stream(world):
    proxy, a, b, _ = world
    (reader, _), (_, there_writer) = await a.connect(b, "a")
    proxy.change("a", "b", cut=True)
    b.send(b"passes", a.front)
    assert (await a.heard())[0] == b"passes"
    there_writer.write(b"held")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.readexactly(4)
    proxy.heal()
    assert await read(reader, 4) == b"held"


async def test_a_held_stream_takes_in_no_more_than_its_bound(world):
    proxy, a, b, _ = world
    (_, writer), (there, _) = await a.connect(b, "a")
    proxy.part("a", "b")
    written = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while written < 1 << 28:
                writer.write(bytes(1 << 20))
                async with asyncio.timeout(0.2):
                    await writer.drain()
                written += 1 << 20
    assert written < 1 << 26, "a sender whose link is cut must feel it"
    writer.transport.abort()
    proxy.heal()
    assert await ended(there) in ("more", "reset", "ended")


async def test_reset_breaks_both_ends(world):
    proxy, a, b, c = world
    (reader, _), (there, _) = await a.connect(b, "a")
    (other, _), (_, other_there) = await a.connect(c, "a")
    assert proxy.reset("b") == 1
    assert await ended(reader) == await ended(there) == "reset"
    other_there.write(b"untouched")
    assert await read(other, 9) == b"untouched"


async def test_a_death_is_visible_unless_the_node_is_silenced(world):
    proxy, a, b, c = world
    (reader, writer), (_, there) = await a.connect(b, "a")
    there.transport.abort()
    assert await ended(reader) in ("ended", "reset")
    (reader, writer), (_, there) = await a.connect(c, "a")
    proxy.silence("c")
    writer.write(b"swallowed")
    there.transport.abort()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.read()
    proxy.revive("c")
    assert await ended(reader) == "reset"


async def test_a_cut_hides_a_death_until_it_is_healed(world):
    proxy, a, b, _ = world
    (reader, _), (_, there) = await a.connect(b, "a")
    proxy.part("a", "b")
    there.transport.abort()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.read()
    proxy.heal()
    assert await ended(reader) in ("ended", "reset")


async def test_a_connection_to_a_silent_node_hangs_until_it_is_back(world):
    proxy, a, b, _ = world
    proxy.silence("b")
    reader, _ = await a.dial(b, b"a\n")
    a.send(b"lost", b.front)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.read()
    assert b.streams.empty()
    proxy.revive("b")
    assert await ended(reader) == "reset"
    (reader, _), (_, there) = await a.connect(b, "a")
    there.write(b"hello")
    assert await read(reader, 5) == b"hello"
    assert b.datagrams.empty()


async def test_a_node_that_is_not_there_hangs_up(world):
    _, a, b, _ = world
    await b.close()
    reader, _ = await a.dial(b, b"a\n")
    assert await ended(reader) in ("ended", "reset")


async def test_a_connection_that_never_identifies_itself_is_closed(world):
    _, a, b, _ = world
    reader, _ = await a.dial(b, bytes(1 << 18))
    assert await ended(reader) in ("ended", "reset")
