"""Kept whole first: publications that are safe before they are indexed.

The problem.  ``indexed`` waits for the keepers of all keys of all triples: for the slowest of many peers, and for ever
where none of a key's keepers can be reached.  Some publishers want to hear as soon as nothing can be lost.

The idea.  A publication whose origin is gone is rolled forward by whoever keeps something of it
(:mod:`p2prdf.peer.replication.redelivery`).  So whole publications are kept: here, and by the fellows of this peer's
own place on the ring (of different failure zones, as all fellows), in messages without roles, which are kept and not
indexed. When as many peers have it as copies are needed it is *accepted*: if up to all but one of them lose their
disks, or all fail and come back, the triples get to all their keys nevertheless.  It is forgotten when it is complete,
as ever.

If fewer peers are there than copies are needed, or one of the fellows is lost meanwhile, or nothing is copied at all
(one replica), nobody is told that it is accepted; its publisher hears when it is indexed.  The level is never lowered.

Price: one more copy of the publication to each of ``replicas`` - 1 peers.  Rejected: the disk of this peer alone.  It
costs nothing but the write, but a publication that is accepted would wait for one machine to come back.

Removals
--------
Whoever holds a removal ends a stay of its triple and takes what is published later for the next one
(:mod:`p2prdf.store.stays`): answers are taken back, and others have identities that follow from the stamp of the
removal.  If it were forgotten after that, by a peer that loses its disk before others have it, nobody would ever
take these answers back, and what is true again would be over at its home.  So all removals are kept whole by
enough peers before any of them takes effect.  Price: that copy, and one round trip to the fellows before a triple is
removed.  What was only published needs none of it: forgotten, it is published again or was never acknowledged, and its
answers have the identities they would have had.

What is published meanwhile about subjects that a removal of this peer is about waits for it: a value that is replaced
is taken back before there is another, and what is removed and published again is told in this order.
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
from p2prdf.peer.network.chunking import Cutter
from p2prdf.peer.network.messenger import Exchange

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact

__all__ = ["Safekeeping"]


@dataclass(slots=True, eq=False)
class _Queued:
    """A publication that waits: a removal until enough peers keep it, others for such a removal."""

    batch: TripleBatch
    route: Callable[[], None]
    """Has it, and what comes along, indexed."""
    subjects: frozenset[int]
    ready: bool


class Safekeeping:
    """Publications that are kept whole by enough peers before they are indexed."""

    def __init__(
        self, exchange: Exchange, cutter: Cutter,
        keep: Callable[[TripleBatch], None], route: Callable[[TripleBatch], None],
    ):  # fmt: skip
        """``keep`` has a batch without roles kept by this peer, ``route`` has one indexed."""
        self._exchange = exchange
        self._cutter = cutter
        self._keep = keep
        self._route = route
        self._queue: list[_Queued] = []
        """In the order of their stamps."""
        self._waiting: list[Callable[[], None]] = []
        """Removals that wait until it is known who the fellows are."""

    def index(
        self, batch: TripleBatch, *more: TripleBatch, accepted: Callable[[], None] | None = None
    ) -> None:
        """Have a publication of this peer indexed, removals when enough peers keep it whole.

        ``more``: what comes along and follows from it.  ``accepted`` is called when enough peers keep it, if ever.
        """
        exchange = self._exchange
        if exchange.replicated and _removes(batch):
            self._keep_removal(self._enqueue((batch, *more), ready=False), accepted)
            return
        if accepted is not None and exchange.replica_map is not None and not exchange.members.short_of_peers:
            self._keep_whole(batch, partial(_if_all, accepted))
        if self._queue:
            self._enqueue((batch, *more), ready=True)
            self._advance()
        else:
            self._route_all((batch, *more))

    def _route_all(self, batches: tuple[TripleBatch, ...]) -> None:
        for each in batches:
            self._route(each)

    def _enqueue(self, batches: tuple[TripleBatch, ...], *, ready: bool) -> _Queued:
        batch = batches[0]
        route = self._exchange.traces.later(partial(self._route_all, batches))
        queued = _Queued(batch, route, frozenset(as_list(batch.s)), ready)
        self._exchange.hold(batch.tokens)
        self._queue.append(queued)
        return queued

    def _advance(self) -> None:
        """Have indexed what waits for nothing before it."""
        left: list[_Queued] = []
        done: list[_Queued] = []
        for queued in self._queue:  # mostly the first of them is ready, and nothing before it
            if queued.ready and all(queued.subjects.isdisjoint(each.subjects) for each in left):
                done.append(queued)
            else:
                left.append(queued)
        self._queue = left
        for queued in done:
            queued.route()
            self._exchange.release(queued.batch.tokens)

    def _keep_removal(self, queued: _Queued, accepted: Callable[[], None] | None) -> None:
        exchange = self._exchange
        again = partial(self._keep_removal, queued, accepted)

        def kept(all_there: bool) -> None:
            if not all_there:  # one was lost, perhaps with the only other copy
                again()
                return
            if accepted is not None:
                accepted()
            queued.ready = True
            self._advance()

        if exchange.members.short_of_peers:
            exchange.wait_for_peers(again)
        elif exchange.replica_map is None or not self._all_there(exchange.fellows(exchange.own.key)):
            self._waiting.append(exchange.traces.later(again))
        else:
            self._keep_whole(queued.batch, kept)

    def ring_known(self) -> None:
        """Go on with what waited until all of the ring is known."""
        waiting, self._waiting = self._waiting, []
        for again in waiting:
            again()

    def _keep_whole(self, batch: TripleBatch, kept: Callable[[bool], None]) -> None:
        """Have a publication kept whole; call ``kept`` when enough peers do: with whether all fellows are there."""
        exchange = self._exchange
        fellows = exchange.fellows(exchange.own.key)
        token = exchange.token(lambda: kept(self._all_there(fellows)), sparing=True)
        whole = replace(batch, roles=exchange.columns.full(len(batch), 0, "uint32"), tokens=())
        for start, stop in self._cutter.slices(len(whole), (whole.s, whole.p, whole.o)):
            index = exchange.columns.column(range(start, stop), "int64")
            part = part_of_batch(exchange.columns, whole, index)
            self._keep(part)
            for fellow in fellows:
                exchange.send(fellow, part.message(), (token,))
        exchange.release((token,))

    def _all_there(self, fellows: list[Contact]) -> bool:
        return all(self._exchange.cache.number(fellow) > 0 for fellow in fellows)


def _if_all(accepted: Callable[[], None], all_there: bool) -> None:
    if all_there:
        accepted()


def _removes(batch: TripleBatch) -> bool:
    """Return whether a batch has any removal."""
    if isinstance(batch.time, list):
        return any(time >= GONE for time in batch.time)
    return bool((batch.time >= np.uint64(GONE)).any())
