"""Cut a source into pieces that fit one frame each: single triples, batches, or columns of numbers.

Triples and batches of a file are texts. A frame contains each text once and refers to it by number, so texts
are numbered when they are sent. :class:`TermColumns` are numbered already: columns with a dictionary, as in
Arrow, need no object per triple.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from p2prdf.client.feed import LINGER_SECONDS, Feed, checked_source
from p2prdf.columns import Column
from p2prdf.errors import DataRefused
from p2prdf.rdf.dictionary import TermNames
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.rdf.python_values import as_term
from p2prdf.rdf.quads import DEFAULT

__all__ = [
    "FRAME_CHARACTERS", "Condition", "Item", "Numbered", "Piece", "Quad", "Source", "TermColumns", "Triple",
    "pieces_of", "statements_of",
]  # fmt: skip

Triple = tuple[str, str, str]
"""Subject, predicate and object as canonical N-Triples terms."""
Given = tuple[Any, Any, Any] | tuple[Any, Any, Any, Any]
"""The same, with terms that :func:`p2prdf.rdf.python_values.as_term` accepts."""
Quad = tuple[str, str, str, str | None]
"""A triple and its graph, a canonical IRI; None: the graph of the publication, or the default graph."""

_GATHERED: Final = 1000
FRAME_CHARACTERS: Final = 1 << 20
"""Bound on the term text of a frame, in characters; a single larger triple travels alone."""

Numbers: TypeAlias = npt.NDArray[np.uint32]
Times: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class TermColumns:
    """Statements as columns of numbers, which are positions in a list of terms.

    ``texts``: canonical terms, each once; every term is used. ``g``: the graph of each statement (``DEFAULT``
    among the texts for the default graph); None if no statement names one. ``removed``: the statements are
    deletions. ``times``: event times of a stream's elements, in milliseconds since 1970.
    """

    texts: list[str]
    s: Numbers
    p: Numbers
    o: Numbers
    g: Numbers | None = None
    removed: bool = False
    times: Times | None = None

    def __len__(self) -> int:
        return len(self.s)

    def part(self, start: int, stop: int) -> TermColumns:
        """Return consecutive rows, with only the terms that they use."""
        columns = [column[start:stop] for column in (self.s, self.p, self.o, self.g) if column is not None]
        used, places = np.unique(np.concatenate(columns), return_inverse=True)
        texts = [self.texts[at] for at in used.tolist()]
        s, p, o, *rest = places.astype(np.uint32).reshape(len(columns), -1)
        times = None if self.times is None else self.times[start:stop]
        return TermColumns(texts, s, p, o, rest[0] if rest else None, self.removed, times)

    def within(self, graph: str) -> TermColumns:
        """Return a copy in which statements without a graph belong to this one."""
        place = {text: at for at, text in enumerate(self.texts) if text in (DEFAULT, graph)}
        if graph == DEFAULT or (self.g is not None and DEFAULT not in place):
            return self
        texts = self.texts if graph in place else [*self.texts, graph]
        target = np.uint32(place.get(graph, len(self.texts)))
        g = np.full(len(self), target) if self.g is None else np.where(self.g == place[DEFAULT], target, self.g)
        whole = TermColumns(texts, self.s, self.p, self.o, g, self.removed, self.times)
        return whole.part(0, len(whole)) if DEFAULT in place else whole


Item: TypeAlias = Triple | Quad | Given | TripleBatch | TermColumns
Source = (
    Iterable[Given] | AsyncIterable[Given]
    | Iterable[Triple] | Iterable[Quad] | Iterable[Triple | Quad] | Iterable[TripleBatch] | Iterable[TermColumns]
    | AsyncIterable[Triple] | AsyncIterable[Quad] | AsyncIterable[Triple | Quad] | AsyncIterable[TripleBatch]
    | AsyncIterable[TermColumns] | AsyncIterable[TripleBatch | TermColumns]
)  # fmt: skip


class Numbered(NamedTuple):
    """The rows of one frame: dictionary and columns; ``graph`` has one column or none."""

    terms: TermNames
    s: Column
    p: Column
    o: Column
    graph: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a transaction: since which stamp the subject of each row must be unchanged; 0: none.

    ``attempt``: a random number, equal in all repetitions.  ``doubtful``: an earlier commit may have taken effect.
    """

    versions: list[int]
    attempt: int
    doubtful: bool = False


