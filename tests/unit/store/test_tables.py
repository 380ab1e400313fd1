"""One contract, two implementations: the same operations on light and columnar tables give the same rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quads_as_triples import as_triples
from store_tables import BOTH_KINDS, EVERY_ROLE, TERMS, Harness, bindings, brute_force, canonical, new_tables, path

from p2prdf import keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.hlc import GONE
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, make_plan
from p2prdf.rdf.standing.query import parse_query
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.intervals import LATE
from p2prdf.store.tables import Derived, Tables
from p2prdf.wire.messages import Groups


@pytest.fixture(params=["light", "columnar"])
def kind(request):
    """Both kinds of tables."""
    return request.param


def test_the_second_of_a_pair_joins_it(kind):
    """A row meets triples stored before it, a triple meets rows stored before it, each once."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    before = harness.triples([(a, b, c)], time=10)
    _, at_query = harness.query(path("<b>", "<b>"), dictionary, since=5)
    after = harness.triples([(c, b, a), (c, b, c)], time=11)
    again = harness.triples([(c, b, a), (c, b, c)], time=11)
    assert not before
    assert not at_query
    assert bindings(after) == Counter([(a, c, a), (a, c, c), (c, a, c), (c, c, a), (c, c, c)])
    assert not again


def test_a_triple_older_than_the_subscription_does_not_count_until_it_is_published_again(kind):
    """The same triple again changes nothing for subscriptions that had it and counts for those made in between."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.triples([(a, b, c)], time=10)
    _, early = harness.query(path("<b>"), dictionary, since=11)
    later = harness.triples([(a, b, c)], time=12)
    again = harness.triples([(a, b, c)], time=13)
    assert not early
    assert bindings(later) == Counter([(a, c)])
    assert not again


def changes(answers) -> list[tuple[int, tuple[int, ...]]]:
    """Signs and bindings of answers."""
    return sorted((-1 if row[1] == GONE else 1, row[3:]) for row in answers.elements())


def test_answers_are_taken_back_under_the_identities_they_had(kind):
    """All answers that follow from a removed triple, also by way of waiting rows, with the stamp of the removal."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(path("<b>", "<b>"), dictionary, since=1)
    told = harness.triples([(a, b, c), (c, b, a), (c, b, c)], time=2)
    gone = harness.triples([(a, b, c)], time=GONE | 5)
    assert changes(gone) == [(-1, (a, c, a)), (-1, (a, c, c)), (-1, (c, a, c))]
    assert {row[0] for row in gone} <= {row[0] for row in told}
    assert {row[1:3] for row in gone} == {(GONE, 5)}
    assert not harness.triples([(a, b, c)], time=GONE | 5)
    assert not harness.triples([(a, b, c)], time=4), "it was published before it was removed"


def test_a_triple_published_again_after_its_removal_makes_answers_of_its_own(kind):
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(path("<b>"), dictionary, since=1)
    (first,) = harness.triples([(a, b, c)], time=2)
    harness.triples([(a, b, c)], time=GONE | 3)
    (second,) = harness.triples([(a, b, c)], time=4)
    (gone,) = harness.triples([(a, b, c)], time=GONE | 5)
    assert first[0] != second[0] == gone[0]


def test_a_late_removal_retracts_the_answers_that_a_timely_one_would_have(kind):
    """The answer to the earlier publication ends, and that to the later one has another identity."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(path("<b>"), dictionary, since=1)
    (first,) = harness.triples([(a, b, c)], time=2)
    assert not harness.triples([(a, b, c)], time=9)
    late = harness.triples([(a, b, c)], time=GONE | 5)
    assert changes(late) == [(-1, (a, c)), (1, (a, c))]
    assert next(row[0] for row in late if row[1] == GONE) == first[0]


def test_a_waiting_row_of_a_removed_triple_has_no_true_answers(kind):
    """A partial result that has ended retracts the answers that others may have made of it: none ever comes as true."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(path("<b>", "<c>"), dictionary, since=1)
    harness.triples([(a, b, c)], time=2)
    harness.triples([(a, b, c)], time=GONE | 3)
    assert changes(harness.triples([(c, c, a)], time=4)) == [(-1, (a, c, a))]


