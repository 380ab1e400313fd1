"""Recently acknowledged answers are recognised by subscription, epoch and time."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf.hlc import GONE
from p2prdf.peer.entry.dedup import RecentlyStable
from p2prdf.wire.messages import SURE, WITHDRAWN

MATERIALS = {"lists": list, "arrays": lambda numbers: np.array(numbers, np.uint64)}


@pytest.fixture(params=MATERIALS)
def column(request):
    return MATERIALS[request.param]


def test_in_the_epoch_at_hand_nothing_is_looked_up(column):
    settled = RecentlyStable()
    settled.add(1, column([10, 11]), 7, 0.0)
    assert settled.places_left(1, column([10, 11]), 7) is None


def test_in_another_epoch_acknowledged_answers_are_left_out(column):
    settled = RecentlyStable()
    settled.add(1, column([10, 11]), 7, 0.0)
    settled.add(1, column([2**64 - 1]), 7, 1.0)
    assert settled.places_left(1, column([9, 10, 12, 2**64 - 1]), 6) == [0, 2]
    assert settled.places_left(1, column([10, 11]), 8) == []
    assert settled.places_left(1, column([9, 12]), 6) is None
    assert settled.places_left(2, column([10]), 6) is None


def test_answers_acknowledged_in_several_epochs_are_left_out_of_each_other_one(column):
    """Two alternating coordinators may both report acknowledged answers, and some of their messages are late."""
    settled = RecentlyStable(seconds=120.0)
    settled.add(1, column([10, 11]), 7, 0.0)
    settled.add(1, column([12]), 8, 1.0)
    settled.add(1, column([13]), 7, 2.0)
    assert settled.places_left(1, column([9, 10, 12, 13]), 8) == [0, 2]
    assert settled.places_left(1, column([9, 10, 12, 13]), 7) == [0, 1, 3]
    assert settled.places_left(1, column([9, 10, 12, 13]), 6) == [0]
    settled.add(2, column([20]), 7, 121.5)
    assert settled.places_left(1, column([9, 12, 13]), 8) == [0, 1]
    assert settled.places_left(1, column([12, 13]), 7) is None


def test_in_another_epoch_a_retraction_of_an_acknowledged_answer_is_confirmed(column):
    settled = RecentlyStable()
    settled.add(1, column([10, 11 ^ WITHDRAWN]), 7, 0.0)
    identities = column([10 ^ WITHDRAWN, 11, 12 ^ WITHDRAWN, 10, 10 ^ WITHDRAWN])
    times = column([GONE | 5, GONE | 6, GONE | 7, 8, GONE | SURE | 9])
    made = [GONE | SURE | 5, GONE | SURE | 6, GONE | 7, 8, GONE | SURE | 9]
    assert list(settled.made_sure(1, identities, times, 6)) == made
    assert type(settled.made_sure(1, identities, times, 6)) is type(times)
    assert list(settled.made_sure(1, identities, times, 7)) == list(times)
    assert list(settled.made_sure(2, identities, times, 6)) == list(times)
    assert times[0] == GONE | 5, "what came may be kept elsewhere"


def test_it_is_forgotten_after_its_time(column):
    settled = RecentlyStable(seconds=120.0)
    settled.add(1, column([10]), 7, 0.0)
    settled.add(2, column([20]), 7, 60.0)
    settled.add(2, column([21]), 7, 120.0)
    assert settled.places_left(1, column([10]), 6) is None
    assert settled.places_left(2, column([20, 21, 22]), 6) == [2]
    assert len(settled) == 2


def test_the_oldest_is_forgotten_when_there_is_too_much(column):
    settled = RecentlyStable(most=3)
    settled.add(1, column([10, 11]), 7, 0.0)
    settled.add(1, column([12, 13]), 7, 1.0)
    assert settled.places_left(1, column([10, 11, 12, 13]), 6) == [0, 1]
    settled.add(1, column([]), 8, 1.0)
    assert len(settled) == 2
