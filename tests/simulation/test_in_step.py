"""Which peers may be primaries of subscriptions, and when, while peers come and go."""

from __future__ import annotations

from itertools import permutations
from random import Random
from types import SimpleNamespace

import pytest

from p2prdf import keys
from p2prdf.continuous.identities import home_key, subscription_home
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.quorum import RecoveryState
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.sim.world import Node, WorldOptions
from p2prdf.wire import contract
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.links import around
from schedules.failures.mischief import _Leaving
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

PEERS = 5
QUERY = ConjunctiveQuery(((0, ~0, 1),), ("<urn:p>",), (0, 1), ("s", "o"))


@pytest.fixture
def world() -> FailingWorld:
    """Return five peers at rest."""
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    world = FailingWorld(WorldOptions(peers=PEERS, seed=1, config=config), Failures(living_only=True))
    world.run_for(8.0)
    assert all(map(_in_step, world.living()))
    return world


def _in_step(node: Node) -> bool:
    return bool(node.peer.status()["in_sync"])


def _join_in_silence(world: FailingWorld, key: int) -> Node:
    """Let a peer come that all see and that says nothing."""
    newcomer = world.join(key)
    world.cut(around(newcomer.index, range(PEERS + 1)), noticed=False, why="silent")
    world.run_for(4.0)
    assert world.views.true()
    return newcomer


def test_a_peer_not_compared_with_a_newcomer_is_not_in_sync(world: FailingWorld):
    newcomer = _join_in_silence(world, 1 << 63)
    out_of_step = [node for node in world.living() if not _in_step(node)]
    assert newcomer in out_of_step
    assert len(out_of_step) > 1
    world.mend(around(newcomer.index, range(PEERS + 1)), noticed=False)
    world.run_for(8.0)
    assert all(map(_in_step, world.living()))


def _silent(world: FailingWorld, node: Node, others: list[Node]) -> None:
    links = {(one.index, other.index) for each in others for one, other in ((node, each), (each, node))}
    world.cut(tuple(sorted(links)), noticed=False, why="silent")


def _lacks(*nodes: Node) -> list[int]:
    return [each.peer._messenger.members.lacks for each in nodes]


def _published(world: FailingWorld, count: int) -> None:
    publisher = Publisher(world, "publisher", Random(7))
    for number in range(count):
        publisher.publish(0.0, [(f"<urn:s{number}>", "<urn:p>", '"1"')])
    world.run_for(8.0)


def _back_with_nothing(world: FailingWorld, node: Node, silent_to: list[Node]) -> None:
    """Have a peer lose its disk, and come back without any message of some others."""
    world.crash(node)
    world.run_for(4.0)
    _silent(world, node, silent_to)
    world.restart(node, disk="lost")
    world.run_for(4.0)
    assert world.views.true()


def test_a_peer_that_lost_its_data_counts_as_missing(world: FailingWorld):
    """Of three replicas of a key one lost its disk, and the others are away: no remaining peer may be its primary."""
    a, b, c, d, e = world.nodes
    _published(world, 20)
    _back_with_nothing(world, a, [b, c])
    assert _lacks(a, d, e) == [RecoveryState.SUBSCRIPTIONS, RecoveryState.COMPLETE, RecoveryState.COMPLETE]
    assert all(map(_in_step, (d, e))), "one of the three is enough, and two are there"
    world.crash(b)
    world.crash(c)
    world.run_for(4.0)
    assert world.views.true()
    assert not any(map(_in_step, (a, d, e)))
    world.mend(tuple(permutations((a.index, b.index, c.index), 2)), noticed=False)
    world.restart(b)
    world.run_for(8.0)
    assert all(map(_in_step, (a, b, d, e)))
    world.restart(c)
    world.run_for(16.0)
    assert _lacks(a, b, c, d, e) == [RecoveryState.COMPLETE] * 5
    assert not any(each.peer._messenger.members.lacking for each in world.nodes)


