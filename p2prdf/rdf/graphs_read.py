"""Which graphs a query reads: what tells whether something can be derived from itself."""

from __future__ import annotations

from typing import Final

from p2prdf.rdf import quads
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.query import ConjunctiveQuery

__all__ = ["ANY", "graphs_read"]

ANY: Final = "*"
"""Stands for all named graphs, those that are yet to come among them."""


def graphs_read(query: StandingQuery) -> frozenset[str]:
    """Return the graphs whose triples can change what a query answers: IRIs, ``quads.DEFAULT``, ``ANY``."""
    return frozenset[str]().union(*map(_read_by, query.leaves))


def _read_by(leaf: ConjunctiveQuery) -> frozenset[str]:
    """Return the graphs that a leaf reads.

    Where graph or predicate is a variable the predicate's place holds one that the directory binds: a pattern of the
    directory says which graphs are meant, and the pattern of the statement itself nothing.
    """

    def constant(slot: int) -> str:
        return leaf.constants[~slot] if slot < 0 else ""

    listed = {s for s, p, _ in leaf.patterns if constant(p) == quads.OF}
    directory = [each for each in leaf.patterns if each[1] in listed or quads.predicate_of(constant(each[1]))]
    bound = {s for s, _, _ in directory}
    found = {constant(o) or ANY for _, _, o in directory}
    for pattern in leaf.patterns:
        predicate = pattern[1]
        if quads.stream_parts_of(constant(predicate)) is not None:
            continue  # a stream is no graph
        if any(each.text == quads.of_stream(predicate) for each in leaf.filters):
            continue  # nor is all of one
        if pattern not in directory and predicate not in bound and constant(predicate) != quads.OF:
            found.add(quads.graph_of(constant(predicate)))
    return frozenset(found)
