"""The stream of trees has the window that it describes."""

from __future__ import annotations

from itertools import islice

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning import FOREVER
from p2prdf_lab.workloads.isin_stream import IS_IN, IsInStream, StreamShape

SHAPE = StreamShape(window=200, depth=4, fan_out=3, pool=2.5, background=0.2, taken_back=0.2)


def _held(shape, entering, count):
    """Yield each step with the facts that hold before and after it."""
    labels = {}
    for step in islice(IsInStream(shape, entering, seed=3).steps(), count):
        before = {fact for fact, label in labels.items() if label >= step.now - 1}
        labels = {f: label for f, label in labels.items() if label >= step.now and f not in step.taken_back}
        assert not labels.keys() & step.given.keys(), "what enters is not in the window"
        labels |= step.given
        yield step, before, set(labels)


@pytest.mark.parametrize("entering", [1, 10, 50, 100])
def test_as_many_enter_as_leave_and_the_window_stays_as_large(entering):
    shape = StreamShape(window=200, pool=1.6, taken_back=0.0)
    steps = list(_held(shape, entering, 20))
    assert all(len(held) == 200 for _, _, held in steps)
    assert all(len(step.given) == entering for step, _, _ in steps[1:])
    for step, before, held in steps[1:]:
        assert len(before - held) == entering
        assert not before & step.given.keys(), "what leaves does not come back at once"


def test_some_leaving_facts_are_taken_back_while_they_hold_and_background_never_leaves():
    steps = list(_held(SHAPE, 20, 30))
    background = {fact for fact, label in steps[0][0].given.items() if label == FOREVER}
    assert len(background) == 100
    for step, before, held in steps[1:]:
        assert len(step.taken_back) == 4
        assert before.issuperset(step.taken_back)
        assert background <= held


def test_triples_are_edges_of_trees_of_the_depth_and_fan_out():
    step = next(IsInStream(StreamShape(window=1000, depth=3, fan_out=4, pool=1.5, background=0.3), 1, 1).steps())
    parents, children = {}, {}
    for s, p, o in step.given:
        assert p == IsInStream.intern(IS_IN)
        assert parents.setdefault(s, o) == o, "one parent each"
        children.setdefault(o, set()).add(s)
    assert max(map(len, children.values())) == 4

    def depth(node):
        return 1 + depth(parents[node]) if node in parents else 0

    assert max(map(depth, parents)) == 3


def test_each_node_may_be_in_several_of_the_level_above_it():
    shape = StreamShape(window=150, depth=3, fan_out=4, pool=1.5, parents=3)
    steps = IsInStream(shape, 5, 1).steps()
    given = {fact for step in islice(steps, 60) for fact in step.given}
    parents = {}
    for s, _, o in given:
        parents.setdefault(s, set()).add(o)
    roots = {o for _, _, o in given} - {s for s, _, _ in given}
    below = [node for node, above in parents.items() if not above & roots]
    assert max(len(parents[node]) for node in below) == 3
    assert all(len(parents[node]) == 1 for node in parents if node not in below)


def test_equal_seeds_give_equal_streams_and_others_do_not():
    once, again, other = (list(islice(IsInStream(SHAPE, 20, seed).steps(), 5)) for seed in (1, 1, 2))
    assert once == again != other


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"window": 99}, "window: 99"), ({"depth": 0}, "depth: 0"), ({"fan_out": 0}, "fan_out: 0"),
        ({"parents": 0}, "parents: 0"), ({"parents": 3, "fan_out": 2}, "parents: 3"),
        ({"taken_back": 1.0}, "taken_back: 1.0"), ({"background": -0.1}, "background: -0.1"),
        ({"pool": 1.4}, "pool: 1.4"),
        ({"pool": 2.0, "background": 0.5}, "pool: 2.0"), ({"pool": float("nan")}, "pool: nan"),
    ],
)  # fmt: skip
def test_streams_that_there_cannot_be_are_refused_by_name(bad, named):
    with pytest.raises(LocalProtocolError, match=named):
        StreamShape(**bad).validate()
