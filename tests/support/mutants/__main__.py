"""``python -m mutants [NAME ...]``: run tests without the rules that they are about, and check that they fail.

Fault schedules (``python -m schedules --mutants``) find the effect of a missing rule if no other rule makes up
for it and suitable schedules are drawn often enough.  All other rules have a test of their own, named here.  It
must pass with the rule, and fail without it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from schedules.mutants import MUTANTS

ROOT: Final = Path(__file__).parents[3]
FAILED: Final = 1
"""How pytest ends when tests were run and some failed; all else (nothing found, broken) is no proof."""
TESTS: Final = {
    "no-commit-wait": "unit/peer/test_rules.py::test_a_query_is_live_when_clocks_that_are_behind_are_past_its_stamp",
    "narrow-forever": (
        "unit/peer/test_rules.py::test_triples_left_out_for_a_late_subscription_are_joined_again"
    ),
    "no-roll-forward-after-restart": (
        "unit/peer/test_rules.py::"
        "test_an_incomplete_publication_of_before_a_restart_is_redelivered_without_its_origin"
    ),
    "removals-at-once": (
        "simulation/test_accepted.py::test_a_removal_that_one_peer_alone_has_heard_of_has_no_effect"
    ),
    "join-the-ended": "simulation/test_removals.py::test_a_value_replaced_many_times_costs_as_much_as_its_changes",
    "joins-for-others": (
        "simulation/test_removals.py::test_a_peer_that_was_a_replica_for_another_joins_no_rows_from_that_time"
    ),
    "stable-at-once": (
        "unit/peer/test_stable_deletions.py::"
        "test_a_deletion_is_stable_once_a_later_low_watermark_has_passed_the_first_cut"
    ),
    "stable-unproven": "unit/peer/test_stable_deletions.py::test_a_late_deletion_refutes_the_proof_up_to_its_stamp",
    "arrivals-trusted": (
        "unit/peer/test_stable_deletions.py::test_the_arrival_of_a_peer_withdraws_the_proof_and_a_loss_does_not"
    ),
    "late-ends-trusted": "unit/peer/test_stable_deletions.py::test_a_late_deletion_refutes_the_proof_up_to_its_stamp",
    "forget-unproven": (
        "unit/peer/test_stable_deletions.py::"
        "test_an_interval_goes_once_two_cuts_without_a_missing_member_prove_it"
    ),
    "forget-unstable": (
        "unit/peer/test_stable_deletions.py::"
        "test_the_proof_of_another_peer_counts_where_the_deletions_are_stable"
    ),
    "absent-unmissed": (
        "unit/peer/test_stable_deletions.py::"
        "test_a_member_that_is_lost_is_missed_until_it_returns_leaves_or_is_expelled"
    ),
    "late-unrefuted": (
        "unit/peer/test_stable_deletions.py::test_a_late_deletion_refutes_the_proof_and_earlier_proofs_of_others"
    ),
    "first-ends-early": (
        "unit/store/test_superseded.py::"
        "test_a_peer_without_the_deletion_names_the_interval_that_stays_elsewhere"
    ),
    "forgotten-heard-again": (
        "unit/store/test_superseded.py::"
        "test_the_first_interval_ends_with_the_latest_one_that_ended_before_the_horizon"
    ),
    "forget-untold": "unit/store/test_superseded.py::test_digests_follow_what_is_forgotten",
    "grants-unseen": (
        "unit/peer/test_conditions.py::"
        "test_a_transaction_whose_grants_are_gone_when_it_is_staged_is_not_indexed"
    ),
    "changes-unseen": (
        "unit/peer/test_conditions.py::test_an_unconditional_publication_and_a_deletion_are_changes"
    ),
    "floor-unraised": (
        "unit/peer/test_conditions.py::test_a_replica_that_forgets_a_grant_refuses_the_versions_before_it"
    ),
    "grants-in-any-view": (
        "unit/peer/test_conditions.py::test_a_replica_in_another_view_or_that_has_not_compared_cannot_tell"
    ),
    "conditions-unheard": (
        "unit/peer/test_conditions.py::test_an_open_transaction_holds_low_watermarks_back"
    ),
    "one-keeper-of-records": "unit/peer/test_records.py::test_a_record_counts_as_kept_by_others_when_there_are_others",
    "late-roles": "unit/peer/test_cut_off.py::test_of_two_advertisements_the_earlier_counts",
    "ended-unheard": (
        "unit/peer/test_cut_off.py::"
        "test_a_query_joined_in_one_part_goes_on_though_its_last_subscription_ends_in_the_other"
    ),
    "never-cut-off": "unit/peer/test_cut_off.py::test_a_peer_that_said_goodbye_is_not_missed",
    "one-round-of-leaving": (
        "unit/peer/test_peer.py::test_a_leaving_peer_offers_everything_once_more_after_late_answers_to_the_first_offer"
    ),
    "gone-alone": "unit/peer/test_peer.py::test_a_leaving_peer_reports_whether_enough_replicas_stay",
    "late-look": "unit/peer/test_low_mark.py::test_coordinators_with_messages_in_flight_are_reported_with_any_stamp",
    "late-early-cuts": "unit/peer/test_low_mark.py::test_an_early_cut_that_the_clock_has_passed_is_not_reported",
    "own-clock-only": (
        "unit/peer/test_low_mark.py::test_a_cut_is_taken_before_later_stamps_and_again_at_the_end_of_the_turn"
    ),
    "marks-without-outbox": (
        "unit/peer/test_low_mark.py::test_a_message_under_way_holds_the_mark_back_until_it_is_acknowledged"
    ),
    "unsteady-marks": (
        "simulation/test_bookmarks.py::"
        "test_no_bookmark_is_sent_while_others_may_be_cut_off_with_enough_copies"
    ),
    "withdraw-the-known": "unit/continuous/test_delivered_set.py::test_the_delivered_set_does_not_depend_on_the_order",
    "late-removals": "unit/store/test_intervals.py::test_a_publication_after_a_removal_stays_if_the_removal_comes_late",
    "known-late": "simulation/test_subscription_copies.py::test_solutions_known_to_other_replicas_alone_come_later",
    "lost-together": "simulation/test_in_step.py::test_a_simultaneous_loss_of_all_replicas_of_a_key_is_waited_for",
    "without-origin": "unit/peer/test_roll_forward.py::test_events_go_with_their_origin_as_well",
    "begun-anew": (
        "simulation/test_in_step.py::"
        "test_a_restart_does_not_complete_the_recovery_of_an_empty_peer"
    ),
    "first-at-once": (
        "unit/peer/test_members.py::test_an_empty_peer_that_sees_nobody_waits_for_its_seeds"
    ),
    "former-lives-forgotten": (
        "unit/peer/test_members.py::test_a_complete_peer_misses_known_members_that_it_never_saw"
    ),
    "fellows-know": "unit/peer/test_members.py::test_a_peer_that_lost_its_data_and_an_absent_one_count_as_two",
    "strangers-unheard": (
        "simulation/test_bookmarks.py::"
        "test_data_from_a_peer_out_of_view_is_compared_before_a_bookmark"
    ),
    "told-before-copies": "simulation/test_standing.py::test_a_snapshot_holds_reports_in_flight_to_other_replicas",
    "staged-not-in-snapshots": "simulation/test_standing.py::test_a_snapshot_holds_reports_in_flight_to_other_replicas",
    "sure-at-once": (
        "unit/continuous/test_evaluation.py::test_a_solution_retracted_for_a_reason_in_flight_is_not_reported_again"
    ),
    "told-elsewhere-ignored": (
        "simulation/test_standing.py::test_a_solution_retracted_by_another_replica_is_reported_again_if_it_is_true"
    ),
    "bare-contents-not-repaired": (
        "unit/peer/test_home_items.py::test_an_answer_acknowledged_before_it_came_differs_between_replicas_until_then"
    ),
    "outbox-at-the-end": (
        "unit/peer/test_low_mark.py::"
        "test_messages_of_a_split_turn_hold_the_watermark_back_though_acknowledged_before_its_end"
    ),
    "released-under-way": (
        "unit/peer/test_ended_groups.py::test_ended_groups_are_released_only_when_no_row_names_a_group"
    ),
    "count-others-copies": (
        "unit/peer/test_rerouting.py::"
        "test_a_message_passed_on_is_acknowledged_when_it_has_arrived"
    ),
    "discard-unmatched": (
        "unit/peer/test_cut_off.py::"
        "test_indexes_that_the_other_part_has_not_heard_of_are_made_up_for"
    ),
    "no-roll-forward": "unit/peer/test_roll_forward.py::test_a_publication_redelivered_by_several_is_sent_on_once",
    "repair-unjoined": (
        "unit/peer/test_cut_off.py::"
        "test_triples_published_before_the_cut_was_noticed_are_not_lost_either"
    ),
    "settled-forgotten": "unit/peer/test_settled.py::test_in_another_epoch_acknowledged_answers_are_left_out",
    "spare-the-returned": (
        "unit/peer/test_tokens.py::"
        "test_with_fewer_peers_there_is_less_to_spare_also_when_they_come_back"
    ),
    "ended-rows-unanswered": (
        "unit/peer/test_ended_groups.py::"
        "test_a_peer_that_sends_data_of_an_ended_query_is_told_of_the_end"
    ),
    "late-words": "unit/peer/test_words.py::test_triples_without_a_digest_of_keywords_are_indexed",
    "lost-words": (
        "unit/peer/test_words.py::"
        "test_a_text_is_indexed_once_more_under_each_set_of_words_that_it_has_one_of"
    ),
    "no-rejoin": "golden/test_golden.py::test_scenario_prints_its_expected_output[failover]",
}
"""By mutant."""


def run(name: str, *, without: bool) -> int:
    """Run the test of a rule, with it or without it; return how pytest ended."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"tests/{TESTS[name]}"]
    if without:
        command += ["-p", "mutants.plugin", "--mutant", name]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode


def main() -> int:
    """Print a row for each mutant; return 1 if one is not caught."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant (default: all that have a test)")
    names = parser.parse_args().names or list(TESTS)
    if unknown := [name for name in names if name not in TESTS]:
        parser.error(f"there is no test of {unknown[0]}; there are tests of {', '.join(TESTS)}")
    alive = []
    print("| Rule removed | The test that fails |\n|---|---|")
    for name in names:
        whole, without = run(name, without=False), run(name, without=True)
        if (whole, without) != (0, FAILED):
            alive.append(name)
        found = f"`{TESTS[name]}`" if name not in alive else f"NOT CAUGHT (with the rule {whole}, without {without})"
        print(f"| {name}: {MUTANTS[name].rule} | {found} |", flush=True)
    print(f"{len(alive)} of {len(names)} mutants live" + (f": {', '.join(alive)}" if alive else ""))
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
