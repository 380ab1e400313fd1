"""``python -m algebra``: the command behind ``make algebra``."""

from __future__ import annotations

import argparse
import sys
import time

from algebra import compare, windowed


def main() -> int:
    """Compare many random queries; return 1 if any step of any was wrong."""
    parser = argparse.ArgumentParser("algebra", description="Random standing queries against an independent engine.")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--start", type=int, default=1_000_000, metavar="SEED", help="the first seed; one per query")
    parser.add_argument("--windows", action="store_true", help="queries with windows, compared at every report")
    arguments = parser.parse_args()
    seeds = range(arguments.start, arguments.start + arguments.queries)
    return _windows(seeds) if arguments.windows else _standing(seeds)


def _standing(seeds: range) -> int:
    tally = compare.Tally()
    began = time.process_time()
    for seed in seeds:
        compare.play(seed, tally)
    print(
        f"queries {tally.queries}  refused {sum(tally.refused.values())}  steps {tally.steps}, {tally.changed} with a "
        f"change  deltas {tally.deltas}  solutions {tally.answers}  wrong {len(tally.wrong)}  "
        f"CPU seconds {time.process_time() - began:.0f}"
    )
    return _shown(tally)


def _windows(seeds: range) -> int:
    tally = windowed.Tally()
    began = time.process_time()
    for seed in seeds:
        windowed.play(seed, tally)
    print(
        f"queries {tally.queries}, {tally.by_count} by count, {tally.answered} with changing solutions  "
        f"refused {sum(tally.refused.values())}  too many choices {tally.too_many}  reports {tally.reports}, "
        f"{tally.changed} with a change  solutions {tally.answers}  wrong {len(tally.wrong)}  "
        f"CPU seconds {time.process_time() - began:.0f}"
    )
    return _shown(tally)


def _shown(tally: compare.Tally | windowed.Tally) -> int:
    for construct, count in tally.refused.most_common():
        print(f"refused {count}: {construct}")
    for wrong in tally.wrong:
        print(wrong)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
