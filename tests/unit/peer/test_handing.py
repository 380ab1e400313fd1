"""A peer that lacks coordinator items gets them before it is told that nothing is missing."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf.peer.replication.bootstrap import Handoff
from p2prdf.peer.replication.digests import Items
from p2prdf.wire.messages import BucketDigests, Contact

KIND = 18
ONE, OTHER = Contact(1, "one", 1), Contact(2, "other", 1)
QUESTION = BucketDigests(7, KIND, 5, np.zeros(1, np.uint64), 0)


def _items(*identities: int) -> Items:
    found = np.array(identities, np.uint64)
    return Items(found, found, np.arange(len(found)))


class _Offers:
    """The offers made, two identities at a time."""

    def __init__(self) -> None:
        self.sent: list[tuple[Contact, list[int]]] = []
        self.handing = Handoff(self._offer)

    def _offer(self, to, kind, items):
        assert kind == KIND
        parts = [items.identities[at : at + 2] for at in range(0, len(items), 2)]
        for part in parts:
            self.sent.append((to, part.tolist()))
            yield len(self.sent), part


@pytest.fixture
def offers() -> _Offers:
    return _Offers()


def test_a_question_of_a_peer_that_lacks_nothing_is_answered_at_once(offers):
    assert not offers.handing.first(ONE, QUESTION, _items())
    assert offers.sent == []


def test_a_question_is_answered_when_all_is_taken(offers):
    assert offers.handing.first(ONE, QUESTION, _items(11, 12, 13))
    assert offers.sent == [(ONE, [11, 12]), (ONE, [13])]
    assert offers.handing.taken(OTHER, 1) is None, "another's word does not count"
    assert offers.handing.taken(ONE, 2) is None
    assert offers.handing.taken(ONE, 1) == (ONE, QUESTION)
    assert offers.handing.taken(ONE, 1) is None
    assert not offers.handing.first(ONE, QUESTION, _items(11, 12, 13))


def test_a_repeated_question_gets_no_offer_twice_and_newer_items_afterwards(offers):
    assert offers.handing.first(ONE, QUESTION, _items(11))
    assert offers.handing.first(ONE, QUESTION, _items(11, 12))
    assert offers.sent == [(ONE, [11])]
    assert offers.handing.taken(ONE, 1) == (ONE, QUESTION)
    assert offers.handing.first(ONE, QUESTION, _items(11, 12))
    assert offers.sent[1:] == [(ONE, [12])]


def test_a_new_incarnation_is_offered_everything_again(offers):
    assert offers.handing.first(ONE, QUESTION, _items(11))
    offers.handing.taken(ONE, 1)
    offers.handing.forget(ONE.key)
    assert offers.handing.first(ONE, QUESTION, _items(11))
    offers.handing.forget(ONE.key)
    assert offers.handing.taken(ONE, 2) is None


def test_after_a_view_change_an_incomplete_peer_asks_again(offers):
    assert offers.handing.first(ONE, QUESTION, _items(11))
    offers.handing.view_changed()
    assert offers.handing.taken(ONE, 1) is None
    assert offers.handing.first(ONE, QUESTION, _items(11))
    assert offers.sent == [(ONE, [11])] * 2
