"""The events of a leaf with settled delivery: each publication and each deletion of a matching triple.

A leaf with one pattern has one row per triple.  Whether the triple was in the graph as of a stamp follows from its
last event up to that stamp.  The owner tells every event (:mod:`p2prdf.peer.joins.exact`); a backfill or recomputation
tells the latest publication and the deletions that are stored.  Events only add up, so replicas take them in any order
and reach the same state.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Final

from p2prdf import hlc, keys
from p2prdf.continuous.leaf import Change, LeafAnswers
from p2prdf.continuous.operators.zset import Row
from p2prdf.hlc import GONE

__all__ = ["EventAnswers"]

_ABSENT: Final = -1


class EventAnswers(LeafAnswers):
    """The events of a leaf, by an identity that follows from row, stamp and kind."""

    def __init__(self, hash_of: Callable[[int], int]):
        """``hash_of`` returns the hash of a term by its number."""
        super().__init__()
        self._hash_of = hash_of
        self._events: dict[Row, list[int]] = {}
        """By row its events: twice the stamp, plus 1 for a deletion, which wins at the same stamp."""

    def take(
        self, identity: Sequence[int], oldest: Sequence[int], born: Sequence[int], bindings: Sequence[Sequence[int]]
    ) -> list[Change]:
        """Take in events (``oldest`` of a deletion is GONE); return the changes that follow, each with its stamp."""
        changes: list[Change] = []
        rows: list[Row] = list(zip(*bindings, strict=True)) if bindings else [()] * len(identity)
        for row, first, last in zip(rows, oldest, born, strict=True):
            over = first == GONE
            changes += self._take(row, hlc.plain(last) * 2 + over)
        return changes

    def _take(self, row: Row, event: int) -> list[Change]:
        events = self._events.setdefault(row, [])
        at = bisect_left(events, event)
        if at < len(events) and events[at] == event:
            return []
        before, held = self._steps(row, events, at), _holds(events)
        insort(events, event)
        self._note(event >> 1)
        self._add(self._identity(row, event), GONE if event & 1 else event >> 1, event >> 1, row)
        self.true += _holds(events) - held
        self.version += 1
        after = self._steps(row, events, at, 2)
        return [*(each.opposite for each in before), *after]

    def _steps(self, row: Row, events: list[int], at: int, count: int = 1) -> list[Change]:
        """Return the changes that ``count`` events from place ``at`` on make."""
        found = []
        for place in range(at, min(at + count, len(events))):
            was, holds = place > 0 and not events[place - 1] & 1, not events[place] & 1
            if was != holds:
                stamp = events[place] >> 1
                found.append(Change(row, _ABSENT, stamp, stamp) if holds else Change(row, stamp, _ABSENT, stamp))
        return found

    def _identity(self, row: Row, event: int) -> int:
        found = keys.fmix(event)
        for place, term in enumerate(row):
            found += keys.contribution(self._hash_of(term), place)
        return keys.fmix(found & (1 << 64) - 1)

    def withdraw(self, identity: Sequence[int], youngest: int) -> list[Change]:  # noqa: ARG002
        """Ignore retractions without rows: there are none of events."""
        return []

    def since(self, since: int) -> list[tuple[Row, int]]:  # noqa: ARG002
        """Return the rows that hold after all events, as a Z-set."""
        return [(row, 1) for row, events in self._events.items() if _holds(events)]


def _holds(events: list[int]) -> bool:
    return bool(events) and not events[-1] & 1
