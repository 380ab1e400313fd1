"""W3C query evaluation cases as standing queries: published triple by triple, in random order.

Every monotone SELECT case of one graph (basic graph patterns, FILTER, DISTINCT) is a subscription at one of a
few simulated peers; then its data is published one triple at a time in a random order.  The subscriber's
solutions at the end are the published result, or the query is refused, by name, for a reason that is listed
here.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from solution_bags import rows_of, same_bag

from p2prdf.errors import QueryRefused
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.sim.events import Standing, parse_events, replay
from p2prdf.sim.faults import Faults
from p2prdf.sim.world import WorldOptions

CASES = Path(__file__).parents[2] / "../shared/data/w3c/sparql-cases.json.gz"

REFUSED = {"sparql10/distinct/distinct-star-1": "UNION"}
"""Cases that are refused at registration: name to the construct that the refusal names."""


def _cases() -> list[dict[str, Any]]:
    if not CASES.exists():
        return []
    with gzip.open(CASES, "rt", encoding="utf-8") as stream:
        return [case for case in json.load(stream) if case["tier"] == 1 and case["monotone"]]


@pytest.mark.skipif(not CASES.exists(), reason=f"the shared W3C cases are not at {CASES}")
@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda algorithm: algorithm.value)
@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"])
def test_replayed_triple_by_triple_gives_the_published_result(case: dict[str, Any], algorithm: Algorithm):
    name = case["name"]
    if name in REFUSED:
        with pytest.raises(QueryRefused) as refusal:
            parse_select(case["query"])
        assert refusal.value.construct == REFUSED[name]
        return
    query = parse_select(case["query"])
    statements = [line for line in case["data"].split("\n") if line.strip()]
    random.Random(name).shuffle(statements)
    events = parse_events(f"{at}\t{statement}\n".encode() for at, statement in enumerate(statements))
    options = WorldOptions(
        peers=5, seed=len(statements), faults=Faults(delay_min_seconds=0.001, delay_max_seconds=0.05)
    )
    run = replay(options, [Standing(query, algorithm)], events, batch_max=1)[0]
    expected = list(rows_of(query.names, case["results"]))
    assert same_bag(run.results[0].rows, expected)


@pytest.mark.skipif(not CASES.exists(), reason=f"the shared W3C cases are not at {CASES}")
def test_all_monotone_cases_are_there_and_nearly_all_are_answered():
    names = {case["name"] for case in _cases()}
    assert len(names) == 79
    assert names >= REFUSED.keys()
