"""The operations of a SPARQL 1.1 update, as data."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms
from p2prdf.rdf.quads import DEFAULT, RESERVED

__all__ = [
    "Changes", "Clear", "Create", "DeleteData", "InsertData", "Load", "Manner", "Modify", "Operation", "Statement",
    "Target", "Transfer", "in_graph", "is_system_graph",
]  # fmt: skip

Statement: TypeAlias = tuple[str, str, str] | tuple[str, str, str, str]
"""A triple of the default graph, or a triple and the IRI of its graph.

In a template, any part may be a variable.
"""
Changes: TypeAlias = tuple[dict[Statement, None], dict[Statement, None]]
"""Statements to delete, and statements to insert after that: each once, in order, as keys."""


class Target(enum.Enum):
    """Several graphs, of CLEAR and DROP."""

    NAMED = "NAMED"
    ALL = "ALL"


class Manner(enum.Enum):
    """COPY replaces the content of the target, MOVE also empties the source, ADD keeps the content of both."""

    COPY = "COPY"
    MOVE = "MOVE"
    ADD = "ADD"


_SYSTEM: Final = "<" + RESERVED


def is_system_graph(graph: str) -> bool:
    """Tell whether a graph holds registrations of p2prdf: CLEAR and DROP of several graphs leave it alone."""
    return graph.startswith(_SYSTEM)


@dataclasses.dataclass(frozen=True, slots=True)
class InsertData:
    """``INSERT DATA { }``: statements to publish, each once, in the order of the text."""

    triples: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteData:
    """``DELETE DATA { }``: statements to delete, each once, in the order of the text."""

    triples: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Modify:
    """``DELETE { } INSERT { } WHERE { }`` and ``DELETE WHERE { }``: templates, filled with each solution of a query.

    ``construct``: the operation in a refusal.  ``query``: text of a one-time query with the columns ``variables``,
    or with any columns if there are none; empty: WHERE has no element, so it has one solution without values.
    Names of blank nodes of ``insert`` begin with ``?.``.  ``marks``: texts in the solutions, each to be replaced by a
    new UUID in every solution (:mod:`p2prdf.rdf.update_values`).
    """

    construct: str
    delete: tuple[Statement, ...]
    insert: tuple[Statement, ...]
    query: str
    variables: tuple[str, ...]
    marks: tuple[str, ...] = ()

    def changes(self, fresh: Callable[[str], str]) -> Callable[[Sequence[str | None], Changes], None]:
        """Return a function that adds the statements of one solution to changes.

        ``fresh``: names a blank node of the current solution.  A statement with an unbound variable, or one that RDF
        does not allow (SPARQL 1.1 Update, 3.1.3), is left out.
        """
        places = {"?" + name: at for at, name in enumerate(self.variables)}
        delete, insert = (
            [[places.get(term, term) for term in statement] for statement in template]
            for template in (self.delete, self.insert)
        )

        def add(row: Sequence[str | None], found: Changes) -> None:
            nodes: dict[str, str] = {}

            def value(part: int | str) -> str | None:
                if isinstance(part, int):
                    return row[part]
                if terms.is_triple(part):
                    return triple(part)
                if not part.startswith("?"):
                    return part
                if not part.startswith("?."):
                    return None  # the query has no such column
                if part not in nodes:
                    nodes[part] = fresh(part)
                return nodes[part]

            def triple(term: str) -> str | None:
                s, p, o = (value(places.get(part, part)) for part in terms.triple_parts(term))
                if s is None or p is None or o is None:
                    return None
                try:
                    return terms.triple_term(s, p, o)
                except DataRefused:
                    return None

            for template, statements in zip((delete, insert), found, strict=True):
                for parts in template:
                    filled = tuple(map(value, parts))
                    if _is_statement(filled):
                        statements[filled] = None  # type: ignore[index]

        return add


@dataclasses.dataclass(frozen=True, slots=True)
class Clear:
    """``CLEAR`` and ``DROP``: delete the statements of a graph, ``DEFAULT`` or an IRI, or of several graphs."""

    graph: str | Target


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """``CREATE``: has no effect, and fails if the graph exists, unless ``silent``."""

    graph: str
    silent: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """``COPY``, ``MOVE`` and ``ADD`` from a graph to another; each is ``DEFAULT`` or an IRI.

    It fails if the source does not exist; if ``silent``, it has no effect then.
    """

    manner: Manner
    source: str
    target: str
    silent: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """``LOAD``: insert the statements of a document into a graph, ``DEFAULT`` or an IRI."""

    url: str
    graph: str
    silent: bool


Operation: TypeAlias = InsertData | DeleteData | Modify | Clear | Create | Transfer | Load


def in_graph(triple: tuple[str, str, str], graph: str) -> Statement:
    """Return a triple as a statement of a graph, ``DEFAULT`` or an IRI."""
    return triple if graph == DEFAULT else (*triple, graph)


def _is_statement(parts: Sequence[str | None]) -> bool:
    if None in parts:
        return False
    s, p, _, *graph = parts
    assert s is not None
    assert p is not None
    if terms.is_object_only(s) or terms.kind(p) is not terms.Kind.IRI:
        return False
    return not graph or not terms.is_object_only(str(graph[0]))
