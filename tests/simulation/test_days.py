"""Kinds of bad days on which rules matter that seldom do on others."""

from __future__ import annotations

import pytest

from schedules.failures.days import DAYS, run_day
from schedules.mutant_seeds import OF_DAEMONS, VARIED
from schedules.mutants import MUTANTS


@pytest.mark.parametrize("kind", DAYS)
def test_everything_is_right_on_days_of_every_kind(kind: str) -> None:
    verdict = run_day(kind, 3)
    assert verdict.good, verdict.report()
    assert verdict.answers


def test_who_waits_for_gifts_of_a_peer_in_its_next_life_is_not_at_rest() -> None:
    """The judge was mistaken: an answer was at its home, which told it some seconds later."""
    verdict = run_day("leaving alone", 93, configurations="varied")
    assert verdict.good, verdict.report()


def test_a_network_that_loses_a_third_of_all_messages_need_not_come_to_rest() -> None:
    """The judge asked for it: all nine peers had to answer one another within six seconds to open a subscription."""
    verdict = run_day("drawn", 7204116, configurations="varied")
    assert verdict.good, verdict.report()


def test_nothing_is_said_to_have_come_that_a_peer_out_of_view_has_given_to_one_of_two() -> None:
    """It saw one of them, was not seen by either yet, and published with that one's copy."""
    verdict = run_day("shared by three", 1184, configurations="varied")
    assert verdict.good, verdict.report()


def test_who_asks_again_is_not_told_of_an_end_before_enough_know() -> None:
    """It was cut off, knew of the end alone, and lost its disk when it had said so to who had asked a second time."""
    verdict = run_day("shared by three", 2223, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [30, 20022, 30303, 31237])
def test_parts_of_a_network_that_went_on_alone_find_together(seed: int) -> None:
    """A query ended, with its last subscription in the one part, that somebody had joined in the other (30).

    That anything had been answered in the one part was forgotten with that (20022).  And both parts gave two
    subscriptions the same number (30303, 31237).
    """
    verdict = run_day("parted, again", seed, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize(("kind", "seed"), [
    ("disks and snapshots", 1114),
    *(("disks and snapshots, told of the living", seed) for seed in (1028, 1198, 1461, 1478, 1483)),
])  # fmt: skip
def test_who_began_with_nothing_or_sees_nobody_does_not_speak_for_those_who_know(kind: str, seed: int) -> None:
    """Its disk was lost, and the other began not long ago and did not say that it had been there before (1114).

    Alone, it took itself for the first of a network (1028).  Another did not lose its disk, and settled answers alone
    (1198).  Nobody had noticed that it was gone (1461, 1483).  It had heard of no query, so nothing waited (1478).
    """
    verdict = run_day(kind, seed, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [57, 144, 148])
def test_what_was_told_is_not_taken_back_by_who_hears_of_its_reason_later(seed: int) -> None:
    """All lost their power, and who told the subscriber was not the first to come back."""
    verdict = run_day("standing queries, nothing removed", seed, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [119, 272, 300])
def test_who_was_away_for_long_is_told_what_was_settled_before_it_tells_subscribers(seed: int) -> None:
    """Another's disk was lost, and the third, who alone knew, came back last and offered it later."""
    verdict = run_day("long absences", seed, configurations="varied")
    assert verdict.good, verdict.report()


def test_what_a_peer_began_to_publish_that_was_taken_for_dead_before_is_finished_when_it_is() -> None:
    verdict = run_day("gone halfway", 2, configurations="varied")
    assert verdict.good, verdict.report()


def test_replicas_of_a_triple_removed_ten_times_are_equal_soon() -> None:
    """They told each other of one removal after the other, one a pass, for they held them under different roles."""
    verdict = run_day("bookmarks and failures", 173, configurations="varied")
    assert verdict.good, verdict.report()


def test_every_rule_is_put_to_the_test_on_days_that_there_are() -> None:
    assert {each.days for each in MUTANTS.values()} < set(DAYS)


@pytest.mark.parametrize("name", OF_DAEMONS)
def test_a_rule_that_is_not_kept_is_found_in_the_configuration_of_daemons(name: str) -> None:
    known = OF_DAEMONS[name]
    verdict = MUTANTS[name].run(known.seed, days=known.days)
    assert verdict.day.daemons
    assert known.problem in {problem.kind for problem in verdict.problems}


@pytest.mark.parametrize("name", VARIED)
def test_a_rule_that_is_not_kept_is_found_in_a_varied_configuration(name: str) -> None:
    known = VARIED[name]
    verdict = MUTANTS[name].run(known.seed, "varied", known.days)
    assert known.problem in {problem.kind for problem in verdict.problems}


def test_known_schedules_are_of_mutants_and_of_kinds_that_there_are() -> None:
    assert MUTANTS.keys() >= OF_DAEMONS.keys() | VARIED.keys()
    assert not OF_DAEMONS.keys() & VARIED.keys()
    assert {known.days for known in (*OF_DAEMONS.values(), *VARIED.values())} <= DAYS.keys()
