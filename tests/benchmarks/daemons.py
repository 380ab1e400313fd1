"""End to end: five daemon processes on this machine, a publisher and the subscribers in this one.

Rates are wall time from the first publication to the last acknowledgement (every owner holds every triple), at
all cores; the CPU seconds of all six processes show the load that one core would carry. Latency has a section
of its own, ``latency``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple, Self

import uvloop
from rich.console import Console
from rich.table import Table

import p2prdf
from p2prdf.client import Client
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf_lab.workloads.paths import path_queries, path_triples

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import real_data
from tls_files import Certificates, tls_of

NODES = 5
BATCH = 1000
QUIET_SECONDS = 0.5


class Run(NamedTuple):
    """Costs of one run through a fresh overlay."""

    per_second: float
    per_cpu_second: float
    answers: int
    rows: int
    """Index rows that all nodes hold in the end."""
    disk_bytes: int
    frames: int
    """Frames that nodes sent each other while the triples were published."""


class Overlay:
    """Some daemons and a client at each; ``with_data``: each has a data directory, ``with_tls``: a certificate."""

    def __init__(self, *options: str, nodes: int = NODES, with_data: bool = False, with_tls: bool = False):
        self._options = options
        self.nodes = nodes
        self._with_data = with_data
        self._with_tls = with_tls
        self.tls: p2prdf.Tls | None = None
        self.processes: list[subprocess.Popen[str]] = []
        self.clients: list[Client] = []

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="p2prdf-bench-")
        self.addresses: list[str] = []
        self._certificates = Certificates(Path(self._folder.name)) if self._with_tls else None
        if self._certificates is not None:
            self.tls = tls_of(self._certificates.client())
        for number in range(self.nodes):
            process, address = self._start(number, "127.0.0.1:0")
            self.processes.append(process)
            self.addresses.append(address)
        self.clients = [await p2prdf.connect(address, tls=self.tls) for address in self.addresses]
        await self._whole()
        return self

    def _start(self, number: int, listen: str) -> tuple[subprocess.Popen[str], str]:
        """Start a node; return its process and address."""
        others = [each for each in self.addresses if each != listen]
        arguments = ["--bootstrap", others[0]] if others else []
        if self._certificates is not None:
            for name, value in self._certificates.settings(self._certificates.node()).items():
                arguments += [f"--{name.replace('_', '-')}", str(value)]
        if self._with_data:
            arguments += ["--data", str(Path(self._folder.name) / f"data{number}")]
        log = (Path(self._folder.name) / f"{number}.log").open("a")
        process = subprocess.Popen(
            [sys.executable, "-m", "p2prdf_node", "--listen", listen, *self._options, *arguments],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        return process, process.stdout.readline().split()[1]

    async def _whole(self) -> None:
        """Wait until all nodes see each other and have compared their copies."""
        async with asyncio.timeout(120):
            while not all(map(self._met, [await client.status() for client in self.clients])):
                await asyncio.sleep(0.05)

    async def restart(self, number: int) -> float:
        """Kill a node, start it again; return the seconds until it has compared its copies with the others."""
        self.processes[number].kill()
        self.processes[number].wait()
        start = time.perf_counter()
        self.processes[number], _ = self._start(number, self.addresses[number])
        await self.clients[number].close()
        self.clients[number] = await p2prdf.connect(self.addresses[number], tls=self.tls)
        await self._whole()
        return time.perf_counter() - start

    def _met(self, state: dict[str, object]) -> bool:
        peer = state["peer"]
        assert isinstance(peer, dict)
        known = len(peer["contacts"]) == self.nodes and peer["settled"]
        return known and peer["in_sync"] and not peer["comparing"]

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            await client.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()
            assert process.stdout is not None
            process.stdout.close()
        self._folder.cleanup()

    async def quiet(self) -> None:
        """Wait until nothing is under way anywhere."""
        async with asyncio.timeout(120):
            while not all(state["peer"]["idle"] for state in [await client.status() for client in self.clients]):
                await asyncio.sleep(0.02)

    async def frames(self) -> int:
        """Return the number of frames that nodes have sent each other."""
        return sum(state["transport"]["frames"] for state in [await client.status() for client in self.clients])

    async def counts(self) -> Counter[str]:
        """Return the numbers of turns, frames to other nodes and commits of all nodes."""
        found: Counter[str] = Counter()
        for state in [await client.status() for client in self.clients]:
            found["turns"] += state["counts"]["turns"]
            found["frames"] += state["transport"]["frames"]
            found["commits"] += state["storage"].get("written", {}).get("commits", 0)
        return found

    def bytes_kept(self) -> int:
        """Return the size of everything in the data directories."""
        return sum(path.stat().st_size for path in Path(self._folder.name).glob("data*/**/*") if path.is_file())

    def resident_bytes(self) -> int:
        """Return the resident memory of all daemons."""
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(int(Path(f"/proc/{each.pid}/statm").read_text().split()[1]) * page for each in self.processes)

    def cpu_seconds(self) -> float:
        """Return CPU seconds used so far by all processes, this one included."""
        return time.process_time() + self.daemons_cpu_seconds()

    def daemons_cpu_seconds(self) -> float:
        """Return CPU seconds used so far by the daemons."""
        tick = os.sysconf("SC_CLK_TCK")
        used = 0.0
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            used += (int(fields[11]) + int(fields[12])) / tick
        return used


def spell(query: ConjunctiveQuery) -> str:
    """Return a query as SPARQL text."""

    def part(slot: int) -> str:
        return f"?v{slot}" if slot >= 0 else query.constants[~slot]

    patterns = " . ".join(" ".join(map(part, pattern)) for pattern in query.patterns)
    return f"SELECT {' '.join(f'?v{each}' for each in query.answer)} WHERE {{ {patterns} }}"


async def subscribe(overlay: Overlay, texts: list[str]) -> tuple[list[p2prdf.client.Subscription], float]:
    """Subscribe to queries at all nodes; return the subscriptions and the seconds it took."""
    start = time.perf_counter()
    held: list[p2prdf.client.Subscription] = []
    for first in range(0, len(texts), 50):
        held += await asyncio.gather(
            *(
                overlay.clients[at % NODES].subscribe(texts[at], lease_seconds=600)
                for at in range(first, min(first + 50, len(texts)))
            )
        )
    return held, time.perf_counter() - start


async def count(subscription: p2prdf.client.Subscription, counter: Counter[int], place: int) -> None:
    """Count a subscription's solutions."""
    async for batch in subscription.batches():
        counter[place] += len(batch)


