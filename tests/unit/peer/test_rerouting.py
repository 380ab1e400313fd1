"""A message is passed on by a peer that does not own its key, and is re-routed when its receiver is lost."""

from __future__ import annotations

import pytest

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.wire.contract import ContactLost, ContactSeen, OwnersFound, Publish, Send
from p2prdf.wire.messages import (
    Acknowledge,
    Answers,
    Contact,
    Envelope,
    Forward,
    Groups,
    IndexQuery,
    IndexTriples,
    OpenSubscription,
    Rows,
)

PEERS = tuple(Contact(at << 60, f"peer-{at}", 1) for at in range(16))
ANYTHING_BESIDE = ConjunctiveQuery(((0, ~0, 1), (2, 3, 4)), ("<p>",), (0, 4), ("s", "any"))
BUCKETS = [keys.bucket_key(bucket) for bucket in range(keys.BUCKETS)]


def owner(key: int, peers=PEERS) -> Contact:
    """Return the owner of a key."""
    return min(peers, key=lambda each: each.key ^ key)


def make_peer(own: Contact, dictionary: TermDictionary, columns, **config) -> Peer:
    """Return a peer that knows the ring."""
    peer = Peer(own, PeerConfig(**config), dictionary, columns)
    for other in PEERS:
        peer.submit(ContactSeen(other), now=1000.0)
    peer.submit(OwnersFound(own.key, PEERS, complete=True), now=1000.0)
    return peer


def messages(dictionary: TermDictionary, columns) -> dict[type, object]:
    """Return one message of each kind that is routed by a key: by that of predicate <p> unless it has another."""
    make = columns.column
    since = make([hlc.from_seconds(1.0)])
    groups = Groups(make([1 << 32]), since, since, make([1 << 62]), (make(dictionary.intern_all(["<p>"]), "uint32"),))
    plan = make_plan(ANYTHING_BESIDE, (0, 1), Algorithm.CSBV)
    terms = [make(dictionary.intern_all([term]), "uint32") for term in ("<s>", "<p>", "<o>")]
    late = make([hlc.from_seconds(2.0)])
    rows = Rows(make([0], "uint32"), make([5]), late, late, ())
    key = keys.role_key(keys.P, 0, keys.term_hash("<p>"), 0)
    return {
        IndexQuery: IndexQuery(plan, 0, groups),
        IndexTriples: IndexTriples(*terms, late, make([1]), columns.full(1, 1 << keys.P, "uint32")),
        Forward: Forward(plan, 0, groups, rows),
        Answers: Answers(make([key >> 20 << 20]), rows),
        OpenSubscription: OpenSubscription(1, key, ANYTHING_BESIDE, "csbv", False, PEERS[0], 60.0),
    }


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
@pytest.mark.parametrize("kind", [IndexQuery, IndexTriples, Forward, Answers, OpenSubscription])
def test_a_message_passed_on_is_acknowledged_when_it_has_arrived(columns, kind):
    """A repetition that comes in between is not passed on again."""
    end = owner(keys.role_key(keys.P, 0, keys.term_hash("<p>"), 0))
    relay, sender = [each for each in PEERS if each != end][:2]
    dictionary = TermDictionary()
    peer = make_peer(relay, dictionary, columns)
    envelope = Envelope(7, 0, messages(dictionary, columns)[kind])

    def take(what: Envelope, origin: Contact) -> list[Send]:
        effects = peer.receive(what, sender=origin, now=1000.0) + peer.wake(now=1000.0)
        return [each for each in effects if isinstance(each, Send)]

    (onward,) = [each for each in take(envelope, sender) if isinstance(each.envelope.message, kind)]
    assert onward.to == end
    assert onward.envelope.message.hops == 1
    assert not [each for each in take(envelope, sender) if isinstance(each.envelope.message, Acknowledge | kind)]
    arrived = Envelope(0, 0, Acknowledge(columns.column([onward.envelope.transfer])))
    ((to, numbers),) = [
        (each.to, as_list(each.envelope.message.transfers))
        for each in take(arrived, end)
        if isinstance(each.envelope.message, Acknowledge)
    ]
    assert (to, numbers) == (sender, [7])
    assert peer.status()["operations_pending"] == 0


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
def test_rows_that_wait_for_any_triple_go_to_the_new_owners_of_a_lost_peers_buckets(columns):
    """Rows kept by their sender would meet only the triples of its own buckets."""
    own = owner(keys.role_key(keys.P, 0, keys.term_hash("<p>"), 0))
    lost = next(each for each in map(owner, BUCKETS) if each != own)
    others = [each for each in PEERS if each != lost]
    heirs = {owner(key, others) for key in BUCKETS if owner(key) == lost}
    assert heirs.isdisjoint([own, *map(owner, BUCKETS)]), "they would have the rows anyway"
    dictionary = TermDictionary()
    peer = make_peer(own, dictionary, columns)
    sample = messages(dictionary, columns)
    for kind in (IndexQuery, IndexTriples):
        peer.receive(Envelope(0, 0, sample[kind]), sender=PEERS[0], now=1000.0)
        effects = peer.wake(now=1000.0)
    assert lost in receivers(effects)

    effects = peer.submit(ContactLost(lost), now=1001.0) + peer.wake(now=1001.0)
    assert heirs <= receivers(effects)


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
def test_a_message_to_all_replicas_is_in_flight_to_each_once_however_many_are_lost(columns):
    """Each lost replica has it sent to all others: if that doubled the messages in flight, they would be flooded."""
    dictionary = TermDictionary()
    peer = make_peer(PEERS[0], dictionary, columns, replicas=5)
    sample = messages(dictionary, columns)[IndexQuery]
    wherever = IndexQuery(sample.plan, 1, sample.groups)
    for key in BUCKETS:
        peer._coordinator.to_all(key, wherever)
    for lost in PEERS[1:9]:
        peer.submit(ContactLost(lost), now=1001.0)
        under_way = [each for each in peer._messenger.outbox.messages() if each is wherever]
        assert 0 < len(under_way) < len(PEERS)


