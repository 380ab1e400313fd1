"""Tables drop the elements before a stream's retention watermark, whenever it advances, and nothing else."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_items import items_of, version_of
from store_tables import compile_filter

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.rdf import quads
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.store import columnar_forget, light_forget
from p2prdf.store.backlog import Backlog
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.light import LightTables
from p2prdf.wire.messages import Groups

KINDS = {"light": LightTables, "columnar": ColumnarTables}
ROLES = keys.CSBV_ROLES << keys.EVENT_SHIFT
NODES = ("<a>", "<b>", "<c>")
STREAMS = ("<urn:s>", "<urn:t>")
ALIKE = next(
    stream
    for number in range(1 << 20)
    if hlc.stream_mark(keys.term_hash(stream := f"<urn:u{number}>")) == hlc.stream_mark(keys.term_hash(STREAMS[0]))
)
"""A stream with the mark of the first one."""
SHAPES = (
    ((0, ~0, 1), (1, ~0, 2)), ((0, ~0, 1), (1, ~1, 2)), ((0, ~0, 1), (1, ~0, 2), (2, ~1, 3)),
    ((0, ~0, 1), (1, ~0, 0)), ((0, ~0, 1),),
)  # fmt: skip
"""Patterns of one window, by variables and the number of their predicate."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Use small pieces, so that few triples need many."""
    monkeypatch.setattr(columnar_forget, "LOOKED_AT", 3)
    monkeypatch.setattr(columnar_forget, "COPIED", 2)
    monkeypatch.setattr(columnar_forget, "DEAD_MIN", 2)
    monkeypatch.setattr(light_forget, "_AT_ONCE", 3)


class Streamed:
    """Tables that everything is given to, and the elements and queries they were given."""

    def __init__(self, kind: str):
        self.dictionary = TermDictionary()
        self.dictionary.intern_all(NODES)
        self.tables = KINDS[kind](self.dictionary, compile_filter)
        self.answers: dict[int, int] = {}
        """By identity their oldest."""

    def element(self, event: int, triple, stream: str, time: int, roles: int = ROLES, probed: int | None = None):
        """Publish an element; ``triple``: node, predicate, node."""
        s, predicate, o = triple
        terms = self.dictionary.intern_all((NODES[s], quads.streamed(f"<p{predicate}>", stream), NODES[o]))
        stamp = hlc.element(time, hlc.stream_mark(keys.term_hash(stream)))
        make = self.tables.columns
        columns = [make.column([each], "uint32") for each in terms]
        joined = None if probed is None else make.column([probed], "uint32")
        columns += [make.column([stamp]), make.column([keys.event_id(1, event)]), make.column([roles], "uint32")]
        self.follow(self.tables.add_triples(*columns, joined))

    def query(self, shape, stream: str):
        """Let a leaf of a window wait."""
        constants = tuple(quads.streamed(f"<p{number}>", stream) for number in range(2))
        used = 1 + max(~pattern[1] for pattern in shape)
        answer = tuple(sorted({slot for pattern in shape for slot in pattern if slot >= 0}))
        query = ConjunctiveQuery(shape, constants[:used], answer, tuple(f"v{each}" for each in answer))
        plan = make_plan(query, range(len(shape)), Algorithm.CSBV, per_event=True)
        make = self.tables.columns
        params = tuple(make.column([term], "uint32") for term in self.dictionary.intern_all(query.constants))
        identity = keys.fmix(keys.term_hash(f"{shape} {stream}"))
        groups = Groups(make.column([identity]), make.column([1]), make.column([1]), make.column([1 << 60]), params)
        group = self.tables.add_groups(plan, groups)
        self.follow(self.tables.add_queries(plan, 0, group, 0))
        return identity

    def follow(self, derived):
        backlog = Backlog(self.tables.columns)
        while True:
            for rows in derived:
                if rows.step < len(rows.plan.steps):
                    backlog.add(rows)
                else:
                    self.answers |= dict(zip(as_list(rows.identity), as_list(rows.oldest), strict=True))
            if not backlog:
                return
            derived = self.tables.add_rows(backlog.take())

    def forget_all(self):
        while self.tables.forgetting:
            self.tables.forget_some()


