"""Triples and rows that find their own way: to the owners, once learned directly, and never into a jam."""

from __future__ import annotations

import pytest

from p2prdf import keys
from p2prdf.peer import PeerConfig
from p2prdf.sim.faults import HARSH
from p2prdf.sim.oracle import Oracle
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.workloads.random_queries import conjunctive_query
from schedules.checkers import check_answers, check_leftovers, check_placement, check_requests

P, Q = "<urn:p>", "<urn:q>"
PATH = conjunctive_query([("?x", P, "?y"), ("?y", Q, "?z")], ["?x", "?z"])


@pytest.fixture(params=["kademlia", "chord"])
def overlay(request) -> str:
    """One overlay after the other."""
    return request.param


def _world(overlay: str, peers: int, **config) -> World:
    config = {"indexes": "csbv", "multisend": "recursive", **config}
    return World(WorldOptions(peers=peers, seed=4, overlay=overlay, config=PeerConfig(**config)))


def _triples(count: int, first: int = 0) -> list[tuple[str, str, str]]:
    return [(f"<urn:s{at}>", P, f'"{at}"') for at in range(first, first + count)]


def _check(world: World) -> None:
    problems = check_requests(world) + check_leftovers(world) + check_placement(world)
    assert not problems, "\n".join(map(str, problems))
    assert not world.traces


def test_the_second_time_everything_goes_straight_to_its_owner(overlay: str):
    """Acknowledgements bring the owners along: no lookup was needed for that."""
    world = _world(overlay, 300)
    triples = _triples(3)
    owners = {
        world.ring.owner(keys.role_key(role, *(keys.term_hash(term) for term in triple))).key
        for triple in triples for role in range(1, 8)
    } - {world.nodes[0].contact.key}  # fmt: skip
    sent = []
    for _ in range(2):
        world.publish(0.0, 0, triples)
        before = world.counts.messages["IndexTriples"]
        world.run_until_quiet()
        sent.append(world.counts.messages["IndexTriples"] - before)
    assert sent[0] > len(owners)
    assert world.counts.corrections > 0
    assert world.counts.data_transfers == sum(sent)
    assert sent[1] == len(owners)
    assert world.counts.lookups == 0
    _check(world)


def test_it_costs_fewer_transfers_than_looking_owners_up(overlay: str):
    costs = {}
    for multisend in ("direct", "recursive"):
        world = _world(overlay, 300, multisend=multisend, address_cache=False)
        for peer in range(10):
            world.publish(0.0, peer, _triples(5, first=5 * peer))
        world.run_until_quiet()
        _check(world)
        costs[multisend] = world.counts.hops - world.counts.acknowledgements
    assert costs["recursive"] < costs["direct"] / 3


@pytest.mark.parametrize("cache", [True, False], ids=["address cache", "no address cache"])
def test_rows_arrive_through_all_faults_of_the_network(overlay: str, cache: bool):
    config = PeerConfig(multisend="recursive", address_cache=cache)
    world = World(WorldOptions(peers=60, seed=4, overlay=overlay, bucket=2, config=config, faults=HARSH))
    subscriber = world.subscribe(0.0, 7, PATH)
    world.run_until(lambda: subscriber.opened_at is not None)
    triples = _triples(10) + [(f'<urn:o{at}>', Q, f'"{at}"') for at in range(10)]
    triples += [(f"<urn:x{at}>", P, f"<urn:o{at % 10}>") for at in range(20)]
    for at, triple in enumerate(triples):
        world.publish(0.02 * at, at % 60, [triple])
    world.run_until_quiet()
    problems = check_answers(subscriber, Oracle(world.log()))
    assert not problems, "\n".join(map(str, problems))
    assert len(subscriber.rows) == 20
    assert sum(int(str(node.peer.status()["forwarded"])) for node in world.nodes) > 20
    _check(world)
