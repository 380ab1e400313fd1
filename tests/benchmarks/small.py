"""Small publications: one triple at a time, acknowledged before the next, at all nodes at once.

The cost here is not that of the data but that of each message: turns, acknowledgements, syncs, frames.  So the
table has these counts and the CPU time of the five daemons per publication beside the rate, and a publisher's waiting
time.
Kinds take turns, as in the section ``durability``.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from typing import NamedTuple

import daemons
import durability
import uvloop
from rich.console import Console
from rich.table import Table

from p2prdf.client import Client
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf_lab.workloads.paths import PathSchema, path_queries, path_triples

QUERIES = 100


class Run(NamedTuple):
    """One round of one kind."""

    per_second: float
    cpu_ms: float
    counts: dict[str, float]
    """Turns, frames and commits of all daemons per publication."""
    waits_ms: list[float]
    answers: int


async def _publish(client: Client, texts: list[tuple[str, str, str]]) -> list[float]:
    """Publish triple by triple; return the milliseconds of each call."""
    waits = []
    for triple in texts:
        start = time.perf_counter()
        await client.publish([triple])
        waits.append(1000 * (time.perf_counter() - start))
    return waits


async def _once(options: tuple[str, ...], texts: list[tuple[str, str, str]], queries: list[str]) -> Run:
    async with daemons.Overlay(*options, with_data=True) as overlay:
        subscriptions, _ = await daemons.subscribe(overlay, queries)
        counted: Counter[int] = Counter()
        tasks = [asyncio.create_task(daemons.count(each, counted, at)) for at, each in enumerate(subscriptions)]
        await overlay.quiet()
        counts = await overlay.counts()
        cpu, start = overlay.daemons_cpu_seconds(), time.perf_counter()
        parts = [texts[at :: daemons.NODES] for at in range(daemons.NODES)]
        waits = await asyncio.gather(*map(_publish, overlay.clients, parts))
        took = time.perf_counter() - start
        await overlay.quiet()
        used = overlay.daemons_cpu_seconds() - cpu
        counts = await overlay.counts() - counts
        await daemons.still(counted)
        for task in tasks:
            task.cancel()
    every = [wait for part in waits for wait in part]
    each = {name: counts[name] / len(texts) for name in ("turns", "frames", "commits")}
    return Run(len(texts) / took, 1000 * used / len(texts), each, every, counted.total())


async def _compare(console: Console, quick: bool) -> bool:
    triples, rounds = (500, 1) if quick else (2_000, 3)
    schema = PathSchema(levels=3, branch=2, instances=200, values=100, domains=2)
    dictionary = TermDictionary()
    columns = [dictionary.texts(column.tolist()) for column in path_triples(dictionary, triples, schema=schema, seed=5)]
    texts = list(zip(*columns, strict=True))
    queries = [daemons.spell(query) for query in path_queries(QUERIES, schema=schema, length=3, seed=4)]
    runs: dict[str, list[Run]] = {kind: [] for kind in durability.KINDS}
    for _ in range(rounds):
        for kind, options in durability.KINDS.items():
            runs[kind].append(await _once(options, texts, queries))
    table = Table(
        title=f"five daemons, {triples:,} triples published one at a time at each node, {QUERIES} standing 3-pattern "
        f"paths, {rounds} interleaved rounds"
    )
    table.add_column("")
    for column in (
        "publications/s",
        "runs",
        "CPU ms of 5 nodes each",
        "turns",
        "frames",
        "commits",
        "wait p50 ms",
        "p99",
        "answers",
    ):
        table.add_column(column, justify="right")
    for kind, found in runs.items():
        waits = sorted(wait for run in found for wait in run.waits_ms)
        table.add_row(
            kind, f"{statistics.median(run.per_second for run in found):,.0f}",
            " ".join(f"{run.per_second:,.0f}" for run in found),
            f"{statistics.median(run.cpu_ms for run in found):.1f}",
            *(f"{statistics.median(run.counts[name] for run in found):.1f}" for name in found[0].counts),
            f"{waits[len(waits) // 2]:.1f}",
            f"{waits[len(waits) * 99 // 100]:.1f}", f"{found[0].answers:,}",
        )  # fmt: skip
    console.print(table)
    same = len({run.answers for found in runs.values() for run in found}) == 1
    console.print(f"answers {'equal in all runs' if same else 'DIFFER'}; no bar")
    return same


def run(console: Console, quick: bool) -> bool:
    """Print the comparison; return whether all kinds gave the same answers."""
    return uvloop.run(_compare(console, quick))