def test_a_triple_removed_before_a_subscription_does_not_count_for_it(kind):
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.triples([(a, b, c)], time=2)
    harness.triples([(a, b, c)], time=GONE | 3)
    long_after = 4 + LATE
    _, at_query = harness.query(path("<b>"), dictionary, since=long_after)
    assert not at_query
    assert changes(harness.triples([(a, b, c)], time=long_after)) == [(1, (a, c))]


@pytest.mark.parametrize("before", [0, 2 * LATE])
def test_a_publication_that_is_heard_of_before_a_removal_older_than_the_query_is_taken_back_and_counts(kind, before):
    """It was taken for the interval that the removal ends; now it is known to have come after.

    A removal is not in flight for long, but it may have gone under other indexes and be heard of much later.
    """
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(path("<b>"), dictionary, since=before + 6)
    (first,) = harness.triples([(a, b, c)], time=before + 8)
    late = harness.triples([(a, b, c)], time=GONE | 5)
    assert changes(late) == [(-1, (a, c)), (1, (a, c))]
    assert next(row[0] for row in late if row[1] == GONE) == first[0]


@pytest.mark.parametrize("before", [0, 2 * LATE])
def test_answers_of_others_for_an_interval_ended_under_another_index_are_retracted(kind, before):
    """They had not heard of the removal: it went under the one index that was in use then."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    plan, _ = harness.query(path("<b>"), dictionary, since=before + 6)
    role = keys.role_bit(plan.steps[0].role, per_event=False)
    elsewhere, terms = new_tables(kind)
    for each in TERMS[:3]:
        terms.intern(each)
    other = Harness(elsewhere)
    other.query(path("<b>"), terms, since=before + 6)
    (mistaken,) = other.triples([(a, b, c)], time=before + 8, roles=role)
    for number, stamp in enumerate((3, 5)):
        harness.triples([(a, b, c)], time=GONE | stamp, roles=EVERY_ROLE & ~role, first_event=number)
    told = harness.triples([(a, b, c)], time=before + 8, roles=role)
    assert changes(told) == [(-1, (a, c)), (-1, (a, c)), (1, (a, c))]
    assert mistaken[0] in {row[0] for row in told if row[1] == GONE}
    assert not harness.triples([(a, b, c)], time=before + 9, roles=role)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_values_that_ended_long_ago_cost_nothing(kind, order):
    """A value that changes all the time is joined in proportion to its changes, not with all its former values."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    values = [dictionary.intern(f'"{number}"') for number in range(50)]
    query = ConjunctiveQuery(((0, ~0, 1), (0, ~1, 2)), ("<b>", "<c>"), (0, 1, 2), ("s", "v", "o"))
    harness.query(query, dictionary, since=1, order=order)
    harness.triples([(a, c, c)], time=2)
    true = set()
    for time, value in enumerate(values, 10):
        tables.over_before = time * 10
        told = changes(harness.triples([(a, b, value)], time=time * 10))
        told += changes(harness.triples([(a, b, value)], time=GONE | time * 10 + 1))
        told += changes(harness.triples([(a, c, c)], time=GONE | time * 10 + 2))
        told += changes(harness.triples([(a, c, c)], time=time * 10 + 3))
        for sign, row in told:
            (true.add if sign > 0 else true.discard)(row)
    assert not true
    assert tables.sizes().joined < 12 * len(values)


def updated(tables, dictionary, count: int, order=(0, 1), *, query_first: bool) -> tuple[Harness, Counter]:
    """Replace two values of one subject ``count`` times, as a peer that joins alone; return all answers."""
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    query = ConjunctiveQuery(((0, ~0, 1), (0, ~1, 2)), ("<b>", "<c>"), (0, 1, 2), ("s", "v", "o"))
    told: Counter[tuple[int, ...]] = Counter()
    tables.settled = 5
    if query_first:
        harness.query(query, dictionary, since=1, order=order)
    for time, value in enumerate([dictionary.intern(f'"{number}"') for number in range(count)]):
        tables.settled = time * 10 + 10
        if time:
            told += harness.triples([(a, b, value - 1), (a, c, value - 1)], time=GONE | time * 10 + 9)
        told += harness.triples([(a, b, value), (a, c, value)], time=time * 10 + 10)
    tables.settled += 1
    if not query_first:
        told += harness.query(query, dictionary, since=1, order=order)[1]
    return harness, told


