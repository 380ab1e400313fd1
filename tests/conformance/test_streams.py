"""Real and synthetic streams with expected answers, through the simulator.

Each stream runs once per algorithm: all its queries are left at all the times asked for, all events
are published in order, and the rows held at each moment are compared by count and digest.  Queries
with windows or static background are not asked here.

The default suite takes the small streams; ``P2PRDF_CONFORMANCE=full`` takes all.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import lzma
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox
import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf import terms
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.rdf.results import Row, bindings
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.sim.events import Event, QueryResult, Standing, options_for, parse_events, replay
from p2prdf.sim.oracle import Oracle, Publication

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = Path(__file__).parents[2] / "../shared/data"
FULL = os.environ.get("P2PRDF_CONFORMANCE") == "full"

SMALL = ("conjunctive/dbpedia-live", "conjunctive/schemaorg", "conjunctive/wordnet", "streams/paths")
LARGE = ("streams/watdiv", "streams/bsbm", "streams/meters")
STREAMS = SMALL + LARGE if FULL else SMALL

REFUSED = {"query2": "OPTIONAL", "query7": "OPTIONAL", "query8": "OPTIONAL", "query11": "UNION"}
"""Templates of queries that are refused at registration, besides queries with such features declared."""


@functools.cache
def _canonical(literal: str) -> tuple[str, str, str, str]:
    """Name a literal as the digests do: numbers and dates canonical, simple = xsd:string, tags caseless."""
    lexical, datatype, language = terms.literal_parts(literal)
    kind = ox.NamedNode(datatype) if datatype else None
    node = ox.NamedNode("urn:x")
    store = ox.Store()
    store.add(ox.Quad(node, node, ox.Literal(lexical, datatype=kind, language=language)))
    found = next(iter(store)).object
    datatype = "" if found.datatype.value.endswith(("#string", "#langString")) else found.datatype.value
    return "literal", found.value, (found.language or "").lower(), datatype


def _key(term: str) -> tuple[str, str, str, str]:
    if term.startswith('"'):
        return _canonical(term)
    found = terms.to_json(term)
    return found["type"], found["value"].removeprefix("x:"), "", ""


def digest(names: Iterable[str], rows: Iterable[Row]) -> str:
    lines = []
    for row in rows:
        pairs = sorted((name, _key(term)) for name, term in zip(names, row, strict=True) if term is not None)
        lines.append(json.dumps(pairs, ensure_ascii=False))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _events(stem: str) -> list[Event]:
    folder, name = (DATA / stem).parent, Path(stem).name
    if (folder / f"{name}.tsv.xz").exists():
        with lzma.open(folder / f"{name}.tsv.xz") as stream:
            return parse_events(stream, source=stem, publication_id="x")
    with lzma.open(folder / f"{name}.nt.xz") as stream:
        return parse_events((b"0\t" + line for line in stream), source=stem, publication_id="x")


def _queries(stem: str) -> tuple[dict[str, ConjunctiveQuery], dict[str, str]]:
    """Return the accepted queries without windows, and the others with the construct that the refusal names."""
    asked = json.loads((DATA / f"{stem}.queries.json").read_text("utf-8"))
    taken, refused = {}, {}
    for item in asked:
        if item.get("range") is None:
            try:
                taken[item["name"]] = parse_select(item["query"])
            except QueryRefused as refusal:
                refused[item["name"]] = refusal.construct
    return taken, refused


def _expected(stem: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{stem}.expected.json.gz", "rt", encoding="utf-8") as stream:
        return [item for item in json.load(stream) if item["range"] is None]


@pytest.mark.skipif(not DATA.exists(), reason=f"the shared streams are not at {DATA}")
@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda algorithm: algorithm.value)
@pytest.mark.parametrize("stem", STREAMS)
def test_subscribers_hold_the_expected_answers_at_each_moment(stem: str, algorithm: Algorithm):
    queries, _ = _queries(stem)
    expected = [item for item in _expected(stem) if item["query"] in queries]
    standing = sorted({(item["since"], item["query"]) for item in expected})
    checkpoints = sorted({item["at"] for item in expected})
    assert expected
    asked = [Standing(queries[name], algorithm, subscribe_at=since) for since, name in standing]
    runs = replay(options_for(5, seed=1), asked, _events(stem), checkpoints)
    held = {
        (name, since, at): result
        for at, run in zip(checkpoints, runs, strict=True)
        for (since, name), result in zip(standing, run.results, strict=True)
    }
    wrong = [problem for item in expected if (problem := _compare(item, held))]
    assert not wrong, f"{len(wrong)} of {len(expected)}: " + "\n".join(wrong[:10])


def _compare(item: dict[str, Any], held: dict[tuple[str, float, float], QueryResult]) -> str | None:
    result = held[item["query"], item["since"], item["at"]]
    where = f"{item['query']} since {item['since']} at {item['at']}"
    if len(result.rows) != item["count"]:
        return f"{where}: {len(result.rows)} rows, expected {item['count']}"
    if digest(result.names, result.rows) != item["sha256"]:
        shown = [bindings(result.names, row) for row in result.rows[:3]]
        return f"{where}: {item['count']} rows, but others: {shown}, expected {item.get('rows', [])[:3]}"
    return None


@pytest.mark.skipif(not DATA.exists(), reason=f"the shared streams are not at {DATA}")
@pytest.mark.parametrize("stem", STREAMS)
def test_queries_are_refused_for_their_constructs(stem: str):
    """A query with OPTIONAL or UNION is refused by that name; every other one is taken."""
    expected = {}
    for item in json.loads((DATA / f"{stem}.queries.json").read_text("utf-8")):
        if "optional" in item.get("features", ()):
            expected[item["name"]] = "OPTIONAL"
        elif item.get("template") in REFUSED:
            expected[item["name"]] = REFUSED[item["template"]]
    assert _queries(stem)[1] == expected


@pytest.mark.skipif(not DATA.exists(), reason=f"the shared streams are not at {DATA}")
@pytest.mark.parametrize("stem", STREAMS)
def test_the_oracle_itself_agrees_with_answers_that_other_engines_computed(stem: str):
    queries, _ = _queries(stem)
    events = _events(stem)
    expected = [item for item in _expected(stem) if item["query"] in queries]
    held = {}
    for at in {item["at"] for item in expected}:
        log = (Publication(int(e.time), number, e.triple) for number, e in enumerate(events) if e.time <= at)
        oracle = Oracle(log)
        for item in expected:
            if item["at"] == at:
                query = queries[item["query"]]
                rows = tuple(oracle.answers(query, int(item["since"])).elements())
                held[item["query"], item["since"], at] = QueryResult(query.names, rows, ())
    wrong = [problem for item in expected if (problem := _compare(item, held))]
    assert not wrong, f"{len(wrong)} of {len(expected)}: " + "\n".join(wrong[:10])
