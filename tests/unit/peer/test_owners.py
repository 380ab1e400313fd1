"""The owner of a subscription: known at its coordinator, sent to its replicas, kept on disks, checked for others."""

from __future__ import annotations

import dataclasses

import pytest
from peer_pair import HIGH, LOW, QUERY, Pair

from p2prdf.columns import ARRAYS
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.wire.contract import (
    AcknowledgeAnswers,
    Attach,
    Attached,
    ContactLost,
    Explain,
    Explained,
    Failed,
    Settled,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from p2prdf.wire.messages import KeepSubscription

NOTHING = ARRAYS.column([])


def subscribed(pair: Pair, owner: str, at=LOW) -> int:
    pair.submit(at, Subscribe(900, QUERY, Algorithm.CSBV, owner=owner))
    pair.pass_time(5.0)
    outcome = pair.completed[900]
    assert isinstance(outcome, Subscribed)
    return outcome.subscription


def requests(number: int, owner: str, first: int) -> list[object]:
    """All kinds of requests about a subscription."""
    return [
        AcknowledgeAnswers(first, number, ARRAYS.column([7]), owner),
        Explain(first + 1, number, owner=owner),
        Attach(first + 2, number, NOTHING, owner),
        Unsubscribe(first + 3, number, owner),
    ]


@pytest.mark.parametrize("at", [LOW, HIGH], ids=["low", "high"])
def test_another_client_is_refused_at_the_coordinator_from_any_node(at) -> None:
    pair = Pair()
    number = subscribed(pair, "alice")
    for request in requests(number, "mallory", 10):
        pair.submit(at, request)
        pair.pass_time(3.0)
        outcome = pair.completed[request.request]
        assert outcome == Failed("not-allowed", f"subscription {number:016x} is another client's"), request
    if at is HIGH:  # at its delivering node, the node refuses before its peer is asked
        pair.publish(HIGH, ("<a>", "<p>", "<b>"))
        assert pair.sequences() == [1], "it is delivered as before"


@pytest.mark.parametrize("owner", ["alice", ""], ids=["its owner", "whom nobody asks"])
def test_the_owner_may_and_so_may_a_node(owner: str) -> None:
    pair = Pair()
    number = subscribed(pair, "alice")
    kinds = (Settled, Explained, Attached, Unsubscribed)
    for request, kind in zip(requests(number, owner, 10), kinds, strict=True):
        pair.submit(HIGH, request)
        pair.pass_time(3.0)
        assert isinstance(pair.completed[request.request], kind)


def test_a_subscription_without_an_owner_is_open_to_all_clients_that_know_its_number() -> None:
    pair = Pair()
    number = subscribed(pair, "")
    pair.submit(HIGH, Attach(10, number, NOTHING, "mallory"))
    pair.pass_time(3.0)
    assert isinstance(pair.completed[10], Attached)


def test_an_attachment_names_the_graphs_of_the_query_where_permissions_count() -> None:
    pair = Pair()
    number = subscribed(pair, "alice")
    pair.submit(HIGH, Attach(10, number, NOTHING, "alice"))
    pair.pass_time(3.0)
    assert pair.completed[10].reads == ("",)
    plain = Pair()
    number = subscribed(plain, "")
    plain.submit(HIGH, Attach(10, number, NOTHING))
    plain.pass_time(3.0)
    assert plain.completed[10].reads == ()


def test_a_replica_that_becomes_primary_knows_the_owner() -> None:
    pair = Pair(replicas=2, copies_min=1)
    pair.publish(LOW, ("<x>", "<y>", "<z>"))
    pair.pass_time(30.0)
    number = subscribed(pair, "alice")
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key]._coordinator.home.subscriptions[number].delivered)
    other = LOW if home is HIGH else HIGH
    assert pair.peers[other.key]._coordinator.home.subscriptions[number].owner == "alice"
    del pair.peers[home.key]
    pair.submit(other, ContactLost(home))
    pair.pass_time(5.0)
    pair.submit(other, Attach(10, number, NOTHING, "mallory"))
    pair.pass_time(5.0)
    assert pair.completed[10].code == "not-allowed"
    pair.submit(other, Attach(11, number, NOTHING, "alice"))
    pair.pass_time(5.0)
    assert isinstance(pair.completed[11], Attached)


def test_a_peer_that_comes_back_knows_the_owner_and_reads_records_that_have_none() -> None:
    pair = Pair()
    number = subscribed(pair, "alice")
    home = next(c for c in (LOW, HIGH) if number in pair.peers[c.key]._coordinator.home.subscriptions)
    held = pair.peers[home.key]._coordinator.home
    record = held.record_of(held.subscriptions[number])
    assert isinstance(record, KeepSubscription)
    for kept, owner in ((record, "alice"), (dataclasses.replace(record, owner=""), "")):
        again = Peer(home, PeerConfig(), TermDictionary(), ARRAYS)
        again.restore([kept], now=pair.now)
        assert again._coordinator.home.subscriptions[number].owner == owner
