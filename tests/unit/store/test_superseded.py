"""The first interval of a triple comes to stand for all ended ones, and nothing returns."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_items import items_of, version_of
from store_tables import EVERY_ROLE, Harness, new_tables, path

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.store import columnar_forget, light_forget
from p2prdf.store.intervals import ValidityIntervals, later_time
from p2prdf.store.items import NOT_SEEN
from p2prdf.store.tables import NEVER

INDEXES = keys.CSBV_ROLES


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Use small pieces, so that few triples need many."""
    monkeypatch.setattr(columnar_forget, "INTERVALS_AT_ONCE", 2)
    monkeypatch.setattr(light_forget, "_AT_ONCE", 2)


@pytest.fixture(params=["light", "columnar"])
def kind(request):
    """Both kinds of tables."""
    return request.param


class History:
    """Tables with a query of two patterns that all publications and deletions go to."""

    def __init__(self, kind, *, forgets=True):
        self.tables, self.dictionary = new_tables(kind, forgets=forgets)
        self.harness = Harness(self.tables)
        *self.terms, = self.dictionary.intern_all(["<a>", "<b>", "<c>"])
        _, answers = self.harness.query(path("<b>", "<b>"), self.dictionary, since=1)
        self.ended = {}
        self.follow(answers)

    def follow(self, answers):
        """Note each solution as valid or, for good, as ended."""
        for identity, oldest, *rest in answers:
            over = oldest == GONE
            if not self.ended.get(identity, (False,))[0]:
                self.ended[identity] = over, tuple(rest[1:])

    def say(self, triple, time, roles=EVERY_ROLE):
        self.follow(self.harness.triples([triple], time, roles))

    def forget(self, before):
        self.tables.forget_superseded(before)
        for _ in range(1000):
            if not self.tables.forgetting:
                return
            self.tables.forget_some()
        raise AssertionError("there is always more to forget")

    @property
    def valid(self):
        """The bindings of valid solutions, with multiplicity."""
        return sorted(bound for over, bound in self.ended.values() if not over)

    @property
    def held(self):
        s, p, o, time, _, roles = map(as_list, self.tables.triples_since(0))
        return sorted(zip(s, p, o, time, roles, strict=True))

    def triple(self, number):
        a, b, c = self.terms
        return ((a, b, a), (a, b, c), (c, b, a))[number]


# --- the rule ------------------------------------------------------------------------------------

operations = st.lists(st.integers(-40, 40).filter(bool), min_size=1, max_size=12)


class Model:
    """The intervals of one triple."""

    def __init__(self):
        self.intervals: ValidityIntervals[str] = ValidityIntervals()
        self.times: dict[int, int] = {}

    def time_of(self, begin):
        return self.times.get(begin, 0)

    def say(self, operation):
        if operation > 0:
            changes = list(self.intervals.publish("t", operation, self.time_of, lambda _: True))
        else:
            changes = list(self.intervals.remove("t", -operation, self.time_of, lambda _: True))
        for begin, time, _ in changes:
            self.times[begin] = later_time(self.time_of(begin), time)

    def forget(self, before):
        begins = self.intervals.forget("t", before, self.time_of, lambda begin: int(begin in self.times), 99)
        for begin in begins:
            self.times.pop(begin, None)
        if begins:
            self.times[0] = GONE | self.intervals.first_end("t")

    @property
    def held(self):
        return {begin: time for begin, time in self.times.items() if time}


@given(operations, operations, operations, st.integers(1, 45))
def test_what_is_kept_is_what_would_be_there_without_forgetting(known, late, later, before):
    """``late`` repeats, or comes for the first time, from before the horizon; ``later`` from after it."""
    forgetful, full = Model(), Model()
    for each in known:
        forgetful.say(each)
        full.say(each)
    forgetful.forget(before)
    for each in [*known[::2], *later, *known, *late]:
        forgetful.say(each)
        full.say(each)
        forgetful.forget(0)
    kept, there = forgetful.held, full.held
    assert {begin: time for begin, time in there.items() if time < GONE} == {
        begin: time for begin, time in kept.items() if time < GONE
    }
    first_end = max(0, kept.get(0, 0) - GONE)
    merged = {begin: time for begin, time in there.items() if begin < first_end}
    assert merged == {} or max(merged.values()) == kept[0], "the first stands for all that ended by then"
    assert all(time >= GONE for time in merged.values())
    assert {begin: time for begin, time in there.items() if begin >= first_end} == {
        begin: time for begin, time in kept.items() if begin or not first_end
    }


def test_the_first_interval_ends_with_the_latest_one_that_ended_before_the_horizon():
    model = Model()
    for each in (1, -2, 3, -4, 5, -6):
        model.say(each)
    model.forget(4)
    assert model.held == {0: GONE | 2, 2: GONE | 4, 4: GONE | 6}
    model.forget(6)
    assert model.held == {0: GONE | 4, 4: GONE | 6}
    model.forget(100)
    assert model.held == {0: GONE | 6}
    model.say(7)
    model.forget(100)
    assert model.held == {0: GONE | 6, 6: 7}
    for each in (-1, -3, 5, -6, 6, 2):
        model.say(each)
        assert model.held == {0: GONE | 6, 6: 7}, "deletions and publications of forgotten intervals change nothing"


