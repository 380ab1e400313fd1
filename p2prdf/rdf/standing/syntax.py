"""The syntax tree of a query, close to SPARQL's grammar.

Terms of patterns are strings: a canonical term, or ``?`` and a name.  Names that begin with a dot are generated:
blank nodes, steps of paths, placeholders for EXISTS and aggregates in an expression.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

from p2prdf.rdf.algebra import CountWindow, Form, Function, Reported, Window
from p2prdf.rdf.tokens import Symbol

__all__ = [
    "AggregateCall", "Alternative", "Bind", "Continuous", "Dataset", "Element", "Expression", "GraphGroup", "Group",
    "InlineData", "Inverse", "Label", "LabelService", "Link", "MinusGroup", "Negated", "OpenedTriples",
    "OptionalGroup", "Path", "Projection", "Query", "Repeat", "Select", "Sequence", "StreamWindow", "Triple", "Triples",
    "UnionGroups", "WindowGroup", "WindowMerge", "is_variable", "visible",
]  # fmt: skip


def is_variable(term: str) -> bool:
    """Tell whether a term of a pattern is a variable."""
    return term.startswith("?")


# --- paths ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """One predicate, or a variable in its place."""

    predicate: str


@dataclasses.dataclass(frozen=True, slots=True)
class Inverse:
    """``^path``."""

    path: Path


@dataclasses.dataclass(frozen=True, slots=True)
class Sequence:
    """``path / path``."""

    paths: tuple[Path, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Alternative:
    """``path | path``."""

    paths: tuple[Path, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Repeat:
    """``path*``, ``path+`` and ``path?``."""

    path: Path
    sign: str


@dataclasses.dataclass(frozen=True, slots=True)
class Negated:
    """``!(p|^q)``: excluded predicates forward and backward; None: the direction is not followed."""

    forward: tuple[str, ...] | None
    backward: tuple[str, ...] | None


Path: TypeAlias = Link | Inverse | Sequence | Alternative | Repeat | Negated


# --- expressions ---------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Expression:
    """Symbols, in which hidden variables stand for EXISTS and aggregates."""

    symbols: list[Symbol]
    at: int
    groups: dict[str, Group] = dataclasses.field(default_factory=dict)
    """The group of each EXISTS, by its hidden variable."""
    aggregates: dict[str, AggregateCall] = dataclasses.field(default_factory=dict)

    @property
    def variable(self) -> str | None:
        """The variable's name, if the expression is a single variable."""
        inner = self.symbols
        while len(inner) > 2 and inner[0].is_mark("(") and inner[-1].is_mark(")"):
            inner = inner[1:-1]
        return inner[0].value if len(inner) == 1 and inner[0].kind == "var" else None


@dataclasses.dataclass(slots=True)
class AggregateCall:
    """A set function with its argument; None is ``*``."""

    function: Function
    argument: Expression | None
    distinct: bool
    separator: str
    at: int


# --- groups --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Triple:
    """Subject, path and object."""

    subject: str
    path: Path
    object: str
    at: int


@dataclasses.dataclass(slots=True)
class Triples:
    """Adjacent triples."""

    triples: list[Triple]


@dataclasses.dataclass(slots=True)
class OptionalGroup:
    """``OPTIONAL { }``."""

    group: Group
    at: int


@dataclasses.dataclass(slots=True)
class UnionGroups:
    """``{ } UNION { }``."""

    groups: list[Group]


@dataclasses.dataclass(slots=True)
class MinusGroup:
    """``MINUS { }``."""

    group: Group


@dataclasses.dataclass(slots=True)
class GraphGroup:
    """``GRAPH name { }``; the name is an IRI or a variable, as a term of a pattern."""

    name: str
    group: Group
    at: int


@dataclasses.dataclass(frozen=True, slots=True)
class StreamWindow:
    """A window that a query declares on a stream; canonical IRIs name both.

    ``declared``: the keywords of the declaration.  ``at``: their position.
    """

    name: str
    stream: str
    window: Window | CountWindow
    declared: str
    at: int


@dataclasses.dataclass(frozen=True, slots=True)
class WindowMerge:
    """The merge of several windows, and of the graphs that FROM names: the default graph of C-SPARQL."""

    windows: tuple[StreamWindow, ...]


@dataclasses.dataclass(slots=True)
class WindowGroup:
    """``WINDOW name { }``."""

    window: StreamWindow
    group: Group


