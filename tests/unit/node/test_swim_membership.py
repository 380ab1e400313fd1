"""Members of a view in particular: packets, joining, rapid probes, clocks, and the limits of strangers."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import time

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlay_nodes import QUICK, VIEW, Node, all_know_all, overlay, until

from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.swim_messages import (
    BUCKETS,
    GOSSIP_BYTES_MAX,
    Answer,
    Gossip,
    OtherTime,
    Packet,
    Probe,
    ProbeReport,
    ProbeRequest,
    PushPull,
    Record,
    State,
    SyncStates,
)
from p2prdf.overlay.swim_table import pages
from p2prdf.wire.contract import OwnersFound
from p2prdf.wire.datagrams import DATAGRAM_BYTES_MAX, decode, encode
from p2prdf.wire.messages import Contact
from p2prdf_node import envelopes, members, seeds, swim_membership
from p2prdf_node.seal import Keyring

# --- packets -------------------------------------------------------------------------------------

U64 = (1 << 64) - 1
hosts = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
contacts = st.builds(Contact, st.integers(0, U64), hosts, st.integers(1, 65_535))
zones = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=63)
records = st.builds(Record, contacts, zones, st.integers(0, (1 << 62) - 1), st.sampled_from(State))
numbers = st.integers(0, U64)
messages = st.one_of(
    st.builds(Probe, numbers), st.builds(Answer, numbers), st.builds(ProbeRequest, numbers, contacts),
    st.builds(ProbeReport, numbers, st.booleans()), st.just(Gossip()), st.just(SyncStates()),
    st.builds(OtherTime, numbers, numbers), st.builds(PushPull, st.tuples(*[numbers] * BUCKETS), st.booleans()),
)  # fmt: skip
packets = st.builds(Packet, records, numbers, messages, st.lists(records, max_size=6).map(tuple))


@settings(deadline=None)
@given(packets)
def test_an_encoded_packet_is_decoded(packet):
    assert decode(encode(packet), Packet) == packet


@settings(deadline=None)
@given(packets, st.data())
def test_damaged_packets_are_refused_or_are_packets(packet, data):
    body = bytearray(encode(packet))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(decode(bytes(body), Packet), Packet)
    except RemoteProtocolError as error:
        assert str(error).startswith("not a message of a membership: ")  # noqa: PT017 - or it is a packet


def test_the_longest_packets_fit_into_a_datagram():
    longest = Record(Contact(U64, "2001:db8:1111:2222:3333:4444:5555:6666", 65_535), "z" * 63, 1 << 61, State.LEFT)
    (first, *_) = pages([longest] * 50)
    assert sum(record.bytes for record in first) <= GOSSIP_BYTES_MAX
    shortest = dataclasses.replace(longest, zone="", contact=Contact(U64, "::1", 65_535))
    (many, *_) = pages([shortest] * 50)
    for gossip, message in (
        (first, SyncStates()),
        (many, SyncStates()),
        (first[:-3], PushPull((U64,) * BUCKETS, reply=True)),
        (first, ProbeRequest(U64, longest.contact)),
    ):
        room = GOSSIP_BYTES_MAX - (288 if isinstance(message, PushPull) else 0)
        assert sum(record.bytes for record in gossip) <= room
        assert len(encode(Packet(longest, U64, message, gossip))) <= DATAGRAM_BYTES_MAX


# --- the way in ----------------------------------------------------------------------------------


async def test_the_first_node_begins_a_view_at_once_and_learns_that_it_is_complete():
    async with overlay(1, VIEW) as (node,):
        await until(lambda: node.found, seconds=0.5)
        assert node.found == [OwnersFound(node.key, (node.member.contact,), complete=True)]
        assert await node.member.find_owners(7) == OwnersFound(7, (node.member.contact,), complete=True)


async def test_a_node_that_is_its_own_only_bootstrap_is_the_first():
    node = Node(VIEW)
    node.join_by([node])
    await node.start()
    try:
        await until(lambda: node.found, seconds=0.5)
        await until(lambda: node.seeds_reached, seconds=0.5)
    finally:
        await node.crash()


async def test_a_node_knows_when_all_its_seeds_are_in_its_view():
    first, second, third = nodes = [Node(VIEW) for _ in range(3)]
    second.join_by([first, third])
    third.join_by([first, second, third])
    try:
        await first.start()
        await second.start()
        await until(lambda: all_know_all(nodes[:2]))
        assert not second.seeds_reached
        await third.start()
        await until(lambda: second.seeds_reached and third.seeds_reached)
        assert not first.seeds_reached, "it was told of nobody"
        assert all_know_all(nodes)
    finally:
        for node in nodes:
            if node.member._datagrams._transport is not None:
                await node.crash()


async def test_nodes_that_bootstrap_by_each_other_do_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(members, "CREATE_SECONDS", 0.2)
    monkeypatch.setattr(members, "RETRY_SECONDS_MAX", 0.2)
    nodes = [Node(VIEW) for _ in range(3)]
    for place, node in enumerate(nodes):
        node.join_by([nodes[place - 1]])
    for node in nodes:
        await node.start()
    try:
        await until(lambda: all_know_all(nodes))
    finally:
        for node in nodes:
            await node.crash()


@pytest.fixture
def names(monkeypatch):
    """Addresses by host name, as a resolver knows them now; other names do not resolve."""
    known = {}

    async def look_up(host, port, family):
        if host not in known:
            raise socket.gaierror(f"{host}: Name or service not known")
        return [("127.0.0.1", known[host])]

    monkeypatch.setattr(seeds, "look_up", look_up)
    monkeypatch.setattr(members, "CREATE_SECONDS", 0.1)
    monkeypatch.setattr(members, "RETRY_SECONDS_UNREACHED", 0.1)
    return known


def named(config, *hosts):
    node = Node(config)
    node.bootstrap(*(f"{host}:7400" for host in hosts))
    return node


async def greeted(node, times):
    """Wait until a node has tried its bootstrap addresses a number of times more."""
    greet, tried = node.member._ping_seeds, []

    async def watched():
        tried.append(await greet())
        return tried[-1]

    node.member._ping_seeds = watched
    await until(lambda: len(tried) >= times)


async def test_nodes_with_unresolved_seeds_begin_no_view_and_form_one_when_they_resolve(names):
    hosts = ["n0.peers", "n1.peers", "n2.peers"]
    nodes = [named(VIEW, *hosts) for _ in hosts]
    try:
        for node in nodes:
            await node.start()
        await asyncio.gather(*(greeted(node, 10) for node in nodes))
        for node in nodes:
            assert not node.found
            assert not node.member.entered.is_set()
            assert "n1.peers:7400 (the name does not resolve: " in node.member.joining
            assert node.member.status()["joining"] == node.member.joining
        names.update(zip(hosts, (node.port for node in nodes), strict=True))
        await until(lambda: all_know_all(nodes))
        assert [node.member.joining for node in nodes] == [None] * 3
    finally:
        for node in nodes:
            await node.crash()


async def test_names_that_resolve_at_some_nodes_alone_make_one_cluster_which_the_others_join_later(names, monkeypatch):
    """Two of three nodes reach each other; the third one has no resolver and begins nothing meanwhile."""
    hosts = ["n0.peers", "n1.peers", "n2.peers"]
    nodes = [named(VIEW, *hosts) for _ in hosts]
    names.update({host: node.port for host, node in zip(hosts[:2], nodes, strict=False)})
    late = nodes[2].member._seeds

    async def unresolved():
        late.unresolved = len(hosts)
        return []

    monkeypatch.setattr(late, "addresses", unresolved)
    try:
        for node in nodes:
            await node.start()
        await until(lambda: all_know_all(nodes[:2]))
        await greeted(nodes[2], 5)
        assert nodes[2].member.joining is not None
        assert not nodes[2].entered
        names["n2.peers"] = nodes[2].port
        await until(lambda: all_know_all(nodes))
        assert [node.entered for node in nodes] == [1, 1, 1]
    finally:
        for node in nodes:
            await node.crash()


async def test_a_name_that_resolves_to_the_node_alone_does_not_make_it_the_first(names):
    node = named(VIEW, "peers")
    names["peers"] = node.port
    await node.start()
    try:
        await greeted(node, 10)
        assert not node.found
    finally:
        await node.crash()


@pytest.mark.parametrize("remembered", [1, 3])
async def test_first_begins_a_view_alone_unless_the_node_remembers_other_members(names, remembered):
    node = named(dataclasses.replace(VIEW, first=True), "n1.peers")
    node.environment.remembered = lambda: remembered
    await node.start()
    try:
        if remembered == 1:
            await until(lambda: node.found)
            assert node.seeds_reached, "the peer may take itself for the first of a cluster"
        else:
            await greeted(node, 10)
            assert not node.found
    finally:
        await node.crash()


async def test_a_node_that_reaches_nobody_joins_by_a_node_that_reaches_it(names):
    """The first bootstrap address is gone for good, and the second one is this node's own."""
    first, second = named(VIEW, "n0.peers", "n1.peers"), named(VIEW, "n1.peers")
    names["n1.peers"] = first.port
    for node in (first, second):
        await node.start()
    try:
        await until(lambda: all_know_all([first, second]))
    finally:
        for node in (first, second):
            await node.crash()


