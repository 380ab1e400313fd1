"""A window by count: the order of a stream's elements, and the elements in the window at each report.

Elements arrive in any order, so a node cannot tell from its own elements which are the last n.  A watermark says up
to which event time all elements are known: up to there the order is final at every node.

Elements are ordered by event time, then by the text of the triple.  The order is independent of publisher, place and
time of publication; the same triple at the same time is one element, however often published.  Elements are numbered
in this order, and report k is made at element k * ``step``, its *last* element.

An element is *pending* while it is later than the watermark and may still be overtaken, *ready* until it is reported,
and *behind* from the last element of the last report backwards.  As many are kept behind as a window and a step hold,
so that the last report can be made again.

A late element that belongs behind gets no number, so reports keep their places.  It is inserted in order and counts
in later reports whose windows reach back to it.
"""

from __future__ import annotations

import bisect
import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from p2prdf.continuous.operators.zset import Row
from p2prdf.continuous.windows import NEVER
from p2prdf.rdf.algebra import CountWindow

__all__ = ["CountQueue", "Mark", "Place"]


class Mark(NamedTuple):
    """The progress of reports: event time (ms; -1: none), number of the last report, and its last element.

    ``last`` is a hash of that element's triple.  A mark without a number is an event time alone.
    """

    upto: int = -1
    number: int = 0
    last: int = 0


class Place(NamedTuple):
    """An element with its sort key: event time (ms), the texts of the triple, and the numbers of its terms."""

    time: int
    text: tuple[str, ...]
    row: Row


_FIRST: Final = Place(-1, (), ())


class CountQueue:
    """The elements of one stream on their way through a window by count."""

    def __init__(self, window: CountWindow, text_of: Callable[[int], str], first: int = 0):
        """``text_of`` returns a term by its number; ``first``: the event time before which no element counts."""
        self._window = window
        self._text_of = text_of
        self._first = first
        self._known: set[tuple[int, Row]] = set()
        self._pending: list[Place] = []
        self._ready: deque[Place] = deque()
        self._behind: list[Place] = []
        self._kept = window.elements + window.step
        self._in: deque[Row] = deque()
        """The window's triples at the last report, in the order of their elements."""
        self._disturbed = False
        """Whether a late element has entered the window since the last report."""
        self._upto = -1
        self.number = 0
        """Number of the last report."""

    def __len__(self) -> int:
        return len(self._known)

    def add(self, row: Row, time: int, _: int) -> int:
        """Take in an element; its oldest and youngest element are the same.

        Returns 0 if it is late and belongs into the window of the last report, else ``NEVER``.
        """
        if time < self._first or (time, row) in self._known:
            return NEVER
        place = Place(time, tuple(map(self._text_of, row)), row)
        if place < self.last:
            return self._late(place)
        self._known.add((time, row))
        if time > self._upto:
            heapq.heappush(self._pending, place)
        else:
            bisect.insort(self._ready, place)
        return NEVER

    def _late(self, place: Place) -> int:
        """Insert a late element behind, if the elements kept there reach back to it."""
        if len(self._behind) >= self._kept and place < self._behind[0]:
            return NEVER
        bisect.insort(self._behind, place)
        self._known.add((place.time, place.row))
        at = bisect.bisect_left(self._behind, place)
        self._forget()
        if at + self._window.elements < len(self._behind):
            return NEVER
        self._disturbed = True
        return 0

    @property
    def last(self) -> Place:
        """The last element of the last report; before the first report, a place before all elements."""
        return self._behind[-1] if self._behind else _FIRST

    def known_upto(self, upto: int) -> None:
        """Take in a watermark: all elements up to an event time are here."""
        self._upto = max(upto, self._upto)
        while self._pending and self._pending[0].time <= self._upto:
            self._ready.append(heapq.heappop(self._pending))

    @property
    def due(self) -> int:
        """The number of the last report for which all elements are here."""
        return self.number + len(self._ready) // self._window.step

    def skip(self, first: int) -> None:
        """Ignore elements before an event time; none may be counted yet."""
        self._first = max(first, self._first)
        self._ready = deque(place for place in self._ready if place.time >= self._first)
        self._pending = [place for place in self._pending if place.time >= self._first]
        heapq.heapify(self._pending)
        self._known = {(place.time, place.row) for places in (self._pending, self._ready) for place in places}

    def begin(self, number: int, last: Callable[[Place], bool], upto: int) -> None:
        """Continue after report ``number``, made up to an event time; ``last`` recognises its last element.

        All elements up to that time must be here, and none reported yet.
        """
        places = list(self._ready)
        of_it = [at for at, place in enumerate(places) if place.time == upto and last(place)]
        behind = of_it[-1] + 1 if of_it else bisect.bisect_right(places, upto, key=lambda place: place.time)
        self._ready = deque(places[behind:])
        self._behind = places[max(0, behind - number * self._window.step) : behind]
        self.number, self._disturbed = number, True
        self._forget()

    def back(self) -> None:
        """Go back by one report, before any was delivered."""
        step = self._window.step
        if self.number and len(self._behind) >= step:
            self.number -= 1
            self._ready.extendleft(reversed(self._behind[-step:]))
            del self._behind[-step:]

    def at(self, report: int) -> Iterable[tuple[Row, int]]:
        """Return the changes of the window up to a report, the last or a later one: triples with 1 or -1."""
        size = self._window.elements
        new = [self._ready.popleft() for _ in range((report - self.number) * self._window.step)]
        self._behind += new
        self.number = report
        if self._disturbed:
            changes = self._compared([place.row for place in self._behind[-size:]])
        else:
            changes = self._moved([place.row for place in new[-size:]])
        self._forget()
        return changes

    def _compared(self, now: list[Row]) -> list[tuple[Row, int]]:
        self._disturbed = False
        changes = Counter(now)
        changes.subtract(self._in)
        self._in = deque(now)
        return [(row, weight) for row, weight in changes.items() if weight]

    def _moved(self, new: list[Row]) -> list[tuple[Row, int]]:
        over = max(0, len(self._in) + len(new) - self._window.elements)
        changes = [(self._in.popleft(), -1) for _ in range(over)]
        self._in += new
        return changes + [(row, 1) for row in new]

    def _forget(self) -> None:
        """Forget the elements that no report reaches back to."""
        for place in self._behind[: -self._kept]:
            self._known.discard((place.time, place.row))
        del self._behind[: -self._kept]
