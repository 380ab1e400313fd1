"""``p2prdf publish --stream``: publication of a file as elements of a stream, with event times.

A file is read as fast as possible, or at the pace of its event times (``--pace``).
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from p2prdf.errors import DataRefused

if TYPE_CHECKING:
    from p2prdf.client import Client, Progress, Stream
    from p2prdf.rdf.ntriples import TripleBatch
    from p2prdf_cli.publish_state import Entry
    from p2prdf_cli.sources import Feeder

__all__ = ["NOW", "StreamOptions", "paced", "publish_elements"]

NOW = "now"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream.

    ``time``: event time of all elements, or ``now``; None: each line has its own.  ``pace``: speed-up over the event
    times, 0: as fast as possible.  ``upto``: final watermark in milliseconds since 1970; None: the last event time.
    """

    iri: str
    time: str | None
    lateness: float
    pace: float
    upto: int | None

    @classmethod
    def of(
        cls, iri: str | None, *, event_time: str | None, timed: bool, lateness: float, pace: float, upto: str | None,
        without: bool, files: int,
    ) -> StreamOptions | None:  # fmt: skip
        """Validate the options; return None if they name no stream.

        ``without``: options were given that exclude a stream.  Raises typer.BadParameter.
        """
        if iri is None:
            if timed or event_time is not None or lateness or pace or upto is not None:
                raise typer.BadParameter("--timed, --time, --lateness, --pace and --upto say something of a --stream")
            return None
        from p2prdf.rdf import terms
        from p2prdf.rdf.timed_lines import event_time as read_time

        if without:
            raise typer.BadParameter("--stream goes with neither --delete nor --graph nor --trace nor --ack accepted")
        if files > 1:
            raise typer.BadParameter("--stream takes one file: several were several publishers, one after the other")
        if timed and event_time is not None:
            raise typer.BadParameter("with --timed each line has its own time: no --time")
        if pace and not timed:
            raise typer.BadParameter("--pace goes by the times of the lines: it needs --timed")
        if not math.isfinite(pace) or not math.isfinite(lateness):
            raise typer.BadParameter(f"a pace of {pace} or a lateness of {lateness} is no number of times or seconds")
        said = None if timed else event_time or NOW
        try:
            if said not in (None, NOW):
                read_time(said)
            return cls(terms.iri(iri), said, lateness, pace, None if upto is None else read_time(upto))
        except DataRefused as error:
            raise typer.BadParameter(str(error)) from None

    @property
    def times(self) -> str:
        """Text that distinguishes publications of one file with different event times."""
        return "timed" if self.time is None else self.time

    def began(self) -> int | None:
        """Return the common event time of a file's elements, in milliseconds since 1970; None if each has its own."""
        from p2prdf.rdf.timed_lines import event_time

        if self.time is None:
            return None
        return int(time.time() * 1000) if self.time == NOW else event_time(self.time)


async def publish_elements(
    client: Client, options: StreamOptions, feeder: Feeder, entry: Entry, progress: Callable[[Progress, Stream], None]
) -> Stream:
    """Publish a feeder's statements into a stream, and end the stream unless reading has failed.

    A file that is published again after a failure keeps its event times.  Elements from a pipe with the time ``now``
    get the time of their arrival, so that windows close while nothing arrives.
    """
    at: float | None = None
    if options.time is not None and (feeder.source.path is not None or options.time != NOW):
        assert entry.began is not None
        at = entry.began / 1000
    stream = client.stream(
        options.iri, publisher=entry.publisher, first_event=entry.statements, lateness=options.lateness,
        began=None if entry.began is None else entry.began / 1000, live=at is None and options.time is not None,
    )  # fmt: skip
    try:
        await stream.publish(
            paced(feeder, options.pace) if options.pace else feeder, time=at,
            on_progress=lambda done: progress(done, stream),
        )  # fmt: skip
        if feeder.error is None:
            upto = max(options.upto or 0, entry.latest or 0)  # an earlier run may have published the last element
            await stream.close(upto / 1000 if upto else None)
    finally:
        stream.stop()
    return stream


async def paced(
    batches: AsyncIterable[TripleBatch], factor: float, *, clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = asyncio.sleep,
) -> AsyncIterator[TripleBatch]:  # fmt: skip
    """Yield elements at the pace of their event times: the first at once, the others relative to it.

    ``factor``: the speed-up.
    """
    start: float | None = None
    async for batch in batches:
        row, count = 0, len(batch.times)
        while row < count:
            if start is None:
                start = clock() - batch.times[0] / 1000 / factor
            wait = start + batch.times[row] / 1000 / factor - clock()
            if wait > 0:
                await sleep(wait)  # type: ignore[misc]  # its result is awaitable
            now, stop = clock(), row + 1
            while stop < count and start + batch.times[stop] / 1000 / factor <= now:
                stop += 1
            yield _part(batch, row, stop)
            row = stop


def _part(batch: TripleBatch, start: int, stop: int) -> TripleBatch:
    """Return some consecutive elements."""
    return dataclasses.replace(
        batch, s=batch.s[start:stop], p=batch.p[start:stop], o=batch.o[start:stop], times=batch.times[start:stop],
        statements_done=batch.statements_done - len(batch.times) + stop,
    )  # fmt: skip
