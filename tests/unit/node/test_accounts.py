"""Permissions, quotas and ownership in a node's sessions: by the client's name, over all of its connections."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from session_world import World, identity

from p2prdf.errors import NotAllowed
from p2prdf.wire import contract, messages
from p2prdf.wire.fields import NUMBERS
from p2prdf_node import session
from p2prdf_node.permissions import Action
from p2prdf_node.session import HANDLERS

ALICE, MALLORY, NODE = identity("alice"), identity("mallory"), identity("00000000000000ff", "node")
PERMISSIONS = """
[clients.alice]
may = ["subscribe", "query"]
read = ["default", "urn:a:"]
publish = ["default", "urn:a:"]
remove = ["default"]
[clients.mallory]
may = ["subscribe", "query"]
read = ["*"]
[clients.asker]
may = ["query"]
read = ["default"]
[clients.watcher]
may = ["observe"]
read = ["default"]
[clients.admin]
may = ["observe", "administer"]
read = ["default"]
[clients.gate]
speaks_for = ["alice"]
"""
NOTHING = np.empty(0, np.uint64)


def graph_publication(world, request, graph, **more):
    column = np.full(1, world.iri, np.uint32)
    place = np.full(1, world.terms.intern(graph), np.uint32)
    return messages.ClientPublish(request, 7, 100 * request, column, column, column, graph=(place,), **more)


def subscribe(world, wire, text="good", *, once=False, lease=60.0, request=1):
    """Request a subscription, and have its text parsed; return the answers sent meanwhile."""
    before = len(wire.sent)
    wire.take(messages.ClientSubscribe(request, text, "csbv", False, lease, once=once))
    while world.work:
        asyncio.run(world.work.pop())
    return wire.sent[before:]


def codes(parts):
    return [part.code for part in parts if isinstance(part, messages.ClientError | messages.ClientEnded)]


def test_every_request_of_a_client_has_a_rule():
    """Every message of a client is an answer, the hello, or stands in the one table of requests."""
    said = {kind for kind in NUMBERS if issubclass(kind, messages.ClientMessage)}
    answers = {
        messages.ClientWelcome, messages.ClientPublished, messages.ClientSubscribed, messages.ClientRows,
        messages.ClientBookmark, messages.ClientEnded, messages.ClientDone, messages.ClientReply, messages.ClientError,
        messages.ClientExportPage,
    }  # fmt: skip
    assert set(HANDLERS) == said - answers - {messages.ClientHello}
    assert {action for actions, _ in HANDLERS.values() for action in actions} == set(Action)


# --- accounts -------------------------------------------------------------------------------------


def test_connections_of_one_name_are_one_client_and_without_tls_each_is_one():
    world = World(permissions=PERMISSIONS)
    wires = [world.client(ALICE), world.client(ALICE), world.client(NODE), world.client(), world.client()]
    accounts = [wire.handler.account for wire in wires]
    assert accounts[0] is accounts[1]
    assert [each.owner for each in accounts] == ["alice", "alice", "node:00000000000000ff", "", ""]
    assert [each.requester for each in accounts] == ["alice", "alice", "", "", ""]
    assert accounts[3] is not accounts[4]
    assert accounts[3].permissions.unbounded
    assert not accounts[0].permissions.unbounded
    assert world.clients.summary()["names"] == 2


def test_a_client_that_acts_for_another_has_the_others_account():
    world = World(permissions=PERMISSIONS)
    gate = world.client(identity("gate"), "alice")
    assert gate.handler.account is world.client(ALICE).handler.account
    assert world.client(NODE, "alice").handler.account is gate.handler.account
    for who, name in ((ALICE, "mallory"), (identity("gate"), "mallory"), (None, "alice"), (NODE, "a b")):
        with pytest.raises(NotAllowed):
            world.client(who, name)
    with pytest.raises(NotAllowed, match="client gate may not act as client alice"):
        World().client(identity("gate"), "alice")  # no section permits it


def test_without_a_permissions_file_everybody_may_all_except_with_others_subscriptions():
    world = World()
    wire = world.client(ALICE)
    assert subscribe(world, wire) == []
    (request,) = world.taken(contract.Subscribe)
    assert request.owner == "alice"


# --- publishing ----------------------------------------------------------------------------------


def test_a_publication_that_is_not_allowed_is_refused_before_the_peer_sees_it():
    world = World(permissions=PERMISSIONS)
    alice, mallory = world.client(ALICE), world.client(MALLORY)
    assert alice.take(world.publication(1)) == []
    assert codes(alice.take(graph_publication(world, 2, "<urn:b:x>"))) == ["not-allowed"]
    assert alice.take(graph_publication(world, 3, "<urn:a:x>")) == []
    assert codes(alice.take(graph_publication(world, 4, "<urn:a:x>", removed=True))) == ["not-allowed"]
    assert codes(mallory.take(world.publication(5))) == ["not-allowed"]
    assert [each.first_event for each in world.taken(contract.Publish)] == [100, 300]
    assert world.clients.counts["errors_not-allowed"] == 3


def test_a_publisher_with_a_name_has_numbers_of_its_own():
    world = World(permissions=PERMISSIONS)
    wires = [world.client(), world.client(NODE), world.client(ALICE), world.client(ALICE),
             world.client(identity("gate"), "alice")]  # fmt: skip
    for wire in wires:
        wire.take(world.publication(1))
    world.hold_to(PERMISSIONS.replace("[clients.mallory]", "[clients.mallory]\npublish = ['*']"))
    mallory = world.client(MALLORY)
    mallory.take(world.publication(1))
    plain, node, *alices, other = [each.publisher for each in world.taken(contract.Publish)]
    assert plain == node == 7, "whom nobody asks, and nodes, number as they say"
    assert len(set(alices)) == 1
    assert len({7, alices[0], other}) == 3
    again = World(permissions=PERMISSIONS, secret=b"another secret of the cluster")
    again.client(ALICE).take(again.publication(1))
    assert again.taken(contract.Publish)[0].publisher != alices[0]


def test_streams_are_published_by_right_and_by_numbers_of_ones_own():
    world = World(permissions=PERMISSIONS)
    alice = world.client(ALICE)
    for stream in ("<urn:a:st>", "<urn:b:st>"):
        alice.take(messages.ClientHeartbeat(stream, 7, 1, 2, 3))
    assert alice.sent[1:] == [], "it is not answered, so it is left"
    (beat,) = world.taken(contract.Heartbeat)
    assert beat.publisher == alice.handler.account.publisher(7) != 7
    assert codes(alice.take(messages.ClientEndStream(1, "<urn:b:st>", 7, 1, 2, 3))) == ["not-allowed"]
    alice.take(messages.ClientEndStream(2, "<urn:a:st>", 7, 1, 2, 3))
    assert [each.publisher for each in world.taken(contract.EndStream)] == [beat.publisher]
    world.client(MALLORY).take(messages.ClientHeartbeat("<urn:a:st>", 7, 1, 2, 3))
    assert world.taken(contract.Heartbeat) == []


# --- subscribing and asking ----------------------------------------------------------------------


def test_subscriptions_and_queries_are_different_rights():
    world = World(permissions=PERMISSIONS)
    asker = world.client(identity("asker"))
    assert codes(subscribe(world, asker)) == ["not-allowed"]
    assert subscribe(world, asker, once=True) == []
    (said,) = subscribe(world, asker, once=True, lease=61.0)
    assert said.code == "not-allowed"
    assert "a lease of 61 s is more than 60 s, and client asker may not subscribe" in said.text
    watcher = world.client(identity("watcher"))
    assert codes([*subscribe(world, watcher), *subscribe(world, watcher, once=True)]) == ["not-allowed"] * 2
    assert len(world.taken(contract.Subscribe)) == 1


def test_a_query_is_looked_at_when_it_was_parsed():
    world = World(permissions=PERMISSIONS)
    alice = world.client(ALICE)
    (said,) = subscribe(world, alice, "SELECT * { GRAPH <urn:b> { ?s <urn:p> ?o } }")
    assert said.code == "not-allowed"
    assert "the pattern GRAPH <urn:b> {" in said.text
    assert subscribe(world, alice, "SELECT * { GRAPH <urn:a:x> { ?s <urn:p> ?o } }") == []
    assert alice.handler.subscribing == 1


def test_explanations_are_for_observers_and_about_data_that_they_may_read():
    world = World(permissions=PERMISSIONS)

    def explained(who, subscription, text=""):
        wire = world.client(identity(who))
        wire.take(messages.ClientExplain(1, subscription, text, "csbv", False))
        while world.work:
            asyncio.run(world.work.pop())
        return codes(wire.sent), [each.owner for each in world.taken(contract.Explain)]

    assert explained("watcher", 50) == ([], ["watcher"])
    assert explained("admin", 50) == ([], [""])
    assert explained("alice", 50) == (["not-allowed"], [])
    assert explained("watcher", 0, "good") == ([], [""])
    assert explained("watcher", 0, "SELECT * { GRAPH ?g { ?s ?p ?o } }") == (["not-allowed"], [])


def test_an_administrator_may_end_others_subscriptions():
    world = World(permissions=PERMISSIONS)
    for who, owner in (("alice", "alice"), ("admin", "")):
        world.client(identity(who)).take(messages.ClientUnsubscribe(1, 50))
        assert [each.owner for each in world.taken(contract.Unsubscribe)] == [owner]
    assert codes(world.client(identity("watcher")).take(messages.ClientUnsubscribe(1, 50))) == ["not-allowed"]


def test_requests_about_subscriptions_name_the_asking_client():
    world = World(permissions=PERMISSIONS)
    alice = world.client(ALICE)
    alice.take(messages.ClientAttach(1, 50, NOTHING))
    alice.take(messages.ClientAcknowledge(2, 50, NOTHING))
    assert [each.owner for each in world.taken(contract.Attach)] == ["alice"]
    assert [each.owner for each in world.taken(contract.AcknowledgeAnswers)] == ["alice"]


def test_a_subscription_that_is_delivered_here_is_not_taken_by_another_client():
    world = World(permissions=PERMISSIONS)
    alice, mallory = world.client(ALICE), world.client(MALLORY)
    subscribed(world, alice)
    assert codes(mallory.take(messages.ClientAttach(2, 50, NOTHING))) == ["not-allowed"]
    assert world.taken(contract.Attach) == []
    world.notify(1, 3)
    assert len(alice.sent[-1]) == 3
    alice.sent.clear()
    other = world.client(ALICE)
    other.take(messages.ClientAttach(3, 50, NOTHING))
    assert codes(alice.sent) == ["unavailable"], "another connection of the same client takes it over"
    assert len(world.taken(contract.Attach)) == 1


def subscribed(world, wire, number=50, **how):
    subscribe(world, wire, **how)
    (request,) = world.taken(contract.Subscribe)
    world.complete(request, contract.Subscribed(number, 1, (0,)))
    assert isinstance(wire.sent[-1], messages.ClientSubscribed)


def test_an_attachment_waits_for_a_concurrent_one_and_longer_after_a_refusal():
    world = World(permissions=PERMISSIONS)
    alice, mallory = world.client(ALICE), world.client(MALLORY)
    mallory.take(messages.ClientAttach(1, 50, NOTHING))
    assert codes(alice.take(messages.ClientAttach(2, 50, NOTHING))) == ["busy"]
    (request,) = world.taken(contract.Attach)
    world.complete(request, contract.Failed("not-allowed", "another client's"))
    assert codes(mallory.sent) == ["not-allowed"]
    assert alice.take(messages.ClientAttach(3, 50, NOTHING)) == []
    (said,) = mallory.take(messages.ClientAttach(4, 51, NOTHING))
    assert said.code == "busy"
    assert said.retry_after > 4


def test_an_attachment_is_checked_when_the_coordinator_reports_its_graphs():
    world = World(permissions=PERMISSIONS)
    for place, expected in (("<urn:a:x>", []), ("<urn:b>", ["not-allowed"])):
        alice = world.client(ALICE)
        alice.take(messages.ClientAttach(1, 50, NOTHING))
        (request,) = world.taken(contract.Attach)
        world.complete(request, contract.Attached(50, 1, ("s",), (0,), (place,), ()))
        assert codes(alice.sent) == expected
        assert [each.subscription for each in world.taken(contract.Detach)] == [50] * len(expected)
        alice.close()
        world.taken(contract.Detach)


# --- quotas --------------------------------------------------------------------------------------

QUOTAS = """
[clients.alice]
may = ["subscribe", "query"]
read = ["default"]
publish = ["default"]
open_bytes_max = 1000
subscriptions_max = 2
queries_max = 1
"""


def test_subscriptions_and_queries_are_counted_over_all_connections():
    world = World(permissions=QUOTAS)
    wires = [world.client(ALICE) for _ in range(3)]
    subscribed(world, wires[0], 50)
    assert subscribe(world, wires[1]) == []
    (said,) = subscribe(world, wires[2])
    assert said.code == "busy"
    assert said.retry_after == 60
    assert "client alice has 2 open (subscriptions_max 2 in its permissions)" in said.text
    assert codes(wires[0].take(messages.ClientAttach(3, 60, NOTHING))) == ["busy"]
    assert subscribe(world, wires[2], once=True) == []
    (said,) = subscribe(world, wires[0], once=True)
    assert (said.code, said.retry_after) == ("busy", 0.5)
    world.taken(contract.Subscribe)
    wires[2].close()
    subscribed(world, wires[0], 70, once=True)
    wires[0].close()
    subscribed(world, wires[1], 71, once=True)


@pytest.mark.parametrize("outcome", [contract.Failed("busy", "no room"), contract.Published(9)])
def test_bytes_of_open_publications_are_counted_over_all_connections(outcome):
    world = World(permissions=QUOTAS)
    one, other = world.client(ALICE), world.client(ALICE)
    one.frame_bytes = other.frame_bytes = 600
    assert one.take(world.publication(1)) == []
    (said,) = other.take(world.publication(2))
    assert (said.code, said.retry_after) == ("busy", 0.5)
    assert "600 bytes of publications of client alice are open (open_bytes_max 1000 in its permissions)" in said.text
    (request,) = world.taken(contract.Publish)
    world.complete(request, contract.Published(9))
    other.frame_bytes = 5000
    assert other.take(world.publication(3)) == [], "one of any size is let in"
    (request,) = world.taken(contract.Publish)
    other.close()
    assert one.handler.account.open_bytes == 5000, "it is still under way"
    world.complete(request, outcome)
    assert one.handler.account.open_bytes == 0
    one.take(world.publication(4))
    one.close()
    assert world.client(ALICE).handler.account.open_bytes == 0, "what was held is gone with its connection"


def test_triples_per_second_are_counted_over_all_connections_together():
    world = World(permissions="[clients.alice]\npublish = ['default']\ntriples_per_second = 10")
    wire = world.client(ALICE)
    wire.take(world.publication(1, rows=1000))
    wire.take(world.publication(2))
    assert len(world.taken(contract.Publish)) == 1, "the first overdraws it"
    wire.close()
    again = world.client(ALICE)
    again.take(world.publication(3))
    world.turn()
    assert world.taken(contract.Publish) == []
    again.handler.publications.refuse_overdue(time.monotonic() + 60)
    (said,) = again.sent[1:]
    assert said.code == "busy"
    assert "client alice has used up its quota (triples_per_second in its permissions)" in said.text
    assert said.retry_after > 20
    world.clients.accounts.sweep(time.monotonic())
    again.close()
    world.clients.accounts.sweep(time.monotonic())
    assert len(world.clients.accounts) == 1
    world.clients.accounts.sweep(time.monotonic() + 1000)
    assert len(world.clients.accounts) == 0


def test_a_long_query_of_a_client_that_may_not_subscribe_is_cut_off(monkeypatch):
    world = World(permissions=PERMISSIONS)
    asker, alice = world.client(identity("asker")), world.client(ALICE)
    subscribed(world, asker, 50, once=True)
    subscribed(world, alice, 51, once=True)
    world.clients.sweep(time.monotonic() + session.QUERY_SECONDS - 1)
    assert codes(asker.sent) == []
    world.clients.sweep(time.monotonic() + session.QUERY_SECONDS + 1)
    assert codes(asker.sent) == ["not-allowed"]
    assert codes(alice.sent) == []
    assert [each.subscription for each in world.taken(contract.Detach)] == [50]


# --- permissions that change --------------------------------------------------------------------------


def test_open_subscriptions_and_publications_follow_changed_permissions():
    world = World(permissions=PERMISSIONS)
    alice = world.client(ALICE)
    subscribed(world, alice, 50, text="SELECT * { GRAPH <urn:a:x> { ?s <urn:p> ?o } }")
    subscribed(world, alice, 51)
    world.is_busy = True
    alice.take(graph_publication(world, 5, "<urn:a:x>"))
    alice.take(world.publication(6))
    alice.sent.clear()
    world.hold_to(PERMISSIONS)
    assert alice.sent == []
    world.hold_to("[clients.alice]\nmay = ['subscribe']\nread = ['default']\npublish = ['default']")
    error, ended = alice.sent
    assert (error.request, error.code) == (5, "not-allowed")
    assert (ended.subscription, ended.code) == (50, "not-allowed")
    assert "client alice may not read <urn:a:x>" in ended.text
    assert [each.subscription for each in world.taken(contract.Detach)] == [50]
    world.is_busy = False
    world.turn()
    assert [each.first_event for each in world.taken(contract.Publish)] == [600]
    world.notify(1, 1, number=51)
    assert isinstance(alice.sent[-1], messages.ClientRows)
    world.notify(1, 1, number=50)
    assert alice.sent[-1].subscription == 51
    alice.sent.clear()
    world.hold_to("[default]")
    assert codes(alice.sent) == ["not-allowed"]
    assert codes(alice.take(world.publication(7))) == ["not-allowed"]


@pytest.mark.parametrize("outcome", [contract.Unsubscribed(50), contract.Failed("unavailable", "no answer")])
def test_a_subscription_being_opened_is_checked_again_when_it_is_live(outcome):
    world = World(permissions=PERMISSIONS)
    alice = world.client(ALICE)
    subscribe(world, alice)
    (request,) = world.taken(contract.Subscribe)
    world.hold_to("[default]")
    world.complete(request, contract.Subscribed(50, 1, (0,)))
    assert codes(alice.sent) == ["not-allowed"]
    (end,) = world.taken(contract.Unsubscribe)
    assert (end.subscription, end.owner) == (50, "")
    world.complete(end, outcome)
    assert len(alice.sent) == 2, "nobody asked for its end"
    assert alice.handler.held_count(once=False) == 0


def test_a_client_that_may_no_longer_act_for_another_is_disconnected():
    world = World(permissions=PERMISSIONS)
    gate = world.client(identity("gate"), "alice")
    alice = world.client(ALICE)
    world.hold_to(PERMISSIONS.replace("speaks_for", "groups = []\n#"))
    assert codes(gate.sent) == ["not-allowed"]
    assert gate.sent[-1].request == 0
    assert codes(alice.sent) == []
    assert list(alice.handler.account.sessions) == [alice.handler]


def test_a_quota_that_changes_counts_from_then_on():
    world = World(permissions="[clients.alice]\npublish = ['default']\ntriples_per_second = 10")
    wire = world.client(ALICE)
    wire.take(world.publication(1, rows=1000))
    wire.take(world.publication(2))
    assert len(world.taken(contract.Publish)) == 1
    world.hold_to("[clients.alice]\npublish = ['default']")
    world.turn()
    assert len(world.taken(contract.Publish)) == 1
