"""Named graphs, rules, windows and audits in fault schedules: no promise breaks, and the checkers detect errors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from notifications import with_notifications

from p2prdf.columns import as_list
from schedules.failures.days import DAYS
from schedules.failures.scenario import draw_bad_day, run_bad_day
from schedules.shares import FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedules.failures.scenario import BadDay, Verdict
    from schedules.failures.world import FailingWorld

NAMES = ("graphs", "rules", "windows")
SMALL = 63
"""A cheap seed: few peers, a short span, the configuration of daemons."""


def _with(name: str, seed: int = SMALL) -> BadDay:
    day = draw_bad_day(seed)
    assert day.daemons
    return dataclasses.replace(day, failures=dataclasses.replace(day.failures, **{name: True}))


def test_drawn_schedules_have_a_share_of_each_feature_and_are_else_as_they_were_drawn():
    drawn = [(DAYS["drawn"](draw_bad_day(seed)), DAYS["plain"](draw_bad_day(seed))) for seed in range(400)]
    shares = {name: sum(getattr(day.failures, name) for day, _ in drawn) / len(drawn) for name in NAMES}
    assert all(0.1 < share < 0.3 for share in shares.values()), shares
    without = dict.fromkeys(NAMES, False)
    for day, plain in drawn:
        assert dataclasses.replace(day.failures, **without) == plain.failures
        assert day.options.seed == plain.options.seed
    varied = [DAYS["drawn"](draw_bad_day(seed, "varied")) for seed in range(100)]
    assert not any(getattr(day.failures, name) for day in varied for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_with_a_feature_breaks_no_promise_and_shows_it(name: str):
    verdict = run_bad_day(_with(name))
    assert verdict.good, verdict.report()
    shown_by = FEATURES[{"graphs": "named graphs"}.get(name, name)].shown_by
    assert verdict.shown.intersection(shown_by)


def _judged(name: str, change: Callable[..., list]) -> Verdict:
    """Run a schedule with one feature, and with all notifications changed on the last metre."""
    return run_bad_day(_with(name), prepare=with_notifications(change))


@pytest.mark.parametrize("name", NAMES)
def test_answers_of_a_feature_that_are_never_handed_over_are_missed(name: str):
    verdict = _judged(name, lambda effect: [effect] if not as_list(effect.identity) else [])
    assert any(each in problem.where for problem in verdict.problems for each in ("NamedGraphs", "Rules", "Windows"))


def test_every_schedule_of_daemons_audits_primaries_and_a_report_of_an_honest_one_fails_it():
    assert draw_bad_day(SMALL).options.config.audit_seconds == 20

    def accuse(world: FailingWorld) -> None:
        world.schedule(1.0, world.traces.update, ["solutions-withheld"])

    verdict = run_bad_day(draw_bad_day(SMALL), prepare=accuse)
    assert [problem.kind for problem in verdict.problems] == ["alarm"]
