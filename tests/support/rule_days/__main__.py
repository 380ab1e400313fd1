"""``python -m rule_days``: seeded days of rules and failures, one after the other, and what came of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from rule_days.day import Verdict, run_seed


def _verdicts(seeds: range, jobs: int, *, trace: bool, calm: bool) -> Iterator[Verdict]:
    if jobs == 1 or trace:
        yield from (run_seed(seed, trace=print if trace else None, calm=calm) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(run_seed, calm=calm), seeds)


def main() -> int:
    """Run seeds, print what is bad of them and a summary; 1 if anything is."""
    parser = argparse.ArgumentParser(prog="rule_days", description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=50, help="how many")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--trace", action="store_true", help="print all messages")
    parser.add_argument("--calm", action="store_true", help="nobody fails; messages take their time all the same")
    options = parser.parse_args()
    seeds = range(options.start, options.start + options.seeds)
    totals: Counter[str] = Counter()
    bad = []
    started = time.monotonic()
    for verdict in _verdicts(seeds, options.jobs, trace=options.trace, calm=options.calm):
        totals.update(verdict.counts)
        if verdict.problems or len(seeds) == 1:
            print(verdict.report(), flush=True)
        if verdict.problems:
            bad.append(verdict.seed)
    print(", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    print(f"{len(seeds)} seeds in {time.monotonic() - started:.0f} s: {len(bad)} bad {bad or ''}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
