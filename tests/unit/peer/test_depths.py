"""The pure parts of hot keys: depths known, samples, frequent keys, and how deep to split."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer.joins.depths import Depths, Frequent, Sampler, depth_for


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 20), st.integers(0, 8)), max_size=40),
    st.lists(st.integers(0, 25), min_size=1, max_size=20),
)
def test_depths_are_merged_by_maximum_and_found_by_the_column(columns, learnt, asked):
    depths = Depths(100)
    greatest: dict[tuple[int, int], int] = {}
    for role, key, depth in learnt:
        assert depths.raise_to(role, key, depth) == (depth > greatest.get((role, key), 0))
        greatest[role, key] = max(depth, greatest.get((role, key), 0))
    for role in (1, 2):
        expected = [greatest.get((role, key), 0) for key in asked]
        found = depths.find(role, columns.column(asked))
        assert (as_list(found) if found is not None else [0] * len(asked)) == expected
        assert found is not None or not any(expected)
        assert [depths.depth(role, key) for key in asked] == expected


def test_the_oldest_depth_makes_room():
    depths = Depths(3)
    for key in range(5):
        depths.raise_to(2, key, 1)
    depths.raise_to(2, 2, 4)
    assert len(depths) == 3
    assert as_list(depths.find(2, LISTS.column(range(5)))) == [0, 0, 4, 1, 1]
    depths.forget(2, 3)
    depths.forget(2, 3)
    assert as_list(depths.find(2, ARRAYS.column(range(5)))) == [0, 0, 4, 0, 1]


@pytest.mark.parametrize("mean", [1, 2, 64])
def test_a_sampler_picks_one_in_so_many_however_the_rows_are_cut(mean):
    whole = Sampler(mean).places(20_000)
    cut, pieces, at = Sampler(mean), [], 0
    for size in [1] * 100 + [7] * 100 + [19_200]:
        pieces += [at + place for place in cut.places(size)]
        at += size
    assert pieces == whole
    assert 0.85 < len(whole) * mean / 20_000 < 1.15
    assert whole == sorted(set(whole))


def test_a_sampler_sees_each_place_of_a_repeating_pattern_alike():
    """Data often repeats with a period: type, name, email, type, name, email..."""
    seen = [0] * 4
    for place in Sampler(64).places(200_000):
        seen[place % 4] += 1
    assert max(seen) < 1.2 * min(seen)


def test_frequent_keys_are_kept_in_little_room():
    frequent = Frequent(10)
    for at in range(10_000):
        frequent.add(2, -1 if at % 4 == 0 else at)
    assert len(frequent.counts) <= 10
    assert 2_500 - 1_000 <= frequent.counts[2, -1] <= 2_500


@pytest.mark.parametrize(
    ("rate", "depth", "depth_max", "expected"),
    [(10, 0, 8, 0), (11, 0, 8, 1), (20, 0, 8, 1), (40.1, 0, 8, 3), (11, 2, 8, 3), (1e9, 0, 8, 8), (1e9, 3, 2, 3)],
)
def test_a_key_is_split_until_no_sub_key_carries_more_than_is_fair(rate, depth, depth_max, expected):
    assert depth_for(rate, 10, depth=depth, depth_max=depth_max) == expected
