"""Triples are removed on bad days: what a subscriber has in the end is what is true then, and each change came once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from p2prdf.sim.failures.scenario import Verdict, draw_bad_day, run_bad_day, with_removals
from p2prdf.sim.mutants import MUTANTS, _changed

SEEDS = range(60, 80)


def run(seed: int) -> Verdict:
    return run_bad_day(replace(with_removals(draw_bad_day(seed)), per_event=False))


def test_answers_are_taken_back_whatever_happens():
    withdrawn = 0
    for seed in SEEDS:
        verdict = run(seed)
        assert verdict.good, verdict.report()
        withdrawn += verdict.happened.get("withdrawn", 0)
    assert withdrawn > 3 * len(SEEDS)


def test_publication_events_stay_though_their_triples_are_removed():
    for seed in SEEDS[:3]:
        verdict = run_bad_day(replace(with_removals(draw_bad_day(seed)), per_event=True))
        assert verdict.good, verdict.report()
        assert "withdrawn" not in verdict.happened


def test_four_of_ten_days_have_removals():
    assert 90 < sum(draw_bad_day(seed).failures.removals for seed in range(300)) < 150


@pytest.mark.parametrize("name", ["one-stay", "rows-live-on", "answers-after-withdrawals", "always-sure", "never-sure"])
def test_a_rule_of_removals_that_is_not_kept_is_found(name):
    """The rarer mutants are left to ``make faults MUTANTS=1``."""
    for seed in range(200):
        with _changed(MUTANTS[name].changes()):
            verdict = run(seed)
        if not verdict.good:
            return
    pytest.fail("200 seeds and the mutant lives")
