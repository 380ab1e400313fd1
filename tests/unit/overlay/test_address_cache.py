"""The address cache: contacts and their numbers, and the zones of XOR.

Tests for every metric are in test_overlay_contract.py.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.overlay.address_cache import AddressCache
from p2prdf.wire.messages import Contact

RING = 1 << 64


def contact(key: int) -> Contact:
    return Contact(key, "peer.example", 1 + key % 65_000)


def owner(keys: set[int], key: int) -> int:
    return min(keys, key=key.__xor__)


def look_up(keys: set[int], key: int, count: int) -> tuple[list[Contact], bool]:
    """The outcome of a perfect lookup."""
    near = sorted(keys, key=key.__xor__)[:count]
    return [contact(k) for k in near], len(keys) <= count


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Ring positions and keys: random, or crowded into tiny spaces at the top or under one prefix."""
    bits, shift = draw(st.sampled_from([(8, 56), (5, 59), (8, 0), (9, 30), (64, 0)]))
    prefix = draw(st.sampled_from([0, 0xAB << 56])) if shift + bits < 57 else 0
    position = st.integers(0, (1 << bits) - 1).map(lambda value: value << shift | prefix)
    size = draw(st.sampled_from([1, 2, 3, 5, 9, 14, 40, 120, 300]))
    seed = Random(draw(st.integers(0, 1 << 30)))
    everywhere = {seed.getrandbits(bits) << shift | prefix for _ in range(size)} | {draw(position)}
    anywhere = st.one_of(position, st.sampled_from([0, RING - 1]), st.integers(0, RING - 1))
    keys = draw(st.lists(anywhere, min_size=1, max_size=20))
    return seed.sample(sorted(everywhere), len(everywhere)), keys + list(everywhere)[:5]


@settings(max_examples=300, deadline=None)
@given(networks(), st.integers(1, 8), st.data())
def test_partial_knowledge_never_names_a_wrong_owner(network, count, data):
    """Some lookups, some contacts heard of, some zones forgotten: silence or the right owner."""
    positions, keys = network
    everyone = set(positions)
    cache = AddressCache(contact(positions[0]))
    for key in data.draw(st.lists(st.sampled_from(keys), max_size=6)):
        cache.learn(key, *look_up(everyone, key, count))
    for key in data.draw(st.lists(st.sampled_from(positions), max_size=4)):
        cache.seen(contact(key))
    for key in data.draw(st.lists(st.sampled_from(keys), max_size=2)):
        cache.forget(key)
        assert cache.resolve_list([key]) == [-1]
    check_zones(cache)
    numbers = cache.resolve_list(keys)
    assert cache.resolve(np.array(keys, np.uint64)).tolist() == numbers
    for key, number in zip(keys, numbers, strict=True):
        assert number == -1 or cache.contact(number).key == owner(everyone, key)


def check_zones(cache: AddressCache) -> None:
    """Zones are aligned, ascending, disjoint, and no two siblings stay apart."""
    zones = [(first, (last + 1 - first).bit_length() - 1) for first, last in cache.zones]
    assert [(start, start + (1 << bits) - 1) for start, bits in zones] == cache.zones
    for start, bits in zones:
        assert start % (1 << bits) == 0
        assert (start ^ 1 << bits, bits) not in zones or bits == 64
    for (start, bits), (after, _) in pairwise(zones):
        assert start + (1 << bits) <= after


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(2, 8))
def test_looking_up_the_gaps_covers_the_ring_and_finds_every_peer(network, count):
    positions, keys = network
    everyone = set(positions)
    cache = AddressCache(contact(positions[0]))
    lookups = 0
    while (gap := cache.gap()) is not None:
        cache.learn(gap, *look_up(everyone, gap, count))
        check_zones(cache)
        lookups += 1
        assert lookups <= 70 * len(everyone)
    assert {c.key for c in cache.contacts()} == everyone
    numbers = cache.resolve(np.array(keys, np.uint64)).tolist()
    assert [cache.contact(n).key for n in numbers] == [owner(everyone, key) for key in keys]
    assert -1 not in numbers


def test_a_zone_resolves_to_nothing_when_all_its_peers_are_lost():
    cache = AddressCache(contact(0))
    lonely = contact(0xF0 << 56)
    cache.learn(0xF0 << 56, [lonely, contact(0xE0 << 56)], complete=False)
    assert cache.resolve_list([0xF1 << 56]) == [1]
    cache.lost(lonely)
    cache.lost(contact(0xE0 << 56))
    assert cache.resolve_list([0xF1 << 56]) == [-1]
    assert cache.resolve(np.array([0xF1 << 56], np.uint64)).tolist() == [-1]


def test_the_own_peer_is_never_lost_nor_replaced():
    cache = AddressCache(contact(7))
    assert not cache.lost(contact(7))
    assert not cache.seen(Contact(7, "impostor.example", 9))
    assert cache.contacts() == [contact(7)]


def test_a_known_key_at_a_new_address_replaces_the_old_one():
    cache = AddressCache(contact(7))
    old, new = Contact(9, "a.example", 1), Contact(9, "b.example", 2)
    cache.learn(0, [old], complete=True)
    assert not cache.seen(old)
    assert cache.seen(new)
    assert not cache.lost(old)
    assert cache.contact(cache.resolve_list([9])[0]) == new
    assert cache.size == 2


def test_numbers_stay_with_their_contacts_and_are_given_out_again_only_at_the_maximum():
    cache = AddressCache(contact(0), contacts_max=4)
    for key in (1, 2, 3):
        cache.seen(contact(key))
    cache.lost(contact(2))
    cache.lost(contact(1))
    assert [cache.contact(n).key for n in range(4)] == [0, 1, 2, 3]
    cache.seen(contact(4))
    assert [cache.contact(n).key for n in range(4)] == [0, 1, 4, 3]
    assert cache.nearest_known_list([4, 1, 3]) == [2, 0, 3]


def test_beyond_the_maximum_a_contact_is_refused_and_counted_and_its_zone_forgotten():
    cache = AddressCache(contact(0), contacts_max=3)
    cache.learn(0, [contact(1), contact(1 << 63)], complete=True)
    assert not cache.seen(contact(1 << 62))
    assert cache.refused == 1
    assert cache.resolve_list([1 << 62]) == [-1]
    cache.learn(0, [contact(1), contact(2), contact(1 << 63)], complete=True)
    assert cache.gap() is not None
