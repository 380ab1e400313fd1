"""Turns with a budget: a turn stops after it, the next call goes on, and nothing is acknowledged before it is over."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from p2prdf import hlc
from p2prdf.columns import ARRAYS, as_list
from p2prdf.peer import Pace, Peer, PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.pace import STEP_SECONDS
from p2prdf.peer.replication.deferred import Deferred
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.contract import ContactSeen, OwnersFound, Persist, Send
from p2prdf.wire.messages import (
    Acknowledge,
    BucketDigests,
    Contact,
    Envelope,
    Fetch,
    IdentityList,
    IndexTriples,
    RootDigests,
)

OWN, OTHER = Contact(1 << 60, "own", 1), Contact(2 << 60, "other", 1)
HOME, ROWS = 18, 16
NOW = 1000.0
VIEW = 5


class Slow:
    """A peer: every step of its spends the budget of a turn."""

    def __init__(self):
        self.terms = TermDictionary()
        config = PeerConfig(durable=True)
        pace = Pace(config.turn_budget_seconds, slowness=config.turn_budget_seconds / STEP_SECONDS)
        self.peer = Peer(OWN, config, self.terms, ARRAYS, Random(1), pace=pace)
        self.peer.submit(OwnersFound(0, (OWN,), complete=True), now=NOW)
        self.peer.wake(now=NOW)

    def receive(self, transfer):
        """Take in a triple of the other peer."""
        stamp = hlc.from_seconds(NOW)
        s, p, o = (np.array([self.terms.intern(f"<urn:{name}{transfer}>")], np.uint32) for name in "spo")
        times, events = np.array([stamp], np.uint64), np.array([transfer], np.uint64)
        message = IndexTriples(s, p, o, times, events, np.ones(1, np.uint32))
        return self.peer.receive(Envelope(transfer, stamp, message), sender=OTHER, now=NOW)

    def wake(self):
        """Return the effects of each call until the turn is over."""
        calls = [self.peer.wake(now=NOW)]
        while self.peer.turn_open:
            assert self.peer.deadline <= NOW, "the driver is to call again at once"
            calls.append(self.peer.wake(now=NOW))
            assert len(calls) < 100
        return calls


def acknowledged(effects):
    sent = [each.envelope.message for each in effects if isinstance(each, Send)]
    return [number for message in sent if isinstance(message, Acknowledge) for number in as_list(message.transfers)]


def test_turn_stops_after_its_budget_and_goes_on_with_nothing_lost():
    slow = Slow()
    for transfer in range(1, 6):
        slow.receive(transfer)
    calls = slow.wake()
    assert len(calls) > 1
    assert slow.peer.status()["triples"] == 5
    assert slow.peer.quiet


def test_nothing_is_acknowledged_before_the_turn_is_over_and_everything_then_in_order():
    slow = Slow()
    for transfer in range(1, 6):
        slow.receive(transfer)
    *open_calls, last = slow.wake()
    assert open_calls
    assert [acknowledged(effects) for effects in open_calls] == [[]] * len(open_calls)
    assert acknowledged(last) == [1, 2, 3, 4, 5]
    kept = [len(each.message) for effects in (*open_calls, last) for each in effects if isinstance(each, Persist)
            and isinstance(each.message, IndexTriples)]  # fmt: skip
    assert sum(kept) == 5, "all is persisted before the acknowledgement leaves"


def test_messages_that_arrive_in_an_open_turn_are_acknowledged_with_it_and_stored():
    slow = Slow()
    for transfer in range(1, 4):
        slow.receive(transfer)
    assert acknowledged(slow.peer.wake(now=NOW)) == []
    assert slow.peer.turn_open
    slow.receive(9)
    *open_calls, last = slow.wake()
    assert [acknowledged(effects) for effects in open_calls] == [[]] * len(open_calls)
    assert acknowledged(last) == [1, 2, 3, 9]
    assert slow.peer.status()["triples"] == 4


def test_repetitions_of_messages_that_an_open_turn_works_off_make_it_no_longer():
    """Otherwise a peer so slow that senders repeat their messages would be busy with repetitions only."""
    calls = []
    for repetitions in (0, 20):
        slow = Slow()
        for transfer in range(1, 4):
            slow.receive(transfer)
        first = slow.peer.wake(now=NOW)
        for _ in range(repetitions):
            for transfer in range(1, 4):
                slow.receive(transfer)
        effects = [first, *slow.wake()]
        calls.append(len(effects))
        assert [number for each in effects for number in acknowledged(each)] == [1, 2, 3]
    assert calls[0] == calls[1]


def test_repetitions_that_waited_for_the_end_of_a_turn_are_acknowledged_again_and_not_stored_again():
    slow = Slow()
    slow.receive(1)
    slow.wake()
    slow.receive(1)
    calls = slow.wake()
    assert [acknowledged(effects) for effects in calls] == [[1]]
    assert not [each for each in calls[0] if isinstance(each, Persist)]


def test_a_refused_message_is_handled_when_it_is_repeated():
    inbox = Messenger(OWN, PeerConfig(), ARRAYS).inbox
    for _ in range(3):
        assert inbox.begin(OTHER, 1)
        inbox.refuse()
        inbox.end()
        assert inbox.take_done() == {}


def test_default_budget_does_not_split_a_small_turn():
    peer = Peer(OWN, PeerConfig(), TermDictionary(), ARRAYS, Random(1))
    peer.submit(OwnersFound(0, (OWN,), complete=True), now=NOW)
    peer.submit(ContactSeen(OTHER), now=NOW)
    peer.wake(now=NOW)
    assert not peer.turn_open


# --- the measure ---------------------------------------------------------------------------------


def test_pace_counts_by_component_and_signals_when_a_share_and_the_budget_are_spent():
    time = [0.0]
    pace = Pace(1.0, lambda: time[0])
    pace.begin("engine")
    time[0] = 0.4
    assert not pace.over_share(0.5)
    time[0] = 0.6
    assert pace.over_share(0.5)
    pace.enter("repair")
    assert not pace.over_share(0.25)
    time[0] = 1.1
    assert pace.over
    assert pace.over_share(0.9), "the budget of the turn is spent as well"
    pace.enter("")
    assert pace.by_component == {"engine": pytest.approx(0.6), "repair": pytest.approx(0.5)}
    pace.begin()
    assert not pace.over


def test_pace_without_a_meter_counts_steps_and_rows_so_that_simulations_repeat():
    pace = Pace(2 * STEP_SECONDS, slowness=1.0)
    pace.begin()
    pace.did()
    assert not pace.over
    pace.did(rows=1000)
    assert pace.over


# --- questions of repair -------------------------------------------------------------------------


class Questions:
    """Deferred questions of a peer: every step of its spends a budget."""

    def __init__(self, budget=STEP_SECONDS):
        self.messenger = Messenger(OWN, PeerConfig(), ARRAYS, pace=Pace(budget))
        self.answered = []
        self.deferred = Deferred(self.messenger, dict.fromkeys((RootDigests, BucketDigests, IdentityList, Fetch),
            self._answer), (HOME,))

    def _answer(self, _, message):
        self.answered.append(message)

    def ask(self, transfer, message):
        assert self.messenger.inbox.begin(OTHER, transfer)
        self.deferred.add(OTHER, message)
        self.messenger.inbox.end()

    def work(self):
        self.messenger.pace.begin("repair")
        self.deferred.wake()
        return self.messenger.inbox.take_done().get(OTHER, [])


def test_a_turn_answers_as_many_questions_as_its_share_allows_and_acknowledges_only_these():
    questions = Questions()
    offers = [IdentityList(number, ROWS, True, False, [], []) for number in (1, 2, 3)]
    for number, offer in enumerate(offers, 1):
        questions.ask(number, offer)
    assert [questions.work(), questions.work(), questions.work()] == [[1], [2], [3]]
    assert questions.answered == offers
    assert questions.work() == []


def test_questions_about_coordinators_are_answered_first():
    questions = Questions()
    other, home = Fetch(1, ROWS, True, []), Fetch(2, HOME, True, [])
    questions.ask(1, other)
    questions.ask(2, home)
    questions.work()
    questions.work()
    assert questions.answered == [home, other]


def test_a_question_that_is_asked_again_replaces_the_one_that_waits():
    questions = Questions(budget=1.0)
    first, again = BucketDigests(1, ROWS, VIEW, [0]), BucketDigests(2, ROWS, VIEW, [0])
    for number, message in enumerate((first, RootDigests(3, VIEW, [], []), again), 1):
        questions.ask(number, message)
    assert sorted(questions.work()) == [1, 2, 3], "the replaced one is acknowledged, too"
    assert questions.answered[0] == again
    assert len(questions.answered) == 2


def test_a_repeated_transfer_of_a_question_that_waits_is_left_to_its_first_copy():
    questions = Questions()
    questions.ask(1, Fetch(1, ROWS, True, []))
    assert not questions.messenger.inbox.begin(OTHER, 1)
