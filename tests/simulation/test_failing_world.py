"""The world applies its faults to processes, disks, links and views, and clients recover from them."""

from __future__ import annotations

import dataclasses

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.peer import PeerConfig
from p2prdf.sim.world import Node, WorldOptions
from p2prdf.wire.contract import Persist, Send
from p2prdf.wire.messages import Acknowledge, AdvertiseIndexes, Contact, Envelope, IndexesRequest
from schedules.failures.clients import Publisher
from schedules.failures.links import around
from schedules.failures.options import Failures
from schedules.failures.world import FAILPOINTS, FailingWorld

TRIPLES = [("<urn:a>", "<urn:p>", '"1"'), ("<urn:b>", "<urn:p>", '"2"')]


def _world(peers: int = 3, **changes) -> FailingWorld:
    options = WorldOptions(peers=peers, seed=1, config=PeerConfig(hot_keys=False))
    return FailingWorld(options, dataclasses.replace(Failures(kept_probability=0.0), **changes))


def _sent(world: FailingWorld) -> list[int]:
    """Return a list that collects the transfer numbers of all messages sent from now on."""
    sent: list[int] = []
    world.tap = lambda _, envelope: sent.append(envelope.transfer)  # type: ignore[func-returns-value]
    return sent


def _send(world: FailingWorld, number: int, to: int = 1) -> Send:
    return Send(world.nodes[to].contact, Envelope(number, 0, IndexesRequest()))


def test_effects_after_a_record_leave_in_order_when_it_is_on_the_disk():
    world = _world(sync_min_seconds=0.01, sync_max_seconds=0.01)
    world.run_for(1.0)
    node, sent = world.nodes[0], _sent(world)
    world._carry_out(node, [_send(world, 1), Persist(AdvertiseIndexes(1)), _send(world, 2)])
    assert sent == [1]
    world._carry_out(node, [_send(world, 3)])
    world.run_for(0.005)
    world._carry_out(node, [Persist(AdvertiseIndexes(2)), _send(world, 4)])
    assert sent == [1]
    world.run_for(0.006)
    assert sent == [1, 2, 3], "the second record came while the first one's sync ran: it waits for the next"
    world.run_for(0.01)
    assert sent == [1, 2, 3, 4]
    world._carry_out(node, [_send(world, 5)])
    assert sent[-1] == 5
    assert world.machines[0].disk.durable == [AdvertiseIndexes(1), AdvertiseIndexes(2)]


def test_a_crash_loses_effects_that_wait_for_the_disk_and_unsynced_records():
    world = _world()
    world.run_for(1.0)
    node, sent = world.nodes[0], _sent(world)
    world._carry_out(node, [Persist(AdvertiseIndexes(1)), _send(world, 1)])
    world.crash(node)
    world.run_for(1.0)
    assert not sent
    assert not world.machines[0].disk.durable
    assert node.timer is None


def test_envelopes_that_come_while_a_peer_works_wait_and_are_lost_with_its_process():
    """They have the term identifiers of that process: to the next one they would be other triples."""
    world = _world()
    world.run_for(1.0)
    node, sender = world.nodes[0], world.nodes[1].contact
    for crashes in (False, True):
        sent = _sent(world)
        node.busy_until = world.now + 0.01
        world._receive(node, Envelope(7, 0, IndexesRequest()), sender)
        assert not sent
        if crashes:
            world.crash(node)
            world.restart(node)
        answers = []
        world.tap = lambda at, envelope, answers=answers: answers.append((at, envelope.message))  # type: ignore[misc]
        world.run_for(0.02)
        acknowledged = [
            message for at, message in answers
            if at is node and isinstance(message, Acknowledge) and 7 in list(message.transfers)
        ]  # fmt: skip
        assert len(acknowledged) == (0 if crashes else 1)


def test_a_crash_may_keep_a_prefix_of_the_unsynced_records():
    kept = set()
    for seed in range(20):
        options = WorldOptions(peers=1, seed=seed, config=PeerConfig(hot_keys=False))
        world = FailingWorld(options, Failures(kept_probability=1.0))
        world._carry_out(world.nodes[0], [Persist(AdvertiseIndexes(number)) for number in range(1, 4)])
        world.crash(world.nodes[0])
        durable = world.machines[0].disk.durable
        assert durable == [AdvertiseIndexes(number) for number in range(1, len(durable) + 1)]
        kept.add(len(durable))
    assert kept == {0, 1, 2, 3}


def test_a_dead_peer_and_an_address_left_behind_get_nothing():
    world = _world()
    world.run_for(4.0)
    node, old = world.nodes[1], world.nodes[1].contact
    world.crash(node)
    lost = world.counts.lost
    world._carry_out(world.nodes[0], [_send(world, 1)])
    assert world.counts.lost == lost + 1
    world.restart(node, moved=True)
    assert (node.contact.key, node.contact.host) != (old.key, old.host)
    world._carry_out(world.nodes[0], [Send(old, Envelope(2, 0, IndexesRequest()))])
    assert world.counts.lost == lost + 2
    world._carry_out(world.nodes[0], [_send(world, 3)])
    assert world.counts.lost == lost + 2


