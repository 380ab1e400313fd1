"""A clean-up takes each statement back to the state that honest members gave it."""

from __future__ import annotations

import pytest

from p2prdf_cli.clean_up import DELETE, NOTHING, PUBLISH, Event, Repair, decide

LIAR, HONEST = "liar", "honest"


def event(stamp, member, *, deleted=False, first_hand=True):
    return Event(stamp, deleted, member, first_hand)


@pytest.mark.parametrize(
    ("events", "action"),
    [
        ([], NOTHING),
        ([event(1, LIAR)], DELETE),
        ([event(1, LIAR, first_hand=False)], DELETE),
        ([event(1, LIAR), event(1, HONEST, first_hand=False)], DELETE),  # passed on by an honest member
        ([event(1, HONEST), event(1, LIAR, first_hand=False)], NOTHING),  # passed on by the liar
        ([event(1, LIAR), event(2, HONEST)], NOTHING),
        ([event(1, HONEST), event(2, LIAR)], NOTHING),
        ([event(1, HONEST), event(2, HONEST, deleted=True), event(3, LIAR)], DELETE),
        ([event(1, HONEST), event(2, LIAR, deleted=True)], PUBLISH),
        ([event(1, LIAR), event(2, LIAR, deleted=True)], NOTHING),
        ([event(1, HONEST), event(2, LIAR, deleted=True), event(3, HONEST, deleted=True)], NOTHING),
        ([event(1, HONEST), event(2, LIAR, deleted=True), event(3, HONEST)], NOTHING),
        ([event(1, HONEST, deleted=True), event(2, LIAR, deleted=True)], NOTHING),
    ],
)  # fmt: skip
def test_statement_goes_back_to_its_honest_state(events, action):
    assert decide(events, LIAR, 0).action == action
    assert decide(reversed(events), LIAR, 0).action == action


def test_clean_up_that_was_done_has_nothing_to_do():
    events = [event(1, LIAR)]
    assert decide([*events, event(2, HONEST, deleted=True)], LIAR, 0) == Repair(NOTHING)


def test_statement_is_uncertain_where_a_record_is_not_complete():
    assert decide([event(1, LIAR)], LIAR, 5) == Repair(DELETE, uncertain=True)
    assert decide([event(1, HONEST), event(2, HONEST, deleted=True), event(3, LIAR)], LIAR, 5) == Repair(DELETE)
