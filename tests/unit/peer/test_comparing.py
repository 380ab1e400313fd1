"""Two replicas compare an item type that changes all the time: each bucket once, and then they are done."""

from __future__ import annotations

import numpy as np
import pytest
from peer_pair import LOW, Pair

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.replication import anti_entropy as repair
from p2prdf.peer.replication.anti_entropy import AntiEntropy
from p2prdf.peer.replication.digests import Changes, Items
from p2prdf.wire.contract import OwnersFound, Send
from p2prdf.wire.messages import BucketDigests, Contact, DigestDiff, Fetch, FetchDone, IdentityList, RootDigests

ONE, OTHER = Contact(1 << 60, "one", 1), Contact(2 << 60, "other", 1)
KIND = 3
COUNT = 5000
AT_A_TIME = 256
SECONDS = 1.0


class Things:
    """An item type without any item to fetch: missing items stay missing."""

    number = KIND
    dense = False
    counter = "things"

    def __init__(self, identities):
        self.identities = np.array(identities, np.uint64)
        self.version = 1

    def add(self, identity):
        self.identities = np.append(self.identities, np.uint64(identity))
        self.version += 1

    def items(self):
        return Items(self.identities, self.identities, np.arange(len(self.identities)))

    def changes(self):
        return Changes(True, self.items())

    def messages(self, places):
        del places
        return iter(())

    def everything(self):
        return iter(())


class Side:
    """One of two peers that keep everything both."""

    def __init__(self, own, other, identities):
        self.messenger = Messenger(own, PeerConfig(replicas=2, copies_min=1, repair_seconds=SECONDS), ARRAYS)
        self.messenger.seen(other)
        self.messenger.owners_found(OwnersFound(0, (own, other), complete=True))
        self.messenger.observe(1000.0)
        self.things = Things(identities)
        self.repair = AntiEntropy(self.messenger, [self.things], [], lambda message: iter([message]), 0)
        self.messenger.recovery.caught_up = True
        self.repair._compare_anew(gained=False)

    def sent(self):
        effects, self.messenger.effects = self.messenger.effects, []
        return [each.envelope.message for each in effects if isinstance(each, Send)]


@pytest.fixture
def rounds(monkeypatch):
    """Compare two peers that have nothing in common, and get nothing of each other.

    The returned function runs the comparison; it returns the first bucket of each request, and one of the
    sides.
    """

    def run(between):
        monkeypatch.setattr(repair, "IDENTITIES_MAX", AT_A_TIME)
        random = np.random.default_rng(7)
        one, other = (Side(*each, random.integers(1, 1 << 63, COUNT)) for each in ((ONE, OTHER), (OTHER, ONE)))
        one.messenger.observe(1010.0)
        one.repair.wake()
        answer = {
            RootDigests: lambda message: other.repair.totals(ONE, message),
            BucketDigests: lambda message: other.repair.summary(ONE, message),
            Fetch: lambda message: other.repair.want(ONE, message),
        }
        take = {
            DigestDiff: lambda message: one.repair.differing(OTHER, message),
            IdentityList: lambda message: one.repair.offer(OTHER, message),
            FetchDone: lambda message: one.repair.given_all(OTHER, message),
        }
        asked = []
        while one.repair._open or one.repair._queue or one.repair._to_look_at:
            assert len(asked) < 200, "it does not come to an end"
            one.repair.wake()
            for message in one.sent():
                if type(message) in answer:
                    answer[type(message)](message)
                if isinstance(message, BucketDigests):
                    asked.append(message.first)
            for message in other.sent():
                if type(message) in take:
                    take[type(message)](message)
            between(one, other, len(asked))
        return asked, one

    return run


def test_a_comparison_goes_on_behind_the_compared_buckets(rounds):
    asked, one = rounds(lambda *_: None)
    assert asked == sorted(set(asked)), "no bucket twice"
    assert len(asked) > COUNT // AT_A_TIME
    assert one.repair.taken == COUNT


def test_changes_in_compared_buckets_do_not_prolong_a_comparison(rounds):
    asked, one = rounds(lambda _, other, count: other.things.add((count + 1) << 20))  # all in the first bucket
    assert asked == sorted(set(asked))
    assert COUNT <= one.repair.taken < COUNT + 5


