"""One rule removed at a time: checkers that catch none of these would prove nothing.

A mutant changes real classes while it is in force, inside a context manager; the code that runs in
production has no switches.  Each names the rule that it removes and is run on seeds of bad days, in order,
until one of them shows a broken promise.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from p2prdf import keys
from p2prdf.continuous.home import Subscription
from p2prdf.overlay.outbox import Transfer
from p2prdf.peer import Peer
from p2prdf.peer.arrivals import Arrivals
from p2prdf.peer.batches import TripleBatch, unmarked
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange
from p2prdf.peer.opening import Opening
from p2prdf.peer.repair import Repair
from p2prdf.peer.roles import Roles
from p2prdf.peer.roll_forward import RollForward
from p2prdf.sim.failures.scenario import Verdict, draw_bad_day, run_bad_day
from p2prdf.sim.failures.world import FailingWorld
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.light import LightTables
from p2prdf.store.tables import Derived
from p2prdf.wire.messages import Contact

__all__ = ["MUTANTS", "SEEDS_MAX", "Caught", "Mutant", "catch", "run_mutants"]

SEEDS_MAX: Final = 2000
"""Within which a mutant must be caught."""

_SHARE_SEEDS = 200
_CHUNK = 4

Change = tuple[Any, str, Any]
"""A class or module, the name of what is replaced in it, and what by."""


@contextmanager
def _changed(changes: list[Change]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in changes:
            if name in vars(owner):
                stack.callback(setattr, owner, name, vars(owner)[name])
            else:  # inherited
                stack.callback(delattr, owner, name)
            setattr(owner, name, replacement)
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


def _one_copy() -> list[Change]:
    return [(Exchange, "spare", property(lambda self: min(self.config.replicas, self.cache.size) - 1))]


def _no_probe_of_rows() -> list[Change]:
    """Rows that come after the triples they wait for do not meet them."""

    def stored(original: Any) -> Any:
        def add_rows(self: Any, rows: Derived, _: Any = None) -> list[Derived]:
            result: list[Derived] = original(self, rows, self.columns.full(len(rows), 0, "bool"))
            return result

        return add_rows

    return [(tables, "add_rows", stored(tables.add_rows)) for tables in (LightTables, ColumnarTables)]


def _unordered_identities() -> list[Change]:
    one, many = keys.contribution, keys.contributions
    return [
        (keys, "contribution", lambda identity, _: one(identity, 0)),
        (keys, "contributions", lambda identities, _: many(identities, 0)),
    ]


def _no_rejoin() -> list[Change]:
    return [(Engine, "rejoin", lambda *_: None)]


def _no_repair() -> list[Change]:
    def wake(self: Repair) -> None:
        if not self.in_step:
            self.in_step = True
            self.on_in_step()

    return [(Repair, "wake", wake)]


def _repair_unjoined() -> list[Change]:
    """What comes by repair, which knows of no publication or view, is stored and never joined."""
    original = Engine._spread_copies

    def spread(self: Engine, batch: TripleBatch, *, keep_own: bool) -> None:
        before = len(self._mine)
        original(self, batch, keep_own=keep_own)
        if keep_own and not batch.origin:
            for each in self._mine[before:]:
                each.roles = unmarked(each.roles)

    return [(Engine, "_spread_copies", spread)]


def _no_roll_forward() -> list[Change]:
    return [(RollForward, "_finish", lambda *_: None)]


def _no_roll_forward_after_restart() -> list[Change]:
    return [(RollForward, "finish_all", lambda *_: None)]


def _discard_unmatched() -> list[Change]:
    """Triples are kept only by peers at which somebody waits."""

    def discarding(original: Any) -> Any:
        def add_triples(self: Any, *columns: Any) -> list[Derived]:
            sizes = self.sizes()
            result: list[Derived] = original(self, *columns) if sizes.queries + sizes.rows else []
            return result

        return add_triples

    return [(tables, "add_triples", discarding(tables.add_triples)) for tables in (LightTables, ColumnarTables)]


def _no_commit_wait() -> list[Change]:
    def tell(self: Opening, subscription: Subscription) -> None:
        heapq.heappush(self._settling, (0.0, subscription.number))
        self._tell_settled()

    return [(Opening, "_tell_when_past", tell)]


def _count_others_copies() -> list[Change]:
    """What a receiver passes on counts as a copy although it keeps none."""
    return [(Arrivals, "keep", lambda *_: ())]


def _forget_on_restart() -> list[Change]:
    return [(Peer, "restore", lambda *_, **__: None)]


def _late_roles() -> list[Change]:
    """What was published before a role was heard of is not indexed under it."""
    return [(Roles, "_route", lambda *_: None), (Roles, "missing", lambda *_: 0)]


def _give_up_lost() -> list[Change]:
    """What was on its way to a peer that is lost is given up."""
    return [(Exchange, "give_up", _only_forget)]


def _only_forget(self: Exchange, contact: Contact) -> list[Transfer]:
    self.cache.lost(contact)
    self._ring_changed()
    for transfer in self.outbox.lost(contact):
        self.release(transfer.tokens, contact.key)
    return []


MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        Mutant("acknowledge-before-sync", "what follows a record waits until it is durable", _acknowledge_before_sync),
        Mutant("one-copy", "an acknowledgement waits for copies_min copies", _one_copy),
        Mutant("no-probe-of-rows", "whichever of a row and a triple comes second is joined", _no_probe_of_rows),
        Mutant("unordered-identities", "identities tell the positions of triples apart", _unordered_identities),
        Mutant("no-rejoin", "a new primary joins again what lies under its keys", _no_rejoin),
        Mutant("no-repair", "replicas give each other what is missing", _no_repair),
        Mutant("repair-unjoined", "what comes by repair is joined like everything else", _repair_unjoined),
        Mutant("no-roll-forward", "a publication whose peer is lost is finished by others", _no_roll_forward),
        Mutant("no-roll-forward-after-restart", "so it is by who starts anew", _no_roll_forward_after_restart),
        Mutant("discard-unmatched", "triples are kept whether or not somebody waits", _discard_unmatched),
        Mutant("no-commit-wait", "a query is live when all clocks are past its stamp", _no_commit_wait),
        Mutant("count-others-copies", "only those who keep a key count as its copies", _count_others_copies),
        Mutant("forget-on-restart", "what a disk holds is restored", _forget_on_restart),
        Mutant("late-roles", "a role counts for what came before it was heard of", _late_roles),
        Mutant("give-up-lost", "what was on its way to a lost peer goes to others", _give_up_lost),
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
