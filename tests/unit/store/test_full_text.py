"""Rows that wait for a text: found by its words, and otherwise as all rows are."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_copies import Copy, check, play
from store_tables import BOTH_KINDS, TERMS, TEXTS, Harness, bindings, full_text, new_tables

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.errors import QueryRefused
from p2prdf.hlc import GONE
from p2prdf.rdf.fulltext import condition_holds, parse_condition, text_of
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, make_plan
from p2prdf.store import columnar_texts, light_texts
from p2prdf.store.full_text import NO_CONDITION, FullText
from p2prdf.store.light import LightTables
from p2prdf.wire.messages import Groups

CONDITIONS = (
    '"a"', '"b"', '"a" ftAND "b"', '"a b"', '"a" ftOR "c"', 'ftNOT "a"', '"a*"', '"*b" ftAND "a"', '"a", "en"',
    '"b" ftNEAR[0,1] "c"', '"c" ftNEAR[0,1,unordered] "b"', '"c" ftAND ftNOT "b", "*"', '"a" ftAND "z"', '"z"',
    '"games" using stemming, "en"', '"b is a gaming" using stop words using stemming, "en"',
    '"gaming" using stemming ftAND ftNOT "of b" using stop words, "en"', '"b b" using stemming ftOR "gaming", "fr"',
    'ftSIMILAR[0.7] "a b"', 'ftSIMILAR[0.5] "a c z" using corpus[9, "a" 8, "c" 1]',
    'ftSIMILAR[0.9] "gaming of bs" using stemming using stop words, "en"', 'ftNOT ftSIMILAR[0.4] "a b c" ftAND "a"',
)  # fmt: skip


@pytest.fixture(params=["light", "columnar"])
def kind(request):
    """Both kinds of tables."""
    return request.param


@contextmanager
def limits(few: int, rewrite: int = 4096):
    """Have indexes for keys with more than ``few`` conditions, and rows that are gone forgotten from ``rewrite`` on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(light_texts, "FEW_MAX", few)
        patch.setattr(columnar_texts, "FEW_MAX", few)
        patch.setattr(columnar_texts, "_REWRITE_MIN", rewrite)
        yield


def about(predicate: str, *filters: str, patterns=((0, -1, 1),)) -> ConjunctiveQuery:
    """(?0 predicate ?1) and filters on ?1."""
    count = 1 + max(slot for pattern in patterns for slot in pattern)
    answer, names = tuple(range(count)), tuple(f"v{each}" for each in range(count))
    constants = (predicate, "<c>")[: -min(slot for pattern in patterns for slot in pattern)]
    return ConjunctiveQuery(patterns, constants, answer, names, filters=tuple(Filter(each, (1,)) for each in filters))


def satisfying(condition: str) -> list[str]:
    return [each for each in TERMS + TEXTS if condition_holds(parse_condition(condition), text_of(each))]


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("few", [0, 100])
def test_a_triple_finds_the_rows_with_a_condition_that_its_object_satisfies(kind, few, algorithm):
    """One by one and in a batch, of the same predicate and of another, as set and per event."""
    for batch in (1, 100):
        for per_event in (False, True):
            with limits(few):
                tables, dictionary = new_tables(kind)
                harness = Harness(tables)
                a, b, c = (dictionary.intern(each) for each in TERMS[:3])
                for each in CONDITIONS:
                    query = about("<b>", full_text(1, each))
                    assert not harness.query(query, dictionary, 1, algorithm, per_event=per_event)[1]
                objects = dictionary.intern_all(TERMS + TEXTS)
                triples = [(a, predicate, each) for predicate in (b, c) for each in objects]
                found: Counter = Counter()
                for first in range(0, len(triples), batch):
                    found += harness.triples(triples[first : first + batch], 2, BOTH_KINDS, first_event=first)
                told = Counter(row[-1] for row in found.elements())
                owed = Counter(dictionary.intern(each) for condition in CONDITIONS for each in satisfying(condition))
                assert told == owed
                assert {row[-2] for row in found} == {a}


