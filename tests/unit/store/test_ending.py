"""Ended groups leave nothing in the tables but their identities, and their release changes no answer."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_objects import entries, grown
from store_items import items_of, version_of
from store_tables import BOTH_KINDS, TERMS, TEXTS, Harness, full_text, new_tables

from p2prdf.columns import as_list
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, make_plan
from p2prdf.store.tables import NEVER
from p2prdf.wire.messages import Groups

KINDS = ("light", "columnar")
GROUPS = 50
PATTERNS = (((0, ~0, 1),), ((0, ~0, 1), (1, ~1, 2)), ((0, ~0, 1), (0, ~1, 1)), ((0, 1, 2),))


def query_of(shape: int, condition: int) -> ConjunctiveQuery:
    """Return a query; condition 0 is none, odd ones are on texts."""
    patterns = PATTERNS[shape]
    variables = tuple(dict.fromkeys(slot for pattern in patterns for slot in pattern if slot >= 0))
    constants = ("<b>", "<c>")[: sum(slot < 0 for pattern in patterns for slot in pattern)]
    filters: tuple[Filter, ...] = ()
    if condition:
        text = full_text(1, f'"a" ftOR "w{condition}"') if condition % 2 else f"differ{condition}"
        filters = (Filter(text, (1,) if condition % 2 else variables[:2]),)
    return ConjunctiveQuery(patterns, constants, variables, tuple(f"v{each}" for each in variables), filters=filters)


class Side:
    """Tables with everything at one peer, and the answers by group."""

    def __init__(self, kind: str):
        self.tables, self.dictionary = new_tables(kind)
        self.harness = Harness(self.tables)
        self.answers: Counter[tuple[int, ...]] = Counter()
        self.published = 0

    def open(
        self, group: int, query: ConjunctiveQuery, constants: list[str], *, cqc: bool, per_event: bool, since: int = 1
    ) -> None:  # fmt: skip
        """Let a group wait for all its patterns."""
        order = range(len(query.patterns))
        plan = make_plan(query, order, Algorithm.CQC if cqc else Algorithm.CSBV, per_event=per_event)
        make = self.tables.columns
        params = tuple(make.column([term], "uint32") for term in self.dictionary.intern_all(constants))
        since_min, since_max, lease = (make.column([each]) for each in (since, int(since != NEVER), 1 << 60))
        numbers = self.tables.add_groups(plan, Groups(make.column([group]), since_min, since_max, lease, params))
        for step in reversed(order if cqc else range(1)):
            self._take(self.harness.follow(self.tables.add_queries(plan, step, numbers, 0)))

    def publish(self, triples: list[tuple[int, int, int]]) -> None:
        """Publish triples of the first terms and texts."""
        known = TERMS + TEXTS
        intern = self.dictionary.intern
        named = [tuple(intern(known[each]) for each in triple) for triple in triples]
        self.published += 1
        self._take(self.harness.triples(named, 2 + self.published, BOTH_KINDS, 100 * self.published))

    def _take(self, answers: Counter[tuple[int, ...]]) -> None:
        self.answers.update(answers)


template = st.tuples(st.integers(0, len(PATTERNS) - 1), st.integers(0, 4), st.booleans(), st.booleans())
plans = st.lists(template, min_size=1, max_size=3)
opened = st.tuples(st.integers(0, 9), st.sampled_from(["<b>", "<c>", "<a>"]))
published = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=5)
steps = st.lists(st.one_of(opened, published, st.integers(0, 9)), min_size=8, max_size=40)


@settings(max_examples=150, deadline=None)
@given(steps, plans, st.integers(0, 1 << 32), st.sampled_from(KINDS))
def test_tables_that_release_ended_groups_answer_like_tables_that_keep_them(script, templates, seed, kind):
    """Whenever the release is done, and if messages of ended groups come late."""
    chance = Random(seed)
    keeping, releasing = Side(kind), Side(kind)
    asked: list[tuple[int, tuple]] = []
    for step in script:
        if isinstance(step, tuple):
            asked.append((1000 + len(asked), step))
        calls = [asked[-1]] if isinstance(step, tuple) else []
        if asked and chance.random() < 0.2:
            calls.append(chance.choice(asked))  # again, perhaps after its end
        for side in (keeping, releasing):
            for group, (number, constant) in calls:
                shape, condition, cqc, per_event = templates[number % len(templates)]
                query = query_of(shape, condition)
                constants = [constant, "<c>"][: len(query.constants)]
                side.open(group, query, constants, cqc=cqc, per_event=per_event)
            if isinstance(step, list):
                side.publish(step)
        if isinstance(step, int) and asked:
            ended = [asked[step % len(asked)][0], asked[-1 - step % len(asked)][0]]
            keeping.tables.end_groups(ended)
            releasing.tables.end_groups(ended)
        if chance.random() < 0.6:
            before = version_of(releasing.tables)
            releasing.tables.release_ended()
            assert not releasing.tables.has_ended
            assert version_of(releasing.tables) == before
        assert releasing.answers == keeping.answers
        assert sorted(items_of(releasing.tables)) == sorted(items_of(keeping.tables))
    assert releasing.tables.ended_groups() == keeping.tables.ended_groups()
    found = [as_list(each.tables.triples_since(0).time) for each in (keeping, releasing)]
    assert found[0] == found[1]


def _cycles(side: Side, first: int, own_plans: bool) -> None:
    """Open, answer, end and release some queries one after the other."""
    for number in range(first, first + GROUPS):
        condition = 1000 + number if own_plans else 0
        query = query_of(1, condition)
        side.open(number, query, [f"<c{number}>" if not own_plans else "<b>", "<c>"], cqc=False, per_event=False)
        side.tables.end_groups([number])
        side.tables.release_ended()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own_plans", [True, False], ids=["a plan each", "one plan"])
@pytest.mark.parametrize("stands", [True, False], ids=["beside a standing query", "alone"])
def test_as_many_plans_groups_and_rows_are_held_after_fifty_queries_as_before(kind, own_plans, stands):
    side = Side(kind)
    side.publish([(0, 1, 2), (2, 2, 0), (1, 1, 7), (0, 1, 8)])
    if stands:
        side.open(7, query_of(1, 0), ["<b>", "<c>"], cqc=False, per_event=False)
    for query, constant in ((query_of(1, 0), "<a>"), (query_of(1, 1), "<b>")):  # makes the join indexes
        side.open(8 + query.patterns[0][0] + len(query.filters), query, [constant, "<c>"], cqc=False, per_event=False)
    side.tables.end_groups([8, 9])
    side.tables.release_ended()
    tables = side.tables

    def counted() -> Counter[str]:
        return entries(tables, without=[side.dictionary, tables._ended])

    _cycles(side, 1000, own_plans)
    before, sizes = counted(), tables.sizes()
    _cycles(side, 2000, own_plans)
    after = tables.sizes()
    more = grown(before, counted())
    assert sum(more.values()) <= 8, more
    for name in ("plans", "groups", "queries", "rows", "triples"):
        assert abs(getattr(after, name) - getattr(sizes, name)) <= 1, name
    assert after.plans == int(stands)
    assert len(tables.ended_groups()) == 2 + 2 * GROUPS


@pytest.mark.parametrize("kind", KINDS)
def test_released_plans_do_not_wait_for_the_garbage_collector(kind):
    """Their steps are as large as all rows of the plan; a node's garbage collector runs after millions of objects."""
    side = Side(kind)
    side.publish([(0, 1, 2), (2, 2, 0)])
    side.open(1, query_of(1, 1), ["<b>", "<c>"], cqc=False, per_event=False)
    [plan] = side.tables._plans.values()
    released = [weakref.ref(plan.filters), *(weakref.ref(step) for step in plan.steps if kind == "columnar")]
    del plan
    side.tables.end_groups([1])
    gc.disable()
    try:
        side.tables.release_ended()
        assert [each() for each in released] == [None] * len(released)
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_live_groups_do_not_check_a_plan_again(kind):
    """The check reads all groups and rows of the plan; it is due when a group of the plan has ended since."""
    side = Side(kind)
    for group in range(3):
        side.open(group, query_of(1, 0), ["<b>", "<c>"], cqc=False, per_event=False)
    side.tables.end_groups([0])
    side.tables.release_ended()
    for group in (0, 1, 3):
        side.open(group, query_of(1, 0), ["<b>", "<c>"], cqc=False, per_event=False)
        assert not side.tables.has_ended
    side.tables.end_groups([1, 2])
    side.tables.release_ended()
    side.open(1, query_of(1, 0), ["<b>", "<c>"], cqc=False, per_event=False)
    assert side.tables.has_ended, "the plan has taken in an ended group"
    assert side.tables.sizes().groups == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end_arrives", [True, False])
def test_groups_that_ended_at_their_sender_leave_no_plan(kind, end_arrives):
    """A peer that hears of an end while it has rows to send sends them with a group without beginning."""
    side = Side(kind)
    side.open(1, query_of(1, 0), ["<b>", "<c>"], cqc=False, per_event=False, since=NEVER)
    if end_arrives:
        side.tables.end_groups([1])
    assert side.tables.sizes().groups == 0
    side.open(1, query_of(1, 0), ["<b>", "<c>"], cqc=False, per_event=False)
    assert side.tables.sizes().groups == 0, "an ended group stays ended"
    side.tables.release_ended()
    assert side.tables.sizes().plans == 0
