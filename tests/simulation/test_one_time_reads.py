"""One-time queries read by the entry peer: cost, crashes and restarts at each step, clocks and cuts.

``python -m schedules --faults --days 'one-time queries'`` draws random queries and failures.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from reads.peers import Peers, Read

from p2prdf.peer.entry.one_time import GIVE_UP_SECONDS
from p2prdf.sim.faults import CALM

NETWORK = replace(CALM, delay_min_seconds=0.001, delay_max_seconds=0.001)
SHAPES = {
    "one pattern": "SELECT ?o WHERE { <urn:s1> <urn:p> ?o }",
    "star of three": "SELECT * WHERE { ?s <urn:p> ?a ; <urn:q> ?b ; <urn:r> ?c }",
    "path of three": "SELECT * WHERE { <urn:s1> <urn:p> ?a . ?a <urn:p> ?b . ?b <urn:p> ?c }",
    "aggregate": "SELECT (COUNT(*) AS ?n) WHERE { ?s <urn:p> ?a }",
    "OPTIONAL": "SELECT * WHERE { ?s <urn:q> ?a OPTIONAL { ?s <urn:r> ?b } }",
}
TRIPLES = [
    *((f"<urn:s{at}>", "<urn:p>", f"<urn:s{at + 1}>") for at in range(12)),
    *((f"<urn:s{at}>", "<urn:q>", f"<urn:v{at}>") for at in range(12)),
    *((f"<urn:s{at}>", "<urn:r>", f"<urn:w{at}>") for at in range(0, 12, 2)),
]
STAR = "SELECT ?a ?b WHERE { ?s <urn:p> ?a ; <urn:q> ?b }"
STAR_ROWS = Counter((f"<urn:s{at + 1}>", f"<urn:v{at}>") for at in range(12))


def calm(count: int = 5, **options) -> Peers:
    peers = Peers("kademlia", faults=NETWORK, reads=True, peers=count, **options)
    peers.publish(TRIPLES)
    peers.world.run_for(5.0)
    return peers


def totals(peers: Peers, key: str) -> int:
    return sum(node.peer.status()[key] for node in peers.world.living())


def records(peers: Peers) -> int:
    return sum(machine.disk.written for machine in peers.world.machines)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_query_of_few_triples_takes_two_messages_per_other_member_and_no_record(shape):
    peers = calm()
    world = peers.world
    plain = Peers("kademlia", faults=NETWORK, peers=5)
    plain.publish(TRIPLES)
    for number in range(5):
        hops, written, kept = world.counts.hops, records(peers), totals(peers, "groups")
        read = peers.ask(SHAPES[shape], number)
        world.run_until(lambda read=read: read.done)
        assert read.rows == plain.read(SHAPES[shape])[0]
        assert world.counts.hops - hops == 2 * 4
        assert read.seconds < 0.003
        assert (records(peers), totals(peers, "groups")) == (written, kept)
    assert (totals(peers, "queries_read"), totals(peers, "queries_opened")) == (5, 0)


def test_a_peer_without_others_sends_nothing():
    peers = Peers("kademlia", faults=NETWORK, reads=True, peers=3)
    peers.publish(TRIPLES)
    for node in peers.world.nodes[1:]:
        peers.world.crash(node)
    read = peers.ask(STAR, 0)
    peers.world.run_for(10.0)
    assert not read.done  # lost members may hold further triples


def test_a_query_beyond_the_bounds_is_opened_as_a_subscription():
    peers = calm()
    peers.publish([(f"<urn:many{at}>", "<urn:p>", "<urn:x>") for at in range(2100)])
    assert peers.read("SELECT ?s WHERE { ?s <urn:p> ?o }")[0].total() == 2112
    assert (totals(peers, "queries_read"), totals(peers, "queries_opened")) == (0, 1)


STEPS = (0.0, 0.0005, 0.001, 0.0015, 0.002)
"""Before the questions leave, under way, at arrival, with answers under way, at the arrival of the answers."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("down", [0.0, 0.3])
def test_a_member_that_crashes_at_any_step_costs_no_answer_and_no_row(step, down):
    """Other peers notice the crash before the return, or at the return."""
    peers = calm()
    world = peers.world
    for gone in (1, 3):
        reads = [peers.ask(text, 0) for text in (STAR, SHAPES["path of three"])]
        world.run_for(step)
        world.crash(world.nodes[gone])
        world.schedule(down, world.restart, world.nodes[gone])
        world.run_until(lambda reads=reads: all(each.done for each in reads), 120.0)
        assert reads[0].rows == STAR_ROWS
        assert reads[1].rows.total() == 1
        world.run_for(30.0)


