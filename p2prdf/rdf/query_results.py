"""Read the results of SELECT from another endpoint, in SPARQL's JSON and XML formats.

pyoxigraph 0.5 reads both.  It strips white space from literals in XML, so results with such literals are refused.  It
drops nested triple terms by recursion (:mod:`p2prdf.rdf.triple_terms`), and compares each variable of a result with
all variables before it.  Results with triple terms, and those with more than ``COLUMNS_MAX`` variables, are therefore
refused before it sees them.  The checks take time in proportion to the length of any text, malformed text included.
"""

from __future__ import annotations

import io
import re
from typing import Final

import pyoxigraph as ox

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms

__all__ = ["COLUMNS_MAX", "RESULT_FORMATS", "Solutions", "read_solutions"]

RESULT_FORMATS: Final = {
    "application/sparql-results+json": ox.QueryResultsFormat.JSON, "application/json": ox.QueryResultsFormat.JSON,
    "application/sparql-results+xml": ox.QueryResultsFormat.XML, "application/xml": ox.QueryResultsFormat.XML,
    "text/xml": ox.QueryResultsFormat.XML,
}  # fmt: skip
"""Media types that are read."""

Solutions = tuple[tuple[str, ...], list[tuple[str | None, ...]]]
"""Names and rows of canonical terms; None is unbound."""

COLUMNS_MAX: Final = 1000
"""Most variables of a result."""

_TRIPLE: Final = {
    ox.QueryResultsFormat.JSON: re.compile(rb'"type"\s*+:\s*+"(?:triple|statement)"|"triple"\s*+:'),
    ox.QueryResultsFormat.XML: re.compile(rb"<[^\s<>]*(?:triple|statement)[\s/>]"),
}  # fmt: skip
_PADDED: Final = re.compile(rb"<(?:[^\s<>:/]++:)?literal(?:\s[^<>]*+)?>\s|\s</(?:[^\s<>:/]++:)?literal\s*>")
_NESTING_MAX: Final = 16
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A string of JSON; the last one may lack its end."""
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_WHITE: Final = b" \t\r\n"
_VARIABLE: Final = re.compile(rb"<(?:[^\s<>:/]++:)?variable\b")


def read_solutions(body: bytes, media_type: str, *, scope: str, source: str, rows_max: int) -> Solutions:
    """Return the solutions of a result; ``scope`` names its blank nodes.

    Raises DataRefused for a malformed result, for one of ASK, for more than ``rows_max`` rows or ``COLUMNS_MAX``
    variables, and for triple terms.
    """
    found_format = RESULT_FORMATS[media_type]
    if reason := _unreadable(body, found_format):
        raise DataRefused(reason, source=source)
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
            rows.append(tuple(_term(term, scope, source) for term in solution))
    except MemoryError:  # the parser's own bound
        raise DataRefused("a term of more than 16 MiB", source=source) from None
    except (SyntaxError, ValueError, OSError) as error:
        raise DataRefused(f"a malformed result: {str(error)[:200]}", source=source) from None
    finally:
        found = None  # an error keeps this frame, and the object may be dropped in this thread only
    return names, rows


def _unreadable(body: bytes, found_format: ox.QueryResultsFormat) -> str:
    """Return the reason not to parse a text; empty for nearly all texts."""
    triples = "a result with triple terms, which are not supported"
    wide = f"more than {COLUMNS_MAX:,} variables; name fewer in SELECT"
    if _TRIPLE[found_format].search(body):
        return triples
    if found_format == ox.QueryResultsFormat.XML:
        if sum(1 for _ in _VARIABLE.finditer(body)) > COLUMNS_MAX:
            return wide
        padded = "a literal in XML begins or ends with white space, which the parser drops; ask for JSON"
        return padded if _PADDED.search(body) else ""
    outside = _STRING.sub(b"", body)
    if _is_deep(outside):
        return f"malformed, or {triples}"
    # The commas between strings of one array are neighbours now.
    return wide if b"," * COLUMNS_MAX in outside.translate(None, _WHITE) else ""


def _is_deep(outside: bytes) -> bool:
    """Tell whether a JSON document without its strings nests deeper than a result without triple terms.

    Documents with brackets that do not match count as deep.
    """
    brackets = outside.translate(None, _NO_BRACKETS)
    for _ in range(_NESTING_MAX):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def _term(term: object, scope: str, source: str) -> str | None:
    if term is None:
        return None
    try:
        return terms.skolem(scope, term.value) if isinstance(term, ox.BlankNode) else terms.parse_term(str(term))
    except DataRefused as error:
        raise DataRefused(error.reason, source=source) from None
