"""One query serves all interests of a dataset; widening or replacing it does not restart the others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from dataset_histories import INTEREST, history, slice_of

from p2prdf.errors import SubscriptionGone, Unavailable
from p2prdf.interest import Changeset, Interests, Triple, parse_interest
from p2prdf.interest.registration import Registration
from p2prdf.replica import dataset_pass
from p2prdf.replica.candidates import POSITION
from p2prdf.replica.dataset_pass import DatasetPass
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.maintained_target import MaintainedTarget

OTHER = "SELECT * { ?t <urn:label> ?l . ?p <urn:other> ?t }"
DATASET = "<urn:d>"


@dataclass(frozen=True)
class Solution:
    terms: Triple
    removed: bool


@dataclass
class Batch:
    solutions: list[Solution]
    bookmark: float | None
    lost: int = 0

    def __len__(self) -> int:
        return len(self.solutions)

    def __iter__(self) -> Any:
        return iter(self.solutions)


@dataclass
class Query:
    """A standing query of the scripted overlay: it reports triples with one of its predicates."""

    overlay: Overlay
    text: str
    opened: float
    id: int = 1
    ended: bool = False
    batches_waiting: asyncio.Queue[Batch | Exception] = field(default_factory=asyncio.Queue)

    def takes(self, triple: Triple) -> bool:
        return triple[1] in self.text or triple[1] == POSITION

    def tell(self, removed: set[Triple], added: set[Triple], *, lost: int = 0) -> None:
        found = [Solution(each, True) for each in removed] + [Solution(each, False) for each in added]
        self.batches_waiting.put_nowait(Batch([each for each in found if self.takes(each.terms)], None, lost))
        self.batches_waiting.put_nowait(Batch([], self.overlay.now))

    async def batches(self) -> AsyncIterator[Batch]:
        while True:
            batch = await self.batches_waiting.get()
            if isinstance(batch, Exception):
                raise batch
            yield batch

    async def unsubscribe(self) -> None:
        self.ended = True


class Overlay:
    """Holds one dataset, and reports additions and removals to each query."""

    def __init__(self) -> None:
        self.now = 100.0
        self.held: set[Triple] = set()
        self.queries: list[Query] = []
        self.slow = False
        """Whether new queries get no notifications yet."""

    async def subscribe(self, text: str, **options: Any) -> Query:
        assert options["since"] == "beginning"
        query = Query(self, text, self.now)
        self.now += 1
        self.queries.append(query)
        if not self.slow:
            query.tell(set(), self.held)
        return query

    @property
    def live(self) -> list[Query]:
        return [each for each in self.queries if not each.ended]

    def publish(self, triples: frozenset[Triple], position: str) -> None:
        self.now += 1
        new = set(triples) | {(DATASET, POSITION, f'"{position}"')}
        gone, come, self.held = self.held - new, new - self.held, new
        for query in self.live:
            query.tell(gone, come)


class Maintained:
    """A pass over the scripted overlay, with targets in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, potential_max: int | None = None):
        monkeypatch.setattr(dataset_pass, "_PAUSE_SECONDS", 0)
        self.overlay = Overlay()
        self.refused: dict[str, str] = {}
        self.run = DatasetPass(
            self.overlay, DATASET, on_refused=self.refused.__setitem__,  # type: ignore[arg-type]
            on_error=lambda _: None, potential_max=potential_max,
        )  # fmt: skip
        self.targets: dict[str, MaintainedTarget] = {}
        self.stores: dict[str, EmbeddedStore] = {}
        self.wanted: dict[str, Registration] = {}

    def want(self, **queries: str) -> None:
        self.wanted = {
            name: Registration(name, DATASET, "http://x/", "http://x/", None, text) for name, text in queries.items()
        }
        for name in queries:
            if name not in self.targets:
                self.stores[name] = EmbeddedStore(None, dataset=name)
                self.targets[name] = MaintainedTarget(self.stores[name], partial(self.run.content, name))
        self.run.want(self.wanted, {name: self.targets[name] for name in queries})

    async def exact(self, position: str) -> None:
        """Wait until all targets are at a position; they are exact then, and one query is left."""
        await self.reach(position)
        for name, each in self.wanted.items():
            assert await self.holds(name) == slice_of(self.overlay.held, each.query)

    async def holds(self, name: str) -> set[Triple]:
        return {triple async for triple in self.stores[name].triples()}

    async def reach(self, position: str) -> None:
        """Wait until all targets are at a position, and one query is left."""
        async with asyncio.timeout(20):
            while any(
                self.targets[name].reached_position != position or not self.targets[name].is_current
                for name in self.wanted
            ):
                await asyncio.sleep(0.001)
            while len(self.overlay.live) > 1:
                await asyncio.sleep(0.001)


