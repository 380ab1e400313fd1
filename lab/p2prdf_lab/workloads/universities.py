"""University data of the Lehigh University Benchmark (LUBM), as files: descriptions, ontology, queries.

A folder has ``lubm1-seed0.nt.xz`` (or 10), with an empty line after each description, ``univ-bench.owl``, and the
benchmark's queries as ``queries/q1.rq`` to ``q14.rq``.  A description of one statement is merged into another one with
the same subject, so graphs have 2 to 20 statements, as in the SENS paper.
"""

from __future__ import annotations

import io
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.reasoning import Triple

__all__ = ["FOUND_AT", "PUBLISHED", "Graph", "Universities", "find_universities", "read_universities"]

FOUND_AT: Final = "shared/data/lubm"
"""Default path of the folder, in or beside the checkout or the working directory."""
PUBLISHED: Final = (4, 0, 6, 34, 719, 7790, 67, 7790, 208, 4, 224, 15, 1, 5916)
"""Answers of the benchmark's queries over one university, as its authors published them."""
_QUERIES: Final = 14

Graph = tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Universities:
    """Descriptions, their ontology, and the benchmark's queries."""

    graphs: tuple[Graph, ...]
    ontology: tuple[Triple, ...]
    queries: dict[str, str]


def find_universities(count: int, given: Path | None = None) -> Path:
    """Return the folder with data of ``count`` universities.  Raises DataRefused, with the remedy, if there is none."""
    places = [given] if given is not None else [
        place for folder in (Path.cwd(), Path(__file__).resolve().parents[3])
        for place in (folder / FOUND_AT, folder.parent / FOUND_AT)
    ]  # fmt: skip
    for place in places:
        if (place / _data(count)).is_file():
            return place
    raise DataRefused(
        f"data of the university benchmark is needed, and there is none beside the checkout; name a folder with"
        f" {_data(count)}, univ-bench.owl and queries/q1.rq to q14.rq", source=str(given or FOUND_AT),
    )  # fmt: skip


def read_universities(folder: Path, count: int) -> Universities:
    """Return the data of a folder.  Raises DataRefused for missing or malformed files."""
    try:
        text = lzma.decompress((folder / _data(count)).read_bytes()).decode()
        ontology = (folder / "univ-bench.owl").read_bytes()
        queries = {f"Q{at}": (folder / "queries" / f"q{at}.rq").read_text("utf-8") for at in range(1, _QUERIES + 1)}
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise DataRefused(f"cannot be read: {error}", source=str(folder)) from None
    return Universities(
        _joined([tuple(_read(each)) for each in text.split("\n\n") if each.strip()]),
        tuple(_read(ontology, Syntax.RDF_XML)), queries,
    )  # fmt: skip


def _data(count: int) -> str:
    return f"lubm{count}-seed0.nt.xz"


def _read(text: str | bytes, syntax: Syntax = Syntax.N_TRIPLES) -> list[Triple]:
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode() + b"\n")
    batches = read_triples(stream, publication_id="lubm", syntax=syntax, strict=True, base="urn:univ-bench")
    return [triple for batch in batches for triple in zip(batch.s, batch.p, batch.o, strict=True)]


def _joined(graphs: list[Graph]) -> tuple[Graph, ...]:
    """Return descriptions of two statements or more; single statements go to the first with the same subject."""
    of: dict[str, int] = {}
    for at, graph in enumerate(graphs):
        if len(graph) > 1:
            of.setdefault(graph[0][0], at)
    for graph in graphs:
        if len(graph) == 1 and graph[0][0] in of:
            graphs[of[graph[0][0]]] += graph
    return tuple(graph for graph in graphs if len(graph) > 1 or graph[0][0] not in of)
