"""Taking over: whoever becomes the primary of some keys joins again what lies under them.

The primary of a key joins what it stores under it and sends on what comes of it; the others of the replica set only
store.  When peers come or go, or when this peer has started anew, it is the primary of keys whose primary was another.
Nobody can say what that one had joined, and what of it has arrived.  So all of it is joined again
(:mod:`p2prdf.store.rejoin`).  In the same view a peer joins all that comes to it, so afterwards every pair
under these keys has been joined here, whatever happened before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from p2prdf.columns import Column, as_array
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange

__all__ = ["Takeover"]


class Takeover:
    """Which keys this peer has been joining: those it is the primary of by the view it knew last."""

    def __init__(self, exchange: Exchange, engine: Engine):
        self._exchange = exchange
        self._engine = engine
        self._known: ReplicaMap | None = None

    def view_changed(self) -> None:
        """Join again what lies under keys that have become this peer's."""
        now, before = self._exchange.replica_map, self._known
        if now is None:
            return
        self._known = now

        def chosen(_: int, ring_keys: Column) -> npt.NDArray[np.bool_]:
            asked = as_array(ring_keys)
            mine: npt.NDArray[np.bool_] = now.primaries(asked) == 0
            if before is not None:
                mine &= before.primaries(asked) != 0
            return mine

        self._engine.rejoin(chosen)
