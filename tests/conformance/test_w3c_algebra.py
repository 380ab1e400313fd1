"""W3C query evaluation cases as standing queries of the whole algebra, over signed answers.

The data of each case comes triple by triple in a random order; then once more with other triples among it,
which are taken back.  The dataflow's output at the end is the published result, numbers compared by value (the
recommendation fixes no lexical form for computed ones), or the query is refused by name.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from algebra.compare import same_values
from algebra.leaves import Home
from solution_bags import rows_of, same_bag
from w3c import CASES, ONCE, REFUSED, cases, triples

from p2prdf.errors import QueryRefused
from p2prdf.rdf.algebra import Form
from p2prdf.rdf.standing import form
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.rdf.standing.query import parse_query

needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f"the shared W3C cases are not at {CASES}")


@needs_cases
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_published_result_comes_out_triple_by_triple_and_when_others_are_taken_back(case: dict[str, Any]) -> None:
    if case["name"] in REFUSED:
        with pytest.raises(QueryRefused) as refusal:
            parse_query(case["query"])
        assert refusal.value.construct == REFUSED[case["name"]]
        return
    query = parse_query(case["query"])
    assert query.form is Form.SELECT
    assert set(query.names) == set(case["vars"])
    assert form.decode(form.encode(query)) == query
    rng = random.Random(case["name"])
    data = triples(case["data"])
    expected = same_values(Counter(rows_of(query.names, case["results"])))

    home = Home(query, rng)
    rng.shuffle(data)
    for count in range(len(data) + 1):
        home.change(data[:count])
    home.check_output()
    assert same_bag(same_values(home.rows).elements(), expected.elements())

    terms = sorted({term for triple in data for term in triple}) or ["<urn:x>"]
    others = [tuple(rng.choice(terms) for _ in range(3)) for _ in range(6)]
    extra = [(s, p, o) for s, p, o in others if s[0] == p[0] == "<" and (s, p, o) not in data]
    home.change([*data, *extra])
    while extra:
        extra.pop(rng.randrange(len(extra)))
        home.change([*data, *extra])
    home.check_output()
    assert same_bag(same_values(home.rows).elements(), expected.elements())
    assert min(home.rows.values(), default=1) > 0


@needs_cases
@pytest.mark.parametrize("case", [each for each in cases() if each["name"] in ONCE], ids=lambda case: case["name"])
def test_a_query_of_values_of_one_execution_is_answered_once(case: dict[str, Any]) -> None:
    query = parse_query(case["query"], ordered=True)
    home = Home(query, random.Random(case["name"]))
    home.change(triples(case["data"]))
    assert same_bag(same_values(home.rows).elements(), same_values(Counter(rows_of(query.names, case["results"]))))


@needs_cases
def test_nearly_all_cases_are_answered_and_conjunctive_ones_are_one_leaf_as_before() -> None:
    found = cases()
    alike = 0
    for case in found:
        if case["name"] in REFUSED:
            continue
        try:
            conjunctive = parse_select(case["query"])
        except QueryRefused:
            continue
        assert parse_query(case["query"]).conjunctive == conjunctive
        alike += 1
    assert (len(found), len(REFUSED), alike) == (192, 1, 79)
