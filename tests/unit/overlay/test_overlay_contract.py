"""The contract of every overlay, for any metric: true owners, none invented, none missing.

The truth is a full sort by the metric, written here once more and as plainly as can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.overlay.address_cache import OVERLAYS, AddressCache
from p2prdf.overlay.multisend import next_hops, next_hops_list
from p2prdf.overlay.search import Search
from p2prdf.sim.ring import Ring
from p2prdf.sim.routing import ROUTINGS, Routing
from p2prdf.wire.messages import Contact

if TYPE_CHECKING:
    from collections.abc import Iterable

RING = 1 << 64
SIZES = [1, 2, 3, 7, 64, 500]


def contact(key: int) -> Contact:
    return Contact(key, "peer.example", 1 + key % 65_000)


@dataclass(frozen=True)
class Truth:
    """An overlay seen from above."""

    overlay: str

    def distance(self, key: int, position: int) -> int:
        return key ^ position if self.overlay == "kademlia" else (position - key) % RING

    def way(self, key: int, position: int) -> int:
        """A peer's remaining distance to a key before it forwards a message: clockwise up to the key."""
        return key ^ position if self.overlay == "kademlia" else (key - position - 1) % RING

    def ranked(self, positions: Iterable[int], key: int) -> list[int]:
        """All positions, nearest first."""
        return sorted(positions, key=lambda position: self.distance(key, position))

    def owner(self, positions: Iterable[int], key: int) -> int:
        return min(positions, key=lambda position: self.distance(key, position))

    def before(self, positions: Iterable[int], key: int) -> Contact | None:
        """The last peer before a key, which only Chord reports."""
        return None if self.overlay == "kademlia" else contact(min(positions, key=lambda each: (key - 1 - each) % RING))

    def teach(self, cache: AddressCache, positions: set[int], key: int, count: int, *, before: bool = True) -> None:
        """Let a cache learn the outcome of a perfect lookup."""
        near = [contact(position) for position in self.ranked(positions, key)[:count]]
        cache.learn(key, near, len(positions) < count, self.before(positions, key) if before else None)

    def check(self, cache: AddressCache, positions: set[int], keys: list[int]) -> list[int]:
        """Check that key and column resolve to true owners only; return the numbers."""
        numbers = cache.resolve_list(keys)
        assert cache.resolve(np.array(keys, np.uint64)).tolist() == numbers
        for key, number in zip(keys, numbers, strict=True):
            assert number == -1 or cache.contact(number).key == self.owner(positions, key)
        for (_, last), (first, _) in pairwise(cache.zones):
            assert last < first
        return numbers


@pytest.fixture(params=sorted(OVERLAYS))
def truth(request) -> Truth:
    """One overlay after the other."""
    return Truth(request.param)


def ring_of(size: int, seed: int) -> list[int]:
    random = Random(f"{size} {seed}")
    positions: dict[int, None] = {}
    while len(positions) < size:
        positions[random.getrandbits(64)] = None
    return list(positions)


def keys_near(positions: Iterable[int], seed: int, count: int = 40) -> list[int]:
    """Keys anywhere, and right before, on and after peers."""
    random = Random(seed)
    near = [(position + step) % RING for position in positions for step in (-1, 0, 1)]
    return [0, RING - 1, *random.sample(near, min(len(near), count)), *(random.getrandbits(64) for _ in range(count))]


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


overlays = st.sampled_from(sorted(OVERLAYS)).map(Truth)


# --- the address cache ---------------------------------------------------------------------------


def covered(cache: AddressCache, key: int) -> bool:
    return any(first <= key <= last for first, last in cache.zones)


