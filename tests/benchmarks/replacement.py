"""Replaced values: cost and state after a tenth of the replacements and at the end, beside one another.

Three daemons with the defaults and three copies.  Sixteen publishers replace two values of each key, ten keys at a
time: one publication of deletions, one of the new values.  Standing queries of six kinds read the keys, and a client
asks one query every second.  The state that follows the present content is the same after a tenth and at the end; the
state that follows the history grows tenfold.

The bars: each subscriber holds the last values, without a gap, and every one-time query is answered.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

import uvloop
from daemons import Overlay
from rich.console import Console
from rich.table import Table

import p2prdf
from p2prdf.client import Client, Subscription

NODES = 3
KEYS = 960
PUBLISHERS = 16
AT_ONCE = 10
"""Keys per publication."""
ROOMS = 20
ASK_SECONDS = 1.0
SETTLE_SECONDS = 60.0
KINDS = (
    "SELECT ?k ?t ?h { ?k <urn:bench:in> <urn:bench:room%d> ; <urn:bench:temp> ?t ; <urn:bench:hum> ?h }",
    "SELECT ?t ?h { <urn:bench:k%d> <urn:bench:temp> ?t ; <urn:bench:hum> ?h }",
    "SELECT ?t { ?room <urn:bench:floor> 1 . ?k <urn:bench:in> ?room . ?k <urn:bench:temp> ?t }",
    "SELECT (COUNT(?k) AS ?n) { ?k <urn:bench:in> <urn:bench:room%d> ; <urn:bench:temp> ?t }",
    "SELECT ?k ?t { ?k <urn:bench:in> <urn:bench:room%d> OPTIONAL { ?k <urn:bench:temp> ?t } }",
    "SELECT ?k { ?k <urn:bench:in> <urn:bench:room%d> MINUS { ?k <urn:bench:temp> ?t } }",
)
"""Star of three, star of two, path of three, COUNT, OPTIONAL, MINUS."""
ASKED = "SELECT ?t ?h { <urn:bench:k7> <urn:bench:temp> ?t ; <urn:bench:hum> ?h }"

Triple = tuple[str, str, object]


class State(NamedTuple):
    """The nodes at one moment."""

    replacements: int
    per_second: float
    cpu_ms: float
    """Milliseconds of CPU of all daemons per replacement since the last moment."""
    pairs: float
    """Pairs joined by all nodes per replacement since the last moment."""
    entries: int
    """Index entries and partial results of all nodes."""
    resident: int
    disk: int
    restart_seconds: float


class Reader:
    """The bag of solutions that a subscriber holds."""

    def __init__(self, subscription: Subscription):
        self.held: dict[int, tuple[object, ...]] = {}
        self.gaps = 0
        self._subscription = subscription
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for solution in self._subscription:
            self.gaps += solution.gap or 0
            if solution.removed:
                self.held.pop(solution.identity, None)
            else:
                self.held[solution.identity] = tuple(solution.terms)


def values(keys: range, number: int) -> list[Triple]:
    """Return the values of some keys after ``number`` replacements."""
    return [(f"<urn:bench:k{key}>", f"<urn:bench:{name}>", number) for key in keys for name in ("temp", "hum")]


def base() -> list[Triple]:
    """Return the triples that stay."""
    rooms: list[Triple] = [
        (f"<urn:bench:k{key}>", "<urn:bench:in>", f"<urn:bench:room{key % ROOMS}>") for key in range(KEYS)
    ]
    return rooms + [(f"<urn:bench:room{room}>", "<urn:bench:floor>", room // 5) for room in range(ROOMS)]


def queries(count: int) -> Iterator[str]:
    """Yield standing queries of all kinds in turn."""
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        yield kind % ((number % ROOMS,) * kind.count("%d"))


async def _replace(client: Client, keys: range, first: int, rounds: int) -> None:
    """Replace the values of some keys, in turn."""
    for number in range(first, first + rounds):
        for at in range(keys.start, keys.stop, AT_ONCE):
            part = range(at, min(at + AT_ONCE, keys.stop))
            await client.retract(values(part, number))
            await client.publish(values(part, number + 1))


async def _ask(client: Client, waits: list[float]) -> None:
    while True:
        start = time.perf_counter()
        await client.query(ASKED)
        waits.append(1000 * (time.perf_counter() - start))
        await asyncio.sleep(ASK_SECONDS)


async def _joined(overlay: Overlay) -> tuple[int, int]:
    """Return the numbers of pairs joined and of entries held by all nodes."""
    peers = [(await client.status())["peer"] for client in overlay.clients]
    return sum(each["pairs_joined"] for each in peers), sum(each["index_entries"] + each["rows"] for each in peers)


async def _load(overlay: Overlay, first: int, rounds: int, waits: list[float]) -> State:
    """Replace all values ``rounds`` times; return the costs and the state afterwards, and restart a node."""
    count = 2 * KEYS * rounds
    joined, _ = await _joined(overlay)
    cpu, start = overlay.daemons_cpu_seconds(), time.perf_counter()
    asking = asyncio.create_task(_ask(overlay.clients[0], waits))
    share = KEYS // PUBLISHERS
    await asyncio.gather(
        *(
            _replace(overlay.clients[at % NODES], range(at * share, (at + 1) * share), first, rounds)
            for at in range(PUBLISHERS)
        )
    )
    seconds = time.perf_counter() - start
    asking.cancel()
    await overlay.quiet()
    used = overlay.daemons_cpu_seconds() - cpu
    joined_now, entries = await _joined(overlay)
    resident, disk = overlay.resident_bytes(), overlay.bytes_kept()
    return State(
        count, count / seconds, 1000 * used / count, (joined_now - joined) / count, entries, resident, disk,
        await overlay.restart(2),
    )  # fmt: skip


async def _last_values_held(readers: list[tuple[str, Reader]], client: Client) -> float:
    """Return the seconds until all subscribers hold the solutions of their queries."""
    start = time.perf_counter()
    wanted = [sorted(map(repr, (tuple(row.terms) for row in await client.query(text)))) for text, _ in readers]
    async with asyncio.timeout(SETTLE_SECONDS):
        while any(
            sorted(map(repr, reader.held.values())) != rows for (_, reader), rows in zip(readers, wanted, strict=True)
        ):
            await asyncio.sleep(0.05)
    return time.perf_counter() - start


async def _run(console: Console, quick: bool) -> bool:
    rounds, count = (10, 30) if quick else (100, 100)
    waits: list[float] = []
    async with Overlay(nodes=NODES, with_data=True) as overlay:
        await overlay.clients[0].publish(base())
        await overlay.clients[0].publish(values(range(KEYS), 0))
        subscriber = await p2prdf.connect(overlay.addresses[1])
        readers = [
            (text, Reader(await subscriber.subscribe(text, since="beginning", lease_seconds=600)))
            for text in queries(count)
        ]
        states = [await _load(overlay, 0, rounds // 10, waits)]
        states.append(await _load(overlay, rounds // 10, rounds - rounds // 10, waits))
        seconds = await _last_values_held(readers, overlay.clients[0])
        gaps = sum(reader.gaps for _, reader in readers)
        for _, reader in readers:
            reader.task.cancel()
        await subscriber.close()
    table = Table(title=f"{KEYS:,} keys, two values each, {PUBLISHERS} publishers, {count} standing queries")
    for column in (
        "replacements", "per second", "CPU ms each", "pairs each", "entries", "memory MB", "disk MB", "restart s",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for state in states:
        table.add_row(
            f"{state.replacements:,}", f"{state.per_second:,.0f}", f"{state.cpu_ms:.2f}", f"{state.pairs:.1f}",
            f"{state.entries:,}", f"{state.resident / 1e6:,.0f}", f"{state.disk / 1e6:,.1f}",
            f"{state.restart_seconds:.1f}",
        )  # fmt: skip
    console.print(table)
    console.print("entries, memory and disk: of all nodes; restart: a killed node until it has compared its copies")
    console.print(
        f"{len(waits)} one-time queries: p50 {statistics.median(waits):.0f} ms, largest {max(waits):.0f} ms; "
        f"all subscribers hold the last values {seconds:.1f} s after the last acknowledgement and restart; {gaps} gaps"
    )
    return gaps == 0


def run(console: Console, quick: bool) -> bool:
    """Print the table; return whether every subscriber holds the last values without a gap."""
    return uvloop.run(_run(console, quick))
