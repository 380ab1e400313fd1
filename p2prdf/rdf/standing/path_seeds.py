"""The starting points of repeated paths.

A path that may have no step is evaluated from *seeds*, the possible values of one of its ends:

* a constant;
* a variable that a triple pattern of the same graph, or a path joined before, binds to subjects or objects, which are
  nodes of the graph; or a variable that EXISTS gives, which counts as a constant;
* a variable that is bound elsewhere (VALUES, BIND, another graph), if its value is a node of the graph;
* otherwise, every node of the graph.

Any repeated path can use seeds: only paths from there are kept.

In ``GRAPH ?g`` seeds are pairs of a graph and a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from p2prdf.rdf.standing import relations
from p2prdf.rdf.standing.graphs import nodes as nodes_of
from p2prdf.rdf.standing.paths import may_be_empty
from p2prdf.rdf.standing.relations import Basic, Relation, certain, variables
from p2prdf.rdf.standing.syntax import StreamWindow, WindowMerge, is_variable

__all__ = ["Start", "constants_of", "evaluable_order"]

_Place: TypeAlias = tuple[str, StreamWindow | WindowMerge | None]
"""A graph, a window or a merge: the scope in which terms are nodes."""


def _place(path: relations.PathPattern) -> _Place:
    return path.graph, path.window


class Start(NamedTuple):
    """A variable at an end of a path, bound by operands before it; ``is_node``: all its values are nodes."""

    name: str
    is_node: bool


def evaluable_order(operands: Sequence[Relation]) -> list[tuple[Relation, Start | None]]:
    """Return the operands of a join in an order that makes paths evaluable, each with its start.

    None: the path starts from a constant or has no start.  Operands other than paths keep their order and come first;
    a path without a start follows the operand that binds one, or comes last.
    """
    ordered: list[tuple[Relation, Start | None]] = [
        (operand, None) for operand in operands if not isinstance(operand, relations.PathPattern)
    ]
    bound = frozenset[str]().union(*(certain(operand) for operand, _ in ordered))
    waiting = [operand for operand in operands if isinstance(operand, relations.PathPattern)]
    nodes = {
        place: frozenset[str]().union(*(_nodes(operand, place) for operand, _ in ordered))
        for place in dict.fromkeys(map(_place, waiting))
    }
    while waiting:
        starts = [_start(path, nodes[_place(path)] if may_be_empty(path.path) else bound) for path in waiting]
        is_node = any(start is not None for start in starts)
        if not is_node:
            starts = [_start(path, bound) for path in waiting]
        at = next((at for at, start in enumerate(starts) if start is not None), 0)
        path, start = waiting.pop(at), starts[at]
        ordered.append((path, Start(start, is_node) if start else None))
        bound = bound.union(variables(path))
        nodes[_place(path)] = nodes[_place(path)].union(path.ends)
    return ordered


def _start(path: relations.PathPattern, known: frozenset[str]) -> str | None:
    """Return the known variable at an end of a path; empty for a constant; None for neither."""
    if not (is_variable(path.subject) and is_variable(path.object)):
        return ""
    return next((name for name in path.ends if name in known), None)


def _nodes(relation: Relation, place: _Place) -> frozenset[str]:
    """Return the variables that every solution binds to nodes of a place, or to values that count as such."""
    match relation:
        case Basic(patterns, window=window):
            graph, wanted = place
            windows = wanted.windows if isinstance(wanted, WindowMerge) else (wanted,)
            if window is not None:
                return frozenset(variables(relation)) if window in windows else frozenset()
            return nodes_of(patterns, graph) if None in windows or isinstance(wanted, WindowMerge) else frozenset()
        case relations.PathPattern():
            return frozenset(relation.ends) if _place(relation) == place else frozenset()
        case relations.Given():
            return certain(relation).difference(relation.fixed)
        case relations.Join(left, right):
            return _nodes(left, place) | _nodes(right, place)
        case relations.Union(branches):
            return frozenset.intersection(*(_nodes(branch, place) for branch in branches))
        case relations.Project(input, names):
            return _nodes(input, place).intersection(names)
        case relations.Table() | relations.Group():
            return frozenset()
    return _nodes(relation.input, place)


def constants_of(name: str, operands: Iterable[Relation]) -> frozenset[str] | None:
    """Return the constants that VALUES or BIND gives for a variable; None if it may have other values."""
    for operand in operands:
        match operand:
            case relations.Table(names, rows) if name in names:
                found = frozenset(row[names.index(name)] for row in rows)
                return None if None in found else frozenset(term for term in found if term is not None)
            case relations.Extend(_, extended, expression) if extended == name and len(expression.symbols) == 1:
                symbol = expression.symbols[0]
                return frozenset((symbol.value,)) if symbol.kind in ("iri", "literal") else None
    return None
