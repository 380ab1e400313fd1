"""Publish a source of triples in frames of moderate size, pipelined within the node's credit.

All ``publish`` calls of a client share the credit (:mod:`p2prdf.client.window`): their frames are in flight
side by side, and each call waits for the acknowledgements of its own frames.

Row *i* of the source is event ``first_event + i`` of its publisher or, by content, the publisher's event of
that content. Nodes recognise a repeated event, so a failed publication can be repeated under the same numbers.
After the loss of a session, this module does so: all unacknowledged pieces go to the next node, in order, as
its credit allows.

Additions and deletions of one source (:class:`p2prdf.client.pieces.TermColumns`) keep their order. A busy node
refuses a piece, which is then sent again after its successors. A piece of one kind therefore waits for the
acknowledgements of all earlier pieces of the other kind. Each kind has its own numbering, so event numbers do
not depend on the division into pieces.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client.pieces import Piece, Quad, Source, pieces_of
from p2prdf.client.session import Silent
from p2prdf.client.sessions import Retry, Sessions
from p2prdf.errors import Busy, ChangedMeanwhile, DataRefused, LocalProtocolError, StampRefused, Unavailable
from p2prdf.rdf import terms
from p2prdf.rdf.quads import DEFAULT
from p2prdf.wire.messages import INDEXED, LEVELS, ClientPublish
from p2prdf.wire.trace_context import parse_traceparent

if TYPE_CHECKING:
    from p2prdf.client.session import Session
    from p2prdf.columns import Column

__all__ = ["TRACED_FRAMES", "Effort", "Progress", "PublishOptions", "Publisher"]

TRACED_FRAMES: Final = 4
"""Number of frames traced per publication: the first ones. To a node, each frame is a publication."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a publication: everything up to this point is acknowledged.

    ``triples``: number of triples of the source. ``statements``: ``statements_done`` of the last whole
    TripleBatch (0 for other sources), the point at which to resume reading the file.
    """

    triples: int
    statements: int


@dataclass(slots=True)
class Effort:
    """Cost of a publication, updated as it proceeds.

    ``frames``: frames sent. ``repeated_triples``: triples in them that had been sent before.
    ``packing_seconds``: time spent on packing frames; ``waiting_seconds``: on waiting for acknowledgements and
    for the socket.
    """

    frames: int = 0
    repeated_triples: int = 0
    packing_seconds: float = 0.0
    waiting_seconds: float = 0.0


@dataclass(slots=True)
class _Frame:
    """One frame in flight."""

    piece: Piece
    first_event: int
    removed: bool
    sent: bool = False
    """Whether it was ever sent."""
    traceparent: str = ""
    """The trace under which to send it; empty for none."""
    answer: asyncio.Future[Any] | None = None
    """None: it must be sent."""
    doubtful: bool = False
    """Whether an earlier sending was not answered, so that it may have taken effect."""

    @property
    def acknowledged(self) -> bool:
        """Whether the owners hold it."""
        answer = self.answer
        return answer is not None and answer.done() and not answer.cancelled() and answer.exception() is None

    @property
    def answered(self) -> bool:
        """Whether it is acknowledged, or refused for its content: another node would refuse it, too."""
        answer = self.answer
        if answer is None or not answer.done() or answer.cancelled():
            return False
        return not isinstance(answer.exception(), Busy | Unavailable)

    def send_again(self) -> None:
        """Let it be sent once more; note whether it may have taken effect before."""
        answer = self.answer
        if answer is not None:
            refused = answer.done() and not answer.cancelled() and isinstance(answer.exception(), Busy)
            self.doubtful |= not refused
            self.answer = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Options of :meth:`p2prdf.client.Client.publish`; ``removed``: delete the triples instead."""

    removed: bool = False
    publisher: int | None = None
    first_event: int = 0
    batch_triples: int = 1000
    acknowledge: str = INDEXED
    busy_seconds: float = 60.0
    on_progress: Callable[[Progress], None] | None = None
    graph: str | None = None
    by_content: bool = False
    effort: Effort | None = None
    on_refused: Callable[[Quad, DataRefused], None] | None = None
    trace: str | None = None
    linger_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse options that make no sense.  Raises LocalProtocolError."""
        if self.batch_triples < 1 or self.first_event < 0:
            raise LocalProtocolError("batch_triples must be positive, first_event must not be negative")
        if self.by_content and self.first_event:
            raise LocalProtocolError("by_content and first_event exclude each other")
        if self.acknowledge not in LEVELS:
            raise LocalProtocolError(f"level {self.acknowledge!r} is neither {' nor '.join(LEVELS)}")


class Publisher:
    """One publication: sends pieces within the credit, awaits the answers in order, and retries."""

    def __init__(self, sessions: Sessions, options: PublishOptions):
        self._sessions = sessions
        self._options = options
        self._publisher = secrets.randbits(64) if options.publisher is None else options.publisher
        self._next_event = {False: options.first_event, True: options.first_event}
        """Event numbers of additions (False) and of deletions (True)."""
        self._effort = options.effort or Effort()
        self._under_way: deque[_Frame] = deque()
        """In order. All have been sent except perhaps the last or, after a reconnection, several last ones."""
        self._session: Session | None = None
        self._progress = Progress(0, 0)
        self.stamp = 0
        """The stamp of the last frame that was acknowledged; 0: none is."""
        context = None if options.trace is None else parse_traceparent(options.trace)
        self._traceparent = "" if context is None else str(context)
        self._traced_left = TRACED_FRAMES if self._traceparent else 0

    async def run(self, source: Source, linger_seconds: float) -> int:
        """Publish everything; return the number of triples acknowledged."""
        options = self._options
        async with aclosing(
            pieces_of(source, options.batch_triples, options.graph or DEFAULT, linger_seconds)
        ) as pieces:
            while (piece := await self._next(pieces)) is not None:
                waited, packed = time.perf_counter(), self._effort.packing_seconds
                await self._begin(piece)
                self._waited_since(waited, packed)
        return await self._finish()

    async def run_whole(self, piece: Piece) -> int:
        """Publish one piece as one frame; return the number of triples acknowledged."""
        await self._begin(piece)
        return await self._finish()

    async def _finish(self) -> int:
        """Wait until everything is acknowledged; return the number of triples acknowledged."""
        waited, packed = time.perf_counter(), self._effort.packing_seconds
        while self._under_way:
            await self._take_first()
        self._waited_since(waited, packed)
        return self._progress.triples

    async def _begin(self, piece: Piece) -> None:
        """Send a piece; return when the next one may follow.  Raises DataRefused for an invalid RDF term."""
        removed = self._options.removed or piece.removed
        try:
            terms.check_all(piece.texts())
        except DataRefused as error:
            if self._options.on_refused is None:
                raise
            if len(piece) == 1:
                self._next_event[removed] += 1
                self._options.on_refused(piece.first(), error)
                return
            for half in piece.halves():
                await self._begin(half)
            return
        await self._current()
        while self._under_way and (first := self._under_way[0].answer) is not None and first.done():
            await self._take_first()
        while self._under_way and self._under_way[-1].removed != removed:
            await self._take_first()
        frame = _Frame(piece, 0 if self._options.by_content else self._next_event[removed], removed)
        frame.doubtful = piece.condition is not None and piece.condition.doubtful
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
        await asyncio.sleep(0)  # let answers in, even if the source never waits

    async def _next(self, pieces: AsyncIterator[Piece]) -> Piece | None:
        """Return the next piece, or None at the end; meanwhile process answers of frames in flight.

        An application that publishes rarely thus learns of acknowledgements as they arrive, and frames that a
        failed node has not acknowledged are sent again at once.
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
        """Add the time since ``start`` to the waiting time, without packing time after it was ``packed``."""
        effort = self._effort
        effort.waiting_seconds += time.perf_counter() - start - (effort.packing_seconds - packed)

    async def _current(self) -> Session:
        """Return the session in use; send a new session all unacknowledged frames."""
        session = await self._sessions.current()
        if session is not self._session:
            self._session = session
            for frame in self._under_way:
                if not frame.answered:
                    frame.send_again()
            self._fill(session)
        return session

    def _fill(self, session: Session) -> None:
        """Send the unsent frames in order, while slots are free."""
        for frame in self._under_way:
            if frame.answer is None:
                if not session.publications.take():
                    return
                self._send(session, frame)

    def _send(self, session: Session, frame: _Frame) -> None:
        """Send a frame in the slot taken for it, unless the session has been lost meanwhile."""
        slots = session.publications
        if frame.answer is not None or session.lost is not None:
            slots.give()
            return
        start, effort = time.perf_counter(), self._effort
        names, s, p, o, graph = frame.piece.numbered()
        condition = frame.piece.condition
        versions: tuple[Column, ...] = () if condition is None else (condition.versions,)
        try:
            frame.answer = session.start(
                lambda request: ClientPublish(
                    request, self._publisher, frame.first_event, s, p, o, self._options.acknowledge, frame.removed,
                    self._sessions.latest, graph, self._options.by_content, frame.piece.times,
                    frame.piece.deletions or 0, frame.piece.deletions is not None, versions,
                    0 if condition is None else condition.attempt,
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
        """Wait until the oldest piece is acknowledged, or was refused and split."""
        frame = self._under_way[0]
        retry = Retry(self._sessions, busy_seconds=self._options.busy_seconds)
        while not frame.acknowledged:
            session = await self._current()
            if frame.answer is None and await session.publications.wait():
                self._send(session, frame)
            if frame.answer is None:
                continue
            try:
                await self._answer(frame.answer)
            except DataRefused as error:
                if self._options.on_refused is None:
                    raise
                self._narrow_down(frame, error, self._options.on_refused)
                return
            except ChangedMeanwhile as error:
                raise ChangedMeanwhile(error.subject, error.expected, error.present, repeated=frame.doubtful) from None
            except (Busy, Unavailable) as error:
                if isinstance(error, Silent) and self._sessions.reconnect_seconds > 0:
                    session.drop(error)  # a second copy to the same node would be in flight twice
                frame.send_again()
                await retry.after(session, error)
                self._forget_refusals()
        self._under_way.popleft()
        if self._session is not None:
            self._fill(self._session)
        self._progress = Progress(
            self._progress.triples + len(frame.piece), frame.piece.statements or self._progress.statements
        )
        if self._options.on_progress is not None:
            self._options.on_progress(self._progress)

    def _narrow_down(self, frame: _Frame, error: DataRefused, tell: Callable[[Quad, DataRefused], None]) -> None:
        """Replace the oldest piece, which was refused, by its halves; report it if it is one statement."""
        self._under_way.popleft()
        if len(frame.piece) == 1:
            tell(frame.piece.first(), error)
            return
        one, two = frame.piece.halves()
        after = 0 if self._options.by_content else frame.first_event + len(one)
        self._under_way.appendleft(_Frame(two, after, frame.removed, sent=True))
        self._under_way.appendleft(_Frame(one, frame.first_event, frame.removed, sent=True))

    def _forget_refusals(self) -> None:
        """Send the frames again that were refused with the piece just awaited: one pause serves all of them."""
        for frame in self._under_way:
            answer = frame.answer
            if answer is not None and answer.done() and isinstance(answer.exception(), Busy):
                frame.send_again()
        if self._session is not None:
            self._fill(self._session)

    async def _answer(self, answer: asyncio.Future[Any]) -> None:
        seconds = self._sessions.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                self.stamp = (await answer).time
                self._sessions.latest = max(self._sessions.latest, self.stamp)
        except StampRefused:
            self._sessions.latest = 0  # a node with a fast clock gave the stamp; later publications need not follow it
            raise
        except TimeoutError:
            raise Silent(f"no acknowledgement within {seconds:g} s") from None
