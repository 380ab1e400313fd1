"""Redelivery: replicas complete a publication if its origin fails before it has reached all owners.

A publication is many messages, to the replicas of each of its keys.  If its origin fails on the way, some keys lack the
triples, and the result of a query would depend on its first pattern.

- Every message names its origin and all indexes of its publication.  A peer remembers stored triples until their
  publication is complete.
- The origin reports the stamp up to which its publications are complete, and the stamp at which its process began.
- A peer redelivers the remembered triples when the origin is lost or reports a new process, and when it restarts
  itself.  Redelivery is idempotent, and makes this peer the new origin.
- An origin outside the view counts as lost if it reports nothing in ``STRANGER_SECONDS``.  The same triples are
  redelivered for one such origin only, until peers come.

Bounds: an origin bounds its publications under way; those completed since its last report come on top.

Design: docs/explanation/design/replication.md, "Redelivery".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, TypeAlias

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.peer.network.batches import TripleBatch, youngest
from p2prdf.peer.network.component import Component
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.messages import Contact, IndexTriples, PublicationsComplete

__all__ = ["STRANGER_SECONDS", "TELL_SECONDS", "Publications", "Redelivery"]

TELL_SECONDS: Final = 1.0
STRANGER_SECONDS: Final = 5.0
"""How many seconds a peer waits for an origin outside its view to report complete publications."""
STRANGERS_ROWS_MAX: Final = 10_000
"""How many rows redelivered for such origins are remembered."""

_Row: TypeAlias = tuple[int, int, int, int, int, int]


class Publications(Component):
    """The publications under way of this peer.  With one copy nothing is noted: no other peer can complete them."""

    began = 0
    """The stamp at which this process began; 0: nothing has happened yet, or no other peer needs it."""

    def begin(self, stamp: int) -> None:
        """Note that a publication begins here."""

    def end(self, stamp: int) -> None:
        """Note that a publication has reached its owners."""

    def complete(self) -> int:
        """Return the stamp up to which all publications of this peer have reached their owners."""
        return 0

    def note(self, batch: TripleBatch) -> None:
        """Remember stored triples until their publication is complete."""

    def finish(self, origin: int) -> None:
        """Redeliver the publications that a lost peer may have left incomplete."""

    def finish_all(self) -> None:
        """Redeliver all publications that may be incomplete, after a restart of this peer."""

    def met(self, contact: Contact) -> None:
        """Report this process to a peer that came."""

    def status(self) -> Mapping[str, object]:
        """Return how many triples are remembered."""
        return {"redelivery_triples": self.remembered}

    @property
    def remembered(self) -> int:
        """Number of remembered triples."""
        return 0


class Redelivery(Publications):
    """The stored triples of incomplete publications, and the publications under way of this peer."""

    def __init__(self, messenger: Messenger, route: Callable[[TripleBatch], None]):
        self._messenger = messenger
        self._route = route
        self._kept: dict[int, list[tuple[int, TripleBatch]]] = {}
        """By origin: batches with the latest stamp in each."""
        self._reported: dict[int, tuple[int, int]] = {}
        """By origin: the start of its process, and the stamp up to which its publications are complete."""
        self._strangers: dict[int, float] = {}
        """By origin outside the view that has batches here: until when it is waited for."""
        self._done: dict[_Row, None] = {}
        """Rows redelivered for such origins, each with the indexes of its publication, the latest last."""
        self._open: dict[int, None] = {}  # stamps of own publications under way, ascending
        self._last = 0  # the stamp of the last own publication
        self._tell_at: float | None = None
        self._life_told = False
        """Whether the other peers have received the start of this process."""

    def _begin_life(self) -> None:
        if not self.began:
            self._last = self.began = self._messenger.life = self._messenger.tick()
            self._tell_at = self._messenger.now + TELL_SECONDS
            self.dirty = True

    # --- own publications ------------------------------------------------------------------------

    def begin(self, stamp: int) -> None:
        """Note that a publication begins here."""
        self._begin_life()
        self._open[stamp] = None
        self._last = stamp

    def end(self, stamp: int) -> None:
        """Note that a publication has reached its owners."""
        self._open.pop(stamp, None)
        self.told(self._messenger.own.key, self.began, self.complete())
        if self._tell_at is None:
            self._tell_at = self._messenger.now + TELL_SECONDS
            self.dirty = True

    def complete(self) -> int:
        """Return the stamp up to which all publications of this peer have reached their owners."""
        return next(iter(self._open)) - 1 if self._open else self._last

    # --- publications of other peers -------------------------------------------------------------

    def note(self, batch: TripleBatch) -> None:
        """Remember stored triples until their publication is complete."""
        if not batch.origin or not len(batch.s):
            return
        if batch.origin == self._messenger.own.key and not self._messenger.restoring:
            batch.complete = self.complete()
        self._kept.setdefault(batch.origin, []).append((youngest(batch), batch))
        if self._messenger.restoring:
            return
        self.told(batch.origin, batch.began, batch.complete)
        if batch.origin in self._kept and not self._messenger.cache.knows(batch.origin):
            self._strangers.setdefault(batch.origin, self._messenger.now + STRANGER_SECONDS)
            self.dirty = True

    def restored(self) -> None:
        """Forget publications that were complete before the restart, as far as the log shows."""
        for origin, batches in list(self._kept.items()):
            complete: dict[int, int] = {}  # per process of the origin
            for _, batch in batches:
                complete[batch.began] = max(complete.get(batch.began, 0), batch.complete)
            left = [(last, batch) for last, batch in batches if last > complete[batch.began]]
            if left:
                self._kept[origin] = left
            else:
                del self._kept[origin]

    def told(self, origin: int, began: int, complete: int, *, by_itself: bool = False) -> None:
        """Handle an origin's report: forget complete publications, redeliver those of its earlier processes.

        A batch that another replica gives may carry an earlier report than the last one; the origin may make no other.
        ``by_itself``: the origin reports its present process, which may have begun at an earlier stamp than the last
        one, if that stored nothing and the clock was set back.
        """
        if not began:
            return
        last_began, last_complete = self._reported.get(origin, (0, 0))
        if began == last_began:
            complete = max(complete, last_complete)
        if by_itself or began >= last_began:
            self._reported[origin] = began, complete
        left, kept = [], []
        for last, batch in self._kept.pop(origin, ()):
            if batch.began != began and (by_itself or batch.began < began):
                left.append(batch)
            elif batch.began != began or last > complete:
                kept.append((last, batch))
        if kept:
            self._kept[origin] = kept
        else:
            self._strangers.pop(origin, None)
        self._finish(left)

    def finish(self, origin: int) -> None:
        """Redeliver the publications that a lost peer may have left incomplete."""
        self._strangers.pop(origin, None)
        self._reported.pop(origin, None)
        self._finish([batch for _, batch in self._kept.pop(origin, ())])

    def _not_done(self, origin: int) -> Iterator[TripleBatch]:
        """Forget the batches of an origin and return them, without those redelivered for another one already."""
        for _, batch in self._kept.pop(origin, ()):
            rows = {(*row[:-1], batch.published): None for row in _rows(batch)}
            if not rows.keys() <= self._done.keys():
                self._done |= rows
                yield batch
        while len(self._done) > STRANGERS_ROWS_MAX:
            del self._done[next(iter(self._done))]

    def finish_all(self) -> None:
        """Redeliver all publications that may be incomplete, after a restart of this peer."""
        kept, self._kept = self._kept, {}
        self._strangers.clear()
        self._finish([batch for _, batch in chain.from_iterable(kept.values())])

    def _finish(self, batches: list[TripleBatch]) -> None:
        """Send publications to all their keys; this peer is their origin until they have arrived."""
        if not batches:
            return
        messenger = self._messenger
        stamp = messenger.tick()
        self.begin(stamp)
        token = messenger.token(partial(self.end, stamp), sparing=True)
        for published, message in self._once(batches):
            messenger.trace("publication-rolled-forward", triples=len(message))
            roles = messenger.columns.full(len(message), published, "uint32")
            self._route(TripleBatch(
                message.s, message.p, message.o, message.time, message.event, roles, 0, (token,), None,
                messenger.own.key, published, self.began, 0, stamp,
            ))  # fmt: skip
        messenger.release((token,))

    def _once(self, batches: list[TripleBatch]) -> Iterator[tuple[int, TripleBatch | IndexTriples]]:
        """Return the rows of batches, each once, by the indexes of their publication.

        If several peers have redelivered a publication and none has completed it, there is a batch of each of them.
        Sending all of them would multiply the messages with each failing peer.
        """
        if len(batches) == 1:
            yield batches[0].published, batches[0]
            return
        found: dict[tuple[int, bool], dict[_Row, None]] = {}
        for batch in batches:
            for s, p, o, time, event, _ in _rows(batch):
                kind = batch.published, hlc.plain(time) >= hlc.ELEMENT
                found.setdefault(kind, {})[s, p, o, time, event, 0] = None
        for (published, _), rows in found.items():
            yield published, self._message(list(rows))

    # --- reporting -------------------------------------------------------------------------------

    def wake(self) -> None:
        """Report the start of this process and complete publications, unless messages have reported them.

        Also redeliver for origins outside the view.
        """
        self._begin_life()
        for origin in [each for each, at in self._strangers.items() if at <= self._messenger.now]:
            del self._strangers[origin]
            if not self._messenger.cache.knows(origin):  # the loss of a known peer would be noticed
                self._messenger.trace("publications-of-a-stranger", origin=origin)
                self._finish(list(self._not_done(origin)))
        if self._tell_at is None or self._messenger.now < self._tell_at:
            return
        self._tell_at = None
        if self._open:
            self._tell_at = self._messenger.now + TELL_SECONDS
            if self._life_told:
                return
        self._life_told = True
        for contact in self._messenger.cache.contacts():
            if contact.key != self._messenger.own.key:
                self._tell(contact)

    def met(self, contact: Contact) -> None:
        """Report this process to a peer that came: an earlier report may have been lost."""
        self._done.clear()
        if self._life_told:
            self._tell(contact)

    def _tell(self, contact: Contact) -> None:
        self._messenger.send(contact, PublicationsComplete(self.began, self.complete()))

    def complete_told(self, sender: Contact, message: PublicationsComplete) -> None:
        """Handle a peer's report of its own publications."""
        self.told(sender.key, message.began, message.complete, by_itself=True)

    @property
    def deadline(self) -> float | None:
        """When a report or a redelivery for an origin outside the view is due."""
        due = [*self._strangers.values(), *([] if self._tell_at is None else [self._tell_at])]
        return min(due, default=None)

    def with_origin(self, message: IndexTriples) -> Iterator[IndexTriples]:
        """Split a message for another replica: rows of publications that may be incomplete name their origin.

        ``message`` holds triples or events under one index.  A triple (its event is 0) becomes all events in which it
        was published at that time.
        """
        times = set(as_list(message.time))
        kept = chain.from_iterable(self._kept.values())
        batches = [each for _, each in kept if not times.isdisjoint(as_list(each.time))]
        if not batches:
            yield message
            return
        given = {(s, p, o, time, event): role for s, p, o, time, event, role in _rows(message)}
        rest = dict(given)
        found: dict[tuple[int, int, int, bool], tuple[dict[_Row, None], TripleBatch]] = {}
        for batch in batches:  # a row that was given before is in several batches, and would be in more each time
            for s, p, o, time, event, _ in _rows(batch):
                for key in ((s, p, o, time, 0), (s, p, o, time, event)):
                    if key in given:
                        rest.pop(key, None)
                        kind = batch.origin, batch.published, batch.began, hlc.plain(time) >= hlc.ELEMENT
                        rows, latest = found.get(kind, ({}, batch))
                        rows[s, p, o, time, event, given[key]] = None
                        found[kind] = rows, max(latest, batch, key=lambda each: (each.complete, each.stamp))
        for rows, batch in found.values():
            yield replace(
                self._message(list(rows)), origin=batch.origin, published=batch.published, began=batch.began,
                complete=batch.complete, stamp=batch.stamp,
            )  # fmt: skip
        if rest:
            yield self._message([(s, p, o, time, event, role) for (s, p, o, time, event), role in rest.items()])

    def _message(self, rows: list[_Row]) -> IndexTriples:
        make = self._messenger.columns.column
        s, p, o, time, event, roles = zip(*rows, strict=True)
        return IndexTriples(
            make(s, "uint32"), make(p, "uint32"), make(o, "uint32"), make(time, "uint64"), make(event, "uint64"),
            make(roles, "uint32"),
        )  # fmt: skip

    def kept(self) -> Iterator[IndexTriples]:
        """Return the remembered batches as messages."""
        for batches in list(self._kept.values()):
            for _, batch in batches:
                yield batch.message()

    @property
    def remembered(self) -> int:
        """Number of remembered triples."""
        return sum(len(each) for batches in self._kept.values() for _, each in batches)



def _rows(triples: TripleBatch | IndexTriples) -> Iterator[_Row]:
    """Return the term ids, stamp, event and indexes of each triple."""
    columns = (triples.s, triples.p, triples.o, triples.time, triples.event, triples.roles)
    return zip(*map(as_list, columns), strict=True)
