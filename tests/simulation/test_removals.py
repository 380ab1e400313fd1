"""Triples are removed during fault schedules: subscribers end with the true solutions, and each change comes once."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from reads.peers import Peers

from p2prdf import hlc
from p2prdf.peer import PeerConfig
from p2prdf.peer.joins.engine import OVER_SECONDS, SAME_RING_SECONDS
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.sim.world import Node, WorldOptions
from p2prdf.store.intervals import LATE
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.scenario import Verdict, draw_bad_day, run_bad_day, with_removals
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

SEEDS = range(60, 66)


def run(seed: int) -> Verdict:
    return run_bad_day(replace(with_removals(draw_bad_day(seed)), per_event=False))


def test_answers_are_retracted_through_all_faults():
    withdrawn = 0
    for seed in SEEDS:
        verdict = run(seed)
        assert verdict.good, verdict.report()
        withdrawn += verdict.happened.get("withdrawn", 0)
    assert withdrawn > 3 * len(SEEDS)


def test_publication_events_stay_though_their_triples_are_removed():
    for seed in SEEDS[:3]:
        day = with_removals(draw_bad_day(seed))
        failures = replace(day.failures, standing=False, texts=False)  # their queries are answered per triple
        verdict = run_bad_day(replace(day, failures=failures, per_event=True))
        assert verdict.good, verdict.report()
        assert "withdrawn" not in verdict.happened


def test_removals_work_as_ever_where_long_ended_rows_are_left_alone():
    """In a ring with stable membership for ten minutes; a removal then retracts answers to earlier publications."""
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    world = FailingWorld(WorldOptions(peers=4, seed=3, config=config), Failures(publisher_crash_probability=0.0))
    world.run_for(5.0)
    query = ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), ("<urn:p>", "<urn:q>"), (0, 2), ("a", "c"))
    record = ResumingSubscriber("subscriber", query, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
    SubscriberClient(world, record, Random(1)).connect()
    publisher = Publisher(world, "publisher", Random(2))
    known, named = ("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:q>", '"B"')
    world.run_for(5.0)
    publisher.publish(0.0, [known, named])
    world.run_for(5.0)
    assert record.bag == {("<urn:a>", '"B"'): 1}
    world.run_for(SAME_RING_SECONDS)
    for _ in range(3):
        for triple in (known, named):
            publisher.publish(0.0, [triple], removed=True)
            world.run_for(5.0)
            assert not record.bag
            publisher.publish(0.0, [triple])
            world.run_for(5.0)
            assert record.bag == {("<urn:a>", '"B"'): 1}
        world.run_for(2 * OVER_SECONDS)
    assert all(node.peer._tables.over_before > 0 for node in world.nodes)
    assert (len(record.rows), len(record.withdrawn), record.complaints) == (7, 6, [])


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_a_removal_that_some_keepers_never_heard_of_makes_no_answer_come_twice(tables):
    """It went under the index key in use then, before the query; the primary of another key has it from a replica."""
    config = PeerConfig(indexes="on-demand", hot_keys=False, replicas=3, copies_min=2, durable=True)
    options = WorldOptions(peers=6, seed=8, config=config, tables=tables)
    world = FailingWorld(options, Failures(publisher_crash_probability=0.0))
    world.run_for(5.0)
    publisher = Publisher(world, "publisher", Random(2))
    triple = ("<urn:a8>", "<urn:p>", "<urn:b>")

    def subscribe(query: ConjunctiveQuery, number: int) -> ResumingSubscriber:
        record = ResumingSubscriber(f"{number}", query, Algorithm.CSBV, per_event=False, lease_seconds=86_400.0)
        SubscriberClient(world, record, Random(number)).connect()
        world.run_for(5.0)
        return record

    subscribe(ConjunctiveQuery(((0, ~0, 1),), ("<urn:p>",), (0, 1), ("s", "o")), 1)
    for removed in (False, True):
        publisher.publish(0.0, [triple], removed=removed)
        world.run_for(5.0)
    world.run_for(2 * hlc.seconds(LATE))
    record = subscribe(ConjunctiveQuery(((~0, 0, 1),), ("<urn:a8>",), (0, 1), ("p", "o")), 3)
    publisher.publish(0.0, [triple])
    world.run_for(30.0)
    assert record.bag == {("<urn:p>", "<urn:b>"): 1}
    assert len(record.withdrawn) == 1, "the primary took it for what had been removed"
    publisher.publish(0.0, [triple], removed=True)
    world.run_for(30.0)
    assert not record.bag
    assert not record.complaints


INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
TWO = "SELECT ?t ?h { ?s <urn:temp> ?t ; <urn:hum> ?h }"
THREE = "SELECT ?r { ?r <urn:door> ?o ; <urn:door> ?p ; <urn:lamp> ?q }"


def work(peers: Peers) -> tuple[int, int]:
    """Return the number of pairs joined by all peers, and the number of solutions reported to coordinators."""
    nodes = [node.peer for node in peers.world.nodes]
    return sum(each._tables.sizes().joined for each in nodes), sum(int(each.status()["solutions"]) for each in nodes)


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_a_value_replaced_many_times_costs_as_much_as_its_changes(tables):
    """A standing query and one asked once: pairs in proportion to the changes, not to the square of their number."""
    peers = Peers("kademlia", tables=tables)
    client = peers.subscribe(TWO)
    old: list[tuple[str, str, str]] = []
    count = 30
    for number in range(count):
        if old:
            peers.publish(old, removed=True)
        old = [("<urn:s>", f"<urn:{name}>", f'"{number}"{INTEGER}') for name in ("temp", "hum")]
        peers.publish(old)
    peers.until_told([client])
    newest = f'"{count - 1}"{INTEGER}'
    assert client.record.bag == {(newest, newest): 1}
    assert not client.record.complaints
    joined, told = work(peers)
    assert joined < 6 * count
    assert told < 3 * 3 * count
    assert peers.read(TWO)[0] == {(newest, newest): 1}
    again, told_again = work(peers)
    assert again - joined <= 4
    assert told_again - told <= 3


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_a_peer_that_was_a_replica_for_another_joins_no_rows_from_that_time(tables):
    """It still holds the rows, and learns of a new publication under other indexes, but not of the rows' ends."""
    peers = Peers("kademlia", tables=tables)
    client = peers.subscribe(TWO)
    away = peers.world.nodes[0]
    subjects = [f"<urn:s{number}>" for number in range(15)]
    temperatures, humidities = ([(each, f"<urn:{name}>", '"1"') for each in subjects] for name in ("temp", "hum"))
    peers.world.crash(away)
    peers.world.run_for(15.0)
    peers.publish([*temperatures, *humidities])
    peers.publish(humidities, removed=True)
    peers.world.restart(away)
    peers.world.run_for(30.0)
    assert all(node.peer._tables.settled for node in peers.world.nodes)
    peers.publish(temperatures, removed=True)
    peers.publish(humidities)
    peers.world.run_for(5.0)
    assert not client.record.bag
    peers.publish(temperatures)
    peers.world.run_for(5.0)
    assert client.record.bag == {('"1"', '"1"'): len(subjects)}
    assert not client.record.complaints


