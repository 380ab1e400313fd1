"""Hybrid logical clock as pure functions on one unsigned 64-bit stamp.

A stamp is ``milliseconds << 16 | counter``: physical time in the upper 48 bits, a logical counter below.  Stamps
order causally related events under any clock skew (Kulkarni et al. 2014), and compare as plain integers, also inside
numpy columns.

An element of a stream has an *event time*, set by its publisher, instead of a stamp.  The bit ``ELEMENT``
distinguishes it from stamps, so all event times are greater than all stamps.  The counter's bits hold a mark of the
stream, which separates in-flight data of different streams.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NewType

__all__ = [
    "COUNTER_BITS", "DRIFT_MAX_SECONDS", "ELEMENT", "ELEMENT_MS_MAX", "FIRST", "GONE", "Stamp", "element", "element_ms",
    "floor", "from_seconds", "is_ahead", "is_element", "merge", "plain", "seconds", "seconds_ms", "shown",
    "stream_mark", "tick",
]  # fmt: skip

Stamp = NewType("Stamp", int)

COUNTER_BITS = 16

FIRST: Final = Stamp(1)
"""A stamp before all publications."""

GONE: Final = 1 << 63
"""Marks the stamp of a deletion (tombstone); added to the stamp.

Stamps of clocks stay below it until the year 6429.
"""

ELEMENT: Final = 1 << 61
"""Marks the event time of an element of a stream.

Stamps of clocks stay below it until the year 3084.
"""

DRIFT_MAX_SECONDS: Final = 60.0
"""Largest accepted drift of a clock: a time further ahead is treated as wrong."""

ELEMENT_MS_MAX: Final = (ELEMENT >> COUNTER_BITS) - 1
"""The last event time, in milliseconds since 1970."""


def element(milliseconds: int, mark: int) -> int:
    """Return the time of an element: its event time, 0 to ``ELEMENT_MS_MAX``, and the mark of its stream."""
    return ELEMENT | milliseconds << COUNTER_BITS | mark


def is_element(time: int) -> bool:
    """Tell whether a time is that of an element of a stream."""
    return ELEMENT <= time < ELEMENT << 1


def element_ms(time: int) -> int:
    """Return the event time in the time of an element, in milliseconds since 1970."""
    return (time & (ELEMENT - 1)) >> COUNTER_BITS


def stream_mark(time: int) -> int:
    """Return the mark of the stream in the time of an element; different streams rarely share a mark."""
    return time & ((1 << COUNTER_BITS) - 1)


def from_seconds(now: float) -> Stamp:
    """Return the first stamp of the millisecond that holds ``now`` (seconds, never below zero)."""
    return Stamp(max(0, int(now * 1000)) << COUNTER_BITS)


def plain(time: int) -> int:
    """Return the stamp in a time that may be marked as a deletion."""
    return time & (GONE - 1)


def seconds(stamp: int) -> float:
    """Return the physical part of a stamp in seconds."""
    return (stamp >> COUNTER_BITS) / 1000


def seconds_ms(stamp: int) -> int:
    """Return the physical part of a stamp in milliseconds."""
    return stamp >> COUNTER_BITS


def floor(stamp: int) -> Stamp:
    """Return the first stamp of the same millisecond."""
    return Stamp(stamp >> COUNTER_BITS << COUNTER_BITS)


def shown(stamp: int) -> str:
    """Return the physical part of a stamp as a date and time in UTC, for people."""
    try:
        return datetime.fromtimestamp(seconds(stamp), UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return f"{seconds(stamp):.0f} s after 1970"


def tick(last: int, now: float) -> Stamp:
    """Return the stamp of a local event: after ``last``, and not before ``now``."""
    return Stamp(max(last + 1, from_seconds(now)))


def is_ahead(at: float, now: float) -> bool:
    """Tell whether a time in seconds is further ahead of ``now`` than DRIFT_MAX_SECONDS."""
    return at > now + DRIFT_MAX_SECONDS


def merge(last: int, remote: int, *, now: float, drift_max_seconds: float) -> Stamp:
    """Return the clock after the receipt of a message stamped ``remote``.

    A remote stamp further ahead of ``now`` than ``drift_max_seconds`` is ignored: one peer with a wrong clock must
    not drag the others along.
    """
    if remote > from_seconds(now + drift_max_seconds):
        remote = 0
    return Stamp(max(last, remote, from_seconds(now)))
