"""Samples for explanations: some of a query's waiting rows, and some of the triples that match a pattern."""

from __future__ import annotations

import pytest
from store_tables import EVERY_ROLE, Harness, new_tables, path

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.store.tables import stride


@pytest.fixture(params=["light", "columnar"])
def tables(request):
    return new_tables(request.param)


def some(count, dictionary):
    """Triples of a few predicates and objects."""
    names = dictionary.intern_all([f"<n{each}>" for each in range(count)])
    return [(names[at], dictionary.intern(f"<p{at % 3}>"), names[at % 5]) for at in range(count)]


@pytest.mark.parametrize("mask", keys.ROLES)
@pytest.mark.parametrize("role", keys.ROLES)
def test_triples_that_have_the_parts_of_a_mask_are_found_under_any_index(tables, role, mask):
    held, dictionary = tables
    triples = some(30, dictionary)
    Harness(held).triples(triples, 7)
    Harness(held).triples(triples[:4], GONE | 9)
    wanted = triples[11]
    columns, each_for = held.some_triples(role, mask, wanted, 1000, per_event=False)
    bits = (keys.S, keys.P, keys.O)
    expected = [
        triple
        for triple in triples[4:]
        if all(not mask & bit or triple[at] == wanted[at] for at, bit in enumerate(bits))
    ]
    found = [as_list(column) for column in columns]
    assert each_for == 1.0
    assert sorted(zip(*found[:3], strict=True)) == sorted(expected)
    assert found[3] == [7] * len(expected)


def test_triples_where_something_waits_are_found_by_their_parts_however_many_others_there_are(tables):
    held, dictionary = tables
    harness = Harness(held)
    harness.query(path("<p0>"), dictionary, 1)
    triples = some(300, dictionary)
    harness.triples(triples, 7)
    p0 = dictionary.intern("<p0>")
    columns, each_for = held.some_triples(keys.P, keys.P, (p0, p0, p0), 1000, per_event=False)
    assert (len(columns[0]), each_for) == (100, 1.0)
    columns, each_for = held.some_triples(keys.P, keys.P, (p0, p0, p0), 30, per_event=False)
    assert (len(columns[0]) * each_for, each_for) == (100, 4.0)
    p9 = dictionary.intern("<p9>")
    columns, each_for = held.some_triples(keys.P, keys.P, (p9, p9, p9), 30, per_event=False)
    assert (len(columns[0]), each_for) == (0, 1.0)


def test_of_triples_that_nobody_waits_for_at_most_so_many_are_looked_at(tables):
    held, dictionary = tables
    Harness(held).triples(some(300, dictionary), 7)
    columns, each_for = held.some_triples(keys.P, 0, (0, 0, 0), 100, per_event=False)
    assert (len(columns[0]), each_for) == (100, 3.0)
    assert len(held.some_triples(keys.P, 0, (0, 0, 0), 100, per_event=True)[0][0]) == 0


def test_publication_events_are_looked_at_apart(tables):
    held, dictionary = tables
    Harness(held).triples(some(6, dictionary), 7, EVERY_ROLE << keys.EVENT_SHIFT)
    assert len(held.some_triples(keys.P, 0, (0, 0, 0), 100, per_event=True)[0][0]) == 6
    assert len(held.some_triples(keys.P, 0, (0, 0, 0), 100, per_event=False)[0][0]) == 0


def test_rows_that_wait_are_those_of_the_group_alone(tables):
    held, dictionary = tables
    harness = Harness(held)
    plan, _ = harness.query(path("<p0>", "<p1>"), dictionary, 1)
    group = plan.identity >> 1
    harness.triples(some(30, dictionary), 7)
    assert [held.some_waiting(group, step, 100)[1] for step in (0, 1)] == [1, 10]
    rows, count = held.some_waiting(group, 1, 4)
    assert (len(rows), count, rows.step) == (4, 10, 1)
    assert held.some_waiting(group, 2, 100) == (None, 0), "answers do not wait"
    assert held.some_waiting(group ^ 1, 0, 100) == (None, 0)
    held.end_groups([group])
    assert held.some_waiting(group, 1, 100) == (None, 0)


@pytest.mark.parametrize(("count", "most", "each"), [(0, 5, 1), (5, 5, 1), (6, 5, 2), (10, 5, 2), (11, 5, 3)])
def test_strides_leave_no_more_than_the_most(count, most, each):
    assert stride(count, most) == each
    assert len(range(count)[::each]) <= most
