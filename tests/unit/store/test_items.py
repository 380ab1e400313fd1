"""The content of tables as items: copies can be compared, and one can be made from another."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_copies import Copy, check, play, scripts
from store_items import ROLES_AND_KINDS, items_of, version_of
from store_tables import BOTH_KINDS, EVERY_ROLE, TERMS, Harness, bindings, canonical, new_tables, path

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.store.tables import Tables, identity_of_group
from p2prdf.wire.messages import Groups


@pytest.fixture(params=["light", "columnar"])
def kind(request):
    """Both kinds of tables."""
    return request.param


def bring(held: Tables, to: Tables) -> None:
    """Insert the whole content of one into another, without joining it, as anti-entropy does with a copy."""
    make = to.columns
    for role, per_event in ROLES_AND_KINDS:
        some = held.export_triples(role, per_event, held.triple_items(role, per_event).handle)
        types = ("uint32", "uint32", "uint32", "uint64", "uint64", "uint32")
        columns = [make.adopt(column, dtype) for column, dtype in zip(some, types, strict=True)]
        to.add_triples(*columns, make.full(len(columns[0]), 0, "uint32"))
    for plan, step, handle, *_ in held.row_items():
        rows = held.export_rows(plan, step, handle)
        none = make.full(len(rows), 0)
        columns = [make.adopt(column) for column in (rows.identity, rows.oldest, rows.born)]
        bound = tuple(make.adopt(column, "uint32") for column in rows.bindings)
        to.add_rows(replace(rows, group=_brought(held, to, plan, rows.group), bindings=bound, **dict(zip(
            ("identity", "oldest", "born"), columns, strict=True))), none)  # fmt: skip
    for plan, step, handle, *_ in held.link_items():
        to.add_queries(plan, step, _take(to, plan, held.export_links(plan, handle)), 0)
    to.end_groups(held.ended_groups())


def _brought(held: Tables, to: Tables, plan, group):
    """Return the numbers there of groups here."""
    groups, places = held.export_groups(plan, group)
    return to.columns.take(_take(to, plan, groups), as_list(places))


def _take(to: Tables, plan, groups: Groups):
    """Take in groups of other tables."""
    make = to.columns
    stamps = [make.adopt(column) for column in (groups.ids, groups.since_min, groups.since_max, groups.lease)]
    return to.add_groups(plan, Groups(*stamps, tuple(make.adopt(column, "uint32") for column in groups.params)))


@settings(max_examples=100, deadline=None)
@given(scripts, st.integers(0, 1 << 32), st.booleans())
def test_equal_states_have_equal_items_after_any_history(script, seed, ends):
    """Kinds of tables, order and repetition do not matter; a copy that gets everything has the items of the first.

    Items are also sufficient: rejoined, the copy has the same answers and the same work left.
    """
    first = [Copy(kind, Random(seed), probe=None, split=kind == "columnar") for kind in ("light", "columnar")]
    asked, log = play(script, first)
    if ends and asked:
        gone, _ = asked.popitem()
        for copy in first:
            copy.tables.end_groups([gone.identity >> 1])
    held = sorted(items_of(first[0].tables))
    assert sorted(items_of(first[1].tables)) == held
    for kind in ("light", "columnar"):
        for source in first:
            copy = Copy(kind, Random(seed), probe=None, split=False)
            bring(source.tables, copy.tables)
            bring(source.tables, copy.tables)
            assert sorted(items_of(copy.tables)) == held
            assert copy.tables.ended_groups() == source.tables.ended_groups()
            for piece in copy.tables.rejoin(lambda _, ring: [True] * len(ring)):
                copy.follow(piece)
            check(asked, log, [copy])
            # A rejoin may find rows later than they were found before, when they were late enough; no others.
            assert sorted(each[:-1] for each in items_of(copy.tables)) == sorted(each[:-1] for each in held)


@settings(max_examples=100, deadline=None)
@given(scripts, st.integers(0, 1 << 32), st.sampled_from(["light", "columnar"]), st.booleans())
def test_the_version_grows_if_items_change_and_stays_if_they_do_not(script, seed, kind, partly):
    """A caller that has seen a version need not look again before the version changes."""
    copy = Copy(kind, Random(seed), probe=0.5 if partly else None, split=partly)
    tables = copy.tables
    seen: list[tuple[tuple[int, ...], list[list[tuple]]]] = [(version_of(tables), [[], [], []])]

    def look() -> None:
        items: list[list[tuple]] = [[], [], []]
        for item in sorted(items_of(tables)):
            items[item[2] if item[0] == "triple" else 2].append(item)
        for before, after, had, has in zip(seen[-1][0], version_of(tables), seen[-1][1], items, strict=True):
            assert after >= before
            assert (after == before) == (has == had)
        seen.append((version_of(tables), items))

    asked, _ = play(script, [copy], look, times=2)
    for plan in asked:
        for _ in range(2):
            tables.end_groups([plan.identity >> 1])
            look()


@pytest.mark.parametrize("kind", ["light", "columnar"])
def test_a_publication_that_has_ended_on_arrival_is_held_under_its_indexes_all_the_same(kind):
    """Replicas before and after the removal store it under the same indexes, so they can compare (seed 21140)."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    triple = tuple(dictionary.intern(each) for each in TERMS[:3])
    harness.triples([triple], time=GONE | 5, roles=1 << keys.ANY)
    harness.triples([triple], time=4, roles=1 << keys.P)
    other, _ = new_tables(kind)
    Harness(other).triples([triple], time=4, roles=1 << keys.P)
    items = tables.triple_items(keys.P, False)
    assert len(items.handle) == 1
    assert as_list(items.identities) != as_list(other.triple_items(keys.P, False).identities)


