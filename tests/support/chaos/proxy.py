"""A fault proxy in user space: streams and datagrams between named nodes, delayed, lost, cut or left hanging.

**Idea.**  Each node has a *front*: one port of the proxy, for streams and datagrams, in front of the node's own
address.  Nodes advertise their fronts, so all traffic between nodes passes through here.  To break *links* and
not only nodes the proxy must know the sender:

* a datagram shows it by its source, as a node sends from the address it listens at; it goes on from the *sender's
  front*, so the receiver sees, and answers to, the address that the sender advertises;
* a stream shows it by its first bytes (``identify``): the source of a connection says nothing, but the node that opens
  one introduces itself.

**Faults of a link** (:class:`Way`, one for each ordered pair): delay and jitter, a bandwidth, loss, duplication
and corruption of datagrams, and a cut.  Streams behave as TCP does in such a network: nothing is lost in them,
it comes late.  So a cut *holds* a stream, both ways even if only one is cut (no acknowledgement would come),
and the held bytes go on when the cut is healed.  ``reset`` breaks streams as a router may.

**Half-open.**  When a process is killed its kernel reports it to everybody.  When a machine loses power nobody
does. :meth:`Proxy.silence` makes a node's death silent: its streams swallow everything and never end, until
:meth:`Proxy.revive`, when they are reset, as a restarted machine does with connections it does not know.

Limits: the proxy cannot refuse a connection, or let it time out, since it accepts before it knows the sender.
An absent node looks like one that accepts and hangs up; one that is cut off, like one that accepts and is
silent.

Chunks waiting for their time are bounded (``CHUNKS_MAX``); beyond, the sender is not read from.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from p2prdf_node.transport import bind_pair

__all__ = ["Address", "Proxy", "Way"]

Address = tuple[str, int]
Identify = Callable[[bytes], str | None]

CHUNKS_MAX: Final = 64
CHUNK_BYTES: Final = 1 << 16
HELLO_BYTES_MAX: Final = 1 << 16
"""A stream that has not identified its sender within this many bytes ends."""


@dataclass(slots=True)
class Way:
    """One direction of a link.  Seconds, probabilities (0 to 1) and bytes per second (0: no limit)."""

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    bytes_per_second: float = 0.0
    cut: bool = False


class Proxy:
    """All fronts.

    ``identify`` gets a stream's first bytes; it returns the sender, or None if it needs more bytes. A sender
    that is not a node (a client, say) has a name too: its links are as any other's.
    """

    def __init__(self, identify: Identify = lambda _received: "", *, seed: int = 0):
        self.counts: Counter[str] = Counter()
        self._identify = identify
        self._rng = random.Random(seed)
        self._fronts: dict[str, _Front] = {}
        self._by_target: dict[Address, str] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._silent: set[str] = set()
        self._streams: dict[_Stream, None] = {}
        self._changed = asyncio.Event()

    # --- fronts ----------------------------------------------------------------------------------

    async def open(self, name: str, target: Address, *, front: Address = ("127.0.0.1", 0)) -> Address:
        """Put a front before the node that listens at ``target``, now or later; return the front's address."""
        stream, datagram = bind_pair(*front)
        made = _Front(self, name, target)
        self._fronts[name] = made
        self._by_target[target] = name
        await made.start(stream, datagram)
        address: Address = stream.getsockname()[:2]
        return address

    async def close(self) -> None:
        """Close all fronts and break all streams."""
        for front in self._fronts.values():
            front.close()
        for stream in list(self._streams):
            stream.abort()
        while self._streams:
            await asyncio.sleep(0)

    # --- faults ----------------------------------------------------------------------------------

    def way(self, sender: str, receiver: str) -> Way:
        """Return the present state of the link from one node to another."""
        return self._ways.get((sender, receiver), _CLEAR)

    def change(self, senders: Iterable[str], receivers: Iterable[str], **settings: float | bool) -> None:
        """Change the links from each of some nodes to each of others: fields of :class:`Way`."""
        receivers = list(receivers)
        for sender in senders:
            for receiver in receivers:
                if sender != receiver:
                    self._ways[sender, receiver] = replace(self.way(sender, receiver), **settings)  # type: ignore[arg-type]
        self._tell()

    def part(self, left: Iterable[str], right: Iterable[str]) -> None:
        """Cut every link between two groups, both ways."""
        left, right = list(left), list(right)
        self.change(left, right, cut=True)
        self.change(right, left, cut=True)

    def heal(self) -> None:
        """End all faults of links; silent nodes stay silent."""
        self._ways.clear()
        self._tell()

    def reset(self, nodes: Iterable[str]) -> int:
        """Break the streams that begin or end at some nodes; return their number."""
        chosen = set(nodes)
        found = [stream for stream in self._streams if chosen & stream.ends]
        for stream in found:
            stream.abort()
        return len(found)

    def silence(self, name: str) -> None:
        """Let a node's connections hang from now on, even if its process ends."""
        self._silent.add(name)
        for stream in self._streams:
            if name in stream.ends:
                stream.hole = True
        self._tell()

    def revive(self, name: str) -> None:
        """Let a node be heard again; streams that hung are reset."""
        self._silent.discard(name)
        for stream in list(self._streams):
            if stream.hole and name in stream.ends:
                stream.abort()
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def silent(self, *names: str) -> bool:
        """Tell whether one of these nodes is silent."""
        return not self._silent.isdisjoint(names)

    def held(self, one: str, other: str) -> bool:
        """Tell whether a stream between two nodes stands still."""
        return self.way(one, other).cut or self.way(other, one).cut

    async def change_of_faults(self) -> None:
        """Wait until a fault begins or ends."""
        await self._changed.wait()

    # --- streams ---------------------------------------------------------------------------------

    async def carry(self, receiver: str, target: Address, near: _End) -> None:
        """Carry one accepted stream until it ends."""
        stream = _Stream(self, receiver, near)
        self._streams[stream] = None
        self.counts["streams"] += 1
        try:
            await stream.run(self._identify, target)
        except OSError:
            pass  # no process listens there, or the first bytes did not come
        finally:
            stream.close()
            del self._streams[stream]

    # --- datagrams -------------------------------------------------------------------------------

    def post(self, receiver: str, datagram: bytes, source: Address) -> None:
        """Pass a datagram on, or not."""
        sender = self._by_target.get(source[:2])
        if sender is None:
            self.counts["datagrams_of_strangers"] += 1
            return
        way, draw = self.way(sender, receiver), self._rng.random
        if way.cut or self.silent(sender, receiver) or draw() < way.loss:
            self.counts["datagrams_lost"] += 1
            return
        if draw() < way.corrupt:
            self.counts["datagrams_corrupted"] += 1
            at = self._rng.randrange(len(datagram)) if datagram else 0
            datagram = datagram[:at] + bytes([datagram[at] ^ 1 << self._rng.randrange(8)]) + datagram[at + 1 :]
        copies = 2 if draw() < way.duplicate else 1
        for _ in range(copies):
            self.counts["datagrams"] += 1
            wait = way.delay + way.jitter * draw()
            if wait > 0:
                asyncio.get_running_loop().call_later(wait, self._deliver, sender, receiver, datagram)
            else:
                self._deliver(sender, receiver, datagram)

    def _deliver(self, sender: str, receiver: str, datagram: bytes) -> None:
        self._fronts[sender].send(datagram, self._fronts[receiver].target)

    def lag(self, way: Way) -> float:
        """Draw the delay of a chunk or datagram on a link."""
        return way.delay + (way.jitter * self._rng.random() if way.jitter else 0.0)


