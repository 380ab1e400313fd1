"""Low watermarks: messages in flight, reported at cuts, and the minimum of all reports."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from p2prdf import hlc
from p2prdf.columns import ARRAYS
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.low_watermark import (
    CALM_CUTS,
    CUT_SECONDS,
    EARLY_CUTS,
    PEERS_PER_CUT,
    URGENT_CUTS,
    Known,
    LowWatermarks,
    Source,
)
from p2prdf.wire.contract import OwnersFound, Send
from p2prdf.wire.messages import (
    Acknowledge,
    Answers,
    Contact,
    Fetch,
    Forward,
    Groups,
    IdentityList,
    IndexQuery,
    IndexTriples,
    KeepAnswers,
    KeepRetracted,
    LowWatermark,
    PublisherReport,
    Rows,
    StreamReport,
    WatchWatermarks,
)

OWN, OTHER = Contact(1 << 60, "own", 1), Contact(2 << 60, "other", 1)
START = 1_000.5
"""Seconds between two cuts."""
CUT = 1_001
NEVER = (1 << 64) - 1


def column(*values):
    return np.array(values, np.uint64)


def triples(*times):
    ids, roles = np.zeros(len(times), np.uint32), np.ones(len(times), np.uint32)
    return IndexTriples(ids, ids, ids, column(*times), column(*times), roles)


class Marks:
    """Low watermarks of one peer, with another one beside it."""

    def __init__(self):
        self.messenger = Messenger(OWN, PeerConfig(), ARRAYS)
        self.steady, self.owes = True, False
        self.messenger.recovery.requires(lambda: self.steady)
        self.known: list[Known] = []
        self.said: list[Source] = []
        self.queued: list[IndexTriples] = []
        self.marks = LowWatermarks(
            self.messenger, lambda: self.owes, self.known.append, lambda _: tuple(self.said),
            queued=lambda: self.queued,
        )  # fmt: skip
        self.messenger.seen(OTHER)
        self.messenger.owners_found(OwnersFound(0, (OWN, OTHER), complete=True))
        self.at(START)

    def at(self, now, clock=0):
        """Let it be ``now``, or get something stamped ``clock``."""
        self.messenger.observe(now)
        if self.marks.active:
            self.marks.passing(clock)

    def want(self, **changes):
        """Change some of the wishes."""
        held = {"wanted": self.marks.wanted, "urgent": self.marks.urgent, "streams": self.marks.streams}
        self.marks.want(**held | changes)

    def sent(self, kind):
        effects, self.messenger.effects = self.messenger.effects, []
        sent = [each.envelope.message for each in effects if isinstance(each, Send)]
        return [message for message in sent if isinstance(message, kind)]

    @property
    def learned(self):
        return [each.upto for each in self.known]

    def tell(self, low, cut=CUT, view=None, busy=(), many=False):
        view = self.messenger.view if view is None else view
        self.marks.take(OTHER, LowWatermark(cut * CALM_CUTS, low, view, column(*busy), many))


@pytest.fixture
def watched() -> Marks:
    """Low watermarks sent to the other peer."""
    marks = Marks()
    marks.marks.watch(OTHER, WatchWatermarks())
    marks.at(START)
    return marks


@pytest.fixture
def wanting() -> Marks:
    """Low watermarks of a peer that wants bookmarks."""
    marks = Marks()
    marks.want(wanted=True)
    marks.at(START)
    return marks


def test_nothing_is_done_while_nobody_wants_it():
    marks = Marks()
    marks.at(START + 5)
    marks.marks.wake()
    assert marks.marks.deadline is None
    assert not marks.sent((LowWatermark, WatchWatermarks))


def test_publications_that_wait_to_be_indexed_hold_the_watermark_back(watched):
    waiting = triples(hlc.from_seconds(START - 9))
    watched.queued.append(waiting)
    watched.at(CUT)
    watched.queued.clear()
    watched.messenger.put_since_cut.append(waiting)  # indexed in the turn of the cut
    watched.marks.wake()
    watched.at(CUT + 1)
    watched.queued.append(waiting)  # came in the turn of the cut
    watched.marks.wake()
    assert [each.low for each in watched.sent(LowWatermark)] == [hlc.from_seconds(START - 9)] * 2


def rows(*born):
    count = len(born)
    return Rows(np.zeros(count, np.uint32), column(*born), column(*born), column(*born), ())


def groups(since, *ids):
    since = column(*[since] * (len(ids) or 1))
    return Groups(column(*ids or [1]), since, since, since, ())


@pytest.mark.parametrize(
    ("message", "low"),
    [
        (triples(70, 50, 60), 50),
        (Forward(None, 0, groups(1), rows(90, 80)), 80),  # type: ignore[arg-type]
        (Answers(column(1), rows(33, 44)), 33),
        (KeepAnswers(1, column(1), column(22), ()), 22),
        (IndexQuery(None, 0, groups(11)), 11),  # type: ignore[arg-type]
        (IndexQuery(None, 0, groups(11), refresh=12), 12),  # type: ignore[arg-type]
        (IdentityList(1, 0, asked=False, more=False, buckets=column(), identities=column()), 0),
        (Fetch(1, 0, asked=False, identities=column()), 0),
        (None, (1 << 64) - 1),
    ],
)
def test_a_message_under_way_holds_the_mark_back_until_it_is_acknowledged(watched, message, low):
    if message is not None:
        watched.messenger.send(OTHER, message)
    watched.at(START + 0.5)
    watched.marks.wake()
    (told,) = watched.sent(LowWatermark)
    assert (told.cut, told.low, told.view, told.many) == (CUT * CALM_CUTS, low, watched.messenger.view, False)
    watched.messenger.acknowledged(OTHER, column(1))
    watched.at(START + 1.5)
    watched.marks.wake()
    (told,) = watched.sent(LowWatermark)
    assert (told.cut, told.low) == ((CUT + 1) * CALM_CUTS, (1 << 64) - 1)


HOME, ELSEWHERE = 7 << 44, 5 << 44
"""Two coordinators, each followed by a group and a subscription."""


@pytest.mark.parametrize(
    ("message", "busy"),
    [
        (Forward(None, 0, groups(1, HOME | 9, ELSEWHERE | 1 << 19), rows(90)), [ELSEWHERE, HOME]),  # type: ignore[arg-type]
        (Answers(column(HOME | 5, HOME | 6), rows(33)), [HOME]),
        (IndexQuery(None, 0, groups(11, HOME | 9)), [HOME]),  # type: ignore[arg-type]
        (KeepAnswers(HOME | 77, column(1), column(22), ()), [HOME]),
        (KeepRetracted(HOME | 9, 33, column(1)), [HOME]),
        (triples(70), []),
        (None, []),
    ],
)
def test_coordinators_with_messages_in_flight_are_reported_with_any_stamp(watched, message, busy):
    if message is not None:
        watched.messenger.send(OTHER, message)
    watched.at(CUT)
    watched.messenger.acknowledged(OTHER, column(1))
    watched.marks.wake()
    (told,) = watched.sent(LowWatermark)
    assert (list(told.busy), told.many) == (busy, False)


def test_messages_that_enter_flight_in_the_turn_of_a_cut_are_reported_too(watched):
    watched.at(CUT)
    watched.messenger.send(OTHER, Answers(column(HOME | 5), rows(33)))
    watched.marks.wake()
    assert [list(each.busy) for each in watched.sent(LowWatermark)] == [[HOME]]


def test_beyond_a_bound_of_coordinators_none_is_reported(watched):
    for place in range(300):
        watched.messenger.send(OTHER, Answers(column(place << 44 | 5), rows(33)))
    watched.at(CUT)
    watched.marks.wake()
    assert [(list(each.busy), each.many) for each in watched.sent(LowWatermark)] == [([], True)]


def test_a_watermark_carries_its_cut_and_the_places_with_messages_in_flight(wanting):
    wanting.messenger.send(OTHER, Forward(None, 0, groups(1, HOME | 9), rows(hlc.from_seconds(2000.0))))  # type: ignore[arg-type]
    wanting.at(CUT)
    wanting.marks.wake()
    wanting.tell(hlc.from_seconds(950.0), busy=[ELSEWHERE])
    (known,) = wanting.known
    assert (known.upto, known.at) == (hlc.from_seconds(950.0) - 1, hlc.from_seconds(CUT))
    assert [known.quiet(home) for home in (HOME, ELSEWHERE, HOME + ELSEWHERE)] == [False, False, True]
    wanting.at(CUT + 1)
    wanting.marks.wake()
    wanting.tell(hlc.from_seconds(950.0), CUT + 1, many=True)
    assert not wanting.known[1].quiet(HOME + ELSEWHERE)


def test_messages_waiting_for_their_window_count_too():
    marks = Marks()
    marks.messenger.outbox._window = 1
    marks.marks.watch(OTHER, WatchWatermarks())
    marks.at(START)
    for time in (50, 40, 60):
        marks.messenger.send(OTHER, triples(time))
    marks.at(START + 1)
    marks.marks.wake()
    assert [each.low for each in marks.sent(LowWatermark)] == [40]


def test_a_cut_is_taken_before_later_stamps_and_again_at_the_end_of_the_turn(watched):
    """A message acknowledged by one stamped after the cut was in flight at the cut; so was queued work."""
    watched.messenger.send(OTHER, triples(50))
    watched.at(START + 0.2, clock=hlc.from_seconds(CUT))  # the other's clock is ahead
    watched.messenger.acknowledged(OTHER, column(1))
    watched.messenger.send(OTHER, triples(60))
    watched.marks.wake()
    assert [(each.cut / CALM_CUTS, each.low) for each in watched.sent(LowWatermark)] == [(CUT, 50)]
    assert watched.messenger.tick() > hlc.from_seconds(CUT)  # nothing is stamped before the cut any more
    watched.at(START + 1.6)
    watched.messenger.send(OTHER, triples(40))
    watched.marks.wake()
    assert [(each.cut / CALM_CUTS, each.low) for each in watched.sent(LowWatermark)] == [(CUT + 1, 40)]


def test_a_clock_that_is_far_ahead_makes_no_cut(watched):
    watched.at(START + 0.2, clock=hlc.from_seconds(CUT + 3600.0))
    watched.marks.wake()
    assert not watched.sent(LowWatermark)
    assert watched.messenger.tick() < hlc.from_seconds(CUT)


def test_the_first_cut_is_the_first_one_after_a_request():
    marks = Marks()
    marks.at(START + 0.4)
    marks.marks.watch(OTHER, WatchWatermarks())
    marks.at(CUT + 0.1)  # passed before anybody looked, perhaps
    marks.marks.wake()
    assert not marks.sent(LowWatermark)
    assert CUT + 1 < marks.marks.deadline < CUT + 1.001, "a clock of milliseconds has passed the cut then"
    marks.at(CUT + 1.0)
    assert marks.marks.deadline == marks.messenger.now
    marks.marks.wake()
    assert [each.cut / CALM_CUTS for each in marks.sent(LowWatermark)] == [CUT + 1]


def test_a_watcher_that_does_not_renew_gets_no_more_watermarks(watched):
    for second in range(8):
        watched.at(CUT + second)
        watched.marks.wake()
    assert [each.cut / CALM_CUTS for each in watched.sent(LowWatermark)] == list(range(CUT, CUT + 5))
    assert watched.marks.deadline is None


@pytest.mark.parametrize("why", ["steady", "parked", "short", "view"])
def test_a_peer_that_may_lack_data_reports_an_unknown_watermark(watched, why):
    watched.owes = True
    match why:
        case "steady":
            watched.steady = False
        case "parked":
            watched.messenger.park([], lambda: None)
        case "short":
            members = watched.messenger.members
            members._config = PeerConfig(replicas=3, copies_min=3)
            members.most = 3
        case "view":
            watched.messenger._view = 0
    watched.at(CUT)
    watched.marks.wake()
    assert [each.low for each in watched.sent(LowWatermark)] == [0]


def test_the_least_watermark_counts_once_all_have_reported(wanting):
    wanting.messenger.send(OTHER, triples(hlc.from_seconds(900.0) + 7))
    wanting.at(CUT)
    wanting.marks.wake()
    assert wanting.learned == []
    wanting.tell(hlc.from_seconds(950.0))
    assert wanting.learned == [hlc.from_seconds(900.0) - 1]  # and nothing more of that millisecond
    wanting.messenger.acknowledged(OTHER, column(1))
    wanting.at(CUT + 1)
    wanting.tell(hlc.from_seconds(950.0), CUT + 1)
    wanting.marks.wake()
    assert wanting.learned[1:] == [hlc.from_seconds(950.0) - 1]
    wanting.at(CUT + 2)
    wanting.marks.wake()
    wanting.tell((1 << 64) - 1, CUT + 2)
    assert wanting.learned[2:] == [hlc.from_seconds(CUT + 2.0) - 1]  # later messages have later stamps


def test_a_peer_that_owes_old_answers_hears_when_all_are_stable_and_others_no_watermark(wanting):
    wanting.owes = True
    wanting.at(CUT)
    wanting.marks.wake()
    wanting.tell(hlc.from_seconds(950.0))
    assert wanting.learned == [0]
    wanting.at(CUT + 1)
    wanting.marks.wake()
    wanting.tell(0, CUT + 1)  # not all are
    assert wanting.learned == [0]


def test_marks_of_other_views_and_of_nobody_do_not_count(wanting):
    wanting.at(CUT)
    wanting.marks.wake()
    for low, view in ((50, 7), (50, 0), (0, None)):
        wanting.tell(low, view=view)
    assert wanting.learned == []
    wanting.at(CUT + 1)
    wanting.marks.wake()
    wanting.marks.view_changed()
    wanting.tell(50 << 16, CUT + 1)
    assert wanting.learned == []
    for cut in range(CUT + 2, CUT + 50):  # a silent peer costs no memory
        wanting.at(cut)
        wanting.marks.wake()
    assert len(wanting.marks._told) <= 16


def test_others_are_asked_again_and_again_but_only_while_a_watermark_is_wanted(wanting):
    for tenth in range(60):
        wanting.at(START + tenth / 10)
        wanting.marks.wake()
    assert len(wanting.sent(WatchWatermarks)) == 3
    wanting.want(wanted=False)
    for tenth in range(60, 120):
        wanting.at(START + tenth / 10)
        wanting.marks.wake()
    assert not wanting.sent(WatchWatermarks)


def test_with_many_peers_cuts_are_rarer(watched):
    random = Random(1)
    for number in range(3 * PEERS_PER_CUT):
        watched.messenger.seen(Contact(random.getrandbits(64), "many", number + 2))
    watched.messenger.outbox = SimpleNamespace(messages=lambda: iter([Acknowledge(column())]))
    told = []
    for second in range(4):
        watched.at(CUT + second)
        watched.marks.wake()
        told += [each.cut / CALM_CUTS for each in watched.sent(LowWatermark)]
    assert len(told) == 1
    assert told[0] % 4 == 0


def test_an_urgent_watcher_gets_eight_watermarks_a_second_and_others_one(watched):
    other = Contact(1 << 62, "calm", 7)
    watched.marks.watch(other, WatchWatermarks())
    watched.marks.watch(OTHER, WatchWatermarks(urgent=True))
    told: dict[int, list[int]] = {OTHER.key: [], other.key: []}
    for eighth in range(1, 17):
        watched.at(CUT + eighth / 8)
        assert watched.marks.deadline == watched.messenger.now
        watched.marks.wake()
        for effect in watched.messenger.effects:
            if isinstance(effect, Send) and isinstance(effect.envelope.message, LowWatermark):
                told[effect.to.key].append(effect.envelope.message.cut)
        watched.messenger.effects = []
    first = CUT * CALM_CUTS
    eighths = [first + eighth * URGENT_CUTS for eighth in range(1, 17)]
    assert told == {OTHER.key: eighths, other.key: [first + CALM_CUTS, first + 2 * CALM_CUTS]}


# --- early cuts ----------------------------------------------------------------------------------

EARLY = CUT * CALM_CUTS - CALM_CUTS // 2
"""The cut at START."""


def _run(marks, seconds):
    """Let a peer wake when it is due; return the early cuts that it reports, each with the time."""
    end, reports = marks.messenger.now + seconds, []
    while marks.marks.deadline is not None and marks.marks.deadline <= end:
        marks.at(max(marks.messenger.now, marks.marks.deadline))
        marks.marks.wake()
        reports += [(each.cut, round(marks.messenger.now - START, 4)) for each in marks.sent(LowWatermark)]
    marks.at(end)
    return reports


def test_a_reader_in_a_hurry_is_told_of_cuts_some_milliseconds_ahead(wanting):
    wanting.want(urgent=True, hurries=1)
    wanting.marks.wake()
    assert WatchWatermarks(urgent=True, early=EARLY) in wanting.sent(WatchWatermarks)
    for each in EARLY_CUTS:
        wanting.marks.take(OTHER, LowWatermark(EARLY + each, NEVER, wanting.messenger.view, column()))
    _run(wanting, 0.1)
    unit = hlc.from_seconds(CUT_SECONDS)
    assert [each.at for each in wanting.known] == [(EARLY + each) * unit for each in EARLY_CUTS]


def test_early_cuts_are_reported_as_the_clock_passes_them_to_the_peer_that_asked_alone(watched):
    other = Contact(1 << 62, "calm", 7)
    watched.marks.watch(other, WatchWatermarks())
    watched.marks.watch(OTHER, WatchWatermarks(urgent=True, early=EARLY))
    assert _run(watched, 0.1) == [(EARLY + each, each * CUT_SECONDS + 0.0005) for each in EARLY_CUTS]


def test_an_early_cut_that_the_clock_has_passed_is_not_reported(watched):
    """Messages from after the cut may have been handled already."""
    watched.at(START + 0.011)
    watched.marks.watch(OTHER, WatchWatermarks(urgent=True, early=EARLY))
    assert [cut for cut, _ in _run(watched, 0.1)] == [EARLY + each for each in EARLY_CUTS if each * CUT_SECONDS > 0.011]


def test_an_inactive_peer_reports_the_early_cuts_of_the_request_that_makes_it_active():
    marks = Marks()
    marks.marks.watch(OTHER, WatchWatermarks(urgent=True, early=EARLY))
    assert [cut for cut, _ in _run(marks, 0.1)] == [EARLY + each for each in EARLY_CUTS]


def test_cuts_of_one_turn_are_all_reported_with_the_work_that_was_in_flight(watched):
    watched.marks.watch(OTHER, WatchWatermarks(urgent=True, early=EARLY))
    watched.messenger.send(OTHER, triples(70))
    watched.at(START + 0.012)
    watched.messenger.send(OTHER, triples(50))
    watched.at(START + 0.022)
    watched.marks.wake()
    told = {each.cut - EARLY: each.low for each in watched.sent(LowWatermark)}
    assert told == {2: 50, 4: 50}, "what a peer sends after a cut may follow from what arrived before it"


def test_early_cuts_of_a_hostile_request_are_bounded(watched):
    for early in range(EARLY - 1000, EARLY + 100_000):
        watched.marks.watch(OTHER, WatchWatermarks(urgent=True, early=early))
    assert len(_run(watched, 10.0)) < 1000


def test_a_further_hurry_waits_for_the_early_cuts_of_the_one_before(wanting):
    wanting.want(urgent=True, hurries=1)
    wanting.marks.wake()
    wanting.sent(WatchWatermarks)
    wanting.want(urgent=True, hurries=2)
    asked = []
    for millisecond in range(100):
        wanting.at(START + millisecond / 1000)
        wanting.marks.wake()
        asked += [(millisecond, each.early - EARLY) for each in wanting.sent(WatchWatermarks)]
    assert asked == [(80, 16)]


def test_many_peers_do_without_early_cuts(wanting):
    for number in range(PEERS_PER_CUT):
        wanting.messenger.seen(Contact(number + 10 << 40, "more", number + 10))
    wanting.want(urgent=True, hurries=1)
    wanting.marks.wake()
    assert not [each for each in wanting.sent(WatchWatermarks) if each.early]


def test_others_are_told_at_once_of_an_urgent_request(wanting):
    wanting.at(START)
    wanting.marks.wake()
    assert wanting.sent(WatchWatermarks) == [WatchWatermarks()]
    wanting.want(urgent=True)
    wanting.at(START + 0.1)
    wanting.marks.wake()
    assert wanting.sent(WatchWatermarks) == [WatchWatermarks(urgent=True)]
    wanting.at(CUT + 0.125)
    wanting.marks.wake()
    wanting.tell(hlc.from_seconds(950.0), CUT + 0.125)
    assert wanting.learned == [hlc.from_seconds(950.0) - 1]


# --- streams -------------------------------------------------------------------------------------

SOME, ANOTHER = 11, 12
"""Stream watermarks."""


def element(seconds, mark=SOME):
    return hlc.element(seconds * 1000, mark)


@pytest.fixture
def watched_for_streams() -> Marks:
    """Low watermarks and stream watermarks sent to the other peer."""
    marks = Marks()
    marks.marks.watch(OTHER, WatchWatermarks(streams=(column(1, 5),)))
    marks.at(START)
    return marks


@pytest.fixture
def following() -> Marks:
    """Low watermarks of a peer that wants stream watermarks."""
    marks = Marks()
    marks.want(streams=frozenset({1, 9}))
    marks.at(START)
    return marks


def sources_mark(cut, view, number):
    one = column(number)
    return PublisherReport(cut, view, one, one, one, one, one, np.zeros(1, np.uint32))


def told(marks, cut=CUT):
    marks.at(cut)
    marks.marks.wake()
    return marks.sent((LowWatermark, StreamReport, PublisherReport))


@pytest.mark.parametrize(
    "messages",
    [
        [triples(element(7), element(5), element(9, ANOTHER))],
        [Forward(None, 0, groups(1), rows(element(5), element(9, ANOTHER)))],  # type: ignore[arg-type]
        [Answers(column(1), rows(element(9, ANOTHER))), Answers(column(1), rows(element(5))), triples(element(6))],
    ],
)
def test_elements_in_flight_are_reported_by_stream_and_hold_no_low_watermark_back(watched_for_streams, messages):
    for message in messages:
        watched_for_streams.messenger.send(OTHER, message)
    elements, _, low = told(watched_for_streams)
    assert isinstance(elements, StreamReport)
    assert set(elements.times.tolist()) == {element(5), element(9, ANOTHER)}
    assert low.low == (1 << 64) - 1


def test_a_watcher_of_low_watermarks_alone_hears_nothing_of_streams(watched):
    watched.said = [Source(1, 2, 3, 4)]
    watched.messenger.send(OTHER, triples(element(5)))
    assert [type(each) for each in told(watched)] == [LowWatermark]


def test_publishers_watermarks_at_the_cut_are_reported_and_not_later_ones(watched_for_streams):
    watched_for_streams.said = [Source(1, 2, 3, 4), Source(5, 6, 7, 8, 9, ended=True)]
    watched_for_streams.at(CUT)
    watched_for_streams.said = [Source(1, 2, 3, 1000)]
    watched_for_streams.marks.wake()
    _, sources, _ = watched_for_streams.sent((LowWatermark, StreamReport, PublisherReport))
    columns = (sources.streams, sources.publishers, sources.began, sources.upto, sources.openings, sources.ended)
    assert [each.tolist() for each in columns] == [[1, 5], [2, 6], [3, 7], [4, 8], [0, 9], [0, 1]]


def test_each_peer_is_sent_the_streams_that_it_asked_about(watched_for_streams):
    other = Contact(5 << 60, "third", 1)
    watched_for_streams.marks.watch(other, WatchWatermarks(streams=(column(7),)))
    watched_for_streams.said = [Source(1, 2, 3, 4), Source(7, 6, 7, 8), Source(8, 6, 7, 8)]
    one, two = (each for each in told(watched_for_streams) if isinstance(each, PublisherReport))
    assert [each.streams.tolist() for each in (one, two)] == [[1], [7]]


def test_watching_one_more_stream_asks_at_once_and_watching_many_asks_in_parts(following, monkeypatch):
    def asked():
        following.marks.wake()
        return [each.streams[0].tolist() for each in following.sent(WatchWatermarks)]

    assert asked() == [[1, 9]]
    following.at(START + 0.1)
    assert asked() == []
    following.want(streams=frozenset({1}))
    assert asked() == [], "of less nobody is in a hurry"
    monkeypatch.setattr("p2prdf.peer.progress.low_watermark._STREAMS_MAX", 2)
    following.want(streams=frozenset({1, 9, 10}))
    assert asked() == [[1, 9], [10]]


@pytest.mark.parametrize("why", ["steady", "old", "many"])
def test_nothing_is_said_of_elements_where_not_all_are_known(watched_for_streams, why):
    match why:
        case "steady":
            watched_for_streams.steady = False
        case "old":  # a query on its way: its answers cannot be known
            watched_for_streams.messenger.send(OTHER, IndexQuery(None, 0, groups(1)))  # type: ignore[arg-type]
        case "many":
            watched_for_streams.messenger.send(OTHER, triples(*(element(5, mark) for mark in range(300))))
    assert [type(each) for each in told(watched_for_streams)] == [PublisherReport, LowWatermark]


def test_stream_watermarks_reported_by_all_are_known_with_the_low_watermark(following):
    following.said = [Source(1, 2, 3, 4)]
    following.messenger.send(OTHER, triples(element(5), element(6, ANOTHER)))
    following.at(CUT)
    following.marks.wake()
    cut, view = CUT * CALM_CUTS, following.messenger.view
    following.marks.take_elements(OTHER, StreamReport(cut, view, column(element(4))))
    following.marks.take_sources(OTHER, sources_mark(cut, view, 9))
    following.tell((1 << 64) - 1)
    (known,) = following.known
    assert known.elements == {SOME: element(4), ANOTHER: element(6, ANOTHER)}
    assert set(known.sources) == {Source(1, 2, 3, 4), Source(9, 9, 9, 9, 9)}


@pytest.mark.parametrize("lost", [StreamReport, PublisherReport])
def test_a_missing_report_of_elements_or_publishers_leaves_the_stream_unknown(following, lost):
    """Otherwise a publisher might be taken for gone, because a peer's report about it was lost on the way."""
    following.at(CUT)
    following.marks.wake()
    cut, view = CUT * CALM_CUTS, following.messenger.view
    if lost is PublisherReport:
        following.marks.take_elements(OTHER, StreamReport(cut, view, column(element(4))))
    else:
        following.marks.take_sources(OTHER, sources_mark(cut, view, 9))
    following.tell((1 << 64) - 1)
    assert [each.elements for each in following.known] == [None]


def test_marks_of_another_view_or_unasked_for_are_not_taken(following, wanting):
    for marks, view in ((following, 77), (wanting, wanting.messenger.view)):
        marks.at(CUT)
        marks.marks.wake()
        marks.marks.take_elements(OTHER, StreamReport(CUT * CALM_CUTS, view, column()))
        marks.tell((1 << 64) - 1)
        assert [each.elements for each in marks.known] == [None]


def test_messages_of_a_split_turn_hold_the_watermark_back_though_acknowledged_before_its_end(watched):
    watched.at(CUT + 0.001)
    watched.messenger.send(OTHER, triples(hlc.from_seconds(CUT - 10)))
    watched.messenger.acknowledged(OTHER, column(*[each.number for each in watched.messenger.outbox._open.values()]))
    assert not len(watched.messenger.outbox)
    watched.marks.wake()
    (mark,) = watched.sent(LowWatermark)
    assert mark.low == hlc.from_seconds(CUT - 10)
