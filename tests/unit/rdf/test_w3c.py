"""The W3C's query evaluation cases: the published results, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from solution_bags import rows_of, same_bag

from p2prdf.errors import QueryRefused
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.standing.conjunctive import parse_select

Triple = tuple[str, str, str]

REFUSED = {"sparql10/distinct/distinct-star-1": "UNION"}
"""Cases that are not taken, with the construct that is to blame.  The table is exact."""


def test_every_case_has_its_published_results_or_is_refused_by_name(
    w3c_cases: list[dict[str, Any]],
    parse_triples: Callable[[str], list[Triple]],
    evaluate: Callable[[ConjunctiveQuery, Iterable[Triple]], list[tuple[str, ...]]],
) -> None:
    refused: dict[str, str] = {}
    wrong: list[str] = []
    for case in w3c_cases:
        try:
            query = parse_select(case["query"])
        except QueryRefused as error:
            refused[case["name"]] = error.construct
            continue
        assert set(query.names) == set(case["vars"]), case["name"]
        expected = rows_of(query.names, case["results"])  # canonical: no xsd:string, language in lower case
        if not same_bag(evaluate(query, parse_triples(case["data"])), expected):
            wrong.append(case["name"])
    assert not wrong
    assert refused == REFUSED
    assert len(w3c_cases) == 79
