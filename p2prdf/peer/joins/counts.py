"""Counts of the rows that wait at each step of a query, and of the triples that match its patterns.

Data has copies at several peers.  Each peer therefore counts only the data under keys that it owns, so that the
counts of all peers add up.  Data without copies counts where it is: a split key has triples at several peers
(:mod:`p2prdf.peer.joins.hot_keys`).

The cost of a count is bounded.  Keys are computed for a sample of the rows at a step, and triples are looked up by an
index or sampled.  A count from a sample is marked as an estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.wire.messages import EVENTS_COUNTED, NOT_COUNTED, CountsRequest, CountsResponse

if TYPE_CHECKING:
    from p2prdf.columns import Column
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.store.tables import Tables

__all__ = ["ROWS_LOOKED_AT", "TRIPLES_LOOKED_AT", "Counts"]

ROWS_LOOKED_AT: Final = 65_536
"""Waiting rows of which keys are computed for one question, over all its steps."""
TRIPLES_LOOKED_AT: Final = 262_144
"""Triples that are read for one question, over all its steps."""
_LOOKED_AT_MIN: Final = 1024
"""Least number of rows, and of triples, per step."""

_ROWS, _TRIPLES = 1, 2


class Counts:
    """Counts of the data of one peer by the steps of a query."""

    def __init__(self, messenger: Messenger, tables: Tables):
        self._messenger = messenger
        self._tables = tables

    def take(self, asked: CountsRequest) -> CountsResponse:
        """Return the answer to a question."""
        make = self._tables.columns.column
        rows_max, triples_max = (
            max(_LOOKED_AT_MIN, most // max(1, len(asked))) for most in (ROWS_LOOKED_AT, TRIPLES_LOOKED_AT)
        )
        parts = zip(*(as_list(column) for column in (asked.s, asked.p, asked.o)), strict=True)
        columns = (as_list(column) for column in (asked.leaves, asked.steps, asked.under, asked.masks))
        told: list[tuple[int, int, int, int, int]] = []
        for leaf, step, role, mask, triple in zip(*columns, parts, strict=True):
            waiting, over, some = self._rows(leaf, step, asked.since, rows_max) if leaf else (0, 0, False)
            triples, young, few = 0, 0, False
            if role != NOT_COUNTED:
                triples, young, few = self._triples(
                    role & keys.SPO, mask, triple, asked.since, triples_max, per_event=role >= EVENTS_COUNTED
                )
            told.append((waiting, over, triples, young, _ROWS * some + _TRIPLES * few))
        waits, gone, match, count, estimated = map(list, zip(*told, strict=True)) if told else ([] for _ in range(5))
        return CountsResponse(
            asked.request, make(waits), make(gone), make(match), make(count), make(estimated, "uint32")
        )

    def _rows(self, leaf: int, step: int, since: int, most: int) -> tuple[int, int, bool]:
        """Return the number of valid waiting rows, the number of ended ones, and whether these are estimates."""
        rows, count = self._tables.some_waiting(leaf, step, most)
        if rows is None:
            return 0, 0, False
        if rows.plan.steps[step].role == keys.ANY:  # all buckets have a copy: the owner of the first counts it
            mine = self._owns([int(keys.BUCKET_KEYS[0])]) * len(rows)
        else:
            mine = self._owns(self._tables.row_keys(rows))
        oldest = [each for each, is_mine in zip(as_list(rows.oldest), mine, strict=True) if is_mine]
        over = oldest.count(GONE)
        waiting = sum(since <= each != GONE for each in oldest)
        return waiting * count // len(rows), over * count // len(rows), len(rows) < count

    def _triples(
        self, role: int, mask: int, parts: tuple[int, int, int], since: int, most: int, *, per_event: bool
    ) -> tuple[int, int, bool]:
        """Return the number of matching triples, the number since ``since``, and whether these are estimates."""
        (s, p, o, time), each_for = self._tables.some_triples(role, mask, parts, most, per_event=per_event)
        times = as_list(time)
        if times:
            mine = self._messenger.placement.counts_here(self._tables.triple_keys(role, s, p, o))
            times = [each for each, is_mine in zip(times, mine, strict=True) if is_mine]
        young = sum(each >= since for each in times)
        return round(len(times) * each_for), round(young * each_for), each_for > 1

    def _owns(self, ring: Column) -> list[bool]:
        """Return for each key whether this peer owns it by its present view."""
        return [number == 0 for number in as_list(self._messenger.closest_known(ring))]
