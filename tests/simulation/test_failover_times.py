"""Phases after a kill in virtual time, with the delays of the failure detector and work that takes time."""

from __future__ import annotations

import pytest

from schedules.failover_times import detection, measure


def test_every_member_knows_a_killed_process_within_a_fifth_of_a_second() -> None:
    assert max(detection(seed)[1] for seed in range(1, 6)) < 0.2


@pytest.mark.long
@pytest.mark.parametrize(("slowness", "gap", "in_sync", "copies"), [(2.0, 0.5, 0.5, 5.0), (40.0, 4.0, 3.5, 18.0)])
def test_a_kill_delays_answers_and_copies_for_a_bounded_time(
    slowness: float, gap: float, in_sync: float, copies: float
) -> None:
    """At 40 times its nominal cost a step takes a whole turn, and the peers work nearly all the time."""
    found = measure(1, slowness=slowness, rate=0.2)
    assert [times.event for times in found.times] == ["kill", "return", "kill at return", "return"]
    for times in found.times:
        assert max(times.lost) < 0.2
        assert times.gap < gap
        assert times.whole < copies
    assert max(times.in_sync for times in found.times[2:]) < in_sync
