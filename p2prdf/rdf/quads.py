"""Quads as triples: the terms by which a statement of a named graph is one of three parts.

The problem.  Everything behind the node where something is published knows triples: keys, tables, rows, messages, the
disk.  A fourth part would be a column in all of them, also for who has no named graphs, and sixteen roles for eight.

The idea.  In a named graph a triple has a *qualified predicate*: one term made of predicate and graph.  ``<s> <p> <o>``
in ``<g>`` is the triple ``<s> "<p> <g>" <o>``, so a pattern in a graph that is named is a pattern with another constant
in the predicate's place, and costs what it costs in the default graph.  Which qualified predicates there are is said by
more triples, the *directory*, published along with the first ones and under the same stamp::

    "<p> <g>"   "<p>"   <g>         for each predicate in a graph
    "<p>"       "of"    <p>         for each predicate in any

So where the graph is a variable a pattern ``?s <p> ?o`` is two, ``?l "<p>" ?g`` and ``?s ?l ?o``; and where the
predicate is one, too, there is a third, ``?d "of" ?p``.  A removal leaves the directory as it is: what it says matches
nothing then.  The directory is never older than what it tells of, so from when on something counts, and how old an
answer is, are decided by the statements themselves.

A *stream* is named like a graph, and is none: its elements have times of their own and are read through windows.  Their
predicates are qualified by the stream (:func:`streamed`), by a term that no graph has, and there is no directory.
Who wants all of a stream, whatever the predicate, asks for any triple, on the condition that its predicate is one of
the stream (:func:`stream_conditions`).  No query from outside can say that: the datatype's IRI is refused there.

A predicate qualified by *words* (:func:`worded`) is that of the texts which have one of them: a statement is indexed
with it beside its own predicate, where somebody waits for such (:mod:`p2prdf.peer.words`).

Qualified predicates and the directory's terms are literals of datatypes of our own, so the dictionary knows them for
literals.  Nothing published can be taken for them: a predicate or subject from outside is an IRI, and literals of these
datatypes are refused.  Nor does a pattern of the default graph whose predicate is a variable match them, for which
:func:`p2prdf.store.compiled.compile_step` has a rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = [
    "DEFAULT", "OF", "ON", "RESERVED", "Quad", "Triple", "as_triples", "directory_term", "graph_of", "is_directory",
    "is_reserved", "of_stream", "parts_of", "predicate_of", "qualified", "stream_conditions", "stream_parts_of",
    "streamed", "word_parts_of", "worded",
]  # fmt: skip

Triple = tuple[str, str, str]
Quad = tuple[str, str, str, str]
"""Subject, predicate, object and graph; the graph is ``DEFAULT`` or a canonical IRI."""

DEFAULT: Final = ""
"""Stands for the default graph where graphs are named."""

RESERVED: Final = "urn:p2prdf:"
"""How the datatypes begin that are ours alone."""
_QUALIFIED: Final = f'"^^<{RESERVED}in>'
_DIRECTORY: Final = f'"^^<{RESERVED}predicate>'
ON: Final = f"<{RESERVED}on>"
"""The datatype of predicates in streams."""
_STREAMED: Final = f'"^^{ON}'
_WORDED: Final = f'"^^<{RESERVED}words>'
_MARK: Final = f'"^^<{RESERVED}'

OF: Final = f'"of{_DIRECTORY}'
"""The predicate of what says which predicate a directory's term stands for."""


def qualified(predicate: str, graph: str) -> str:
    """Return a predicate in a named graph as one term; both are canonical IRIs."""
    return f'"{predicate} {graph}{_QUALIFIED}'


def streamed(predicate: str, stream: str) -> str:
    """Return a predicate in a stream as one term; both are canonical IRIs."""
    return f'"{predicate} {stream}{_STREAMED}'


def of_stream(variable: int) -> str:
    """Return the condition, as a filter's text, that what a variable stands for is a predicate in a stream."""
    return f"DATATYPE ( ?v{variable} ) = {ON}"


def stream_conditions(variable: int, stream: str) -> tuple[str, str]:
    """Return the conditions that what a variable stands for is a predicate in this stream, a canonical IRI."""
    return of_stream(variable), f'STRENDS ( STR ( ?v{variable} ) , " {stream}" )'


def worded(predicate: str, words: Iterable[str]) -> str:
    """Return a predicate of texts with one of these words as one term; words have letters and numbers only."""
    return f'"{predicate} {" ".join(sorted(words))}{_WORDED}'


def directory_term(predicate: str) -> str:
    """Return the term under which the directory lists the graphs of a predicate."""
    return f'"{predicate}{_DIRECTORY}'


def is_reserved(term: str) -> bool:
    """Tell whether a canonical term is a literal of a datatype of ours, whatever it says."""
    return term.startswith(_MARK, term.rfind('"'))


def parts_of(term: str) -> tuple[str, str] | None:
    """Return predicate and graph of a qualified predicate; None for any other term."""
    return _parts(term, _QUALIFIED)


def stream_parts_of(term: str) -> tuple[str, str] | None:
    """Return predicate and stream of a predicate in a stream; None for any other term."""
    return _parts(term, _STREAMED)


def word_parts_of(term: str) -> tuple[str, tuple[str, ...]] | None:
    """Return predicate and words of a predicate of texts with one of them; None for any other term."""
    parts = _parts(term, _WORDED)
    return None if parts is None else (parts[0], tuple(parts[1].split(" ")))


def _parts(term: str, ending: str) -> tuple[str, str] | None:
    if not (is_reserved(term) and term.endswith(ending)):
        return None
    predicate, _, place = term[1 : -len(ending)].partition(" ")  # an IRI has no space
    return predicate, place


def graph_of(term: str) -> str:
    """Return the graph of a pattern by the constant in its predicate's place; ``DEFAULT`` if it names none."""
    parts = parts_of(term)
    return DEFAULT if parts is None else parts[1]


def is_directory(term: str) -> bool:
    """Tell whether a term is the predicate of what the directory says."""
    return is_reserved(term) and term.endswith(_DIRECTORY)


def predicate_of(term: str) -> str | None:
    """Return the predicate that a directory's term stands for; None for any other term, ``OF`` among them."""
    return term[1 : -len(_DIRECTORY)] if is_directory(term) and term != OF else None


def as_triples(quads: Iterable[Quad], *, removed: bool = False) -> tuple[list[Triple], list[Triple]]:
    """Return quads as the triples they are indexed as, one for each, and the directory published with them, if any.

    What is removed has none.  :mod:`p2prdf.peer.graphs` does the same with columns of identifiers.
    """
    statements: list[Triple] = []
    directory: dict[Triple, None] = {}
    for s, p, o, graph in quads:
        if graph == DEFAULT:
            statements.append((s, p, o))
            continue
        term, listed = qualified(p, graph), directory_term(p)
        statements.append((s, term, o))
        if not removed:
            directory[term, listed, graph] = None
            directory[listed, OF, p] = None
    return statements, list(directory)