async def test_lookups_that_get_no_answer_are_bounded(monkeypatch):
    asked = []

    async def look_up(host, port, family):
        asked.append(host)
        await asyncio.Event().wait()

    monkeypatch.setattr(seeds, "look_up", look_up)
    monkeypatch.setattr(seeds, "RESOLVE_SECONDS", 0.01)
    doors = seeds.Seeds(("n0.peers:7400", "n1.peers:7400"))
    for _ in range(10):
        assert await doors.addresses() == []
    assert len(asked) == 2 * seeds.LOOKUPS_MAX
    assert doors.reasons["n1.peers:7400"].endswith("no answer in time")
    for lookup in [each for lookups in doors._lookups.values() for each in lookups]:
        lookup.cancel()


@pytest.fixture
async def starting(monkeypatch):
    """Three nodes that have each other as seeds, and would wait for long before they begin a view without them."""
    monkeypatch.setattr(members, "CREATE_SECONDS", 60.0)
    nodes = sorted((Node(VIEW) for _ in range(3)), key=lambda node: node.key)
    for node in nodes:
        node.join_by(nodes)
    yield nodes
    for node in nodes:
        if node.member._datagrams._transport is None:
            node.socket.close()
            node.door.close()
        else:
            await node.crash()


async def test_of_nodes_that_all_start_at_once_the_lowest_begins_a_view_when_all_answer(starting, capsys):
    for node in starting:
        await node.start()
    await until(lambda: all_know_all(starting))
    assert capsys.readouterr().out.count("overlay_begun") == 1
    assert all(node.found for node in starting)


