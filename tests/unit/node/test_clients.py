"""Sessions of clients against a peer with answers that the test decides."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from session_world import OTHERS, OWN, World

from p2prdf.errors import LocalProtocolError, RemoteProtocolError
from p2prdf.keys import term_hash
from p2prdf.wire import contract, messages
from p2prdf.wire.messages import CLIENT_VERSION
from p2prdf.wire.trace_context import TraceContext


def rows(parts):
    """Return the sequence numbers of the solutions in the written messages."""
    return [
        part.first + at for part in parts if isinstance(part, messages.ClientRows) for at in range(len(part))
    ]


def test_a_client_is_welcomed_with_its_credit_and_the_addresses_of_other_nodes():
    world = World(publications_max=5)
    assert world.client().sent == [messages.ClientWelcome(OWN, 5, CLIENT_VERSION, OTHERS)]


def test_requests_of_clients_are_renumbered_and_answers_find_their_way_back():
    world = World()
    wires = [world.client(), world.client()]
    for wire in wires:
        wire.take(world.publication(1))
        wire.take(world.publication(2))
    given = world.taken(contract.Publish)
    assert len({request.request for request in given}) == 4
    assert [request.first_event for request in given] == [100, 100, 200, 200]
    for request in reversed(given):
        world.complete(request, contract.Published(9))
    for wire in wires:
        assert wire.sent[1:] == [messages.ClientPublished(2, 9), messages.ClientPublished(1, 9)]


def test_reading_stops_at_the_credit_and_goes_on_below_it():
    world = World(publications_max=3)
    wire = world.client()
    for number in range(3):
        assert not wire.holds
        wire.take(world.publication(number))
    assert wire.holds == {"credit"}
    world.complete(world.taken(contract.Publish)[1], contract.Published(1))
    assert not wire.holds


def test_a_client_that_exceeds_its_credit_is_refused():
    world = World(publications_max=3)
    wire = world.client()
    for number in range(6):
        wire.take(world.publication(number))
    with pytest.raises(RemoteProtocolError, match="more publications than the credit of 3"):
        wire.take(world.publication(6))


def test_a_busy_peer_gets_publications_later_one_client_after_the_other():
    world = World()
    world.is_busy = True
    wires = [world.client(), world.client()]
    for wire in wires:
        for number in range(3):
            assert wire.take(world.publication(number, rows=1 + number)) == []
    world.turn()
    assert world.requests == []
    world.is_busy = False
    world.turn()
    assert [len(request.s) for request in world.taken(contract.Publish)] == [1, 1, 2, 2, 3, 3]


def test_a_publication_that_finds_no_room_in_time_is_refused_as_busy():
    world = World(admission_seconds=1.0)
    world.is_busy = True
    wire = world.client()
    wire.take(world.publication(4))
    world.clients.sweep(now=0.0)
    assert len(wire.sent) == 1
    world.clients.sweep(now=1e12)
    assert (wire.sent[-1].request, wire.sent[-1].code) == (4, "busy")
    world.is_busy = False
    world.turn()
    assert world.requests == []


def test_one_turn_takes_a_bounded_number_of_triples_and_asks_for_another():
    world = World()
    wires = [world.client(), world.client()]
    for wire in wires:
        for number in range(10):
            wire.take(world.publication(number, rows=1000))
    world.turn()
    assert len(world.requests) == 10
    assert world.turns_due == 1
    assert len(world.taken(contract.Publish)) == 20


def test_bad_requests_are_answered_with_their_number_and_the_session_goes_on():
    world = World(lease_seconds_max=100.0)
    wire = world.client()
    empty = np.empty(0, np.uint32)
    for message in (
        messages.ClientPublish(3, 1, 1, empty, empty, empty),
        messages.ClientSubscribe(3, "good", "magic", False, 60.0),
        messages.ClientSubscribe(3, "good", "csbv", False, 101.0),
        messages.ClientSubscribe(3, "good", "csbv", False, float("nan")),
    ):
        (answer,) = wire.take(message)
        assert isinstance(answer, messages.ClientError)
        assert answer.request == 3
    assert wire.take(messages.ClientPing(3)) == [messages.ClientDone(3)]
    assert wire.take(messages.ClientStatus(4)) == [messages.ClientReply(4, '{"fine": true}')]
    listed = wire.take(messages.ClientListSubscriptions(5, 7))
    assert listed == [messages.ClientReply(5, '{"after": 7}')]


def test_a_query_that_is_refused_keeps_its_place():
    world = World()
    wire = world.client()
    wire.take(messages.ClientSubscribe(5, "bad", "csbv", False, 60.0))
    asyncio.run(world.work.pop())
    assert wire.sent[-1] == messages.ClientError(5, "query-refused", "no good at line 1, column 2", line=1, column=2)


def test_subscriptions_of_one_client_are_bounded():
    world = World(subscriptions_max=1)
    wire = world.client()
    world.subscribed(wire)
    (answer,) = wire.take(messages.ClientSubscribe(2, "good", "csbv", False, 60.0))
    assert answer.code == "busy"


def test_acknowledgements_go_on_to_the_coordinator_and_its_answer_comes_back():
    world = World()
    wire = world.client()
    assert world.subscribed(wire).names == ("s",)
    world.notify(1, 10)
    assert rows(wire.sent) == list(range(1, 11))
    assert wire.take(messages.ClientAcknowledge(8, 50, [6, 4])) == []
    assert wire.take(messages.ClientAcknowledge(9, 50, [6])) == []
    first, second = world.taken(contract.AcknowledgeAnswers)
    assert (first.subscription, first.identity, second.identity) == (50, [6, 4], [6])
    world.complete(second, contract.Settled(50))
    world.complete(first, contract.Failed("unavailable", "the home does not answer"))
    assert wire.sent[-2:] == [
        messages.ClientDone(9), messages.ClientError(8, "unavailable", "the home does not answer")
    ]  # fmt: skip


def test_the_epoch_of_solutions_and_a_loss_without_any_are_reported():
    world = World()
    wire = world.client()
    world.subscribed(wire)
    nothing = np.empty(0, np.uint64)
    world.clients.notify(contract.Notify(50, 4, 3, nothing, nothing, (), 77))
    assert (wire.sent[-1].first, wire.sent[-1].lost, wire.sent[-1].epoch) == (4, 3, 77)


def test_solutions_with_long_terms_are_cut_into_smaller_frames():
    world = World()
    wire = world.client()
    world.subscribed(wire)
    send = wire.send

    def short_frames(parts):
        if any(isinstance(part, messages.ClientRows) and len(part) > 3 for part in parts):
            raise LocalProtocolError("too long")
        send(parts)

    wire.send = short_frames
    world.notify(1, 50)
    assert rows(wire.sent) == list(range(1, 51))


def test_a_client_that_does_not_read_is_neither_written_to_nor_read_from():
    world = World()
    wire = world.client()
    world.subscribed(wire)
    wire.handler.writable(room=False)
    assert wire.holds == {"writing"}
    world.notify(1, 3)
    assert rows(wire.sent) == []
    wire.handler.writable(room=True)
    assert not wire.holds
    assert rows(wire.sent) == [1, 2, 3]


def test_long_notifications_are_cut_into_frames_and_a_gap_is_reported_once():
    world = World()
    wire = world.client()
    world.subscribed(wire)
    world.notify(8, 10_000, lost=7)
    parts = [part for part in wire.sent if isinstance(part, messages.ClientRows)]
    assert [len(part) for part in parts] == [4096, 4096, 1808]
    assert [part.lost for part in parts] == [7, 0, 0]
    assert rows(parts) == list(range(8, 10_008))


def test_a_client_hears_of_the_end_of_its_subscription():
    world = World()
    wire = world.client()
    world.subscribed(wire)
    world.clients.ended(contract.Ended(50, "subscription-gone", "its lease ran out"))
    assert wire.sent[-1] == messages.ClientEnded(50, "subscription-gone", "its lease ran out")
    world.notify(1, 2)
    assert rows(wire.sent) == []
    world.clients.ended(contract.Ended(51, "subscription-gone", "nobody has it"))


def test_solutions_that_overtake_the_confirmation_of_an_attachment_wait_for_it():
    world = World()
    wire = world.client()
    wire.take(messages.ClientAttach(9, 50, [3]))
    (request,) = world.taken(contract.Attach)
    world.notify(4, 2)
    assert rows(wire.sent) == []
    world.complete(request, contract.Attached(50, 0, ("x",), (0,)))
    assert wire.sent[-2] == messages.ClientSubscribed(9, 50, 0, ("x",), (0,))
    assert rows(wire.sent) == [4, 5]


def test_an_attachment_that_fails_leaves_nothing_behind():
    world = World()
    wire = world.client()
    wire.take(messages.ClientAttach(9, 50, []))
    (request,) = world.taken(contract.Attach)
    world.complete(request, contract.Failed("local-protocol", "no such subscription"))
    assert wire.sent[-1].code == "local-protocol"
    world.notify(1, 2)
    assert rows(wire.sent) == []
    assert world.clients.summary()["deliveries"] == 0


def test_busy_comes_with_its_reason_and_a_time_to_retry():
    world = World(admission_seconds=2)
    world.is_busy = True
    wire = world.client()
    wire.take(world.publication(1))
    before = list(wire.sent)
    world.clients.sweep(time.monotonic() + 1)
    assert wire.sent == before
    world.clients.sweep(time.monotonic() + 3)
    assert wire.sent[-1] == messages.ClientError(1, "busy", "no room", 7.0)
    world.short = True
    assert wire.take(messages.ClientSubscribe(2, "good", "csbv", False, 60.0)) == [
        messages.ClientError(2, "busy", "no room", 7.0)
    ]
    world.short = False
    assert wire.take(messages.ClientSubscribe(3, "good", "csbv", False, 60.0)) == []
    world.work.pop().close()


def test_a_client_over_its_quota_waits_and_others_do_not():
    world = World(publish_triples_per_second=100)
    greedy, modest = world.client(), world.client()
    for request, rows in ((1, 3000), (2, 1)):
        greedy.take(world.publication(request, rows))
    modest.take(world.publication(3, 50))
    world.turn()
    assert [each.first_event for each in world.taken(contract.Publish)] == [100, 300]
    world.clients.sweep(time.monotonic() + 10)
    error = greedy.sent[-1]
    assert (error.request, error.code) == (2, "busy")
    assert "used up its quota" in error.text
    assert error.retry_after > 0


def test_bytes_are_counted_as_they_come_in():
    world = World(publish_bytes_per_second=1000)
    wire = world.client()
    wire.received += 5000
    wire.take(world.publication(1))
    world.turn()
    assert world.taken(contract.Publish) == []
    (session,) = world.clients.sessions
    assert 3 < session.publications.quota_wait(time.monotonic()) <= 4.1


def test_a_node_has_a_bound_on_all_its_subscriptions():
    world = World(node_subscriptions_max=2)
    first, second = world.client(), world.client()
    world.subscribed(first)
    second.take(messages.ClientSubscribe(2, "good", "csbv", False, 60.0))
    (answer,) = first.take(messages.ClientSubscribe(3, "good", "csbv", False, 60.0))
    assert (answer.code, answer.retry_after) == ("busy", 60)
    assert "node_subscriptions_max" in answer.text
    world.work.pop().close()


def test_the_level_asked_for_reaches_the_peer_and_others_are_refused():
    world = World()
    wire = world.client()
    column = np.full(1, world.iri, np.uint32)
    wire.take(messages.ClientPublish(1, 7, 0, column, column, column, "accepted"))
    wire.take(messages.ClientPublish(2, 7, 1, column, column, column))
    (answer,) = wire.take(messages.ClientPublish(3, 7, 2, column, column, column, "hoped"))
    assert (answer.request, answer.code) == (3, "local-protocol")
    assert "'hoped' is neither indexed nor accepted" in answer.text
    world.turn()
    assert [each.level for each in world.taken(contract.Publish)] == ["accepted", "indexed"]


def test_a_second_client_takes_a_subscription_over():
    world = World()
    first, second = world.client(), world.client()
    world.subscribed(first)
    second.take(messages.ClientAttach(2, 50, []))
    world.complete(world.taken(contract.Attach)[0], contract.Attached(50, 0, ("x",), (0,)))
    assert first.sent[-1] == messages.ClientEnded(50, "unavailable", "another client attached it")
    world.notify(1, 1)
    assert rows(second.sent) == [1]
    assert rows(first.sent) == []
    first.close()
    assert world.taken(contract.Detach) == []


def test_a_client_that_attaches_twice_at_once_gets_the_later_attachment():
    """The peer gives up the first for the second."""
    world = World()
    wire = world.client()
    wire.take(messages.ClientAttach(2, 50, []))
    wire.take(messages.ClientAttach(3, 50, []))
    first, second = world.taken(contract.Attach)
    world.complete(first, contract.Failed("unavailable", "it was attached again"))
    world.complete(second, contract.Attached(50, 0, ("x",), (0,)))
    assert [(type(each), each.request) for each in wire.sent[-2:]] == [
        (messages.ClientError, 2), (messages.ClientSubscribed, 3),
    ]  # fmt: skip
    world.notify(1, 1)
    assert rows(wire.sent) == [1]
    assert world.taken(contract.Detach) == []


def test_an_attachment_after_its_client_was_told_of_another_is_let_go():
    """The peer's news about a former holder may arrive when another client attaches already."""
    world = World()
    wire = world.client()
    wire.take(messages.ClientAttach(2, 50, []))
    world.clients.ended(contract.Ended(50, "unavailable", "another client attached it"))
    world.complete(world.taken(contract.Attach)[0], contract.Attached(50, 0, ("x",), (0,)))
    assert (wire.sent[-1].request, wire.sent[-1].code) == (2, "unavailable")
    assert world.taken(contract.Detach) == [contract.Detach(50)]
    assert world.clients.summary()["deliveries"] == 0


