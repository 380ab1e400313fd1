"""Run random histories with settled subscriptions: ``python -m settled_days --seeds N [--faults]``."""

from __future__ import annotations

import argparse
import sys
import time

from settled_days.day import run_history


def main() -> int:
    """Run histories; print the number of marks, and each mark that differs."""
    parser = argparse.ArgumentParser(prog="settled_days", description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=20, help="the number of histories")
    parser.add_argument("--faults", action="store_true", help="crash peers and subscribers")
    parser.add_argument("--immediate", action="store_true", help="judge bookmarks of immediate delivery instead")
    parser.add_argument("--cohorts", action="store_true", help="with cohorts of several queries")
    parser.add_argument("--forgetting", action="store_true", help="with the setting forget_intervals")
    wanted = parser.parse_args()
    began = time.monotonic()
    marks = transactions = crashes = wrong = problems = skipped = 0
    for seed in range(wanted.start, wanted.start + wanted.seeds):
        report = run_history(
            seed, faults=wanted.faults, settled=not wanted.immediate, cohorts=wanted.cohorts,
            forgetting=wanted.forgetting,
        )  # fmt: skip
        marks, skipped = marks + report.marks, skipped + report.skipped
        transactions, crashes = transactions + report.transactions, crashes + report.crashes
        wrong, problems = wrong + len(report.differs), problems + len(report.problems)
        for line in (*report.differs[:3], *report.problems[:3]):
            print(line[:400], flush=True)
    print(
        f"{wanted.seeds} histories, {transactions} transactions, {crashes} crashes: {marks} marks judged by"
        f" pyoxigraph ({skipped} skipped), {wrong} differ, {problems} other problems;"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if wrong or problems else 0


if __name__ == "__main__":
    sys.exit(main())
