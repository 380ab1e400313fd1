"""The watermark of a stream follows from its publishers' promises and the elements in flight, and never goes back."""

from __future__ import annotations

import pytest

from p2prdf import hlc
from p2prdf.peer.progress.event_watermarks import SOURCES_MAX, Sources, Watermarks
from p2prdf.peer.progress.low_watermark import Known, Source
from p2prdf.wire.contract import Heartbeat

IDLE = 10.0
STREAM, OTHER = (7 << 16) + 1, (9 << 16) + 2
"""Hashes of streams with marks of their own."""
LATER = 100.0
"""When it is looked at for long enough."""


def known(*sources, elements=None):
    return Known(0, 0, frozenset(), {} if elements is None else elements, tuple(Source(*each) for each in sources))


def under_way(stream, time):
    mark = hlc.stream_mark(stream)
    return {mark: hlc.element(time, mark)}


@pytest.fixture
def marks() -> Watermarks:
    """Watermarks of a peer that has watched both streams for long."""
    found = Watermarks(IDLE)
    found.learn(known(), (STREAM, OTHER), LATER - IDLE)
    return found


def test_a_stream_is_as_far_as_the_last_of_its_publishers(marks):
    assert marks.learn(known((STREAM, 1, 10, 500), (STREAM, 2, 5, 300), (OTHER, 1, 0, 900)), (STREAM, OTHER), LATER)
    assert (marks.upto(STREAM), marks.upto(OTHER), marks.began(STREAM)) == (300, 900, 5)
    assert not marks.learn(known((STREAM, 1, 10, 700)), (STREAM, OTHER), LATER + 1)
    assert marks.learn(known((STREAM, 2, 10, 600)), (STREAM, OTHER), LATER + 2)
    assert (marks.upto(STREAM), marks.began(STREAM)) == (600, 5)


def test_elements_in_flight_hold_their_own_stream_back(marks):
    said = (STREAM, 1, 0, 500), (OTHER, 1, 0, 500)
    assert marks.learn(known(*said, elements=under_way(STREAM, 200)), (STREAM, OTHER), LATER)
    assert (marks.upto(STREAM), marks.upto(OTHER)) == (199, 500)
    assert not marks.learn(known(elements=under_way(STREAM, 100)), (STREAM, OTHER), LATER)
    assert (marks.upto(STREAM), marks.upto(OTHER)) == (199, 500)


def test_elements_in_flight_hold_a_new_reader_back_though_the_watermark_stays(marks):
    """A later query finds earlier elements: reports would lack them if they were made while these arrive."""
    marks.learn(known((STREAM, 1, 0, 500)), (STREAM,), LATER)
    marks.learn(known((STREAM, 1, 0, 600), elements=under_way(STREAM, 200)), (STREAM, OTHER), LATER + 1)
    assert (marks.upto(STREAM), marks.upto_at_cut(STREAM), marks.upto_at_cut(OTHER)) == (500, 199, -1)
    marks.learn(known((STREAM, 1, 0, 600)), (STREAM,), LATER + 2)
    assert (marks.upto(STREAM), marks.upto_at_cut(STREAM)) == (600, 600)


def test_the_watermark_stays_while_the_elements_in_flight_are_unknown(marks):
    unknown = Known(0, 0, frozenset(), None, (Source(STREAM, 1, 0, 500),))
    assert not marks.learn(unknown, (STREAM,), LATER)
    assert marks.upto(STREAM) == -1
    assert marks.learn(known(), (STREAM,), LATER)
    assert marks.upto(STREAM) == 500


def test_a_silent_publisher_is_not_waited_for_any_more(marks):
    marks.learn(known((STREAM, 1, 0, 100), (STREAM, 2, 0, 100)), (STREAM,), LATER)
    assert not marks.learn(known((STREAM, 2, 0, 900)), (STREAM,), LATER + IDLE)
    assert marks.learn(known((STREAM, 2, 0, 900)), (STREAM,), LATER + IDLE + 0.1)
    assert marks.upto(STREAM) == 900
    assert not marks.learn(known((STREAM, 1, 0, 200)), (STREAM,), LATER + IDLE + 1), "it does not go back"
    assert marks.upto(STREAM) == 900


def test_without_any_publisher_it_stays(marks):
    marks.learn(known((STREAM, 1, 0, 100)), (STREAM,), LATER)
    assert not marks.learn(known(), (STREAM,), LATER + 10 * IDLE)
    assert marks.upto(STREAM) == 100


def test_a_new_reader_waits_for_all_publishers_that_may_be_there():
    marks = Watermarks(IDLE)
    assert not marks.learn(known((STREAM, 1, 0, 500)), (STREAM,), 50.0)
    assert not marks.learn(known((STREAM, 1, 0, 600)), (STREAM,), 50.0 + IDLE - 0.1)
    assert marks.upto(STREAM) == -1
    assert marks.learn(known((STREAM, 1, 0, 700), (STREAM, 2, 0, 300)), (STREAM,), 50.0 + IDLE)
    assert marks.upto(STREAM) == 300


