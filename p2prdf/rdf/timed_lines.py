"""Read elements of a stream: lines ``TIME<TAB>statement``, a triple in N-Triples and its event time.

A time is a decimal number of seconds since 1970, or an xsd:dateTime with a time zone, rounded to the nearest
millisecond.  Otherwise the format is that of N-Triples (:mod:`p2prdf.rdf.ntriples`): bounded memory, statements
counted from the start of the file, bad lines named and skipped.

The statements of a chunk are parsed together, without their times.  If a line of it contains no statement or an
invalid one, the chunk is parsed again line by line, so that each statement gets the time of its line.
"""

from __future__ import annotations

import dataclasses
import io
import re
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Final

from p2prdf.errors import DataRefused
from p2prdf.hlc import ELEMENT_MS_MAX
from p2prdf.rdf.lines import LINE_BYTES_MAX, Faults, Overlong, line_chunks, opened
from p2prdf.rdf.moments import parse_moment
from p2prdf.rdf.ntriples import BATCH_TRIPLES, TripleBatch, read_triples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from p2prdf.rdf.lines import BadLine

__all__ = ["event_time", "read_timed"]

_DECIMAL: Final = re.compile(r"\+?[0-9]{1,15}(?:\.[0-9]{0,30})?")
_CHARACTERS_MAX: Final = 60
_TIMES_MAX: Final = 10_000
"""Most spellings of times that are remembered: many lines share one."""


def event_time(text: str) -> int:
    """Return the event time of a text, in milliseconds since 1970.

    Raises DataRefused for an invalid time, for a moment without a time zone, and for one before 1970 or after 3084.
    """
    seconds: Decimal | None = None
    if len(text) <= _CHARACTERS_MAX:
        if _DECIMAL.fullmatch(text):
            seconds = Decimal(text)
        elif (moment := parse_moment(text, "dateTime")) is not None:
            if moment.zone is None:
                raise DataRefused(f"the event time {text!r} has no time zone; write it as in 2026-11-22T10:00:00Z")
            seconds = Decimal(moment.seconds)
    if seconds is None:
        shown = repr(text[:_CHARACTERS_MAX])
        raise DataRefused(f"{shown} is no event time: neither seconds since 1970 nor an xsd:dateTime")
    found = round(seconds * 1000)
    if not 0 <= found <= ELEMENT_MS_MAX:
        raise DataRefused(f"the event time {text!r} is not between 1970 and 3084")
    return found


def read_timed(
    stream: IO[bytes],
    *,
    publication_id: str,
    compressed: bool = False,
    source: str = "",
    strict: bool = False,
    skip: int = 0,
    on_bad_line: Callable[[BadLine], None] | None = None,
    live: bool = False,
) -> Iterator[TripleBatch]:
    """Yield the elements of a binary stream as batches with event times; arguments as in ``read_triples``."""
    data = opened(stream, compressed=compressed)
    reader = _Reader(publication_id, Faults(source, strict, on_bad_line))
    done = 0
    for batch in reader.batches(data, live=live):
        count = len(batch.times)
        start = min(count, max(0, skip - done))
        done += count
        for first in range(start, count, BATCH_TRIPLES):
            stop = min(first + BATCH_TRIPLES, count)
            yield TripleBatch(
                batch.s[first:stop], batch.p[first:stop], batch.o[first:stop], done - count + stop, batch.line,
                times=batch.times[first:stop],
            )  # fmt: skip


class _Reader:
    """Reads chunks of whole lines."""

    def __init__(self, publication_id: str, faults: Faults):
        self._publication_id = publication_id
        self._faults = faults
        self._times: dict[bytes, int] = {}

    def batches(self, data: IO[bytes], *, live: bool) -> Iterator[TripleBatch]:
        """Yield the elements of each chunk; if a bad line ends reading, those before it."""
        number = 0
        for chunk in line_chunks(data, self._faults, live=live):
            first = number + 1
            if isinstance(chunk, Overlong):
                number += 1
                self._faults.bad_line(number, f"longer than {LINE_BYTES_MAX} bytes")
                continue
            lines = chunk.split(b"\n")
            if not lines[-1]:
                lines.pop()
            number += len(lines)
            whole = self._whole(lines, number)
            if whole is not None:
                yield whole
            else:
                yield from self._each(lines, first)

    def _whole(self, lines: list[bytes], number: int) -> TripleBatch | None:
        """Parse lines together; None if they must be parsed one by one."""
        try:
            split = [self._split(line) for line in lines]
            statements = b"\n".join(statement for _, statement in split)
            parts = list(read_triples(io.BytesIO(statements), publication_id=self._publication_id, strict=True))
        except DataRefused:
            return None
        batch = TripleBatch([], [], [], 0, number)
        _extend(batch, parts)
        assert len(batch.s) == len(split), "the parser takes one statement a line"
        batch.times.extend(time for time, _ in split)
        return batch

    def _each(self, lines: list[bytes], first: int) -> Iterator[TripleBatch]:
        """Parse line by line; deliver the elements before a fault, then report the fault."""
        good = TripleBatch([], [], [], 0, 0)
        for number, line in enumerate(lines, first):
            if not line.strip() or line.lstrip().startswith(b"#"):
                continue
            reason = ""
            try:
                time, statement = self._split(line)
                found = list(read_triples(io.BytesIO(statement), publication_id=self._publication_id, strict=True))
            except DataRefused as error:
                reason = error.reason
            else:
                before = len(good.s)
                _extend(good, found)
                good.times.extend([time] * (len(good.s) - before))
            if (reason or len(good.s) >= BATCH_TRIPLES) and good.s:
                yield dataclasses.replace(good, line=number)
                good = TripleBatch([], [], [], 0, 0)
            if reason:
                self._faults.bad_line(number, reason)
        if good.s:
            yield dataclasses.replace(good, line=first + len(lines) - 1)

    def _split(self, line: bytes) -> tuple[int, bytes]:
        """Return the time and the statement of a line."""
        text, tab, statement = line.partition(b"\t")
        if not tab or not statement.strip() or statement.lstrip().startswith(b"#"):  # no empty lines
            raise DataRefused("not a time, a tabulator and a statement")
        time = self._times.get(text)
        if time is None:
            time = event_time(text.decode("utf-8", "replace"))
            if len(self._times) < _TIMES_MAX:
                self._times[text] = time
        return time, statement


def _extend(batch: TripleBatch, parts: list[TripleBatch]) -> None:
    """Add triples to a batch, without times."""
    for part in parts:
        batch.s.extend(part.s)
        batch.p.extend(part.p)
        batch.o.extend(part.o)
