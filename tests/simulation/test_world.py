"""The world keeps the duties of a driver: time, network, lookups, clients, and rest."""

from __future__ import annotations

import dataclasses

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm
from p2prdf.sim.faults import CALM, HARSH, Faults
from p2prdf.sim.oracle import Oracle
from p2prdf.sim.virtual_time import Restless
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.workloads.random_queries import conjunctive_query
from schedules.checkers import check_answers, check_leftovers, check_placement, check_requests

P, Q = "<urn:p>", "<urn:q>"
PATH = conjunctive_query([("?x", P, "?y"), ("?y", Q, "?z")], ["?x", "?z"])


def _pairs(count: int) -> list[tuple[str, str, str]]:
    triples = []
    for at in range(count):
        triples += [(f"<urn:x{at}>", P, f"<urn:y{at % 3}>"), (f"<urn:y{at % 3}>", Q, f'"{at}"')]
    return triples


@pytest.fixture(params=["kademlia", "chord"])
def overlay(request) -> str:
    """One overlay after the other."""
    return request.param


def _play(world: World, *, algorithm: Algorithm = Algorithm.CSBV):
    last = len(world.nodes) - 1
    subscriber = world.subscribe(0.0, last, PATH, algorithm)
    world.run_until(lambda: subscriber.opened_at is not None)
    triples = _pairs(9)
    for at in range(0, len(triples), 4):
        world.publish(0.01 * at, at % (last + 1), triples[at : at + 4])
    world.run_until_quiet()
    problems = check_requests(world) + check_leftovers(world) + check_placement(world)
    problems += check_answers(subscriber, Oracle(world.log()))
    assert not problems, "\n".join(map(str, problems))
    return subscriber


@pytest.mark.parametrize("tables", ["lists", "arrays", "mixed"])
@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda algorithm: algorithm.value)
@pytest.mark.parametrize("through_codec", [False, True], ids=["by reference", "through codec"])
def test_answers_do_not_depend_on_tables_algorithm_or_codec(tables, algorithm, through_codec: bool, overlay: str):
    options = WorldOptions(peers=9, seed=5, tables=tables, through_codec=through_codec, overlay=overlay)
    world = World(options)
    subscriber = _play(world, algorithm=algorithm)
    assert subscriber.rows
    assert (world.counts.bytes > 0) == through_codec


@pytest.mark.parametrize("peers", [1, 2, 30])
@pytest.mark.parametrize("cache", [True, False], ids=["address cache", "no address cache"])
def test_answers_do_not_depend_on_ring_size_or_address_cache(peers: int, cache: bool, overlay: str):
    config = PeerConfig(address_cache=cache)
    subscriber = _play(World(WorldOptions(peers=peers, seed=2, config=config, faults=HARSH, overlay=overlay)))
    assert subscriber.rows


def test_one_peer_needs_no_network(overlay: str):
    world = World(WorldOptions(peers=1, overlay=overlay))
    _play(world)
    assert world.counts.hops == 0


def test_hops_are_counted_by_content(overlay: str):
    world = World(WorldOptions(peers=40, seed=1, overlay=overlay))
    _play(world)
    counts = world.counts
    assert counts.lookup_requests > 0
    assert counts.lookup_replies <= counts.lookup_requests
    replies = (counts.lookup_replies, counts.acknowledgements, counts.corrections)
    assert counts.data_transfers + counts.lookup_requests + sum(replies) == counts.hops
    assert counts.hops_without_replies == counts.data_transfers + counts.lookup_requests
    assert (counts.lost, counts.duplicated, counts.delayed, counts.lookup_timeouts) == (0, 0, 0, 0)


def test_lookups_find_the_truly_closest_peers_also_when_messages_are_lost(overlay: str):
    faults = Faults(delay_min_seconds=0.01, delay_max_seconds=0.4, loss_probability=0.2)
    world = World(WorldOptions(peers=120, seed=8, faults=faults, bucket=5, overlay=overlay))
    found = []
    world.submit = lambda node, request: found.append((node, request))  # type: ignore[method-assign]
    for at in range(60):
        world.lookups.start(world.nodes[at], (at * 0x9E3779B97F4A7C15) % 2**64)
    world.run_until_quiet()
    assert len(found) == 60
    for _, outcome in found:
        assert outcome.contacts == world.ring.closest(outcome.key, 5)
        assert outcome.before == (world.ring.before(outcome.key) if overlay == "chord" else None)
        assert not outcome.complete
    assert world.counts.lookup_timeouts > 0


