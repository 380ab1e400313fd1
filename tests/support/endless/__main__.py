"""``python -m endless``: a long stream through nodes with a short retention, and their use of memory and disk.

Sensors are observed in turn: an observation is two elements of one time, its sensor and its value.  A query
counts the observations of ten minutes, every ten minutes; each report is compared with the true count.  Event
time advances as fast as reports do: elements without a report are kept.  The printed sizes are sums over all
nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from chaos.cluster import Cluster, Node

import p2prdf
from p2prdf.client import Subscription
from p2prdf.continuous.reports import time_of

START_SECONDS: Final = 1_700_000_400
"""Event time of the beginning, a multiple of the window."""
WINDOW_SECONDS: Final = 600
SENSORS: Final = 1000
NAMES: Final = 200_000
"""Number of names of observations before they are used again: far more than the elements kept."""
BATCH: Final = 2000
ROWS: Final = 20
AHEAD_SECONDS: Final = 7200
"""Bound, in event time, of the publisher's lead over the last report."""
FLAT: Final = 1.5
"""Bound of growth: in the second half, elements and memory stay below this many times their values at its beginning."""
QUERY: Final = """PREFIX : <urn:> REGISTER RSTREAM :out AS
SELECT (COUNT(?o) AS ?n) FROM NAMED WINDOW :w ON :observations [RANGE PT10M STEP PT10M]
WHERE { WINDOW :w { ?o :by ?s . ?o :value ?v } }"""


def _elements(count: int, seconds: float) -> Iterator[tuple[list[tuple[str, str, str]], list[float]]]:
    """Yield batches of elements, with their event times."""
    observations, step = count // 2, 2 * seconds / count
    for first in range(0, observations, BATCH // 2):
        triples, times = [], []
        for number in range(first, min(first + BATCH // 2, observations)):
            name = f"<urn:o{number % NAMES}>"
            triples.append((name, "<urn:by>", f"<urn:s{number % SENSORS}>"))
            triples.append((name, "<urn:value>", f'"{number * 7 % 500 / 10}"'))
            times += [START_SECONDS + round(number * step, 3)] * 2
        yield triples, times


class Watcher:
    """The sizes of nodes, as rows of a table, and their errors."""

    def __init__(self, nodes: list[Node], total: int):
        self._nodes, self._total = nodes, total
        self._began = time.monotonic()
        self.held: list[int] = []
        self.resident: list[int] = []
        print(
            "published   event time  elements  partial results  tables MB  resident MB  disk MB  horizon lag s  seconds"
        )

    async def look(self, published: int, event_seconds: float) -> None:
        """Print a row."""
        states = [state for each in self._nodes if (state := await each.status()) is not None]
        peers = [state["peer"] for state in states]
        resident = sum(map(_resident, self._nodes))
        disk = sum(state["storage"]["bytes"] for state in states)
        elements, rows = (sum(each[name] for each in peers) for name in ("elements", "rows"))
        tables = sum(each["table_bytes"] for each in peers)
        lags = [each["lag"] for peer in peers for each in peer["stream_retention"].values() if each["lag"] is not None]
        self.held.append(elements)
        self.resident.append(resident)
        print(
            f"{published:9,}  {event_seconds / 3600:7.1f} h  {elements:10,}  {rows:15,}  {tables / 1e6:9.1f}  "
            f"{resident / 1e6:11.1f}  {disk / 1e6:7.1f}  {max(lags, default=0):13.1f}  "
            f"{time.monotonic() - self._began:7.0f}",
            flush=True,
        )


def _resident(node: Node) -> int:
    """Return the bytes of memory that a node's process has."""
    assert node.process is not None
    with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - no file
        return int(file.read().split()[1]) * 4096


async def _read(subscription: Subscription, counts: dict[int, int]) -> None:
    """Record the count of each report."""
    async for batch in subscription.batches():
        for count, report in zip(*batch.columns, strict=True):
            counts[time_of(str(report)) // 1000] = int(str(count).split('"')[1])


def _wrong(counts: dict[int, int], elements: int, seconds: float) -> list[str]:
    """Compare reports with the true counts."""
    step = 2 * seconds / elements
    expected: dict[int, int] = {}
    for number in range(elements // 2):
        at = START_SECONDS + round(number * step, 3)
        report = -int(-at // WINDOW_SECONDS) * WINDOW_SECONDS
        expected[report] = expected.get(report, 0) + 1
    last = max(expected)
    return [
        f"report of {report}: {counts.get(report)} observations, and there were {count}"
        for report, count in expected.items()
        if report < last and counts.get(report) != count
    ]


async def _run(options: argparse.Namespace) -> list[str]:
    settings: dict[str, Any] = {
        "drain_seconds": 1, "stream_retention_seconds": options.retention_hours * 3600,
    }  # fmt: skip
    cluster = Cluster(options.nodes, settings)
    await cluster.start()
    clients = [await p2prdf.connect(node.address) for node in cluster.nodes[:2]]
    counts: dict[int, int] = {}
    seconds = options.days * 86_400
    try:
        reading = asyncio.ensure_future(_read(await clients[-1].subscribe(QUERY, since="beginning"), counts))
        watcher, published, due = Watcher(cluster.nodes, options.elements), 0, 0
        async with clients[0].stream("urn:observations") as stream:
            for triples, times in _elements(options.elements, seconds):
                while times[-1] > max(counts, default=START_SECONDS) + AHEAD_SECONDS:
                    await asyncio.sleep(0.05)
                await stream.publish(triples, time=times, batch_triples=BATCH)
                published += len(triples)
                if published >= due:
                    await watcher.look(published, times[-1] - START_SECONDS)
                    due += options.elements // ROWS
            await stream.heartbeat(START_SECONDS + seconds)
            for _ in range(60):
                await asyncio.sleep(1)
                if not _wrong(counts, options.elements, seconds):
                    break
            await watcher.look(published, seconds)
        reading.cancel()
        await asyncio.wait([reading])
    finally:
        for client in clients:
            await client.close()
        failures = await cluster.stop()
    wrong = _wrong(counts, options.elements, seconds)
    print(f"{len(counts):,} reports, {len(wrong)} wrong")
    for what, held in (("elements", watcher.held), ("bytes of memory", watcher.resident)):
        middle, most = held[len(held) // 2], max(held[len(held) // 2 :])
        if most > FLAT * middle:
            wrong.append(f"{most:,} {what} are held in the second half, and {middle:,} were at its beginning")
    return [*wrong[:10], *failures]


def main() -> int:
    """Run; return 1 if anything was wrong, or grew without end."""
    parser = argparse.ArgumentParser("endless", description="A stream longer than what nodes keep of it.")
    parser.add_argument("--elements", type=int, default=2_000_000)
    parser.add_argument("--days", type=float, default=3.0, help="of event time")
    parser.add_argument("--retention-hours", type=float, default=3.0)
    parser.add_argument("--nodes", type=int, default=3)
    wrong = asyncio.run(_run(parser.parse_args()))
    for each in wrong:
        print(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
