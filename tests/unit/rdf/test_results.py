"""SPARQL 1.1 JSON results, and bags compared up to the names of blank nodes."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solution_bags import rows_of, same_bag

from p2prdf.errors import DataRefused
from p2prdf.rdf.results import bindings, document
from p2prdf.rdf.terms import skolem

blanks = st.sampled_from([skolem("p", f"b{n}") for n in range(5)])
values = st.one_of(st.none(), blanks, st.sampled_from(["<a:x>", "<a:y>", '"1"', '"1"@en']))
bags = st.lists(st.tuples(values, values, values), max_size=8)


def test_a_document_has_names_and_bindings_and_leaves_out_the_unbound() -> None:
    rows = [("<a:x>", '"1"@en'), (None, '"01"^^<a:t>'), (skolem("p", "b"), '"x"')]
    assert document(["s", "o"], rows) == {
        "head": {"vars": ["s", "o"]},
        "results": {
            "bindings": [
                {"s": {"type": "uri", "value": "a:x"}, "o": {"type": "literal", "value": "1", "xml:lang": "en"}},
                {"o": {"type": "literal", "value": "01", "datatype": "a:t"}},
                {"s": {"type": "bnode", "value": "p_3Ab"}, "o": {"type": "literal", "value": "x"}},
            ]
        },
    }


@given(bags)
def test_rows_come_back_from_their_bindings(rows: list[tuple[str | None, ...]]) -> None:
    names = ["a", "b", "c"]
    assert list(rows_of(names, [bindings(names, row) for row in rows])) == rows


def test_a_binding_of_an_unknown_name_is_refused() -> None:
    with pytest.raises(DataRefused, match=r"binds \['z'\]"):
        list(rows_of(["x"], [{"z": {"type": "uri", "value": "a:b"}}]))


@given(bags, st.randoms(use_true_random=False))
def test_order_and_names_of_blank_nodes_do_not_matter(
    rows: list[tuple[str | None, ...]], rng: random.Random
) -> None:
    old = [skolem("p", f"b{n}") for n in range(5)]
    new = [skolem("q", f"c{n}") for n in range(5)]
    rng.shuffle(new)
    renaming = dict(zip(old, new, strict=True))
    other = [tuple(renaming.get(value or "", value) for value in row) for row in rows]
    rng.shuffle(other)
    assert same_bag(rows, other)


@given(bags, bags)
def test_different_bags_are_distinguished(a: list[tuple[str | None, ...]], b: list[tuple[str | None, ...]]) -> None:
    """Against the definition: some renaming makes them equal."""
    names = sorted({value for row in a for value in row if value and value.startswith("<urn:bnode:")})
    others = sorted({value for row in b for value in row if value and value.startswith("<urn:bnode:")})
    expected = len(names) == len(others) and any(
        Counter(tuple(renaming.get(v or "", v) for v in row) for row in a) == Counter(b)
        for order in itertools.permutations(others)
        for renaming in [dict(zip(names, order, strict=True))]
    )
    assert same_bag(a, b) == expected


def test_multiplicity_counts() -> None:
    assert not same_bag([("<a:x>",)], [("<a:x>",), ("<a:x>",)])
    b, c = skolem("p", "b"), skolem("p", "c")
    assert not same_bag([(b,), (b,)], [(b,), (c,)])
    assert same_bag([(b, c), (c, b)], [(c, b), (b, c)])
    assert not same_bag([(b, c), (c, b)], [(b, b), (c, c)])


def test_many_interchangeable_blank_nodes_are_quick() -> None:
    a = [(skolem("p", f"b{n}"), "<a:x>") for n in range(2000)]
    b = [(skolem("q", f"b{n}"), "<a:x>") for n in range(2000)]
    assert same_bag(a, b)
    assert not same_bag(a, [*b[:-1], (skolem("q", "z"), "<a:y>")])
