"""The algebra by names, the result of SPARQL 1.1's translation (18.2) before columns have positions.

A relation has variables, in the order of its columns, and some of them are *certain*: bound in every solution.  Most
laws of the algebra (:mod:`p2prdf.rdf.standing.laws`) depend on certainty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias

from p2prdf.rdf.algebra import Existence, Function
from p2prdf.rdf.standing.syntax import Path, StreamWindow, WindowMerge, is_variable
from p2prdf.rdf.tokens import Symbol

__all__ = [
    "Aggregated", "Basic", "Condition", "Distinct", "Exists", "Extend", "Filter", "Given", "Group", "Join", "LeftJoin",
    "Minus", "Names", "PathPattern", "Pattern", "Project", "Relation", "Slice", "Table", "Union", "certain",
    "is_one_of", "mentioned", "mentioned_beside", "names_in", "variables",
]  # fmt: skip

Pattern: TypeAlias = tuple[str, str, str]
"""Subject, predicate and object, each a canonical term or ``?`` and a name."""

Names: TypeAlias = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Condition:
    """A conjunct of a FILTER, or any other expression, and the names in its scope."""

    symbols: tuple[Symbol, ...]
    scope: frozenset[str]

    @property
    def names(self) -> Names:
        """The names that occur, in scope or not."""
        return tuple(dict.fromkeys(symbol.value for symbol in self.symbols if symbol.kind == "var"))

    @property
    def seen(self) -> frozenset[str]:
        """The names that occur and are in scope."""
        return self.scope.intersection(self.names)

    @property
    def at(self) -> int:
        """Its position in the text."""
        return self.symbols[0].at


@dataclasses.dataclass(frozen=True, eq=False)
class Basic:
    """A basic graph pattern with conditions on its solutions; without patterns: one empty solution.

    ``window``: the window that it reads, if any.
    """

    patterns: tuple[Pattern, ...] = ()
    conditions: tuple[Condition, ...] = ()
    at: int = 0
    window: StreamWindow | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class PathPattern:
    """Two terms connected by a path that is no triple pattern, in one graph or window.

    ``graph``: an IRI, a variable, ``DEFAULT`` or a merge (:func:`p2prdf.rdf.standing.graphs.merged`).  The elements
    of a window are a graph of their own; a merge of windows contains the graphs, too.
    """

    subject: str
    path: Path
    object: str
    at: int
    graph: str
    window: StreamWindow | WindowMerge | None = None

    @property
    def ends(self) -> Names:
        """The variables at its ends."""
        return names_in((self.subject, self.object))

    @property
    def graph_variable(self) -> Names:
        """The variable that names its graph, if it is one."""
        return names_in((self.graph,))


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Fixed solutions."""

    names: Names
    rows: tuple[tuple[str | None, ...], ...]

    @cached_property
    def certain(self) -> frozenset[str]:
        """The variables that every row binds."""
        return frozenset(name for at, name in enumerate(self.names) if all(row[at] is not None for row in self.rows))


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """Solutions passed down by an enclosing operator, each once.

    ``certain``: names bound in all of them.  ``fixed``: copies that distinguish solutions and are no variables of the
    query (:mod:`p2prdf.rdf.standing.correlation`).
    """

    names: Names
    certain: frozenset[str]
    fixed: Names


@dataclasses.dataclass(frozen=True, eq=False)
class Join:
    """Compatible solutions, merged."""

    left: Relation
    right: Relation


