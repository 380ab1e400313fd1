"""Seeded scenarios: through all faults of the network, subscribers hold exactly the oracle's solutions.

``make simulate`` runs 2,000 seeds; the default suite runs the first few and those that once failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedules.scenario import NETWORKS, PEERS, draw_scenario, run_seed

ONCE_FAILED = {
    43: "a row for all wildcard buckets, without address cache, asked for owners for ever",
    255: "a role advertised within the very millisecond that a later subscription counted from",
    536: "live at once, but a publication of another peer in the same millisecond did not count",
}


@pytest.mark.parametrize("seed", [*range(40), *ONCE_FAILED])
def test_every_answer_arrives_once_and_no_other(seed: int):
    outcome = run_seed(seed, configurations="varied")
    assert outcome.good, outcome.report()


@pytest.mark.parametrize("seed", range(20))
def test_every_answer_arrives_once_in_the_configuration_of_daemons(seed: int):
    outcome = run_seed(seed)
    assert outcome.good, outcome.report()


def test_nine_of_ten_simulated_peers_have_the_configuration_of_daemons_and_are_else_as_they_were_drawn():
    drawn = [(draw_scenario(seed), draw_scenario(seed, "varied")) for seed in range(200)]
    daemons = [(scenario, before) for scenario, before in drawn if scenario.options.config.replicas == 3]
    assert len(daemons) > 0.9 * len(drawn)
    for scenario, before in daemons:
        options, config = scenario.options, scenario.options.config
        assert (config.indexes, config.copies_min, config.durable) == ("all", 2, True)
        assert (options.tables, options.through_codec) == ("arrays", True)
        assert (scenario.network, scenario.algorithm, scenario.phases) == (
            before.network, before.algorithm, before.phases,
        )  # fmt: skip


def test_the_first_seeds_cover_all_peers_networks_algorithms_and_modes():
    drawn = [draw_scenario(seed, "varied") for seed in range(40)]
    assert {scenario.options.peers for scenario in drawn} == set(PEERS)
    assert {scenario.network for scenario in drawn} == set(NETWORKS)
    assert {scenario.algorithm for scenario in drawn} == {"cqc", "csbv", "mixed"}
    assert {scenario.per_event for scenario in drawn} == {False, True}
    assert {(scenario.options.overlay, scenario.options.peers) for scenario in drawn} >= {
        (overlay, peers) for overlay in ("kademlia", "chord") for peers in PEERS
    }
    assert {(scenario.options.overlay, scenario.options.config.multisend) for scenario in drawn} == {
        (overlay, multisend) for overlay in ("kademlia", "chord") for multisend in ("direct", "recursive")
    }
    assert {scenario.options.tables for scenario in drawn} == {"lists", "arrays", "mixed"}
    assert {scenario.options.config.indexes for scenario in drawn} == {"csbv", "on-demand", "cqc"}
    assert {scenario.options.through_codec for scenario in drawn} == {False, True}


def test_keys_are_split_in_most_of_the_seeds_that_are_to_split_them():
    """All except those of a single peer, which has no other to share with."""
    hot = [draw_scenario(seed, "varied") for seed in range(60) if draw_scenario(seed, "varied").hot]
    several = [scenario.seed for scenario in hot if scenario.options.peers > 1]
    split = {seed: run_seed(seed, configurations="varied").splits for seed in several}
    assert len(split) >= 7
    assert sum(map(bool, split.values())) >= len(split) - 1
    assert {scenario.warm for scenario in hot} == {False, True}


SUPPORT = Path(__file__).parents[1] / "support"


def _trace(seed: int, hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "schedules", "--start", str(seed), "--seeds", "1"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(SUPPORT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return [line for line in done.stdout.splitlines() if "seeds/s" not in line]


def test_the_same_seed_gives_the_same_trace_under_any_hash_seed():
    seed = next(n for n in range(40) if draw_scenario(n).network == "harsh" and draw_scenario(n).options.peers == 7)
    first = _trace(seed, "1")
    assert len(first) > 100
    assert first == _trace(seed, "4711")
    assert first != _trace(seed + len(PEERS), "1")
