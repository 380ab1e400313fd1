"""Hybrid logical clock as pure functions on one unsigned 64-bit stamp.

A stamp is ``milliseconds << 16 | counter``: physical time in the upper 48 bits, a logical
counter below.  Stamps order causally related events whatever the clock skew (Kulkarni et al.
2014), and compare as plain integers, also inside numpy columns.
"""

from __future__ import annotations

from typing import Final, NewType

__all__ = ["COUNTER_BITS", "FIRST", "GONE", "Stamp", "floor", "from_seconds", "merge", "plain", "seconds", "tick"]

Stamp = NewType("Stamp", int)

COUNTER_BITS = 16

FIRST: Final = Stamp(1)
"""Before all that is ever published."""

GONE: Final = 1 << 63
"""Added to a stamp, it says that something was removed then.  Stamps of clocks are below it until the year 6429."""


def from_seconds(now: float) -> Stamp:
    """Return the first stamp of the millisecond that holds ``now`` (seconds, never below zero)."""
    return Stamp(max(0, int(now * 1000)) << COUNTER_BITS)


def plain(time: int) -> int:
    """Return the stamp in a time that may say that something was removed then."""
    return time & (GONE - 1)


def seconds(stamp: int) -> float:
    """Return the physical part of a stamp in seconds."""
    return (stamp >> COUNTER_BITS) / 1000


def floor(stamp: int) -> Stamp:
    """Return the first stamp of the same millisecond."""
    return Stamp(stamp >> COUNTER_BITS << COUNTER_BITS)


def tick(last: int, now: float) -> Stamp:
    """Return the stamp of a local event: after ``last``, and not before ``now``."""
    return Stamp(max(last + 1, from_seconds(now)))


def merge(last: int, remote: int, *, now: float, drift_max_seconds: float) -> Stamp:
    """Return the clock after a message stamped ``remote`` came in.

    A remote stamp further ahead of ``now`` than ``drift_max_seconds`` is not followed: one
    peer with a broken clock must not drag the others along.
    """
    if remote > from_seconds(now + drift_max_seconds):
        remote = 0
    return Stamp(max(last, remote, from_seconds(now)))