async def test_no_node_begins_a_view_early_while_a_seed_is_silent(starting):
    lowest, middle, highest = starting
    met = []
    greet = lowest.member._ping_seeds

    async def watched():
        met.append(await greet())
        return met[-1]

    lowest.member._ping_seeds = watched
    await lowest.start()
    await middle.start()
    await until(lambda: met.count("a majority") >= 4)
    assert not lowest.found
    assert not middle.found
    await highest.start()
    await until(lambda: all_know_all(starting))
    assert "only higher keys" in met


async def test_all_members_are_reported_with_their_zones_before_the_view_is_complete():
    """The peer gets each contact, and once the whole ring."""
    nodes = [Node(dataclasses.replace(VIEW, zone="z0"))]
    nodes += [Node(dataclasses.replace(VIEW, zone=f"z{number}"), bootstrap=nodes[:1]) for number in range(1, 5)]
    try:
        for node in nodes:
            await node.start()
            await until(lambda node=node: node.found)
        for number, node in enumerate(nodes):
            (found,) = node.found
            assert found.complete
            assert len(found.contacts) >= number + 1
        await until(lambda: all_know_all(nodes))
        for node in nodes:
            others = {other.key: f"z{number}" for number, other in enumerate(nodes) if other is not node}
            assert node.zones == others
            found = await node.member.find_owners(12345)
            assert {contact.key for contact in found.contacts} == {node.key, *others}
    finally:
        for node in nodes:
            await node.crash()


