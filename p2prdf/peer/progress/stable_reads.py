"""Reads of a consistent state: the part of one member in a one-time query, without any record.

An entry peer asks all members at once, with a stamp T (:class:`p2prdf.wire.messages.ReadTriples`).  A member answers
when no *work up to T* is in flight at it: no message that leads to a stored triple with a stamp up to T.  The answer
has the triples that were asked for, the stamp ``at`` of reading, and ``busy_until``: since this stamp the member had no
such work.  Let C be the latest ``busy_until`` of all members.  If every member has read after C, there was a consistent
cut at C without any work up to T, so each triple up to T was stored at all its replicas before it was read.  A member
that has read at C or before reads again.

The order of stamps is the order of causes: a message, its storage, its acknowledgement and the end of its transfer
have increasing stamps, and the stamp of reading is a new one.

Nothing is stored on the disk, and a lost answer is asked for again.  A member does not answer while it may lack data:
while its view differs from the asker's, while it compares copies, or while messages wait for lookups or for more
members.  ``busy_until`` is at least the stamp of the last change of the members, and each answer names its process.

Bounds: ``QUESTIONS_MAX`` questions that wait, for ``WAIT_SECONDS``; ``HISTORY_MAX`` entries about work that has ended.

Design: docs/explanation/design/one-time-queries.md.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf import hlc
from p2prdf.columns import as_array, as_list
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.wire.messages import (
    Contact,
    Fetch,
    Forward,
    IdentityList,
    IndexQuery,
    IndexTriples,
    Message,
    ReadTriples,
    TriplesRead,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from p2prdf.columns import Column
    from p2prdf.overlay.outbox import Transfer
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.store.tables import Tables

__all__ = ["LAST_BIT", "ROWS_READ_MAX", "StableReads", "WorkHistory", "work_stamp"]

QUESTIONS_MAX: Final = 1024
"""Questions that wait at a member; later ones take the place of the oldest, which are asked again."""
WAIT_SECONDS: Final = 5.0
"""Seconds for which a question waits."""
_LOOK_AGAIN_SECONDS: Final = 0.05
"""Seconds after which a member looks at waiting questions without any other event."""
HISTORY_MAX: Final = 4096
ROWS_READ_MAX: Final = 2048
"""Triples under one key in an answer."""
_ALL_ROWS_MAX: Final = 8192
"""Triples in an answer."""
LAST_BIT: Final = 63
"""The bit of ``left_out`` for this and all further keys."""
_NEVER: Final = (1 << 64) - 1
_PLAIN: Final = np.uint64(hlc.GONE - 1)


def work_stamp(message: Message) -> int:
    """Return the least stamp of a triple that may be stored as a consequence of a message."""
    match message:
        case IndexTriples():
            times = message.time
            if len(times) == 1:
                least = int(times[0]) & (hlc.GONE - 1)
            else:
                least = int((as_array(times) & _PLAIN).min(initial=_PLAIN))
            return least if least < hlc.ELEMENT else _NEVER  # elements of streams are not read
        case Forward():
            return int(as_array(message.rows.born).min(initial=np.uint64(_NEVER))) if message.plan.concludes else _NEVER
        case IndexQuery():
            return 0 if message.plan.concludes else _NEVER
        case IdentityList() | Fetch():  # they may lead to anything
            return 0
    return _NEVER


class WorkHistory:
    """When work of which stamps was last in flight, for some time back."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, int]] = deque()
        """Pairs of the stamp of an end and the least stamp of the ended work, both increasing."""
        self._floor = 0

    def raise_floor(self, at: int) -> None:
        """Note that there may have been any work up to a stamp."""
        self._floor = max(self._floor, at)

    def ended(self, at: int, least: int) -> None:
        """Note that work has ended at a stamp, not before any noted end."""
        while self._ended and self._ended[-1][1] >= least:
            self._ended.pop()
        self._ended.append((at, least))
        if len(self._ended) > HISTORY_MAX:
            self.raise_floor(self._ended.popleft()[0])

    def busy_until(self, stamp: int) -> int:
        """Return a stamp after which no work up to ``stamp`` has ended."""
        for at, least in reversed(self._ended):
            if least <= stamp:
                return max(at, self._floor)
        return self._floor


