"""Marks of answers: both materials do the same, with a few identities at a time and with many."""

from __future__ import annotations

from random import Random

import pytest

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.store.answer_marks import Mark, make_marks


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most", [3, 16, 17, 60])
def test_both_materials_do_the_same_with_few_and_with_many(seed, most):
    rng = Random(seed)
    pool = [rng.getrandbits(64) for _ in range(80)]
    both = make_marks(LISTS), make_marks(ARRAYS)
    for _ in range(30):
        some = rng.choices(pool, k=rng.randint(0, most))
        mark, *sources = rng.sample(list(Mark), 3)
        sources = tuple(sources)
        told = []
        for marks, columns in zip(both, (LISTS, ARRAYS), strict=True):
            identity = columns.column(some)
            known = marks.find(identity)
            told.append((
                marks.knows(identity), known, marks.move(known, sources, mark), marks.insert(identity, mark),
                marks.places(sorted(known), sources), marks.places(range(len(marks) // 2, len(marks)), sources),
                marks.knows(some), len(marks), [list(as_list(each)) for each in marks.state()],
            ))  # fmt: skip
        assert told[0] == told[1]
