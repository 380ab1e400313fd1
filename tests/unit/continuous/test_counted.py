"""Windows by count: on any evaluator, reports have one numbering, come once, and hold their last elements."""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random

import pytest
from standing_homes import Replica, equal
from windows_oracle import CountExtent, Element

from p2prdf import hlc
from p2prdf.columns import LISTS
from p2prdf.continuous.counted import CountedReports
from p2prdf.continuous.counts import Mark
from p2prdf.continuous.reports import time_of
from p2prdf.hlc import FIRST
from p2prdf.rdf import terms
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import streamed
from p2prdf.wire.messages import Answers, Rows

STREAM = "<urn:s>"
STREAMS = ("RSTREAM", "ISTREAM", "DSTREAM")
MARK = hlc.stream_mark(hlc.element(0, 7))


def text_of(elements, step, stream="", what="?a ?b", pattern="?a :p ?b"):
    register = f"REGISTER {stream} :out AS " if stream else ""
    clause = f"FROM NAMED WINDOW :w ON :s [TRIPLES {elements} STEP {step}]"
    return f"PREFIX : <urn:> {register} SELECT {what} {clause} WHERE {{ WINDOW :w {{ {pattern} }} }}"


class Place:
    """A replica that evaluates the query, and the notifications of its subscriber."""

    def __init__(self, text, *, since=FIRST):
        self.dictionary = TermDictionary()
        self.replica = Replica(self.dictionary)
        self.subscription = self.replica.open(text, since)
        self.told: list[tuple[int, bool, tuple[str, ...]]] = []
        self.identities = 0
        self.begin()

    def begin(self):
        group, each = self.subscription.group, self.subscription
        self.reports = CountedReports(group.query, group.leaves, each.since, self.dictionary, each.mark)

    def keep(self):
        """Tell replicas which reports are made, as a peer does, and drop the elements that only those needed."""
        self.replica.home.reported(self.subscription, *self.reports.mark)

    def element(self, time, s, o, p="<urn:p>"):
        """Take in an element as a link sends it, by an event of its own."""
        self.identities += 1
        make, group = LISTS.column, self.subscription.group
        at = hlc.element(time, MARK)
        row = self.dictionary.intern_all((s, streamed(p, STREAM), o))
        columns = tuple(make([term], "uint32") for term in row)
        rows = Rows(make([0]), make([self.identities]), make([at]), make([at]), columns)
        found, changes = self.replica.take(Answers(make([group.identity]), rows))
        self.reports.changed(found.identity - group.identity, changes)

    def upto(self, time):
        """Advance the watermark, and do all work that becomes due."""
        self.reports.advance(time, 0, hlc.from_seconds(2000.0))
        self.settle()

    def settle(self):
        while self.reports.waits:
            news = self.reports.work(self.subscription.contents, self.subscription.log)
            if news:
                self.replica.take(self.replica.message(self.subscription, self.reports, news))
                self.told += [(each.identity, each.over, tuple(map(self.dictionary.text, each.row))) for each in news]

    @property
    def reported(self):
        """The rows reported, as a multiset for each report, by the number and time of the report."""
        found: dict[tuple[int, int], Counter[tuple[str, ...]]] = {}
        for _, over, row in self.told:
            assert not over
            found.setdefault((int(terms.lexical(row[-1])), time_of(row[-2])), Counter())[row[:-2]] += 1
        return found

    @property
    def held(self):
        rows = Counter(row for _, over, row in self.told if not over)
        return rows - Counter(row for _, over, row in self.told if over)


def by_definition(elements, stream, extent, upto):
    """Return the rows that a stream has at each report, computed from all elements."""
    found, before = {}, Counter()
    for number, time in extent.reports(elements, upto).items():
        last = extent.ordered(elements)[: number * extent.step][-extent.elements :]
        rows = Counter({(s, o) for _, (s, p, o) in last if p == "<urn:p>"})
        told = {"RSTREAM": rows, "ISTREAM": rows - before, "DSTREAM": before - rows}[stream]
        if told:
            found[number, time] = told
        before = rows
    return found