@pytest.mark.parametrize("kind", ["light", "columnar"])
def test_a_publication_keeps_its_indexes_when_an_older_removal_comes_under_others(kind):
    """Otherwise a replica of another index that had not got it yet would never get it (seed 31147)."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    triple = tuple(dictionary.intern(each) for each in TERMS[:3])
    harness.triples([triple], time=8, roles=1 << keys.O | 1 << keys.P)
    harness.triples([triple], time=GONE | 5, roles=1 << keys.P)
    exported = tables.export_triples(keys.O, False, tables.triple_items(keys.O, False).handle)
    assert 8 in as_list(exported.time)


def one_of_each(kind: str):
    """A query of two patterns, under CQC, with a triple and a partial result."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    plan, _ = harness.query(path("<b>", "<c>"), dictionary, since=5, algorithm=Algorithm.CQC)
    tables.add_queries(plan, 1, tables.columns.column([0], "int64"), 0)
    harness.triples([(a, b, c)], time=7, roles=BOTH_KINDS)
    return harness, dictionary, plan


@pytest.mark.parametrize("probe", [0, 1])
def test_a_row_that_comes_again_is_another_item_only_if_it_is_later(kind, probe):
    """Joined or only stored, renewed alone: nothing else changes, and the version shows the change."""
    harness, _, plan = one_of_each(kind)
    tables, make = harness.tables, harness.tables.columns
    ((handle, before),) = [(each.handle, as_list(each.identities)) for each in tables.row_items() if each.step == 1]
    for oldest, changed in ((6, False), (7, False), (8, True), (8, False)):
        version = version_of(tables)
        rows = tables.export_rows(plan, 1, handle)
        tables.add_rows(replace(rows, oldest=make.column([oldest]), born=make.column([9])), make.column([probe]))
        (after,) = [as_list(each.identities) for each in tables.row_items() if each.step == 1]
        assert (version_of(tables) != version) == (after != before) == changed
        before = after


@pytest.mark.parametrize("shift", [0, keys.EVENT_SHIFT])
def test_a_triple_that_comes_again_is_another_item_only_if_it_is_later_or_under_another_index(kind, shift):
    """Events too: they have one time, but if a peer sends another, copies must still come to agree."""
    tables, dictionary = new_tables(kind)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    seen: list[tuple] = []
    come = ((5, 6, True), (5, 6, False), (4, 2, False), (6, 2, True), (5, 8, True), (6, 14, False))
    for time, roles, changed in come:
        version = version_of(tables)
        Harness(tables).triples([(a, b, c)], time=time, roles=roles << shift)
        items = list(items_of(tables))
        assert (version_of(tables) != version) == (items != seen) == changed
        seen = items
    assert {identity for *_, identity in seen} == {
        keys.item_identity(keys.event_id(1, 0) if shift else keys.triple_id(*map(keys.term_hash, TERMS[:3])), 6)
    }


def test_items_have_the_keys_that_route_them_and_identities_made_of_their_content(kind):
    """The identities and keys are those that every peer computes, so copies anywhere agree."""
    harness, _, plan = one_of_each(kind)
    h = [keys.term_hash(term) for term in ("<a>", "<b>", "<c>")]
    at_b, at_c = (keys.role_key(keys.P, 0, each, 0) for each in h[1:])
    event, triple, group = keys.event_id(1, 0), keys.triple_id(*h), identity_of_group(plan.identity >> 1)
    row = (group + keys.contribution(triple, 0)) % (1 << 64)
    held = list(items_of(harness.tables))
    for role in keys.ROLES:
        key = keys.role_key(role, *h) if role else keys.BUCKET_KEYS[triple % keys.BUCKETS]
        assert ("triple", role, False, key, keys.item_identity(triple, 7)) in held
        assert ("triple", role, True, key, keys.item_identity(event, 7)) in held
    assert held[16:] == [
        ("row", plan.identity, 0, at_b, keys.item_identity(group, (1 << 64) - 1, 5, 5)),
        ("row", plan.identity, 1, at_c, keys.item_identity(row, 7, 5, 5)),
        ("link", plan.identity, 1, at_c, keys.item_identity(group, 1, 5, 5)),
    ]


