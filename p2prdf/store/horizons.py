"""Retention watermarks of streams: the event times before which their elements are forgotten.

A stream has no end, so elements that no query can need must go.  But replicas are compared, lost and rebuilt, and
messages are repeated: an element that one peer has dropped must not return from another.

Whether an element is forgotten therefore follows from the element alone: its stream and its event time.  A *retention
watermark* (``horizon``) is an event time per stream that only grows.  Earlier elements, and partial results with such
an element, are refused, not held, and not counted in any digest.  Peers with the same watermark hold the same items,
whatever arrived in which order; a peer that learns a later watermark converges to the others.
:mod:`p2prdf.peer.progress.retention` decides the watermarks.

A time contains only a short mark of its stream (:mod:`p2prdf.hlc`).  The mark is enough to see that nearly all
elements are not old; for the rest, the predicate identifies the stream, so streams that share a mark stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import hlc, keys
from p2prdf.rdf.quads import stream_parts_of

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary

__all__ = ["STREAMS_MAX", "Horizons"]

STREAMS_MAX: Final = 65_536
"""Bound on the streams with a retention watermark; of further streams nothing is forgotten."""

_TERMS_MAX: Final = 65_536
"""Bound on the predicates with a cached stream; then the cache is cleared."""
_ELEMENT: Final = np.uint64(hlc.ELEMENT)
_MARK: Final = np.uint64((1 << hlc.COUNTER_BITS) - 1)

Bools = npt.NDArray[np.bool_]
U64 = npt.NDArray[np.uint64]


class Horizons:
    """The retention watermark of each stream (by its hash), in milliseconds since 1970; tests for old elements."""

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._of: dict[int, int] = {}
        self._limit: dict[int, int] = {}
        """By mark, the first time that is old for no stream with that mark."""
        self._limits: U64 = np.zeros(0, np.uint64)
        """The same as a column, made when needed."""
        self._streams: dict[int, int] = {}
        """By predicate, the hash of its stream; 0: it has none."""

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._of.items())

    def of(self, stream: int) -> int:
        """Return the retention watermark of a stream; 0: nothing is forgotten."""
        return self._of.get(stream, 0)

    def grow(self, stream: int, before: int) -> bool:
        """Raise the retention watermark of a stream; return whether it is later than before."""
        if before <= self.of(stream) or (stream not in self._of and len(self._of) >= STREAMS_MAX):
            return False
        before = min(before, hlc.ELEMENT_MS_MAX)
        self._of[stream] = before
        mark = hlc.stream_mark(stream)
        self._limit[mark] = max(self._limit.get(mark, 0), hlc.element(before, 0))
        self._limits = np.zeros(0, np.uint64)
        return True

    # --- old elements ----------------------------------------------------------------------------

    def stream_of(self, terms: Iterable[int]) -> int:
        """Return the hash of the stream that qualifies one of some terms; 0: none does."""
        for term in terms:
            stream = self._streams.get(term)
            if stream is None:
                if len(self._streams) >= _TERMS_MAX:
                    self._streams.clear()
                parts = stream_parts_of(self._dictionary.text(term))
                stream = self._streams[term] = 0 if parts is None else keys.term_hash(parts[1])
            if stream:
                return stream
        return 0

    def maybe_old(self, time: int) -> bool:
        """Return whether a time may be that of a forgotten element; cheap, and false for nearly all times."""
        return hlc.is_element(time) and time < self._limit.get(hlc.stream_mark(time), 0)

    def is_old(self, time: int, terms: Iterable[int]) -> bool:
        """Return whether an element is forgotten.

        ``terms``: the predicate of the element, or the constants of a query that reads it.
        """
        return self.maybe_old(time) and hlc.element_ms(time) < self.of(self.stream_of(terms))

    def perhaps_old(self, times: U64) -> npt.NDArray[np.int64]:
        """Return the places of times that may be those of forgotten elements."""
        if not len(self._limits):
            self._limits = np.zeros(int(_MARK) + 1, np.uint64)
            for mark, limit in self._limit.items():
                self._limits[mark] = limit
        found: npt.NDArray[np.int64] = np.flatnonzero(times >= _ELEMENT)
        some = times[found]
        old = some < self._limits[(some & _MARK).astype(np.int64)]  # times that are no elements are far above
        return found[old]

    def old(self, times: U64, predicates: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the places of forgotten elements, by their times and predicates."""
        places = self.perhaps_old(times)
        if not len(places):
            return places
        distinct, which = np.unique(predicates[places], return_inverse=True)
        return self.before(times, places, which, (self.stream_of((term,)) for term in distinct.tolist()))

    def before(
        self, times: U64, places: npt.NDArray[np.int64], which: npt.NDArray[Any], streams: Iterable[int]
    ) -> npt.NDArray[np.int64]:
        """Return the places with a time before the watermark of their stream, the ``which``-th of the given streams."""
        limits = np.array([hlc.element(self.of(each), 0) for each in streams], np.uint64)
        found: npt.NDArray[np.int64] = places[times[places] < limits[which]]
        return found
