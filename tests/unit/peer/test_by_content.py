"""Events identified by their content: a repeated row counts once, in any batch from any sender."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf.columns import ARRAYS, LISTS
from p2prdf.rdf import quads
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire.contract import Publish, Published, Subscribe, Subscribed

G = "<urn:g>"
MATERIALS = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])


def query(predicate="<p>"):
    return ConjunctiveQuery(((0, ~0, 1),), (predicate,), (0, 1), ("s", "o"))


def listening(columns, *predicates):
    """Return two peers of which one is asked for events with a predicate."""
    pair = Pair(columns)
    for predicate in predicates:
        pair.requests += 1
        pair.submit(HIGH, Subscribe(pair.requests, query(predicate), Algorithm.CSBV, per_event=True))
        pair.pass_time(1.0)
        assert isinstance(pair.completed[pair.requests], Subscribed)
    return pair


def publish(pair, *rows, at=LOW, publisher=7, **more):
    pair.requests += 1
    intern, make = pair.dictionary.intern_all, pair.columns.column
    s, p, o, *graph = (make(intern(column), "uint32") for column in zip(*rows, strict=True))
    more = {"by_content": True, "graph": tuple(graph), **more}
    pair.submit(at, Publish(pair.requests, publisher, 0, s, p, o, **more))
    pair.pass_time(1.0)
    assert isinstance(pair.completed[pair.requests], Published)


def events(pair):
    return len(set(pair.identities()))


@MATERIALS
def test_the_same_row_again_is_the_same_event_at_any_node_and_in_any_part(columns):
    pair = listening(columns, "<p>")
    a, b, c = ("<a>", "<p>", "<x>"), ("<b>", "<p>", "<x>"), ("<c>", "<p>", "<x>")
    publish(pair, a, b)
    publish(pair, b, c, a, at=HIGH)
    publish(pair, c, c)
    assert events(pair) == 3
    publish(pair, a, publisher=8)
    assert events(pair) == 4, "somebody else says it"
    publish(pair, a, by_content=False)
    assert events(pair) == 5, "a numbered event of the same publisher is another one"


@MATERIALS
def test_a_row_in_a_graph_is_another_than_the_same_in_none(columns):
    pair = listening(columns, "<p>", quads.qualified("<p>", G))
    publish(pair, ("<a>", "<p>", "<x>", G), ("<a>", "<p>", "<x>", ""))
    assert events(pair) == 2
    publish(pair, ("<a>", "<p>", "<x>", ""), at=HIGH)
    publish(pair, ("<b>", "<p>", "<x>", G), ("<a>", "<p>", "<x>", G), at=HIGH)
    assert events(pair) == 3
    publish(pair, ("<a>", "<p>", "<x>"))
    assert events(pair) == 3


@MATERIALS
def test_an_event_has_happened_though_its_triple_is_removed_and_published_again(columns):
    pair = listening(columns, "<p>")
    row = ("<a>", "<p>", "<x>")
    publish(pair, row)
    publish(pair, row, removed=True)
    publish(pair, row)
    assert events(pair) == 1
