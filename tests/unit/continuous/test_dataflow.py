"""A standing query at work: its answers at the start, in between and when all triples are gone."""

from __future__ import annotations

import pytest

from p2prdf.continuous.dataflow import Dataflow
from p2prdf.continuous.operators.zset import UNBOUND, Delta
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.standing.query import parse_query

P = "PREFIX : <x:> "
XSD = "http://www.w3.org/2001/XMLSchema#"


class Flow:
    """A dataflow with rows given and shown as text."""

    def __init__(self, text: str):
        self.terms = TermDictionary()
        self.query = parse_query(P + text)
        self.flow = Dataflow(self.query, self.terms)

    def __call__(self, leaf: int, *rows: str, times: int = 1) -> dict[str, int]:
        """Let rows of a leaf come, given as ``x:a x:b`` or numbers."""
        return self.shown(self.flow.apply(leaf, [(self.row(row), times) for row in rows]))

    def row(self, text: str) -> tuple[int, ...]:
        return tuple(
            self.terms.intern(f'"{cell}"^^<{XSD}integer>' if cell.isdigit() else f"<{cell}>") for cell in text.split()
        )

    def shown(self, delta: Delta) -> dict[str, int]:
        def cell(number: int) -> str:
            return "-" if number == UNBOUND else self.terms.text(number).split("^^")[0].strip('<>"')

        return {" ".join(map(cell, row)): weight for row, weight in delta.items()}


def test_the_null_row_of_an_optional_is_taken_back_and_given_again() -> None:
    flow = Flow("SELECT * { ?s :p ?o OPTIONAL { ?s :q ?z } }")
    assert flow(0, "x:a 1") == {"x:a 1 -": 1}
    assert flow(1, "x:a 2") == {"x:a 1 -": -1, "x:a 1 2": 1}
    assert flow(1, "x:a 3") == {"x:a 1 3": 1}
    assert flow(1, "x:a 2", times=-1) == {"x:a 1 2": -1}
    assert flow(1, "x:a 3", times=-1) == {"x:a 1 3": -1, "x:a 1 -": 1}
    assert flow.shown(flow.flow.output()) == {"x:a 1 -": 1}


def test_a_retraction_before_its_row_does_no_harm() -> None:
    flow = Flow("SELECT (COUNT(*) AS ?n) (MAX(?o) AS ?m) { ?s :p ?o FILTER NOT EXISTS { ?s :q ?z } }")
    assert flow.shown(flow.flow.initial) == {"0 -": 1}
    assert flow(0, "x:a 4", times=-1) == {}
    assert flow(1, "x:a", times=-1) == {}
    assert flow(0, "x:a 4", "x:a 4") == {"0 -": -1, "1 4": 1}
    assert flow(1, "x:a") == {}
    assert flow(1, "x:a") == {"1 4": -1, "0 -": 1}


def test_changes_applied_together_leave_no_intermediate_rows() -> None:
    flow = Flow("SELECT * { ?s :p ?o OPTIONAL { ?s :q ?z } }")
    delta = flow.flow.apply_all({0: [(flow.row("x:a 1"), 1)], 1: [(flow.row("x:a 2"), 1)]})
    assert flow.shown(delta) == {"x:a 1 2": 1}


def test_a_leaf_that_two_operators_read_is_there_once() -> None:
    flow = Flow("SELECT * { ?s :p ?o { ?o :q ?z } UNION { ?o :q ?z } }")
    assert len(flow.query.leaves) == 2
    assert flow(0, "x:a x:b") == {}
    assert flow(1, "x:b x:c") == {"x:a x:b x:c": 2}


def test_ask_is_one_empty_row_while_it_is_true() -> None:
    flow = Flow("ASK { ?s :p ?o FILTER(?o > 1) }")
    assert flow.flow.initial == {}
    assert flow.flow.apply(0, [((), 2)]) == {(): 1}
    assert flow.flow.apply(0, [((), -1)]) == {}
    assert flow.flow.apply(0, [((), -1)]) == {(): -1}


def test_a_constructed_graph_has_each_triple_once_and_the_same_blank_nodes_everywhere() -> None:
    text = "CONSTRUCT { ?s :of _:b . _:b :is ?o } { ?s :p ?o ; :q ?z }"
    one, other = Flow(text), Flow(text.replace("?s", "?subject"))
    found = one(0, "x:a 1", "x:b 1")
    assert found == other(0, "x:a 1", "x:b 1")
    assert sorted((row.split()[1], count) for row, count in found.items()) == [("x:is", 1)] * 2 + [("x:of", 1)] * 2
    again = one(0, "x:a 1")  # the same solution once more: another blank node
    assert len(again) == 2
    assert not again.keys() & found.keys()
    assert one(0, "x:a 1", times=-1) == dict.fromkeys(again, -1)
    assert one(0, "x:a 1", "x:b 1", times=-1) == dict.fromkeys(found, -1)


def test_a_slice_lets_the_next_row_move_up() -> None:
    flow = Flow("SELECT ?s ?o { ?s :p ?o } ORDER BY DESC(?o) ?s LIMIT 2")
    assert flow(0, "x:a 1", "x:b 5", "x:c 3") == {"x:b 5": 1, "x:c 3": 1}
    assert flow(0, "x:d 4") == {"x:d 4": 1, "x:c 3": -1}
    assert flow(0, "x:b 5", times=-1) == {"x:b 5": -1, "x:c 3": 1}


def test_rows_of_equal_rank_are_chosen_by_their_terms_in_any_order_of_arrival() -> None:
    rows = ["x:a 1", "x:b 1", "x:c 1"]
    for order in (rows, rows[::-1]):
        flow = Flow("SELECT ?s { ?s :p ?o } ORDER BY ?o LIMIT 2")
        for row in order:
            flow(0, row)
        assert flow.shown(flow.flow.output()) == {"x:a": 1, "x:b": 1}


def test_ways_run_in_circles_and_break() -> None:
    flow = Flow("SELECT ?o { :a :p+ ?o }")
    flow(0, "x:a x:b", "x:b x:c", "x:c x:a", "x:c x:d")
    assert flow.shown(flow.flow.output()) == {"x:b": 1, "x:c": 1, "x:a": 1, "x:d": 1}
    assert flow(0, "x:b x:c", times=-1) == {"x:c": -1, "x:a": -1, "x:d": -1}


def test_sizes_count_the_rows_held_and_return_to_zero() -> None:
    flow = Flow("SELECT ?s (COUNT(*) AS ?n) { ?s :p ?o OPTIONAL { ?s :q ?z } } GROUP BY ?s")
    flow(0, "x:a", "x:a", "x:b")
    flow(1, "x:a")
    assert flow.flow.sizes() == [("LeftJoin", 3), ("Group", 4)]
    assert flow.flow.rows_held == 9
    flow(1, "x:a", times=-1)
    flow(0, "x:a", "x:a", "x:b", times=-1)
    assert flow.flow.sizes() == []
    assert flow.flow.rows_held == 0


def test_rows_that_are_not_the_leafs_are_a_broken_invariant() -> None:
    with pytest.raises(AssertionError):
        Flow("SELECT * { ?s :p ?o } ").flow.apply(0, [((1,), 1)])