@pytest.mark.parametrize("count", [50, 1000])
@pytest.mark.parametrize("query_first", [True, False])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_values_that_never_overlapped_are_not_joined(kind, order, query_first, count):
    """Two values that are each replaced n times make pairs in proportion to n, and not to its square.

    An incremental engine touches two rows for each of the two changes of a value.
    """
    tables, dictionary = new_tables(kind)
    harness, told = updated(tables, dictionary, count, order, query_first=query_first)
    true = Counter(row[3:] for row in told if row[1] != GONE)
    true -= Counter(row[3:] for row in told if row[1] == GONE)
    assert len(true) == 1
    assert tables.sizes().joined < (5 * count if query_first else 3)
    assert len(told) == (2 * count - 1 if query_first else 1)
    if count < 100:
        again = harness.rejoin(lambda _, column: [True] * len(column))
        assert {row[0] for row in told} <= {row[0] for row in again}, "a new primary joins everything"
    tables.stable_before = tables.latest_end + 1
    joined = tables.sizes().joined
    again = harness.rejoin(lambda _, column: [True] * len(column))
    assert len(again) == 1
    assert tables.sizes().joined - joined <= 2, "only the pairs that are valid"


_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.integers(2, 40), st.integers(0, 3)),
    min_size=3, max_size=24,
)  # fmt: skip


@given(_STEPS, st.sampled_from(["light", "columnar"]), st.integers(0, 24), st.sampled_from([(0, 1), (1, 0)]))
@settings(max_examples=300, deadline=None)
def test_solutions_are_the_same_if_values_that_never_overlapped_are_not_joined(steps, kind, query_at, order):
    """Publications and removals come in any order of their stamps; queries come before, between and after them."""
    found = []
    for settled in (False, True):
        tables, dictionary = new_tables(kind)
        harness = Harness(tables)
        b, c = (dictionary.intern(each) for each in TERMS[1:3])
        values = [dictionary.intern(f'"{number}"') for number in range(4)]
        query = ConjunctiveQuery(((0, ~0, 1), (0, ~1, 2)), ("<b>", "<c>"), (0, 1, 2), ("s", "v", "o"))
        held: dict[int, bool] = {}

        def take(answers, held=held):
            for row in answers.elements():
                held[row[0]] = held.get(row[0], False) or row[1] == GONE

        for at, (first, second, removed, stamp, what) in enumerate(steps):
            tables.settled = 20 + at if settled else 0
            if at == query_at % len(steps):
                take(harness.query(query, dictionary, since=1, order=order)[1])
            pair = [(values[0], b, values[first]), (values[0], c, values[second])]
            take(harness.triples(pair[what == 1 : 1 if what == 2 else 2], time=GONE | stamp if removed else stamp))
        found.append({identity for identity, over in held.items() if not over})
    assert found[0] == found[1]


def test_publication_events_are_not_removed(kind):
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(path("<b>"), dictionary, since=1, per_event=True)
    bits = EVERY_ROLE | EVERY_ROLE << keys.EVENT_SHIFT
    assert len(harness.triples([(a, b, c)], time=2, roles=bits)) == 1
    assert not harness.triples([(a, b, c)], time=GONE | 3, roles=bits, first_event=1)
    assert len(harness.triples([(a, b, c)], time=4, roles=bits, first_event=2)) == 1


