"""Names of subscriptions and groups that are ended: remembered, so that nothing brings them back.

Each end has a stamp, and is remembered for ``ENDED_SECONDS`` after it: all replicas forget it at the same time,
so none of them brings it back to another.  There is room for ``ENDED_MAX``; beyond, those that ended first are
forgotten first, which is again the same everywhere.
"""

from __future__ import annotations

import heapq
from typing import Final

from p2prdf import hlc

__all__ = ["ENDED_MAX", "ENDED_SECONDS", "Ends"]

ENDED_SECONDS: Final = 86_400.0
ENDED_MAX: Final = 131_072


class Ends:
    """Ended names, with the stamps of their ends."""

    def __init__(self, ended_max: int = ENDED_MAX):
        self._ended_max = ended_max
        self._stamps: dict[tuple[bool, int], int] = {}
        self._serials: dict[int, tuple[bool, int]] = {}
        self._serial = 0
        self._oldest: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._stamps)

    def has(self, name: int, *, subscription: bool) -> bool:
        """Return whether a subscription, or else a group, is known to be ended."""
        return (subscription, name) in self._stamps

    def stamp(self, name: int, *, subscription: bool) -> int | None:
        """Return when something ended, as far as known."""
        return self._stamps.get((subscription, name))

    def add(self, name: int, stamp: int, *, subscription: bool) -> None:
        """Note an end; what is too old among too many is forgotten."""
        if (subscription, name) in self._stamps:
            return
        self._stamps[subscription, name] = stamp
        self._serial += 1
        self._serials[self._serial] = subscription, name
        heapq.heappush(self._oldest, (stamp, self._serial))
        if len(self._stamps) > self._ended_max:
            self._forget()

    def _forget(self) -> None:
        _, serial = heapq.heappop(self._oldest)
        del self._stamps[self._serials.pop(serial)]

    def expire(self, now: float) -> None:
        """Forget those that ended long ago."""
        before = hlc.from_seconds(max(0.0, now - ENDED_SECONDS))
        while self._oldest and self._oldest[0][0] < before:
            self._forget()

    def all(self) -> list[tuple[int, int, bool]]:
        """Return a serial number, the name, and whether it is a subscription, of all."""
        return [(serial, name, subscription) for serial, (subscription, name) in self._serials.items()]

    def at(self, serial: int) -> tuple[int, int, bool] | None:
        """Return name, stamp and whether it is a subscription; None if that is forgotten."""
        found = self._serials.get(serial)
        return None if found is None else (found[1], self._stamps[found], found[0])
