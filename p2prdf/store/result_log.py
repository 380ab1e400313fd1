"""Result log: the solutions of one subscription until they are acknowledged.

Each replica of a coordinator keeps a log per subscription.  Solutions reach the replicas in different orders,
repeatedly, and perhaps after their acknowledgement.  The log is therefore a set by identity with a delivery state per
solution (:mod:`p2prdf.store.answer_marks`), without an agreed order: logs of different replicas converge.

One replica delivers, in *epochs*.  Within an epoch solutions are numbered from 1 in order of arrival, and at most a
window of them is unacknowledged.  :meth:`ResultLog.restart` begins an epoch: everything unacknowledged is delivered
again, from 1.

A *retraction* is an entry of its own: same bindings, the stamp of the deletion with ``GONE`` as its time, and an
identity derived from the solution's.  It stops the delivery of a solution that still waits or arrives later.  Another
replica may have delivered the solution, so a retraction is always delivered and states whether the solution is known
to be acknowledged (``SURE``).  When the retraction is acknowledged or dropped, the solution counts as acknowledged
too; otherwise a snapshot would forget it, and a late copy would be delivered after its retraction.

A log holds at most ``rows_max`` unacknowledged solutions and about ``characters_max`` of text, and drops the oldest
beyond; :meth:`ResultLog.expire` drops those that are too old.  The next solutions report a loss (``lost``) until one
of them is acknowledged.

Rows are kept as the chunks of columns in which they arrived, without an object per row.  A chunk leaves when all its
rows are acknowledged; if a few rows hold up many, the remaining ones are copied together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from p2prdf import hlc
from p2prdf.columns import ARRAYS, Column, Columns, as_array, as_list
from p2prdf.hlc import GONE
from p2prdf.store.answer_marks import Mark, Ordinals, make_marks
from p2prdf.wire.messages import SURE, WITHDRAWN

__all__ = ["EARLY_MAX", "Chunk", "ResultLog", "withdrawals"]

EARLY_MAX: Final = 65_536
"""Bound on a subscriber's acknowledgements that arrive before their solutions."""
_WAITING: Final = (Mark.PENDING, Mark.SENT)
_CLOSED: Final = (Mark.DONE, Mark.LOST, Mark.REPORTED, Mark.DROPPED)
"""States of entries that are exported without their bindings."""
_SLACK_ROWS: Final = 4096
"""Number of superfluous rows that do not justify copying the others."""


@dataclass(slots=True)
class Chunk:
    """Solutions to deliver, numbered from ``first``; ``lost`` solutions were dropped right before.

    Without solutions and without columns of bindings if there is only a loss to report.
    """

    first: int
    lost: int
    identity: Column
    born: Column
    bindings: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.identity)

    def part(self, start: int, stop: int) -> Chunk:
        """Return the solutions at places start..stop-1."""
        return Chunk(
            self.first + start,
            self.lost if start == 0 else 0,
            self.identity[start:stop],
            self.born[start:stop],
            tuple(column[start:stop] for column in self.bindings),
        )


@dataclass(slots=True)
class _Stretch:
    """The rows of solutions by ordinal."""

    ordinals: Ordinals
    identity: Column
    born: Column
    bindings: tuple[Column, ...]
    characters: int


def withdrawals(columns: Columns, identity: Column) -> Column:
    """Return the identities of the retractions of some solutions, or of the solutions of some retractions."""
    if columns is ARRAYS:
        return as_array(identity) ^ np.uint64(WITHDRAWN)
    return [each ^ WITHDRAWN for each in as_list(identity)]


def _places_over(born: Column) -> list[int]:
    """Return the places of retractions."""
    if isinstance(born, list):
        return [at for at, each in enumerate(born) if each >= GONE]
    places: list[int] = np.flatnonzero(born >= np.uint64(GONE)).tolist()
    return places