@dataclasses.dataclass(frozen=True, eq=False)
class LeftJoin:
    """OPTIONAL.  ``exists``: the groups that hidden names in the conditions stand for."""

    input: Relation
    right: Relation
    conditions: tuple[Condition, ...] = ()
    exists: tuple[tuple[str, Relation], ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Union:
    """The solutions of all branches."""

    branches: tuple[Relation, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Filter:
    """The solutions for which a condition holds."""

    input: Relation
    condition: Condition


@dataclasses.dataclass(frozen=True, eq=False)
class Distinct:
    """Each solution once."""

    input: Relation


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """A range of the solutions in an order; each key may be descending.

    ``partition``: solutions that differ in these variables are in different ranges.
    """

    input: Relation
    order: tuple[tuple[str, bool], ...]
    offset: int
    limit: int | None
    at: int
    partition: Names = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Minus:
    """MINUS.  ``shared``: the variables that both sides have in the text of the query."""

    input: Relation
    right: Relation
    shared: frozenset[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Exists:
    """EXISTS, NOT EXISTS, or, with a ``name``, a column with the boolean outcome."""

    input: Relation
    right: Relation
    existence: Existence
    name: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Extend:
    """Each solution with one more, computed variable."""

    input: Relation
    name: str
    expression: Condition


@dataclasses.dataclass(frozen=True, eq=False)
class Project:
    """Solutions restricted to the given names; a name may be unbound in all of them."""

    input: Relation
    names: Names


@dataclasses.dataclass(frozen=True)
class Aggregated:
    """A set function: its hidden name and its arguments (see algebra.Aggregate)."""

    name: str
    function: Function
    arguments: Names
    distinct: bool
    separator: str


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """One solution per group."""

    input: Relation
    keys: Names
    aggregates: tuple[Aggregated, ...]
    at: int


Relation: TypeAlias = (
    Basic | PathPattern | Table | Given | Join | LeftJoin | Union | Filter | Distinct | Slice | Minus | Exists | Extend
    | Project | Group
)  # fmt: skip


def is_one_of(name: str, values: Iterable[str], at: int = 0) -> Condition:
    """Return the condition that a variable is one of some constant terms."""
    between = Symbol("mark", ",", at)
    members = [part for value in values for part in (between, Symbol(_kind(value), value, at))][1:]
    opening, closing = Symbol("mark", "(", at), Symbol("mark", ")", at)
    symbols = (Symbol("var", name, at), Symbol("word", "IN", at), opening, *members, closing)
    return Condition(symbols, frozenset((name,)))


def _kind(term: str) -> str:
    return "literal" if term.startswith('"') else "iri"


def names_in(terms: Iterable[str]) -> Names:
    """Return the names of the variables among terms of patterns, each once, in order."""
    return tuple(dict.fromkeys(term[1:] for term in terms if is_variable(term)))


def variables(relation: Relation) -> Names:
    """Return the variables that solutions of a relation may bind, each once, in order."""
    match relation:
        case Basic(patterns):
            return names_in(term for pattern in patterns for term in pattern)
        case PathPattern(subject, _, last, graph=graph):
            return names_in((subject, last, graph))
        case Table(names) | Project(_, names):
            return names
        case Given(names, _, fixed):
            return names + fixed
        case Join(left, right) | LeftJoin(left, right):
            return tuple(dict.fromkeys(variables(left) + variables(right)))
        case Union(branches):
            return tuple(dict.fromkeys(name for branch in branches for name in variables(branch)))
        case Exists(input, name=name) | Extend(input, name):
            return (*variables(input), name) if name else variables(input)
        case Group(_, keys, aggregates):
            return (*keys, *(each.name for each in aggregates))
    return variables(relation.input)


def certain(relation: Relation) -> frozenset[str]:
    """Return the variables that every solution of a relation binds."""
    match relation:
        case Basic() | PathPattern():
            return frozenset(variables(relation))
        case Table():
            return relation.certain
        case Given(_, bound, fixed):
            return bound.union(fixed)
        case Join(left, right):
            return certain(left) | certain(right)
        case Union(branches):
            return frozenset.intersection(*map(certain, branches))
        case Exists(input, name=name) if name:
            return certain(input) | {name}
        case Project(input, names):
            return certain(input).intersection(names)
        case Group(input, keys, aggregates):
            counts = [each.name for each in aggregates if each.function is Function.COUNT]
            return certain(input).intersection(keys).union(counts)
    return certain(relation.input)


def mentioned(relation: Relation) -> frozenset[str]:
    """Return all names that occur anywhere in a relation, in scope or not."""
    match relation:
        case Basic(_, conditions):
            return frozenset(variables(relation)).union(*(condition.names for condition in conditions))
        case PathPattern() | Table() | Given():
            return frozenset(variables(relation))
        case Join(left, right):
            return mentioned(left) | mentioned(right)
        case Union(branches):
            return frozenset[str]().union(*map(mentioned, branches))
    return mentioned(relation.input) | mentioned_beside(relation)


def mentioned_beside(
    relation: LeftJoin | Filter | Distinct | Slice | Minus | Exists | Extend | Project | Group,
) -> frozenset[str]:
    """Return the names that a relation itself mentions, in addition to its (left) input."""
    match relation:
        case LeftJoin(_, right, conditions, exists):
            groups = [mentioned(group) for _, group in exists]
            return mentioned(right).union(*groups, *(condition.names for condition in conditions))
        case Filter(_, condition):
            return frozenset(condition.names)
        case Extend(_, name, expression):
            return frozenset((name, *expression.names))
        case Minus(_, right) | Exists(_, right):
            return mentioned(right)
        case Project(_, names):
            return frozenset(names)
        case Group(_, keys, aggregates):
            return frozenset(keys).union(*(each.arguments for each in aggregates))
        case Slice(_, order, partition=partition):
            return frozenset(name for name, _ in order).union(partition)
    return frozenset()
