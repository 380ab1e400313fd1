"""A subscription reported as live is known to enough peers, and misses nothing that they had not heard of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from p2prdf import keys
from p2prdf.continuous.identities import home_key
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.world import Node, WorldOptions
from p2prdf.wire.messages import Envelope
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.links import around
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

PEERS = 3


@pytest.fixture
def world() -> FailingWorld:
    """Return three peers at rest, all of which keep everything; two copies are needed."""
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    world = FailingWorld(WorldOptions(peers=PEERS, seed=1, config=config), Failures(publisher_crash_probability=0.0))
    world.run_for(8.0)
    return world


def query_at(world: FailingWorld, home_at: Node, joined_at: Node) -> ConjunctiveQuery:
    """Return a query with one peer as the primary of its coordinator, and its one pattern at another."""
    for number in range(1000):
        query = ConjunctiveQuery(((0, ~0, 1),), (f"<urn:p{number}>",), (0, 1), ("s", "o"))
        role = keys.role_key(keys.P, 0, keys.term_hash(query.constants[0]), 0)
        home = home_key(query, Algorithm.CSBV, per_event=False)
        if [world.ring.closest(key, 1) for key in (home, role)] == [(home_at.peer.contact,), (joined_at.peer.contact,)]:
            return query
    raise AssertionError("no such query")


def subscriber(world: FailingWorld, name: str, query: ConjunctiveQuery, node: Node) -> SubscriberClient:
    """Return a client that connects to one peer alone."""
    record = ResumingSubscriber(name, query, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
    client = SubscriberClient(world, record, world._generator(name))
    client._elsewhere = lambda: node if world.alive(node) else None  # type: ignore[method-assign]
    client.connect()
    return client


def subscribed(world: FailingWorld, query: ConjunctiveQuery, node: Node) -> tuple[SubscriberClient, int, int]:
    """Return a client of one peer that is subscribed, its subscription's number, and that of the query's group."""
    client = subscriber(world, "subscriber", query, node)
    world.run_for(3.0)
    number = client.record.subscription
    assert number is not None
    return client, number, node.peer._coordinator.home.subscriptions[number].group.identity


def test_a_query_is_not_live_while_one_peer_alone_keeps_it(world: FailingWorld):
    """A message in flight to a lost peer is no copy."""
    a, b, c = world.nodes
    world.crash(b)
    world.run_for(5.0)
    query = query_at(world, a, a)
    world.cut(around(c.index, range(PEERS)), noticed=False, why="so that nothing arrives")
    client = subscriber(world, "subscriber", query, a)
    world.run_for(0.3)
    world.crash(c)
    world.run_for(6.0)
    assert world.views.true()
    assert client.record.subscription is None
    world.mend(around(c.index, range(PEERS)), noticed=False)
    world.restart(b)
    world.run_for(10.0)
    assert client.record.subscription is not None
    b_home = b.peer._coordinator.home
    assert client.record.subscription in b_home.subscriptions


def test_solutions_known_to_other_replicas_alone_come_later(world: FailingWorld):
    """Two of three know one of two subscriptions of a query: one was away, the other has lost its disk."""
    a, b, c = world.nodes
    query = query_at(world, a, b)
    first = subscriber(world, "first", query, b)
    world.run_for(3.0)
    assert first.record.subscription is not None
    world.crash(b)
    world.run_for(5.0)
    second = subscriber(world, "second", query, a)
    world.run_for(5.0)
    assert second.record.subscription is not None
    world.cut(around(a.index, range(PEERS)), noticed=True, why="it is alone")
    world.crash(c)
    world.restart(c, disk="lost")
    world.restart(b)
    world.run_for(8.0)
    assert not any(second.record.subscription in node.peer._coordinator.home.subscriptions for node in (b, c))
    publisher = Publisher(world, "publisher", world._generator("publisher"))
    publisher._elsewhere = lambda: b  # type: ignore[method-assign]
    publisher.publish(0.0, [("<urn:a>", query.constants[0], '"1"')])
    world.run_for(10.0)
    assert publisher.published[0].stamps
    assert first.record.rows == [("<urn:a>", '"1"')]
    assert second.record.rows == []
    world.mend(around(a.index, range(PEERS)), noticed=True)
    world.run_for(20.0)
    assert second.record.rows == [("<urn:a>", '"1"')]
    assert first.record.rows == [("<urn:a>", '"1"')]
    assert not first.record.complaints + second.record.complaints


def test_a_subscription_without_its_group_is_not_disseminated_and_ends_with_the_next_change(world: FailingWorld):
    """Its group was ended at a peer without it, while the group had no primary (seed 8860)."""
    a, b, c = world.nodes
    query = query_at(world, a, a)
    client = subscriber(world, "subscriber", query, b)
    world.run_for(3.0)
    number = client.record.subscription
    assert client.attached
    assert number is not None
    homes = [node.peer._coordinator.home for node in world.nodes]
    group = homes[0].subscriptions[number].group
    clock = a.peer._messenger.clock
    for home in homes:
        assert [each.number for each in home.take_end(group.identity, clock, subscription=False)] == [number]
    before = world.counts.hops
    world.send(a, b.contact, Envelope(1, 0, homes[0].record_of(homes[0].subscriptions[number])))
    world.run_for(5.0)
    assert world.counts.hops - before < 100
    world.crash(c)
    world.run_for(10.0)
    assert not any(number in home.subscriptions for home in homes[:2])


def test_a_group_that_others_may_have_joined_is_not_ended_while_they_are_missing(world: FailingWorld):
    """Its last subscription known here is; the group is when nobody is missing any more, or for long."""
    a, b, c = world.nodes
    query = query_at(world, a, a)
    client, number, group = subscribed(world, query, b)
    home = a.peer._coordinator.home
    world.crash(c)
    world.run_for(5.0)
    client.unsubscribe()
    world.run_for(5.0)
    assert home.ends.has(number, subscription=True)
    assert not home.ends.has(group, subscription=False)
    world.run_for(20.0)
    for node in (a, b):
        assert node.peer._coordinator.home.ends.has(group, subscription=False)
        assert not node.peer._tables.sizes().groups


def published(world: FailingWorld, query: ConjunctiveQuery, node: Node, count: int) -> None:
    """Publish triples that match a query, at one peer."""
    publisher = Publisher(world, f"publisher at {node.index}", world._generator("publisher"))
    publisher._elsewhere = lambda: node  # type: ignore[method-assign]
    for number in range(count):
        publisher.publish(0.1 * number, [(f"<urn:s{number}>", query.constants[0], '"1"')])


def test_answers_to_an_orphaned_query_are_not_held_and_it_ends_when_all_replicas_have_heard(world: FailingWorld):
    """One of three hears nothing for a while, and no other notices; the others go on, and the query with them."""
    a, b, c = world.nodes
    query = query_at(world, a, b)
    client, _, group = subscribed(world, query, b)
    home = a.peer._coordinator.home
    world.cut(around(c.index, range(PEERS)), noticed=False, why="it hears nothing")
    client.unsubscribe()
    world.run_for(2.0)
    assert client.record.closed_at is not None
    published(world, query, b, 20)
    world.run_for(4.0)
    assert not home.ends.has(group, subscription=False)
    assert [node.peer._coordinator.unknown.rows for node in (a, b)] == [0, 0]
    world.mend(around(c.index, range(PEERS)), noticed=False)
    world.run_for(10.0)
    for node in world.nodes:
        assert node.peer._coordinator.home.ends.has(group, subscription=False)
        assert not node.peer._coordinator.home.left
        assert not node.peer._tables.sizes().groups


@pytest.mark.parametrize("standing", [False, True])
def test_a_query_that_was_left_is_so_after_a_restart_from_a_snapshot_as_well(world: FailingWorld, standing: bool):
    """A subscription in another part of the network may wait for the answers."""
    a, b, c = world.nodes
    query = query_at(world, a, b)
    text = f"SELECT ?s {{ ?s {query.constants[0]} ?o MINUS {{ ?s <urn:not> ?o }} }}"
    client, number, group = subscribed(world, parse_query(text) if standing else query, b)
    published(world, query, b, 3)
    world.run_for(3.0)
    record = a.peer._coordinator.home.record_of(a.peer._coordinator.home.subscriptions[number])
    other = replace(record, subscription=number ^ 1, opening=record.opening + 1)
    world.cut(around(c.index, range(PEERS)), noticed=False, why="it hears nothing")
    client.unsubscribe()
    world.run_for(2.0)
    before = a.peer._coordinator.home.left[group]
    recorded, answers = before.youngest, before.leaves[0].answers
    assert recorded
    for _ in range(2):
        world.compact(a)
        world.run_for(1.0)
        world.crash(a)
        world.restart(a)
        home = a.peer._coordinator.home
        assert list(home.left) == [group]
        assert not home.subscriptions
        assert home.ends.has(number, subscription=True)
    after = home.left[group]
    if answers is not None:
        assert len(answers) == 3
        assert (after.leaves[0].answers.identity, after.leaves[0].answers.oldest) == (answers.identity, answers.oldest)
    assert home.comes_late(other) == (not standing)
    kept, _ = home.keep(other, world.now)
    assert kept is not None
    assert kept.group is after


@pytest.mark.parametrize("left", [False, True])
def test_answers_owed_since_a_snapshot_are_owed_after_a_restart_as_well(world: FailingWorld, left: bool):
    """A subscription heard of after the snapshot may be owed earlier answers; they have not been derived again yet."""
    a, b, c = world.nodes
    query = query_at(world, a, b)
    client, number, _ = subscribed(world, query, b)
    published(world, query, b, 3)
    world.run_for(3.0)
    record = a.peer._coordinator.home.record_of(a.peer._coordinator.home.subscriptions[number])
    world.cut(around(c.index, range(PEERS)), noticed=False, why="it hears nothing")
    if left:
        client.unsubscribe()
        world.run_for(2.0)
    world.compact(a)
    world.run_for(1.0)
    assert not a.peer._coordinator.owes
    other = replace(record, subscription=number ^ 1, opening=record.opening + 1)
    world._carry_out(a, a.peer.receive(Envelope(0, 0, other), sender=c.peer.contact, now=world.now))
    assert a.peer._coordinator.owes
    world.run_for(0.2)
    world.crash(a)
    world.restart(a)
    assert a.peer._coordinator.owes


def test_a_restart_from_a_snapshot_derives_nothing_again_that_all_replicas_have(world: FailingWorld):
    """All subscriptions of a query are restored one after the other, and answers were recorded before."""
    a, b, _ = world.nodes
    query = query_at(world, a, b)
    clients = [subscriber(world, f"subscriber {number}", query, b) for number in range(3)]
    world.run_for(3.0)
    published(world, query, b, 3)
    world.run_for(3.0)
    assert [len(client.record.rows) for client in clients] == [3, 3, 3]
    world.compact(a)
    world.run_for(3.0)
    world.crash(a)
    world.restart(a)
    assert len(a.peer._coordinator.home.subscriptions) == 3
    assert not a.peer._coordinator.owes
    groups = {each.group.identity: each.group for each in a.peer._coordinator.home.subscriptions.values()}
    assert all(group.recorded for group in groups.values()), "but who is heard of later may be owed them"


def test_a_primary_that_knows_a_groups_end_ends_a_subscription_of_it_that_others_keep(world: FailingWorld):
    """It would refuse their items of it for ever, and never be in sync."""
    a, b, c = world.nodes
    query = query_at(world, a, a)
    client = subscriber(world, "subscriber", query, b)
    world.run_for(3.0)
    number = client.record.subscription
    assert number is not None
    publisher = Publisher(world, "publisher", world._generator("publisher"))
    publisher._elsewhere = lambda: b  # type: ignore[method-assign]
    publisher.publish(0.0, [("<urn:a>", query.constants[0], '"1"')])
    world.run_for(3.0)
    assert client.record.rows
    home = a.peer._coordinator.home
    group = home.subscriptions[number].group.identity
    home.take_end(group, a.peer._messenger.clock, subscription=False)
    home._forget(number)
    world.crash(c)
    world.run_for(5.0)
    world.restart(c)
    world.run_for(20.0)
    assert all(node.peer._messenger.recovery.caught_up for node in world.nodes)
    assert not any(number in node.peer._coordinator.home.subscriptions for node in world.nodes)
    assert len(client.record.complaints) == 1, "it is told that it is gone"
