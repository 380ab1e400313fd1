"""Rows in order: right after any history, and without looking at all of them."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from p2prdf.continuous.operators.ranked import Ranked


def test_ranks_and_stretches_are_those_of_the_sorted_bag() -> None:
    rng = random.Random(1)
    ranked: Ranked[int] = Ranked()
    bag = Counter[int]()
    for step in range(4000):
        number = rng.randrange(900)
        more = rng.randint(-bag[number], 3)
        if more:
            ranked.change((number,), number, more)
            bag[number] += more
        if step % 100:
            continue
        flat = sorted(bag.elements())
        assert ranked.total == len(flat)
        assert len(ranked) == sum(count > 0 for count in bag.values())
        assert list(ranked) == sorted((n, c) for n, c in bag.items() if c)
        start, stop = sorted((rng.randrange(1500), rng.randrange(1500)))
        assert sorted(n for n, c in ranked.between(start, stop) for _ in range(c)) == flat[start:stop]
        assert ranked.rank((number,)) == sum(n < number for n in flat)
        if flat:
            assert (ranked.first, ranked.last) == (flat[0], flat[-1])


def test_an_absent_row_cannot_be_taken_out() -> None:
    ranked: Ranked[str] = Ranked()
    ranked.change((1,), "a", 1)
    with pytest.raises(AssertionError):
        ranked.change((1,), "a", -2)


class _Counting:
    comparisons = 0

    def __init__(self, number: int):
        self.number = number

    def __lt__(self, other: _Counting) -> bool:
        _Counting.comparisons += 1
        return self.number < other.number

    def __eq__(self, other: object) -> bool:
        _Counting.comparisons += 1
        return isinstance(other, _Counting) and self.number == other.number

    def __hash__(self) -> int:
        return self.number


def test_the_next_first_comes_without_a_look_at_the_others() -> None:
    count = 5000
    numbers = list(range(count))
    random.Random(2).shuffle(numbers)
    ranked: Ranked[int] = Ranked()
    for number in numbers:
        ranked.change((_Counting(number),), number, 1)
    _Counting.comparisons = 0
    for number in range(count):
        assert ranked.first == number
        ranked.change((_Counting(number),), number, -1)
    assert _Counting.comparisons < 8 * count * math.log2(count)
