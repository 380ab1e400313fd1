"""Whether a named graph is there (SPARQL 1.1, 18.6): it is if it holds a triple.

``GRAPH <g> { }`` has no solution if there is no such graph, whatever stands in the braces.  Most groups have none then
anyway, for they need a triple of it.  What needs none (an OPTIONAL, VALUES, a path of no steps, a count of nothing) is
asked together with EXISTS any triple of the graph: all of them are told to the home for that, as in any other query
that asks for all of a graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from p2prdf.rdf import quads
from p2prdf.rdf.algebra import Existence
from p2prdf.rdf.standing import graphs
from p2prdf.rdf.standing.paths import may_be_empty
from p2prdf.rdf.standing.relations import (
    Basic,
    Exists,
    Given,
    Group,
    Join,
    PathPattern,
    Pattern,
    Relation,
    Table,
    Union,
)

__all__ = ["where_it_is"]


def where_it_is(relation: Relation, graph: str, at: int) -> Relation:
    """Return the solutions of a relation in a named graph, none if that is not there; ``at``: where GRAPH stands."""
    if _needs(relation, graph):
        return relation
    fresh = (f"?.g{at}.{number}" for number in itertools.count())
    any_triple = graphs.patterns_in(graph, next(fresh), next(fresh), next(fresh), fresh)
    return Exists(relation, Basic(any_triple, (), at), Existence.SOME)


def _needs(relation: Relation, graph: str) -> bool:
    """Tell whether a relation has solutions only if a named graph holds a triple."""
    match relation:
        case Basic(patterns):
            return any(quads.graph_of(p) == graph or (o == graph and _is_listed(p, patterns)) for _, p, o in patterns)
        case PathPattern(path=path):
            return relation.graph == graph and not may_be_empty(path)
        case Join(left, right) | Exists(left, right, Existence.SOME):
            return _needs(left, graph) or _needs(right, graph)
        case Union(branches):
            return all(_needs(branch, graph) for branch in branches)
        case Table() | Given():
            return False
        case Group(keys=()):
            return False  # of nothing there is one group
    return _needs(relation.input, graph)


def _is_listed(p: str, patterns: Iterable[Pattern]) -> bool:
    """Tell whether a predicate is one of the directory that tells of graphs."""
    return quads.predicate_of(p) is not None or any(other == quads.OF and s == p for s, other, _ in patterns)
