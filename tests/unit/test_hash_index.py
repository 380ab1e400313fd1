"""HashIndex behaves as a dict that numbers its keys, for any keys and batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf import hash_index
from p2prdf.errors import Busy
from p2prdf.hash_index import HashIndex

TOP = (1 << 64) - 1
EDGES = [0, 1, 2, TOP, TOP - 1, 1 << 63, 1 << 32, (1 << 32) - 1]


class Reference:
    """The slow, obvious index."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def insert(self, keys: list[int]) -> tuple[list[int], list[bool]]:
        fresh = []
        for key in keys:
            fresh.append(key not in self.known)
            self.known.setdefault(key, len(self.known))
        return [self.known[key] for key in keys], fresh

    def find(self, keys: list[int]) -> list[int]:
        return [self.known.get(key, -1) for key in keys]


def column(keys: list[int]) -> np.ndarray:
    return np.array(keys, np.uint64)


def check_insert(index: HashIndex, reference: Reference, keys: list[int]) -> None:
    ordinals, fresh = index.insert(column(keys))
    assert ordinals.dtype == np.int64
    assert fresh.dtype == np.bool_
    assert (ordinals.tolist(), fresh.tolist()) == reference.insert(keys)
    assert len(index) == len(reference.known)


SMALL = st.integers(0, 40)
KEYS = st.one_of(st.sampled_from(EDGES), SMALL, st.integers(0, TOP), SMALL.map(lambda a: a << 32 | 7))
BATCHES = st.lists(st.tuples(st.booleans(), st.lists(KEYS, max_size=80)), max_size=12)


@settings(max_examples=150, deadline=None)
@given(BATCHES)
def test_any_interleaving_of_inserts_and_finds_equals_a_dict(batches):
    index, reference = HashIndex(), Reference()
    for inserting, keys in batches:
        if inserting:
            check_insert(index, reference, keys)
        assert index.find(column(keys)).tolist() == reference.find(keys)
    assert index.keys.tolist() == list(reference.known)


@pytest.mark.parametrize("length", [0, 1, 2, 12, 13, 64, 5000])
def test_every_batch_length_works_on_an_empty_and_on_a_filled_index(length):
    random = np.random.default_rng(length)
    index, reference = HashIndex(), Reference()
    for _ in range(3):
        check_insert(index, reference, random.integers(0, 3 * length + 1, length).tolist())
        keys = random.integers(0, 3 * length + 1, length).tolist()
        assert index.find(column(keys)).tolist() == reference.find(keys)


def _regular(shape: str, count: int) -> np.ndarray:
    numbers = np.arange(count, dtype=np.uint64)
    side = np.uint64(int(count**0.5) + 1)
    if shape == "counter":
        return numbers
    if shape == "high":
        return numbers << np.uint64(40)
    if shape == "packed":
        return (numbers // side << np.uint64(32)) | numbers % side
    if shape == "strided":
        return numbers * np.uint64(0x1_0000_0001)
    return (numbers // side * np.uint64(1 << 16) << np.uint64(32)) | (numbers % side * np.uint64(1 << 16))


@pytest.mark.parametrize("shape", ["counter", "high", "packed", "strided", "packed-high"])
def test_regular_keys_spread_as_random_ones_do(shape):
    """Counts probe steps, not seconds: at a load of 3/8 random keys need 0.3 further steps on average."""
    keys = _regular(shape, 50_000)
    index = HashIndex()
    ordinals, fresh = index.insert(keys)
    assert fresh.all()
    assert ordinals.tolist() == list(range(50_000))
    home = index._slots_of(keys)
    steps = (index._probe(keys)[1] - home) & index._mask
    assert steps.mean() < 0.5
    assert steps.max() < 60


def test_only_the_first_of_equal_new_keys_is_fresh_and_ordinals_follow_first_occurrence():
    index = HashIndex()
    ordinals, fresh = index.insert(column([9, 5, 9, 5, 7] * 4))
    assert ordinals.tolist() == [0, 1, 0, 1, 2] * 4
    assert fresh.tolist() == [True, True, False, False, True] + [False] * 15


def test_a_large_batch_of_one_key_takes_no_room():
    index = HashIndex()
    before = index.nbytes
    ordinals, fresh = index.insert(np.full(100_000, 42, np.uint64))
    assert not ordinals.any()
    assert fresh.sum() == 1
    assert fresh[0]
    assert index.nbytes == before


def test_growth_keeps_ordinals_and_the_load_below_three_eighths():
    random = np.random.default_rng(5)
    keys = np.unique(random.integers(0, TOP, 30_000, dtype=np.uint64))
    random.shuffle(keys)
    index = HashIndex()
    for start in range(0, len(keys), 777):
        index.insert(keys[start : start + 777])
        assert len(index) <= 3 * len(index._slots) // 8
    assert index.find(keys).tolist() == list(range(len(keys)))
    assert index.keys.tolist() == keys.tolist()


def test_room_made_ahead_is_kept():
    index = HashIndex(room=10_000)
    before = index.nbytes
    index.insert(np.arange(10_000, dtype=np.uint64))
    assert index.nbytes == before


def test_one_key_at_a_time_equals_batches():
    random = np.random.default_rng(8)
    keys = random.integers(0, 500, 2000).tolist()
    index, reference = HashIndex(), Reference()
    for key in keys:
        assert index.find_one(key) == reference.find([key])[0]
        ordinals, fresh = reference.insert([key])
        assert index.insert_one(key) == (ordinals[0], fresh[0])
    assert index.find(column(keys)).tolist() == reference.find(keys)


def test_the_maximum_is_refused_before_anything_is_taken_in(monkeypatch):
    monkeypatch.setattr(hash_index, "KEYS_MAX", 100)
    index = HashIndex()
    index.insert(np.arange(90, dtype=np.uint64))
    with pytest.raises(Busy, match="90 keys of at most 100"):
        index.insert(np.arange(50, 150, dtype=np.uint64))
    assert len(index) == 90
    assert index.find(np.arange(80, 100, dtype=np.uint64)).tolist() == [*range(80, 90), *[-1] * 10]