def test_a_client_that_leaves_is_detached_and_its_unconfirmed_subscription_is_ended():
    world = World()
    wire = world.client()
    world.subscribed(wire)
    wire.take(messages.ClientSubscribe(2, "good", "csbv", False, 60.0))
    asyncio.run(world.work.pop())
    (opening,) = world.taken(contract.Subscribe)
    wire.take(world.publication(3))
    world.turn()
    wire.take(world.publication(4))
    wire.close()
    assert world.taken(contract.Detach) == [contract.Detach(50)]
    world.complete(opening, contract.Subscribed(51, 1, (0,)))
    (end,) = world.taken(contract.Unsubscribe)
    assert end.subscription == 51
    world.complete(end, contract.Unsubscribed(51))
    (given,) = world.taken(contract.Publish)
    world.complete(given, contract.Published(1))
    world.notify(1, 1)
    assert world.clients.summary()["clients"] == 0


def test_a_node_that_leaves_takes_no_new_requests_and_finishes_the_old():
    world = World()
    wire = world.client()
    wire.take(world.publication(1))
    world.turn()
    world.clients.stop()
    for message in (
        world.publication(2),
        messages.ClientSubscribe(2, "good", "csbv", False, 60.0),
        messages.ClientAttach(2, 1, []),
    ):
        (answer,) = wire.take(message)
        assert (answer.request, answer.code) == (2, "leaving")
    assert not world.clients.dismiss_idle()
    world.complete(world.taken(contract.Publish)[0], contract.Published(5))
    assert wire.sent[-1] == messages.ClientPublished(1, 5)
    assert world.clients.dismiss_idle()
    assert (wire.sent[-1].request, wire.sent[-1].code) == (0, "leaving")
    assert world.clients.summary()["clients"] == 0


