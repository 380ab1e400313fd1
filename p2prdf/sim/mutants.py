"""One rule removed at a time: checkers that catch none of these would prove nothing.

A mutant changes real classes while it is in force, inside a context manager; the code that runs in
production has no switches.  Each names the rule that it removes and is run on seeds of bad days, in order,
until one of them shows a broken promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from p2prdf.sim.failures.scenario import Verdict, draw_bad_day, run_bad_day
from p2prdf.sim.failures.world import FailingWorld

__all__ = ["MUTANTS", "SEEDS_MAX", "Caught", "Mutant", "catch", "run_mutants"]

SEEDS_MAX: Final = 2000
"""Within which a mutant must be caught."""

_SHARE_SEEDS = 200
_CHUNK = 4

Change = tuple[type, str, Any]
"""A class, the name of what is replaced in it, and what by."""


@contextmanager
def _changed(changes: list[Change]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in changes:
            original = owner.__dict__[name]
            setattr(owner, name, replacement)
            stack.callback(setattr, owner, name, original)
        yield


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule, and how to remove it; ``changes`` is called when the mutant is to be in force."""

    name: str
    rule: str
    changes: Callable[[], list[Change]]

    def run(self, seed: int) -> Verdict:
        """Run the story of a seed without the rule."""
        with _changed(self.changes()):
            return run_bad_day(draw_bad_day(seed))


@dataclass(frozen=True, slots=True)
class Caught:
    """How a mutant was found out: the first bad seed and its kinds of problems, and how many seeds are bad."""

    name: str
    first: int | None
    kinds: tuple[str, ...]
    bad: int
    seeds: int

    def __str__(self) -> str:
        if self.first is None:
            return f"{self.name}: NOT CAUGHT in {self.seeds} seeds"
        return f"{self.name}: first seed {self.first} ({', '.join(self.kinds)}), {self.bad} of {self.seeds} seeds"


def _acknowledge_before_sync() -> list[Change]:
    return [(FailingWorld, "_waits", lambda *_: False)]


MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        Mutant("acknowledge-before-sync", "what follows a record waits until it is durable", _acknowledge_before_sync),
    )
}


def _run(name: str, seed: int) -> Verdict:
    return MUTANTS[name].run(seed)


def catch(name: str, *, seeds_max: int = SEEDS_MAX, share_seeds: int = 0, jobs: int = 1) -> Caught:
    """Run a mutant until it is caught, and on at least ``share_seeds`` seeds to see how often it is."""
    first: int | None = None
    kinds: tuple[str, ...] = ()
    bad = seeds = 0
    for verdict in _verdicts(name, seeds_max, jobs):
        seeds += 1
        if not verdict.good:
            bad += 1
            if first is None:
                first, kinds = verdict.day.seed, tuple(sorted({problem.kind for problem in verdict.problems}))
        if first is not None and seeds >= share_seeds:
            break
    return Caught(name, first, kinds, bad, seeds)


def _verdicts(name: str, seeds: int, jobs: int) -> Iterator[Verdict]:
    if jobs == 1:
        yield from map(partial(_run, name), range(seeds))
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(partial(_run, name), range(seeds), chunksize=_CHUNK)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run_mutants(names: list[str], *, seeds_max: int, jobs: int) -> int:
    """Run mutants and print how each was caught, as rows of a table; return 1 if one was not."""
    print("| Rule removed | First bad seed | What it broke | Bad seeds |")
    print("|---|---|---|---|")
    alive = []
    for name in names:
        caught = catch(name, seeds_max=seeds_max, share_seeds=min(_SHARE_SEEDS, seeds_max), jobs=jobs)
        if caught.first is None:
            alive.append(name)
        share = f"{caught.bad} of {caught.seeds}"
        first = "none" if caught.first is None else caught.first
        print(f"| {name}: {MUTANTS[name].rule} | {first} | {', '.join(caught.kinds)} | {share} |", flush=True)
    print(f"{len(alive)} of {len(names)} mutants live" + (f": {', '.join(alive)}" if alive else ""))
    return 1 if alive else 0