def replaced(peers: Peers, count: int) -> list[tuple[str, str, str]]:
    """Replace two values of one subject ``count`` times and return the last ones."""
    old: list[tuple[str, str, str]] = []
    for number in range(count):
        if old:
            peers.publish(old, removed=True)
        old = [("<urn:s>", f"<urn:{name}>", f'"{number}"{INTEGER}') for name in ("temp", "hum")]
        peers.publish(old)
    return old


QUIET_SECONDS = 5.0


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_values_replaced_in_the_past_cost_nothing_after_a_failover(tables):
    """Each peer crashes and comes back in turn; recomputation leaves the pairs of deleted values out."""
    peers = Peers("kademlia", tables=tables)
    world = peers.world
    client = peers.subscribe(TWO)
    replaced(peers, 25)
    peers.until_told([client])
    world.run_for(QUIET_SECONDS)
    assert all(node.peer._tables.stable_before > node.peer._tables.latest_end for node in world.nodes)
    joined = told = 0
    for node in world.nodes:
        world.crash(node)
        for seconds in (5.0, 5.0):
            before = {each.index: work_of(each) for each in world.living()}
            world.run_for(seconds)
            after = {each.index: work_of(each) for each in world.living()}
            joined += sum(after[index][0] - before[index][0] for index in before)
            told += sum(after[index][1] - before[index][1] for index in before)
            if not world.alive(node):
                world.restart(node)
                before = {}
        joined += work_of(node)[0]
        told += work_of(node)[1]
    newest = f'"24"{INTEGER}'
    assert client.record.bag == {(newest, newest): 1}
    assert not client.record.complaints
    assert joined <= 4 * len(world.nodes)
    # three coordinators restore their records: each value's solution and its retraction
    assert told <= 4 * len(world.nodes) + 3 * 2 * 25


def work_of(node: Node) -> tuple[int, int]:
    """Return the number of pairs joined by a peer, and the number of solutions reported to it."""
    return node.peer._tables.sizes().joined, int(node.peer.status()["solutions"])


def test_a_triple_deleted_while_a_peer_was_away_is_not_stable_when_the_peer_returns():
    """The peer returns with the triple; it is the primary until it has compared, and makes a solution of it."""
    peers = Peers("kademlia")
    world = peers.world
    client = peers.subscribe(TWO)
    last = replaced(peers, 3)
    peers.until_told([client])
    away = world.nodes[peers.random.randrange(7)]
    world.crash(away)
    world.run_for(10.0)
    peers.publish(last[:1], removed=True)
    world.run_for(QUIET_SECONDS)
    others = [node.peer._tables for node in world.living()]
    assert all(tables.stable_before > tables.latest_end for tables in others)
    world.restart(away)
    world.run_until(lambda: all(not tables.stable_before for tables in others))
    peers.publish([("<urn:s>", "<urn:hum>", '"9"')])
    world.run_for(2 * QUIET_SECONDS)
    assert all(node.peer._tables.stable_before > node.peer._tables.latest_end for node in world.nodes)
    assert not client.record.bag
    assert not client.record.complaints


def test_three_patterns_on_triples_that_came_and_went_make_no_rows():
    peers = Peers("kademlia")
    toggled = [("<urn:r>", "<urn:door>", '"open"'), ("<urn:r>", "<urn:lamp>", '"on"')]
    for _ in range(25):
        peers.publish(toggled)
        peers.publish(toggled, removed=True)
    before = work(peers)
    assert not peers.read(THREE)[0]
    assert work(peers) == before


def test_four_of_ten_schedules_have_removals():
    assert 90 < sum(draw_bad_day(seed).failures.removals for seed in range(300)) < 150