def batches(columns: list[list[str]]) -> list[TripleBatch]:
    """Cut columns of terms into batches."""
    size = len(columns[0])
    return [
        TripleBatch(*(column[at : at + BATCH] for column in columns), statements_done=at + BATCH, line=0)
        for at in range(0, size, BATCH)
    ]


async def rate(overlay: Overlay, parts: list[list[TripleBatch]]) -> tuple[float, float]:
    """Publish the parts at as many nodes; return triples per second and per CPU second."""
    cpu, start = overlay.cpu_seconds(), time.perf_counter()
    counts = await asyncio.gather(
        *(client.publish(part, batch_triples=BATCH) for client, part in zip(overlay.clients, parts, strict=False))
    )
    took = time.perf_counter() - start
    await overlay.quiet()
    return sum(counts) / took, sum(counts) / (overlay.cpu_seconds() - cpu)


async def _throughput(console: Console, quick: bool) -> bool:
    triples = 100_000 if quick else 200_000
    table = Table(title=f"batches of 1,000, acknowledged, 1,000 standing 5-pattern paths, {triples:,} triples")
    for column in ("indexes", "triples/s", "runs", "per cpu-s", "index rows", "disk B", "frames", "answers"):
        table.add_column(column, justify="right")
    dictionary = TermDictionary()
    texts = [dictionary.texts(column.tolist()) for column in path_triples(dictionary, triples, seed=2)]
    queries = [spell(query) for query in path_queries(1000, seed=1)]
    counts = set()
    for indexes in ("all", "on-demand"):
        runs = [await once(indexes, texts, queries) for _ in range(1 if quick else 5)]
        runs.sort()
        found = runs[len(runs) // 2]
        counts |= {run.answers for run in runs}
        each = " ".join(f"{run.per_second / 1000:,.0f}k" for run in runs)
        table.add_row(
            indexes, f"{found.per_second:,.0f}", each, f"{found.per_cpu_second:,.0f}", f"{found.rows / triples:.1f}",
            f"{found.disk_bytes / triples:,.0f}", f"{found.frames / (triples / BATCH):,.0f}", f"{found.answers:,}",
        )  # fmt: skip
    console.print(table)
    console.print("index rows and disk bytes: of all five nodes, per triple; frames: between nodes, per publication")
    console.print(f"answers {'equal in all runs' if len(counts) == 1 else 'DIFFER'}; no bar")
    return len(counts) == 1


async def still(counted: Counter[int]) -> None:
    """Wait until no more answers come."""
    last = -1
    while last != (last := counted.total()):
        await asyncio.sleep(QUIET_SECONDS)


async def once(indexes: str, texts: list[list[str]], queries: list[str], *, with_tls: bool = False) -> Run:
    """Publish everything through a fresh overlay."""
    async with Overlay("--indexes", indexes, with_data=True, with_tls=with_tls) as overlay:
        subscriptions, _ = await subscribe(overlay, queries)
        counted: Counter[int] = Counter()
        tasks = [asyncio.create_task(count(each, counted, at)) for at, each in enumerate(subscriptions)]
        pieces = batches(texts)
        frames = await overlay.frames()
        wall, cpu = await rate(overlay, [pieces[at::NODES] for at in range(NODES)])
        await still(counted)
        frames = await overlay.frames() - frames
        rows = sum(state["peer"]["index_entries"] for state in [await client.status() for client in overlay.clients])
        for task in tasks:
            task.cancel()
        return Run(wall, cpu, counted.total(), rows, overlay.bytes_kept(), frames)


async def _real(console: Console) -> bool:
    if not real_data.available():
        console.print("real data: not run, the shared data does not lie beside the repository")
        return True
    triples = real_data.load()
    queries = real_data.draw_queries(triples)
    async with Overlay(with_data=True) as overlay:
        subscriptions, seconds = await subscribe(overlay, [query for query, _ in queries])
        counted: Counter[int] = Counter()
        tasks = [asyncio.create_task(count(each, counted, at)) for at, each in enumerate(subscriptions)]
        columns = [list(column) for column in zip(*triples, strict=True)]
        pieces = batches(columns)
        wall, cpu = await rate(overlay, [pieces[at::NODES] for at in range(NODES)])
        owed = sum(len(rows) for _, rows in queries)
        async with asyncio.timeout(60):
            while counted.total() < owed:
                await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
    right = all(counted[at] == len(rows) for at, (_, rows) in enumerate(queries))
    console.print(
        f"real data: {len(triples):,} triples, {len(queries):,} queries of many shapes "
        f"({len(queries) / seconds:,.0f} subscriptions/s): {wall:,.0f} triples/s, {cpu:,.0f} per CPU-second; "
        f"{counted.total():,} answers, {owed:,} owed"
    )
    return right


async def _all(console: Console, quick: bool) -> bool:
    good = await _throughput(console, quick)
    return await _real(console) and good


def run(console: Console, quick: bool) -> bool:
    """Print rates and latencies; return whether the bars are met."""
    return uvloop.run(_all(console, quick))
