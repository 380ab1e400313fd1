"""Kademlia over sealed datagrams: what is taken from the ``kademlia`` package, and what is not.

The package gives the remote procedure calls and the routing table.  The rest of it is left alone, for
measured reasons: its crawler returns dead peers and never the caller; its storage can be made to answer
50 bytes with 60,000; its table hands out neighbours in bucket order rather than by distance; it evicts a
peer for one lost datagram; it starts a task per datagram, whoever sent it.  So here

* a datagram is opened (:mod:`p2prdf_node.envelopes`) before it is looked at, and carried out at once;
* only three calls exist: ``ping``, ``find_node`` and ``leave``, each telling who calls from where;
* calls under way are bounded, and one that is not answered in time is simply None.

Who is to be in the table, who is gone and who is closest to a key is :mod:`p2prdf_node.membership`'s to
decide.  No other module imports the package.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
import umsgpack
from kademlia.network import Server
from kademlia.node import Node
from kademlia.protocol import KademliaProtocol

from p2prdf import keys
from p2prdf_node.envelopes import Envelopes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from p2prdf_node.seal import Keyring

__all__ = ["BUCKET_PEERS", "ID_BYTES", "Claim", "Datagrams", "Listener", "read_claim"]

ID_BYTES: Final = 20
BUCKET_PEERS: Final = 20
"""Kademlia's k: peers per bucket and per reply.  A reply stays near 1 kB, one datagram."""
CALLS_MAX: Final = 512
"""Calls under way; one more counts as unanswered."""
HELD_UP_SHARE: Final = 0.5
"""A timeout found later than this share of itself shows that this process was held up."""

_CALLS: Final = frozenset({"ping", "find_node", "leave"})

Claim = tuple[bytes, str, int]
"""Identifier, host and port, as somebody says."""

log = structlog.get_logger("discovery")


class Listener(Protocol):
    """Who decides about peers."""

    def heard(self, claim: Claim) -> None:
        """A member of the cluster spoke; it may be new."""
        ...

    def left(self, claim: Claim) -> None:
        """A peer says that it stops."""
        ...

    def neighbours(self, key: bytes, *, without: bytes) -> list[Claim]:
        """Return the peers to be told that are closest to ``key``."""
        ...

    def key_at(self, address: tuple[str, int]) -> int:
        """Return the key of the peer at an address, 0 if it is not known."""
        ...


class Datagrams:
    """This peer's end of the overlay: calls out, calls in, and the routing table."""

    def __init__(self, claim: Claim, listener: Listener, *, keyring: Keyring, timeout_seconds: float):
        self.claim = claim
        self.listener = listener
        self.timeout_seconds = timeout_seconds
        self._envelopes = Envelopes(keyring, keys.node_key(claim[0]), "kademlia")
        self._server = _Server(self)
        self._protocol: Any = None

    async def listen(self, bound: socket.socket) -> None:
        """Begin to answer on a bound datagram socket."""
        await self._server.listen_on(bound)
        self._protocol = self._server.protocol

    def close(self) -> None:
        """Stop answering."""
        if self._protocol is not None:
            self._protocol.forget_calls()
            self._server.stop()

    @property
    def refused(self) -> dict[str, int]:
        """Number of datagrams not opened, by reason."""
        return self._envelopes.refused

    # --- the routing table -----------------------------------------------------------------------

    def add(self, claim: Claim) -> None:
        """Put a peer into the table, perhaps only as a replacement."""
        self._protocol.router.add_contact(Node(*claim))

    def remove(self, claim: Claim) -> None:
        """Take a peer out of the table; a replacement may move up."""
        self._protocol.router.remove_contact(Node(*claim))

    def table(self) -> list[Claim]:
        """Return the peers of the table."""
        return [
            (node.id, node.ip, node.port)
            for bucket in self._protocol.router.buckets
            for node in bucket.get_nodes()
        ]

    # --- calls -----------------------------------------------------------------------------------

    async def ping(self, address: tuple[str, int]) -> Claim | None:
        """Return who answers at an address."""
        answer = await self._protocol.call("ping", address, *self.claim)
        with contextlib.suppress(ValueError, TypeError):
            return read_claim(address, *answer)
        return None

    async def find_node(self, address: tuple[str, int], key: bytes) -> list[Claim] | None:
        """Return the peers that one peer knows closest to ``key``, itself first; None if it is silent."""
        own, host, port = self.claim
        answer = await self._protocol.call("find_node", address, own, key, host, port)
        if not isinstance(answer, list) or not 0 < len(answer) <= BUCKET_PEERS:
            return None
        with contextlib.suppress(ValueError, TypeError):
            return [read_claim(("", 0), *item) for item in answer]
        return None

    def leave(self, address: tuple[str, int]) -> None:
        """Tell a peer that this one stops."""
        with contextlib.suppress(OSError):
            self._protocol.leave(address, *self.claim)

    # --- sealing ---------------------------------------------------------------------------------

    def open(self, datagram: bytes, address: Any, reply: Callable[[bytes], object]) -> bytes | None:
        """Return the payload of a genuine datagram of this overlay; ``reply`` gets a notice for one of the other."""
        return self._envelopes.open(datagram, address, reply)

    def seal(self, payload: bytes, address: Any) -> bytes:
        """Seal a datagram for whoever is known at ``address``."""
        return self._envelopes.seal(payload, self.listener.key_at(address[:2]))


