"""Copies are counted on the disks: enough of them from the acknowledgement on, and all of them at the end."""

from __future__ import annotations

import pytest

from p2prdf import keys
from p2prdf.peer import PeerConfig
from p2prdf.sim.world import WorldOptions
from p2prdf.wire.contract import Persist
from p2prdf.wire.messages import IndexTriples
from schedules.failures.clients import RepeatedPublishing
from schedules.failures.copies import Copies
from schedules.failures.options import Failures
from schedules.failures.world import FailingWorld

A, B = ("<urn:a>", "<urn:p>", '"1"'), ("<urn:b>", "<urn:p>", '"2"')
SET = 1 << keys.S | 1 << keys.P
EVENTS = 1 << keys.S + keys.EVENT_SHIFT


@pytest.fixture
def world() -> FailingWorld:
    config = PeerConfig(replicas=3, copies_min=2, durable=True, hot_keys=False)
    return FailingWorld(WorldOptions(peers=5, seed=3, config=config), Failures(kept_probability=0.0))


def _publishing(*triples, stamps=(100,)) -> RepeatedPublishing:
    return RepeatedPublishing(7, 0, list(triples), 0.0, stamps=list(stamps))


def _record(world: FailingWorld, publishing: RepeatedPublishing, roles: int, stamp: int = 100) -> IndexTriples:
    s, p, o = (world.nodes[0].dictionary.intern_all(terms) for terms in zip(*publishing.triples, strict=True))
    count = len(publishing.triples)
    return IndexTriples(s, p, o, [stamp] * count, publishing.events, [roles] * count, origin=1, published=roles)


def _write(world: FailingWorld, peers, record: IndexTriples, *, synced: bool = True) -> None:
    for index in peers:
        world._carry_out(world.nodes[index], [Persist(record)])
        if synced:
            world.machines[index].disk.sync(world.machines[index].disk.written)


def _told(copies: Copies) -> list[str]:
    return [problem.kind for problem in copies.problems]


@pytest.mark.parametrize("roles", [SET, EVENTS])
def test_a_publication_that_is_acknowledged_with_too_few_copies_is_found(world: FailingWorld, roles: int):
    publishing, copies = _publishing(A), Copies(world)
    record = _record(world, publishing, roles)
    _write(world, [0], record)
    _write(world, [1], record, synced=False)
    copies.acknowledged(publishing, 100)
    assert "copies" in _told(copies)
    assert "on 1 of 2 disks when it was acknowledged" in copies.problems[0].text


def test_enough_copies_are_enough_until_one_goes(world: FailingWorld):
    publishing, copies = _publishing(A, B), Copies(world)
    _write(world, [0, 1], _record(world, publishing, SET))
    copies.acknowledged(publishing, 100)
    copies.look("later")
    assert not copies.problems
    world.machines[1].disk.lose()
    copies.look("later")
    assert "later" in copies.problems[0].text


@pytest.mark.parametrize(("roles", "told"), [(SET, ["copies", "copies"]), (EVENTS, [])])
def test_an_older_copy_of_a_set_is_no_copy_and_one_of_an_event_is(world: FailingWorld, roles: int, told: list[str]):
    publishing, copies = _publishing(A), Copies(world)
    _write(world, [0], _record(world, publishing, roles, 50))
    _write(world, [1], _record(world, publishing, roles, 100))
    copies.acknowledged(publishing, 100)
    assert _told(copies) == told


def test_a_disk_with_the_last_copy_is_spared_and_a_deliberate_loss_is_no_problem(world: FailingWorld):
    publishing, copies = _publishing(A), Copies(world)
    _write(world, [0, 1], _record(world, publishing, SET))
    copies.acknowledged(publishing, 100)
    assert copies.spared(world.nodes[0])
    copies.losing(world.nodes[0])
    world.machines[0].disk.lose()
    assert not copies.spared(world.nodes[1])
    assert not copies.problems
    _write(world, [2], _record(world, publishing, SET))
    assert copies.spared(world.nodes[1])


def test_a_snapshot_that_forgets_is_found(world: FailingWorld):
    publishing, copies = _publishing(A), Copies(world)
    _write(world, [0, 1], _record(world, publishing, SET))
    copies.acknowledged(publishing, 100)
    disk = world.machines[0].disk
    disk.begin_compaction()
    disk.end_compaction([])
    copies.look("after the snapshot")
    assert "after the snapshot" in copies.problems[0].text


def _keepers(world: FailingWorld, role: int) -> list[int]:
    key = keys.role_key(role, *(keys.term_hash(term) for term in A))
    return [world.by_key[contact.key].index for contact in world.ring.closest(key, 3)]


def test_the_remains_of_a_publication_must_be_with_all_its_replicas(world: FailingWorld):
    publishing, copies = _publishing(A, stamps=()), Copies(world)
    copies.check_whole([publishing])
    assert not copies.problems, "nothing is left of it"
    everybody = sorted({*_keepers(world, keys.S), *_keepers(world, keys.P)})
    _write(world, everybody, _record(world, publishing, SET))
    copies.check_whole([publishing])
    assert not copies.problems
    world.machines[_keepers(world, keys.P)[0]].disk.lose()
    copies.check_whole([publishing])
    assert set(_told(copies)) == {"part"}