def play(stream, seed, place=None):
    """Have elements come out of order and evaluation fail over; return the actual and the expected reports."""
    random = Random(f"{stream} {seed}")
    extent = CountExtent(STREAM, random.choice((1, 2, 3, 5, 9)), random.choice((1, 2, 3, 7)))
    since = random.choice((FIRST, hlc.from_seconds(4.0)))
    extent = dataclasses.replace(extent, first=0 if since == FIRST else 4000)
    place = Place(text_of(extent.elements, extent.step, stream), since=since)
    elements = []
    for step in range(14):
        upto = step * 1000
        for _ in range(random.randrange(7)):  # none of them late
            time = random.randint(upto + (step > 0), upto + 3000) // 250 * 250 + 250  # often several of one time
            row = random.choice(("<urn:a>", "<urn:b>")), random.choice(("<urn:a>", "<urn:b>", "<urn:ab>"))
            p = random.choice(("<urn:p>", "<urn:p>", "<urn:pp>"))
            elements.append(Element(time, STREAM, (row[0], p, row[1])))
            place.element(time, *row, p=p)
        place.upto(upto)
        if random.random() < 0.5:
            place.keep()
        if random.random() < 0.4:  # failover: the new evaluator knows leaf answers, mark and delivered set
            place.begin()
            place.upto(max(0, upto - random.randrange(2000)))
            place.upto(upto)
    place.upto(upto)
    return place, by_definition(elements, stream, extent, upto), extent, elements


@pytest.mark.parametrize("stream", STREAMS)
def test_each_report_comes_once_as_defined_through_failovers(stream):
    reports = 0
    for seed in range(60):
        place, expected, _, _ = play(stream, seed)
        assert place.reported == expected, (stream, seed)
        identities = [each for each, _, _ in place.told]
        assert len(set(identities)) == len(identities)
        assert place.reports.late == 0
        reports += len(expected)
    assert reports > 200


def test_an_evaluator_that_forgets_the_number_or_counts_by_arrival_is_detected(monkeypatch):
    """The comparison is of use: it detects an evaluator that counts from 1 again, and one without an order."""
    def wrong():
        found = [play("RSTREAM", seed) for seed in range(40)]
        return sum(place.reported != expected for place, expected, _, _ in found)

    with monkeypatch.context() as patch:
        patch.setattr(CountedReports, "mark", property(lambda self: Mark(self._counted.last.time)))
        assert wrong()
    with monkeypatch.context() as patch:
        patch.setattr("p2prdf.continuous.counts.Place.__lt__", lambda a, b: a.time < b.time)
        assert wrong()
    assert not wrong()


# --- changes ---------------------------------------------------------------------------------------


def test_of_changes_the_subscriber_holds_the_solutions_of_the_last_report():
    withdrawn = sum(over for seed in range(20) for _, over, _ in play_changes(Random(seed)).told)
    assert withdrawn > 20


def play_changes(random):
    extent = CountExtent(STREAM, random.choice((1, 3, 6)), random.choice((1, 2, 4)))
    place, elements = Place(text_of(extent.elements, extent.step)), []
    for step in range(12):
        upto = 1000 * step
        for _ in range(random.randrange(5)):
            time, subject = upto + random.randint(1, 2500), f"<urn:{step % 3}>"
            elements.append(Element(time, STREAM, (subject, "<urn:p>", "<urn:b>")))
            place.element(time, subject, "<urn:b>")
        place.upto(upto)
        reports = extent.reports(elements, upto)
        last = extent.ordered(elements)[: max(reports, default=0) * extent.step][-extent.elements :]
        assert place.held == Counter({(s, o) for _, (s, _, o) in last}), step
        if random.random() < 0.5:
            place.keep()
        if random.random() < 0.5:
            place.begin()
            place.upto(upto)
            assert place.held == Counter({(s, o) for _, (s, _, o) in last}), step
    return place