def test_a_closed_publisher_is_not_waited_for_and_the_others_are(marks):
    marks.learn(known((STREAM, 1, 5, 100, 11), (STREAM, 2, 0, 300, 22)), (STREAM,), LATER)
    assert marks.upto(STREAM) == 100
    assert marks.learn(known((STREAM, 1, 5, 100, 11, True), (STREAM, 2, 0, 300, 22)), (STREAM,), LATER + 1)
    assert marks.upto(STREAM) == 300
    ahead = known((STREAM, 3, 0, 9000, 33, True), (STREAM, 2, 0, 300, 22))
    assert not marks.learn(ahead, (STREAM,), LATER + 2), "what one promised who closed says nothing of the others"


@pytest.mark.parametrize("order", [(100, 900), (900, 100)])
def test_when_all_have_closed_the_largest_promise_counts_in_any_order(marks, order):
    first, last = order
    open_still = (STREAM, 2, 0, 50, 22)
    marks.learn(known((STREAM, 1, 0, first, 11, True), open_still), (STREAM,), LATER)
    assert marks.upto(STREAM) == 50
    assert marks.learn(known((STREAM, 2, 0, last, 22, True)), (STREAM,), LATER + 1)
    assert marks.upto(STREAM) == 900


def test_a_reader_of_an_ended_stream_gets_all_of_it_though_its_publishers_are_unknown():
    marks = Watermarks(IDLE)
    ended = known((STREAM, 0, 7, 900, 0, True), (OTHER, 1, 0, 5))
    assert not marks.learn(ended, (STREAM,), 50.0), "somebody may be there who has it open"
    assert marks.learn(ended, (STREAM,), 50.0 + IDLE)
    assert (marks.upto(STREAM), marks.began(STREAM)) == (900, 7)


def test_a_promise_from_before_closing_opens_nothing_and_a_new_session_does(marks):
    """A peer repeats for some seconds the promise of a publisher that has gone to another peer, and closed there."""
    before, end = (STREAM, 1, 0, 200, 11), (STREAM, 1, 0, 200, 11, True)
    other = (STREAM, 2, 0, 400, 22)
    assert marks.learn(known(before, end, other), (STREAM,), LATER)
    assert marks.upto(STREAM) == 400
    again = (STREAM, 1, 0, 450, 12)
    assert marks.learn(known(before, end, again, (STREAM, 2, 0, 900, 22)), (STREAM,), LATER + 1)
    assert marks.upto(STREAM) == 450


def test_a_killed_publisher_that_goes_on_elsewhere_continues_its_stream(marks):
    marks.learn(known((STREAM, 1, 0, 200, 11)), (STREAM,), LATER)
    assert marks.learn(known((STREAM, 1, 0, 300, 12)), (STREAM,), LATER + 1)
    assert marks.upto(STREAM) == 300


def test_streams_that_nobody_reads_are_forgotten(marks):
    marks.learn(known((STREAM, 1, 0, 500), (OTHER, 1, 0, 500)), (STREAM, OTHER), LATER)
    marks.learn(known((STREAM, 1, 0, 600), (OTHER, 1, 0, 600)), (OTHER,), LATER)
    assert (marks.upto(STREAM), marks.began(STREAM), marks.upto(OTHER)) == (-1, None, 600)
    marks.learn(known((STREAM, 1, 0, 700)), (STREAM, OTHER), LATER)
    assert marks.upto(STREAM) == -1, "who begins to look at it again waits"


def test_a_peer_reports_publishers_promises_until_they_are_silent():
    sources = Sources(IDLE)
    assert sources.take(Heartbeat(STREAM, 1, 5, 100), 0.0)
    assert sources.take(Heartbeat(STREAM, 1, 9, 90), 6.0), "an older one takes nothing back"
    assert sources.take(Heartbeat(OTHER, 1, 0, 50), 1.0)
    assert sources.take(Heartbeat(OTHER, 1, 0, 60, 7), 1.0)
    assert set(sources.told(8.0)) == {
        Source(STREAM, 1, 5, 100), Source(OTHER, 1, 0, 50), Source(OTHER, 1, 0, 60, 7)
    }  # fmt: skip
    assert sources.told(12.0) == (Source(STREAM, 1, 5, 100),)
    assert sources.told(17.0) == ()


def test_publishers_are_bounded_and_make_room():
    sources = Sources(IDLE)
    assert all(sources.take(Heartbeat(STREAM, each, 0, 1), 0.0) for each in range(SOURCES_MAX))
    assert not sources.take(Heartbeat(STREAM, SOURCES_MAX, 0, 1), 1.0)
    assert sources.take(Heartbeat(STREAM, 0, 0, 2), 1.0), "who is known goes on"
    assert sources.take(Heartbeat(STREAM, SOURCES_MAX, 0, 1), IDLE + 0.5)