def test_a_lookup_in_a_small_world_is_complete(overlay: str):
    world = World(WorldOptions(peers=4, seed=8, overlay=overlay))
    found = []
    world.submit = lambda _, request: found.append(request)  # type: ignore[method-assign]
    world.lookups.start(world.nodes[0], 1 << 63)
    world.run_until_quiet()
    assert [(len(outcome.contacts), outcome.complete) for outcome in found] == [(4, True)]


def test_a_key_that_is_being_looked_up_is_not_looked_up_twice(overlay: str):
    world = World(WorldOptions(peers=40, seed=8, overlay=overlay))
    found = []
    world.submit = lambda _, request: found.append(request)  # type: ignore[method-assign]
    world.lookups.start(world.nodes[0], 1 << 63)
    world.lookups.start(world.nodes[0], 1 << 63)
    world.run_until_quiet()
    assert len(found) == 1
    assert world.counts.lookup_requests > 0


def test_clocks_that_are_wrong_change_no_answer(overlay: str):
    faults = dataclasses.replace(CALM, skew_seconds_max=0.4)
    world = World(WorldOptions(peers=7, seed=3, overlay=overlay, faults=faults))
    assert len({node.skew for node in world.nodes}) == 7
    _play(world)


def test_rest_is_reached_with_far_leases_and_time_has_not_run_to_them():
    world = World(WorldOptions(peers=3))
    start = world.now
    _play(world)
    assert world.quiet
    assert world.now - start < 60
    assert any(node.peer.deadline is not None for node in world.nodes)


def test_an_ended_subscription_gets_nothing_more(overlay: str):
    world = World(WorldOptions(peers=7, seed=6, overlay=overlay))
    subscriber = _play(world)
    held = len(subscriber.rows)
    world.unsubscribe(0.0, subscriber)
    world.run_until_quiet()
    assert subscriber.closed_at is not None
    world.publish(0.0, 2, [("<urn:new>", P, "<urn:y0>")])
    world.run_until_quiet()
    assert len(subscriber.rows) == held
    assert not subscriber.complaints
    assert sum(int(str(node.peer.status()["subscriptions_coordinated"])) for node in world.nodes) == 0


def test_a_subscription_with_a_connected_subscriber_outlives_its_lease(overlay: str):
    world = World(WorldOptions(peers=5, seed=4, overlay=overlay))
    subscriber = world.subscribe(0.0, 0, PATH, lease_seconds=30.0)
    world.run_for(400.0)
    world.publish(0.0, 1, _pairs(2))
    world.run_for(30.0)
    assert check_answers(subscriber, Oracle(world.log())) == []
    assert subscriber.rows


def test_a_world_without_rest_is_stopped_and_names_the_continuing_work():
    world = World(WorldOptions(peers=2, seed=1, events_max=500))

    def again() -> None:
        world.schedule(0.001, again)

    world.schedule(0.0, again)
    with pytest.raises(Restless, match=r"501 events and no rest: .* 1 transfers"):
        world.run_until_quiet()


def test_a_world_that_takes_too_long_is_stopped():
    world = World(WorldOptions(peers=2, seed=1))
    world.schedule(500.0, lambda: None)
    with pytest.raises(Restless, match="did not come to rest in 100 s"):
        world.run_until_quiet(limit_seconds=100.0)
    with pytest.raises(Restless, match="did not come true in 600 s"):
        world.run_until(lambda: False, limit_seconds=600.0)


def test_a_peer_that_wants_to_be_woken_for_ever_is_detected():
    world = World(WorldOptions(peers=1))
    node = world.nodes[0]

    class Spinning(type(node.peer)):  # type: ignore[misc]
        deadline = property(lambda _: 0.0)

    node.peer.__class__ = Spinning
    world.schedule(0.0, world._arm, node)
    with pytest.raises(Restless, match="peer 0 spins"):
        world.run_until_quiet()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (WorldOptions(peers=0), "0 peers"),
        (WorldOptions(bucket=0), "0 contacts"),
        (WorldOptions(overlay="can"), "overlay 'can'"),
        (WorldOptions(config=PeerConfig(overlay="chord")), "'chord' in a world of 'kademlia'"),
        (WorldOptions(faults=Faults(loss_probability=2.0)), "loss_probability"),
    ],
)
def test_impossible_worlds_are_refused(options: WorldOptions, named: str):
    with pytest.raises(LocalProtocolError, match=named):
        World(options)
