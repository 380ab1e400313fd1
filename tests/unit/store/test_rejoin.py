"""Storing without joining, and joining everything again: no answer is lost, and none invented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_copies import Copy, check, play, scripts
from store_tables import BOTH_KINDS, TERMS, Harness, bindings, canonical, new_tables, path

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.store.tables import Derived, Tables
from p2prdf.wire.messages import Groups


def everything(_role: int, ring) -> list[bool]:
    """Choose all keys."""
    return [True] * len(ring)


@pytest.fixture(params=["light", "columnar"])
def kind(request):
    """Both kinds of tables."""
    return request.param


def abc(dictionary):
    return [dictionary.intern(each) for each in TERMS[:3]]


def test_stored_items_join_nothing_until_they_are_rejoined(kind):
    """Triples, queries and partial results alike; later items that are joined find each of them."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    harness.query(path("<b>", "<c>"), dictionary, since=1)
    assert not harness.triples([(a, b, c), (c, c, a)], time=2, probed=0)
    assert tables.sizes().rows == 0
    assert bindings(harness.triples([(c, c, b)], time=3)) == Counter()
    assert bindings(harness.rejoin(everything)) == Counter([(a, c, a), (a, c, b)])
    assert tables.sizes().rows == 1


def test_the_same_again_is_not_joined_though_it_is_to_be_now(kind):
    """A replica has joined everything that an index holds already with the same time; a rejoin covers the rest."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    harness.query(path("<b>"), dictionary, since=1)
    assert not harness.triples([(a, b, c)], time=2, probed=0)
    assert not harness.triples([(a, b, c)], time=2)
    assert bindings(harness.rejoin(everything)) == Counter([(a, c)])


def test_an_index_that_is_new_to_a_triple_is_joined_if_it_is_among_those_to_be(kind):
    """Each index counts by itself: stored under one, joined under another."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    plan, _ = harness.query(path("<b>"), dictionary, since=1)
    under = 1 << plan.steps[0].role
    assert not harness.triples([(a, b, c)], time=2, roles=under << 1, probed=under)
    assert bindings(harness.triples([(a, b, c)], time=2, roles=under, probed=under)) == Counter([(a, c)])
    assert not harness.triples([(b, b, c)], time=2, roles=under, probed=under << 1)


def test_a_republication_is_joined_under_the_indexes_given_whichever_it_names(kind):
    """All indexes share one time: the first arrival of a later publication must do for all of them, or for none."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    harness.triples([(a, b, c), (b, b, c)], time=2)
    harness.query(path("<b>"), dictionary, since=5)
    other = 1 << keys.S
    assert not harness.triples([(a, b, c)], time=6, roles=other, probed=other)
    assert not harness.triples([(a, b, c)], time=6)
    assert bindings(harness.triples([(b, b, c)], time=6, roles=other, probed=BOTH_KINDS)) == Counter([(b, c)])
    assert bindings(harness.rejoin(everything)) == Counter([(a, c), (b, c)])


def test_a_later_row_is_joined_with_its_new_partners_or_only_raised(kind):
    """A partial result that comes again, later than before."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, _, c = abc(dictionary)
    plan, _ = harness.query(path("<b>", "<c>"), dictionary, since=4)
    harness.triples([(c, c, a)], time=9)
    make = tables.columns

    def row(identity: int, oldest: int, *, probe: bool) -> list[Derived]:
        columns = [make.column([each]) for each in (identity, oldest, oldest)]
        rows = Derived(plan, 1, make.column([0], "uint32"), *columns, tuple(make.column([t], "uint32") for t in (a, c)))
        return tables.add_rows(rows, make.column([probe]))

    assert not row(1, 3, probe=False)
    assert not row(1, 5, probe=False)
    assert not row(1, 5, probe=True)
    assert len(row(2, 3, probe=True)) == 1
    assert len(row(2, 5, probe=True)) == 1
    (rows,) = tables.waiting_rows(plan.steps[1].role, keys.role_key(plan.steps[1].role, *[keys.term_hash("<c>")] * 3))
    assert as_list(rows.oldest) == [5, 5]


def test_storing_alone_is_no_processing_load(kind):
    """It is storage load, counted once the figure is asked for."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    harness.query(path("<b>", "<c>"), dictionary, since=1)
    harness.triples([(a, b, c)], time=2, roles=keys.CSBV_ROLES, probed=1 << keys.P)
    harness.triples([(a, b, c)], time=3, roles=keys.CSBV_ROLES, probed=1 << keys.P)
    sizes = tables.sizes()
    assert (sizes.triple_roles, sizes.rows, sizes.processing_load) == (7, 1, 3)  # twice under p, and the row


def test_only_rows_under_chosen_keys_are_rejoined(kind):
    """Queries and partial results of all plans and algorithms, chosen by their ring keys."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    harness.query(path("<b>", "<c>"), dictionary, since=1)
    harness.query(path("<c>"), dictionary, since=1, algorithm=Algorithm.CQC)
    harness.triples([(a, b, c), (c, c, a)], time=2)
    asked: dict[int, list[int]] = {}
    wanted = keys.role_key(keys.P, 0, keys.term_hash("<c>"), 0)

    def chosen(role: int, ring) -> list[bool]:
        asked.setdefault(role, []).extend(as_list(ring))
        return [key == wanted for key in as_list(ring)]

    assert bindings(harness.rejoin(chosen)) == Counter([(c, a)])
    assert asked[keys.P] == [keys.role_key(keys.P, 0, keys.term_hash(term), 0) for term in ("<b>", "<c>")]
    assert asked[keys.S | keys.P] == [keys.role_key(keys.S | keys.P, *[keys.term_hash("<c>")] * 3)]


