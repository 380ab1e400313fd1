"""Reports are written in order, many triples at a time, and only by a worker that is certainly still a member."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from p2prdf.channel_workers import writer as writer_module
from p2prdf.channel_workers.writer import Writer
from p2prdf.channels.notification_state import NotificationState, Writes
from p2prdf.errors import Unavailable
from p2prdf.reasoning import Triple
from p2prdf.workers.overlay import Writing


def triple(number: int) -> Triple:
    return "<urn:c>", "<urn:p>", f'"{number}"'


class Overlay:
    """Records all writes; fails as often as the test wants."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int, int]] = []
        self.failures = 0
        self.come = asyncio.Event()

    async def publish(self, triples: list[Triple], *, graph: str) -> int:
        return await self._note("+", triples)

    async def retract(self, triples: list[Triple], *, graph: str) -> int:
        return await self._note("-", triples)

    async def _note(self, sign: str, triples: list[Triple]) -> int:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise Unavailable("not now")
        numbers = [int(o.strip('"')) for _, _, o in triples]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        self.written.append((sign, numbers[0], len(numbers)))
        return len(triples)


class Run:
    def __init__(self) -> None:
        self.overlay = Overlay()
        self.sure = True
        self.errors: list[str] = []
        self.writer = Writer(
            cast("Writing", self.overlay), "<urn:g>", NotificationState("<urn:b>"), holds_lease=lambda: self.sure,
            on_error=self.errors.append,
        )  # fmt: skip


@pytest.fixture
async def run(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Run]:
    monkeypatch.setattr(writer_module, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(writer_module, "_SURE_SECONDS", 0)
    made = Run()
    task = asyncio.create_task(made.writer.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def writes(added: range | tuple[int, ...] = (), removed: range | tuple[int, ...] = ()) -> Writes:
    return Writes([triple(each) for each in added], [triple(each) for each in removed])


async def written(run: Any) -> list[tuple[str, int, int]]:
    async with asyncio.timeout(5):
        await run.writer.written()
    found: list[tuple[str, int, int]] = run.overlay.written
    return found


async def test_writes_are_in_order_and_waiting_ones_go_together(run: Run) -> None:
    run.writer.write(writes(range(3)))
    run.writer.write(writes((3,), (1, 2)))
    run.writer.write(writes((4,)))
    assert await written(run) == [("+", 0, 4), ("-", 1, 2), ("+", 4, 1)]


async def test_very_many_in_parts(run: Run) -> None:
    run.writer.write(writes(range(12_000)))
    assert await written(run) == [("+", 0, 5000), ("+", 5000, 5000), ("+", 10_000, 2000)]


async def test_a_failed_write_is_repeated_before_the_writes_behind_it(run: Run) -> None:
    run.overlay.failures = 2
    run.writer.write(writes((0,), (1,)))
    assert await written(run) == [("+", 0, 1), ("-", 1, 1)]
    assert run.errors == ["not now", "not now"]


async def test_a_worker_that_may_have_been_taken_for_dead_writes_nothing(run: Run) -> None:
    run.sure = False
    run.writer.write(writes((0,)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert run.overlay.written == []
    run.sure = True
    assert await written(run) == [("+", 0, 1)]


async def test_evaluation_waits_for_room(run: Run) -> None:
    run.sure = False
    run.writer.write(writes(range(49_999)))
    await asyncio.wait_for(run.writer.room(), 5)
    run.writer.write(writes((49_999,)))
    waiting = asyncio.create_task(run.writer.room())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    run.sure = True
    await asyncio.wait_for(waiting, 5)