@pytest.fixture
async def kept(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Maintained]:
    async with running(Maintained(monkeypatch)) as made:
        yield made


@contextlib.asynccontextmanager
async def running(made: Maintained) -> AsyncIterator[Maintained]:
    task = asyncio.create_task(made.run.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    for target in made.targets.values():
        await target.close()
    assert made.overlay.live == []


async def test_interests_come_and_go_and_share_a_query(kept: Maintained) -> None:
    days = [(position, held) for position, _, held in history(Random(1), 8)]

    def on() -> str:
        position, held = days.pop(0)
        kept.overlay.publish(held, position)
        return position

    kept.want(one=INTEREST)
    await kept.exact(on())
    kept.want(one=INTEREST, two=OTHER)  # its patterns are asked for, and nobody has them
    await kept.exact(on())
    assert len(kept.overlay.queries) == 2
    one = kept.targets["one"]
    before = await kept.stores["one"].cursor()
    kept.want(one=INTEREST, two=OTHER, three=OTHER.replace("?l", "?name"))  # another one has these
    await kept.exact(on())
    assert len(kept.overlay.queries) == 2
    kept.want(one=INTEREST, three=OTHER.replace("?l", "?name"), four="SELECT * { ?a <urn:team> <urn:t1> }")
    await kept.exact(on())
    assert len(kept.overlay.queries) == 3
    assert await kept.run.sizes(["one", "two", "four"]) == {
        name: (len(slice_of(kept.overlay.held, kept.wanted[name].query)), len(list(potential(kept, name))), 0)
        for name in ("one", "four")
    }
    assert one is kept.targets["one"]
    assert int(str(await kept.stores["one"].cursor()).split()[0]) <= int(str(before).split()[0]) + 2, "it went on"
    kept.want(two=OTHER)
    await kept.exact(on())


def potential(kept: Maintained, name: str) -> Any:
    interests = Interests()
    interests.add("it", parse_interest(kept.wanted[name].query))
    interests.apply(Changeset.of((), kept.overlay.held))
    return interests.potential("it")


async def test_the_former_query_serves_until_the_wider_one_has_reported_all(kept: Maintained) -> None:
    days = [(position, held) for position, _, held in history(Random(2), 5)]
    kept.want(one=INTEREST)
    kept.overlay.publish(days[0][1], days[0][0])
    await kept.exact(days[0][0])
    kept.overlay.slow = True
    kept.want(one=INTEREST, two=OTHER)
    async with asyncio.timeout(20):
        while len(kept.overlay.queries) < 2:
            await asyncio.sleep(0.001)
    former, wider = kept.overlay.queries
    state = set(kept.overlay.held)
    for position, held in days[1:3]:  # the former goes on; the wider one hears of these later
        kept.overlay.now += 1
        new = set(held) | {(DATASET, POSITION, f'"{position}"')}
        former.tell(kept.overlay.held - new, new - kept.overlay.held)
        kept.overlay.held = new
        async with asyncio.timeout(20):
            while kept.targets["one"].reached_position != position:
                await asyncio.sleep(0.001)
        assert {each async for each in kept.stores["one"].triples()} == slice_of(held)
    at = kept.overlay.now
    kept.overlay.now = wider.opened + 0.5  # its first report is older than the former query's last
    wider.tell(set(), state)
    async with asyncio.timeout(20):
        while wider.batches_waiting.qsize():
            await asyncio.sleep(0.001)
    assert {each async for each in kept.stores["one"].triples()} == slice_of(kept.overlay.held)
    assert len(kept.overlay.live) == 2
    kept.overlay.now = at + 1
    wider.tell(state - kept.overlay.held, kept.overlay.held - state)
    await kept.exact(days[2][0])


@pytest.mark.parametrize("trouble", [Unavailable("no node"), SubscriptionGone("no lease"), None])
async def test_an_ended_query_is_renewed_and_the_difference_sent(kept: Maintained, trouble: Exception | None) -> None:
    days = [(position, held) for position, _, held in history(Random(3), 3)]
    kept.want(one=INTEREST, two=OTHER)
    for position, held in days:
        (query,) = kept.overlay.live or [None]
        if query is not None:  # its next reports are lost
            query.ended = True
        kept.overlay.publish(held, position)
        if query is not None:
            if trouble is None:
                query.tell(set(), set(), lost=3)
            else:
                query.batches_waiting.put_nowait(trouble)
        await kept.exact(position)
    assert len(kept.overlay.queries) >= 3


async def test_an_interest_with_too_many_matches_goes_alone(kept: Maintained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_pass, "Interests", lambda **_: Interests(matches_max=3))
    kept.run._interests = dataset_pass.Interests()
    circle = "SELECT * { ?a <urn:team> ?b . ?b <urn:team> ?c . ?c <urn:team> ?a }"
    kept.want(circle=circle, two=OTHER)
    (position, _, held), = history(Random(4), 1)  # fmt: skip
    ring = [(f"<urn:r{n}>", "<urn:team>", f"<urn:r{m}>") for n in range(3) for m in range(3)]
    kept.overlay.publish(frozenset({*held, *ring}), position)
    del kept.wanted["circle"]
    await kept.exact(position)
    assert list(kept.refused) == ["circle"]
    assert "matches" in kept.refused["circle"]


# --- a bound on potentially interesting triples ----------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_a_bound_costs_triples_adds_none_and_a_new_reading_makes_targets_whole(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    lacking = 0
    async with running(Maintained(monkeypatch, potential_max=2)) as kept:
        kept.want(one=INTEREST, two=OTHER)
        for position, _, held in history(Random(seed), 12):
            kept.overlay.publish(held, position)
            await kept.reach(position)
            for name, each in kept.wanted.items():
                exact = slice_of(kept.overlay.held, each.query)
                assert await kept.holds(name) <= exact, "a target never has one too many"
                lacking += len(exact - await kept.holds(name))
            assert len(list(potential_of(kept))) <= 2
            if kept.run.given_up:
                assert kept.run.whole_as_of is not None
                assert kept.run.whole_as_of <= kept.run.as_of
            if lacking and position.endswith(("4", "8")):
                before = kept.run.readings
                await kept.run.read_anew()
                await kept.exact(position)
                assert kept.run.readings == before + 1
                assert kept.run.whole_as_of in (None, kept.run.as_of)
    assert lacking > 0, "a bound that costs nothing was not reached"


def potential_of(kept: Maintained) -> set[Triple]:
    """Return the triples held that are in no target."""
    return set(kept.run._interests.held()) - set(kept.run._interests.union())


async def test_a_bound_that_is_not_reached_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(Maintained(monkeypatch, potential_max=10_000)) as kept:
        kept.want(one=INTEREST, two=OTHER)
        for position, _, held in history(Random(2), 8):
            kept.overlay.publish(held, position)
            await kept.exact(position)
        assert (kept.run.given_up, kept.run.whole_as_of, kept.run.readings) == (0, None, 1)
        assert {each.given_up for each in (await kept.run.sizes(["one", "two"])).values()} == {0}


async def test_an_interest_is_added_although_a_bookmark_came_from_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(Maintained(monkeypatch)) as kept:
        versions = list(history(Random(3), 4))
        kept.want(one=INTEREST)
        kept.overlay.now = time.time() + 3600.0
        position, _, held = versions[0]
        kept.overlay.publish(held, position)
        await kept.exact(position)
        kept.overlay.now = time.time()  # the nodes start again, with right clocks
        kept.want(one=INTEREST, two=OTHER)
        for position, _, held in versions[1:]:
            kept.overlay.publish(held, position)
            await kept.exact(position)
        assert kept.run.as_of / 1000 == pytest.approx(time.time(), abs=60.0)


async def test_an_interest_that_is_added_when_triples_were_given_up_begins_whole(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other interest has the same patterns, but has evicted their triples."""
    async with running(Maintained(monkeypatch, potential_max=0)) as kept:
        kept.want(one=INTEREST)
        for position, _, held in history(Random(3), 6):
            kept.overlay.publish(held, position)
            await kept.reach(position)
        assert await kept.run.given_up_of("one") == (await kept.run.sizes(["one"]))["one"].given_up > 0
        kept.want(one=INTEREST, labels="SELECT * { ?t <urn:label> ?l }")
        await kept.exact(position)


async def test_waiting_for_a_reading_fails_when_there_will_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(Maintained(monkeypatch)) as kept:
        kept.want(one=INTEREST)
        ((position, _, held),) = history(Random(4), 1)
        kept.overlay.publish(held, position)
        await kept.exact(position)
        kept.overlay.slow = True
        waiting = asyncio.create_task(kept.run.read_anew())
        async with asyncio.timeout(20):
            while len(kept.overlay.queries) < 2:
                await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="no longer read here"):
        await waiting
