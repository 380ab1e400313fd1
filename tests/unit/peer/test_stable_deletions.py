"""Stable deletions: two low watermarks prove them; an arrival, or a late deletion, withdraws the proof."""

from __future__ import annotations

import pytest
from store_tables import new_tables

from p2prdf.columns import ARRAYS
from p2prdf.hlc import GONE
from p2prdf.peer import PeerConfig
from p2prdf.peer.joins.stable_deletions import StableDeletions
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.contract import OwnersFound, Persist
from p2prdf.wire.messages import Contact, DeletionsForgotten, DeletionsStable

OWN, OTHER, THIRD = (Contact(place << 60, name, 1) for place, name in ((1, "own"), (2, "other"), (3, "third")))
NOW = 1_000_000.0
BITS = 0b1111111


class Proof:
    """The stable deletions of one peer, and its tables."""

    def __init__(self, **settings):
        config = PeerConfig(replicas=3, durable=True, forget_intervals=True, **settings)
        self.messenger = Messenger(OWN, config, ARRAYS)
        self.messenger.observe(NOW)
        self.messenger.tick()
        self.tables, self.dictionary = new_tables("columnar", forgets=True)
        self.expelled = set()
        self.stable = StableDeletions(self.messenger, self.tables, lambda: None, lambda: self.expelled)
        self.triples = iter(range(1000))
        self.meet(OTHER)

    def meet(self, contact):
        self.messenger.seen(contact)
        self.messenger.owners_found(OwnersFound(0, tuple(self.messenger.cache.contacts()), complete=True))
        self.stable.met(contact)

    def delete(self, stamp):
        s, p, o = (self.dictionary.intern(f"<urn:{next(self.triples)}>") for _ in range(3))
        self.tables.add_triples([s], [p], [o], [GONE | stamp], [0], [BITS])

    @property
    def before(self):
        return self.tables.stable_before

    def records(self):
        if self.stable.dirty:
            self.stable.dirty = False
            self.stable.wake()
        effects, self.messenger.effects = self.messenger.effects, []
        kept = [each.message for each in effects if isinstance(each, Persist)]
        return [each for each in kept if isinstance(each, DeletionsStable)]


def test_a_deletion_is_stable_once_a_later_low_watermark_has_passed_the_first_cut():
    proof = Proof()
    assert not proof.stable.wanted
    proof.delete(10)
    assert proof.stable.wanted
    proof.stable.learn(20, 25)
    proof.stable.learn(24, 30)
    assert not proof.before, "a retraction with a stamp before the first cut may be in flight"
    proof.stable.learn(27, 35)
    assert proof.before == 21
    assert not proof.stable.wanted
    proof.stable.learn(40, 45)
    assert proof.before == 28


def test_the_arrival_of_a_peer_withdraws_the_proof_and_a_loss_does_not():
    proof = Proof()
    proof.delete(10)
    for upto in (20, 40, 60):
        proof.stable.learn(upto, upto + 1)
    assert proof.before == 41
    proof.stable.lost(OTHER)
    assert proof.before == 41
    proof.stable.learn(80, 81)
    assert proof.before == 41, "the low watermarks of the view before count no more"
    proof.meet(THIRD)
    assert not proof.before
    assert proof.stable.wanted


@pytest.mark.parametrize("between", [False, True], ids=["after the proof", "before the proof"])
def test_a_late_deletion_refutes_the_proof_up_to_its_stamp(between):
    proof = Proof()
    proof.delete(10)
    proof.stable.learn(20, 25)
    if between:
        proof.delete(15)
    proof.stable.learn(40, 45)
    if not between:
        assert proof.before == 21
        proof.delete(15)
        assert proof.before == 15
    assert proof.before == (0 if between else 15)
    proof.stable.learn(60, 65)
    assert proof.before == (41 if between else 15), "the low watermarks from before the late deletion count no more"
    proof.stable.learn(80, 85)
    assert proof.before == 61


@pytest.mark.parametrize("settings", [{"indexes": "on-demand"}, {"keyword_routing": True}], ids=["on-demand", "words"])
def test_nothing_is_stable_where_a_deletion_goes_under_some_indexes_only(settings):
    proof = Proof(**settings)
    proof.delete(10)
    assert not proof.stable.wanted
    for upto in (20, 40, 60):
        proof.stable.learn(upto, upto + 1)
    assert not proof.before