async def test_lookups_wait_for_the_view_and_those_of_a_stopped_node_end():
    async with overlay(1, VIEW) as (first,):
        late = Node(VIEW, bootstrap=[first])
        await late.member.start(late.socket)
        waiting = asyncio.create_task(late.member.find_owners(7))
        await asyncio.sleep(0)
        assert not waiting.done()
        late.spawn(late.member.run(), "run")
        assert {contact.key for contact in (await waiting).contacts} == {first.key, late.key}
        early = Node(VIEW, bootstrap=[first])
        await early.member.start(early.socket)
        unanswered = asyncio.create_task(early.member.find_owners(8))
        await asyncio.sleep(0)
        early.member.stop()
        assert (await unanswered).contacts == (await early.member.find_owners(8)).contacts == ()
        await late.crash()
        await early.crash()


async def test_two_peers_of_one_position_are_not_let_into_one_view(capsys):
    async with overlay(2, VIEW) as (first, second):
        await until(lambda: all_know_all([first, second]))
        one, twin = (Node(VIEW, bootstrap=[other], name=b"twin") for other in (first, second))
        await one.start()
        await until(lambda: all_know_all([first, second, one]))
        await twin.start()
        try:
            await until(lambda: twin.member.fenced)
            assert "another live node" in twin.member.fenced
            assert "position_taken" in capsys.readouterr().out
            assert one.member.contact in second.member.contacts()
            assert first.member.fenced is None
        finally:
            await one.crash()
            await twin.crash()


# --- TCP probes and clocks -----------------------------------------------------------------------


async def test_a_refused_connection_is_death_at_once_and_a_port_that_listens_is_time_to_object():
    config = dataclasses.replace(VIEW, ping_seconds=0.5, ping_timeout_seconds=0.1, ping_strikes=20)
    async with overlay(3, config) as nodes:
        await until(lambda: all_know_all(nodes))
        nodes[2].door.listen()  # its kernel accepts for it
        await nodes[2].crash(door_open=True)
        nodes[0].member.suspect(nodes[2].key)
        await asyncio.sleep(0.4)
        assert nodes[2].key in nodes[0].known
        nodes[2].door.close()
        asked_at = time.monotonic()
        nodes[0].member.suspect(nodes[2].key)
        await until(lambda: nodes[2].key not in nodes[0].known)
        assert time.monotonic() - asked_at < 2, "not ten seconds"
        await until(lambda: nodes[2].key not in nodes[1].known, seconds=2)
        assert nodes[0].member._tcp_probes == {}


async def test_a_node_with_a_wrong_clock_fences_itself_and_the_others_do_not():
    nodes = [Node(VIEW)]
    nodes += [Node(VIEW, bootstrap=nodes[:1]) for _ in range(3)]
    right = nodes[3].environment.clock
    nodes[3].environment.clock = lambda: right() + 0.7
    try:
        for node in nodes:
            await node.start()
        await until(lambda: all_know_all(nodes) and nodes[3].member.fenced)
        assert "this node's clock differs" in nodes[3].member.fenced
        assert [node.member.fenced for node in nodes[:3]] == [None] * 3
        status = nodes[3].member.status()
        assert status["fenced"] == nodes[3].member.fenced
        measured = [each["offset_seconds"] for each in status["members"] if each["offset_seconds"] is not None]
        assert measured == pytest.approx([-0.7] * len(measured), abs=0.1)
        assert measured
    finally:
        for node in nodes:
            await node.crash()


def with_clocks(*aheads):
    """Make nodes with clocks that are ahead by some seconds, which join by the first two."""
    nodes = [Node(VIEW) for _ in aheads]
    for node, ahead in zip(nodes, aheads, strict=True):
        right = node.environment.clock
        node.environment.clock = lambda right=right, ahead=ahead: right() + ahead
        node.join_by(nodes[:2])
    nodes[0].join_by([])
    return nodes


