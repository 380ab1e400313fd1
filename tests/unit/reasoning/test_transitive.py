"""Transitive relations, closed edge by edge: against the widest paths of all edges, and next to other rules."""

from __future__ import annotations

import os
import random

import pytest
from rule_histories import MEETING, OF_PROPERTIES, SYMMETRIC, TRANSITIVE, Given, Numbers, history, labelled_closure

from p2prdf.reasoning.effort import Effort
from p2prdf.reasoning.joins import Program
from p2prdf.reasoning.materialiser import FOREVER, Materialiser
from p2prdf.reasoning.rule import Atom, Rule, is_transitivity

HISTORIES = int(os.environ.get("HISTORIES", "250"))
P = TRANSITIVE.head.p
NODES = range(1, 9)
LINKED = Rule(Atom("?y", "<urn:r>", "?x"), (Atom("?x", P, "?y"), Atom("?y", "<urn:q>", "?z")))
OF_ANY = Rule(Atom("?x", "<urn:seen>", "?y"), (Atom("?x", "?p", "?y"),))


class Mends(Effort):
    """Never recomputes."""

    def anew(self, _changes, _facts):
        return False


def _widest(edges):
    """Return the width of the widest path between any two nodes that edges connect."""
    found = dict(edges)
    for y in NODES:
        for x in NODES:
            for z in NODES:
                width = min(found.get((x, y), -1), found.get((y, z), -1))
                if width > found.get((x, z), -1):
                    found[x, z] = width
    return found


class Relation:
    """A transitive relation between numbers, and its edges kept by hand."""

    def __init__(self, **options):
        self.numbers = Numbers()
        self.p = self.numbers(P)
        self.all = Materialiser([TRANSITIVE], self.numbers, effort=Mends(), **options)
        self.given = Given()

    def fact(self, pair):
        return pair[0], self.p, pair[1]

    def step(self, now, given=(), back=()):
        """Add pairs with labels, take others back; compare the result with the widest paths."""
        held = dict(self.all)
        arrivals, gone = {self.fact(pair): label for pair, label in dict(given).items()}, list(map(self.fact, back))
        change = self.all.step(now, arrivals, gone)
        self.given.step(now, arrivals, gone)
        expected = _widest({(s, o): label for (s, _, o), label in self.given.labels.items()})
        found = dict(self.all)
        assert {(s, o): label for (s, _, o), label in found.items()} == expected
        assert len(self.all) == len(found)
        assert change.added == {fact: label for fact, label in found.items() if fact not in held}
        assert sorted(change.removed) == sorted(held.keys() - found.keys())
        assert change.relabelled == {f: label for f, label in found.items() if held.get(f, label) != label}
        for order, nested in self.all.facts.orders.items():
            flat = {
                tuple(dict(zip(order, (one, two, three), strict=True))[at] for at in "spo"): label
                for one, rows in nested.items()
                for two, row in rows.items()
                for three, label in row.items()
            }
            assert flat == found, order
            assert all(row for rows in nested.values() for row in rows.values()), f"{order}: a row is left"


@pytest.mark.parametrize("orders", [(), ("spo", "ops", "sop")], ids=["two orders", "all orders"])
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_all_facts_hold_as_long_as_the_widest_paths(seed, orders):
    """Circles, several paths, background, renewals, seconds left out, and edges taken back before their time."""
    rng = random.Random(seed)
    relation, now, known = Relation(orders=orders), 0, []
    most, moves = (5, (0, 1, 1, 2, 4)) if seed % 2 else (16, (0, 0, 1, 2))  # few edges that expire; many that go
    for _ in range(7):
        now += rng.choice(moves)
        given = {}
        for _ in range(rng.randrange(most)):
            pair = (rng.choice(NODES), rng.choice(NODES)) if not known or rng.random() < 0.7 else rng.choice(known)
            known.append(pair)
            given[pair] = FOREVER if rng.random() < 0.1 else now + rng.randrange(-1, 8)
        back = rng.sample(known, min(len(known), rng.randrange(most - 1))) if rng.random() < 0.7 else []
        relation.step(now, given, back)


