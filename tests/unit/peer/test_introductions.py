"""Each peer records the member that sent a statement or deletion, over restarts and within bounds."""

from __future__ import annotations

from random import Random

import pytest
from peer_pair import HIGH, LOW, QUERY, Pair

from p2prdf import hlc
from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf import quads
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import messages
from p2prdf.wire.contract import Persist, Unsubscribe

both = pytest.mark.parametrize("columns", [ARRAYS, LISTS], ids=["arrays", "lists"])
RECORD = {"introductions_max": 1_000, "durable": True}
TRIPLE = ("<urn:s>", "<urn:p>", "<urn:o>")


def pair_of(columns, **config):
    pair = Pair(columns, replicas=2, copies_min=1, **{**RECORD, **config})
    pair.compare()
    pair.subscribe(LOW, QUERY)
    return pair


def listed(peer, member, after=0):
    return peer.introduced(messages.ClientListIntroduced(1, member, after))


def histories(peer, *statements):
    texts = tuple(text for each in statements for text in each)
    return peer.introduced(messages.ClientListIntroduced(1, 0, 0, texts))["histories"]


def indexed(pair, *triples, origin=HIGH.key, deleted=False, **said):
    """Return a message that indexes triples under all indexes."""
    make, intern = pair.columns.column, pair.dictionary.intern_all
    s, p, o = (make(intern(column), "uint32") for column in zip(*triples, strict=True))
    count, stamp = len(triples), hlc.from_seconds(pair.now) | (hlc.GONE if deleted else 0)
    return messages.IndexTriples(
        s, p, o, make([stamp] * count, "uint64"), make([0] * count, "uint64"), make([2] * count, "uint32"),
        origin=origin, published=2, **said,
    )  # fmt: skip


def receive(pair, message, sender=HIGH, transfer=99):
    peer = pair.peers[LOW.key]
    envelope = messages.Envelope(transfer, hlc.from_seconds(pair.now), message)
    effects = peer.receive(envelope, sender=sender, now=pair.now)
    effects += peer.wake(now=pair.now)
    return [each.message for each in effects if isinstance(each, Persist)]


@both
def test_sender_of_a_publication_is_recorded_first_hand_at_its_receiver(columns):
    pair = pair_of(columns)
    pair.publish(HIGH, TRIPLE)
    pair.pass_time(2.0)
    found = listed(pair.peers[LOW.key], HIGH.key)["statements"]
    told = {(each["subject"], each["predicate"], each["object"], each["deleted"]) for each in found}
    assert told == {(*TRIPLE, False)}
    for peer in pair.peers.values():
        (events,) = histories(peer, TRIPLE)
        assert {(member, first_hand) for _, _, member, first_hand in events} == {(f"{HIGH.key:016x}", True)}
    assert not listed(pair.peers[LOW.key], LOW.key)["statements"]


@both
def test_sender_counts_and_not_the_origin_that_it_claims(columns):
    pair = pair_of(columns)
    receive(pair, indexed(pair, TRIPLE, origin=77, introducer=66))
    peer = pair.peers[LOW.key]
    assert [each["subject"] for each in listed(peer, HIGH.key)["statements"]] == ["<urn:s>"]
    assert not listed(peer, 77)["statements"]
    assert not listed(peer, 66)["statements"]
    assert histories(peer, TRIPLE)[0][0][2:] == [f"{HIGH.key:016x}", False]


@both
@pytest.mark.parametrize(("said", "first_hand"), [({}, True), ({"stamp": 5}, False), ({"hops": 1}, False)])
def test_publication_that_was_finished_for_another_or_passed_on_is_not_first_hand(columns, said, first_hand):
    pair = pair_of(columns)
    receive(pair, indexed(pair, TRIPLE, **said))
    assert histories(pair.peers[LOW.key], TRIPLE)[0][0][3] is first_hand