@pytest.mark.parametrize("hour", [3600.0, -3600.0])
async def test_the_smaller_of_two_views_of_different_times_is_fenced_and_the_larger_one_is_not(hour):
    nodes = with_clocks(0.0, hour, 0.0, 0.0, hour)
    right, wrong = [nodes[0], *nodes[2:4]], [nodes[1], nodes[4]]
    nodes[1].join_by([])  # it begins a view of its own, as a former incarnation that knew the others may have
    try:
        for node in nodes:
            await node.start()
        await until(lambda: all_know_all(right) and all_know_all(wrong))
        await until(lambda: all("3 nodes of its time, this node 2" in (node.member.fenced or "") for node in wrong))
        assert "3600 s" in wrong[0].member.fenced
        await until(lambda: [node.member.fenced for node in right] == [None] * 3)
        strangers = wrong[0].member.status()["strangers"]
        assert [each["offset_seconds"] for each in strangers] == pytest.approx([-hour] * len(strangers), abs=0.5)
        assert wrong[0].member.status()["clock_suspect"]
        for node in wrong:
            await node.crash()
        again = Node(VIEW, bootstrap=[right[0]])
        nodes.append(again)
        await again.start()
        await until(lambda: all_know_all([*right, again]))
        assert again.member.fenced is None, "it starts with a right clock, and serves at once"
    finally:
        for node in nodes:
            await node.crash()


async def test_a_node_with_few_of_the_members_that_it_remembers_waits_for_those_of_another_time(monkeypatch):
    nodes = [Node(VIEW)]
    nodes += [Node(VIEW, bootstrap=nodes[:1]) for _ in range(2)]
    for node in nodes:
        node.environment.remembered = lambda: 5
    try:
        for node in nodes[:2]:
            await node.start()
        await until(lambda: all_know_all(nodes[:2]))
        assert "sees 2 of 5 remembered nodes" in nodes[0].member.fenced
        await nodes[2].start()
        await until(lambda: all_know_all(nodes))
        assert [node.member.fenced for node in nodes] == [None] * 3, "more than half of them are here"
        await nodes[2].crash()
        await until(lambda: all_know_all(nodes[:2]))
        assert nodes[0].member.fenced
        monkeypatch.setattr(swim_membership, "FEW_SECONDS", 0.0)
        assert nodes[0].member.fenced is None
    finally:
        for node in nodes:
            await node.crash()


async def test_of_two_views_of_one_size_both_are_fenced_and_of_two_lone_nodes_too():
    nodes = with_clocks(0.0, 3600.0)
    nodes[1].join_by([nodes[0], nodes[1]])
    nodes[1].environment.config = dataclasses.replace(nodes[1].environment.config, first=True)
    try:
        for node in nodes:
            await node.start()
        await until(lambda: all(node.member.fenced for node in nodes))
        assert "ahead of this node's" in nodes[0].member.fenced
        assert "behind this node's" in nodes[1].member.fenced
    finally:
        for node in nodes:
            await node.crash()


async def test_a_newcomer_with_a_wrong_clock_joins_nobody_says_so_and_fences_nobody():
    nodes = with_clocks(0.0, 3600.0)
    nodes[1].join_by([nodes[0]])
    try:
        for node in nodes:
            await node.start()
        await until(lambda: nodes[1].member.joining and "behind this node's" in nodes[1].member.joining)
        assert nodes[0].member.fenced is None
        assert not nodes[1].found
    finally:
        for node in nodes:
            await node.crash()


async def test_copies_of_old_datagrams_fence_nobody():
    async with overlay(1, VIEW) as (node,):
        await until(lambda: node.found)
        old = envelopes.Envelopes(Keyring([VIEW.seal_key]), 5, "kademlia view", lambda: time.time() - 60)
        for message in (Probe(7), Answer(7), OtherTime(7, 9), Gossip()):
            packet = Packet(SELF, int((time.time() - 60) * 1e6), message, ())
            receive(node, old.seal(encode(packet), 0))
            receive(node, old.seal(b"\xc1" + encode(packet), 0))
        assert node.member.status()["datagrams_refused"]["time"] == 8
        assert node.member.status()["datagrams_refused"]["malformed"] == 0
        await until(lambda: not node.member._datagrams._questions)
        assert node.member.fenced is None
        assert node.member.status()["strangers"] == []


