"""``python -m real_streams``: the command behind ``make windows``."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys

from chaos.cluster import Cluster

import p2prdf
from real_streams.data import DATA, NAMES, available, load
from real_streams.through_nodes import Outcome, play

IDLE_SECONDS = 3
NODES = 5


def main() -> int:
    """Publish all data sets; return 1 if any report was wrong."""
    parser = argparse.ArgumentParser("real_streams", description="Streams of sensors through five nodes, by windows.")
    parser.add_argument("--only", choices=NAMES, help="one data set instead of all")
    parser.add_argument("--hours", type=float, default=29.0, help="how much of citybench's four days goes by slowly")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between elements of different times")
    options = parser.parse_args()
    if not available():
        print(f"the shared data is not at {DATA}")
        return 1
    wrong = asyncio.run(_through_nodes(options.only, options.hours, options.pause))
    for each in wrong:
        print(each)
    return 1 if wrong else 0


async def _through_nodes(only: str | None, hours: float, pause: float) -> list[str]:
    """Publish at five nodes with three copies of everything on their disks: all at once, and as if it happened now."""
    cluster = Cluster(NODES, {"drain_seconds": 1, "stream_idle_seconds": IDLE_SECONDS})
    await cluster.start()
    clients = [await p2prdf.connect(node.address) for node in cluster.nodes]
    wrong = []
    try:
        if only in (None, "csrbench"):
            wrong += _tell("csrbench", await play(load("csrbench", "urn:weather:at:once"), clients))
            outcome = await play(load("csrbench", "urn:weather:slow"), clients, pause_seconds=pause)
            wrong += _tell(f"csrbench, {pause:g} s between times", outcome)
        if only in (None, "citybench"):
            wrong += _tell("citybench", await play(load("citybench", "urn:city:at:once"), clients))
            city = load("citybench", "urn:city:slow")
            city = city.upto(city.elements[0].time / 1000 + 3600 * hours)
            outcome = await play(city, clients, pause_seconds=pause)
            wrong += _tell(f"citybench, {hours:g} hours, {pause:g} s between times", outcome)
    finally:
        for client in clients:
            await client.close()
        failures = await cluster.stop()
    return wrong + failures


def _tell(name: str, outcome: Outcome) -> list[str]:
    rate = f"{outcome.elements / outcome.publishing_seconds:,.0f} elements/s in; " if outcome.publishing_seconds else ""
    delays = sorted(outcome.delays)
    said = ""
    if len(delays) > 1:
        last = statistics.quantiles(delays, n=20)[-1]
        said = f"; from acknowledged to reported {statistics.median(delays):.2f} s, 95 % {last:.2f} s"
    print(
        f"{name}: {outcome.elements:,} elements, {rate}{outcome.reports:,} reports compared, {outcome.rows:,} rows, "
        f"{outcome.published_answers} reports with published answers; wrong {len(outcome.wrong)}; "
        f"all told after {outcome.seconds:.1f} s{said}"
    )
    return outcome.wrong


if __name__ == "__main__":
    sys.exit(main())