def test_after_a_restart_the_proof_holds_until_another_peer_than_the_members_comes():
    proof = Proof()
    proof.delete(10)
    for upto in (20, 40, 60):
        proof.stable.learn(upto, upto + 1)
    (record,) = proof.records()
    assert (record.upto, list(record.members)) == (41, [OWN.key, OTHER.key])
    assert not proof.records()
    assert [each.upto for each in proof.stable.kept() if isinstance(each, DeletionsStable)] == [41]

    def restarted(record):
        again = Proof()
        again.delete(10)
        again.stable.restorers()[DeletionsStable](record)
        return again

    again = restarted(record)
    again.meet(OTHER)
    assert again.before == 41
    again.meet(THIRD)
    assert not again.before
    assert [each.upto for each in again.records()] == [0]
    late = restarted(record)
    late.delete(20)
    assert late.before == 20, "a late deletion is stored, and restored, after the record of the stamp"
    twice = restarted(record)
    twice.stable.met(OTHER)
    twice.stable.met(OTHER)
    assert not twice.before, "it has come a second time, perhaps without its last records"


def test_a_stamp_from_the_future_is_not_restored():
    proof = Proof()
    record = DeletionsStable(proof.messenger.stamp_bound + 1, ARRAYS.column([OWN.key]))
    proof.stable.restorers()[DeletionsStable](record)
    assert not proof.before
    assert [each.upto for each in proof.records()] == [0], "a later process must not take the stamp for a past one"


# --- superseded intervals ------------------------------------------------------------------------


def toggle(proof, *stamps):
    """Publish and delete one triple, and publish it again."""
    terms = [proof.dictionary.intern(f"<urn:toggled {at}>") for at in range(3)]
    columns = [[term] for term in terms]
    for stamp in stamps:
        proof.tables.add_triples(*columns, [stamp], [0], [BITS])


def told(proof):
    """Return the proofs sent to other peers."""
    return [each for each in proof.messenger.outbox.messages() if isinstance(each, DeletionsForgotten)]


def held(proof):
    while proof.tables.forgetting:
        proof.tables.forget_some()
    return proof.tables.sizes().triples


def test_an_interval_goes_once_two_cuts_without_a_missing_member_prove_it():
    proof = Proof()
    toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
    proof.stable.learn(20, 25, whole=False)
    proof.stable.learn(40, 45, whole=True)
    assert proof.before == 21
    assert held(proof) == 3, "a member was missing at the first cut"
    assert proof.stable.wanted
    proof.stable.learn(60, 65, whole=True)
    assert proof.tables.superseded_before == 41
    assert held(proof) == 2
    assert not proof.stable.wanted


def test_a_horizon_stays_while_low_watermarks_pass_no_deletion():
    proof = Proof()
    toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
    for upto in range(20, 400, 20):
        proof.stable.learn(upto, upto + 5, whole=True)
    assert proof.tables.superseded_before == 21
    toggle(proof, GONE | 410)
    for upto in range(420, 480, 20):
        proof.stable.learn(upto, upto + 5, whole=True)
    assert proof.tables.superseded_before == 421


def test_proofs_are_told_when_a_member_is_lost():
    """No peer can prove more then, and one that missed a report keeps intervals that the others have forgotten."""
    proof = Proof()
    proof.meet(THIRD)
    toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
    proof.messenger.cache.lost(THIRD)
    proof.stable.lost(THIRD)
    assert not told(proof), "nothing is proven"
    proof.meet(THIRD)
    for upto in (20, 40):
        proof.stable.learn(upto, upto + 5, whole=True)
    assert not told(proof)
    proof.messenger.cache.lost(THIRD)
    proof.stable.lost(THIRD)
    assert [(each.before, each.at) for each in told(proof)] == [(21, 25)]