def test_a_cut_link_carries_nothing_and_drops_messages_in_flight():
    world = _world()
    world.run_for(4.0)
    received: list[int] = []
    original = world._receive

    def noting(node: Node, envelope: Envelope, sender: Contact) -> None:
        if world._arrives(node, sender) and 0 < envelope.transfer < 10:
            received.append(envelope.transfer)
        original(node, envelope, sender)

    world._receive = noting  # type: ignore[method-assign]
    world._carry_out(world.nodes[0], [_send(world, 1)])
    cut = around(1, [0, 1, 2])
    world.cut(cut, noticed=False, why="cut")
    world._carry_out(world.nodes[0], [_send(world, 2)])
    world.run_for(0.1)
    assert not received
    world.mend(cut, noticed=False)
    world._carry_out(world.nodes[0], [_send(world, 3)])
    world.run_for(0.1)
    assert received == [3]


def test_views_follow_the_truth_late_and_unevenly():
    world = _world(peers=9)
    world.run_for(4.0)
    assert world.views.true()
    node = world.nodes[4]
    world.crash(node)
    world.run_for(1.5)
    believing = [other for other in world.living() if node.contact.key in world.views.of(other)]
    assert 0 < len(believing) < 8
    world.run_for(2.0)
    assert world.views.true()
    world.restart(node, moved=True)
    world.run_for(4.0)
    assert world.views.true()


def test_a_cut_that_is_not_noticed_changes_no_view_and_a_noticed_one_does():
    world = _world(peers=4)
    world.run_for(4.0)
    cut = around(0, range(4))
    world.cut(cut, noticed=False, why="cut")
    world.run_for(5.0)
    assert world.views.true()
    world.mend(cut, noticed=False)
    world.cut(cut, noticed=True, why="cut")
    world.run_for(5.0)
    assert len(world.views.of(world.nodes[0])) == 1
    assert len(world.views.of(world.nodes[1])) == 3
    world.mend(cut, noticed=True)
    world.run_for(2.0)
    assert world.views.true()


def test_a_false_alarm_ends():
    world = _world()
    world.run_for(4.0)
    world.views.suspect(world.nodes[0], world.nodes[1], 1.0)
    assert not world.views.true()
    world.run_for(1.1)
    assert world.views.true()


@pytest.mark.parametrize("where", FAILPOINTS)
def test_a_failpoint_strikes_where_it_is_set(where: str):
    world = _world()
    world.run_for(4.0)
    node, sent = world.nodes[0], _sent(world)
    world.arm_failpoint(node, where, 2)
    effects = [Persist(AdvertiseIndexes(1)), _send(world, 1), Persist(AdvertiseIndexes(2)), _send(world, 2),
        _send(world, 3)]
    world._carry_out(node, effects)
    world.run_for(0.05)
    if where == "synced":  # one sync was enough for both
        assert world.alive(node)
        world._carry_out(node, [Persist(AdvertiseIndexes(3)), _send(world, 4)])
        world.run_for(0.05)
    if where == "view":
        assert world.alive(node)
        world.views.suspect(node, world.nodes[1], 0.1)
        world.run_for(0.2)
    expected = {"written": [], "synced": [1, 2, 3], "send": [1], "effect": [1], "view": [1, 2, 3]}
    assert [number for number in sent if number] == expected[where]
    assert not world.alive(node)
    assert world.happened[f"failpoint {where}"] == 1


def test_a_publisher_goes_on_at_other_peers_until_it_is_acknowledged():
    world = _world()
    publisher = Publisher(world, "p", world._generator("p"))
    publishing = publisher.publish(1.0, TRIPLES)
    for node in world.nodes:
        world.crash(node)
    world.run_for(10.0)
    assert publishing.open
    assert publishing.attempts > 2
    for node in world.nodes:
        world.restart(node)
    world.run_for(10.0)
    assert len(publishing.stamps) == 1
    assert [publication.triple for publication in publishing.log()] == TRIPLES


def test_a_publisher_that_is_gone_is_owed_nothing_and_tries_no_more():
    world = _world(publisher_crash_probability=1.0)
    publisher = Publisher(world, "p", world._generator("p"))
    publishing = publisher.publish(0.0, TRIPLES)
    world.run_for(0.0)
    for node in world.nodes:
        world.crash(node)
    world.run_for(0.5)
    for node in world.nodes:
        world.restart(node)
    attempts = publishing.attempts
    world.run_for(20.0)
    assert publishing.gone
    assert publishing.attempts == attempts
    assert not publishing.log()


@pytest.mark.parametrize(
    ("failures", "named"),
    [
        (Failures(kept_probability=1.5), "kept_probability=1.5"),
        (Failures(sync_min_seconds=-1.0), "sync_min_seconds=-1.0"),
        (Failures(down_min_seconds=7.0), "down_min_seconds=7.0 is above"),
        (Failures(weights={"meteor": 1.0}), "'meteor'"),
    ],
)
def test_meaningless_failures_are_refused_by_name(failures: Failures, named: str):
    with pytest.raises(LocalProtocolError, match=named):
        failures.validate()
