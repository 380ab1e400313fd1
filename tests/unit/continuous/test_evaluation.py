"""A standing query is evaluated on changing replicas: its subscriber is told the truth, and each change once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from standing_homes import Replica, equal

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.continuous.dataflow import Dataflow
from p2prdf.continuous.operators.zset import UNBOUND
from p2prdf.hlc import GONE, plain
from p2prdf.rdf.dictionary import UNBOUND_TEXT, TermDictionary
from p2prdf.wire.messages import WITHDRAWN, Answers, KeepAcknowledged, KeepAnswers, Rows

SINCE = 20
OPTIONAL = "SELECT ?a ?b ?n { ?a <urn:p> ?b OPTIONAL { ?b <urn:q> ?n } }"
COUNT = "SELECT (COUNT(*) AS ?n) { ?a <urn:p> ?b }"
QUERIES = [
    OPTIONAL,
    COUNT,
    "SELECT ?a { ?a <urn:p> ?b }",  # a bag: one copy per ?b
    "SELECT DISTINCT ?a { { ?a <urn:p> ?b } UNION { ?b <urn:q> ?a } }",
    "ASK { ?a <urn:p> ?b FILTER NOT EXISTS { ?b <urn:q> ?n } }",
    "SELECT ?a (COUNT(*) AS ?n) { ?a <urn:p> ?b MINUS { ?b <urn:q> ?n } } GROUP BY ?a",
]


class Place:
    """A replica with the subscription under test."""

    def __init__(self, dictionary, columns, record=None, text=None):
        self.replica = Replica(dictionary, columns)
        if record is None:
            self.subscription = self.replica.open(text, SINCE)
        else:
            self.subscription, _ = self.replica.home.keep(record, 0.0)
        self.evaluation = None

    @property
    def record(self):
        return self.replica.home.record_of(self.subscription)

    def begin(self):
        self.evaluation = self.replica.evaluation(self.subscription)
        self.subscription.log.restart()

    def take(self, message):
        """Take in a message as a peer does."""
        before = self.replica.home.version
        changed = self.replica.take(message)
        if self.evaluation is not None and changed is not None:
            leaf, changes = changed
            self.evaluation.changed(leaf.identity - leaf.group.identity, changes)
        elif self.evaluation is not None and isinstance(message, KeepAnswers) and self.replica.home.version != before:
            self.evaluation.stale = True

    def work(self, stamp=0):
        """Work until nothing waits; yield the changes to report."""
        while self.evaluation.waits:
            news = self.evaluation.work(self.subscription.contents, self.subscription.log, 1_000_000, stamp)
            if news:
                yield self.replica.message(self.subscription, self.evaluation, news)

    def settle(self, stamp=0):
        """Do all work, with no other replica to tell; resolve the tentative changes up to a stamp, too."""
        for message in self.work(stamp):
            self.take_own(message)
        if self.evaluation.doubts:
            self.evaluation.sure(stamp)
            self.settle(stamp)

    def take_own(self, message):
        self.replica.take(message)

    @property
    def held(self):
        """The rows reported to the subscriber and not retracted, as far as is known here."""
        return Counter(self.subscription.contents.rows.values())

    def true(self):
        """Return the true solutions by the leaves' answers held here, computed anew."""
        group, dictionary = self.subscription.group, self.replica.dictionary
        flow = Dataflow(group.query, dictionary)
        flow.apply_all({at: leaf.answers.since(SINCE) for at, leaf in enumerate(group.leaves)})
        unbound = dictionary.intern(UNBOUND_TEXT)
        return Counter({
            tuple(unbound if term == UNBOUND else term for term in row): count for row, count in flow.output().items()
        })  # fmt: skip


def answer(place, leaf, identity, oldest, row, born=30):
    """Return an answer of a leaf as links send it."""
    group, make = place.subscription.group, place.replica.columns.column
    terms = place.replica.dictionary.intern_all(row)[: len(group.leaves[leaf].query.answer)]
    bindings = tuple(make([term], "uint32") for term in terms)
    rows = Rows(make([0], "uint32"), make([identity]), make([oldest]), make([born]), bindings)
    return Answers(make([group.leaves[leaf].identity]), rows)


