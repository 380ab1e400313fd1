"""The cost of a replica's answer to another's request for digests, while a few triples come in between.

The maintained digest index (:mod:`p2prdf.peer.replication.digests`) beside a pass over all items, the cost without it.
Bar: with ten times as many items an answer costs at most twice as much.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from p2prdf import keys
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.joins.items import table_kinds
from p2prdf.peer.replication.digests import DigestIndex
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.store.columnar import ColumnarTables

FEW = 20
BATCH = 1000
FELLOW = 1


class _Peer:
    """Tables with triples under all seven keys, and their digest index."""

    def __init__(self, triples: int):
        dictionary = TermDictionary()
        self._terms = np.array([dictionary.intern(f"<http://example.org/{each}>") for each in range(triples // 4)])
        self._draw = np.random.default_rng(7)
        self._tables = ColumnarTables(dictionary, lambda _: lambda _: True)
        self.kinds = table_kinds(self._tables, None)  # type: ignore[arg-type]  # no item is made a message here
        self.held = [DigestIndex(kind) for kind in self.kinds]
        for _ in range(triples // BATCH):
            self.add(BATCH)

    def add(self, count: int) -> None:
        terms = (self._draw.choice(self._terms, count).astype(np.uint32) for _ in range(3))
        time, event = np.full(count, 5, np.uint64), np.zeros(count, np.uint64)
        self._tables.add_triples(*terms, time, event, np.full(count, 0xFE, np.uint32))

    def kept_up(self, found: ReplicaMap) -> list[int]:
        for each in self.held:
            each.update(found)
        return [each.total(FELLOW) for each in self.held]

    def looked_through(self, found: ReplicaMap) -> list[int]:
        totals = []
        for kind in self.kinds:
            items = kind.items()
            shared = items.only(found.holds(items.keys, 0) & found.holds(items.keys, FELLOW))
            totals.append(int(keys.fmix_array(shared.identities).sum(dtype=np.uint64)))
        return totals


def _milliseconds(do: Callable[[], list[int]]) -> tuple[float, list[int]]:
    start = time.process_time()
    totals = do()
    return 1000 * (time.process_time() - start), totals


def run(console: Console, quick: bool) -> bool:
    """Print the comparison; return whether the bar is met and both ways give the same digests."""
    sizes = (3_000, 30_000) if quick else (30_000, 300_000)
    places = random.Random(5)
    ring = [(places.getrandbits(64), number, "") for number in range(5)]
    found = ReplicaMap(ring, "kademlia", 3)
    table = Table(title=f"totals of all kinds after {FEW} more triples, five peers, three copies; CPU ms, median of 9")
    for column in ("triples held", "kept up", "looked through", "another view"):
        table.add_column(column, justify="right")
    cost, same = [], True
    for size in sizes:
        peer = _Peer(size)
        peer.kept_up(found)
        took: list[tuple[float, float]] = []
        for _ in range(9):
            peer.add(FEW)
            kept, mine = _milliseconds(lambda peer=peer: peer.kept_up(found))  # type: ignore[misc]
            through, theirs = _milliseconds(lambda peer=peer: peer.looked_through(found))  # type: ignore[misc]
            same &= mine == theirs
            took.append((kept, through))
        view, _ = _milliseconds(lambda peer=peer: peer.kept_up(ReplicaMap(ring[:4], "kademlia", 3)))  # type: ignore[misc]
        kept, through = (statistics.median(column) for column in zip(*took, strict=True))
        cost.append(kept)
        table.add_row(f"{size:,}", f"{kept:.2f}", f"{through:.1f}", f"{view:.1f}")
    console.print(table)
    met = same and cost[1] <= 2 * cost[0]
    console.print(
        f"{'the same totals' if same else 'totals DIFFER'}; {cost[1] / cost[0]:.1f} times the cost for ten times as "
        f"much (bar: 2): {'met' if met else 'MISSED'}"
    )
    return met
