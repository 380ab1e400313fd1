"""A clock that was ahead: its stamps are refused, and those on the disk do not silence the peer."""

from dataclasses import replace
from math import inf
from random import Random

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire.contract import (
    Bookmark,
    Completed,
    Failed,
    FindOwner,
    Notify,
    OwnersFound,
    Persist,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    Trace,
    WantBookmarks,
)
from p2prdf.wire.messages import Envelope, Forward, GroupLeases, IndexQuery, IndexTriples, MembersKnown
from p2prdf.wire.stamps import latest

NOW = 1_800_000_000.0
HOUR = 3600.0
QUERY = ConjunctiveQuery(((0, ~0, 1),), ("<p>",), (0, 1), ("s", "o"))
JOIN = ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), ("<p>", "<q>"), (0, 2), ("s", "o"))
A, B = ("<a>", "<p>", "<b>"), ("<b>", "<q>", "<c>")


class Alone:
    """One peer with a disk; a test sets its clock at each start."""

    def __init__(self, now=NOW):
        self.dictionary = TermDictionary()
        self.kept = []
        self.requests = self.lives = 0
        self.begin(now)

    def begin(self, now):
        """Start it with its records."""
        self.now, self.effects = now, []
        self.lives += 1
        config = PeerConfig(durable=True, replicas=3, copies_min=1)
        self.peer = Peer(LOW, config, self.dictionary, entropy=Random(self.lives))
        self.peer.restore(list(self.kept), now=now)
        self.run(0.0)

    def run(self, seconds):
        """Let time pass."""
        end = self.now + seconds
        self.carry_out(self.peer.wake(now=self.now))
        while (due := self.peer.deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self.carry_out(self.peer.wake(now=self.now))
        self.now = end

    def carry_out(self, effects):
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, Persist):
                self.kept.append(effect.message)
            elif isinstance(effect, FindOwner):
                found = OwnersFound(effect.key, (LOW,), complete=True)
                self.carry_out(self.peer.submit(found, now=self.now))

    def ask(self, kind, *parts, **more):
        """Submit a request, and return its outcome."""
        self.requests += 1
        self.carry_out(self.peer.submit(kind(self.requests, *parts, **more), now=self.now))
        self.run(1.0)
        done = [each for each in self.effects if isinstance(each, Completed) and each.request == self.requests]
        return done[-1].outcome

    def publish(self, *triples, **more):
        columns = [self.dictionary.intern_all(column) for column in zip(*triples, strict=True)]
        return self.ask(Publish, 9, 100 * self.requests, *columns, **more)

    def subscribe(self, query, **more):
        outcome = self.ask(Subscribe, query, Algorithm.CSBV, lease_seconds=86_400.0, **more)
        assert isinstance(outcome, Subscribed), outcome
        return outcome

    def answers(self):
        """Return the number of delivered solutions; a retraction may precede its solution."""
        notified = [each for each in self.effects if isinstance(each, Notify)]
        return sum(time < hlc.GONE for each in notified for time in as_list(each.born))


@pytest.mark.parametrize("ahead", [300.0, HOUR, 365 * 24 * HOUR, 974 * 365 * 24 * HOUR])
def test_a_peer_that_was_ahead_serves_at_once_when_it_starts_with_a_right_clock(ahead):
    alone = Alone()
    alone.publish(("<x>", "<p>", "<y>"))
    alone.begin(NOW + ahead)
    assert isinstance(alone.publish(A), Published)
    alone.publish(("<x>", "<p>", "<y>"), removed=True)
    alone.begin(NOW + 200.0)
    assert alone.peer.clock < hlc.from_seconds(NOW + 300.0)
    assert alone.peer.status()["stamps_corrected"] > 0
    assert [each for each in alone.effects if isinstance(each, Trace) and each.event == "stamps-corrected"]
    subscription = alone.subscribe(QUERY).subscription
    alone.carry_out(alone.peer.submit(WantBookmarks(subscription), now=alone.now))
    alone.publish(("<x>", "<p>", "<y>"))
    alone.run(5.0)
    assert alone.answers() == 1
    marks = [each.stamp for each in alone.effects if isinstance(each, Bookmark)]
    assert hlc.from_seconds(NOW + 200.0) < marks[-1] < hlc.from_seconds(NOW + 300.0)


def test_a_subscription_from_before_the_jump_joins_triples_published_in_the_future():
    alone = Alone()
    alone.subscribe(JOIN)
    alone.begin(NOW + HOUR)
    alone.publish(A)
    alone.begin(NOW + 200.0)
    since = [each.since for each in alone.kept if type(each).__name__ == "KeepSubscription"]
    restored = [each for each in alone.peer.snapshot() if isinstance(each, IndexTriples)]
    assert since
    assert min(since) < max(latest(each) for each in restored) < hlc.from_seconds(NOW + 200.0)


def test_a_subscription_opened_in_the_future_counts_triples_published_with_a_right_clock():
    alone = Alone(NOW + HOUR)
    opened = alone.subscribe(QUERY).subscription
    alone.begin(NOW + 200.0)
    alone.publish(A)
    records = [each for each in alone.peer.snapshot() if type(each).__name__ == "KeepSubscription"]
    assert [each.subscription for each in records] == [opened]
    assert latest(records[0]) <= hlc.from_seconds(alone.now)
    assert alone.peer.status()["solutions_held"] == 1


def test_a_statement_removed_in_the_future_can_be_published_and_removed_again():
    alone = Alone(NOW + HOUR)
    alone.publish(A)
    alone.publish(A, removed=True)
    alone.begin(NOW)
    alone.publish(A)
    alone.publish(A, removed=True)
    alone.publish(A)
    alone.subscribe(QUERY, since=1)
    alone.run(5.0)
    assert alone.answers() == 1


