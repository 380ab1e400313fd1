"""Keyword routing through whole overlays: load, late advertisements, fault schedules, and broken rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer import PeerConfig
from p2prdf.peer.joins import keyword_index as words_module
from p2prdf.peer.joins.keyword_index import KeywordIndex
from p2prdf.rdf.quads import worded
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.oracle import Oracle
from p2prdf.sim.world import World, WorldOptions
from p2prdf.wire.messages import AdvertiseKeywords, GroupsGone
from schedules.failures.scenario import draw_bad_day, run_bad_day, with_texts
from schedules.mutants import MUTANTS, _changed

P = "<urn:body>"
WORDS = ("tea", "pot", "rio", "green", "winter")
TEXTS = [
    (f"<urn:s{number}>", P, f'"{WORDS[number % 5]} {WORDS[number // 5 % 5]} and more {number}"') for number in range(50)
]
DAYS = ((seed, draw_bad_day(seed)) for seed in range(40))
SEEDS = [seed for seed, day in DAYS if day.failures.texts and day.options.config.keyword_routing]


def asked(condition: str):
    query = parse_query(f"SELECT ?s ?t {{ ?s {P} ?t FILTER ftcontains(?t, {condition}) }}").conjunctive
    assert query is not None
    return query


def world_of(tables: str, conditions: list[str], **config) -> World:
    """Return a world in which queries stand, each left at another peer."""
    options = WorldOptions(peers=16, seed=3, tables=tables, config=PeerConfig(keyword_routing=True, **config))  # type: ignore[arg-type]
    world = World(options)
    for at, condition in enumerate(conditions):
        world.subscribe(0.0, at, asked(condition))
    world.run_until_quiet()
    world.run_for(0.01)
    return world


def publish(world: World, triples=TEXTS, peer: int = 5) -> None:
    for start in range(0, len(triples), 7):
        world.publish(0.0, peer, triples[start : start + 7])
    world.run_until_quiet()


def check(world: World) -> None:
    """Compare with the central evaluator, which does not use the keyword index."""
    oracle = Oracle(world.log())
    for subscriber in world.subscribers:
        assert subscriber.since is not None
        owed = oracle.answers(subscriber.query, subscriber.since)
        assert owed
        assert not subscriber.complaints
        assert Counter(subscriber.bag) == owed


def waiting(world: World, predicate: str) -> int:
    key = keys.role_key(keys.P, 0, keys.term_hash(predicate), 0)
    return sum(len(node.peer.waiting(keys.P, key)) for node in world.nodes)


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_a_query_waits_by_its_keyword_and_meets_texts_with_it_alone(tables):
    world = world_of(tables, [f'"{word}"' for word in WORDS])
    assert [waiting(world, worded(P, [word])) for word in WORDS] == [1] * 5
    assert waiting(world, P) == 0
    publish(world)
    check(world)
    owner = {word: _owner(world, worded(P, [word])) for word in WORDS}
    assert len(set(owner.values())) > 2
    for word, at in owner.items():
        node = world.nodes[at]
        s, p, o = (node.dictionary.texts(as_list(column)) for column in node.peer.triples()[:3])
        texts = [o[place] for place in range(len(s)) if p[place] == worded(P, [word])]
        assert sorted(texts) == sorted(o for _, _, o in TEXTS if word in o)


def _owner(world: World, predicate: str) -> int:
    key = keys.role_key(keys.P, 0, keys.term_hash(predicate), 0)
    return next(node.index for node in world.nodes if node.peer.waiting(keys.P, key))


@pytest.mark.parametrize("tables", ["lists", "arrays"])
@pytest.mark.parametrize("broken", [False, True], ids=["whole", "nothing is added"])
def test_triples_of_a_peer_without_the_advertisement_are_indexed_where_they_are_stored(tables, broken, monkeypatch):
    """Its advertisement vanishes, although it acknowledges it."""
    if broken:
        monkeypatch.setattr(KeywordIndex, "_add_to", lambda *_, **__: None)
    world = World(WorldOptions(peers=16, seed=3, tables=tables, config=PeerConfig(keyword_routing=True)))
    deaf = world.nodes[5].peer
    words = deaf._engine.words
    monkeypatch.setattr(words, "add", lambda *_: None)
    for at, word in enumerate(WORDS):
        world.subscribe(0.0, at, asked(f'"{word}"'))
    world.run_until_quiet()
    world.run_for(0.01)
    publish(world)
    if broken:
        with pytest.raises(AssertionError):
            check(world)
    else:
        assert not len(words)
        check(world)


def test_a_publisher_without_the_advertisement_gets_it_in_return():
    world = World(WorldOptions(peers=16, seed=3, config=PeerConfig(keyword_routing=True)))
    lost = []

    def tap(node, envelope):
        if isinstance(envelope.message, AdvertiseKeywords) and not lost:
            lost.append(envelope.transfer)
        if isinstance(envelope.message, AdvertiseKeywords) and envelope.transfer in lost:
            return replace(envelope, message=GroupsGone([]))
        return envelope

    world.subscribe(0.0, 1, asked('"tea"'))
    world.run_until_quiet()
    world.tap = tap
    world.subscribe(0.0, 1, asked('"pot"'))
    world.run_until_quiet()
    assert lost
    behind = [node for node in world.nodes if node.peer.status()["keywords"] == 1]
    assert behind
    publish(world, peer=behind[0].index)
    check(world)
    assert behind[0].peer.status()["keywords"] == 2


def test_above_the_bound_of_keywords_further_queries_wait_by_the_predicate(monkeypatch):
    monkeypatch.setattr(words_module, "WORDS_MAX", 2)
    world = world_of("lists", [])
    for at, word in enumerate((*WORDS, "tea")):
        world.subscribe(0.0, at, asked(f'"{word}" ftAND ftNOT "{word}{word}"'))
        world.run_until_quiet()
    assert waiting(world, P) == 3
    publish(world)
    check(world)


def test_a_coordinator_with_twice_the_bound_of_keywords_refuses_further_queries(monkeypatch):
    monkeypatch.setattr(words_module, "WORDS_MAX", 2)
    monkeypatch.setattr(KeywordIndex, "allowed", lambda *_: True)
    world = world_of("lists", [])
    for at, word in enumerate(WORDS):
        world.subscribe(0.0, at, asked(f'"{word}"'))
        world.run_until_quiet()
    failed = [each.failed for each in world.subscribers if each.failed is not None]
    assert [(each.code, "too many words" in each.text) for each in failed] == [("busy", True)]
    assert {node.peer.status()["keywords"] for node in world.nodes} == {4}


@pytest.mark.parametrize("name", ["lost-words", "words-unknown"])
def test_mutants_of_keyword_routing_are_killed(name):
    """Keyword entries not added where a text is stored have to be added by its publisher."""
    with _changed([*MUTANTS[name].changes(), *MUTANTS["late-words"].changes()]):
        world = world_of("lists", ['"tea"'])
        publish(world)
        with pytest.raises(AssertionError):
            check(world)


def test_fault_schedules_with_texts_keep_every_promise():
    for day in (*map(draw_bad_day, SEEDS[:2]), with_texts(draw_bad_day(3), by_words=True)):
        verdict = run_bad_day(day)
        assert verdict.good, verdict.report()


def test_fault_schedules_detect_a_keyword_left_out_by_a_publisher():
    with _changed(MUTANTS["lost-words"].changes()):
        problems = (problem for seed in SEEDS[:6] for problem in run_bad_day(draw_bad_day(seed, "varied")).problems)
        assert any(problem.kind in ("missing", "bookmark") for problem in problems)
