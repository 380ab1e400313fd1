"""Events of a leaf with settled delivery: any order of arrival leads to the same states."""

from __future__ import annotations

import itertools

import pytest

from p2prdf.continuous.events import EventAnswers
from p2prdf.hlc import GONE

PUBLISHED, AGAIN, DELETED, TWICE, LAST = (5, 5), (30, 30), (20, GONE), (40, GONE), (50, 50)
EVENTS = (PUBLISHED, AGAIN, DELETED, TWICE, LAST)
HOLDS = {4: 0, 5: 1, 19: 1, 20: 0, 29: 0, 30: 1, 39: 1, 40: 0, 49: 0, 50: 1}


def taken(events) -> tuple[EventAnswers, list[tuple[int, int]]]:
    """Return the events of one triple, taken one by one, and the weighed changes by stamp."""
    answers = EventAnswers(lambda term: term)
    changes = []
    for stamp, oldest in events:
        changes += answers.take([1], [oldest], [stamp], [[7], [8]])
    return answers, [(change.born, change.weight(1)) for change in changes]


@pytest.mark.parametrize("order", [*itertools.permutations(EVENTS)])
def test_the_state_as_of_each_stamp_does_not_depend_on_the_order_of_arrival(order):
    answers, changes = taken(order)
    for stamp, holds in HOLDS.items():
        assert sum(weight for at, weight in changes if at <= stamp) == holds
    assert answers.since(1) == [((7, 8), 1)]
    assert answers.true == 1
    assert sorted(answers.identity) == sorted(taken(EVENTS)[0].identity)


def test_a_repeated_event_changes_nothing():
    answers, changes = taken([PUBLISHED, PUBLISHED])
    assert changes == [(5, 1)]
    assert len(answers) == 1


def test_a_deletion_wins_over_a_publication_of_the_same_stamp():
    for order in itertools.permutations([(5, 5), (5, GONE)]):
        answers, changes = taken(order)
        assert sum(weight for _, weight in changes) == 0
        assert answers.since(1) == []


def test_another_replica_reaches_the_same_state_from_the_exported_events():
    answers, _ = taken(EVENTS)
    other = EventAnswers(lambda term: term)
    identity, oldest, born, rows = zip(*answers.held(range(len(answers))), strict=True)
    other.take(identity, oldest, born, list(zip(*rows, strict=True)))
    assert sorted(other.identity) == sorted(answers.identity)
    assert other.since(1) == answers.since(1)
    assert not answers.withdrawn(range(len(answers)))
