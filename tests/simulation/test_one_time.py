"""One-time queries through seven peers with three copies: at any peer, the answer covers all published triples.

And the same cases as standing queries, while their data comes one triple at a time.  All cases and ten
universities: ``make reads``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import real_data
from reads import lubm
from reads.cases import answered_cases, ask_once, play
from reads.peers import Peers, Read
from w3c import CASES

from p2prdf.sim.faults import CALM, Faults

OVERLAYS = ("kademlia", "chord")
CASES_COUNT = 191
EACH = 4
"""One in so many cases is asked in an overlay, other ones in each."""
EACH_STANDING = 8
UNIVERSITY = 25_000
"""Triples of a university of 100,543."""

needs_lubm = pytest.mark.skipif(not lubm.DATA.exists(), reason=f"the shared LUBM data is not at {lubm.DATA}")
needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f"the shared W3C cases are not at {CASES}")
each_overlay = pytest.mark.parametrize("overlay", ["kademlia", pytest.param("chord", marks=pytest.mark.long)])

P, Q = "<urn:p>", "<urn:q>"
NAMES = "SELECT ?s ?o WHERE { ?s <urn:p> ?o }"
JOINED = "SELECT ?s ?o WHERE { ?s <urn:p> ?m . ?m <urn:q> ?o }"
OPTIONAL = "SELECT ?s ?o WHERE { ?s <urn:p> ?m OPTIONAL { ?m <urn:q> ?o } }"
WITHOUT = "SELECT ?s WHERE { ?s <urn:p> ?m FILTER NOT EXISTS { ?m <urn:q> ?o } }"
COUNTED = "SELECT (COUNT(*) AS ?n) WHERE { ?s <urn:p> ?m }"
CHAIN = (("a", "p", "b"), ("b", "q", "c"), ("c", "r", "d"), ("d", "s", "e"))
ALL = (NAMES, JOINED, OPTIONAL, WITHOUT, COUNTED)


@needs_lubm
@each_overlay
def test_a_university_is_asked_the_benchmarks_queries_and_others_of_all_forms(overlay):
    """The first departments of it."""
    triples = [*lubm.data()[:UNIVERSITY], *lubm.ontology()]
    store = real_data.store_of(triples)
    peers = Peers(overlay, tables="arrays")
    peers.publish(triples)
    texts = list(lubm.queries().values())
    for queries, solutions in ((texts, 1669), (list(lubm.MORE), 881), ([*map(lubm.by_path, texts)], 5280)):
        assert lubm.compare(peers, store, queries) == (solutions, [])


@needs_cases
@each_overlay
def test_published_results_come_out_in_all_forms_or_nodes_keep_no_history_for_a_query(overlay):
    """Many cases one after the other: the data of each is removed before the next one's comes."""
    cases = answered_cases()
    assert len(cases) == CASES_COUNT
    peers, wrong = Peers(overlay), []
    for case in cases[OVERLAYS.index(overlay) :: EACH]:
        wrong += ask_once(peers, case)
    assert not wrong, "\n".join(wrong)


@needs_cases
@each_overlay
def test_standing_queries_end_in_the_published_result_though_other_triples_came_and_went(overlay):
    peers, wrong, played = Peers(overlay), [], 0
    for case in answered_cases()[OVERLAYS.index(overlay) :: EACH_STANDING]:
        wrong += play(peers, case)
        played += 1
    assert not wrong, "\n".join(wrong)
    assert played == 24


# --- again, elsewhere, while peers go and while triples come ------------------------------------


def triple(number: int) -> tuple[str, str, str]:
    """Return a triple; every other one leads on to a name by :func:`named`."""
    return f"<urn:s{number}>", P, f"<urn:m{number}>"


def named(number: int) -> tuple[str, str, str]:
    return f"<urn:m{number}>", Q, f'"{number}"'


def integer(number: int) -> str:
    return f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'


@cache
def expected(count: int) -> list[Counter]:
    """Return the answers to all queries once so many triples are published, every other one with a name."""
    every, even = range(count), range(0, count, 2)
    return [
        Counter((f"<urn:s{at}>", f"<urn:m{at}>") for at in every),
        Counter((f"<urn:s{at}>", f'"{at}"') for at in even),
        Counter((f"<urn:s{at}>", None if at % 2 else f'"{at}"') for at in every),
        Counter((f"<urn:s{at}>",) for at in every if at % 2),
        Counter([(integer(count),)]),
    ]


def published(overlay: str, count: int = 40) -> Peers:
    peers = Peers(overlay)
    peers.publish([*map(triple, range(count)), *map(named, range(0, count, 2))])
    return peers


@each_overlay
def test_the_same_is_answered_again_and_at_every_peer(overlay):
    peers = published(overlay)
    for node in peers.world.nodes:
        assert peers.read(*ALL, at=node.index) == expected(40)
    assert peers.read(*ALL, *ALL, at=0) == expected(40) * 2
    peers.world.run_for(5.0)
    assert not any(node.peer.status()["subscriptions_coordinated"] for node in peers.world.nodes)