def test_idle_clients_are_disconnected_at_once_and_the_others_after_their_answers():
    world = World()
    subscriber, subscribing, attaching, publisher = (world.client() for _ in range(4))
    world.subscribed(subscriber)
    subscriber.take(messages.ClientAcknowledge(9, 50, [1]))
    subscribing.take(messages.ClientSubscribe(2, "good", "csbv", False, 60.0))
    attaching.take(messages.ClientAttach(2, 60, []))
    publisher.take(world.publication(3))
    world.clients.stop()
    assert not world.clients.dismiss_idle()
    assert subscriber.sent[-1].code == "leaving"
    assert world.taken(contract.Detach) == [contract.Detach(50)]
    assert "leaving" not in [getattr(each, "code", "") for each in subscribing.sent + attaching.sent + publisher.sent]
    world.complete(world.taken(contract.Attach)[0], contract.Attached(60, 0, ("x",), (0,)))
    asyncio.run(world.work.pop())
    world.complete(world.taken(contract.Subscribe)[0], contract.Subscribed(51, 1, (0,)))
    assert isinstance(subscribing.sent[-1], messages.ClientSubscribed)
    assert not world.clients.dismiss_idle()
    assert attaching.sent[-1].code == subscribing.sent[-1].code == "leaving"
    world.turn()
    world.complete(world.taken(contract.Publish)[0], contract.Published(5))
    assert world.clients.dismiss_idle()
    assert publisher.sent[-1].code == "leaving"


