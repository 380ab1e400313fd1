"""Coordinators pass watermarks to queries with windows, to each as far as all its elements have arrived."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from p2prdf import hlc, keys
from p2prdf.peer.progress.low_watermark import Known, Source
from p2prdf.peer.subscriptions.windows import Windows
from p2prdf.rdf.standing.query import parse_query

QUERY = parse_query(
    "SELECT ?x ?y FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 2s STEP 1s] WHERE { WINDOW <urn:w> { ?x <urn:p> ?y } }"
)
STREAM = keys.term_hash("<urn:s>")
CUT = 1 << 20
IDLE = 10.0


class Home:
    """A coordinator of some subscriptions to one query."""

    def __init__(self):
        config = SimpleNamespace(stream_idle_seconds=IDLE)
        self.messenger = SimpleNamespace(now=0.0, clock=CUT, config=config)
        self.retention = SimpleNamespace(respected_after=0, respects=lambda _: True, whole_from=lambda *_: 0)
        self.subscriptions = {}
        self.told: list[tuple[int, int]] = []
        evaluations = SimpleNamespace(known_upto=lambda each, upto, *_: self.told.append((each.number, upto)))
        self.ended: list[int] = []
        self.windows = Windows(  # only the parts that it uses
            self.messenger, self, evaluations, self.retention,  # type: ignore[arg-type]
            lambda each, _: self.ended.append(each.number),
        )  # fmt: skip

    def begin(self, number, *, opening=False):
        group = SimpleNamespace(query=QUERY)
        each = SimpleNamespace(number=number, group=group, delivered=True, opening=opening)
        self.subscriptions[number] = each
        self.windows.begin(each)  # type: ignore[arg-type]

    def learn(self, upto, *, under_way=None, at=CUT + 1):
        """Learn a publisher's promise and the elements in flight; return the reports to queries."""
        mark = hlc.stream_mark(STREAM)
        elements = {} if under_way is None else {mark: hlc.element(under_way, mark)}
        self.told.clear()
        self.windows.learn(Known(0, at, frozenset(), elements, (Source(STREAM, 1, 0, upto),)))
        return sorted(self.told)


@pytest.fixture
def home() -> Home:
    """A coordinator with one subscription that has watched the stream for long, and knows it up to 500."""
    found = Home()
    found.begin(1)
    found.learn(400)
    found.messenger.now = IDLE
    assert found.learn(500) == [(1, 500)]
    return found


def test_a_later_subscription_gets_watermarks_when_the_earlier_elements_it_finds_have_arrived(home):
    home.messenger.clock = CUT + 5
    home.begin(2)
    assert home.told == [(1, 500)], "nothing is known of what it finds"
    assert home.learn(600, at=CUT + 5) == [(1, 600)], "the cut was before it began"
    assert home.learn(600, under_way=200, at=CUT + 6) == [(2, 199)]
    assert home.learn(700, under_way=650, at=CUT + 7) == [(1, 649), (2, 649)]
    assert home.learn(800, at=CUT + 8) == [(1, 800), (2, 800)]


def test_a_later_subscription_gets_a_watermark_once_also_if_the_stream_has_not_advanced(home):
    home.begin(2)
    assert home.learn(500) == [(2, 500)]
    assert home.learn(500) == []


def test_a_subscription_gets_no_watermark_before_it_is_open(home):
    home.begin(2, opening=True)
    assert home.learn(500) == []
    home.subscriptions[2].opening = False
    assert home.learn(500) == [(2, 500)]


def test_a_gone_subscription_gets_no_watermark_and_its_stream_is_forgotten(home):
    del home.subscriptions[1]
    assert home.learn(600) == []
    assert home.windows.streams == frozenset()


def test_a_later_subscription_gets_watermarks_when_the_retention_of_its_streams_is_known(home):
    """A late enough cut must be complete, and the earlier elements that it finds are waited for as well."""
    home.retention.respected_after, home.retention.respects = 3, lambda after: after < 3
    home.begin(2)
    assert home.learn(600) == [(1, 600)], "a horizon may be on its way that does not respect it"
    home.retention.respects = lambda after: after <= 3
    assert home.learn(600, under_way=200) == [(2, 199)]
    assert home.learn(600) == [(2, 600)]


def test_a_subscription_that_can_never_have_a_whole_window_is_ended(home):
    home.begin(2)
    home.retention.whole_from = lambda *_: None
    assert home.learn(500) == []
    assert home.ended == [2]
