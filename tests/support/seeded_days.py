"""Seeded fault schedules, one after the other, and their results: shared by ``stream_days`` and ``rule_days``."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from schedules.shares import Shares

__all__ = ["Verdict", "run_days"]


@dataclass
class Verdict:
    """The result of a seed."""

    seed: int
    told: str
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    peers: Counter[str] = field(default_factory=Counter)
    """How many peers there were of each configuration."""
    shown: set[str] = field(default_factory=set)
    """Evidence of the features of the schedule."""

    def report(self) -> str:
        """Describe the run and its problems."""
        return "\n".join([f"seed {self.seed}: {self.told}", *(f"  {problem}" for problem in self.problems)])


def _verdicts(run_seed: Callable[..., Verdict], seeds: range, jobs: int, *, trace: bool) -> Iterator[Verdict]:
    if jobs == 1 or trace:
        yield from (run_seed(seed, trace=print if trace else None) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, seeds)


def run_days(name: str, about: str, run_seed: Callable[..., Verdict], **flags: str) -> int:
    """Run the seeds of the command line, print the failing ones and a summary; return 1 if there is a failing one.

    ``flags``: options of ``run_seed`` that are true or false, each with its help.
    """
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=50, help="how many")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--trace", action="store_true", help="print all messages")
    for flag, text in flags.items():
        parser.add_argument(f"--{flag}", action="store_true", help=text)
    options = parser.parse_args()
    seeds = range(options.start, options.start + options.seeds)
    run_one = partial(run_seed, **{flag: getattr(options, flag) for flag in flags})
    totals: Counter[str] = Counter()
    shares = Shares()
    bad = []
    started = time.monotonic()
    for verdict in _verdicts(run_one, seeds, options.jobs, trace=options.trace):
        totals.update(verdict.counts)
        shares.add(verdict.peers, verdict.shown)
        if verdict.problems or len(seeds) == 1:
            print(verdict.report(), flush=True)
        if verdict.problems:
            bad.append(verdict.seed)
    print(", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    print("\n".join(shares.lines()))
    print(f"{len(seeds)} seeds in {time.monotonic() - started:.0f} s: {len(bad)} bad {bad or ''}")
    return bool(bad)
