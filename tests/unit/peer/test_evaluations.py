"""Standing algebra queries, evaluated by peers together."""

from __future__ import annotations

from collections import Counter

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.errors import QueryRefused, SubscriptionGone
from p2prdf.hlc import FIRST, GONE
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire.contract import Failed, Subscribe, Subscribed

OPTIONAL = parse_query("SELECT ?s ?o ?n WHERE { ?s <urn:p> ?o OPTIONAL { ?o <urn:n> ?n } }")
PAIRS = parse_query("SELECT * WHERE { { ?a <urn:p> ?b } { ?c <urn:p> ?d } OPTIONAL { ?c <urn:q> ?e } }")


@pytest.fixture(params=[LISTS, ARRAYS], ids=["light", "columnar"])
def columns(request):
    return request.param


def _pair(columns, **config) -> Pair:
    pair = Pair(columns, **config)
    pair.publish(LOW, ("<x>", "<urn:x>", "<y>"))  # so that they look for each other
    pair.pass_time(5.0)
    return pair


def _held(pair: Pair) -> Counter[tuple[str, ...]]:
    held: Counter[tuple[str, ...]] = Counter()
    for notify in pair.notified:
        rows = list(zip(*(pair.dictionary.texts(as_list(column)) for column in notify.bindings), strict=True))
        for row, born in zip(rows, as_list(notify.born), strict=True):
            held[row] += -1 if born >= GONE else 1
    return +held


def _subscribe(pair: Pair, query, **options):
    pair.requests += 1
    pair.submit(LOW, Subscribe(pair.requests, query, Algorithm.CSBV, lease_seconds=600.0, **options))
    pair.pass_time(2.0)
    return pair.completed[pair.requests]


def test_a_query_that_holds_too_much_is_ended_and_its_subscriber_notified(columns):
    pair = _pair(columns, replicas=2, copies_min=1, query_rows_max=40)
    outcome = _subscribe(pair, PAIRS)
    other = _subscribe(pair, OPTIONAL)
    assert isinstance(outcome, Subscribed)
    assert isinstance(other, Subscribed)
    pair.publish(HIGH, *((f"<s{n}>", "<urn:p>", f"<o{n}>") for n in range(12)))
    pair.pass_time(2.0)
    (ended,) = pair.ended
    assert (ended.subscription, ended.code) == (outcome.subscription, SubscriptionGone.code)
    assert "query_rows_max" in ended.text
    pair.notified.clear()
    pair.publish(HIGH, ("<o1>", "<urn:n>", '"one"'))
    pair.pass_time(2.0)
    assert _held(pair) == {("<s1>", "<o1>", '"one"'): 1}


def test_earlier_triples_count_on_request(columns):
    pair = _pair(columns, replicas=2, copies_min=1)
    pair.publish(HIGH, *(("<a>", "<urn:p>", o) for o in ("<b>", "<c>", "<d>")), ("<b>", "<urn:n>", '"B"'))
    pair.pass_time(2.0)
    assert isinstance(_subscribe(pair, OPTIONAL), Subscribed)
    assert not _held(pair)
    assert isinstance(_subscribe(pair, OPTIONAL, since=FIRST), Subscribed)
    assert _held(pair) == {("<a>", "<b>", '"B"'): 1, ("<a>", "<c>", ""): 1, ("<a>", "<d>", ""): 1}
    pair.notified.clear()
    pair.publish(LOW, ("<c>", "<urn:n>", '"C"'))  # for the first subscription there is nothing that this belongs to
    pair.pass_time(2.0)
    assert _held(pair) == {("<a>", "<c>", '"C"'): 1}


@pytest.mark.parametrize(("indexes", "text"), [
    ("on-demand", "SELECT * WHERE { ?s ?p ?o }"), ("on-demand", "SELECT * WHERE { ?s <urn:p> ?o }"),
    ("csbv", "SELECT * WHERE { ?s ?p ?o }"),
])  # fmt: skip
def test_history_is_refused_where_it_was_not_kept(columns, indexes, text):
    pair = _pair(columns, indexes=indexes, replicas=2, copies_min=1)
    query = parse_query(text).conjunctive
    outcome = _subscribe(pair, query, since=FIRST)
    assert isinstance(outcome, Failed)
    assert outcome.code == QueryRefused.code
    assert "`indexes = all`, the default" in outcome.text
    assert isinstance(_subscribe(pair, query), Subscribed)  # as ever


def test_by_default_earlier_triples_are_answered_without_a_constant_but_not_per_event(columns):
    pair = _pair(columns, replicas=2, copies_min=1)
    query = parse_query("SELECT * WHERE { ?s ?p ?o }").conjunctive
    assert isinstance(_subscribe(pair, query, since=FIRST), Subscribed)
    outcome = _subscribe(pair, query, since=FIRST, per_event=True)
    assert isinstance(outcome, Failed)
    assert "per event has no history" in outcome.text


def test_per_event_is_for_conjunctive_queries(columns):
    outcome = _subscribe(_pair(columns), OPTIONAL, per_event=True)
    assert isinstance(outcome, Failed)
    assert outcome.code == QueryRefused.code


def test_equal_queries_with_a_salt_are_evaluated_alone(columns):
    pair = _pair(columns, replicas=2, copies_min=1)
    numbers = [_subscribe(pair, OPTIONAL, salt=salt).subscription for salt in (0, 0, 5, 6)]
    homes = [number >> 20 for number in numbers]
    assert homes[0] == homes[1]
    assert len(set(homes)) == 3
    pair.publish(HIGH, ("<a>", "<urn:p>", "<b>"))
    pair.pass_time(2.0)
    assert _held(pair) == {("<a>", "<b>", ""): 4}
