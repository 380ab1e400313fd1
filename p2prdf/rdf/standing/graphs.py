"""Patterns of named graphs as triple patterns (SPARQL 1.1, 13.3 and 18.6).

``GRAPH <g> { }`` is about one graph: its patterns have qualified predicates (:mod:`p2prdf.rdf.quads`), and little else
changes (:mod:`p2prdf.rdf.standing.presence`).

``GRAPH ?g { }`` is the union, over all graphs, of what the group has for solutions there, each with ``?g`` bound to the
graph.  Here all graphs are evaluated at once, with ``?g`` as one more variable of the group's basic graph patterns: the
directory binds it, and solutions of one graph meet only those of the same graph, since they share it.  It is certain in
whatever has a triple pattern, so all laws of the algebra hold for it as for any other.  Three things are its own:

* a part of the group without a triple pattern has the same solutions in all graphs there could be.  Joined with a part
  that has one this is what it should be; on the left of OPTIONAL, or as a branch of UNION, it would have to be
  multiplied by all graphs, which nobody knows, and is refused;
* what a group does to its solutions as a whole, LIMIT and aggregates, and paths that are repeated, would have to be
  done graph by graph, and is refused;
* to the group ``?g`` is no variable: it gets its value behind the braces.  MINUS does not count it as shared.  A triple
  pattern may name it, for its value is compared in the end; a FILTER that does could never hold, and neither
  that nor any other place where the difference shows is taken for what it says: refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from p2prdf.rdf import quads
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.relations import Pattern, Relation, certain, variables
from p2prdf.rdf.standing.syntax import is_variable

__all__ = ["Scope", "condensed", "named_inside", "nodes", "patterns_in"]


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """What a group is read in: what its variables are called in the whole, and the graph or window it is about.

    ``graph``: an IRI, ``?`` and a name in the whole, or ``DEFAULT``; ``at``: where its GRAPH stands.
    """

    rename: Callable[[str], str]
    graph: str = quads.DEFAULT
    at: int = 0
    window: syntax.StreamWindow | None = None

    def __call__(self, name: str) -> str:
        """Return what a name is called in the whole."""
        return self.rename(name)

    @property
    def apart(self) -> frozenset[str]:
        """What tells solutions of several graphs apart: the variable that names the graph, if it is one."""
        return frozenset((self.graph[1:],)) if is_variable(self.graph) else frozenset()

    def apart_in(self, relation: Relation) -> frozenset[str]:
        """Return the same if it tells apart solutions of a relation."""
        return self.apart.intersection(variables(relation))

    def same_in_all(self, relation: Relation) -> bool:
        """Tell whether a relation is the same for all graphs, though the graph is a variable."""
        return not self.apart <= certain(relation)


def patterns_in(graph: str, s: str, p: str, o: str, fresh: Iterator[str]) -> tuple[Pattern, ...]:
    """Return the patterns that one in a graph stands for; ``fresh``: variables that nobody sees."""
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
    """Return patterns that look up in the directory only once what several of them want to know."""
    found = tuple(patterns)
    if any(quads.is_directory(p) for _, p, _ in found):
        found = _united(found, {quads.OF})  # first what stands for a predicate, then what does for one in a graph
        listed = {s for s, p, _ in found if p == quads.OF}
        found = _united(found, listed.union(p for _, p, _ in found if quads.predicate_of(p) is not None))
    return found


def _united(patterns: tuple[Pattern, ...], predicates: set[str]) -> tuple[Pattern, ...]:
    """Return patterns in which what has the same object, by one of these predicates, is one variable."""
    known: dict[tuple[str, str], str] = {}
    same = {s: known.setdefault((p, o), s) for s, p, o in patterns if p in predicates}
    return tuple(dict.fromkeys((same.get(s, s), same.get(p, p), o) for s, p, o in patterns))


def nodes(patterns: Iterable[Pattern], graph: str) -> frozenset[str]:
    """Return the variables that patterns bind to subjects and objects of a graph."""
    listed = {s for s, p, _ in patterns if p == quads.OF}
    graphs = {s: o for s, p, o in patterns if p in listed or quads.is_directory(p)}
    return frozenset(
        term[1:]
        for s, p, o in patterns
        if not quads.is_directory(p) and p not in listed and graphs.get(p, quads.graph_of(p)) == graph
        for term in (s, o)
        if is_variable(term)
    )


# --- what a group says of the variable that names its graph --------------------------------------


def named_inside(group: syntax.Group, graph: str) -> bool:
    """Tell whether a group names its own graph's variable where it would have to have its value already."""
    return any(_names(element, graph, joined=True) for element in group.elements)


def _names(element: syntax.Element, graph: str, *, joined: bool) -> bool:
    """Tell that of one element; ``joined``: its solutions are joined with the value in the end."""

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
        case syntax.FilterBy(expression):
            return _in_expression(expression, graph)
        case syntax.Bind(expression, name):
            return "?" + name == graph or _in_expression(expression, graph)
        case syntax.InlineData(names):
            return graph[1:] in names
        case syntax.SubSelect():
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