@both
def test_deletion_is_listed_with_its_graph(columns):
    pair = pair_of(columns)
    qualified = quads.qualified("<urn:p>", "<urn:g>")
    receive(pair, indexed(pair, ("<urn:s>", qualified, "<urn:o>"), deleted=True))
    (found,) = listed(pair.peers[LOW.key], HIGH.key)["statements"]
    assert (found["predicate"], found["graph"], found["deleted"]) == ("<urn:p>", "<urn:g>", True)


def restored(columns, dictionary, kept, **config):
    peer = Peer(LOW, PeerConfig(replicas=2, copies_min=1, **{**RECORD, **config}), dictionary, columns, Random(1))
    peer.restore(kept, now=2000.0)
    return peer


@both
@pytest.mark.parametrize("origin", [HIGH.key, 77])
def test_log_and_snapshot_keep_the_record(columns, origin):
    pair = pair_of(columns)
    kept = receive(pair, indexed(pair, TRIPLE, origin=origin))
    first = histories(pair.peers[LOW.key], TRIPLE)
    after_log = restored(columns, pair.dictionary, kept)
    assert histories(after_log, TRIPLE) == first
    after_snapshot = restored(columns, pair.dictionary, list(after_log.snapshot()))
    assert histories(after_snapshot, TRIPLE) == first
    assert listed(after_snapshot, HIGH.key)["since"] == 0


def test_disk_of_a_version_without_records_has_a_record_from_now_on():
    dictionary = TermDictionary()
    s, p, o = ([each] for each in dictionary.intern_all(TRIPLE))
    old = messages.IndexTriples(s, p, o, [hlc.from_seconds(10.0)], [0], [2])
    assert listed(restored(LISTS, dictionary, [old]), HIGH.key)["since"] == hlc.from_seconds(2000.0)


@both
def test_oldest_half_is_dropped_beyond_the_bound_and_the_record_shows_the_beginning_of_the_rest(columns):
    pair = pair_of(columns, introductions_max=10)
    peer = pair.peers[LOW.key]
    for number in range(11):
        pair.now += 1.0
        receive(pair, indexed(pair, (f"<urn:s:{number}>", "<urn:p>", "<urn:o>")), transfer=100 + number)
    found = listed(peer, HIGH.key)
    assert [each["subject"] for each in found["statements"]] == [f"<urn:s:{number}>" for number in range(6, 11)]
    assert found["since"] == hlc.from_seconds(pair.now - 5.0)
    assert listed(peer, HIGH.key, after=10)["statements"][0]["subject"] == "<urn:s:10>"


@both
def test_list_comes_in_pages(columns, monkeypatch):
    monkeypatch.setattr("p2prdf.peer.replication.introductions.LISTED_MAX", 2)
    pair = pair_of(columns)
    receive(pair, indexed(pair, *((f"<urn:s:{number}>", "<urn:p>", "<urn:o>") for number in range(5))))
    found, after = [], 0
    while after is not None:
        page = listed(pair.peers[LOW.key], HIGH.key, after=after)
        assert page["total"] == 5
        found += page["statements"]
        after = page["next"]
    assert [each["subject"] for each in found] == [f"<urn:s:{number}>" for number in range(5)]


def test_without_the_setting_nothing_is_recorded():
    pair = pair_of(LISTS, introductions_max=0)
    pair.publish(HIGH, TRIPLE)
    pair.pass_time(2.0)
    assert not listed(pair.peers[LOW.key], HIGH.key)["statements"]
    assert histories(pair.peers[LOW.key], TRIPLE, ("<urn:never>", "<urn:heard>", "<urn:of>")) == [[], []]


def test_member_that_ended_a_subscription_first_is_listed():
    pair = pair_of(LISTS)
    ended = pair.subscribe(HIGH).subscription
    pair.submit(HIGH, Unsubscribe(70, ended))
    pair.pass_time(2.0)
    enders = [each for each in pair.peers.values() if f"{ended:016x}" in listed(each, HIGH.key)["ended"]]
    assert enders
    assert not any(listed(each, 77)["ended"] for each in pair.peers.values())
