"""Cuts have the shapes they are named for, and are mended as often as they were made."""

from __future__ import annotations

from random import Random

import pytest

from schedules.failures.links import SHAPES, Links, around, draw_cut


def _sides(links, peers):
    """Return, per peer, the peers that it still reaches in both directions."""
    return {
        one: {other for other in peers if other != one and (one, other) not in links and (other, one) not in links}
        for one in peers
    }


def test_a_link_carries_nothing_until_every_cut_of_it_is_healed():
    links = Links()
    cut = around(1, [0, 1, 2])
    links.cut(cut, noticed=True)
    links.cut(((0, 1),), noticed=False)
    links.mend(cut, noticed=True)
    assert not links.carries(0, 1)
    assert links.carries(1, 0)
    assert links.visible(0, 1)
    links.mend(((0, 1),), noticed=False)
    assert links.carries(0, 1)


def test_detectors_see_a_cut_of_either_direction_if_it_is_to_be_noticed():
    links = Links()
    links.cut(((0, 1),), noticed=True)
    assert not links.visible(0, 1)
    assert not links.visible(1, 0)
    assert links.visible(0, 2)


@pytest.mark.parametrize("peers", [2, 3, 5, 9])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_cuts_something_and_nobody_from_itself(shape: str, peers: int):
    for seed in range(20):
        cut = draw_cut(Random(seed), range(peers), shape)
        assert cut or (shape == "ring" and peers < 7)
        assert all(one != other for one, other in cut)
        assert len(set(cut)) == len(cut)


def test_halves_hear_all_of_their_own_side_and_nobody_else():
    for seed in range(20):
        heard = _sides(set(draw_cut(Random(seed), range(6), "halves")), range(6))
        groups = {frozenset({one, *others}) for one, others in heard.items()}
        assert len(groups) == 2


def test_one_way_is_cut_in_one_direction():
    cut = set(draw_cut(Random(1), range(6), "one way"))
    assert cut
    assert not any((other, one) in cut for one, other in cut)


def test_a_bridge_hears_both_sides():
    for seed in range(20):
        heard = _sides(set(draw_cut(Random(seed), range(7), "bridge")), range(7))
        assert sum(len(others) == 6 for others in heard.values()) == 1


def test_in_a_ring_everybody_hears_a_majority_but_no_two_the_same():
    for seed in range(20):
        heard = _sides(set(draw_cut(Random(seed), range(9), "ring")), range(9))
        majorities = {frozenset({one, *others}) for one, others in heard.items()}
        assert all(len(each) * 2 > 9 for each in majorities)
        assert len(majorities) == 9
