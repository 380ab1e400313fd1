"""Rolling forward: a publication of which something is kept becomes whole, whoever fails.

The problem.  A publication is many messages, to the keepers of each of its keys.  If the peer where it was
published fails on the way and does not come back, some keys have it and others never will: a query would see it
or not, depending on the pattern it starts from.  Its publisher was told nothing, so it may exist or not; but as a
whole.

The idea.  Every message names where its triples were published (``origin``) and all the roles they go under.
Whoever keeps triples remembers those whose publication may be unfinished.  The origin says with its messages, and
once more when it has nothing under way, up to which stamp all it published in this life of its own is complete
(and from which stamp on it lives); what is in between is forgotten.  When the origin is lost, or tells of a new
life, or this peer starts anew, everything that is still remembered is sent to all its keys.  That is idempotent,
so all keepers may do it.  Who does it may be the next to fail, so it is under way there as if it had been published
there just now.  What is given to others by repair meanwhile says where it was published as well, for the same reason.

An origin that is not seen is not noticed to be lost, so if it does not say soon that it is complete it is finished for
as if it were.  Perhaps it lives, and takes in what was finished by one that it does not see either, for a third sees
both: so what was finished for such an origin is not finished for one again, until peers come.

Bounds: what one origin has under way is bounded by its own bound on publications; what is remembered of it
here is no more than that, plus what came since it last said anything: with the next message, or after
``TELL_SECONDS``.
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
from p2prdf.peer.network.messenger import Exchange
from p2prdf.wire.messages import Contact, IndexTriples, PublicationsComplete

__all__ = ["STRANGER_SECONDS", "TELL_SECONDS", "RollForward"]

TELL_SECONDS: Final = 1.0
STRANGER_SECONDS: Final = 5.0
"""For so long an origin that is not seen is waited for to say that its publications are complete."""
STRANGERS_ROWS_MAX: Final = 10_000
"""Of so many that were finished for such origins it is remembered."""

_Row: TypeAlias = tuple[int, int, int, int, int, int]


class RollForward(Component):
    """What is kept here of publications that may be unfinished, and which of this peer's own are."""

    def __init__(self, exchange: Exchange, route: Callable[[TripleBatch], None]):
        self._exchange = exchange
        self._route = route
        self._kept: dict[int, list[tuple[int, TripleBatch]]] = {}
        """By origin, with the latest stamp in each."""
        self._strangers: dict[int, float] = {}
        """Of which origins that are not seen something is kept, and until when they are waited for."""
        self._done: dict[_Row, None] = {}
        """What was finished for such origins, each with the roles it was published under; the latest last."""
        self._open: dict[int, None] = {}  # stamps of own publications under way, ascending
        self._last = 0  # of own publications
        self._tell_at: float | None = None
        self._life_told = False
        """Whether others were told of this life."""
        self.began = 0
        """Stamp from which on this peer lives; 0: nothing has happened yet."""

    def _begin_life(self) -> None:
        if not self.began and self._exchange.replicated:
            self._last = self.began = self._exchange.life = self._exchange.tick()
            self._tell_at = self._exchange.now + TELL_SECONDS

    # --- own publications ------------------------------------------------------------------------

    def begin(self, stamp: int) -> None:
        """Note that something is being published here."""
        self._begin_life()
        self._open[stamp] = None
        self._last = stamp

    def end(self, stamp: int) -> None:
        """Note that a publication is at its owners."""
        self._open.pop(stamp, None)
        self.told(self._exchange.own.key, self.began, self.complete())
        if self._tell_at is None and self._exchange.replicated:
            self._tell_at = self._exchange.now + TELL_SECONDS

    def complete(self) -> int:
        """Return the stamp up to which all that was published here is at its owners."""
        return next(iter(self._open)) - 1 if self._open else self._last

    # --- what others published -------------------------------------------------------------------

    def note(self, batch: TripleBatch) -> None:
        """Remember triples that are stored here, until their publication is complete."""
        if not batch.origin or not len(batch) or not self._exchange.replicated:
            return
        if batch.origin == self._exchange.own.key and not self._exchange.restoring:
            batch.complete = self.complete()
        self._kept.setdefault(batch.origin, []).append((youngest(batch), batch))
        if self._exchange.restoring:
            return
        self.told(batch.origin, batch.began, batch.complete)
        if batch.origin in self._kept and not self._exchange.cache.knows(batch.origin):
            self._strangers.setdefault(batch.origin, self._exchange.now + STRANGER_SECONDS)

    def restored(self) -> None:
        """Forget what was complete when a former life ended, as far as it was kept."""
        for origin, batches in list(self._kept.items()):
            complete: dict[int, int] = {}  # per life of the origin
            for _, batch in batches:
                complete[batch.began] = max(complete.get(batch.began, 0), batch.complete)
            left = [(last, batch) for last, batch in batches if last > complete[batch.began]]
            if left:
                self._kept[origin] = left
            else:
                del self._kept[origin]

    def told(self, origin: int, began: int, complete: int) -> None:
        """Forget what is complete, and finish what a former life of its origin has left."""
        if not began:
            return
        left, kept = [], []
        for last, batch in self._kept.pop(origin, ()):
            if last < began:
                left.append(batch)
            elif last > complete:
                kept.append((last, batch))
        if kept:
            self._kept[origin] = kept
        else:
            self._strangers.pop(origin, None)
        self._finish(left)

    def finish(self, origin: int) -> None:
        """Send to all its keys what a peer that is gone may not have finished."""
        self._strangers.pop(origin, None)
        self._finish([batch for _, batch in self._kept.pop(origin, ())])

    def _not_done(self, origin: int) -> Iterator[TripleBatch]:
        """Return what is kept of an origin, and kept no more, but for what was finished for others already."""
        for _, batch in self._kept.pop(origin, ()):
            rows = {(*row[:-1], batch.published): None for row in _rows(batch)}
            if not rows.keys() <= self._done.keys():
                self._done |= rows
                yield batch
        while len(self._done) > STRANGERS_ROWS_MAX:
            del self._done[next(iter(self._done))]

    def finish_all(self) -> None:
        """Send on all that may be unfinished: this peer has started anew."""
        kept, self._kept = self._kept, {}
        self._strangers.clear()
        self._finish([batch for _, batch in chain.from_iterable(kept.values())])

    def _finish(self, batches: list[TripleBatch]) -> None:
        """Send publications to all their keys; until they are there this peer is where they are published."""
        if not batches:
            return
        exchange = self._exchange
        stamp = exchange.tick()
        self.begin(stamp)
        token = exchange.token(partial(self.end, stamp), sparing=True)
        for published, message in self._once(batches):
            exchange.trace("publication-rolled-forward", triples=len(message))
            roles = exchange.columns.full(len(message), published, "uint32")
            self._route(TripleBatch(
                message.s, message.p, message.o, message.time, message.event, roles, 0, (token,), None,
                exchange.own.key, published, self.began, 0, stamp,
            ))  # fmt: skip
        exchange.release((token,))

    def _once(self, batches: list[TripleBatch]) -> Iterator[tuple[int, TripleBatch | IndexTriples]]:
        """Return the rows of batches by the roles they are published under, each of them once.

        What several have finished, and nobody has brought to its end, is kept of each of them: if it were sent on as
        often, there would be ever more of it with each peer that fails.
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

    # --- telling ---------------------------------------------------------------------------------

    def wake(self) -> None:
        """Tell others what is complete, if nothing else has told them; at first, that there is new life.

        And finish for those that are not seen.
        """
        self._begin_life()
        for origin in [each for each, at in self._strangers.items() if at <= self._exchange.now]:
            del self._strangers[origin]
            if not self._exchange.cache.knows(origin):  # else it would be noticed to be lost
                self._exchange.trace("publications-of-a-stranger", origin=origin)
                self._finish(list(self._not_done(origin)))
        if self._tell_at is None or self._exchange.now < self._tell_at:
            return
        self._tell_at = None
        if self._open:
            self._tell_at = self._exchange.now + TELL_SECONDS
            if self._life_told:
                return
        self._life_told = True
        for contact in self._exchange.cache.contacts():
            if contact.key != self._exchange.own.key:
                self._tell(contact)

    def met(self, contact: Contact) -> None:
        """Tell a peer that came of this life: what it was told before, or was to be, may have been lost."""
        self._done.clear()
        if self._life_told:
            self._tell(contact)

    def _tell(self, contact: Contact) -> None:
        self._exchange.send(contact, PublicationsComplete(self.began, self.complete()))

    def complete_told(self, sender: Contact, message: PublicationsComplete) -> None:
        """Take in what a peer says of its own publications."""
        self.told(sender.key, message.began, message.complete)

    @property
    def deadline(self) -> float | None:
        """When others are to be told, or it is to be finished for one that is not seen."""
        due = [*self._strangers.values(), *([] if self._tell_at is None else [self._tell_at])]
        return min(due, default=None)

    def with_origin(self, message: IndexTriples) -> Iterator[IndexTriples]:
        """Return what is to be given to another peer, that apart whose publication may be unfinished.

        Such rows say where they were published, as they did when they came here.  ``message``: triples, or events,
        under one role; a triple (its event is 0) goes as all the events in which it was published then.
        """
        times = set(as_list(message.time))
        kept = chain.from_iterable(self._kept.values())
        batches = [each for _, each in kept if not times.isdisjoint(as_list(each.time))]
        if not batches:
            yield message
            return
        given = {(s, p, o, time, event): role for s, p, o, time, event, role in _rows(message)}
        rest = dict(given)
        for batch in batches:
            found: list[_Row] = []
            for s, p, o, time, event, _ in _rows(batch):
                for key in ((s, p, o, time, 0), (s, p, o, time, event)):
                    if key in given:
                        rest.pop(key, None)
                        found.append((s, p, o, time, event, given[key]))
            if found:
                yield replace(
                    self._message(found), origin=batch.origin, published=batch.published, began=batch.began,
                    complete=batch.complete, stamp=batch.stamp,
                )  # fmt: skip
        if rest:
            yield self._message([(s, p, o, time, event, role) for (s, p, o, time, event), role in rest.items()])

    def _message(self, rows: list[_Row]) -> IndexTriples:
        make = self._exchange.columns.column
        s, p, o, time, event, roles = zip(*rows, strict=True)
        return IndexTriples(
            make(s, "uint32"), make(p, "uint32"), make(o, "uint32"), make(time, "uint64"), make(event, "uint64"),
            make(roles, "uint32"),
        )  # fmt: skip

    def kept(self) -> Iterator[IndexTriples]:
        """Return what is remembered as messages."""
        for batches in list(self._kept.values()):
            for _, batch in batches:
                yield batch.message()

    def status(self) -> Mapping[str, object]:
        """Return how many triples are remembered."""
        return {"publications_kept": self.remembered}

    @property
    def remembered(self) -> int:
        """Triples remembered."""
        return sum(len(each) for batches in self._kept.values() for _, each in batches)



def _rows(triples: TripleBatch | IndexTriples) -> Iterator[_Row]:
    """Return term ids, stamp, event and roles of each triple."""
    columns = (triples.s, triples.p, triples.o, triples.time, triples.event, triples.roles)
    return zip(*map(as_list, columns), strict=True)
