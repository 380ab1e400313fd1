"""A university benchmark's data and queries (LUBM), asked of simulated peers and of an independent engine.

The benchmark's own queries are conjunctive, and most of them have no answer without reasoning.  So they are asked a
second time over data and ontology with paths along its classes in place of a reasoner; beside them are others of
all forms.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyoxigraph as ox
from solution_bags import same_bag

from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import read_triples
from reads.peers import Peers, Terms, Triple, understood

__all__ = [
    "DATA", "MORE", "by_path", "compare", "data", "digest", "judge", "ontology", "published_answers", "queries",
    "with_inferred",
]  # fmt: skip

DATA = Path(__file__).parents[3] / "../shared/data/lubm"

_PREFIX = "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#>\n"
MORE = tuple(
    _PREFIX + text
    for text in (
        "SELECT ?x ?c WHERE { ?x ub:headOf ?d OPTIONAL { ?x ub:teacherOf ?c } }",
        "SELECT ?x WHERE { ?x a ub:GraduateStudent MINUS { ?x a ub:TeachingAssistant } }",
        "SELECT ?x WHERE { ?x a ub:FullProfessor FILTER NOT EXISTS { ?x ub:headOf ?d } }",
        "SELECT ?d (COUNT(?x) AS ?n) WHERE { ?x ub:worksFor ?d } GROUP BY ?d",
        "SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?u) AS ?m) WHERE { ?x ub:doctoralDegreeFrom ?u }",
        "SELECT ?a (COUNT(?p) AS ?n) WHERE { ?p ub:publicationAuthor ?a } GROUP BY ?a HAVING (COUNT(?p) > 15)",
        "SELECT DISTINCT ?y WHERE { { ?x ub:teacherOf ?y } UNION { ?z ub:teachingAssistantOf ?y } }",
        "SELECT ?x ?n WHERE { ?x a ub:Lecturer ; ub:name ?n } ORDER BY DESC(?n) ?x LIMIT 10 OFFSET 3",
        "SELECT ?x ?y WHERE { ?x a ub:GraduateStudent ; ub:advisor/ub:headOf ?y FILTER EXISTS { ?y a ub:Department } }",
        'SELECT ?x (CONCAT(?n, "!") AS ?m) WHERE { ?x a ub:University ; ub:name ?n FILTER REGEX(?n, "^Univ") }',
        "SELECT ?x ?r WHERE { VALUES ?x { <http://www.Department0.University0.edu> } ?r ub:subOrganizationOf+ ?x }",
        "ASK { ?x ub:headOf ?d . ?x a ub:FullProfessor }",
        "ASK { ?x ub:headOf ?d FILTER NOT EXISTS { ?x a ub:FullProfessor } }",
        "CONSTRUCT { ?d ub:chairedBy ?x } WHERE { ?x ub:headOf ?d }",
        "CONSTRUCT WHERE { ?x ub:headOf ?d }",
    )
)
"""Queries of all forms with answers in every university, except those that need history which nodes do not keep."""


def data(universities: int = 1) -> list[Triple]:
    """Return the triples of 1 or 10 universities; the descriptions of one name come together."""
    text = lzma.decompress((DATA / f"lubm{universities}-seed0.nt.xz").read_bytes())
    batches = read_triples(io.BytesIO(text), publication_id="lubm", strict=True)
    return list(dict.fromkeys(triple for batch in batches for triple in zip(batch.s, batch.p, batch.o, strict=True)))


def ontology() -> list[Triple]:
    """Return the ontology's triples, blank nodes by IRIs that stand for them."""
    parsed = ox.parse((DATA / "univ-bench.owl").read_bytes(), format=ox.RdfFormat.RDF_XML, base_iri="urn:univ-bench")
    names: dict[ox.BlankNode, str] = {}

    def text(term: object) -> str:
        if isinstance(term, ox.BlankNode):
            return names.setdefault(term, terms.skolem("univ-bench", f"b{len(names)}"))
        return str(term)

    return sorted({(text(quad.subject), text(quad.predicate), text(quad.object)) for quad in parsed})


def queries() -> dict[str, str]:
    """Return the benchmark's queries by their names."""
    return {path.stem: path.read_text() for path in sorted((DATA / "queries").glob("*.rq"))}


def by_path(query: str) -> str:
    """Return a query in which the members of a class are members of all its superclasses."""
    found = re.sub(r"\brdf:type\s+(ub:\w+)", r"rdf:type/rdfs:subClassOf* \1", query)
    return "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>\n" + found


def with_inferred(query: str, graph: str) -> str:
    """Return a benchmark query with each of its patterns matched in the default graph and in another one."""
    head, _, rest = re.sub(r"^\s*#.*\n", "", query, flags=re.MULTILINE).partition("{")
    patterns = [each.strip() for each in re.split(r"\.(?:\s|$)", rest.rpartition("}")[0]) if each.strip()]
    both = (f"{{ {each} }} UNION {{ GRAPH {graph} {{ {each} }} }}" for each in _connected(patterns))
    return f"{head}{{ {' '.join(both)} }}"


def _connected(patterns: Sequence[str]) -> list[str]:
    """Return patterns in an order in which each has a variable of those before it: they are joined as they stand."""
    rest, ordered, known = list(patterns), list[str](), set[str]()
    while rest:
        found = next((each for each in rest if known.intersection(re.findall(r"\?\w+", each))), rest[0])
        rest.remove(found)
        ordered.append(found)
        known.update(re.findall(r"\?\w+", found))
    return ordered


def published_answers(universities: int = 1) -> dict[str, str]:
    """Return the digest of each benchmark query's answers over the closure, by the query's name."""
    told = json.loads((DATA / f"lubm{universities}-seed0.answers.json").read_text())["queries"]
    return {name: each["sha256"] for name, each in told.items()}


def digest(rows: Iterable[Sequence[str | None]]) -> str:
    """Return the digest of a bag of rows."""
    lines = sorted("\t".join(map(str, row)) for row in rows)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def compare(peers: Peers, store: ox.Store, texts: list[str]) -> tuple[int, list[str]]:
    """Ask peers and an engine the same; return the number of solutions and the errors."""
    return judge(peers.read(*texts), store, texts)


def judge(answers: Sequence[Counter[Terms]], store: ox.Store, texts: list[str]) -> tuple[int, list[str]]:
    """Compare answers with those of an engine; return the number of solutions and the errors."""
    solutions, wrong = 0, []
    for text, got in zip(texts, answers, strict=True):
        expected = _answer(store, text)
        solutions += expected.total()
        if not same_bag(got.elements(), expected.elements()):
            extra = list((got - expected).items())[:3]
            wrong.append(f"{text}: {got.total()} solutions, not {expected.total()}; {extra}")
    return solutions, wrong


def _answer(store: ox.Store, text: str) -> Counter[Terms]:
    found, names = store.query(text), understood(text)[1]
    if isinstance(found, ox.QueryBoolean):
        return Counter({(): 1} if found else {})
    if isinstance(found, ox.QueryTriples):
        return Counter({(str(each.subject), str(each.predicate), str(each.object)) for each in found})
    rows = ([row[name] for name in names] for row in found)
    return Counter(tuple(None if value is None else str(value) for value in row) for row in rows)
