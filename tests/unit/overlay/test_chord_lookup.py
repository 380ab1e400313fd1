"""Chord's lookup finds the true successors with half log2 N requests, also when peers are dead."""

from __future__ import annotations

from bisect import bisect_left
from math import log2
from random import Random

import pytest

from p2prdf.overlay import search
from p2prdf.overlay.chord_lookup import ChordTable, Lookup, ahead
from p2prdf.sim import ideal_tables
from p2prdf.sim.ideal_tables import chord_tables
from p2prdf.wire.messages import Contact

RING = 1 << 64


def ring(size: int, seed: int, bits: int = 64) -> list[Contact]:
    random = Random(seed)
    keys: set[int] = set()
    while len(keys) < size:
        keys.add(random.getrandbits(bits) << 64 - bits)
    return [Contact(key, "peer.example", 1 + number % 60_000) for number, key in enumerate(sorted(keys))]


def truth(contacts: list[Contact], key: int, count: int = 8) -> list[Contact]:
    """The ``count`` peers from a key on, by sorting everyone."""
    return sorted(contacts, key=lambda contact: (contact.key - key) % RING)[:count]


def before(contacts: list[Contact], key: int) -> Contact:
    return min(contacts, key=lambda contact: ahead(contact.key, key))


def run(lookup: Lookup, tables, dead: set[int] = frozenset(), random: Random | None = None) -> None:
    """Carry a lookup out, answers arriving in any order; a request to a dead peer fails."""
    under_way: list[Contact] = []
    while not lookup.done:
        under_way += lookup.requests()
        assert 0 < len(under_way) <= lookup.parallel
        contact = under_way.pop(random.randrange(len(under_way)) if random else 0)
        if contact.key in dead:
            lookup.failed(contact)
        else:
            lookup.answered(contact, tables[contact.key].answer(lookup.target))
    assert lookup.requests() == []


