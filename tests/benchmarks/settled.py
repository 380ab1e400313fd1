"""Settled delivery beside immediate delivery, and one-time queries, at the same five daemons.

Each publication is a transaction of two triples at one node, and owes one solution of an OPTIONAL at another.  Calls
are due at a fixed rate.  The delay counts from the acknowledgement at the publisher to the solution at the subscriber.
It is negative if the subscriber's client reads the solution before the publisher's client reads the acknowledgement.
The CPU of all nodes comes beside it, in the same run; it includes the publications themselves.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import uvloop
from daemons import Overlay
from rich.console import Console
from rich.table import Table

RATES = (5, 100, 300)
"""Transactions per second; at the first one the nodes are idle between them."""
CALLS_MIN = 40
ASKED = 30
"""One-time queries of each kind."""
QUERIES = {
    "one pattern": "SELECT * {{ <urn:bench:s{at}> ?p ?x }}",
    "three patterns": "SELECT * {{ <urn:bench:s{at}> ?p ?x . ?x ?q ?y . ?y ?r ?z }}",
}


def run(console: Console, quick: bool) -> bool:
    """Print both tables; return whether every transaction was told, as a whole."""
    return uvloop.run(_run(console, 3 if quick else 15))


async def _run(console: Console, seconds: int) -> bool:
    table = Table(title="from the acknowledgement of a transaction to its solution, in ms")
    for column in ("transactions/s", "delivery", "told", "p50", "p99", "CPU ms of all nodes each"):
        table.add_column(column, justify="right")
    told_all = True
    async with Overlay(with_data=True) as overlay:
        for rate in RATES:
            for settled in (False, True):
                count = max(CALLS_MIN, rate * seconds)
                cpu = overlay.cpu_seconds()
                delays = await _load(overlay, rate, count, settled=settled)
                cpu = 1000 * (overlay.cpu_seconds() - cpu) / count
                told_all &= len(delays) == count
                cuts = statistics.quantiles(delays, n=100, method="inclusive")
                table.add_row(
                    str(rate), "settled" if settled else "immediate", f"{len(delays)}", f"{cuts[49]:.0f}",
                    f"{cuts[98]:.0f}", f"{cpu:.1f}",
                )  # fmt: skip
                await overlay.quiet()
        console.print(table)
        console.print(await _one_time(overlay))
    return told_all


async def _load(overlay: Overlay, rate: int, count: int, *, settled: bool) -> list[float]:
    """Publish transactions at a rate; return the milliseconds from each acknowledgement to its whole solution."""
    name = f"urn:bench:{'settled' if settled else 'immediate'}{rate}"
    acknowledged: dict[str, float] = {}
    told: dict[str, float] = {}
    subscription = await overlay.clients[1].subscribe(
        f"SELECT * {{ ?x <{name}:a> ?y OPTIONAL {{ ?x <{name}:b> ?z }} }}", settled=settled
    )

    async def publish(number: int) -> None:
        subject = f"<{name}:{number}>"
        async with overlay.clients[0].transaction() as transaction:
            transaction.publish([(subject, f"<{name}:a>", "<urn:1>"), (subject, f"<{name}:b>", "<urn:2>")])
        acknowledged[subject] = time.perf_counter()

    async def publish_all() -> None:
        start = time.perf_counter()
        async with asyncio.TaskGroup() as calls:
            for number in range(count):
                await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
                calls.create_task(publish(number))

    async def read() -> None:
        async for solution in subscription:
            subject, _, optional = solution.terms
            if optional is not None and not solution.removed:
                assert subject is not None
                told[subject] = time.perf_counter()
            if len(told) == count:
                return

    async with asyncio.timeout(120 + count / rate):
        await asyncio.gather(publish_all(), read())
    await overlay.clients[1].unsubscribe(subscription.id)
    return [1000 * (at - acknowledged[subject]) for subject, at in told.items()]


async def _one_time(overlay: Overlay) -> Table:
    """Ask one-time queries one after the other at a node, and return their times."""
    await overlay.clients[0].publish(
        [(f"<urn:bench:s{at}>", f"<urn:bench:{'pq'[at % 2]}>", f"<urn:bench:s{7 * at % 500}>") for at in range(500)]
    )
    await overlay.quiet()
    table = Table(title="one-time queries from a connected client, in ms")
    for column in ("query", "first at the node", "p50", "p90"):
        table.add_column(column, justify="right")
    for number, (name, text) in enumerate(QUERIES.items()):
        times = []
        for at in range(ASKED):
            start = time.perf_counter()
            await overlay.clients[2 + number].query(text.format(at=at))
            times.append(1000 * (time.perf_counter() - start))
        cuts = statistics.quantiles(times, n=10, method="inclusive")
        table.add_row(name, f"{times[0]:.0f}", f"{cuts[4]:.0f}", f"{cuts[8]:.0f}")
    return table
