"""Statements of named graphs as they are indexed: whole columns at once, and their answers at two peers."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from peer_pair import HIGH, LOW, Pair
from quads_as_triples import as_triples

from p2prdf import keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.errors import Busy, DataRefused
from p2prdf.hlc import GONE
from p2prdf.peer.entry.graphs import index_quads
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire.contract import Failed, Publish, Published, Subscribe, Subscribed
from p2prdf.wire.limits import TERM_BYTES_MAX
from p2prdf.wire.messages import WITHDRAWN

PREDICATES = [f"<urn:p{n}>" for n in range(3)]
GRAPHS = ["", "<urn:g>", "<urn:h>", "<urn:bnode:f:x>"]


def drawn(seed, count=50):
    rng = random.Random(seed)
    return [
        (f"<urn:s{rng.randrange(9)}>", rng.choice(PREDICATES), f'"{rng.randrange(9)}"', rng.choice(GRAPHS))
        for _ in range(count)
    ]


def indexed(dictionary, statements, *, first_event=0, removed=False, publisher=7):
    columns = [np.array(dictionary.intern_all(column), np.uint32) for column in zip(*statements, strict=True)]
    events = keys.event_ids(publisher, first_event, len(statements))
    return index_quads(dictionary, *columns, events, removed=removed)


def spelled(dictionary, found):
    return list(zip(*(dictionary.texts(as_list(column)) for column in found[:3]), strict=True))


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_columns_become_the_same_triples_as_single_statements(seed, removed):
    statements, dictionary = drawn(seed), TermDictionary()
    found = spelled(dictionary, indexed(dictionary, statements, removed=removed))
    triples, directory = as_triples(statements, removed=removed)
    assert found[: len(triples)] == triples
    assert sorted(found[len(triples) :]) == sorted(directory)


def test_statements_of_the_default_graph_alone_stay_unchanged():
    dictionary = TermDictionary()
    statements = [(s, p, o, "") for s, p, o, _ in drawn(1)]
    found = indexed(dictionary, statements)
    assert spelled(dictionary, found) == [triple[:3] for triple in statements]
    assert as_list(found.event) == as_list(keys.event_ids(7, 0, len(statements)))


def test_events_are_numbered_by_rows_and_the_directorys_follow_from_them_at_every_node():
    statements, here, there = drawn(2), TermDictionary(), TermDictionary()
    there.intern_all([*reversed(GRAPHS), *reversed(PREDICATES)])  # numbered otherwise
    found, again = indexed(here, statements), indexed(there, statements)
    count = len(statements)
    assert as_list(found.event[:count]) == as_list(keys.event_ids(7, 0, count))
    assert len(set(as_list(found.event))) == len(found.event)
    by_event = [
        dict(zip(as_list(each.event), spelled(names, each), strict=True))
        for names, each in ((here, found), (there, again))
    ]
    assert by_event[0] == by_event[1]
    assert not set(as_list(found.event[count:])) & set(as_list(indexed(here, statements, publisher=8).event))


def test_a_predicate_and_graph_too_long_for_one_term_are_refused():
    dictionary = TermDictionary()
    half = "x" * (TERM_BYTES_MAX // 2)
    with pytest.raises(DataRefused, match="a predicate and its graph have more than"):
        indexed(dictionary, [("<s>", f"<urn:{half}>", "<o>", f"<urn:{half}>")])
    indexed(dictionary, [("<s>", f"<urn:{half}>", "<o>", f"<urn:{half[:-100]}>")])


# --- at a peer -----------------------------------------------------------------------------------


def publish(pair, statements, *, removed=False, at=LOW):
    pair.requests += 1
    make, intern = pair.columns.column, pair.dictionary.intern_all
    s, p, o, graph = (make(intern(column), "uint32") for column in zip(*statements, strict=True))
    pair.submit(at, Publish(pair.requests, 9, pair.events, s, p, o, removed=removed, graph=(graph,)))
    pair.events += len(statements)
    pair.pass_time(1.0)
    return pair.completed[pair.requests]


def told(pair):
    """Return the bag of solutions delivered and not retracted, as texts."""
    true = {}
    for notify in pair.notified:
        rows = list(zip(*(pair.dictionary.texts(as_list(column)) for column in notify.bindings), strict=True))
        for identity, born, row in zip(as_list(notify.identity), as_list(notify.born), rows, strict=True):
            if born >= GONE:
                true.pop(identity ^ WITHDRAWN, None)
            else:
                true[identity] = row
    return Counter(true.values())


def subscribe(pair, text, *, per_event=False, algorithm=Algorithm.CSBV, since=0):
    query = parse_query(text).conjunctive
    pair.requests += 1
    pair.submit(HIGH, Subscribe(pair.requests, query, algorithm, per_event, since=since))
    pair.pass_time(1.0)
    return pair.completed[pair.requests]


STATEMENTS = [
    ("<urn:a>", "<urn:p>", '"1"', "<urn:g>"), ("<urn:a>", "<urn:p>", '"2"', "<urn:h>"),
    ("<urn:a>", "<urn:p>", '"3"', ""), ("<urn:b>", "<urn:q>", '"4"', "<urn:g>"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("?s <urn:p> ?o", [("<urn:a>", '"3"')]),
        ("?s ?p ?o . ?s <urn:p> ?x", [("<urn:a>", "<urn:p>", '"3"', '"3"')]),
        ("GRAPH <urn:g> { ?s <urn:p> ?o }", [("<urn:a>", '"1"')]),
        ("GRAPH ?g { ?s <urn:p> ?o }", [("<urn:g>", "<urn:a>", '"1"'), ("<urn:h>", "<urn:a>", '"2"')]),
        ("GRAPH <urn:g> { ?s ?p ?o }", [("<urn:a>", "<urn:p>", '"1"'), ("<urn:b>", "<urn:q>", '"4"')]),
    ],
)
@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
@pytest.mark.parametrize("indexes", ["all", "on-demand"])
@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_statement_counts_in_its_graph_alone_until_it_is_removed_there(columns, indexes, algorithm, group, expected):
    pair = Pair(columns, indexes=indexes)
    assert isinstance(subscribe(pair, f"SELECT * {{ {group} }}", algorithm=algorithm), Subscribed)
    assert isinstance(publish(pair, STATEMENTS), Published)
    assert told(pair) == dict.fromkeys(expected, 1)
    publish(pair, [(*STATEMENTS[0][:3], "<urn:other>"), (*STATEMENTS[2][:3], "<urn:other>")], removed=True)
    publish(pair, STATEMENTS, at=HIGH)  # again, elsewhere
    assert told(pair) == dict.fromkeys(expected, 1)
    publish(pair, STATEMENTS, removed=True, at=HIGH)
    assert told(pair) == {}
    publish(pair, STATEMENTS)
    assert told(pair) == dict.fromkeys(expected, 1)


@pytest.mark.parametrize("group", ["GRAPH ?g { ?s <urn:p> ?o }", "GRAPH ?g { ?s ?p ?o }", "GRAPH <urn:g> { ?s ?p ?o }"])
def test_statements_decide_which_rows_count_since_a_time_though_their_directory_comes_again(group):
    """Also for younger subscriptions of the same group."""

    def numbers(subscription):
        there = [each for each in pair.notified if each.subscription == subscription.subscription]
        rows = (zip(*(pair.dictionary.texts(as_list(c)) for c in each.bindings), strict=True) for each in there)
        return sorted(row[-1] for some in rows for row in some)

    pair = Pair()
    published = [publish(pair, [("<urn:a>", "<urn:p>", f'"{n}"', "<urn:g>")]) for n in range(4)]
    text = f"SELECT * {{ {group} }}"
    middle, late = (subscribe(pair, text, since=since) for since in (published[2].time, 0))
    early = subscribe(pair, text, since=published[0].time)
    pair.pass_time(1.0)
    assert [numbers(each) for each in (early, middle, late)] == [['"0"', '"1"', '"2"', '"3"'], ['"2"', '"3"'], []]
    publish(pair, [("<urn:a>", "<urn:p>", '"4"', "<urn:g>"), ("<urn:a>", "<urn:p>", '"1"', "<urn:g>")])
    assert numbers(late) == ['"1"', '"4"']
    assert numbers(middle) == ['"1"', '"2"', '"3"', '"4"']
    assert numbers(early) == ['"0"', '"1"', '"2"', '"3"', '"4"']
    born = {each.subscription: max(as_list(each.born)) for each in pair.notified}
    assert len(set(born.values())) == 1


def test_per_event_a_graph_that_is_named_is_answered_and_one_that_is_not_is_refused():
    pair = Pair()
    for group in ("GRAPH ?g { ?s <urn:p> ?o }", "GRAPH <urn:g> { ?s ?p ?o }"):
        outcome = subscribe(pair, f"SELECT * {{ {group} }}", per_event=True)
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.text.split(",")[0]) == ("query-refused", "per event GRAPH takes an IRI")
    assert isinstance(subscribe(pair, "SELECT * { GRAPH <urn:g> { ?s <urn:p> ?o } }", per_event=True), Subscribed)
    publish(pair, STATEMENTS)
    publish(pair, STATEMENTS)
    assert told(pair) == {("<urn:a>", '"1"'): 2}


def test_a_full_dictionary_is_reported_as_busy_and_nothing_is_published():
    pair = Pair()
    pair.dictionary.terms_max = len(pair.dictionary) + 6
    outcome = publish(pair, STATEMENTS[:1])
    assert isinstance(outcome, Failed)
    assert outcome.code == Busy.code