@dataclass(slots=True)
class Piece:
    """Rows that fit one frame, as texts or as numbers.

    ``statements``: ``statements_done`` of the batch that this piece completes, else 0.
    """

    rows: TermColumns | tuple[list[str], list[str], list[str], list[str]]
    """Texts: subjects, predicates, objects, and graphs; no graphs if all are the default graph."""
    statements: int = 0
    event_times: list[int] = field(default_factory=list)
    """Event times of elements that are texts."""
    deletions: int | None = None
    """Of a transaction, the number of its first rows that are deletions; None for other publications."""
    condition: Condition | None = None
    """The condition of a transaction, if it has one."""

    def __len__(self) -> int:
        return len(self.rows) if isinstance(self.rows, TermColumns) else len(self.rows[0])

    @property
    def removed(self) -> bool:
        """Whether these rows are deletions, independently of the rest of the publication."""
        return isinstance(self.rows, TermColumns) and self.rows.removed

    @property
    def times(self) -> tuple[Column, ...]:
        """The event times of elements, in one column; no column for other triples."""
        if isinstance(self.rows, TermColumns):
            return () if self.rows.times is None else (self.rows.times,)
        return (self.event_times,) if self.event_times else ()

    def halves(self) -> tuple[Piece, Piece]:
        """Split a piece of at least two rows."""
        rows, middle = self.rows, len(self) // 2
        if isinstance(rows, TermColumns):
            return Piece(rows.part(0, middle)), Piece(rows.part(middle, len(rows)), self.statements)
        (s, p, o, g), times = rows, self.event_times
        first = Piece((s[:middle], p[:middle], o[:middle], g[:middle]), 0, times[:middle])
        return first, Piece((s[middle:], p[middle:], o[middle:], g[middle:]), self.statements, times[middle:])

    def texts(self) -> Iterable[str]:
        """Return the terms of the rows, each once."""
        rows = self.rows
        return rows.texts if isinstance(rows, TermColumns) else dict.fromkeys(chain(*rows))

    def first(self) -> tuple[str, str, str, str]:
        """Return the terms of the first row, the graph last."""
        terms, s, p, o, graph = self.numbered()
        subject, predicate, value, *named = terms.texts([int(column[0]) for column in (s, p, o, *graph)])
        return subject, predicate, value, named[0] if named else DEFAULT

    def numbered(self) -> Numbered:
        """Return the content of the frame."""
        rows = self.rows
        if isinstance(rows, TermColumns):
            return Numbered(TermNames(rows.texts), rows.s, rows.p, rows.o, () if rows.g is None else (rows.g,))
        terms = TermNames()
        s, p, o = (terms.intern_all(column) for column in rows[:3])
        return Numbered(terms, s, p, o, (terms.intern_all(rows[3]),) if rows[3] else ())


async def pieces_of(
    source: Source, batch_triples: int, graph: str, linger_seconds: float = LINGER_SECONDS
) -> AsyncGenerator[Piece, None]:
    """Cut a source into pieces of at most ``batch_triples``; ``graph``: of statements that name none.

    A full piece is yielded at once. While the source yields nothing, an incomplete piece is yielded
    ``linger_seconds`` after its first triple. Raises DataRefused for an item that is not a statement.
    """
    feed, chunker = Feed(source, ahead=batch_triples), _Chunker(batch_triples, graph)
    loop, due = asyncio.get_running_loop(), 0.0
    try:
        while True:
            held = len(chunker)
            items = await feed.take(patience=max(0.0, due - loop.time()) if held else None)
            if items is None:
                break
            for piece in chunker.add(items):
                yield piece
                held = 0
            if not items:
                yield chunker.cut()
            elif len(chunker) and not held:
                due = loop.time() + linger_seconds
        if len(chunker):
            yield chunker.cut()
    finally:
        await feed.close()


