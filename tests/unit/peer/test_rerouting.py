"""What was on its way to a peer that is gone is routed anew, by who owns its keys now."""

from __future__ import annotations

import pytest

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.wire.contract import ContactLost, ContactSeen, OwnersFound, Send
from p2prdf.wire.messages import Contact, Forward, Groups, IndexQuery, IndexTriples, Parcel

PEERS = tuple(Contact(at << 60, f"peer-{at}", 1) for at in range(16))
ANYTHING_BESIDE = ConjunctiveQuery(((0, ~0, 1), (2, 3, 4)), ("<p>",), (0, 4), ("s", "any"))
BUCKETS = [keys.bucket_key(bucket) for bucket in range(keys.BUCKETS)]


def owner(key: int, peers=PEERS) -> Contact:
    """Return who owns a key."""
    return min(peers, key=lambda each: each.key ^ key)


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
def test_rows_that_wait_for_any_triple_go_to_who_owns_the_buckets_of_a_lost_peer(columns):
    """Kept by their sender they would meet only the triples of its own buckets."""
    own = owner(keys.role_key(keys.P, 0, keys.term_hash("<p>"), 0))
    lost = next(each for each in map(owner, BUCKETS) if each != own)
    others = [each for each in PEERS if each != lost]
    heirs = {owner(key, others) for key in BUCKETS if owner(key) == lost}
    assert heirs.isdisjoint([own, *map(owner, BUCKETS)]), "they would have the rows anyway"
    dictionary, make = TermDictionary(), columns.column
    peer = Peer(own, PeerConfig(roles="all", wildcards=True), dictionary, columns)
    for other in PEERS:
        peer.submit(ContactSeen(other), now=1000.0)
    peer.submit(OwnersFound(own.key, PEERS, complete=True), now=1000.0)

    since = make([hlc.from_seconds(1.0)])
    params = (make(dictionary.intern_all(["<p>"]), "uint32"),)
    plan = make_plan(ANYTHING_BESIDE, (0, 1), Algorithm.CSBV)
    query = IndexQuery(plan, 0, Groups(make([1 << 32]), since, since, make([1 << 62]), params))
    terms = [make(dictionary.intern_all([term]), "uint32") for term in ("<s>", "<p>", "<o>")]
    triple = IndexTriples(*terms, make([hlc.from_seconds(2.0)]), make([1]), columns.full(1, 1 << keys.P, "uint32"))
    for message in (query, triple):
        peer.receive(Parcel(0, 0, message), sender=PEERS[0], now=1000.0)
        effects = peer.wake(now=1000.0)
    assert lost in receivers(effects)

    effects = peer.submit(ContactLost(lost), now=1001.0) + peer.wake(now=1001.0)
    assert heirs <= receivers(effects)


def receivers(effects) -> set[Contact]:
    """Return to whom rows were sent."""
    return {each.to for each in effects if isinstance(each, Send) and isinstance(each.parcel.message, Forward)}
