"""``p2prdf publish --stream``: what a file holds as elements of a stream, with the event times that its lines say.

A file may be read as fast as it goes, or as its event times say (``--pace``), as if it happened now.
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
    """What is said of a stream.

    ``time``: an event time of all elements, or ``now``; None: each line has its own.  ``pace``: how many times as
    fast as the event times say, 0: as fast as it goes.  ``upto``: in milliseconds since 1970, None: the last time.
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
        """Return what options say, None: nothing of a stream.

        ``without``: options are given that do not go with streams.  Raises typer.BadParameter.
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
        """What tells one publication of a file from another."""
        return "timed" if self.time is None else self.time

    def began(self) -> int | None:
        """Return the event time of all elements of a file, milliseconds since 1970; None if each has its own."""
        from p2prdf.rdf.timed_lines import event_time

        if self.time is None:
            return None
        return int(time.time() * 1000) if self.time == NOW else event_time(self.time)


async def publish_elements(
    client: Client, options: StreamOptions, feeder: Feeder, entry: Entry, progress: Callable[[Progress, Stream], None]
) -> Stream:
    """Publish what a feeder has into a stream, and say in the end that it is all there, unless reading has failed.

    A file that is published again, after a failure, has the times that it had.  What comes from a pipe now has the
    clock's, so windows close while nothing comes.
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
            upto = max(options.upto or 0, entry.latest or 0)  # the last may have been published by an earlier run
            await stream.close(upto / 1000 if upto else None)
    finally:
        stream.stop()
    return stream


async def paced(
    batches: AsyncIterable[TripleBatch], factor: float, *, clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = asyncio.sleep,
) -> AsyncIterator[TripleBatch]:  # fmt: skip
    """Yield elements when their turn has come: the first at once, others as much later as their event times say.

    ``factor``: how many times as fast.
    """
    start: float | None = None
    async for batch in batches:
        row, count = 0, len(batch.times)
        while row < count:
            if start is None:
                start = clock() - batch.times[0] / 1000 / factor
            wait = start + batch.times[row] / 1000 / factor - clock()
            if wait > 0:
                await sleep(wait)  # type: ignore[misc]  # what it returns is awaited
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
