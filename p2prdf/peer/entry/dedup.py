"""What was settled not long ago: an answer of which a peer was told so is handed to its subscriber no more.

A home says that an acknowledged answer is settled when all replicas know of it: none will tell it again.  But one of
them may have told it before, and the message may still be on its way: late, lost and sent again, or from a peer that
was the primary then and keeps the home no longer.  Such a message belongs to another epoch than the one
in which the answer was settled.  So where answers come in another epoch, those that were settled are taken out; in
the epoch at hand nothing is looked up.

A withdrawal may come that way, too, told before the home that told it knew that the answer is acknowledged.  So it does
not say so (``SURE``), and the subscriber, which has forgotten what was settled, would take the answer for one that
it never had.  What was settled is acknowledged: here it is said.

Two homes that change over may both settle answers for a while, each in its own epoch.

Bounds: two minutes, and a million identities at a peer; the oldest are forgotten first.  Once asked for, what an epoch
had is found until all of it is to be forgotten: as many again at the most.
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
    """Identities of settled answers, by subscription and the epoch in which they were."""

    def __init__(self, *, seconds: float = SETTLED_SECONDS, most: int = SETTLED_MAX):
        """``seconds``: how long each is remembered at least; ``most``: how many at once."""
        self._seconds = seconds
        self._most = most
        self._held: dict[int, dict[int, deque[npt.NDArray[np.uint64]]]] = {}
        self._sorted: dict[tuple[int, int], npt.NDArray[np.uint64]] = {}
        """All that was held of a subscription and an epoch when it was asked for, since something was added last."""
        self._order: deque[tuple[float, int, int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, subscription: int, identities: Column, epoch: int, now: float) -> None:
        """Note answers that were settled in an epoch, at ``now`` seconds."""
        if len(identities):
            self._sorted.pop((subscription, epoch), None)
            self._held.setdefault(subscription, {}).setdefault(epoch, deque()).append(as_array(identities))
            self._order.append((now, subscription, epoch))
            self._count += len(identities)
        while self._order and (self._order[0][0] <= now - self._seconds or self._count > self._most):
            self._forget(*self._order.popleft()[1:])

    def _forget(self, subscription: int, epoch: int) -> None:
        epochs = self._held[subscription]
        self._count -= len(epochs[epoch].popleft())
        if not epochs[epoch]:
            del epochs[epoch]
            self._sorted.pop((subscription, epoch), None)
        if not epochs:
            del self._held[subscription]

    def places_left(self, subscription: int, identities: Column, epoch: int) -> list[int] | None:
        """Return the places of the answers that were not settled; None if none was."""
        if not self._elsewhere(subscription, epoch):
            return None
        found = self._found(subscription, as_array(identities), epoch)
        return np.flatnonzero(~found).tolist() if found.any() else None

    def made_sure(self, subscription: int, identities: Column, times: Column, epoch: int) -> Column:
        """Return the times of what came, with ``SURE`` where the answer that is taken back was settled."""
        if not self._elsewhere(subscription, epoch):
            return times
        made = as_array(times).copy()
        over = np.flatnonzero((made >= _GONE) & (made & _SURE == 0))
        answers = as_array(identities)[over] ^ _WITHDRAWN
        made[over[self._found(subscription, answers, epoch)]] |= _SURE
        return made.tolist() if isinstance(times, list) else made

    def _elsewhere(self, subscription: int, epoch: int) -> list[int]:
        """Return the other epochs in which something of a subscription was settled."""
        return [each for each in self._held.get(subscription, ()) if each != epoch]

    def _found(
        self, subscription: int, identities: npt.NDArray[np.uint64], epoch: int
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Return which of some answers were settled in another epoch."""
        found = np.zeros(len(identities), np.bool_)
        for other in self._elsewhere(subscription, epoch):
            known = self._sorted.get((subscription, other))
            if known is None:
                known = np.sort(np.concatenate(self._held[subscription][other]))
                self._sorted[subscription, other] = known
            found |= known[np.minimum(np.searchsorted(known, identities), len(known) - 1)] == identities
        return found
