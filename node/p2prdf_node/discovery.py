"""Kademlia over sealed datagrams: the parts of the ``kademlia`` package in use, and why only those.

The package provides the remote procedure calls and the routing table.  Its other parts are not used, for measured
reasons: the crawler returns dead peers and never the caller; the storage can be made to answer 50 bytes with 60,000;
the table returns neighbours in bucket order rather than by distance; one lost datagram evicts a peer; every datagram
of any sender starts a task.  Therefore

* a datagram is opened (:mod:`p2prdf_node.envelopes`) before it is parsed, and its call runs at once;
* only three calls exist: ``ping``, ``find_node`` and ``leave``, each with the caller's identifier and address;
* calls in flight are bounded, and a call without a timely answer returns None.

:mod:`p2prdf_node.membership` decides which peers are in the table, which have failed and which are closest to a key.
No other module imports the package.
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
"""Kademlia's k: peers per bucket and per reply.  A reply of some 1 kB fits one datagram."""
CALLS_MAX: Final = 512
"""Calls in flight; one more counts as unanswered."""
HELD_UP_SHARE: Final = 0.5
"""A timeout that fires late by more than this share of its length shows that the process was stalled."""

_CALLS: Final = frozenset({"ping", "find_node", "leave"})

Claim = tuple[bytes, str, int]
"""Identifier, host and port that a peer claims for itself."""

log = structlog.get_logger("discovery")


class Listener(Protocol):
    """Receiver of the messages of peers."""

    def heard(self, claim: Claim) -> None:
        """Note a message of a cluster member, possibly a new one."""
        ...

    def left(self, claim: Claim) -> None:
        """Note that a peer announced its stop."""
        ...

    def neighbours(self, key: bytes, *, without: bytes) -> list[Claim]:
        """Return the peers closest to ``key`` for a reply, without the peer of identifier ``without``."""
        ...

    def key_at(self, address: tuple[str, int]) -> int:
        """Return the key of the peer at an address; 0 if the address is unknown."""
        ...


class Datagrams:
    """This peer's socket of the overlay: outgoing and incoming calls, and the routing table."""

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
        """Number of refused datagrams, by reason."""
        return self._envelopes.refused

    # --- the routing table -----------------------------------------------------------------------

    def add(self, claim: Claim) -> None:
        """Add a peer to the table, possibly as a replacement only."""
        self._protocol.router.add_contact(Node(*claim))

    def remove(self, claim: Claim) -> None:
        """Remove a peer from the table; a replacement may move up."""
        self._protocol.router.remove_contact(Node(*claim))

    def table(self) -> list[Claim]:
        """Return the peers in the table."""
        return [
            (node.id, node.ip, node.port)
            for bucket in self._protocol.router.buckets
            for node in bucket.get_nodes()
        ]

    # --- calls -----------------------------------------------------------------------------------

    async def ping(self, address: tuple[str, int]) -> Claim | None:
        """Return the claim of the peer that answers at an address; None after a timeout."""
        answer = await self._protocol.call("ping", address, *self.claim)
        with contextlib.suppress(ValueError, TypeError):
            return read_claim(address, *answer)
        return None

    async def find_node(self, address: tuple[str, int], key: bytes) -> list[Claim] | None:
        """Return the peers closest to ``key`` that one peer knows, itself first; None if it does not answer."""
        own, host, port = self.claim
        answer = await self._protocol.call("find_node", address, own, key, host, port)
        if not isinstance(answer, list) or not 0 < len(answer) <= BUCKET_PEERS:
            return None
        with contextlib.suppress(ValueError, TypeError):
            return [read_claim(("", 0), *item) for item in answer]
        return None

    def leave(self, address: tuple[str, int]) -> None:
        """Tell a peer that this one leaves."""
        with contextlib.suppress(OSError):
            self._protocol.leave(address, *self.claim)

    # --- sealing ---------------------------------------------------------------------------------

    def open(self, datagram: bytes, address: Any, reply: Callable[[bytes], object]) -> bytes | None:
        """Return the payload of a genuine datagram of this overlay; ``reply`` sends a notice to the other overlay."""
        return self._envelopes.open(datagram, address, reply)

    def seal(self, payload: bytes, address: Any) -> bytes:
        """Seal a datagram for the known peer at ``address``."""
        return self._envelopes.seal(payload, self.listener.key_at(address[:2]))


