"""Members of an overlay in one process, over real datagrams on loopback, for tests of each kind."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import socket

from p2prdf import keys
from p2prdf.wire.contract import ClusterEntered, SeedsReached
from p2prdf.wire.messages import Contact
from p2prdf_node.config import NodeConfig
from p2prdf_node.driver import Clock
from p2prdf_node.members import Environment
from p2prdf_node.routed_membership import RoutedMembership
from p2prdf_node.seal import Keyring
from p2prdf_node.seeds import Seeds
from p2prdf_node.swim_membership import SwimMembership

__all__ = ["QUICK", "VIEW", "Node", "all_know_all", "one_ring", "overlay", "until"]

QUICK = NodeConfig(membership="overlay", ping_seconds=0.05, ping_timeout_seconds=0.05)
VIEW = dataclasses.replace(QUICK, membership="view")


class Node:
    """A member without the rest of a daemon."""

    def __init__(self, config=QUICK, *, bootstrap=(), name=None):
        self.socket, self.door = _same_port()
        self.socket.setblocking(False)
        host, port = self.socket.getsockname()
        identifier = hashlib.sha1(name or f"{host}:{port}".encode()).digest()
        self.linked = set()
        self.tasks = set()
        self.log = []
        self.zones = {}
        self.found = []
        self.seeds_reached = False
        self.entered = 0
        addresses = tuple(f"127.0.0.1:{other.port}" for other in bootstrap)
        config = dataclasses.replace(config, bootstrap=addresses)
        self.environment = Environment(
            config, Contact(keys.node_key(identifier), host, port), Keyring([config.seal_key]), Clock(),
            seen=self._seen, lost=self._lost, known=self._known, linked=self.linked.__contains__, spawn=self.spawn,
        )  # fmt: skip
        kind = SwimMembership if config.membership == "view" else RoutedMembership
        self.member = kind(self.environment)
        self.port = port
        self.key = self.member.contact.key

    def _seen(self, contact, zone=""):
        self.log.append(("seen", contact))
        self.zones[contact.key] = zone

    def _lost(self, contact, left=False):
        self.log.append(("left" if left else "lost", contact))

    def _known(self, told):
        if isinstance(told, SeedsReached):
            self.seeds_reached = True
        elif isinstance(told, ClusterEntered):
            self.entered += 1
        else:
            self.found.append(told)

    def spawn(self, work, name):
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def join_by(self, nodes):
        """Change the bootstrap addresses before the start, to those of nodes made later, for example."""
        self.bootstrap(*(f"127.0.0.1:{node.port}" for node in nodes))

    def bootstrap(self, *addresses):
        """Change the bootstrap addresses before the start."""
        self.environment.config = dataclasses.replace(self.environment.config, bootstrap=addresses)
        self.member._seeds = Seeds(addresses)

    async def start(self):
        await self.member.start(self.socket)
        self.spawn(self.member.run(), "run")

    async def crash(self, door_open=False):
        """End without a goodbye, at the stream port too unless ``door_open``."""
        self.member._datagrams.close()
        self.member.stop()
        for task in list(self.tasks):
            task.cancel()
        for task in list(self.tasks):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if not door_open:
            self.door.close()

    def deaf_to(self, ports):
        """Drop all datagrams from some ports; without any, receive everything again."""
        socket = self.member._datagrams
        if ports:
            heard = socket.datagram_received
            socket.datagram_received = lambda data, address: address[1] in ports or heard(data, address)
        else:
            del socket.datagram_received

    @property
    def known(self):
        return {contact.key for contact in self.member.contacts()}


def _same_port():
    """Bind a datagram socket and, as a daemon does, a stream socket; this one refuses until it listens."""
    while True:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        datagrams.bind(("127.0.0.1", 0))
        try:
            door.bind(datagrams.getsockname())
        except OSError:  # the port is free for datagrams alone
            datagrams.close()
            door.close()
        else:
            return datagrams, door


@contextlib.asynccontextmanager
async def overlay(count, config=QUICK):
    """Start nodes that join by the first one."""
    first = Node(config)
    nodes = [first, *(Node(config, bootstrap=[first]) for _ in range(count - 1))]
    try:
        for node in nodes:
            await node.start()
        yield nodes
    finally:
        for node in nodes:
            await node.crash()


async def until(condition, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def all_know_all(nodes):
    keys = {node.key for node in nodes}
    return all(node.known == keys - {node.key} for node in nodes)


def one_ring(nodes):
    """Tell whether nodes of a Chord overlay have their right successors."""

    for node in nodes:
        ahead = sorted((other.key for other in nodes), key=lambda key: (key - node.key - 1) % (1 << 64))
        if [contact.key for contact in node.member._machine.successors] != ahead[:8]:
            return False
    return True
