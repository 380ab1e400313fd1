"""DESCRIBE (SPARQL 1.1, 16.4) as queries for resources, and for the triples around them.

The description of a resource is its concise bounded description (CBD): all triples of the default graph with the
resource as subject, and those with each blank node that is the object of such a triple, recursively.  The symmetric
description contains triples with the node as object, too, and blank nodes are followed from their subjects as well.

No fixed pattern matches a description, since blank nodes nest to any depth.  So the client evaluates a SELECT query
for the resources, then queries for the triples of the nodes that it has found, until no blank node is new.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from p2prdf.rdf import tokens
from p2prdf.rdf.algebra import LEAVES_MAX
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.execution import NO_EXECUTION
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.query import standing_query
from p2prdf.rdf.standing.selects import read_query
from p2prdf.rdf.tokens import Symbol

__all__ = ["Description", "parse_description"]

_DESCRIBE = "DESCRIBE"
_CUTS = frozenset(("LIMIT", "OFFSET", "ORDER"))
"""Clauses for which solutions and distinct solutions differ."""


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """A DESCRIBE query.

    ``query``: a SELECT query for further resources; empty if the text names all of them.
    ``resources``: canonical IRIs.  ``graphs``: the graphs that FROM or WITH merges to the default graph; None if the
    query chooses no graphs.
    """

    query: str
    resources: tuple[str, ...]
    graphs: tuple[str, ...] | None

    def nodes_max(self, *, symmetric: bool) -> int:
        """Return the largest number of nodes in one query for triples."""
        leaves = len(self.graphs or ("",)) * (1 + symmetric)
        return max(1, LEAVES_MAX // leaves)

    def triples(self, nodes: Sequence[str], *, symmetric: bool) -> str:
        """Return a CONSTRUCT query for the triples with some nodes as subjects, if ``symmetric`` also as objects."""
        patterns = [f"{node} ?p{at} ?o{at} ." for at, node in enumerate(nodes)]
        if symmetric:
            patterns += [f"?s{at} ?q{at} {node} ." for at, node in enumerate(nodes)]
        clauses = " ".join(f"FROM {graph}" for graph in self.graphs or ())
        union = " UNION ".join(f"{{ {pattern} }}" for pattern in patterns)
        return f"CONSTRUCT {{ {' '.join(patterns)} }} {clauses} WHERE {{ {union} }}"


@as_written
def parse_description(text: str) -> Description | None:
    """Return the DESCRIBE query of a text; None for a text of another form.

    Raises QueryRefused, with the construct and its position, for a malformed or unsupported query.
    """
    if _DESCRIBE not in text.upper():
        return None
    found = tokens.scan(text)
    cursor = Cursor(text, tokens.symbols(text, found)[0], None)
    if cursor.take_word("WITH"):
        cursor.next()
    form = cursor.peek()
    if form is None or not form.is_word(_DESCRIBE):
        return None
    cursor.next()
    targets = _targets(cursor)
    ends = _place(cursor)
    shown = [symbol for symbol in targets if symbol.kind != "iri"]
    lengths = {token.at: len(token.text) for token in found}
    named = text[form.at + len(_DESCRIBE) : ends]
    for symbol in targets:
        if symbol.kind == "iri":
            begins = symbol.at - form.at - len(_DESCRIBE)
            after = begins + lengths[symbol.at]
            named = named[:begins] + " " * (after - begins) + named[after:]
    rest = text[ends:]
    group = _group_place(cursor)
    if group is not None:
        rest = text[ends:group] + " {} " + text[group:]
    select = "SELECT" if shown else "ASK"
    # The text that is checked has the columns of the original.
    query = read_query(text[: form.at] + select.ljust(len(_DESCRIBE)) + named + rest, NO_EXECUTION)
    standing_query(*query, ordered=True)
    if not any(token.kind == "word" and token.text.upper() in _CUTS for token in found):
        select += " DISTINCT"
    dataset = query[1].dataset
    return Description(
        f"{text[: form.at]}{select} {named}{rest}" if shown else "",
        tuple(dict.fromkeys(symbol.value for symbol in targets if symbol.kind == "iri")),
        None if dataset is None else dataset.default,
    )


def _targets(cursor: Cursor) -> list[Symbol]:
    """Read variables and IRIs, or ``*``."""
    if cursor.sees_mark("*"):
        return [cursor.next()]
    found: list[Symbol] = []
    while (symbol := cursor.peek()) is not None and symbol.kind in ("var", "iri"):
        found.append(cursor.next())
    if not found:
        raise cursor.misplaced(cursor.next())
    return found


def _place(cursor: Cursor) -> int:
    """Return the position of the next symbol, or of the end of the text."""
    symbol = cursor.peek()
    return len(cursor.text) if symbol is None else symbol.at


def _group_place(cursor: Cursor) -> int | None:
    """Return the position of a missing WHERE, which DESCRIBE does not require; None if it is there."""
    while cursor.take_word("FROM"):
        cursor.take_word("NAMED")
        if (graph := cursor.peek()) is None or graph.kind != "iri":
            return None  # the parser refuses it
        cursor.next()
    return None if cursor.sees_mark("{") or cursor.sees_word("WHERE") else _place(cursor)