def test_rows_with_equal_conditions_are_found_together(kind):
    """A condition is spelled in one way: plans that differ otherwise share it."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    text = dictionary.intern(TEXTS[0])
    harness.query(about("<b>", full_text(1, '"a" ftAND "b"')), dictionary, since=1)
    harness.query(about("<b>", full_text(1, '("a") ftAND ("b")')), dictionary, since=1)
    harness.query(about("<b>", full_text(1, 'ftNOT "z"'), full_text(1, '"a" ftAND "b"')), dictionary, since=1)
    assert len(text_rows(tables, keys.P)._full_text._conditions) == 1
    assert len(harness.triples([(a, b, text), (c, b, c)], time=2)) == 3


def times(rows: Counter) -> list[tuple[int, ...]]:
    """Whether each answer is over, and its binding."""
    return sorted((row[1] == GONE, *row[3:]) for row in rows.elements())


@pytest.mark.parametrize("few", [0, 100])
def test_a_republished_or_removed_triple_finds_its_rows_again(kind, few):
    """For subscriptions younger than its last publication, and for retractions; also after the rows came."""
    with limits(few):
        tables, dictionary = new_tables(kind)
        harness = Harness(tables)
        a, b, _ = (dictionary.intern(each) for each in TERMS[:3])
        text, other = dictionary.intern(TEXTS[0]), dictionary.intern(TEXTS[2])
        harness.triples([(a, b, text), (a, b, other)], time=2)
        for condition in ('"a"', '"z"'):
            assert not harness.query(about("<b>", full_text(1, condition)), dictionary, since=5)[1]
        assert times(harness.triples([(a, b, text), (a, b, other)], time=6)) == [(False, a, text)]
        assert not harness.triples([(a, b, text), (a, b, other)], time=7), "they had it"
        assert tables.sizes().joined == 1
        _, told = harness.query(about("<b>", full_text(1, '"b"')), dictionary, since=1)
        assert times(told) == [(False, a, text)]
        gone = harness.triples([(a, b, text), (a, b, other)], time=GONE | 8)
        assert times(gone) == [(True, a, text)] * 2
        assert times(harness.triples([(a, b, text)], time=9)) == [(False, a, text)] * 2


def test_triples_of_keys_with_many_conditions_with_few_and_with_none_come_together(kind):
    with limits(3):
        tables, dictionary = new_tables(kind)
        harness = Harness(tables)
        a, b, c = (dictionary.intern(each) for each in TERMS[:3])
        few = ('"b*"', '"a*" ftOR "c"')
        for predicate, conditions in (("<b>", CONDITIONS), ("<c>", few)):
            for each in conditions:
                harness.query(about(predicate, full_text(1, each)), dictionary, since=1)
        texts = dictionary.intern_all(TEXTS)
        told = harness.triples([(each, p, text) for each, text in ((b, texts[0]), (c, texts[1])) for p in (a, c, b)], 2)
        owed = Counter()
        for condition in CONDITIONS + few:
            owed.update(pair for pair in ((b, TEXTS[0]), (c, TEXTS[1])) if pair[1] in satisfying(condition))
        assert bindings(told) == Counter({(each, dictionary.intern(text)): n for (each, text), n in owed.items()})


def test_rows_of_other_plans_go_and_those_that_wait_for_a_text_stay(kind):
    """If many rows under the same key end, all rows that wait for no text are filed again."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, _ = (dictionary.intern(each) for each in TERMS[:3])
    harness.query(about("<b>", full_text(1, '"a"')), dictionary, since=1)
    harness.query(about("<b>"), dictionary, since=1)
    plan, count = make_plan(about("<b>", full_text(1, '"z"') + " || true"), [0], Algorithm.CSBV), 5000
    make, ids = tables.columns, range(1000, 6000)
    ones, params = make.full(count, 1), (make.full(count, b, "uint32"),)
    tables.add_queries(
        plan, 0, tables.add_groups(plan, Groups(make.column(ids), ones, ones, make.full(count, 1 << 60), params)), 0
    )
    tables.end_groups(ids)
    text, other = dictionary.intern(TEXTS[0]), dictionary.intern(TEXTS[2])
    told = harness.triples([(a, b, text), (a, b, other)], time=2)
    assert bindings(told) == Counter({(a, text): 2, (a, other): 1})


