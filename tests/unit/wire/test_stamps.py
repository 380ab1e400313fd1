"""Stamps from the future in messages: which fields carry stamps, and how they are corrected."""

import numpy as np
import pytest

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.wire import messages as m
from p2prdf.wire.fields import DECLARED, NUMBERS, Role, fields_in, message
from p2prdf.wire.stamps import Anchor, latest, restamped, with_leases_until

NOW = hlc.from_seconds(1_800_000_000.0)
BOUND = hlc.from_seconds(1_800_000_060.0)
HOUR = hlc.from_seconds(3600.0)
DAY = 24 * HOUR


def triples(*times, array=False, **more):
    column = (lambda each: np.array(each, np.uint64)) if array else list
    some = [0] * len(times)
    return m.IndexTriples(some, some, some, column(times), some, some, **more)


NAMES_OF_STAMPS = {
    "time", "times", "born", "began", "before", "changed", "complete", "cut", "jumped", "lease", "oldest", "opened",
    "refresh", "since", "since_max", "since_min", "stamp", "stamps", "upto", "youngest",
}  # fmt: skip
NOT_STAMPS = {Role.NUMBER, Role.IDENTITY, Role.INDEX, Role.INDEXES}


def test_no_number_between_peers_with_the_name_of_a_stamp_is_declared_as_another_one():
    for kind in (*(each for each in NUMBERS if issubclass(each, m.Message)), m.Groups, m.Rows):
        for name, field in DECLARED[kind].items():
            if field.form in ("int", "u32", "u64") and name in NAMES_OF_STAMPS:
                assert field.role not in NOT_STAMPS, f"{kind.__name__}.{name}"


def test_a_number_that_does_not_say_its_role_cannot_be_declared():
    with pytest.raises(KeyError):

        @message(127)
        class Careless(m.Message):
            since: int


def test_stamps_of_groups_and_rows_count_as_those_of_their_message():
    assert fields_in(m.Forward, Role.STAMP) == ["groups.since_max", "rows.born", "refresh"]
    assert fields_in(m.Forward, Role.BOUNDED) == ["groups.since_min", "rows.oldest"]
    assert fields_in(m.IndexTriples, Role.STAMP) == ["time", "began", "complete", "stamp"]


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


def test_no_message_carries_leases_in_several_fields():
    assert {kind: fields for kind in NUMBERS if (fields := fields_in(kind, Role.LEASE_END))} == {
        m.IndexQuery: ["groups.lease"], m.Forward: ["groups.lease"], m.GroupLeases: ["lease"],
    }  # fmt: skip


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
