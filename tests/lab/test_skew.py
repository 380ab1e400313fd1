"""Skewed data: without splitting one peer is far above the others, with it none is; the answers are the same."""

from __future__ import annotations

import lzma
from collections import Counter
from itertools import islice

import pytest
from real_data import DATA

from p2prdf.peer import PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.fleets.skew import TYPE, SkewRun, _Skew, hot_queries, run_skew, zipf_triples

METERS = DATA / "streams" / "meters.tsv.xz"
PEERS = 32
BUSIEST_MAX = 3.0


def read_triple(statement: str) -> tuple[str, str, str]:
    """Split a canonical N-Triples statement."""
    subject, predicate, rest = statement.split(" ", 2)
    return subject, predicate, rest.rstrip(" .")


def _run(typed: float, *, split: bool, tables: str = "lists", algorithm: Algorithm = Algorithm.CSBV) -> SkewRun:
    config = PeerConfig(indexes="on-demand", hot_keys=split, hot_interval_seconds=1.0, hot_rate_min=20, hot_sample=2)
    options = WorldOptions(peers=PEERS, seed=1, places="even", config=config, tables=tables)
    run = run_skew(
        options, hot_queries(), typed=typed, algorithm=algorithm, publishers=4, round_triples=1_000,
        settling_rounds=8 if split else 2, measured_rounds=2,
    )  # fmt: skip
    assert run.answers > 100
    assert run.wrong == 0
    return run


@pytest.mark.parametrize("typed", [0.25, 0.75])
def test_splitting_keeps_the_busiest_peer_within_three_times_the_mean(typed: float):
    without, split = _run(typed, split=False), _run(typed, split=True)
    assert without.keys_split == 0
    assert without.settled.worst > BUSIEST_MAX
    assert split.keys_split >= 5
    assert split.settled.worst <= BUSIEST_MAX
    assert split.settled.worst < 0.6 * without.settled.worst


def test_answers_that_are_missing_or_too_many_are_counted_as_wrong():
    run = _Skew(WorldOptions(peers=4, seed=1), hot_queries(), 0.25, None, Algorithm.CSBV, 2, 400)
    run.publish()
    answers, wrong = run.compare()
    assert answers > 20
    assert wrong == 0
    got = next(subscriber for subscriber in run.subscribers if subscriber.rows)
    missing = got.rows.pop()
    assert run.compare() == (answers - 1, 1)
    got.rows += [missing, missing]
    assert run.compare() == (answers + 1, 1)


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_splitting_works_for_chains_and_on_both_kinds_of_tables(tables: str):
    """In CQC all partial results of a step wait under one constant: they are copied, and still all answers come."""
    run = _run(0.25, split=True, tables=tables, algorithm=Algorithm.CQC)
    assert run.keys_split
    assert run.settled.worst <= BUSIEST_MAX


@pytest.mark.skipif(not METERS.exists(), reason=f"the smart meter stream is not at {METERS}")
def test_splitting_keeps_the_busiest_peer_within_three_times_the_mean_on_real_data():
    """Real readings of smart meters: every fourth triple says rdf:type, and there are few predicates."""
    with lzma.open(METERS, "rt", encoding="utf-8") as lines:
        triples = [read_triple(line.rstrip("\n").split("\t")[-1]) for line in islice(lines, 12_000)]
    found = {}
    for split in (False, True):
        config = PeerConfig(
            indexes="on-demand", hot_keys=split, hot_interval_seconds=1.0, hot_rate_min=20, hot_sample=2
        )
        options = WorldOptions(peers=PEERS, seed=1, places="even", config=config)
        found[split] = run_skew(
            options, hot_queries(triples), data=triples, publishers=4, round_triples=1_000,
            settling_rounds=10, measured_rounds=2,
        )  # fmt: skip
        assert found[split].wrong == 0
        assert found[split].answers > 100
    assert found[False].settled.worst > BUSIEST_MAX
    assert found[True].settled.worst <= BUSIEST_MAX


def test_the_data_is_as_skewed_as_it_says():
    dictionary = TermDictionary()
    s, p, o = zipf_triples(dictionary, 20_000, typed=0.25, seed=3)
    kinds = Counter(dictionary.texts(p.tolist()))
    assert 0.24 < kinds[TYPE] / 20_000 < 0.26
    first, second = (kinds[f"<http://example.org/p{at}>"] for at in (0, 1))
    assert 1.8 < first / second < 2.6  # 2^1.1 = 2.14
    assert max(Counter(s.tolist()).values()) < 10
    classes = Counter(text for text in dictionary.texts(o.tolist()) if "/C" in text)
    assert classes.total() == kinds[TYPE]
    assert classes.most_common(1)[0][0] == "<http://example.org/C0>"


def test_even_places_leave_nobody_more_than_twice_as_much_of_the_ring_as_another():
    for peers in (5, 8, 50):
        world = World(WorldOptions(peers=peers, places="even"))
        owned = Counter(world.ring.owner(at << 54).key for at in range(1024))
        assert len(owned) == peers
        assert max(owned.values()) <= 2 * min(owned.values())
