"""Recently stable solutions: late repetitions are dropped before they reach the subscriber.

A solution is stable when all replicas of its coordinator know its acknowledgement.  None sends it again, but an earlier
message may still be in flight: a retransmission, or a message of a former primary.  Such a message belongs to another
epoch than the one in which the solution became stable.  Solutions are therefore looked up in the other epochs only, and
the current epoch costs nothing.

A late retraction of an acknowledged solution may lack the flag ``SURE``, because its sender did not know the
acknowledgement.  The subscriber has forgotten the stable solution and would take it for undelivered, so the flag is
added here.

During a failover, two coordinators may both report stable solutions, each in its own epoch.

Bounds: two minutes and a million identities per peer, the oldest are forgotten first; sorted copies of epochs that were
looked up, up to the same size.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from p2prdf.columns import Column, as_array
from p2prdf.hlc import GONE
from p2prdf.wire.messages import SURE, WITHDRAWN

__all__ = ["RecentlyStable"]

SETTLED_SECONDS: Final = 120.0
SETTLED_MAX: Final = 1_000_000
_GONE, _SURE, _WITHDRAWN = (np.uint64(each) for each in (GONE, SURE, WITHDRAWN))


class RecentlyStable:
    """Identities of stable solutions, by subscription and epoch."""

    def __init__(self, *, seconds: float = SETTLED_SECONDS, most: int = SETTLED_MAX):
        """``seconds``: minimum time to remember each; ``most``: how many are remembered at once."""
        self._seconds = seconds
        self._most = most
        self._held: dict[int, dict[int, deque[npt.NDArray[np.uint64]]]] = {}
        self._sorted: dict[tuple[int, int], npt.NDArray[np.uint64]] = {}
        """Sorted identities of a subscription and epoch, cached since the last lookup or addition."""
        self._order: deque[tuple[float, int, int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, subscription: int, identities: Column, epoch: int, now: float) -> None:
        """Note solutions that became stable in an epoch, at ``now`` seconds."""
        if len(identities):
            self._sorted.pop((subscription, epoch), None)
            self._held.setdefault(subscription, {}).setdefault(epoch, deque()).append(as_array(identities))
            self._order.append((now, subscription, epoch))
            self._count += len(identities)
        while self._order and (self._order[0][0] <= now - self._seconds or self._count > self._most):
            self._forget(*self._order.popleft()[1:])

    def _forget(self, subscription: int, epoch: int) -> None:
        epochs = self._held.get(subscription)
        if epochs is None or epoch not in epochs:
            return  # the subscription has ended
        self._count -= len(epochs[epoch].popleft())
        if not epochs[epoch]:
            del epochs[epoch]
            self._sorted.pop((subscription, epoch), None)
        if not epochs:
            del self._held[subscription]

    def end(self, subscription: int) -> None:
        """Forget the solutions of a subscription that has ended for good."""
        for epoch, stable in self._held.pop(subscription, {}).items():
            self._sorted.pop((subscription, epoch), None)
            self._count -= sum(map(len, stable))
        while self._order and self._order[0][1] not in self._held:
            self._order.popleft()

    def places_left(self, subscription: int, identities: Column, epoch: int) -> list[int] | None:
        """Return the places of the solutions that are not stable; None if none is stable."""
        if not self._elsewhere(subscription, epoch):
            return None
        found = self._found(subscription, as_array(identities), epoch)
        return np.flatnonzero(~found).tolist() if found.any() else None

    def made_sure(self, subscription: int, identities: Column, times: Column, epoch: int) -> Column:
        """Return the times of solutions, with ``SURE`` at retractions of stable ones."""
        if not self._elsewhere(subscription, epoch):
            return times
        made = as_array(times).copy()
        over = np.flatnonzero((made >= _GONE) & (made & _SURE == 0))
        answers = as_array(identities)[over] ^ _WITHDRAWN
        made[over[self._found(subscription, answers, epoch)]] |= _SURE
        return made.tolist() if isinstance(times, list) else made

    def _elsewhere(self, subscription: int, epoch: int) -> list[int]:
        """Return the other epochs with stable solutions of a subscription."""
        return [each for each in self._held.get(subscription, ()) if each != epoch]

    def _found(
        self, subscription: int, identities: npt.NDArray[np.uint64], epoch: int
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Return which solutions became stable in another epoch."""
        found = np.zeros(len(identities), np.bool_)
        for other in self._elsewhere(subscription, epoch):
            known = self._sorted.get((subscription, other))
            if known is None:
                known = np.sort(np.concatenate(self._held[subscription][other]))
                self._sorted[subscription, other] = known
            found |= known[np.minimum(np.searchsorted(known, identities), len(known) - 1)] == identities
        return found
