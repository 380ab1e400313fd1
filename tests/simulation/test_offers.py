"""Misplaced items are offered to their replicas: once, as long as these are there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from p2prdf.columns import as_list
from p2prdf.peer import PeerConfig
from p2prdf.sim.world import WorldOptions
from p2prdf.wire.messages import Fetch, IdentityList
from schedules.failures.clients import Publisher
from schedules.failures.options import Failures
from schedules.failures.replicas import difference
from schedules.failures.world import FailingWorld

PEERS = 5


class Watched(FailingWorld):
    """Counts unasked offers, and the items fetched from them."""

    offered = wanted = 0

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.offered_to = Counter()

    def send(self, node, to, envelope):
        message = envelope.message
        if isinstance(message, IdentityList) and not message.asked:
            self.offered += len(as_list(message.identities))
            self.offered_to[to.key] += len(as_list(message.identities))
        elif isinstance(message, Fetch) and not message.asked:
            self.wanted += len(as_list(message.identities))
        super().send(node, to, envelope)


@pytest.fixture(params=["lists", "arrays"])
def world(request) -> Watched:
    """Return five peers at rest that hold some triples, three copies of each."""
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    options = WorldOptions(peers=PEERS, seed=2, config=config, tables=request.param)
    world = Watched(options, replace(Failures(), publisher_crash_probability=0.0))
    world.run_for(8.0)
    publisher = Publisher(world, "publisher", world._generator("publisher"))
    publisher.publish(0.0, [(f"<urn:s{n}>", f"<urn:p{n % 7}>", f'"{n}"') for n in range(120)])
    world.run_for(20.0)
    assert publisher.published[0].stamps
    assert difference(world) is None
    return world


def _away(world: Watched, index: int) -> int:
    """Let a peer crash and come back; return how much is offered for it."""
    before = world.offered
    world.crash(world.nodes[index])
    world.run_for(10.0)  # long enough for the others to take its place
    world.restart(world.nodes[index])
    world.run_for(20.0)
    assert world.views.true()
    assert difference(world) is None
    return world.offered - before


def test_an_item_is_offered_once_and_again_only_after_a_restart_or_an_absence(world: Watched):
    first = _away(world, 1)
    assert first > 0  # the others have the returned one's items
    again = [_away(world, 1) for _ in range(2)]
    assert all(each < first / 3 for each in again)
    assert world.wanted < first / 10, "whoever keeps it has it"


def test_items_are_offered_again_to_a_peer_back_without_its_disk_before_anybody_noticed(world: Watched):
    _away(world, 1)  # others have offered its items, and it has reported to have them
    node = world.nodes[1]
    before, views = world.offered_to[node.contact.key], world.view_changes
    world.crash(node)
    world.restart(node, disk="lost")
    world.run_for(20.0)
    assert world.view_changes == views
    assert difference(world) is None
    assert world.offered_to[node.contact.key] > before, "the others may have the only copies"