def test_a_member_that_is_lost_is_missed_until_it_returns_leaves_or_is_expelled():
    for change in ("returns", "leaves", "expelled"):
        proof = Proof()
        proof.meet(THIRD)
        assert proof.stable.whole
        proof.messenger.cache.lost(THIRD)
        proof.stable.lost(THIRD, left=change == "leaves")
        assert proof.stable.whole == (change == "leaves")
        assert proof.stable.status()["members_missed"] == ([] if change == "leaves" else [f"{THIRD.key:016x}"])
        toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
        for upto in (20, 40):
            proof.stable.learn(upto, upto + 5, whole=proof.stable.whole)
        assert held(proof) == (2 if change == "leaves" else 3)
        assert not proof.stable.wanted, "no low watermark helps while a member is missing"
        if change == "returns":
            proof.meet(THIRD)
        elif change == "expelled":
            proof.expelled.add(THIRD.key)
        assert proof.stable.whole
        for upto in (60, 80, 100):
            proof.stable.learn(upto, upto + 5, whole=proof.stable.whole)
        assert held(proof) == 2


def test_cuts_stop_while_another_peer_misses_a_member():
    proof = Proof()
    toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
    for upto in (20, 40):
        assert proof.stable.wanted
        proof.stable.learn(upto, upto + 5, whole=False)
    assert not proof.stable.wanted
    assert held(proof) == 3
    proof.meet(THIRD)
    assert proof.stable.wanted


def test_the_proof_of_another_peer_counts_where_the_deletions_are_stable():
    proof = Proof()
    toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
    proof.stable.learn(20, 25)
    proof.stable.take(OTHER, DeletionsForgotten(30, 25, ARRAYS.column([])))
    assert held(proof) == 3, "not stable here yet"
    proof.stable.learn(40, 45)
    assert proof.tables.superseded_before == 21
    assert held(proof) == 2
    proof.meet(THIRD)
    assert proof.tables.superseded_before == 0, "the peer that came may send what it has joined"
    assert [each.before for each in told(proof)] == [30], "and it is told"


def test_a_late_deletion_refutes_the_proof_and_earlier_proofs_of_others():
    proof = Proof()
    toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
    proof.delete(35)
    for upto in (20, 40, 60):
        proof.stable.learn(upto, upto + 5, whole=True)
    assert proof.tables.superseded_before == 41
    toggle(proof, GONE | 18, 19)
    assert proof.tables.superseded_before == 18
    assert held(proof) == 4
    proof.stable.learn(80, 85)
    proof.stable.take(OTHER, DeletionsForgotten(62, 65, ARRAYS.column([])))
    for upto in (100, 120):
        proof.stable.learn(upto, upto + 5)
    assert proof.before == 81 + 20
    assert held(proof) == 4, "it is stable, but a member that was missing may not know it"
    later = proof.messenger.clock + 1
    proof.stable.take(OTHER, DeletionsForgotten(62, later, ARRAYS.column([])))
    assert held(proof) == 3


def test_after_a_restart_the_members_are_still_missed_and_intervals_go_at_once():
    proof = Proof()
    proof.meet(THIRD)
    toggle(proof, 3, GONE | 5, 7, GONE | 10, 15)
    for upto in (20, 40, 60):
        proof.stable.learn(upto, upto + 5, whole=True)
    kept = list(proof.stable.kept())
    again = Proof()
    toggle(again, 3, GONE | 5, 7, GONE | 10, 15)
    for record in kept:
        again.stable.restorers()[type(record)](record)
    assert again.tables.sizes().triples == 2
    assert not again.stable.whole, "the third member is not there yet"
    again.meet(THIRD)
    assert again.stable.whole
    again.stable.lost(THIRD, left=True)
    assert again.stable.dirty, "or the next process would miss it"
    again.stable.forget(superseded=True)
    assert [each.before for each in again.stable.kept() if isinstance(each, DeletionsForgotten)] == [0]


def test_the_members_of_a_process_that_did_not_forget_are_missed():
    """Its last record of stable deletions names them."""
    proof = Proof()
    proof.stable.restorers()[DeletionsStable](DeletionsStable(10, ARRAYS.column([OWN.key, OTHER.key, THIRD.key])))
    assert not proof.stable.whole
    proof.meet(THIRD)
    assert proof.stable.whole