def test_per_event_counts_every_publication(kind):
    """Per event, each publication of a triple is an answer of its own; the same event again is not."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b = (dictionary.intern(each) for each in TERMS[:2])
    bit = EVERY_ROLE << keys.EVENT_SHIFT
    harness.query(path("<b>", "<b>"), dictionary, since=1, per_event=True)
    one = harness.triples([(a, b, a), (a, b, a)], time=2, roles=bit, first_event=0)
    same = harness.triples([(a, b, a), (a, b, a)], time=2, roles=bit, first_event=0)
    assert bindings(one) == Counter({(a, a, a): 4})
    assert len(one) == 4
    assert not same


IN_GRAPHS = [
    ("<x:a>", "<x:p>", "<x:b>", "<x:g>"), ("<x:a>", "<x:p>", "<x:b>", ""), ("<x:b>", "<x:q>", "<x:p>", ""),
    ("<x:p>", "<x:q>", "<x:g>", ""),
]  # fmt: skip


@pytest.mark.parametrize("per_event", [False, True], ids=["set", "events"])
@pytest.mark.parametrize("first", ["triples", "query"])
@pytest.mark.parametrize(
    ("group", "count"),
    [
        ("?s ?p ?o", 3), ("?s ?p ?o . ?p ?q ?x", 1), ("?x ?q ?p . ?s ?p ?o", 1), ("?s ?p ?o . ?p ?p ?x", 0),
        ("?a ?b ?c . ?b ?a ?d", 0), ("?l ?d ?g . ?d ?o ?p . ?s ?l ?x", 0), ("?s ?p ?o . ?s ?p ?x", 3),
        ("GRAPH <x:g> { ?s <x:p> ?o }", 1), ("GRAPH ?g { ?s <x:p> ?o }", 1), ("GRAPH <x:g> { ?s ?p ?o }", 1),
        ("GRAPH ?g { ?s ?p ?o }", 1), ("GRAPH ?g { ?s ?p ?o } ?s ?p ?x", 1), ("GRAPH ?g { ?s ?p ?o } ?p ?q ?g", 1),
    ],
)  # fmt: skip
def test_a_predicate_that_is_a_variable_is_no_literal_unless_the_directory_of_graphs_binds_it(
    kind, group, count, first, per_event
):
    """Patterns of the default graph match neither statements of named graphs nor the directory of these."""
    for algorithm, backward in product(Algorithm, (False, True)):
        tables, dictionary = new_tables(kind)
        harness = Harness(tables)
        triples, directory = as_triples(IN_GRAPHS)
        ids = [tuple(dictionary.intern_all(triple)) for triple in triples + directory]
        (query,) = parse_query(f"SELECT * {{ {group} }}").leaves
        places = range(len(query.patterns))
        answers = harness.triples(ids, time=10, roles=BOTH_KINDS) if first == "triples" else Counter()
        order = list(reversed(places)) if backward else list(places)
        answers += harness.query(query, dictionary, since=1, algorithm=algorithm, per_event=per_event, order=order)[1]
        answers += harness.triples(ids, time=10, roles=BOTH_KINDS) if first == "query" else Counter()
        assert sum(answers.values()) == count, (algorithm, backward)


def test_a_literal_never_becomes_a_subject(kind):
    """A partial result that would put a literal in subject position is dropped where it arises."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    literal = dictionary.intern('"a"')
    harness.query(path("<b>", "<b>"), dictionary, since=1)
    harness.triples([(a, b, literal), (b, b, c)], time=2)
    assert tables.sizes().rows == 1  # (b b c) waits, (a b "a") does not


