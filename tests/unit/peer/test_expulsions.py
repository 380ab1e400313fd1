"""Members are expelled by an administrator, or by the reports of two members, and stay out over restarts."""

from __future__ import annotations

from random import Random

from peer_pair import HIGH, LOW

from p2prdf import hlc
from p2prdf.columns import LISTS
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import messages
from p2prdf.wire.contract import Completed, ContactSeen, Expel, Expelled, Failed, Persist, Send
from p2prdf.wire.messages import Contact, Expulsions

LIAR, OTHER = Contact(5 << 60, "liar", 1), Contact(6 << 60, "other", 1)
NOW = 1000.0
STAMP = hlc.from_seconds(NOW)


def peer_of(**config):
    peer = Peer(LOW, PeerConfig(replicas=2, copies_min=1, durable=True, **config), TermDictionary(), LISTS, Random(1))
    for each in (HIGH, LIAR, OTHER):
        peer.submit(ContactSeen(each), now=NOW)
    return peer


def report(peer, sender, expelled, stamp=STAMP, member=LIAR.key, transfer=1):
    message = Expulsions([member], [stamp], [int(expelled)])
    return peer.receive(messages.Envelope(transfer, STAMP, message), sender=sender, now=NOW)


def expel(peer, member=LIAR.key, expelled=True, request=7):
    return peer.submit(Expel(request, member, expelled), now=NOW)


def test_decision_of_an_administrator_is_kept_and_sent_to_others():
    peer = peer_of()
    effects = expel(peer)
    assert peer.expelled == {LIAR.key}
    assert Completed(7, Expelled()) in effects
    assert any(isinstance(each, Persist) and isinstance(each.message, Expulsions) for each in effects)
    told = {each.to.key for each in effects if isinstance(each, Send) and isinstance(each.envelope.message, Expulsions)}
    assert told == {HIGH.key, OTHER.key}


def test_peer_does_not_expel_itself():
    (failed,) = (each for each in expel(peer_of(), LOW.key) if isinstance(each, Completed))
    assert isinstance(failed.outcome, Failed)
    assert "name another node" in failed.outcome.text


def test_one_member_expels_nobody_and_two_do():
    peer = peer_of()
    report(peer, LIAR, True, member=HIGH.key)
    report(peer, LIAR, True, member=HIGH.key, transfer=2)
    assert not peer.expelled
    assert peer.expulsions()[0]["reporters"] == [f"{LIAR.key:016x}"]
    report(peer, OTHER, True, member=HIGH.key)
    assert peer.expelled == {HIGH.key}


def test_two_members_with_stamps_of_their_own_report_the_same_decision():
    peer = peer_of()
    report(peer, HIGH, True, STAMP)
    report(peer, OTHER, True, STAMP + 5)
    assert peer.expelled == {LIAR.key}
    assert not any(each["reporters"] for each in peer.expulsions())
    report(peer, HIGH, False, STAMP + 1, transfer=2)  # of the two expulsions the earlier stamp counts
    report(peer, OTHER, False, STAMP + 9, transfer=2)
    assert not peer.expelled


def test_member_that_reports_many_decisions_leaves_room_for_others():
    peer = peer_of()
    members = list(range(100, 3_000))
    message = Expulsions(members, [STAMP] * len(members), [1] * len(members))
    peer.receive(messages.Envelope(1, STAMP, message), sender=LIAR, now=NOW)
    report(peer, HIGH, True)
    report(peer, OTHER, True)
    assert peer.expelled == {LIAR.key}


def test_reports_of_expelled_members_count_for_nothing():
    peer = peer_of()
    report(peer, LIAR, True, member=HIGH.key)
    expel(peer)
    report(peer, LIAR, True, member=HIGH.key, transfer=2)
    report(peer, OTHER, True, member=HIGH.key)
    assert peer.expelled == {LIAR.key}


def test_the_later_decision_counts_in_any_order():
    peer = peer_of()
    for transfer, (expelled, stamp) in enumerate(((False, STAMP + 1), (True, STAMP)), 1):
        report(peer, HIGH, expelled, stamp, transfer=transfer)
        report(peer, OTHER, expelled, stamp, transfer=transfer)
    assert not peer.expelled
    expel(peer)
    assert peer.expelled == {LIAR.key}
    expel(peer, expelled=False, request=8)
    assert not peer.expelled


def test_decision_from_the_future_is_refused():
    peer = peer_of()
    for sender in (HIGH, OTHER):
        report(peer, sender, True, hlc.from_seconds(NOW + 100_000.0))
    assert not peer.expelled
    assert peer.stamps_refused == 2


def test_expelled_member_is_not_heard():
    peer = peer_of()
    expel(peer)
    before = peer.status()["triples"]
    message = messages.IndexTriples([0], [0], [0], [STAMP], [0], [2])
    assert not peer.receive(messages.Envelope(9, STAMP, message), sender=LIAR, now=NOW)
    peer.wake(now=NOW)
    assert peer.status()["triples"] == before


def test_decisions_survive_restarts_by_log_and_by_snapshot():
    peer = peer_of()
    kept = [each.message for each in expel(peer) if isinstance(each, Persist)]
    for disk in (kept, list(peer.snapshot())):
        again = Peer(LOW, PeerConfig(replicas=2, copies_min=1, durable=True), TermDictionary(), LISTS, Random(1))
        again.restore(disk, now=NOW + 10.0)
        assert again.expelled == {LIAR.key}
        assert again.expulsions() == peer.expulsions()


def test_member_that_comes_later_is_informed():
    peer = peer_of()
    expel(peer)
    for contact, told in ((Contact(7 << 60, "new", 1), True), (LIAR, False)):
        effects = peer.submit(ContactSeen(Contact(contact.key, contact.host, 2)), now=NOW)
        sent = [each for each in effects if isinstance(each, Send) and isinstance(each.envelope.message, Expulsions)]
        assert bool(sent) is told
