"""``python -m schedules``: run seeded simulations and compare every answer with the oracle."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from schedules.failures.command import run_faults
from schedules.failures.days import DAYS
from schedules.mutants import MUTANTS, run_mutants
from schedules.scenario import Outcome, run_seed
from schedules.shares import Shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedules.shares import Configurations

_CHUNK = 10
_EVERY_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run the requested seeds; return 1 if any answer differs."""
    parser = argparse.ArgumentParser(prog="python -m schedules", description=__doc__)
    parser.add_argument("--faults", action="store_true", help="crashes, lost disks, cut links: see docs/reliability.md")
    parser.add_argument("--days", choices=DAYS, default="drawn", help="with --faults: of what kind (default: drawn)")
    parser.add_argument(
        "--configurations", choices=("daemon", "varied", "forgetting"), default="daemon",
        help="of the peers: that of daemons (default), varied as seeds before 2026-11-27 drew it, or of daemons that"
        " forget intervals",
    )  # fmt: skip
    parser.add_argument(
        "--mutants", nargs="*", metavar="NAME", help="remove a rule (default: each in turn) and see it caught"
    )
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds to run (default 2000)")
    parser.add_argument("--start", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--failures-max", type=int, default=10, help="bad seeds to stop after (default 10)")
    parser.add_argument(
        "--trace", action=argparse.BooleanOptionalAction, help="print all messages (default: if one seed)"
    )
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.jobs < 1:
        parser.error("--seeds and --jobs must be at least 1")
    trace = options.seeds == 1 if options.trace is None else options.trace
    seeds = range(options.start, options.start + options.seeds)
    if options.mutants is not None:
        unknown = [name for name in options.mutants if name not in MUTANTS]
        if unknown:
            parser.error(f"there is no mutant {unknown[0]}; there are {', '.join(MUTANTS)}")
        return run_mutants(
            options.mutants or list(MUTANTS), seeds_max=options.seeds, jobs=options.jobs,
            configurations=options.configurations,
        )  # fmt: skip
    if options.faults:
        return run_faults(
            seeds, kind=options.days, jobs=options.jobs, failures_max=options.failures_max, trace=trace,
            configurations=options.configurations,
        )  # fmt: skip
    outcomes: Iterator[Outcome]
    if trace or options.jobs == 1:
        outcomes = (
            run_seed(seed, configurations=options.configurations, trace=print if trace else None) for seed in seeds
        )
    else:
        outcomes = _in_processes(seeds, options.jobs, options.configurations)
    return _collect(outcomes, options.seeds, options.failures_max, options.configurations)


def _in_processes(seeds: range, jobs: int, configurations: Configurations) -> Iterator[Outcome]:
    run = partial(run_seed, configurations=configurations)
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(run, seeds, chunksize=min(_CHUNK, -(-len(seeds) // jobs)))
        except GeneratorExit:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _collect(
    outcomes: Iterator[Outcome], seeds: int, failures_max: int, configurations: Configurations
) -> int:
    counted: Counter[tuple[str, str, int]] = Counter()
    networks: Counter[str] = Counter()
    overlays: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    shares = Shares()
    bad: list[int] = []
    started = said = time.monotonic()
    done = 0
    for done, outcome in enumerate(outcomes, 1):
        scenario = outcome.scenario
        mode = "per event" if scenario.per_event else "per triple"
        counted[scenario.algorithm, mode, scenario.options.peers] += 1
        networks[scenario.network] += 1
        overlays[f"{scenario.options.overlay} {scenario.options.config.multisend}"] += 1
        for name in ("publications", "queries", "answers", "messages", "splits"):
            totals[name] += getattr(outcome, name)
        totals["seeds that split keys"] += outcome.splits > 0
        shares.add(outcome.peers, outcome.shown)
        if not outcome.good or seeds == 1:
            print(outcome.report(), flush=True)
        if not outcome.good:
            bad.append(scenario.seed)
            if len(bad) >= failures_max:
                break
        if time.monotonic() - said > _EVERY_SECONDS:
            said = time.monotonic()
            rate = done / (said - started)
            print(f"{done} of {seeds} seeds, {rate:.1f} seeds/s, {len(bad)} bad", flush=True)
    _summary(counted, networks, overlays, totals, done, time.monotonic() - started)
    print("\n".join(shares.lines()))
    if bad:
        varied = "" if configurations == "daemon" else f" ARGS='--configurations {configurations}'"
        print(f"FAILED: {len(bad)} of {done} seeds; reproduce with: make simulate SEED={bad[0]}{varied}")
        return 1
    print(f"ok: {done} seeds, every answer of the oracle arrived, none twice, no other")
    return 0


def _summary(
    counted: Counter[tuple[str, str, int]], networks: Counter[str], overlays: Counter[str],
    totals: Counter[str], done: int, seconds: float,
) -> None:  # fmt: skip
    peers = sorted({key[2] for key in counted})
    print(f"{'seeds by':>12} {'':>11} " + " ".join(f"{f'N={count}':>6}" for count in peers))
    for algorithm, mode in sorted({key[:2] for key in counted}):
        cells = " ".join(f"{counted[algorithm, mode, count]:>6}" for count in peers)
        print(f"{algorithm:>12} {mode:>11} {cells}")
    print("overlays: " + ", ".join(f"{name} {count}" for name, count in sorted(overlays.items())))
    print("networks: " + ", ".join(f"{name} {count}" for name, count in sorted(networks.items())))
    print(
        f"{done} seeds in {seconds:.1f} s ({done / seconds:.1f} seeds/s): "
        f"{totals['publications']} publications, "
        f"{totals['queries']} queries, {totals['answers']} answers compared, {totals['messages']} messages, "
        f"{totals['splits']} splits of hot keys in {totals['seeds that split keys']} seeds"
    )


if __name__ == "__main__":
    sys.exit(main())
