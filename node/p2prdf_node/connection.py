"""One TCP connection: frames in, frames out, with a bound for every way to misuse it.

A connection belongs to a :class:`Handler`, which receives decoded messages in order.  The bounds:

* the length of a frame, checked before anything is allocated (:class:`p2prdf.wire.codec.FrameReader`);
* the time to the first frame, including TLS's handshake (:mod:`p2prdf_node.tls_stream`), the time for the rest of a
  frame, and the linger time of a closing connection; :class:`Connections` checks :meth:`Connection.overdue` once a
  second or so;
* unprocessed input: a handler can :meth:`~Connection.hold` a connection for any number of reasons; then nothing more
  is decoded or read from the socket;
* unsent output: the handler learns when the socket is full and when it has room again; it must stop writing in between;
* the number of connections, in total and per address, and how long a vanished machine's connection stays (TCP
  keep-alive).  When all places are taken, a newcomer replaces the oldest connection without any request
  (:attr:`Connection.in_use`): first those without a valid hello, then those with only a hello.

A malformed frame ends the connection: the reason is logged, counted and, for a client, sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from p2prdf.errors import Busy, FalseDigest, P2PRDFError, RemoteProtocolError, TlsRefused
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf_node.addresses import format_address
from p2prdf_node.logs import LineLimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from p2prdf.tls import Identity

__all__ = ["Connection", "Connections", "Handler"]

WRITE_BYTES_HIGH: Final = 2 << 20
LINGER_SECONDS: Final = 2.0
LOG_LINES_PER_SECOND: Final = 5
FALSE_PEERS_MAX: Final = 1024
"""Peers with counters of false digests; frames of further peers are only logged and refused."""
KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""TCP keep-alive: a client may be silent for hours; a vanished machine is detected after a minute."""

log = structlog.get_logger("connection")


class Handler:
    """Receiver of a connection's messages; this one, of a connection that is gone, ignores everything."""

    def take(self, connection: Connection, message: Any) -> None:
        """Process a message.  An exception ends the connection."""

    def writable(self, *, room: bool) -> None:
        """Stop writing (``room`` is False), or continue."""

    def refused(self, connection: Connection, error: P2PRDFError) -> None:
        """Tell the other side, if possible, why the connection is about to be closed."""

    def closed(self, reason: str) -> None:
        """Note that the connection is gone."""


_NOBODY: Final = Handler()


class Connections:
    """All connections of a node: number, deadlines, and reasons of their ends."""

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
        """The refused connections without TLS or an accepted certificate, by reason; ``refused`` counts them too."""
        self.false_digests: Counter[str] = Counter()
        """Frames with a term under the digest of another term, by the key of the peer that sent them."""
        self.evicted: Counter[str] = Counter()
        """Connections that made room for others: ``silent`` had sent no hello, ``idle`` only a hello."""
        self._by_host: Counter[str] = Counter()
        self._lines = LineLimit(LOG_LINES_PER_SECOND)

    def place(self, connection: Connection) -> Busy | None:
        """Admit a connection, evicting an unused one if necessary; else return the reason to refuse it."""
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
        """Free the place of a closed connection; return whether it had one."""
        if connection not in self.open:
            return False
        self.open.discard(connection)
        self._by_host[connection.host] -= 1
        if not self._by_host[connection.host]:
            del self._by_host[connection.host]
        return True

    def _evict(self, among: Iterable[Connection]) -> bool:
        """Close the oldest connection without a request, preferring one without a hello; return whether there was
        one."""
        unused = [each for each in among if not each.in_use and each.live]
        if not unused:
            return False
        oldest = min(unused, key=lambda each: (each.identified, each.opened_at))
        self.evicted["idle" if oldest.identified else "silent"] += 1
        oldest.evict(len(self.open))
        return True

    def sweep(self, now: float) -> None:
        """Close connections overdue at monotonic time ``now``; called once a second or so."""
        for connection in list(self.open):
            connection.overdue(now)

    def refuse(self, connection: Connection, error: P2PRDFError) -> None:
        """Count and log the reason why a connection is closed."""
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

    ``secure``: a TLS layer lies between connection and socket; it calls :meth:`secured` after the handshake.
    """

    def __init__(self, connections: Connections, codec: FrameCodec, handler: Handler, *, secure: bool = False):
        self.handler = handler
        self.address = self.host = ""
        self.identity: Identity | None = None
        """Identity in the other side's certificate; None without TLS and before the end of the handshake."""
        self._shaking = secure
        self.identified = False
        self.peer = ""
        """Key of the peer at the other end, once confirmed; empty for clients."""
        self.trusted = False
        """Whether the other end is a confirmed peer; its frames carry digests of terms, used to find known terms."""
        self.in_use = False
        """Whether it cannot be evicted: it made a request, is from a confirmed peer, or was opened by this node."""
        self.named = False
        """Whether the sender is identified.  Until then frames add no terms to the dictionary, which never forgets
        any."""
        self.moved_at = 0.0
        self.received = 0
        """Bytes received."""
        self.frame_bytes = 0
        """Length of the frame being processed."""
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
        """Write messages in one frame; does nothing on a closing connection."""
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
        """Remove one reason not to read."""
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
        """Close after the buffered output is sent, or after LINGER_SECONDS."""
        if self._transport is not None and not self._closing_at:
            self._closing_at = time.monotonic()
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._closing_at = self._closing_at or time.monotonic()
            self._transport.abort()

    def refuse(self, error: P2PRDFError) -> None:
        """Close because the other side broke a rule."""
        if self.live:
            self._connections.refuse(self, error)
            self.handler.refused(self, error)
            self.close()

    def evict(self, connections: int) -> None:
        """Close a connection without any request in favour of a newcomer."""
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
        """Report nothing to the handler from now on."""
        self.handler = _NOBODY

    def overdue(self, now: float) -> None:
        """Close the connection if a deadline has passed."""
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
            return TlsRefused(f"no TLS handshake within {seconds:g} s", reason="timeout")
        return RemoteProtocolError(f"no valid hello within {seconds:g} s")

    # --- calls of TLS --------------------------------------------------------------------------------

    def secured(self, identity: Identity) -> None:
        """Note the identity of the other side."""
        self.identity, self._shaking = identity, False

    def unsecured(self, error: TlsRefused) -> None:
        """Count a connection that the other side closed before the end of the handshake, as port scans do."""
        if not self._closing_at:
            self._connections.tls_refused[error.reason] += 1

    # --- calls of the event loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a place among the node's connections."""
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
        """Decode received bytes and process complete frames."""
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
        """Tell the handler that the socket is full."""
        self.handler.writable(room=False)

    def resume_writing(self) -> None:
        """Tell the handler that the socket has room again."""
        self.handler.writable(room=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the handler about the end, and free the place."""
        self._closing_at = self._closing_at or time.monotonic()
        self._transport = None
        self._bodies.clear()
        # The handler refers to its connection.  A reference back would keep both alive until a full garbage
        # collection, which a node runs after some hundred million objects (tame_garbage_collector).
        handler, self.handler = self.handler, _NOBODY
        if self._connections.vacate(self):
            handler.closed(str(exc) if exc else "closed")

    def _drain(self) -> None:
        """Process the buffered frames until there are none or the handler holds the connection."""
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
        # A hold taken within a frame starts after the frame: frames are bounded, and half-processed ones are a
        # nuisance.
        for message in messages:
            if not self.live:
                return
            self.handler.take(self, message)


def _keep_alive(raw: Any) -> None:
    """Enable TCP keep-alive."""
    with contextlib.suppress(OSError, AttributeError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE:
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