def test_rows_without_constants_are_items_under_the_keys_of_all_buckets(kind):
    """Each bucket has its own copies, and they are compared key by key."""
    tables, dictionary = new_tables(kind)
    Harness(tables).query(canonical([(0, 1, 2)], filtered=False), dictionary, since=1)
    held = list(items_of(tables))
    assert [key for *_, key, _ in held] == list(keys.BUCKET_KEYS)
    assert len({identity for *_, identity in held}) == 1


def test_triples_are_exported_by_index_or_since_a_stamp_with_all_indexes(kind):
    """Both kinds; exported triples can be inserted as they are."""
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    two = (1 << keys.S | 1 << keys.P) * (1 + (1 << keys.EVENT_SHIFT))
    harness.triples([(a, b, c), (b, b, c)], time=3, roles=two)
    harness.triples([(c, b, a), (a, b, c)], time=5, roles=EVERY_ROLE, first_event=7)
    since = [list(zip(*map(as_list, tables.triples_since(stamp)), strict=True)) for stamp in (0, 4, 6)]
    plain_two, event_two = two & EVERY_ROLE, two & ~EVERY_ROLE
    events = [(a, b, c, 3, keys.event_id(1, 0), event_two), (b, b, c, 3, keys.event_id(1, 1), event_two)]
    plain = [(a, b, c, 5, 0, EVERY_ROLE), (b, b, c, 3, 0, plain_two), (c, b, a, 5, 0, EVERY_ROLE)]
    assert since == [[*plain, *events], [plain[0], plain[2]], []]
    under_o, under_s = tables.triple_items(keys.O, False), tables.triple_items(keys.S, True)
    one = tables.export_triples(keys.O, False, tables.columns.take(under_o.handle, [1]))
    assert list(zip(*map(as_list, one), strict=True)) == [(c, b, a, 5, 0, 1 << keys.O)]
    event = tables.export_triples(keys.S, True, under_s.handle)
    assert as_list(event.roles) == [1 << keys.S + keys.EVENT_SHIFT] * 2


def test_handles_of_rows_stay_true_when_groups_end_and_their_rows_are_dropped(kind):
    """Living rows are exported, ended ones are left out; and the listing goes on at its position."""
    count = 9000 if kind == "columnar" else 300
    tables, dictionary = new_tables(kind)
    b = dictionary.intern("<b>")
    make = tables.columns
    plans = [make_plan(path(*["<b>"] * length), range(length), Algorithm.CSBV) for length in (1, 2)]
    ids = list(range(1, count + 1))
    ones = make.full(count, 1)
    for plan in plans:
        params = tuple(make.full(count, b, "uint32") for _ in range(plan.constant_count))
        names = make.column([each * 2 + (plan is plans[1]) for each in ids])
        group = tables.add_groups(plan, Groups(names, ones, ones, ones, params))
        tables.add_queries(plan, 0, group, 0)
    listing = tables.row_items()
    first = next(listing)
    version = version_of(tables)
    tables.end_groups([each * 2 for each in ids[: count * 4 // 5]] + [each * 2 + 1 for each in ids[: count * 4 // 5]])
    assert version_of(tables) > version
    left = [identity_of_group(each * 2) for each in ids[count * 4 // 5 :]]
    rows = tables.export_rows(first.plan, first.step, first.handle)
    assert as_list(rows.identity) == left
    assert as_list(tables.group_ids(first.plan, rows.group)) == [each * 2 for each in ids[count * 4 // 5 :]]
    (second,) = listing
    assert as_list(second.handle) == [identity_of_group(each * 2 + 1) for each in ids[count * 4 // 5 :]]


def test_a_group_that_ended_before_anything_of_it_came_comes_in_ended(kind, monkeypatch):
    """Anti-entropy of a copy may bring the end first; a bounded number of such ends is remembered."""
    monkeypatch.setattr("p2prdf.store.items.ENDED_MAX", 2)
    tables, dictionary = new_tables(kind)
    harness = Harness(tables)
    a, b, c = (dictionary.intern(each) for each in TERMS[:3])
    paths = [path(*["<b>"] * length) for length in (1, 2, 3)]
    plans = [make_plan(each, range(len(each.patterns)), Algorithm.CSBV) for each in paths]
    ids = [plan.identity >> 1 for plan in plans]
    tables.end_groups(ids)
    tables.end_groups(ids[1:])
    assert tables.ended_groups() == ids[1:]
    for each in paths:
        harness.query(each, dictionary, since=1)
        harness.query(each, dictionary, since=2)
    assert bindings(harness.triples([(a, b, c), (c, b, a)], time=3)) == {(a, c): 1, (c, a): 1}
    assert sorted(tables.ended_groups()) == sorted(ids[1:])
    assert tables.sizes().groups == 1
    assert [plan for plan, *_ in tables.row_items()] == plans[:1]
