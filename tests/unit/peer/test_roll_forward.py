"""Triples sent on while their publication may be incomplete carry its origin."""

from __future__ import annotations

from random import Random

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer import Peer, PeerConfig
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.peer.replication.redelivery import STRANGER_SECONDS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.contract import ContactSeen, Send
from p2prdf.wire.messages import Contact, IndexTriples, PublicationsComplete

ORIGIN, BEGAN, STAMP = 77, 1000, 2000
ALL_ROLES = 0xFFFF
SPO, EVENT_SPO = 1 << keys.SPO, 1 << (keys.SPO + keys.EVENT_SHIFT)


@pytest.fixture(params=[ARRAYS, LISTS], ids=["arrays", "lists"])
def peer(request) -> Peer:
    peer = Peer(Contact(1, "low", 1), PeerConfig(replicas=3), TermDictionary(), request.param, Random(1))
    peer.wake(now=1_000_000.0)
    return peer


def _columns(peer: Peer, rows):
    make = peer._engine._columns.column
    s, p, o, time, event, roles = zip(*rows, strict=True)
    ids = [make(each, "uint32") for each in (s, p, o)]
    return [*ids, make(time, "uint64"), make(event, "uint64"), make(roles, "uint32")]


def _note(peer: Peer, *rows, complete=0, began=BEGAN):
    batch = TripleBatch(*_columns(peer, [(*row, ALL_ROLES) for row in rows]))
    batch.origin, batch.published, batch.began, batch.complete = ORIGIN, ALL_ROLES, began, complete
    peer._engine.redelivery.note(batch)


def _given(peer: Peer, *rows) -> dict[tuple[int, ...], list[int]]:
    """Return, per origin and published indexes, the rows that go out, each as subject, stamp and event."""
    found = {}
    for message in peer._engine.redelivery.with_origin(IndexTriples(*_columns(peer, rows))):
        columns = (message.s, message.time, message.event, message.roles)
        found[message.origin, message.published, message.began] = sorted(zip(*map(as_list, columns), strict=True))
    return found


def test_rows_of_unfinished_publications_go_apart_with_their_origin(peer):
    _note(peer, (1, 2, 3, STAMP, 91), (4, 2, 3, STAMP, 92))
    other = (5, 2, 3, STAMP - 1, 0, SPO)
    assert _given(peer, (1, 2, 3, STAMP, 0, SPO), other) == {
        (ORIGIN, ALL_ROLES, BEGAN): [(1, STAMP, 91, SPO)],  # its event is sent, too: it is completed under all indexes
        (0, 0, 0): [(5, STAMP - 1, 0, SPO)],
    }


def test_a_triple_that_was_published_twice_at_once_goes_as_both_events(peer):
    _note(peer, (1, 2, 3, STAMP, 91), (1, 2, 3, STAMP, 92))
    assert _given(peer, (1, 2, 3, STAMP, 0, SPO)) == {
        (ORIGIN, ALL_ROLES, BEGAN): [(1, STAMP, 91, SPO), (1, STAMP, 92, SPO)]
    }
    assert _given(peer, (1, 2, 3, STAMP, 92, EVENT_SPO)) == {(ORIGIN, ALL_ROLES, BEGAN): [(1, STAMP, 92, EVENT_SPO)]}


def test_a_row_that_was_given_several_times_goes_once(peer):
    """Two replicas that differ for a second would otherwise give each other twice as many messages each time."""
    for complete in (STAMP - 2, STAMP - 1, STAMP - 2):
        _note(peer, (1, 2, 3, STAMP, 91), complete=complete)
    rows = IndexTriples(*_columns(peer, [(1, 2, 3, STAMP, 0, SPO)]))
    (message,) = peer._engine.redelivery.with_origin(rows)
    assert (list(message.event), message.complete) == ([91], STAMP - 1)


def test_a_row_given_after_the_last_report_of_its_origin_is_not_remembered(peer):
    """The giver had not heard it yet, and an origin that publishes no more makes no other."""
    redelivery = peer._engine.redelivery
    redelivery.told(ORIGIN, BEGAN, STAMP)
    _note(peer, (1, 2, 3, STAMP, 91), complete=STAMP - 1)
    assert not redelivery.remembered
    redelivery.finish(ORIGIN)
    _note(peer, (1, 2, 3, STAMP, 91), complete=STAMP - 1)
    assert redelivery.remembered


