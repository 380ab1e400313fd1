"""Latency of answers: from the caller's publish() at one node to the subscriber's solution at another.

Five daemons with the defaults of ``p2prdf node`` and a data directory each: three copies, two of them acknowledged,
fsync, every index.  Each publication is one triple; it completes the answer of a standing query of three patterns, so
every publication owes one answer.  Calls are due at a fixed rate (open loop), and latency counts from the due time: a
call that starts late because the machine is busy counts with its delay.  The same for the acknowledgement.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import uvloop
from daemons import Overlay
from rich.console import Console
from rich.table import Table

from p2prdf.client import Subscription

SENSORS, ROOMS = 1000, 50
RATES = (100, 500, 1000)
"""Publications per second."""
ANSWERS_MIN = 1000
"""Least number of answers behind a row of the table."""
QUERY = """SELECT ?n ?house WHERE {
  ?sensor <urn:bench:in> ?room . ?room <urn:bench:of> ?house . ?sensor <urn:bench:value> ?n }"""


def run(console: Console, quick: bool) -> bool:
    """Print the table; return whether every publication had its answer, once."""
    return uvloop.run(_run(console, 2 if quick else 15))


async def _run(console: Console, seconds: int) -> bool:
    table = Table(title="latency in ms from publish() at one node; open loop, one triple a publication")
    for column in ("publications/s", "answers", "answer p50", "p90", "p99", "max", "acknowledged p50", "p99"):
        table.add_column(column, justify="right")
    owed = answered = first = 0
    async with Overlay(with_data=True) as overlay:
        await overlay.clients[0].publish(
            [(f"<urn:bench:s{each}>", "<urn:bench:in>", f"<urn:bench:room{each % ROOMS}>") for each in range(SENSORS)]
            + [(f"<urn:bench:room{each}>", "<urn:bench:of>", "<urn:bench:house>") for each in range(ROOMS)]
        )
        subscription = await overlay.clients[1].subscribe(QUERY, since="beginning")
        for rate in RATES:
            count = max(ANSWERS_MIN, rate * seconds)
            answers, acknowledged = await _load(overlay, subscription, rate, range(first, first + count))
            first, owed, answered = first + count, owed + count, answered + len(answers)
            p50, p90, p99 = (_percentile(answers, part) for part in (50, 90, 99))
            table.add_row(
                f"{rate:,}", f"{len(answers):,}", f"{p50:.1f}", f"{p90:.1f}", f"{p99:.1f}", f"{max(answers):.1f}",
                f"{_percentile(acknowledged, 50):.1f}", f"{_percentile(acknowledged, 99):.1f}",
            )  # fmt: skip
            await overlay.quiet()
    console.print(table)
    console.print(f"{answered:,} answers of {owed:,} owed, each once")
    return answered == owed


async def _load(
    overlay: Overlay, subscription: Subscription, rate: int, numbers: range
) -> tuple[list[float], list[float]]:
    """Publish a triple for each number at ``rate``; return the milliseconds to each answer and acknowledgement."""
    answers: dict[int, float] = {}
    acknowledged: list[float] = []
    start = time.perf_counter() + 0.1
    due = {number: start + place / rate for place, number in enumerate(numbers)}

    async def publish(number: int) -> None:
        await overlay.clients[0].publish([(f"<urn:bench:s{number % SENSORS}>", "<urn:bench:value>", number)])
        acknowledged.append(1000 * (time.perf_counter() - due[number]))

    async def publish_all() -> None:
        async with asyncio.TaskGroup() as calls:
            for number in numbers:
                await asyncio.sleep(max(0.0, due[number] - time.perf_counter()))
                calls.create_task(publish(number))

    async def read() -> None:
        while len(answers) < len(numbers):
            number = (await anext(subscription)).value("n")
            assert isinstance(number, int)
            assert number in due, f"{number} was answered before, or is no value of this load"
            assert number not in answers, f"{number} was answered twice"
            answers[number] = 1000 * (time.perf_counter() - due[number])

    async with asyncio.timeout(120 + len(numbers) / rate):
        await asyncio.gather(publish_all(), read())
    return list(answers.values()), acknowledged


def _percentile(values: list[float], part: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[part - 1]
