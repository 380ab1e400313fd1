"""Real nodes killed while clients publish and subscribe: the smoke test of ``make chaos``.

No check depends on when processes start or stop; only the number of answers does.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.faults import FaultOptions
from chaos.story import Options, play
from chaos.subscriber_kills import SubscriberOptions, play_subscriber_kills

pytestmark = pytest.mark.long

SMOKE = Options(
    seconds=40.0, kills_max=5, publications_per_second=10.0,
    faults=FaultOptions(kill_seconds=(1.0, 3.0), down_seconds=(0.0, 1.0), all_every=5),
)  # fmt: skip

ALONE = {"replicas": 1, "copies_min": 1, "durability": "memory"}
"""Settings of nodes that keep nothing."""


async def test_without_faults_nothing_is_wrong():
    """Through the proxy, so that it is known to change nothing by itself."""
    report = await play(replace(SMOKE, seconds=3.0, kills_max=0, proxy=True, settings=ALONE))
    assert report.good, report.as_json()
    assert report.verdict.delivered > 0
    assert report.proxy["bytes"] > 0


async def test_nodes_that_keep_nothing_lose_answers_and_the_tool_says_so():
    """One kill of all nodes: all data without a copy on disk is gone, subscriptions first."""
    report = await play(
        replace(
            SMOKE, kills_max=1, rest_seconds=3.0, settings=ALONE,
            faults=replace(SMOKE.faults, all_every=1),
        )
    )  # fmt: skip
    assert report.faults == {"kills_of_all": 1}
    assert report.verdict.lost > 0
    assert report.losses
    assert not report.good


async def test_nodes_killed_one_after_the_other_lose_duplicate_and_invent_nothing():
    """All nodes at once is another matter: ``make chaos`` still finds answers lost then (docs/reliability.md)."""
    report = await play(replace(SMOKE, kills_max=3, faults=replace(SMOKE.faults, all_every=0)))
    assert report.good, report.as_json()
    assert report.faults == {"kills": 3}
    assert report.verdict.acknowledged > 0


async def test_a_subscriber_killed_over_and_over_has_every_answer_once():
    report = await play_subscriber_kills(SubscriberOptions(kills=8, life_seconds=(0.0, 1.0), nodes=3, settings=ALONE))
    assert report.good, report.as_json()
    assert report.faults["subscribers_killed"] == 8
    assert report.verdict.delivered > 0
