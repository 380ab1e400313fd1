"""Quads as triples: a statement in a named graph has the graph as part of its predicate term.

In a named graph, a triple has a *qualified predicate*: one term composed of predicate and graph.  ``<s> <p> <o>`` in
``<g>`` is the triple ``<s> "<p> <g>" <o>``.  The *directory* lists the qualified predicates.  Its triples are
published along with the statements, under the same stamp::

    "<p> <g>"   "<p>"   <g>         for each predicate in a graph
    "<p>"       "of"    <p>         for each predicate in any graph

A pattern ``?s <p> ?o`` in a variable graph thus becomes two patterns, ``?l "<p>" ?g`` and ``?s ?l ?o``; a variable
predicate adds a third, ``?d "of" ?p``.  A deletion leaves the directory unchanged.

Predicates in a *stream* are qualified by the stream (:func:`streamed`) with a datatype of their own, and have no
directory; :func:`stream_conditions` selects all elements of a stream.  A single pattern that is evaluated without the
directory's patterns reads a named graph by :func:`graph_conditions`.  A predicate qualified by *keywords*
(:func:`worded`) stands for texts that contain one of them (:mod:`p2prdf.peer.joins.keyword_index`).

These terms are literals with reserved datatypes, which published literals and queries cannot use.
:func:`p2prdf.store.compiled.compile_step` excludes them from patterns of the default graph with a variable predicate.
See docs/explanation/design/named-graphs.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = [
    "CONDITION_DATATYPES", "DEFAULT", "OF", "ON", "RESERVED", "Quad", "Triple", "directory_term", "graph_conditions",
    "graph_in", "graph_of", "is_directory", "is_reserved", "of_directory", "of_named_graph", "of_stream", "parts_of",
    "predicate_of", "qualified", "reads_beyond_default", "stream_conditions", "stream_parts_of", "streamed",
    "word_parts_of", "worded",
]  # fmt: skip

Triple = tuple[str, str, str]
Quad = tuple[str, str, str, str]
"""Subject, predicate, object and graph; the graph is ``DEFAULT`` or a canonical IRI."""

DEFAULT: Final = ""
"""The default graph, in columns that name graphs."""

RESERVED: Final = "urn:p2prdf:"
"""Prefix of the datatypes that are reserved for p2prdf."""
_IN: Final = f"<{RESERVED}in>"
_LISTED: Final = f"<{RESERVED}predicate>"
_QUALIFIED: Final = f'"^^{_IN}'
_DIRECTORY: Final = f'"^^{_LISTED}'
ON: Final = f"<{RESERVED}on>"
"""The datatype of predicates in streams."""
CONDITION_DATATYPES: Final = frozenset({_IN, _LISTED, ON})
"""Datatypes whose conditions let a pattern read beyond the default graph; no query may name them."""
_STREAMED: Final = f'"^^{ON}'
_WORDED: Final = f'"^^<{RESERVED}words>'
_MARK: Final = f'"^^<{RESERVED}'

OF: Final = f'"of{_DIRECTORY}'
"""The predicate of the triples that map a directory term to its predicate."""


def qualified(predicate: str, graph: str) -> str:
    """Return a predicate in a named graph as one term; both are canonical IRIs."""
    return f'"{predicate} {graph}{_QUALIFIED}'


def streamed(predicate: str, stream: str) -> str:
    """Return a predicate in a stream as one term; both are canonical IRIs."""
    return f'"{predicate} {stream}{_STREAMED}'


def of_stream(variable: int) -> str:
    """Return the condition, as a filter's text, that a variable is bound to a predicate in a stream."""
    return f"DATATYPE ( ?v{variable} ) = {ON}"


def of_named_graph(variable: int) -> str:
    """Return the condition, as a filter's text, that a variable is bound to a predicate in a named graph."""
    return f"DATATYPE ( ?v{variable} ) = {_IN}"


def of_directory(variable: int) -> str:
    """Return the condition, as a filter's text, that a variable is bound to a predicate of the directory."""
    return f"DATATYPE ( ?v{variable} ) = {_LISTED}"


def reads_beyond_default(condition: str, variable: int) -> bool:
    """Tell whether a pattern with this condition and a variable as predicate does not read the default graph."""
    return condition in (of_stream(variable), of_named_graph(variable), of_directory(variable))


def graph_conditions(variable: int, predicate: str, graph: str) -> tuple[str, ...]:
    """Return the conditions that a variable is bound to this predicate in this graph, canonical IRIs; "": to any."""
    first = (f'STRSTARTS ( STR ( ?v{variable} ) , "{predicate} " )',) if predicate else ()
    last = (f'{_ends(variable)}{graph}" )',) if graph else ()
    return of_named_graph(variable), *first, *last


def graph_in(conditions: Iterable[str], variable: int) -> str:
    """Return the graph that :func:`graph_conditions` name for a variable, "" if they name none."""
    start = _ends(variable)
    return next((each[len(start) : -len('" )')] for each in conditions if each.startswith(start)), "")


def _ends(variable: int) -> str:
    return f'STRENDS ( STR ( ?v{variable} ) , " '


def stream_conditions(variable: int, stream: str) -> tuple[str, str]:
    """Return the conditions that a variable is bound to a predicate in this stream, a canonical IRI."""
    return of_stream(variable), f'{_ends(variable)}{stream}" )'


def worded(predicate: str, words: Iterable[str]) -> str:
    """Return a predicate of texts with one of these keywords as one term.

    Keywords consist of letters and digits.
    """
    return f'"{predicate} {" ".join(sorted(words))}{_WORDED}'


def directory_term(predicate: str) -> str:
    """Return the term under which the directory lists the graphs of a predicate."""
    return f'"{predicate}{_DIRECTORY}'


def is_reserved(term: str) -> bool:
    """Tell whether a canonical term is a literal of a reserved datatype."""
    return term[:1] == '"' and term.startswith(_MARK, term.rfind('"'))


def parts_of(term: str) -> tuple[str, str] | None:
    """Return predicate and graph of a qualified predicate; None for any other term."""
    return _parts(term, _QUALIFIED)


def stream_parts_of(term: str) -> tuple[str, str] | None:
    """Return predicate and stream of a predicate in a stream; None for any other term."""
    return _parts(term, _STREAMED)


def word_parts_of(term: str) -> tuple[str, tuple[str, ...]] | None:
    """Return predicate and keywords of a predicate qualified by keywords; None for any other term."""
    parts = _parts(term, _WORDED)
    return None if parts is None else (parts[0], tuple(parts[1].split(" ")))


def _parts(term: str, ending: str) -> tuple[str, str] | None:
    if not (is_reserved(term) and term.endswith(ending)):
        return None
    predicate, _, place = term[1 : -len(ending)].partition(" ")  # an IRI has no space
    return predicate, place


def graph_of(term: str) -> str:
    """Return the graph of a pattern, given the constant in its predicate position, or ``DEFAULT``."""
    parts = parts_of(term)
    return DEFAULT if parts is None else parts[1]


def is_directory(term: str) -> bool:
    """Tell whether a term is the predicate of a directory triple."""
    return is_reserved(term) and term.endswith(_DIRECTORY)


def predicate_of(term: str) -> str | None:
    """Return the predicate that a directory term stands for; None for any other term, including ``OF``."""
    return term[1 : -len(_DIRECTORY)] if is_directory(term) and term != OF else None
