"""A data set through nodes: published into a stream, read by all its queries, and compared report by report."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from algebra.compare import same_values
from windows_oracle import Element, Rows, WindowsOracle

from p2prdf.client import Client, Progress, Stream, Subscription
from p2prdf.continuous.reports import time_of
from real_streams.data import Dataset, Query

__all__ = ["Outcome", "play"]

QUIET_SECONDS = 2.0
"""Seconds of silence required after the last expected row."""
SILENT_SECONDS = 60.0
"""Seconds of silence that end the waiting: nodes are slower when one is missing."""


@dataclass
class Outcome:
    """The result of a data set.

    ``delays``: seconds from the acknowledgement of all elements that a report may have to its rows.
    """

    elements: int = 0
    publishing_seconds: float = 0.0
    seconds: float = 0.0
    reports: int = 0
    rows: int = 0
    published_answers: int = 0
    """Reports with answers published by the data set itself."""
    delays: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass
class _Heard:
    """The rows of one query and the moment of the last of them, by the time of the report."""

    rows: dict[int, Rows] = field(default_factory=dict)
    at: dict[int, float] = field(default_factory=dict)
    total: int = 0
    identities: set[int] = field(default_factory=set)
    doubled: int = 0

    async def listen(self, subscription: Subscription, wanted: int, published: asyncio.Event) -> None:
        """Take rows until all is published, the wanted number has come and nothing follows, or none comes any more."""
        batches = subscription.batches()
        while True:
            following = asyncio.ensure_future(anext(batches))
            silent = 0.0
            while not (await asyncio.wait((following,), timeout=QUIET_SECONDS))[0]:
                silent = silent + QUIET_SECONDS if published.is_set() else 0.0
                if silent >= (SILENT_SECONDS if self.total < wanted else QUIET_SECONDS):
                    following.cancel()
                    return
            batch, now = following.result(), time.monotonic()
            for *row, term in zip(*batch.columns, strict=True):
                report = time_of(str(term))
                self.rows.setdefault(report, Counter())[tuple(row)] += 1
                self.at[report] = now
            self.total += len(batch)
            self.doubled += len(self.identities.intersection(batch.identities))
            self.identities.update(batch.identities)


async def play(dataset: Dataset, clients: Sequence[Client], *, pause_seconds: float = 0.0) -> Outcome:
    """Publish a data set at the first client's node, read its queries at all nodes, and compare.

    ``pause_seconds``: pause between elements of different times; 0: all of them as fast as possible.
    """
    outcome = Outcome(elements=len(dataset.elements))
    expected = [_expected(dataset, query) for query in dataset.queries]
    if dataset.static:
        await clients[0].publish(dataset.static)
    subscriptions = [
        await clients[at % len(clients)].subscribe(query.text, since="beginning", lease_seconds=600)
        for at, query in enumerate(dataset.queries)
    ]
    heard = [_Heard() for _ in subscriptions]
    begun, published = time.monotonic(), asyncio.Event()
    # The stream stays open until all has come: an ended publisher is forgotten after a while, and not waited for.
    async with clients[0].stream(dataset.stream) as stream, asyncio.TaskGroup() as tasks:
        for each, subscription, reports in zip(heard, subscriptions, expected, strict=True):
            wanted = sum(rows.total() for rows in reports.values())
            tasks.create_task(each.listen(subscription, wanted, published))
        acknowledged = await _publish(dataset, stream, heard, pause_seconds, outcome)
        published.set()
    outcome.seconds = max((moment for each in heard for moment in each.at.values()), default=begun) - begun
    for subscription in subscriptions:
        await subscription.unsubscribe()
    for query, each, reports in zip(dataset.queries, heard, expected, strict=True):
        _judge(outcome, query, each, reports)
        outcome.delays += [moment - _since(acknowledged, report) for report, moment in each.at.items()]
    return outcome


async def _publish(
    dataset: Dataset, stream: Stream, heard: Sequence[_Heard], pause_seconds: float, outcome: Outcome
) -> list[tuple[int, float]]:
    """Publish all elements; return event times in order, each with the moment of its complete acknowledgement."""
    batches, acknowledged = dataset.batches(), list[tuple[int, float]]()
    numbers = [0]
    for batch in batches:
        numbers.append(numbers[-1] + len(batch.s))
    before = 0

    def progress(done: Progress) -> None:
        while len(acknowledged) < len(batches) and numbers[len(acknowledged) + 1] <= before + done.triples:
            acknowledged.append((batches[len(acknowledged)].times[0], time.monotonic()))

    if pause_seconds:
        for batch in batches:
            before = stream.events
            await stream.publish([batch], on_progress=progress)
            # A new reader of a stream watches it for a while before it concludes anything.
            async with asyncio.timeout(SILENT_SECONDS):
                while len(acknowledged) == 1 and not any(each.total for each in heard):
                    await asyncio.sleep(0.1)
            await asyncio.sleep(pause_seconds)
    else:
        begun = time.monotonic()
        await stream.publish(batches, on_progress=progress)
        outcome.publishing_seconds = time.monotonic() - begun
    await stream.heartbeat(dataset.end / 1000)
    return acknowledged


def _since(acknowledged: Sequence[tuple[int, float]], report: int) -> float:
    """Return the moment at which all elements of a report were acknowledged."""
    return acknowledged[bisect.bisect_right(acknowledged, (report, float("inf"))) - 1][1]


def _expected(dataset: Dataset, query: Query) -> dict[int, Rows]:
    """Return the rows of each report, computed anew by another engine from the window's content."""
    times = [element.time for element in dataset.elements]
    extent = query.extent
    assert extent.range is not None
    found = {}
    for report in query.reports(dataset):
        some: list[Element] = dataset.elements[
            bisect.bisect_left(times, report - extent.range - extent.step) : bisect.bisect_right(times, report)
        ]
        found[report] = WindowsOracle(query.text, query.windows, dataset.static, some).solutions(report)[1]
    return found


def _judge(outcome: Outcome, query: Query, heard: _Heard, expected: dict[int, Rows]) -> None:
    outcome.reports += len(expected)
    outcome.rows += heard.total
    if heard.doubled:
        outcome.wrong.append(f"{query.name}: {heard.doubled} rows came twice")
    for report in sorted({*expected, *heard.rows}):
        rows = same_values(heard.rows.get(report, Counter()))
        wanted = same_values(expected.get(report, Counter()))
        if rows != wanted:
            extra, missing = list((rows - wanted).items())[:2], list((wanted - rows).items())[:2]
            outcome.wrong.append(f"{query.name} at {report / 1000}: more {extra}, missing {missing}")
        if report not in query.published or report not in expected:
            continue
        outcome.published_answers += 1
        count, published = query.published[report]
        if rows.total() != count or (published is not None and rows != same_values(published)):
            outcome.wrong.append(f"{query.name} at {report / 1000}: {rows.total()} rows, not the {count} published")