class StableReads(Component):
    """The questions of entry peers to one member."""

    def __init__(
        self, messenger: Messenger, tables: Tables, queued: Callable[[], Iterable[Message]],
        issued: Callable[[], int], characters_of: Callable[[tuple[Column, ...]], int],
    ):  # fmt: skip
        """``queued`` returns the publications that are stamped and wait to be indexed, ``issued`` the latest stamp of a
        publication of this peer, ``characters_of`` the length of the texts of columns of terms."""
        self._messenger = messenger
        self._tables = tables
        self._queued = queued
        self._issued = issued
        self._characters_of = characters_of
        self._by_key = ByKey(messenger)
        self._history = WorkHistory()
        self._waiting: dict[tuple[int, int], tuple[Contact, ReadTriples, float]] = {}
        """By asker and number the questions that wait, with the times until which they do."""
        self._look_at: float | None = None
        self.answered = 0
        self._on = messenger.config.read_queries
        if self._on:
            messenger.when_closed(self._closed)
        messenger.signals.view_changed.connect(self.members_changed)

    def handlers(self) -> Handlers:
        """Return the handler of questions of entry peers."""
        return {ReadTriples: self._asked}

    def status(self) -> Mapping[str, object]:
        """Return the number of answers to entry peers."""
        return {"reads_answered": self.answered}

    def members_changed(self) -> None:
        """Note a change of the members: work of before may have been lost, or go other ways."""
        self._history.raise_floor(max(self._messenger.clock, self._messenger.present))

    def _closed(self, transfers: Sequence[Transfer]) -> None:
        least = min([work_stamp(each.message) for each in transfers], default=_NEVER)
        if least != _NEVER:
            self._history.ended(self._messenger.clock, least)

    def _asked(self, sender: Contact, message: ReadTriples) -> None:
        if not self._on:  # the history of work is not known
            return
        key = (sender.key, message.request)
        self._look_at = self._messenger.now
        self._waiting[key] = (sender, message, self._look_at + WAIT_SECONDS)
        if len(self._waiting) > QUESTIONS_MAX:
            del self._waiting[next(iter(self._waiting))]

    def wake(self) -> None:
        """Answer the questions that can be answered now, at the end of a turn: all arrivals are stored."""
        for key, (sender, message, until) in list(self._waiting.items()):
            if until <= self._messenger.now:
                del self._waiting[key]
            elif self._may_answer(message):
                del self._waiting[key]
                self.answered += 1
                self._by_key.reply(sender, self._read(message))
        self.dirty = bool(self._waiting)
        self._look_at = self._messenger.now + _LOOK_AGAIN_SECONDS if self._waiting else None

    @property
    def deadline(self) -> float | None:
        """When waiting questions are looked at again."""
        return self._look_at

    def _may_answer(self, message: ReadTriples) -> bool:
        """Return whether this peer has all triples up to the stamp of a question, and all work up to it has ended."""
        messenger = self._messenger
        return (
            self._same_members(message.view) and self._lacks_nothing
            and message.stamp <= messenger.clock and not self._has_work(message.stamp)
        )  # fmt: skip

    def _same_members(self, view: int) -> bool:
        return view == self._messenger.view != 0

    @property
    def _lacks_nothing(self) -> bool:
        messenger = self._messenger
        return messenger.recovery.complete and not messenger.parked and not messenger.members.short_of_peers

    def _has_work(self, stamp: int) -> bool:
        """Return whether work up to a stamp is in flight."""
        return any(work_stamp(each) <= stamp for each in self._messenger.outbox.messages()) or any(
            work_stamp(each) <= stamp for each in self._queued()
        )

    def _read(self, message: ReadTriples) -> TriplesRead:
        messenger, make = self._messenger, self._messenger.columns.column
        at = messenger.tick()
        rows: list[list[int]] = [[] for _ in range(5)]
        latest = left_out = 0
        room = _ALL_ROWS_MAX
        columns = (as_list(column) for column in (message.roles, message.s, message.p, message.o))
        for number, (role, *parts) in enumerate(zip(*columns, strict=True)):
            found, changed = None, 0
            if role:
                found, changed = self._tables.triples_at(role, (parts[0], parts[1], parts[2]), min(room, ROWS_READ_MAX))
            latest = max(latest, changed)
            if found is None:
                left_out |= 1 << min(number, LAST_BIT)
                continue
            count = len(found[0])
            room -= count
            rows[0] += [number] * count
            for column, more in zip(rows[1:], found, strict=True):
                column += as_list(more)
        s, p, o = (make(column, "uint32") for column in rows[1:4])
        if self._characters_of((s, p, o)) > messenger.config.message_bytes_max:
            left_out, rows = (1 << LAST_BIT + 1) - 1, [[] for _ in rows]
            s, p, o = (make([], "uint32") for _ in range(3))
        busy_until = self._history.busy_until(message.stamp)
        return TriplesRead(
            message.request, message.view, messenger.life, at, busy_until, self._issued(), latest, left_out,
            make(rows[0], "uint32"), s, p, o, make(rows[4]),
        )  # fmt: skip
