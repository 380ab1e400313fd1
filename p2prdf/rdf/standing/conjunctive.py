"""Parse a SELECT query over one basic graph pattern with filters, as channels and experiments take it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import algebra
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.query import FILTERS_BYTES_MAX, PATTERNS_MAX, ConjunctiveQuery
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.query import standing_query
from p2prdf.rdf.standing.selects import read_query

__all__ = ["parse_select"]

_BOUND: Final = "variables are bound by triple patterns"
_ENDLESS: Final = "solutions come as they become true"
_ONE: Final = "the query is one basic graph pattern with filters"
_REFUSED: Final = {
    **{word: (word, "the query reads no stream") for word in ("WINDOW", "STREAM")},
    "FROM": ("FROM", "the query reads the default graph"),
    **{word: (word, _ENDLESS) for word in ("HAVING", "LIMIT", "OFFSET")},
    "GROUP": ("GROUP BY", _ENDLESS), "ORDER": ("ORDER BY", _ENDLESS), "SELECT": ("sub-SELECT", _ONE),
    **{word: (word, _ONE) for word in ("OPTIONAL", "UNION", "MINUS", "EXISTS", "GRAPH", "SERVICE")},
    **{word: (word, _BOUND) for word in ("BIND", "VALUES")},
}  # fmt: skip


@as_written
def parse_select(text: str) -> ConjunctiveQuery:
    """Return the conjunctive query of a SELECT query.

    Raises QueryRefused, with the construct and its position, for a malformed query or one that needs more operators.
    """
    cursor, query = read_query(text)
    group, projection = query.select.group, query.select.projection or ()
    first = cursor.symbols[0]
    if not first.is_word("SELECT"):
        raise cursor.refusal(first.at, first.value.upper(), "not supported: the query is a SELECT without streams")
    for each in projection:
        if each.expression is not None:
            raise cursor.refusal(each.at, "expression in SELECT", f"not supported: {_BOUND}")
    cursor.refuse_words(_REFUSED)
    triples = list(_triples(group))
    for triple in triples:
        if sign := _beyond_steps(triple.path):
            raise cursor.refusal(triple.at, f"property path {sign}", "not supported: a path consists of ^ and / only")
    if not triples:
        raise QueryRefused("the query has no triple pattern", construct="empty pattern")
    bound = frozenset(syntax.visible(group))
    for each in projection:
        if each.name not in bound:
            reason = f"no pattern binds ?{each.name}, which is projected"
            raise cursor.refusal(each.at, "unbound variable in SELECT", reason)
    standing = standing_query(cursor, query)
    found = standing.conjunctive
    if any(isinstance(each, algebra.Filter) for each in standing.operators):
        raise QueryRefused(f"filters of more than {FILTERS_BYTES_MAX} bytes", construct="filter length")
    if found is None:
        raise QueryRefused(f"more than {PATTERNS_MAX} triple patterns", construct="triple patterns")
    return found


def _triples(group: syntax.Group) -> Iterator[syntax.Triple]:
    for element in group.elements:
        match element:
            case syntax.Triples(triples):
                yield from triples
            case syntax.Group():
                yield from _triples(element)


def _beyond_steps(path: syntax.Path) -> str:
    """Return the sign of a path by which it is more than a chain of triple patterns; empty if it is one."""
    match path:
        case syntax.Inverse(inner):
            return _beyond_steps(inner)
        case syntax.Sequence(paths):
            return next(filter(None, map(_beyond_steps, paths)), "")
        case syntax.Repeat(_, sign):
            return sign
        case syntax.Alternative():
            return "|"
    return "!" if isinstance(path, syntax.Negated) else ""