@pytest.mark.parametrize("a_second", [1, 1 << 30])
def test_after_a_long_pass_there_is_a_long_rest_if_much_was_done(rounds, monkeypatch, a_second):
    """A long pass without much work means that the network was slow, and waiting for it keeps no peer busy."""
    monkeypatch.setattr(repair, "MOVED_PER_SECOND", a_second)
    monkeypatch.setattr(repair, "FRESH_ITEMS_PER_SECOND", 1 << 30)

    def slowly(one, _, count):
        one.messenger.observe(one.messenger.now + 0.2)
        if count == 1:
            one.things.add(1)

    _, one = rounds(slowly)
    took = one.messenger.now - 1010.0
    assert took > 3.0
    one.repair.wake()
    rest = 4 * (took - SECONDS) if a_second == 1 else SECONDS
    assert one.repair._due == pytest.approx(one.messenger.now + rest)


@pytest.fixture
def late():
    """Return two peers that differ in items of one type, and the question of the first one about it."""
    one, other = Side(ONE, OTHER, [1 << 20, 2 << 20]), Side(OTHER, ONE, [2 << 20, 3 << 20])
    one.messenger.observe(1010.0)
    one.repair.wake()
    while not (questions := [each for each in one.sent() if isinstance(each, RootDigests)]):
        one.repair.wake()
    other.repair.totals(ONE, questions[0])
    one.repair.differing(OTHER, next(each for each in other.sent() if isinstance(each, DigestDiff)))
    return one, other, _question(one)


def _question(side):
    return next(each for each in side.sent() if isinstance(each, BucketDigests))


def _offered(other, question):
    other.repair.summary(ONE, question)
    return next(each for each in other.sent() if isinstance(each, IdentityList))


def _wait(side, seconds):
    side.messenger.observe(side.messenger.now + seconds)
    side.repair.wake()


def test_an_answer_that_comes_after_the_question_was_repeated_counts(late):
    one, other, question = late
    _wait(one, repair.ANSWER_SECONDS)
    assert _question(one).request == question.request
    one.repair.offer(OTHER, _offered(other, question))
    assert [as_list(each.identities) for each in one.sent() if isinstance(each, Fetch)] == [[3 << 20]]


def test_a_second_answer_to_a_repeated_question_transfers_nothing(late):
    one, other, question = late
    _wait(one, repair.ANSWER_SECONDS)
    answers = [_offered(other, each) for each in (question, _question(one))]
    for answer in answers:
        one.repair.offer(OTHER, answer)
    assert one.repair.taken == one.repair.given == 1
    one.repair.given_all(OTHER, FetchDone(question.request, KIND))
    assert not one.repair.comparing


def test_a_question_is_asked_anew_if_requested_items_do_not_come(late):
    one, other, question = late
    one.repair.offer(OTHER, _offered(other, question))
    one.sent()
    _wait(one, repair.GIVEN_SECONDS)
    assert _question(one).request != question.request
    one.repair.given_all(OTHER, FetchDone(question.request, KIND))
    assert one.repair.comparing


class Counted:
    """An item type that counts how often its version is read."""

    dense = False

    def __init__(self, number, counter, reads):
        self.number, self.counter, self._reads = number, counter, reads

    @property
    def version(self):
        self._reads.append(self.number)
        return 1

    def changes(self):
        return Changes(True, Items(*(np.zeros(0, kind) for kind in (np.uint64, np.uint64, np.int64))))


def test_peer_at_rest_reads_each_counter_of_changes_once():
    side, reads = Side(ONE, OTHER, []), []
    kinds = [Counted(number, f"counter {number % 2}", reads) for number in range(6)]
    at_rest = AntiEntropy(side.messenger, kinds, [], lambda message: iter([message]), 0)
    at_rest._due, at_rest._compared = None, at_rest._versions()
    at_rest._recovery.offer_due = False
    reads.clear()
    at_rest.wake()
    assert at_rest.deadline is None
    assert len(reads) == 2


@pytest.mark.parametrize("columns", [ARRAYS, LISTS], ids=["arrays", "lists"])
def test_item_types_with_one_counter_change_together(columns):
    pair = Pair(columns, replicas=2, copies_min=1)
    peer = pair.peers[LOW.key]
    seen = []

    def look():
        by_counter = {}
        for kind in peer.kinds:
            by_counter.setdefault(kind.counter, set()).add(kind.version)
        assert all(len(versions) == 1 for versions in by_counter.values()), by_counter
        seen.append({counter: versions.pop() for counter, versions in by_counter.items()})

    pair.compare()
    look()
    pair.publish(LOW, ("<s>", "<p>", "<o>"))
    look()
    pair.subscribe(LOW)
    look()
    before, published, subscribed = seen
    assert {each for each in before if before[each] != published[each]} == {"triples"}
    assert {each for each in before if published[each] != subscribed[each]} == {"waiting", "subscriptions"}