class ResultLog:
    """The solutions of one subscription; the unacknowledged ones with their bindings."""

    def __init__(
        self, columns: Columns, rows_max: int, characters_max: int = 1 << 62, *, early_max: int = EARLY_MAX
    ):
        self.rows_max = rows_max
        self.characters_max = characters_max
        self.early_max = early_max
        self.sent = 0
        """Number of the last solution that was delivered, or reported lost, in this epoch."""
        self.dropped_total = 0
        """Number of solutions dropped here before acknowledgement."""
        self.version = 0
        """Changes with the set of known, or of acknowledged, solutions, which other replicas should know."""
        self.lost_total = 0
        """Number of solutions reported lost, in all epochs."""
        self._columns = columns
        self._marks = make_marks(columns)
        self._stretches: deque[_Stretch] = deque()
        self._next = 0  # place of the first stretch that may have something to deliver
        self._rows = 0  # of all stretches
        self._held = 0
        self._characters = 0
        self._under_way = 0
        self._early = 0
        self._any_over = False  # whether a retraction has ever come before its solution was delivered
        self._to_report: list[int] = []
        self._unanchored: list[int] = []
        self._gaps: dict[int, list[int]] = {}  # losses reported together with the solution of this ordinal

    def __len__(self) -> int:
        """Return the number of solutions held and not acknowledged."""
        return self._held

    @property
    def known(self) -> int:
        """Number of known identities, including acknowledged ones."""
        return len(self._marks)

    def lacks(self, identity: Column) -> bool:
        """Return whether any of the identities is unknown."""
        return len(self._marks.find(identity)) < len(identity)

    def knows(self, identity: Column) -> list[bool]:
        """Return for each identity whether it is known."""
        return self._marks.knows(identity)

    @property
    def characters(self) -> int:
        """Estimated number of characters of text held."""
        return self._characters

    @property
    def handed_out(self) -> bool:
        """Whether this epoch has delivered every solution and reported every loss."""
        while self._next < len(self._stretches):
            if self._marks.places(self._stretches[self._next].ordinals, (Mark.PENDING,)):
                return False
            self._next += 1
        return not self._to_report

    # --- in --------------------------------------------------------------------------------------

    def withdraw(self, identity: Column, born: Column, bindings: tuple[Column, ...], characters: int = 0) -> int:
        """Take in retractions; return the number of new ones.

        ``identity`` holds the identities of the retractions, and ``born`` their stamps (with ``GONE``); the rest is
        as in :meth:`append`.
        """
        fresh = self.append(identity, born, bindings, characters)
        if fresh:
            answers = withdrawals(self._columns, identity)
            marks = self._marks
            marks.insert(answers, Mark.OVER)
            self._any_over = True
            self._held -= len(marks.move(marks.find(answers), (Mark.PENDING,), Mark.OVER))
            marks.move(marks.find(answers), (Mark.LOST,), Mark.OVER)
            self._close_over(marks.find(identity))
            self._tidy()
        return fresh

    def append(self, identity: Column, born: Column, bindings: tuple[Column, ...], characters: int = 0) -> int:
        """Add the solutions that are new; return their number.  ``characters``: the approximate length of all texts."""
        first = len(self._marks)
        places = self._marks.insert(identity, Mark.PENDING)
        fresh = len(places)
        if fresh == 0:
            return 0
        if fresh < len(identity):
            index = self._columns.column(places, "int64")
            take = self._columns.take
            characters = characters * fresh // len(identity)
            identity, born = take(identity, index), take(born, index)
            bindings = tuple(take(column, index) for column in bindings)
        self.version += 1
        self._stretches.append(_Stretch(range(first, first + fresh), identity, born, bindings, characters))
        self._rows += fresh
        self._held += fresh
        self._characters += characters
        self._drop_surplus()
        return fresh

    def acknowledge(self, identity: Column, *, surely: bool = False) -> Column:
        """Record the subscriber's acknowledgement; return the identities that were not acknowledged before.

        Acknowledging a solution also acknowledges the loss reported with it.  Solutions that are not known yet will
        not be delivered when they arrive; ``early_max`` of these are remembered, and all that another replica
        remembers (``surely``).
        """
        marks = self._marks
        known = marks.find(identity)
        done: list[int] = []
        if len(known) < len(identity) and (surely or self._early < self.early_max):
            first = len(marks)
            marks.insert(identity, Mark.DONE)
            done += range(first, len(marks))
            self._early += 0 if surely else len(done)
        sent = marks.move(known, (Mark.SENT,), Mark.DONE)
        self._under_way -= len(sent)
        self._held -= len(sent)
        done += sent
        dropped: list[int] = []
        if len(sent) < len(known):
            dropped = marks.move(known, (Mark.DROPPED,), Mark.DONE)
            self._under_way -= len(dropped)
            pending = marks.move(known, (Mark.PENDING,), Mark.DONE)
            self._held -= len(pending)
            done += dropped + pending + marks.move(known, (Mark.LOST, Mark.REPORTED, Mark.OVER), Mark.DONE)
        if self._gaps:
            for each in sent + dropped:
                done += marks.move(self._gaps.pop(each, []), (Mark.LOST, Mark.REPORTED), Mark.DONE)
        done += self._close_over(done)
        self._tidy()
        self.version += bool(done)
        return marks.identities(done)

    def _close_over(self, ordinals: list[int]) -> list[int]:
        """Count solutions as acknowledged if their retraction is among these and no longer waits.

        Returns the ordinals of these solutions.
        """
        marks = self._marks
        if not self._any_over:
            return []
        closed = [ordinals[place] for place in marks.places(ordinals, _CLOSED)]
        if not closed:
            return []
        answers = marks.find(withdrawals(self._columns, marks.identities(closed)))
        return marks.move(answers, (Mark.OVER,), Mark.DONE)

    def lose(self, identity: Column) -> None:
        """Record that another replica dropped solutions: those that are unknown here are reported to the subscriber."""
        first = len(self._marks)
        self._marks.insert(identity, Mark.LOST)
        self._to_report += range(first, len(self._marks))
        self.version += len(self._marks) > first

    # --- dropping --------------------------------------------------------------------------------

    def expire(self, before: int) -> bool:
        """Drop solutions older than a stamp, in order, up to the first chunk with a later one.

        Returns whether there were any.
        """
        held = self._held
        while self._stretches and max(map(hlc.plain, as_list(self._stretches[0].born))) < before:
            self._drop(self._stretches[0], len(self._stretches[0].identity))
            self._shift()
        return self._held < held

    def _drop_surplus(self) -> None:
        while self._characters > self.characters_max and len(self._stretches) > 1:
            self._drop(self._stretches[0], len(self._stretches[0].identity))
            self._shift()
        while self._held > self.rows_max:
            self._drop(self._stretches[0], self._held - self.rows_max)
            self._tidy()

    def _drop(self, stretch: _Stretch, count: int) -> None:
        """Drop the first ``count`` unacknowledged solutions of a stretch."""
        places = self._marks.places(stretch.ordinals, _WAITING)[:count]
        ordinals = [stretch.ordinals[place] for place in places]
        self._held -= len(ordinals)
        self.dropped_total += len(ordinals)
        self._to_report += self._marks.move(ordinals, (Mark.PENDING,), Mark.LOST)
        self._marks.move(ordinals, (Mark.SENT,), Mark.DROPPED)
        self.version += bool(self._close_over(ordinals))

    def _shift(self) -> None:
        stretch = self._stretches.popleft()
        self._next = max(0, self._next - 1)
        self._rows -= len(stretch.identity)
        self._characters -= stretch.characters

    def _tidy(self) -> None:
        """Forget rows that are no longer needed."""
        while self._stretches and not self._marks.places(self._stretches[0].ordinals, _WAITING):
            self._shift()
        if self._rows > 2 * self._held + _SLACK_ROWS:
            self._stretches = deque(part for each in self._stretches if (part := self._waiting_part(each)))
            self._next = 0
            self._rows = sum(len(each.identity) for each in self._stretches)
            self._characters = sum(each.characters for each in self._stretches)

    def _waiting_part(self, stretch: _Stretch) -> _Stretch | None:
        places = self._marks.places(stretch.ordinals, _WAITING)
        if len(places) == len(stretch.identity):
            return stretch
        return self._part(stretch, places) if places else None

    def _part(self, stretch: _Stretch, places: list[int]) -> _Stretch:
        """Return some rows of a stretch."""
        first, count = places[0], len(places)
        characters = stretch.characters * count // len(stretch.identity)
        if places[-1] - first + 1 == count:  # the places are consecutive
            rows = slice(first, first + count)
            bindings = tuple(column[rows] for column in stretch.bindings)
            return _Stretch(stretch.ordinals[rows], stretch.identity[rows], stretch.born[rows], bindings, characters)
        index = self._columns.column(places, "int64")
        take = self._columns.take
        return _Stretch(
            [stretch.ordinals[place] for place in places], take(stretch.identity, index), take(stretch.born, index),
            tuple(take(column, index) for column in stretch.bindings), characters,
        )  # fmt: skip

    # --- out -------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Begin a new epoch: number from 1 again, and deliver everything that is not acknowledged."""
        marks = self._marks
        if self._under_way:
            marks.move_all(Mark.SENT, Mark.PENDING)
            marks.move_all(Mark.DROPPED, Mark.LOST)
        marks.move_all(Mark.REPORTED, Mark.LOST)
        self._leave_out_withdrawn()
        self._to_report = marks.having((Mark.LOST,))
        self._unanchored = []
        self._gaps.clear()
        self.sent = self._under_way = self._next = 0

    def take(self, window: int, chunk_max: int) -> Iterator[Chunk]:
        """Yield the next deliveries, while at most ``window`` solutions are unacknowledged.

        If more wait than the window has room for, half of the window is delivered at a time: otherwise each
        acknowledgement of one solution would lead to the delivery of one (the silly window of RFC 813).
        """
        if window - self._under_way < min(self._held - self._under_way, window // 2):
            return
        while (room := min(window - self._under_way, chunk_max)) > 0:
            part = self._next_part(room)
            if part is None:
                break
            lost = self._report_lost()
            if self._unanchored:
                self._gaps[part.ordinals[0]], self._unanchored = self._unanchored, []
            count = len(part.identity)
            first = self.sent + lost + 1
            self.sent = first + count - 1
            self._under_way += count
            yield Chunk(first, lost, part.identity, self._with_certainty(part), part.bindings)
        if self._to_report and self._under_way < window:
            lost = self._report_lost()
            self.sent += lost
            nothing = self._columns.column(())
            yield Chunk(self.sent + 1, lost, nothing, nothing, ())

    def _leave_out_withdrawn(self) -> None:
        """Do not deliver a solution again if its retraction waits."""
        for stretch in self._stretches:
            over = _places_over(stretch.born)
            if over:
                answers = withdrawals(self._columns, self._columns.take(stretch.identity, over))
                found = self._marks.find(answers)
                self._any_over = True
                self._held -= len(self._marks.move(found, (Mark.PENDING,), Mark.OVER))
                self._marks.move(found, (Mark.LOST,), Mark.OVER)
        self._tidy()

    def _with_certainty(self, part: _Stretch) -> Column:
        """Return the times of deliveries, with ``SURE`` on retractions of acknowledged solutions."""
        over = _places_over(part.born)
        if not over:
            return part.born
        answers = withdrawals(self._columns, self._columns.take(part.identity, over))
        times = list(as_list(part.born))
        for at, ordinal in zip(over, self._marks.find(answers), strict=True):
            if self._marks.places([ordinal], (Mark.DONE,)):
                times[at] |= SURE
        return self._columns.column(times)

    def _report_lost(self) -> int:
        """Count the losses that are not reported yet; the next delivery reports them."""
        told = self._marks.move(self._to_report, (Mark.LOST,), Mark.REPORTED)
        self._to_report = []
        self._unanchored += told
        self.lost_total += len(told)
        return len(told)

    def _next_part(self, room: int) -> _Stretch | None:
        """Return the next rows to deliver, at most ``room``, and mark them as sent."""
        while self._next < len(self._stretches):
            stretch = self._stretches[self._next]
            places = self._marks.places(stretch.ordinals, (Mark.PENDING,))
            if len(places) <= room:
                self._next += 1
            if places:
                part = self._part(stretch, places[:room])
                self._marks.move(list(part.ordinals), (Mark.PENDING,), Mark.SENT)
                return part
        return None

    # --- for the other replicas ------------------------------------------------------------------

    def state(self) -> tuple[Column, Column]:
        """Return the identities of all known solutions, by ordinal, and for each 1 if it is acknowledged, else 0."""
        return self._marks.state()

    def export(self, ordinals: list[int]) -> tuple[Column, Column, list[Chunk]]:
        """Return the state of some solutions (ordinals ascending).

        These are the identities of acknowledged ones, those of lost ones, and the rows of the others.
        """
        marks = self._marks
        done = [ordinals[place] for place in marks.places(ordinals, (Mark.DONE,))]
        lost = [ordinals[place] for place in marks.places(ordinals, (Mark.LOST, Mark.REPORTED, Mark.DROPPED))]
        wanted = dict.fromkeys(ordinals[place] for place in marks.places(ordinals, _WAITING))
        chunks = []
        for stretch in self._stretches if wanted else ():
            places = [place for place, each in enumerate(stretch.ordinals) if each in wanted]
            if places:
                part = self._part(stretch, places)
                chunks.append(Chunk(0, 0, part.identity, part.born, part.bindings))
        return marks.identities(done), marks.identities(lost), chunks