_CLEAR: Final = Way()


class _Front(asyncio.DatagramProtocol):
    """One node's front."""

    def __init__(self, proxy: Proxy, name: str, target: Address):
        self.target = target
        self._proxy = proxy
        self._name = name
        self._server: asyncio.Server | None = None
        self._transport: asyncio.DatagramTransport | None = None

    async def start(self, stream: socket.socket, datagram: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._accept, sock=stream)
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=datagram)

    def close(self) -> None:
        assert self._server is not None
        assert self._transport is not None
        self._server.close()
        self._transport.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._proxy.carry(self._name, self.target, _End(reader, writer))

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._proxy.post(self._name, data, addr)

    def error_received(self, exc: Exception) -> None:
        """No process listens there: a lost datagram like any other."""

    def send(self, datagram: bytes, to: Address) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.sendto(datagram, to)


@dataclass(slots=True)
class _End:
    """One end of a stream: a socket of the proxy."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self) -> bytes:
        return await self.reader.read(CHUNK_BYTES)

    def reset(self) -> None:
        """Close so that the other side sees a reset, not an end."""
        taken: socket.socket | None = self.writer.get_extra_info("socket")
        if taken is not None and taken.fileno() >= 0:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


_Waiting = asyncio.Queue[tuple[float, bytes | None]]
"""Chunks and their times of arrival."""


class _Stream:
    """A stream between two nodes.  ``hole``: it swallows all bytes and never ends by itself."""

    def __init__(self, proxy: Proxy, receiver: str, near: _End):
        self.sender = ""
        self.receiver = receiver
        self.hole = False
        self._proxy = proxy
        self._near = near
        self._far: _End | None = None
        self._aborted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ends(self) -> set[str]:
        """Names of both ends."""
        return {self.sender, self.receiver}

    def close(self) -> None:
        """Close both ends once all bytes have been written."""
        for end in (self._near, self._far):
            if end is not None:
                end.writer.close()

    def abort(self) -> None:
        """Reset both ends."""
        self._aborted.set()
        for end in (self._near, self._far):
            if end is not None:
                end.reset()
        for task in self._tasks:
            task.cancel()

    async def run(self, identify: Identify, target: Address) -> None:
        """Identify the sender, and carry bytes both ways until both ends have ended."""
        received = b""
        while (sender := identify(received)) is None:
            chunk = await self._near.read()
            if not chunk or len(received) > HELLO_BYTES_MAX:
                return
            received += chunk
        self.sender = sender
        if self._proxy.silent(self.sender, self.receiver):
            self.hole = True
            await self._aborted.wait()
            return
        self._far = _End(*await asyncio.open_connection(*target))
        if self._aborted.is_set():
            return
        there = self._pump(self._near, self._far, self.sender, self.receiver, received)
        back = self._pump(self._far, self._near, self.receiver, self.sender, b"")
        self._tasks = [asyncio.create_task(there), asyncio.create_task(back)]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in self._tasks:
                task.cancel()
            outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        if any(isinstance(outcome, OSError) for outcome in outcomes):
            self.abort()  # broken at one end: reset the other

    async def _pump(self, source: _End, sink: _End, sender: str, receiver: str, first: bytes) -> None:
        """Carry one direction: a reader that stamps chunks with their time, a writer that keeps it."""
        waiting: _Waiting = asyncio.Queue(CHUNKS_MAX)
        reading = asyncio.create_task(self._take_in(source, waiting, sender, receiver, first))
        try:
            while True:
                due, chunk = await waiting.get()
                await self._until(due, sender, receiver)
                if self.hole:
                    if not chunk:
                        await self._aborted.wait()  # a silent death sends no goodbye either
                        return
                    self._proxy.counts["bytes_swallowed"] += len(chunk)
                elif chunk is None:
                    self.abort()  # a reset here is a reset there
                    return
                elif chunk:
                    sink.writer.write(chunk)
                    self._proxy.counts["bytes"] += len(chunk)
                    await sink.writer.drain()
                else:
                    if sink.writer.can_write_eof() and not sink.writer.transport.is_closing():
                        sink.writer.write_eof()
                    return
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def _take_in(self, source: _End, waiting: _Waiting, sender: str, receiver: str, first: bytes) -> None:
        """Read one direction to its end, which is an empty chunk, or None if it was reset."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        if first:
            await waiting.put((last + self._proxy.lag(self._proxy.way(sender, receiver)), first))
        while True:
            chunk: bytes | None = None
            with contextlib.suppress(OSError):
                chunk = await source.read()
            way = self._proxy.way(sender, receiver)
            last = max(last, loop.time() + self._proxy.lag(way))  # in order, however the lags were drawn
            if way.bytes_per_second and chunk:
                last += len(chunk) / way.bytes_per_second
            await waiting.put((last, chunk))
            if not chunk:
                return

    async def _until(self, due: float, sender: str, receiver: str) -> None:
        """Wait until a chunk's time has come and its way is open."""
        wait = due - asyncio.get_running_loop().time()
        if wait > 0:
            await asyncio.sleep(wait)
        while self._proxy.held(sender, receiver) and not self.hole:
            await self._proxy.change_of_faults()