def test_a_peer_without_the_deletion_names_the_interval_that_stays_elsewhere():
    """It lost its disk, and is lost once more before it has compared: others retract its solutions by that name."""
    others, empty = Model(), Model()
    for each in (1, -2, 3, -4, 5):
        others.say(each)
    others.forget(100)
    empty.say(5)
    (name,) = empty.held
    assert others.held[name] == GONE | 4


def test_an_interval_with_an_index_that_the_first_one_lacks_stays():
    intervals: ValidityIntervals[str] = ValidityIntervals()
    times, roles = {0: 1}, {0: 0b01, 2: 0b11}
    for end in (2, 4):
        changed = list(intervals.remove("t", end, lambda begin: times.get(begin, 0), lambda _: False))
        times.update((begin, time) for begin, time, _ in changed)

    def forget():
        return intervals.forget("t", 10, lambda begin: times.get(begin, 0), lambda begin: roles.get(begin, 0), 99)

    assert not forget()
    roles[0] = 0b11
    assert forget() == [2]


# --- tables --------------------------------------------------------------------------------------

def toggled(history, count, first=0):
    for stamp in range(10 * first + 1, 10 * (first + count), 10):
        for number in range(3):
            history.say(history.triple(number), stamp + number, INDEXES)
        for number in range(3):
            history.say(history.triple(number), GONE | stamp + 4 + number, INDEXES)


def test_a_triple_published_and_deleted_many_times_is_held_once(kind):
    """Rows, index entries and the contents of a snapshot after 30, 100 and 300 times; bytes of arrays."""
    sizes = []
    for count in (30, 100, 300):
        history = History(kind)
        for turn in range(count):
            toggled(history, 1, turn)
            history.forget(10 * turn)
        history.forget(10 * count)
        told = history.tables.sizes()
        index_bytes = sum(each.nbytes for each in [history.tables._triples]) if kind == "columnar" else 0
        sizes.append((told.triples, told.triple_roles, len(history.held), index_bytes))
        assert told.intervals_forgotten == 3 * (count - 1)
        assert not history.valid
    assert sizes == sizes[:1] * 3
    assert sizes[0][:3] == (3, 21, 3), "three triples, each with its last end"


def test_the_entries_of_join_indexes_do_not_grow_either(kind):
    counts = []
    for count in (5, 50):
        history = History(kind)
        for turn in range(count):
            toggled(history, 1, turn)
            history.forget(10 * turn)
        a, b, _ = history.terms
        tables = history.tables
        if kind == "light":
            counts.append(sum(
                len(each) for of_role in tables._join_indexes[0] for index in of_role for each in index.triples.values()
            ))
        else:
            counts.append(sum(len(index.triples) for held in tables._join_indexes.values() for index in held))
        assert tables.count(keys.S | keys.P, a, b, 0) <= 6
    assert counts[0] == counts[1]


said = st.tuples(st.integers(0, 2), st.integers(1, 30), st.booleans(), st.sampled_from([INDEXES, EVERY_ROLE]))


@settings(max_examples=120, deadline=None)
@given(st.lists(said, max_size=25), st.lists(said, max_size=10), st.lists(st.integers(0, 30), min_size=25, max_size=25))
def test_solutions_are_those_without_forgetting(first, second, horizons):
    """Deletions and publications in any order, repeated, and a horizon after each; both kinds of tables."""
    told = []
    for made, forgets in (("light", False), ("light", True), ("columnar", False), ("columnar", True)):
        history = History(made)
        told.append(history)
        for place, (number, stamp, removed, roles) in enumerate([*first, *second, *first]):
            history.say(history.triple(number), stamp | (GONE if removed else 0), roles)
            if forgets:
                history.forget(horizons[place % len(horizons)])
    assert [each.valid for each in told] == [told[0].valid] * 4
    living = [[each[:4] for each in history.held if each[3] < GONE] for history in told]
    assert living == living[:1] * 4
    light, columnar = ({each[:4] for each in told[at].held} for at in (1, 3))
    assert columnar <= light, "a row that is used again keeps its indexes, so it covers more"


def test_a_join_index_made_while_a_row_is_free_has_it_when_it_is_used_again(kind):
    history = History(kind)
    for stamp in (1, GONE | 2, 3, GONE | 4, 5):
        history.say(history.triple(0), stamp, INDEXES)
    history.forget(10)
    for query in (path("<b>"), around()):
        _, answers = history.harness.query(query, history.dictionary, since=1)
        assert [row[1] for row in answers if row[1] < GONE] == [5]
    history.say(history.triple(0), GONE | 20, INDEXES)
    history.harness.triples([history.triple(0)], 30, INDEXES)
    _, answers = history.harness.query(around("p"), history.dictionary, since=1)
    assert sum(1 for row in answers if row[1] < GONE) == 1


