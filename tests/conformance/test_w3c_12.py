"""W3C's suites of RDF 1.2 and SPARQL 1.2: the syntaxes, triple terms, base directions.

Queries and updates are evaluated by the parser and the dataflow of nodes, over statements in memory.
"""

from __future__ import annotations

import asyncio
import io
import json
import posixpath
import tarfile
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyoxigraph as ox
import pytest
from held_graphs import HeldGraphs
from w3c_updates import ARCHIVE

from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.ordering import in_order
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.update import parse_update

pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"the shared W3C suites are not at {ARCHIVE}")

MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
UT = "http://www.w3.org/2009/sparql/tests/test-update#"
ROOT = "http://suite/"
SYNTAXES = {
    ".nt": Syntax.N_TRIPLES, ".nq": Syntax.N_QUADS, ".ttl": Syntax.TURTLE, ".trig": Syntax.TRIG,
    ".rdf": Syntax.RDF_XML,
}  # fmt: skip
LEFT_OUT = ("rdf-semantics", "reports", "codepoint-escapes")
"""Folders about entailment, of reports, and about escapes that the tokenizer treats as those of SPARQL 1.1."""
REFUSED = {"not-not": "no valid expression"}
"""Cases that are refused, with the reason: ``!!`` is none of SPARQL 1.1's expressions, and the case is proposed."""


def statements(name: str, data: bytes, base: str, graph: str = "") -> list[tuple[str, ...]]:
    """Return the statements of a file; those in a graph have four terms."""
    syntax = SYNTAXES[posixpath.splitext(name)[1]]
    found: list[tuple[str, ...]] = []
    for batch in read_triples(io.BytesIO(data), publication_id="x", syntax=syntax, strict=True, base=base):
        g = batch.g or [""] * len(batch.s)
        found += [
            (s, p, o, named or graph) if named or graph else (s, p, o)
            for s, p, o, named in zip(batch.s, batch.p, batch.o, g, strict=True)
        ]
    return found


def canonical(rows: Iterable[tuple[str, ...]]) -> ox.Dataset:
    """Return statements as a dataset with canonical blank nodes."""
    lines = "".join(" ".join(map(terms.spelled, row)) + " .\n" for row in rows)
    made = ox.Dataset(ox.parse(lines, format=ox.RdfFormat.N_QUADS))
    made.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return made


def spelled(term: Any) -> str:
    return f"<<( {term} )>>" if isinstance(term, ox.Triple) else str(term)


def by_solution(names: Iterable[str], rows: Iterable[tuple[str | None, ...]]) -> ox.Dataset:
    """Return solutions as a dataset, with one blank node for each."""
    return canonical(
        (f"<urn:bnode:r:{number}>", f"<urn:name:{name}>", value)
        for number, row in enumerate(rows)
        for name, value in [("", f'"{number * 0}"'), *zip(names, row, strict=True)]
        if value is not None
    )


