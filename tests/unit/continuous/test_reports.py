"""A query with windows is evaluated report by report, on any replica: each report comes once, as defined."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standing_homes import Replica

from p2prdf import hlc
from p2prdf.columns import LISTS
from p2prdf.continuous import evaluation
from p2prdf.continuous.delivered_set import REPORTS_KEPT
from p2prdf.continuous.reports import Reports, time_of, time_term
from p2prdf.hlc import FIRST
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import Answers, KeepAnswers, Rows

PREFIX = "PREFIX : <urn:> "
WINDOW = "FROM NAMED WINDOW :w ON :s [RANGE 5s STEP 2s] WHERE { WINDOW :w { ?a :p ?b } }"
ALL = f"SELECT ?a ?b {WINDOW}"
COUNT = f"SELECT (COUNT(*) AS ?n) {WINDOW}"
STREAMS = ("RSTREAM", "ISTREAM", "DSTREAM")
TOP = hlc.element(hlc.ELEMENT_MS_MAX, 0)


def spelled(text, stream=""):
    return f"{PREFIX} REGISTER {stream} :out AS {text}" if stream else PREFIX + text


class Place:
    """A replica that evaluates the query, and the notifications of its subscriber."""

    def __init__(self, text, stream="", *, since=FIRST, dictionary=None):
        self.dictionary = TermDictionary() if dictionary is None else dictionary
        self.replica = Replica(self.dictionary)
        self.subscription = self.replica.open(spelled(text, stream), since)
        self.told: list[tuple[int, bool, tuple[str, ...]]] = []
        self.begin()

    def begin(self):
        group = self.subscription.group
        self.reports = Reports(
            group.query, group.leaves, self.subscription.since, self.dictionary, self.subscription.reported
        )

    def keep(self):
        """Tell replicas which reports are made, as a peer does, and drop the elements that only those needed."""
        self.replica.home.reported(self.subscription, self.reports.reported)

    def element(self, identity, row, oldest, youngest=None, leaf=0):
        """Take in an answer of elements of these event times."""
        times = hlc.element(oldest, 7), hlc.element(oldest if youngest is None else youngest, 7)
        self.answer(identity, row, *times, leaf=leaf)

    def answer(self, identity, row, oldest, born, leaf=0):
        make, group = LISTS.column, self.subscription.group
        bindings = tuple(make([term], "uint32") for term in self.dictionary.intern_all(row))
        rows = Rows(make([0]), make([identity]), make([oldest]), make([born]), bindings)
        found, changes = self.replica.take(Answers(make([group.leaves[leaf].identity]), rows))
        self.reports.changed(found.identity - group.identity, changes)

    def upto(self, time, began=0, stamp=0):
        """Advance the watermark, and do all work that becomes due."""
        self.reports.advance(time, began, hlc.from_seconds(2000.0))
        self.settle(stamp=stamp)

    def settle(self, news_max=1 << 60, stamp=0):
        while self.reports.waits and news_max > 0:
            news_max -= 1
            self.tell(self.reports.work(self.subscription.contents, self.subscription.log, stamp=stamp))

    def tell(self, news):
        if news:
            self.replica.take(self.replica.message(self.subscription, self.reports, news))
            self.told += [(each.identity, each.over, tuple(map(self.dictionary.text, each.row))) for each in news]

    @property
    def reported(self):
        """The rows reported, as a multiset for each report."""
        found: dict[int, Counter[tuple[str, ...]]] = {}
        for _, over, row in self.told:
            assert not over
            found.setdefault(time_of(row[-1]), Counter())[row[:-1]] += 1
        return found

    @property
    def held(self):
        rows = Counter(row for _, over, row in self.told if not over)
        return rows - Counter(row for _, over, row in self.told if over)


@given(st.integers(0, hlc.ELEMENT_MS_MAX))
def test_a_time_is_a_term_and_back(milliseconds):
    assert time_of(time_term(milliseconds)) == milliseconds


def test_times_are_canonical_as_xsd_has_them():
    terms = [time_term(each) for each in (0, 1_091_944_800_000, 1_500, 1_050)]
    assert [term.partition('"^^')[0] for term in terms] == [
        '"1970-01-01T00:00:00Z', '"2004-08-08T06:00:00Z', '"1970-01-01T00:00:01.5Z', '"1970-01-01T00:00:01.05Z',
    ]  # fmt: skip
    for wrong in ('"x"', '"1970-01-01T00:00:00Z"', "<urn:a>"):
        with pytest.raises(ValueError, match=r"dateTime|isoformat"):
            time_of(wrong)


def by_definition(elements, stream, reports, *, length=5000, step=2000):
    """Return the rows of a stream at each report; ``elements``: rows with their oldest and youngest times."""
    found, before = {}, Counter()
    for report in reports:
        end = report // step * step
        rows = Counter(row for row, oldest, youngest in elements if oldest > end - length and youngest <= end)
        rows = Counter(dict.fromkeys(rows, 1))  # of one triple, in a window once
        told = {"RSTREAM": rows, "ISTREAM": rows - before, "DSTREAM": before - rows}[stream]
        if told:
            found[report] = told
        before = rows
    return found


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("seed", range(12))
def test_each_report_comes_once_as_defined_through_failovers(stream, seed):
    random = Random(f"{stream} {seed}")
    place, elements, identity = Place(ALL, stream), [], 0
    for step in range(14):
        upto = step * 1500
        for _ in range(random.randrange(4)):  # none of them late
            time = random.randint(max(0, upto), upto + 4000)
            row = (f"<urn:a{random.randrange(3)}>", f"<urn:b{random.randrange(2)}>")
            elements.append((row, time, time))
            place.element(identity := identity + 1, row, time)
        place.upto(upto)
        if random.random() < 0.4:
            place.keep()
        if random.random() < 0.4:  # failover: the new evaluator knows the leaves' answers and the delivered set
            place.begin()
            place.reports.advance(upto - random.randrange(2000) if upto > 2000 else 0, 0, 0)
            place.settle()
    assert place.reported == by_definition(elements, stream, range(0, upto + 1, 2000))
    identities = [each for each, _, _ in place.told]
    assert len(set(identities)) == len(identities)
    assert place.reports.late == 0


def test_a_count_of_nothing_is_reported_at_first_and_while_it_holds():
    zero, one = (f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for n in (0, 1))
    expected = {
        "RSTREAM": {0: zero, 2000: zero, 4000: one, 6000: one, 8000: zero},
        "ISTREAM": {0: zero, 4000: one, 8000: zero},
        "DSTREAM": {4000: zero, 8000: one},
    }
    for stream, rows in expected.items():
        place = Place(COUNT, stream)
        place.element(1, ("<urn:a>", "<urn:b>"), 3000)
        place.upto(9000)
        assert place.reported == {at: Counter({(row,): 1}) for at, row in rows.items()}, stream


def test_current_solutions_are_reported_and_retracted():
    place = Place(ALL)
    place.element(1, ("<urn:a>", "<urn:b>"), 1000)
    place.upto(1999)
    assert place.told == []
    place.upto(2000)
    assert place.held == Counter({("<urn:a>", "<urn:b>"): 1})
    place.element(2, ("<urn:a>", "<urn:b>"), 5000)  # the same triple again: it stays
    place.upto(6000)
    assert place.held == Counter({("<urn:a>", "<urn:b>"): 1})
    place.upto(8000)
    assert len(place.told) == 1
    place.upto(10_000)
    assert (place.held, len(place.told)) == (Counter(), 2)


def test_late_answers_change_current_solutions_and_leave_past_reports():
    place, stream = Place(ALL), Place(ALL, "RSTREAM")
    for each in (place, stream):
        each.element(1, ("<urn:a>", "<urn:b>"), 1000)
        each.upto(4000)
        each.element(2, ("<urn:c>", "<urn:d>"), 1500)
        each.settle()
        assert each.reports.late == 1
    assert set(place.held) == {("<urn:a>", "<urn:b>"), ("<urn:c>", "<urn:d>")}
    assert set(stream.reported) == {2000, 4000}
    stream.upto(6000)
    assert stream.reported == {at: Counter({("<urn:a>", "<urn:b>"): 1}) for at in (2000, 4000)} | {
        6000: Counter({("<urn:c>", "<urn:d>"): 1})
    }


def test_nothing_is_reported_from_before_the_subscription():
    place = Place(ALL, "RSTREAM", since=hlc.from_seconds(5.0))
    place.element(1, ("<urn:a>", "<urn:b>"), 3000)
    place.element(2, ("<urn:c>", "<urn:d>"), 5500)
    place.upto(9000)
    assert place.reported == {
        6000: Counter([("<urn:a>", "<urn:b>"), ("<urn:c>", "<urn:d>")]), 8000: Counter([("<urn:c>", "<urn:d>")]),
    }  # fmt: skip


def test_static_triples_count_at_any_age():
    text = "SELECT ?a ?k FROM NAMED WINDOW :w ON :s [RANGE 5s STEP 2s] WHERE { WINDOW :w { ?a :p ?b } ?a :kind ?k }"
    place = Place(text, "ISTREAM", since=hlc.from_seconds(1.0))
    windowed = [leaf.window is not None for leaf in place.subscription.group.leaves]
    static, moving = windowed.index(False), windowed.index(True)
    place.element(1, ("<urn:a>", "<urn:b>"), 1500, leaf=moving)
    place.answer(2, ("<urn:a>", "<urn:k>"), 5, 5, leaf=static)
    place.upto(3000)
    place.answer(3, ("<urn:a>", "<urn:l>"), 9, 9, leaf=static)
    place.settle()
    place.upto(4000)
    assert place.reported == {2000: Counter([("<urn:a>", "<urn:k>")]), 4000: Counter([("<urn:a>", "<urn:l>")])}


def test_current_solutions_follow_static_triples_at_once():
    text = "SELECT ?a ?k FROM NAMED WINDOW :w ON :s [RANGE 5s STEP 2s] WHERE { WINDOW :w { ?a :p ?b } ?a :kind ?k }"
    place = Place(text)
    static = [leaf.window is None for leaf in place.subscription.group.leaves].index(True)
    place.element(1, ("<urn:a>", "<urn:b>"), 1500, leaf=1 - static)
    place.upto(3000)
    place.answer(2, ("<urn:a>", "<urn:k>"), 5, 5, leaf=static)
    place.settle()
    assert place.held == Counter([("<urn:a>", "<urn:k>")])


def test_the_next_report_waits_until_the_last_is_known_to_others():
    place = Place(ALL, "RSTREAM")
    place.element(1, ("<urn:a>", "<urn:b>"), 1000)
    place.reports.advance(4000, 0, 0)
    contents, log = place.subscription.contents, place.subscription.log
    news = []
    while not news:
        news = place.reports.work(contents, log)
    place.reports.staged = len(news)
    assert not place.reports.waits
    assert place.reports.work(contents, log) == []
    place.reports.staged = 0
    place.tell(news)
    place.settle()
    assert list(place.reported) == [2000, 4000]


def test_a_report_of_many_pieces_comes_as_a_whole(monkeypatch):
    monkeypatch.setattr("p2prdf.continuous.reports.PIECE", 3)
    place = Place(COUNT, "ISTREAM")
    assert evaluation.PIECE > 3
    for identity in range(10):
        place.element(identity + 1, (f"<urn:a{identity}>", "<urn:b>"), 1000)
    place.upto(2000)
    ten = '"10"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert place.reported[2000] == Counter([(ten,)])


def test_only_the_last_reports_are_kept():
    place = Place(COUNT, "RSTREAM")
    place.element(1, ("<urn:a>", "<urn:b>"), 1000)
    place.upto(60_000)
    assert len(place.reported) == 31
    kept = {time_of(place.dictionary.text(row[-1])) for row in place.subscription.contents.rows.values()}
    assert kept == set(range(60_000, 60_000 - 2000 * REPORTS_KEPT, -2000))


def test_a_new_evaluator_completes_the_last_report():
    place = Place(ALL, "RSTREAM")
    for identity in range(4):
        place.element(identity + 1, (f"<urn:a{identity}>", "<urn:b>"), 3000)
    place.upto(3999)
    place.reports.advance(4000, 0, 0)
    news = []
    while not news:
        news = place.reports.work(place.subscription.contents, place.subscription.log)
    place.tell(news[:1])  # no more of it reached anybody
    place.begin()
    place.upto(6000)
    assert [sum(place.reported[at].values()) for at in (4000, 6000)] == [4, 4]


HOUR = 3_600_000


def test_a_new_evaluator_goes_on_at_the_last_report_after_elements_were_dropped():
    """A triple that is repeated is in the window all the time, even after its first element has been dropped."""
    for stream, expected in (("ISTREAM", {0: 1}), ("DSTREAM", {}), ("", {})):
        place = Place(ALL, stream)
        identity = 0
        for time in range(0, HOUR + 1, 4000):
            place.element(identity := identity + 1, ("<urn:a>", "<urn:b>"), time)
        place.upto(HOUR)
        assert place.reports.reported == HOUR
        place.keep()
        (leaf,) = place.subscription.group.leaves
        assert 0 < len(leaf.answers) < identity / 3
        for _ in range(3):
            place.begin()
            place.upto(HOUR + 2000)
        if stream:
            assert {at: rows.total() for at, rows in place.reported.items()} == expected
        else:
            assert len(place.told) == 1


def test_a_fast_playback_is_reported_whole():
    """An hour of elements is there before anything is reported: none that a report still needs is dropped."""
    place = Place(ALL, "ISTREAM")
    times = list(range(1000, HOUR, 60_000))
    for identity, time in enumerate(reversed(times)):
        place.element(identity + 1, (f"<urn:a{identity}>", "<urn:b>"), time)
    place.upto(HOUR)
    assert len(place.reported) == len(times)


def test_a_new_evaluator_compares_current_solutions_with_the_last_report():
    place = Place(ALL)
    for second in range(1, 60):
        place.element(second, ("<urn:a>", f"<urn:b{second}>"), second * 1000)
    place.upto(58_000)
    told = len(place.told)
    place.begin()
    place.upto(58_000)
    assert len(place.told) == told
    assert place.reports.reported == 58_000


def test_a_solution_that_leaves_a_window_after_a_failover_is_retracted_at_once():
    """The watermark that confirms tentative changes advances the stream, too, so a report is due with it."""
    place = Place("SELECT ?a ?b FROM NAMED WINDOW :w ON :s [RANGE 5s STEP 1s] WHERE { WINDOW :w { ?a :p ?b } }")
    for second in range(1, 30):
        for part in range(4):
            place.element(4 * second + part, (f"<urn:a{second}>", f"<urn:b{part}>"), 1000 * second + 200 * part)
        if second == 8:
            place.begin()
        if second != 9:  # the first mark after that comes late
            place.reports.sure(second * 100 - 10)
            place.upto(1000 * second + 900, stamp=second * 100)
    assert not place.reports.doubts
    assert place.reports.reported == 29_000
    assert place.held.total() == 20


def test_a_report_is_made_when_its_rows_are_replicated():
    place = Place(ALL, "RSTREAM")
    place.element(1, ("<urn:a>", "<urn:b>"), 1000)
    assert place.reports.reported == -1
    place.reports.advance(2000, 0, 0)
    news = []
    while not news:
        news = place.reports.work(place.subscription.contents, place.subscription.log)
    place.reports.staged = 1
    assert place.reports.reported == -1
    place.reports.staged = 0
    assert place.reports.reported == 2000


def test_a_watermark_never_goes_back():
    place = Place(ALL, "RSTREAM")
    place.element(1, ("<urn:a>", "<urn:b>"), 1000)
    place.upto(2500)
    place.upto(100)
    assert place.reports.reports == {"watermark": 2.5, "last": 2.0, "begins": None, "late": 0}


def test_the_delivered_set_is_replicated_unchanged():
    place = Place(ALL, "ISTREAM")
    place.element(1, ("<urn:a>", "<urn:b>"), 1000)
    place.upto(2000)
    other = Replica(place.dictionary)
    place.replica.tell(other)
    subscription = other.home.subscriptions[place.subscription.number]
    assert subscription.contents.rows == place.subscription.contents.rows
    assert any(isinstance(each, KeepAnswers) for each in place.replica.items.everything())
    assert hlc.element(2000, 7) < TOP