def test_elements_and_heartbeats_reach_the_peer_and_elements_by_content_do_not():
    world = World()
    wire = world.client()
    column, times = np.full(1, world.iri, np.uint32), np.full(1, 1_700_000_000_000, np.uint64)
    elements = {"graph": (column,), "times": (times,)}
    wire.take(messages.ClientPublish(1, 7, 0, column, column, column, **elements))
    wire.take(messages.ClientHeartbeat("<urn:stream>", 7, 5, 9, 3))
    (answer,) = wire.take(messages.ClientPublish(2, 7, 0, column, column, column, by_content=True, **elements))
    assert (answer.request, answer.code) == (2, "data-refused")
    assert "elements of a stream are numbered" in answer.text
    world.turn()
    (publication,) = world.taken(contract.Publish)
    assert (publication.times, publication.graph) == ((times,), (column,))
    assert world.taken(contract.Heartbeat) == [contract.Heartbeat(term_hash("<urn:stream>"), 7, 5, 9, 3)]


def test_the_trace_of_a_publication_goes_before_it_and_belongs_to_it_alone():
    world = World()
    wire = world.client()
    context = TraceContext(1 << 100, 5)
    wire.take(messages.ClientTrace(1, str(context)))
    wire.take(world.publication(1))
    wire.take(world.publication(2))
    world.turn()
    assert [request.trace for request in world.requests] == [context, None]


