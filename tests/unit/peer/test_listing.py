"""Lists of subscriptions: one of its replicas lists each subscription, and the length is bounded."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf.columns import ARRAYS
from p2prdf.peer.explain.listing import LISTED_MAX
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire.contract import Subscribe, Subscribed, Unsubscribe


@pytest.fixture(params=[1, 2], ids=["one copy", "two copies"])
def pair(request):
    pair = Pair(ARRAYS, replicas=request.param, copies_min=1)
    pair.publish(LOW, ("<x>", "<y>", "<z>"))
    pair.pass_time(30.0)
    return pair


def subscribed(pair, text, algorithm=Algorithm.CSBV, at=LOW):
    query = parse_query(text)
    pair.requests += 1
    pair.submit(at, Subscribe(pair.requests, query.conjunctive or query, algorithm, lease_seconds=90.0))
    pair.pass_time(1.0)
    outcome = pair.completed[pair.requests]
    assert isinstance(outcome, Subscribed), outcome
    return f"{outcome.subscription:016x}"


def told(pair):
    """Return all listed subscriptions by number, and as a list over all peers."""
    parts = {key: peer.subscriptions(now=pair.now) for key, peer in pair.peers.items()}
    every = [each for part in parts.values() for each in part["subscriptions"]]
    assert sum(part["total"] for part in parts.values()) == len(every)
    return {each["number"]: each for each in every}, every


def test_each_subscription_is_listed_once_with_its_query(pair):
    assert told(pair)[1] == []
    chain = subscribed(pair, "SELECT ?a ?c { ?a <u:p> ?b . ?b <u:q> ?c }", Algorithm.CQC, HIGH)
    counting = subscribed(pair, "SELECT ?t (COUNT(*) AS ?n) { ?x <u:type> ?t OPTIONAL { ?x <u:p> ?y } } GROUP BY ?t")
    by_number, every = told(pair)
    assert len(every) == 2
    assert set(by_number) == {chain, counting}
    one, two = by_number[chain], by_number[counting]
    assert one["patterns"] == ["?a <u:p> ?v0", "?v0 <u:q> ?c"]
    assert (one["form"], one["names"], one["algorithm"]) == ("select", ["a", "c"], "cqc")
    assert (one["answers"], one["unacknowledged"], one["reached"]) == (0, 0, True)
    assert 80.0 < one["lease_left_seconds"] <= one["lease_seconds"] == 90.0
    assert (two["names"], two["patterns_total"]) == (["t", "n"], 2)
    pair.publish(LOW, ("<a>", "<u:p>", "<b>"), ("<b>", "<u:q>", "<c>"))
    pair.pass_time(1.0)
    assert told(pair)[0][chain]["answers"] == 1
    pair.requests += 1
    pair.submit(LOW, Unsubscribe(pair.requests, int(chain, 16)))
    pair.pass_time(1.0)
    assert set(told(pair)[0]) == {counting}


def test_a_list_is_bounded_and_goes_on_after_its_last(pair):
    count = 2 * LISTED_MAX + 20
    numbers = sorted(subscribed(pair, f"SELECT ?a {{ ?a <u:p> {number} }}") for number in range(count))
    for peer in pair.peers.values():
        got, after, more = [], 0, True
        while more:
            part = peer.subscriptions(now=pair.now, after=after)
            assert len(part["subscriptions"]) <= LISTED_MAX
            got += [each["number"] for each in part["subscriptions"]]
            after, more = int(got[-1], 16), part["more"]
        assert got == sorted(got)
        assert len(got) == part["total"]
        assert set(got) <= set(numbers)
        numbers = [each for each in numbers if each not in got]
    assert numbers == []


def test_a_query_of_many_patterns_is_listed_in_part(pair):
    patterns = " . ".join(f"?v{n} <u:{'p' * 300}> ?v{n + 1}" for n in range(12))
    number = subscribed(pair, f"SELECT * {{ {patterns} }}")
    (one,) = [each for each in told(pair)[1] if each["number"] == number]
    assert (len(one["patterns"]), one["patterns_total"]) == (6, 12)
    assert all(len(each) < 200 for each in one["patterns"])
