"""One node's matching path: store, probe, join, follow; no sockets.

The workload is the seed paper's: paths of 5 patterns through a tree of classes.  Every query and every triple
is at this one node, under the one index the queries wait on; every partial result comes back to it until it is
an answer.  The daemon's tables are the columnar ones; light tables are the reference and the simulator's.
"""

from __future__ import annotations

import tracemalloc

from common import calibrate, feed, load
from rich.console import Console
from rich.table import Table

TRIPLES = 100_000
BATCH_BAR, SINGLE_BAR = 800_000, 300_000


def run(console: Console, quick: bool) -> bool:
    """Print the table; return whether the bars at 100,000 queries are met."""
    sizes = (1, 100, 10_000) if quick else (1, 100, 10_000, 100_000)
    repeats = 1 if quick else 3
    console.print(f"calibration: {calibrate():.2f} M cold dictionary look-ups per CPU-second")
    table = Table(title=f"one node, {TRIPLES:,} triples of the seed's path workload, 5-pattern queries, rarest first")
    columns = ("queries", "tables", "batch", "triples/cpu-s", "best", "answers", "rows/triple", "registered/cpu-s")
    for column in columns:
        table.add_column(column, justify="right")
    reached: dict[tuple[int, str, int], float] = {}
    for queries in sizes:
        for kind, batch in (("light", 1), ("columnar", 1), ("columnar", 1000), ("columnar", 10_000)):
            rates, registered = [], 0.0
            for _ in range(1 if (kind, batch) == ("columnar", 1) else repeats):
                loaded = load(kind, queries, TRIPLES)
                fed = feed(loaded, batch)
                rates.append(TRIPLES / fed.seconds)
                registered = max(registered, queries / max(loaded.seconds_to_register, 1e-9))
            rates.sort()
            median = rates[len(rates) // 2]
            reached[queries, kind, batch] = median
            table.add_row(
                f"{queries:,}", kind, f"{batch:,}", f"{median:,.0f}", f"{rates[-1]:,.0f}", f"{fed.answers:,}",
                f"{fed.rows / TRIPLES:.3f}", f"{registered:,.0f}" if queries >= 10_000 else "-",
            )  # fmt: skip
    console.print(table)
    _memory(console, sizes[-1])
    if quick:
        return True
    batches, single = reached[100_000, "columnar", 10_000], reached[100_000, "light", 1]
    console.print(f"bar: batches {batches:,.0f} (at least {BATCH_BAR:,}), one at a time {single:,.0f} ({SINGLE_BAR:,})")
    return batches >= BATCH_BAR and single >= SINGLE_BAR


def _memory(console: Console, queries: int) -> None:
    """Print bytes per query and per stored triple."""
    empty = load("columnar", 1, 1)
    waiting = load("columnar", queries, 1)
    per_query = (waiting.tables.nbytes - empty.tables.nbytes) / queries
    before = waiting.tables.nbytes
    full = load("columnar", queries, TRIPLES)
    feed(full, 10_000)
    rows = full.tables.sizes().rows
    per_triple = (full.tables.nbytes - before) / TRIPLES
    console.print(
        f"columnar tables: {per_query:.0f} bytes per query, {per_triple:.0f} bytes per stored triple "
        f"with its index and {rows / TRIPLES:.2f} partial results"
    )
    tracemalloc.start()
    light = load("light", min(queries, 10_000), 20_000)
    loaded = tracemalloc.get_traced_memory()[0]
    feed(light, 1000)
    grown = tracemalloc.get_traced_memory()[0] - loaded
    tracemalloc.stop()
    console.print(f"light tables: {grown / 20_000:.0f} bytes per stored triple with its index (terms not counted)")