class _SealedTransport:
    """The protocol's transport, sealing what goes out."""

    def __init__(self, inner: asyncio.DatagramTransport, seal: Callable[[bytes, Any], bytes]):
        self._inner = inner
        self._seal = seal

    def sendto(self, data: bytes, address: Any) -> None:
        """Send one datagram, sealed."""
        self.send_sealed(self._seal(data, address), address)

    def send_sealed(self, datagram: bytes, address: Any) -> None:
        """Send one datagram that is sealed already."""
        if not self._inner.is_closing():
            self._inner.sendto(datagram, address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Protocol(KademliaProtocol):  # type: ignore[misc]  # the package has no types
    """Kademlia's calls: carried out at once, whitelisted, sealed."""

    def __init__(self, node: Any, storage: Any, bucket_peers: int, datagrams: Datagrams):
        super().__init__(node, storage, bucket_peers)
        self._datagrams = datagrams
        self._wait_timeout = datagrams.timeout_seconds

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        super().connection_made(_SealedTransport(transport, self._datagrams.seal))

    def error_received(self, exc: Exception) -> None:
        """Ignore an error report: an unreachable peer shows by its silence."""

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Open a datagram and carry out what it asks for, or take it for the answer it is."""
        payload = self._datagrams.open(data, addr, lambda notice: self.transport.send_sealed(notice, addr))
        if payload is None or len(payload) < 1 + ID_BYTES:
            return
        number = payload[1 : 1 + ID_BYTES]
        try:
            body = umsgpack.unpackb(payload[1 + ID_BYTES :])
            if payload[:1] == b"\x00":
                self._answer(number, body, addr)
            elif payload[:1] == b"\x01" and number in self._outstanding:
                self._accept_response(number, body, addr)
        except (umsgpack.UnpackException, ValueError, TypeError, RecursionError) as error:
            log.warning("datagram_malformed", sender=str(addr), reason=repr(error))

    def _answer(self, number: bytes, body: Any, address: Any) -> None:
        if not isinstance(body, list) or len(body) != 2 or not isinstance(body[1], list):
            raise ValueError("a request is a call and its arguments")
        if not isinstance(body[0], str) or body[0] not in _CALLS:
            raise ValueError("there is no such call")
        answer = getattr(self, f"rpc_{body[0]}")(address, *body[1])
        if answer is not None:
            self.transport.sendto(b"\x01" + number + umsgpack.packb(answer), address)

    def rpc_ping(self, sender: Any, nodeid: Any, host: Any = "", port: Any = 0) -> Any:
        """Answer with who is here."""
        self._datagrams.listener.heard(read_claim(sender, nodeid, host, port))
        return self._datagrams.claim

    def rpc_find_node(self, sender: Any, nodeid: Any, key: Any, host: Any = "", port: Any = 0) -> Any:
        """Answer with this peer and those of its table that are closest to ``key``."""
        claim = read_claim(sender, nodeid, host, port)
        if not isinstance(key, bytes) or len(key) != ID_BYTES:
            raise ValueError("the key of a lookup has not 20 bytes")
        listener = self._datagrams.listener
        listener.heard(claim)
        return [self._datagrams.claim, *listener.neighbours(key, without=claim[0])]

    def rpc_leave(self, sender: Any, nodeid: Any, host: Any = "", port: Any = 0) -> Any:
        """Take note that the caller stops."""
        self._datagrams.listener.left(read_claim(sender, nodeid, host, port))

    def _timeout(self, msg_id: bytes, again: bool = False) -> None:
        """Count a call as unanswered; wait once more if this process was held up.

        The answer may lie unread in the socket then, and a lookup must not leave out the live owner of a key.
        """
        loop = asyncio.get_running_loop()
        future, timer = self._outstanding[msg_id]
        if not again and loop.time() - timer.when() > HELD_UP_SHARE * self._wait_timeout:
            later = loop.call_later(self._wait_timeout, self._timeout, msg_id, True)
            self._outstanding[msg_id] = future, later
            return
        del self._outstanding[msg_id]
        future.set_result((False, None))

    async def call_ping(self, node_to_ask: Any) -> Any:
        """Do nothing: the table asks to test its oldest peer, and the monitor tests all of them."""
        return (True, node_to_ask.id)

    async def call(self, name: str, address: tuple[str, int], *arguments: Any) -> Any:
        """Call a peer and return its answer, or None if none came in time."""
        if len(self._outstanding) >= CALLS_MAX or self.transport is None or self.transport.is_closing():
            return None
        # The future must not be cancelled: the package's timer sets it later.
        answered, value = await asyncio.shield(getattr(self, name)(address, *arguments))
        return value if answered else None

    def forget_calls(self) -> None:
        """Let nobody wait any longer."""
        for future, timer in self._outstanding.values():
            timer.cancel()
            future.set_result((False, None))
        self._outstanding.clear()


class _Server(Server):  # type: ignore[misc]  # the package has no types
    """The package's server, listening on a socket made elsewhere; its own refreshing never starts."""

    def __init__(self, datagrams: Datagrams):
        super().__init__(ksize=BUCKET_PEERS, node_id=datagrams.claim[0])
        self._datagrams = datagrams

    def _create_protocol(self) -> Any:
        return _Protocol(self.node, self.storage, self.ksize, self._datagrams)

    async def listen_on(self, bound: socket.socket) -> None:
        """Take over a bound datagram socket."""
        loop = asyncio.get_running_loop()
        self.transport, self.protocol = await loop.create_datagram_endpoint(self._create_protocol, sock=bound)


def read_claim(sender: Any, identifier: Any, host: Any = "", port: Any = 0) -> Claim:
    """Check who somebody says to be; the address is that of the sender if none is told.

    Raises ValueError.
    """
    if not isinstance(identifier, bytes) or len(identifier) != ID_BYTES:
        raise ValueError("an identifier has not 20 bytes")
    host = host or sender[0]
    port = port or sender[1]
    if not isinstance(host, str) or not isinstance(port, int) or not 0 < port < 65_536:
        raise ValueError("an address is not a host and a port")
    return identifier, str(ipaddress.ip_address(host)), port