@pytest.mark.parametrize("bucket", [None, 0, 5])
def test_rows_that_wait_everywhere_are_rejoined_for_any_bucket(kind, bucket):
    """A pattern without constants has the keys of all buckets."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    harness.query(canonical([(0, 1, 2)], filtered=False), dictionary, since=1)
    harness.triples([(a, b, c)], time=2, probed=0)
    mine = None if bucket is None else keys.bucket_key(bucket)

    def chosen(role: int, ring) -> list[bool]:
        assert role == keys.ANY
        assert as_list(ring) == list(keys.BUCKET_KEYS)
        return [key == mine for key in as_list(ring)]

    assert bindings(harness.rejoin(chosen)) == Counter([] if bucket is None else [(a, b, c)])


def many_groups(tables: Tables, dictionary, count: int) -> tuple[list[int], Derived]:
    """Let ``count`` groups of one plan wait under one key; return their identities and the queries as rows."""
    plan = make_plan(path("<b>"), [0], Algorithm.CSBV)
    make = tables.columns
    ids = [1000 + each for each in range(count)]
    ones = make.full(count, 1)
    params = (make.full(count, dictionary.intern("<b>"), "uint32"),)
    group = tables.add_groups(plan, Groups(make.column(ids), ones, ones, make.full(count, 1 << 60), params))
    tables.add_queries(plan, 0, group, 0)
    return ids, group


def test_a_piece_is_bounded_also_within_one_row_and_over_many(kind):
    """One row with many triples, many rows with few: both are cut, and all pairs come."""
    for rows, triples in ((1, 500), (500, 1)):
        tables, dictionary = new_tables(kind)
        _, b, c = abc(dictionary)
        subjects = dictionary.intern_all(f"<s{each}>" for each in range(triples))
        Harness(tables).triples([(each, b, c) for each in subjects], time=2)
        many_groups(tables, dictionary, rows)
        pieces = [sum(map(len, piece)) for piece in tables.rejoin(everything, 64)]
        assert max(pieces) <= 64
        assert sum(pieces) == 500
        assert len(pieces) <= 32


def test_tables_may_grow_and_shrink_between_pieces(kind):
    """Groups end and lose their rows, other groups and triples come: the remaining groups get all their answers."""
    count = 6000 if kind == "columnar" else 300
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = abc(dictionary)
    ids, _ = many_groups(tables, dictionary, count)
    harness.triples([(a, b, c), (b, b, c), (c, b, c)], time=2, probed=0)
    pieces = tables.rejoin(everything, 100)
    found = harness.follow(next(pieces))
    tables.end_groups(ids[: count * 4 // 5])
    harness.triples([(c, b, a)], time=3)
    harness.query(path("<b>"), dictionary, since=1)
    found += sum((harness.follow(piece) for piece in pieces), Counter())
    left = ids[count * 4 // 5 :]
    at_b, at_c = keys.term_hash("<b>"), keys.term_hash("<c>")
    contributed = [keys.contribution(keys.triple_id(keys.term_hash(each), at_b, at_c), 0) for each in TERMS[:3]]
    owed = {(keys.fmix(each) + part) % (1 << 64) for each in left for part in contributed}
    assert owed <= {row[0] for row in found}
    assert all(count == 1 for row, count in found.items() if row[0] in owed)


# --- random interleavings -------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(scripts, st.integers(0, 1 << 32))
def test_rejoining_everything_gives_the_answers_of_joining_everything(script, seed):
    """For any part that was only stored, in any order, and though the answers of the rest are lost."""
    kinds = ("light", "columnar")
    joined = [Copy(kind, Random(seed), probe=None, split=False) for kind in kinds]
    joined += [Copy(kind, Random(seed), probe=1, split=True) for kind in kinds]
    for copy in joined[:2]:  # tables that join everything need not skip ended items
        copy.tables.over_before = 1 << 62
    stored = [Copy(kind, Random(seed), probe=probe, split=True) for kind in kinds for probe in (0, 0.5)]
    asked, log = play(script, [*joined, *stored])
    for copy in stored:
        copy.answers.clear()
        copy.probe = None
        for piece in copy.tables.rejoin(everything, 3):
            copy.follow(piece)
    check(asked, log, [*joined, *stored])


@settings(max_examples=100, deadline=None)
@given(scripts, scripts, st.integers(0, 1 << 32))
def test_items_that_come_during_a_rejoin_are_joined_before_and_behind_its_position(before, during, seed):
    """From its first piece on everything is joined on its way in; at its end nothing is missing."""
    for kind in ("light", "columnar"):
        copy = Copy(kind, Random(seed), probe=0.3, split=True)
        pieces: list[Iterator[list[Derived]]] = []

        def go_on(copy: Copy = copy, pieces: list[Iterator[list[Derived]]] = pieces) -> None:
            if pieces:
                copy.follow(next(pieces[0], []))

        def takeover(copy: Copy = copy, pieces: list[Iterator[list[Derived]]] = pieces) -> None:
            copy.probe = None
            pieces.append(copy.tables.rejoin(everything, 1))

        calls = iter([*[lambda: None] * (len(before) - 1), takeover, *[go_on] * len(during)])
        asked, log = play([*before, *during], [copy], lambda calls=calls: next(calls)())
        for piece in pieces[0]:
            copy.follow(piece)
        check(asked, log, [copy])
