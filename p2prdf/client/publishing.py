"""Publishing: any source of triples, in frames of moderate size, pipelined within the node's credit.

Row *i* of the source is event ``first_event + i`` of its publisher.  Whoever sees the same event again takes it as
the same, so whatever failed can be published again under the same numbers.  That is done here when a session is
lost: all pieces that were not acknowledged go to the next node, in their order, as far as its credit reaches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from p2prdf.client.session import Silent
from p2prdf.client.sessions import Retry, Sessions
from p2prdf.errors import Busy, DataRefused, Unavailable
from p2prdf.rdf.dictionary import TermNames
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.rdf.quads import DEFAULT
from p2prdf.wire.messages import INDEXED, ClientPublish

if TYPE_CHECKING:
    from p2prdf.client.session import Session

__all__ = ["Progress", "Publisher", "Quad", "Source", "Triple"]

Triple = tuple[str, str, str]
"""Subject, predicate and object as canonical N-Triples terms."""
Quad = tuple[str, str, str, str | None]
"""A triple and its graph, a canonical IRI; None for the default graph, or for the one of the whole publication."""
Source = (
    Iterable[Triple] | Iterable[Quad] | Iterable[Triple | Quad] | Iterable[TripleBatch]
    | AsyncIterable[Triple] | AsyncIterable[Quad] | AsyncIterable[Triple | Quad] | AsyncIterable[TripleBatch]
)  # fmt: skip

FRAME_CHARACTERS: Final = 1 << 20
"""A frame is cut at so much term text; a single larger triple travels alone."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a publication is: everything up to here is acknowledged.

    ``triples``: number of triples of the source.  ``statements``: ``statements_done`` of the last
    whole TripleBatch (0 for other sources): where to resume reading the file.
    """

    triples: int
    statements: int


@dataclass(slots=True)
class _Piece:
    """One frame under way."""

    first_event: int
    s: list[str]
    p: list[str]
    o: list[str]
    g: list[str]
    """The graph of each; none at all if it is the default graph of all."""
    statements: int
    """``statements_done`` of the batch that this piece completes, else 0."""
    answer: asyncio.Future[Any] | None = None
    """None: it is to be sent."""

    @property
    def acknowledged(self) -> bool:
        """Whether the owners hold it."""
        answer = self.answer
        return answer is not None and answer.done() and not answer.cancelled() and answer.exception() is None


class Publisher:
    """One publication: sends pieces within the credit, waits for them in order, tries again when it has to."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        publisher: int,
        first_event: int,
        busy_seconds: float,
        on_progress: Callable[[Progress], None] | None,
        level: str = INDEXED,
        removed: bool = False,
        graph: str = DEFAULT,
    ):
        """``removed``: remove the triples instead; ``graph``: where what names no graph belongs."""
        self._sessions = sessions
        self._publisher = publisher
        self._next_event = first_event
        self._busy_seconds = busy_seconds
        self._on_progress = on_progress
        self._level = level
        self._removed = removed
        self._graph = graph
        self._under_way: deque[_Piece] = deque()
        """In order; the first ``credit`` of them have been sent, or are to be."""
        self._credit = 1
        self._session: Session | None = None
        self._progress = Progress(0, 0)

    async def run(self, source: Source, batch_triples: int) -> int:
        """Publish everything; return the number of triples acknowledged."""
        async for s, p, o, g, statements in _pieces(source, batch_triples, self._graph):
            await self._current()
            while len(self._under_way) >= self._credit:
                await self._take_first()
            while self._under_way and (first := self._under_way[0].answer) is not None and first.done():
                await self._take_first()
            piece = _Piece(self._next_event, s, p, o, g, statements)
            self._next_event += len(s)
            self._under_way.append(piece)
            session = await self._current()
            if len(self._under_way) <= self._credit:  # a new session's may be smaller
                self._send(session, piece)
            await session.room()
            await asyncio.sleep(0)  # a source that never waits must not keep answers from coming in
        while self._under_way:
            await self._take_first()
        return self._progress.triples

    async def _current(self) -> Session:
        """Return the session in use; one that is new is sent everything that is not acknowledged."""
        session = await self._sessions.current()
        if session is not self._session:
            self._session, self._credit = session, session.welcome.result().publications_max
            for piece in self._under_way:
                if not piece.acknowledged:
                    piece.answer = None
            for piece in islice(self._under_way, self._credit):
                self._send(session, piece)
        return session

    def _send(self, session: Session, piece: _Piece) -> None:
        """Send a piece that is to be sent, but not over a session that has been lost meanwhile."""
        if piece.answer is not None or session.lost is not None:
            return
        terms = TermNames()
        s, p, o = terms.intern_all(piece.s), terms.intern_all(piece.p), terms.intern_all(piece.o)
        graph = (terms.intern_all(piece.g),) if piece.g else ()
        piece.answer = session.start(
            lambda request: ClientPublish(
                request, self._publisher, piece.first_event, s, p, o, self._level, self._removed, self._sessions.latest,
                graph,
            ),
            terms,
        )  # fmt: skip

    async def _take_first(self) -> None:
        """Wait until the oldest piece is acknowledged."""
        piece = self._under_way[0]
        retry = Retry(self._sessions, busy_seconds=self._busy_seconds)
        while not piece.acknowledged:
            session = await self._current()
            self._send(session, piece)
            if piece.answer is None:
                continue
            try:
                await self._answer(piece.answer)
            except (Busy, Unavailable) as error:
                if isinstance(error, Silent) and self._sessions.reconnect_seconds > 0:
                    session.drop(error)  # sent again to the same node, it would be under way twice
                piece.answer = None
                await retry.after(session, error)
                self._forget_refusals()
        self._under_way.popleft()
        if len(self._under_way) >= self._credit and self._session is not None:
            self._send(self._session, self._under_way[self._credit - 1])
        self._progress = Progress(
            self._progress.triples + len(piece.s), piece.statements or self._progress.statements
        )
        if self._on_progress is not None:
            self._on_progress(self._progress)

    def _forget_refusals(self) -> None:
        """Send again what was refused with the piece just waited for: one pause is for all of them."""
        for piece in islice(self._under_way, self._credit):
            answer = piece.answer
            if answer is not None and answer.done() and isinstance(answer.exception(), Busy):
                piece.answer = None
            if self._session is not None:
                self._send(self._session, piece)

    async def _answer(self, answer: asyncio.Future[Any]) -> None:
        seconds = self._sessions.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                self._sessions.latest = max(self._sessions.latest, (await answer).time)
        except TimeoutError:
            raise Silent(f"no acknowledgement within {seconds:g} s") from None