# --- late elements -----------------------------------------------------------------------------------


def late_place(stream=""):
    place = Place(text_of(3, 2, stream))
    for time in (1000, 2000, 3000, 4000):
        place.element(time, f"<urn:{time}>", "<urn:b>")
    place.upto(4000)
    return place


def of(*times):
    return Counter((f"<urn:{time}>", "<urn:b>") for time in times)


def test_an_element_that_comes_late_has_no_number_but_a_place_in_the_windows_to_come():
    place = late_place("RSTREAM")
    assert place.reported == {(1, 2000): of(1000, 2000), (2, 4000): of(2000, 3000, 4000)}
    place.element(3500, "<urn:3500>", "<urn:b>")
    place.element(5000, "<urn:5000>", "<urn:b>")
    place.upto(5000)
    assert len(place.reported) == 2
    assert place.reports.late == 1
    place.element(5500, "<urn:5500>", "<urn:b>")
    place.upto(6000)
    assert place.reported[3, 5500] == of(4000, 5000, 5500)
    place = late_place("RSTREAM")
    place.element(3500, "<urn:3500>", "<urn:b>")
    place.element(4000, "<urn:zzzz>", "<urn:b>")  # same time as the last one and behind it in order: not late
    place.element(5000, "<urn:5000>", "<urn:b>")
    place.upto(5000)
    assert place.reported[3, 5000] == Counter([*of(4000, 5000), ("<urn:zzzz>", "<urn:b>")])


def test_the_last_report_of_changes_is_made_again_with_late_elements():
    place = late_place()
    assert place.held == of(2000, 3000, 4000)
    place.element(3500, "<urn:3500>", "<urn:b>")
    place.upto(4000)
    assert place.held == of(3000, 3500, 4000)
    place.element(500, "<urn:500>", "<urn:b>")  # so late that the window does not reach back to it
    place.upto(4000)
    assert place.held == of(3000, 3500, 4000)
    assert place.reports.late == 1
    place.keep()
    place.begin()
    place.upto(4000)
    assert place.held == of(3000, 3500, 4000)


def test_the_same_triple_at_the_same_time_is_one_element_and_at_another_two():
    place = Place(text_of(2, 2, "RSTREAM"))
    for time in (1000, 1000, 1000, 2000):
        place.element(time, "<urn:a>", "<urn:b>")
    place.upto(3000)
    assert place.reported == {(1, 2000): Counter([("<urn:a>", "<urn:b>")])}


# --- elements held -----------------------------------------------------------------------------------


def test_elements_are_forgotten_but_for_those_of_the_next_reports_and_of_the_one_before():
    place = Place(text_of(5, 2, "RSTREAM"))
    for number in range(300):
        place.element(1000 * number, f"<urn:{number}>", "<urn:b>")
        place.upto(1000 * number)
    answers = place.subscription.group.leaves[0].answers
    assert len(answers) == 300
    place.keep()
    assert place.subscription.mark.number == 150
    assert len(answers) == 5 + 2 + 1
    assert len(place.reports._counted) == 5 + 2
    place.element(1000, "<urn:late>", "<urn:b>")
    assert len(answers) == 5 + 2 + 1


def test_an_evaluator_that_knows_less_waits_until_it_has_the_counted_elements():
    """Elements up to the mark are counted already; the position of the next one is known only with all of them."""
    place = Place(text_of(2, 2, "RSTREAM"))
    for time in (1000, 2000, 3000, 4000):
        place.element(time, f"<urn:{time}>", "<urn:b>")
    place.upto(4500)
    place.keep()
    place.begin()
    place.element(5000, "<urn:5000>", "<urn:b>")
    place.element(6000, "<urn:6000>", "<urn:b>")
    place.upto(2500)
    assert place.reports.reports["number"] == 0
    place.upto(6000)
    assert place.reported == {(1, 2000): of(1000, 2000), (2, 4000): of(3000, 4000), (3, 6000): of(5000, 6000)}


