"""Beside other systems: one triple a publication, through an overlay, NATS JetStream and Redis streams, in one run.

The same messages, the same machine, the same process of clients.  Systems take turns, round by round, so that a machine
that slows down slows down all of them.  Publishers are closed loops, with a connection each or with one for all.  The
delay from publish() to the subscriber counts from the time at which a call is due (open loop); every message has one
subscriber, which must receive each once.  A system that this machine lacks is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import NamedTuple

import uvloop
from outside_systems import SYSTEMS, Publish, System, absent
from rich.console import Console
from rich.table import Table

PUBLISHERS = (1, 16, 64)
SHARED = "64, shared"
"""64 calls at a time on one connection."""
RATES = (100, 300, 1000, 3000)
"""Offered publications per second."""
LATE_SECONDS = 30.0
"""A subscriber that lacks messages so long after the last acknowledgement has lost them."""


class Rate(NamedTuple):
    """One round of closed loops."""

    per_second: float
    cpu_ms: float
    """CPU milliseconds of the servers per publication."""
    waits_ms: list[float]


class Delay(NamedTuple):
    """One round of an offered rate."""

    delays_ms: list[float]
    cpu_ms: float
    missing: int


class _Numbers:
    """The numbers of the triples: each is published once."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        first, self._next = self._next, self._next + count
        return range(first, self._next)


async def _closed(system: System, publishers: list[Publish], numbers: range) -> Rate:
    """Publish all numbers, each publisher one after the other."""
    waits: list[float] = []

    async def publish_all(publish: Publish, part: range) -> None:
        for number in part:
            start = time.perf_counter()
            await publish(number)
            waits.append(1000 * (time.perf_counter() - start))

    cpu, start = system.cpu_seconds(), time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for at, publish in enumerate(publishers):
            tasks.create_task(publish_all(publish, numbers[at :: len(publishers)]))
    took = time.perf_counter() - start
    return Rate(len(numbers) / took, 1000 * (system.cpu_seconds() - cpu) / len(numbers), waits)


async def _open(
    system: System, publishers: list[Publish], heard: AsyncIterator[int], rate: int, numbers: range
) -> Delay:
    """Publish the numbers at a rate; return the delay of each at the subscriber."""
    delays: dict[int, float] = {}
    cpu, start = system.cpu_seconds(), time.perf_counter() + 0.1
    due = {number: start + place / rate for place, number in enumerate(numbers)}

    async def publish(place: int, number: int) -> None:
        await publishers[place % len(publishers)](number)

    async def publish_all() -> None:
        async with asyncio.TaskGroup() as calls:
            for place, number in enumerate(numbers):
                await asyncio.sleep(max(0.0, due[number] - time.perf_counter()))
                calls.create_task(publish(place, number))

    async def read() -> None:
        while len(delays) < len(numbers):
            number = await anext(heard)
            if number < numbers.start:
                continue  # of the start of the subscription
            assert number not in delays, f"{number} came twice"
            delays[number] = 1000 * (time.perf_counter() - due[number])

    reading = asyncio.create_task(read())
    await publish_all()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(reading, LATE_SECONDS)
    used = 1000 * (system.cpu_seconds() - cpu) / len(numbers)
    return Delay(list(delays.values()), used, len(numbers) - len(delays))


def run(console: Console, quick: bool) -> bool:
    """Print the tables; return whether every message came once, in each system."""
    return uvloop.run(_run(console, quick))


async def _run(console: Console, quick: bool) -> bool:
    present = {}
    for name, made in SYSTEMS.items():
        lacking = absent(made)
        console.print(f"{name}: {lacking or made.configuration}", soft_wrap=True)
        if lacking is None:
            present[name] = made
    each = 300 if quick else 1000
    rounds = 1 if quick else 3
    rates: dict[tuple[str, str], list[Rate]] = defaultdict(list)
    delays: dict[tuple[str, int], list[Delay]] = defaultdict(list)
    for _ in range(rounds):
        for name, made in present.items():
            async with made() as system:
                await _measure(name, system, each, rates, delays)
    loads = " ".join(f"{load:.1f}" for load in os.getloadavg())
    console.print(_rates_table(rates, rounds))
    console.print(f"{SHARED}: 64 calls at a time on one connection")
    console.print(_delays_table(delays))
    console.print(f"load of the machine at the end: {loads}; the clients of all systems run in this process")
    missing = sum(found.missing for of_rate in delays.values() for found in of_rate)
    console.print(f"messages that a subscriber lacked after {LATE_SECONDS:.0f} s: {missing}; no bar")
    return missing == 0


async def _measure(
    name: str, system: System, each: int,
    rates: dict[tuple[str, str], list[Rate]], delays: dict[tuple[str, int], list[Delay]],
) -> None:  # fmt: skip
    numbers = _Numbers()
    publishers = [await system.publisher() for _ in range(max(PUBLISHERS))]
    await _closed(system, publishers, numbers.take(len(publishers)))
    for count in PUBLISHERS:
        found = await _closed(system, publishers[:count], numbers.take(each * (1 if count == 1 else 4)))
        rates[name, str(count)].append(found)
    rates[name, SHARED].append(await _closed(system, publishers[:1] * 64, numbers.take(4 * each)))
    heard = system.numbers()
    first = asyncio.ensure_future(anext(heard))
    while not first.done():  # the subscription begins with some message; the subscriber may miss earlier ones
        await publishers[0](numbers.take(1)[0])
        await asyncio.wait([first], timeout=0.2)
    for rate in RATES:
        delays[name, rate].append(await _open(system, publishers, heard, rate, numbers.take(max(each, rate))))


def _rates_table(rates: dict[tuple[str, str], list[Rate]], rounds: int) -> Table:
    table = Table(title=f"one triple a publication, acknowledged; closed loops, median of {rounds} rounds")
    for column in ("publishers", "system", "publications/s", "of p2prdf", "p50 ms", "p99 ms", "CPU ms of servers each"):
        table.add_column(column, justify="left" if column == "system" else "right")
    own = {}
    for kind in (*map(str, PUBLISHERS), SHARED):
        for name in SYSTEMS:
            found = rates.get((name, kind))
            if not found:
                continue
            rate = statistics.median(each.per_second for each in found)
            own.setdefault(kind, rate)
            waits = sorted(wait for each in found for wait in each.waits_ms)
            table.add_row(
                kind, name, f"{rate:,.0f}", f"{rate / own[kind]:.1f}", f"{waits[len(waits) // 2]:.1f}",
                f"{waits[len(waits) * 99 // 100]:.1f}", f"{statistics.median(each.cpu_ms for each in found):.2f}",
            )  # fmt: skip
    return table


def _delays_table(delays: dict[tuple[str, int], list[Delay]]) -> Table:
    table = Table(title="from publish() to the subscriber, in ms; open loop, 64 connections")
    for column in ("publications/s", "system", "messages", "p50", "p99", "max", "CPU ms of servers each"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for rate in RATES:
        for name in SYSTEMS:
            found = delays.get((name, rate))
            if not found:
                continue
            all_delays = sorted(delay for each in found for delay in each.delays_ms)
            table.add_row(
                f"{rate:,}", name, f"{len(all_delays):,}", f"{all_delays[len(all_delays) // 2]:.1f}",
                f"{all_delays[len(all_delays) * 99 // 100]:.1f}", f"{all_delays[-1]:.1f}",
                f"{statistics.median(each.cpu_ms for each in found):.2f}",
            )  # fmt: skip
    return table
