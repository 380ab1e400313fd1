"""Counted hops are those of messages: of tables and lookups step by step, and of a world that really sends."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.overlay.chord_lookup import ChordTable, Lookup, ahead
from p2prdf.peer import PeerConfig
from p2prdf.sim.ideal_tables import chord_tables
from p2prdf.sim.ring import Ring
from p2prdf.sim.world import Node, World, WorldOptions
from p2prdf.wire.messages import Contact, Envelope, IndexTriples
from p2prdf_lab.fleets import finger_hops
from p2prdf_lab.fleets.finger_hops import finger_table, lookup_hops, multisend_hops

SIZES = [1, 2, 3, 7, 64, 200]


class Case:
    """A ring, and keys in batches that each start at one of its peers."""

    def __init__(self, size: int, batches: int = 30, each: int = 9, bits: int = 64):
        random = Random(size)
        contacts: dict[int, Contact] = {}
        while len(contacts) < size:
            key = random.getrandbits(bits) << 64 - bits
            contacts[key] = Contact(key, "peer.example", 1)
        self.ring = Ring(contacts.values(), "chord")
        self.contacts = list(self.ring)
        self.positions = np.array([contact.key for contact in self.contacts], np.uint64)
        self.batch = np.repeat(np.arange(batches) * 5, each)
        self.source = np.repeat([random.randrange(size) for _ in range(batches)], each)
        near = [(contact.key + step) % 2**64 for contact in self.contacts for step in (-1, 0, 1)]
        some = [random.choice(near) if random.random() < 0.3 else random.getrandbits(64) for _ in self.batch]
        self.keys = np.array(some, np.uint64)
        self.tables = chord_tables(self.contacts, 1)

    def way(self, source: int, key: int) -> list[tuple[int, int]]:
        """The transfers of one key, peer by peer."""
        here, owner, transfers = self.contacts[source], self.ring.owner(key), []
        while here != owner:
            there = onward(self.tables[here.key], key)
            transfers.append((here.key, there.key))
            here = there
        return transfers


def onward(table: ChordTable, key: int) -> Contact:
    """The last contact before the key, or the successor."""
    distance = ahead(table.own.key, key)
    before = [contact for contact in table.contacts() if ahead(table.own.key, contact.key) < distance]
    return before[-1] if before else table.successors[0]


@pytest.fixture(params=[*SIZES, "crowded"])
def case(request) -> Case:
    """Rings of all sizes, and one of neighbours a step apart."""
    return Case(40, bits=6) if request.param == "crowded" else Case(request.param)


def test_paths_and_shared_edges_are_those_of_the_tables(case: Case):
    ways = [case.way(int(source), int(key)) for source, key in zip(case.source, case.keys, strict=True)]
    hops, shared = multisend_hops(case.positions, case.source, case.keys, case.batch)
    assert hops.tolist() == [len(way) for way in ways]
    edges = {(batch, *edge) for batch, way in zip(case.batch.tolist(), ways, strict=True) for edge in way}
    assert shared == len(edges)


def test_neither_order_nor_portions_nor_a_table_made_before_change_a_count(case: Case, monkeypatch):
    expected, shared = multisend_hops(case.positions, case.source, case.keys, case.batch)
    order = np.random.default_rng(1).permutation(len(case.keys))
    monkeypatch.setattr(finger_hops, "_CHUNK", 20)
    hops, again = multisend_hops(
        case.positions, case.source[order], case.keys[order], case.batch[order], finger_table(case.positions)
    )
    assert hops.tolist() == expected[order].tolist()
    assert again == shared
    looked_up = lookup_hops(case.positions, case.source, case.keys)
    assert looked_up.tolist() == [2 * own - 1 if own else 0 for own in expected.tolist()]


def test_a_lookup_and_a_send_cost_the_requests_of_the_lookup_machine(case: Case):
    counted = lookup_hops(case.positions, case.source, case.keys, finger_table(case.positions))
    for source, key, transfers in zip(case.source, case.keys.tolist(), counted.tolist(), strict=True):
        own = case.contacts[source]
        if case.ring.owner(key) == own:
            assert transfers == 0  # it knows its predecessor, and looks nothing up
            continue
        lookup = Lookup(key, own, case.tables[own.key], count=1)
        while not lookup.done:
            for asked in lookup.requests():
                lookup.answered(asked, case.tables[asked.key].answer(key))
        assert lookup.result == (case.ring.owner(key),)
        assert transfers == 2 * lookup.asked + 1


def test_no_keys_need_no_hops():
    nothing = np.empty(0, np.int64)
    case = Case(7)
    hops, shared = multisend_hops(case.positions, nothing, nothing.astype(np.uint64), nothing)
    assert (hops.tolist(), shared) == ([], 0)
    assert lookup_hops(case.positions, nothing, nothing.astype(np.uint64)).tolist() == []


def test_logarithms_are_exact_next_to_powers_of_two():
    numbers = sorted({max(1, (1 << bit) + step) for bit in range(1, 64) for step in (-1, 0, 1)} | {2**64 - 1})
    logarithms = finger_hops._log2(np.array(numbers, np.uint64))
    assert logarithms.tolist() == [number.bit_length() - 1 for number in numbers]


@pytest.mark.parametrize("peers", [3, 40, 150])
def test_a_world_sends_the_counted_messages(peers: int):
    """Peers without address cache and with successor lists of one: each list once, each row on its own way."""
    config = PeerConfig(indexes="csbv", multisend="recursive", address_cache=False)
    world = World(WorldOptions(peers=peers, seed=3, overlay="chord", bucket=1, config=config))
    sent: list[int] = []

    def tap(_: Node, envelope: Envelope) -> Envelope:
        if isinstance(envelope.message, IndexTriples):
            sent.append(sum(bits.bit_count() for bits in as_list(envelope.message.roles)))
        return envelope

    world.tap = tap
    positions = np.array([contact.key for contact in world.ring], np.uint64)
    for number in range(12):
        triples = [(f"<urn:s{number + at}>", f"<urn:p{at % 2}>", f'"{at}"') for at in range(number + 1)]
        publisher = world.nodes[number % peers]
        ring = [
            int(keys.role_key(role, *(keys.term_hash(term) for term in triple)))
            for triple in triples for role in range(1, 8)
        ]  # fmt: skip
        source = np.full(len(ring), np.searchsorted(positions, np.uint64(publisher.contact.key)))
        hops, shared = multisend_hops(positions, source, np.array(ring, np.uint64), np.zeros(len(ring), np.int64))
        sent.clear()
        world.publish(0.0, publisher.index, triples)
        world.run_until_quiet()
        assert len(sent) == shared
        assert sum(sent) == hops.sum()
    assert world.counts.lookups == 0