@settings(max_examples=400, deadline=None)
@given(overlays, networks(), st.integers(1, 8), st.sampled_from([1 << 17, 1 << 17, 12, 3]), st.data())
def test_the_cache_is_never_wrong_as_long_as_its_input_is_true(truth: Truth, network, count, contacts_max, data):
    """Peers come and go; lookups report the ring as it is then, and changes inside a zone are reported.

    So are some changes outside of any zone.  An unresolved key is fine, a wrong owner is not.
    """
    positions, keys = network
    own, everyone = positions[0], set(positions[: len(positions) // 2 + 1])
    cache = AddressCache(contact(own), truth.overlay, contacts_max)
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["learn", "learn", "join", "leave", "seen", "forget"])):
            case "learn":
                truth.teach(cache, everyone, data.draw(st.sampled_from(keys)), count, before=data.draw(st.booleans()))
            case "join":
                joining = data.draw(st.sampled_from(positions))
                everyone.add(joining)
                if covered(cache, joining) or data.draw(st.booleans()):
                    cache.seen(contact(joining))
            case "leave":
                leaving = data.draw(st.sampled_from(positions))
                if leaving != own:
                    everyone.discard(leaving)
                    cache.lost(contact(leaving))
            case "seen":
                cache.seen(contact(data.draw(st.sampled_from(sorted(everyone)))))
            case "forget":
                key = data.draw(st.sampled_from(keys))
                cache.forget(key)
                assert cache.resolve_list([key]) == [-1]
        truth.check(cache, everyone, keys)
        assert cache.size <= contacts_max


@settings(max_examples=300, deadline=None)
@given(overlays, networks())
def test_nearest_known_and_closest_equal_a_full_sort(truth: Truth, network):
    positions, keys = network
    cache = AddressCache(contact(positions[0]), truth.overlay)
    for position in positions[1:]:
        cache.seen(contact(position))
    expected = [truth.owner(positions, key) for key in keys]
    assert [cache.contact(n).key for n in cache.nearest_known_list(keys)] == expected
    assert [cache.contact(n).key for n in cache.nearest_known(np.array(keys, np.uint64)).tolist()] == expected
    for count in (1, 3, 8, 400):
        for key in keys[:4]:
            assert [c.key for c in cache.closest(key, count)] == truth.ranked(positions, key)[:count]


@settings(max_examples=200, deadline=None)
@given(overlays, networks(), st.integers(1, 8))
def test_a_key_resolves_after_its_lookup(truth: Truth, network, count):
    """From as many contacts as it takes: one of a Chord ring, two of a Kademlia one."""
    positions, keys = network
    cache = AddressCache(contact(positions[0]), truth.overlay)
    if truth.overlay == "kademlia":
        count = max(2, count)
    for key in keys:
        truth.teach(cache, set(positions), key, count)
        assert cache.contact(cache.resolve_list([key])[0]).key == truth.owner(positions, key)


@settings(max_examples=100, deadline=None)
@given(overlays, networks(), st.integers(2, 8), st.booleans())
def test_looking_up_the_gaps_covers_the_ring_and_finds_every_peer(truth: Truth, network, count, before):
    positions, keys = network
    everyone = set(positions)
    cache = AddressCache(contact(positions[0]), truth.overlay)
    lookups = 0
    while (gap := cache.gap()) is not None:
        assert not covered(cache, gap)
        truth.teach(cache, everyone, gap, count, before=before)
        lookups += 1
        assert lookups <= 70 * len(everyone)
    assert {c.key for c in cache.contacts()} == everyone
    assert -1 not in truth.check(cache, everyone, keys)


@settings(max_examples=100, deadline=None)
@given(overlays, networks(), st.data())
def test_reported_joins_and_losses_keep_all_owners_known(truth: Truth, network, data):
    positions, keys = network
    everyone = set(positions)
    cache = AddressCache(contact(positions[0]), truth.overlay)
    cache.learn(0, [contact(key) for key in positions], complete=True)
    for position in data.draw(st.lists(st.sampled_from(positions), max_size=20)):
        if position == positions[0]:
            continue
        if position in everyone:
            everyone.discard(position)
            assert cache.lost(contact(position))
        else:
            everyone.add(position)
            assert cache.seen(contact(position))
        assert -1 not in truth.check(cache, everyone, keys)
        assert cache.size == len(everyone)
    assert cache.gap() is None


