"""Sequence of the demonstration.

It waits for the expected number of solutions and then until no more arrive, so that it detects both missing and
surplus solutions.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import p2prdf
from p2prdf.client import Client, Progress
from p2prdf_cli.demo import airports
from p2prdf_cli.demo.airports import Triple
from p2prdf_cli.demo.check import Row, expected_solutions, judge
from p2prdf_cli.demo.collector import Holding
from p2prdf_cli.demo.daemons import Daemons
from p2prdf_cli.demo.fleet import Fleet
from p2prdf_cli.demo.queries import QUERIES
from p2prdf_cli.demo.report import Summary
from p2prdf_cli.demo.screen import Screen

__all__ = ["Demonstration"]

POLL_SECONDS: Final = 0.05
MEET_SECONDS: Final = 20.0
"""Deadline for all nodes to know each other."""
ANSWERS_SECONDS: Final = 15.0
"""Longest wait for expected solutions after the last acknowledgement."""
QUIET_SECONDS: Final = 0.5
"""Time after the last expected solution in which a surplus one would arrive."""
SLICE_TRIPLES: Final = 5000
"""Triples in flight of one publisher: enough to keep nodes busy, without long queues."""
STEADY_TRIPLES_PER_SECOND: Final = 1000
STEADY_SECONDS: Final = 4
STEADY_BATCHES_PER_SECOND: Final = 50


@dataclass(slots=True)
class Demonstration:
    """One run of the demonstration: by default five nodes and all airports."""

    daemons: Daemons
    screen: Screen
    nodes: int = 5
    airport_count: int | None = None
    fleet: Fleet | None = None
    """Spark, which publishes most triples; None: clients of the nodes do."""

    async def play(self) -> Summary:
        """Run everything and return the summary; the nodes are always stopped at the end."""
        try:
            if self.fleet is not None:
                self.screen.say("starting Spark, which will publish")
                self.fleet.start()
            async with AsyncExitStack() as stack:
                triples = asyncio.create_task(asyncio.to_thread(self._triples))
                clients = await self._start(stack)
                return await self._publish_and_check(clients, await triples)
        finally:
            if self.fleet is not None:
                await self.fleet.stop()
            await self.daemons.stop()

    def _triples(self) -> list[Triple]:
        return list(airports.triples(airports.load(self.airport_count)))

    async def _start(self, stack: AsyncExitStack) -> list[Client]:
        screen = self.screen
        screen.say(f"starting {self.nodes} nodes, each a process of its own")
        await self.daemons.start(self.nodes)
        running = self.daemons.running
        clients = [await stack.enter_async_context(p2prdf.connect(daemon.address)) for daemon in running]
        await self._all_meet(clients)
        for daemon in running:
            screen.say(f"{daemon.name} at {daemon.address}, key {daemon.key}, knows {len(running) - 1} others")
        return clients

    async def _all_meet(self, clients: Sequence[Client]) -> None:
        """Wait until every node knows all others."""
        async with asyncio.timeout(MEET_SECONDS):
            for client in clients:
                while len(_others(await client.status())) < len(clients) - 1:
                    self.daemons.check()
                    await asyncio.sleep(POLL_SECONDS)

    async def _publish_and_check(self, clients: list[Client], triples: list[Triple]) -> Summary:
        screen = self.screen
        async with asyncio.TaskGroup() as group:
            holdings, collecting = await self._subscribe(clients, group)
            by = "at all nodes" if self.fleet is None else "through Spark, the last ones by a client"
            screen.say(f"publishing {len(triples):,} triples about airports, {by}")
            with screen.publishing(len(triples), holdings):
                bulk_triples, bulk_seconds, steady_rate = await self._publish(clients, triples, holdings)
            screen.say("all acknowledged; evaluating the queries centrally to compare")
            owed = await asyncio.to_thread(expected_solutions, QUERIES, triples)
            await self._wait_for_answers(holdings, owed)
            reports = [await client.status() for client in clients]
            for task in collecting:
                task.cancel()
        verdicts = [judge(h.rows, h.identities, due) for h, due in zip(holdings, owed, strict=True)]
        return Summary(
            holdings, verdicts, reports, len(triples), bulk_triples, bulk_seconds, steady_rate, screen.elapsed
        )  # fmt: skip

    async def _subscribe(
        self, clients: Sequence[Client], group: asyncio.TaskGroup
    ) -> tuple[list[Holding], list[asyncio.Task[None]]]:
        """Open each subscription at the next node, all at once, and begin to collect."""
        places = [clients[number % len(clients)] for number in range(len(QUERIES))]
        wanted = (c.subscribe(q.sparql, algorithm=q.algorithm) for c, q in zip(places, QUERIES, strict=True))
        subscriptions = await asyncio.gather(*wanted)
        holdings = [Holding(q, client.peer_address) for client, q in zip(places, QUERIES, strict=True)]
        for number, holding in enumerate(holdings, 1):
            self.screen.query(number, holding.query, holding.node)
        collecting = [
            group.create_task(holding.collect(subscription, self.screen.answers))
            for holding, subscription in zip(holdings, subscriptions, strict=True)
        ]
        return holdings, collecting

    # --- publishing ------------------------------------------------------------------------------

    async def _publish(
        self, clients: Sequence[Client], triples: Sequence[Triple], holdings: Sequence[Holding]
    ) -> tuple[int, float, float]:
        """Publish most triples at full speed at all nodes, the rest steadily; return triples, seconds and steady
        rate."""
        steady = min(len(triples) // 4, STEADY_TRIPLES_PER_SECOND * STEADY_SECONDS)
        bulk = len(triples) - steady
        count = _Counter(self.screen, len(triples))
        if self.fleet is not None:
            told = await self.fleet.publish(triples[:bulk], [client.peer_address for client in clients])
            count.follow()(Progress(told["triples"], 0))
            seconds = told["slowest_seconds"]  # without the start of Spark's workers
        else:
            started = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for place, client in enumerate(clients):
                    group.create_task(_publish_slices(client, triples[place : bulk : len(clients)], count))
            seconds = time.monotonic() - started
        await self._rest(holdings)
        since = time.time()
        for holding in holdings:
            holding.steady_since = since
        started = time.monotonic()
        await clients[0].publish(
            _paced(triples[bulk:]),
            batch_triples=STEADY_TRIPLES_PER_SECOND // STEADY_BATCHES_PER_SECOND,
            on_progress=count.follow(),
        )
        return bulk, seconds, steady / (time.monotonic() - started)

    async def _rest(self, holdings: Sequence[Holding]) -> None:
        """Wait until no more solutions arrive, so that the next measurement is undisturbed."""
        await _still(lambda: sum(holding.answers for holding in holdings), QUIET_SECONDS / 2)

    async def _wait_for_answers(self, holdings: Sequence[Holding], owed: Sequence[Counter[Row]]) -> None:
        """Wait up to ANSWERS_SECONDS for the expected number of solutions, then until no more arrive."""
        end = time.monotonic() + ANSWERS_SECONDS
        while any(h.answers < due.total() for h, due in zip(holdings, owed, strict=True)):
            if time.monotonic() > end:
                self.screen.say(f"solutions are missing after {ANSWERS_SECONDS:.0f} s")
                return
            self.daemons.check()
            await asyncio.sleep(POLL_SECONDS)
        await _still(lambda: sum(holding.answers for holding in holdings), QUIET_SECONDS)


class _Counter:
    """Sums the acknowledged triples of several publications."""

    def __init__(self, screen: Screen, total: int):
        self._screen = screen
        self._total = total
        self._done = 0

    def follow(self) -> Callable[[Progress], None]:
        """Return a callback for the progress of one further publication."""
        before = 0

        def progress(now: Progress) -> None:
            nonlocal before
            self._done += now.triples - before
            before = now.triples
            self._screen.progress(self._done, self._total)

        return progress


async def _publish_slices(client: Client, triples: Sequence[Triple], count: _Counter) -> None:
    """Publish in slices as events of one publisher; each slice is acknowledged before the next begins."""
    publisher = secrets.randbits(64)
    for start in range(0, len(triples), SLICE_TRIPLES):
        part = triples[start : start + SLICE_TRIPLES]
        await client.publish(part, publisher=publisher, first_event=start, on_progress=count.follow())


async def _paced(triples: Sequence[Triple]) -> AsyncIterator[Triple]:
    """Yield triples in small groups at a steady rate."""
    size = STEADY_TRIPLES_PER_SECOND // STEADY_BATCHES_PER_SECOND
    begun = time.monotonic()
    for start in range(0, len(triples), size):
        ahead = begun + start / STEADY_TRIPLES_PER_SECOND - time.monotonic()
        if ahead > 0:
            await asyncio.sleep(ahead)
        for triple in triples[start : start + size]:
            yield triple


async def _still(count: Any, seconds: float) -> None:
    """Wait until a count has not changed for ``seconds``."""
    last, since = count(), time.monotonic()
    while time.monotonic() - since < seconds:
        await asyncio.sleep(POLL_SECONDS)
        if count() != last:
            last, since = count(), time.monotonic()


def _others(report: dict[str, Any]) -> list[Any]:
    return [peer for peer in report["peers"] if peer["key"] != report["key"]]