def _redelivered(peer: Peer) -> list[TripleBatch]:
    """Return the batches that the peer redelivers from now on."""
    found: list[TripleBatch] = []
    peer._engine.redelivery._route = found.append
    return found


@pytest.mark.parametrize("began", [BEGAN - 10, BEGAN + 10], ids=["clock set back", "later clock"])
def test_publications_of_the_former_process_are_redelivered_for_a_new_one_with_any_clock(peer, began):
    """A process that stored nothing leaves no stamp to its successor, which reports its own publications alone."""
    origin, sent = Contact(ORIGIN, "origin", 1), _redelivered(peer)
    _note(peer, (1, 2, 3, STAMP, 91))
    peer._engine.redelivery.complete_told(origin, PublicationsComplete(began, STAMP))
    assert [as_list(each.event) for each in sent] == [[91]]
    _note(peer, (1, 2, 3, STAMP, 92), began=began)
    assert not peer._engine.redelivery.remembered, "the new process has reported it as complete"


def test_rows_given_with_a_report_of_an_earlier_process_leave_present_publications_alone(peer):
    sent = _redelivered(peer)
    _note(peer, (1, 2, 3, STAMP, 91))
    _note(peer, (4, 2, 3, BEGAN - 5, 92), began=BEGAN - 10, complete=STAMP)
    assert sent == []
    assert peer._engine.redelivery.remembered == 1


def test_events_go_with_their_origin_as_well(peer):
    _note(peer, (1, 2, 3, STAMP, 91))
    assert _given(peer, (1, 2, 3, STAMP, 91, EVENT_SPO)) == {(ORIGIN, ALL_ROLES, BEGAN): [(1, STAMP, 91, EVENT_SPO)]}


@pytest.mark.parametrize("row", [(1, 2, 4, STAMP), (1, 2, 3, STAMP + 1)], ids=["another triple", "another stamp"])
def test_a_triple_of_another_publication_time_or_content_has_no_origin(peer, row):
    _note(peer, (1, 2, 3, STAMP, 91))
    assert _given(peer, (*row, 0, SPO)) == {(0, 0, 0): [(1, row[3], 0, SPO)]}


def test_a_complete_publication_has_no_origin_any_more(peer):
    _note(peer, (1, 2, 3, STAMP, 91))
    peer._engine.redelivery.told(ORIGIN, BEGAN, STAMP)
    assert _given(peer, (1, 2, 3, STAMP, 0, SPO)) == {(0, 0, 0): [(1, STAMP, 0, SPO)]}


def _told(effects) -> dict[int, tuple[int, int]]:
    """Return the completed publications reported: per peer the first and the last time."""
    sends = [each for each in effects if isinstance(each, Send)]
    sent = [each for each in sends if isinstance(each.envelope.message, PublicationsComplete)]
    return {each.to.key: (each.envelope.message.began, each.envelope.message.complete) for each in sent}


def test_a_new_incarnation_is_reported_during_publications_and_to_newcomers_too(peer):
    now, redelivery = 1_000_000.0, peer._engine.redelivery
    peer.submit(ContactSeen(Contact(2, "other", 1)), now=now)
    stamp = hlc.from_seconds(now) + 5
    redelivery.begin(stamp)
    life = {2: (redelivery.began, stamp - 1)}
    assert _told(peer.wake(now=now + 0.5)) == {}
    assert _told(peer.wake(now=now + 1.5)) == life
    assert _told(peer.submit(ContactSeen(Contact(3, "third", 1)), now=now + 1.6)) == {3: life[2]}
    for contact in (Contact(2, "other", 1), Contact(3, "third", 1)):
        peer._messenger.outbox.lost(contact)  # so that it is not sent again
    assert _told(peer.wake(now=now + 3.0)) == {}