async def test_another_time_counts_only_for_a_question_that_is_not_answered():
    """A copy of the question, sent too late, makes the asked member answer once more, by its time."""
    async with overlay(1, VIEW) as (node,):
        await until(lambda: node.found)
        other = envelopes.Envelopes(Keyring([VIEW.seal_key]), 5, "kademlia view")
        datagrams = node.member._datagrams
        asking = asyncio.create_task(node.member._ping(("127.0.0.1", 9)))
        await asyncio.sleep(0)
        (number,) = datagrams._questions
        for answer in (Answer(number), OtherTime(number, 9)):
            receive(node, other.seal(encode(Packet(SELF, int(time.time() * 1e6), answer, ())), node.key))
        assert (await asking).message == Answer(number)
        assert node.member.status()["strangers"] == []
        assert node.member.fenced is None


def receive(node, datagram):
    node.member._datagrams.datagram_received(datagram, ("127.0.0.1", 9))


# --- strangers -----------------------------------------------------------------------------------

SELF = Record(Contact(5, "127.0.0.1", 9), "", 1 << 40, State.ALIVE)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x91" * 2000,
        b"\x00" * 40,
        encode(Packet(SELF, 0, Probe(1), ()))[:-1],
        encode(Packet(dataclasses.replace(SELF, contact=Contact(5, "127.0.0.1", 0)), 0, Probe(1), ())),
        encode(Packet(dataclasses.replace(SELF, contact=Contact(5, "nowhere", 9)), 0, Probe(1), ())),
        encode(Packet(dataclasses.replace(SELF, zone="z" * 64), 0, Probe(1), ())),
        encode(Packet(dataclasses.replace(SELF, incarnation=1 << 63), 0, Probe(1), ())),
        msgpack.packb([5, [[5, "127.0.0.1", 9], "", 1 << 40, 0], 0, [], [1, 2], False]),
    ],
)
async def test_a_bad_packet_of_a_member_is_refused(payload):
    """Sealed with the right key, and still refused without an answer or an unhandled error."""
    async with overlay(1, VIEW) as (node,):
        await until(lambda: node.found)
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        other = envelopes.Envelopes(Keyring([VIEW.seal_key]), 5, "kademlia view")
        receive(node, other.seal(payload, node.key))
        assert node.member.status()["datagrams_refused"]["malformed"] == 1
        assert node.known == set()
        assert failures == []


async def test_gossip_of_members_about_others_is_bounded_by_the_view():
    async with overlay(1, VIEW) as (node,):
        await until(lambda: node.found)
        other = envelopes.Envelopes(Keyring([VIEW.seal_key]), 5, "kademlia view")
        for first in range(1, 1500, 15):
            gossip = tuple(
                Record(Contact(number << 20, "127.0.0.1", 9), "", 1 << 40, State.ALIVE)
                for number in range(first, first + 15)
            )
            packet = Packet(SELF, 0, Gossip(), gossip)
            receive(node, other.seal(encode(packet), node.key))
        assert len(node.known) == 999
        assert "more nodes than a view can hold" in node.member.fenced
        assert (await node.member.find_owners(7)).contacts == ()
        assert len(node.member._tcp_probes) <= swim_membership.TCP_PROBES_MAX


@pytest.mark.parametrize("configs", [(VIEW, QUICK), (QUICK, VIEW)], ids=["view first", "overlay first"])
async def test_a_node_without_a_view_is_distinguished_from_a_silent_one(configs, capsys):
    first = Node(configs[0])
    second = Node(configs[1], bootstrap=[first])
    await first.start()
    await second.start()
    try:
        await until(lambda: all(node.member.status()["datagrams_refused"]["overlay"] for node in (first, second)))
        out = capsys.readouterr().out
        assert "setting membership: it is view for this node, for the node there overlay" in out
        assert "setting membership: it is overlay for this node, for the node there view" in out
        assert first.known == second.known == set()
    finally:
        await first.crash()
        await second.crash()
