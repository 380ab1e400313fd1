"""Clocks are wrong by minutes to years, from one restart to another, on one peer, on two or on all.

``make clock-steps`` runs 500 such schedules.  docs/reliability.md names the seeds that are known to fail.
"""

from __future__ import annotations

import pytest

from schedules.failures.days import run_day
from schedules.mutants import MUTANTS


@pytest.mark.parametrize("seed", [4, 5, 11, 13])  # 13: two of eight are behind together
def test_acknowledged_triples_are_delivered_although_clocks_were_wrong(seed: int) -> None:
    verdict = run_day("clock steps", seed)
    assert verdict.good, verdict.report()
    assert verdict.happened["clock-set"] >= 2
    assert verdict.happened["stamps-corrected"]
    assert verdict.acknowledged


def test_stamps_of_the_future_that_stay_on_the_disk_keep_a_cluster_from_rest() -> None:
    verdict = MUTANTS["stamps-uncorrected"].run(5)
    assert "restless" in {problem.kind for problem in verdict.problems}
