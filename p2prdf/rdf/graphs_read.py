"""Which graphs a query reads: what tells whether something can be derived from itself."""

from __future__ import annotations

from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.reach import ANY, accesses

__all__ = ["ANY", "graphs_read"]


def graphs_read(query: StandingQuery) -> frozenset[str]:
    """Return the graphs whose triples can change what a query answers: IRIs, ``quads.DEFAULT``, ``ANY``.

    A stream is no graph, and what a rule concludes is not read.
    """
    return frozenset(each.place for each in accesses(query) if not (each.stream or each.writes))
