"""The node as a process: builds the components, starts them, supervises them, stops them.

    datagrams  Members ───┐                       ┌─ Links ── peers
    TCP in     Daemon ──┬─ PeerInlet ─── Driver ──┤
                        └─ ClientSession ─┘  │    └─ ClientSession ── clients
                                            Peer

One task group owns every task.  If a task of a single request fails unexpectedly, the failure is logged and costs
that request; the failure of an essential task ends the node.  A failed disk ends the node at once with exit code 1,
because it can promise nothing any more.

On SIGTERM or SIGINT the node *leaves*, within ``drain_seconds``.  It refuses new requests of clients, finishes
accepted work and sends its clients elsewhere.  Still a member, it hands its copies to other nodes, answers peers and
stores their data.  Then it flushes pending writes to the disk, announces its departure and exits with 0.  A second
signal skips the waiting.  The data on its disk stays: a node that comes back only needs the changes since.  A node
started with SIGINT ignored, as shells start background jobs of scripts, leaves on SIGTERM only.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import ipaddress
import json
import os
import random
import secrets
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf import keys
from p2prdf.columns import ARRAYS
from p2prdf.errors import (
    Busy,
    LocalProtocolError,
    NodeLeaving,
    NotAllowed,
    P2PRDFError,
    RemoteProtocolError,
    Unavailable,
)
from p2prdf.monitoring.process import memory_bytes
from p2prdf.peer import Pace, Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.settings import shared_settings
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.contract import ContactLost, ContactSeen
from p2prdf.wire.messages import ClientHello, Contact, PeerHello, client_error
from p2prdf_node.addresses import format_address, split_address
from p2prdf_node.clients import Clients
from p2prdf_node.config import NodeConfig
from p2prdf_node.connection import Connection, Connections, Handler
from p2prdf_node.driver import Clock, Driver
from p2prdf_node.health import health_served
from p2prdf_node.journal import Journal
from p2prdf_node.logs import configure_logs, log_span
from p2prdf_node.members import Environment, Members
from p2prdf_node.parsing import QueryParser, load_parser, start_fork_server
from p2prdf_node.records import Records
from p2prdf_node.routed_membership import RoutedMembership
from p2prdf_node.seal import Keyring
from p2prdf_node.seal_keys import SealKeysFile
from p2prdf_node.segment import Files
from p2prdf_node.session import ClientSession
from p2prdf_node.storage import DirectoryLock, Storage, write_durably
from p2prdf_node.swim_membership import SwimMembership
from p2prdf_node.transport import Links, PeerInlet, bind_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from p2prdf.wire.contract import Span
    from p2prdf_node.fork_server import ForkServer
    from p2prdf_node.otlp import SpanExport
    from p2prdf_node.permissions_file import PermissionsFile
    from p2prdf_node.tls import NodeTls

__all__ = ["Daemon", "run", "tame_garbage_collector"]

GC_THRESHOLDS: Final = (100_000, 50, 100)
ID_BYTES: Final = 20
"""Length of a node's identifier."""
JOIN_SECONDS: Final = 2.0
"""Time for which a node with seeds waits for other nodes before its ready line.

After that time a node without a cluster refuses new work, with the reason."""
OTHERS_MAX: Final = 8
"""Number of other nodes that a client is told of."""
SWEEP_SECONDS: Final = 0.5
POLL_SECONDS: Final = 0.02
ALIVE_SECONDS: Final = 5.0
"""Interval of the sign of life on the disk; far below the time that others wait for a missing node."""
SPANS_SECONDS: Final = 2.0
"""Time for which a stopping node waits for a collector to receive its last spans."""

_PLACE_BYTES: Final = 2
"""Leading bytes of an identifier that an ordinal decides: as many values as there are ordinals."""

log = structlog.get_logger("node")


