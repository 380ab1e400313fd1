"""Failover: a peer that becomes the primary of keys joins everything under them again.

The primary of a key joins the triples and rows under the key and sends the results on; the other replicas only store
them.  When peers come or go, or after a restart, a peer becomes the primary of keys that another peer led.  It cannot
know which results its predecessor sent and which of them arrived, so it recomputes all (:mod:`p2prdf.store.rejoin`).
Within one view a peer joins everything that comes to it, so afterwards every pair under these keys has been joined.

A peer recomputes everything as well when it hears late of a subscription to a known query: it may have skipped
results that only this subscription is owed (:meth:`p2prdf.store.tables.Tables.take_widened`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from p2prdf.columns import Column, as_array
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.network.messenger import Messenger
from p2prdf.store.tables import Chosen

__all__ = ["Failover"]


class Failover:
    """Recomputation for the keys that this peer leads by its view and did not lead before."""

    def __init__(self, messenger: Messenger, rejoin: Callable[[Chosen], None]):
        """``rejoin`` recomputes the joins under chosen keys."""
        self._messenger = messenger
        self._rejoin = rejoin
        self._known: ReplicaMap | None = None
        self._all: Chosen
        messenger.signals.view_changed.connect(self.view_changed)

    def view_changed(self) -> None:
        """Recompute the keys that this peer leads now and did not lead by the view before."""
        now, before = self._messenger.placement.replica_map, self._known
        if now is None:
            return
        self._known = now
        self._all = partial(_gained, now, None)
        self._rejoin(partial(_gained, now, before))

    def again(self) -> None:
        """Recompute all keys that this peer leads."""
        if self._known is not None:
            self._rejoin(self._all)


def _gained(now: ReplicaMap, before: ReplicaMap | None, _: int, ring_keys: Column) -> npt.NDArray[np.bool_]:
    """Return for each key whether this peer is its primary now, and was not before."""
    asked = as_array(ring_keys)
    mine: npt.NDArray[np.bool_] = now.primaries(asked) == 0
    if before is not None:
        mine &= before.primaries(asked) != 0
    return mine
