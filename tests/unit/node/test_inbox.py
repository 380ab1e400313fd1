"""Envelopes that wait for their share of a turn: in order, acknowledgements first, within a bound."""

from __future__ import annotations

import pytest

from p2prdf.wire.messages import Contact, Envelope, Leaving
from p2prdf_node.inbox import ENVELOPES_MAX, Inbox

SENDER, OTHER = Contact(1, "127.0.0.1", 7400), Contact(2, "127.0.0.1", 7401)


class Wire:
    """A connection with incoming envelopes."""

    address = "test"

    def __init__(self, *, fails=False):
        self.held = self.aborted = False
        self.fails = fails

    def hold(self, reason):
        assert reason == "turn"
        self.held = True

    def release(self, reason):
        assert reason == "turn"
        if self.fails:
            raise ValueError("a defect")
        self.held = False

    def abort(self):
        self.aborted = True


def put(inbox, wire, count):
    for number in range(1, count + 1):
        inbox.put(Envelope(number, 0, Leaving()), SENDER, wire)


def taken(inbox, count):
    return [found[0].transfer if (found := inbox.take()) else None for _ in range(count)]


def test_envelopes_are_taken_in_the_order_of_their_arrival():
    inbox = Inbox()
    put(inbox, Wire(), 3)
    assert taken(inbox, 4) == [1, 2, 3, None]
    assert len(inbox) == 0


def test_a_connection_that_brings_too_much_is_held_until_half_of_it_is_taken():
    inbox, wire, other = Inbox(), Wire(), Wire()
    put(inbox, wire, ENVELOPES_MAX + 1)
    assert wire.held
    assert not other.held
    taken(inbox, ENVELOPES_MAX // 2)
    inbox.release()
    assert wire.held
    taken(inbox, 1)
    inbox.release()
    assert not wire.held


@pytest.mark.filterwarnings("ignore")
def test_a_connection_that_fails_when_it_is_released_keeps_no_other_held():
    inbox, bad, good = Inbox(), Wire(fails=True), Wire()
    put(inbox, bad, ENVELOPES_MAX + 1)
    inbox.put(Envelope(1, 0, Leaving()), OTHER, good)
    taken(inbox, ENVELOPES_MAX + 2)
    inbox.release()
    assert bad.aborted
    assert not good.held


def test_a_copy_of_an_envelope_that_waits_is_dropped_and_one_of_an_envelope_that_was_taken_is_not():
    inbox, wire = Inbox(), Wire()
    put(inbox, wire, 2)
    put(inbox, wire, 2)
    inbox.put(Envelope(1, 0, Leaving()), OTHER, wire)
    assert (len(inbox), inbox.repeated) == (3, 2)
    assert taken(inbox, 1) == [1]
    put(inbox, wire, 1)
    assert taken(inbox, 4) == [2, 1, 1, None]


def test_envelopes_without_a_number_are_all_kept():
    inbox, wire = Inbox(), Wire()
    for _ in range(2):
        inbox.put(Envelope(0, 0, Leaving()), SENDER, wire)
    assert len(inbox) == 2