def tame_garbage_collector() -> int:
    """Freeze all live objects, and collect rarely from now on; return the number of frozen objects.

    Python's cyclic garbage collector scans all live objects again and again, and the tables of a node live long: with
    its defaults it costs four fifths of the throughput.  Therefore the objects of the start are frozen, and
    collections are rare; the hot paths create no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    return gc.get_freeze_count()  # counting takes milliseconds: once is enough


def run(config: NodeConfig, *, on_ready: Callable[[str], None] | None = None) -> int:
    """Run a node until it is told to stop; return the exit code of the process.

    ``on_ready`` receives the line ``ready HOST:PORT KEY``; the default prints it.
    Raises LocalProtocolError if the node cannot start.
    """
    configure_logs(config.log_format, config.log_level)
    load_parser()  # children of the fork server share its modules
    fork_server = start_fork_server()
    try:
        from uvloop import new_event_loop
    except ImportError:  # not available on this platform
        new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(Daemon(config, fork_server).run(on_ready or _print_ready))
    finally:
        if fork_server is not None:
            fork_server.close()


def _print_ready(line: str) -> None:
    print(line, flush=True)


class Daemon(Handler):
    """One node; the handler of a connection until its first frame tells a peer from a client."""

    def __init__(self, config: NodeConfig, fork_server: ForkServer | None = None):
        config.validate()
        self.config = config
        self._fork_server = fork_server
        self._stop = asyncio.Event()
        self._failed = False
        self._urgent = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._group = asyncio.TaskGroup()
        self._inlets: dict[PeerInlet, int] = {}
        self._started_at = time.monotonic()
        self._frozen = 0
        self._server: asyncio.Server | None = None
        self._lock: DirectoryLock | None = None
        self._stop_reason: P2PRDFError = NodeLeaving()
        self.tls: NodeTls | None = None
        self._spans: SpanExport | None = None
        self.permissions: PermissionsFile | None = None
        self._expelled: frozenset[int] = frozenset()
        """Expelled members whose connections are closed."""
        self._keyring = Keyring([config.seal_key])
        self._seal_keys: SealKeysFile | None = None

    # --- lifecycle -----------------------------------------------------------------------------------

    async def run(self, on_ready: Callable[[str], None]) -> int:
        """Run until stopped; return the exit code."""
        stream, datagram = bind_pair(*self.config.listen_address)
        health = contextlib.AsyncExitStack()
        try:
            self._compose(stream.getsockname()[1])
            await health.enter_async_context(health_served(self))
        except BaseException:
            stream.close()
            datagram.close()
            self._unlock()
            raise
        async with health, self._group:
            self._catch_signals()
            asyncio.get_running_loop().set_exception_handler(self._unhandled)
            await self.membership.start(datagram)
            self._server = await asyncio.get_running_loop().create_server(self._accept, sock=stream)
            self._serve(self.membership.run(), "discovery")
            self._serve(self._sweep(), "sweep")
            if self._lock is not None:
                self._serve(_record_liveness(self._lock), "sign-of-life")
            if self.tls is not None or self._seal_keys is not None:
                self._serve(self._watch_files(), "files")
            await self._wait_joined()
            if self._stop.is_set():
                await self._shut_down()
                self._unlock()
                return 1 if self._failed else 0
            self._frozen = tame_garbage_collector()
            own = self.contact
            log.info(
                "node_ready", address=format_address(own.host, own.port), key=f"{own.key:016x}",
                durability=self.config.durability_in_force,
            )  # fmt: skip
            self.spawn(self.parser.keep(), "parser")
            on_ready(f"ready {format_address(own.host, own.port)} {own.key:016x}")
            await self._stop.wait()
            await self._shut_down()
        self._unlock()
        return 1 if self._failed else 0

    def stop(self) -> None:
        """Ask the node to leave; a second call stops it without finishing work or handing off copies."""
        self._urgent = self._stop.is_set()
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether the node leaves, or has left."""
        return self._stop.is_set()

    def _compose(self, port: int) -> None:
        config = self.config
        advertised = _advertised(config, port)
        if config.tls:
            from p2prdf_node.tls import NodeTls  # imports cryptography, which takes a while to load

            self.tls = NodeTls(config)
        if config.permissions is not None:
            from p2prdf_node.permissions_file import PermissionsFile

            self.permissions = PermissionsFile(config.permissions)
        if config.seal_keys is not None:
            self._seal_keys = SealKeysFile(config.seal_keys, config.seal_key, self._keyring)
        if config.data is not None:
            self._lock = _locked(config.data)
        identifier = _identifier(
            config.data, advertised, config.ordinal, None if self.tls is None else self.tls.key
        )
        self.contact = Contact(keys.node_key(identifier), *advertised)
        structlog.contextvars.bind_contextvars(node=f"{self.contact.key:016x}")
        dictionary = TermDictionary(config.terms_max)
        self._codec = FrameCodec(dictionary, ARRAYS)
        entropy = random.Random(secrets.randbits(128))  # noqa: S311 - the peer's choices guard nothing
        settings = PeerConfig(
            **shared_settings(config), has_seeds=bool(config.bootstrap) and config.membership == "view",
            durable=config.durability_in_force != "memory",
        )  # fmt: skip
        pace = Pace(config.turn_budget_seconds, time.thread_time)
        peer = Peer(self.contact, settings, dictionary, columns=ARRAYS, entropy=entropy, pace=pace)
        clock = Clock()
        self.driver = Driver(peer, clock, self.spawn, _journal(config, identifier, self._codec, dictionary))
        if config.otlp_endpoint:
            from p2prdf_node.otlp import SpanExport  # needs an optional dependency

            self._spans = SpanExport(config.otlp_endpoint, f"{self.contact.key:016x}")
            self.driver.on_span = self._span
        self.connections = Connections(
            connections_max=config.connections_max,
            connections_per_address_max=config.connections_per_address_max,
            hello_seconds=config.hello_seconds,
            frame_seconds=config.frame_seconds,
        )
        self.membership = self._members(clock)
        self.links = Links(
            self.contact, self._codec, self.connections, connect_seconds=config.connect_seconds,
            idle_seconds=config.idle_seconds, spawn=self.spawn, broken=self.membership.suspect, tls=self.tls,
        )  # fmt: skip
        self.parser = QueryParser(
            parse_seconds=config.parse_seconds, queries_pending_max=config.queries_pending_max,
            fork_server=self._fork_server,
        )  # fmt: skip
        self.clients = Clients(
            config, self.contact, self.parser, dictionary, submit=self.driver.submit,
            schedule=self.driver.schedule, busy=self._busy,
            refusal=lambda: self.driver.journal.refusal or self.membership.fenced or self._joining(),
            status=self._status_text, spawn=self.spawn, others=self._others, listed=self.driver.listed,
            expulsions=self.driver.expulsions, introduced=self.driver.introduced, short=lambda: peer.short_of_peers,
            merging=lambda: peer.cluster.merging,
            permissions=lambda: None if self.permissions is None else self.permissions.value,
        )  # fmt: skip
        self.driver.connect(self.links, self.clients, self.membership, disk_failed=self._disk_failed)
        self.driver.restore(0.0 if self._lock is None else self._lock.downtime_seconds)
        if config.zone:
            self._seen(self.contact, config.zone)

    def _others(self) -> tuple[Contact, ...]:
        """Return some other nodes at random, so that the clients of this node spread over all if it fails."""
        known = self.membership.contacts()
        return tuple(random.sample(known, min(len(known), OTHERS_MAX)))

    def _span(self, span: Span, ended: float) -> None:
        """Log a span, and send it to the collector."""
        log_span(span, ended)
        assert self._spans is not None
        self._spans.take(span, ended)

    def _busy(self) -> Busy | None:
        """Return the reason why no publication can be admitted now."""
        if self.driver.journal.full:
            return Busy("this node's disk is too slow: its queue is full (setting queued_bytes_max)")
        return self.driver.peer.busy_reason

    def _members(self, clock: Clock) -> Members[Any]:
        """Return the membership that the settings select."""
        environment = Environment(
            self.config, self.contact, self._keyring, clock, seen=self._seen, lost=self._lost,
            known=self.driver.submit, linked=self._linked, spawn=self.spawn, excluded=self._is_excluded,
            remembered=lambda: self.driver.peer.members_max,
        )  # fmt: skip
        return SwimMembership(environment) if self.config.membership == "view" else RoutedMembership(environment)

    async def _wait_joined(self) -> None:
        """Wait until this node is a member, and for at most JOIN_SECONDS until it knows another member."""
        deadline = time.monotonic() + JOIN_SECONDS
        told = False
        while self.config.bootstrap and not self._stop.is_set():
            late = time.monotonic() > deadline
            if self.membership.joined.is_set() or (late and self.membership.entered.is_set()):
                return
            if late and not told:
                told = True
                log.warning("node_waits", reason=self.membership.joining)
            await asyncio.sleep(POLL_SECONDS)

    def _joining(self) -> str | None:
        """Return why this node takes no work: it has joined no cluster.  None during JOIN_SECONDS: then work waits."""
        is_new = time.monotonic() < self._started_at + JOIN_SECONDS
        return None if is_new else self.membership.joining

    async def _shut_down(self) -> None:
        log.info("node_stopping")
        began = time.monotonic()
        self.clients.stop()
        self.links.flush()
        # Publications may wait for a peer that is gone, so half of the time is reserved for the handoff of copies.
        finished = await self._wait_for(self._finished, began + self.config.drain_seconds / 2)
        if self.config.replicas > 1:
            self.driver.leave()
        left = await self._wait_for(self._handed_off, began + self.config.drain_seconds)
        finished = self._finished()
        log.info(
            "node_drained", complete=finished and left, publications_open=self.driver.peer.publications_open,
            handed_off=self.driver.handed_off, seconds=round(time.monotonic() - began, 3),
        )  # fmt: skip
        self.driver.stop()
        await self.driver.journal.settle()
        self.links.flush()
        assert self._server is not None
        self._server.close()
        self.clients.close(self._stop_reason)
        self.links.close()
        self.membership.stop(in_order=self.config.replicas == 1 or self.driver.handed_off)
        await self.parser.stop()
        await asyncio.sleep(POLL_SECONDS)  # one more turn for sockets to take what was written
        for connection in list(self.connections.open):
            connection.abort()
        await self.driver.journal.close()
        if self._spans is not None:
            sending, deadline = self._spans.close(), time.monotonic() + SPANS_SECONDS
            while sending.is_alive() and time.monotonic() < deadline:
                await asyncio.sleep(POLL_SECONDS)
        self._cancel_tasks()

    async def _wait_for(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait until a condition holds; return False at the deadline, or earlier if it cannot come true."""
        while not condition():
            alone = self.driver.peer.short_of_peers and not self.membership.contacts()
            hopeless = alone or self.driver.journal.refusal is not None
            if self._urgent or hopeless or time.monotonic() >= deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def _finished(self) -> bool:
        """Dismiss clients without pending outcomes; return whether none is left and no publication is under way."""
        return self.clients.dismiss_idle() and not self.driver.peer.publications_open

    def _handed_off(self) -> bool:
        """Tell whether this node may stop: its copies, or with one copy its messages in flight, are with others."""
        if self.config.replicas > 1:
            return self.driver.left
        return self.driver.peer.quiet and self.driver.journal.idle and not self.links.waiting

    def _disk_failed(self) -> None:
        """Stop at once: pending writes are lost, and none of them has been acknowledged."""
        self._failed = self._urgent = True
        self._stop_reason = Unavailable(self.driver.journal.refusal or "the disk of this node failed")
        self._stop.set()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- tasks -----------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task with a single purpose; its failure is logged."""
        self._start(self._guarded(work, name, fatal=False), name)

    def _serve(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._start(self._guarded(work, name, fatal=True), name)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None], name: str, *, fatal: bool) -> None:
        try:
            await work
        except Exception:
            log.exception("task_failed", task=name)
            self.driver.counts["tasks_failed"] += 1
            if fatal:
                self._failed = True
                self._stop.set()

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception in a callback; the node goes on."""
        self.driver.counts["callbacks_failed"] += 1
        log.error("callback_failed", reason=context.get("message"), exc_info=context.get("exception"))

    def _cancel_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            self.connections.sweep(now)
            self.links.sweep(now)
            self.clients.sweep(now)
            self._enforce_expulsions()

    async def _watch_files(self) -> None:
        """Reload changed certificates, keys, lists and permissions, and cut off peers that they revoke."""
        while True:
            await asyncio.sleep(self.config.tls_poll_seconds)
            if self._seal_keys is not None:
                await self._seal_keys.poll()
            tls = self.tls
            if tls is None:
                continue
            await tls.poll()
            tls.close_refused(list(self.connections.open))
            if self.permissions is not None and await self.permissions.poll():
                self.clients.permissions_changed()
            for contact in self.membership.contacts():
                if tls.is_revoked(contact.key):
                    self.membership.suspect(contact.key)

    def _seal_status(self) -> dict[str, Any]:
        """Return the names of the keys that open datagrams, the sealing one first, and the state of their file."""
        if self._seal_keys is not None:
            return self._seal_keys.status()
        return {"keys": list(self._keyring.names), "renewed": 0, "problem": None}

    def _is_excluded(self, key: int) -> bool:
        """Tell whether a peer is cut off: its certificate is revoked, or an administrator has expelled it."""
        return (self.tls is not None and self.tls.is_revoked(key)) or key in self.driver.peer.expelled

    def _check_expelled(self, connection: Connection, key: int) -> None:
        """Raise NotAllowed if a peer, or the node in a connection's certificate, is expelled."""
        for each in (key, _node_of(connection)):
            if each in self.driver.peer.expelled:
                raise NotAllowed(f"node {each:016x} is expelled (p2prdf member readmit {each:016x} takes it back)")

    def _enforce_expulsions(self) -> None:
        """Close connections of members expelled since the last call, and remove expelled ones from the view."""
        expelled = self.driver.peer.expelled
        if expelled - self._expelled:
            for inlet, key in list(self._inlets.items()):
                if key in expelled:
                    inlet.connection.refuse(NotAllowed(f"node {key:016x} is expelled"))
            for connection in list(self.connections.open):
                if _node_of(connection) in expelled:
                    connection.refuse(NotAllowed(f"node {_node_of(connection):016x} is expelled"))
        self._expelled = expelled
        for contact in self.membership.contacts() if expelled else ():
            if contact.key in expelled:
                self.links.forget(contact)
                self.membership.suspect(contact.key)

    def _catch_signals(self) -> None:
        if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
            return  # signals cannot be handled here
        for number in (signal.SIGTERM, signal.SIGINT):
            if number == signal.SIGINT and signal.getsignal(number) is signal.SIG_IGN:
                continue  # a background job of a script: Ctrl-C at the terminal is meant for other processes
            asyncio.get_running_loop().add_signal_handler(number, self.stop)

    # --- connections and contacts --------------------------------------------------------------------

    def _accept(self) -> asyncio.Protocol:
        connection = Connection(self.connections, self._codec, self, secure=self.tls is not None)
        return connection if self.tls is None else self.tls.accepted(connection)

    def take(self, connection: Connection, message: Any) -> None:
        """Pass a connection to the handler for a peer or a client."""
        if isinstance(message, PeerHello):
            self._greet_peer(connection, message)
        elif isinstance(message, ClientHello):
            self._greet_client(connection, message)
        else:
            raise RemoteProtocolError(f"the first frame is {type(message).__name__}, not a hello")
        connection.identified = True

    def refused(self, connection: Connection, error: P2PRDFError) -> None:
        """Send the error as to a client."""
        connection.send([client_error(error)])

    def _greet_peer(self, connection: Connection, hello: PeerHello) -> None:
        """Receive envelopes on a connection from now on.  Raises TlsRefused, NotAllowed."""
        if self.tls is not None:
            self.tls.check_peer(connection.identity, hello.sender.key)
        self._check_expelled(connection, hello.sender.key)
        inlet = PeerInlet(
            self.contact.key, connection, hello, confirm=self.membership.confirm,
            receive=self.driver.receive, gone=self._inlet_gone, spawn=self.spawn,
        )  # fmt: skip
        self._inlets[inlet] = inlet.sender.key

    def _greet_client(self, connection: Connection, hello: ClientHello) -> None:
        """Begin a client session on a connection.  Raises NodeLeaving, NotAllowed."""
        if self._stop.is_set():
            raise NodeLeaving
        self._check_expelled(connection, 0)
        ClientSession(self.clients, connection, hello)

    def _inlet_gone(self, inlet: PeerInlet) -> None:
        del self._inlets[inlet]
        self.membership.suspect(inlet.sender.key)

    def _seen(self, contact: Contact, zone: str = "") -> None:
        self.driver.submit(ContactSeen(contact, zone))

    def _lost(self, contact: Contact, left: bool = False) -> None:
        self.links.forget(contact)
        self.driver.submit(ContactLost(contact, left))

    def _linked(self, key: int) -> bool:
        return self.links.established(key) or key in self._inlets.values()

    # --- status ----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the node's state; the keys are listed in docs/reference/operations.md."""
        own = self.contact
        return {
            "key": f"{own.key:016x}",
            "address": format_address(own.host, own.port),
            "uptime_seconds": round(time.monotonic() - self._started_at, 3),
            "stamp": self.driver.stamp(),
            "pid": os.getpid(),
            "stopping": self._stop.is_set(),
            "peers": [
                {"key": f"{c.key:016x}", "address": format_address(c.host, c.port)}
                for c in sorted(self.membership.contacts(), key=lambda c: c.key)
            ],
            "peer": self.driver.peer.status(),
            "discovery": self.membership.status(),
            "transport": self.links.status(),
            "storage": self.driver.journal.status(),
            "clients": self.clients.summary(),
            "connections": {
                "open": len(self.connections.open),
                "refused": dict(self.connections.refused),
                "evicted": dict(self.connections.evicted),
                "tls_refused": dict(self.connections.tls_refused),
                "false_digests": dict(self.connections.false_digests),
            },
            "tls": None if self.tls is None else self.tls.status(),
            "otlp": None if self._spans is None else self._spans.status(),
            "permissions": None if self.permissions is None else self.permissions.status(),
            "seal": self._seal_status(),
            "counts": dict(self.driver.counts),
            "failures": {name: self.driver.counts[f"{name}_failed"] for name in ("callbacks", "effects", "tasks")},
            **self.driver.turn_status(),
            "memory_bytes": memory_bytes(),
            "garbage_collector": {"thresholds": gc.get_threshold(), "frozen": self._frozen},
        }

    def _status_text(self) -> str:
        return json.dumps(self.status())