@dataclasses.dataclass(slots=True)
class Bind:
    """``BIND (expression AS ?name)``."""

    expression: Expression
    name: str
    at: int


@dataclasses.dataclass(slots=True)
class InlineData:
    """``VALUES``; None is UNDEF."""

    names: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """A variable that a label service binds to a label of a term, by one of its properties."""

    subject: str
    predicate: str
    name: str
    at: int


@dataclasses.dataclass(frozen=True, slots=True)
class LabelService:
    """``SERVICE wikibase:label { }``: its languages, first choice first, and the variables that it binds."""

    languages: tuple[str, ...]
    labels: tuple[Label, ...]
    at: int


@dataclasses.dataclass(slots=True)
class Group:
    """``{ }``."""

    elements: list[Element]
    at: int


class OpenedTriples(Group):
    """Adjacent triples, and the elements that compare the parts of triple terms in them."""


# --- queries -------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Projection:
    """A projected variable, with its expression if it is computed."""

    name: str
    expression: Expression | None
    at: int


@dataclasses.dataclass(slots=True)
class Select:
    """A SELECT query, or the pattern and solution modifiers of another form."""

    group: Group
    at: int
    projection: list[Projection] | None = None
    """None for ``*``."""
    distinct: bool = False
    keys: list[Projection] | None = None
    """The keys of GROUP BY; a key without a name has a hidden one."""
    having: list[Expression] = dataclasses.field(default_factory=list)
    order: list[tuple[Expression, bool]] = dataclasses.field(default_factory=list)
    """The conditions of ORDER BY, each with a flag for descending order."""
    offset: int = 0
    limit: int | None = None
    data: InlineData | None = None
    """The VALUES clause at the end."""


Element: TypeAlias = (
    Triples | Group | OptionalGroup | UnionGroups | MinusGroup | GraphGroup | WindowGroup | Expression | Bind
    | InlineData | LabelService | Select
)  # fmt: skip
"""An element of a group; an expression is the condition of a FILTER."""


@dataclasses.dataclass(frozen=True, slots=True)
class Continuous:
    """The reports that a query with windows requests.

    ``at``: the position of the keyword for ``reported``.  ``every``: milliseconds, or 0 with a window by count.
    ``window``: the window, or the merge of windows, of all patterns outside the blocks of a window or graph.
    """

    reported: Reported
    at: int
    every: int
    window: StreamWindow | WindowMerge | None


@dataclasses.dataclass(frozen=True, slots=True)
class Dataset:
    """The graphs that a query chooses (SPARQL 1.1, 13.2).

    ``default``: the graphs whose merge is the default graph; ``named``: those that GRAPH reaches; None: all.
    """

    default: tuple[str, ...]
    named: tuple[str, ...] | None


@dataclasses.dataclass(slots=True)
class Query:
    """A whole query; ``continuous`` if it has windows, ``dataset`` if it chooses its graphs."""

    form: Form
    select: Select
    template: list[tuple[str, str, str]]
    """The template of CONSTRUCT; blank nodes are hidden variables."""
    base: str | None
    continuous: Continuous | None = None
    dataset: Dataset | None = None


def visible(group: Group) -> Iterator[str]:
    """Yield the names in scope at the end of a group (SPARQL 1.1, 18.2.1), in order, possibly repeated."""
    for element in group.elements:
        match element:
            case Triples(triples):
                yield from _visible_in(triples)
            case Group():
                yield from visible(element)
            case OptionalGroup(inner) | WindowGroup(_, inner):
                yield from visible(inner)
            case GraphGroup(name, inner):
                yield from ([name[1:]] if is_variable(name) else ())
                yield from visible(inner)
            case UnionGroups(groups):
                for inner in groups:
                    yield from visible(inner)
            case Bind(name=name):
                yield name
            case InlineData(names):
                yield from names
            case LabelService(labels=labels):
                yield from (label.name for label in labels)
            case Select(group=inner, projection=None):
                yield from visible(inner)
            case Select():
                yield from (projected.name for projected in element.projection or ())
            case Expression() | MinusGroup():
                pass


def _visible_in(triples: list[Triple]) -> Iterator[str]:
    for triple in triples:
        terms = [triple.subject, triple.object]
        if isinstance(triple.path, Link):
            terms.insert(1, triple.path.predicate)
        yield from (term[1:] for term in terms if is_variable(term) and term[1] != ".")
