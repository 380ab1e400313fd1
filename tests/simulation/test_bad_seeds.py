"""Schedules that failed once (:mod:`schedules.failures.kept` and ``pinned``) pass, and keep passing."""

from __future__ import annotations

import pytest

from schedules.failures.kept import KEPT
from schedules.failures.pinned import PINNED
from schedules.failures.scenario import run_bad_day, run_seed


@pytest.mark.parametrize("seed", [pytest.param(seed, id=rule.replace(" ", "-")) for seed, rule in KEPT.items()])
def test_acknowledged_triples_are_answered_once_and_nothing_else_is(seed: int) -> None:
    verdict = run_seed(seed, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.replace(" ", "-")) for rule in PINNED])
def test_a_schedule_that_failed_once_keeps_every_promise(rule: str) -> None:
    verdict = run_bad_day(PINNED[rule])
    assert verdict.good, verdict.report()
