"""Read the results of SELECT from another endpoint, in SPARQL's JSON and XML formats.

pyoxigraph 0.5 reads both.  It strips white space from literals in XML, so results with such literals are refused.  It
drops nested triple terms by recursion (:mod:`p2prdf.rdf.triple_terms`), so results with triple terms are refused
before it sees them.
"""

from __future__ import annotations

import io
import re
from typing import Final

import pyoxigraph as ox

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms

__all__ = ["RESULT_FORMATS", "Solutions", "read_solutions"]

RESULT_FORMATS: Final = {
    "application/sparql-results+json": ox.QueryResultsFormat.JSON, "application/json": ox.QueryResultsFormat.JSON,
    "application/sparql-results+xml": ox.QueryResultsFormat.XML, "application/xml": ox.QueryResultsFormat.XML,
    "text/xml": ox.QueryResultsFormat.XML,
}  # fmt: skip
"""Media types that are read."""

Solutions = tuple[tuple[str, ...], list[tuple[str | None, ...]]]
"""Names and rows of canonical terms; None is unbound."""

_TRIPLE: Final = {
    ox.QueryResultsFormat.JSON: re.compile(rb'"type"\s*+:\s*+"(?:triple|statement)"|"triple"\s*+:'),
    ox.QueryResultsFormat.XML: re.compile(rb"<(?:[A-Za-z]++:)?(?:triple|statement)\b"),
}  # fmt: skip
_PADDED: Final = re.compile(rb"<(?:[A-Za-z]++:)?literal[^>]*+>\s|\s</(?:[A-Za-z]++:)?literal>")
_NESTING_MAX: Final = 16
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def read_solutions(body: bytes, media_type: str, *, scope: str, source: str, rows_max: int) -> Solutions:
    """Return the solutions of a result; ``scope`` names its blank nodes.

    Raises DataRefused for a malformed result, for one of ASK, for more than ``rows_max`` rows, and for triple terms.
    """
    found_format = RESULT_FORMATS[media_type]
    if _TRIPLE[found_format].search(body) or _is_deep(body, found_format):
        raise DataRefused("a result with triple terms, which are not supported", source=source)
    if found_format == ox.QueryResultsFormat.XML and _PADDED.search(body):
        raise DataRefused("a literal in XML begins or ends with white space, which the parser drops", source=source)
    found: ox.QuerySolutions | ox.QueryBoolean | None = None
    try:
        found = ox.parse_query_results(io.BytesIO(body), format=found_format)
        if not isinstance(found, ox.QuerySolutions):
            raise DataRefused("the result of ASK instead of solutions", source=source)
        names = tuple(variable.value for variable in found.variables)
        rows: list[tuple[str | None, ...]] = []
        for solution in found:
            if len(rows) == rows_max:
                raise DataRefused(f"more than {rows_max:,} solutions", source=source)
            rows.append(tuple(_term(solution[name], scope) for name in names))
    except (SyntaxError, ValueError, OSError) as error:
        raise DataRefused(f"a malformed result: {str(error)[:200]}", source=source) from None
    finally:
        found = None  # an error keeps this frame, and the object may be dropped in this thread only
    return names, rows


def _is_deep(body: bytes, found_format: ox.QueryResultsFormat) -> bool:
    """Tell whether a JSON document nests deeper than a result without triple terms."""
    if found_format != ox.QueryResultsFormat.JSON:
        return False
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", _STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > _NESTING_MAX:
            return True
    return False


def _term(term: object, scope: str) -> str | None:
    if term is None:
        return None
    if isinstance(term, ox.BlankNode):
        return terms.skolem(scope, term.value)
    return terms.parse_term(str(term))