def evaluated(text, columns=LISTS):
    place = Place(TermDictionary(), columns, text=text)
    place.begin()
    place.settle()
    return place


def test_answers_older_than_the_subscription_do_not_count():
    place = evaluated("SELECT ?a { ?a <urn:p> ?b }")
    for identity, oldest in [(1, SINCE - 1), (2, SINCE)]:
        place.take(answer(place, 0, identity, oldest, ["<urn:a>", "<urn:b>"]))
    place.settle()
    assert place.held.total() == 1
    place.take(answer(place, 0, 1, SINCE + 1, ["<urn:a>", "<urn:b>"]))
    place.settle()
    assert place.held.total() == 2
    place.take(answer(place, 0, 1, GONE, ["<urn:a>", "<urn:b>"]))
    place.settle()
    assert place.held.total() == 1


def test_a_change_carries_the_latest_publication_time_of_its_facts():
    place = evaluated(COUNT)
    place.take(answer(place, 0, 1, 25, ["<urn:a>", "<urn:b>"], born=77))
    assert place.evaluation.born == 77
    place.take(answer(place, 0, 1, GONE, ["<urn:a>", "<urn:b>"], born=99))
    assert place.evaluation.born == 99


def test_a_row_that_came_and_went_in_between_is_not_reported():
    place = evaluated("SELECT ?a { ?a <urn:p> ?b }")
    for oldest in (25, GONE):
        place.take(answer(place, 0, 1, oldest, ["<urn:a>", "<urn:b>"]))
    assert list(place.work()) == []


def test_a_query_without_leaves_is_reported_once():
    place = evaluated("ASK {}")
    assert place.held == {(): 1}
    place.begin()
    assert list(place.work()) == []


def test_changes_are_compared_when_earlier_ones_have_reached_enough_replicas():
    """Between two reads of the log no change may be in flight, or it would be reported under another name."""
    place = evaluated(COUNT)
    place.take(answer(place, 0, 1, 25, ["<urn:a>", "<urn:b>"]))
    [message] = place.work()
    place.evaluation.staged += len(message)
    place.evaluation.stale = True
    assert not place.evaluation.waits
    place.take(answer(place, 0, 2, 25, ["<urn:c>", "<urn:b>"]))
    assert list(place.work()) == []
    place.take_own(message)
    place.evaluation.staged -= len(message)
    assert len(next(iter(place.work()))) == 2  # one count goes, another comes


@pytest.mark.parametrize("text", QUERIES)
def test_a_solution_that_came_and_went_before_the_evaluation_is_reported_when_it_comes_again(text):
    place = evaluated(text)
    for identity in range(1, 6):
        place.take(answer(place, 0, identity, 25, ["<urn:a>", "<urn:b>"]))
        place.settle()
        assert place.held == place.true()
        place.take(answer(place, 0, identity, GONE, ["<urn:a>", "<urn:b>"]))
        if identity % 2:
            place.settle()
        place.begin()
        place.settle()
        assert place.held == place.true()


def test_a_solution_that_another_replica_retracted_is_reported_when_it_becomes_true():
    """The incarnations that another replica reported and retracted are over, though none of them was true here."""
    place = evaluated(OPTIONAL)
    other = Place(place.replica.dictionary, LISTS, place.record)
    other.begin()
    for oldest in (25, GONE):
        other.take(answer(other, 0, 1, oldest, ["<urn:a>", "<urn:b>"]))
        for message in other.work():
            other.take_own(message)
            place.take(message)
    place.settle()
    place.take(answer(place, 0, 2, 25, ["<urn:a>", "<urn:b>"]))
    place.settle()
    assert place.held == place.true()
    assert place.held.total() == 1


def test_a_solution_retracted_elsewhere_and_here_is_reported_when_it_is_true_again():
    place = evaluated(OPTIONAL)
    other = Place(place.replica.dictionary, LISTS, place.record)
    other.begin()
    for each in (place, other):
        each.take(answer(each, 0, 1, 25, ["<urn:a>", "<urn:b>"]))
        each.settle()
    other.take(answer(other, 0, 1, GONE, ["<urn:a>", "<urn:b>"]))
    [message] = other.work()
    place.take(message)
    place.take(answer(place, 0, 1, GONE, ["<urn:a>", "<urn:b>"]))
    place.settle()
    place.take(answer(place, 0, 2, 25, ["<urn:a>", "<urn:b>"]))
    place.settle()
    assert place.held == place.true()
    assert place.held.total() == 1