def receivers(effects) -> set[Contact]:
    """Return the receivers of rows."""
    return {each.to for each in effects if isinstance(each, Send) and isinstance(each.envelope.message, Forward)}


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
def test_triples_routed_before_a_loss_in_the_same_turn_go_to_the_next_owner_at_once(columns):
    """They waited for five attempts at the lost peer, and held back all low watermarks for 15 s."""
    end = owner(keys.role_key(keys.P, 0, keys.term_hash("<p>"), 0))
    own = next(each for each in PEERS if each != end)
    dictionary = TermDictionary()
    peer = make_peer(own, dictionary, columns, replicas=1, copies_min=1)
    terms = [columns.column(dictionary.intern_all([term]), "uint32") for term in ("<s>", "<p>", "<o>")]
    effects = peer.submit(Publish(1, 1, 0, *terms), now=1000.0)
    effects += peer.submit(ContactLost(end), now=1000.0)
    while peer.deadline is not None and peer.deadline <= 1000.0:
        effects += peer.wake(now=1000.0)
    sent = [each for each in effects if isinstance(each, Send) and isinstance(each.envelope.message, IndexTriples)]
    assert sent
    assert not [each.to for each in peer._messenger.outbox._open.values() if each.to == end]
    rows = {(each.to.key, tuple(as_list(each.envelope.message.roles))) for each in sent if each.to != end}
    assert any(role & 1 << keys.P for _, roles in rows for role in roles)


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
def test_a_peer_that_is_back_before_the_next_turn_is_not_lost_again(columns):
    """Membership reports it once, so it would stay unknown here."""
    end = owner(keys.role_key(keys.P, 0, keys.term_hash("<p>"), 0))
    own = next(each for each in PEERS if each != end)
    dictionary = TermDictionary()
    peer = make_peer(own, dictionary, columns, replicas=1, copies_min=1)
    terms = [columns.column(dictionary.intern_all([term]), "uint32") for term in ("<s>", "<p>", "<o>")]
    peer.submit(Publish(1, 1, 0, *terms), now=1000.0)
    peer.submit(ContactLost(end), now=1000.0)
    peer._engine.turn()  # the first of a turn that is open for long
    assert peer._messenger.strays
    peer.submit(ContactSeen(end), now=1000.0)
    peer.wake(now=1000.0)
    assert peer._messenger.is_known(end)