@each_overlay
def test_answers_are_complete_once_a_peer_that_crashed_is_known_to_be_lost(overlay):
    """It is lost as the query is left, while it is answered, and before; whichever it is, the primary too."""
    peers = published(overlay)
    world = peers.world
    for gone in range(1, 7, 2):
        reads = [peers.ask(text, 0) for text in ALL]
        world.run_for(0.1 * gone)
        world.crash(world.nodes[gone])
        reads += [peers.ask(text, 0) for text in ALL]
        world.run_until(lambda reads=reads: all(each.done for each in reads), 120.0)
        assert [each.rows for each in reads] == expected(40) * 2
        assert 1.0 < max(each.seconds for each in reads) < 15.0
        assert peers.read(*ALL, at=0) == expected(40)
        world.restart(world.nodes[gone], disk="lost")
        world.run_for(30.0)
    assert world.happened["crash"] == world.happened["disk-loss"] == 3


@each_overlay
def test_while_triples_come_an_answer_lies_between_the_acknowledged_before_and_the_published_by_its_end(overlay):
    """Among them triples that are removed, once they were acknowledged."""
    peers = published(overlay, 10)
    world, rng = peers.world, peers.random
    steady = {triple(at) for at in range(10)}
    batches, removals = [], []

    def remove(number: int) -> None:
        removals.append(peers.publisher.publish(0.0, [triple(number)], removed=True))

    for number in range(100, 250):
        at = rng.uniform(0.0, 15.0)
        batches.append(peers.publisher.publish(at, [triple(number)]))
        if number % 3 == 0:
            world.schedule(at + 4.0, remove, number)
    strictly = 0
    for _ in range(25):
        world.run_for(rng.uniform(0.05, 0.2))
        # Triples with a pending removal may be gone; removed ones, acknowledged as such, must not come.
        before = {one for each in batches if each.stamps for one in each.triples}
        over = {one for each in removals if each.stamps for one in each.triples}
        names, counted = asked = peers.ask(NAMES), peers.ask(COUNTED)
        world.run_until(lambda asked=asked: all(each.done for each in asked))
        going = {one for each in removals for one in each.triples}
        begun = {one for each in batches if each.attempts for one in each.triples}
        must, may = steady | before - going, steady | begun - over
        found = {(s, P, o) for s, o in names.rows}
        assert must <= found <= may
        assert names.rows.total() == len(found)
        assert len(must) <= number_of(counted) <= len(may)
        strictly += must < found < may
    assert strictly > 5


def test_a_calm_overlay_answers_without_waiting_for_the_next_eighth_of_a_second():
    """Readers in a hurry get early cuts."""
    faults = replace(CALM, delay_min_seconds=0.0005, delay_max_seconds=0.002)
    peers = Peers("kademlia", seed=2, faults=faults)
    peers.publish([(f"<urn:s{at}>", (P, Q)[at % 2], f"<urn:s{7 * at % 500}>") for at in range(500)])
    peers.world.run_for(5.0)
    seconds = []
    for at in range(20):
        read = peers.ask(f"SELECT * WHERE {{ <urn:s{at}> ?p ?x . ?x ?q ?y . ?y ?r ?z }}")
        peers.world.run_until(lambda read=read: read.done)
        seconds.append(read.seconds)
        peers.world.run_for(0.313)
    assert sorted(seconds)[10] < 0.12


@pytest.mark.long
def test_triples_published_again_and_again_are_answered_though_younger_than_the_bookmark():
    """An answer on its way is as young as the last publication of its triples, and some take a second longer."""
    peers = Peers("kademlia", seed=3, faults=Faults(straggler_probability=0.02, straggler_seconds=1.0))
    world, rng = peers.world, peers.random
    text = "SELECT ?a ?d WHERE { ?a <urn:p> ?b . ?b <urn:q> ?c . ?c <urn:r> ?d . ?d <urn:s> ?e }"
    chains = [
        [(f"<urn:{step}{at}>", f"<urn:{link}>", f"<urn:{following}{at}>") for step, link, following in CHAIN]
        for at in range(5)
    ]
    peers.publish([one for each in chains for one in each])
    again = [peers.publisher.publish(at / 50, [rng.choice(each)]) for at in range(1500) for each in chains]
    found, seconds = Counter(), []
    while any(each.open for each in again):
        reads = [peers.ask(text) for _ in range(3)]
        world.run_until(lambda reads=reads: all(each.done for each in reads), 120.0)
        found.update(len(each.rows) for each in reads)
        seconds += [each.seconds for each in reads]
    assert found == {len(chains): len(seconds)}
    assert len(seconds) >= 24
    assert max(seconds) < 20.0


def number_of(read: Read) -> int:
    """Return the only number that a query answered."""
    ((term,),) = read.rows
    return int(term.split('"')[1])
