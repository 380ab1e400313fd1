"""Event times of elements: applications use datetimes or seconds since 1970, the wire milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from p2prdf.errors import LocalProtocolError
from p2prdf.hlc import ELEMENT_MS_MAX

__all__ = ["Time", "Times", "milliseconds", "times_of"]

Time: TypeAlias = datetime | float
"""A datetime with a time zone, or seconds since 1970; rounded to the millisecond."""
Times: TypeAlias = Time | Iterable[Time]
"""One time for all elements, or one for each of them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(time: Time) -> int:
    """Return an event time in milliseconds since 1970.

    Raises LocalProtocolError for other types, for a datetime without time zone, and for times before 1970 or
    after the year 3084.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise LocalProtocolError(f"the event time {time} has no time zone")
        found = (time - _EPOCH) // _MILLISECOND
    else:
        try:
            seconds = float(time)
        except (TypeError, ValueError, OverflowError):
            raise LocalProtocolError(f"{time!r} is not an event time: give a datetime or seconds since 1970") from None
        if not math.isfinite(seconds):
            raise LocalProtocolError(f"{time!r} is not an event time")
        found = round(seconds * 1000)
    if not 0 <= found <= ELEMENT_MS_MAX:
        raise LocalProtocolError(f"the event time {time!r:.60} is not between 1970 and 3084")
    return found


def times_of(times: Times | None) -> int | Iterator[int] | None:
    """Return one event time for all elements, an iterator of one for each, or None: the publication time."""
    if times is None:
        return None
    if isinstance(times, str | bytes) or not isinstance(times, Iterable):
        return milliseconds(times)  # type: ignore[arg-type]  # milliseconds() refuses text
    return map(milliseconds, times)