def _node_of(connection: Connection) -> int:
    """Return the key of the node in the other side's certificate; 0: no node's certificate."""
    identity = connection.identity
    return identity.key if identity is not None and identity.role == "node" else 0


# --- identity of this node -----------------------------------------------------------------------


def _advertised(config: NodeConfig, port: int) -> tuple[str, int]:
    """Return the IP address and port at which others reach this node."""
    host, _ = config.listen_address
    if config.advertise:
        host, port = split_address(config.advertise, default_port=port)
    elif host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared with, not listened on
        host = socket.gethostname()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LocalProtocolError(f"setting advertise: {host!r} does not resolve: {error.strerror}") from error
    address = ipaddress.ip_address(found[0][4][0])
    if address.is_unspecified:
        raise LocalProtocolError(f"setting advertise: {host!r} is no address that others can reach")
    return str(address), port


def _identifier(
    data: Path | None, advertised: tuple[str, int], ordinal: int | None, key: int | None = None
) -> bytes:
    """Return the node's identifier: the one in its data directory, or one derived from its address.

    A new directory gets a random identifier, because it may move to another address.  An ordinal decides the first
    two bytes: nodes are spread evenly, and two nodes with the same ordinal by mistake still are two peers.  A
    certificate (``key``) decides the first eight bytes, the ring position.
    """
    place = b"" if ordinal is None else keys.even_key(ordinal).to_bytes(8, "big")[:_PLACE_BYTES]
    if key is not None:
        whole = key.to_bytes(8, "big")
        if not whole.startswith(place):
            raise LocalProtocolError(f"setting ordinal: the certificate is for another place than {ordinal}")
        place = whole
    if data is None:
        address = hashlib.sha1(format_address(*advertised).encode(), usedforsecurity=False).digest()
        return place + address[len(place) :]
    path = data / "node-id"
    try:
        data.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_durably(Files(), path, (place + secrets.token_bytes(ID_BYTES - len(place))).hex() + "\n")
        identifier = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError) as error:
        raise LocalProtocolError(f"setting data: {path}: {error}") from error
    if len(identifier) != ID_BYTES:
        raise LocalProtocolError(f"setting data: {path} does not hold {ID_BYTES} bytes in hex")
    if key is not None and not identifier.startswith(place):
        raise LocalProtocolError(
            f"setting data: {path} is of node {identifier[:8].hex()}, and the certificate of {place.hex()}"
            f" (p2prdf ca issue --place {identifier[:8].hex()} makes one for it)"
        )
    if not identifier.startswith(place):
        raise LocalProtocolError(f"setting ordinal: {path} holds the identifier of another place than {ordinal}")
    return identifier