def test_the_number_of_lookups_to_know_a_network_of_200_is_a_small_share_of_it(truth: Truth):
    positions = ring_of(200, 4)
    cache = AddressCache(contact(positions[0]), truth.overlay)
    lookups = 0
    while (gap := cache.gap()) is not None:
        truth.teach(cache, set(positions), gap, 8)
        lookups += 1
    assert lookups < 60


def test_a_peer_alone_owns_everything_once_it_knows_that_it_is_alone(truth: Truth):
    cache = AddressCache(contact(7), truth.overlay)
    assert cache.gap() == 0
    assert cache.resolve_list([1, 2]) == [-1, -1]
    cache.learn(5, [], complete=False)
    assert cache.resolve(np.array([1], np.uint64)).tolist() == [-1]
    cache.learn(5, [contact(7)], complete=True)
    assert cache.gap() is None
    assert cache.resolve(np.array([0, 1, RING - 1], np.uint64)).tolist() == [0, 0, 0]
    assert (cache.hits, cache.misses) == (3, 3)


def test_forgetting_takes_about_one_lookup_out_of_a_large_zone(truth: Truth):
    random = Random(1)
    positions = ring_of(500, 1)
    cache = AddressCache(contact(positions[0]), truth.overlay)
    cache.learn(0, [contact(key) for key in positions], complete=True)
    cache.forget(positions[9])
    keys = [random.getrandbits(64) for _ in range(4000)]
    missed = truth.check(cache, set(positions), keys).count(-1)
    assert 0 < missed < 4000 * 16 / 500
    truth.teach(cache, set(positions), positions[9], 20)
    assert cache.gap() is None


@pytest.mark.parametrize("size", SIZES)
def test_empty_batches_are_answered(truth: Truth, size: int):
    cache = AddressCache(contact(0), truth.overlay)
    for key in range(1, size):
        cache.seen(contact(key << 40))
    assert cache.resolve(np.empty(0, np.uint64)).tolist() == []
    assert cache.nearest_known(np.empty(0, np.uint64)).tolist() == []
    assert cache.resolve_list([]) == []


# --- lookups, and the cache that learns from them ------------------------------------------------

COUNT = 8


def routing_of(truth: Truth, positions: list[int]) -> Routing:
    """Ideal tables of all these peers."""
    return ROUTINGS[truth.overlay](Ring(map(contact, positions), truth.overlay), COUNT)


def run(routing: Routing, lookup: Search, dead: set[int], random: Random) -> Search:
    """Carry a lookup out, answers arriving in any order; the dead are silent, also those that it ends with."""
    under_way: list[Contact] = []
    while not lookup.done:
        under_way += lookup.requests()
        asked = under_way.pop(random.randrange(len(under_way)))
        if asked.key in dead:
            lookup.failed(asked)
        else:
            lookup.answered(asked, routing.answer(asked, lookup.target))
    assert lookup.requests() == []
    for found in lookup.result:
        if found.key in dead:  # hearsay of the peer before the key; a driver that cares asks the owner
            lookup.failed(found)
    return lookup


@pytest.mark.parametrize("size", SIZES)
def test_lookups_name_the_true_owners_and_the_peer_before(truth: Truth, size: int):
    positions = ring_of(size, 1)
    routing, random = routing_of(truth, positions), Random(size)
    for key in keys_near(positions, size):
        lookup = run(routing, routing.lookup(contact(random.choice(positions)), key), set(), random)
        assert [found.key for found in lookup.result] == truth.ranked(positions, key)[:COUNT]
        assert lookup.before == truth.before(positions, key)
        assert not lookup.complete or size <= COUNT
        assert lookup.complete or size >= COUNT


