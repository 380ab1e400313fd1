"""Semantic channels through five daemons: time from a call of publish to the notification at another node.

Descriptions of a university (LUBM) are published one by one, as in ``p2prdf experiment semantic-channels``: all
except the last ones are there before a worker begins, with two of the benchmark's queries as channels.  The
next graph is published when the one before it is acknowledged, at the given rate at most.  The channel worker,
a process of its own, runs in three ways: re-executed queries at every graph (no skipping) without heuristics,
the same with them, and the default settings.  Wall clock; publisher and subscriber are this process, so one
clock measures both times.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import daemons
import uvloop
from rich.console import Console
from rich.table import Table

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.reasoning import instantiate, owl_rl
from p2prdf_lab.workloads.universities import Graph, Universities, find_universities, read_universities

BASE = "<urn:lubm>"
CHANNELS = ("Q6", "Q8")
SETTINGS: dict[str, dict[str, Any]] = {
    "no heuristics, no skipping": {"heuristics": [], "skip_max": 1},
    "heuristics, no skipping": {"skip_max": 1},
    "as they are: heuristics, skipping": {},
    "incremental": {"evaluation": "incremental", "heuristics": []},
}
PER_SECOND = 20
AT_ONCE = 32


@contextlib.asynccontextmanager
async def _host(address: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "p2prdf_cli", "serve", "channels", "--peer", address, "--lease", "30", "--json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert json.loads(await process.stdout.readline())["event"] == "ready"
        yield
    finally:
        process.terminate()
        await process.wait()


class _Heard:
    """The time of the first notification, by channel, kind and binding."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, str, tuple[str, ...]], float] = {}

    async def listen(self, name: str, hearing: Any) -> None:
        async for each in hearing:
            self.at.setdefault((name, each.kind, tuple(each.binding.values())), time.perf_counter())


async def _measured(
    overlay: daemons.Overlay, data: Universities, graphs: Sequence[Graph], settings: dict[str, Any], tag: str
) -> tuple[dict[str, list[list[float]]], dict[str, dict[str, Any]], float]:
    """Publish graphs; return by channel the times to the first, early and confirmed notifications, in ms."""
    publisher, subscriber = overlay.clients[0], overlay.clients[4]
    names = {f"{query}-{tag}": query for query in CHANNELS}
    for name, query in names.items():
        text = data.queries[query]
        assert await publisher.channels.create(name, BASE, text, settings=settings, begin_seconds=120)
    heard, published = _Heard(), dict[str, float]()
    hearings = {name: await subscriber.channels.subscribe(name) for name in names}
    tasks = [asyncio.create_task(heard.listen(name, each)) for name, each in hearings.items()]
    await asyncio.sleep(3)
    acknowledged = []
    for graph in graphs:
        begun = time.perf_counter()
        for subject in {s for s, _, _ in graph}:
            published.setdefault(subject, begun)
        await publisher.channels.publish(BASE, graph)
        acknowledged.append(1000 * (time.perf_counter() - begun))
        await asyncio.sleep(max(0.0, 1 / PER_SECOND - (time.perf_counter() - begun)))
    await asyncio.sleep(3)
    stats = {each["name"]: each for each in await publisher.channels.stats()}
    for task in tasks:
        task.cancel()
    found: dict[str, list[list[float]]] = {}
    for name, query in names.items():
        early, sure = list[float](), list[float]()
        for (channel, kind, binding), at in heard.at.items():
            begun = published.get(binding[0])
            if channel == name and kind != "initial" and begun is not None:
                (early if kind == "tentative" else sure).append(1000 * (at - begun))
        found[query] = [early, sure]
    for name, hearing in hearings.items():
        await hearing.subscription.unsubscribe()
        await publisher.channels.drop(name)
    return found, {query: stats[name] for name, query in names.items()}, statistics.median(acknowledged)


async def _load(overlay: daemons.Overlay, graphs: Sequence[Graph]) -> None:
    waiting = iter(graphs)

    async def some(client: Any) -> None:
        for graph in waiting:
            await client.channels.publish(BASE, graph)

    await asyncio.gather(*(some(overlay.clients[number % daemons.NODES]) for number in range(AT_ONCE)))


async def _run(console: Console, quick: bool) -> None:
    data = read_universities(find_universities(1), 1)
    graphs = list(data.graphs)
    random.Random(1).shuffle(graphs)
    last = 100 if quick else 250
    if quick:
        graphs = graphs[:4000]
    loaded, measured = graphs[: -last * len(SETTINGS)], graphs[-last * len(SETTINGS) :]
    title = f"latency in ms, publish to the subscriber's hands; {len(loaded):,} graphs, then {last} for each of these"
    table = Table(title=title)
    for column in ("settings", "channel", "told", "early, %", "tentative p50", "p90", "confirmed p50", "p90", "query"):
        table.add_column(column, justify="left" if column in ("settings", "channel") else "right")
    async with daemons.Overlay() as overlay:
        rules = instantiate(owl_rl(equality=False), data.ontology).rules
        await overlay.clients[1].add_rules(BASE, rules)
        begun = time.perf_counter()
        await _load(overlay, loaded)
        console.print(f"{len(loaded):,} graphs published in {time.perf_counter() - begun:.1f} s, {len(rules)} rules")
        async with _host(overlay.clients[2].peer_address):
            for number, (what, settings) in enumerate(SETTINGS.items()):
                part = measured[number * last : (number + 1) * last]
                found, stats, acknowledged = await _measured(overlay, data, part, settings, str(number))
                console.print(f"{what}: publish is acknowledged after {acknowledged:.1f} ms (median)")
                for query, (early, sure) in found.items():
                    told = stats[query]
                    share = 100 * told["foreseen"] / told["told"] if told["told"] else 0.0
                    run = 1000 * told["running"] / max(1, told["runs"])
                    cells = [*_quantiles(early), *_quantiles(sure), f"{run:.2f}"]
                    table.add_row(what, query, f"{told['told']:,}", f"{share:.1f}", *cells)
    console.print(table)
    console.print(f"load average of this machine: {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


def _quantiles(values: list[float]) -> list[str]:
    ordered = sorted(values)
    return [f"{ordered[int(len(ordered) * part)]:.1f}" if ordered else "" for part in (0.5, 0.9)]


def run(console: Console, quick: bool) -> bool:
    """Print the tables; there is no bar."""
    try:
        find_universities(1)
    except (DataRefused, LocalProtocolError) as error:
        console.print(f"left out: {error}")
        return True
    uvloop.run(_run(console, quick))
    return True
