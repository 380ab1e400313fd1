"""Publishing into a stream: elements with event times, and watermarks.

A window can be reported when all its elements are known, and only publishers know which elements are still to
come. They send *heartbeats* (watermarks): all elements up to an event time are acknowledged and none will
follow.

The client promises the latest acknowledged event time less the permitted disorder (``lateness``), but only
times before those of all unacknowledged elements. During a ``publish`` call it holds the last millisecond back,
since further elements of that time may follow. In ``live`` mode promises follow the clock, so windows close
while nothing is published.

An element at or before a promised time is refused (:class:`p2prdf.errors.LateElement`) or, on request, sent; it
then counts only in windows not reported yet. Nodes consider a publisher gone after ``stream_idle_seconds``
without a heartbeat, so the client repeats heartbeats. Closing a stream stores the publisher's end instead.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time as clocks
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, cast

import numpy as np

from p2prdf.client.event_times import Time, Times, milliseconds, times_of
from p2prdf.client.feed import LINGER_SECONDS, Feed
from p2prdf.client.pieces import Source, TermColumns
from p2prdf.client.publishing import Progress
from p2prdf.errors import DataRefused, LateElement, LocalProtocolError
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.rdf.python_values import as_term
from p2prdf.wire import messages

if TYPE_CHECKING:
    from types import TracebackType

    from p2prdf.client.pieces import Quad, Triple
    from p2prdf.client.session import Session
    from p2prdf.client.sessions import Sessions

__all__ = ["Stream"]

REPEAT_SECONDS: Final = 1.0
"""Interval between repeated heartbeats; nodes wait ten times as long by default."""
PAUSE_SECONDS: Final = 0.05
"""Least interval between heartbeats with news: nodes look eight times a second at most."""
_NOTHING: Final = -1
_Columns = tuple[list[str], list[str], list[str]]


class Publish(Protocol):
    """The part of :meth:`p2prdf.client.Client.publish` that a stream uses."""

    async def __call__(
        self, triples: Source, *, publisher: int, first_event: int, batch_triples: int, busy_seconds: float,
        on_progress: Callable[[Progress], None], graph: str, on_refused: Callable[[Quad, DataRefused], None],
    ) -> int:  # fmt: skip
        """Publish triples; return their number when all of them are acknowledged."""
        ...


class _UnderWay(NamedTuple):
    """Unacknowledged elements: their number with all before them in the call, first and last time."""

    number: int
    earliest: int
    latest: int


class Stream:
    """A publisher of one stream: ``async with client.stream(iri) as stream: await stream.publish(triples)``.

    ``iri``: the stream, in N-Triples form. ``publisher``: number of the publisher; it numbers its elements with
    ``events``, the number of elements so far. ``began``: the earliest event time; ``promised``: the event time
    up to which all elements are promised (both in milliseconds since 1970; None: none yet).
    """

    def __init__(
        self, sessions: Sessions, publish: Publish, iri: str, *, publisher: int | None = None, first_event: int = 0,
        lateness: float = 0.0, live: bool = False, late: str = "raise", began: Time | None = None,
        clock: Callable[[], float] = clocks.time, forget: Callable[[Stream], None] = lambda _stream: None,
        linger_seconds: float = LINGER_SECONDS,
    ):  # fmt: skip
        if late not in ("raise", "send"):
            raise LocalProtocolError(f"late {late!r} is neither raise nor send")
        if not 0 <= lateness < math.inf:
            raise LocalProtocolError(f"lateness {lateness} is not a number of seconds, zero or more")
        if first_event < 0:
            raise LocalProtocolError("first_event must not be negative")
        self.iri = terms.parse_term(iri) if iri.startswith("<") else terms.iri(iri)
        self.publisher = secrets.randbits(64) if publisher is None else publisher
        self._opening = secrets.randbits(63) + 1
        """Distinguishes this session of the publisher with the stream from others."""
        self.events = first_event
        self._sessions, self._publish, self._clock, self._forget = sessions, publish, clock, forget
        self._linger_seconds = linger_seconds
        self._lateness = round(lateness * 1000)
        self._live, self._late = live, late
        self._began = _NOTHING if began is None else milliseconds(began)
        self._promised = self._latest = self._pledged = _NOTHING
        self._under_way: deque[_UnderWay] = deque()
        self._publishing = False
        self._done = 0
        """Number of acknowledged elements of the present call."""
        self._failed: BaseException | None = None
        self._refusal: LocalProtocolError | None = None
        self._turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._said_at = -math.inf
        self._closed = False
        if live:
            self._began = self._now() if began is None else self._began
            self._say()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self.stop()

    @property
    def began(self) -> int | None:
        """The earliest event time, in milliseconds since 1970; None: there was none yet."""
        return None if self._began == _NOTHING else self._began

    @property
    def latest(self) -> int | None:
        """The latest acknowledged event time, in milliseconds since 1970; None: there is none."""
        return None if self._latest == _NOTHING else self._latest

    @property
    def promised(self) -> int | None:
        """The event time up to which all elements are promised, in milliseconds since 1970; None: none yet."""
        return None if self._promised == _NOTHING else self._promised

    def _now(self) -> int:
        return max(0, int(self._clock() * 1000))

    # --- elements --------------------------------------------------------------------------------

    async def publish(
        self,
        triples: Source,
        *,
        time: Times | None = None,
        batch_triples: int = 1000,
        busy_seconds: float = 60.0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> int:
        """Publish elements; return their number when all are acknowledged, at level ``indexed``.

        ``triples``: as in :meth:`p2prdf.client.Client.publish`, without graphs and deletions.
        ``time``: the event time of all elements (a datetime with time zone, or seconds since 1970), or one time
        for each. None: the times in the batches, otherwise the time of publication.

        After Busy, Unavailable or a cancellation, the stream promises and publishes nothing more. Make another
        stream with the same ``publisher``; ``first_event`` is the number of elements before this call.

        Raises LateElement, LocalProtocolError for a missing or impossible event time, and DataRefused for an
        invalid triple: each after all earlier batches are acknowledged and without publishing any of its own
        batch (``batch_triples`` plain triples). Raises DataRefused for the first element that nodes refuse,
        after all others are acknowledged; Busy, Unavailable. Calls run one at a time; others queue.
        """
        async with self._turn:
            self._check_open()
            refused: list[DataRefused] = []
            self._publishing, self._refusal, self._done = True, None, 0

            def progress(done: Progress) -> None:
                self._acknowledged(done.triples + len(refused))
                if on_progress is not None:
                    on_progress(done)

            try:
                async with aclosing(self._elements(triples, times_of(time), batch_triples)) as elements:
                    done = await self._publish(
                        elements, publisher=self.publisher, first_event=self.events, batch_triples=batch_triples,
                        busy_seconds=busy_seconds, on_progress=progress, graph=self.iri,
                        on_refused=lambda _, error: refused.append(error),
                    )  # fmt: skip
                self._acknowledged(done + len(refused))
            except BaseException as error:
                self._failed = error if self._under_way else None
                raise
            finally:
                self._publishing = False
                if not self._under_way:
                    self.events += self._done
                self._changed()
        if refused:
            raise refused[0]
        if self._refusal is not None:
            raise self._refusal
        return self._done

    def _check_open(self) -> None:
        if self._closed:
            raise LocalProtocolError(f"the stream {self.iri} was closed")
        if self._failed is not None:
            raise LocalProtocolError(
                f"a publication into {self.iri} failed ({self._failed}) with unknown outcome: make"
                f" another stream with publisher={self.publisher} and first_event={self.events}, and publish it again"
            )

    async def _elements(
        self, triples: Source, times: int | Iterator[int] | None, batch_triples: int
    ) -> AsyncGenerator[TripleBatch | TermColumns, None]:
        """Yield elements with their times, and note them as in flight; end before the first refused one."""
        number = 0
        try:
            async with aclosing(_batches(triples, batch_triples, self._linger_seconds)) as batches:
                async for batch in batches:
                    timed = self._with_times(batch, times)
                    assert timed.times is not None
                    if not len(timed.times):
                        continue
                    earliest, latest = int(min(timed.times)), int(max(timed.times))
                    if earliest <= self._promised and self._late == "raise":
                        raise LateElement(self.iri, earliest, self._promised)
                    self._began = earliest if self._began == _NOTHING else min(earliest, self._began)
                    number += len(timed.times)
                    self._under_way.append(_UnderWay(number, earliest, latest))
                    yield timed
        except LocalProtocolError as error:
            self._refusal = error  # raised when all earlier elements are acknowledged
        else:
            if isinstance(times, Iterator) and next(times, None) is not None:
                self._refusal = LocalProtocolError("there are more event times than elements")

    def _with_times(
        self, batch: TripleBatch | TermColumns, times: int | Iterator[int] | None
    ) -> TripleBatch | TermColumns:
        if isinstance(batch, TermColumns) and batch.removed:
            raise LocalProtocolError("elements of a stream cannot be deleted: they leave their windows")
        if any(batch.g) if isinstance(batch, TripleBatch) else batch.g is not None:
            raise LocalProtocolError("elements of a stream have no graph")
        count = len(batch.s)
        if batch.times is not None and len(batch.times):
            if times is not None:
                raise LocalProtocolError("the batches have event times already: omit the argument time")
            return batch
        if isinstance(times, Iterator):
            found = list(islice(times, count))
            if len(found) < count:
                raise LocalProtocolError("there are fewer event times than elements")
        else:
            found = [max(self._now(), self._promised + 1) if times is None else times] * count
        if isinstance(batch, TripleBatch):
            return replace(batch, times=found)
        return replace(batch, times=np.array(found, np.uint64))

    def _acknowledged(self, count: int) -> None:
        under_way = self._under_way
        self._done = count
        while under_way and under_way[0].number <= count:
            self._latest = max(self._latest, under_way.popleft().latest)
        self._changed()

    # --- heartbeats ------------------------------------------------------------------------------

    async def heartbeat(self, upto: Time) -> None:
        """Promise that all elements up to an event time are published; return when the node knows.

        Waits for earlier calls of :meth:`publish`. Raises Unavailable.
        """
        async with self._turn:
            self._check_open()
            self._pledge(milliseconds(upto))
            await self._say_for_sure()

    async def close(self, upto: Time | None = None) -> None:
        """Promise that all elements up to ``upto`` are published, and end this publisher.

        ``upto``: by default the latest event time. Returns when nodes have stored the end: they no longer wait
        for this publisher and, once all publishers have closed, reports go up to the largest promised time.
        Without elements, heartbeats and ``upto`` nothing is promised or sent. Raises Unavailable.
        """
        async with self._turn:
            if self._closed:
                return
            try:
                if self._failed is None:
                    self._pledge(max(self._latest, _NOTHING if upto is None else milliseconds(upto)))
                    if self._promise() != _NOTHING:
                        self._say()  # announce the promise while it is not yet known as the last one
                        await self._sessions.ask(self._end)
            finally:
                self.stop()

    def _end(self, request: int) -> messages.ClientEndStream:
        began = max(0, self._began)
        return messages.ClientEndStream(request, self.iri, self.publisher, began, self._promised, self._opening)

    def stop(self) -> None:
        """Send no more heartbeats: after some seconds nodes consider this publisher gone."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._forget(self)

    def use(self, session: Session) -> None:
        """Repeat the last heartbeat at a new session."""
        if not self._closed:
            self._say(session)

    def _pledge(self, upto: int) -> None:
        """Record a promise of the application; before the first element it also sets ``began``."""
        self._pledged = max(self._pledged, upto)
        if self._began == _NOTHING and upto != _NOTHING:
            self._began = upto

    def _promise(self) -> int:
        """Raise the promise as far as possible; return it."""
        upto = max(self._pledged, self._latest - self._lateness - self._publishing)
        if self._live:
            upto = max(upto, self._now() - self._lateness)
        if self._under_way:
            upto = min(upto, min(each.earliest for each in self._under_way) - 1)
        self._promised = max(self._promised, upto, _NOTHING)
        return self._promised

    def _changed(self) -> None:
        """Announce a raised promise soon."""
        if self._closed:
            return
        self._promise()
        wait = self._said_at + PAUSE_SECONDS - self._loop.time()
        if wait <= 0:
            self._say()
        elif self._timer is None or self._timer.when() > self._loop.time() + wait:
            self._say_in(wait)

    def _say_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._say)

    def _say(self, session: Session | None = None) -> None:
        """Send a heartbeat at the session in use, if there is one, and schedule the next."""
        self._say_in(REPEAT_SECONDS)
        session = self._sessions.live if session is None else session
        if self._promise() == _NOTHING or session is None:
            return
        self._said_at = self._loop.time()
        began = max(0, self._began)
        session.tell(messages.ClientHeartbeat(self.iri, self.publisher, began, self._promised, self._opening))

    async def _say_for_sure(self) -> None:
        """Send a heartbeat; return when a node has answered a later message. A new session gets it first."""
        self._say()
        await self._sessions.ask(messages.ClientPing)


