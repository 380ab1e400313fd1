"""Real changesets, and the targets that were worked out for them by another program beforehand.

Five pairs of files of DBpedia Live, releases of schema.org, and the paper's running example lie beside the repository;
after each changeset count and digest of target and potentially interesting triples are compared.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from p2prdf.interest import Changeset, Interests, Triple, parse_interest
from p2prdf.rdf import terms
from p2prdf.replica.changeset_files import ChangesetFolder, read_changeset, read_file

DATA = Path(__file__).parents[3] / "shared" / "data" / "changesets"
PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "foaf": "http://xmlns.com/foaf/0.1/", "dbo": "http://dbpedia.org/ontology/", "dbp": "http://dbpedia.org/property/",
    "dct": "http://purl.org/dc/terms/", "wgs": "http://www.w3.org/2003/01/geo/wgs84_pos#", "schema": "https://schema.org/",
}  # fmt: skip
CASES = {"dbpedia-live": 36, "schemaorg": 25, "paper-example": 2}
"""By folder, the number of targets to compare."""


def _json(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def _digest(triples: set[Triple]) -> str:
    """Name a set of triples as the expected answers do: literals as pyoxigraph's store spells them."""
    rows = []
    for triple in triples:
        row = []
        for name, term in sorted(zip("spo", triple, strict=True)):
            parts = terms.to_json(_as_stored(term) if term.startswith('"') else term)
            row.append([name, [parts["type"], parts["value"], parts.get("xml:lang", ""), parts.get("datatype", "")]])
        rows.append(json.dumps(row, ensure_ascii=False))
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()


@functools.cache
def _as_stored(literal: str) -> str:
    """Return a literal with its number or date in the form that the store gives it."""
    store = ox.Store()
    store.extend(ox.parse(f"<urn:x> <urn:x> {literal} .".encode(), format=ox.RdfFormat.N_TRIPLES))
    return str(next(iter(store)).object)


@pytest.mark.parametrize("name", CASES)
def test_targets_are_those_that_were_worked_out_beforehand(name: str) -> None:
    folder = DATA / name
    if not folder.exists():
        pytest.skip(f"the changesets of {name} are not beside the repository (shared/data/changesets)")
    head = "".join(f"PREFIX {prefix}: <{iri}> " for prefix, iri in PREFIXES.items())
    interests = Interests()
    for each in _json(folder / "interests.json"):
        optional = f"OPTIONAL {{ {each['ogp']} }}" if "ogp" in each else ""
        interests.add(each["name"], parse_interest(f"{head} SELECT * {{ {each['bgp']} {optional} }}"))
    start = next(folder.glob("start.nt*"))
    interests.apply(Changeset.of((), read_file(start)))
    expected = _json(next(folder.glob("expected.json*")))
    compared = 0
    scanned = ChangesetFolder(folder).scan()
    assert scanned.gap is None
    for files in (None, *scanned.ready):
        if files is not None:
            interests.apply(read_changeset(files))
        after = None if files is None else files.position.rpartition("/")[2]
        for item in (each for each in expected if each["after"] == after):
            target, potential = set(interests.target(item["interest"])), set(interests.potential(item["interest"]))
            assert (len(target), len(potential)) == (item["target"], item["potential"]), (after, item["interest"])
            assert (_digest(target), _digest(potential)) == (item["sha256"], item["potential_sha256"])
            compared += 1
    assert compared == len(expected) == CASES[name]