times = st.integers(0, 9)
triples = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2))
streams = st.sampled_from((*STREAMS, ALIKE))
steps = st.one_of(
    st.tuples(st.just("elements"), st.lists(st.tuples(triples, streams, times), min_size=1, max_size=6)),
    st.tuples(st.just("query"), st.sampled_from(SHAPES), streams),
    st.tuples(st.just("forget"), streams, times),
    st.tuples(st.just("go on"), st.integers(1, 9)),
    st.tuples(st.just("again"), st.integers(0, 30)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("rejoin"), st.integers(1, 9)),
)


class Story:
    """The operations done to both kinds of tables, and the answers that are due by then."""

    def __init__(self):
        self.both = [Streamed("light"), Streamed("columnar")]
        self.horizon = dict.fromkeys((*STREAMS, ALIKE), 0)
        self.held: dict[int, tuple] = {}
        """Elements that were not too old when they came, by number."""
        self.ever: list[tuple] = []
        self.asked: dict[tuple, int] = {}
        self.owed: list[set[int]] = []

    def living(self):
        return {number: each for number, each in self.held.items() if each[2] >= self.horizon[each[1]]}

    def do(self, step, random: Random):
        name, *rest = step
        if name == "elements":
            for triple, stream, time in rest[0]:
                self.ever.append((len(self.ever), triple, stream, time))
                self._publish(*self.ever[-1], ROLES & random.choice((ROLES, random.getrandbits(16))))
        elif name == "again" and self.ever:
            self._publish(*self.ever[rest[0] % len(self.ever)], ROLES & random.getrandbits(16))
        elif name == "query" and tuple(rest) not in self.asked:
            names = [each.query(*rest) for each in self.both]
            self.asked[tuple(rest)] = names[0]
        elif name == "forget":
            stream, before = rest
            self.horizon[stream] = max(self.horizon[stream], before)
            news = [each.tables.forget(keys.term_hash(stream), before) for each in self.both]
            assert news[0] == news[1]
        elif name == "go on":
            for each in self.both:
                for _ in range(rest[0]):
                    each.tables.forget_some()
        elif name == "end" and self.asked:
            query = list(self.asked)[rest[0] % len(self.asked)]
            for each in self.both:
                each.tables.end_groups([self.asked[query]])
        elif name == "rejoin":
            for each in self.both:
                for piece in each.tables.rejoin(lambda _, ring: [True] * len(ring), rest[0]):
                    each.follow(piece)
                    each.tables.forget_some()

    def _publish(self, number, triple, stream, time, roles: int):
        if not roles:
            return
        if time >= self.horizon[stream]:
            self.held[number] = (triple, stream, time, roles | self.held.get(number, (0, 0, 0, 0))[3])
        for each in self.both:
            each.element(number, triple, stream, time, roles)


