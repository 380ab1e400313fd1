"""Names of peers resolve 60 s late: nothing is acknowledged that one kill loses, and no part answers for all.

``make late-bootstrap`` runs 500 such schedules.
"""

from __future__ import annotations

import pytest

from schedules.failures.days import run_day
from schedules.mutants import MUTANTS


@pytest.mark.parametrize("seed", [0, 1])
def test_peers_with_late_names_keep_every_promise(seed: int) -> None:
    verdict = run_day("late bootstrap", seed)
    assert verdict.good, verdict.report()
    assert verdict.happened["late-bootstrap"] >= verdict.day.options.peers
    assert verdict.acknowledged


def test_a_peer_that_takes_itself_for_a_cluster_acknowledges_with_too_few_copies() -> None:
    verdict = MUTANTS["islands"].run(0)
    assert "copies" in {problem.kind for problem in verdict.problems}
