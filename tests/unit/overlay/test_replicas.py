"""Replica sets against a full sort of all peers, written here once more and as plainly as can be."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.overlay.address_cache import AddressCache
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.wire.messages import Contact

RING = 1 << 64
METRICS = ["kademlia", "chord"]

Peers = list[tuple[int, int, str]]


def full_sort(peers: Peers, metric: str, replicas: int, key: int) -> tuple[int, ...]:
    """The closest peer of each zone, in order of closeness; then the closest of the others."""

    def distance(peer: tuple[int, int, str]) -> int:
        return peer[0] ^ key if metric == "kademlia" else (peer[0] - key) % RING

    first: Peers = []
    others: Peers = []
    zones: set[str] = set()
    for peer in sorted(peers, key=distance):
        (others if peer[2] and peer[2] in zones else first).append(peer)
        zones.add(peer[2])
    return tuple(number for _, number, _ in (first + others)[:replicas])


@st.composite
def rings(draw: st.DrawFn) -> tuple[Peers, list[int]]:
    """Peers anywhere, or crowded into small spaces, in any zones; and keys on, beside and between them."""
    bits, shift = draw(st.sampled_from([(64, 0), (8, 56), (5, 59), (8, 0), (9, 30)]))
    prefix = draw(st.sampled_from([0, 0xAB << 56])) if shift + bits < 57 else 0
    size = draw(st.one_of(st.integers(1, 9), st.integers(1, 200)))
    random = Random(draw(st.integers(0, 1 << 30)))
    positions = list(dict.fromkeys(random.getrandbits(bits) << shift | prefix for _ in range(size)))
    names = draw(st.sampled_from([[""], ["a"], ["a", "b"], ["a", "b", "c"], ["", "a", "b"], list("abcdefghij")]))
    by_block = draw(st.booleans())  # neighbours in one zone, or all mixed
    numbers = random.sample(range(1000), len(positions))
    peers = [
        (position, number, names[position * len(names) // RING] if by_block else random.choice(names))
        for position, number in zip(positions, numbers, strict=True)
    ]
    if draw(st.booleans()) and names != [""]:  # one peer alone in its zone
        peers[0] = (*peers[0][:2], "alone")
    near = [(position + step) % RING for position in positions[:8] for step in (-1, 0, 1)]
    return peers, [0, RING - 1, *near, *(random.getrandbits(64) for _ in range(20))]


@settings(max_examples=600, deadline=None)
@given(rings(), st.sampled_from(METRICS), st.integers(1, 5))
def test_the_replica_set_equals_a_full_sort(ring, metric, replicas):
    peers, keys = ring
    truth = [full_sort(peers, metric, replicas, key) for key in keys]
    found = ReplicaMap(peers, metric, replicas)
    assert found.list(keys) == truth
    assert [found.ranks(key) for key in keys] == truth
    column = found.column(np.array(keys, np.uint64))
    assert column.dtype == np.int64
    assert column.tolist() == [[*row, *[-1] * (replicas - len(row))] for row in truth]


@settings(max_examples=100, deadline=None)
@given(rings(), st.sampled_from(METRICS), st.integers(1, 4), st.data())
def test_replicas_by_peer_agree_with_the_rows(ring, metric, replicas, data):
    peers, keys = ring
    found = ReplicaMap(peers, metric, replicas)
    number, other = (data.draw(st.sampled_from([number for _, number, _ in peers])) for _ in range(2))
    rows, column = found.list(keys), np.array(keys, np.uint64)
    assert found.primaries(column).tolist() == [row[0] for row in rows]
    assert found.holds(column, number).tolist() == [number in row for row in rows]
    kept = found.kept(number) & found.kept(other)
    assert kept[found.stretches(column)].tolist() == [number in row and other in row for row in rows]
    for row in rows:
        for rank in row:
            assert set(row) <= {rank, *found.fellows(rank)}
            assert all(found.shares(rank, each) for each in row)


@pytest.mark.parametrize("metric", METRICS)
def test_the_primary_is_the_owner_and_zones_do_not_change_that(metric):
    random = Random(5)
    peers = [(random.getrandbits(64), number, random.choice("ab")) for number in range(300)]
    cache = AddressCache(Contact(peers[0][0], "peer.example", 1), metric)
    cache.learn(0, [Contact(key, "peer.example", 1) for key, _, _ in peers], complete=True)
    keys = [random.getrandbits(64) for _ in range(2000)]
    owners = [cache.contact(number).key for number in cache.proven_list(keys)]
    found = ReplicaMap(peers, metric, 3)
    assert [peers[row[0]][0] for row in found.list(keys)] == owners


@pytest.mark.parametrize("metric", METRICS)
def test_the_three_of_a_row_are_of_three_zones_where_three_exist(metric):
    peers = [(number << 56, number, "abc"[number >> 6] if number < 192 else "a") for number in range(256)]
    found = ReplicaMap(peers, metric, 3)
    for row in found.list(Random(1).getrandbits(64) for _ in range(500)):
        assert {peers[number][2] for number in row} == {"a", "b", "c"}


def test_a_lost_peer_changes_no_set_it_was_not_in():
    """The sets changed by a view change are those of the lost peer."""
    random = Random(9)
    peers = [(random.getrandbits(64), number, "") for number in range(60)]
    keys = np.random.default_rng(3).integers(0, RING, 5000, dtype=np.uint64)
    for metric in METRICS:
        before, after = ReplicaMap(peers, metric, 3), ReplicaMap(peers[1:], metric, 3)
        held = before.holds(keys, 0)
        assert held.any()
        assert (before.column(keys)[~held] == after.column(keys)[~held]).all()


def test_peers_crowded_under_one_prefix_cost_no_more_than_others():
    """Nodes of the tree are counted: a boundary table would need 2^50 here."""
    crowded = ReplicaMap([(number, number, "") for number in range(512)], "kademlia", 3)
    spread = ReplicaMap([(number << 55, number, "") for number in range(512)], "kademlia", 3)
    keys = list(range(512))
    assert crowded.list(keys) == spread.list([key << 55 for key in keys])
    assert len(crowded._finder._tree) == len(spread._finder._tree) == 511


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_thousand_peers_of_three_zones_make_a_tree_of_a_few_thousand_nodes(replicas):
    random = Random(2)
    peers = [(random.getrandbits(64), number, "abc"[number % 3]) for number in range(1000)]
    found = ReplicaMap(peers, "kademlia", replicas)
    assert len(found._finder._tree) < 3000
