"""Property paths as relations (SPARQL 1.1, 18.2.2.3, 18.2.2.4 and 18.4).

``^`` swaps subject and object, ``/`` joins over a generated variable, ``|`` is a union, and ``!`` is a triple pattern
with a condition on its predicate: they become triple patterns, which are joined in the network.  The rest, repeated
paths, become :class:`~p2prdf.rdf.standing.relations.PathPattern`.

A path that may have no step (``*``, ``?``) relates every node of the graph to itself, including nodes that no triple
pattern of the query matches.  Such a path is evaluated from an end with known values
(:mod:`p2prdf.rdf.standing.path_seeds`).  If there is none, the coordinator receives all triples of the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import LEAVES_MAX
from p2prdf.rdf.standing import graphs, laws, syntax
from p2prdf.rdf.standing.relations import (
    Basic,
    Condition,
    Distinct,
    PathPattern,
    Project,
    Relation,
    Table,
    Union,
    is_one_of,
    names_in,
)
from p2prdf.rdf.standing.syntax import Path, StreamWindow, WindowMerge, is_variable
from p2prdf.rdf.tokens import Symbol

__all__ = ["between", "may_be_empty", "no_step", "nodes", "normal", "renamed", "repeats", "takes_any"]


def renamed(path: Path, names: Callable[[str], str]) -> Path:
    """Return a path in which a variable predicate has its name in the whole query."""
    if isinstance(path, syntax.Link) and is_variable(path.predicate):
        return syntax.Link("?" + names(path.predicate[1:]))
    return path


def normal(path: Path) -> Path:
    """Return an equivalent path in which each repeated part has at least one step, as far as possible.

    ``(p?)+`` and ``(p*)*`` become ``p*``, and ``(p?|q)*`` becomes ``(p|q)*``: they relate the same nodes.
    """
    match path:
        case syntax.Inverse(inner):
            return syntax.Inverse(normal(inner))
        case syntax.Sequence(paths):
            return syntax.Sequence(tuple(map(normal, paths)))
        case syntax.Alternative(paths):
            return syntax.Alternative(tuple(map(normal, paths)))
        case syntax.Repeat(inner, sign):
            inner = normal(inner)
            if may_be_empty(inner):
                inner, sign = _with_a_step(inner), "?" if sign == "?" else "*"
            if isinstance(inner, syntax.Repeat) and inner.sign == "+":
                return syntax.Repeat(inner.path, "+" if sign == "+" else "*")
            return syntax.Repeat(inner, sign)
    return path


def _with_a_step(path: Path) -> Path:
    """Return a path without its empty match, up to the number of its solutions.

    If that is impossible, return the path itself.
    """
    match path:
        case syntax.Repeat(inner, "*"):
            return syntax.Repeat(inner, "+")
        case syntax.Repeat(inner, "?"):
            return inner
        case syntax.Inverse(inner):
            return syntax.Inverse(_with_a_step(inner))
        case syntax.Alternative(paths):
            return syntax.Alternative(tuple(map(_with_a_step, paths)))
        case syntax.Sequence(paths) if may_be_empty(path) and _links(path) <= _SPLIT_MAX:
            first = _with_a_step(paths[0])
            rest = _with_a_step(syntax.Sequence(paths[1:]) if len(paths) > 2 else paths[1])
            return syntax.Alternative((first, rest, syntax.Sequence((first, rest))))
    return path


_SPLIT_MAX: Final = 4
"""Most predicates in a repeated sequence that may be empty: it is expanded into all its combinations."""


def _links(path: Path) -> int:
    match path:
        case syntax.Sequence(paths) | syntax.Alternative(paths):
            return sum(map(_links, paths))
        case syntax.Inverse(inner) | syntax.Repeat(inner):
            return _links(inner)
    return 1


def may_be_empty(path: Path) -> bool:
    """Tell whether a path matches without any step."""
    match path:
        case syntax.Repeat(inner, sign):
            return sign != "+" or may_be_empty(inner)
        case syntax.Inverse(inner):
            return may_be_empty(inner)
        case syntax.Sequence(paths):
            return all(map(may_be_empty, paths))
        case syntax.Alternative(paths):
            return any(map(may_be_empty, paths))
    return False


def repeats(path: Path) -> bool:
    """Tell whether a part of a path is repeated, or may be left out."""
    match path:
        case syntax.Repeat():
            return True
        case syntax.Inverse(inner):
            return repeats(inner)
        case syntax.Sequence(paths) | syntax.Alternative(paths):
            return any(map(repeats, paths))
    return False


def takes_any(path: Path) -> bool:
    """Tell whether some step of a path has no constant predicate: a variable, or a negated set."""
    match path:
        case syntax.Link(predicate):
            return is_variable(predicate)
        case syntax.Negated():
            return True
        case syntax.Inverse(inner) | syntax.Repeat(inner):
            return takes_any(inner)
    return any(map(takes_any, path.paths))


def between(
    s: str, path: Path, o: str, at: int, name: str, graph: str, window: StreamWindow | WindowMerge | None = None
) -> Relation:
    """Return the relation of a normal path between two terms; ``name``: prefix of its own variables.

    ``graph`` and ``window``: the graph, the merge of graphs, the window, or the merge of windows and graphs that holds
    the path.  In a window each step has a predicate (not :func:`takes_any`).
    """
    return _Between(at, f"?.p{name}", graph, window).relation(s, path, o)


class _Between:
    def __init__(self, at: int, prefix: str, graph: str, window: StreamWindow | WindowMerge | None):
        self._at = at
        self._graph = graph
        self._window = window
        self._steps: Iterator[str] = (f"{prefix}.{number}" for number in itertools.count())

    def relation(self, s: str, path: Path, o: str) -> Relation:
        match path:
            case syntax.Link(predicate):
                return self._basic(s, predicate, o)
            case syntax.Inverse(inner):
                return self.relation(o, inner, s)
            case syntax.Sequence(paths):
                found: Relation = Basic()
                for number, inner in enumerate(paths):
                    after = o if number == len(paths) - 1 else next(self._steps)
                    found = laws.join(found, self.relation(s, inner, after))
                    s = after
                return found
            case syntax.Negated(forward, backward):
                ways = [] if forward is None else [self._except(s, forward, o)]
                ways += [] if backward is None else [self._except(o, backward, s)]
                return ways[0] if len(ways) == 1 else Union(tuple(ways))
        if isinstance(path, syntax.Alternative) and not may_be_empty(path):
            return Union(tuple(self.relation(s, inner, o) for inner in path.paths))
        return PathPattern(s, path, o, self._at, self._graph, self._window)

    def triple(self, s: str, p: str, o: str) -> Relation:
        """Return the triples that match a pattern."""
        return self._basic(s, p, o)

    def _basic(self, s: str, p: str, o: str, *conditions: Condition) -> Relation:
        if isinstance(self._window, StreamWindow):
            return self._in_window(s, p, o, conditions, self._window)
        ways: tuple[Basic, ...]
        if self._window is None:
            members = graphs.members(self._graph)
            if len(members) > LEAVES_MAX:
                reason = f"a pattern over {len(members)} graphs, more than {LEAVES_MAX}"
                raise QueryRefused(reason, construct="query size")
            ways = tuple(self._in_graph(graph, s, p, o, conditions) for graph in members)
        else:
            ways = tuple(self._in_window(s, p, o, conditions, window) for window in self._window.windows)
            ways += self._static(s, p, o, conditions)
        if len(ways) == 1:
            return ways[0]
        names = names_in((s, p, o))
        if not ways:
            return Table(names, ())
        # A triple in several graphs or windows is one triple of their merge.
        return Distinct(Project(Union(ways), names))

    def _in_graph(self, graph: str, s: str, p: str, o: str, conditions: tuple[Condition, ...]) -> Basic:
        return Basic(graphs.patterns_in(graph, s, p, o, self._steps), conditions, self._at)

    def _static(self, s: str, p: str, o: str, conditions: tuple[Condition, ...]) -> tuple[Basic, ...]:
        """Return a pattern in the graphs of a merge with windows: one part, as the windows need several."""
        members = graphs.members(self._graph)
        if len(members) < 2:
            return tuple(self._in_graph(graph, s, p, o, conditions) for graph in members)
        graph = next(self._steps)
        return (self._in_graph(graph, s, p, o, (*conditions, is_one_of(graph[1:], members, self._at))),)

    def _in_window(
        self, s: str, p: str, o: str, conditions: tuple[Condition, ...], window: StreamWindow
    ) -> Basic:
        return Basic(((s, quads.streamed(p, window.stream), o),), conditions, self._at, window)

    def _except(self, s: str, excluded: tuple[str, ...], o: str) -> Relation:
        """Return the triples with a predicate other than these."""
        predicate = next(self._steps)
        marks = [Symbol("mark", mark, self._at) for mark in ("(", ",", ")")]
        members = [part for iri in excluded for part in (marks[1], Symbol("iri", iri, self._at))][1:]
        symbols = (
            Symbol("var", predicate[1:], self._at), Symbol("word", "NOT", self._at), Symbol("word", "IN", self._at),
            marks[0], *members, marks[2],
        )  # fmt: skip
        return self._basic(s, predicate, o, Condition(symbols, frozenset((predicate[1:],))))


def nodes(variable: str, constants: Iterable[str] | None, at: int, name: str, graph: str) -> Relation:
    """Return the nodes of a graph (subjects and objects of its triples) as values of a variable, with repetitions.

    ``constants``: only these; ``name``: prefix of further variables.  A graph that is a variable is a further one.
    """
    names = (*names_in((graph,)), variable[1:])
    made = _Between(at, f"?.p{name}", graph, None)
    s, p, o = (f"?.p{name}.{part}" for part in "spo")
    if constants is None:
        return Project(Union((made.triple(variable, p, o), made.triple(s, p, variable))), names)
    found: list[Relation] = [Table(names, ())]
    for term in sorted(constants):
        ends = [made.triple(s, p, term)] + [made.triple(term, p, o)] * (not term.startswith('"'))
        found += [laws.join(end, Table((variable[1:],), ((term,),))) for end in ends]
    return Project(Union(tuple(found)), names)


def no_step(s: str, o: str) -> Table:
    """Return the match without a step between two terms, at least one of which is constant."""
    if not is_variable(s) and not is_variable(o):
        return Table((), ((),) if s == o else ())
    return Table(names_in((s, o)), ((o if is_variable(s) else s,),))
