"""A sync worker's target ends with the right content, after any failure, and with other writers by the same rules."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from random import Random

import pytest

from p2prdf.errors import DataRefused, TargetMoved, Unavailable
from p2prdf.interest import Triple
from p2prdf.replica import maintained_target
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.maintained_target import Content, Cursor, MaintainedTarget
from p2prdf.replica.target import Digest

XSD = "http://www.w3.org/2001/XMLSchema#"


def triple(number: int) -> Triple:
    return f"<urn:s{number}>", "<urn:p>", f'"{number}"'


class Memory:
    """A target in memory that may fail before or after an update takes effect."""

    triples_max = 4
    respells = False

    def __init__(self, fails: Callable[[], str] = lambda: ""):
        self.held: set[Triple] = set()
        self.at: str | None = None
        self.reads = 0
        self.updates = 0
        self.fails = fails
        self.gate: asyncio.Event | None = None
        self.read_gate: asyncio.Event | None = None
        self.closes: asyncio.Queue[asyncio.Event] | None = None

    async def cursor(self) -> str | None:
        await asyncio.sleep(0)
        if self.fails() == "read":
            raise Unavailable("no answer")
        return self.at

    async def update(
        self, removed: Iterable[Triple], added: Iterable[Triple], *, before: str | None, after: str
    ) -> None:
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(0)
        how = self.fails()
        if how == "before":
            raise Unavailable("no answer")
        if self.at != before:
            raise TargetMoved(f"{self.at!r}, not {before!r}")
        self.held = (self.held - set(removed)) | set(added)
        self.at = after
        self.updates += 1
        if how == "after":
            raise Unavailable("no answer")

    async def triples(self) -> AsyncIterator[Triple]:
        self.reads += 1
        if self.read_gate is not None:
            await self.read_gate.wait()
        for each in sorted(self.held):
            await asyncio.sleep(0)
            yield each

    async def close(self) -> None:
        if self.closes is not None:
            gate = asyncio.Event()
            self.closes.put_nowait(gate)
            await gate.wait()


class Goal:
    """The content that a target should have, and the worker's part that brings it there."""

    def __init__(self, target: Memory | EmbeddedStore, held: Iterable[Triple] = (), as_of: int = 1):
        self.held = set(held)
        self.as_of = as_of
        self.kept = MaintainedTarget(target, self._content, pause=self._no_pause)
        self.kept.begin(Digest(self.held))
        self.kept.reach(as_of, None)

    async def _no_pause(self, seconds: float) -> None:
        await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def _content(self) -> AsyncIterator[Content]:
        yield Content(set(self.held), self.as_of)

    def change(self, removed: Iterable[Triple], added: Iterable[Triple]) -> None:
        gone = [each for each in removed if each in self.held]
        come = [each for each in added if each not in self.held or each in gone]
        gone, come = [each for each in gone if each not in come], [each for each in come if each not in gone]
        self.held = (self.held - set(gone)) | set(come)
        self.as_of += 1
        self.kept.note(gone, come)
        self.kept.reach(self.as_of, str(self.as_of))

    async def rest(self) -> None:
        """Wait until the target is there."""
        async with asyncio.timeout(20):
            while not self.kept.is_current:
                self.kept.reach(self.as_of, None)
                await asyncio.sleep(0)


async def test_changes_are_sent_and_the_cursor_describes_the_content() -> None:
    target = Memory()
    goal = Goal(target, [triple(1), triple(2)])
    await goal.rest()
    goal.change([triple(1)], [triple(3)])
    await goal.rest()
    assert target.held == {triple(2), triple(3)}
    assert Cursor.parse(str(target.at)) == (2, 2, str(Digest([triple(2), triple(3)])))
    assert (goal.kept.reached, goal.kept.error) == (2, None)
    await goal.kept.close()


