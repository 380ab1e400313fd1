"""Ends of streams are stored, from any sender and repetition, and reported to readers of the stream."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf import keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.end_of_stream import OPENINGS_MAX, STREAMS_MAX, StreamEnds
from p2prdf.peer.progress.low_watermark import Source
from p2prdf.wire.contract import EndStream, Failed, Leave, StreamEnded
from p2prdf.wire.messages import KeepEnds

IDLE = 10.0
STREAM, OTHER = 77, 88


class Ends:
    """Ends at one peer."""

    def __init__(self, columns=ARRAYS):
        self.messenger = Messenger(LOW, PeerConfig(stream_idle_seconds=IDLE, durable=True), columns)
        self.messenger.observe(1000.0)
        self.ends = StreamEnds(self.messenger)
        self.columns = columns

    def take(self, *rows):
        self.ends.take(KeepEnds(*map(self.columns.column, zip(*rows, strict=True))))

    def told(self, *streams):
        return Counter(self.ends.told(streams))

    @property
    def kept(self):
        effects, self.messenger.effects = self.messenger.effects, []
        return len(effects)


@pytest.fixture(params=[ARRAYS, LISTS])
def ends(request) -> Ends:
    return Ends(request.param)


def test_the_largest_promise_and_the_earliest_time_stay_in_any_order_of_arrival(ends):
    rows = [(STREAM, 1, 11, 50, 100), (STREAM, 2, 22, 30, 90), (OTHER, 1, 12, 7, 8)]
    for each in rows + rows[::-1]:
        ends.take(each)
    assert ends.told(STREAM) == Counter(
        [Source(STREAM, 0, 30, 100, 0, ended=True), Source(STREAM, 1, 30, 100, 11, ended=True),
         Source(STREAM, 2, 30, 100, 22, ended=True)]
    )  # fmt: skip
    assert ends.kept == 3, "what says nothing new is not kept once more"


def test_a_closed_publisher_is_reported_while_its_older_heartbeats_may_exist(ends):
    ends.take((STREAM, 1, 11, 50, 100))
    ends.messenger.observe(1000.0 + 2 * IDLE)
    assert len(ends.told(STREAM)) == 2
    ends.messenger.observe(1000.1 + 2 * IDLE)
    assert set(ends.told(STREAM)) == {Source(STREAM, 0, 50, 100, 0, ended=True)}


def test_replicas_exchange_ends_and_are_equal_then(ends):
    other = Ends()
    ends.take((STREAM, 1, 11, 50, 100), (OTHER, 1, 11, 5, 10))
    other.take((STREAM, 2, 22, 40, 90))
    before = set(ends.ends.items().identities.tolist())
    for message in list(ends.ends.everything()):
        other.ends.take(message)
    for message in other.ends.messages(np.arange(1)):
        assert as_list(message.streams) == [STREAM]
        ends.ends.take(message)
    mine, theirs = ends.ends.items(), other.ends.items()
    assert set(mine.identities.tolist()) == set(theirs.identities.tolist()) != before
    assert set(mine.keys.tolist()) == {STREAM, OTHER}
    assert Source(STREAM, 0, 40, 100, 0, ended=True) in ends.told(STREAM)


def test_ends_are_bounded(ends, monkeypatch):
    monkeypatch.setattr("p2prdf.peer.progress.end_of_stream.STREAMS_MAX", 3)
    monkeypatch.setattr("p2prdf.peer.progress.end_of_stream.OPENINGS_MAX", 4)
    for stream in range(1, 6):
        ends.take((stream, 1, 11, 0, 9))
    assert (len(ends.ends), ends.ends.refused) == (3, 2)
    ends.take(*((1, publisher, 5, 0, 9) for publisher in range(10)))
    assert len(ends.told(1)) == 1 + 4
    assert (STREAMS_MAX, OPENINGS_MAX) == (65_536, 4096)


def test_an_end_is_acknowledged_when_it_is_kept_and_comes_back_from_the_disk():
    pair = Pair(durable=True)
    request = EndStream(7, keys.term_hash("<urn:s>"), 9, 1000, 2000, 5)
    pair.submit(LOW, request)
    pair.pass_time(1.0)
    assert isinstance(pair.completed[7], StreamEnded)
    kept = [message for peer in pair.peers.values() for message in peer.snapshot() if isinstance(message, KeepEnds)]
    assert [as_list(each.upto) for each in kept] == [[2000]]


def test_a_peer_that_leaves_keeps_no_end_any_more():
    pair = Pair(replicas=2, copies_min=1)
    pair.submit(LOW, Leave(1))
    pair.pass_time(5.0)
    pair.submit(LOW, EndStream(7, 3, 9, 1000, 2000, 5))
    assert isinstance(pair.completed[7], Failed)
    assert HIGH.key in pair.peers