SIZES = [1, 2, 3, 7, 8, 9, 50, 1000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("parallel", [1, 3])
def test_lookups_name_the_true_owners_and_the_peer_before_them(size, parallel):
    contacts = ring(size, size)
    tables = chord_tables(contacts)
    random = Random(size)
    for number in range(500):
        own = random.choice(contacts)
        aimed = random.choice(contacts).key
        target = (random.getrandbits(64), aimed, (aimed + 1) % RING, (aimed - 1) % RING, own.key)[number % 5]
        lookup = Lookup(target, own, tables[own.key], count=8, parallel=parallel)
        run(lookup, tables, random=random)
        assert list(lookup.result) == truth(contacts, target)
        assert lookup.before == before(contacts, target)
        assert lookup.complete == (size <= 8)


@pytest.mark.parametrize("size", [1000, 4000])
def test_a_lookup_costs_half_the_logarithm_of_the_size(size):
    """Stoica et al. 2001, section 6: the mean path is about half log2 N."""
    contacts = ring(size, 3)
    tables = chord_tables(contacts)
    random = Random(3)
    requests = []
    for _ in range(3000):
        own = random.choice(contacts)
        lookup = Lookup(random.getrandbits(64), own, tables[own.key])
        run(lookup, tables)
        requests.append(lookup.asked)
    assert 0.4 * log2(size) <= sum(requests) / len(requests) <= 0.55 * log2(size)
    assert max(requests) <= 2 * log2(size)


@pytest.mark.parametrize("size", SIZES)
def test_with_a_fifth_of_the_peers_dead_the_result_is_live_and_without_a_gap(size):
    """The tables still hold the dead; those at or after the key show when they are tried."""
    contacts = ring(size, size + 7)
    tables = chord_tables(contacts)
    random = Random(size)
    failed = 0
    for _ in range(300):
        dead = {contact.key for contact in random.sample(contacts, size // 5)}
        live = [contact for contact in contacts if contact.key not in dead]
        own, target = random.choice(live), random.getrandbits(64)
        lookup = Lookup(target, own, tables[own.key])
        run(lookup, tables, dead, random)
        while lookup.result and lookup.result[0].key in dead:
            lookup.failed(lookup.result[0])
        if not lookup.result:
            failed += 1
            continue
        found = [contact for contact in lookup.result if contact.key not in dead]
        assert found == truth(live, target, len(found))
        assert lookup.before == before(live, target)
    assert failed <= 3  # all three ways on dead at once


@pytest.mark.parametrize("size", range(1, 11))
def test_tiny_crowded_rings_answer_for_every_key(size):
    contacts = ring(size, size, bits=4)
    tables = chord_tables(contacts, successors=3)
    for own in contacts:
        for position in range(16):
            for target in ((position << 60) + offset for offset in (0, 1, (1 << 60) - 1)):
                lookup = Lookup(target, own, tables[own.key], count=3)
                run(lookup, tables)
                assert list(lookup.result) == truth(contacts, target, 3)
                assert lookup.complete == (size <= 3)


def test_tables_are_those_of_a_ring_stabilised_for_ever():
    for size in (1, 2, 5, 9, 60):
        contacts = ring(size, size)
        tables = chord_tables(contacts, successors=4)
        assert list(tables) == [contact.key for contact in contacts]
        for own in contacts:
            table = tables[own.key]
            assert list(table.successors) == truth(contacts, own.key + 1, 4)
            assert table.predecessor == before(contacts, own.key)
            fingers = {truth(contacts, (own.key + (1 << bit)) % RING, 1)[0] for bit in range(64)} - {own}
            assert set(table.fingers) == fingers
            assert len(table.fingers) == len(fingers)
            known = fingers | set(table.successors) | {table.predecessor}
            assert table.contacts() == truth([c for c in contacts if c in known and c != own], own.key, 99)
    with pytest.raises(KeyError):
        tables[1]


def test_forty_thousand_peers_cost_only_the_tables_that_lookups_read(monkeypatch):
    monkeypatch.setattr(ideal_tables, "_TABLES_MAX", 10)
    contacts = ring(40_000, 1)
    tables = chord_tables(contacts)
    keys = [contact.key for contact in contacts]
    random = Random(1)
    for _ in range(50):
        own, target = random.choice(contacts), random.getrandbits(64)
        lookup = Lookup(target, own, tables[own.key])
        run(lookup, tables)
        assert lookup.result[0] == contacts[bisect_left(keys, target) % len(keys)]
    assert len(tables._made) == 10


def peer(key: int) -> Contact:
    return Contact(key % RING, "peer.example", 1)


A, B, C, D, E = (peer(key) for key in (10, 20, 30, 40, 50))


def table(own: Contact, *successors: Contact, predecessor: Contact | None = None, fingers=()) -> ChordTable:
    return ChordTable(own, predecessor, successors or (own,), tuple(fingers))


def test_an_answer_names_the_three_closest_ways_on_and_the_owners_if_they_are_in_its_list():
    known = table(A, B, C, predecessor=E, fingers=[D])
    assert known.answer(15) == known.answer(20) == (B, C)
    assert known.answer(45) == (D, C, B)
    assert known.answer(31) == (C, B)
    assert known.answer(10) == (E, D, C)
    assert known.answer(30) == (B, C)
    assert table(A, B, C, D, E).answer(45) == (D, C, B, E)
    assert known.answer(5) == (E, D, C)
    assert table(A).answer(10) == table(A).answer(11) == table(A).answer(9) == (A,)


def test_tables_go_on_beyond_zero():
    low, high = peer(5), peer(-5)
    assert table(high, low, A, high).answer(-4 % RING) == (low, A, high)
    assert table(high, low, A, high).answer(2) == (low, A, high)
    assert table(low, A, high, low).answer(-5 % RING) == (A, high, low)
    lookup = Lookup(-2 % RING, A, table(A, high, low, A))
    run(lookup, {high.key: table(high, low, A, high)})
    assert lookup.result == (low, A, high)
    assert lookup.before == high
    assert lookup.complete


def test_alone_one_owns_everything_at_no_cost():
    for target in (0, 10, 11, RING - 1):
        lookup = Lookup(target, A, table(A))
        assert lookup.done
        assert lookup.result == (A,)
        assert lookup.before == A
        assert lookup.complete
        assert lookup.asked == 0


def test_the_own_successor_list_is_read_without_those_that_failed():
    lookup = Lookup(35, A, table(A, B, C, D, E))
    assert lookup.requests() == [C]
    lookup.failed(C)
    assert lookup.requests() == [B]
    lookup.failed(B)
    assert lookup.done
    assert lookup.result == (D, E)
    assert lookup.before == A
    assert not lookup.complete


def test_when_everybody_is_silent_nobody_but_the_own_peer_is_left():
    lookup = Lookup(35, A, table(A, B, C))
    for contact in (C, B):
        assert lookup.requests() == [contact]
        lookup.failed(contact)
    assert lookup.result == (A,)


def test_a_live_peer_without_live_ways_on_fails_the_lookup():
    """The list of a peer further away would leave out that peer."""
    lookup = Lookup(45, A, table(A, B, C))
    assert lookup.requests() == [C]
    lookup.answered(C, (D,))
    assert lookup.requests() == [D]
    lookup.failed(D)
    assert lookup.requests() == [B]
    lookup.answered(B, (E,))
    assert lookup.done
    assert lookup.result == ()
    assert lookup.before is None
    assert not lookup.complete


def test_a_peer_with_a_dead_successor_can_still_be_asked():
    lookup = Lookup(35, A, table(A, B))
    lookup.requests()
    lookup.answered(B, table(B, C, D, E).answer(35))
    assert lookup.requests() == [C]
    lookup.failed(C)
    assert lookup.done
    assert lookup.result == (D, E)
    assert lookup.before == B


def test_others_are_asked_for_ways_on_past_a_dead_one():
    lookup = Lookup(45, A, table(A, B, C))
    lookup.requests()
    lookup.answered(C, (D,))
    lookup.requests()
    lookup.failed(D)
    lookup.requests()
    other = peer(35)
    lookup.answered(B, (D, other, C))
    assert lookup.requests() == [other]
    lookup.answered(other, (E, A))
    assert lookup.result == (E, A)
    assert lookup.before == other


def test_an_owner_found_dead_afterwards_is_left_out():
    lookup = Lookup(25, A, table(A, B))
    lookup.requests()
    lookup.answered(B, (C, D, A, B))
    assert lookup.complete
    lookup.failed(C)
    lookup.failed(B)
    assert lookup.result == (D, A, B)
    assert lookup.complete


def test_late_answers_count_and_strangers_change_nothing():
    lookup = Lookup(45, A, table(A, B, C), parallel=2)
    assert lookup.requests() == [C, B]
    lookup.failed(C)
    lookup.answered(peer(44), (E,))
    lookup.answered(D, (E,))
    lookup.failed(D)
    lookup.answered(C, (D, peer(35)))
    assert lookup.requests() == [D]
    lookup.failed(B)
    lookup.answered(D, (E, A))
    assert lookup.done
    assert lookup.result == (E, A)
    lookup.answered(B, (C,))
    assert lookup.result == (E, A)


def test_nobody_else_is_taken_for_the_own_peer():
    """A peer's former incarnation at another address is reported as the peer itself."""
    former = Contact(A.key, "old.example", 1)
    lookup = Lookup(5, A, table(A, B))
    lookup.requests()
    lookup.answered(B, (former, B))
    assert lookup.result == (A, B)


def test_a_peer_that_came_back_elsewhere_is_distinguished_from_the_dead_one():
    moved = Contact(C.key, "new.example", 1)
    lookup = Lookup(35, A, table(A, B, C))
    assert lookup.requests() == [C]
    lookup.failed(C)
    assert lookup.requests() == [B]
    lookup.answered(B, (moved,))
    assert lookup.requests() == [moved]
    lookup.answered(moved, (D,))
    assert lookup.result == (D,)


def test_names_out_of_order_and_twice_are_put_right():
    lookup = Lookup(25, A, table(A, B), count=2)
    lookup.requests()
    lookup.answered(B, (E, C, Contact(C.key, "z.example", 1), D))
    assert lookup.result == (C, D)


def test_an_empty_answer_says_nothing():
    lookup = Lookup(25, A, table(A, B))
    lookup.requests()
    lookup.answered(B, ())
    assert lookup.done
    assert lookup.result == ()


def test_an_endless_supply_of_closer_peers_ends_in_failure_within_the_bound():
    lookup = Lookup(0, peer(1 << 62), table(peer(1 << 62), peer(1 << 63)))
    nearer = 1 << 63
    while not lookup.done:
        for _ in lookup.requests():
            nearer += 1 << 50
            lookup.answered(peer(nearer - (1 << 50)), [peer(nearer)])
    assert lookup.asked == search.REQUESTS_MAX
    assert lookup.result == ()


def test_a_flood_of_names_is_bounded_and_fails_the_lookup(monkeypatch):
    monkeypatch.setattr(search, "HEARD_MAX", 30)
    lookup = Lookup(0, peer(1 << 62), table(peer(1 << 62), peer(1 << 63)))
    lookup.requests()
    lookup.answered(peer(1 << 63), [peer((1 << 63) + number) for number in range(1, 16)])
    lookup.requests()
    lookup.answered(peer((1 << 63) + 15), [peer((1 << 63) + 100 + number) for number in range(40)])
    assert lookup.done
    assert lookup.result == ()
    assert len(lookup._state) <= 30


def test_one_answer_adds_a_bounded_number_of_names():
    lookup = Lookup(0, A, table(A, B), count=4)
    lookup.requests()
    lookup.answered(B, [peer(100 + number) for number in range(100)])
    assert len(lookup._state) == 2 + 2 * 4
