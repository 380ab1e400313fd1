"""Horizons of streams: before which event time the elements of each are forgotten.

The problem.  A stream has no end, and what nobody can ask for any more must not stay.  But copies are compared, lost
and made again, and messages are repeated: an element that one peer has dropped must not come back from another, nor be
offered to and fro.

The idea.  What is forgotten follows from the element alone: its stream, and its event time.  A *horizon* is an event
time per stream that only grows; elements from before it are forgotten, and so is every partial result with such an
element.  They are not taken in, not held, and not counted in any sum; so peers with the same horizon hold the same,
whatever came to them and in which order, and one that hears of a later horizon comes to hold what the others do.
Where horizons come from: :mod:`p2prdf.peer.retention`.

A time has but a mark of its stream (:mod:`p2prdf.hlc`).  By that almost all is seen not to be old; of the rest the
predicate says which stream it is, so streams that share a mark are told apart.
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
"""Streams whose horizons are known; of further ones nothing is forgotten."""

_TERMS_MAX: Final = 65_536
"""Predicates whose streams are remembered; then they are looked up anew."""
_ELEMENT: Final = np.uint64(hlc.ELEMENT)
_MARK: Final = np.uint64((1 << hlc.COUNTER_BITS) - 1)

Bools = npt.NDArray[np.bool_]
U64 = npt.NDArray[np.uint64]


class Horizons:
    """The horizon of each stream (by its hash), in milliseconds since 1970; and which elements are before it."""

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._of: dict[int, int] = {}
        self._limit: dict[int, int] = {}
        """By mark the first time that is old for none of the streams that have it."""
        self._limits: U64 = np.zeros(0, np.uint64)
        """The same as a column, made when it is needed."""
        self._streams: dict[int, int] = {}
        """By predicate the hash of its stream, 0: it has none."""

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._of.items())

    def of(self, stream: int) -> int:
        """Return the horizon of a stream; 0: nothing of it is forgotten."""
        return self._of.get(stream, 0)

    def grow(self, stream: int, before: int) -> bool:
        """Let a stream have a horizon; return whether that is later than the one it had."""
        if before <= self.of(stream) or (stream not in self._of and len(self._of) >= STREAMS_MAX):
            return False
        before = min(before, hlc.ELEMENT_MS_MAX)
        self._of[stream] = before
        mark = hlc.stream_mark(stream)
        self._limit[mark] = max(self._limit.get(mark, 0), hlc.element(before, 0))
        self._limits = np.zeros(0, np.uint64)
        return True

    # --- what is old -----------------------------------------------------------------------------

    def stream_of(self, terms: Iterable[int]) -> int:
        """Return the hash of the stream that one of some terms is qualified by; 0: none is."""
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
        """Return whether a time may be that of a forgotten element: mostly it is seen at once that it is not."""
        return hlc.is_element(time) and time < self._limit.get(hlc.stream_mark(time), 0)

    def is_old(self, time: int, terms: Iterable[int]) -> bool:
        """Return whether an element is forgotten; ``terms``: its predicate, or the constants of a query about it."""
        return self.maybe_old(time) and hlc.element_ms(time) < self.of(self.stream_of(terms))

    def perhaps_old(self, times: U64) -> npt.NDArray[np.int64]:
        """Return the places of times that may be those of forgotten elements."""
        if not len(self._limits):
            self._limits = np.zeros(int(_MARK) + 1, np.uint64)
            for mark, limit in self._limit.items():
                self._limits[mark] = limit
        found: npt.NDArray[np.int64] = np.flatnonzero(times >= _ELEMENT)
        some = times[found]
        old = some < self._limits[(some & _MARK).astype(np.int64)]  # what is no element is far above
        return found[old]

    def old(self, times: U64, predicates: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the places of elements that are forgotten, told by their times and predicates."""
        places = self.perhaps_old(times)
        if not len(places):
            return places
        distinct, which = np.unique(predicates[places], return_inverse=True)
        return self.before(times, places, which, (self.stream_of((term,)) for term in distinct.tolist()))

    def before(
        self, times: U64, places: npt.NDArray[np.int64], which: npt.NDArray[Any], streams: Iterable[int]
    ) -> npt.NDArray[np.int64]:
        """Return which places have times before the horizon of their stream, the ``which``-th of those given."""
        limits = np.array([hlc.element(self.of(each), 0) for each in streams], np.uint64)
        found: npt.NDArray[np.int64] = places[times[places] < limits[which]]
        return found
