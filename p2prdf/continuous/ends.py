"""Tombstones of subscriptions and groups, so that no replica restores an ended one.

Each end has a stamp and is remembered for ``ENDED_SECONDS`` after it.  All replicas forget it at the same time, so
none restores it at another.  Beyond ``ENDED_MAX`` the earliest ends are forgotten first, again the same at all
replicas.

Ends lie in columns by serial number, some 190 bytes each with their place in a dictionary: one-time queries leave two
of them each, and every comparison of replicas reads all.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from p2prdf import hlc
from p2prdf.grow import GrowingColumn

__all__ = ["ENDED_MAX", "ENDED_SECONDS", "EndColumns", "Ends"]

ENDED_SECONDS: Final = 86_400.0
ENDED_MAX: Final = 131_072
_FORGOTTEN: Final = np.uint64((1 << 64) - 1)
"""In place of the stamp of a forgotten end."""

U64 = npt.NDArray[np.uint64]


class EndColumns(NamedTuple):
    """Ends: their serial numbers, identities, and whether each is that of a subscription."""

    serials: npt.NDArray[np.int64]
    names: U64
    subscriptions: npt.NDArray[np.bool_]


class Ends:
    """Identities of ended subscriptions and groups, with the stamps of their ends."""

    def __init__(self, ended_max: int = ENDED_MAX):
        self._ended_max = ended_max
        self._serials: tuple[dict[int, int], dict[int, int]] = ({}, {})
        """By name the serial number of the end: of groups, and of subscriptions."""
        self._names, self._stamps = GrowingColumn(np.uint64), GrowingColumn(np.uint64)
        self._subscriptions = GrowingColumn(np.bool_)
        self._first = 1
        """The serial number at the beginning of the columns."""

    def __len__(self) -> int:
        return sum(map(len, self._serials))

    def has(self, name: int, *, subscription: bool) -> bool:
        """Return whether a subscription (else a group) is known to have ended."""
        return name in self._serials[subscription]

    def stamp(self, name: int, *, subscription: bool) -> int | None:
        """Return the stamp of a known end, else None."""
        serial = self._serials[subscription].get(name)
        return None if serial is None else int(self._stamps.values[serial - self._first])

    def add(self, name: int, stamp: int, *, subscription: bool) -> None:
        """Record an end; beyond the bound the earliest end is forgotten."""
        if name in self._serials[subscription]:
            return
        self._serials[subscription][name] = self._first + len(self._names)
        self._names.extend(1, name)
        self._stamps.extend(1, stamp)
        self._subscriptions.extend(1, subscription)
        if len(self) > self._ended_max:
            self._forget(int(self._stamps.values.argmin()))

    def _forget(self, place: int) -> None:
        del self._serials[bool(self._subscriptions.values[place])][int(self._names.values[place])]
        self._stamps.values[place] = _FORGOTTEN
        if len(self._stamps) > 2 * len(self):
            self._trim()

    def _trim(self) -> None:
        """Shorten the columns by the forgotten ends at their beginning, if these are the majority."""
        known = self._stamps.values != _FORGOTTEN
        first = int(known.argmax()) if known.any() else len(known)
        if 2 * first > len(known):
            left = np.arange(first, len(known))
            self._names, self._stamps = self._names.only(left), self._stamps.only(left)
            self._subscriptions = self._subscriptions.only(left)
            self._first += first

    def expire(self, now: float) -> None:
        """Forget the ends that are older than ``ENDED_SECONDS``."""
        before = np.uint64(hlc.from_seconds(max(0.0, now - ENDED_SECONDS)))
        for serial in (self._first + np.flatnonzero(self._stamps.values < before)).tolist():
            self._forget(serial - self._first)

    def all(self) -> EndColumns:
        """Return all ends."""
        places = np.flatnonzero(self._stamps.values != _FORGOTTEN)
        return EndColumns(self._first + places, self._names.values[places], self._subscriptions.values[places])

    def at(self, serial: int) -> tuple[int, int, bool] | None:
        """Return identity, stamp and whether it is a subscription; None if the end is forgotten."""
        place = serial - self._first
        if not 0 <= place < len(self._stamps) or self._stamps.values[place] == _FORGOTTEN:
            return None
        return int(self._names.values[place]), int(self._stamps.values[place]), bool(self._subscriptions.values[place])
