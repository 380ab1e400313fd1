"""One TCP connection: frames in, frames out, and every way a stranger can misuse it bounded.

A connection belongs to a :class:`Handler`, which is given decoded messages in order.  What is bounded:

* a frame's length, before anything is allocated for it (:class:`p2prdf.wire.codec.FrameReader`);
* the time until the first frame (TLS's handshake, :mod:`p2prdf_node.tls_stream`, is part of it), the time a begun
  frame takes, the time a closing connection lingers: :meth:`Connection.overdue` is asked once a second by
  :class:`Connections`;
* what has been read and not been dealt with: a handler can :meth:`~Connection.hold` a connection, for
  as many reasons as it likes; nothing more is decoded, and nothing more is read from the socket;
* what has been written and not been taken: the handler is told when the socket is full, and again
  when there is room.  It is the handler who must then stop;
* the number of connections, of all addresses and of each; and for how long one whose other end vanished is taken for
  standing.  When all places are taken, a newcomer takes the place of the oldest connection that has never made a
  request (:attr:`Connection.in_use`): one without a valid hello first, then one whose client has only said hello.

A malformed frame ends the connection: the reason is logged, counted and, if it is a client's, told.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import structlog

from p2prdf.errors import Busy, FalseDigest, P2PRDFError, RemoteProtocolError, TlsRefused
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf_node.config import format_address
from p2prdf_node.logs import LineLimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from p2prdf.tls import Identity

__all__ = ["Connection", "Connections", "Handler"]

WRITE_BYTES_HIGH: Final = 2 << 20
LINGER_SECONDS: Final = 2.0
LOG_LINES_PER_SECOND: Final = 5
FALSE_PEERS_MAX: Final = 1024
"""Peers whose false digests are counted; those of further peers are logged and refused."""
KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A client may be silent for hours; a machine that vanished is noticed after a minute."""

log = structlog.get_logger("connection")


class Handler(Protocol):
    """Who deals with a connection's messages."""

    def take(self, connection: Connection, message: Any) -> None:
        """Deal with a message.  An error raised ends the connection."""
        ...

    def writable(self, *, room: bool) -> None:
        """Stop writing (no room), or go on."""
        ...

    def refused(self, connection: Connection, error: P2PRDFError) -> None:
        """Tell the other side, if that is possible, why the connection is about to be closed."""
        ...

    def closed(self, reason: str) -> None:
        """Take note that the connection is gone."""
        ...


class _Nobody:
    """Handler of a connection that is gone."""

    def take(self, connection: Connection, message: Any) -> None:
        """Nobody hears it."""

    def writable(self, *, room: bool) -> None:
        """Nobody writes."""

    def refused(self, connection: Connection, error: P2PRDFError) -> None:
        """Nobody is there to be told."""

    def closed(self, reason: str) -> None:
        """It is known."""


_NOBODY: Final = _Nobody()