@pytest.mark.parametrize("size", SIZES[3:])
def test_with_a_fifth_of_the_peers_dead_lookups_name_the_living_and_miss_none_in_between(truth: Truth, size: int):
    """The tables still hold the dead: a result may be shorter, hardly ever empty, never wrong."""
    positions = ring_of(size, 2)
    routing, random = routing_of(truth, positions), Random(size)
    failed, keys = 0, keys_near(positions, size)
    for key in keys:
        dead = set(random.sample(positions, size // 5))
        live = [position for position in positions if position not in dead]
        lookup = run(routing, routing.lookup(contact(random.choice(live)), key), dead, random)
        near = [found.key for found in lookup.result]
        assert near == truth.ranked(live, key)[: len(near)]
        if near:
            assert lookup.before == truth.before(live, key)
        failed += not near
    assert failed <= len(keys) // 20


@pytest.mark.parametrize("dying", [False, True], ids=["all live", "some die"])
@pytest.mark.parametrize("size", SIZES)
def test_a_cache_fed_by_lookups_never_errs_and_knows_everybody_in_the_end(truth: Truth, size: int, dying: bool):
    """Gap after gap is looked up while peers die, with reports of each death; in the end all r owners are true."""
    positions = ring_of(size, 3)
    routing, random = routing_of(truth, positions), Random(size)
    own = positions[0]
    cache, dead = AddressCache(contact(own), truth.overlay), set()
    keys = keys_near(positions, size)
    lookups = 0
    while (gap := cache.gap()) is not None:
        if dying and len(dead) < size // 5 and lookups % 2 == 0:
            dying_now = random.choice([position for position in positions[1:] if position not in dead])
            dead.add(dying_now)
            cache.lost(contact(dying_now))
        lookup = run(routing, routing.lookup(contact(own), gap), dead, random)
        cache.learn(gap, lookup.result, lookup.complete, lookup.before)
        lookups += 1
        assert lookups <= 20 * size
        truth.check(cache, set(positions) - dead, keys)
    live = [position for position in positions if position not in dead]
    assert bool(dead) == (dying and size >= 5)
    assert {each.key for each in cache.contacts()} == set(live)
    assert -1 not in truth.check(cache, set(live), keys)
    for key in keys:
        for count in (1, 3, 600):
            assert [each.key for each in cache.closest(key, count)] == truth.ranked(live, key)[:count]


# --- multisend -----------------------------------------------------------------------------------


def introduced(truth: Truth, routing: Routing, position: int) -> AddressCache:
    """The cache of a peer that has just started: its neighbourhood and its routing table."""
    cache = AddressCache(contact(position), truth.overlay)
    near = routing.neighbourhood(contact(position))
    cache.learn(near.key, near.contacts, near.complete, near.before)
    for known in routing.known_to(contact(position)):
        cache.seen(known)
    return cache


@pytest.mark.parametrize("learned", [True, False], ids=["owners learned", "routing table only"])
@pytest.mark.parametrize("size", SIZES)
def test_hop_by_hop_every_key_comes_nearer_and_ends_at_its_owner(truth: Truth, size: int, learned: bool):
    positions = ring_of(size, 5)
    routing, random = routing_of(truth, positions), Random(size)
    caches = {position: introduced(truth, routing, position) for position in positions}
    at = {key: random.choice(positions) for key in keys_near(positions, size, 100)}
    hops = 0
    while at:
        hops += 1
        assert hops <= max(1, size.bit_length() + 2)
        onward: dict[int, int] = {}
        for here in sorted(set(at.values())):
            cache = caches[here]
            keys = [key for key in at if at[key] == here]
            numbers = next_hops_list(cache, keys, learned=learned)
            assert next_hops(cache, np.array(keys, np.uint64), learned=learned).tolist() == numbers
            for key, number in zip(keys, numbers, strict=True):
                there = cache.contact(number).key
                if number == 0:
                    assert here == truth.owner(positions, key)
                else:
                    assert there == truth.owner(positions, key) or truth.way(key, there) < truth.way(key, here)
                    onward[key] = there
        at = onward
    assert sum(cache.hits + cache.misses for cache in caches.values()) > 0 or not learned


def test_a_key_of_which_nothing_is_known_needs_a_lookup(truth: Truth):
    cache = AddressCache(contact(5), truth.overlay)
    assert next_hops_list(cache, [4, 5, 1 << 63]) == [-1, -1, -1]
    assert next_hops(cache, np.array([4, 5, 1 << 63], np.uint64), learned=False).tolist() == [-1, -1, -1]


def test_a_learned_owner_is_one_hop_away_over_any_distance():
    positions = ring_of(200, 6)
    truth = Truth("chord")
    cache = introduced(truth, routing_of(truth, positions), positions[0])
    key = (positions[0] + (1 << 63) + (1 << 62) + (1 << 60)) % RING
    owner, before = truth.owner(positions, key), truth.before(positions, key)
    (way,) = next_hops_list(cache, [key])
    assert cache.contact(way).key not in (positions[0], owner)
    assert before is not None
    cache.learn(owner, [contact(owner)], complete=False, before=before)
    assert [cache.contact(number).key for number in next_hops_list(cache, [key])] == [owner]
    assert next_hops_list(cache, [key], learned=False) != next_hops_list(cache, [key])
    assert cache.before(contact(owner)) == before
    assert cache.before(contact(key)) is None


# --- the address cache of a Chord ring: arcs -----------------------------------------------------


def test_a_lookup_proves_the_arc_from_behind_the_last_peer_before_it_to_the_last_one_found():
    cache = AddressCache(contact(500), "chord")
    cache.learn(100, [contact(110), contact(120)], complete=False)
    assert cache.zones == [(100, 120)]
    assert cache.resolve_list([99, 100, 110, 111, 120, 121]) == [-1, 1, 1, 2, 2, -1]
    cache.learn(100, [contact(110)], complete=False, before=contact(80))
    assert cache.zones == [(81, 120)]
    assert cache.resolve_list([80, 81, 99]) == [-1, 1, 1]
    assert contact(80) in cache.contacts()


def test_arcs_that_touch_are_one_also_across_position_0():
    cache = AddressCache(contact(500), "chord")
    cache.learn(RING - 9, [contact(RING - 5), contact(3)], complete=False)
    assert cache.zones == [(0, 3), (RING - 9, RING - 1)]
    assert [cache.contact(n).key for n in cache.resolve_list([RING - 9, RING - 4, 0, 3])] == [RING - 5, 3, 3, 3]
    assert cache.resolve_list([4, RING - 10]) == [-1, -1]
    cache.learn(4, [contact(20)], complete=False)
    assert cache.zones == [(0, 20), (RING - 9, RING - 1)]
    cache.learn(RING - 40, [contact(RING - 20)], complete=False, before=contact(500))
    cache.learn(RING - 19, [contact(RING - 5)], complete=False)
    assert cache.zones == [(0, 20), (501, RING - 1)]
    cache.learn(21, [contact(500)], complete=False)
    assert cache.gap() is None


def test_an_arc_that_bites_its_own_tail_is_the_whole_ring():
    cache = AddressCache(contact(500), "chord")
    cache.learn(100, [contact(500), contact(30)], complete=False, before=contact(30))
    assert cache.gap() is None
    alone = AddressCache(contact(7), "chord")
    alone.learn(7, [contact(7)], complete=False, before=contact(7))
    assert alone.gap() is None


def test_the_end_of_an_arc_without_its_last_peer_is_unresolved_until_a_lookup():
    cache = AddressCache(contact(500), "chord")
    cache.learn(100, [contact(110), contact(120)], complete=False)
    cache.lost(contact(120))
    keys = [105, 110, 111, 120]
    assert cache.resolve_list(keys) == cache.resolve(np.array(keys, np.uint64)).tolist() == [1, 1, -1, -1]
    cache.learn(121, [contact(130)], complete=False)
    assert [cache.contact(n).key for n in cache.resolve_list(keys)] == [110, 110, 130, 130]


def test_forgetting_takes_the_keys_of_eight_contacts_and_no_more():
    cache = AddressCache(contact(10), "chord")
    for key in range(11, 40):
        cache.seen(contact(key))
    cache.learn(5, [contact(10), contact(11), contact(12)], complete=False)
    cache.forget(4)
    assert cache.zones == [(5, 12)]
    cache.forget(12)
    assert cache.zones == [(5, 11)]
    cache.learn(5, [contact(key) for key in range(10, 40)], complete=False)
    cache.forget(20)
    assert cache.zones == [(5, 19), (28, 39)]
