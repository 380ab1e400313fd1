"""The demonstration's data is valid RDF, always the same, and about the airports that it describes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pytest

pytest.importorskip("airportsdata", reason="the demonstration's data needs the extra `demo`")

import pyoxigraph as ox

from p2prdf_cli.demo import airports
from p2prdf_cli.demo.queries import QUERIES

SAMPLE = 3000


def _document(count: int | None) -> bytes:
    return b"".join(f"{s} {p} {o} .\n".encode() for s, p, o in airports.triples(airports.load(count)))


def test_triples_are_canonical_and_none_comes_twice() -> None:
    triples = list(airports.triples(airports.load(SAMPLE)))
    document = "".join(f"{s} {p} {o} .\n" for s, p, o in triples)
    read = [
        (str(quad.subject), str(quad.predicate), str(quad.object))
        for quad in ox.parse(document, format=ox.RdfFormat.N_TRIPLES)
    ]
    assert read == triples
    assert len(set(triples)) == len(triples)


def test_the_whole_world_is_some_quarter_of_a_million_triples() -> None:
    assert 200_000 <= sum(1 for _ in airports.triples(airports.load())) <= 300_000


def test_equal_runs_publish_equal_triples_under_any_hash_seed() -> None:
    code = (
        "import hashlib; from p2prdf_cli.demo import airports;"
        f"print(hashlib.sha256(repr(list(airports.triples(airports.load({SAMPLE})))).encode()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(runs) == 1
    own = hashlib.sha256(repr(list(airports.triples(airports.load(SAMPLE)))).encode()).hexdigest()
    assert runs == {own + "\n"}


@pytest.fixture(scope="module")
def store() -> ox.Store:
    store = ox.Store()
    store.bulk_load(_document(None), format=ox.RdfFormat.N_TRIPLES)
    return store


def _rows(store: ox.Store, sparql: str) -> list[dict[str, dict[str, str]]]:
    """Return bindings; through JSON, because solution objects may not be dropped by another test's thread."""
    return json.loads(store.query(sparql).serialize(format=ox.QueryResultsFormat.JSON))["results"]["bindings"]


def test_every_place_leads_up_to_a_country(store: ox.Store) -> None:
    """Each airport reaches exactly one country by city, region and country links."""
    query = f"""PREFIX : <{airports.VOCABULARY}>
        SELECT ?airport ?country WHERE {{ ?airport a :Airport ; (:city?/:region?/:country) ?country }}"""
    countries: dict[str, set[str]] = {}
    for row in _rows(store, query):
        countries.setdefault(row["airport"]["value"], set()).add(row["country"]["value"])
    assert len(countries) == len(airports.load())
    assert all(len(found) == 1 for found in countries.values())


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.title)
def test_every_standing_query_has_something_to_say(query, store: ox.Store) -> None:
    assert 5 <= len(_rows(store, query.sparql)) <= 5000
    assert int(query.shape[-1]) == len(query.patterns)


def test_the_queries_cover_both_algorithms_and_two_to_five_patterns() -> None:
    assert {query.algorithm for query in QUERIES} == {"cqc", "csbv"}
    assert {len(query.patterns) for query in QUERIES} == {2, 3, 4, 5}
    assert 5 <= len(QUERIES) <= 8