def test_all_filters_are_applied_to_the_rows_found(kind):
    """One of several conditions on the object files the rows; the others decide as well."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, _ = (dictionary.intern(each) for each in TERMS[:3])
    query = about("<b>", full_text(1, 'ftNOT "c"'), full_text(1, '"a" ftAND "b"'), full_text(1, '"ab*"'))
    harness.query(query, dictionary, since=1)
    texts = dictionary.intern_all(TEXTS)
    assert bindings(harness.triples([(a, b, each) for each in texts], time=2)) == Counter({(a, texts[4]): 1})


@pytest.mark.parametrize(
    ("patterns", "mask", "filters", "filed_by"),
    [
        (((0, ~0, 1),), keys.P, (full_text(1, '"a"'),), '"a"'),
        (((0, ~0, 1),), keys.P, (full_text(1, '"a"'), full_text(1, '"b" ftAND "c"')), '"b" ftAND "c"'),
        (((0, ~0, 1),), keys.P, (full_text(1, 'ftNOT "a" ftOR "b c d"'), full_text(1, '"a*"')), '"a*"'),
        (((0, ~0, 1),), keys.P, (f'{full_text(1, CONDITIONS[0])} || {full_text(1, CONDITIONS[1])}',), None),
        (((0, ~0, 1),), keys.P, (f'! ( {full_text(1, CONDITIONS[0])} )',), None),
        (((0, ~0, 1),), keys.P, (full_text(0, '"a"'),), None),
        (((0, 1, 2),), 0, (full_text(1, '"a"'),), None),
        (((0, 1, 1),), 0, (full_text(1, '"a"'),), '"a"'),
    ],
)  # fmt: skip
def test_rows_are_filed_by_a_condition_on_the_object(patterns, mask, filters, filed_by):
    """A filter must be a single condition, and its pattern must bind the object."""
    _, dictionary = new_tables("light")
    query = about("<b>", *filters, patterns=patterns)
    if filters == (full_text(0, '"a"'),):
        query = ConjunctiveQuery(
            query.patterns, query.constants, query.answer, query.names, filters=(Filter(filters[0], (0,)),)
        )
    plan = make_plan(query, [0], Algorithm.CSBV)
    full = FullText(dictionary)
    number = full.use(plan, plan.steps[0])
    assert plan.steps[0].mask == mask
    assert (number == NO_CONDITION) == (filed_by is None)
    if filed_by is not None:
        for text in ('"a"', '"b c"', '"a1 b"', '"c"'):
            taken = full.text(dictionary.intern(text))
            assert taken is not None
            assert full.holds(number, taken) == condition_holds(parse_condition(filed_by), text_of(text))


def test_a_condition_on_a_variable_bound_by_an_earlier_pattern_is_a_filter_there(kind):
    """(?0 b ?1)(?2 c ?1): the second pattern has the object as its key."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    query = about("<b>", full_text(1, '"a"'), patterns=((0, ~0, 1), (2, ~1, 1)))
    text, other = dictionary.intern(TEXTS[0]), dictionary.intern(TEXTS[2])
    for order in ((0, 1), (1, 0)):
        harness.query(query, dictionary, 1, order=order)
    told = harness.triples([(a, b, text), (c, c, text), (a, b, other), (c, c, other)], time=2)
    assert bindings(told) == Counter({(a, text, c): 2})
    assert tables.sizes().rows == 2


