"""Kinds of bad days on which rules matter that seldom do on others."""

from __future__ import annotations

import pytest

from p2prdf.sim.failures.days import DAYS
from p2prdf.sim.failures.scenario import draw_bad_day, run_bad_day
from p2prdf.sim.mutants import MUTANTS


@pytest.mark.parametrize("kind", DAYS)
def test_everything_is_right_on_days_of_every_kind(kind: str) -> None:
    verdict = run_bad_day(DAYS[kind](draw_bad_day(3)))
    assert verdict.good, verdict.report()
    assert verdict.answers


def test_every_rule_is_put_to_the_test_on_days_that_there_are() -> None:
    assert {each.days for each in MUTANTS.values()} < set(DAYS)


@pytest.mark.parametrize(("name", "seed", "kind"), [
    ("begun-before-live", 3_000_001, "missing"), ("settled-forgotten", 3_000_027, "twice"),
    ("settled-early", 3_000_015, "twice"), ("no-commit-wait", 51, "missing"),
    ("late-removals", 18, "part"),
])  # fmt: skip
def test_a_rule_that_is_not_kept_is_found_on_its_days(name: str, seed: int, kind: str) -> None:
    verdict = MUTANTS[name].run(seed)
    assert kind in {problem.kind for problem in verdict.problems}