def test_replicas_with_different_marks_differ_until_they_have_exchanged_them():
    place = Place(text_of(2, 2, "RSTREAM"))
    other = Replica(TermDictionary())
    place.replica.tell(other)
    other.dictionary = place.dictionary
    for time in (1000, 2000, 3000, 4000):
        place.element(time, f"<urn:{time}>", "<urn:b>")
    place.upto(4500)
    place.replica.tell(other)
    assert equal(place.replica, other)
    place.keep()
    assert not equal(place.replica, other)
    place.replica.tell(other)
    assert other.home.subscriptions[place.subscription.number].mark == place.subscription.mark
    assert equal(place.replica, other)


def test_a_mark_goes_on_alone():
    place = Place(text_of(2, 2))
    home, subscription = place.replica.home, place.subscription
    assert home.reported(subscription, 1000, 4, 77)
    assert not home.reported(subscription, 1000, 3, 78)
    assert not home.reported(subscription, 999, 5, 78)
    assert subscription.mark == Mark(1000, 4, 77)
    assert home.reported(subscription, 1000, 5, 79)


def test_an_element_that_was_counted_is_found_by_its_triple_among_those_of_its_time():
    """A late element of the same time comes before it, and is not taken for the last counted one."""
    place = Place(text_of(1, 1, "RSTREAM"))
    place.element(1000, "<urn:m>", "<urn:b>")
    place.upto(1000)
    place.keep()
    place.element(1000, "<urn:a>", "<urn:b>")
    place.begin()
    place.element(2000, "<urn:x>", "<urn:b>")
    place.upto(2000)
    assert sorted(place.reported) == [(1, 1000), (2, 2000)]


def test_a_new_evaluator_counts_from_the_first_retained_element_and_so_does_its_successor():
    place = Place(text_of(3, 2, "RSTREAM"))

    def upto(time, kept):
        place.reports.advance(time, 0, hlc.from_seconds(2000.0), kept)
        place.settle()

    for time in (1000, 2000, 3000, 4000, 5000):
        place.element(time, f"<urn:{time}>", "<urn:b>")
    upto(4500, 2500)
    assert place.reported == {(1, 4000): of(3000, 4000)}
    assert place.reports.reports["begins"] == 2.5
    place.begin()  # no replica knows the progress yet: no further element is dropped
    upto(4500, 2500)
    place.keep()
    place.begin()
    place.element(6000, "<urn:6000>", "<urn:b>")
    upto(6000, 3500)  # the position of the last counted element is known
    assert place.reported == {(1, 4000): of(3000, 4000), (2, 6000): of(4000, 5000, 6000)}
    assert place.reports.reports["begins"] is None


def test_elements_from_before_the_counted_ones_are_in_no_window_after_a_failover():
    place = Place(text_of(5, 1, "RSTREAM"), since=hlc.from_seconds(2.0))
    for time in (1000, 2000, 3000):
        place.element(time, f"<urn:{time}>", "<urn:b>")
    place.upto(3000)
    place.keep()
    place.begin()
    place.element(4000, "<urn:4000>", "<urn:b>")
    place.upto(4000)
    assert place.reported == {(1, 2000): of(2000), (2, 3000): of(2000, 3000), (3, 4000): of(2000, 3000, 4000)}


def test_explained_are_the_number_of_the_last_report_and_its_time():
    place = late_place()
    told = {"watermark": 4.0, "last": 4.0, "begins": None, "late": 0, "number": 2}
    assert place.reports.reports == told
    assert Place(text_of(1, 1)).reports.reports == told | {"watermark": None, "last": None, "number": 0}