def around(*names):
    """Return SELECT ?p ?o, or fewer of these, WHERE { <a> ?p ?o }."""
    names = names or ("p", "o")
    return ConjunctiveQuery(((~0, 0, 1),), ("<a>",), tuple(range(len(names))), names)


def test_a_late_end_lowers_the_horizon(kind):
    """It may be new to other peers, and its retractions are under way."""
    history = History(kind)
    for stamp in (1, GONE | 2, 3, GONE | 4):
        history.say(history.triple(0), stamp)
    history.forget(1)
    assert history.tables.superseded_before == 1
    history.tables.forget_superseded(20)
    for stamp in (5, GONE | 10, 12, GONE | 14):
        history.say(history.triple(1), stamp)
    assert history.tables.superseded_before == 10
    while history.tables.forgetting:
        history.tables.forget_some()
    assert history.tables.sizes().intervals_forgotten == 1, "that of the first triple"


def test_a_triple_that_changes_after_the_horizon_was_raised_is_looked_at(kind):
    """A late deletion lowers the horizon, and an earlier one of the same triple comes even later."""
    history = History(kind)
    history.say(history.triple(0), 1)
    history.forget(10)
    history.say(history.triple(0), GONE | 5)
    assert not history.tables.forgetting
    history.say(history.triple(0), GONE | 4)
    assert history.tables.forgetting
    history.tables.forget_some()
    assert not history.tables.sizes().intervals_forgotten, "it ended after the horizon"
    history.forget(6)
    assert history.tables.sizes().intervals_forgotten == 1
    assert not history.tables.forgetting
    assert not history.tables.superseded


def test_without_a_horizon_nothing_is_forgotten_and_no_work_waits(kind):
    history = History(kind)
    for stamp in (1, GONE | 2, 3, GONE | 4):
        history.say(history.triple(0), stamp)
    assert not history.tables.forgetting
    history.forget(0)
    assert history.tables.superseded
    assert not history.tables.sizes().intervals_forgotten


def test_tables_that_never_forget_note_nothing(kind):
    history = History(kind, forgets=False)
    toggled(history, 5)
    assert not history.tables.superseded
    history.forget(100)
    assert not history.tables.sizes().intervals_forgotten
    assert len(history.held) > 6


def given_to(one, other):
    """Give all items under all indexes, as anti-entropy does with those that the other one lacks."""
    make = other.tables.columns
    for role in range(8):
        handle = one.tables.triple_items(role, False).handle
        columns = one.tables.export_triples(role, False, handle)
        kinds = ("uint32", "uint32", "uint32", "uint64", "uint64", "uint32")
        adopted = [make.adopt(column, dtype) for column, dtype in zip(columns, kinds, strict=True)]
        other.tables.add_triples(*adopted)


def triples_of(history):
    return {each for each in items_of(history.tables) if each[0] == "triple"}


@pytest.mark.parametrize("behind", [2, 4, 6])
def test_a_replica_that_was_behind_does_not_bring_deleted_triples_back(kind, behind):
    """It missed deletions that are forgotten elsewhere; the deletion that stayed reaches it in one exchange."""
    one, other = History(kind), History("columnar" if kind == "light" else "light")
    steps = [1, GONE | 2, 3, GONE | 4, 5, GONE | 6]
    for place, stamp in enumerate(steps):
        one.say(one.triple(0), stamp, INDEXES)
        if place < behind - 1:
            other.say(other.triple(0), stamp, INDEXES)
    one.forget(100)
    assert len(one.held) == 1
    for _ in range(2):
        given_to(other, one)
        given_to(one, other)
    for each in (one, other):
        assert not [held for held in each.held if held[3] < GONE]
    other.forget(100)
    assert one.held == other.held
    assert triples_of(one) == triples_of(other)


def test_a_piece_forgets_few_intervals_of_a_triple_with_very_many(kind):
    history = History(kind)
    toggled(history, 7)
    history.tables.forget_superseded(100)
    counts = []
    while history.tables.forgetting:
        history.tables.forget_some()
        counts.append(history.tables.sizes().intervals_forgotten)
    assert counts[-1] == 3 * 6
    assert all(later - earlier <= 2 * 2 for earlier, later in pairwise([0, *counts]))
    assert not history.tables.superseded


def test_digests_follow_what_is_forgotten(kind):
    """The version grows, and the recorded changes name the rows that are no items any more."""
    history = History(kind)
    toggled(history, 3)
    _, seen = history.tables.changed_triples(False, NOT_SEEN)
    before = version_of(history.tables)
    count = len(list(items_of(history.tables)))
    history.forget(100)
    assert version_of(history.tables) != before
    assert len(list(items_of(history.tables))) == count - 3 * 2 * 7
    changed, _ = history.tables.changed_triples(False, seen)
    if changed is not None:
        assert len(changed) == 3 * (2 + 1), "two are forgotten, and the first ends later"
    toggled(history, 1, 20)
    history.forget(NEVER)
    versions = [version_of(history.tables)]
    for turn in range(30, 33):
        toggled(history, 1, turn)
        versions.append(version_of(history.tables))
        history.forget(NEVER)
        versions.append(version_of(history.tables))
    assert all(one != other for one, other in pairwise(versions))
