"""Publications that are stored whole before they are indexed: staged ones, and all removals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer import PeerConfig
from p2prdf.sim.world import WorldOptions
from p2prdf.wire import contract
from p2prdf.wire.contract import Published
from p2prdf.wire.messages import ACCEPTED, INDEXED, IndexTriples
from schedules.failures.checkers import stored
from schedules.failures.options import Failures
from schedules.failures.scenario import draw_bad_day, run_bad_day
from schedules.failures.world import FailingWorld

TRIPLES = [(f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(40)]
ROLES = [role for role in keys.ROLES if role != keys.ANY]


class Told:
    """A publisher that waits."""

    def __init__(self):
        self.outcomes = []

    def completed(self, node, request, outcome):
        self.outcomes.append(outcome)

    def cut_off(self, node):
        self.outcomes.append("cut off")


def world_of(peers=6, **config):
    settings = {"replicas": 3, "copies_min": 2, "durable": True, "hot_keys": False, **config}
    world = FailingWorld(
        WorldOptions(peers=peers, seed=3, config=PeerConfig(**settings)), Failures(kept_probability=0.0)
    )
    world.run_for(10.0)
    return world


def publish(world, node, level, *, removed=False, triples=TRIPLES):
    s, p, o = (node.columns.column(node.dictionary.intern_all(terms), "uint32") for terms in zip(*triples, strict=True))
    told = Told()
    world.request(node, lambda request: contract.Publish(request, 7 + removed, 0, s, p, o, level, removed), told)
    return told


def hold_back(world, monkeypatch, held):
    """Lose every message of peer 0 for which ``held`` is true."""
    send = world.send

    def sending(node, to, envelope):
        if node.index or not isinstance(envelope.message, IndexTriples) or not held(envelope.message):
            send(node, to, envelope)

    monkeypatch.setattr(world, "send", sending)


def indexes(message):
    return any(as_list(message.roles))


def lacking(world):
    """Return role and key of all that is not with its three closest living peers, and how much was looked for."""
    living, hashes = world.living(), world.nodes[0].dictionary
    missing, looked = [], 0
    for role in ROLES:
        held = {}
        for node in living:
            (kind,) = [kind for kind in node.peer.kinds if kind.number == role]
            held[node.index] = set(as_list(kind.items().keys))
        for triple in TRIPLES:
            key = keys.role_key(role, *(hashes.hashes[hashes.intern(term)] for term in triple))
            keepers = sorted(living, key=lambda node, key=key: node.contact.key ^ key)[:3]
            looked += len(keepers)
            missing += [(role, key) for node in keepers if key not in held[node.index]]
    return missing, looked


def test_a_staged_publication_is_indexed_by_others_if_its_peer_never_comes_back(monkeypatch):
    world = world_of()
    hold_back(world, monkeypatch, indexes)
    told = publish(world, world.nodes[0], ACCEPTED)
    world.run_for(1.0)
    (outcome,) = told.outcomes
    assert isinstance(outcome, Published)
    assert len(lacking(world)[0]) > 100
    world.crash(world.nodes[0])
    world.run_for(60.0)
    missing, looked = lacking(world)
    assert (missing, looked) == ([], 3 * 40 * len(ROLES))


def test_a_staged_publication_is_indexed_from_its_peers_disk_if_the_other_copies_are_lost(monkeypatch):
    world = world_of()
    hold_back(world, monkeypatch, indexes)
    told = publish(world, world.nodes[0], ACCEPTED)
    world.run_for(1.0)
    assert isinstance(told.outcomes[0], Published)
    monkeypatch.undo()
    for node in world.nodes:
        world.crash(node)
    for node in world.nodes:
        world.restart(node, disk="lost" if node.index else "kept")
    world.run_for(60.0)
    assert lacking(world)[0] == []


def test_nothing_is_accepted_before_another_peer_has_it(monkeypatch):
    world = world_of()
    hold_back(world, monkeypatch, lambda _: True)
    told = publish(world, world.nodes[0], ACCEPTED)
    world.run_for(5.0)
    assert told.outcomes == []
    monkeypatch.undo()
    world.run_for(30.0)
    assert len(told.outcomes) == 1
    assert lacking(world)[0] == []


def test_the_default_waits_for_the_owners(monkeypatch):
    world = world_of()
    hold_back(world, monkeypatch, indexes)
    told = publish(world, world.nodes[0], INDEXED)
    world.run_for(5.0)
    assert told.outcomes == []


def test_a_publication_is_forgotten_when_it_is_indexed():
    world = world_of()
    told = publish(world, world.nodes[0], ACCEPTED)
    world.run_for(20.0)
    assert len(told.outcomes) == 1
    assert [node.peer.status()["redelivery_triples"] for node in world.nodes] == [0] * 6
    assert lacking(world)[0] == []


@pytest.mark.parametrize("config", [{"replicas": 1, "copies_min": 1}, {"replicas": 3, "copies_min": 1}])
def test_staging_is_acknowledged_with_one_copy_as_well(config):
    world = world_of(**config)
    told = publish(world, world.nodes[0], ACCEPTED)
    world.run_for(5.0)
    assert len(told.outcomes) == 1


def test_with_one_copy_a_publication_is_accepted_when_it_is_indexed(monkeypatch):
    """Otherwise nobody completes it if its peer fails."""
    world = world_of(replicas=1, copies_min=1)
    hold_back(world, monkeypatch, indexes)
    told = publish(world, world.nodes[0], ACCEPTED)
    world.run_for(5.0)
    assert told.outcomes == []
    monkeypatch.undo()
    world.run_for(30.0)
    assert len(told.outcomes) == 1


def accepting(seed):
    """Return a seed's fault schedule with publishers that wait only for staging."""
    day = draw_bad_day(seed)
    weights = {kind: weight for kind, weight in day.failures.weights.items() if kind != "disk-loss"}
    return replace(day, failures=replace(day.failures, accepted=True, weights=weights))


