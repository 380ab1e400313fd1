"""Views under faults in virtual time: equal in the end, deaths noticed in time, and no false alarm.

    python -m schedules.swim_world --seeds 400
"""

from __future__ import annotations

import pytest

from p2prdf.overlay import swim_gossip, swim_own, timers
from p2prdf.overlay.membership import Create
from p2prdf.overlay.swim_config import SwimConfig
from p2prdf.overlay.swim_messages import Gossip
from schedules.swim_world import SwimOptions, SwimWorld, ViewsDiffer, detection, grow, run_seed, stall


@pytest.mark.parametrize("seed", range(25))
def test_after_any_faults_views_become_equal_and_stay_so(seed):
    world = run_seed(seed)
    assert world.counts["held_up"] > 0


def test_the_same_seed_gives_the_same_run():
    one, other = run_seed(7), run_seed(7)
    assert one.counts == other.counts
    assert one.now == other.now


@pytest.mark.parametrize(
    ("host", "connected", "middle", "last"),
    [(False, True, 0.35, 0.5), (False, False, 1.2, 1.7), (True, False, 3.0, 4.0), (True, True, 7.2, 8.0)],
    ids=["killed", "killed, not connected", "vanished", "vanished, connections stand"],
)
def test_deaths_are_noticed_in_time(host, connected, middle, last):
    """Five members; seconds until each other peer knows.  A killed process must cost less than a second."""
    found = detection(2, 5, 12, host=host, connected=connected)
    assert len(found) == 12 * 4
    assert found[len(found) // 2] < middle
    assert found[-1] < last


def test_loops_held_up_for_half_a_second_raise_no_alarm():
    world = SwimWorld(11, SwimOptions(members=7, events=60))
    grow(world, 7)
    stall(world)
    assert world.counts["held_up"] > 50
    assert world.counts["false_alarms"] == 0
    assert world.counts["peer_gone"] == 0


def test_members_with_stalled_loops_refute_in_time():
    world = SwimWorld(11, SwimOptions(members=7, events=60, connected=False))
    grow(world, 7)
    stall(world, 1.2)
    assert sum(node.swim.counts.get("refuted", 0) for node in world.living) > 5


def test_a_killed_process_is_noticed_in_time_by_loops_that_are_held_up():
    world = SwimWorld(12)
    grow(world, 5)
    for node in world.living:
        world.hold_up(node, 0.4)
    world.kill(world.living[2])
    world.run_for(1.3)
    assert len(world.noticed["process"]) == 4


def test_one_member_that_cannot_hear_is_lost_and_loses_nobody_else_their_peers():
    """It accuses all others again and again; they answer for themselves."""
    world = SwimWorld(13, SwimOptions(members=6, connected=False))
    grow(world, 6)
    deaf, *others = world.living
    world.cut(others, [deaf], both=False)
    world.run_for(30.0)
    for node in others:
        assert set(node.seen) == {other.contact.key for other in others if other is not node}
    assert world.counts["false_alarms"] < 15, "the deaf one loses five, each of five loses it, hardly more"
    world.heal()
    assert world.settle() < 20


def test_a_link_cut_in_one_direction_causes_no_false_alarm():
    world = SwimWorld(14, SwimOptions(members=5))
    grow(world, 5)
    one, other, *_ = world.living
    world.cut([one], [other], both=False)
    world.forbid_alarms = True
    world.run_for(30.0)


def test_two_halves_that_have_declared_each_other_dead_find_together_again():
    """And no member loses those of its own half over it."""
    world = SwimWorld(15, SwimOptions(members=8))
    grow(world, 8)
    left, right = world.living[:5], world.living[5:]
    world.cut(left, right)
    world.run_for(20.0)
    for half in (left, right):
        for node in half:
            assert set(node.seen) == {other.contact.key for other in half if other is not node}
    world.heal()
    world.forbid_alarms = True
    assert world.settle() < 20


def test_a_fifth_of_all_packets_lost_kills_nobody_for_good():
    world = SwimWorld(16, SwimOptions(members=6))
    grow(world, 6)
    world.loss = 0.2
    world.run_for(60.0)
    assert world.counts["false_alarms"] == 0, "helpers, a second probe and the right to object make up for it"
    world.heal()
    assert world.settle() < 5


def test_hundreds_join_at_once_and_all_know_all():
    """A newcomer gets all members from one of them, however many there are."""
    world = SwimWorld(17, SwimOptions(connected=False))
    first = world.start()
    world.submit(first, Create())
    for number in range(149):
        if number % 30 == 0:
            world.run_for(0.5)
        world.join()
    assert world.settle(30.0) < 10


def test_a_wrong_clock_is_noticed_by_its_owner_alone():
    world = SwimWorld(18)
    grow(world, 4)
    wrong = world.join(clock_ahead=0.7)
    world.settle()
    world.run_for(5.0)
    assert [node.swim.clocks.suspect for node in world.living] == [node is wrong for node in world.living]
    offset = wrong.swim.clocks.offset(next(iter(wrong.seen)))
    assert offset == pytest.approx(-0.7, abs=0.01)


# --- the checks can fail -------------------------------------------------------------------------


def without_syncs_with_the_dead(patch):
    patch.setattr(swim_gossip, "DEAD_SYNC_FRACTION", 0.0)


def without_mildness(patch):
    patch.setattr(swim_gossip, "SyncStates", Gossip)


def without_refutations(patch):
    patch.setattr(swim_own.Own, "_refute", lambda *_: None)


def without_grace(patch):
    patch.setattr(timers, "LATE_SECONDS", 1e9)


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (without_syncs_with_the_dead, test_two_halves_that_have_declared_each_other_dead_find_together_again),
        (without_mildness, test_two_halves_that_have_declared_each_other_dead_find_together_again),
        (without_refutations, test_members_with_stalled_loops_refute_in_time),
        (without_grace, test_members_with_stalled_loops_refute_in_time),
    ],
    ids=lambda value: value.__name__,
)
def test_a_machine_without_one_of_its_rules_is_caught(mutant, check, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, ViewsDiffer)):
        check()


def test_a_suspicion_time_that_is_too_short_is_an_alarm():
    hasty = SwimOptions(members=7, events=60, config=SwimConfig(suspicion_seconds=0.05), connected=False)
    world = SwimWorld(11, hasty)
    grow(world, 7)
    with pytest.raises(ViewsDiffer, match="which lives"):
        stall(world, 1.2)
