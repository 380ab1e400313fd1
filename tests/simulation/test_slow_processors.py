"""Work takes time at half of the peers, so that turns are split and processes crash while turns are open.

``make slow-processors`` runs 500 such schedules.
"""

from __future__ import annotations

import pytest

from schedules.failures.days import run_day
from schedules.mutants import MUTANTS


@pytest.mark.parametrize("seed", [1, 2])
def test_peers_with_split_turns_keep_every_promise(seed: int) -> None:
    verdict = run_day("slow processors", seed)
    assert verdict.good, verdict.report()
    assert verdict.happened["slow-processor"]
    assert verdict.happened["turn-split"] > 50
    assert verdict.acknowledged


def test_a_peer_that_acknowledges_in_an_open_turn_loses_copies() -> None:
    verdict = MUTANTS["acknowledged-in-open-turns"].run(2)
    assert "copies" in {problem.kind for problem in verdict.problems}
