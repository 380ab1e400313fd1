"""Stays follow from the removals that are known, whatever order they and the publications come in."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from p2prdf.hlc import GONE
from p2prdf.store.stays import Stays, later_time


def played(operations):
    """Return the time of each stay after publications (positive) and removals (negative) of one triple."""
    stays: Stays[str] = Stays()
    times: dict[int, int] = {}
    for each in operations:
        if each > 0:
            changes = list(stays.publish("t", each, lambda _: True))
        else:
            changes = [change[:2] for change in stays.remove("t", -each, lambda begin: times.get(begin, 0))]
        for begin, time in changes:
            times[begin] = later_time(times.get(begin, 0), time)
    return times


def test_a_removal_ends_what_was_published_before_it_and_begins_another_stay():
    assert played([5]) == {0: 5}
    assert played([5, -7]) == {0: GONE | 7, 7: 0}
    assert played([5, -7, 9]) == {0: GONE | 7, 7: 9}
    assert played([5, -7, 9, -11]) == {0: GONE | 7, 7: GONE | 11, 11: 0}


def test_a_publication_with_the_stamp_of_a_removal_is_removed():
    assert played([7, -7]) == played([-7, 7]) == {0: GONE | 7, 7: 0}


def test_what_was_published_after_a_removal_that_is_heard_of_late_stays():
    assert played([9, -7]) == {0: GONE | 7, 7: 9}
    assert played([-7, 5]) == {0: GONE | 7, 7: 0}


def test_two_removals_in_either_order_are_the_same():
    assert played([5, -11, -7]) == played([-11, 5, -7]) == played([5, -7, -11])


@given(st.lists(st.integers(-9, 9).filter(bool), max_size=6), st.data())
def test_the_order_does_not_matter_nor_does_repetition(operations, data):
    """Only a stay that is over may have been heard of as published or not: nothing is derived from it any more."""
    expected = played(operations)
    shuffled = data.draw(st.permutations([*operations, *operations]))
    if any(each < 0 for each in operations):
        assert played(shuffled) == expected
    else:
        assert played(shuffled) == played(sorted(operations))


def test_all_orders_of_a_flapping_triple():
    operations = [2, -3, 4, -5, 6]
    assert {tuple(sorted(played(order).items())) for order in permutations(operations)} == {
        ((0, GONE | 3), (3, GONE | 5), (5, 6))
    }


def test_a_stay_that_an_earlier_removal_cuts_off_is_held_as_the_one_it_was_cut_from():
    """Its end was known under the roles of that one, and is now the end of what the removal makes."""
    stays: Stays[str] = Stays()
    times = {0: 5}
    first, second = [(11, 0, None), (0, GONE | 11, None)], [(7, GONE | 11, 0), (0, GONE | 7, None)]
    for removal, expected in ((11, first), (7, second)):
        changes = list(stays.remove("t", removal, lambda begin: times.get(begin, 0)))
        assert changes == expected
        times.update((begin, time) for begin, time, _ in changes)


def test_a_publication_is_told_of_the_stays_before_until_one_lacks_no_role_of_it():
    stays: Stays[str] = Stays()
    for removal in (3, 5, 7):
        list(stays.remove("t", removal, lambda _: 0))
    assert list(stays.publish("t", 9, {3, 5}.__contains__)) == [(7, 9), (5, GONE | 7), (3, GONE | 5)]
    assert list(stays.publish("t", 6, lambda _: True)) == [(5, GONE | 7), (3, GONE | 5), (0, GONE | 3)]
    assert list(stays.publish("t", 6, lambda _: False)) == [(5, GONE | 7)]
