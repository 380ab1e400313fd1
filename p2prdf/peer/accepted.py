"""Accepted: a publication is safe before it is indexed.

The problem.  ``indexed`` waits for the keepers of all keys of all triples: for the slowest of many peers, and for ever
where none of a key's keepers can be reached.  Some publishers want to hear as soon as nothing can be lost.

The idea.  A publication whose origin is gone is rolled forward by whoever keeps something of it
(:mod:`p2prdf.peer.roll_forward`).  So whole publications are kept: here, and by the fellows of this peer's own place on
the ring (of different failure zones, as all fellows), in messages without roles, which are kept and not indexed.
When as many peers have it as copies are needed it is *accepted*: if up to all but one of them lose their disks, or all
fail and come back, the triples get to all their keys nevertheless.  It is forgotten when it is complete, as ever.

If fewer peers are there than copies are needed, or one of the fellows is lost meanwhile, or nothing is copied at all
(one replica), nobody is told that it is accepted; its publisher hears when it is indexed.  The level is never lowered.

Price: one more copy of the publication to each of ``replicas`` - 1 peers.  Rejected: the disk of this peer alone.  It
costs nothing but the write, but a publication that is accepted would wait for one machine to come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from p2prdf.peer.batches import TripleBatch, part_of_batch
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange

__all__ = ["accept"]


def accept(exchange: Exchange, engine: Engine, batch: TripleBatch, accepted: Callable[[], None]) -> None:
    """Have a publication of this peer kept whole by enough peers; call ``accepted`` when it is, if ever."""
    if not exchange.replicated or exchange.replica_map is None or exchange.short_of_peers:
        return
    fellows = exchange.fellows(exchange.own.key)

    def kept() -> None:
        if all(exchange.cache.number(fellow) > 0 for fellow in fellows):
            accepted()

    token = exchange.token(kept, sparing=True)
    whole = replace(batch, roles=exchange.columns.full(len(batch), 0, "uint32"), tokens=())
    for start, stop in engine.cutter.slices(len(whole), (whole.s, whole.p, whole.o)):
        index = exchange.columns.column(range(start, stop), "int64")
        part = part_of_batch(exchange.columns, whole, index)
        engine.keep(part)
        for fellow in fellows:
            exchange.send(fellow, part.message(), (token,))
    exchange.release((token,))
