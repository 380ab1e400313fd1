"""``python -m schedules --faults``: runs seeds of fault schedules and prints a summary."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from schedules.failures.days import run_day
from schedules.shares import Shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedules.failures.scenario import Verdict
    from schedules.shares import Configurations

__all__ = ["run_faults"]

_CHUNK = 10
_EVERY_SECONDS = 5.0


def run_faults(
    seeds: range, *, kind: str, jobs: int, failures_max: int, trace: bool, configurations: Configurations = "daemon"
) -> int:
    """Run schedules of a kind and print a summary; return 1 if any promise was broken."""
    verdicts: Iterator[Verdict]
    if trace or jobs == 1:
        verdicts = (
            run_day(kind, seed, configurations=configurations, trace=print if trace else None) for seed in seeds
        )
    else:
        verdicts = _in_processes(seeds, kind, jobs, configurations)
    totals: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    shares = Shares()
    bad: list[int] = []
    started = said = time.monotonic()
    done = 0
    for done, verdict in enumerate(verdicts, 1):
        _count(verdict, totals, happened)
        shares.add(verdict.peers, verdict.shown)
        if not verdict.good or len(seeds) == 1:
            print(verdict.report(), flush=True)
        if not verdict.good:
            bad.append(verdict.day.seed)
            kinds.update(sorted({problem.kind for problem in verdict.problems}))
            if len(bad) >= failures_max:
                break
        if time.monotonic() - said > _EVERY_SECONDS:
            said = time.monotonic()
            print(f"{done} of {len(seeds)} seeds, {done / (said - started):.1f} seeds/s, {len(bad)} bad", flush=True)
    _summary(totals, happened, done, time.monotonic() - started)
    print("\n".join(shares.lines()))
    if bad:
        broken = ", ".join(f"{name} {count}" for name, count in sorted(kinds.items()))
        again = _command(kind, bad[0], configurations)
        print(f"FAILED: {len(bad)} of {done} seeds ({broken}); reproduce with: {again}")
        return 1
    print(f"ok: {done} seeds, everything acknowledged was delivered, once, and nothing else")
    return 0


def _command(kind: str, seed: int, configurations: Configurations) -> str:
    if kind == "drawn" and configurations != "varied":
        return f"make faults SEED={seed}"
    varied = "" if configurations == "daemon" else f" --configurations {configurations}"
    return f"PYTHONPATH=tests/support python -m schedules --faults --days '{kind}'{varied} --start {seed} --seeds 1"


def _in_processes(seeds: range, kind: str, jobs: int, configurations: Configurations) -> Iterator[Verdict]:
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(
                partial(run_day, kind, configurations=configurations), seeds,
                chunksize=min(_CHUNK, -(-len(seeds) // jobs)),
            )  # fmt: skip
        except GeneratorExit:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _count(verdict: Verdict, totals: Counter[str], happened: Counter[str]) -> None:
    config = verdict.day.options.config
    totals[f"r={config.replicas} W={config.copies_min}"] += 1
    for name in ("publications", "acknowledged", "answers", "repeats", "messages", "seconds"):
        totals[name] += getattr(verdict, name)
    happened.update(verdict.happened)


def _summary(totals: Counter[str], happened: Counter[str], done: int, seconds: float) -> None:
    copies = ", ".join(f"{name} {count}" for name, count in sorted(totals.items()) if name.startswith("r="))
    print(f"seeds by replicas: {copies}")
    print("happened: " + ", ".join(f"{name} {count}" for name, count in sorted(happened.items())))
    print(
        f"{done} seeds in {seconds:.1f} s ({done / seconds:.1f} seeds/s), "
        f"{totals['seconds'] / 3600:.1f} virtual hours: "
        f"{totals['acknowledged']} of {totals['publications']} publications acknowledged, "
        f"{totals['answers']} answers, {totals['repeats']} dropped as repeats, {totals['messages']} messages"
    )