@pytest.mark.parametrize("seed", range(10))
def test_staged_publications_are_answered_once_during_fault_schedules(seed):
    verdict = run_bad_day(accepting(seed))
    assert not verdict.problems, [str(problem) for problem in verdict.problems]


def test_a_lost_replica_is_no_copy(monkeypatch):
    """All other replicas crash before they have it: it is not acknowledged as staged, and in the end it is indexed."""
    world = world_of()
    hold_back(world, monkeypatch, lambda _: True)
    told = publish(world, world.nodes[0], ACCEPTED)
    for node in world.nodes[1:]:
        world.crash(node)
    world.run_for(10.0)
    assert told.outcomes == []
    monkeypatch.undo()
    for node in world.nodes[1:]:
        world.restart(node)
    world.run_for(60.0)
    assert len(told.outcomes) == 1
    assert lacking(world)[0] == []


# --- removals ------------------------------------------------------------------------------------


def published(**config):
    """Return a world in which all triples are published."""
    world = world_of(**config)
    told = publish(world, world.nodes[0], INDEXED)
    world.run_for(5.0)
    assert len(told.outcomes) == 1
    assert set(stored(world, 0)) == set(TRIPLES)
    return world


def test_a_removal_that_one_peer_alone_has_heard_of_has_no_effect(monkeypatch):
    """With its disk the removal is lost: the effects of an applied one would never be taken back."""
    world = published(peers=3)
    hold_back(world, monkeypatch, lambda _: True)
    told = publish(world, world.nodes[0], INDEXED, removed=True)
    world.run_for(5.0)
    assert told.outcomes == []
    assert set(stored(world, 0)) == set(TRIPLES)
    world.crash(world.nodes[0])
    world.restart(world.nodes[0], disk="lost")
    monkeypatch.undo()
    world.run_for(60.0)
    assert set(stored(world, 0)) == set(TRIPLES)


@pytest.mark.parametrize("level", [ACCEPTED, INDEXED])
def test_a_removal_that_enough_peers_keep_takes_effect_though_its_peer_never_comes_back(monkeypatch, level):
    world = published()
    hold_back(world, monkeypatch, indexes)
    told = publish(world, world.nodes[0], level, removed=True)
    world.run_for(1.0)
    assert len(told.outcomes) == (level == ACCEPTED)
    world.crash(world.nodes[0])
    world.run_for(60.0)
    assert stored(world, 0) == []


def test_a_removal_with_lost_replicas_finds_others(monkeypatch):
    world = published()
    hold_back(world, monkeypatch, lambda message: not indexes(message))
    told = publish(world, world.nodes[0], INDEXED, removed=True)
    fellows = sorted(world.nodes[1:], key=lambda node: node.contact.key ^ world.nodes[0].contact.key)[:2]
    world.run_for(0.5)
    assert told.outcomes == []
    assert set(stored(world, 0)) == set(TRIPLES)
    for node in fellows:
        world.crash(node)
    monkeypatch.undo()
    world.run_for(60.0)
    assert len(told.outcomes) == 1
    assert stored(world, 0) == []


@pytest.mark.parametrize("config", [{"replicas": 1, "copies_min": 1}, {"replicas": 3, "copies_min": 1}])
def test_with_one_copy_removals_take_effect_at_once(config):
    world = published(**config)
    told = publish(world, world.nodes[0], INDEXED, removed=True)
    world.run_for(5.0)
    assert len(told.outcomes) == 1
    assert stored(world, 0) == []


def test_a_publication_waits_for_a_pending_removal_with_the_same_terms_and_others_do_not(monkeypatch):
    world = published(peers=3)
    hold_back(world, monkeypatch, lambda message: not indexes(message))
    removed = publish(world, world.nodes[0], INDEXED, removed=True, triples=TRIPLES[:1])
    same = publish(world, world.nodes[0], INDEXED, triples=[("<urn:s0>", "<urn:p>", '"new"')])
    back = publish(world, world.nodes[0], INDEXED, triples=TRIPLES[:1])
    other = publish(world, world.nodes[0], INDEXED, triples=[("<urn:other>", "<urn:p>", '"new"')])
    world.run_for(2.0)
    assert [len(each.outcomes) for each in (removed, same, back, other)] == [0, 0, 0, 1]
    monkeypatch.undo()
    world.run_for(30.0)
    assert [len(each.outcomes) for each in (removed, same, back, other)] == [1, 1, 1, 1]
    assert removed.outcomes[0].time < same.outcomes[0].time < back.outcomes[0].time
    new = {("<urn:s0>", "<urn:p>", '"new"'), ("<urn:other>", "<urn:p>", '"new"')}
    assert set(stored(world, 0)) == {*TRIPLES, *new}


def test_removals_are_forgotten_when_they_are_indexed():
    world = published()
    publish(world, world.nodes[0], INDEXED, removed=True)
    world.run_for(20.0)
    assert [node.peer.status()["redelivery_triples"] for node in world.nodes] == [0] * 6
