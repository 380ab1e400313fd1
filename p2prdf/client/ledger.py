"""Identities of received solutions: each solution reaches the application exactly once.

A solution is known by its identity until it is *stable*: all replicas of the coordinator have stored its
acknowledgement. A repeated solution is dropped and, if it was acknowledged, acknowledged again, since a replica
has not heard of it. The resume token is the list of the identities delivered and not stable.

A solution that was only delivered is not acknowledged: after a crash, the restarted process would not know it.
A *retraction* has an identity that follows from its solution's, and is delivered if and only if the solution
was. The ledger decides that, except for stable solutions, which it forgets: the coordinator knows these, and
marks their retractions (``SURE``). A stable solution arrives again only from a coordinator wrongly believed
dead; the last ``STABLE_MAX`` are remembered for that case.

docs/explanation/design/client.md gives the reasons.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Final

from p2prdf.hlc import GONE
from p2prdf.wire.messages import SURE, WITHDRAWN

__all__ = ["STABLE_MAX", "Ledger"]

STABLE_MAX: Final = 65_536
"""Bound on the remembered identities of stable solutions."""


class Ledger:
    """Identities of a subscription's solutions: queued, delivered, acknowledged, stable."""

    def __init__(self, *, delivered: int = 0, lost: int = 0, unstable: tuple[int, ...] = (), again: bool = False):
        """Continue from a token: ``unstable`` and all up to sequence number ``delivered`` were processed.

        ``again``: the application took later solutions and reads them again, so every retraction counts as new.
        """
        self._again = again
        self.delivered = delivered
        """Sequence number of the last delivered solution."""
        self.acknowledged = delivered
        """Sequence number up to which the application has acknowledged."""
        self.lost = lost
        """Number of solutions reported as lost so far."""
        self._taken = delivered
        self._unstable = dict.fromkeys(unstable, delivered)
        self._open: deque[tuple[int, list[int]]] = deque()
        """Unacknowledged solutions: sequence number of the first, identities."""
        self._stable: dict[int, None] = {}

    @property
    def taken(self) -> int:
        """Sequence number of the last received solution."""
        return self._taken

    def take(self, identities: list[int], times: list[int], lost: int) -> tuple[int, list[int], list[int]]:
        """Take in solutions and retractions (told apart by their times); ``lost`` are missing before them.

        A retraction of a solution that was never delivered, and never will be, is not new: it counts as
        processed.

        Returns the sequence number of the first new item, the places of the new ones, and the identities that
        arrived again although they are acknowledged.
        """
        unstable, stable = self._unstable, self._stable
        never_had: list[int] = []
        if times and max(times) >= GONE and not self._again:
            places = self._places_new(identities, times, never_had)
        else:
            places = [at for at, each in enumerate(identities) if each not in unstable and each not in stable]
        fresh, again = identities, []
        if len(places) < len(identities):
            fresh = [identities[place] for place in places]
            again = [each for each in identities if unstable.get(each, 0) <= self.acknowledged]
            again = [each for each in again if each in unstable or each in stable]
            again += never_had
        first = self._taken + lost + 1
        unstable.update(zip(fresh, range(first, first + len(fresh)), strict=True))
        if fresh:
            self._open.append((first, fresh))
        self._taken += lost + len(fresh)
        return first, places, again

    def _places_new(self, identities: list[int], times: list[int], never_had: list[int]) -> list[int]:
        """Return the places of new items; add solutions retracted before they arrived to ``never_had``."""
        known: tuple[Container[int], ...] = (self._unstable, self._stable)
        places: dict[int, int] = {}
        for at, (identity, time) in enumerate(zip(identities, times, strict=True)):
            if identity in places or any(identity in each for each in known):
                continue
            answer = identity ^ WITHDRAWN
            if time < GONE or time & SURE or answer in places or any(answer in each for each in known):
                places[identity] = at
            else:
                self._unstable[identity] = self._unstable[answer] = 0
                never_had.append(answer)
        return list(places.values())

    def deliver(self, upto: int, lost: int) -> None:
        """Note that everything up to a sequence number is delivered, and ``lost`` more solutions are lost."""
        self.delivered = upto
        self.lost += lost

    def acknowledge(self, upto: int) -> list[int]:
        """Note an acknowledgement up to a sequence number; return the newly acknowledged identities."""
        done: list[int] = []
        while self._open and self._open[0][0] <= upto:
            first, identities = self._open.popleft()
            count = upto - first + 1
            done += identities[:count]
            if count < len(identities):
                self._open.appendleft((upto + 1, identities[count:]))
                break
        self.acknowledged = max(self.acknowledged, upto)
        return done

    def mark_stable(self, identities: list[int]) -> None:
        """Note that solutions are stable: they never arrive again."""
        for each in identities:
            if self._unstable.pop(each, None) is not None:
                self._stable[each] = None
        while len(self._stable) > STABLE_MAX:
            del self._stable[next(iter(self._stable))]

    def forget_queued(self) -> None:
        """Forget the solutions that are not delivered yet: all of them arrive again."""
        while self._open and self._open[-1][0] > self.delivered:
            for each in self._open.pop()[1]:
                del self._unstable[each]
        if self._open:
            first, identities = self._open[-1]
            kept = max(0, self.delivered - first + 1)
            for each in identities[kept:]:
                del self._unstable[each]
            del identities[kept:]
        self._taken = self.delivered

    @property
    def dealt_with(self) -> list[int]:
        """Identities acknowledged and not stable."""
        return [each for each, number in self._unstable.items() if number <= self.acknowledged]

    @property
    def unstable(self) -> list[int]:
        """Identities delivered and not stable: the content of a resume token."""
        return [each for each, number in self._unstable.items() if number <= self.delivered]