def fresh(story: Story, ended: list[int], kind: str) -> Streamed:
    """Return tables that were given only the living elements."""
    made = Streamed(kind)
    for shape, stream in story.asked:
        made.query(shape, stream)
    made.tables.end_groups(ended)
    for number, (triple, stream, time, roles) in story.living().items():
        made.element(number, triple, stream, time, roles)
    return made


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, min_size=4, max_size=30), st.integers(0, 1 << 32))
def test_tables_that_drop_elements_equal_tables_that_never_had_them(script, seed):
    """Both kinds, whenever the pieces of it are done; versions grow with it."""
    story, random = Story(), Random(seed)
    seen = [version_of(each.tables) for each in story.both]
    before = [sorted(items_of(each.tables)) for each in story.both]
    for step in script:
        story.do(step, random)
        for at, each in enumerate(story.both):
            version, items = version_of(each.tables), sorted(items_of(each.tables))
            assert all(new >= old for new, old in zip(version, seen[at], strict=True))
            assert version != seen[at] or items == before[at]
            seen[at], before[at] = version, items
    for each in story.both:
        each.forget_all()
    ended = [group for group in story.asked.values() if group in story.both[0].tables.ended_groups()]
    for each, kind in zip(story.both, KINDS, strict=True):
        expected = fresh(story, ended, kind)
        assert sorted(items_of(each.tables)) == sorted(items_of(expected.tables))
        mine, owed = each.tables.sizes(), expected.tables.sizes()
        for name in ("triples", "triple_roles", "rows", "queries", "elements"):
            if name in ("rows", "queries") and ended:
                continue  # those of ended groups are dropped when they are many
            assert getattr(mine, name) == getattr(owed, name), name
        assert len(each.tables.triples_since(0).s) == len(story.living())
        assert expected.answers.keys() <= each.answers.keys() or ended


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(triples, times), min_size=8, max_size=40), st.sampled_from(SHAPES[:4]), st.integers(0, 1 << 32),
    st.sampled_from(list(KINDS)),
)  # fmt: skip
def test_living_elements_are_joined_while_others_are_dropped(elements, shape, seed, kind):
    """A new element meets all living ones, whichever were copied, moved or dropped by then."""
    made, random, horizon, held = Streamed(kind), Random(seed), 0, []
    made.query(shape, STREAMS[0])
    owed: set[frozenset[int]] = set()
    for number, (triple, time) in enumerate(elements):
        time += number // 4
        if random.random() < 0.5:
            horizon = max(horizon, number // 4 - random.randrange(4))
            made.tables.forget(keys.term_hash(STREAMS[0]), horizon)
        for _ in range(random.randrange(4)):
            made.tables.forget_some()
        made.element(number, triple, STREAMS[0], time)
        if time >= horizon:
            held.append((number, triple, time))
        living = [each for each in held if each[2] >= horizon]
        for combination in product(living, repeat=len(shape)):
            if any(each[0] == number for each in combination) and _matches(shape, [each[1] for each in combination]):
                owed.add(frozenset([(at, each[0]) for at, each in enumerate(combination)]))
    told = sum(1 for oldest in made.answers.values() if oldest)
    assert told >= len(owed)
    everything = [(number, triple) for number, (triple, _) in enumerate(elements)]
    all_of_them = sum(
        _matches(shape, [triple for _, triple in combination])
        for combination in product(everything, repeat=len(shape))
    )
    assert told <= all_of_them


def _matches(shape, combination) -> bool:
    bound: dict[int, int] = {}
    return all(
        triple[1] == ~pattern[1] and bound.setdefault(pattern[0], triple[0]) == triple[0]
        and bound.setdefault(pattern[2], triple[2]) == triple[2]
        for pattern, triple in zip(shape, combination, strict=True)
    )  # fmt: skip


def _half_laid_out() -> tuple[Streamed, int]:
    """Return columnar tables of which most is dead, and some of the rest copied; how many elements they were given."""
    made = Streamed("columnar")
    made.query(SHAPES[0], STREAMS[0])
    for number in range(40):
        made.element(number, (number % 3, 0, (number + 1) % 3), STREAMS[0], 0, ROLES)
    for number in range(40, 60):
        made.element(number, (number % 3, 0, (number + 2) % 3), STREAMS[0], 5, 1 << keys.S + keys.EVENT_SHIFT)
    for number in range(60, 64):  # no elements, and kept
        _publish_event(made, number, 7)
    made.tables.forget(keys.term_hash(STREAMS[0]), 1)
    while made.tables._layout is None or len(made.tables._layout._moved) < 55:
        made.tables.forget_some()
        assert made.tables.forgetting
    return made, 64


def _publish_event(made: Streamed, number: int, stamp: int) -> None:
    """Publish an event in the default graph, perhaps again."""
    make = made.tables.columns
    columns = [make.column([each], "uint32") for each in made.dictionary.intern_all((NODES[0], "<q>", NODES[0]))]
    event, roles = make.column([keys.event_id(1, number)]), make.column([ROLES], "uint32")
    made.follow(made.tables.add_triples(*columns, make.column([stamp]), event, roles))


def _as_given(made: Streamed, roles: int, stamp: int, queries) -> None:
    """Compare with tables that never had the dropped elements."""
    made.forget_all()
    other = Streamed("columnar")
    for shape in queries:
        other.query(shape, STREAMS[0])
    for number in range(40, 60):
        other.element(number, (number % 3, 0, (number + 2) % 3), STREAMS[0], 5, roles)
    for number in range(60, 64):
        _publish_event(other, number, stamp)
    assert sorted(items_of(made.tables)) == sorted(items_of(other.tables))
    before = len(made.answers), len(other.answers)
    for each in (made, other):
        each.element(99, (1, 0, 1), STREAMS[0], 6)
    assert len(made.answers) - before[0] == len(other.answers) - before[1] > 0
    assert made.tables.sizes().triple_roles == other.tables.sizes().triple_roles


def test_elements_that_come_under_further_indexes_during_a_copy_have_them_in_the_end():
    made, _ = _half_laid_out()
    for number in range(40, 60):
        made.element(number, (number % 3, 0, (number + 2) % 3), STREAMS[0], 5, ROLES)
    _as_given(made, ROLES, 7, [SHAPES[0]])


def test_events_published_again_while_they_are_copied_have_the_later_time():
    made, _ = _half_laid_out()
    while made.tables._layout is not None and len(made.tables._layout._moved) < 64:
        made.tables.forget_some()
    assert made.tables._layout is not None
    for number in range(60, 64):
        _publish_event(made, number, 9)
    _as_given(made, 1 << keys.S + keys.EVENT_SHIFT, 9, [SHAPES[0]])


def test_a_query_that_comes_while_tables_are_copied_meets_living_and_new_elements():
    made, _ = _half_laid_out()
    made.query(SHAPES[2], STREAMS[0])
    assert made.tables._layout is None
    _as_given(made, 1 << keys.S + keys.EVENT_SHIFT, 7, [SHAPES[0], SHAPES[2]])


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "begun anew"])
def test_columns_that_are_not_used_any_more_go_at_once(replaced):
    """They are as large as the tables; a node's garbage collector runs after millions of objects."""
    made, _ = _half_laid_out()
    tables = made.tables
    assert tables._layout is not None
    layout = tables._layout
    given_up, indexes = (tables._events, tables._join_indexes) if replaced else (layout.table, layout.join_indexes)
    kept = [index for each in indexes.values() for index in each if index.steps]
    unused = [weakref.ref(given_up), *map(weakref.ref, kept)]
    del given_up, indexes, layout, kept
    assert len(unused) > 1
    gc.disable()
    try:
        if replaced:
            made.forget_all()
        else:
            made.query(SHAPES[2], STREAMS[0])
        assert tables._layout is None
        assert [each() for each in unused] == [None] * len(unused)
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_released_during_a_sweep_are_not_counted_as_forgotten_too(kind):
    made = Streamed(kind)
    ended = [made.query(shape, STREAMS[0]) for shape in (SHAPES[0], SHAPES[2])]
    for number in range(12):
        made.element(number, (number % 3, 0, (number + 1) % 3), STREAMS[0], 0)
    rows = made.tables.sizes().rows
    made.tables.forget(keys.term_hash(STREAMS[0]), 1)
    while made.tables.sizes().rows == rows:
        made.tables.forget_some()
    assert made.tables.sizes().rows > 0, "the sweep goes on"
    made.tables.end_groups(ended)
    made.tables.release_ended()
    made.forget_all()
    assert (made.tables.sizes().rows, made.tables.sizes().queries) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_reaches_rows_that_a_release_moves(kind):
    """The rows of ended groups before them go, so they have lower numbers than the sweep has passed."""
    made = Streamed(kind)
    ended = [made.query(SHAPES[0], stream) for stream in (ALIKE, STREAMS[1])]
    for number in range(20):
        made.element(number, (number % 3, 0, (number + 1) % 3), STREAMS[1], 5)
    before = made.tables.sizes().rows
    made.query(SHAPES[0], STREAMS[0])
    for number in range(20, 30):
        made.element(number, (number % 3, 0, (number + 1) % 3), STREAMS[0], 0)
    rows = made.tables.sizes().rows - before
    assert 0 < rows < before
    made.tables.forget(keys.term_hash(STREAMS[0]), 1)
    for _ in range(14):  # ten pieces of elements, and four of rows
        made.tables.forget_some()
    assert made.tables.sizes().rows == before + rows, "the sweep is at the rows of the other stream"
    made.tables.end_groups(ended)
    made.tables.release_ended()
    assert made.tables.sizes().rows == rows
    made.forget_all()
    assert made.tables.sizes().rows == 0


