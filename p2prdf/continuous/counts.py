"""A window by count: the elements of a stream in their order, and which of them are in the window at its reports.

The problem.  Elements come in no order, so which are the last n no node could tell by what it has.  But a watermark
says up to which event time all are known: up to there their order is final, whoever looks at it.

The order.  Elements go by their times, and those of one time by the text of their triples, so it does not depend on
where and when they were published, nor by whom: where several say the same triple at the same time it is one element.
They are numbered in that order, and report number k is made at element number k * ``step``, its *last* element.

Three parts: *pending* elements are younger than the watermark, and may still be overtaken; *ready* ones are not, and
not reported yet; *behind* are those up to the last element of the last report, of which as many are kept as the window
and a step hold, so that the report before can be worked out once more.

An element that comes late, into what is behind, gets no number: reports stay where they were.  It takes its place in
the order, so it is in the windows of the reports to come as far as these reach back to it.
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
    """How far reports are that were made: up to an event time (ms; -1: none), their number and the last element.

    ``last`` is a hash of that element's triple; a mark without a number is one of time alone.
    """

    upto: int = -1
    number: int = 0
    last: int = 0


class Place(NamedTuple):
    """An element in its order: the event time (ms), the text of the triple, its terms."""

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
        """The window's triples as they were told last, in the order of their elements."""
        self._disturbed = False
        """Whether a late element came into the window since."""
        self._upto = -1
        self.number = 0
        """Of the last report."""

    def __len__(self) -> int:
        return len(self._known)

    def add(self, row: Row, time: int, _: int) -> int:
        """Take in an element, whose oldest and youngest are itself.

        Returns 0 if it is late, and in the window that was told, else ``NEVER``.
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
        """Let an element take its place in what is behind, if that reaches back to it."""
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
        """The last element of the last report; before all others if there was none."""
        return self._behind[-1] if self._behind else _FIRST

    def known_upto(self, upto: int) -> None:
        """Take note that all elements up to an event time are there."""
        self._upto = max(upto, self._upto)
        while self._pending and self._pending[0].time <= self._upto:
            self._ready.append(heapq.heappop(self._pending))

    @property
    def due(self) -> int:
        """The number of the last report for which all elements are there."""
        return self.number + len(self._ready) // self._window.step

    def skip(self, first: int) -> None:
        """Count no element from before an event time; none is counted yet."""
        self._first = max(first, self._first)
        self._ready = deque(place for place in self._ready if place.time >= self._first)
        self._pending = [place for place in self._pending if place.time >= self._first]
        heapq.heapify(self._pending)
        self._known = {(place.time, place.row) for places in (self._pending, self._ready) for place in places}

    def begin(self, number: int, last: Callable[[Place], bool], upto: int) -> None:
        """Go on as after report ``number``, made up to an event time, whose last element ``last`` tells from others.

        All elements up to that time must be there, and none reported yet.
        """
        places = list(self._ready)
        of_it = [at for at, place in enumerate(places) if place.time == upto and last(place)]
        behind = of_it[-1] + 1 if of_it else bisect.bisect_right(places, upto, key=lambda place: place.time)
        self._ready = deque(places[behind:])
        self._behind = places[max(0, behind - number * self._window.step) : behind]
        self.number, self._disturbed = number, True
        self._forget()

    def back(self) -> None:
        """Go back by a report, before any was told."""
        step = self._window.step
        if self.number and len(self._behind) >= step:
            self.number -= 1
            self._ready.extendleft(reversed(self._behind[-step:]))
            del self._behind[-step:]

    def at(self, report: int) -> Iterable[tuple[Row, int]]:
        """Return how the window changes up to a report, the last one or a later one: triples in it, and out of it."""
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
        """Forget what no report reaches back to."""
        for place in self._behind[: -self._kept]:
            self._known.discard((place.time, place.row))
        del self._behind[: -self._kept]
