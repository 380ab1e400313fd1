"""Read elements of a stream: lines ``TIME<TAB>statement``, a triple in N-Triples and its event time.

A time is a decimal number of seconds since 1970, or an xsd:dateTime with a time zone, rounded to the nearest
millisecond.  Otherwise the format is that of N-Triples (:mod:`p2prdf.rdf.ntriples`): bounded memory, statements
counted from the start of the file, bad lines named and skipped.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, Final

from p2prdf.errors import DataRefused
from p2prdf.hlc import ELEMENT_MS_MAX
from p2prdf.rdf.moments import parse_moment
from p2prdf.rdf.ntriples import TripleBatch, read_triples

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def read_timed(stream: IO[bytes], **options: Any) -> Iterator[TripleBatch]:
    """Yield the elements of a binary stream as batches with event times; ``options`` as in ``read_triples``."""
    return read_triples(stream, split=_Lines().split, **options)


class _Lines:
    """Divides lines into times and statements, and remembers times."""

    def __init__(self) -> None:
        self._times: dict[bytes, int] = {}

    def split(self, line: bytes) -> tuple[int, bytes]:
        """Return the time and the statement of a line."""
        text, tab, statement = line.partition(b"\t")
        if not tab or not statement.strip() or statement.lstrip().startswith(b"#"):
            raise DataRefused("not a time, a tabulator and a statement")
        time = self._times.get(text)
        if time is None:
            time = event_time(text.decode("utf-8", "replace"))
            if len(self._times) < _TIMES_MAX:
                self._times[text] = time
        return time, statement
