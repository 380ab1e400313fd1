"""Durable staging: whole publications are stored at enough peers before they are indexed.

The level ``indexed`` waits for the replicas of all keys, hence for the slowest of many peers.  For ``accepted``, this
peer and the other replicas of its own key (in different failure zones) store the whole publication, in messages without
indexes.  When ``copies_min`` peers have it, it is accepted: if all but one of them lose their disks, or all fail and
return, redelivery completes it.  With too few peers, a lost replica or one replica in total, the publisher hears when
the publication is indexed.

Every deletion is staged before it takes effect, because its consequences (retractions, later validity intervals) must
not outlive it.  Later publications of this peer about its subjects wait for it, so a new value follows the retraction
of the old one.  A transaction is staged first, too: one message holds all of it, so a peer with a copy can redeliver
everything if this peer is lost.

Cost: a copy at ``replicas`` - 1 peers, and a round trip before a deletion or transaction.

Design: docs/explanation/design/replication.md, "Redelivery", and docs/explanation/design/settled.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.peer.network.batches import TripleBatch, part_of_batch
from p2prdf.peer.network.chunking import Chunker
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.limits import ROWS_MAX

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact, IndexTriples

__all__ = ["Confirm", "Indexing", "Staging"]

Confirm = Callable[[Callable[[bool], None]], None]
"""Calls its argument later, with whether a staged publication may still be indexed."""


@dataclass(slots=True, eq=False)
class _Queued:
    """A queued publication: a deletion or transaction until it is staged, or a later publication about its subjects."""

    batch: TripleBatch
    route: Callable[[], None]
    """Indexes the batch and the rows that follow from it."""
    subjects: frozenset[int]
    ready: bool


class Indexing:
    """Publications of this peer.  With one copy they are indexed at once, and accepted when they are indexed."""

    def __init__(self, messenger: Messenger, route: Callable[[TripleBatch], None]):
        """``route`` indexes a batch."""
        self._messenger = messenger
        self._route = route

    def index(
        self, batch: TripleBatch, *more: TripleBatch, accepted: Callable[[], None] | None = None,  # noqa: ARG002
        atomic: bool = False, confirm: Confirm | None = None,  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Index a publication.

        ``more``: batches that follow from it.  ``accepted`` is called when enough peers have stored it, if ever.
        ``atomic``: none of it is indexed before enough peers have stored all of it, and ``confirm`` then agrees.
        """
        self._route_all((batch, *more))

    def _route_all(self, batches: tuple[TripleBatch, ...]) -> None:
        """Index the batches of one publication.

        The additions of a transaction follow when its deletions are indexed: subscribers of immediate delivery learn of
        a new value after the retraction of the old one.
        """
        whole, *more = batches
        if not 0 < _deletions(whole) < len(whole):
            for each in batches:
                self._route(each)
            return
        messenger = self._messenger
        deleting = [time >= GONE for time in as_list(whole.time)]
        first, rest = (
            part_of_batch(messenger.columns, whole, messenger.columns.column(places, "int64"))
            for places in ([at for at, each in enumerate(deleting) if each is wanted] for wanted in (True, False))
        )

        def deleted() -> None:
            for each in (rest, *more):
                self._route(each)
            messenger.release(whole.tokens)

        messenger.hold(whole.tokens)
        token = messenger.token(messenger.traces.later(deleted), sparing=True)
        first.tokens = (*whole.tokens, token)
        self._route(first)
        messenger.release((token,))

    def ring_known(self) -> None:
        """Continue with publications that waited for a complete view."""

    def queued(self) -> list[IndexTriples]:
        """Return the publications that wait to be indexed, as messages."""
        return []


