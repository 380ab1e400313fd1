"""Derived rows that wait to be stored at this peer, a step of a plan at a time.

Along a path of k patterns a batch of triples derives rows for all k steps.  In order of arrival, the rows of step 2
would be stored twice, those of step 3 three times, and so on: a batch would cost k^2/2 passes over the tables.  With
the lowest step first, and all rows of a step together, it costs k.
"""

from __future__ import annotations

import heapq

from p2prdf.columns import Column, Columns, Index
from p2prdf.store.tables import Derived

__all__ = ["Backlog", "joined", "part_of"]


class Backlog:
    """Derived rows by plan, step and backfill stamp; lowest step first."""

    def __init__(self, columns: Columns):
        self._columns = columns
        self.parts: dict[tuple[int, int, int], list[Derived]] = {}
        """The rows by step, plan and backfill stamp; empty if none wait."""
        self._order: list[tuple[int, int, int]] = []

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, rows: Derived) -> None:
        """Add rows."""
        place = (rows.step, rows.plan.identity, rows.refresh)
        parts = self.parts.get(place)
        if parts is None:
            self.parts[place] = [rows]
            heapq.heappush(self._order, place)
        else:
            parts.append(rows)

    def take(self, rows_max: int | None = None) -> Derived:
        """Remove and return rows of the lowest step of some plan: all, or parts until there are ``rows_max`` rows."""
        place = self._order[0]
        parts = self.parts[place]
        count, rows = len(parts), 0
        if rows_max is not None:
            for at, part in enumerate(parts, 1):
                rows += len(part)
                if rows >= rows_max:
                    count = at
                    break
        if count == len(parts):
            del self.parts[heapq.heappop(self._order)]
            return joined(parts, self._columns)
        self.parts[place] = parts[count:]
        return joined(parts[:count], self._columns)


def part_of(rows: Derived, index: Index, columns: Columns) -> Derived:
    """Return the rows at some places."""
    if len(index) == len(rows):
        return rows
    take = columns.take
    return Derived(
        rows.plan, rows.step, take(rows.group, index), take(rows.identity, index), take(rows.oldest, index),
        take(rows.born, index), tuple(take(column, index) for column in rows.bindings), rows.refresh,
    )  # fmt: skip


def joined(parts: list[Derived], columns: Columns) -> Derived:
    """Return rows of one plan, step and backfill stamp as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    concat = columns.concat

    def column(at: int) -> Column:
        return concat([part.bindings[at] for part in parts])

    return Derived(
        first.plan,
        first.step,
        concat([part.group for part in parts]),
        concat([part.identity for part in parts]),
        concat([part.oldest for part in parts]),
        concat([part.born for part in parts]),
        tuple(column(at) for at in range(len(first.bindings))),
        first.refresh,
    )
