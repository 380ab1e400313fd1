"""W3C's cases of SPARQL 1.1 Update, read from the archive beside the repository, and the comparison of datasets."""

from __future__ import annotations

import io
import itertools
import posixpath
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyoxigraph as ox

from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.update_operations import Statement, in_graph

__all__ = ["ARCHIVE", "UpdateCase", "cases", "same_dataset"]

ARCHIVE = Path(__file__).parents[2] / "../shared/data/w3c/suites.tar.xz"
FOLDERS = (
    "add", "basic-update", "clear", "copy", "delete", "delete-data", "delete-insert", "delete-where", "drop", "move",
    "syntax-update-1", "syntax-update-2", "update-silent",
)  # fmt: skip
_MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
_UT = "http://www.w3.org/2009/sparql/tests/test-update#"
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_KINDS = {
    "UpdateEvaluationTest": "evaluation", "PositiveUpdateSyntaxTest11": "accepted",
    "NegativeUpdateSyntaxTest11": "refused", "NegativeSyntaxTest11": "refused",
}  # fmt: skip
_ROOT = "http://example.org/"


@dataclass(frozen=True)
class UpdateCase:
    """An update, and its dataset before and after it.

    ``kind``: ``evaluation``, or ``accepted`` or ``refused`` for a case of syntax.
    """

    name: str
    kind: str
    text: str
    before: frozenset[Statement] = frozenset()
    after: frozenset[Statement] = frozenset()


def cases() -> list[UpdateCase]:
    """Return all cases; none if the archive is missing."""
    if not ARCHIVE.exists():
        return []
    with tarfile.open(ARCHIVE) as archive:
        wanted = {f"sparql/sparql11/{folder}" for folder in FOLDERS}
        files = {
            member.name: stream.read()
            for member in archive
            if posixpath.dirname(member.name) in wanted and (stream := archive.extractfile(member)) is not None
        }
    return [case for folder in FOLDERS for case in _Manifest(f"sparql/sparql11/{folder}", files).cases()]


class _Manifest:
    """The cases of one folder."""

    def __init__(self, folder: str, files: dict[str, bytes]):
        self._folder = folder
        self._files = files
        self._base = f"{_ROOT}{folder}/"
        self._store = ox.Store()
        self._store.load(files[f"{folder}/manifest.ttl"], format=ox.RdfFormat.TURTLE, base_iri=self._base)

    def cases(self) -> Iterator[UpdateCase]:
        rdf_type = ox.NamedNode(terms.RDF + "type")
        for kind, name in _KINDS.items():
            for quad in self._store.quads_for_pattern(None, rdf_type, ox.NamedNode(_MF + kind)):
                yield self._case(quad.subject, name)

    def _case(self, case: ox.NamedNode, kind: str) -> UpdateCase:
        name = f"{posixpath.basename(self._folder)}/{case.value.rpartition('#')[2]}"
        (action,) = self._values(case, _MF + "action")
        requests = self._values(action, _UT + "request") or [action]
        text = f"BASE <{self._base}>\n{self._file(requests[0]).decode()}"
        if kind != "evaluation":
            return UpdateCase(name, kind, text)
        (result,) = self._values(case, _MF + "result")
        return UpdateCase(name, kind, text, self._dataset(action, "before"), self._dataset(result, "after"))

    def _values(self, subject: ox.NamedNode | ox.BlankNode, predicate: str) -> list:
        return [quad.object for quad in self._store.quads_for_pattern(subject, ox.NamedNode(predicate), None)]

    def _file(self, name: ox.NamedNode) -> bytes:
        return self._files[name.value.removeprefix(_ROOT)]

    def _dataset(self, node: ox.BlankNode, scope: str) -> frozenset[Statement]:
        found: list[Statement] = []
        named = [(value, "") for value in self._values(node, _UT + "data")]
        for graph in self._values(node, _UT + "graphData"):
            (label,), (file,) = self._values(graph, _LABEL), self._values(graph, _UT + "graph")
            named.append((file, terms.iri(label.value)))
        for file, graph in named:
            data = io.BytesIO(self._file(file))
            batches = read_triples(
                data, publication_id=f"{scope}-{posixpath.basename(file.value)}", syntax=Syntax.TURTLE,
                base=self._base, strict=True,
            )  # fmt: skip
            for batch in batches:
                found += (in_graph(triple, graph) for triple in zip(batch.s, batch.p, batch.o, strict=True))
        return frozenset(found)


# --- comparison ----------------------------------------------------------------------------------


def same_dataset(one: Iterable[Statement], other: Iterable[Statement]) -> bool:
    """Tell whether two datasets are equal up to the names of blank nodes, by trying all fitting names."""
    first, second = set(one), set(other)
    if len(first) != len(second):
        return False
    mine, theirs = _classes(first), _classes(second)
    if {color: len(nodes) for color, nodes in mine.items()} != {color: len(nodes) for color, nodes in theirs.items()}:
        return False
    colors = sorted(mine)
    choices = [itertools.permutations(theirs[color]) for color in colors]
    for chosen in itertools.product(*choices):
        names = {
            node: name
            for color, nodes in zip(colors, chosen, strict=True)
            for node, name in zip(mine[color], nodes, strict=True)
        }
        if {tuple(names.get(term, term) for term in statement) for statement in first} == second:
            return True
    return False


def _classes(statements: set[Statement]) -> dict[str, list[str]]:
    """Return the blank nodes by their surroundings, refined until stable."""
    nodes = sorted({term for each in statements for term in each if terms.is_skolem(term)})
    colors = dict.fromkeys(nodes, "")
    for _ in nodes:
        around: dict[str, Counter[str]] = defaultdict(Counter)
        for each in statements:
            shown = [colors.get(term, term) for term in each]
            for at, term in enumerate(each):
                if term in colors:
                    around[term][f"{at} {shown}"] += 1
        colors = {node: f"{hash(tuple(sorted(around[node].items()))):x}" for node in nodes}
    found: dict[str, list[str]] = defaultdict(list)
    for node, color in colors.items():
        found[color].append(node)
    return found
