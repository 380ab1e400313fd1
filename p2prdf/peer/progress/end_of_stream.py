"""Ends of streams: the last promise of a publisher that closed, stored by the replicas of the stream's key.

Heartbeats do not suffice: one peer reports them, it may fail, and they are forgotten after some seconds, while a
subscription may come long after the end.  An end is therefore acknowledged, replicated, stored on disk and compared
like every other item.  For one stream it is two numbers, the earliest event time and the greatest promise, so
repeated and reordered ends merge to the same state.  Peers report ends with every cut to the readers of the stream
(:mod:`p2prdf.peer.progress.low_watermark`).

A late heartbeat of a closed session may still be reported for ``stream_idle_seconds``.  Each end therefore names the
session by a random ``opening``.  Openings are remembered for twice that time, in memory only: after a restart no such
heartbeat is left.

Bounds: ``STREAMS_MAX`` streams and ``OPENINGS_MAX`` openings; further ends are refused and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.peer.progress.low_watermark import Source
from p2prdf.peer.replication.digests import Changes, Items
from p2prdf.wire.messages import KeepEnds, Message

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger

__all__ = ["OPENINGS_MAX", "STREAMS_MAX", "STREAM_ENDS", "StreamEnds"]

STREAM_ENDS: Final = 19
"""The item type of ends."""
STREAMS_MAX: Final = 65_536
OPENINGS_MAX: Final = 4096
_IN_ONE_MESSAGE: Final = 16_384


class StreamEnds(Component):
    """The ends that a peer stores: an item type (:class:`p2prdf.peer.replication.anti_entropy.Kind`).

    Times are milliseconds.
    """

    number = STREAM_ENDS
    dense = False
    counter = "ends of streams"

    def __init__(self, messenger: Messenger):
        self._messenger = messenger
        self._ends: dict[int, tuple[int, int]] = {}
        """By stream, its earliest time and the greatest promise of a publisher that closed."""
        self._openings: dict[tuple[int, int, int], float] = {}
        """Sessions that closed recently (stream, publisher, opening), with the time of the report, oldest first."""
        self.version = 0
        self.refused = 0
        """Ends refused for lack of room."""

    def __len__(self) -> int:
        return len(self._ends)

    def handlers(self) -> Handlers:
        """Return the handler of ends that other peers tell."""
        return {KeepEnds: lambda _, message: self.take(message)}

    def restorers(self) -> Restorers:
        """Return the method that takes back ends."""
        return {KeepEnds: self.take}

    def take(self, message: KeepEnds) -> None:
        """Take ends of publishers, or of another replica."""
        columns = (message.streams, message.publishers, message.openings, message.began, message.upto)
        news = False
        for stream, publisher, opening, began, upto in zip(*map(as_list, columns), strict=True):
            held = self._ends.get(stream)
            if held is None and len(self._ends) >= STREAMS_MAX:
                self.refused += 1
                self._messenger.trace("too-many-ends", stream=stream)
                continue
            found = (began, upto) if held is None else (min(began, held[0]), max(upto, held[1]))
            if found != held:
                self._ends[stream], news = found, True
            if opening and not self._messenger.restoring:
                self._openings.pop((stream, publisher, opening), None)
                self._openings[stream, publisher, opening] = self._messenger.now
        if news:
            self.version += 1
            self._messenger.persist(message)
        self._forget()

    def _forget(self) -> None:
        before = self._messenger.now - 2 * self._messenger.config.stream_idle_seconds
        for each, at in list(self._openings.items()):
            if at >= before and len(self._openings) <= OPENINGS_MAX:
                break
            del self._openings[each]

    def told(self, streams: Collection[int]) -> Iterator[Source]:
        """Yield the ends of some streams and the sessions that they ended, for readers of these streams."""
        self._forget()
        for stream in streams:
            held = self._ends.get(stream)
            if held is not None:
                yield Source(stream, 0, *held, 0, ended=True)
        for stream, publisher, opening in self._openings:
            if stream in streams and stream in self._ends:
                yield Source(stream, publisher, *self._ends[stream], opening, ended=True)

    # --- as items --------------------------------------------------------------------------------

    def changes(self) -> Changes:
        """Return all ends."""
        return Changes(True, self.items())

    def items(self) -> Items:
        """Return all ends; each lies at its place among all, and another promise makes it another item."""
        streams = np.array(list(self._ends), np.uint64)
        times = np.array(list(self._ends.values()), np.uint64).reshape(-1, 2)
        known = keys.fmix_array(keys.fmix_array(streams ^ keys.fmix_array(times[:, 0])) ^ times[:, 1])
        return Items(streams, known, np.arange(len(streams), dtype=np.int64))

    def messages(self, places: npt.NDArray[Any]) -> Iterator[Message]:
        """Return some ends, as replicas tell them."""
        ends = list(self._ends.items())  # none is ever forgotten, so places stay
        for start in range(0, len(places), _IN_ONE_MESSAGE):
            some = [ends[place] for place in places[start : start + _IN_ONE_MESSAGE].tolist()]
            make = self._messenger.columns.column
            nobody = make([0] * len(some))
            began, upto = ([times[at] for _, times in some] for at in (0, 1))
            yield KeepEnds(make([stream for stream, _ in some]), nobody, nobody, make(began), make(upto))

    def everything(self) -> Iterator[Message]:
        """Return all ends as messages between replicas."""
        return self.messages(np.arange(len(self._ends)))
