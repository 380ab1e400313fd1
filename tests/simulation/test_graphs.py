"""Named graphs through seven peers with three copies: asked once and left standing, as pyoxigraph answers."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from algebra.compare import Engine, same_values
from algebra.queries import QueryWriter, draw_statements, for_engine, for_us
from reads.peers import Peers

from p2prdf.errors import QueryRefused
from p2prdf.rdf.standing.query import parse_query

QUERIES = 24
STEPS = 4
GRAPHS = ("", "<urn:a>", "<urn:g>")
ALWAYS = {(node, "<urn:always>", node, graph) for node in ("<urn:a>", "<urn:b>", "<urn:c>") for graph in GRAPHS}

each_overlay = pytest.mark.parametrize("overlay", ["kademlia", pytest.param("chord", marks=pytest.mark.long)])


def drawn_queries(rng: Random, pool: list) -> list[str]:
    """Return random queries about graphs, of all forms, that have an answer when all statements are there."""
    writer, engine, found = QueryWriter(rng), Engine(), []
    engine.change((), [*pool, *sorted(ALWAYS)])
    while len(found) < QUERIES:
        query = writer.query()
        if "GRAPH" in query and engine.solutions(for_engine(query))[1]:
            try:
                parse_query(for_us(query))
            except QueryRefused:
                continue
            found.append(query)
    return found


def expected(engine: Engine, query: str) -> Counter:
    """Return the engine's answers, with the columns of the query here."""
    names, rows = engine.solutions(for_engine(query))
    order = [names.index(name) if name in names else -1 for name in parse_query(for_us(query)).names]
    found = Counter()
    for row, count in rows.items():
        found[tuple(row[at] if at >= 0 else None for at in order)] += count
    return same_values(found)


def history(rng: Random, pool: list):
    """Yield the removed and the published statements of each step."""
    present = set()
    for step in range(STEPS):
        gone = {each for each in sorted(present) if rng.random() < 0.3}
        come = {each for each in pool if each not in present and rng.random() < 0.6}
        present = (present - gone) | come
        yield sorted(gone), sorted(come if step else come | ALWAYS)


@each_overlay
def test_random_queries_about_graphs_are_answered_once_as_their_data_comes_and_goes(overlay):
    rng = Random(f"graphs asked once, {overlay}")
    pool = draw_statements(rng, 28)
    peers, engine, queries, answered = Peers(overlay), Engine(), drawn_queries(rng, pool), 0
    for gone, come in history(rng, pool):
        peers.publish(gone, removed=True)
        peers.publish(come)
        engine.change(gone, come)
        for query, rows in zip(queries, peers.read(*map(for_us, queries)), strict=True):
            assert same_values(rows) == expected(engine, query), query
            answered += bool(rows)
    assert answered > QUERIES * STEPS / 4


@each_overlay
def test_random_standing_queries_about_graphs_end_with_the_true_solutions(overlay):
    """Statements come one at a time, from several clients at once."""
    rng = Random(f"graphs left standing, {overlay}")
    pool = draw_statements(rng, 28)
    peers, engine, queries, changed = Peers(overlay), Engine(), drawn_queries(rng, pool), 0
    clients = [peers.subscribe(for_us(query)) for query in queries]
    for gone, come in history(rng, pool):
        for some, removed in ((gone, True), (come, False)):
            rng.shuffle(some)
            batches = [
                peers.publisher.publish(rng.uniform(0.0, 1.0), some[at : at + 3], removed=removed)
                for at in range(0, len(some), 3)
            ]
            peers.until_acknowledged(batches)
        engine.change(gone, come)
        peers.until_told(clients)
        for query, client in zip(queries, clients, strict=True):
            record = client.record
            held = Counter(tuple(term or None for term in row) for row in record.bag.elements())
            assert same_values(held) == expected(engine, query), query
            assert record.complaints == []
            changed += bool(held)
    assert changed > QUERIES * STEPS / 4


@each_overlay
def test_a_statement_belongs_to_its_graph_through_crashes_and_restarts(overlay):
    """Every peer crashes once, the one that took the publication among them, and comes back without its disk."""
    peers = Peers(overlay, seed=2)
    world = peers.world
    statements = [(f"<urn:s{n}>", "<urn:p>", f'"{n}"', f"<urn:g{n % 3}>" if n % 4 else "") for n in range(60)]
    peers.publish(statements)
    peers.publish(statements[:12], removed=True)
    left = statements[12:]
    queries = {
        "SELECT ?s ?o { ?s <urn:p> ?o }": Counter((s, o) for s, _, o, g in left if not g),
        "SELECT ?s ?o { GRAPH <urn:g1> { ?s <urn:p> ?o } }": Counter((s, o) for s, _, o, g in left if g == "<urn:g1>"),
        "SELECT ?g ?s ?o { GRAPH ?g { ?s <urn:p> ?o } }": Counter((g, s, o) for s, _, o, g in left if g),
        "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g": Counter(
            (g, f'"{sum(each[3] == g for each in left)}"^^<http://www.w3.org/2001/XMLSchema#integer>')
            for g in ("<urn:g0>", "<urn:g1>", "<urn:g2>")
        ),
    }
    for node in world.nodes[1:6:2]:
        world.crash(node)
        world.run_for(30.0)
        world.restart(node, disk="lost")
        world.run_for(30.0)
        assert peers.read(*queries, at=0) == list(queries.values())
