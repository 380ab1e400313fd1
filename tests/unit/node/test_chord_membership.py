"""Members of a Chord ring in particular: joining, and datagrams of strangers and of the other overlay."""

from __future__ import annotations

import asyncio
import dataclasses

import msgpack
import pytest
from overlay_nodes import QUICK, Node, all_know_all, one_ring, overlay, until

from p2prdf.overlay.membership import Packet
from p2prdf.overlay.routed_messages import FindOwners, Notify, Ping
from p2prdf.wire import datagrams
from p2prdf.wire.messages import Contact
from p2prdf_node import envelopes, members
from p2prdf_node.seal import Keyring

CHORD = dataclasses.replace(QUICK, overlay="chord")


def encode(message, sender=5):
    return datagrams.encode(Packet(Contact(sender, "127.0.0.1", 9), message))


async def test_the_first_node_is_a_ring_at_once_and_waits_for_nobody():
    async with overlay(1, CHORD) as (node,):
        await until(lambda: node.member._machine.member, seconds=0.5)
        found = await node.member.find_owners(7)
        assert (found.contacts, found.complete, found.before) == (
            (node.member.contact,), True, node.member.contact,
        )  # fmt: skip


async def test_a_node_that_is_its_own_only_bootstrap_is_the_first():
    node = Node(CHORD)
    node.join_by([node])
    await node.start()
    try:
        await until(lambda: node.member._machine.member, seconds=0.5)
    finally:
        await node.crash()


async def test_nodes_that_bootstrap_by_each_other_do_not_wait_for_ever(monkeypatch):
    """Each makes a ring of its own in the end; introductions make one of them."""
    monkeypatch.setattr(members, "CREATE_SECONDS", 0.2)
    nodes = [Node(CHORD) for _ in range(3)]
    for place, node in enumerate(nodes):
        node.join_by([nodes[place - 1]])
    for node in nodes:
        await node.start()
    try:
        await until(lambda: one_ring(nodes))
        found = await nodes[0].member.find_owners(7)
        assert len(found.contacts) == 3
    finally:
        for node in nodes:
            await node.crash()


async def test_lookups_before_joining_wait_and_those_of_a_stopped_node_end():
    async with overlay(1, CHORD) as (first,):
        late = Node(CHORD, bootstrap=[first])
        await late.member.start(late.socket)
        waiting = asyncio.create_task(late.member.find_owners(7))
        again = asyncio.create_task(late.member.find_owners(7))
        await asyncio.sleep(0)
        assert not waiting.done()
        late.spawn(late.member.run(), "run")
        assert {contact.key for contact in (await waiting).contacts} <= {first.key, late.key}
        assert (await again) == (await waiting)
        early, never = Node(CHORD, bootstrap=[first]), 8
        await early.member.start(early.socket)
        unanswered = asyncio.create_task(early.member.find_owners(never))
        await asyncio.sleep(0)
        early.member.stop()
        assert (await unanswered).contacts == (await early.member.find_owners(never)).contacts == ()
        await late.crash()
        await early.crash()


async def test_two_peers_of_one_position_are_not_let_into_one_ring(capsys):
    async with overlay(2, CHORD) as (first, second):
        await until(lambda: all_know_all([first, second]))
        first.named = Node(CHORD, bootstrap=[first], name=b"twin")
        second.named = Node(CHORD, bootstrap=[second], name=b"twin")
        await first.named.start()
        await until(lambda: first.named.member._machine.member)
        await until(lambda: all_know_all([first, second, first.named]))
        await second.named.start()
        try:
            taken = second.named.member._machine._talk.counts
            await until(lambda: taken.get("position_taken", 0) and not second.named.member._machine.member)
            assert "position_taken" in capsys.readouterr().out
            assert first.named.member.contact in second.member.contacts()
        finally:
            await first.named.crash()
            await second.named.crash()


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"\x91" * 2000, b"\x00" * 40, msgpack.packb({"a": 1}), encode(Ping(1))[:-1]]
)
async def test_a_bad_message_of_a_member_is_refused(payload):
    """Sealed with the right key, and still refused without an answer or an unhandled error."""
    async with overlay(1, CHORD) as (node,):
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        before = node.member.status()["routing"]
        other = envelopes.Envelopes(Keyring([CHORD.seal_key]), 5, "chord")
        node.member._datagrams.datagram_received(other.seal(payload, node.key), ("127.0.0.1", 9))
        assert node.member.status()["datagrams_refused"]["malformed"] == 1
        assert node.member.status()["routing"] == before
        assert failures == []


async def test_strangers_are_pinged_in_bounded_numbers():
    async with overlay(1, dataclasses.replace(CHORD, ping_timeout_seconds=5)) as (node,):
        await until(lambda: node.member._machine.member)
        other = envelopes.Envelopes(Keyring([CHORD.seal_key]), 5, "chord")
        for number in range(1, 1000):
            message = Notify() if number % 2 else FindOwners(number, 7)
            node.member._datagrams.datagram_received(other.seal(encode(message, number), node.key), ("127.0.0.1", 9))
        assert node.member.status()["routing"]["questions"] <= 64 + 2
        assert node.known == set()


@pytest.mark.parametrize("configs", [(CHORD, QUICK), (QUICK, CHORD)], ids=["chord first", "kademlia first"])
async def test_a_node_of_the_other_overlay_is_distinguished_from_a_silent_one(configs, capsys):
    first = Node(configs[0])
    second = Node(configs[1], bootstrap=[first])
    await first.start()
    await second.start()
    try:
        await until(lambda: all(node.member.status()["datagrams_refused"]["overlay"] for node in (first, second)))
        out = capsys.readouterr().out
        for node in (first, second):
            overlays = [config.overlay for config in configs]
            own = node.environment.config.overlay
            theirs = overlays[1 - overlays.index(own)]
            assert f"this node is of a {own} overlay, the node there of {theirs}" in out
        assert out.count("overlay_mismatch") == 2, "once for each address"
        assert first.known == second.known == set()
    finally:
        await first.crash()
        await second.crash()


def test_mismatches_are_logged_once_a_minute_for_each_address_and_notices_not_answered(capsys, monkeypatch):
    ring = Keyring([bytes(32)])
    ours, theirs = (envelopes.Envelopes(ring, key, overlay) for key, overlay in ((1, "chord"), (2, "kademlia")))
    notices = []
    for number in range(1000):
        assert ours.open(theirs.seal(b"x", 0), (f"10.0.{number // 100 % 4}.1", 9), notices.append) is None
    assert len(notices) == 1000
    assert capsys.readouterr().out.count("overlay_mismatch") == 4
    assert theirs.open(notices[0], ("10.0.0.1", 9), notices.append) is None
    assert len(notices) == 1000
    assert ours.refused["overlay"] == 1000
    assert theirs.refused["overlay"] == 1
    strange = ours._seal(b"?", 2)
    theirs.open(strange, ("10.9.0.1", 9), notices.append)
    assert "the node there of unknown" in capsys.readouterr().out
    for number in range(1000):
        ours._log_mismatch("kademlia", (f"10.1.0.{number}", 9))
    assert len(ours._logged_at) <= 256
