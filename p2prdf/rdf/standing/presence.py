"""Test whether a named graph exists (SPARQL 1.1, 18.6): it does if it holds a triple.

``GRAPH <g> { }`` has no solution if the graph does not exist, even for an empty group.  Most groups have no solution
then anyway, since they require a triple of the graph.  A group that requires none (an OPTIONAL, VALUES, a path
without steps, a count over nothing) is combined with an EXISTS of any triple of the graph.  The coordinator receives
all triples of the graph for that, as in any other query for a whole graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from p2prdf.rdf import quads
from p2prdf.rdf.algebra import Existence
from p2prdf.rdf.standing import graphs, relations
from p2prdf.rdf.standing.paths import may_be_empty
from p2prdf.rdf.standing.relations import Basic, Pattern, Relation

__all__ = ["every_graph", "if_graph_exists"]


def if_graph_exists(relation: Relation, graph: str, at: int) -> Relation:
    """Return the solutions of a relation in a named graph, none if the graph does not exist.

    ``at``: the position of GRAPH.
    """
    if _needs(relation, graph):
        return relation
    return relations.Exists(relation, _any_triple(graph, at), Existence.SOME)


def every_graph(variable: str, at: int) -> Relation:
    """Return all graphs as values of a variable; ``at``: a position for generated names."""
    return relations.Distinct(relations.Project(_any_triple("?" + variable, at), (variable,)))


def _any_triple(graph: str, at: int) -> Basic:
    fresh = (f"?.g{at}.{number}" for number in itertools.count())
    return Basic(graphs.patterns_in(graph, next(fresh), next(fresh), next(fresh), fresh), (), at)


def _needs(relation: Relation, graph: str) -> bool:
    """Tell whether a relation has solutions only if a named graph holds a triple."""
    match relation:
        case Basic(patterns):
            return any(quads.graph_of(p) == graph or (o == graph and _is_listed(p, patterns)) for _, p, o in patterns)
        case relations.PathPattern(path=path):
            return relation.graph == graph and not may_be_empty(path)
        case relations.Join(left, right) | relations.Exists(left, right, Existence.SOME):
            return _needs(left, graph) or _needs(right, graph)
        case relations.Union(branches):
            return all(_needs(branch, graph) for branch in branches)
        case relations.Table() | relations.Given():
            return False
        case relations.Group(keys=()):
            return False  # an empty input gives one group
    return _needs(relation.input, graph)


def _is_listed(p: str, patterns: Iterable[Pattern]) -> bool:
    """Tell whether a predicate belongs to directory triples that list graphs."""
    return quads.predicate_of(p) is not None or any(other == quads.OF and s == p for s, other, _ in patterns)
