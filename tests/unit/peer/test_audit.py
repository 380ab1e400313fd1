"""Replicas check the deliveries of the primary of a key: a silent one is reported, an honest one is not."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW, QUERY, Pair

from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer.joins.audit import FRESH_MAX
from p2prdf.wire.contract import ContactSeen

AUDIT_SECONDS = 5.0


def pair_of(columns, **config):
    pair = Pair(columns, replicas=2, copies_min=1, **config)
    pair.compare()
    pair.pass_time(10.0)
    return pair


def published(pair, count=20):
    pair.subscribe(LOW, QUERY)
    pair.pass_time(1.0)
    for number in range(count):
        pair.publish(HIGH, (f"<s{number}>", "<p>", f"<o{number}>"))
    pair.pass_time(30.0)
    return {key: peer.status()["withheld"] for key, peer in pair.peers.items()}


def delivered(pair):
    return sum(len(each.identity) for each in pair.notified)


@pytest.mark.parametrize("columns", [ARRAYS, LISTS], ids=["arrays", "lists"])
def test_honest_primary_is_audited_and_not_reported(columns):
    pair = pair_of(columns, audit_seconds=AUDIT_SECONDS)
    assert not any(published(pair).values())
    assert sum(peer.status()["audited"] for peer in pair.peers.values()) == 20
    assert delivered(pair) == 20
    assert all(peer.quiet for peer in pair.peers.values())


@pytest.mark.parametrize("columns", [ARRAYS, LISTS], ids=["arrays", "lists"])
def test_silent_primary_is_reported_and_its_solutions_are_delivered(columns):
    pair = pair_of(columns, audit_seconds=AUDIT_SECONDS)
    silent = [key for key, peer in pair.peers.items()]
    for peer in pair.peers.values():
        peer._engine.route = lambda *_: None
        peer._engine._route = lambda *_: None
    withheld = published(pair)
    assert sum(sum(each.values()) for each in withheld.values()) == 20 * len(silent)
    assert {each.event for each in pair.traces} >= {"solutions-withheld"}
    assert delivered(pair) == 20


def test_groups_are_remembered_up_to_a_bound_and_too_many_of_them_defer_audits():
    """No sampled key asks for the usual pruning here, so the arrivals themselves keep the bound."""
    pair = pair_of(ARRAYS, audit_seconds=AUDIT_SECONDS)
    audits = [peer._engine.audit for peer in pair.peers.values()]

    def groups_come(first: int, count: int) -> None:
        for contact, other in ((LOW, HIGH), (HIGH, LOW)):
            pair.submit(contact, ContactSeen(other))  # shows the time to the peer
        for audit in audits:
            for at in range(first, first + count, 64):
                audit.groups_came(ARRAYS.column(range(at, at + 64)))
                assert len(audit._fresh) <= FRESH_MAX

    groups_come(0, FRESH_MAX)
    pair.pass_time(60.0)
    groups_come(FRESH_MAX, FRESH_MAX // 2)  # those before came long ago
    assert all(audit._not_before < pair.now for audit in audits)
    groups_come(2 * FRESH_MAX, FRESH_MAX)
    assert all(audit._not_before > pair.now for audit in audits)
    published(pair, 1)
    assert not any(peer.status()["audited"] for peer in pair.peers.values())
    pair.pass_time(60.0)
    pair.publish(HIGH, ("<later>", "<p>", "<o>"))
    pair.pass_time(30.0)
    assert any(peer.status()["audited"] for peer in pair.peers.values())


def test_without_the_setting_nothing_is_audited():
    pair = pair_of(ARRAYS)
    published(pair)
    assert all(peer.status()["audited"] == 0 for peer in pair.peers.values())