async def _batches(
    triples: Source, batch_triples: int, linger_seconds: float
) -> AsyncGenerator[TripleBatch | TermColumns, None]:
    """Yield batches unchanged, and plain triples in batches: full ones, or those of ``linger_seconds``.

    Raises DataRefused for other items.
    """
    feed = Feed(triples, ahead=batch_triples)
    columns: _Columns = ([], [], [])
    loop, due = asyncio.get_running_loop(), 0.0
    try:
        while True:
            held = bool(columns[0])
            items = await feed.take(patience=max(0.0, due - loop.time()) if held else None)
            for item in items or ():
                if isinstance(item, TripleBatch | TermColumns):
                    if columns[0]:
                        yield TripleBatch(*columns, 0, 0)
                        columns = ([], [], [])
                    yield item
                    continue
                try:
                    s, p, o = cast("Triple", item)  # the application may have passed any type
                except (TypeError, ValueError):
                    raise DataRefused(
                        f"{item!r:.200} is neither a triple of terms nor a TripleBatch or TermColumns"
                    ) from None
                for column, term in zip(columns, (s, p, o), strict=True):
                    column.append(as_term(term))
                if len(columns[0]) >= batch_triples:
                    yield TripleBatch(*columns, 0, 0)
                    columns, held = ([], [], []), False
            if columns[0] and not items:
                yield TripleBatch(*columns, 0, 0)
                columns = ([], [], [])
            elif columns[0] and not held:
                due = loop.time() + linger_seconds
            if items is None:
                return
    finally:
        await feed.close()