def test_nothing_is_taken_back_before_all_that_is_true_has_been_worked_off(monkeypatch):
    place = evaluated(OPTIONAL)
    for identity in range(1, 8):
        place.take(answer(place, 0, identity, 25, ["<urn:a>", f"<urn:b{identity}>"]))
    place.settle()
    assert place.held.total() == 7
    monkeypatch.setattr("p2prdf.continuous.evaluation.PIECE", 3)
    place.begin()
    assert list(place.work()) == []
    assert place.evaluation.settled


def test_solutions_are_compared_in_pieces_together_with_concurrent_changes(monkeypatch):
    """A query may have more solutions than can be looked up while nothing else is done."""
    place = evaluated(OPTIONAL)
    for identity in range(1, 8):
        place.take(answer(place, 0, identity, 25, ["<urn:a>", f"<urn:b{identity}>"]))
    monkeypatch.setattr("p2prdf.continuous.evaluation.PIECE", 3)
    other = Place(place.replica.dictionary, LISTS, place.record)
    place.replica.tell(other.replica)
    other.begin()
    pieces = [len(message) for message in other.work() if other.take_own(message) is None]
    assert pieces == [3, 3, 1]
    other.begin()
    while other.evaluation.stale:
        other.evaluation.work(other.subscription.contents, other.subscription.log)
    assert not other.evaluation.settled
    for identity in range(1, 8):
        other.take(answer(other, 0, identity, GONE, ["<urn:a>", f"<urn:b{identity}>"]))
    assert not other.evaluation.settled
    other.settle()
    assert other.evaluation.settled
    assert not other.held


GROWS = "SELECT DISTINCT ?a { { ?a <urn:p> ?b } UNION { ?b <urn:q> ?a } }"


def _takes_over_without(text, *lacking):
    """Return a replica with all reports of another evaluator, without that one's ``lacking`` answers."""
    place = evaluated(text)
    other = Place(place.replica.dictionary, LISTS, place.record)
    for each in [(1, 25, "<urn:a>"), *lacking]:
        _hear(place, *each)
        for message in place.work():
            place.take_own(message)
            other.take(message)
        if each not in lacking:
            _hear(other, *each)
    other.begin()
    return other


def _hear(place, identity, oldest, subject):
    place.take(answer(place, 0, identity, oldest, [subject, "<urn:b>"]))


LATE = 2, 25, "<urn:c>"
GONE_AGAIN = 1, GONE, "<urn:a>"


@pytest.mark.parametrize("text", [GROWS, COUNT])
def test_a_solution_of_an_answer_in_flight_stays_until_the_answer_has_come(text):
    other = _takes_over_without(text, LATE)
    held = other.held
    assert list(other.work(stamp=50)) == []
    assert other.evaluation.doubts
    assert not other.evaluation.settled
    _hear(other, *LATE)
    assert list(other.work(stamp=51)) == []
    other.evaluation.sure(50)
    assert list(other.work(stamp=52)) == []
    assert other.evaluation.settled
    assert other.held == held == other.true()


@pytest.mark.parametrize("text", [GROWS, COUNT])
def test_a_solution_without_any_possible_answer_is_retracted(text):
    other = _takes_over_without(text, LATE)
    assert list(other.work(stamp=50)) == []
    other.evaluation.sure(49)
    assert list(other.work(stamp=52)) == []
    other.evaluation.sure(50)
    for message in other.work(stamp=53):
        other.take_own(message)
    assert other.evaluation.settled
    assert other.held == other.true()


def test_a_solution_retracted_for_a_reason_in_flight_is_not_reported_again():
    other = _takes_over_without(GROWS, GONE_AGAIN)
    assert other.true()
    assert list(other.work(stamp=50)) == []
    assert not other.evaluation.settled
    _hear(other, *GONE_AGAIN)
    assert list(other.work(stamp=51)) == []
    other.evaluation.sure(50)
    assert list(other.work(stamp=52)) == []
    assert other.evaluation.settled
    assert not other.held


