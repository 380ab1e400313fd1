"""How far streams are: what publishers say of it, and up to which event time nothing is under way.

A *watermark* of a stream is an event time up to which all its elements are known, and all that follows from them is at
its home.  Each publisher says up to when it has published all (a *heartbeat*: :class:`p2prdf.wire.contract.Heartbeat`)
where it is attached.  Peers tell that with their low marks, and what elements they have under way
(:mod:`p2prdf.peer.progress.low_watermark`): the least of it all is the watermark, and that never goes back.

A publisher that closes is not waited for any more: what it has promised is all there will be of it.  When all have
closed the watermark is the largest of what they promised, in whatever order they did, and whenever somebody asks
(:mod:`p2prdf.peer.progress.end_of_stream`).  One that comes back, and opens the stream again, is waited for again.

A publisher that is silent for ``idle_seconds`` is not waited for any more, nor is one whose peer is gone for so long;
what it publishes later comes late.  One that never said anything is not waited for at all.  While there is none at
all, and none has closed, the watermark stays.  Who begins to look at a stream looks for as long before it concludes
anything: all publishers that are to be waited for have been heard of then, also those that were attached to a peer that
is gone.

Pure bookkeeping: no messages, no clock.
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
"""Publishers of streams that are remembered at a peer."""


@dataclass(slots=True)
class _Said:
    """What a publisher said, and when it was heard of last."""

    began: int
    upto: int
    at: float

    def take(self, began: int, upto: int, now: float) -> None:
        self.began, self.upto, self.at = min(self.began, began), max(self.upto, upto), now


class _Place(NamedTuple):
    """One opening of a stream by a publisher."""

    stream: int
    publisher: int
    opening: int


class _Publishers:
    """What is known of publishers."""

    def __init__(self, idle_seconds: float):
        self._idle_seconds = idle_seconds
        self.said: dict[_Place, _Said] = {}

    def take(self, place: _Place, began: int, upto: int, now: float) -> bool:
        """Note what a publisher said; False if there is no room for one more."""
        known = self.said.get(place)
        if known is not None:
            known.take(began, upto, now)
        elif len(self.said) >= SOURCES_MAX:
            return False
        else:
            self.said[place] = _Said(began, upto, now)
        return True

    def forget(self, now: float) -> bool:
        """Forget who is silent; return whether anybody was."""
        before = now - self._idle_seconds
        silent = [each for each, said in self.said.items() if said.at < before]
        for each in silent:
            del self.said[each]
        return bool(silent)


class Sources:
    """What publishers said at the peer that they are attached to."""

    def __init__(self, idle_seconds: float):
        self._publishers = _Publishers(idle_seconds)
        self.streams: frozenset[int] = frozenset()
        """Those of publishers that are remembered."""

    def take(self, message: Heartbeat, now: float) -> bool:
        """Note a heartbeat; False if there is no room for one more publisher."""
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
        """Return what others are to be told."""
        self._forget(now)
        said = self._publishers.said.items()
        return tuple(Source(*place[:2], each.began, each.upto, place.opening) for place, each in said)


class Watermarks:
    """How far the streams are that somebody waits for here.  Streams go by their hashes, times are milliseconds."""

    def __init__(self, idle_seconds: float):
        self._publishers = _Publishers(idle_seconds)
        self._idle_seconds = idle_seconds
        self._since: dict[int, float] = {}
        """When each stream was looked at first."""
        self._upto: dict[int, int] = {}
        self._began: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        """The largest promise of publishers that closed."""
        self._under_way: Mapping[int, int] = {}
        """By the mark of a stream the earliest time under way at the last cut at which that was known."""

    def learn(self, known: Known, streams: Collection[int], now: float) -> bool:
        """Conclude from what peers told of a cut how far some streams are; return whether any is further.

        Others are forgotten.
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
        for place in over:  # a peer may not have forgotten yet what it said before
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
        """Of each publisher: one that was killed goes on where it was in a new opening."""
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
        """Return the watermark of a stream; -1 if there is none yet."""
        return self._upto.get(stream, -1)

    def upto_at_cut(self, stream: int) -> int:
        """Return up to when all was there at the last cut, also for who had only begun to ask; -1: nothing is known.

        A watermark does not go back: what a query finds that was left later is under way, and may be older.
        """
        earliest, upto = self._under_way.get(hlc.stream_mark(stream)), self.upto(stream)
        return upto if earliest is None else min(upto, hlc.element_ms(earliest) - 1)

    def began(self, stream: int) -> int | None:
        """Return the earliest time that a publisher has published at; None if none has said."""
        return self._began.get(stream)
