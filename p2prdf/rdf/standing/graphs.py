"""Patterns of named graphs as triple patterns (SPARQL 1.1, 13.3 and 18.6).

In ``GRAPH <g> { }`` the patterns have qualified predicates (:mod:`p2prdf.rdf.quads`); otherwise only the presence of
the graph matters (:mod:`p2prdf.rdf.standing.presence`).

``GRAPH ?g { }`` is the union of the group's solutions over all graphs, with ``?g`` bound to the graph.  All graphs
are evaluated at once, with ``?g`` as a further variable of the group's basic graph patterns.  The directory binds
``?g``, so solutions of one graph join only with each other.  ``?g`` is certain in every part with a triple pattern,
so the laws of the algebra apply to it.  Three cases are refused:

* A part without a triple pattern on the left of OPTIONAL, or as a branch of UNION: its solutions would have to be
  multiplied by all graphs, and no peer knows them all.  Joined with a part that has a triple pattern, it is allowed.
* ``?g`` inside the group, except in a triple pattern that is joined: SPARQL binds ``?g`` only after the braces, so a
  FILTER over it could never hold.  MINUS does not count ``?g`` as shared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from p2prdf.rdf import quads
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.relations import Pattern, Relation, certain, variables
from p2prdf.rdf.standing.syntax import is_variable

__all__ = ["Scope", "condensed", "members", "merged", "named_inside", "nodes", "patterns_in"]

_NO_GRAPH: Final = " "


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """The context of a group: the names of its variables in the whole query, and its graph or window.

    ``graph``: an IRI, ``?`` and a name in the whole query, ``DEFAULT``, or a merge of graphs (:func:`merged`).
    ``at``: the position of its GRAPH.  ``named``: the graphs that GRAPH reaches; None: all.
    """

    rename: Callable[[str], str]
    graph: str = quads.DEFAULT
    at: int = 0
    window: syntax.StreamWindow | syntax.WindowMerge | None = None
    named: tuple[str, ...] | None = None

    def __call__(self, name: str) -> str:
        """Return the name in the whole query for a name in the group."""
        return self.rename(name)

    @property
    def graph_variable(self) -> frozenset[str]:
        """The variable that names the graph, if it is one: it separates the solutions of different graphs."""
        return frozenset((self.graph[1:],)) if is_variable(self.graph) else frozenset()

    def graph_variable_in(self, relation: Relation) -> frozenset[str]:
        """Return ``graph_variable`` if a relation has that variable, else the empty set."""
        return self.graph_variable.intersection(variables(relation))

    def is_same_in_all_graphs(self, relation: Relation) -> bool:
        """Tell whether a relation has the same solutions for all graphs, although the graph is a variable."""
        return not self.graph_variable <= certain(relation)


def merged(graphs: Iterable[str]) -> str:
    """Return the merge of graphs as one name: the default graph of a query with FROM (SPARQL 1.1, 13.2.1).

    The merge of one graph is that graph; the merge of none holds no triple.
    """
    return " ".join(dict.fromkeys(graphs)) or _NO_GRAPH


def members(graph: str) -> tuple[str, ...]:
    """Return the graphs of a merge; a graph that is no merge is its only member."""
    return tuple(graph.split()) if " " in graph else (graph,)


def patterns_in(graph: str, s: str, p: str, o: str, fresh: Iterator[str]) -> tuple[Pattern, ...]:
    """Return the triple patterns for a pattern in a graph; ``fresh``: generated variables."""
    if graph == quads.DEFAULT:
        return ((s, p, o),)
    if not is_variable(p) and not is_variable(graph):
        return ((s, quads.qualified(p, graph), o),)
    qualified = next(fresh)
    if not is_variable(p):
        return (qualified, quads.directory_term(p), graph), (s, qualified, o)
    listed = next(fresh)
    return (listed, quads.OF, p), (qualified, listed, graph), (s, qualified, o)


def condensed(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Return patterns with equal lookups in the directory merged."""
    found = tuple(patterns)
    if any(quads.is_directory(p) for _, p, _ in found):
        found = _united(found, {quads.OF})  # first the terms for a predicate, then those for a predicate in a graph
        listed = {s for s, p, _ in found if p == quads.OF}
        found = _united(found, listed.union(p for _, p, _ in found if quads.predicate_of(p) is not None))
    return found


def _united(patterns: tuple[Pattern, ...], predicates: set[str]) -> tuple[Pattern, ...]:
    """Return patterns in which subjects with one object, by one of these predicates, are one variable."""
    known: dict[tuple[str, str], str] = {}
    same = {s: known.setdefault((p, o), s) for s, p, o in patterns if p in predicates}
    return tuple(dict.fromkeys((same.get(s, s), same.get(p, p), o) for s, p, o in patterns))


def nodes(patterns: Iterable[Pattern], graph: str) -> frozenset[str]:
    """Return the variables that patterns bind to subjects and objects of a graph, or of a member of a merge."""
    within = members(graph)
    listed = {s for s, p, _ in patterns if p == quads.OF}
    graphs = {s: o for s, p, o in patterns if p in listed or quads.is_directory(p)}
    return frozenset(
        term[1:]
        for s, p, o in patterns
        if not quads.is_directory(p) and p not in listed and graphs.get(p, quads.graph_of(p)) in within
        for term in (s, o)
        if is_variable(term)
    )


# --- uses of the graph's variable inside its group ----------------------------------------------


def named_inside(group: syntax.Group, graph: str) -> bool:
    """Tell whether a group uses the variable of its own graph where it would already need a value."""
    return any(_names(element, graph, joined=True) for element in group.elements)


def _names(element: syntax.Element, graph: str, *, joined: bool) -> bool:
    """Tell whether an element does so; ``joined``: its solutions are joined with the value in the end."""

    def in_group(group: syntax.Group, *, joined: bool) -> bool:
        return any(_names(each, graph, joined=joined) for each in group.elements)

    match element:
        case syntax.Triples(triples):
            return not joined and any(graph in _terms(triple) for triple in triples)
        case syntax.Group():
            return in_group(element, joined=joined)
        case syntax.WindowGroup(_, group):
            return in_group(group, joined=joined)
        case syntax.UnionGroups(groups):
            return any(in_group(group, joined=joined) for group in groups)
        case syntax.OptionalGroup(group) | syntax.MinusGroup(group):
            return in_group(group, joined=False)
        case syntax.GraphGroup(name, group):
            return (name == graph and not joined) or in_group(group, joined=joined and name == graph)
        case syntax.Expression():
            return _in_expression(element, graph)
        case syntax.Bind(expression, name):
            return "?" + name == graph or _in_expression(expression, graph)
        case syntax.InlineData(names):
            return graph[1:] in names
        case syntax.LabelService(labels=labels):
            return any(graph in (label.subject, "?" + label.name) for label in labels)
        case syntax.Select():
            return graph[1:] in syntax.visible(syntax.Group([element], 0))


def _terms(triple: syntax.Triple) -> Iterator[str]:
    yield from (triple.subject, triple.object)
    if isinstance(triple.path, syntax.Link):
        yield triple.path.predicate


def _in_expression(expression: syntax.Expression, graph: str) -> bool:
    if any(symbol.kind == "var" and "?" + symbol.value == graph for symbol in expression.symbols):
        return True
    groups = expression.groups.values()
    return any(_names(each, graph, joined=False) for group in groups for each in group.elements)
