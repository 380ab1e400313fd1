"""A fleet reports, peer by peer, the loads that a World of real peers reports; its messages are the World's."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from p2prdf.columns import as_list
from p2prdf.errors import LocalProtocolError
from p2prdf.peer import PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.fleets.fleet import Fleet
from p2prdf_lab.fleets.places import Places
from p2prdf_lab.fleets.tables import KEY_ENCODINGS, paper_keys
from p2prdf_lab.workloads.paths import PathSchema, path_queries, path_triples
from p2prdf_lab.workloads.random_queries import draw_query, draw_triples, draw_vocabulary

SCHEMA = PathSchema(levels=4, branch=2, instances=3, values=4, domains=2)


def distinct(queries):
    """Real peers evaluate equal queries once; a fleet, like the paper, one by one."""
    return list({(query.patterns, query.constants): query for query in queries}.values())


def in_world(peers, algorithm, queries, triples, indexes, overlay="kademlia", seed=3, batch=50):
    config = PeerConfig(indexes=indexes, group_lease_seconds=1e9)
    world = World(WorldOptions(peers=peers, seed=seed, overlay=overlay, config=config))
    subscribers = [world.subscribe(0.0, at % peers, query, algorithm) for at, query in enumerate(queries)]
    world.run_until_quiet()
    for at in range(0, len(triples), batch):
        world.publish(0.0, at % peers, triples[at : at + batch])
        world.run_until_quiet()
    return world, subscribers


def in_fleet(positions, algorithm, queries, triples, *, overlay="kademlia", batch=50, **options):
    dictionary = TermDictionary()
    fleet = Fleet(dictionary, [Places(positions, overlay)], algorithm, **options)
    fleet.subscribe(queries)
    columns = [np.array(dictionary.intern_all(list(column)), np.uint32) for column in zip(*triples, strict=True)]
    for at in range(0, len(triples), batch):
        fleet.publish(*(column[at : at + batch] for column in columns))
    return fleet


def path_workload(triples=500, queries=60):
    dictionary = TermDictionary()
    columns = path_triples(dictionary, triples, schema=SCHEMA, seed=5)
    texts = [dictionary.texts(as_list(column)) for column in columns]
    once = list(dict.fromkeys(zip(*texts, strict=True)))  # twice in one publication is received once
    return distinct(path_queries(queries, schema=SCHEMA, length=4, seed=4)), once


def loads_of(world):
    status = [node.peer.status() for node in sorted(world.nodes, key=lambda node: node.contact.key)]
    return [each["processing_load"] for each in status], [each["storage_load"] for each in status]


@pytest.mark.parametrize("overlay", ["kademlia", "chord"])
@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("list_answers", [True, False])
def test_every_peer_has_the_load_of_a_real_peer(algorithm, list_answers, overlay):
    queries, triples = path_workload()
    indexes = "csbv" if algorithm is Algorithm.CSBV else "cqc"
    world, subscribers = in_world(12, algorithm, queries, triples, indexes, overlay)
    fleet = in_fleet(
        [node.contact.key for node in world.nodes], algorithm, queries, triples, overlay=overlay,
        list_answers=list_answers,
    )  # fmt: skip
    loads = fleet.loads[0]
    processing, storage = loads_of(world)
    assert loads.arrivals.tolist() == processing
    assert loads.storage.tolist() == storage
    assert fleet.answers == sum(len(subscriber.rows) for subscriber in subscribers) > 100


@pytest.mark.parametrize("seed", range(12))
def test_arbitrary_queries_and_data_load_a_fleet_as_they_load_peers(seed):
    """Filters, repeated variables, repeated triples: any query of draw_query."""
    rng = Random(seed)
    vocabulary = draw_vocabulary(rng)
    triples = draw_triples(rng, vocabulary, 80)
    queries = distinct(
        query
        for query in (draw_query(rng, triples, vocabulary) for _ in range(12))
        if not any(all(slot >= 0 for slot in pattern) for pattern in query.patterns)
    )
    world, _ = in_world(5, Algorithm.CSBV, queries, triples, "csbv", seed=seed, batch=1)
    fleet = in_fleet([node.contact.key for node in world.nodes], Algorithm.CSBV, queries, triples)
    processing, storage = loads_of(world)
    assert fleet.loads[0].arrivals.tolist() == processing
    assert fleet.loads[0].storage.tolist() == storage


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("order", ["rarest", "written"])
def test_counted_answers_are_as_many_as_listed_ones(algorithm, order):
    queries, triples = path_workload()
    counted, listed = (
        in_fleet([1, 1 << 62], algorithm, queries, triples, order=order, list_answers=listing)
        for listing in (False, True)
    )
    assert counted.answers == listed.answers > 100
    assert counted.loads[0].rows.tolist() == listed.loads[0].rows.tolist()


def told_by_cause(algorithm, order, queries, triples, batch):
    """Return a fleet and the rows of each of its messages, by step, cause, origin and key."""
    seen = []
    fleet = in_fleet(
        [5, 1 << 62, 1 << 63], algorithm, queries, triples, batch=batch, order=order, on_messages=seen.append
    )
    rows = Counter()
    for each in seen:
        origin = np.zeros(len(each.key), np.uint64) if each.origin is None else each.origin
        names = zip(each.cause.tolist(), origin.tolist(), each.key.tolist(), each.rows.tolist(), strict=True)
        for cause, source, key, count in names:
            rows[each.step, cause, source, key] += count
    assert sum(len(each.key) for each in seen if each.step >= 0) == sum(step >= 0 for step, *_ in rows)
    return fleet, rows


@pytest.mark.parametrize("order", ["rarest", "written"])
@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_the_size_of_a_batch_changes_nothing(algorithm, order):
    """Neither loads, checks included, nor messages: the item that completed a row is its cause in any batch."""
    queries, triples = path_workload()
    triples = [*triples, *triples[:50]]  # some are published again, in the large batch within it
    (one, alone), (many, together) = (told_by_cause(algorithm, order, queries, triples, size) for size in (1, 600))
    assert one.answers == many.answers > 100
    assert alone == together
    for name in type(one.loads[0]).__slots__:
        assert getattr(one.loads[0], name).tolist() == getattr(many.loads[0], name).tolist(), name


def test_a_copy_is_checked_where_something_waits_before_it_comes():
    query = ConjunctiveQuery(((0, -1, 1), (1, -2, 2)), ("<urn:p>", "<urn:q>"), (0,), ("s",))
    follows = [("<urn:b>", "<urn:q>", f"<urn:c{at}>") for at in range(3)]
    triples = [follows[0], ("<urn:a>", "<urn:p>", "<urn:b>"), *follows[1:]]
    fleet = in_fleet([1], Algorithm.CSBV, [query], triples)
    # Under role p the query waits from the beginning: all four.  Under sp a row, after the second: the last two.
    assert fleet.loads[0].checked.sum() == 4 + 2
    assert fleet.answers == 3


@pytest.mark.parametrize("seed", range(4))
def test_answers_of_arbitrary_queries_are_counted_exactly_or_refused(seed):
    """Equal queries, repeated variables, triples twice in a batch and again later, batches of any size."""
    rng = Random(seed)
    vocabulary = draw_vocabulary(rng)
    triples = draw_triples(rng, vocabulary, 60)
    triples += triples[:10] + triples[-3:] * 2
    drawn = [draw_query(rng, triples, vocabulary) for _ in range(10)]
    for algorithm in Algorithm:
        queries = [query for query in drawn if countable(query, algorithm)]
        for batch in (1, 7, len(triples)):
            counted, listed = (
                in_fleet([1, 1 << 63], algorithm, queries * 2, triples, batch=batch, list_answers=listing)
                for listing in (False, True)
            )
            assert counted.answers == listed.answers
            for name in type(counted.loads[0]).__slots__:
                assert getattr(counted.loads[0], name).tolist() == getattr(listed.loads[0], name).tolist(), name


def countable(query, algorithm):
    try:
        Fleet(TermDictionary(), [Places([1])], algorithm, list_answers=False).subscribe([query])
    except LocalProtocolError:
        return False
    return True


def test_chains_store_triples_that_match_a_later_pattern_whole():
    """The paper's CQC stores a triple that matches a later link: all its constants and repeated variables."""
    query = parse_select("SELECT ?x WHERE { ?x <urn:p> ?y . ?y <urn:q> <urn:c> . ?z <urn:r> ?z . ?z <urn:r> ?y }")
    matching = [("<urn:a>", "<urn:q>", "<urn:c>"), ("<urn:b>", "<urn:r>", "<urn:b>"), ("<urn:b>", "<urn:r>", "<urn:y>")]
    others = [("<urn:x>", "<urn:p>", "<urn:a>"), ("<urn:a>", "<urn:q>", "<urn:d>"), ("<urn:a>", "<urn:t>", "<urn:c>")]
    fleet = in_fleet([1], Algorithm.CQC, [query], matching + others, order="written")
    assert fleet.loads[0].matching.sum() == len(matching)
    assert fleet.loads[0].storage_matching.sum() == 4 + fleet.loads[0].rows.sum() + len(matching)
    alone = parse_select("SELECT ?z WHERE { ?x <urn:p> ?z . ?z <urn:r> ?z }")
    fleet = in_fleet([1], Algorithm.CQC, [alone], matching + others, order="written")
    assert fleet.loads[0].matching.sum() == 1


