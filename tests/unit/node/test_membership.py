"""Members of an overlay in one process, over real datagrams on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import random
import socket

import pytest
import umsgpack

from p2prdf_node import membership
from p2prdf_node.config import NodeConfig
from p2prdf_node.membership import Membership

QUICK = NodeConfig(ping_seconds=0.05, ping_timeout_seconds=0.05)


class Node:
    """A member without the rest of a daemon."""

    def __init__(self, config=QUICK, *, bootstrap=(), name=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        host, port = self.socket.getsockname()
        identifier = hashlib.sha1(name or f"{host}:{port}".encode()).digest()
        self.linked = set()
        self.tasks = set()
        self.log = []
        addresses = tuple(f"127.0.0.1:{other.port}" for other in bootstrap)
        self.member = Membership(
            dataclasses.replace(config, bootstrap=addresses), (identifier, host, port),
            seen=lambda contact: self.log.append(("seen", contact)),
            lost=lambda contact: self.log.append(("lost", contact)),
            linked=self.linked.__contains__, spawn=self.spawn,
        )  # fmt: skip
        self.port = port
        self.key = self.member.contact.key

    def spawn(self, work, name):
        task = asyncio.create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def start(self):
        await self.member.start(self.socket)
        self.spawn(self.member.run(), "run")

    async def crash(self):
        """Go away without a word."""
        self.member._datagrams.close()
        for task in list(self.tasks):
            task.cancel()
        for task in list(self.tasks):
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def known(self):
        return {contact.key for contact in self.member.contacts()}


@contextlib.asynccontextmanager
async def overlay(count, config=QUICK):
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


async def test_all_members_of_a_small_overlay_know_each_other_and_report_each_once():
    async with overlay(12) as nodes:
        await until(lambda: all_know_all(nodes))
        for node in nodes:
            assert sorted(contact.key for _, contact in node.log) == sorted(node.known)


async def test_lookups_find_the_closest_live_peers_and_say_that_there_are_no_others():
    generator = random.Random(5)
    async with overlay(9) as nodes:
        await until(lambda: all_know_all(nodes))
        for _ in range(30):
            key = generator.getrandbits(64)
            found = await generator.choice(nodes).member.find_owners(key)
            assert [contact.key for contact in found.contacts] == sorted(
                (node.key for node in nodes), key=lambda other: other ^ key
            )
            assert found.complete


async def test_in_a_larger_overlay_lookups_find_the_owner_without_knowing_everyone():
    generator = random.Random(6)
    config = dataclasses.replace(QUICK, ping_seconds=1.0, ping_timeout_seconds=1.0)
    async with overlay(40, config) as nodes:
        await until(lambda: all(len(node.known) >= 15 for node in nodes), seconds=20)
        for _ in range(40):
            key = generator.getrandbits(64)
            found = await generator.choice(nodes).member.find_owners(key)
            expected = sorted((node.key for node in nodes), key=lambda other: other ^ key)
            assert [contact.key for contact in found.contacts[:3]] == expected[:3]
            assert not found.complete


async def test_a_crashed_member_is_lost_by_all_and_never_an_owner():
    async with overlay(6) as nodes:
        await until(lambda: all_know_all(nodes))
        dead = nodes[3]
        await dead.crash()
        found = await nodes[0].member.find_owners(dead.key)
        assert dead.key not in {contact.key for contact in found.contacts}
        live = [node for node in nodes if node is not dead]
        await until(lambda: all_know_all(live))
        for node in live:
            assert ("lost", dead.member.contact) in node.log


async def test_goodbye_is_heard_at_once():
    async with overlay(4, dataclasses.replace(QUICK, ping_seconds=30)) as nodes:
        await until(lambda: all_know_all(nodes))
        nodes[0].member.stop()
        await until(lambda: all_know_all(nodes[1:]), seconds=1)


async def test_a_silent_member_with_a_standing_connection_gets_more_patience():
    config = dataclasses.replace(QUICK, ping_strikes_linked=1000)
    async with overlay(3, config) as nodes:
        await until(lambda: all_know_all(nodes))
        nodes[0].linked.add(nodes[2].key)
        await nodes[2].crash()
        await until(lambda: nodes[2].key not in nodes[1].known)
        assert nodes[2].key in nodes[0].known
        nodes[0].linked.clear()
        nodes[0].member.suspect(nodes[2].key)
        await until(lambda: nodes[2].key not in nodes[0].known)


async def test_a_member_that_moved_is_known_by_its_new_address():
    async with overlay(3) as nodes:
        await until(lambda: all_know_all(nodes))
        old = Node(bootstrap=[nodes[0]], name=b"moving")
        await old.start()
        await until(lambda: all_know_all([*nodes, old]))
        await old.crash()
        new = Node(bootstrap=[nodes[1]], name=b"moving")
        await new.start()
        try:
            await until(lambda: all(new.member.contact in node.member.contacts() for node in nodes))
            assert all(len(node.known) == 3 for node in nodes)
        finally:
            await new.crash()


async def test_two_halves_that_lost_each_other_find_together_again(monkeypatch):
    """Datagrams between the halves are dropped until each has forgotten the other."""
    monkeypatch.setattr(membership, "RETRY_SECONDS_MAX", 0.2)
    async with overlay(4) as nodes:
        await until(lambda: all_know_all(nodes))
        halves = nodes[:2], nodes[2:]
        for half, others in (halves, halves[::-1]):
            ports = {node.port for node in others}
            for node in half:
                protocol = node.member._datagrams._protocol
                received = protocol.datagram_received
                protocol.datagram_received = (
                    lambda data, addr, received=received, ports=ports: addr[1] in ports or received(data, addr)
                )
        await until(lambda: all_know_all(halves[0]) and all_know_all(halves[1]))
        for node in nodes:
            del node.member._datagrams._protocol.datagram_received
        await until(lambda: all_know_all(nodes))


def request(call, *arguments):
    return b"\x00" + bytes(20) + umsgpack.packb([call, list(arguments)])


@pytest.mark.parametrize(
    "payload",
    [
        request("store", b"k" * 20, b"k" * 20, "value"),
        request("find_value", b"k" * 20, b"k" * 20),
        request("stun"),
        request("call"),
        request("__init__"),
        request("ping", b"short"),
        request("ping", b"i" * 32),
        request("ping", "text" * 5),
        request("ping", b"i" * 20, "no address", 1),
        request("ping", b"i" * 20, "127.0.0.1", 70_000),
        request("ping", b"i" * 20, "127.0.0.1", "port"),
        request("ping", b"i" * 20, "127.0.0.1", 9, "more"),
        request("find_node", b"i" * 20, b"short"),
        request(["ping"], b"i" * 20),
        b"\x00" + bytes(20) + umsgpack.packb({"a": 1}),
        b"\x00" + bytes(20) + b"\xc1",
        b"\x00" + bytes(20) + b"\x91" * 2000,
        b"\x01" + bytes(20) + umsgpack.packb([b"i" * 20]),
        b"\x07" + bytes(20),
        b"",
    ],
)
async def test_even_a_member_cannot_ask_for_what_is_not_offered(payload):
    """Sealed with the right key, and still refused without an answer or an unhandled error."""
    async with overlay(1) as (node,):
        loop = asyncio.get_running_loop()
        failures = []
        loop.set_exception_handler(lambda _, context: failures.append(context))
        before = set(node.tasks)
        sent = node.member._datagrams._server.transport
        node.member._datagrams._protocol.datagram_received(
            node.member._datagrams.seal(payload, ("127.0.0.1", 1)), ("127.0.0.1", 9)
        )
        assert sent.get_write_buffer_size() == 0
        assert set(node.tasks) == before
        assert failures == []


async def test_claims_of_strangers_are_pinged_in_bounded_numbers():
    async with overlay(1, dataclasses.replace(QUICK, ping_timeout_seconds=5)) as (node,):
        before = len(node.tasks)
        for number in range(1000):
            node.member.heard((number.to_bytes(20, "big"), "127.0.0.1", 9))
        assert len(node.tasks) - before == membership.MEETINGS_MAX
        assert node.known == set()


async def test_confirm_asks_at_the_claimed_address():
    async with overlay(2) as (first, second):
        await until(lambda: all_know_all([first, second]))
        stranger = Node()
        await stranger.start()
        try:
            assert await first.member.confirm(second.member.contact)
            assert await first.member.confirm(stranger.member.contact)
            assert not await first.member.confirm(dataclasses.replace(stranger.member.contact, key=1))
            assert not await first.member.confirm(dataclasses.replace(second.member.contact, port=stranger.port))
        finally:
            await stranger.crash()
