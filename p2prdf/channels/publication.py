"""Publications for channels: graphs and deletions, each as one triple of the knowledge base's graph.

A graph must arrive in one piece, since its category is learned from the whole: ``<base> <urn:p2prdf:graph>
"..."``. The literal contains its statements in N-Triples, in the order of publication, which determines
positions. The first line is a comment: ``# IDENTIFIER STAMP``.

A deletion is ``<base> <urn:p2prdf:delete> "..."`` with ``{"id": ..., "stamp": ..., "pattern": [s, p, o]}``. It
applies to graphs with earlier stamps.

Stamps are from the nodes' clocks, which preserve causal order (:mod:`p2prdf.hlc`); a publisher asks its node
for one. The literal contains the stamp because a solution of a standing query has only the latest stamp of all
its triples.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from p2prdf.channels.knowledge import check_graph, check_pattern
from p2prdf.errors import DataRefused, LocalProtocolError, P2PRDFError
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import read_triples
from p2prdf.reasoning import Triple

__all__ = [
    "DELETE", "GRAPH", "GRAPH_BYTES_MAX", "Deletion", "PublishedGraph", "deletion_literal", "graph_literal",
    "identifier_of", "matches", "read_deletion", "read_graph",
]  # fmt: skip

GRAPH: Final = "<urn:p2prdf:graph>"
DELETE: Final = "<urn:p2prdf:delete>"

GRAPH_BYTES_MAX: Final = terms.TERM_BYTES_MAX
"""Largest literal of a graph: the bound on a term."""
_HEAD: Final = re.compile(r"# ([0-9a-f]{32}) ([0-9]{1,19})")
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class PublishedGraph:
    """A graph as stored in the overlay; ``stamp``: when it was published."""

    identifier: str
    stamp: int
    statements: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion of matching statements from the graphs published before ``stamp``."""

    identifier: str
    stamp: int
    pattern: Triple


def identifier_of(publisher: str, what: object) -> str:
    """Return an identifier that a publisher's repetition of the same content shares."""
    return hashlib.sha256(f"{publisher}\n{what!r}".encode()).hexdigest()[:32]


def graph_literal(identifier: str, stamp: int, statements: Iterable[Triple]) -> str:
    """Return the literal of a graph.

    Raises DataRefused for an invalid or empty graph, for statements about an ontology, and for a literal that
    is too large for nodes.
    """
    checked = check_graph(statements, refuse_schema=True)
    if not checked:
        raise DataRefused("a graph without statements")
    text = "".join([f"# {identifier} {stamp}\n", *(f"{s} {p} {o} .\n" for s, p, o in checked)])
    size = len(text.encode()) + text.count('"') + text.count("\\") + text.count("\n") + 2
    if size > GRAPH_BYTES_MAX:
        raise DataRefused(
            f"a graph of {len(checked):,} statements takes {size:,} bytes, but one literal holds at most "
            f"{GRAPH_BYTES_MAX:,}: publish it in parts"
        )
    return terms.literal(text)


def read_graph(literal: str, stamp: int) -> PublishedGraph:
    """Return the graph of a literal published by time ``stamp``.  Raises DataRefused for others."""
    if not (literal.startswith('"') and literal.endswith('"')):
        raise DataRefused("a graph is a plain literal")
    head, _, text = terms.lexical(literal).partition("\n")
    found = _HEAD.fullmatch(head)
    if found is None:
        raise DataRefused("a graph begins with a line '# IDENTIFIER STAMP'")
    statements: list[Triple] = []
    for batch in read_triples(io.BytesIO(text.encode()), publication_id=found[1], strict=True):
        statements += zip(batch.s, batch.p, batch.o, strict=True)
    scope = terms.skolem_prefix(found[1])
    if any(term.startswith(scope) for s, _, o in statements for term in (s, o)):
        raise DataRefused("a graph with blank nodes: replace them by IRIs")
    return PublishedGraph(found[1], min(int(found[2]), stamp), check_graph(statements, refuse_schema=True))


def deletion_literal(identifier: str, stamp: int, pattern: Triple) -> str:
    """Return the literal of a deletion.  Raises LocalProtocolError for an invalid pattern."""
    check_pattern(pattern)
    for part in pattern:
        if not part.startswith("?") and terms.parse_term(part) != part:
            raise LocalProtocolError(f"{part[:120]!r} is not a canonical term, in a pattern of a deletion")
    return terms.literal(json.dumps({"id": identifier, "stamp": stamp, "pattern": list(pattern)}, ensure_ascii=False))


def read_deletion(literal: str, stamp: int) -> Deletion:
    """Return the deletion of a literal published by time ``stamp``.  Raises DataRefused for others."""
    try:
        content = json.loads(terms.lexical(literal)) if literal.startswith('"') else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or set(content) != {"id", "stamp", "pattern"}:
        raise DataRefused("not a deletion in this version's format")
    identifier, at, pattern = content["id"], content["stamp"], content["pattern"]
    if not (isinstance(identifier, str) and _IDENTIFIER.fullmatch(identifier) and type(at) is int):
        raise DataRefused("a deletion has an identifier and a stamp")
    if not isinstance(pattern, list):
        raise DataRefused("a deletion has a pattern")
    try:
        check_pattern(tuple(pattern))
    except P2PRDFError as error:
        raise DataRefused(str(error)) from None
    s, p, o = pattern
    return Deletion(identifier, min(at, stamp), (s, p, o))


def matches(pattern: Triple, triple: Triple) -> bool:
    """Return whether a pattern matches a triple; a repeated variable matches equal terms."""
    bound: dict[str, str] = {}
    for part, term in zip(pattern, triple, strict=True):
        if part.startswith("?"):
            if bound.setdefault(part, term) != term:
                return False
        elif part != term:
            return False
    return True