def test_an_ended_group_gives_no_answers_and_frees_its_rows(kind):
    """After its end a group neither matches nor is counted."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    plan, _ = harness.query(path("<b>", "<c>"), dictionary, since=1)
    harness.triples([(a, b, c)], time=2)
    assert tables.sizes().groups == 1
    tables.end_groups([plan.identity >> 1])
    assert not harness.triples([(c, c, a)], time=3)
    assert tables.sizes().groups == 0


def test_groups_are_found_by_their_names_in_any_plan(kind):
    """Plans of one group and of several, in sequence or at once; their leases, their ends and their waiting rows."""
    tables, dictionary = new_tables(kind)
    make, b = tables.columns, dictionary.intern("<b>")
    alone = [make_plan(path(*["<b>"] * count), range(count), Algorithm.CSBV) for count in (1, 2, 3, 4)]
    given = [(0, [10]), (1, [20]), (1, [21]), (2, [30, 31]), (3, [40]), (2, [32])]
    for number, ids in given:
        plan = alone[number]
        ones, count = make.full(len(ids), 1), plan.constant_count
        params = tuple(make.full(len(ids), b, "uint32") for _ in range(count))
        group = tables.add_groups(plan, Groups(make.column(ids), ones, ones, make.full(len(ids), 100), params))
        tables.add_queries(plan, 0, group, 0)
    every = [each for _, ids in given for each in ids]
    assert sorted(tables.expired_groups(101, 100)) == sorted(every)
    assert [tables.some_waiting(each, 0, 5)[1] for each in (*every, 99)] == [1] * len(every) + [0]
    tables.extend_leases([10, 21, 31, 99, 10], [200, 200, 200, 200, 150])
    assert sorted(tables.expired_groups(160, 100)) == [20, 30, 32, 40]
    tables.end_groups([20, 32, 40, 99, 40])
    assert sorted(tables.expired_groups(1000, 100)) == [10, 21, 30, 31]
    tables.end_groups([10, 30])
    assert sorted(tables.expired_groups(1000, 100)) == [21, 31]
    assert tables.sizes().groups == 2
    assert tables.ended_groups().count(99) == 1


def test_a_group_of_two_plans_ends_in_both():
    """It is looked for in all its possible plans, and a plan with further groups is searched once."""
    tables, dictionary = new_tables("columnar")
    make, b = tables.columns, dictionary.intern("<b>")
    for count, number in ((1, 10), (2, 10), (1, 11)):
        plan = make_plan(path(*["<b>"] * count), range(count), Algorithm.CSBV)
        params = tuple(make.column([b], "uint32") for _ in range(count))
        one, lease = make.column([1]), make.column([100])
        tables.add_queries(plan, 0, tables.add_groups(plan, Groups(make.column([number]), one, one, lease, params)), 0)
    found = tables._plans_with(make.column([10, 11]))
    assert len(found) == len({id(each) for each in found}) == 2
    tables.end_groups([10])
    assert tables.expired_groups(1000, 100) == [11]


def test_an_end_visits_the_plans_of_the_ended_groups_alone():
    """Also beside many plans of several groups each, and after a plan has released a group or been released."""
    tables, dictionary = new_tables("columnar")
    make = tables.columns
    plans = [
        make_plan(replace(path("<b>"), filters=(Filter(f"differ{number}", (0, 1)),)), range(1), Algorithm.CSBV)
        for number in range(50)
    ]
    params = (make.full(3, dictionary.intern("<b>"), "uint32"),)
    ones, lease = make.full(3, 1), make.full(3, 100)

    def open_groups(number: int) -> None:
        ids = make.column([3 * number, 3 * number + 1, 3 * number + 2])
        group = tables.add_groups(plans[number], Groups(ids, ones, ones, lease, params))
        tables.add_queries(plans[number], 0, group, 0)

    def visited(*ids: int) -> list[int]:
        return [plans.index(each.plan) for each in tables._plans_with(make.column(ids))]

    for number in range(len(plans)):
        open_groups(number)
    assert visited(3, 4) == [1]
    assert visited(3, 149, 5) == [1, 49]
    assert visited(777) == []
    tables.end_groups([3, 4, 147, 148, 149])
    tables.release_ended()
    assert visited(3) == visited(149) == []
    assert visited(5) == [1]
    assert not set(tables._plan_of) & {3, 4, 147, 148, 149}
    assert len(tables._plan_of) == 145


def test_a_message_for_an_ended_group_finds_it_ended(kind):
    """A late or repeated message of its former incarnation does not bring a group back."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    plan, _ = harness.query(path("<b>"), dictionary, since=1)
    tables.end_groups([plan.identity >> 1])
    harness.query(path("<b>"), dictionary, since=1)
    assert not harness.triples([(a, b, c)], time=3)
    assert tables.sizes().groups == 0


def waiting(tables: Tables, role: int, *parts: str) -> list[tuple[int, ...]]:
    """Step, identity and bindings of all that waits under the key of some parts."""
    key = keys.role_key(role, *(keys.term_hash(part) for part in parts))
    found: list[tuple[int, ...]] = []
    for rows in tables.waiting_rows(role, key):
        columns = [as_list(column) for column in (rows.identity, *rows.bindings)]
        found += [(rows.step, *row) for row in zip(*columns, strict=True)]
    return sorted(found)


