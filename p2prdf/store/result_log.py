"""What a subscription still has to be told: its answers, until they are acknowledged.

The problem
-----------
Each replica of a home keeps a log of its own for each subscription.  Answers reach the replicas in different
orders, more than once, and perhaps after they were acknowledged (the acknowledgement of an answer that one
replica delivered may reach another before the answer does).  A replica that becomes home hands out what it
holds, and nobody has told it how far its predecessor was.

The idea
--------
The log is a set by identity, and a mark per answer (:mod:`p2prdf.store.answer_marks`) says how far it is; no
order is agreed on.  Adding what is known changes nothing, acknowledging what is not known yet makes it known
as done.  So the log comes out the same whatever the order, and logs of different replicas grow together.

Handing out is the business of one replica and of one *epoch*.  In an epoch answers are handed out in order of
arrival, numbered from 1, at most a window of them unacknowledged.  :meth:`ResultLog.restart` begins another:
everything not acknowledged is to be handed out, from 1.

What is taken back
------------------
An answer that is no longer true is *withdrawn*, by an entry of its own: with the same contents, the stamp of the
removal (and ``GONE``) as its time, and an identity that follows from that of the answer.  Each of the two comes once,
and the later state counts: with its withdrawal an answer that waits is not handed out any more, nor is one that
comes later.  Whether a subscriber has an answer is not known for certain here, for another replica may have told it.
So withdrawals are always told, and say whether the answer is known to be acknowledged (``SURE``); if it is not, the
subscriber knows it or has never had it.  An answer that waits no more (``OVER``) is exported with the contents of its
withdrawal.  A withdrawal that is acknowledged or dropped has none: then the answer counts as acknowledged too.  Else a
snapshot would forget it, and a late copy from another replica would be handed out after its withdrawal.

What is dropped
---------------
A log holds at most ``rows_max`` unacknowledged answers and about ``characters_max`` of their text, and drops the
oldest beyond; :meth:`ResultLog.expire` drops what is older than wanted.  A loss is told with the next answers
(``lost``), and counts as told when one of these is acknowledged: until then another epoch tells it again.

Contents are kept as the chunks of columns they came in, without an object per row.  Acknowledged rows leave
with their chunk; if a few that stay hold up many, what is left is copied together.
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
"""Acknowledgements of a subscriber that a log takes before their answers."""
_WAITING: Final = (Mark.PENDING, Mark.SENT)
_CLOSED: Final = (Mark.DONE, Mark.LOST, Mark.TOLD, Mark.DROPPED)
"""Marks of what is not exported with its contents."""
_SLACK_ROWS: Final = 4096
"""Rows that need not be held any more and are not worth copying the others."""


@dataclass(slots=True)
class Chunk:
    """Answers handed out, the first numbered ``first``; ``lost`` were dropped right before it.

    Without any answer if there is only a loss to tell; it has no columns of bindings then.
    """

    first: int
    lost: int
    identity: Column
    born: Column
    bindings: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.identity)

    def part(self, start: int, stop: int) -> Chunk:
        """Return the answers at places start..stop-1."""
        return Chunk(
            self.first + start,
            self.lost if start == 0 else 0,
            self.identity[start:stop],
            self.born[start:stop],
            tuple(column[start:stop] for column in self.bindings),
        )


@dataclass(slots=True)
class _Stretch:
    """Contents of answers by ordinal."""

    ordinals: Ordinals
    identity: Column
    born: Column
    bindings: tuple[Column, ...]
    characters: int


def withdrawals(columns: Columns, identity: Column) -> Column:
    """Return the identities of the withdrawals of some answers, or of the answers of some withdrawals."""
    if columns is ARRAYS:
        return as_array(identity) ^ np.uint64(WITHDRAWN)
    return [each ^ WITHDRAWN for each in as_list(identity)]


def _places_over(born: Column) -> list[int]:
    """Return the places of withdrawals."""
    if isinstance(born, list):
        return [at for at, each in enumerate(born) if each >= GONE]
    places: list[int] = np.flatnonzero(born >= np.uint64(GONE)).tolist()
    return places


class ResultLog:
    """The answers of one subscription, those not acknowledged with their contents."""

    def __init__(
        self, columns: Columns, rows_max: int, characters_max: int = 1 << 62, *, early_max: int = EARLY_MAX
    ):
        self.rows_max = rows_max
        self.characters_max = characters_max
        self.early_max = early_max
        self.sent = 0
        """Number of the answer handed out last in this epoch, or told to be lost."""
        self.dropped_total = 0
        """Answers dropped here before they were acknowledged."""
        self.version = 0
        """Changes with what other replicas should know: which answers are known, and which are acknowledged."""
        self.lost_total = 0
        """Answers told to be lost, in all epochs."""
        self._columns = columns
        self._marks = make_marks(columns)
        self._stretches: deque[_Stretch] = deque()
        self._next = 0  # place of the first stretch that may have something to hand out
        self._rows = 0  # of all stretches
        self._held = 0
        self._characters = 0
        self._under_way = 0
        self._early = 0
        self._to_tell: list[int] = []
        self._unanchored: list[int] = []
        self._gaps: dict[int, list[int]] = {}  # told with the answer of this ordinal: these are lost

    def __len__(self) -> int:
        """Return the number of answers held and not acknowledged."""
        return self._held

    @property
    def known(self) -> int:
        """Number of identities known, acknowledged ones among them."""
        return len(self._marks)

    def lacks(self, identity: Column) -> bool:
        """Return whether any of these is not known."""
        return len(self._marks.find(identity)) < len(identity)

    def knows(self, identity: Column) -> list[bool]:
        """Return of each whether it is known."""
        return self._marks.knows(identity)

    @property
    def characters(self) -> int:
        """Characters of text held, as estimated."""
        return self._characters

    @property
    def handed_out(self) -> bool:
        """Whether nothing is left to be handed out or told in this epoch."""
        while self._next < len(self._stretches):
            if self._marks.places(self._stretches[self._next].ordinals, (Mark.PENDING,)):
                return False
            self._next += 1
        return not self._to_tell

    # --- in --------------------------------------------------------------------------------------

    def withdraw(self, identity: Column, born: Column, bindings: tuple[Column, ...], characters: int = 0) -> int:
        """Take answers back; return the number of those of which that is news.

        ``identity`` is that of the withdrawals, and ``born`` says when (with ``GONE``); else as in :meth:`append`.
        """
        fresh = self.append(identity, born, bindings, characters)
        if fresh:
            answers = withdrawals(self._columns, identity)
            marks = self._marks
            marks.insert(answers, Mark.OVER)
            self._held -= len(marks.move(marks.find(answers), (Mark.PENDING,), Mark.OVER))
            marks.move(marks.find(answers), (Mark.LOST,), Mark.OVER)
            self._close_over(marks.find(identity))
            self._tidy()
        return fresh

    def append(self, identity: Column, born: Column, bindings: tuple[Column, ...], characters: int = 0) -> int:
        """Add those answers that are new; return their number.  ``characters``: the text of all, about."""
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
        """Note that the subscriber is done with some; return the identities of which that is news.

        With an answer the loss is acknowledged that was told with it.  Those that are not known yet will not
        be handed out when they come; of these some ``early_max`` are remembered, and all that another replica
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
        dropped = marks.move(known, (Mark.DROPPED,), Mark.DONE)
        self._under_way -= len(sent) + len(dropped)
        pending = marks.move(known, (Mark.PENDING,), Mark.DONE)
        self._held -= len(sent) + len(pending)
        done += sent + dropped + pending + marks.move(known, (Mark.LOST, Mark.TOLD, Mark.OVER), Mark.DONE)
        if self._gaps:
            for each in sent + dropped:
                done += marks.move(self._gaps.pop(each, []), (Mark.LOST, Mark.TOLD), Mark.DONE)
        done += self._close_over(done)
        self._tidy()
        self.version += bool(done)
        return marks.identities(done)

    def _close_over(self, ordinals: list[int]) -> list[int]:
        """Count answers as acknowledged whose withdrawals, among these, wait no more; return the answers' ordinals."""
        marks = self._marks
        closed = [ordinals[place] for place in marks.places(ordinals, _CLOSED)]
        if not closed:
            return []
        answers = marks.find(withdrawals(self._columns, marks.identities(closed)))
        return marks.move(answers, (Mark.OVER,), Mark.DONE)

    def lose(self, identity: Column) -> None:
        """Note that some were dropped elsewhere: if they are not known here either, the subscriber is to be told."""
        first = len(self._marks)
        self._marks.insert(identity, Mark.LOST)
        self._to_tell += range(first, len(self._marks))
        self.version += len(self._marks) > first

    # --- dropping --------------------------------------------------------------------------------

    def expire(self, before: int) -> bool:
        """Drop the answers born before a stamp, in order, up to the first chunk with a younger one.

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
        """Drop the first ``count`` of a stretch that are not acknowledged."""
        places = self._marks.places(stretch.ordinals, _WAITING)[:count]
        ordinals = [stretch.ordinals[place] for place in places]
        self._held -= len(ordinals)
        self.dropped_total += len(ordinals)
        self._to_tell += self._marks.move(ordinals, (Mark.PENDING,), Mark.LOST)
        self._marks.move(ordinals, (Mark.SENT,), Mark.DROPPED)
        self.version += bool(self._close_over(ordinals))

    def _shift(self) -> None:
        stretch = self._stretches.popleft()
        self._next = max(0, self._next - 1)
        self._rows -= len(stretch.identity)
        self._characters -= stretch.characters

    def _tidy(self) -> None:
        """Forget contents that nobody needs."""
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
        if places[-1] - first + 1 == count:  # they follow each other
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
        """Begin another epoch: number from 1 again, and hand out all that is not acknowledged."""
        marks = self._marks
        if self._under_way:
            marks.move_all(Mark.SENT, Mark.PENDING)
            marks.move_all(Mark.DROPPED, Mark.LOST)
        marks.move_all(Mark.TOLD, Mark.LOST)
        self._leave_out_withdrawn()
        self._to_tell = marks.having((Mark.LOST,))
        self._unanchored = []
        self._gaps.clear()
        self.sent = self._under_way = self._next = 0

    def take(self, window: int, chunk_max: int) -> Iterator[Chunk]:
        """Hand out what was not handed out, while at most ``window`` answers are unacknowledged."""
        while (room := min(window - self._under_way, chunk_max)) > 0:
            part = self._next_part(room)
            if part is None:
                break
            lost = self._tell_lost()
            if self._unanchored:
                self._gaps[part.ordinals[0]], self._unanchored = self._unanchored, []
            count = len(part.identity)
            first = self.sent + lost + 1
            self.sent = first + count - 1
            self._under_way += count
            yield Chunk(first, lost, part.identity, self._with_certainty(part), part.bindings)
        if self._to_tell and self._under_way < window:
            lost = self._tell_lost()
            self.sent += lost
            nothing = self._columns.column(())
            yield Chunk(self.sent + 1, lost, nothing, nothing, ())

    def _leave_out_withdrawn(self) -> None:
        """Hand out no answer again whose withdrawal waits."""
        for stretch in self._stretches:
            over = _places_over(stretch.born)
            if over:
                answers = withdrawals(self._columns, self._columns.take(stretch.identity, over))
                found = self._marks.find(answers)
                self._held -= len(self._marks.move(found, (Mark.PENDING,), Mark.OVER))
                self._marks.move(found, (Mark.LOST,), Mark.OVER)
        self._tidy()

    def _with_certainty(self, part: _Stretch) -> Column:
        """Return the times of what is handed out, with ``SURE`` where the answer taken back was acknowledged."""
        over = _places_over(part.born)
        if not over:
            return part.born
        answers = withdrawals(self._columns, self._columns.take(part.identity, over))
        times = list(as_list(part.born))
        for at, ordinal in zip(over, self._marks.find(answers), strict=True):
            if self._marks.places([ordinal], (Mark.DONE,)):
                times[at] |= SURE
        return self._columns.column(times)

    def _tell_lost(self) -> int:
        """Count what is lost and not told; it is told with what is handed out next."""
        told = self._marks.move(self._to_tell, (Mark.LOST,), Mark.TOLD)
        self._to_tell = []
        self._unanchored += told
        self.lost_total += len(told)
        return len(told)

    def _next_part(self, room: int) -> _Stretch | None:
        """Return what is to be handed out next, at most ``room`` rows, as sent."""
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
        """Return the identities of all answers known, by ordinal, and for each 1 if it is acknowledged, else 0."""
        return self._marks.state()

    def export(self, ordinals: list[int]) -> tuple[Column, Column, list[Chunk]]:
        """Return what is known of some answers (ordinals ascending).

        The identities of those acknowledged, of those lost, and the contents of the others.
        """
        marks = self._marks
        done = [ordinals[place] for place in marks.places(ordinals, (Mark.DONE,))]
        lost = [ordinals[place] for place in marks.places(ordinals, (Mark.LOST, Mark.TOLD, Mark.DROPPED))]
        wanted = dict.fromkeys(ordinals[place] for place in marks.places(ordinals, _WAITING))
        chunks = []
        for stretch in self._stretches if wanted else ():
            places = [place for place, each in enumerate(stretch.ordinals) if each in wanted]
            if places:
                part = self._part(stretch, places)
                chunks.append(Chunk(0, 0, part.identity, part.born, part.bindings))
        return marks.identities(done), marks.identities(lost), chunks
