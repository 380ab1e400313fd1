"""The checker of Chord rings finds errors of a ring, and judges which failures theory allows."""

from __future__ import annotations

import pytest

from p2prdf.overlay.membership import Create
from p2prdf.wire.messages import Contact
from schedules.chord_world import ChordOptions, ChordWorld, RingBroken


def peer(key: int) -> Contact:
    return Contact(key << 56, "peer.example", 1 + key)


@pytest.fixture
def world():
    """Six members, in order, with lists of two."""
    world = ChordWorld(1, ChordOptions(successors=2, members=6))
    for key in range(10, 70, 10):
        node = world.start(peer(key))
        world.submit(node, Create())
    point(world, {key: [(key // 10 + step) % 6 * 10 + 10 for step in (0, 1)] for key in range(10, 70, 10)})
    world.checking = True
    world.check()
    return world


def point(world, lists):
    for node in world.members:
        successors = lists.get(node.chord.own.key >> 56)
        if successors is not None:
            node.chord.successors = tuple(peer(key) for key in successors)


def member(world, key):
    return next(node for node in world.members if node.chord.own == peer(key))


@pytest.mark.parametrize(
    ("lists", "complaint"),
    [
        ({10: [15, 25]}, "has no live successor"),
        ({10: [10, 25]}, "has no live successor"),
        ({10: [30, 20]}, "out of order"),
        ({10: [20, 20]}, "out of order"),
        ({10: [20, 10, 20]}, "out of order"),
        ({10: [50, 60], 60: [20, 30]}, "2 principals are not enough"),
    ],
)
def test_a_violation_of_the_invariant_is_named(world, lists, complaint):
    point(world, lists)
    with pytest.raises(RingBroken, match=complaint):
        world.check()


def test_three_that_nobody_skips_are_enough_for_lists_of_two(world):
    point(world, {10: [50, 60]})
    world.check()


@pytest.mark.parametrize(
    ("lists", "complaint"),
    [
        ({10: [30], 30: [50], 50: [10], 20: [40], 40: [60], 60: [20]}, "two rings"),
        ({10: [40], 40: [20], 20: [50], 50: [30], 30: [60], 60: [10]}, "round more than once"),
    ],
)
def test_rings_of_the_wrong_shape_are_named_even_if_principals_were_enough(world, lists, complaint, monkeypatch):
    monkeypatch.setattr("schedules.chord_world._skipped", lambda *_: set())
    point(world, lists)
    with pytest.raises(RingBroken, match=complaint):
        world.check()


def test_failures_that_theory_forbids_are_known_before(world):
    assert world.may_fail(member(world, 10))
    point(world, {60: [10]})
    assert not world.may_fail(member(world, 10)), "60 would have no live successor"
    point(world, {60: [10, 20], 10: [50, 60]})
    assert world.may_fail(member(world, 20)), "it is skipped anyway"
    assert not world.may_fail(member(world, 50)), "two principals would be left"


def test_a_member_named_with_its_former_address_counts_as_skipped(world):
    point(world, {40: [60, 10], 20: [40, 50]})
    assert world.may_fail(member(world, 60)), "30 and 50 are skipped"
    member(world, 10).chord.successors = (Contact(peer(20).key, "peer.example", 99), peer(30))
    assert not world.may_fail(member(world, 60)), "and 20 as well"
