"""A replica's target is right after each changeset and each crash; verify finds errors and repair corrects them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyoxigraph as ox
import pytest
from athletes import ADDED, INTEREST, REMOVED, START, TARGET, athlete, goals
from interest_histories import changesets, random_interest, slice_of
from replica_runner import (
    DIED,
    GRAPH,
    Points,
    expected,
    follow,
    open_target,
    run,
    write_history,
)
from sparql_endpoint import EndpointProcess

from p2prdf.errors import DataRefused, LocalProtocolError, TargetMoved
from p2prdf.interest import Changeset, Interests, Triple, parse_interest
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.replica import Replica
from p2prdf.replica.target import Target


def _athletes(target: Target, state: Path | None = None) -> Replica:
    interests = Interests()
    interests.add("athletes", INTEREST)
    return Replica(interests, target, state=state)


def _store(triples_max: int = 100) -> EmbeddedStore:
    return EmbeddedStore(None, dataset="data", graph=GRAPH, triples_max=triples_max)


async def _content(target: Target) -> set[Triple]:
    return {each async for each in target.triples()}


async def test_the_paper_s_example_at_a_target() -> None:
    target = _store(triples_max=2)
    replica = _athletes(target)
    assert await replica.begin(START) == 5
    applied = await replica.apply("1", Changeset.of(REMOVED, ADDED))
    assert (applied.removed, applied.added, applied.sent) == (3, 3, True)
    assert await _content(target) == TARGET
    assert await target.cursor() == "1"
    assert (await replica.verify()).equal


async def test_a_changeset_that_was_applied_is_not_applied_again() -> None:
    replica = _athletes(_store())
    await replica.begin(START)
    await replica.apply("2", Changeset.of(REMOVED, ADDED))
    for position in ("1", "2"):
        assert not (await replica.apply(position, Changeset.of(TARGET))).sent
    assert await _content(replica.target) == TARGET


async def test_a_change_without_effect_on_the_target_is_not_sent() -> None:
    target = _store()
    replica = _athletes(target)
    await replica.begin(START)
    assert not (await replica.apply("1", Changeset.of((), [athlete("New")]))).sent
    assert await target.cursor() == "start"


async def test_without_potentially_interesting_triples_a_late_partner_makes_no_match() -> None:
    replica = _athletes(_store())
    assert await replica.begin([*START, athlete("Early")], potential=False) == 5
    await replica.apply("1", Changeset.of((), [goals("Early", 1)]))
    assert goals("Early", 1) not in await _content(replica.target)
    assert replica.interests.potential_size("athletes") == 1


async def test_one_target_for_several_interests_is_their_union() -> None:
    target = _store()
    interests = Interests()
    written = [random_interest(seed) for seed in (1, 4, 9)]
    for number, each in enumerate(written):
        interests.add(str(number), parse_interest(each.text))
    replica = Replica(interests, target)
    await replica.begin([])
    for changeset, dataset in changesets(5, 25):
        await replica.apply(str(changeset.sequence), changeset)
        assert await _content(target) == set().union(*(slice_of(dataset, each)[0] for each in written))


async def test_numbers_that_a_store_spells_alike_are_kept_while_one_of_them_is_there() -> None:
    target = _store()
    interests = Interests()
    interests.add("it", parse_interest("SELECT * { ?s <urn:n> ?n }"))
    replica = Replica(interests, target)
    one, also = (("<urn:s>", "<urn:n>", f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>') for n in ("1", "01"))
    await replica.begin([one])
    await replica.apply("1", Changeset.of((), [also]))
    assert (await replica.verify()).equal
    await replica.apply("2", Changeset.of([one]))
    assert await _content(target) == {one}, "the store has one spelling for both"
    assert (await replica.verify()).equal
    await replica.apply("3", Changeset.of([also]))
    assert await _content(target) == set()


# --- comparing and mending ---------------------------------------------------------------------------------


async def test_foreign_changes_of_the_target_are_found_and_repaired() -> None:
    target = _store(triples_max=2)
    replica = _athletes(target)
    await replica.begin(START)
    graph = ox.NamedNode(GRAPH[1:-1])
    (first, *_) = target.store.quads_for_pattern(None, None, None, graph)
    target.store.remove(first)
    for number in range(3):
        target.store.add(ox.Quad(first.subject, first.predicate, ox.Literal(f"x{number}"), graph))
    found = await replica.verify()
    assert (found.expected, found.found, found.equal) == (5, 7, False)
    mended = await replica.repair()
    assert (mended.lacking, mended.foreign, mended.equal) == (1, 3, False)
    assert (await replica.verify()).equal
    assert await _content(target) == set(START)
    cursors = [await target.cursor()]
    for _ in range(2):
        assert (await replica.repair()).equal
        cursors.append(await target.cursor())
    assert cursors == ["start", "start'1", "start'2"], "a late update finds no cursor that it knows"
    await replica.apply("1", Changeset.of(REMOVED, ADDED))
    assert await _content(target) == TARGET


async def test_a_target_that_was_set_back_is_reported_and_repaired(tmp_path: Path) -> None:
    old, new = _store(), _store()
    for target in (old, new):
        await _athletes(target).begin(START)
    replica = _athletes(new, tmp_path / "state")
    await replica.begin(START)
    with pytest.raises(LocalProtocolError, match="is not empty"):
        await replica.begin(START)
    await replica.apply("7", Changeset.of(REMOVED, ADDED))
    replica.save()
    again = Replica.load(tmp_path / "state", old)
    assert again is not None
    with pytest.raises(TargetMoved, match="restored"):
        await again.resume()
    await again.repair()
    await again.resume()
    assert await _content(old) == TARGET
    empty = Replica.load(tmp_path / "state", _store())
    assert empty is not None
    with pytest.raises(TargetMoved, match="cursor is None"):
        await empty.resume()


async def test_a_foreign_update_stops_a_replica() -> None:
    target = _store()
    one, two = _athletes(target), _athletes(target)
    await one.begin(START)
    await two.begin(START)
    await one.apply("1", Changeset.of(REMOVED))
    with pytest.raises(TargetMoved, match="'1'"):
        await two.apply("2", Changeset.of(REMOVED))


def test_a_damaged_state_is_refused_and_none_is_none(tmp_path: Path) -> None:
    assert Replica.load(tmp_path / "state", _store()) is None
    (tmp_path / "state").write_bytes(b"p2prdf interests 1\n{}\n")
    with pytest.raises(DataRefused, match="damaged"):
        Replica.load(tmp_path / "state", _store())
    with pytest.raises(LocalProtocolError, match="cannot be read"):
        Replica.load(tmp_path, _store())


# --- crashes -----------------------------------------------------------------------------------------------


def _die_everywhere(tmp_path: Path, target: str, points: Iterable[int]) -> int:
    """Run a replica that dies at one point after the other; return how often it did."""
    deaths = 0
    for point in points:
        status = run(tmp_path, target, tmp_path / "state", die_at=point)
        assert status in (0, DIED)
        deaths += status == DIED
    assert run(tmp_path, target, tmp_path / "state") == 0
    return deaths


def test_a_replica_killed_again_and_again_ends_exact(tmp_path: Path) -> None:
    dataset = write_history(tmp_path, seed=1)
    process = EndpointProcess(tmp_path / "store").start()
    try:
        assert _die_everywhere(tmp_path, process.url, (3, 8)) == 2
    finally:
        process.kill()
    assert _stored(process) == expected(dataset)


def test_files_written_by_a_replica_killed_again_and_again_are_exact(tmp_path: Path) -> None:
    write_history(tmp_path, seed=2)
    assert _die_everywhere(tmp_path, str(tmp_path / "files"), (4,)) == 1


def _stored(process: EndpointProcess) -> set[Triple]:
    graph = ox.NamedNode(GRAPH[1:-1])
    found = process.store().quads_for_pattern(None, None, None, graph)
    return {(str(each.subject), str(each.predicate), str(each.object)) for each in found}


async def _through_deaths(tmp_path: Path, seed: int, die_at: int, when: str) -> bool:
    """Follow a history while the endpoint dies at one update; return whether it died."""
    dataset = write_history(tmp_path, seed)
    process = EndpointProcess(tmp_path / "store").start("--die-at", str(die_at), "--when", when)
    target = open_target(process.url)
    died = False

    async def revive(seconds: float) -> None:
        nonlocal died
        del seconds
        if not died:  # nothing else makes requests fail, though it may take a moment to be gone
            died = True
            process.kill()
            process.start()

    target._pause = revive  # type: ignore[attr-defined]
    try:
        replica = await follow(tmp_path, target, tmp_path / "state", Points(0))
        assert (await replica.verify()).equal
        replica.save()
    finally:
        await target.close()
        process.kill()
    assert _stored(process) == expected(dataset)
    return died


@pytest.mark.parametrize(("die_at", "when"), [(4, "before"), (9, "after")])
async def test_an_endpoint_killed_in_an_update_gets_it_once(tmp_path: Path, die_at: int, when: str) -> None:
    assert await _through_deaths(tmp_path, die_at, die_at, when)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
async def test_an_endpoint_killed_anywhere_gets_each_update_once(tmp_path: Path, seed: int) -> None:
    assert await _through_deaths(tmp_path, seed, 1 + seed // 2, "after" if seed % 2 else "before")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
def test_a_replica_killed_anywhere_ends_exact(tmp_path: Path, seed: int) -> None:
    dataset = write_history(tmp_path, seed)
    process = EndpointProcess(tmp_path / "store").start()
    try:
        assert _die_everywhere(tmp_path, process.url, (1 + seed,)) == 1
    finally:
        process.kill()
    assert _stored(process) == expected(dataset)


async def test_a_lost_state_is_made_again_from_the_start(tmp_path: Path) -> None:
    dataset = write_history(tmp_path, seed=3)
    process = EndpointProcess(tmp_path / "store").start()
    try:
        assert run(tmp_path, process.url, tmp_path / "state", die_at=9) == DIED
        (tmp_path / "state").unlink(missing_ok=True)
        assert run(tmp_path, process.url, tmp_path / "state") == 0
    finally:
        process.kill()
    assert _stored(process) == expected(dataset)