class _SealedTransport:
    """Transport of the protocol that seals outgoing datagrams."""

    def __init__(self, inner: asyncio.DatagramTransport, seal: Callable[[bytes, Any], bytes]):
        self._inner = inner
        self._seal = seal

    def sendto(self, data: bytes, address: Any) -> None:
        """Send one datagram, sealed."""
        self.send_sealed(self._seal(data, address), address)

    def send_sealed(self, datagram: bytes, address: Any) -> None:
        """Send one datagram that is already sealed."""
        if not self._inner.is_closing():
            self._inner.sendto(datagram, address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Protocol(KademliaProtocol):  # type: ignore[misc]  # the package has no types
    """Kademlia's calls: run at once, sealed, from a fixed list."""

    def __init__(self, node: Any, storage: Any, bucket_peers: int, datagrams: Datagrams):
        super().__init__(node, storage, bucket_peers)
        self._datagrams = datagrams
        self._wait_timeout = datagrams.timeout_seconds

    def connection_made(self, transport: Any) -> None:
        """Wrap the transport so that it seals."""
        super().connection_made(_SealedTransport(transport, self._datagrams.seal))

    def error_received(self, exc: Exception) -> None:
        """Ignore an error report: pings detect an unreachable peer."""

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Open a datagram, then run the call or pass the answer to the waiting caller."""
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
        """Answer with this peer's claim."""
        self._datagrams.listener.heard(read_claim(sender, nodeid, host, port))
        return self._datagrams.claim

    def rpc_find_node(self, sender: Any, nodeid: Any, key: Any, host: Any = "", port: Any = 0) -> Any:
        """Answer with this peer and the peers of its table closest to ``key``."""
        claim = read_claim(sender, nodeid, host, port)
        if not isinstance(key, bytes) or len(key) != ID_BYTES:
            raise ValueError("the key of a lookup has not 20 bytes")
        listener = self._datagrams.listener
        listener.heard(claim)
        return [self._datagrams.claim, *listener.neighbours(key, without=claim[0])]

    def rpc_leave(self, sender: Any, nodeid: Any, host: Any = "", port: Any = 0) -> Any:
        """Note that the caller leaves."""
        self._datagrams.listener.left(read_claim(sender, nodeid, host, port))

    def _timeout(self, msg_id: bytes, again: bool = False) -> None:
        """Count a call as unanswered; wait once more if this process was stalled.

        The answer may then lie unread in the socket, and a lookup must not omit the live owner of a key.
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
        """Do nothing: the table asks for a test of its oldest peer, and the failure detector tests all peers."""
        return (True, node_to_ask.id)

    async def call(self, name: str, address: tuple[str, int], *arguments: Any) -> Any:
        """Call a peer and return its answer, or None after a timeout."""
        if len(self._outstanding) >= CALLS_MAX or self.transport is None or self.transport.is_closing():
            return None
        # The caller must not cancel the future: the package's timer sets it later.
        answered, value = await asyncio.shield(getattr(self, name)(address, *arguments))
        return value if answered else None

    def forget_calls(self) -> None:
        """Finish all calls in flight as unanswered."""
        for future, timer in self._outstanding.values():
            timer.cancel()
            future.set_result((False, None))
        self._outstanding.clear()


class _Server(Server):  # type: ignore[misc]  # the package has no types
    """The package's server on an existing socket; its periodic refresh never starts."""

    def __init__(self, datagrams: Datagrams):
        super().__init__(ksize=BUCKET_PEERS, node_id=datagrams.claim[0])
        self._datagrams = datagrams

    def _create_protocol(self) -> Any:
        return _Protocol(self.node, self.storage, self.ksize, self._datagrams)

    async def listen_on(self, bound: socket.socket) -> None:
        """Use a bound datagram socket."""
        loop = asyncio.get_running_loop()
        self.transport, self.protocol = await loop.create_datagram_endpoint(self._create_protocol, sock=bound)


def read_claim(sender: Any, identifier: Any, host: Any = "", port: Any = 0) -> Claim:
    """Check a claim; a missing host or port is taken from the sender's address.

    Raises ValueError.
    """
    if not isinstance(identifier, bytes) or len(identifier) != ID_BYTES:
        raise ValueError("an identifier has not 20 bytes")
    host = host or sender[0]
    port = port or sender[1]
    if not isinstance(host, str) or not isinstance(port, int) or not 0 < port < 65_536:
        raise ValueError("an address is not a host and a port")
    return identifier, str(ipaddress.ip_address(host)), port