@pytest.mark.parametrize("per_event", [False, True])
def test_all_that_waits_under_a_key_can_be_listed(kind, per_event):
    """Queries and partial results of all plans, of that key alone, and of groups that live."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    plan, _ = harness.query(path("<b>", "<c>"), dictionary, since=1, algorithm=Algorithm.CQC, per_event=per_event)
    harness.query(path("<c>"), dictionary, since=1, per_event=per_event)
    bit = EVERY_ROLE << keys.EVENT_SHIFT if per_event else EVERY_ROLE
    harness.triples([(a, b, c), (b, b, c), (c, b, a)], time=2, roles=bit)
    assert [row[0] for row in waiting(tables, keys.P, "<a>", "<b>", "<a>")] == [0]
    under = waiting(tables, keys.P, "<a>", "<c>", "<a>")
    assert [row[0] for row in under] == [0, 1, 1, 1]
    assert sorted(row[2:] for row in under[1:]) == [(a, c), (b, c), (c, a)]
    assert waiting(tables, keys.P, "<a>", "<a>", "<a>") == []
    assert waiting(tables, keys.S, "<a>", "<c>", "<a>") == []
    tables.end_groups([plan.identity >> 1])
    assert [row[0] for row in waiting(tables, keys.P, "<a>", "<c>", "<a>")] == [0]


def test_rows_that_are_listed_do_not_change_with_the_tables(kind):
    """They may still lie in an outbox when the original row has been renewed."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    plan, _ = harness.query(path("<b>", "<c>"), dictionary, since=1, algorithm=Algorithm.CQC)
    harness.triples([(a, b, c)], time=5)
    key = keys.role_key(keys.P, 0, keys.term_hash("<c>"), 0)
    (rows,) = tables.waiting_rows(keys.P, key)
    assert as_list(rows.oldest) == [5]
    later = Derived(
        plan, 1, rows.group, rows.identity, tables.columns.column([9]), tables.columns.column([9]), rows.bindings
    )
    tables.add_rows(later)
    assert as_list(rows.oldest) == [5]
    assert as_list(tables.waiting_rows(keys.P, key)[0].oldest) == [9]


def test_leases_are_reported_and_extended(kind):
    """Groups with an expired lease are named until it is extended."""
    tables, dictionary = new_tables(kind)
    plan, _ = Harness(tables).query(path("<b>"), dictionary, since=1)
    identity = plan.identity >> 1
    assert tables.expired_groups((1 << 60) + 1, 10) == [identity]
    tables.extend_leases([identity, 12345], [1 << 61, 1 << 61])
    assert tables.expired_groups((1 << 60) + 1, 10) == []


def test_cqc_joins_on_all_bound_parts_within_one_index(kind):
    """A CQC link is keyed by one constant, joins inside on everything bound, and finds earlier triples."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.triples([(c, b, a), (a, b, b)], time=2)
    _, answers = harness.query(path("<b>", "<b>"), dictionary, since=1, algorithm=Algorithm.CQC)
    assert bindings(answers) == Counter([(c, a, b)])


def test_sizes_count_the_stored_items(kind):
    """Storage is patterns, triples once per index and partial results."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(path("<b>", "<c>"), dictionary, since=1)
    harness.triples([(a, b, c), (a, a, a)], time=2, roles=keys.CSBV_ROLES)
    sizes = tables.sizes()
    assert (sizes.triples, sizes.triple_roles, sizes.queries, sizes.rows, sizes.groups) == (2, 14, 1, 1, 1)
    assert sizes.storage_load == 16