class Staging(Indexing):
    """Publications that are staged at enough peers before they are indexed."""

    def __init__(
        self, messenger: Messenger, chunker: Chunker,
        keep: Callable[[TripleBatch], None], route: Callable[[TripleBatch], None],
    ):  # fmt: skip
        """``keep`` stores a batch without indexes at this peer; ``route`` indexes one."""
        super().__init__(messenger, route)
        self._placement = messenger.placement
        self._chunker = chunker
        self._keep = keep
        self._queue: list[_Queued] = []
        """In the order of the stamps."""
        self._waiting: list[Callable[[], None]] = []
        """Publications to be staged first that wait until the replica set is known."""

    def index(
        self, batch: TripleBatch, *more: TripleBatch, accepted: Callable[[], None] | None = None,
        atomic: bool = False, confirm: Confirm | None = None,
    ) -> None:  # fmt: skip
        """Index a publication; deletions and transactions after staging."""
        if atomic or _deletions(batch):
            self._keep_first(self._enqueue((batch, *more), ready=False), accepted, confirm)
            return
        if accepted is not None and self._placement.known and not self._messenger.members.short_of_peers:
            self._keep_whole(batch, partial(_if_all, accepted))
        if self._queue:
            self._enqueue((batch, *more), ready=True)
            self._advance()
        else:
            self._route_all((batch, *more))

    def queued(self) -> list[IndexTriples]:
        """Return the publications that wait to be indexed, as messages; they may be acknowledged already."""
        return [queued.batch.message() for queued in self._queue]

    def _enqueue(self, batches: tuple[TripleBatch, ...], *, ready: bool) -> _Queued:
        batch = batches[0]
        route = self._messenger.traces.later(partial(self._route_all, batches))
        queued = _Queued(batch, route, frozenset(as_list(batch.s)), ready)
        self._messenger.hold(batch.tokens)
        self._queue.append(queued)
        return queued

    def _advance(self) -> None:
        """Index the publications that no longer wait for an earlier one."""
        left: list[_Queued] = []
        done: list[_Queued] = []
        for queued in self._queue:  # usually only the first is ready
            if queued.ready and all(queued.subjects.isdisjoint(each.subjects) for each in left):
                done.append(queued)
            else:
                left.append(queued)
        self._queue = left
        for queued in done:
            queued.route()
            self._messenger.release(queued.batch.tokens)

    def _keep_first(
        self, queued: _Queued, accepted: Callable[[], None] | None, confirm: Confirm | None = None
    ) -> None:
        """Stage a queued publication; it may be indexed when enough peers have it, and it is confirmed."""
        messenger = self._messenger
        again = partial(self._keep_first, queued, accepted, confirm)

        def confirmed(may_go_on: bool) -> None:
            if not may_go_on:
                self._queue.remove(queued)
                messenger.release(queued.batch.tokens)
            else:
                if accepted is not None:
                    accepted()
                queued.ready = True
            self._advance()

        def kept(all_there: bool) -> None:
            if not all_there:  # a lost peer may have had the only other copy
                again()
            elif confirm is None:
                confirmed(True)
            else:
                confirm(confirmed)

        if messenger.members.short_of_peers:
            messenger.wait_for_peers(again)
        elif not self._placement.known or not self._all_there(self._placement.fellows(messenger.own.key)):
            self._waiting.append(messenger.traces.later(again))
        else:
            self._keep_whole(queued.batch, kept)

    def ring_known(self) -> None:
        """Continue with publications that waited for a complete view."""
        waiting, self._waiting = self._waiting, []
        for again in waiting:
            again()

    def _keep_whole(self, batch: TripleBatch, kept: Callable[[bool], None]) -> None:
        """Stage a publication, in one message if one can hold it; call ``kept`` when enough peers have stored it.

        ``kept`` receives whether all replicas are still present.
        """
        messenger = self._messenger
        fellows = self._placement.fellows(messenger.own.key)
        token = messenger.token(lambda: kept(self._all_there(fellows)), sparing=True)
        whole = replace(batch, roles=messenger.columns.full(len(batch), 0, "uint32"), tokens=())
        for start, stop in self._chunker.slices(len(whole), (whole.s, whole.p, whole.o), ROWS_MAX):
            index = messenger.columns.column(range(start, stop), "int64")
            part = part_of_batch(messenger.columns, whole, index)
            self._keep(part)
            for fellow in fellows:
                messenger.send(fellow, part.message(), (token,))
        messenger.release((token,))

    def _all_there(self, fellows: list[Contact]) -> bool:
        return all(self._messenger.cache.number(fellow) > 0 for fellow in fellows)


def _if_all(accepted: Callable[[], None], all_there: bool) -> None:
    if all_there:
        accepted()


def _deletions(batch: TripleBatch) -> int:
    """Return the number of deletions in a batch."""
    if isinstance(batch.time, list):
        return sum(time >= GONE for time in batch.time)
    return int((batch.time >= np.uint64(GONE)).sum())
