"""Shared by tests of the rdf package: the W3C cases, and an evaluator too simple to be wrong."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.ntriples import read_triples
from p2prdf.rdf.query import ConjunctiveQuery

DATA = pathlib.Path(__file__).resolve().parents[4] / "shared" / "data"

Triple = tuple[str, str, str]
Evaluate = Callable[[ConjunctiveQuery, Iterable[Triple]], list[tuple[str, ...]]]


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of shared test data; skips where a checkout does not have it."""
    if not DATA.is_dir():
        pytest.skip(f"the shared test data is not beside this checkout ({DATA})")
    return DATA


@pytest.fixture(scope="session")
def w3c_cases(shared_data: pathlib.Path) -> list[dict[str, Any]]:
    """The W3C query evaluation cases of tier 1 without OPTIONAL."""
    with gzip.open(shared_data / "w3c" / "sparql-cases.json.gz") as stream:
        cases = json.load(stream)
    return [case for case in cases if case["tier"] == 1 and case["monotone"]]


@pytest.fixture(scope="session")
def parse_triples() -> Callable[[str], list[Triple]]:
    """Return the distinct triples of an N-Triples text."""

    def parse(text: str) -> list[Triple]:
        batches = read_triples(io.BytesIO(text.encode()), publication_id="d", strict=True)
        return sorted({t for batch in batches for t in zip(batch.s, batch.p, batch.o, strict=True)})

    return parse


@pytest.fixture(scope="session")
def evaluate() -> Evaluate:
    """Evaluate a query over a set of triples by trying every triple for every pattern."""

    def run(query: ConjunctiveQuery, triples: Iterable[Triple]) -> list[tuple[str, ...]]:
        known = list(dict.fromkeys(triples))
        solutions: list[dict[int, str]] = [{}]
        for pattern in query.patterns:
            solutions = [
                extended
                for solution in solutions
                for triple in known
                if (extended := match(query, pattern, triple, solution)) is not None
            ]
        for condition in query.filters:
            holds = compile_filter(condition)
            solutions = [s for s in solutions if holds([s[v] for v in condition.variables])]
        rows = [tuple(solution[v] for v in query.answer) for solution in solutions]
        return list(dict.fromkeys(rows)) if query.distinct else rows

    return run


def match(
    query: ConjunctiveQuery, pattern: tuple[int, int, int], triple: Triple, solution: dict[int, str]
) -> dict[int, str] | None:
    extended = dict(solution)
    for slot, term in zip(pattern, triple, strict=True):
        wanted = query.constants[~slot] if slot < 0 else extended.setdefault(slot, term)
        if wanted != term:
            return None
    return extended
