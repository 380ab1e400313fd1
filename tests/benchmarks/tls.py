"""The cost of certificates: five daemons with TLS and without, in turns, and the time to open a connection.

Compare the rates per CPU second: this machine does other things as well.  Five daemons and their clients on a
few cores encrypt everything twice here that each of two machines elsewhere encrypts once.
"""

from __future__ import annotations

import time

import uvloop
from daemons import Overlay, once, spell
from rich.console import Console
from rich.table import Table

import p2prdf
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf_lab.workloads.paths import path_queries, path_triples


async def _throughput(console: Console, quick: bool) -> None:
    triples = 50_000 if quick else 200_000
    turns = 3 if quick else 5
    dictionary = TermDictionary()
    texts = [dictionary.texts(column.tolist()) for column in path_triples(dictionary, triples, seed=2)]
    queries = [spell(query) for query in path_queries(1000, seed=1)]
    runs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    answers: set[int] = set()
    for _ in range(turns):
        for with_tls in (False, True):
            wall, cpu, found, *_ = await once("all", texts, queries, with_tls=with_tls)
            runs[with_tls].append((wall, cpu))
            answers.add(found)
    title = f"five daemons, indexes on-demand, 1,000 standing 5-pattern paths, {triples:,} triples, {turns} runs"
    table = Table(title=title)
    for column in ("TCP", "triples/s", "triples/cpu-s", "runs, triples/cpu-s"):
        table.add_column(column, justify="right")
    medians = {}
    for with_tls, found_runs in runs.items():
        rates = sorted(cpu for _, cpu in found_runs)
        medians[with_tls] = rates[len(rates) // 2]
        walls = sorted(wall for wall, _ in found_runs)
        each = " ".join(f"{rate:,.0f}" for rate in rates)
        name = "TLS 1.3" if with_tls else "plain"
        table.add_row(name, f"{walls[len(walls) // 2]:,.0f}", f"{medians[with_tls]:,.0f}", each)
    console.print(table)
    console.print(f"answers the same: {len(answers) == 1}; TLS takes {medians[False] / medians[True] - 1:+.1%} CPU")


async def _connections(console: Console, quick: bool) -> None:
    count = 200 if quick else 1000
    for with_tls in (False, True):
        async with Overlay(with_tls=with_tls) as overlay:
            cpu, start = overlay.daemons_cpu_seconds(), time.perf_counter()
            for _ in range(count):
                await (await p2prdf.connect(overlay.addresses[0], tls=overlay.tls, reconnect_seconds=0)).close()
            took = (time.perf_counter() - start) / count
            used = (overlay.daemons_cpu_seconds() - cpu) / count
        name = "TLS 1.3" if with_tls else "plain"
        each = f"{took * 1000:.1f} ms, {used * 1000:.2f} ms CPU of nodes"
        console.print(f"a connection made, welcomed and closed, {name}: {each}")


async def _all(console: Console, quick: bool) -> bool:
    await _throughput(console, quick)
    await _connections(console, quick)
    return True


def run(console: Console, quick: bool) -> bool:
    """Print rates with and without; there is no bar."""
    return uvloop.run(_all(console, quick))
