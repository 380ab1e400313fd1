"""Small publications: many calls of one client beside as many clients, and the lag of a live source.

Five daemons with default settings (three copies, fsync, every index), the clients in this process.  A rate is calls
per second of wall time; a latency is the time from the caller's ``publish`` to its return, which is the
acknowledgement.  The lag of a live source is the time from the generator's yield to the subscriber's next solution.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator

from daemons import Overlay
from rich.console import Console
from rich.table import Table

import p2prdf
from p2prdf.client import Client

CALLS = (1, 16, 64)
RATIO_BAR, LAG_BAR_MS = 0.8, 50.0
LIVE_PER_SECOND = 4
_NUMBERS = itertools.count()


def run(console: Console, quick: bool) -> bool:
    """Print the tables; return whether the bars are met."""
    return asyncio.run(_run(console, 2.0 if quick else 10.0, 20 if quick else 200))


async def _run(console: Console, seconds: float, live: int) -> bool:
    async with Overlay(with_data=True) as overlay:
        address = overlay.addresses[0]
        table = Table("concurrent calls", "clients", "calls/s", "p50 ms", "p99 ms", title="publish() of one triple")
        rates: dict[tuple[int, int], float] = {}
        for calls in CALLS:
            for count in sorted({1, calls}):
                clients = [await p2prdf.connect(address) for _ in range(count)]
                await _publish(clients, calls, seconds / 10)
                rate, taken = await _publish(clients, calls, seconds)
                for client in clients:
                    await client.close()
                rates[calls, count] = rate
                p50, p99 = _percentiles(taken)
                table.add_row(str(calls), str(count), f"{rate:,.0f}", f"{p50:.1f}", f"{p99:.1f}")
        console.print(table)
        most = CALLS[-1]
        ratio = rates[most, 1] / rates[most, most]
        console.print(f"{most} calls of one client reach {ratio:.0%} of {most} clients (bar: {RATIO_BAR:.0%})")
        lags = await _live(overlay, live)
        p50, p99 = _percentiles(lags)
        console.print(
            f"live source, {LIVE_PER_SECOND} triples/s, {len(lags)} triples: lag p50 {p50:.1f} ms, p99 {p99:.1f} ms,"
            f" max {max(lags):.1f} ms (bar: {LAG_BAR_MS:g} ms)"
        )
    return ratio >= RATIO_BAR and max(lags) < LAG_BAR_MS


async def _publish(clients: list[Client], calls: int, seconds: float) -> tuple[float, list[float]]:
    """Publish triple after triple in ``calls`` tasks; return calls per second and the milliseconds of each call."""
    taken: list[float] = []
    start = time.perf_counter()

    async def caller(client: Client) -> None:
        while time.perf_counter() - start < seconds:
            began = time.perf_counter()
            await client.publish([(f"<urn:bench:{next(_NUMBERS)}>", "<urn:bench:p>", 1)])
            taken.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*(caller(client) for client in itertools.islice(itertools.cycle(clients), calls)))
    return len(taken) / (time.perf_counter() - start), taken


async def _live(overlay: Overlay, count: int) -> list[float]:
    """Publish a live generator at one node, subscribe at another; return the milliseconds of each triple."""
    yielded: dict[int, float] = {}
    lags: list[float] = []
    subscription = await overlay.clients[1].subscribe("SELECT ?n WHERE { ?s <urn:bench:live> ?n }")

    async def source() -> AsyncIterator[tuple[str, str, int]]:
        for number in range(count):
            await asyncio.sleep(1 / LIVE_PER_SECOND)
            yielded[number] = time.perf_counter()
            yield f"<urn:bench:live{number}>", "<urn:bench:live>", number

    async def read() -> None:
        while len(lags) < count:
            number = (await anext(subscription)).value("n")
            assert isinstance(number, int)
            lags.append((time.perf_counter() - yielded[number]) * 1000)

    await asyncio.gather(overlay.clients[0].publish(source()), read())
    return lags


def _percentiles(values: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98]
