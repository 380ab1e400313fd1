"""Elements of a stream are joined only if one window can hold them together, in any order of arrival."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_tables import BOTH_KINDS, TERMS, Harness, bindings, new_tables, path

from p2prdf import hlc
from p2prdf.rdf.query import Algorithm, make_plan

MARK = 7
SPAN = 100


@pytest.fixture(params=["light", "columnar"])
def kind(request):
    """Both kinds of tables."""
    return request.param


class Stream:
    """Tables, and elements for them."""

    def __init__(self, kind):
        self.tables, self.dictionary = new_tables(kind)
        self.harness = Harness(self.tables)
        self.a, self.b, self.c = (self.dictionary.intern(each) for each in TERMS[:3])
        self.events = 0

    def element(self, milliseconds, *triples):
        self.events += 10
        return self.harness.triples(triples, hlc.element(milliseconds, MARK), BOTH_KINDS, self.events)

    def query(self, length=2, span_ms=SPAN, **options):
        query = path(*["<b>"] * length)
        return self.harness.query(query, self.dictionary, 1, per_event=True, span_ms=span_ms, **options)[1]


@pytest.mark.parametrize("before", [False, True])
def test_elements_as_far_apart_as_the_range_are_too_far_in_any_order(kind, before):
    stream = Stream(kind)
    a, b, c = stream.a, stream.b, stream.c
    found = Counter() if before else stream.query()
    for milliseconds, triple in ((1000, (a, b, c)), (1099, (c, b, b)), (1100, (c, b, a)), (900, (c, b, c))):
        found += stream.element(milliseconds, triple)
    found += stream.query() if before else Counter()
    assert (a, c, b) in bindings(found)
    assert not {(a, c, a), (a, c, c)} & bindings(found).keys()
    assert bindings(found)[c, c, c] == 1
    assert stream.tables.sizes().too_wide > 0


def test_a_row_that_spans_too_much_does_not_wait_for_more(kind):
    """The bound is on all elements of a row, not on two that follow each other."""
    stream, bounded = Stream(kind), Stream(kind)
    for each, span in ((stream, 0), (bounded, SPAN)):
        each.query(length=3, span_ms=span)
        for number in range(5):
            each.element(1000 + 60 * number, (each.a, each.b, each.a))
    assert stream.tables.sizes().rows == 5 + 25
    assert bounded.tables.sizes().rows == 5 + 5 + 2 * 4
    assert (stream.tables.sizes().joined, stream.tables.sizes().too_wide) == (155, 0)


def test_after_a_rejoin_it_is_the_same(kind):
    stream = Stream(kind)
    stream.query()
    triples = [(stream.a, stream.b, stream.a)]
    for number in range(3):
        time = hlc.element(1000 + 60 * number, MARK)
        assert not stream.harness.triples(triples, time, BOTH_KINDS, number, probed=0)
    assert sum(stream.harness.rejoin(lambda _, ring: [True] * len(ring)).values()) == 3 + 2 * 2


def test_times_that_are_no_elements_have_no_bound(kind):
    stream = Stream(kind)
    stream.query()
    triple = (stream.a, stream.b, stream.a)
    for number, time in enumerate((1, 1 << 40)):
        found = stream.harness.triples([triple], time, BOTH_KINDS, number)
    assert len(found) == 3


def test_plans_of_other_ranges_are_other_plans_if_they_join():
    query, single = path("<b>", "<b>"), path("<b>")
    plans = [make_plan(query, [0, 1], Algorithm.CSBV, per_event=True, span_ms=span) for span in (0, 5, 6, 5)]
    assert plans[1] == plans[3]
    assert len(set(plans)) == len({each.identity for each in plans}) == 3
    assert len({make_plan(single, [0], Algorithm.CSBV, per_event=True, span_ms=span) for span in (0, 5, 6)}) == 1


@settings(max_examples=60, deadline=None)
@given(
    elements=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2), st.integers(0, 2)), max_size=7),
    at=st.integers(0, 7),
    length=st.integers(1, 3),
    algorithm=st.sampled_from(Algorithm),
    kind=st.sampled_from(["light", "columnar"]),
)
def test_the_rows_are_those_of_windows(elements, at, length, algorithm, kind):
    stream = Stream(kind)
    terms = (stream.a, stream.b, stream.c)
    found: Counter = Counter()
    for number, (milliseconds, s, o) in enumerate(elements):
        if number == at:
            found += stream.query(length, algorithm=algorithm)
        found += stream.element(milliseconds, (terms[s], stream.b, terms[o]))
    if at >= len(elements):
        found += stream.query(length, algorithm=algorithm)
    expected: Counter = Counter()
    for chosen in product(elements, repeat=length):
        times = [time for time, _, _ in chosen]
        follows = all(one[2] == next_[1] for one, next_ in pairwise(chosen))
        if follows and max(times) - min(times) < SPAN:
            expected[terms[chosen[0][1]], *(terms[o] for _, _, o in chosen)] += 1
    assert bindings(found) == expected
