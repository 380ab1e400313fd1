"""A sync worker goes on when the overlay was away, and gives up foreign interests; the overlay is scripted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from p2prdf.errors import LocalProtocolError, SubscriptionGone, Unavailable
from p2prdf.interest import Triple
from p2prdf.interest.registration import INTEREST, INTEREST_WORKERS, MAINTAINS, Registration
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.registry import REGISTRY
from p2prdf.replica.worker import InterestWorker, InterestWorkerConfig
from p2prdf.workers import worker

ONE = Registration("one", "<urn:d>", "http://h/update", "http://h/query", None, "SELECT * { ?a <urn:p> ?b }")


class Left:
    """A standing query: it reports the present triples, then those of its queue."""

    def __init__(self, number: int, first: list[Triple]):
        self.id = number
        self.opened = 1.0
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.queue.put_nowait(Batch([Solution(each) for each in first], 2.0))

    async def batches(self) -> AsyncIterator[Any]:
        while True:
            batch = await self.queue.get()
            if isinstance(batch, Exception):
                raise batch
            yield batch

    async def unsubscribe(self) -> None:
        pass


class Solution:
    removed = False
    born = 0.0

    def __init__(self, terms: Triple):
        self.terms = terms


class Batch(list[Solution]):
    lost = 0

    def __init__(self, solutions: list[Solution], bookmark: float | None):
        super().__init__(solutions)
        self.bookmark = bookmark


class Overlay:
    """Nodes with one interest, and leases of sync workers."""

    def __init__(self) -> None:
        self.reachable = True
        self.refused = 0
        self.leases: dict[int, bool] = {}
        self.queries: list[tuple[str, Left]] = []
        self.published: list[Triple] = []
        self.retracted: list[Triple] = []

    @contextlib.asynccontextmanager
    async def connect(self, *, reconnect_seconds: float) -> AsyncIterator[Overlay]:
        del reconnect_seconds
        if not self.reachable:
            self.refused += 1
            raise Unavailable("no node answers")
        yield self

    async def subscribe(self, text: str, **options: Any) -> Left:
        left = Left(len(self.queries) + 1, [ONE.triple, *self.published] if text == REGISTRY else [])
        self.queries.append((text, left))
        if options["since"] == "now":
            self.leases[left.id] = True
        return left

    async def attach(self, token: int, **options: Any) -> None:
        self._check(token)

    async def explain(self, number: int) -> None:
        self._check(number)

    def _check(self, number: int) -> None:
        if not self.leases.get(number):
            raise SubscriptionGone("no lease")

    async def unsubscribe(self, number: int) -> None:
        self.leases[number] = False

    async def publish(self, triples: list[Triple], *, graph: str) -> None:
        self.published += triples

    async def retract(self, triples: list[Triple], *, graph: str) -> None:
        self.retracted += triples
        self.published = [each for each in self.published if each not in triples]

    def registry(self) -> Left:
        return [left for text, left in self.queries if text == REGISTRY][-1]


class Run:
    """A sync worker of that overlay, and its reports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(worker, "_PAUSE_SECONDS", 0)
        monkeypatch.setattr(worker, "_GATHER_SECONDS", 0)
        self.overlay = Overlay()
        self.told: list[str] = []
        self.worker = InterestWorker(
            self.overlay.connect, lambda _: EmbeddedStore(None, dataset="d"),  # type: ignore[arg-type]
            InterestWorkerConfig(("h",), lease_seconds=0.02, check_seconds=0.01),
            tell=lambda event, _: self.told.append(event),
        )  # fmt: skip

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)

    @contextlib.asynccontextmanager
    async def running(self, *, wait: bool = False) -> AsyncIterator[None]:
        task = asyncio.create_task(self.worker.run(wait=wait))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_a_worker_leaves_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    async with run.running():
        await run.until(lambda: "one" in run.worker.kept)
        sign = (run.worker.name, MAINTAINS, '"{\\"hosts\\": [\\"h\\"]}"')
        assert run.overlay.published == [sign]
    assert run.overlay.published == []
    assert not any(run.overlay.leases.values())
    assert (run.worker.kept, run.worker.passes) == ({}, {})


async def test_a_worker_comes_again_when_the_overlay_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    async with run.running():
        await run.until(lambda: "one" in run.worker.kept)
        first = run.worker.name
        run.overlay.reachable = False
        run.overlay.registry().queue.put_nowait(Unavailable("no node answers"))
        await run.until(lambda: run.told.count("disconnected") >= 2)
        assert run.worker.kept == {}
        run.overlay.reachable = True
        await run.until(lambda: "one" in run.worker.kept)
        assert run.worker.name != first


async def test_a_worker_with_an_expired_lease_takes_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    async with run.running():
        await run.until(lambda: "one" in run.worker.kept)
        first, kept = run.worker.name, run.worker.kept["one"]
        for number in run.overlay.leases:
            run.overlay.leases[number] = False
        await run.until(lambda: run.told.count("ready") == 2)
        await run.until(lambda: [each[0] for each in run.overlay.published] == [run.worker.name] != [first])
        assert run.worker.kept["one"] is kept, "it goes on meanwhile"


async def test_a_worker_that_is_gone_is_found_and_its_triple_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    other = (INTEREST_WORKERS.subject(77), MAINTAINS, '"{\\"hosts\\": [\\"h\\"]}"')
    run.overlay.published.append(other)
    run.overlay.leases[77] = True
    async with run.running():
        await run.until(lambda: run.worker.registry.workers().keys() == {INTEREST_WORKERS.subject(77), run.worker.name})
        run.overlay.leases[77] = False
        await run.until(lambda: other in run.overlay.retracted)
        await run.until(lambda: "one" in run.worker.kept)
    assert run.told.count("gone") == 1


async def test_an_interest_given_up_is_not_read_again_for_a_waiting_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    async with run.running():
        await run.until(lambda: "one" in run.worker.kept)
        kept = run.worker.kept["one"]
        solution = Solution(ONE.triple)
        solution.removed = True
        assert solution.terms[1] == INTEREST
        run.overlay.registry().queue.put_nowait(Batch([solution], 3.0))
        await run.until(lambda: not run.worker.passes)
        with pytest.raises(Unavailable, match="no longer read here"):
            async with run.worker._content(kept.registration):
                pass
        assert (run.worker.passes, run.worker.kept) == ({}, {})


async def test_an_overlay_unreachable_at_first_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    run.overlay.reachable = False
    with pytest.raises(Unavailable, match="no node answers"):
        await run.worker.run()
    assert run.told == []
    for seconds in (0.0, float("inf")):
        with pytest.raises(LocalProtocolError, match="positive numbers"):
            InterestWorkerConfig((), lease_seconds=seconds).validate()


async def test_a_waiting_worker_reports_each_reason_once_and_no_disconnection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch)
    run.overlay.reachable = False
    async with run.running(wait=True):
        await run.until(lambda: run.overlay.refused >= 3)
        assert run.told == ["waiting"]
        run.overlay.reachable = True
        await run.until(lambda: "one" in run.worker.kept)
        assert (run.told.count("waiting"), run.worker.disconnections) == (1, 0)
