"""Watermarks of streams: bookkeeping of publishers and of the elements in flight, without messages or clock.

The *watermark* of a stream is the event time up to which all its elements are known and all their results are at the
coordinator.  It is the minimum of the heartbeats of the publishers (:class:`p2prdf.wire.contract.Heartbeat`) and of
the earliest elements in flight (:mod:`p2prdf.peer.progress.low_watermark`), and it never decreases.

- A publisher that has closed does not count.  When all have closed, the watermark is their greatest promise
  (:mod:`p2prdf.peer.progress.end_of_stream`).  A publisher that opens the stream again counts again.
- A publisher that is silent for ``idle_seconds``, or for so long without its peer, does not count; its later
  elements are late.  A publisher that never sent a heartbeat does not count.
- Without any publisher the watermark stays.
- A new reader concludes nothing for ``idle_seconds``: by then it has heard of every publisher that counts.

docs/explanation/design/streams.md gives the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from p2prdf import hlc
from p2prdf.peer.progress.low_watermark import Known, Source
from p2prdf.wire.contract import Heartbeat

__all__ = ["SOURCES_MAX", "Sources", "Watermarks"]

SOURCES_MAX: Final = 4096
"""Publishers of streams that a peer remembers."""


@dataclass(slots=True)
class _Said:
    """The first and the last event time that a publisher reported, and the time of its last report."""

    began: int
    upto: int
    at: float

    def take(self, began: int, upto: int, now: float) -> None:
        self.began, self.upto, self.at = min(self.began, began), max(self.upto, upto), now


class _Place(NamedTuple):
    """A publisher session: one opening of a stream by a publisher."""

    stream: int
    publisher: int
    opening: int


class _Publishers:
    """Reports of publishers by session."""

    def __init__(self, idle_seconds: float):
        self._idle_seconds = idle_seconds
        self.said: dict[_Place, _Said] = {}

    def take(self, place: _Place, began: int, upto: int, now: float) -> bool:
        """Take a report; return False if there is no room for one more publisher."""
        known = self.said.get(place)
        if known is not None:
            known.take(began, upto, now)
        elif len(self.said) >= SOURCES_MAX:
            return False
        else:
            self.said[place] = _Said(began, upto, now)
        return True

    def forget(self, now: float) -> bool:
        """Forget silent publishers; return whether there were any."""
        before = now - self._idle_seconds
        silent = [each for each, said in self.said.items() if said.at < before]
        for each in silent:
            del self.said[each]
        return bool(silent)


class Sources:
    """Reports of the publishers that are attached to this peer."""

    def __init__(self, idle_seconds: float):
        self._publishers = _Publishers(idle_seconds)
        self.streams: frozenset[int] = frozenset()
        """The streams of these publishers."""

    def take(self, message: Heartbeat, now: float) -> bool:
        """Take a heartbeat; return False if there is no room for one more publisher."""
        self._forget(now)
        place = _Place(message.stream, message.publisher, message.opening)
        taken = self._publishers.take(place, message.began, message.upto, now)
        if taken and message.stream not in self.streams:
            self.streams |= {message.stream}
        return taken

    def _forget(self, now: float) -> None:
        if self._publishers.forget(now):
            self.streams = frozenset(place.stream for place in self._publishers.said)

    def told(self, now: float) -> tuple[Source, ...]:
        """Return the reports for other peers."""
        self._forget(now)
        said = self._publishers.said.items()
        return tuple(Source(*place[:2], each.began, each.upto, place.opening) for place, each in said)


class Watermarks:
    """Watermarks of the streams that this peer reads, by the hash of the stream.  Times are milliseconds."""

    def __init__(self, idle_seconds: float):
        self._publishers = _Publishers(idle_seconds)
        self._idle_seconds = idle_seconds
        self._since: dict[int, float] = {}
        """The time at which this peer began to read each stream."""
        self._upto: dict[int, int] = {}
        self._began: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        """The greatest promise of publishers that closed."""
        self._under_way: Mapping[int, int] = {}
        """By the mark of a stream, the earliest time in flight at the last cut at which it was known."""

    def learn(self, known: Known, streams: Collection[int], now: float) -> bool:
        """Advance the watermarks of some streams by the reports of a cut; return whether any advanced.

        State of other streams is forgotten.
        """
        for stream in streams:
            self._since.setdefault(stream, now)
        told = [each for each in known.sources if each.stream in streams]
        over = {_Place(each.stream, each.publisher, each.opening) for each in told if each.ended}
        for each in told:
            place = _Place(each.stream, each.publisher, each.opening)
            self._began[each.stream] = min(each.began, self._began.get(each.stream, each.began))
            if each.ended:
                self._ended[each.stream] = max(each.upto, self._ended.get(each.stream, -1))
            else:
                self._publishers.take(place, each.began, each.upto, now)
        for place in over:  # a peer may still report an earlier heartbeat of it
            self._publishers.said.pop(place, None)
        self._publishers.forget(now)
        for held in (self._since, self._upto, self._began, self._ended):
            for stream in [each for each in held if each not in streams]:
                del held[stream]
        return known.elements is not None and self._advance(known.elements, now - self._idle_seconds)

    def _looked(self, stream: int, before: float) -> bool:
        return self._since.get(stream, math.inf) <= before

    def _advance(self, under_way: Mapping[int, int], before: float) -> bool:
        furthest: dict[tuple[int, int], int] = {}
        """The maximum over the sessions of a publisher: after a crash it continues in a new session."""
        for (stream, publisher, _), said in self._publishers.said.items():
            furthest[stream, publisher] = max(said.upto, furthest.get((stream, publisher), said.upto))
        least: dict[int, int] = {}
        for (stream, _), upto in furthest.items():
            least[stream] = min(upto, least.get(stream, upto))
        least = {stream: upto for stream, upto in (self._ended | least).items() if self._looked(stream, before)}
        further, self._under_way = False, under_way
        for stream, upto in least.items():
            earliest = under_way.get(hlc.stream_mark(stream))
            if earliest is not None:
                upto = min(upto, hlc.element_ms(earliest) - 1)
            if upto > self._upto.get(stream, -1):
                self._upto[stream], further = upto, True
        return further

    def upto(self, stream: int) -> int:
        """Return the watermark of a stream, or -1 without one."""
        return self._upto.get(stream, -1)

    def upto_at_cut(self, stream: int) -> int:
        """Return the event time up to which all elements were known at the last cut, or -1.

        It holds for a new query as well: results that the query finds in stored data are in flight, and may be older
        than the watermark, which never decreases.
        """
        earliest, upto = self._under_way.get(hlc.stream_mark(stream)), self.upto(stream)
        return upto if earliest is None else min(upto, hlc.element_ms(earliest) - 1)

    def began(self, stream: int) -> int | None:
        """Return the earliest event time that a publisher reported, or None without a report."""
        return self._began.get(stream)
