"""Validity intervals follow from the known removals, in any order of removals and publications."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_tables import TERMS, Harness, new_tables

from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.store import columnar, light, triple_table
from p2prdf.store.intervals import ValidityIntervals, later_time


def played(operations):
    """Return the time of each interval after publications (positive) and removals (negative) of one triple."""
    intervals: ValidityIntervals[str] = ValidityIntervals()
    times: dict[int, int] = {}
    for each in operations:
        if each > 0:
            changed = intervals.publish("t", each, lambda begin: times.get(begin, 0), lambda _: True)
        else:
            changed = intervals.remove("t", -each, lambda begin: times.get(begin, 0), lambda _: True)
        for begin, time, _ in list(changed):
            times[begin] = later_time(times.get(begin, 0), time)
    return times


def test_a_removal_ends_the_interval_before_it_and_begins_another():
    assert played([5]) == {0: 5}
    assert played([5, -7]) == {0: GONE | 7}
    assert played([5, -7, 9]) == {0: GONE | 7, 7: 9}
    assert played([5, -7, 9, -11]) == {0: GONE | 7, 7: GONE | 11}


def test_a_publication_with_the_stamp_of_a_removal_is_removed():
    assert played([7, -7]) == played([-7, 7]) == {0: GONE | 7}


def test_a_publication_after_a_removal_stays_if_the_removal_comes_late():
    assert played([9, -7]) == {0: GONE | 7, 7: 9}
    assert played([-7, 5]) == {0: GONE | 7}


def test_two_removals_in_either_order_are_the_same():
    assert played([5, -11, -7]) == played([-11, 5, -7]) == played([5, -7, -11])


@given(st.lists(st.integers(-9, 9).filter(bool), max_size=6), st.data())
def test_the_order_does_not_matter_nor_does_repetition(operations, data):
    """Only an ended interval may be known as published at one replica alone: nothing is derived from it any more."""
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
    """Its end was known under the indexes of that one, and is now the end of the interval made by the removal."""
    intervals: ValidityIntervals[str] = ValidityIntervals()
    times = {0: 5}
    first = [(0, GONE | 11, None)]
    second = [(7, GONE | 11, 0), (0, GONE | 7, None)]
    for removal, expected in ((11, first), (7, second)):
        changes = list(intervals.remove("t", removal, lambda begin: times.get(begin, 0), lambda _: True))
        assert changes == expected
        times.update((begin, time) for begin, time, _ in changes)


def test_a_publication_gets_the_former_intervals_until_one_has_all_its_indexes():
    intervals: ValidityIntervals[str] = ValidityIntervals()
    times: dict[int, int] = {}

    def time_of(begin):
        return times.get(begin, 0)

    for removal in (3, 5, 7):
        changed = list(intervals.remove("t", removal, time_of, lambda _: True))
        times.update((begin, time) for begin, time, _ in changed)
    newest, (third, second, first) = (7, 9, 5), ((5, GONE | 7, None), (3, GONE | 5, None), (0, GONE | 3, None))
    assert list(intervals.publish("t", 9, time_of, {3, 5}.__contains__)) == [newest, third, second]
    assert list(intervals.publish("t", 6, time_of, lambda _: True)) == [third, second, first]
    assert list(intervals.publish("t", 6, time_of, lambda _: False)) == [third]


@pytest.mark.parametrize("kind", ["light", "columnar"])
def test_a_deletion_received_again_after_a_publication_under_fewer_indexes_changes_nothing(kind):
    tables, dictionary = new_tables(kind)
    make, term = tables.columns, dictionary.intern("<b>")

    def add(time, roles):
        terms = (make.full(1, term, "uint32") for _ in range(3))
        tables.add_triples(*terms, make.column([time]), make.column([0]), make.column([roles], "uint32"))
        return sorted(row[3:] for row in zip(*map(as_list, tables.triples_since(0)), strict=True))

    add(GONE | 6, 0b111)
    held = add(7, 0b001)
    assert (7, 0, 0b111) in held
    assert add(GONE | 6, 0b111) == held


class _Replica:
    """A peer's intervals of one triple: by their beginning, their time and their indexes."""

    def __init__(self) -> None:
        self.intervals: ValidityIntervals[str] = ValidityIntervals()
        self.held: dict[int, tuple[int, frozenset[str]]] = {}

    def remove(self, stamp, roles):
        def lacks(begin):
            return bool(roles - self.held.get(begin, (0, frozenset()))[1])

        def time_of(begin):
            return self.held.get(begin, (0, frozenset()))[0]

        for begin, time, source in self.intervals.remove("t", stamp, time_of, lacks):
            had = frozenset() if source is None else self.held[source][1]
            now, before = self.held.get(begin, (0, frozenset()))
            self.held[begin] = later_time(now, time), before | had | roles

    def under(self, role):
        return {begin: time for begin, (time, roles) in self.held.items() if time and role in roles}

    def give(self, other, role):
        """Send the ends of intervals that the other lacks under an index, as anti-entropy does."""
        lacking = dict(self.under(role).items() - other.under(role).items())
        for time in lacking.values():
            other.remove(time - GONE, frozenset([role]))


