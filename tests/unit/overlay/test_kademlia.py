"""The rolling lookup finds the true owners with few requests, also when peers are dead."""

from __future__ import annotations

from random import Random

import pytest

from p2prdf.overlay import search
from p2prdf.overlay.address_cache import AddressCache
from p2prdf.overlay.kademlia import Lookup, closest
from p2prdf.sim.ideal_tables import kademlia_tables
from p2prdf.wire.messages import Contact


def network(size: int, seed: int, bits: int = 64) -> list[Contact]:
    random = Random(seed)
    keys: set[int] = set()
    while len(keys) < size:
        keys.add(random.getrandbits(bits) << 64 - bits)
    return [Contact(key, "peer.example", 1 + number % 60_000) for number, key in enumerate(sorted(keys))]


def run(lookup: Lookup, tables: dict[int, list[Contact]], dead: set[int], random: Random, bucket: int = 8) -> None:
    """Carry a lookup out, answers arriving in any order; a request to a dead peer fails."""
    under_way: list[Contact] = []
    while not lookup.done:
        asking = lookup.requests()
        under_way += asking
        assert 0 < len(under_way) <= lookup.parallel
        contact = under_way.pop(random.randrange(len(under_way)))
        if contact.key in dead:
            lookup.failed(contact)
        else:
            lookup.answered(contact, [contact, *closest(tables[contact.key], lookup.target, bucket)])
    assert lookup.requests() == []


SIZES = [1, 2, 3, 8, 50, 200, 1000]


@pytest.mark.parametrize("size", SIZES)
def test_a_thousand_lookups_name_the_true_owners_with_few_requests(size):
    contacts = network(size, size)
    tables = kademlia_tables(contacts)
    random = Random(size)
    requests = []
    for number in range(1000):
        own = random.choice(contacts)
        target = random.choice(contacts).key if number % 3 == 0 else random.getrandbits(64)
        lookup = Lookup(target, own, closest(tables[own.key], target, 8))
        run(lookup, tables, set(), random)
        assert list(lookup.result) == closest(contacts, target, 8)
        assert lookup.complete == (size < 8)
        requests.append(lookup.asked)
    assert max(requests) <= min(size - 1, 40)
    assert sum(requests) / len(requests) <= 16