def test_rings_of_several_sizes_share_one_run():
    queries, triples = path_workload()
    dictionary = TermDictionary()
    rings = [Places([1 << 60]), Places([1 << 60, 1 << 62, 1 << 63])]
    fleet = Fleet(dictionary, rings, Algorithm.CSBV)
    fleet.subscribe(queries)
    fleet.publish(*(np.array(dictionary.intern_all(list(c)), np.uint32) for c in zip(*triples, strict=True)))
    totals = [(int(loads.arrivals.sum()), int(loads.storage.sum())) for loads in fleet.loads]
    assert totals[0] == totals[1]
    assert len(fleet.loads[1].rows) == 3


def test_every_row_is_in_one_message_and_every_message_has_a_cause():
    queries, triples = path_workload()
    seen = []
    fleet = in_fleet([7, 1 << 63], Algorithm.CSBV, queries, triples, batch=1, on_messages=seen.append)
    index = [message for message in seen if message.step < 0]
    assert sum(len(message.key) for message in index) == 7 * len(triples)
    rows = [message for message in seen if message.step >= 0]
    assert sum(int(message.rows.sum()) for message in rows) == fleet.loads[0].rows.sum()
    assert all((message.cause < len(triples)).all() for message in rows)
    for message in rows:  # one at a time: a message's cause is the triple just published
        assert len(np.unique(message.cause)) == 1


