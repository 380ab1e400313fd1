"""The cost of tracing: the same publications with none traced, some, and each of them, in one run.

Three simulated peers of the daemon's own code with columnar tables, triples under all indexes, and a standing
query of two patterns.  A traced publication is followed for longer than a run takes: all others are compared
with it.  CPU seconds of all three and of the simulated network; the modes take turns, and the quickest round of
each counts.  *Spans* and *notes* (messages about traced publications) are counts.
"""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console
from rich.table import Table

from p2prdf.peer import PeerConfig
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.workloads.random_queries import conjunctive_query

BAR: Final = 1.2
"""Bound of the cost with one publication in a hundred traced, as a multiple of the cost with none."""
_QUERY: Final = conjunctive_query([("?x", "<urn:p>", "?y"), ("?y", "<urn:q>", "?z")], ["?x", "?z"])
_MODES: Final = {"none": 0, "1 in 100": 100, "1 in 10": 10, "each": 1}
_ROUNDS: Final = 3


def _played(publications: int, triples: int, every: int) -> tuple[float, World]:
    config = PeerConfig(hot_keys=False, trace_every=every)
    world = World(WorldOptions(peers=3, seed=3, config=config, tables="arrays"))
    subscriber = world.subscribe(0.0, 2, _QUERY)
    world.run_until(lambda: subscriber.opened_at is not None)
    for at in range(publications):
        rows = [
            (f"<urn:x{at}:{row}>", "<urn:p>", f"<urn:y{at}:{row}>") if row % 2 else
            (f"<urn:y{at}:{row + 1}>", "<urn:q>", f'"{row}"')
            for row in range(triples)
        ]  # fmt: skip
        world.publish(0.002 * at, 0, rows)
    began = time.process_time()
    world.run_until_quiet()
    took = time.process_time() - began
    assert len(subscriber.rows) == publications * (triples // 2)
    return took, world


def run(console: Console, quick: bool) -> bool:
    """Print a table; return whether the bar was kept."""
    good = True
    for publications, triples in ((100, 10), (10, 1000)) if quick else ((2000, 10), (200, 1000)):
        best: dict[str, tuple[float, World]] = {}
        for _ in range(_ROUNDS):
            for name, every in _MODES.items():
                taken = _played(publications, triples, every)
                best[name] = min(best.get(name, taken), taken, key=lambda each: each[0])
        table = Table(title=f"{publications:,} publications of {triples:,} triples")
        for column in ("traced", "CPU s", "times none", "spans", "notes", "not followed"):
            table.add_column(column, justify="right")
        base = best["none"][0]
        for name, (took, world) in best.items():
            refused = sum(node.peer.status()["traces_refused"] for node in world.nodes)  # type: ignore[misc]
            notes = world.counts.messages["Traced"]
            table.add_row(
                name, f"{took:.2f}", f"{took / base:.2f}", f"{len(world.spans):,}", f"{notes:,}", f"{refused:,}"
            )
        console.print(table)
        good &= best["1 in 100"][0] <= BAR * base
    console.print(f"One traced in 100 costs at most {BAR} times what none does: {'yes' if good else 'NO'}")
    return good
