"""Fault schedules: every promise is kept through crashes, partitions and losses; and the checkers detect errors.

``make faults`` runs 500 seeds; the default suite runs the first few and those that once failed.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from notifications import with_notifications

from p2prdf.columns import as_list
from p2prdf.rdf.query import Algorithm
from p2prdf.sim.oracle import Publication
from p2prdf.wire.contract import Bookmark
from p2prdf_lab.workloads.random_queries import conjunctive_query
from schedules.failures.checkers import check_answers, lost_where
from schedules.failures.clients import RepeatedPublishing
from schedules.failures.options import Failures
from schedules.failures.scenario import COPIES, BadDay, draw_bad_day, run_bad_day
from schedules.failures.subscriber import ResumingSubscriber

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedules.failures.scenario import Verdict
    from schedules.failures.world import FailingWorld

CALM = Failures(weights={}, publisher_crash_probability=0.0, patience_min_seconds=50.0, patience_max_seconds=60.0)
P = "<urn:p>"


def _calm_day(seed: int) -> BadDay:
    return dataclasses.replace(draw_bad_day(seed), failures=CALM)


def test_the_first_seeds_cover_all_numbers_of_copies_algorithms_networks_and_overlays():
    drawn = [draw_bad_day(seed, "varied") for seed in range(80)]
    assert {(day.options.config.replicas, day.options.config.copies_min) for day in drawn} == set(COPIES)
    assert {day.algorithm for day in drawn} == {"csbv", "cqc", "mixed"}
    assert {day.per_event for day in drawn} == {False, True}
    assert {day.network for day in drawn} == {"calm", "reorder", "lossy", "bad"}
    assert {day.options.peers for day in drawn} == set(range(3, 10))
    assert {day.options.overlay for day in drawn} == {"kademlia", "chord"}
    assert {day.options.tables for day in drawn} == {"lists", "arrays", "mixed"}
    assert {day.options.through_codec for day in drawn} == {False, True}
    assert {day.options.faults.skew_seconds_max for day in drawn} == {0.0, 0.4}


def test_nine_of_ten_schedules_have_the_configuration_of_daemons_and_are_else_as_they_were_drawn():
    drawn = [draw_bad_day(seed) for seed in range(400)]
    daemons = [day for day in drawn if day.daemons]
    assert len(daemons) > 0.9 * len(drawn)
    for day in daemons:
        options, config = day.options, day.options.config
        assert (config.indexes, config.replicas, config.copies_min, config.durable) == ("all", 3, 2, True)
        assert (options.tables, options.through_codec) == ("arrays", True)
        before = draw_bad_day(day.seed, "varied")
        assert (day.network, day.algorithm, day.per_event) == (before.network, before.algorithm, before.per_event)
        assert day.failures == before.failures
        assert options.peers == before.options.peers


@pytest.mark.parametrize("seed", range(6))
def test_a_day_on_which_nothing_fails_has_no_problems(seed: int):
    verdict = run_bad_day(_calm_day(seed))
    assert verdict.good, verdict.report()
    assert verdict.acknowledged == verdict.publications


SUPPORT = Path(__file__).parents[1] / "support"


def _trace(seed: int, hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "schedules", "--faults", "--start", str(seed), "--seeds", "1"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(SUPPORT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if "seeds/s" not in line]


def test_the_same_seed_gives_the_same_trace_under_any_hash_seed():
    seed = next(n for n in range(40) if draw_bad_day(n).network == "bad" and draw_bad_day(n).options.peers > 5)
    first = _trace(seed, "1")
    assert len(first) > 100
    assert first == _trace(seed, "4711")
    assert first != _trace(seed + 1, "1")


# --- the checkers ------------------------------------------------------------------------------------


def _judged(change: Callable[..., list]) -> Verdict:
    """Run schedules without faults and change deliveries just before the client, until a problem is reported."""
    for seed in range(40):
        verdict = run_bad_day(_calm_day(seed), prepare=with_notifications(change))
        if not verdict.good:
            return verdict
    pytest.fail("40 seeds and nothing shows")


def _kinds(verdict: Verdict) -> set[str]:
    return {problem.kind for problem in verdict.problems}


def test_an_answer_that_is_never_handed_over_is_missed():
    dropped: list[int] = []

    def drop(effect):
        if not dropped:
            dropped.extend(as_list(effect.identity)[:1])
        return [] if set(dropped) & set(as_list(effect.identity)) else [effect]

    assert "missing" in _kinds(_judged(drop))


def test_an_answer_that_nobody_owes_is_found():
    def swapped(effect):
        columns = effect.bindings
        if len(columns) < 2:
            return [effect]
        return [dataclasses.replace(effect, bindings=(columns[1], columns[0], *columns[2:]))]

    assert "extra" in _kinds(_judged(swapped))


def test_a_reported_loss_is_a_problem_if_none_is_allowed():
    assert "told" in _kinds(_judged(lambda effect: [dataclasses.replace(effect, lost=2)]))


def test_a_peer_that_never_sends_a_bookmark_fails_the_schedule():
    """Also if no subscriber asked for bookmarks before the healing."""

    def prepare(world: FailingWorld) -> None:
        original = world._carry_out

        def carry_out(node, effects) -> None:
            original(node, [effect for effect in effects if not isinstance(effect, Bookmark)])

        world._carry_out = carry_out  # type: ignore[method-assign]

    day = _calm_day(0)
    assert not day.failures.bookmarks
    verdict = run_bad_day(day, prepare=prepare)
    assert [problem.kind for problem in verdict.problems] == ["restless"]
    assert "has no bookmark since all is healed" in verdict.report()


def _subscriber(**values) -> ResumingSubscriber:
    query = conjunctive_query([("?s", P, "?o")], ["?s", "?o"])
    return dataclasses.replace(ResumingSubscriber("s", query, Algorithm.CSBV, False, 60.0), **values)


def _publishing(number: int, at: float, *stamps: int) -> RepeatedPublishing:
    clocks = list(stamps)
    return RepeatedPublishing(7, number, [("<urn:a>", P, f'"{number}"')], at, stamps=list(stamps), clocks=clocks)


class _Seen:
    """The part of a world that checkers read: its options of failures, and the stamps that were ever seen."""

    def __init__(self, *publishings: RepeatedPublishing):
        self.failures = Failures()
        self.stamps = {each.events[0]: dict.fromkeys(each.stamps, 0) for each in publishings}


def _row(number: int) -> tuple[str, str]:
    return ("<urn:a>", f'"{number}"')


def test_a_publication_acknowledged_before_the_query_is_neither_owed_nor_possible():
    old, new = _publishing(1, 1.0, 50), _publishing(2, 3.0, 150)
    world = _Seen(old, new)
    record = _subscriber(since=100, opened_at=2.0, rows=[_row(2)], born=[150])
    assert not check_answers(world, record, [old, new])
    record = _subscriber(since=100, opened_at=2.0, rows=[_row(1), _row(2)], born=[150, 150])
    assert [problem.kind for problem in check_answers(world, record, [old, new])] == ["extra"]


def test_a_publication_after_the_query_was_live_is_owed_with_any_stamp():
    late = _publishing(1, 3.0, 50)
    world, record = _Seen(late), _subscriber(since=100, opened_at=2.0)
    assert [problem.kind for problem in check_answers(world, record, [late])] == ["missing"]


def test_of_a_repeated_publication_every_stamp_is_possible_and_the_acknowledged_one_is_owed():
    repeated = _publishing(1, 1.0, 50)
    world = _Seen(repeated)
    world.stamps[repeated.events[0]][150] = 0
    since = {"since": 100, "opened_at": 2.0}
    assert not check_answers(world, _subscriber(**since), [repeated])
    assert not check_answers(world, _subscriber(**since, rows=[_row(1)], born=[150]), [repeated])
    repeated.stamps.append(150)
    repeated.clocks.append(150)
    assert check_answers(world, _subscriber(**since), [repeated])[0].kind == "missing"


def test_an_unacknowledged_publication_is_possible_and_not_owed():
    tried = _publishing(1, 3.0)
    world = _Seen(tried)
    world.stamps[tried.events[0]][150] = 0
    since = {"since": 100, "opened_at": 2.0}
    assert not check_answers(world, _subscriber(**since), [tried])
    assert not check_answers(world, _subscriber(**since, rows=[_row(1)], born=[150]), [tried])
    never = _publishing(2, 3.0)
    assert check_answers(world, _subscriber(**since, rows=[_row(2)], born=[150]), [tried, never])[0].kind == "extra"


@pytest.mark.parametrize(
    ("missing", "said"),
    [([1], "prefix of 1"), ([1, 2], "prefix of 2"), ([3, 4], "tail of 2"), ([2], "middle: 1"), ([1, 2, 3, 4], "all")],
)
def test_losses_are_classified_by_their_position(missing: list[int], said: str):
    log = [Publication(100 + number, number, ("<urn:a>", P, f'"{number}"')) for number in (1, 2, 3, 4)]
    assert lost_where(_subscriber(since=100), log, Counter(map(_row, missing))).startswith(said)
