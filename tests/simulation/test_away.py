"""Peers that were away for longer than others wait, or do not see each other for long."""

from __future__ import annotations

from random import Random

import pytest

from p2prdf.continuous.identities import home_key, subscription_home
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.sim.world import WorldOptions
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

ANSWERS = 20


class _Story:
    """Three peers, two of which keep a subscription; the first crashes before its deliveries are acknowledged.

    The second and the third acknowledge them without the first, for they wait for it no longer.
    """

    def __init__(self, seed: int):
        config = PeerConfig(hot_keys=False, replicas=2, copies_min=2, durable=True)
        self.world = world = FailingWorld(WorldOptions(peers=3, seed=seed, config=config), Failures(living_only=True))
        self.predicate, query = next(
            (name, query)
            for name in (f"<urn:p{number}>" for number in range(500))
            for query in [ConjunctiveQuery(((0, ~0, 1),), (name,), (0, 1), ("s", "o"))]
            if self._keepers(query) == world.nodes[:2]
        )
        self.record = ResumingSubscriber("subscriber", query, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
        self.client = SubscriberClient(world, self.record, world._generator("subscriber"))
        self.client.connect()
        world.run_for(8.0)
        self._published = 0
        self.publish(ANSWERS)
        world.run_for(0.12)

    def _keepers(self, query: ConjunctiveQuery):
        key = subscription_home(home_key(query, Algorithm.CSBV, per_event=False))
        return [self.world.by_key[contact.key] for contact in self.world.ring.closest(key, 2)]

    def publish(self, count: int) -> None:
        publisher = Publisher(self.world, f"publisher {self._published}", Random(7))
        for number in range(self._published, self._published + count):
            publisher.publish(0.0, [(f"<urn:s{number}>", self.predicate, '"1"')])
        self._published += count

    def settled_without_the_first(self) -> None:
        self.world.run_for(24.0)
        self.publish(1)
        self.world.run_for(10.0)
        assert len(self.record.rows) == ANSWERS + 1
        assert not self.record.unsettled, "the subscriber remembers nothing any more"

    def in_step(self) -> list[bool]:
        return [bool(node.peer.status()["in_sync"]) for node in self.world.living()]

    def ends_well(self) -> None:
        self.world.run_for(30.0)
        assert all(self.in_step())
        assert len(self.record.rows) == ANSWERS + 1
        assert self.record.complaints == []


@pytest.mark.parametrize("seed", [1, 3])
def test_a_peer_that_was_away_hands_over_data_that_it_alone_has(seed: int):
    """It lacks the latest acknowledgements, but holds the only remaining copy; the others wait for it."""
    story = _Story(seed)
    world = story.world
    first, second, third = world.nodes
    world.crash(first)
    story.settled_without_the_first()
    world.crash(third)
    world.run_for(14.0)
    world.crash(second)
    world.run_for(1.0)
    world.restart(first)
    world.restart(second, disk="lost")
    world.run_for(9.0)
    assert not any(story.in_step())
    world.restart(third)
    story.ends_well()


@pytest.mark.parametrize("peers", [3, 5])
def test_two_that_do_not_see_each_other_come_to_rest_though_others_see_both(peers: int):
    """Each redelivers publications got from the other, which it takes for lost, so they would go back and forth."""
    config = PeerConfig(hot_keys=False, replicas=peers - 1, copies_min=2, durable=True)
    world = FailingWorld(WorldOptions(peers=peers, seed=1, config=config), Failures(living_only=True))
    world.run_for(8.0)
    world.cut(((0, 1), (1, 0)), noticed=True, why="bridge")
    world.run_for(5.0)
    for index in (0, 1):
        publisher = Publisher(world, f"publisher {index}", Random(7))
        publisher._elsewhere = lambda index=index: world.nodes[index]  # type: ignore[method-assign]
        for number in range(40):
            publisher.publish(0.2 * number, [(f"<urn:s{index}>", "<urn:p>", f'"{number}"')])
    world.run_for(50.0)
    assert [node.peer._engine.redelivery.remembered for node in world.nodes] == [0] * peers