class Connections:
    """All connections of a node: their number, their deadlines and why they ended."""

    def __init__(
        self, *, connections_max: int, hello_seconds: float, frame_seconds: float,
        connections_per_address_max: int | None = None,
    ):  # fmt: skip
        self.connections_max = connections_max
        self.connections_per_address_max = connections_per_address_max or connections_max
        self.hello_seconds = hello_seconds
        self.frame_seconds = frame_seconds
        self.open: set[Connection] = set()
        self.refused: Counter[str] = Counter()
        self.tls_refused: Counter[str] = Counter()
        """By reason, what is counted above as refused for want of a certificate that is accepted, or of TLS."""
        self.false_digests: Counter[str] = Counter()
        """Frames with a term under the digest of another term, by the key of the peer that sent them."""
        self.evicted: Counter[str] = Counter()
        """Connections that made room for others: ``silent`` had sent no hello, ``idle`` nothing but a hello."""
        self._by_host: Counter[str] = Counter()
        self._lines = LineLimit(LOG_LINES_PER_SECOND)

    def place(self, connection: Connection) -> Busy | None:
        """Give a new connection a place, if need be that of an unused one; else return the reason to refuse it."""
        host = connection.host
        if self._by_host[host] >= self.connections_per_address_max:
            held = [each for each in self.open if each.host == host and not each.trusted]
            if len(held) >= self.connections_per_address_max and not self._evict(held):
                return Busy(
                    f"this node has {len(held)} connections from {host} (setting connections_per_address_max):"
                    " close some, or connect to other nodes"
                )
        elif len(self.open) >= self.connections_max and not self._evict(self.open):
            return Busy(f"this node has {len(self.open)} connections (setting connections_max)")
        self.open.add(connection)
        self._by_host[host] += 1
        return None

    def vacate(self, connection: Connection) -> bool:
        """Free the place of a connection that is gone; tell whether it had one."""
        if connection not in self.open:
            return False
        self.open.discard(connection)
        self._by_host[connection.host] -= 1
        if not self._by_host[connection.host]:
            del self._by_host[connection.host]
        return True

    def _evict(self, among: Iterable[Connection]) -> bool:
        """Close the oldest connection that has made no request, those without a hello first."""
        unused = [each for each in among if not each.in_use and each.live]
        if not unused:
            return False
        oldest = min(unused, key=lambda each: (each.identified, each.opened_at))
        self.evicted["idle" if oldest.identified else "silent"] += 1
        oldest.evict(len(self.open))
        return True

    def sweep(self, now: float) -> None:
        """Close what is overdue at monotonic time ``now``; called once a second or so."""
        for connection in list(self.open):
            connection.overdue(now)

    def refuse(self, connection: Connection, error: P2PRDFError) -> None:
        """Count and log why a connection is closed."""
        self.refused[error.code] += 1
        if isinstance(error, TlsRefused):
            self.tls_refused[error.reason] += 1
        if isinstance(error, FalseDigest) and (connection.peer in self.false_digests or self._has_place()):
            self.false_digests[connection.peer] += 1
        if self._lines.allow(time.monotonic()):
            who = {} if connection.identity is None else {"certificate": str(connection.identity)}
            if connection.peer:
                who["peer"] = connection.peer
            tell = log.error if isinstance(error, FalseDigest) else log.warning
            tell("connection_refused", address=connection.address, code=error.code, reason=str(error), **who)

    def _has_place(self) -> bool:
        return len(self.false_digests) < FALSE_PEERS_MAX


