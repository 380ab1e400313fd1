"""Postings behave as a dict of lists."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.store.postings import Postings

ROWS = st.lists(st.tuples(st.integers(0, 25), st.integers(-(2**31), 2**31 - 1)), max_size=40)


def check_expand(postings: Postings, reference: dict[int, list[int]], asked: list[int]) -> None:
    needle, values = postings.expand(np.array(asked, np.int64))
    expected = [(place, value) for place, ordinal in enumerate(asked) for value in reference.get(ordinal, [])]
    assert list(zip(needle.tolist(), values.tolist(), strict=True)) == expected
    counts = postings.counts(np.array(asked, np.int64))
    assert counts.tolist() == [len(reference.get(ordinal, [])) for ordinal in asked]
    places = [(ordinal, place) for ordinal in asked for place in range(len(reference.get(ordinal, [])))]
    held = postings.at(*np.array(places, np.int64).reshape(-1, 2).T)
    assert held.tolist() == [reference[ordinal][place] for ordinal, place in places]


@settings(max_examples=200, deadline=None)
@given(st.lists(ROWS, max_size=15), st.lists(st.integers(-1, 40), max_size=30))
def test_any_appends_then_expand_equals_a_dict_of_lists(batches, asked):
    postings = Postings()
    reference: dict[int, list[int]] = defaultdict(list)
    for rows in batches:
        ordinals, values = [row[0] for row in rows], [row[1] for row in rows]
        postings.append(np.array(ordinals, np.int64), np.array(values, np.int32))
        for ordinal, value in rows:
            reference[ordinal].append(value)
        check_expand(postings, reference, asked)
    assert len(postings) == sum(map(len, reference.values()))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_long_skewed_lists_survive_growth_and_compaction(dtype):
    random = np.random.default_rng(3)
    postings = Postings(dtype)
    reference: dict[int, list[int]] = defaultdict(list)
    for _ in range(300):
        ordinals = (random.pareto(0.7, 60) % 400).astype(np.int64)
        values = random.integers(0, np.iinfo(dtype).max, 60).astype(dtype)
        postings.append(ordinals, values)
        for ordinal, value in zip(ordinals.tolist(), values.tolist(), strict=True):
            reference[ordinal].append(value)
    check_expand(postings, reference, [-1, *range(420), 3, 3])
    assert postings.expand(np.array([0]))[1].dtype == dtype


def test_lists_of_one_cost_one_slot_of_the_pool():
    postings = Postings()
    postings.append(np.arange(100_000), np.arange(100_000, dtype=np.int32))
    assert postings._end == 100_000
    postings.append_one(100_000, 1)
    assert postings._end == 100_001


def test_holes_never_take_more_than_half_of_the_pool():
    postings = Postings()
    for value in range(3000):
        postings.append_one(value % 7, value)
        assert postings._holes * 2 <= max(postings._end, 64)
    check_expand(postings, {o: list(range(o, 3000, 7)) for o in range(7)}, list(range(7)))


def test_moved_lists_are_counted_as_holes_until_the_pool_is_rewritten():
    """Grow every list tenfold in one go: the old blocks would be most of the pool."""
    postings = Postings()
    for _ in range(4):
        postings.append(np.repeat(np.arange(50), 20), np.tile(np.arange(20, dtype=np.int32), 50))
    check_expand(postings, {o: list(range(20)) * 4 for o in range(50)}, list(range(50)))
    held = int(postings._capacity.sum())
    assert postings._end - postings._holes == held


def test_nothing_asked_nothing_given():
    postings = Postings()
    for asked in ([], [-1], [5], [-1, 7]):
        check_expand(postings, {}, asked)
    postings.append(np.empty(0, np.int64), np.empty(0, np.int32))
    assert len(postings) == 0


def test_an_expansion_is_not_changed_by_later_appends():
    postings = Postings()
    postings.append(np.zeros(3, np.int64), np.array([1, 2, 3], np.int32))
    _, values = postings.expand(np.array([0]))
    for value in range(100):
        postings.append_one(0, value)
    assert values.tolist() == [1, 2, 3]