async def test_a_worker_that_comes_to_a_right_target_reads_and_writes_nothing() -> None:
    target = Memory()
    first = Goal(target, [triple(1), triple(2)])
    await first.rest()
    await first.kept.close()
    reads, updates = target.reads, target.updates
    second = Goal(target, [triple(1), triple(2)], as_of=7)
    await second.rest()
    assert (target.reads, target.updates) == (reads, updates)
    third = Goal(target, [triple(2), triple(9)], as_of=8)
    await third.rest()
    assert (target.reads, target.held) == (reads + 1, {triple(2), triple(9)})


@pytest.mark.parametrize("seed", range(12))
async def test_targets_end_exact_though_answers_are_lost_and_two_workers_write(seed: int) -> None:
    rng = Random(seed)
    failing = True

    def fails() -> str:
        return rng.choice(("", "", "", "before", "after", "read")) if failing else ""

    target = Memory(fails)
    held: set[Triple] = {triple(n) for n in range(6)}
    workers = [Goal(target, held), Goal(target, held)]
    for _ in range(30):
        gone, come = ([triple(rng.randrange(12)) for _ in range(rng.randrange(8))] for _ in "ab")
        for worker in rng.sample(workers, 2):
            worker.change(gone, come)
            for _ in range(rng.randrange(30)):
                await asyncio.sleep(0)
        if rng.random() < 0.2:  # one is replaced
            await workers[0].kept.close()
            workers[0] = Goal(target, workers[1].held, workers[1].as_of)
    failing = False
    assert workers[0].held == workers[1].held
    for worker in workers:
        await worker.rest()
    assert target.held == workers[0].held
    for worker in workers:
        assert (await worker.kept.verify()).equal
        await worker.kept.close()


async def test_a_worker_that_lags_behind_sets_nothing_back() -> None:
    target = Memory()
    ahead, behind = Goal(target, [triple(1)], as_of=9), Goal(target, [], as_of=5)
    await ahead.rest()
    for _ in range(50):
        behind.kept.reach(behind.as_of, None)
        await asyncio.sleep(0)
    assert target.held == {triple(1)}
    assert "only at 0.005" in str(behind.kept.error)
    behind.as_of = 20
    behind.change([], [triple(1), triple(2)])
    await behind.rest()
    assert target.held == {triple(1), triple(2)}


async def test_a_target_that_was_brought_to_a_time_in_the_future_is_followed_on() -> None:
    target = Memory()
    now = int(time.time() * 1000)
    early = Goal(target, [triple(1)], as_of=now + 3_600_000)
    await early.rest()
    await early.kept.close()
    late = Goal(target, [triple(1), triple(2)], as_of=now)  # the nodes have right clocks now
    await late.rest()
    assert target.held == {triple(1), triple(2)}
    assert late.kept.error is None


async def test_a_paused_target_stays_as_it_is_and_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintained_target, "PENDING_MAX", 5)
    for count in (3, 30):  # pending changes are kept, or too many
        target = Memory()
        goal = Goal(target, [triple(0)])
        await goal.rest()
        goal.kept.pause(paused=True)
        goal.change([triple(0)], map(triple, range(1, count)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert target.held == {triple(0)}
        assert goal.kept.reached == 1
        assert count == 30 or (await goal.kept.verify()).equal, "it is as it was left"
        reads = target.reads
        goal.kept.pause(paused=False)
        await goal.rest()
        assert target.held == goal.held
        assert target.reads - reads == (count == 30)


async def test_a_paused_target_is_not_tried_again() -> None:
    how = ["before"]
    target = Memory(lambda: how[0])
    goal = Goal(target, [triple(0)])
    for _ in range(20):
        await asyncio.sleep(0)
    assert goal.kept.error == "no answer"
    goal.kept.pause(paused=True)
    for _ in range(20):  # the attempt under way comes to its end
        await asyncio.sleep(0)
    how[0] = ""
    for _ in range(20):
        await asyncio.sleep(0)
    assert target.held == set()
    goal.kept.pause(paused=False)
    await goal.rest()
    assert target.held == {triple(0)}


async def test_changes_while_a_target_is_read_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintained_target, "PENDING_MAX", 12)
    for count in (2, 40):
        target = Memory()
        await (first := Goal(target, [triple(1), triple(77)])).rest()
        await first.kept.close()
        target.read_gate = asyncio.Event()
        goal = Goal(target, [triple(1), triple(2)], as_of=2)
        for _ in range(20):
            await asyncio.sleep(0)
        goal.change([triple(1)], [triple(3)])
        goal.change([], map(triple, range(9, 9 + count)))
        goal.change([triple(2)], [])
        target.read_gate.set()
        await goal.rest()
        assert target.held == goal.held


async def test_changes_while_an_update_is_under_way_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintained_target, "PENDING_MAX", 12)
    for count in (2, 40):
        target = Memory()
        target.gate = asyncio.Event()
        goal = Goal(target, map(triple, range(9)))
        for _ in range(20):
            await asyncio.sleep(0)
        goal.change([triple(0), triple(1)], map(triple, range(9, 9 + count)))
        goal.change([triple(2)], [triple(1)])
        target.gate.set()
        await goal.rest()
        assert target.held == goal.held
        assert Cursor.parse(str(target.at)) == Cursor.parse(str(target.at))._replace(digest=str(Digest(goal.held)))  # type: ignore[union-attr]