Columns = tuple[list[str], list[str], list[str], list[str], int]


async def _pieces(source: Source, batch_triples: int, graph: str) -> AsyncIterator[Columns]:
    """Cut a source into pieces that fit a frame; ``graph``: of what names none."""
    s: list[str] = []
    p: list[str] = []
    o: list[str] = []
    g: list[str] = []
    characters = 0
    async for item in _items(source):
        if isinstance(item, TripleBatch):
            for piece in _cut(item, batch_triples, graph):
                yield piece
            continue
        try:
            subject, predicate, value, *rest = item
            named = _graph(rest, graph)
            size = len(subject) + len(predicate) + len(value) + len(named)
        except (TypeError, ValueError):
            raise DataRefused(f"{item!r} is neither a triple of terms, or one and a graph, nor a TripleBatch") from None
        if s and (len(s) >= batch_triples or characters + size > FRAME_CHARACTERS):
            yield s, p, o, _named(g), 0
            s, p, o, g, characters = [], [], [], [], 0
        s.append(subject)
        p.append(predicate)
        o.append(value)
        g.append(named)
        characters += size
    if s:
        yield s, p, o, _named(g), 0


def _graph(rest: list[str | None], graph: str) -> str:
    """Return the graph of a statement by what stands behind its object.  Raises ValueError for more than one thing."""
    if not rest:
        return graph
    (named,) = rest
    return named or graph


def _named(g: list[str]) -> list[str]:
    """Return the graphs of some statements, or nothing if they name none."""
    return g if any(g) else []


def _cut(batch: TripleBatch, batch_triples: int, graph: str) -> list[Columns]:
    pieces: list[Columns] = []
    start = characters = 0
    g = batch.g or [DEFAULT] * len(batch.s)
    if graph:
        g = [named or graph for named in g]
    for row, size in enumerate(map(_size, batch.s, batch.p, batch.o, g)):
        if row > start and (row - start >= batch_triples or characters + size > FRAME_CHARACTERS):
            pieces.append((batch.s[start:row], batch.p[start:row], batch.o[start:row], _named(g[start:row]), 0))
            start, characters = row, 0
        characters += size
    if start < len(batch.s):
        pieces.append((batch.s[start:], batch.p[start:], batch.o[start:], _named(g[start:]), batch.statements_done))
    return pieces


def _size(s: str, p: str, o: str, g: str) -> int:
    return len(s) + len(p) + len(o) + len(g)


async def _items(source: Source) -> AsyncIterator[Triple | Quad | TripleBatch]:
    if isinstance(source, AsyncIterable):
        async for item in source:
            yield item
    else:
        for item in cast("Iterable[Triple | Quad | TripleBatch]", source):
            yield item
