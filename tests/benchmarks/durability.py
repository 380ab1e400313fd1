"""The cost of durability: five daemons that keep one copy in memory, against three copies on disks.

The kinds take turns, round by round, each in a fresh overlay, so that a machine that slows down slows down all
of them.  Rates are as in the section ``daemons``: wall time until everything is acknowledged.  Three copies in
memory separate the cost of copies from that of disks.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import daemons
import uvloop
from rich.console import Console
from rich.table import Table

from p2prdf.rdf.dictionary import TermDictionary
from p2prdf_lab.workloads.paths import path_queries, path_triples

QUERIES = 1000
BAR = 0.25
FSYNCS = 50
ONE_COPY, THREE_COPIES, THREE_ON_DISK = "1 copy, memory", "3 copies (2 acknowledged), memory", "3 copies (2), fsync"
KINDS = {
    ONE_COPY: ("--replicas", "1", "--copies-min", "1", "--durability", "memory"),
    THREE_COPIES: ("--replicas", "3", "--copies-min", "2", "--durability", "memory"),
    THREE_ON_DISK: ("--replicas", "3", "--copies-min", "2", "--durability", "fsync"),
}


class Run(NamedTuple):
    """One round of one kind."""

    per_second: float
    per_cpu_second: float
    answers: int
    bytes_written: int


async def _once(options: tuple[str, ...], texts: list[list[str]], queries: list[str]) -> Run:
    async with daemons.Overlay(*options, with_data=True) as overlay:
        subscriptions, _ = await daemons.subscribe(overlay, queries)
        counted: Counter[int] = Counter()
        tasks = [asyncio.create_task(daemons.count(each, counted, at)) for at, each in enumerate(subscriptions)]
        before = overlay.bytes_kept()
        pieces = daemons.batches(texts)
        wall, cpu = await daemons.rate(overlay, [pieces[at :: daemons.NODES] for at in range(daemons.NODES)])
        written = overlay.bytes_kept() - before
        await daemons.still(counted)
        for task in tasks:
            task.cancel()
    return Run(wall, cpu, counted.total(), written)


async def _compare(console: Console, quick: bool) -> bool:
    triples, rounds = (100_000, 1) if quick else (400_000, 3)
    dictionary = TermDictionary()
    texts = [dictionary.texts(column.tolist()) for column in path_triples(dictionary, triples, seed=2)]
    queries = [daemons.spell(query) for query in path_queries(QUERIES, seed=1)]
    runs: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, options in KINDS.items():
            runs[kind].append(await _once(options, texts, queries))
    table = Table(
        title=f"five daemons on one machine and one disk, batches of 1,000, {QUERIES:,} standing 5-pattern paths, "
        f"{triples:,} triples, {rounds} interleaved rounds"
    )
    table.add_column("")
    for column in ("triples/s", "runs", "of 1 copy", "triples/cpu-s", "answers", "disk bytes/triple"):
        table.add_column(column, justify="right")
    rates = {kind: statistics.median(run.per_second for run in found) for kind, found in runs.items()}
    for kind, found in runs.items():
        table.add_row(
            kind, f"{rates[kind]:,.0f}", " ".join(f"{run.per_second / 1000:,.1f}k" for run in found),
            f"{rates[kind] / rates[ONE_COPY]:.0%}", f"{statistics.median(run.per_cpu_second for run in found):,.0f}",
            f"{found[0].answers:,}", f"{statistics.median(run.bytes_written for run in found) / triples:,.0f}",
        )  # fmt: skip
    console.print(table)
    console.print(f"one fsync of 4 kB takes {1000 * fsync_seconds():.2f} ms here")
    ratio = statistics.median(
        disk.per_second / memory.per_second for disk, memory in zip(runs[THREE_ON_DISK], runs[ONE_COPY], strict=True)
    )
    same = len({run.answers for found in runs.values() for run in found}) == 1
    console.print(
        f"bar: three copies on disk reach {ratio:.0%} of one copy in memory, median of rounds (at least {BAR:.0%}); "
        f"answers {'equal in all runs' if same else 'DIFFER'}"
    )
    return ratio >= BAR and same


def fsync_seconds() -> float:
    """Return the median time of one small write that reaches the disk, where daemons keep their data."""
    taken = []
    with tempfile.TemporaryDirectory(prefix="p2prdf-bench-") as folder, (Path(folder) / "probe").open("wb") as file:
        for _ in range(FSYNCS):
            start = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def run(console: Console, quick: bool) -> bool:
    """Print the comparison; return whether the bar is met."""
    return uvloop.run(_compare(console, quick))