def test_a_path_that_loses_several_edges_at_once_is_dropped_in_any_order():
    """1 to 5 by two paths; dropping pairs for one edge must not hide their support from the next edge."""
    relation = Relation()
    relation.step(0, {(1, 2): 3, (2, 4): 5, (1, 3): 9, (3, 4): 3, (4, 5): 3, (5, 6): 9})
    relation.step(4)
    relation.step(6)
    assert {(s, o) for (s, _, o), _ in relation.all} == {(1, 3), (5, 6)}


def test_after_taking_back_the_closure_is_completed_by_remaining_paths():
    """A long way round that no two remaining facts span at once."""
    relation = Relation()
    relation.step(0, {(1, 8): 9, **{(each, each + 1): 5 for each in range(1, 8)}})
    relation.step(0, back=[(1, 8)])
    assert relation.all.label((1, relation.p, 8)) == 5
    relation.step(0, {(1, 2): 7}, back=[(3, 4)])
    relation.step(0, {(3, 5): 6})
    assert relation.all.label((1, relation.p, 8)) == 5


def test_an_edge_in_a_circle_that_is_taken_back_takes_its_consequences_with_it():
    relation = Relation()
    relation.step(0, {(1, 2): FOREVER, (2, 1): FOREVER, (2, 3): 4})
    relation.step(0, back=[(1, 2)])
    assert dict(relation.all) == {(2, relation.p, 1): FOREVER, (2, relation.p, 3): 4}


@pytest.mark.parametrize("rules", [[TRANSITIVE, LINKED], [TRANSITIVE, OF_ANY], [TRANSITIVE, MEETING, LINKED]])
@pytest.mark.parametrize("seed", range(HISTORIES // 8))
def test_rules_that_ask_for_a_closed_relation_get_all_of_it(seed, rules):
    rng, numbers = random.Random(seed), Numbers()
    both, given = Materialiser(rules, numbers, effort=Effort() if seed % 2 else Mends()), Given()
    assert both._program.transitive[numbers(P)].consumed
    for step in history(rng, numbers, 8):
        both.step(*step)
        given.step(*step)
        assert dict(both) == labelled_closure(rules, given.labels, numbers)


@pytest.mark.parametrize(
    ("others", "apart"),
    [
        ([], True),
        ([LINKED], True),
        ([OF_ANY], True),
        ([SYMMETRIC], True),
        ([Rule(Atom("?x", P, "?y"), (Atom("?x", "<urn:q>", "?y"),))], False),
        ([OF_PROPERTIES], False),
    ],
)  # fmt: skip
def test_a_relation_is_set_apart_unless_another_rule_concludes_it(others, apart):
    numbers = Numbers()
    for rules in ([TRANSITIVE, *others], [*others, TRANSITIVE]):
        assert (numbers(P) in Program(rules, numbers, closes=True).transitive) == apart
        assert not Program(rules, numbers).transitive


@pytest.mark.parametrize(
    ("head", "body", "is_so"),
    [
        ("?x p ?z", "?x p ?y , ?y p ?z", True),
        ("?x p ?z", "?y p ?z , ?x p ?y", True),
        ("?x p ?z", "?x p ?y , ?y q ?z", False),
        ("?x q ?z", "?x p ?y , ?y p ?z", False),
        ("?z p ?x", "?x p ?y , ?y p ?z", False),
        ("?x p ?x", "?x p ?y , ?y p ?x", False),
        ("?x p a", "?x p ?y , ?y p a", False),
        ("?x ?p ?z", "?x ?p ?y , ?y ?p ?z", False),
        ("?x p ?z", "?x p ?y , ?y p ?z , ?z p ?z", False),
    ],
)
def test_transitivity_is_distinguished_from_similar_rules(head, body, is_so):
    rule = Rule(Atom(*head.split()), tuple(Atom(*atom.split()) for atom in body.split(",")))
    assert is_transitivity(rule) == is_so