def test_a_snapshot_of_a_corrected_peer_holds_no_stamp_of_the_future():
    alone = Alone(NOW + HOUR)
    alone.subscribe(JOIN)
    alone.publish(A, B)
    alone.begin(NOW)
    assert max(map(latest, alone.peer.snapshot())) <= hlc.from_seconds(alone.now)


def test_a_short_absence_and_a_small_drift_correct_nothing():
    alone = Alone()
    alone.publish(A)
    alone.begin(NOW - 30.0)
    assert alone.peer.status()["stamps_corrected"] == 0
    assert alone.peer.clock >= hlc.from_seconds(NOW)


def test_a_long_absence_is_remembered_as_a_jump_that_corrects_nothing_at_the_next_start():
    alone = Alone()
    alone.publish(A)
    alone.begin(NOW + HOUR)
    assert [each.jumped for each in alone.kept if isinstance(each, MembersKnown)][-1] == hlc.from_seconds(NOW + HOUR)
    alone.publish(B)
    alone.begin(NOW + HOUR + 5.0)
    assert alone.peer.status()["stamps_corrected"] == 0


def test_the_whole_former_incarnation_precedes_a_jump_and_not_its_latest_stamp_alone():
    alone = Alone()
    alone.publish(A)
    peer = Peer(LOW, PeerConfig(durable=True), alone.dictionary, entropy=Random(2))
    peer.restore(list(alone.kept), now=NOW + 2 * HOUR, away_seconds=HOUR)  # idle for an hour, then ahead by another
    effects = peer.wake(now=NOW + 2 * HOUR)
    kept = [each.message for each in effects if isinstance(each, Persist)]
    (known,) = [message for message in kept if isinstance(message, MembersKnown)]
    assert known.before == hlc.from_seconds(NOW + HOUR) - 1


def test_a_peer_starts_with_a_clock_that_was_set_back_and_does_not_know_how_long_it_was_away():
    alone = Alone()
    alone.publish(A)
    peer = Peer(LOW, PeerConfig(durable=True, replicas=3), alone.dictionary, entropy=Random(2))
    peer.restore(list(alone.kept), now=NOW - HOUR, away_seconds=inf)
    kept = [each.message for each in peer.wake(now=NOW - HOUR) if isinstance(each, Persist)]
    known = [message for message in kept if isinstance(message, MembersKnown)][-1]
    assert known.jumped == hlc.from_seconds(NOW - HOUR)
    assert known.before < known.jumped
    assert known.lacks > 0


def test_a_publication_after_a_stamp_from_the_future_is_refused_with_stamp_bound_and_remedy():
    alone = Alone()
    refused = alone.publish(A, after=hlc.from_seconds(NOW + HOUR))
    assert isinstance(refused, Failed)
    assert refused.code == "stamp-refused"
    assert hlc.shown(hlc.from_seconds(NOW + HOUR)) in refused.text
    assert "60 s ahead of its clock" in refused.text
    assert "set the wrong one right" in refused.text


def test_a_message_with_a_stamp_from_the_future_is_neither_taken_in_nor_acknowledged():
    pair = Pair()
    pair.compare()
    pair.publish(LOW, A)
    low, high = pair.peers[LOW.key], pair.peers[HIGH.key]
    ahead = hlc.from_seconds(pair.now + HOUR)
    make, clock = pair.columns.column, high.clock
    row = [make(pair.dictionary.intern_all([term]), "uint32") for term in ("<v>", "<p>", "<w>")]
    message = IndexTriples(*row, make([ahead]), make([1]), make([127], "uint32"), published=127)
    for removed in (0, hlc.GONE):
        told = replace(message, time=make([ahead | removed]))
        effects = high.receive(Envelope(77, low.clock, told), sender=LOW, now=pair.now)
        effects += high.wake(now=pair.now)
        assert [each for each in effects if isinstance(each, Trace) and each.event == "stamp-refused"]
        sent = [each.envelope.message for each in effects if "Acknowledge" in str(each)[:200]]
        acknowledged = [as_list(message.transfers) for message in sent]
        assert 77 not in [number for numbers in acknowledged for number in numbers]
    assert high.status()["stamps_refused"] == 2
    assert high.clock < clock + hlc.from_seconds(60.0)


def leases(peer):
    """Return when the leases of groups end that a peer holds, in seconds."""
    held = [each for each in peer.snapshot() if isinstance(each, IndexQuery | Forward)]
    return [hlc.seconds(lease) for each in held for lease in as_list(each.groups.lease)]


def test_leases_of_groups_from_the_future_end_like_those_that_are_made_now():
    alone = Alone(NOW + HOUR)
    alone.subscribe(JOIN)
    alone.publish(A)
    assert min(leases(alone.peer)) > NOW + HOUR
    alone.begin(NOW)
    assert leases(alone.peer)
    assert max(leases(alone.peer)) <= NOW + 300.0 + 60.0
    held = [each for each in alone.peer.snapshot() if isinstance(each, IndexQuery | Forward)]
    group = as_list(held[0].groups.ids)[0]
    make = alone.peer._messenger.columns.column
    told = GroupLeases(make([group]), make([hlc.from_seconds(NOW + 365 * 24 * HOUR)]))
    alone.peer.receive(Envelope(1, alone.peer.clock, told), sender=HIGH, now=alone.now)
    assert max(leases(alone.peer)) <= alone.now + 300.0 + 60.0
