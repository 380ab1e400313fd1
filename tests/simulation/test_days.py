"""Kinds of fault schedules that test rules which other schedules seldom test."""

from __future__ import annotations

import pytest

from schedules.failures.days import DAYS, run_day
from schedules.mutant_seeds import OF_DAEMONS, VARIED
from schedules.mutants import MUTANTS


@pytest.mark.parametrize("kind", DAYS)
def test_schedules_of_every_kind_keep_every_promise(kind: str) -> None:
    verdict = run_day(kind, 3)
    assert verdict.good, verdict.report()
    assert verdict.answers


def test_a_peer_that_waits_for_handoff_from_a_restarted_one_is_not_at_rest() -> None:
    """The checker was wrong: an answer was at its coordinator, which delivered it some seconds later."""
    verdict = run_day("leaving alone", 93, configurations="varied")
    assert verdict.good, verdict.report()


def test_a_network_that_loses_a_third_of_all_messages_need_not_come_to_rest() -> None:
    """The checker required it: all nine peers had to answer one another within six seconds to open a subscription."""
    verdict = run_day("drawn", 7204116, configurations="varied")
    assert verdict.good, verdict.report()


def test_no_bookmark_covers_data_that_a_peer_out_of_view_gave_to_one_of_two() -> None:
    """It saw one of them, was not seen by either yet, and published with that one's copy."""
    verdict = run_day("shared by three", 1184, configurations="varied")
    assert verdict.good, verdict.report()


def test_a_renewing_subscriber_is_not_told_of_an_end_before_enough_replicas_know() -> None:
    """A peer was cut off, alone knew of the end, and lost its disk after it had answered the second request."""
    verdict = run_day("shared by three", 2223, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [30, 20022, 30303, 31237])
def test_parts_of_a_network_that_went_on_alone_find_together(seed: int) -> None:
    """A query ended with its last subscription in the one part, and had a new one in the other (30).

    The delivered answers of the one part were dropped with it (20022).  And both parts gave two subscriptions
    the same number (30303, 31237).
    """
    verdict = run_day("parted, again", seed, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize(("kind", "seed"), [
    ("disks and snapshots", 1114),
    *(("disks and snapshots, told of the living", seed) for seed in (1028, 1198, 1461, 1478, 1483)),
])  # fmt: skip
def test_a_peer_that_began_empty_or_sees_nobody_is_no_primary_in_the_place_of_complete_ones(
    kind: str, seed: int
) -> None:
    """Its disk was lost, and the other began not long ago and did not say that it had been there before (1114).

    Alone, it took itself for the first of a network (1028).  Another did not lose its disk, and settled answers alone
    (1198).  Nobody had noticed that it was gone (1461, 1483).  It had heard of no query, so nothing waited (1478).
    """
    verdict = run_day(kind, seed, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [57, 144, 148])
def test_a_delivered_solution_is_not_retracted_by_a_replica_that_gets_its_triples_later(seed: int) -> None:
    """All lost their power, and the replica that had notified the subscriber was not the first to come back."""
    verdict = run_day("standing queries, nothing removed", seed, configurations="varied")
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [119, 272, 300])
def test_a_peer_back_after_a_long_absence_learns_acknowledgements_before_it_notifies_subscribers(seed: int) -> None:
    """Another's disk was lost, and the third, which held the only copy, came back last and offered it later."""
    verdict = run_day("long absences", seed, configurations="varied")
    assert verdict.good, verdict.report()


def test_a_publication_of_a_peer_taken_for_dead_is_completed_when_it_dies() -> None:
    verdict = run_day("gone halfway", 2, configurations="varied")
    assert verdict.good, verdict.report()


def test_replicas_of_a_triple_removed_ten_times_are_equal_soon() -> None:
    """They reported removals to each other one by one, one a pass, for they held them under different index keys."""
    verdict = run_day("bookmarks and failures", 173, configurations="varied")
    assert verdict.good, verdict.report()


def test_every_mutant_names_an_existing_kind_of_schedule() -> None:
    assert {each.days for each in MUTANTS.values()} < set(DAYS)


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_replaces_attributes_that_exist(name: str) -> None:
    """One that sets a name that code no longer reads removes no rule."""
    for owner, attribute, _ in MUTANTS[name].changes():
        assert hasattr(owner, attribute)


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
