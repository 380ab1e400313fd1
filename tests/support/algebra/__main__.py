"""``python -m algebra``: the command behind ``make algebra``."""

from __future__ import annotations

import argparse
import sys
import time

from algebra.compare import Tally, play


def main() -> int:
    """Compare many random queries; return 1 if any step of any was wrong."""
    parser = argparse.ArgumentParser("algebra", description="Random standing queries against an independent engine.")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--start", type=int, default=1_000_000, metavar="SEED", help="the first seed; one per query")
    arguments = parser.parse_args()
    tally = Tally()
    began = time.process_time()
    for seed in range(arguments.start, arguments.start + arguments.queries):
        play(seed, tally)
    print(
        f"queries {tally.queries}  refused {sum(tally.refused.values())}  steps {tally.steps}, {tally.changed} with a "
        f"change  deltas {tally.deltas}  solutions {tally.answers}  wrong {len(tally.wrong)}  "
        f"CPU seconds {time.process_time() - began:.0f}"
    )
    for construct, count in tally.refused.most_common():
        print(f"refused {count}: {construct}")
    for wrong in tally.wrong:
        print(wrong)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