async def test_numbers_that_a_store_takes_for_one_stay_while_one_of_them_does() -> None:
    target = EmbeddedStore(None, dataset="d")
    one, other = (("<urn:s>", "<urn:p>", f'"{text}"^^<{XSD}integer>') for text in ("1", "01"))
    goal = Goal(target, [one, other])
    await goal.rest()
    goal.change([other], [])
    await goal.rest()
    assert [each async for each in target.triples()] == [one]
    assert (await goal.kept.verify()).equal


async def test_foreign_triples_are_left_alone_without_explicit_permission() -> None:
    target = Memory()
    target.held = {triple(5)}
    goal = Goal(target, [triple(1)])
    for _ in range(20):
        await asyncio.sleep(0)
    assert "holds triples and no cursor" in str(goal.kept.error)
    target.at = "000017"
    for _ in range(20):
        goal.kept.reach(1, None)
        await asyncio.sleep(0)
    assert "another kind of replica" in str(goal.kept.error)
    assert target.held == {triple(5)}
    with pytest.raises(DataRefused):
        await goal.kept.verify()
    found = await goal.kept.repair()
    assert (found.lacking, found.foreign, target.held) == (1, 1, {triple(1)})
    target.held.add(triple(6))
    assert (await goal.kept.verify()).foreign == 1


async def test_the_dataset_has_to_be_read_first() -> None:
    kept = MaintainedTarget(Memory(), lambda: pytest.fail("nothing is asked"))
    for ask in (kept.verify, kept.repair):
        with pytest.raises(Unavailable, match="not been read"):
            await ask()


async def test_a_change_while_connections_are_closed_does_not_wait_for_the_next_bookmark() -> None:
    target = Memory()
    target.closes = asyncio.Queue()
    goal = Goal(target, [triple(1)])
    first = await asyncio.wait_for(target.closes.get(), 10)
    assert target.held == {triple(1)}
    goal.kept.note([], [triple(2)])
    goal.kept.reach(2, None)  # no other bookmark follows
    first.set()
    (await asyncio.wait_for(target.closes.get(), 10)).set()
    assert target.held == {triple(1), triple(2)}
    assert (goal.kept.updates, goal.kept.failures) == (2, 0)


async def test_connections_are_not_closed_during_a_repair() -> None:
    target = Memory()
    target.closes = asyncio.Queue()
    goal = Goal(target, [triple(1)])
    closing = await asyncio.wait_for(target.closes.get(), 10)
    reads = target.reads
    repairing = asyncio.create_task(goal.kept.repair())
    for _ in range(20):
        await asyncio.sleep(0)
    assert target.reads == reads, "it waits until they are closed"
    closing.set()
    (await asyncio.wait_for(target.closes.get(), 10)).set()
    assert (await repairing).equal
    assert target.reads == reads + 1
