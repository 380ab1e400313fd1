"""Exchanging their items makes replicas of a coordinator equal: in the leaves' answers and in the delivered sets."""

from __future__ import annotations

from random import Random

import pytest
from standing_homes import Replica, equal

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.hlc import GONE
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import (
    WITHDRAWN,
    Answers,
    KeepAcknowledged,
    KeepAnswers,
    KeepRetracted,
    KeepSubscription,
    Rows,
)

TEXT = "SELECT ?a ?n { ?a <urn:p> ?b OPTIONAL { ?b <urn:q> ?n } }"
MATERIALS = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])


class Pair:
    """Two replicas of a coordinator with one subscription."""

    def __init__(self, columns):
        self.columns = columns
        self.one, self.other = (Replica(TermDictionary(), columns) for _ in range(2))
        self.subscription = self.one.open(TEXT, 20)
        self.other.take(self.one.home.record_of(self.subscription))
        self.leaf = self.subscription.group.leaves[0].identity
        self.width = len(self.subscription.group.leaves[0].query.answer)

    def answer(self, identity, oldest, row=(1, 2, 3), born=30):
        make = self.columns.column
        bindings = tuple(make([term], "uint32") for term in row[: self.width])
        group, names = make([0], "uint32"), make([identity])
        return Answers(make([self.leaf]), Rows(group, names, make([oldest]), make([born]), bindings))

    def told(self, identity, row=(1, 2), *, over=False):
        make = self.columns.column
        name, born = (identity ^ WITHDRAWN, 30 | GONE) if over else (identity, 30)
        bindings = tuple(make([term], "uint32") for term in row)
        return KeepAnswers(self.subscription.number, make([name]), make([born]), bindings)

    def acknowledged(self, *identities):
        return KeepAcknowledged(self.subscription.number, self.columns.column(identities))

    def messenger(self):
        """Let each send everything to the other, as repair does: both have sent before either receives."""
        here, there = list(self.one.items.everything()), list(self.other.items.everything())
        for message in here:
            self.other.take(message)
        for message in there:
            self.one.take(message)


@MATERIALS
def test_answers_of_leaves_are_sent_as_links_send_them_and_retractions_by_name(columns):
    pair = Pair(columns)
    pair.one.take(pair.answer(6, 26, (4, 5, 6)))
    for message in (pair.answer(6, GONE, born=40), pair.answer(7, GONE), pair.answer(5, 25)):
        pair.one.take(message)
    [record, withdrawn, answers] = pair.one.items.everything()
    assert isinstance(record, KeepSubscription)
    assert isinstance(withdrawn, KeepRetracted)
    assert isinstance(answers, Answers)
    assert (withdrawn.leaf, as_list(withdrawn.identity)) == (pair.leaf, [6, 7])
    assert (as_list(answers.rows.identity), as_list(answers.rows.oldest)) == ([5], [25])
    pair.messenger()
    assert equal(pair.one, pair.other)
    assert pair.other.home.leaf(pair.leaf).answers.youngest == 40  # when the latest was removed, too


@MATERIALS
def test_an_answer_that_is_younger_elsewhere_differs_and_the_younger_is_taken(columns):
    pair = Pair(columns)
    pair.one.take(pair.answer(5, 25))
    pair.other.take(pair.answer(5, 35))
    assert not equal(pair.one, pair.other)
    pair.messenger()
    assert equal(pair.one, pair.other)
    assert pair.one.home.leaf(pair.leaf).answers.oldest == [35]


@MATERIALS
def test_an_answer_acknowledged_before_it_came_differs_between_replicas_until_then(columns):
    """Sums are cached by version: a change of bareness must change the version, or it would not be noticed."""
    pair = Pair(columns)
    for message in (pair.told(5), pair.acknowledged(5)):
        pair.one.take(message)
    pair.other.take(pair.acknowledged(5))
    assert not equal(pair.one, pair.other)
    before = pair.other.items.items().identities.tolist()
    pair.other.take(pair.told(5))
    assert pair.other.items.items().identities.tolist() != before
    assert equal(pair.one, pair.other)


@MATERIALS
def test_an_acknowledgement_is_sent_before_its_answer(columns):
    """Otherwise the receiver would notify the subscriber once more, which may have forgotten the answer."""
    pair = Pair(columns)
    for message in (pair.told(5), pair.acknowledged(5)):
        pair.one.take(message)
    told = pair.other.home.subscriptions[pair.subscription.number]
    for message in list(pair.one.items.everything()):
        pair.other.take(message)
        assert list(told.log.take(10, 10)) == []
    assert told.contents.rows == {5: (1, 2)}


@MATERIALS
def test_an_ended_subscription_leaves_only_its_end_as_an_item(columns):
    pair = Pair(columns)
    for message in (pair.answer(5, 25), pair.told(5)):
        pair.one.take(message)
    assert len(pair.one.items.items()) == 3
    group = pair.one.home.close(pair.subscription.number, 99)
    assert group is pair.subscription.group
    assert len(pair.one.items.items()) == 2  # that of the subscription and that of its group
    assert pair.one.home.by_slot == pair.one.items._answers_of == {}


@MATERIALS
@pytest.mark.parametrize("seed", range(40))
def test_replicas_become_equal_after_any_messages_to_either(columns, seed):
    """A third one that gets everything, as from a snapshot, is equal to both."""
    rng = Random(f"home items {seed}")
    pair = Pair(columns)
    story = []
    for identity in range(1, 25):
        row = tuple(rng.randrange(5) for _ in range(3))
        story += [pair.answer(identity, rng.randrange(20, 30), row) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.4:
            story.append(pair.answer(identity, GONE, row))
    for identity in range(101, 125):
        row = (rng.randrange(5), rng.randrange(5))
        story.append(pair.told(identity, row))
        if withdrawn := rng.random() < 0.4:
            story.append(pair.told(identity, row, over=True))
        if rng.random() < 0.6:
            story.append(pair.acknowledged(identity))
            if withdrawn and rng.random() < 0.6:
                story.append(pair.acknowledged(identity ^ WITHDRAWN))
    shares = [[], []]
    for message in story:
        for share in rng.choice(([0], [1], [0, 1])):
            shares[share].append(message)
    for replica, share in zip((pair.one, pair.other), shares, strict=True):
        for message in rng.sample(share, len(share)):
            replica.take(message)
            if rng.random() < 0.1:
                replica.items.items()
    pair.messenger()
    pair.messenger()
    third = Replica(TermDictionary(), columns)
    pair.one.tell(third)
    assert equal(pair.one, pair.other, third)
    assert not pair.one.home.subscriptions[pair.subscription.number].contents.bare
    held = [sorted(each.home.leaf(pair.leaf).answers.since(25)) for each in (pair.one, pair.other, third)]
    assert held[0] == held[1] == held[2]
