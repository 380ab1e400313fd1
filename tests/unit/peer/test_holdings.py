"""The digest index equals, by range and bucket, a full scan of the items at each question."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_tables import new_tables

from p2prdf import hlc, keys
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.joins.items import table_kinds
from p2prdf.peer.replication.digests import BUCKET_ITEMS, BUCKETS_MAX, Changes, DigestIndex, Items
from p2prdf.rdf import quads
from p2prdf.store import columnar_forget, triple_table

PEERS = 6


def map_of(random: Random, count: int = PEERS) -> ReplicaMap:
    """Return a replica map of some peers at random positions, this one among them."""
    return ReplicaMap([(random.getrandbits(64), number, "") for number in range(count)], "kademlia", 3)


def check(held: DigestIndex, found: ReplicaMap, items: Items, random: Random) -> None:
    """Compare with a pass over all items; nobody has said to have any of them."""
    identities = sorted(items.identities.tolist())
    assert sorted(held.all().identities.tolist()) == identities
    mine = found.holds(items.keys, 0)
    assert sorted(held.elsewhere().places.tolist()) == sorted(items.places[~mine].tolist())
    for number in range(1, found.size):
        shared = items.only(mine & found.holds(items.keys, number))
        mixed = keys.fmix_array(shared.identities)
        assert held.total(number) == int(mixed.sum(dtype=np.uint64))
        for buckets in (None, 1, 2, 64, BUCKETS_MAX):
            sums = held.sums(number, buckets)
            places = (shared.identities & np.uint64(len(sums) - 1)).tolist()
            assert buckets in (None, len(sums))
            truth = [0] * len(sums)
            for place, each in zip(places, mixed.tolist(), strict=True):
                truth[place] = (truth[place] + each) % (1 << 64)
            assert sums.tolist() == truth
            chosen = np.array(random.sample(range(len(sums)), len(sums) // 2 + 1))
            wanted = shared.only(np.isin(np.array(places, np.int64), chosen))
            got = held.shared(number, len(sums), chosen)
            assert sorted(zip(*map(np.ndarray.tolist, (got.keys, got.identities, got.places)), strict=True)) == sorted(
                zip(*map(np.ndarray.tolist, (wanted.keys, wanted.identities, wanted.places)), strict=True)
            )
    some = np.array([*random.sample(identities, len(identities) // 3), random.getrandbits(64)], np.uint64)
    assert sorted(held.find(some).identities.tolist()) == sorted(
        items.identities[np.isin(items.identities, some)].tolist()
    )


class _NoEngine:
    chunker = None


@settings(max_examples=16, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(["light", "columnar"]))
def test_triples_that_come_and_change_are_kept_up_with_under_any_view(seed, material):
    random = Random(seed)
    tables, dictionary = new_tables(material)
    kinds = table_kinds(tables, _NoEngine())
    held = {kind.number: DigestIndex(kind) for kind in kinds}
    terms = [dictionary.intern(f"<{number}>") for number in range(12)]
    found, make = map_of(random), tables.columns
    forget_after = triple_table._TOUCHED_MAX
    triple_table._TOUCHED_MAX = random.choice([4, forget_after])
    try:
        for _ in range(random.randrange(1, 8)):
            count = random.choice([0, 1, 5, 200])
            s, p, o = (make.column(random.choices(terms, k=count), "uint32") for _ in range(3))
            time = make.column([random.randrange(1, 9) for _ in range(count)])
            event = make.column([keys.event_id(1, random.randrange(40)) for _ in range(count)])
            roles = make.column([random.getrandbits(16) or 1 for _ in range(count)], "uint32")
            tables.add_triples(s, p, o, time, event, roles)
            if random.random() < 0.3:
                found = map_of(random, random.randrange(3, PEERS + 1))
            for kind in random.sample(kinds, 6):
                mine = held[kind.number]
                if random.random() < 0.2:
                    mine.update(None)
                    assert len(mine.all()) == len(kind.items())
                else:
                    mine.update(found)
                    check(mine, found, kind.items(), random)
    finally:
        triple_table._TOUCHED_MAX = forget_after


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(["light", "columnar"]))
def test_digests_follow_elements_while_old_ones_are_dropped(seed, material):
    random = Random(seed)
    tables, dictionary = new_tables(material)
    kinds = [kind for kind in table_kinds(tables, _NoEngine()) if kind.number in range(8, 16)]
    held = {kind.number: DigestIndex(kind) for kind in kinds}
    terms = [dictionary.intern(f"<{number}>") for number in range(12)]
    on = dictionary.intern(quads.streamed("<p>", "<urn:s>"))
    stream = keys.term_hash("<urn:s>")
    found, make, dead_min = map_of(random), tables.columns, columnar_forget.DEAD_MIN
    columnar_forget.DEAD_MIN = 3
    try:
        for start in range(0, random.randrange(20, 80), 10):
            count = random.choice([1, 5, 60])
            s, o = (make.column(random.choices(terms, k=count), "uint32") for _ in range(2))
            times = [hlc.element(start + random.randrange(10), hlc.stream_mark(stream)) for _ in range(count)]
            event = make.column([keys.event_id(1, random.getrandbits(12)) for _ in range(count)])
            roles = make.column([(random.getrandbits(8) or 1) << keys.EVENT_SHIFT for _ in range(count)], "uint32")
            tables.add_triples(s, make.full(count, on, "uint32"), o, make.column(times), event, roles)
            tables.forget(stream, start - random.randrange(10))
            for _ in range(random.randrange(4)):
                tables.forget_some()
            for kind in random.sample(kinds, 4):
                held[kind.number].update(found)
                check(held[kind.number], found, kind.items(), random)
    finally:
        columnar_forget.DEAD_MIN = dead_min


class Given:
    """Items given by a test."""

    def __init__(self, dense: bool):
        self.dense, self.version, self.calls = dense, 0, 0
        self.next = Changes(True, Items(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64)))

    def changes(self) -> Changes:
        self.calls += 1
        return self.next

    def give(self, places, random: Random, *, whole: bool) -> Items:
        names = (np.array([random.getrandbits(64) for _ in places], np.uint64) for _ in range(2))
        self.next = Changes(whole, Items(*names, np.array(places, np.int64)))
        self.version += 1
        return self.next.items


@pytest.mark.parametrize("dense", [True, False])
def test_removed_items_leave_the_digests_and_no_item_is_read_twice(dense):
    random = Random(3)
    source, found = Given(dense), map_of(random)
    held = DigestIndex(source)
    for places in (range(100), range(7), [3, 5, 99], []):
        items = source.give(places, random, whole=True)
        for _ in range(2):
            held.update(found)
            check(held, found, items, random)
    assert source.calls == 4


def test_there_are_more_buckets_when_there_is_more(monkeypatch):
    """Only for that reason the table is summed up again: the cost is spread over the new items."""
    random = Random(4)
    source, found = Given(dense=True), map_of(random)
    held, sizes, spread = DigestIndex(source), [], []
    monkeypatch.setattr(held, "_spread", lambda found, was=held._spread: (spread.append(1), was(found)))
    count = 0
    while count < 40 * BUCKET_ITEMS:
        source.give(range(count, count + 60), random, whole=False)
        held.update(found)
        count += 60
        sizes.append(len(held.sums(1)))
    everything = held.all()
    assert len(everything) == count
    check(held, found, everything, random)
    assert len(spread) == 1
    assert sizes == sorted(sizes)
    assert 40 // 4 <= sizes[-1] <= 64
    assert len(set(sizes)) <= 4


@pytest.mark.parametrize("dense", [True, False])
def test_an_item_known_to_be_elsewhere_is_not_offered_to_its_replica_while_that_lives(dense):
    random = Random(6)
    source, found = Given(dense), map_of(random)
    items = source.give(range(400), random, whole=True)
    held = DigestIndex(source)
    held.update(found)
    foreign = held.elsewhere()
    assert 100 < len(foreign) < 300
    primaries = found.primaries(foreign.keys)
    for number in range(1, PEERS):
        held.told(foreign.identities[primaries == number], number)
    assert not len(held.elsewhere())
    held.forget(2)
    again = held.elsewhere()
    assert sorted(again.identities.tolist()) == sorted(foreign.identities[primaries == 2].tolist())
    held.told(again.identities, 3)  # which does not keep all of them
    kept = found.holds(again.keys, 3)
    assert sorted(held.elsewhere().identities.tolist()) == sorted(again.identities[~kept].tolist())
    held.told(again.identities[~kept], 2)
    other = map_of(random)  # by another view others keep them
    held.update(other)
    by = {**dict(zip(foreign.identities.tolist(), primaries.tolist(), strict=True))}
    by.update(dict.fromkeys(again.identities[kept].tolist(), 3))
    expected = [
        identity
        for key, identity in zip(items.keys.tolist(), items.identities.tolist(), strict=True)
        if 0 not in (ranks := other.ranks(key)) and by.get(identity, -1) not in ranks
    ]
    assert sorted(held.elsewhere().identities.tolist()) == sorted(expected)
    assert sorted(held.all().identities.tolist()) == sorted(items.identities.tolist())


def test_the_memory_of_others_items_is_bounded():
    random = Random(9)
    source, found = Given(dense=False), map_of(random)
    held = DigestIndex(source)
    for _ in range(12):
        items = source.give(range(2000), random, whole=True)
        held.update(found)
        held.told(items.identities, 1)
        assert len(held._told) <= 2 * BUCKETS_MAX + 2000
    foreign = items.only(~found.holds(items.keys, 0))
    assert len(held.elsewhere()) == np.count_nonzero(~found.holds(foreign.keys, 1))


@pytest.mark.parametrize("dense", [True, False])
def test_an_item_that_changed_is_another_one_and_the_others_are_remembered(dense):
    random = Random(8)
    source, found = Given(dense), map_of(random)
    before = source.give(range(50), random, whole=True)
    held = DigestIndex(source)
    held.update(found)
    foreign = held.elsewhere()
    for number in range(1, PEERS):
        held.told(foreign.identities[found.primaries(foreign.keys) == number], number)
    identities = before.identities.copy()
    changed = foreign.places[:5]
    identities[changed] = [random.getrandbits(64) for _ in changed]
    some = slice(None) if not dense else changed
    source.next = Changes(not dense, Items(before.keys[some], identities[some], before.places[some]))
    source.version += 1
    held.update(found)
    assert sorted(held.elsewhere().places.tolist()) == sorted(changed.tolist())
    for number in range(1, PEERS):  # reports about the former versions
        held.told(foreign.identities[found.primaries(foreign.keys) == number], number)
    assert sorted(held.elsewhere().places.tolist()) == sorted(changed.tolist())
