"""What was settled not long ago: an answer of which a peer was told so is handed to its subscriber no more.

A home says that an acknowledged answer is settled when all replicas know of it: none will tell it again.  But one of
them may have told it before, and the message may still be on its way: late, lost and sent again, or from a peer that
was the primary then and keeps the home no longer.  Such a message belongs to another epoch than the one
in which the answer was settled.  So where answers come in another epoch, those that were settled are taken out; in
the epoch at hand nothing is looked up.

A withdrawal may come that way, too, told before the home that told it knew that the answer is acknowledged.  So it does
not say so (``SURE``), and the subscriber, which has forgotten what was settled, would take the answer for one that
it never had.  What was settled is acknowledged: here it is said.

Bounds: two minutes, and a million identities at a peer; the oldest are forgotten first.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from p2prdf.columns import Column, as_array
from p2prdf.hlc import GONE
from p2prdf.wire.messages import SURE, WITHDRAWN

__all__ = ["RecentlySettled"]

SETTLED_SECONDS: Final = 120.0
SETTLED_MAX: Final = 1_000_000
_GONE, _SURE, _WITHDRAWN = (np.uint64(each) for each in (GONE, SURE, WITHDRAWN))


class RecentlySettled:
    """Identities of settled answers, by subscription."""

    def __init__(self, *, seconds: float = SETTLED_SECONDS, most: int = SETTLED_MAX):
        """``seconds``: how long each is remembered; ``most``: how many at once."""
        self._seconds = seconds
        self._most = most
        self._held: dict[int, deque[npt.NDArray[np.uint64]]] = {}
        self._epochs: dict[int, int] = {}
        self._sorted: dict[int, npt.NDArray[np.uint64]] = {}
        """All that is held of a subscription, made when it is asked for: a new home tells much in a new epoch."""
        self._order: deque[tuple[float, int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, subscription: int, identities: Column, epoch: int, now: float) -> None:
        """Note answers that were settled in an epoch, at ``now`` seconds."""
        if len(identities):
            self._epochs[subscription] = epoch
            self._sorted.pop(subscription, None)
            self._held.setdefault(subscription, deque()).append(as_array(identities))
            self._order.append((now, subscription))
            self._count += len(identities)
        while self._order and (self._order[0][0] <= now - self._seconds or self._count > self._most):
            self._forget(self._order.popleft()[1])

    def _forget(self, subscription: int) -> None:
        held = self._held[subscription]
        self._count -= len(held.popleft())
        self._sorted.pop(subscription, None)
        if not held:
            del self._held[subscription], self._epochs[subscription]

    def places_left(self, subscription: int, identities: Column, epoch: int) -> list[int] | None:
        """Return the places of the answers that were not settled; None if none was."""
        known = self._known(subscription, epoch)
        if known is None:
            return None
        found = _among(known, as_array(identities))
        return np.flatnonzero(~found).tolist() if found.any() else None

    def made_sure(self, subscription: int, identities: Column, times: Column, epoch: int) -> Column:
        """Return the times of what came, with ``SURE`` where the answer that is taken back was settled."""
        known = self._known(subscription, epoch)
        if known is None:
            return times
        made = as_array(times).copy()
        over = np.flatnonzero((made >= _GONE) & (made & _SURE == 0))
        made[over[_among(known, as_array(identities)[over] ^ _WITHDRAWN)]] |= _SURE
        return made.tolist() if isinstance(times, list) else made

    def _known(self, subscription: int, epoch: int) -> npt.NDArray[np.uint64] | None:
        """Return what was settled of a subscription, ascending; None if nothing is to be looked up in an epoch."""
        held = self._held.get(subscription)
        if held is None or self._epochs[subscription] == epoch:
            return None
        known = self._sorted.get(subscription)
        if known is None:
            known = self._sorted[subscription] = np.sort(np.concatenate(held))
        return known


def _among(known: npt.NDArray[np.uint64], identities: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which identities are among those known, which are ascending and not none."""
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, identities), len(known) - 1)] == identities
    return found
