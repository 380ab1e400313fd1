"""The order of evaluation: rarest first, connected next, deterministic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from p2prdf.continuous.order import evaluation_order
from p2prdf.rdf.query import ConjunctiveQuery

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def query(*patterns, constants=("<p>", "<q>", '"x"', TYPE)) -> ConjunctiveQuery:
    """A query over these slots."""
    return ConjunctiveQuery(patterns, constants, (), ())


def test_a_path_is_walked_from_its_constant_end():
    """The seed's example: the literal end is the rarest, then neighbour by neighbour."""
    path = query((0, ~0, 1), (1, ~1, 2), (2, ~0, 3), (3, ~1, ~2))
    assert evaluation_order(path, {}) == (3, 2, 1, 0)


def test_counted_rates_decide_over_assumptions():
    """A counted pattern goes by its count."""
    star = query((0, ~0, 1), (0, ~1, 2))
    assert evaluation_order(star, {0: 1000, 1: 3}) == (1, 0)
    assert evaluation_order(star, {0: 3, 1: 1000}) == (0, 1)


def test_where_nothing_was_counted_yet_the_constants_decide():
    """Counts of zero everywhere decide nothing: a new overlay must not evaluate in the order written."""
    path = query((0, ~0, 1), (1, ~1, 2), (2, ~0, ~2))
    assert evaluation_order(path, {0: 0, 1: 0, 2: 0}) == (2, 1, 0)


def test_connected_patterns_come_before_rarer_ones_elsewhere():
    """A cartesian product waits as long as anything joins."""
    parts = query((0, ~0, 1), (2, ~1, ~2), (1, ~1, 3))
    assert evaluation_order(parts, {0: 1, 1: 500, 2: 1000}) == (0, 2, 1)


def test_a_check_of_bound_terms_comes_at_once():
    """A pattern that binds nothing new cuts rows early."""
    triangle = query((0, ~0, 1), (1, ~0, 2), (1, ~1, 0))
    assert evaluation_order(triangle, {0: 1, 1: 2, 2: 900}) == (0, 2, 1)


def test_classes_are_taken_to_be_large():
    """Without counts a type pattern does not lead."""
    star = query((0, ~3, ~0), (0, ~1, ~2))
    assert evaluation_order(star, {}) == (1, 0)


patterns_drawn = st.lists(st.tuples(*[st.integers(-4, 4)] * 3), min_size=1, max_size=6)


@given(patterns_drawn, st.dictionaries(st.integers(0, 5), st.integers(0, 9)))
def test_every_order_is_a_permutation_and_repeats(patterns, counts):
    """In every query, each pattern is evaluated once, and the order is deterministic."""
    each = query(*patterns)
    order = evaluation_order(each, counts)
    assert sorted(order) == list(range(len(patterns)))
    assert order == evaluation_order(each, counts)