@pytest.mark.parametrize("step", STEPS)
def test_two_replicas_that_restart_together_do_not_answer_from_what_they_lack(step):
    peers = calm()
    world = peers.world
    for first in (1, 3):
        read = peers.ask(STAR, 0)
        world.run_for(step)
        for gone in (first, first + 1):
            world.crash(world.nodes[gone])
            world.schedule(0.05, partial(world.restart, world.nodes[gone], disk="lost" if gone == first else "kept"))
        world.run_until(lambda read=read: read.done, 120.0)
        assert read.rows == STAR_ROWS
        world.run_for(60.0)


class _Abandoned(Read):
    """A query at a peer with a later crash."""

    def cut_off(self, _):
        self.done = True

    def ended(self, why):
        self.done = bool(why)


@pytest.mark.parametrize("step", STEPS)
def test_nothing_of_a_query_is_left_when_its_entry_peer_crashes(step):
    peers = calm()
    world = peers.world
    written = records(peers)
    _Abandoned(world, world.nodes[0], STAR, 1)
    world.run_for(step)
    world.crash(world.nodes[0])
    assert records(peers) == written
    world.run_for(40.0)
    assert not any(totals(peers, key) for key in ("groups", "plans", "subscriptions_coordinated"))
    world.restart(world.nodes[0])
    world.run_for(30.0)
    assert peers.read(STAR, at=0) == [STAR_ROWS]


def test_an_acknowledged_triple_is_not_missed_though_a_replica_does_not_have_it_yet():
    """The publisher's peer cannot reach one peer for a while; two of three copies are acknowledged."""
    missed = 0
    for late in range(1, 5):
        peers = calm()
        world = peers.world
        world.links.cut(((0, late),), noticed=False)
        batches = []
        for number in range(8):
            intern = (f"<urn:new{number}>", "<urn:p>", f"<urn:x{number}>")
            batches.append(peers.publisher.publish(0.0, [intern]))
        peers.until_acknowledged(batches)
        missed += len(world.nodes[0].peer._messenger.outbox) > 0
        world.schedule(0.5, partial(world.links.mend, ((0, late),), noticed=False))
        reads = [peers.ask(f"SELECT ?o WHERE {{ <urn:new{number}> <urn:p> ?o }}", late) for number in range(8)]
        world.run_until(lambda reads=reads: all(each.done for each in reads), 60.0)
        assert [list(each.rows) for each in reads] == [[(f"<urn:x{number}>",)] for number in range(8)]
    assert missed


def test_a_member_that_does_not_answer_delays_a_query_until_it_is_opened():
    peers = calm()
    world = peers.world
    world.links.cut(tuple((4, other) for other in range(4)), noticed=False)
    reads = [peers.ask(STAR, 0)]
    world.run_for(0.5)
    assert not reads[0].done
    cut = tuple((4, other) for other in range(4))
    world.schedule(GIVE_UP_SECONDS, partial(world.links.mend, cut, noticed=False))
    world.run_until(lambda: reads[0].done, 60.0)
    assert reads[0].rows == STAR_ROWS
    assert totals(peers, "queries_opened") == 1


def test_a_publication_of_a_peer_with_a_fast_clock_is_not_missed():
    """The stamp of the publication is later than the first stamp of the query."""
    peers = Peers("kademlia", seed=4, faults=replace(NETWORK, skew_seconds_max=0.4), reads=True, peers=5)
    peers.publish(TRIPLES)
    world = peers.world
    for number in range(20):
        world.run_for(1.0)
        peers.publish([(f"<urn:s{number}>", "<urn:new>", f"<urn:x{number}>")])
        reads = [peers.ask("SELECT ?s WHERE { ?s <urn:new> ?o }", at) for at in range(5)]
        world.run_until(lambda reads=reads: all(each.done for each in reads), 60.0)
        assert {each.rows.total() for each in reads} == {number + 1}
    assert totals(peers, "queries_read") == 100


def test_a_pair_of_replaced_values_is_read_as_of_one_stamp():
    """Values of two keys are replaced in turn, and a result has at most one value of each."""
    peers = calm()
    world, rng = peers.world, peers.random
    for number in range(30):
        for key in ("a", "b"):
            peers.publisher.publish(number / 10, [("<urn:sensor>", f"<urn:{key}>", f'"{number}"')])
            if number:
                old = ("<urn:sensor>", f"<urn:{key}>", f'"{number - 1}"')
                peers.publisher.publish(number / 10 + 0.02, [old], removed=True)
    sizes = Counter()
    for _ in range(40):
        world.run_for(rng.uniform(0.02, 0.1))
        (rows,) = peers.read("SELECT ?a ?b WHERE { <urn:sensor> <urn:a> ?a ; <urn:b> ?b }")
        sizes[rows.total()] += 1
        assert rows.total() <= 4
    assert sizes[1] > 20
