"""A peer that loses its disk, and is back before others notice, learns again which roles of events are in use."""

from __future__ import annotations

import pytest

from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.sim.world import WorldOptions
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

JOIN = ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), ("<urn:p>", "<urn:q>"), (0, 1, 2), ("x", "y", "z"))


@pytest.mark.parametrize("indexes", ["all", "cqc", "on-demand"])
@pytest.mark.parametrize("seconds", [0.0, 0.3, 10.0])
def test_events_published_there_are_joined_at_once_and_soon_under_their_own_roles(indexes: str, seconds: float) -> None:
    config = PeerConfig(indexes=indexes, hot_keys=False, replicas=3, copies_min=2, durable=True)
    world = FailingWorld(WorldOptions(peers=9, seed=1, config=config), Failures(publisher_crash_probability=0.0))
    world.run_for(8.0)
    unlucky, other = world.nodes[:2]
    algorithm = Algorithm.CQC if indexes == "cqc" else Algorithm.CSBV
    record = ResumingSubscriber("subscriber", JOIN, algorithm, per_event=True, lease_seconds=86_400.0)
    client = SubscriberClient(world, record, world._generator("subscriber"))
    client._elsewhere = lambda: other  # type: ignore[method-assign]
    client.connect()
    world.run_for(5.0)
    assert record.subscription is not None
    in_use = unlucky.peer.roles
    assert in_use == other.peer.roles != config.fixed_roles

    world.crash(unlucky)
    world.restart(unlucky, disk="lost")
    world.run_for(seconds)
    if seconds > 5.0:
        assert unlucky.peer.roles == in_use
    publisher = Publisher(world, "publisher", world._generator("publisher"))
    publisher._elsewhere = lambda: unlucky  # type: ignore[method-assign]
    publisher.publish(0.0, [("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:q>", '"1"')])
    world.run_for(20.0)
    assert record.rows == [("<urn:a>", "<urn:b>", '"1"')]
    assert not record.complaints
