"""SPARQL texts that read and write replicas: pure functions.

One operation deletes, inserts and moves the cursor, only if the cursor is the expected one::

    DELETE { GRAPH <cursors> { <me> <at> "17" }  ... }
    INSERT { GRAPH <cursors> { <me> <at> "18" }  ... }
    WHERE  { GRAPH <cursors> { <me> <at> "17" } }

One operation is atomic even on servers that split a request of several. Cursors have a graph of their own, so
that a target graph holds the slice only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from p2prdf.interest import Triple
from p2prdf.interest.expression import Interest, Pattern
from p2prdf.rdf import terms
from p2prdf.rdf.standing.syntax import is_variable

__all__ = [
    "CURSOR_GRAPH", "cursor_name", "cursor_text", "page_text", "pattern_page_text", "update_text",
]  # fmt: skip

CURSOR_GRAPH: Final = "<urn:p2prdf:replicas>"
_AT: Final = "<urn:p2prdf:at>"


def cursor_name(dataset: str, graph: str | None) -> str:
    """Return the IRI of a dataset's cursor at a target graph."""
    digest = hashlib.sha256(f"{dataset}\n{graph or ''}".encode()).hexdigest()
    return f"<urn:p2prdf:replica:{digest[:32]}>"


def cursor_text(name: str) -> str:
    """Return the query for a cursor, as ?at."""
    return f"SELECT ?at WHERE {{ GRAPH {CURSOR_GRAPH} {{ {name} {_AT} ?at }} }}"


def update_text(
    removed: Iterable[Triple], added: Iterable[Triple], *, graph: str | None, name: str, before: str | None, after: str
) -> str:
    """Return the update that changes triples and cursor together, if the cursor is ``before``.

    ``graph``: the canonical IRI of the target graph, None for the default graph; ``name``: the IRI of the
    cursor.
    """
    new = f"GRAPH {CURSOR_GRAPH} {{ {name} {_AT} {terms.literal(after)} }}"
    if before is None:
        old, where = "", f"FILTER NOT EXISTS {{ GRAPH {CURSOR_GRAPH} {{ {name} {_AT} ?at }} }}"
    else:
        old = where = f"GRAPH {CURSOR_GRAPH} {{ {name} {_AT} {terms.literal(before)} }}"
    return "\n".join([
        f"DELETE {{ {old}", _block(removed, graph), "}", f"INSERT {{ {new}", _block(added, graph), "}",
        f"WHERE {{ {where} }}",
    ])  # fmt: skip


def _block(triples: Iterable[Triple], graph: str | None) -> str:
    lines = "\n".join(f"{s} {p} {o} ." for s, p, o in triples)
    return f"GRAPH {graph} {{\n{lines}\n}}" if graph is not None and lines else lines


def page_text(graph: str | None, *, limit: int, offset: int) -> str:
    """Return the query for a page of a graph's triples."""
    where = "?s ?p ?o" if graph is None else f"GRAPH {graph} {{ ?s ?p ?o }}"
    order = f"ORDER BY ?s ?p ?o LIMIT {limit} OFFSET {offset}"
    return f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ SELECT ?s ?p ?o WHERE {{ {where} }} {order} }}"


def pattern_page_text(
    interest: Interest, pattern: Pattern, graph: str | None, *, matched: bool, limit: int, offset: int
) -> str:
    """Return the query for a page of the triples that match a pattern.

    ``matched``: only triples in matches of their group together with the required patterns; the interest's
    evaluation checks the conditions. Pages contain distinct values of the pattern's variables, so a page has as
    many triples, however many matches each triple is in.
    """
    patterns: tuple[Pattern, ...] = (pattern,)
    if matched:
        group = next(group for group in interest.groups if pattern in group.patterns)
        patterns = tuple(dict.fromkeys((*interest.required.patterns, *group.patterns)))
    names = list(dict.fromkeys(part for part in pattern if is_variable(part)))
    spelled = {name: f"?v{number}" for number, name in enumerate(interest.variables)}  # hidden names cannot be written
    body = " ".join(" ".join(spelled.get(part, part) for part in each) + " ." for each in patterns)
    where = body if graph is None else f"GRAPH {graph} {{ {body} }}"
    columns = " ".join(spelled[name] for name in names)
    own = " ".join(spelled.get(part, part) for part in pattern)
    if not names:
        return f"CONSTRUCT {{ {own} }} WHERE {{ {where} }} LIMIT {limit} OFFSET {offset}"
    inner = f"SELECT DISTINCT {columns} WHERE {{ {where} }} ORDER BY {columns} LIMIT {limit} OFFSET {offset}"
    return f"CONSTRUCT {{ {own} }} WHERE {{ {{ {inner} }} }}"