class Connection(asyncio.Protocol):
    """Frames on one TCP connection.

    ``secure``: TLS comes between it and the socket, and calls :meth:`secured` when it is known who is there.
    """

    def __init__(self, connections: Connections, codec: FrameCodec, handler: Handler, *, secure: bool = False):
        self.handler = handler
        self.address = self.host = ""
        self.identity: Identity | None = None
        """Whose certificate the other side has; None without TLS, and until its handshake is done."""
        self._shaking = secure
        self.identified = False
        self.peer = ""
        """The key of the peer that speaks, once it is confirmed; empty for clients."""
        self.trusted = False
        """Whether a confirmed peer speaks: then frames come with digests of terms, by which known terms are found."""
        self.in_use = False
        """Whether it keeps its place: a request was made, a confirmed peer speaks, or this node opened it."""
        self.named = False
        """Whether it is known who speaks: before that frames name no terms, which a node keeps for good."""
        self.moved_at = 0.0
        self.received = 0
        """Bytes that have come in."""
        self.frame_bytes = 0
        """Length of the frame that is being dealt with."""
        self._connections = connections
        self._codec = codec
        self._reader = FrameReader()
        self._bodies: deque[bytes | memoryview] = deque()
        self._holds: set[str] = set()
        self._transport: asyncio.Transport | None = None
        self.opened_at = self._frame_began_at = self._closing_at = 0.0
        self._draining = False

    # --- the handler's side ----------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether messages can be sent."""
        return self._transport is not None and not self._closing_at and not self._transport.is_closing()

    def send(self, messages: Sequence[Any]) -> None:
        """Write messages in one frame; nothing happens on a connection that is closing."""
        if self.live:
            self.write(self._codec.encode(messages))

    def write(self, frame: bytes) -> None:
        """Write an encoded frame."""
        if self.live:
            assert self._transport is not None
            self.moved_at = time.monotonic()
            self._transport.write(frame)

    def hold(self, reason: str) -> None:
        """Stop reading until :meth:`release` has been called for every reason."""
        if not self._holds and self.live:
            assert self._transport is not None
            self._transport.pause_reading()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Take back one reason not to read."""
        if reason not in self._holds:
            return
        self._holds.discard(reason)
        if self._holds:
            return
        self._drain()
        if not self._holds and self.live:
            assert self._transport is not None
            self._frame_began_at = time.monotonic()
            self._transport.resume_reading()

    def close(self) -> None:
        """Close once all that is written has been taken, or soon anyway."""
        if self._transport is not None and not self._closing_at:
            self._closing_at = time.monotonic()
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._closing_at = self._closing_at or time.monotonic()
            self._transport.abort()

    def refuse(self, error: P2PRDFError) -> None:
        """Close because the other side did what it must not."""
        if self.live:
            self._connections.refuse(self, error)
            self.handler.refused(self, error)
            self.close()

    def evict(self, connections: int) -> None:
        """Close, in favour of a newcomer, a connection without any request."""
        if self._shaking:
            self.abort()
            return
        self.refuse(
            Busy(
                f"this node has {connections} connections (setting connections_max), and this one has made no request:"
                " connect again when there is one"
            )
        )

    def leave(self) -> None:
        """Tell the handler nothing any more."""
        self.handler = _NOBODY

    def overdue(self, now: float) -> None:
        """Close if a deadline has passed."""
        limits = self._connections
        if self._closing_at:
            if now > self._closing_at + LINGER_SECONDS:
                self.abort()
        elif not self.identified:
            if now > self.opened_at + limits.hello_seconds:
                self.refuse(self._silent())
        elif self._frame_began_at and not self._holds and now > self._frame_began_at + limits.frame_seconds:
            self.refuse(RemoteProtocolError(f"a frame was not complete after {limits.frame_seconds:g} s"))

    def _silent(self) -> P2PRDFError:
        seconds = self._connections.hello_seconds
        if self._shaking:
            return TlsRefused(f"no handshake of TLS was made in {seconds:g} s", reason="timeout")
        return RemoteProtocolError(f"said nothing valid in {seconds:g} s")

    # --- the side of TLS -------------------------------------------------------------------------

    def secured(self, identity: Identity) -> None:
        """Take note of who is there."""
        self.identity, self._shaking = identity, False

    def unsecured(self, error: TlsRefused) -> None:
        """Count a connection whose other side has gone before the handshake was done, as those do who only knock."""
        if not self._closing_at:
            self._connections.tls_refused[error.reason] += 1

    # --- the event loop's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername") or ("?", 0)
        self.address = format_address(str(address[0]), int(address[1]))
        self.host = str(address[0])
        self.opened_at = self.moved_at = time.monotonic()
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        _keep_alive(transport.get_extra_info("socket"))
        if (refusal := self._connections.place(self)) is not None:
            self.refuse(refusal)

    def data_received(self, data: bytes) -> None:
        """Take in bytes."""
        self.moved_at = time.monotonic()
        self.received += len(data)
        try:
            bodies = self._reader.feed(data)
        except P2PRDFError as error:
            self.refuse(error)
            return
        self._bodies.extend(bodies)
        if not self._reader.pending:
            self._frame_began_at = 0.0
        elif bodies or not self._frame_began_at:
            self._frame_began_at = self.moved_at
        self._drain()

    def pause_writing(self) -> None:
        """The socket is full."""
        self.handler.writable(room=False)

    def resume_writing(self) -> None:
        """The socket has room again."""
        self.handler.writable(room=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._closing_at = self._closing_at or time.monotonic()
        self._transport = None
        self._bodies.clear()
        # The handler knows its connection.  Were that mutual, both would stay until a full garbage collection, which a
        # node does after some hundred million objects (tame_garbage_collector).
        handler, self.handler = self.handler, _NOBODY
        if self._connections.vacate(self):
            handler.closed(str(exc) if exc else "closed")

    def _drain(self) -> None:
        """Deal with the frames read so far, until there are none or the handler holds on."""
        if self._draining:
            return  # the handler released its hold from within take()
        self._draining = True
        try:
            while self._bodies and not self._holds and self.live:
                body = self._bodies.popleft()
                self.frame_bytes = len(body)
                trusted, named = self.trusted, self.named
                self._deal(self._codec.decode(body, trusted=trusted, named=named, unchecked=not trusted))
        except P2PRDFError as error:
            self.refuse(error)
        finally:
            self._draining = False

    def _deal(self, messages: Iterable[Any]) -> None:
        # A hold taken within a frame ends after the frame: frames are bounded, half-dealt ones a nuisance.
        for message in messages:
            if not self.live:
                return
            self.handler.take(self, message)


def _keep_alive(raw: Any) -> None:
    """Have the system ask now and then whether the other end is still there."""
    with contextlib.suppress(OSError, AttributeError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE:
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
