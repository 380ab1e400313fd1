"""Stamps from the future in messages: which fields carry stamps, and how they are corrected."""

import typing

import numpy as np
import pytest

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.wire import messages as m
from p2prdf.wire.stamps import LEASES, STAMPED, UNSTAMPED, Anchor, latest, restamped, with_leases_until

NOW = hlc.from_seconds(1_800_000_000.0)
BOUND = hlc.from_seconds(1_800_000_060.0)
HOUR = hlc.from_seconds(3600.0)
DAY = 24 * HOUR


def triples(*times, array=False, **more):
    column = (lambda each: np.array(each, np.uint64)) if array else list
    some = [0] * len(times)
    return m.IndexTriples(some, some, some, column(times), some, some, **more)


def test_each_message_between_peers_says_which_of_its_fields_are_stamps_or_why_they_are_not_checked():
    assert STAMPED.keys().isdisjoint(UNSTAMPED)
    assert set(STAMPED) | set(UNSTAMPED) == set(typing.get_args(m.Message))


def test_each_field_of_the_table_is_a_field_of_its_message():
    inner = {"groups": m.Groups, "rows": m.Rows}
    for kind, fields in STAMPED.items():
        for field in fields:
            outer, _, name = field.partition(".")
            assert outer in kind.__dataclass_fields__
            assert not name or name in inner[outer].__dataclass_fields__


@pytest.mark.parametrize("array", [False, True])
def test_the_latest_stamp_is_that_of_a_removal_too_but_no_event_time(array):
    assert latest(triples(5, hlc.GONE | 7, hlc.element(1 << 40, 3), array=array)) == 7
    assert latest(triples(array=array)) == 0
    assert latest(triples(5, stamp=9, array=array)) == 9
    assert latest(m.GroupsGone([1])) == 0


def test_a_time_that_is_neither_a_stamp_nor_an_event_time_counts_as_from_the_future():
    assert latest(triples(1 << 62)) == latest(triples(1 << 62, array=True)) == 1 << 62


def test_a_query_without_a_triple_yet_has_no_oldest_stamp():
    rows = m.Rows([0], [1], [(1 << 64) - 1], [0], ())
    assert latest(m.Answers([1], rows)) == 0
    assert restamped(m.Answers([1], rows), Anchor(BOUND, NOW).of_any).rows == rows


@pytest.mark.parametrize("array", [False, True])
def test_an_ended_group_counts_from_a_stamp_after_all_others_and_is_not_from_the_future(array):
    column = (lambda each: np.array(each, np.uint64)) if array else list
    groups = m.Groups([1], column([(1 << 64) - 1]), column([NOW]), column([NOW]), ())
    message = m.IndexQuery(None, 0, groups)
    assert latest(message) == NOW
    corrected = restamped(message, Anchor(BOUND, NOW).of_any).groups
    assert as_list(corrected.since_min) == [(1 << 64) - 1]


def test_after_a_known_jump_stamps_keep_their_distances_and_lie_between_the_jump_and_now():
    before, jumped = NOW - HOUR, NOW + DAY
    anchor = Anchor(BOUND, NOW, jumped, before)
    times = [jumped, jumped + 1, jumped + HOUR // 4, jumped + DAY, jumped + 400 * DAY, hlc.ELEMENT - 1]
    found = [anchor.of(each) for each in times]
    assert found == sorted(set(found))
    assert found[1] - found[0] == 1
    assert found[2] - found[0] == HOUR // 4
    assert before < found[0]
    assert found[-1] < NOW


def test_without_a_known_jump_stamps_of_the_future_lie_within_the_last_day_in_their_order():
    anchor = Anchor(BOUND, NOW)
    times = [BOUND + 1, BOUND + 2, BOUND + HOUR, BOUND + 400 * DAY, hlc.ELEMENT - 1]
    found = [anchor.of(each) for each in times]
    assert found == sorted(set(found))
    assert found[1] - found[0] == 1
    assert NOW - DAY <= found[0] <= found[-1] < NOW


def test_replicas_that_start_at_different_times_correct_a_stamp_to_the_same():
    later = HOUR // 7
    for time in (NOW + HOUR, NOW + 10 * HOUR):
        assert Anchor(BOUND, NOW).of(time) == Anchor(BOUND + later, NOW + later).of(time)
        jump = NOW + HOUR, NOW - DAY
        assert Anchor(BOUND, NOW, *jump).of(time) == Anchor(BOUND + later, NOW + later, *jump).of(time)


def test_a_stamp_that_is_not_from_the_future_is_left_alone():
    anchor = Anchor(BOUND, NOW)
    for time in (0, NOW, BOUND, hlc.GONE | BOUND, hlc.element(1 << 40, 3)):
        assert anchor.of(time) == time


@pytest.mark.parametrize("array", [False, True])
def test_a_removal_stays_one_and_stays_after_the_publication_before_it(array):
    found = restamped(
        triples(NOW + HOUR, hlc.GONE | NOW + HOUR + 1, array=array, began=NOW + HOUR, complete=3),
        Anchor(BOUND, NOW).of_any,
    )
    published, removed = as_list(found.time)
    assert removed == hlc.GONE | published + 1
    assert found.began == published
    assert found.complete == 3


def field_type(kind, name):
    field = kind.__dataclass_fields__.get(name)
    return None if field is None else field.type


def test_the_table_of_leases_has_all_columns_of_leases():
    for kind in typing.get_args(m.Message):
        inner = {"groups": m.Groups, "rows": m.Rows}
        names = {name for name in kind.__dataclass_fields__ if name == "lease"}
        names |= {
            f"{outer}.lease"
            for outer, columns in inner.items()
            if field_type(kind, outer) == columns.__name__ and "lease" in columns.__dataclass_fields__
        }
        assert names - {LEASES.get(kind)} == set(), kind


@pytest.mark.parametrize("array", [False, True])
def test_leases_that_a_clock_from_the_future_has_made_are_shortened_and_others_stay(array):
    column = (lambda each: np.array(each, np.uint64)) if array else list
    told = m.GroupLeases(column([1, 2]), column([NOW, NOW + HOUR]))
    assert as_list(with_leases_until(told, BOUND).lease) == [NOW, BOUND]
    assert with_leases_until(told, NOW + HOUR) is told
    groups = m.Groups([1], column([5]), column([6]), column([NOW + HOUR]), ())
    rows = m.Rows([0], [1], [5], [5], ())
    forward = m.Forward(None, 1, groups, rows)
    shorter = with_leases_until(forward, BOUND)
    assert as_list(shorter.groups.lease) == [BOUND]
    assert shorter.rows is rows
    assert with_leases_until(m.GroupsGone([1]), 0) == m.GroupsGone([1])
    assert as_list(with_leases_until(m.GroupLeases(column([]), column([])), 0).lease) == []
