"""Sub-keys: number 0 is the key; they are evenly spread and stable, and columns equal single computations."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf import keys

KEYS = st.integers(0, (1 << 64) - 1)


@settings(max_examples=50, deadline=None)
@given(KEYS)
def test_the_sub_keys_of_every_depth_lie_one_in_each_part_of_the_ring(key: int):
    subs = [keys.sub_key(key, index) for index in range(1 << keys.DEPTH_MAX)]
    assert subs[0] == key
    for depth in range(keys.DEPTH_MAX + 1):
        assert sorted(sub >> 64 - depth for sub in subs[: 1 << depth]) == list(range(1 << depth))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 255)), min_size=1, max_size=50))
def test_columns_of_sub_keys_are_as_single_ones(pairs: list[tuple[int, int]]):
    ring, index = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    assert keys.sub_keys(ring, index).tolist() == [keys.sub_key(*pair) for pair in pairs]


def test_within_the_parts_sub_keys_lie_anywhere():
    """Two peers that share their first bits share the sub-keys, however few those are."""
    bits = [keys.sub_key(keys.fmix(key), index) >> 56 & 1 for key in range(100) for index in range(4)]
    assert 150 < sum(bits) < 250


def test_the_name_of_a_set_of_indexes_shows_sub_keys():
    marked = keys.role_bit(6, per_event=False) | 1 << 2 | 1 << 2 + keys.MARK_SHIFT
    assert keys.role_name(marked) == "p,po,sub:p"


@settings(max_examples=50, deadline=None)
@given(KEYS, st.lists(st.tuples(KEYS, KEYS, KEYS), min_size=1, max_size=50, unique=True))
def test_events_by_content_are_distinguished_by_publisher_and_triple(
    publisher: int, triples: list[tuple[int, int, int]]
):
    hashes = [np.array(column, np.uint64) for column in zip(*triples, strict=True)]
    found = keys.event_ids_by_content(publisher, *hashes).tolist()
    assert len({*found, *keys.event_ids_by_content(publisher ^ 1, *hashes).tolist()}) == 2 * len(triples)
    assert not set(found) & set(keys.event_ids(publisher, 0, 100).tolist())
    backwards = keys.event_ids_by_content(publisher, *(column[::-1] for column in hashes))
    assert backwards.tolist() == found[::-1]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, (1 << 16) - 1), KEYS, KEYS, KEYS)
def test_the_keys_of_one_triple_are_those_of_each_index(roles: int, s: int, p: int, o: int) -> None:
    wanted = [role for role in (1, 2, 3, 4, 5, 6, 7, 0) if (roles | roles >> keys.EVENT_SHIFT) >> role & 1]
    found = keys.triple_keys(roles, s, p, o)
    assert [role for role, _ in found] == wanted
    for role, key in found:
        if role == keys.ANY:
            assert key == keys.BUCKET_KEYS[keys.triple_id(s, p, o) % keys.BUCKETS]
        else:
            assert key == keys.role_key(role, s, p, o)
