"""A subscriber's record of its answers: each is delivered once, and retracted once if it was delivered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from p2prdf.client.ledger import Ledger
from p2prdf.hlc import GONE
from p2prdf.wire.messages import SURE, WITHDRAWN

OVER = GONE | 9


def test_a_retraction_of_a_delivered_answer_is_delivered_once():
    ledger = Ledger()
    assert ledger.take([1, 2], [5, 5], 0) == (1, [0, 1], [])
    assert ledger.take([1 ^ WITHDRAWN], [OVER], 0) == (3, [0], [])
    assert ledger.take([1 ^ WITHDRAWN], [OVER | SURE], 0)[1] == []
    assert ledger.taken == 3


def test_a_retraction_of_an_unknown_answer_is_settled_and_keeps_the_answer_out():
    """Both are acknowledged at once, and neither has a number."""
    ledger = Ledger()
    first, places, again = ledger.take([1 ^ WITHDRAWN, 2], [OVER, 5], 0)
    assert (first, places, again) == (1, [1], [1 ^ WITHDRAWN, 1])
    assert ledger.take([1], [5], 0)[1:] == ([], [1])
    assert sorted(ledger.dealt_with) == sorted([1 ^ WITHDRAWN, 1])
    ledger.mark_stable([1 ^ WITHDRAWN, 1])
    assert ledger.take([1], [5], 0)[1] == []


def test_an_answer_and_its_retraction_may_come_together():
    ledger = Ledger()
    assert ledger.take([1, 1 ^ WITHDRAWN], [5, OVER], 0) == (1, [0, 1], [])


def test_an_acknowledged_answer_is_forgotten_here_and_its_retraction_is_confirmed():
    ledger = Ledger(delivered=10)
    assert ledger.take([1 ^ WITHDRAWN, 2 ^ WITHDRAWN], [OVER | SURE, OVER], 0) == (11, [0], [2 ^ WITHDRAWN, 2])


def test_an_answer_of_the_token_is_taken_back():
    """The former process stored it, and nobody knows yet that it was acknowledged."""
    ledger = Ledger(delivered=1, unstable=(1,))
    assert ledger.take([1 ^ WITHDRAWN], [OVER], 0) == (2, [0], [])


def test_an_answer_read_again_is_retracted_though_it_did_not_come_again():
    """Its coordinator leaves out answers with pending retractions."""
    ledger = Ledger(again=True)
    assert ledger.take([1 ^ WITHDRAWN, 2], [OVER, 5], 0) == (1, [0, 1], [])
    assert ledger.dealt_with == []


def test_an_undelivered_answer_is_forgotten_with_its_retraction():
    ledger = Ledger()
    ledger.take([1, 1 ^ WITHDRAWN, 2 ^ WITHDRAWN], [5, OVER, OVER], 0)
    ledger.forget_queued()
    assert sorted(ledger.dealt_with) == sorted([2 ^ WITHDRAWN, 2])
    assert ledger.take([1 ^ WITHDRAWN], [OVER], 0) == (1, [], [1 ^ WITHDRAWN, 1])


@given(st.lists(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4, unique=True), max_size=6))
def test_answers_are_delivered_once_and_retracted_once_in_this_order_whichever_messages_come(messages):
    ledger, told = Ledger(), {}
    for message in messages:
        identities = [each ^ WITHDRAWN if over else each for each, over in message]
        times = [OVER if over else 5 for _, over in message]
        _, places, _ = ledger.take(identities, times, 0)
        for place in places:
            each, over = message[place]
            told.setdefault(each, []).append("-" if over else "+")
    assert all(signs in (["+"], ["+", "-"]) for signs in told.values())