def test_traces_of_publications_that_do_not_follow_are_bounded_and_bad_ones_refused():
    world = World(publications_max=2)
    wire = world.client()
    for request in range(4):
        wire.take(messages.ClientTrace(request, str(TraceContext(1, 2))))
    with pytest.raises(RemoteProtocolError, match="4 traces of publications that did not follow"):
        wire.take(messages.ClientTrace(9, str(TraceContext(1, 2))))
    with pytest.raises(RemoteProtocolError, match="traceparent '0815'"):
        world.client().take(messages.ClientTrace(1, "0815"))


def test_one_time_queries_are_refused_while_two_clusters_merge_and_subscriptions_are_not():
    world = World()
    world.merging = "two clusters have met"
    wire = world.client()
    (refused,) = wire.take(messages.ClientSubscribe(1, "good", "csbv", False, 30.0, once=True))
    assert (refused.code, refused.text) == ("clusters-merging", "two clusters have met")
    assert isinstance(world.subscribed(wire), messages.ClientSubscribed)
    world.merging = None
    assert wire.take(messages.ClientSubscribe(2, "good", "csbv", False, 30.0, once=True)) == []
    world.work.pop().close()


def test_a_one_time_query_that_would_be_answered_during_a_merge_is_ended_with_the_reason():
    world = World()
    wire = world.client()
    wire.take(messages.ClientSubscribe(1, "good", "csbv", False, 30.0, once=True))
    asyncio.run(world.work.pop())
    (request,) = world.taken(contract.Subscribe)
    world.complete(request, contract.Subscribed(50, 1, (0,)))
    world.merging = "two clusters have met"
    world.clients.bookmark(contract.Bookmark(50, 9))
    assert wire.sent[-1] == messages.ClientEnded(50, "clusters-merging", "two clusters have met")
    assert [request.subscription for request in world.taken(contract.Detach)] == [50]


def test_an_export_that_begins_after_its_client_has_gone_is_ended():
    world = World()
    wire = world.client()
    wire.take(messages.ClientExport(1, ""))
    [request] = world.taken(contract.BeginExport)
    wire.close()
    world.complete(request, contract.ExportBegun(7, 9))
    [end] = world.taken(contract.EndExport)
    assert end.export == 7
    world.complete(end, contract.ExportEnded())