def test_a_solution_reported_for_the_first_time_waits_for_nothing():
    other = _takes_over_without(GROWS, LATE)
    _hear(other, 3, 25, "<urn:d>")
    [message] = other.work(stamp=50)
    assert len(message) == 1
    assert not other.evaluation.settled


def test_a_concurrent_report_of_another_replica_is_waited_for_by_its_own_stamp():
    other = _takes_over_without(GROWS, LATE)
    assert list(other.work(stamp=50)) == []
    third = Place(other.replica.dictionary, LISTS, other.record)
    third.begin()
    third.settle()
    _hear(third, 3, 25, "<urn:d>")
    [message] = third.work()
    other.take(message)
    assert list(other.work(stamp=60)) == []
    other.evaluation.sure(50)
    [message] = other.work(stamp=61)
    other.take_own(message)
    assert len(message) == 1
    assert other.held.total() == 2  # the solutions known to both, and those that may follow from facts up to stamp 60
    assert not other.evaluation.settled


@pytest.mark.parametrize("missing", [0, 1])
def test_a_solution_reported_after_a_lost_one_is_retracted_or_counted(missing):
    """The evaluator reported two copies of a row, one after the other, and failed: one record is lost with it."""
    place = evaluated("SELECT ?a { ?a <urn:p> ?b }")
    messages = []
    for identity in (1, 2):
        place.take(answer(place, 0, identity, 25, ["<urn:a>", f"<urn:b{identity}>"]))
        for message in place.work():
            place.take_own(message)
            messages.append(message)
    other = Place(place.replica.dictionary, LISTS, place.record)
    other.take(answer(other, 0, 1, 25, ["<urn:a>", "<urn:b1>"]))
    other.take(messages[1 - missing])
    other.begin()
    other.settle()
    assert other.held == other.true()
    other.take(answer(other, 0, 1, GONE, ["<urn:a>", "<urn:b1>"]))
    other.settle()
    assert not other.held


def test_a_copy_reported_after_a_lost_retraction_is_retracted():
    place = evaluated("SELECT ?a { ?a <urn:p> ?b }")
    messages = []
    for identity, oldest in [(1, 25), (1, GONE), (2, 25)]:
        place.take(answer(place, 0, identity, oldest, ["<urn:a>", "<urn:b>"]))
        for message in place.work():
            place.take_own(message)
            messages.append(message)
    other = Place(place.replica.dictionary, LISTS, place.record)
    other.take(answer(other, 0, 2, 25, ["<urn:a>", "<urn:b>"]))
    other.take(messages[0])
    other.take(messages[2])
    other.begin()
    other.settle()
    assert other.held == other.true()


@dataclass
class Subscriber:
    """The solutions that a subscriber holds, and its complaints about wrong notifications."""

    held: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unsettled: dict[int, None] = field(default_factory=dict)
    """Names that it would recognise if they came again."""
    complaints: list[str] = field(default_factory=list)

    def take(self, chunk):
        """Take in a delivery; return the names to acknowledge."""
        done = []
        columns = [as_list(column) for column in chunk.bindings]
        for at, (name, time) in enumerate(zip(as_list(chunk.identity), as_list(chunk.born), strict=True)):
            done.append(name)
            if name in self.unsettled:
                continue
            self.unsettled[name] = None
            if time < GONE:
                if name in self.held:
                    self.complaints.append(f"{name:x} was told twice")
                self.held[name] = tuple(column[at] for column in columns)
            elif self.held.pop(name ^ WITHDRAWN, None) is None:  # it never had it
                self.unsettled[name ^ WITHDRAWN] = None
                done.append(name ^ WITHDRAWN)
        if chunk.lost:
            self.complaints.append(f"{chunk.lost} were lost")
        return done

    def settled(self, names):
        """Forget names that never come again."""
        for name in names:
            self.unsettled.pop(name, None)


