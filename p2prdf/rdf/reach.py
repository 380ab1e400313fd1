"""The graphs and streams that a query reads and that a rule writes, pattern by pattern.

They are derived from the patterns that nodes evaluate, not from the text: the predicate of a pattern determines its
graph (:mod:`p2prdf.rdf.quads`).  If graph or predicate is a variable, the directory binds the qualified predicate:
the directory's pattern determines the graph, and the statement's pattern alone does not.  A pattern with an
undetermined graph counts as reading all (``ANY``), never as reading none.

All graphs are in the same tables, but a query does not return data of graphs that it does not name: a pattern of the
default graph matches no statement of another one (:func:`p2prdf.store.compiled.compile_step`), and directory triples
are returned only for the graph that they are joined with.  A settled query has each pattern alone: its conditions name
the graph (:func:`p2prdf.rdf.quads.graph_conditions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from p2prdf.rdf import quads
from p2prdf.rdf.algebra import Counted, Leaf, StandingQuery
from p2prdf.rdf.query import ConjunctiveQuery, Pattern

__all__ = ["ANY", "Access", "Reach", "accesses", "graphs_read", "reach_of"]

ANY: Final = "*"
"""All graphs and streams, including future ones."""
_SHOWN_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Access:
    """A pattern of a query and the graph or stream that it reads or writes.

    ``place``: the canonical IRI of a graph or stream, ``quads.DEFAULT`` or ``ANY``.  ``stream``: ``place`` is a
    stream.  ``writes``: the pattern is the conclusion of a rule, which is published.  ``pattern``: its text, for
    people.
    """

    place: str
    pattern: str
    stream: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Reach:
    """The graphs and streams that a query reads and writes, each once, in the order of its patterns."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


def reach_of(query: ConjunctiveQuery | StandingQuery) -> Reach:
    """Return the graphs and streams that a query reads and writes."""
    found = list(accesses(query))
    return Reach(
        tuple(dict.fromkeys(each.place for each in found if not each.writes)),
        tuple(dict.fromkeys(each.place for each in found if each.writes)),
    )


def accesses(query: ConjunctiveQuery | StandingQuery) -> Iterator[Access]:
    """Yield the graph or stream of each pattern; directory patterns are merged into those they serve.

    The leaves of a standing query have no names of variables; variables appear by number.
    """
    if isinstance(query, ConjunctiveQuery):
        yield from _Reader(query, dict(zip(query.answer, query.names, strict=True))).accesses()
        return
    for operator in query.operators:
        if isinstance(operator, Counted):
            stream = operator.window.stream
            yield Access(stream, f"all elements of the stream {_shown(stream)}", stream=True)
        elif isinstance(operator, Leaf):
            yield from _Reader(operator.query, {}).accesses()


def graphs_read(query: StandingQuery) -> frozenset[str]:
    """Return the graphs in which a change can affect a query's solutions.

    The result contains IRIs, ``quads.DEFAULT`` and ``ANY``.  Streams and the conclusions of rules are not included.
    """
    return frozenset(each.place for each in accesses(query) if not (each.stream or each.writes))


class _Reader:
    """Reads one conjunctive query."""

    def __init__(self, query: ConjunctiveQuery, names: dict[int, str]):
        self._query = query
        self._names = names
        patterns = query.patterns
        self._listed = {s: o for s, p, o in patterns if self._constant(p) == quads.OF}
        """The predicate of each directory term, by the variable of the term."""
        self._directory = {
            s: (p, o) for s, p, o in patterns if p in self._listed or quads.predicate_of(self._constant(p)) is not None
        }
        """The directory term and the graph of each qualified predicate, by its variable."""

    def accesses(self) -> Iterator[Access]:
        query = self._query
        covered: set[int] = set()
        conclusion = query.patterns[-1] if query.concludes else None
        for pattern in query.patterns:
            s, p, _ = pattern
            if self._constant(p) == quads.OF or (s in self._directory and self._directory[s] == pattern[1:]):
                continue  # the access of the statement's pattern covers it
            if p in self._directory:
                covered.add(p)
            yield self._access(pattern, writes=pattern is conclusion)
        for qualified in self._directory.keys() - covered:  # no parsed query has an unused one
            yield Access(self._graph(qualified), self._spelled((qualified, *self._directory[qualified])))

    def _access(self, pattern: Pattern, *, writes: bool) -> Access:
        s, p, o = pattern
        if p in self._directory:
            listed, graph = self._directory[p]
            predicate = quads.predicate_of(self._constant(listed)) or self._term(self._listed.get(listed, listed))
            where = self._graph(p)
            text = f"GRAPH {self._term(graph)} {{ {self._term(s)} {_shown(predicate)} {self._term(o)} }}"
            return Access(where, text, writes=writes)
        constant = self._constant(p)
        parts, stream = quads.parts_of(constant), quads.stream_parts_of(constant)
        if parts is not None:
            text = f"GRAPH {_shown(parts[1])} {{ {self._term(s)} {_shown(parts[0])} {self._term(o)} }}"
            return Access(parts[1], text, writes=writes)
        if stream is not None:
            text = f"STREAM {_shown(stream[1])} {{ {self._term(s)} {_shown(stream[0])} {self._term(o)} }}"
            return Access(stream[1], text, stream=True, writes=writes)
        conditions = {each.text for each in self._query.filters}
        if quads.of_stream(p) in conditions:
            return Access(ANY, self._spelled(pattern), stream=True, writes=writes)  # any stream
        if quads.of_named_graph(p) in conditions:  # of a settled query
            where = quads.graph_in(conditions, p) or ANY
            return Access(where, f"GRAPH {_shown(where)} {{ {self._spelled(pattern)} }}", writes=writes)
        if quads.of_directory(p) in conditions:
            where = self._constant(o) or ANY
            return Access(where, f"GRAPH {_shown(where)} {{ {self._term(s)} {self._term(p)} }}", writes=writes)
        worded = quads.word_parts_of(constant)
        if quads.is_reserved(constant) and worded is None:
            return Access(ANY, self._spelled(pattern), writes=writes)
        return Access(quads.DEFAULT, self._spelled(pattern), writes=writes)

    def _graph(self, qualified: int) -> str:
        """Return the graph that the directory binds for a qualified predicate; ``ANY`` if it is a variable."""
        return self._constant(self._directory[qualified][1]) or ANY

    def _constant(self, slot: int) -> str:
        return self._query.constants[~slot] if slot < 0 else ""

    def _term(self, slot: int) -> str:
        if slot < 0:
            return _shown(self._constant(slot))
        return f"?{self._names.get(slot, f'v{slot}')}"

    def _spelled(self, pattern: Pattern) -> str:
        return " ".join(map(self._term, pattern))


def _shown(term: str) -> str:
    return term if len(term) <= _SHOWN_MAX else term[:_SHOWN_MAX] + "..."