@pytest.mark.parametrize("columns", [ARRAYS, LISTS], ids=["arrays", "lists"])
def test_a_redelivered_publication_is_in_flight_here_until_it_has_arrived(columns):
    """A peer that gets a part of it can complete it, when this peer is lost in the middle."""
    pair = Pair(columns, replicas=2, copies_min=2)
    pair.pass_time(30.0)
    peer, heard = pair.peers[LOW.key], pair.listen(HIGH)
    _note(peer, (*pair.dictionary.intern_all(["<urn:s>", "<urn:p>", "<urn:o>"]), STAMP, 91))
    pair.cut = True
    peer._engine.redelivery.finish(ORIGIN)
    pair.pass_time(0.1)
    redelivery = peer._engine.redelivery
    under_way = redelivery.complete()
    pair.cut = False
    pair.pass_time(5.0)
    message = next(each for each in heard if isinstance(each, IndexTriples))
    assert (message.origin, message.published, message.began) == (LOW.key, ALL_ROLES, redelivery.began)
    assert as_list(message.time) == [STAMP]
    assert message.complete <= under_way < message.stamp <= redelivery.complete()


@pytest.mark.parametrize("columns", [ARRAYS, LISTS], ids=["arrays", "lists"])
def test_a_publication_redelivered_by_several_is_sent_on_once(columns):
    """Otherwise every failing peer would add more of it."""
    pair = Pair(columns, replicas=2, copies_min=2)
    pair.pass_time(30.0)
    peer, heard = pair.peers[LOW.key], pair.listen(HIGH)
    terms = pair.dictionary.intern_all(["<urn:s>", "<urn:p>", "<urn:o>", "<urn:x>"])
    for rows in ([(*terms[:3], STAMP, 91)], [(*terms[:3], STAMP, 91), (*terms[1:], STAMP, 92)]):
        _note(peer, *rows)
    peer._engine.redelivery.finish_all()
    pair.pass_time(5.0)
    sent = [each for each in heard if isinstance(each, IndexTriples) and each.origin == LOW.key]
    assert sorted(event for each in sent for event in as_list(each.event)) == [91, 92]
    assert {each.published for each in sent} == {ALL_ROLES}


@pytest.mark.parametrize("columns", [ARRAYS, LISTS], ids=["arrays", "lists"])
def test_a_publication_of_an_unseen_origin_is_redelivered_unless_it_is_reported_complete(columns):
    """It was taken for dead a moment before it sent this, and died: no peer notices here that it is lost."""
    for complete in (False, True):
        pair = Pair(columns, replicas=2, copies_min=2)
        pair.pass_time(30.0)
        peer, heard = pair.peers[LOW.key], pair.listen(HIGH)
        _note(peer, (*pair.dictionary.intern_all(["<urn:s>", "<urn:p>", "<urn:o>"]), STAMP, 91))
        pair.pass_time(STRANGER_SECONDS / 2)
        if complete:
            peer._engine.redelivery.told(ORIGIN, BEGAN, STAMP)
        pair.pass_time(STRANGER_SECONDS)
        sent = [each for each in heard if isinstance(each, IndexTriples) and each.origin == LOW.key]
        assert [as_list(each.event) for each in sent] == ([] if complete else [[91]])
        assert not peer._engine.redelivery.remembered


def test_a_publication_redelivered_for_one_unseen_peer_is_not_redelivered_for_another():
    """A third peer sees both, which do not see each other: they would redeliver for one another for ever."""
    pair = Pair(LISTS, replicas=2, copies_min=2)
    pair.pass_time(30.0)
    peer, heard = pair.peers[LOW.key], pair.listen(HIGH)
    row = (*pair.dictionary.intern_all(["<urn:s>", "<urn:p>", "<urn:o>"]), STAMP, 91)
    rolling = peer._engine.redelivery

    def finished(events: list[int]) -> bool:
        heard.clear()
        pair.pass_time(1.5 * STRANGER_SECONDS)
        assert not rolling.remembered
        sent = [each for each in heard if isinstance(each, IndexTriples) and each.origin == LOW.key]
        return [event for each in sent for event in as_list(each.event)] == events

    _note(peer, row)
    assert finished([91])
    _note(peer, row)
    assert finished([])
    _note(peer, row, (*row[:-1], 92))
    assert finished([91, 92]), "something of it is new"
    rolling.met(HIGH)
    _note(peer, row)
    assert finished([91]), "who has come may not have it"
