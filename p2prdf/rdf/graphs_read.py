"""The graphs that a query reads, used to detect data that would be derived from itself."""

from __future__ import annotations

from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.reach import ANY, accesses

__all__ = ["ANY", "graphs_read"]


def graphs_read(query: StandingQuery) -> frozenset[str]:
    """Return the graphs in which a change can affect a query's solutions.

    The result contains IRIs, ``quads.DEFAULT`` and ``ANY``.  Streams and the conclusions of rules are not included.
    """
    return frozenset(each.place for each in accesses(query) if not (each.stream or each.writes))
