"""Links between peers: one outgoing TCP connection per destination, with batched frames.

Envelopes of one turn are collected per destination and leave as one frame (more, if they are large) at
:meth:`Links.flush`.  A link connects when it is first needed, sends PeerHello, and is closed after a time without
use.  Answers come over the other side's own link: a connection between peers carries envelopes in one direction only.

Links are unreliable on purpose: an envelope that finds its link full or cannot be delivered is dropped and counted.
The peer's outbox repeats reliable messages.  So the memory of a link is bounded (``ENVELOPES_MAX`` and ``ROWS_MAX``
waiting, plus one socket buffer), and a slow destination costs the others nothing.  As a repetition takes a second, a
link tries to connect ``ATTEMPTS`` times before it drops its envelopes.

The receiving side (:class:`PeerInlet`) accepts envelopes only from a peer that the membership knows, or that answers
a sealed ping at its claimed address.  This keeps two clusters with mixed-up addresses apart, and a peer that
inherited the address of another one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf.errors import LocalProtocolError, P2PRDFError, RemoteProtocolError, TlsRefused
from p2prdf.wire.messages import ClientError, Contact, Envelope, PeerHello
from p2prdf_node.addresses import format_address
from p2prdf_node.connection import Connection, Connections, Handler

if TYPE_CHECKING:
    from p2prdf.wire.codec import FrameCodec
    from p2prdf_node.tls import NodeTls

__all__ = ["Links", "PeerInlet", "bind_pair", "rows_of"]

VERSION: Final = 8
ENVELOPES_MAX: Final = 4096
"""Envelopes waiting for one destination."""
ROWS_MAX: Final = 500_000
"""Rows waiting for one destination (a single larger envelope is still taken)."""
FRAME_ROWS: Final = 20_000
"""Rows after which a frame is cut: some 2 MB, a moderate unit of work for the receiver."""
FRAME_PARCELS: Final = 512
ATTEMPTS: Final = 3
"""Failed connections in a row after which the waiting envelopes are dropped."""
RETRY_SECONDS: Final = 0.2
"""Pause between these attempts."""
PORT_ATTEMPTS: Final = 64

Spawn = Callable[[Coroutine[Any, Any, None], str], object]

log = structlog.get_logger("transport")


def bind_pair(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Bind a TCP and a UDP socket to one port number; port 0 takes one that is free for both.

    Raises LocalProtocolError naming the address and the reason.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        reason = error.strerror
        raise LocalProtocolError(f"cannot listen on {format_address(host, port)}: {reason}") from error
    family, *_, address = found[0]
    reason = ""
    for _attempt in range(1 if port else PORT_ATTEMPTS):
        stream = socket.socket(family, socket.SOCK_STREAM)
        datagram = socket.socket(family, socket.SOCK_DGRAM)
        try:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stream.bind(address)
            datagram.bind(stream.getsockname())
        except OSError as error:
            stream.close()
            datagram.close()
            reason = error.strerror or str(error)
            continue
        stream.setblocking(False)
        datagram.setblocking(False)
        return stream, datagram
    raise LocalProtocolError(f"cannot listen on {format_address(host, port)}: {reason}")


# --- outgoing ------------------------------------------------------------------------------------


class Links:
    """The outgoing links of a node, by destination.

    ``broken`` is called with a destination if its connection broke or was refused.  ``tls``: TLS of the links, or None.
    """

    def __init__(
        self,
        own: Contact,
        codec: FrameCodec,
        connections: Connections,
        *,
        connect_seconds: float,
        idle_seconds: float,
        spawn: Spawn,
        broken: Callable[[int], None],
        tls: NodeTls | None = None,
    ):
        self.tls = tls
        self.own = own
        self.codec = codec
        self.connections = connections
        self.connect_seconds = connect_seconds
        self.idle_seconds = idle_seconds
        self.spawn = spawn
        self.broken = broken
        self.counts: Counter[str] = Counter(frames=0, bytes=0)
        self._links: dict[int, _Link] = {}
        self._dirty: dict[int, _Link] = {}
        self._closed = False

    def post(self, to: Contact, envelope: Envelope) -> None:
        """Queue an envelope for the next :meth:`flush`; does nothing after :meth:`close`."""
        if self._closed:
            return
        link = self._links.get(to.key)
        if link is None or link.contact != to:
            if link is not None:
                link.close("moved")
            link = self._links[to.key] = _Link(self, to)
        link.post(envelope)
        self._dirty[to.key] = link

    def flush(self) -> None:
        """Send the queued envelopes."""
        dirty, self._dirty = self._dirty, {}
        for link in dirty.values():
            link.flush()

    def established(self, key: int) -> bool:
        """Tell whether a connection to a peer is open."""
        link = self._links.get(key)
        return link is not None and link.connection is not None and link.connection.live

    def forget(self, contact: Contact) -> None:
        """Close the link to a peer that has left or failed."""
        link = self._links.get(contact.key)
        if link is not None and link.contact == contact:
            del self._links[contact.key]
            link.close("peer gone")

    def sweep(self, now: float) -> None:
        """Close the links that have been idle for too long at monotonic time ``now``."""
        for key, link in list(self._links.items()):
            if link.idle_since(now) > self.idle_seconds:
                del self._links[key]
                link.close("idle")

    @property
    def waiting(self) -> int:
        """Envelopes not yet written to a socket."""
        return sum(link.waiting for link in self._links.values())

    def close(self) -> None:
        """Close all links, once their buffered output is sent."""
        self._closed = True
        for link in self._links.values():
            link.close("stopping")
        self._links.clear()

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {"links": len(self._links), "waiting": self.waiting, **self.counts}


class _Link(Handler):
    """Link to one destination; the handler of its connection."""

    def __init__(self, links: Links, contact: Contact):
        self.contact = contact
        self.connection: Connection | None = None
        self._links = links
        self._envelopes: deque[tuple[Envelope, int]] = deque()
        """Envelopes to send, each with its rows."""
        self._rows = 0
        self._room = True
        self._connecting = False
        self._closed = False
        self._failures = 0
        self._retry: asyncio.TimerHandle | None = None
        self._used_at = time.monotonic()

    @property
    def waiting(self) -> int:
        """Envelopes not yet written to the socket."""
        return len(self._envelopes)

    def post(self, envelope: Envelope) -> None:
        """Queue an envelope, or drop it if too many wait."""
        rows = rows_of(envelope)
        if len(self._envelopes) >= ENVELOPES_MAX or (self._envelopes and self._rows + rows > ROWS_MAX):
            self._links.counts["dropped_full"] += 1
            return
        self._envelopes.append((envelope, rows))
        self._rows += rows

    def flush(self) -> None:
        """Send waiting envelopes while the socket has room."""
        self._used_at = time.monotonic()
        if self.connection is None:
            self._open()
            return
        while self._envelopes and self._room and self.connection is not None and self.connection.live:
            self._send(self._next_envelopes())

    def _next_envelopes(self) -> list[Envelope]:
        envelopes: list[Envelope] = []
        rows = 0
        while self._envelopes and len(envelopes) < FRAME_PARCELS and rows < FRAME_ROWS:
            envelope, some = self._envelopes.popleft()
            rows += some
            envelopes.append(envelope)
        self._rows -= rows
        return envelopes

    def _send(self, envelopes: list[Envelope]) -> None:
        try:
            frame = self._links.codec.encode(envelopes)
        except P2PRDFError as error:  # the envelopes exceed one frame
            if len(envelopes) > 1:
                half = len(envelopes) // 2
                self._send(envelopes[:half])
                self._send(envelopes[half:])
                return
            self._links.counts["dropped_long"] += 1
            log.warning("parcel_unsendable", message=type(envelopes[0].message).__name__, reason=str(error))
            return
        assert self.connection is not None
        self._links.counts["frames"] += 1
        self._links.counts["bytes"] += len(frame)
        self.connection.write(frame)

    def _open(self) -> None:
        if not self._connecting and self._retry is None and not self._closed:
            self._connecting = True
            self._links.spawn(self._connect(), "connect")

    async def _connect(self) -> None:
        links = self._links
        loop = asyncio.get_running_loop()
        connection = Connection(links.connections, links.codec, self, secure=links.tls is not None)
        connection.identified = connection.in_use = True  # this side sends the hello
        where = self.contact.host, self.contact.port
        try:
            # Peers are identified by IP address.  A name would be looked up on behalf of any sender, so it is refused.
            ipaddress.ip_address(self.contact.host)
            async with asyncio.timeout(links.connect_seconds):
                if links.tls is None:
                    await loop.create_connection(lambda: connection, *where)
                else:
                    stream = links.tls.made(connection, self.contact.key)
                    await loop.create_connection(lambda: stream, *where)
                    await asyncio.shield(stream.done)
        except TimeoutError:
            connection.leave()
            connection.abort()
            self._failed("no connection in time")  # one of the two nodes may be busy
            return
        except (OSError, ValueError, TlsRefused) as error:
            connection.leave()
            self._failed(str(error))
            links.broken(self.contact.key)
            return
        finally:
            self._connecting = False
        if self._closed:
            connection.close()
            return
        if not connection.live:
            self._failed("closed at once")
            links.broken(self.contact.key)
            return
        self.connection = connection
        self._failures = 0
        connection.send([PeerHello(links.own, self.contact.key, VERSION)])
        self.flush()

    def _failed(self, reason: str) -> None:
        log.info("link_failed", peer=str(self.contact), reason=reason)
        self._links.counts["failed"] += 1
        self._failures += 1
        if self._failures >= ATTEMPTS:
            self._failures = 0
            self._drop("dropped_unreachable")
        if not self._closed:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._envelopes:
            self._open()

    def _drop(self, why: str) -> None:
        self._links.counts[why] += len(self._envelopes)
        self._envelopes.clear()
        self._rows = 0

    def idle_since(self, now: float) -> float:
        """Return the seconds since the last envelope; 0 while envelopes wait."""
        return 0.0 if self._envelopes or self._connecting else now - self._used_at

    def close(self, why: str) -> None:
        """Drop waiting envelopes and close."""
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._drop(f"dropped_{why.replace(' ', '_')}")
        if self.connection is not None:
            self.connection.close()

    # --- Handler ---------------------------------------------------------------------------------

    def take(self, connection: Connection, message: Any) -> None:  # noqa: ARG002
        """Log a refusal; the other side of a link sends nothing else."""
        if not isinstance(message, ClientError):
            raise RemoteProtocolError(f"a peer sent {type(message).__name__} against its link's direction")
        log.warning("link_refused", peer=str(self.contact), code=message.code, reason=message.text)

    def writable(self, *, room: bool) -> None:
        """Go on sending when the socket has room again."""
        self._room = room
        if room:
            self.flush()

    def closed(self, reason: str) -> None:
        """Report a broken connection."""
        if self._connecting:
            return  # _connect reports it
        self.connection = None
        self._room = True
        if not self._closed:
            self._failed(reason)
            self._links.broken(self.contact.key)


def rows_of(envelope: Envelope) -> int:
    """Return the number of rows that an envelope carries, at least one."""
    message = envelope.message
    parts: tuple[Any, ...] = getattr(message, "rows", None), message, getattr(message, "groups", None)
    for part in parts:
        if hasattr(part, "__len__"):  # isinstance(part, Sized) takes a call of Python
            return max(1, len(part))
    return 1


# --- incoming ------------------------------------------------------------------------------------


class PeerInlet(Handler):
    """The receiving end of another peer's link; the handler of its connection after PeerHello.

    ``confirm`` asks the membership about a contact, ``receive`` queues an envelope, ``gone`` is called when the
    connection ends.
    """

    def __init__(
        self,
        own_key: int,
        connection: Connection,
        hello: PeerHello,
        *,
        confirm: Callable[[Contact], Coroutine[Any, Any, bool]],
        receive: Callable[[Envelope, Contact, Connection], None],
        gone: Callable[[PeerInlet], None],
        spawn: Spawn,
    ):
        if hello.version != VERSION:
            raise RemoteProtocolError(
                f"version {hello.version} of the peer protocol is unknown; this node has {VERSION}"
            )
        if hello.receiver_key != own_key:
            raise RemoteProtocolError(f"this is peer {own_key:016x}, not {hello.receiver_key:016x}")
        self.sender, self.connection = hello.sender, connection
        self._confirm, self._receive, self._gone = confirm, receive, gone
        connection.handler = self
        connection.hold("confirm")
        spawn(self._admit(connection), "admit")

    async def _admit(self, connection: Connection) -> None:
        if await self._confirm(self.sender):
            connection.peer = f"{self.sender.key:016x}"
            connection.trusted = connection.named = connection.in_use = True
            connection.release("confirm")
        else:
            connection.refuse(RemoteProtocolError(f"no member of this cluster answers as {self.sender}"))

    def take(self, connection: Connection, message: Any) -> None:
        """Pass an envelope to the driver."""
        if not isinstance(message, Envelope):
            raise RemoteProtocolError(f"a peer sent {type(message).__name__} instead of an envelope")
        self._receive(message, self.sender, connection)

    def refused(self, connection: Connection, error: P2PRDFError) -> None:
        """Send the peer the reason, for its log."""
        connection.send([ClientError(0, error.code, str(error))])

    def closed(self, reason: str) -> None:  # noqa: ARG002
        """Report that the connection is gone."""
        self._gone(self)
