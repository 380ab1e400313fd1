"""Recent batches: none is lost before the bound, and small ones are joined together."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.peer.replication.recent_batches import JOINED_ROWS, RecentBatches


def _batch(columns, first: int, rows: int, published: int) -> TripleBatch:
    numbers = list(range(first, first + rows))
    wide, narrow = columns.column(numbers), columns.column([each % 7 for each in numbers], "uint32")
    batch = TripleBatch(narrow, narrow, narrow, wide, wide, narrow)
    batch.published = published
    return batch


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
@given(given_batches=st.lists(st.tuples(st.integers(1, 2 * JOINED_ROWS), st.integers(0, 19)), max_size=60))
def test_the_last_rows_are_all_there_under_their_indexes(columns, given_batches):
    bound = 2000
    remembered, first, rows = RecentBatches(columns, bound), 0, []
    for count, published in given_batches:
        remembered.add(_batch(columns, first, count, published))
        rows += [(number, published) for number in range(first, first + count)]
        first += count
    held = [(int(number), each.published) for each in remembered for number in each.event]
    assert len(held) <= bound
    assert not Counter(held) - Counter(rows), "nothing is made up, or there twice"
    if len(rows) <= bound:
        assert sorted(held) == rows
    else:
        assert len(held) > bound - 2 * JOINED_ROWS
    assert all(list(each.event) == sorted(each.event) for each in remembered)


def test_single_triples_take_few_bytes_and_do_not_retain_their_frame():
    remembered = RecentBatches(ARRAYS, 10_000)
    for number in range(5000):
        remembered.add(_batch(ARRAYS, number, 1, 3))
    batches = list(remembered)
    assert len(batches) <= 5000 / JOINED_ROWS + 1
    frame = np.arange(100_000, dtype=np.uint64)
    remembered.add(TripleBatch(*[frame[:1]] * 6))
    for number in range(JOINED_ROWS):
        remembered.add(_batch(ARRAYS, number, 1, 0))
    assert not any(np.shares_memory(column, frame) for each in remembered for column in each.columns())
