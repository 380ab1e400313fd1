"""Members of each kind of overlay in one process, over real datagrams on loopback."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time

import msgpack
import pytest
from overlay_nodes import QUICK, VIEW, Node, all_know_all, one_ring, overlay, until

from p2prdf.overlay.membership import Packet
from p2prdf.overlay.routed_messages import FindOwners, Leaving, Ping
from p2prdf.wire.datagrams import encode
from p2prdf.wire.messages import Contact
from p2prdf_node import members
from p2prdf_node.envelopes import Envelopes
from p2prdf_node.seal import Keyring

CHORD = dataclasses.replace(QUICK, overlay="chord")
CHORD_VIEW = dataclasses.replace(VIEW, overlay="chord")
BOTH = pytest.mark.parametrize("config", [QUICK, CHORD], ids=lambda config: config.overlay)
BOTH_KINDS = pytest.mark.parametrize("config", [QUICK, VIEW], ids=lambda config: config.membership)
ALL = pytest.mark.parametrize(
    "config", [QUICK, CHORD, VIEW, CHORD_VIEW], ids=lambda config: f"{config.overlay} {config.membership}"
)


def closest(config, nodes, key):
    """Return the keys of all nodes, the owner of a key first."""
    if config.overlay == "chord":
        return sorted((node.key for node in nodes), key=lambda other: (other - key) % (1 << 64))
    return sorted((node.key for node in nodes), key=lambda other: other ^ key)


def settled(config, nodes):
    """Tell whether all have found their places among many."""
    if config.membership == "view":
        return all_know_all(nodes)
    if config.overlay == "kademlia":
        return all(len(node.known) >= min(15, len(nodes) - 1) for node in nodes)
    return one_ring(nodes)


def tries_counted(node):
    """Return the list of addresses that a node has found at each of its tries to join, from now on."""
    tried, addresses = [], node.member._seeds.addresses

    async def counted():
        tried.append(await addresses())
        return tried[-1]

    node.member._seeds.addresses = counted
    return tried


@ALL
async def test_all_members_of_a_small_overlay_know_each_other_and_report_each_once(config):
    async with overlay(8, config) as nodes:
        await until(lambda: all_know_all(nodes))
        for node in nodes:
            assert sorted(contact.key for _, contact in node.log) == sorted(node.known)


@ALL
async def test_a_node_that_reaches_no_bootstrap_address_owns_no_key_and_says_why(config, monkeypatch):
    monkeypatch.setattr(members, "CREATE_SECONDS", 0.05)
    node, first = Node(config, bootstrap=[]), None
    node.bootstrap("127.0.0.1:9")
    tried = tries_counted(node)
    await node.start()
    owner = asyncio.create_task(node.member.find_owners(7))
    try:
        await until(lambda: len(tried) >= 4)
        assert not node.member.entered.is_set()
        assert not owner.done()
        assert "127.0.0.1:9 (no answer)" in node.member.status()["joining"]
        first = Node(config, bootstrap=[node])
        first.environment.config = dataclasses.replace(first.environment.config, first=True)
        await first.start()
        await until(lambda: all_know_all([node, first]))
        assert {contact.key for contact in (await owner).contacts} <= {node.key, first.key}
        assert node.member.joining is None
    finally:
        await node.crash()
        if first is not None:
            await first.crash()


@ALL
async def test_the_setting_first_begins_an_overlay_without_an_answer(config, monkeypatch):
    monkeypatch.setattr(members, "CREATE_SECONDS", 0.05)
    node = Node(dataclasses.replace(config, first=True))
    node.bootstrap("127.0.0.1:9")
    await node.start()
    try:
        found = await node.member.find_owners(7)
        assert found.contacts == (node.member.contact,)
        assert node.member.joining is None
    finally:
        await node.crash()


@ALL
async def test_a_node_that_remembers_other_members_does_not_begin_a_cluster_by_first_but_joins_them(
    config, monkeypatch
):
    """Its unit file still has ``--first`` when it restarts: the cluster of its disk exists without it."""
    monkeypatch.setattr(members, "CREATE_SECONDS", 0.05)
    member = Node(config)
    node = Node(dataclasses.replace(config, first=True), bootstrap=[member])
    node.environment.remembered = lambda: 3
    tried = tries_counted(node)
    await node.start()
    try:
        await until(lambda: len(tried) >= 4)
        assert node.member.joining is not None
        assert not node.entered
        await member.start()
        await until(lambda: all_know_all([node, member]))
        assert node.member.joining is None
        assert (node.entered, member.entered) == (1, 1), "each tells its peer once that it is of a cluster"
    finally:
        for each in (node, member):
            if each.tasks:
                await each.crash()


@ALL
async def test_lookups_find_the_closest_live_peers_and_say_that_there_are_no_others(config):
    generator = random.Random(5)
    async with overlay(7, config) as nodes:
        await until(lambda: all_know_all(nodes) and settled(config, nodes))
        for _ in range(30):
            key = generator.getrandbits(64)
            asked = generator.choice(nodes).member
            for _ in range(3):  # on a busy machine a node may be late, and is left out once
                found = await asked.find_owners(key)
                if len(found.contacts) == len(closest(config, nodes, key)):
                    break
            assert [contact.key for contact in found.contacts] == closest(config, nodes, key)
            assert found.complete


@BOTH
async def test_in_a_larger_overlay_lookups_find_the_owner_without_knowing_everyone(config):
    generator = random.Random(6)
    config = dataclasses.replace(config, ping_seconds=1.0, ping_timeout_seconds=1.0)
    async with overlay(40, config) as nodes:
        await until(lambda: settled(config, nodes), seconds=20)
        for _ in range(40):
            key = generator.getrandbits(64)
            asked, owners = generator.choice(nodes).member, closest(config, nodes, key)[:3]
            for _ in range(3):  # on a busy machine a node may be late, and is left out once
                found = await asked.find_owners(key)
                if [contact.key for contact in found.contacts[:3]] == owners:
                    break
            assert [contact.key for contact in found.contacts[:3]] == owners
            assert not found.complete


@ALL
async def test_a_crashed_member_is_lost_by_all_and_never_an_owner(config):
    async with overlay(6, config) as nodes:
        await until(lambda: all_know_all(nodes))
        dead = nodes[3]
        await dead.crash()
        live = [node for node in nodes if node is not dead]
        if config.membership == "view":  # answered from the view, without asking any node
            await until(lambda: all_know_all(live))
        found = await nodes[0].member.find_owners(dead.key)
        assert dead.key not in {contact.key for contact in found.contacts}
        await until(lambda: all_know_all(live))
        for node in live:
            assert ("lost", dead.member.contact) in node.log


@ALL
@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "in haste"])
async def test_goodbye_is_heard_at_once_and_in_a_view_whether_it_was_in_order(config, in_order):
    async with overlay(4, dataclasses.replace(config, ping_seconds=30)) as nodes:
        await until(lambda: all_know_all(nodes))
        nodes[0].member.stop(in_order=in_order)
        await until(lambda: all_know_all(nodes[1:]), seconds=1)
        how = "left" if in_order and config.membership == "view" else "lost"
        for node in nodes[1:]:
            assert node.log[-1] == (how, nodes[0].member.contact)


@BOTH
async def test_a_silent_member_with_a_standing_connection_gets_more_patience(config):
    config = dataclasses.replace(config, ping_strikes_linked=1000)
    async with overlay(3, config) as nodes:
        await until(lambda: all_know_all(nodes))
        nodes[0].linked.add(nodes[2].key)
        await nodes[2].crash()
        await until(lambda: nodes[2].key not in nodes[1].known)
        assert nodes[2].key in nodes[0].known
        nodes[0].linked.clear()
        nodes[0].member.suspect(nodes[2].key)
        await until(lambda: nodes[2].key not in nodes[0].known)


@BOTH_KINDS
@pytest.mark.parametrize("is_silent", [False, True], ids=["answers", "is silent"])
async def test_a_timeout_found_late_waits_once_more_for_the_answer(config, is_silent):
    """Otherwise the lookup of a process that was held up would leave out the live owner of a key."""
    async with overlay(2, dataclasses.replace(config, ping_seconds=30, ping_timeout_seconds=0.2)) as (first, second):
        if is_silent:
            second.deaf_to({first.port})
        asking = asyncio.create_task(first.member._ping(("127.0.0.1", second.port)))
        await asyncio.sleep(0)
        time.sleep(0.35)
        answer = await asking
        assert (answer is None) is is_silent
        if not is_silent:
            assert first.member._sender(answer) == second.member.contact


@ALL
async def test_a_member_that_moved_is_known_by_its_new_address(config):
    async with overlay(3, config) as nodes:
        await until(lambda: all_know_all(nodes))
        old = Node(config, bootstrap=[nodes[0]], name=b"moving")
        await old.start()
        await until(lambda: all_know_all([*nodes, old]))
        await old.crash()
        new = Node(config, bootstrap=[nodes[1]], name=b"moving")
        await new.start()
        try:
            await until(lambda: all(new.member.contact in node.member.contacts() for node in nodes))
            assert all(len(node.known) == 3 for node in nodes)
        finally:
            await new.crash()


@ALL
async def test_two_halves_that_lost_each_other_find_together_again(config, monkeypatch):
    """Datagrams between the halves are dropped until each has forgotten the other."""
    monkeypatch.setattr(members, "RETRY_SECONDS_MAX", 0.2)
    async with overlay(4, config) as nodes:
        await until(lambda: all_know_all(nodes))
        halves = nodes[:2], nodes[2:]
        for half, others in (halves, halves[::-1]):
            for node in half:
                node.deaf_to({other.port for other in others})
        await until(lambda: all_know_all(halves[0]) and all_know_all(halves[1]))
        for node in nodes:
            node.deaf_to(None)
        await until(lambda: all_know_all(nodes))


@ALL
async def test_confirm_asks_at_the_claimed_address(config):
    async with overlay(2, config) as (first, second):
        await until(lambda: all_know_all([first, second]))
        stranger = Node(config)
        await stranger.start()
        try:
            assert await first.member.confirm(second.member.contact)
            assert await first.member.confirm(stranger.member.contact)
            assert not await first.member.confirm(dataclasses.replace(stranger.member.contact, key=1))
            assert not await first.member.confirm(dataclasses.replace(second.member.contact, port=stranger.port))
        finally:
            await stranger.crash()


STRANGER = Contact(5, "127.0.0.1", 9)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x91" * 2000,
        msgpack.packb({"a": 1}),
        msgpack.packb([99, [5, "127.0.0.1", 9], 1]),
        msgpack.packb(["store", [5, "127.0.0.1", 9], 1]),
        encode(Packet(STRANGER, Ping(1)))[:-1],
        encode(Packet(STRANGER, Ping(1 << 63))) + b"\x00",
        encode(Packet(Contact(5, "no address", 9), Ping(1))),
        encode(Packet(Contact(5, "127.0.0.1", 70_000), Ping(1))),
        encode(Packet(STRANGER, FindOwners(1, -1))),
    ],
)
async def test_a_bad_message_of_a_member_is_refused(payload):
    """Sealed with the right key, and still refused without an answer or an unhandled error."""
    async with overlay(1) as (node,):
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        before = set(node.tasks)
        receive(node, payload)
        assert node.member.status()["datagrams_refused"]["malformed"] == 1
        assert set(node.tasks) == before
        assert failures == []


def receive(node, payload):
    other = Envelopes(Keyring([QUICK.seal_key]), STRANGER.key, "kademlia")
    node.member._datagrams.datagram_received(other.seal(payload, node.key), ("127.0.0.1", 9))


async def test_goodbyes_of_strangers_and_of_another_address_remove_nobody():
    async with overlay(2) as (first, second):
        await until(lambda: all_know_all([first, second]))
        moved = dataclasses.replace(second.member.contact, port=9)
        for sender in (STRANGER, moved):
            receive(first, encode(Packet(sender, Leaving(()))))
        assert first.known == {second.key}


async def test_claims_of_strangers_are_pinged_in_bounded_numbers():
    async with overlay(1, dataclasses.replace(QUICK, ping_timeout_seconds=5)) as (node,):
        await until(lambda: node.member.entered.is_set())
        for number in range(1000):
            message = Ping(number) if number % 2 else FindOwners(number, 7)
            receive(node, encode(Packet(Contact(number, "127.0.0.1", 9), message)))
        assert node.member.status()["routing"]["questions"] == 64
        assert node.known == set()
