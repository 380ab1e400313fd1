"""Statements of named graphs as the triples that represent them."""

from __future__ import annotations

from collections.abc import Iterable

from p2prdf.rdf.quads import DEFAULT, OF, Quad, Triple, directory_term, qualified


def as_triples(quads: Iterable[Quad], *, removed: bool = False) -> tuple[list[Triple], list[Triple]]:
    """Return quads as their indexed triples, one each, and the directory triples published with them.

    Deletions publish no directory.  :mod:`p2prdf.peer.entry.graphs` does the same with columns of identifiers.
    """
    statements: list[Triple] = []
    directory: dict[Triple, None] = {}
    for s, p, o, graph in quads:
        if graph == DEFAULT:
            statements.append((s, p, o))
            continue
        term, listed = qualified(p, graph), directory_term(p)
        statements.append((s, term, o))
        if not removed:
            directory[term, listed, graph] = None
            directory[listed, OF, p] = None
    return statements, list(directory)