def _locked(data: Path) -> DirectoryLock:
    """Lock the data directory for this process."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        return DirectoryLock(data)
    except OSError as error:
        raise LocalProtocolError(f"setting data: {data}: {error.strerror}") from error


async def _record_liveness(lock: DirectoryLock) -> None:
    """Record regularly on the disk that this node is alive; the next start computes its downtime from it.

    The first record comes after ALIVE_SECONDS: this start must have read the previous one before.
    """
    while True:
        await asyncio.sleep(ALIVE_SECONDS)
        with contextlib.suppress(OSError):  # the downtime will seem longer, which is safe
            await asyncio.to_thread(lock.touch)


def _journal(config: NodeConfig, identifier: bytes, codec: FrameCodec, dictionary: TermDictionary) -> Journal:
    """Open the node's stored state; without durability the journal stores nothing."""
    storage = None
    durability = config.durability_in_force
    if durability != "memory":
        assert config.data is not None, "validate() asks for it"
        try:
            storage = Storage(config.data / "state", identifier, config.cluster_name)
        except OSError as error:
            raise LocalProtocolError(f"setting data: {config.data}: {error.strerror}") from error
    return Journal(
        storage, Records(codec, dictionary), durability=durability, queued_bytes_max=config.queued_bytes_max,
        compact_bytes_min=config.compact_bytes_min,
    )  # fmt: skip
