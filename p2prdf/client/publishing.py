"""Publishing: any source of triples, in frames of moderate size, pipelined within the node's credit.

All ``publish`` calls of a client share the credit (:mod:`p2prdf.client.window`): their frames are under way side by
side, and each call waits for the acknowledgements of its own frames alone.

Row *i* of the source is event ``first_event + i`` of its publisher; or, by content, the event that the publisher said
just that.  Whoever sees the same event again takes it as the same, so whatever failed can be published again under the
same numbers.  That is done here when a session is lost: all pieces that were not acknowledged go to the next node, in
their order, as far as its credit reaches.

Additions and removals of one source (:class:`p2prdf.client.pieces.TermColumns`) keep their order: a piece of the one
kind waits until all of the other kind before it are acknowledged, for what a node refuses as it is busy is sent again
later than what came behind it.  Each kind has a numbering of its own, so that numbers do not depend on where it is cut.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client.pieces import Piece, Quad, Source, pieces_of
from p2prdf.client.session import Silent
from p2prdf.client.sessions import Retry, Sessions
from p2prdf.errors import Busy, DataRefused, StampRefused, Unavailable
from p2prdf.rdf import terms
from p2prdf.rdf.quads import DEFAULT
from p2prdf.wire.messages import INDEXED, ClientPublish

if TYPE_CHECKING:
    from p2prdf.client.session import Session

__all__ = ["TRACED_FRAMES", "Effort", "Progress", "Publisher"]

TRACED_FRAMES: Final = 4
"""Of a publication in many frames so many are traced, the first: each is a publication of its own to the node."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a publication is: everything up to here is acknowledged.

    ``triples``: number of triples of the source.  ``statements``: ``statements_done`` of the last
    whole TripleBatch (0 for other sources): where to resume reading the file.
    """

    triples: int
    statements: int


@dataclass(slots=True)
class Effort:
    """What a publication took: filled in as it goes on.

    ``frames`` were sent with ``repeated_triples`` among theirs that had been sent before.  Seconds of packing frames,
    and of waiting for acknowledgements and for the socket.
    """

    frames: int = 0
    repeated_triples: int = 0
    packing_seconds: float = 0.0
    waiting_seconds: float = 0.0


@dataclass(slots=True)
class _Frame:
    """One frame under way."""

    piece: Piece
    first_event: int
    removed: bool
    sent: bool = False
    """Whether it ever was."""
    traceparent: str = ""
    """The trace that it belongs to, if it is to be traced."""
    answer: asyncio.Future[Any] | None = None
    """None: it is to be sent."""

    @property
    def acknowledged(self) -> bool:
        """Whether the owners hold it."""
        answer = self.answer
        return answer is not None and answer.done() and not answer.cancelled() and answer.exception() is None

    @property
    def answered(self) -> bool:
        """Whether it is acknowledged, or refused for what it is: another node would say the same."""
        answer = self.answer
        if answer is None or not answer.done() or answer.cancelled():
            return False
        return not isinstance(answer.exception(), Busy | Unavailable)


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
        by_content: bool = False,
        effort: Effort | None = None,
        on_refused: Callable[[Quad, DataRefused], None] | None = None,
        traceparent: str = "",
    ):
        """``removed``: remove the triples instead; ``graph``: where what names no graph belongs.

        ``by_content``: as in ClientPublish.  ``on_refused``: called with what nodes refuse, statement by statement;
        else that ends the publication.  ``traceparent``: the trace of its first ``TRACED_FRAMES``.
        """
        self._sessions = sessions
        self._publisher = publisher
        self._by_content = by_content
        self._next_event = {False: first_event, True: first_event}
        """Of additions, and of removals."""
        self._effort = Effort() if effort is None else effort
        self._on_refused = on_refused
        self._busy_seconds = busy_seconds
        self._on_progress = on_progress
        self._level = level
        self._removed = removed
        self._graph = graph
        self._under_way: deque[_Frame] = deque()
        """In order.  All of them have been sent but perhaps the last, or, after a reconnection, the last ones."""
        self._session: Session | None = None
        self._progress = Progress(0, 0)
        self._traceparent = traceparent
        self._traced_left = TRACED_FRAMES if traceparent else 0

    async def run(self, source: Source, batch_triples: int, linger_seconds: float) -> int:
        """Publish everything; return the number of triples acknowledged."""
        async with aclosing(pieces_of(source, batch_triples, self._graph, linger_seconds)) as pieces:
            while (piece := await self._next(pieces)) is not None:
                waited, packed = time.perf_counter(), self._effort.packing_seconds
                await self._begin(piece)
                self._waited_since(waited, packed)
        waited, packed = time.perf_counter(), self._effort.packing_seconds
        while self._under_way:
            await self._take_first()
        self._waited_since(waited, packed)
        return self._progress.triples

    async def _begin(self, piece: Piece) -> None:
        """Send a piece; return when the next one may follow.  Raises DataRefused for what is no RDF term."""
        removed = self._removed or piece.removed
        try:
            terms.check_all(piece.texts())
        except DataRefused as error:
            if self._on_refused is None:
                raise
            if len(piece) == 1:
                self._next_event[removed] += 1
                self._on_refused(piece.first(), error)
                return
            for half in piece.halves():
                await self._begin(half)
            return
        await self._current()
        while self._under_way and (first := self._under_way[0].answer) is not None and first.done():
            await self._take_first()
        while self._under_way and self._under_way[-1].removed != removed:
            await self._take_first()
        frame = _Frame(piece, 0 if self._by_content else self._next_event[removed], removed)
        if self._traced_left:
            self._traced_left -= 1
            frame.traceparent = self._traceparent
        self._next_event[removed] += len(piece)
        self._under_way.append(frame)
        self._fill(await self._current())
        while self._under_way and self._under_way[-1].answer is None:
            await self._take_first()
        if self._session is not None:
            await self._session.room()
        await asyncio.sleep(0)  # a source that never waits must not keep answers from coming in

    async def _next(self, pieces: AsyncIterator[Piece]) -> Piece | None:
        """Return the next piece, None: there is none.  While a source keeps it waiting, go on with what is under way.

        So who publishes now and then is told of acknowledgements when they are there, and what a node had not
        acknowledged when it went away is sent again at once.
        """
        if not self._under_way:
            return await anext(pieces, None)
        following = asyncio.ensure_future(anext(pieces, None))
        try:
            while not following.done() and self._under_way:
                first = self._under_way[0].answer
                if first is not None:
                    await asyncio.wait((following, first), return_when=asyncio.FIRST_COMPLETED)
                if (first is None or first.done()) and not following.done():
                    await self._take_first()
            return await following
        finally:
            if not following.done():
                following.cancel()
                await asyncio.wait({following})

    def _waited_since(self, start: float, packed: float) -> None:
        """Note how long it was waited since a time, but for the packing since so much of it."""
        effort = self._effort
        effort.waiting_seconds += time.perf_counter() - start - (effort.packing_seconds - packed)

    async def _current(self) -> Session:
        """Return the session in use; one that is new is sent everything that is not acknowledged."""
        session = await self._sessions.current()
        if session is not self._session:
            self._session = session
            for frame in self._under_way:
                if not frame.answered:
                    frame.answer = None
            self._fill(session)
        return session

    def _fill(self, session: Session) -> None:
        """Send the frames that are to be sent, in their order, while there are slots for them."""
        for frame in self._under_way:
            if frame.answer is None:
                if not session.publications.take():
                    return
                self._send(session, frame)

    def _send(self, session: Session, frame: _Frame) -> None:
        """Send a frame in the slot that was taken for it, but not over a session that has been lost meanwhile."""
        slots = session.publications
        if frame.answer is not None or session.lost is not None:
            slots.give()
            return
        start, effort = time.perf_counter(), self._effort
        names, s, p, o, graph = frame.piece.numbered()
        try:
            frame.answer = session.start(
                lambda request: ClientPublish(
                    request, self._publisher, frame.first_event, s, p, o, self._level, frame.removed,
                    self._sessions.latest, graph, self._by_content, frame.piece.times,
                ),
                names, traceparent=frame.traceparent,
            )  # fmt: skip
        except BaseException:
            slots.give()
            raise
        frame.answer.add_done_callback(lambda _answer: slots.give())
        effort.frames += 1
        effort.repeated_triples += len(frame.piece) if frame.sent else 0
        effort.packing_seconds += time.perf_counter() - start
        frame.sent = True

    async def _take_first(self) -> None:
        """Wait until the oldest piece is acknowledged, or was refused and cut in two."""
        frame = self._under_way[0]
        retry = Retry(self._sessions, busy_seconds=self._busy_seconds)
        while not frame.acknowledged:
            session = await self._current()
            if frame.answer is None and await session.publications.wait():
                self._send(session, frame)
            if frame.answer is None:
                continue
            try:
                await self._answer(frame.answer)
            except DataRefused as error:
                if self._on_refused is None:
                    raise
                self._narrow_down(frame, error, self._on_refused)
                return
            except (Busy, Unavailable) as error:
                if isinstance(error, Silent) and self._sessions.reconnect_seconds > 0:
                    session.drop(error)  # sent again to the same node, it would be under way twice
                frame.answer = None
                await retry.after(session, error)
                self._forget_refusals()
        self._under_way.popleft()
        if self._session is not None:
            self._fill(self._session)
        self._progress = Progress(
            self._progress.triples + len(frame.piece), frame.piece.statements or self._progress.statements
        )
        if self._on_progress is not None:
            self._on_progress(self._progress)

    def _narrow_down(self, frame: _Frame, error: DataRefused, tell: Callable[[Quad, DataRefused], None]) -> None:
        """Put the halves of the oldest piece, which was refused, in its place; if it is one statement, tell it."""
        self._under_way.popleft()
        if len(frame.piece) == 1:
            tell(frame.piece.first(), error)
            return
        one, two = frame.piece.halves()
        after = 0 if self._by_content else frame.first_event + len(one)
        self._under_way.appendleft(_Frame(two, after, frame.removed, sent=True))
        self._under_way.appendleft(_Frame(one, frame.first_event, frame.removed, sent=True))

    def _forget_refusals(self) -> None:
        """Send again what was refused with the piece just waited for: one pause is for all of them."""
        for frame in self._under_way:
            answer = frame.answer
            if answer is not None and answer.done() and isinstance(answer.exception(), Busy):
                frame.answer = None
        if self._session is not None:
            self._fill(self._session)

    async def _answer(self, answer: asyncio.Future[Any]) -> None:
        seconds = self._sessions.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                self._sessions.latest = max(self._sessions.latest, (await answer).time)
        except StampRefused:
            self._sessions.latest = 0  # it came from a node whose clock was ahead; what follows need not wait for it
            raise
        except TimeoutError:
            raise Silent(f"no acknowledgement within {seconds:g} s") from None
