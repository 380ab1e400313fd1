"""Parse a SELECT query over one basic graph pattern with filters, as channels and experiments take it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.query import PATTERNS_MAX, ConjunctiveQuery
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.query import standing_query
from p2prdf.rdf.standing.selects import read_query

__all__ = ["parse_select"]

_MORE: Final = {
    **dict.fromkeys(("ASK", "CONSTRUCT"), "the query is a SELECT"),
    **dict.fromkeys(("REGISTER", "WINDOW", "STREAM"), "the query reads no stream"),
    **dict.fromkeys(("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"), "solutions come as they become true"),
    **dict.fromkeys(("OPTIONAL", "UNION", "MINUS", "EXISTS"), "the query is one basic graph pattern with filters"),
    **dict.fromkeys(("BIND", "VALUES"), "variables are bound by triple patterns"),
    "GRAPH": "the query reads the default graph",
    "SELECT": "the query has no sub-query",
}
"""Words of SPARQL that such a query does not have, with the reason."""
_CONSTRUCTS: Final = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "SELECT": "sub-SELECT"}


@as_written
def parse_select(text: str) -> ConjunctiveQuery:
    """Return the conjunctive query of a SELECT query.

    Raises QueryRefused, with the construct and its position, for a malformed query or one that needs more operators.
    """
    cursor, query = read_query(text)
    group, projection = query.select.group, query.select.projection or ()
    for each in projection:
        if each.expression is not None:
            reason = "not supported: variables are bound by triple patterns"
            raise cursor.refusal(each.at, "expression in SELECT", reason)
    for number, symbol in enumerate(cursor.symbols):
        word = symbol.value.upper() if symbol.kind == "word" else ""
        if word in _MORE and (number or word != "SELECT"):
            raise cursor.refusal(symbol.at, _CONSTRUCTS.get(word, word), f"not supported: {_MORE[word]}")
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
    found = standing_query(cursor, query).conjunctive
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