def test_keys_on_demand_give_the_same_answers_from_fewer_copies():
    queries, triples = path_workload()
    every, some = (
        in_fleet([7, 1 << 63], Algorithm.CSBV, queries, triples, indexes=indexes) for indexes in ("paper", "on-demand")
    )
    assert every.answers == some.answers > 100
    assert some.loads[0].triples.sum() * 7 == every.loads[0].triples.sum()


def test_paper_keys_leave_out_the_role():
    s, p, o = (np.array([value], np.uint64) for value in (3, 5, 7))
    assert paper_keys(1, s, p, o) == paper_keys(4, o, p, s)  # a subject and an object alike
    assert paper_keys(3, s, p, o) == paper_keys(6, o, s, p)
    assert paper_keys(3, s, p, o) != paper_keys(3, p, s, o)
    typed = KEY_ENCODINGS["typed"]
    assert typed(1, s, p, o) != typed(4, o, p, s)


def test_an_unsupported_query_is_refused_by_name():
    dictionary = TermDictionary()
    fleet = Fleet(dictionary, [Places([1])], Algorithm.CSBV, list_answers=False)
    wildcard = parse_select("SELECT * WHERE { ?s ?p ?o }")
    filtered = parse_select('SELECT * WHERE { ?s <urn:p> ?o FILTER(?o > 3) }')
    with pytest.raises(LocalProtocolError, match="no constant part"):
        fleet.subscribe([wildcard])
    with pytest.raises(LocalProtocolError, match="counted only where"):
        fleet.subscribe([filtered])
    term = np.array(dictionary.intern_all(["<urn:t>"]), np.uint32)
    fleet.publish(term, term, term)
    with pytest.raises(LocalProtocolError, match="before its triples"):
        fleet.subscribe([ConjunctiveQuery(((0, -1, 1),), ("<urn:p>",), (0,), ("s",))])
    for options in ({"order": "random"}, {"indexes": "some"}):
        with pytest.raises(LocalProtocolError, match=r"is n(either|one)"):
            Fleet(TermDictionary(), [Places([1])], Algorithm.CSBV, **options)