def test_replicas_with_an_interval_under_different_indexes_are_equal_after_one_exchange():
    """For any number of removals known to both, if one removal before all of them came to one replica alone."""
    for count in (3, 30):
        one, other = _Replica(), _Replica()
        for stamp in range(2, count):
            one.remove(stamp, frozenset("p"))
        one.remove(1, frozenset("s"))  # under s it is known of the first stay alone; under p of all
        for stamp in range(1, count):
            other.remove(stamp, frozenset("p"))
        for _ in range(2):
            one.give(other, "s")
            other.give(one, "s")
        assert one.under("s") == other.under("s")
        assert len(one.under("s")) == count - 1


@pytest.mark.parametrize("kind", ["light", "columnar"])
def test_a_removal_visits_as_many_stays_however_often_its_triple_came_and_went(kind, monkeypatch):
    """A triple published and removed n times costs in proportion to n, live and when a restart reads it again."""
    visited = 0

    def counted(times, others):
        nonlocal visited
        visited += np.size(times)
        return later(times, others)

    owner = light if kind == "light" else triple_table
    name = "later_time" if kind == "light" else "later_times"
    later = getattr(owner, name)
    monkeypatch.setattr(owner if kind == "light" else columnar, name, counted)
    costs = []
    for count in (50, 200):
        tables, dictionary = new_tables(kind)
        harness = Harness(tables)
        a, b, c = (dictionary.intern(each) for each in TERMS[:3])
        visited = 0
        for stamp in range(10, 10 + 2 * count, 2):
            harness.triples([(a, b, c)], time=stamp)
            harness.triples([(a, b, c)], time=GONE | stamp + 1)
        costs.append(visited / count)
        kept = tables.triples_since(0)
        restored, _ = new_tables(kind)
        visited = 0
        restored.add_triples(*kept, probed=restored.columns.full(len(kept[0]), 0, "uint32"))
        costs.append(visited / count)
    assert max(costs) <= 5
    assert costs[0] == pytest.approx(costs[2], rel=0.1)
    assert costs[1] == pytest.approx(costs[3], rel=0.1)


@pytest.mark.parametrize("kind", ["light", "columnar"])
def test_a_deletion_adds_no_index_entries(kind):
    """The interval after a deletion is a row from its first publication on."""
    tables, dictionary = new_tables(kind)
    [term] = dictionary.intern_all(["<urn:a>"])
    bits = (1 << 7) - 2  # six indexes
    for number in range(5):
        for stamp in (2 * number + 1, GONE | 2 * number + 2):
            tables.add_triples([term], [term], [term], [stamp], [0], [bits])
            sizes = tables.sizes()
            assert (sizes.triples, sizes.triple_roles) == (number + 1, 6 * (number + 1))