def test_rows_renewed_while_they_are_copied_are_as_late_as_they_got():
    made, _ = _half_laid_out()
    for number in range(40, 60):  # all indexes, so that there are living partial results
        made.element(number, (number % 3, 0, (number + 2) % 3), STREAMS[0], 5, ROLES)
    (plan,) = (each for each in made.tables._plans.values() if len(each.steps) == 2)
    step = plan.steps[1]
    while made.tables._layout is not None and len(made.tables._layout._rows_moved[id(step)]) < len(step) - 2:
        made.tables.forget_some()
    assert made.tables._layout is not None
    (items,) = [each for each in made.tables.row_items() if each.step == 1]
    rows = made.tables.export_rows(items.plan, 1, items.handle)
    later = hlc.element(6, hlc.stream_mark(keys.term_hash(STREAMS[0])))
    made.tables.add_rows(replace(rows, oldest=made.tables.columns.full(len(rows), later)))
    made.forget_all()
    (items,) = [each for each in made.tables.row_items() if each.step == 1]
    assert len(items.handle) == len(rows)
    assert set(as_list(made.tables.export_rows(items.plan, 1, items.handle).oldest)) == {later}


@pytest.mark.parametrize("kind", KINDS)
def test_partial_results_that_come_after_their_elements_were_forgotten_are_not_taken_in(kind):
    """A replica that is behind may send them; no later step would find and drop them."""
    made, late = Streamed(kind), Streamed(kind)
    for each in (made, late):
        each.query(SHAPES[0], STREAMS[0])
        each.dictionary.intern(quads.streamed("<p0>", STREAMS[0]))
    for number, time in enumerate((1, 5)):
        made.element(number, (number, 0, 2), STREAMS[0], time)
    (items,) = [each for each in made.tables.row_items() if each.step == 1]
    rows = made.tables.export_rows(items.plan, 1, items.handle)
    assert len(rows) == 2
    late.tables.forget(keys.term_hash(STREAMS[0]), 3)
    late.forget_all()
    late.follow(late.tables.add_rows(rows))
    assert not late.tables.forgetting
    (items,) = [each for each in late.tables.row_items() if each.step == 1]
    kept = late.tables.export_rows(items.plan, 1, items.handle)
    assert [hlc.element_ms(at) for at in as_list(kept.oldest)] == [5]
    assert late.tables.sizes().rows == made.tables.sizes().rows - 1


@pytest.mark.parametrize("kind", KINDS)
def test_of_partial_results_that_wait_for_the_same_those_that_are_forgotten_are_joined_no_more(kind):
    made = Streamed(kind)
    made.query(SHAPES[0], STREAMS[0])
    for number, time in enumerate((1, 5)):
        made.element(number, (2 * number, 0, 1), STREAMS[0], time)
    held, all_of_it = made.tables.sizes().rows, made.tables.held
    made.tables.forget(keys.term_hash(STREAMS[0]), 3)
    made.forget_all()
    assert made.tables.sizes().rows == held - 1
    assert made.tables.held == all_of_it - 2, "an element and what was made of it"
    made.answers.clear()
    made.element(2, (1, 0, 1), STREAMS[0], 6)
    joined = [hlc.element_ms(at) for at in made.answers.values()]
    assert sorted(joined) == [5, 6], "it is joined with itself, and with what lives"