@pytest.mark.parametrize("bucket", [8, 20])
@pytest.mark.parametrize("size", SIZES)
def test_with_a_fifth_of_the_peers_dead_the_result_is_live_and_nobody_nearer_is_missing(size, bucket):
    """The tables still hold the dead.  Results are shorter then, but without a gap."""
    contacts = network(size, size + 7)
    tables = kademlia_tables(contacts, bucket)
    random = Random(size)
    requests, lengths = [], []
    for _ in range(1000 if bucket == 8 else 200):
        dead = {contact.key for contact in random.sample(contacts, size // 5)}
        live = [contact for contact in contacts if contact.key not in dead]
        own, target = random.choice(live), random.getrandbits(64)
        lookup = Lookup(target, own, closest(tables[own.key], target, bucket), count=bucket)
        run(lookup, tables, dead, random, bucket)
        assert lookup.result
        assert list(lookup.result) == closest(live, target, len(lookup.result))
        requests.append(lookup.asked)
        lengths.append(len(lookup.result))
    assert max(requests) <= 3 * bucket
    assert sum(lengths) / len(lengths) >= 0.7 * min(bucket, size - size // 5)


@pytest.mark.parametrize("bits", [5, 8])
def test_crowded_keys_are_found_too(bits):
    contacts = network(1 << bits - 1, 2, bits)
    tables = kademlia_tables(contacts)
    random = Random(2)
    for _ in range(100):
        own, target = random.choice(contacts), random.getrandbits(64)
        lookup = Lookup(target, own, closest(tables[own.key], target, 8))
        run(lookup, tables, set(), random)
        assert list(lookup.result) == closest(contacts, target, 8)


def test_a_slow_peer_holds_one_place_of_the_window_only():
    contacts = network(60, 5)
    tables = kademlia_tables(contacts)
    own = contacts[0]
    lookup = Lookup(contacts[30].key, own, closest(tables[own.key], contacts[30].key, 8))
    slow, *waiting = lookup.requests()
    while waiting:
        contact = waiting.pop()
        lookup.answered(contact, closest(tables[contact.key], lookup.target, 8))
        waiting += lookup.requests()
    assert not lookup.done
    assert lookup.asked > 5
    lookup.failed(slow)
    while not lookup.done:
        for contact in lookup.requests():
            lookup.answered(contact, closest(tables[contact.key], lookup.target, 8))
    assert slow not in lookup.result


@pytest.mark.parametrize("size", [3, 9, 30, 150])
def test_an_address_cache_that_learns_from_lookups_among_dead_peers_never_errs(size):
    """The guarantees between cache and lookup: look up gap after gap until the ring is covered."""
    contacts = network(size, size)
    tables = kademlia_tables(contacts)
    random = Random(size)
    dead = {contact.key for contact in random.sample(contacts, size // 5)}
    live = [contact for contact in contacts if contact.key not in dead]
    own = random.choice(live)
    cache = AddressCache(own)
    keys = [random.getrandbits(64) for _ in range(200)] + [contact.key for contact in contacts]
    lookups = 0
    while (gap := cache.gap()) is not None:
        lookup = Lookup(gap, own, closest({*tables[own.key], *cache.contacts()}, gap, 8))
        run(lookup, tables, dead, random)
        cache.learn(gap, lookup.result, lookup.complete)
        lookups += 1
        assert lookups <= 2 * size + 5
        for key, number in zip(keys, cache.resolve_list(keys), strict=True):
            assert number == -1 or cache.contact(number) == closest(live, key, 1)[0]
    assert cache.contacts() == live


A, B, C, D = (Contact(key, "peer.example", 1) for key in (1, 2, 4, 8))


def test_alone_means_complete_at_once():
    lookup = Lookup(7, A, [])
    assert lookup.done
    assert lookup.complete
    assert lookup.result == (A,)
    assert Lookup(7, A, [A]).done


def test_when_everybody_is_silent_the_lookup_has_failed():
    lookup = Lookup(7, A, [B, C])
    assert lookup.requests() == [C, B]
    lookup.failed(C)
    lookup.failed(B)
    assert lookup.done
    assert lookup.result == ()
    assert not lookup.complete


def test_a_dead_peer_makes_the_result_incomplete():
    lookup = Lookup(7, A, [B, C])
    lookup.requests()
    lookup.failed(C)
    lookup.answered(B, [B, A, C])
    assert lookup.done
    assert lookup.result == (B, A)
    assert not lookup.complete


def test_as_many_as_were_asked_for_may_not_be_all():
    assert not Lookup(7, A, [], count=1).complete
    lookup = Lookup(7, A, [B], count=2)
    lookup.requests()
    lookup.answered(B, [])
    assert lookup.done
    assert not lookup.complete


def test_a_late_answer_brings_a_peer_back_and_strangers_change_nothing():
    lookup = Lookup(0, A, [B, C, D], parallel=2)
    assert lookup.requests() == [B, C]
    lookup.failed(B)
    lookup.answered(D, [Contact(0, "forged.example", 1)])
    lookup.answered(Contact(99, "stranger.example", 1), [Contact(0, "forged.example", 1)])
    lookup.failed(D)
    lookup.answered(B, [])
    lookup.answered(C, [])
    assert lookup.requests() == [D]
    lookup.answered(D, [])
    assert lookup.result == (A, B, C, D)
    assert lookup.complete
    lookup.failed(D)
    assert lookup.result == (A, B, C, D)


def test_a_peer_that_came_back_elsewhere_is_distinguished_from_the_dead_one():
    old, new = Contact(2, "old.example", 1), Contact(2, "new.example", 1)
    lookup = Lookup(0, A, [old, C])
    lookup.requests()
    lookup.answered(C, [new])
    lookup.failed(old)
    assert lookup.requests() == [new]
    lookup.answered(new, [])
    assert lookup.result == (A, new, C)


def test_nobody_else_is_taken_for_the_own_peer():
    lookup = Lookup(0, A, [Contact(1, "impostor.example", 1), B])
    assert lookup.requests() == [B]
    lookup.answered(B, [Contact(1, "impostor.example", 1)])
    assert lookup.result == (A, B)


def test_an_endless_supply_of_closer_peers_ends_in_failure_within_the_bound():
    lookup = Lookup(0, Contact(1 << 63, "peer.example", 1), [Contact(1 << 62, "peer.example", 1)])
    nearer = 1 << 62
    while not lookup.done:
        for contact in lookup.requests():
            nearer -= 1 << 50
            lookup.answered(contact, [Contact(nearer, "peer.example", 1)])
    assert lookup.asked == search.REQUESTS_MAX
    assert lookup.result == ()
    assert not lookup.complete


def test_a_flood_of_contacts_is_bounded_and_fails_the_lookup(monkeypatch):
    monkeypatch.setattr(search, "HEARD_MAX", 30)
    flood = [Contact(key << 40, "peer.example", 1) for key in range(1, 100)]
    lookup = Lookup(0, Contact(1 << 63, "peer.example", 1), flood[:1])
    number = 1
    while not lookup.done:
        for contact in lookup.requests():
            lookup.answered(contact, flood[number : number + 30])
            number += 10
    assert lookup.result == ()


def test_one_answer_adds_a_bounded_number_of_contacts():
    lookup = Lookup(0, A, [B], count=4)
    lookup.requests()
    lookup.answered(B, [Contact(key << 8, "peer.example", 1) for key in range(1, 100)])
    assert len(lookup._state) == 2 + 2 * 4


@pytest.mark.parametrize("bits", [6, 64])
def test_ideal_tables_hold_every_bucket_as_full_as_it_can_be(bits):
    contacts = network(50, 9, bits)
    tables = kademlia_tables(contacts, bucket=3)
    assert set(tables) == {contact.key for contact in contacts}
    for key, table in tables.items():
        assert len(set(table)) == len(table)
        for bit in range(64):
            subtree = {c for c in contacts if (c.key ^ key).bit_length() - 1 == bit}
            held = {c for c in table if (c.key ^ key).bit_length() - 1 == bit}
            assert held <= subtree
            assert len(held) == min(3, len(subtree))


def test_ideal_tables_of_ten_thousand_peers_are_of_logarithmic_size():
    tables = kademlia_tables(network(10_000, 1))
    assert max(map(len, tables.values())) < 8 * 18
