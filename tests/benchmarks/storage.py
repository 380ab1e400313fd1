"""The cost of durability: the storage by itself, a node with it and without, and the time of a restart.

The storage: one record per commit, each on the disk before the next; other work of the disk is part of it. The
node: one daemon, one publisher, batches of 1,000, CPU seconds of the daemon alone.  With ``fsync`` the records
that gather during one commit are the next, so a node's rate is not the disk's commits per second.  The restart
is that of the last node: time from its own log, reading, checking, decoding and taking in, per 100 MB of state.
The last table has a node with many live triples, killed before and after each of them was replaced.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

import p2prdf
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf_lab.workloads.paths import path_triples
from p2prdf_node.storage import Storage

BATCH = 1000
SIZES = ((1_000, 2000), (100_000, 400), (4_000_000, 30))
"""Bytes of a record, and the number of records."""


def _engine(console: Console, folder: Path, quick: bool) -> None:
    table = Table(title="storage: one record a commit, on the disk before the next")
    for column in ("record", "commits/s", "MB/s", "p50 ms", "p99 ms", "cpu us/commit", "read, s per 100 MB"):
        table.add_column(column, justify="right")
    for size, count in SIZES:
        count = count // 4 if quick else count
        storage = Storage(folder / str(size), b"n" * 20, b"c" * 8)
        assert list(storage.read()) == []
        record = random.Random(size).randbytes(size)
        took, cpu = [], time.process_time()
        for _ in range(count):
            start = time.perf_counter()
            storage.commit([record])
            took.append(time.perf_counter() - start)
        cpu, total = time.process_time() - cpu, sum(took)
        storage.close()
        start = time.perf_counter()
        read = sum(map(len, Storage(folder / str(size), b"n" * 20, b"c" * 8).read()))
        reading = (time.perf_counter() - start) / read * 1e8
        took.sort()
        p50, p99 = (1000 * took[int(count * part)] for part in (0.5, 0.99))
        table.add_row(
            f"{size:,}", f"{count / total:,.0f}", f"{count * size / total / 1e6:,.0f}", f"{p50:.2f}", f"{p99:.2f}",
            f"{cpu / count * 1e6:,.0f}", f"{reading:.2f}",
        )  # fmt: skip
    console.print(table)


class Node:
    """One daemon."""

    def __init__(self, data: Path, durability: str):
        command = [sys.executable, "-m", "p2prdf_node", "--listen", "127.0.0.1:0"]
        command += ["--data", str(data), "--durability", durability, "--log-level", "warning"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().split()[1]

    def cpu_seconds(self) -> float:
        """Return CPU seconds used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Return the resident memory."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """End the process, and wait until it has written everything."""
        self._process.terminate()
        self._ended()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._ended()

    def _ended(self) -> None:
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


async def _publish(node: Node, batches: list[TripleBatch]) -> tuple[float, float, dict[str, Any]]:
    """Publish everything; return wall and CPU seconds, and the node's state."""
    async with await p2prdf.connect(node.address) as client:
        cpu, start = node.cpu_seconds(), time.perf_counter()
        await client.publish(batches, batch_triples=BATCH)
        took, used = time.perf_counter() - start, node.cpu_seconds() - cpu
        return took, used, await client.status()


async def _nodes(console: Console, folder: Path, triples: int) -> None:
    dictionary = TermDictionary()
    columns = [dictionary.texts(column.tolist()) for column in path_triples(dictionary, triples, seed=2)]
    batches = [
        TripleBatch(*(column[at : at + BATCH] for column in columns), statements_done=at + BATCH, line=0)
        for at in range(0, triples, BATCH)
    ]
    table = Table(title=f"one node, one publisher, {triples:,} triples under all roles, batches of 1,000")
    for column in ("durability", "triples/s", "cpu us/triple", "commits", "MB", "bytes/triple", "longest commit, ms"):
        table.add_column(column, justify="right")
    for durability in ("memory", "async", "fsync"):
        node = Node(folder / durability, durability)
        took, used, state = await _publish(node, batches)
        node.stop()
        written = state["storage"].get("written", {"commits": 0, "bytes": 0, "commit_seconds_max": 0.0})
        size = written["bytes"]
        table.add_row(
            durability, f"{triples / took:,.0f}", f"{used / triples * 1e6:.1f}", f"{written['commits']:,}",
            f"{size / 1e6:.0f}", f"{size / triples:.0f}", f"{1000 * written['commit_seconds_max']:.0f}",
        )  # fmt: skip
    console.print(table)
    start = time.perf_counter()
    node = Node(folder / "fsync", "fsync")
    ready = time.perf_counter() - start
    async with await p2prdf.connect(node.address) as client:
        restored = (await client.status())["storage"]["restored"]
    node.stop()
    console.print(
        f"restart: {restored['bytes'] / 1e6:.0f} MB in {restored['seconds']:.1f} s"
        f" ({restored['seconds'] / restored['bytes'] * 1e8:.1f} s per 100 MB); ready after {ready:.1f} s"
    )


def _value(number: int, version: int) -> TripleBatch:
    """Return the values of ``BATCH`` sensors from a number on, in one version; every other term stays."""
    places = range(number, number + BATCH)
    return TripleBatch(
        [f"<urn:bench:sensor{each}>" for each in places], ["<urn:bench:value>"] * BATCH,
        [f'"{each + version}"' for each in places], statements_done=BATCH, line=0,
    )  # fmt: skip


async def _starts(console: Console, folder: Path, triples: int) -> None:
    """Kill a node with many live triples, and again after as many replacements; print the time of each start."""
    table = Table(title=f"start after kill -9; one node, fsync, {triples:,} live triples, from process to ready")
    for column in ("replaced before", "state MB", "ready after s", "CPU s", "of it state s", "MB/s", "resident MB"):
        table.add_column(column, justify="right")
    node = Node(folder, "fsync")
    async with await p2prdf.connect(node.address) as client:
        await client.publish((_value(number, 0) for number in range(0, triples, BATCH)), batch_triples=BATCH)
    for replaced in (0, triples):
        if replaced:
            async with await p2prdf.connect(node.address) as client:
                for number in range(0, triples, BATCH):
                    await client.retract([_value(number, 0)])
                    await client.publish([_value(number, 1)], batch_triples=BATCH)
        node.kill()
        start = time.perf_counter()
        node = Node(folder, "fsync")
        ready, used = time.perf_counter() - start, node.cpu_seconds()
        async with await p2prdf.connect(node.address) as client:
            restored = (await client.status())["storage"]["restored"]
        megabytes = restored["bytes"] / 1e6
        table.add_row(
            f"{replaced:,}", f"{megabytes:.0f}", f"{ready:.1f}", f"{used:.1f}", f"{restored['seconds']:.1f}",
            f"{megabytes / restored['seconds']:.0f}", f"{node.resident_bytes() / 1e6:.0f}",
        )  # fmt: skip
    node.stop()
    console.print(table)


def run(console: Console, quick: bool) -> bool:
    """Print rates with and without a disk; there is no bar, for disks differ too much."""
    with tempfile.TemporaryDirectory(prefix="p2prdf-bench-") as name:
        _engine(console, Path(name), quick)
        uvloop.run(_nodes(console, Path(name), 100_000 if quick else 500_000))
        uvloop.run(_starts(console, Path(name) / "starts", 200_000 if quick else 1_000_000))
    return True