def test_a_condition_that_is_none_is_refused_with_the_plan(kind):
    tables, _ = new_tables(kind)
    plan = make_plan(about("<b>", full_text(1, '"a" ftAND')), [0], Algorithm.CSBV)
    make = tables.columns
    columns = [make.column([each]) for each in (5, 1, 1, 9)]
    with pytest.raises(QueryRefused, match="ends too early"):
        tables.add_groups(plan, Groups(*columns, (make.column([1], "uint32"),)))


def test_rows_that_wait_for_a_text_are_listed_and_counted_as_others(kind):
    """Rows that wait for a text are rows: listed, copied as items, counted, renewed and dropped as others."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, _ = (dictionary.intern(each) for each in TERMS[:3])
    plan, _ = harness.query(about("<b>", full_text(1, '"a"'), patterns=((0, ~0, 2), (0, ~1, 1))), dictionary, since=1)
    harness.triples([(a, b, b)], time=2)
    sizes = tables.sizes()
    assert (sizes.queries, sizes.rows, sizes.groups) == (1, 1, 1)
    role = plan.steps[1].role
    (rows,) = tables.waiting_rows(role, keys.role_key(role, *(keys.term_hash(each) for each in ("<a>", "<c>", "<a>"))))
    assert (rows.step, as_list(rows.bindings[0])) == (1, [a])
    assert sum(len(each.handle) for each in tables.row_items()) == 2
    tables.end_groups([plan.identity >> 1])
    assert sum(len(each.handle) for each in tables.row_items()) == 0
    tables.release_ended()
    assert (tables.sizes().rows, tables.sizes().groups) == (0, 0)


def text_rows(tables, role: int):
    """The rows that wait for a text under an index."""
    held = tables._join_indexes
    return (held[False][role] if isinstance(tables, LightTables) else held[False, role])[0].texts


def standing(tables, dictionary, count: int) -> list[int]:
    """Let queries wait under one key, each with two words of its own; return their groups."""
    harness, groups = Harness(tables), []
    for number in range(count):
        query = about("<b>", full_text(1, f'"w{number}" ftAND "v{number % 7}"'))
        groups.append(harness.query(query, dictionary, since=1)[0].identity >> 1)
    return groups


def test_the_cost_of_a_triple_does_not_depend_on_the_number_of_conditions(kind, monkeypatch):
    """Conditions tried and entries looked at: the same among 50 queries as among 1,000."""
    costs = []
    tried: list[int] = []
    holds = FullText.holds
    monkeypatch.setattr(FullText, "holds", lambda self, *args: tried.append(1) or holds(self, *args))
    for count in (50, 1000):
        tried.clear()
        tables, dictionary = new_tables(kind)
        standing(tables, dictionary, count)
        a, b = (dictionary.intern(each) for each in TERMS[:2])
        harness = Harness(tables)
        for number in (3, 10, 44):
            text = dictionary.intern(f'"some words w{number} and v{number % 7} and more"')
            assert len(harness.triples([(a, b, text)], time=2)) == 1
        (index,) = text_rows(tables, keys.P)._indexes.values()
        costs.append((len(tried), index.touched))
    assert costs[0] == costs[1]


@pytest.mark.parametrize("rewrite", [8, 4096])
def test_conditions_come_and_go(kind, rewrite):
    """Groups end and others come: those that live are found, and nothing is kept in an index for the others."""
    chance = Random(7)
    with limits(4, rewrite):
        tables, dictionary = new_tables(kind)
        harness = Harness(tables)
        a, b = (dictionary.intern(each) for each in TERMS[:2])
        joins = about("<b>", full_text(1, '"every"'), patterns=((0, ~0, 1), (2, ~1, 0)))
        plan = make_plan(joins, [0, 1], Algorithm.CSBV)
        make = tables.columns
        params = tuple(make.full(4, dictionary.intern(each), "uint32") for each in ("<b>", "<c>"))
        living: dict[int, str] = {}
        for number in range(60):
            for each in range(3):  # groups with plans of their own
                word = f"w{chance.randrange(12)}"
                filters = (full_text(1, f'"{word}"'), full_text(1, f'ftNOT "z{number} z{each}"'))
                living[harness.query(about("<b>", *filters), dictionary, since=1)[0].identity >> 1] = word
            ids = [1000 + 10 * number + each for each in range(4)]  # groups of one plan
            ones, lease = make.full(4, 1), make.full(4, 1 << 60)
            harness.follow(tables.add_queries(plan, 0, tables.add_groups(plan, Groups(
                make.column(ids), ones, ones, lease, params
            )), 0))  # fmt: skip
            living |= dict.fromkeys(ids, "every")
            ended = chance.sample(sorted(living), len(living) // 2)
            tables.end_groups(ended)
            if number % 3:
                tables.release_ended()
            for each in ended:
                del living[each]
            word = f"w{chance.randrange(12)}"
            make_text = dictionary.intern(f'"{word} every {number}"')
            joined = tables.sizes().joined
            told = harness.triples([(a, b, make_text)], time=number + 2)
            assert sum(told.values()) == sum(each == word for each in living.values())
            assert tables.sizes().joined - joined == sum(each in (word, "every") for each in living.values())
        tables.end_groups(list(living))
        tables.release_ended()
        left = text_rows(tables, keys.P)
        assert left is None or not left._indexes
        full = tables._full_text
        assert not full._numbers
        assert set(full._conditions) == {None}


# --- random interleavings, against brute force -----------------------------------------------------

slots = st.one_of(st.integers(0, 2), st.integers(0, 2).map(lambda constant: ~constant))
patterns = st.lists(st.tuples(slots, slots, slots), min_size=1, max_size=2)
objects = st.sampled_from((0, 1, 3, *range(5, 14)))
stated = st.tuples(st.integers(0, 1), st.sampled_from((0, 0, 0, 1)), objects)
alternatives = st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2).map(tuple)
conditions = st.lists(st.tuples(st.integers(0, 5), alternatives | alternatives.map(lambda some: some[:1])), max_size=2)
on_object = st.tuples(
    st.sampled_from(([(0, ~0, 1)], [(0, 1, 2)], [(0, ~0, 1), (0, ~1, 2)], [(0, ~0, 1), (2, ~0, 0)])),
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from(CONDITIONS).map(lambda one: (one,))), min_size=1, max_size=2),
)
asked = st.one_of(on_object, on_object, st.tuples(patterns, conditions))
kinds_of_query = st.tuples(st.booleans(), st.booleans(), st.sampled_from(list(Algorithm)))
steps = st.one_of(
    st.tuples(st.just("publish"), st.lists(stated, min_size=1, max_size=6), st.just(0)),
    st.tuples(st.sampled_from(("publish", "remove")), st.lists(stated, min_size=1, max_size=4), st.integers(0, 3)),
    st.tuples(asked, kinds_of_query).map(lambda two: ("query", two[0][0], *two[1], two[0][1])),
    st.tuples(asked, kinds_of_query).map(lambda two: ("query", two[0][0], *two[1], two[0][1])),
    st.tuples(st.sampled_from(("subscribe", "end")), st.integers(0, 9)),
)
scripts = st.lists(steps, min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(scripts, st.integers(0, 1 << 32), st.sampled_from((0, 2, 8)))
def test_tables_with_texts_agree_with_brute_force(script, seed, few):
    """Both kinds, whether something is joined as it comes or again later, with indexes for many keys or none."""
    with limits(few, rewrite=2):
        kinds = ("light", "columnar")
        joined = [Copy(kind, Random(seed), probe=None, split=False) for kind in kinds]
        joined += [Copy(kind, Random(seed), probe=1, split=True) for kind in kinds]
        stored = [Copy(kind, Random(seed), probe=0.5, split=True) for kind in kinds]
        asked, log = play(script, [*joined, *stored])
        for copy in stored:
            copy.answers.clear()
            copy.probe = None
            for piece in copy.tables.rejoin(lambda _, ring: [True] * len(ring), 3):
                copy.follow(piece)
        check(asked, log, [*joined, *stored])
