"""``python -m mutants [NAME ...]``: run tests without the rules that they are about, and see that they fail.

Days of failures (``python -m schedules --mutants``) find what is broken when a rule is missing, where nothing else
makes up for it and such days are drawn often enough.  All other rules have a test of their own, which is named here.
It must pass with the rule, and fail without it.
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
        "unit/peer/test_rules.py::test_what_was_left_out_for_a_subscription_heard_of_late_is_joined_again"
    ),
    "no-roll-forward-after-restart": (
        "unit/peer/test_rules.py::"
        "test_what_was_unfinished_before_a_restart_is_finished_though_its_origin_never_returns"
    ),
    "removals-at-once": (
        "simulation/test_accepted.py::test_a_removal_that_one_peer_alone_has_heard_of_has_no_effect"
    ),
    "join-the-ended": "simulation/test_removals.py::test_a_value_replaced_many_times_costs_what_its_changes_cost",
    "one-keeper-of-records": "unit/peer/test_records.py::test_a_record_counts_as_kept_by_others_when_there_are_others",
    "late-roles": "unit/peer/test_cut_off.py::test_of_two_advertisements_the_earlier_counts",
    "ended-unheard": (
        "unit/peer/test_cut_off.py::"
        "test_a_query_joined_in_one_part_goes_on_though_its_last_subscription_ends_in_the_other"
    ),
    "never-cut-off": "unit/peer/test_cut_off.py::test_a_peer_that_said_goodbye_is_not_missed",
    "one-round-of-leaving": (
        "unit/peer/test_peer.py::test_who_leaves_offers_all_once_more_whatever_is_still_answered_of_the_first_time"
    ),
    "gone-alone": "unit/peer/test_peer.py::test_who_leaves_says_whether_enough_others_stay",
    "late-look": "unit/peer/test_low_mark.py::test_homes_for_which_anything_is_under_way_are_told_whatever_its_stamp",
    "own-clock-only": (
        "unit/peer/test_low_mark.py::test_the_look_is_before_what_is_stamped_later_and_again_at_the_end_of_the_turn"
    ),
    "marks-without-outbox": (
        "unit/peer/test_low_mark.py::test_a_message_under_way_holds_the_mark_back_until_it_is_acknowledged"
    ),
    "unsteady-marks": (
        "simulation/test_bookmarks.py::"
        "test_nothing_is_said_to_have_come_while_others_may_be_cut_off_with_enough_copies"
    ),
    "withdraw-the-known": "unit/continuous/test_contents.py::test_whatever_the_order_it_comes_to_the_same",
    "late-removals": "unit/store/test_stays.py::test_what_was_published_after_a_removal_that_is_heard_of_late_stays",
    "known-late": "simulation/test_subscription_copies.py::test_what_was_told_to_others_alone_comes_later",
    "lost-together": "simulation/test_in_step.py::test_if_as_many_go_at_once_as_keep_a_key_they_are_waited_for",
    "without-origin": "unit/peer/test_roll_forward.py::test_events_go_with_their_origin_as_well",
    "begun-anew": (
        "simulation/test_in_step.py::"
        "test_who_began_with_nothing_is_not_taken_to_know_all_because_it_starts_once_more"
    ),
    "first-at-once": (
        "unit/peer/test_members.py::test_who_begins_with_nothing_and_sees_nobody_waits_for_those_it_was_told_of"
    ),
    "former-lives-forgotten": (
        "unit/peer/test_members.py::test_who_knows_that_there_have_been_others_misses_them_though_it_never_saw_them"
    ),
    "fellows-know": "unit/peer/test_members.py::test_one_that_lost_what_it_knew_and_one_that_is_away_are_two",
    "strangers-unheard": (
        "simulation/test_bookmarks.py::"
        "test_what_comes_from_a_peer_out_of_view_is_compared_before_anything_is_said_to_have_come"
    ),
    "told-before-copies": "simulation/test_standing.py::test_a_snapshot_holds_what_others_are_still_being_told",
    "staged-not-in-snapshots": "simulation/test_standing.py::test_a_snapshot_holds_what_others_are_still_being_told",
    "sure-at-once": (
        "unit/continuous/test_evaluation.py::test_what_was_taken_back_for_a_reason_on_its_way_is_not_told_again"
    ),
    "told-elsewhere-ignored": (
        "simulation/test_standing.py::test_what_another_replica_took_back_is_told_again_if_it_is_true"
    ),
    "bare-contents-not-repaired": (
        "unit/peer/test_home_items.py::test_what_was_acknowledged_before_its_contents_came_differs_until_they_come"
    ),
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
