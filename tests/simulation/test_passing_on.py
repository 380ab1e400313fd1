"""Messages that reach a peer which does not own their keys: passed on, and acknowledged when they have arrived."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import permutations

import pytest

from p2prdf.peer import PeerConfig
from p2prdf.sim.faults import CALM, HARSH, Faults
from p2prdf.sim.oracle import Oracle
from p2prdf.sim.world import Node, World, WorldOptions
from p2prdf.wire.contract import ContactLost
from p2prdf.wire.messages import Acknowledge, Envelope, IndexTriples, NotOwner
from p2prdf_lab.workloads.random_queries import conjunctive_query
from schedules.checkers import check_answers, check_leftovers, check_placement, check_requests

P, Q = "<urn:p>", "<urn:q>"
PATH = conjunctive_query([("?x", P, "?y"), ("?y", Q, "?z")], ["?x", "?z"])
BACK = conjunctive_query([("?x", P, "?y"), ("?z", P, "?y")], ["?x", "?z"])
SINGLE = [conjunctive_query([(f"<urn:x{at}>", P, "?y")], ["?y"]) for at in range(12)]
TRIPLES = [(f"<urn:x{at}>", P, f"<urn:y{at % 3}>") for at in range(12)] + [
    (f"<urn:y{at}>", Q, f'"{at}"') for at in range(3)
]


@pytest.fixture(params=["kademlia", "chord"])
def overlay(request) -> str:
    """One overlay after the other."""
    return request.param


@dataclass
class Stale:
    """A world of three in which the publisher never sees the owner again, and sends to the relay instead."""

    world: World
    owner: Node
    relay: Node
    publisher: Node

    @classmethod
    def of(cls, overlay: str, faults: Faults = CALM, multisend: str = "direct") -> Stale:
        config = PeerConfig(multisend=multisend)
        world = World(WorldOptions(peers=3, seed=2, overlay=overlay, config=config, faults=faults))
        for owner, relay, publisher in permutations(world.nodes):
            # The relay would own all keys of the owner without it.
            if overlay == "chord" and world.ring.owner((owner.contact.key + 1) % 2**64) == relay.contact:
                break
            near, far = (owner.contact.key ^ other.contact.key for other in (relay, publisher))
            if overlay == "kademlia" and near < far:
                break
        world.tap = lambda _, envelope: None if isinstance(envelope.message, NotOwner) else envelope
        world.submit(publisher, ContactLost(owner.contact))
        return cls(world, owner, relay, publisher)


@pytest.mark.parametrize("faults", [CALM, HARSH], ids=["calm", "harsh"])
def test_misrouted_messages_are_passed_on_and_nothing_is_missed(overlay: str, faults: Faults):
    """Triples, rows, queries, answers and requests of clients, all by way of the relay."""
    stale = Stale.of(overlay, faults)
    world = stale.world
    kinds: Counter[str] = Counter()

    def tap(_: Node, envelope: Envelope) -> Envelope | None:
        if isinstance(envelope.message, NotOwner):
            return None
        kinds[type(envelope.message).__name__] += getattr(envelope.message, "hops", 0) > 0
        return envelope

    world.tap = tap
    subscribers = [world.subscribe(0.0, stale.publisher.index, query) for query in (PATH, BACK, *SINGLE)]
    world.run_until_quiet()
    for at, triple in enumerate(TRIPLES):
        world.publish(0.1 * at, stale.publisher.index, [triple])
    world.run_until_quiet()
    problems = check_requests(world) + check_leftovers(world) + check_placement(world)
    for subscriber in subscribers:
        problems += check_answers(subscriber, Oracle(world.log()))
    assert not problems, "\n".join(map(str, problems))
    assert all(subscriber.rows for subscriber in subscribers)
    passed_on = {kind for kind, times in kinds.items() if times}
    assert passed_on >= {"IndexTriples", "Forward", "IndexQuery", "Answers", "OpenSubscription", "Delivered"}
    assert int(str(stale.relay.peer.status()["forwarded"])) > 0


def test_a_publication_is_acknowledged_when_its_owner_has_it_and_not_when_a_relay_has(overlay: str):
    """Until then repetitions of it end at the relay, which repeats to the owner on its own account."""
    stale = Stale.of(overlay)
    world, owner, relay, publisher = stale.world, stale.owner, stale.relay, stale.publisher
    silent = True
    sent: Counter[tuple[int, int]] = Counter()

    def tap(node: Node, envelope: Envelope) -> Envelope | None:
        if isinstance(envelope.message, NotOwner):
            return None
        if silent and node is owner and isinstance(envelope.message, Acknowledge):
            return None
        if isinstance(envelope.message, IndexTriples):
            sent[node.index, envelope.transfer] += 1
        return envelope

    world.tap = tap
    publishing = world.publish(0.0, publisher.index, TRIPLES)
    world.run_for(60.0)
    assert int(str(owner.peer.status()["triples"])) > 0
    assert int(str(relay.peer.status()["forwarding"])) == 1
    assert publishing.completed_at is None
    assert len(sent) == 2  # from the publisher to the relay, and from the relay to the owner
    assert all(times > 5 for (index, _), times in sent.items() if index == relay.index)
    silent = False
    world.run_until_quiet()
    assert publishing.completed_at is not None
    assert check_placement(world) + check_leftovers(world) == []
    assert int(str(relay.peer.status()["forwarding"])) == 0


def test_a_circle_of_full_windows_does_not_wait_for_itself():
    """None of three sees its successor, and each sends that one's messages to the third: all at once, one at a time."""
    config = PeerConfig(window_transfers=1, batch_rows_max=1)
    world = World(WorldOptions(peers=3, seed=2, overlay="chord", config=config))
    world.tap = lambda _, envelope: None if isinstance(envelope.message, NotOwner) else envelope
    for node in world.nodes:
        world.submit(node, ContactLost(world.ring.owner((node.contact.key + 1) % 2**64)))
    for node in world.nodes:
        world.publish(0.0, node.index, TRIPLES)
    world.run_until_quiet()
    problems = check_requests(world) + check_placement(world) + check_leftovers(world)
    assert not problems, "\n".join(map(str, problems))
    assert all(int(str(node.peer.status()["forwarded"])) > 1 for node in world.nodes)


@pytest.mark.parametrize("multisend", ["direct", "recursive"])
def test_a_message_being_passed_on_to_a_lost_peer_is_acknowledged_by_the_new_owner(overlay, multisend: str):
    stale = Stale.of(overlay, multisend=multisend)
    world, owner, relay = stale.world, stale.owner, stale.relay

    def tap(node: Node, envelope: Envelope) -> Envelope | None:
        return None if isinstance(envelope.message, NotOwner) or node is owner else envelope

    world.tap = tap
    subscriber = world.subscribe(0.0, relay.index, PATH)
    publishing = world.publish(0.0, stale.publisher.index, TRIPLES)
    world.run_for(5.0)
    assert int(str(relay.peer.status()["forwarding"])) > 0
    assert publishing.completed_at is None
    for node in world.nodes:
        world.submit(node, ContactLost(owner.contact))
    world.run_for(60.0)
    assert publishing.completed_at is not None
    assert int(str(relay.peer.status()["forwarding"])) == 0
    assert subscriber.opened_at is not None
    assert check_answers(subscriber, Oracle(world.log())) == []
