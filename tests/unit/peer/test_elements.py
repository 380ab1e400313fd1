"""Elements of streams: windows over the stream get them, other queries do not, and bad elements are refused."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW
from streaming_pair import IDLE, STREAM, WINDOW, Streaming

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer.progress.event_watermarks import SOURCES_MAX
from p2prdf.wire.contract import Failed, Heartbeat, Published

PLAIN = "SELECT ?x ?y { ?x <urn:p> ?y }"
PER_EVENT = "SELECT ?x ?y { ?x <urn:p> ?y . ?x <urn:p> ?y }"
GRAPH = "SELECT ?x ?y { GRAPH <urn:s> { ?x <urn:p> ?y } }"
ANY = "SELECT ?x ?y { ?x ?p ?y }"


@pytest.mark.parametrize("columns", [ARRAYS, LISTS])
def test_an_element_is_read_through_windows_and_in_no_graph(columns):
    pair = Streaming(columns, **IDLE)
    others = [pair.left(PLAIN), pair.left(GRAPH), pair.left(ANY), pair.left(PER_EVENT, per_event=True)]
    window = pair.left(WINDOW, since=hlc.FIRST)
    outcome = pair.elements(("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:c>", "<urn:p>", "<urn:d>"), times=[1000, 2500])
    assert isinstance(outcome, Published)
    assert not hlc.is_element(outcome.time)
    assert pair.rows(window) == [], "nothing is reported before its publisher has said how far it is"
    pair.say(3999)
    rows = [(x[5], y[5], time.partition("^^")[0][-4:-2]) for x, y, time in pair.rows(window)]
    assert sorted(rows) == [("a", "b", "01"), ("a", "b", "02"), ("c", "d", "03")]
    assert [pair.rows(each) for each in others] == [[]] * 4


def test_a_later_window_finds_earlier_elements_also_in_joins():
    pair = Streaming(**IDLE)
    pair.elements(("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:q>", "<urn:c>"), times=[1000, 1500])
    window = pair.left(WINDOW.replace("?x :p ?y", "?x :p ?z . ?z :q ?y"), since=hlc.FIRST)
    pair.say(3000)
    assert [row[:2] for row in pair.rows(window)] == [("<urn:a>", "<urn:c>")]


def test_clocks_do_not_follow_event_times():
    pair = Streaming(**IDLE)
    pair.left(WINDOW, since=hlc.FIRST)
    for time in (0, hlc.ELEMENT_MS_MAX):
        outcome = pair.elements(("<urn:a>", "<urn:p>", "<urn:b>"), times=[time])
        assert isinstance(outcome, Published)
        assert abs(hlc.seconds(outcome.time) - pair.now) < 60


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"times": [hlc.ELEMENT_MS_MAX + 1]}, "is the last"),
        ({"times": [1000], "graph": None}, "has a stream and a time"),
        ({"times": [1000, 2000]}, "has a stream and a time"),
        ({"times": [1000], "removed": True}, "is not removed"),
        ({"times": [1000], "graph": ""}, "has no stream"),
    ],
)
def test_a_bad_element_is_refused_and_nothing_of_it_kept(changes, why):
    pair = Streaming(**IDLE)
    window = pair.left(WINDOW, since=hlc.FIRST)
    outcome = pair.elements(("<urn:a>", "<urn:p>", "<urn:b>"), **changes)
    assert isinstance(outcome, Failed)
    assert (outcome.code, why in outcome.text) == ("data-refused", True), outcome.text
    pair.say(5000)
    assert pair.rows(window) == []
    assert pair.peers[LOW.key].status()["publications_open"] == 0


def test_more_publishers_than_the_bound_are_reported_in_the_trace():
    pair = Streaming(**IDLE)
    for publisher in range(SOURCES_MAX + 1):
        pair.submit(LOW, Heartbeat(1, publisher, 0, 1))
    assert [each.event for each in pair.traces] == ["too-many-sources"]


def test_publishers_that_close_are_not_waited_for_and_when_all_have_all_is_reported():
    """The reports come long before the idle timeout; a later subscription gets the same ones."""
    pair = Streaming(stream_idle_seconds=60.0)
    window = pair.left(WINDOW, since=hlc.FIRST)
    pair.pass_time(61.0)
    pair.elements(("<urn:a>", "<urn:p>", "<urn:b>"), times=[1000])

    def seconds(subscription):
        return [int(time.partition("^^")[0][-4:-2]) for *_, time in pair.rows(subscription)]

    for publisher, upto in ((9, 1000), (10, 2000)):
        said = Heartbeat(keys.term_hash(STREAM), publisher, 1000, upto, publisher + 1)
        pair.submit(LOW if publisher == 9 else HIGH, said)
    pair.pass_time(2.0)
    assert seconds(window) == [1]
    pair.end(1500)
    assert seconds(window) == [1, 2], "the other one has said no more"
    pair.elements(("<urn:c>", "<urn:p>", "<urn:d>"), times=[3000])
    pair.end(9000, publisher=10)
    assert seconds(window) == [1, 2, 3, 4]
    pair.pass_time(200.0)
    late = pair.left(WINDOW.replace("RSTREAM", "ISTREAM"), since=hlc.FIRST)
    pair.pass_time(61.0)
    assert seconds(late) == [1, 3]


def test_an_element_published_again_is_there_once():
    pair = Streaming(**IDLE)
    window = pair.left(WINDOW, since=hlc.FIRST)
    for _ in range(2):
        pair.events = 0
        pair.elements(("<urn:a>", "<urn:p>", "<urn:b>"), times=[1000])
    pair.say(1999)
    assert len(pair.rows(window)) == 1