def test_a_mark_makes_nothing_doubtful_that_changes_meanwhile():
    """The query's answer changes all the time, and the last report is always still on its way to replicas."""
    other = _takes_over_without(COUNT, LATE)
    assert list(other.work(stamp=50)) == []
    assert other.evaluation.doubts
    for identity in (51, 52):
        _hear(other, identity, identity, f"<urn:x{identity}>")
    told = list(other.work(stamp=52))
    other.evaluation.staged += sum(map(len, told))
    for stamp in range(53, 60):
        _hear(other, stamp, stamp, f"<urn:x{stamp}>")
        other.evaluation.sure(stamp - 1)
        news = list(other.work(stamp=stamp))
        _staged(other, told)
        told = news
        other.evaluation.staged += sum(map(len, told))
        assert not other.evaluation.doubts
    _staged(other, told)
    assert other.held == other.true()


def _staged(place, told):
    """Let enough replicas have the reported changes."""
    for message in told:
        place.evaluation.staged -= len(message)
        place.take_own(message)


def test_a_watermark_does_not_restart_a_comparison_in_progress(monkeypatch):
    """Otherwise the end is never reached, if watermarks come sooner than the comparison takes."""
    monkeypatch.setattr("p2prdf.continuous.evaluation.PIECE", 2)
    place = evaluated(GROWS)
    other = Place(place.replica.dictionary, LISTS, place.record)
    for number in range(30):
        _hear(place, number, 25, f"<urn:c{number}>")
        if number >= 4:  # the first four are known to the former evaluator alone
            _hear(other, number, 25, f"<urn:c{number}>")
    for message in place.work():
        place.take_own(message)
        other.take(message)
    other.begin()
    for stamp in range(50, 90):
        other.evaluation.sure(stamp - 1)
        news = other.evaluation.work(other.subscription.contents, other.subscription.log, stamp=stamp)
        if news:
            other.take_own(other.replica.message(other.subscription, other.evaluation, news))
    assert other.evaluation.settled
    assert other.held == other.true()


