"""What a peer tells others of the steps of a query: how many rows wait here, and how many triples match.

Everything has copies at several peers.  So that what all tell can be added up, each tells of what it owns the key of
alone.  Of triples without copies it tells all: those of a split key are where they came to
(:mod:`p2prdf.peer.joins.hot_keys`).

To count must cost a peer little, whatever it holds.  What waits of a query at a step is found by a pass over what
waits at that step; keys are made for a part of it.  Triples are looked up where something waits under the same parts;
where nothing does, a part of all of them is looked through.  What was counted in part is an estimate, and said to be
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.wire.messages import EVENTS_COUNTED, NOT_COUNTED, AskCounts, TellCounts

if TYPE_CHECKING:
    from p2prdf.columns import Column
    from p2prdf.peer.network.messenger import Exchange
    from p2prdf.store.tables import Tables

__all__ = ["ROWS_LOOKED_AT", "TRIPLES_LOOKED_AT", "Counts"]

ROWS_LOOKED_AT: Final = 65_536
"""Rows that wait of which the keys are made, in all steps of one question, about."""
TRIPLES_LOOKED_AT: Final = 262_144
"""Triples that are looked at for one question, about."""
_LOOKED_AT_MIN: Final = 1024
"""Of either, per step."""

_ROWS, _TRIPLES = 1, 2


class Counts:
    """Counts what this peer holds of the steps of a query."""

    def __init__(self, exchange: Exchange, tables: Tables):
        self._exchange = exchange
        self._tables = tables

    def take(self, asked: AskCounts) -> TellCounts:
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
        return TellCounts(
            asked.request, make(waits), make(gone), make(match), make(count), make(estimated, "uint32")
        )

    def _rows(self, leaf: int, step: int, since: int, most: int) -> tuple[int, int, bool]:
        """Return how many rows wait here and count, how many are over, and whether that is an estimate."""
        rows, count = self._tables.some_waiting(leaf, step, most)
        if rows is None:
            return 0, 0, False
        if rows.plan.steps[step].role == keys.ANY:  # at the keepers of all buckets: the first tells
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
        """Return how many triples match here, how many of them count, and whether that is an estimate."""
        (s, p, o, time), each_for = self._tables.some_triples(role, mask, parts, most, per_event=per_event)
        times = as_list(time)
        if self._exchange.replicated and times:
            mine = self._owns(self._tables.triple_keys(role, s, p, o))
            times = [each for each, is_mine in zip(times, mine, strict=True) if is_mine]
        young = sum(each >= since for each in times)
        return round(len(times) * each_for), round(young * each_for), each_for > 1

    def _owns(self, ring: Column) -> list[bool]:
        """Return of each key whether this peer is its owner, as far as it knows."""
        return [number == 0 for number in as_list(self._exchange.closest_known(ring))]
