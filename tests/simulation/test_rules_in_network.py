"""Rules left in the network: through all failures their graph holds the consequences, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from rule_days.day import GRAPH, run_seed

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer import PeerConfig
from p2prdf.peer.joins import derived_facts as gates
from p2prdf.rdf import quads
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.rdf.standing.query import parse_query
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.insertions import insertions
from p2prdf.sim.world import WorldOptions
from schedules.failures.checkers import stored
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.replicas import difference
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

IN = "<urn:in>"
TRANSITIVE = "?x <urn:in> ?z :- ?x <urn:in> ?y , ?y <urn:in> ?z ."
LEASE_SECONDS = 10.0
A, B, C, D, E = (f"<urn:{name}>" for name in "abcde")


def test_seven_peers_derive_the_consequences_while_triples_come_and_go():
    facts = 0
    for seed in range(2):
        verdict = run_seed(seed, calm=True)
        assert not verdict.problems, verdict.report()
        facts += verdict.counts["facts derived"]
        assert verdict.counts["facts_removed"]
    assert facts > 10


def test_failing_peers_derive_the_consequences():
    failed = 0
    for seed in range(107, 109):
        verdict = run_seed(seed)
        assert not verdict.problems, verdict.report()
        failed += sum(verdict.counts[name] for name in ("crash", "disk-loss", "power-cut", "cut (bridge)", "join"))
    assert failed > 2


def test_a_fact_that_keeps_its_own_support_is_detected(monkeypatch):
    """The purpose of these schedules: facts kept as long as they have any derivation support themselves."""
    decide = gates.DerivedFacts._decide

    def spared(self, fact, gate, *lists):
        gate.lost = False
        decide(self, fact, gate, *lists)

    monkeypatch.setattr(gates.DerivedFacts, "_decide", spared)
    verdict = run_seed(1, calm=True)
    assert any(problem.startswith("unfounded") for problem in verdict.problems)


class Overlay:
    """Five peers with rules left among them, and a reader of the derived facts."""

    def __init__(self, rules=TRANSITIVE, **options):
        config = PeerConfig(
            hot_keys=False, replicas=3, copies_min=2, durable=True, group_lease_seconds=LEASE_SECONDS
        )
        options = WorldOptions(peers=5, seed=11, config=config, **options)
        self.world = FailingWorld(options, Failures(publisher_crash_probability=0.0))
        self.publisher = Publisher(self.world, "publisher", Random(1))
        self.world.run_for(5.0)
        self.rules = [self.leave(parse_insertion(text)) for text in insertions(parse_rules(rules), GRAPH)]
        text = f"SELECT ?x ?y {{ GRAPH {GRAPH} {{ ?x {IN} ?y }} }}"
        self.reader = self.leave(parse_query(text).conjunctive)
        self.world.run_for(5.0)

    def leave(self, query):
        record = ResumingSubscriber(f"left {query}", query, Algorithm.CSBV, False, 86_400.0, "", True)
        client = SubscriberClient(self.world, record, Random(f"{query}"))
        client.connect()
        return client

    def publish(self, *pairs, removed=False):
        triples = [(x, IN, y) for x, y in pairs]
        publishing = self.publisher.publish(0.0, triples, removed=removed)
        self.world.run_for(5.0)
        assert publishing.stamps, "it is acknowledged"

    @property
    def held(self):
        in_graph = quads.qualified(IN, GRAPH)
        return {(s, o) for s, p, o in stored(self.world, 0) if p == in_graph}

    @property
    def told(self):
        record = self.reader.record
        assert not record.complaints
        assert max(record.bag.values(), default=1) == 1
        return set(record.bag)

    def counted(self, name):
        return sum(node.peer.status()[name] for node in self.world.living())


@pytest.fixture(params=["lists", "arrays"])
def overlay(request):
    return Overlay(tables=request.param)


def pairs(*nodes):
    """Return each node with all behind it."""
    return {(x, y) for at, x in enumerate(nodes) for y in nodes[at + 1 :]}


def test_a_chain_is_closed_and_broken(overlay):
    overlay.publish((A, B), (C, D), (D, E))
    overlay.publish((B, C))
    assert overlay.held == overlay.told == pairs(A, B, C, D, E)
    overlay.publish((B, C), removed=True)
    assert overlay.held == overlay.told == pairs(A, B) | pairs(C, D, E)


def test_a_circle_holds_nothing_up(overlay):
    overlay.publish((A, B), (B, C), (C, A))
    assert overlay.held == {(x, y) for x in (A, B, C) for y in (A, B, C)}
    overlay.publish((C, A), removed=True)
    assert overlay.held == overlay.told == pairs(A, B, C)


def test_facts_are_looked_at_a_few_at_a_time_also_when_all_are_due(overlay, monkeypatch):
    """A change of the ring is a reason to look at all; a turn must not take as long as there are facts."""
    monkeypatch.setattr(gates, "AT_ONCE", 2)
    overlay.publish((A, B), (B, C), (C, A))
    assert overlay.held == {(x, y) for x in (A, B, C) for y in (A, B, C)}
    looked_at = []
    rank = gates.DerivedFacts._rank
    monkeypatch.setattr(gates.DerivedFacts, "_rank", lambda self, fact: looked_at.append(self) or rank(self, fact))
    for node in overlay.world.nodes:
        gate = node.peer._engine.derived_facts
        gate.view_changed()
        for turns in range(1, 100):
            gate.wake()
            assert looked_at.count(gate) <= 2 * turns
            if not gate.restless:
                break
        assert looked_at.count(gate) == gate.facts
    assert overlay.counted("facts_removed") == 0


def test_a_fact_both_derived_and_published_stays_when_either_ends(overlay):
    overlay.publish((A, B), (B, C), (A, C))
    told = len(overlay.reader.record.rows)
    overlay.publish((B, C), removed=True)  # it followed, too, and was said
    assert overlay.held == overlay.told == {(A, B), (A, C)}
    overlay.publish((B, C))
    assert len(overlay.reader.record.rows) == told + 1
    assert (A, C) not in overlay.reader.record.withdrawn.values()
    overlay.publish((A, C), removed=True)  # it was said, and follows: it may have rested on itself
    assert overlay.held == overlay.told == pairs(A, B, C)


def test_a_fact_is_published_once_however_many_reasons_it_has(overlay):
    middle = [f"<urn:m{number}>" for number in range(8)]
    overlay.publish(*((A, each) for each in middle), *((each, B) for each in middle))
    assert (A, B) in overlay.held
    assert overlay.counted("facts_published") == len(overlay.held) == 17
    assert overlay.counted("facts_removed") == overlay.counted("facts_published_again") == 0


def test_when_a_rule_ends_its_conclusions_go(overlay):
    overlay.publish((A, B), (B, C))
    assert overlay.held == pairs(A, B, C)
    overlay.rules[1].unsubscribe()
    overlay.world.run_for(3 * LEASE_SECONDS)  # then all peers have asked whether it is alive
    assert overlay.held == overlay.told == {(A, B), (B, C)}
    overlay.rules[0].unsubscribe()
    overlay.world.run_for(3 * LEASE_SECONDS)
    assert overlay.held == overlay.told == set()
    overlay.rules.append(overlay.leave(parse_insertion(insertions(parse_rules(TRANSITIVE), GRAPH)[0])))
    overlay.world.run_for(10.0)
    assert overlay.held == overlay.told == {(A, B), (B, C)}


def test_derived_facts_are_no_events_though_a_query_waits_for_events(overlay):
    """Facts have no event: under indexes of events replicas took all of them for the same one, and never were equal."""
    query = parse_query(f"SELECT ?x ?y {{ ?x {IN} ?y }}").conjunctive
    record = ResumingSubscriber("per event", query, Algorithm.CSBV, True, 86_400.0)
    client = SubscriberClient(overlay.world, record, Random(5))
    client.connect()
    overlay.world.run_for(5.0)
    overlay.publisher.publish(0.0, [(A, IN, B), (B, IN, C), (C, IN, D)])
    overlay.world.run_for(15.0)
    assert len(record.rows) == 3
    assert difference(overlay.world) is None
    for node in overlay.world.living():
        columns = node.peer.triples()
        events = zip(as_list(columns[4]), as_list(columns[5]), strict=True)
        assert all(event for event, roles in events if roles >> keys.EVENT_SHIFT & (1 << keys.EVENT_SHIFT) - 1)


def test_two_clients_that_leave_the_same_rules_share_them(overlay):
    overlay.publish((A, B), (B, C))
    others = [overlay.leave(client.record.query) for client in overlay.rules]
    overlay.world.run_for(5.0)
    for each in overlay.rules:
        each.unsubscribe()
    overlay.world.run_for(3 * LEASE_SECONDS)
    assert overlay.held == overlay.told == pairs(A, B, C)
    assert overlay.counted("facts_published") == 3
    assert all(client.attached for client in others)


def test_a_literal_is_the_subject_of_nothing():
    overlay = Overlay("?y <urn:in> ?x :- ?x <urn:in> ?y .")
    overlay.publish((A, B), (A, '"text"'))
    assert overlay.held == {(A, B), (B, A), (A, '"text"')}


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_successor_takes_back_the_facts_that_another_published(overlay, disk):
    """Each peer is away while a circle is broken, and while another is closed."""
    world = overlay.world
    overlay.publish((A, B), (B, C), (C, A))
    for node in list(world.nodes):
        world.crash(node)
        world.run_for(2.0)
        overlay.publish((C, A), removed=True)
        world.run_for(30.0)
        assert overlay.held == pairs(A, B, C)
        world.restart(node, disk=disk)
        world.run_for(5.0)
        overlay.publish((C, A))
        world.run_for(30.0)
        assert overlay.held == overlay.told == {(x, y) for x in (A, B, C) for y in (A, B, C)}
