"""Statements evaluated by pyoxigraph, with results as canonical terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyoxigraph as ox

from p2prdf.rdf import terms

__all__ = ["of_oxigraph", "positive"]

Terms = tuple[str | None, ...]


def of_oxigraph(statements: Iterable[tuple[str, ...]], text: str) -> list[Terms]:
    """Return the solutions of a query in pyoxigraph's order; of an ASK that holds, one empty solution."""
    store = ox.Store()
    for s, p, o, *g in statements:
        store.add(ox.Quad(*map(terms.to_pyoxigraph, (s, p, o)), *map(terms.to_pyoxigraph, g)))
    found = store.query(text)
    if isinstance(found, ox.QueryBoolean):
        return [()] * bool(found)
    assert isinstance(found, ox.QuerySolutions)
    return [tuple(None if row[name] is None else str(row[name]) for name in found.variables) for row in found]


def positive(rows: Counter[Terms]) -> Counter[Terms]:
    """Return a bag of solutions without those of multiplicity zero."""
    return Counter({row: count for row, count in rows.items() if count})
