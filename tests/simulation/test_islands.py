"""Two clusters that were begun apart meet while processes crash: they become one, and no answer is lost.

``make islands`` runs 150 such schedules.
"""

from __future__ import annotations

import pytest

from schedules.failures.days import run_day
from schedules.mutants import MUTANTS


@pytest.mark.parametrize("seed", [1, 3])
def test_two_clusters_that_meet_keep_every_promise_and_answer_no_query_in_parts(seed: int) -> None:
    verdict = run_day("islands", seed)
    assert verdict.good, verdict.report()
    assert verdict.happened["islands"] == 1
    assert verdict.happened["query-refused"]
    assert verdict.happened["query-answered"]
    assert verdict.acknowledged


def test_two_clusters_that_do_not_compare_their_identities_are_found() -> None:
    verdict = MUTANTS["clusters-not-compared"].run(1)
    assert "clusters" in {problem.kind for problem in verdict.problems}