@pytest.mark.parametrize("again", [False, True])
def test_two_empty_peers_learn_nothing_from_each_other(world: FailingWorld, again: bool):
    """They meet first, after a power cut or while others went on; the peers with data are away."""
    a, b, c, d, e = world.nodes
    _published(world, 20)
    for node in world.nodes if again else (a, b, c):
        world.crash(node)
    world.run_for(4.0)
    for node in (a, c):
        world.restart(node, disk="lost")
    world.run_for(3.0)
    if again:
        world.restart(d)
        world.restart(e)
        world.run_for(4.0)
    assert world.views.true()
    assert _lacks(a, c) == [RecoveryState.SUBSCRIPTIONS] * 2
    assert not any(map(_in_step, (a, c, d, e)))
    world.restart(b)
    world.run_for(16.0)
    assert all(map(_in_step, world.nodes))
    assert _lacks(*world.nodes) == [RecoveryState.COMPLETE] * 5


def test_peers_that_start_empty_together_do_not_wait_for_one_that_goes(world: FailingWorld):
    """None of them was there before, so nothing is lost."""
    for node in world.nodes:
        world.crash(node)
    for node in world.nodes:
        world.machines[node.index].disk.lose()
        world.restart(node)
    world.run_for(2.0)
    world.crash(world.nodes[0])
    world.run_for(4.5)
    assert all(map(_in_step, world.living()))
    assert not any(node.peer._messenger.members.copies_missing for node in world.living())


def test_a_peer_killed_right_after_the_first_start_of_all_takes_nobody_for_new(world: FailingWorld):
    """It may hold data that others lost while it was away.  So these wait when one more goes, until that is back."""
    for node in world.nodes:
        world.crash(node)
    for node in world.nodes:
        world.machines[node.index].disk.lose()
        world.restart(node)
    world.run_for(1.0)
    first, second, *_ = world.nodes
    world.crash(first)
    world.run_for(0.5)
    world.restart(first)
    world.run_for(1.0)
    assert all(node.peer._messenger.members.returned for node in world.living() if node is not first)
    assert all(map(_in_step, world.living()))
    world.crash(second)
    world.run_for(4.5)
    assert not any(map(_in_step, world.living()))
    world.restart(second)
    world.run_for(8.0)
    assert all(map(_in_step, world.living()))
    assert not any(node.peer._messenger.members.lacking for node in world.living())


def test_a_peer_that_lost_its_disk_before_its_crash_was_noticed_is_told_so(world: FailingWorld):
    a = world.nodes[0]
    world.run_for(1.0)
    world.crash(a)
    world.restart(a, disk="lost")
    world.run_for(0.5)
    assert not world.views.false_alarms
    assert a.peer._messenger.members.returned
    assert all(node.peer._messenger.members.knows_before(a.contact) for node in world.nodes[1:])


@pytest.mark.parametrize("indexes", ["all", "on-demand"])
def test_a_peer_with_an_empty_disk_that_sees_nobody_is_not_the_first_of_a_network(indexes: str):
    """It has seeds; when they are back it has neither reported nor acknowledged anything.

    Nor does it take a query that it has not heard of for one without subscriptions.
    """
    config = PeerConfig(
        indexes=indexes, hot_keys=False, replicas=2, copies_min=2, durable=True, has_seeds=True, settle_seconds=0.0
    )
    world = FailingWorld(WorldOptions(peers=2, seed=1, config=config), Failures(living_only=True))
    record = ResumingSubscriber("subscriber", QUERY, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
    SubscriberClient(world, record, world._generator("subscriber")).connect()
    world.run_for(8.0)
    a, b = world.nodes
    assert _lacks(a, b) == [RecoveryState.COMPLETE] * 2
    _published(world, 2)
    assert len(record.rows) == 2
    world.crash(a)
    world.crash(b)
    world.restart(a, disk="lost")
    publisher = Publisher(world, "publisher", Random(8))
    publisher._elsewhere = lambda: a  # type: ignore[method-assign]
    publishing = publisher.publish(0.0, [("<urn:late>", "<urn:p>", '"1"')])
    world.run_for(15.0)
    assert not _in_step(a)
    assert a.peer.short_of_peers
    assert not publishing.stamps
    world.restart(b)
    world.run_for(15.0)
    assert all(map(_in_step, (a, b)))
    assert sorted(record.rows) == [("<urn:late>", '"1"'), ("<urn:s0>", '"1"'), ("<urn:s1>", '"1"')]


def test_an_empty_peer_with_seeds_that_never_come_is_no_network_by_itself():
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True, has_seeds=True)
    world = FailingWorld(WorldOptions(peers=2, seed=1, config=config), Failures(living_only=True))
    one, other = world.nodes
    world.crash(one)
    world.crash(other)
    world.restart(one, disk="lost")
    publishing = Publisher(world, "publisher", Random(8)).publish(0.0, [("<urn:s>", "<urn:p>", '"1"')])
    world.run_for(19.0)
    assert not _in_step(one)
    assert not publishing.stamps
    world.run_for(300.0)
    assert not _in_step(one)
    assert not publishing.stamps