class Story:
    """Three replicas, one of which evaluates, and a subscriber; their messages arrive in any order.

    ``marked``: a replica may know answers that others do not have yet, and low watermarks tell when all have
    them.
    """

    def __init__(self, rng, text, columns, *, marked):
        self.rng = rng
        self.marked = marked
        first = Place(TermDictionary(), columns, text=text)
        self.places = [first, *(Place(first.replica.dictionary, columns, first.record) for _ in range(2))]
        self.active = first
        first.begin()
        self.links = [[] for _ in self.places]
        """Answers of leaves on their way to each."""
        self.told = []
        """Reports on their way to replicas: evaluation, message, and the places that do not have it."""
        self.acknowledged = []
        self.subscriber = Subscriber()
        self.answers = {}
        self.stamp = SINCE

    def leaf_changes(self):
        rng, self.stamp = self.rng, self.stamp + 1
        if self.answers and rng.random() < 0.45:
            identity = rng.choice(list(self.answers))
            leaf, row = self.answers[identity]
            oldest = rng.choice((GONE, GONE, self.stamp))
            if oldest == GONE:
                del self.answers[identity]
        else:
            identity, oldest = rng.getrandbits(60), rng.choice((SINCE - 5, self.stamp, self.stamp))
            leaf = rng.randrange(len(self.active.subscription.group.leaves))
            row = [f"<urn:{rng.choice('ab')}>", f"<urn:{rng.choice('abc')}>"]
            self.answers[identity] = (leaf, row)
        for place, link in zip(self.places, self.links, strict=True):
            link.append(answer(place, leaf, identity, oldest, row, self.stamp))

    def leaf_answer_comes(self):
        at = self.rng.randrange(len(self.places))
        if self.links[at]:
            self.places[at].take(self.links[at].pop(self.rng.randrange(len(self.links[at]))))

    def work(self):
        active = self.active
        if active.evaluation.waits:
            stamp = self.stamp if self.marked else 0
            news = active.evaluation.work(active.subscription.contents, active.subscription.log, stamp=stamp)
            if news:
                message = active.replica.message(active.subscription, active.evaluation, news)
                active.evaluation.staged += len(message)
                others = [place for place in self.places if place is not active]
                self.told.append((active, active.evaluation, message, others))

    def mark(self):
        """Advance the low watermark: nothing stamped before it is in flight."""
        under_way = [min(as_list(message.rows.born)) & ~GONE for link in self.links for message in link]
        under_way += [min(map(plain, as_list(message.born))) for _, _, message, _ in self.told]
        self.active.evaluation.sure(min([self.stamp, *(stamp - 1 for stamp in under_way)]))

    def told_comes(self):
        """Let one replica receive another's report; the subscriber gets it when two have it."""
        if self.told:
            place, evaluation, message, others = one = self.rng.choice(self.told)
            other = others.pop(self.rng.randrange(len(others)))
            other.take(message)
            if len(others) == 1:
                self._staged(place, evaluation, message)
            if not others:
                self.told = [each for each in self.told if each is not one]

    def _staged(self, place, evaluation, message):
        evaluation.staged -= len(message)
        place.take_own(message)
        if place.evaluation is not None and place.evaluation is not evaluation:
            place.evaluation.stale = True

    def deliver(self):
        """Notify the subscriber; all replicas hear of its acknowledgements in the end."""
        for chunk in self.active.subscription.log.take(100, self.rng.choice((1, 5, 100))):
            if names := self.subscriber.take(chunk):
                self.acknowledged.append((names, list(self.places)))

    def acknowledgement_comes(self):
        if self.acknowledged:
            names, left = one = self.rng.choice(self.acknowledged)
            place = left.pop(self.rng.randrange(len(left)))
            place.take(KeepAcknowledged(place.subscription.number, place.replica.columns.column(names)))
            if not left:
                self.acknowledged = [each for each in self.acknowledged if each is not one]
                self.subscriber.settled(names)

    def move(self):
        """Begin to evaluate anew, perhaps on another replica, once that has the data of the others."""
        before = self.active
        for _, evaluation, message, others in list(self.told):
            if len(others) == 2 and self.rng.random() < 0.7:  # it was on no disk except the failed replica's
                self.told = [each for each in self.told if each[2] is not message]
                if self.rng.random() < 0.5:
                    self._staged(before, evaluation, message)
        before.evaluation = None
        self.active = self.rng.choice(self.places)
        for other in self.places:
            if other is not self.active:
                other.replica.tell(self.active.replica)
                if self.rng.random() < 0.5:
                    self.active.replica.tell(other.replica)
        self.active.begin()

    def heal(self):
        """Let everything arrive that is under way."""
        turns = 0
        while any((self.told, self.acknowledged, *self.links)) or not self.active.evaluation.settled:
            turns += 1
            assert turns < 20_000, "it never comes to rest"
            for step in (
                self.leaf_answer_comes, self.work, self.told_comes, self.deliver, self.acknowledgement_comes, self.mark
            ):  # fmt: skip
                step()
        for one in self.places:
            for other in self.places:
                for message in list(one.replica.items.everything()) if one is not other else ():
                    other.take(message)
        self.active.settle(self.stamp if self.marked else 0)


@pytest.mark.parametrize("seed", range(300))
def test_the_subscriber_holds_the_truth_and_hears_each_change_once_on_any_evaluator(seed, monkeypatch):
    """Also if some replicas never receive a report, and if reported names are lost with their evaluator."""
    rng = Random(f"evaluation {seed}")
    monkeypatch.setattr("p2prdf.continuous.evaluation.PIECE", rng.choice((1, 2, 2048)))
    marked = seed % 2 == 1
    story = Story(rng, QUERIES[seed // 2 % len(QUERIES)], ARRAYS if seed % 4 == 0 else LISTS, marked=marked)
    steps = [
        story.leaf_changes, story.leaf_answer_comes, story.leaf_answer_comes, story.leaf_answer_comes, story.work,
        story.work, story.told_comes, story.told_comes, story.deliver, story.acknowledgement_comes, story.mark,
    ]  # fmt: skip
    for _ in range(rng.choice((20, 100, 300))):
        rng.choice(steps)()
        if rng.random() < 0.04:
            story.move()
    story.heal()
    story.deliver()
    while story.acknowledged:
        story.acknowledgement_comes()
    assert story.subscriber.complaints == []
    assert Counter(story.subscriber.held.values()) == story.active.true()
    for place in story.places:
        if place is not story.active:
            story.active.replica.tell(place.replica)
            place.replica.tell(story.active.replica)
    assert equal(*(place.replica for place in story.places))