def test_counts_per_key_are_exact(kind):
    """The rates a planner asks for are the numbers of triples under the constants of a pattern."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    harness.triples([(a, b, c), (b, b, c), (c, b, a)], time=2, roles=keys.CSBV_ROLES)
    assert tables.count(keys.P, a, b, a) == 3
    assert tables.count(keys.P | keys.O, a, b, c) == 2
    assert tables.count(keys.SPO, a, b, c) == 1
    assert tables.count(keys.S, b, c, c) == 1
    assert tables.count(keys.O, a, a, b) == 0


# --- everything at once, against brute force ------------------------------------------------------

slots = st.one_of(st.integers(0, 2), st.integers(0, 2).map(lambda constant: ~constant))
patterns = st.lists(st.tuples(slots, slots, slots), min_size=1, max_size=3)
triples = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(triples, min_size=1, max_size=4)),
        st.tuples(st.just("query"), patterns, st.booleans(), st.booleans(), st.sampled_from(list(Algorithm))),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=120, deadline=None)
@given(steps)
def test_both_kinds_agree_with_brute_force(script):
    """Random publications and queries, in any order and repeated, give exactly the solutions owed."""
    harnesses = []
    for each in ("light", "columnar"):
        tables, dictionary = new_tables(each)
        harnesses.append((Harness(tables), dictionary))
    log: list[tuple[int, tuple[int, int, int]]] = []
    expected: list[tuple[ConjunctiveQuery, int, bool, object]] = []
    got = [Counter(), Counter()]
    for time, step in enumerate(script, start=1):
        if step[0] == "query":
            _, raw, filtered, per_event, algorithm = step
            query = canonical(raw, filtered)
            plan = make_plan(query, range(len(raw)), algorithm, per_event=per_event)
            if any(make_plan(q, range(len(q.patterns)), a, per_event=e) == plan for q, _, e, a in expected):
                continue  # one group per plan in this harness
            expected.append((query, time, per_event, algorithm))
        for at, (harness, dictionary) in enumerate(harnesses):
            if step[0] == "publish":
                for _ in range(2):  # redelivery is harmless
                    answers = harness.triples(
                        step[1], time, EVERY_ROLE | EVERY_ROLE << keys.EVENT_SHIFT, first_event=time * 100
                    )
                    got[at].update(answers)
            else:
                got[at].update(harness.query(query, dictionary, time, algorithm, per_event=per_event)[1])
        if step[0] == "publish":
            log.extend((time, triple) for triple in step[1])
    owed: Counter[tuple[int, ...]] = Counter()
    for query, since, per_event, _ in expected:
        owed.update(brute_force(query, harnesses[0][1], log, since, per_event))
    assert got[0] == got[1]
    unique = Counter(row[1:] for row in {(row[0], *row[3:]) for row in got[0]})
    assert unique == owed


said = st.tuples(st.integers(0, 2), st.sampled_from([5, 6, 7, 6 | GONE]), st.sampled_from([1, 3, 7]), st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(said, min_size=1, max_size=12), min_size=1, max_size=3))
def test_a_batch_with_repetitions_equals_its_rows_one_by_one(batches):
    """At several times, under several indexes, with removals in between, joined at once or stored only."""
    told = []
    for kind, one_by_one in (("light", True), ("light", False), ("columnar", True), ("columnar", False)):
        tables, dictionary = new_tables(kind)
        harness = Harness(tables)
        b = dictionary.intern("<b>")
        _, answers = harness.query(path("<b>"), dictionary, since=1)
        make = tables.columns
        for batch in batches:
            parts = [[each] for each in batch] if one_by_one else [batch]
            for part in parts:
                number, time, roles, joined = (list(column) for column in zip(*part, strict=True))
                count = len(part)
                answers += harness.follow(
                    tables.add_triples(
                        make.column(number, "uint32"), make.full(count, b, "uint32"), make.full(count, 0, "uint32"),
                        make.column(time), make.column([keys.event_id(1, at) for at in number]),
                        make.column(roles, "uint32"), make.column([each * 127 for each in joined], "uint32"),
                    )
                )  # fmt: skip
        held = sorted(zip(*map(as_list, tables.triples_since(0)), strict=True))
        told.append((held, tables.sizes().triples, {row[0] for row in answers}))
    assert told == [told[0]] * 4


def test_a_triple_repeated_very_often_in_one_batch_is_stored_once(monkeypatch):
    """A client may publish one line a hundred thousand times: work in proportion to its square stopped nodes."""
    tables, _ = new_tables("columnar")
    rounds = []
    add_round = ColumnarTables._add_round

    def noted(self, table, rows, *rest):
        rounds.append(len(rows))
        return add_round(self, table, rows, *rest)

    monkeypatch.setattr(ColumnarTables, "_add_round", noted)
    make, count = tables.columns, 60_000
    times = make.column([10 + at % 3 for at in range(count)])
    subjects = make.column([at % 2 for at in range(count)], "uint32")
    ones = make.full(count, 1, "uint32")
    tables.add_triples(subjects, ones, ones, times, make.column(list(range(count))), make.full(count, 127, "uint32"))
    assert rounds == [2, 2, 2]
    assert tables.sizes().triples == 2


def test_columns_of_both_materials_have_the_same_verbs():
    """Lists and arrays split, take and join alike."""
    values = [3, 1, 3, 2, 1]
    as_lists = [(value, as_list(index)) for value, index in LISTS.split(LISTS.column(values))]
    as_arrays = [(value, as_list(index)) for value, index in ARRAYS.split(ARRAYS.column(values))]
    assert as_lists == as_arrays == [(1, [1, 4]), (2, [3]), (3, [0, 2])]
