"""Taking over: whoever becomes the primary of some keys joins again what lies under them.

The primary of a key joins what it stores under it and sends on what comes of it; the others of the replica set only
store.  When peers come or go, or when this peer has started anew, it is the primary of keys whose primary was another.
Nobody can say what that one had joined, and what of it has arrived.  So all of it is joined again
(:mod:`p2prdf.store.rejoin`).  In the same view a peer joins all that comes to it, so afterwards every pair
under these keys has been joined here, whatever happened before.

So it is when a peer hears late of a subscription to a query that it knows: it may have left out, for want of anybody
who waits, what this subscription is owed (:meth:`p2prdf.store.tables.Tables.take_widened`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from p2prdf.columns import Column, as_array
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.network.messenger import Exchange
from p2prdf.store.tables import Chosen

__all__ = ["Takeover"]


class Takeover:
    """Which keys this peer has been joining: those it is the primary of by the view it knew last."""

    def __init__(self, exchange: Exchange, rejoin: Callable[[Chosen], None]):
        """``rejoin`` joins what lies under chosen keys again."""
        self._exchange = exchange
        self._rejoin = rejoin
        self._known: ReplicaMap | None = None
        self._all: Chosen
        exchange.signals.view_changed.connect(self.view_changed)
        exchange.signals.index_widened.connect(self.again)

    def view_changed(self) -> None:
        """Join again what lies under keys that have become this peer's."""
        now, before = self._exchange.replica_map, self._known
        if now is None:
            return
        self._known = now
        self._all = partial(_gained, now, None)
        self._rejoin(partial(_gained, now, before))

    def again(self) -> None:
        """Join again what lies under all keys that this peer is the primary of."""
        if self._known is not None:
            self._rejoin(self._all)


def _gained(now: ReplicaMap, before: ReplicaMap | None, _: int, ring_keys: Column) -> npt.NDArray[np.bool_]:
    """Return for each key whether this peer is its primary now, and was not before."""
    asked = as_array(ring_keys)
    mine: npt.NDArray[np.bool_] = now.primaries(asked) == 0
    if before is not None:
        mine &= before.primaries(asked) != 0
    return mine
