"""Ended queries: the state and the memory of the daemons before and after many one-time queries and subscriptions.

Each query differs from the others in a literal of a filter, so each has a plan of its own.  Memory is that of the
daemons; their allocators do not return all freed memory at once, so the counts of plans, groups and rows come beside
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import daemons
import uvloop
from rich.console import Console
from rich.table import Table

from p2prdf.client import Client

TRIPLES = 200
AT_ONCE = 16
WARM = 500
"""Queries of either kind before the first measurement: caches and the interpreter's pools are full then."""
GROWN_MAX = 1.05
"""Bar: memory after all queries by memory before them."""
COUNTED = ("plans", "groups", "queries", "rows", "subscriptions_coordinated")
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"


async def _ask(client: Client, number: int) -> None:
    """Ask a query once."""
    await client.query(f"SELECT ?s ?t WHERE {{ ?s <urn:p> ?v . ?s <urn:q> ?t FILTER(?v > {number}) }}")


async def _subscribe(client: Client, number: int) -> None:
    """Subscribe to a query and end the subscription."""
    subscription = await client.subscribe(
        f"SELECT ?s ?t WHERE {{ ?s <urn:p> ?v . ?s <urn:q> ?t FILTER(?v < {number}) }}"
    )
    await subscription.unsubscribe()


Call = Callable[[Client, int], Awaitable[None]]


async def _many(overlay: daemons.Overlay, call: Call, first: int, count: int) -> None:
    """Make calls with different numbers, some at once."""
    numbers = iter(range(first, first + count))

    async def some(client: Client) -> None:
        for number in numbers:
            await call(client, number)

    await asyncio.gather(*(some(overlay.clients[at % len(overlay.clients)]) for at in range(AT_ONCE)))


def _resident(overlay: daemons.Overlay) -> int:
    """Return the resident memory of all daemons in bytes."""
    pages = [int(Path(f"/proc/{each.pid}/statm").read_text("ascii").split()[1]) for each in overlay.processes]
    return 4096 * sum(pages)


async def _state(overlay: daemons.Overlay) -> dict[str, int]:
    """Return sizes of all daemons together."""
    told = [(await client.status())["peer"] for client in overlay.clients]
    return {name: sum(int(each[name]) for each in told) for name in COUNTED}  # type: ignore[index]


async def _measure(console: Console, quick: bool) -> bool:
    once, standing = (500, 200) if quick else (5000, 2000)
    table = Table("", "resident MB", *COUNTED)

    async with daemons.Overlay(with_data=True) as overlay:
        values = [(f"<urn:s{at}>", "<urn:p>", f'"{at}"^^{INTEGER}') for at in range(TRIPLES)]
        await overlay.clients[0].publish([*values, *((s, "<urn:q>", s) for s, _, _ in values)])
        resident = []

        async def row(name: str) -> None:
            await overlay.quiet()
            resident.append(_resident(overlay))
            state = await _state(overlay)
            table.add_row(name, f"{resident[-1] / 1e6:.1f}", *(str(state[each]) for each in COUNTED))

        await row("start")
        await _many(overlay, _ask, 1_000_000, WARM)
        await _many(overlay, _subscribe, 1_000_000, WARM)
        await row(f"after {WARM} of each to warm up")
        await _many(overlay, _ask, 2_000_000, once)
        await row(f"after {once:,} one-time queries")
        await _many(overlay, _subscribe, 2_000_000, standing)
        await row(f"after {standing:,} subscriptions that ended")
    console.print(table)
    grown = resident[-1] / resident[1]
    console.print(f"memory at the end by memory before: {grown:.3f} (bar {GROWN_MAX})")
    return grown <= GROWN_MAX


def run(console: Console, quick: bool) -> bool:
    """Run the section; return whether the bar was met."""
    return uvloop.run(_measure(console, quick))