@pytest.mark.parametrize("peers", [1, 3])
def test_peers_that_see_all_their_seeds_are_the_first_of_a_network_at_once(peers: int):
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True, has_seeds=True)
    world = FailingWorld(WorldOptions(peers=peers, seed=1, config=config), Failures(living_only=True))
    publishing = Publisher(world, "publisher", Random(8)).publish(0.0, [("<urn:s>", "<urn:p>", '"1"')])
    world.run_for(1.0)
    assert all(map(_in_step, world.nodes))
    assert publishing.stamps


@pytest.mark.parametrize(("copies_min", "lost"), [(2, 1), (3, 2)])
def test_two_empty_disks_that_meet_are_not_the_first_of_a_network_while_others_are_away(copies_min: int, lost: int):
    """Both were lost, or one is a newcomer's; neither takes a query unknown to it for one without subscriptions."""
    config = PeerConfig(
        indexes="on-demand", hot_keys=False, replicas=3, copies_min=copies_min, durable=True, has_seeds=True,
        settle_seconds=0.0,
    )  # fmt: skip
    world = FailingWorld(WorldOptions(peers=4, seed=1, config=config), Failures(living_only=True))
    record = ResumingSubscriber("subscriber", QUERY, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
    SubscriberClient(world, record, world._generator("subscriber")).connect()
    world.run_for(8.0)
    for node in world.nodes:
        world.crash(node)
    for node in world.nodes[:lost]:
        world.restart(node, disk="lost")
    empty = [*world.nodes[:lost], *((world.join(1 << 63),) if lost == 1 else ())]
    publisher = Publisher(world, "publisher", Random(8))
    publisher._elsewhere = lambda: empty[0]  # type: ignore[method-assign]
    publishing = publisher.publish(9.0, [("<urn:late>", "<urn:p>", '"1"')])
    world.run_for(16.0)
    assert not any(map(_in_step, empty))
    assert bool(publishing.stamps) <= (copies_min == 2), "two disks are enough then, under all roles"
    for node in empty:
        world.crash(node)
    for node in world.nodes:
        world.restart(node)
    world.run_for(20.0)
    assert all(map(_in_step, world.nodes))
    assert record.rows == [("<urn:late>", '"1"')]
    assert record.closed_at is None


@pytest.mark.parametrize("again", [False, True])
def test_an_empty_peer_hears_the_former_number_of_peers_while_others_are_away(world: FailingWorld, again: bool):
    """It never saw them, and whether it starts once more makes no difference."""
    a, b, c, d, e = world.nodes
    for node in (a, b, c):
        world.crash(node)
    world.run_for(4.0)
    world.restart(a, disk="lost")
    world.run_for(3.0)
    if again:
        world.crash(a)
        world.restart(a)
        world.run_for(3.0)
    assert world.views.true()
    assert not any(map(_in_step, (a, d, e)))
    world.restart(b)
    world.run_for(8.0)
    assert all(map(_in_step, (a, b, d, e)))


def test_a_lone_peer_completes_no_recovery_by_itself(world: FailingWorld):
    """After a power cut the peer with the empty disk starts first: being alone does not complete its recovery."""
    a, b, c, d, e = world.nodes
    for node in world.nodes:
        world.crash(node)
    world.restart(a, disk="lost")
    world.run_for(4.0)
    assert _lacks(a) == [RecoveryState.SUBSCRIPTIONS]
    world.restart(d)
    world.restart(e)
    world.run_for(4.0)
    assert not any(map(_in_step, (a, d, e)))
    world.restart(b)
    world.restart(c)
    world.run_for(8.0)
    assert all(map(_in_step, world.nodes))


def test_replica_without_data_is_not_counted_towards_quorum(world: FailingWorld):
    """Peers come, and one goes for good: the peers in sync go on, for others hold all that the empty one ever knew."""
    for key in (1 << 62, 3 << 61, 5 << 60):
        newcomer = world.join(key)
        _silent(world, newcomer, list(world.nodes[:PEERS]))
    world.run_for(4.0)
    world.crash(world.nodes[0])
    for at in range(PEERS, len(world.nodes)):
        world.mend(around(at, range(len(world.nodes))), noticed=False)
    world.run_for(6.0)
    assert all(map(_in_step, world.living()))


@pytest.mark.parametrize("seen", [True, False])
def test_a_peer_that_leaves_without_its_lost_data_has_not_handed_all_over(world: FailingWorld, seen: bool):
    """Whether it saw the peers that hold them, or has heard of them alone."""
    a, b, c, d, e = world.nodes
    if seen:
        _back_with_nothing(world, a, [b, c])
    for node in (b, c) if seen else (a, b, c):
        world.crash(node)
    world.run_for(4.0)
    if not seen:
        world.restart(a, disk="lost")
        world.run_for(3.0)
    outcomes: list[contract.Outcome] = []
    client = SimpleNamespace(completed=lambda _, __, outcome: outcomes.append(outcome))
    world.request(a, contract.Leave, client)
    world.run_for(6.0)
    assert outcomes == [contract.Left(handed_over=False)]
    assert not any(map(_in_step, (d, e)))


def test_a_restart_does_not_complete_the_recovery_of_an_empty_peer(world: FailingWorld):
    a, b, c, d, e = world.nodes
    _back_with_nothing(world, a, [b, c, d, e])
    for lacks in (RecoveryState.SUBSCRIPTIONS, RecoveryState.COMPLETE):
        for compacted in (False, True):
            if compacted:
                world.compact(a)
                world.run_for(4.0)
            world.crash(a)
            world.restart(a)
            assert _lacks(a) == [lacks]
            world.run_for(1.0)
        world.mend(around(a.index, range(PEERS)), noticed=False)
        world.run_for(12.0)


@pytest.mark.parametrize(("seconds", "lacks"), [(10.0, RecoveryState.COMPLETE), (25.0, RecoveryState.SUBSCRIPTIONS)])
def test_a_peer_away_beyond_the_waiting_time_lacks_the_later_acknowledgements(
    world: FailingWorld, seconds: float, lacks: RecoveryState
):
    a = world.nodes[0]
    _published(world, 20)
    world.crash(a)
    world.run_for(seconds)
    world.restart(a)
    assert _lacks(a) == [lacks]
    assert a.peer._messenger.members.returned == bool(lacks)
    world.run_for(0.1)
    world.crash(a)  # it has no acknowledgements yet, and its disk says so
    world.restart(a)
    assert _lacks(a) == [lacks]
    world.run_for(12.0)
    assert all(map(_in_step, world.nodes))
    assert _lacks(*world.nodes) == [RecoveryState.COMPLETE] * PEERS


def test_when_peers_only_go_a_peer_compared_with_the_others_is_in_sync_at_once(world: FailingWorld):
    newcomer = _join_in_silence(world, 1 << 63)
    waiting = [node for node in world.living() if node is not newcomer and not _in_step(node)]
    assert waiting
    world.cut(tuple(permutations(range(PEERS), 2)), noticed=False, why="so that nothing more is compared")
    world.crash(newcomer)
    world.run_for(4.0)
    assert world.views.true()
    assert all(map(_in_step, waiting))


def test_a_simultaneous_loss_of_all_replicas_of_a_key_is_waited_for(world: FailingWorld):
    gone, left = world.nodes[:3], world.nodes[3:]
    for node in gone[:2]:
        world.crash(node)
    world.run_for(4.0)
    assert world.views.true()
    assert all(map(_in_step, left)), "of every three one is left"
    world.crash(gone[2])
    world.run_for(4.0)
    assert world.views.true()
    assert not any(map(_in_step, left))
    world.restart(gone[0])
    world.run_for(8.0)
    assert all(map(_in_step, world.living()))


def test_a_peer_that_does_not_come_back_is_not_waited_for_forever(world: FailingWorld):
    for node in world.nodes[:3]:
        world.crash(node)
    world.run_for(10.0)
    assert not any(map(_in_step, world.living()))
    world.run_for(20.0)
    assert all(map(_in_step, world.living()))


def test_a_primary_goes_on_notifying_while_a_newcomer_is_silent(world: FailingWorld):
    record = ResumingSubscriber("subscriber", QUERY, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
    SubscriberClient(world, record, world._generator("subscriber")).connect()
    world.run_for(3.0)
    assert record.subscription is not None
    role = keys.role_key(keys.P, 0, keys.term_hash("<urn:p>"), 0)
    home = subscription_home(record.subscription)
    (primary,) = world.ring.closest(home, 1)
    key = next(
        key
        for key in (keys.fmix(each) for each in range(1, 1000))
        if all(world.ring.closest(place, 1)[0].key ^ place < key ^ place for place in (home, role))
    )
    _join_in_silence(world, key)
    assert not _in_step(world.by_key[primary.key])
    publisher = Publisher(world, "publisher", world._generator("publisher"))
    publisher._elsewhere = lambda: world.nodes[0]  # type: ignore[method-assign]
    publisher.publish(0.0, [("<urn:a>", "<urn:p>", '"1"')])
    while not record.rows and world.now < world.started + 60.0:
        world.run_for(0.1)
    assert not _in_step(world.by_key[primary.key])
    assert record.rows == [("<urn:a>", '"1"')]


@pytest.mark.parametrize("mended", [False, True])
def test_a_former_primary_notifies_until_the_new_one_has_data(world: FailingWorld, mended: bool):
    """The newcomer has no data yet: the former primary goes on until it has, 20 s at most, and no longer."""
    for predicate in map("<urn:p{}>".format, range(100)):
        query = ConjunctiveQuery(((0, ~0, 1),), (predicate,), (0, 1), ("s", "o"))
        role = keys.role_key(keys.P, 0, keys.term_hash(predicate), 0)
        home = subscription_home(home_key(query, Algorithm.CSBV, per_event=False))
        (before,), (joining,) = (world.ring.closest(each, 1) for each in (home, role))
        if before != joining:
            break
    record = ResumingSubscriber("subscriber", query, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
    SubscriberClient(world, record, world._generator("subscriber")).connect()
    world.run_for(3.0)
    assert record.subscription is not None
    assert subscription_home(record.subscription) == home
    newcomer = world.join(home ^ 1)
    assert world.ring.closest(home, 1) == (newcomer.peer.contact,)
    assert world.ring.closest(role, 1) == (joining,)
    world.cut(around(newcomer.index, range(PEERS + 1)), noticed=False, why="silent")
    publisher = Publisher(world, "publisher", world._generator("publisher"))
    publisher._elsewhere = lambda: world.nodes[0]  # type: ignore[method-assign]
    while world.by_key[before.key].peer._messenger.placement.rank(home) == 0:
        world.run_for(0.01)
    for number in range(4):
        publisher.publish(0.0, [(f"<urn:a{number}>", predicate, '"1"')])
        world.run_for(4.5)
        assert len(record.rows) == number + 1
    assert world.by_key[before.key].peer._coordinator.home.subscriptions[record.subscription].until
    if mended:
        world.mend(around(newcomer.index, range(PEERS + 1)), noticed=False)
        world.run_for(2.0)
        assert _in_step(newcomer)
    world.run_for(4.0)
    publisher.publish(0.0, [("<urn:b>", predicate, '"2"')])
    world.run_for(1.0)
    assert not world.by_key[before.key].peer._coordinator.home.subscriptions[record.subscription].delivered
    assert len(record.rows) == (5 if mended else 4)
    world.mend(around(newcomer.index, range(PEERS + 1)), noticed=False)
    world.run_for(10.0)
    assert len(record.rows) == 5
    assert not record.complaints


def test_peers_that_left_in_order_are_not_missed_by_a_restarted_one(world: FailingWorld):
    """As many peers as a key has replicas have left: unlike lost ones, they are not waited for."""
    for node in world.nodes[:3]:
        world.request(node, contract.Leave, _Leaving(world))
        world.run_for(10.0)
        assert not world.alive(node)
    last = world.nodes[4]
    world.crash(last)
    world.run_for(4.0)
    world.restart(last)
    world.run_for(8.0)
    assert _in_step(last)