def statements_of(items: Iterable[Item], graph: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the terms of statements, the graph last; ``graph``: of statements that name none.

    Raises DataRefused for an item that is not a statement, and for deletions and elements of streams.
    """
    for piece in _pieces_of_all(items, graph):
        if piece.removed or piece.times:
            raise DataRefused("columns of deletions, or of elements of a stream, instead of statements")
        names, s, p, o, graphs = piece.numbered()
        texts = [names.texts(map(int, column)) for column in (s, p, o, *graphs)]
        yield from zip(*texts, *([] if graphs else [[DEFAULT] * len(s)]), strict=True)


def _pieces_of_all(items: Iterable[Item], graph: str) -> Iterator[Piece]:
    chunker = _Chunker(_GATHERED, graph)
    yield from chunker.add(checked_source(items))
    yield chunker.cut()


class _Chunker:
    """Collects triples into pieces."""

    def __init__(self, batch_triples: int, graph: str):
        self._batch_triples = batch_triples
        self._graph = graph
        self._begin()

    def _begin(self) -> None:
        self._rows: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])
        self._characters = 0

    def __len__(self) -> int:
        return len(self._rows[0])

    def cut(self) -> Piece:
        """Return the collected triples as a piece, and begin a new one."""
        s, p, o, g = self._rows
        self._begin()
        return Piece((s, p, o, _named(g)))

    def add(self, items: Iterable[Item]) -> Iterator[Piece]:
        """Take in items; yield the complete pieces.  Raises DataRefused for an item that is not a statement."""
        for item in items:
            if isinstance(item, TripleBatch | TermColumns):
                if len(self):  # statements keep their order
                    yield self.cut()
                yield from _pieces(item, self._batch_triples, self._graph)
                continue
            try:
                subject, predicate, value, *rest = item
                named = _graph(rest, self._graph)
            except (TypeError, ValueError):
                raise DataRefused(
                    f"{item!r:.200} is neither a triple of terms, or one and a graph, nor a TripleBatch or TermColumns"
                ) from None
            if not (type(subject) is type(predicate) is type(value) is str):
                subject, predicate, value = as_term(subject), as_term(predicate), as_term(value)
            size = len(subject) + len(predicate) + len(value) + len(named)
            if self._characters + size > FRAME_CHARACTERS and len(self):
                yield self.cut()
            s, p, o, g = self._rows
            s.append(subject)
            p.append(predicate)
            o.append(value)
            g.append(named)
            self._characters += size
            if len(s) >= self._batch_triples:
                yield self.cut()


def _graph(rest: list[Any], graph: str) -> str:
    """Return the graph of a statement from the items after its object; ValueError for several items."""
    if not rest:
        return graph
    (named,) = rest
    if named is None or type(named) is str:
        return named or graph
    if type(named).__name__ == "DefaultGraph":  # pyoxigraph's
        return graph
    term = as_term(getattr(named, "identifier", named))  # rdflib's graphs are named so
    if not term.startswith("<") or term.startswith("<<"):
        raise ValueError(f"a graph is named by an IRI, not by {term}")
    return term


def _named(g: list[str]) -> list[str]:
    """Return the graphs of some statements, or nothing if they name none."""
    return g if any(g) else []


def _pieces(item: TripleBatch | TermColumns, batch_triples: int, graph: str) -> Iterable[Piece]:
    if isinstance(item, TripleBatch):
        return _cut(item, batch_triples, graph)
    return _cut_columns(item, batch_triples, graph)


def _cut(batch: TripleBatch, batch_triples: int, graph: str) -> list[Piece]:
    pieces: list[Piece] = []
    start = characters = 0
    g = batch.g or [DEFAULT] * len(batch.s)
    if graph:
        g = [named or graph for named in g]

    def part(stop: int, statements: int = 0) -> Piece:
        rows = batch.s[start:stop], batch.p[start:stop], batch.o[start:stop], _named(g[start:stop])
        return Piece(rows, statements, batch.times[start:stop])

    for row, size in enumerate(map(_size, batch.s, batch.p, batch.o, g)):
        if row > start and (row - start >= batch_triples or characters + size > FRAME_CHARACTERS):
            pieces.append(part(row))
            start, characters = row, 0
        characters += size
    if start < len(batch.s):
        pieces.append(part(len(batch.s), batch.statements_done))
    return pieces


def _size(s: str, p: str, o: str, g: str) -> int:
    return len(s) + len(p) + len(o) + len(g)


def _cut_columns(columns: TermColumns, batch_triples: int, graph: str) -> Iterator[Piece]:
    """Halve columns with too much text for a frame, down to single statements."""
    count = len(columns)
    parts = max(1, -(-count // batch_triples))
    for number in range(parts):
        start, stop = count * number // parts, count * (number + 1) // parts
        part = columns if parts == 1 else columns.part(start, stop)
        if len(part) > 1 and sum(map(len, part.texts)) > FRAME_CHARACTERS:
            yield from _cut_columns(part, (len(part) + 1) // 2, graph)
        elif len(part):
            yield Piece(part.within(graph))
