"""Single rules: in most or all fault schedules other rules make up for the absence of each.

``python -m schedules --mutants`` runs these tests without each rule and reports the failures.
"""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest
from peer_pair import HIGH, LOW, QUERY, Pair

from p2prdf import hlc
from p2prdf.columns import ARRAYS, LISTS
from p2prdf.continuous.records import Known
from p2prdf.peer import Peer, PeerConfig
from p2prdf.peer.network.recovery import Recovery
from p2prdf.peer.subscriptions.unresolved import Unresolved
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.wire.contract import ContactSeen, Subscribe, Subscribed
from p2prdf.wire.messages import Contact, IndexTriples, NamesResponse, Rows

MATERIALS = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
GROUP = 5 << 16
REPLICAS = SimpleNamespace(replicated=True, rank=lambda _: 0, fellows=lambda _: [])


@MATERIALS
def test_an_incomplete_publication_of_before_a_restart_is_redelivered_without_its_origin(columns):
    """A peer that is never seen again is never reported as lost either."""
    pair = Pair(columns, replicas=2, copies_min=2)
    pair.pass_time(30.0)
    terms = [columns.column([each], "uint32") for each in pair.dictionary.intern_all(["<urn:s>", "<urn:p>", "<urn:o>"])]
    stamp = hlc.from_seconds(pair.now) + 1
    row = columns.column([stamp]), columns.column([7]), columns.column([1], "uint32")
    part = IndexTriples(*terms, *row, origin=12345, published=0xFF, began=stamp - 1)
    again = pair.peers[LOW.key] = Peer(LOW, pair.peers[HIGH.key].config, pair.dictionary, columns, Random(1))
    again.restore([part], now=pair.now)
    heard = pair.listen(HIGH)
    for each in (LOW, HIGH):
        pair.submit(LOW, ContactSeen(each))
    pair.publish(LOW, ("<urn:a>", "<urn:b>", "<urn:c>"))  # so that it looks up the replicas
    pair.pass_time(30.0)
    whole = [each for each in heard if isinstance(each, IndexTriples) and 7 in list(each.event)]
    assert [(each.origin, list(each.event)) for each in whole] == [(LOW.key, [7])]


def test_a_query_is_live_when_clocks_that_are_behind_are_past_its_stamp():
    """Otherwise a client that publishes at another peer after the notice may get an earlier stamp there."""
    pair = Pair(clock_skew_seconds=3.0)
    pair.submit(LOW, Subscribe(1, QUERY, Algorithm.CSBV, lease_seconds=60.0))
    pair.pass_time(2.9)
    assert 1 not in pair.completed
    pair.pass_time(1.0)
    assert isinstance(pair.completed[1], Subscribed)


def _caught_up():
    """Return the state of a peer that has compared all with the other replicas."""
    recovery = Recovery()
    recovery.caught_up = recovery.pass_completed = True
    return recovery


@MATERIALS
def test_answers_that_came_early_go_to_every_subscription_of_their_group(columns):
    recorded = []
    messenger = SimpleNamespace(
        now=10.0, columns=columns, placement=REPLICAS, trace=print, recovery=_caught_up()
    )
    home = SimpleNamespace(known=lambda _, *, subscription: Known.UNKNOWN if subscription else Known.LIVES)
    unknown = Unresolved(messenger, None, home, recorded.append)
    answers = SimpleNamespace(rows=Rows(*(columns.column([1]) for _ in range(4)), ()))
    assert unknown.hold_answers(GROUP, answers, Contact(3, "holder", 1))
    for subscriptions in (1, 2, 3):
        unknown.learned(GROUP, subscription=False)
        assert recorded == [answers] * subscriptions
    messenger.now += 21.0
    unknown.wake()
    unknown.learned(GROUP, subscription=False)
    assert len(recorded) == 3
    assert unknown.rows == 0


@MATERIALS
def test_answers_of_a_query_that_another_replica_has_left_hold_nothing_back(columns):
    """Bookmarks wait while answers wait for a record; a query that is about to end gets none any more."""
    messenger = SimpleNamespace(
        now=10.0, columns=columns, placement=REPLICAS, trace=print, recovery=_caught_up(),
        members=SimpleNamespace(copies_missing=True),
    )
    home = SimpleNamespace(known=lambda *_, **__: Known.UNKNOWN)
    unknown = Unresolved(messenger, None, home, print)
    answers = SimpleNamespace(rows=Rows(*(columns.column([1]) for _ in range(4)), ()))
    fellow = Contact(3, "holder", 1)
    assert unknown.hold_answers(GROUP, answers, fellow)
    for known, lacking in ((Known.UNSURE, True), (Known.UNKNOWN, True), (Known.LEFT, False)):
        names = columns.column([GROUP]), columns.column([0], "uint32"), columns.column([int(known)], "uint32")
        unknown.told(fellow, NamesResponse(*names))
        assert unknown.lacking == lacking
    assert unknown.rows == 1, "it has not ended yet"
    unknown.when_nowhere(GROUP + (1 << 16), print)
    assert not unknown.lacking
    unknown.hold_request(7, answers)
    assert unknown.lacking


@MATERIALS
@pytest.mark.parametrize("missing", [True, False])
def test_an_orphaned_query_is_not_confirmed_absent_while_a_peer_is_missing(columns, missing):
    """The missing peer alone may know a subscriber; and the holders of rows would not take the end back."""
    messenger = SimpleNamespace(
        now=10.0, columns=columns, placement=REPLICAS, trace=print,
        members=SimpleNamespace(copies_missing=False, somebody_missing=missing),
        recovery=_caught_up(),
    )  # fmt: skip
    home = SimpleNamespace(known=lambda *_, **__: Known.UNKNOWN, left={GROUP: None})
    told = []
    by_key = SimpleNamespace(reply=lambda *each: told.append(each))
    unknown = Unresolved(messenger, by_key, home, print)
    unknown.hold_holder(GROUP, Contact(3, "holder", 1))
    messenger.now += 21.0
    unknown.wake()
    assert bool(told) != missing


@MATERIALS
def test_triples_left_out_for_a_late_subscription_are_joined_again(columns):
    peer = Peer(LOW, PeerConfig(replicas=2, copies_min=1), TermDictionary(), columns, Random(1))
    engine, joined = peer._engine, []
    peer._messenger.signals.index_widened.connect(lambda: joined.append(1))
    engine._tables._widened, engine._tables._skipped = True, False
    engine._widened(0)
    assert not joined  # nothing had been left out
    engine._tables._widened, engine._tables._skipped = True, True
    engine._widened(0)
    engine._widened(0)
    assert joined == [1]
