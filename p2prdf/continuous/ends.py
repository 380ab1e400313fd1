"""Tombstones of subscriptions and groups, so that no replica restores an ended one.

Each end has a stamp and is remembered for ``ENDED_SECONDS`` after it.  All replicas forget it at the same time, so
none restores it at another.  Beyond ``ENDED_MAX`` the earliest ends are forgotten first, again the same at all
replicas.
"""

from __future__ import annotations

import heapq
from typing import Final

from p2prdf import hlc

__all__ = ["ENDED_MAX", "ENDED_SECONDS", "Ends"]

ENDED_SECONDS: Final = 86_400.0
ENDED_MAX: Final = 131_072


class Ends:
    """Identities of ended subscriptions and groups, with the stamps of their ends."""

    def __init__(self, ended_max: int = ENDED_MAX):
        self._ended_max = ended_max
        self._stamps: dict[tuple[bool, int], int] = {}
        self._serials: dict[int, tuple[bool, int]] = {}
        self._serial = 0
        self._oldest: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._stamps)

    def has(self, name: int, *, subscription: bool) -> bool:
        """Return whether a subscription (else a group) is known to have ended."""
        return (subscription, name) in self._stamps

    def stamp(self, name: int, *, subscription: bool) -> int | None:
        """Return the stamp of a known end, else None."""
        return self._stamps.get((subscription, name))

    def add(self, name: int, stamp: int, *, subscription: bool) -> None:
        """Record an end; beyond the bound the earliest end is forgotten."""
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
        """Forget the ends that are older than ``ENDED_SECONDS``."""
        before = hlc.from_seconds(max(0.0, now - ENDED_SECONDS))
        while self._oldest and self._oldest[0][0] < before:
            self._forget()

    def all(self) -> list[tuple[int, int, bool]]:
        """Return serial number, identity, and whether it is a subscription, of all ends."""
        return [(serial, name, subscription) for serial, (subscription, name) in self._serials.items()]

    def at(self, serial: int) -> tuple[int, int, bool] | None:
        """Return identity, stamp and whether it is a subscription; None if the end is forgotten."""
        found = self._serials.get(serial)
        return None if found is None else (found[1], self._stamps[found], found[0])