class Suite:
    """The files of the archive, and the cases of all manifests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        with tarfile.open(ARCHIVE) as archive:
            for member in archive:
                if member.name.startswith(("rdf/rdf12/", "sparql/sparql12/")) and member.isfile():
                    stream = archive.extractfile(member)
                    assert stream is not None
                    self.files[member.name] = stream.read()
        self.values: dict[tuple[str, str], list[Any]] = {}
        self.tests: list[Any] = []
        for name in sorted(self.files):
            if posixpath.basename(name) == "manifest.ttl" and not any(part in name for part in LEFT_OUT):
                self._manifest(name)

    def _manifest(self, name: str) -> None:
        base = f"{ROOT}{name}"
        for quad in ox.parse(self.files[name], format=ox.RdfFormat.TURTLE, base_iri=base, rename_blank_nodes=True):
            self.values.setdefault((str(quad.subject), quad.predicate.value), []).append(quad.object)
            if quad.predicate.value == MF + "action":
                self.tests.append(quad.subject)

    def of(self, subject: Any, predicate: str) -> list[Any]:
        return self.values.get((str(subject), predicate), [])

    def file(self, name: Any) -> tuple[str, bytes]:
        path = name.value.removeprefix(ROOT)
        return path, self.files[path]

    def dataset(self, node: Any, data: str, graph: str) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for each in self.of(node, data):
            path, content = self.file(each)
            found += statements(path, content, ROOT + path)
        for each in self.of(node, graph):
            (file,) = self.of(each, UT + "graph") or [each]
            (label,) = self.of(each, "http://www.w3.org/2000/01/rdf-schema#label") or [each]
            path, content = self.file(file)
            found += statements(path, content, ROOT + path, f"<{label.value}>")
        return found

    def outcome(self, test: Any) -> str:
        """Return ``right``, ``wrong`` or the reason of a refusal."""
        (kind,) = self.of(test, terms.RDF + "type")
        (action,) = self.of(test, MF + "action")
        result = self.of(test, MF + "result")
        negative = "Negative" in kind.value
        try:
            if isinstance(action, ox.NamedNode):
                fits = self._read(action, result, canonical_text="C14N" in kind.value)
            elif self.of(action, UT + "request"):
                fits = self._update(action, result[0])
            else:
                fits = self._query(action, result[0])
        except (DataRefused, QueryRefused) as error:
            return "right" if negative else str(error)
        return "right" if fits and not negative else "wrong"

    def _read(self, action: Any, result: list[Any], *, canonical_text: bool) -> bool:
        path, content = self.file(action)
        ending = posixpath.splitext(path)[1]
        if ending == ".rq":
            parse_query(f"BASE <{ROOT}>\n{content.decode()}")
            return True
        if ending == ".ru":
            parse_update(f"BASE <{ROOT}>\n{content.decode()}", scope="s")
            return True
        found = statements(path, content, ROOT + path)
        if not result:
            return True
        expected_path, expected = self.file(result[0])
        return canonical(found) == canonical(statements(expected_path, expected, ROOT + path))

    def _query(self, action: Any, result: Any) -> bool:
        ((path, text),) = map(self.file, self.of(action, QT + "query"))
        held = HeldGraphs(self.dataset(action, QT + "data", QT + "graphData"))
        query = f"BASE <{ROOT}{path}>\n{text.decode()}"
        found = asyncio.run(held.answer_once(held, query))
        path, content = self.file(result)
        if path.endswith(".srx"):
            read = ox.parse_query_results(content, format=ox.QueryResultsFormat.XML)
            names = [each.value for each in read.variables]
            rows = [tuple(None if each is None else spelled(each) for each in row) for row in read]
            return by_solution(names, rows) == by_solution(found.names, found.rows)
        if not path.endswith(".srj"):
            return canonical(found.rows) == canonical(statements(path, content, ROOT + path))
        expected = json.loads(content)
        if "boolean" in expected:
            return bool(found) is expected["boolean"]
        names = expected["head"]["vars"]
        rows = [
            tuple(terms.from_json(row[name]) if name in row else None for name in names)
            for row in expected["results"]["bindings"]
        ]
        shown, ordered = in_order(found.names, found.rows)
        assert sorted(names) == sorted(shown)
        if ".asc" in "".join(found.names):
            place = [shown.index(name) for name in names]
            by_row = [tuple(row[at] for at in place) for row in ordered]
            if not any("urn:bnode" in (term or "") for row in (*rows, *by_row) for term in row):
                return by_row == rows
        return by_solution(names, rows) == by_solution(shown, ordered)

    def _update(self, action: Any, result: Any) -> bool:
        ((path, text),) = map(self.file, self.of(action, UT + "request"))
        held = HeldGraphs(self.dataset(action, UT + "data", UT + "graphData"))
        asyncio.run(held.update(f"BASE <{ROOT}{path}>\n{text.decode()}"))
        return canonical(held.statements) == canonical(self.dataset(result, UT + "data", UT + "graphData"))


def test_all_cases_are_right_or_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer_once(client: HeldGraphs, query: str, **more: object) -> object:
        return await client.answer_once(client, query, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("p2prdf.client.update.answer_once", answer_once)
    suite = Suite()
    outcomes = {test.value: suite.outcome(test) for test in suite.tests}
    counts = Counter(each if each in ("right", "wrong") else "refused" for each in outcomes.values())
    with capsys.disabled():
        print(f"\nW3C RDF and SPARQL 1.2: {dict(counts)} of {len(outcomes)}")
    others = {name.rpartition("#")[2]: each for name, each in outcomes.items() if each != "right"}
    assert others.keys() == REFUSED.keys()
    assert all(REFUSED[name] in each for name, each in others.items())
    assert len(outcomes) == len(suite.tests) > 500
