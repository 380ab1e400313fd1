"""Columnar tables as items: see :mod:`p2prdf.store.items`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Column, as_array
from p2prdf.hlc import GONE
from p2prdf.rdf.query import Plan
from p2prdf.store.columnar_state import ColumnarState
from p2prdf.store.items import ITEMS_AT_ONCE, LinkItems, RowItems, Seen, TripleColumns, TripleItems
from p2prdf.store.join_indexes import PlanTable, StepRows
from p2prdf.store.tables import NEVER, Derived
from p2prdf.wire.messages import Groups

__all__ = ["ColumnarItems"]

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_NEVER = np.uint64(NEVER)


class ColumnarItems(ColumnarState):
    """The columnar tables as items."""

    def triple_version(self, per_event: bool) -> int:
        """Return a number that grows whenever a triple (or event) becomes a new item."""
        return (self._events if per_event else self._triples).version

    @property
    def waiting_version(self) -> int:
        """A number that grows whenever a row or link is added, changed or ended."""
        return self._sizes.rows + self._sizes.queries + self._changes

    def changed_triples(self, per_event: bool, seen: Seen) -> tuple[Column | None, Seen]:
        """Return the triples (or events) that came or changed after ``seen``."""
        return (self._events if per_event else self._triples).changed_since(seen)

    def triple_items(self, role: int, per_event: bool, handle: Column | None = None) -> TripleItems:
        """Return all triples (or publication events) held in an index, or those among some handles."""
        table = self._events if per_event else self._triples
        if handle is None:
            rows = np.flatnonzero(table.roles.values >> np.uint16(role) & np.uint16(1))
        else:
            some = as_array(handle, np.int64)
            rows = some[(table.roles.values[some] >> np.uint16(role) & np.uint16(1)) != 0]
        hashes = self._dictionary.hash_array()
        parts = [hashes[table.terms(rows, position)] for position in range(3)]
        identities = keys.item_identities(self._identities(table, rows), table.time.values[rows])
        return TripleItems(rows, self._triple_keys(role, *parts), identities)

    def export_triples(self, role: int, per_event: bool, handle: Column) -> TripleColumns:
        """Return triples by handle, with the bit of that index alone."""
        bit = np.uint32(keys.role_bit(role, per_event=per_event))
        rows = as_array(handle, np.int64)
        return self._exported(rows, np.full(len(rows), bit), per_event=per_event)

    def triples_since(self, stamp: int) -> TripleColumns:
        """Return all triples and publication events with a time from ``stamp`` on, with all their indexes."""
        kinds = []
        for table, shift in ((self._triples, 0), (self._events, keys.EVENT_SHIFT)):
            last = table.time.values & np.uint64(GONE - 1)
            begins = table.begins(np.arange(len(table)))
            held = (last if begins is None else np.maximum(last, begins)) >= np.uint64(stamp)
            if table.dead:
                held &= table.roles.values != 0
            rows = np.flatnonzero(held)
            roles = table.roles.values[rows].astype(np.uint32) << np.uint32(shift)
            kinds.append(self._exported(rows, roles, per_event=table.per_event))
        return TripleColumns(*(np.concatenate(parts) for parts in zip(*kinds, strict=True)))

    def _exported(self, rows: I64, roles: npt.NDArray[Any], *, per_event: bool) -> TripleColumns:
        """Return triples as columns.

        An interval is exported as the deletion that it begins after and its own publication or end.
        """
        table = self._events if per_event else self._triples
        time, begins = table.time.values[rows], table.begins(rows)
        if begins is not None and begins.any():
            later = begins != 0
            rows, roles = np.concatenate([rows[later], rows]), np.concatenate([roles[later], roles])
            time = np.concatenate([begins[later] | np.uint64(GONE), time])
        s, p, o = (table.terms(rows, position) for position in range(3))
        event = table.event.values[rows] if per_event else np.zeros(len(rows), np.uint64)
        return TripleColumns(s, p, o, time, event, roles)

    def row_items(self) -> Iterator[RowItems]:
        """Yield all waiting rows of live groups, a step of a plan (or a part of it) at a time."""
        for table in list(self._plans.values()):
            for step in table.steps:
                names = step.index.keys.copy()
                for start in range(0, len(names), ITEMS_AT_ONCE):
                    rows = self._living(step, names[start : start + ITEMS_AT_ONCE])
                    if len(rows):
                        yield from self._items_of(step, rows)

    def _items_of(self, step: StepRows, rows: I64) -> Iterator[RowItems]:
        plan, names = step.plan.plan, step.index.keys[rows]
        stamps = [step.oldest.values[rows], *_sinces(step.plan, step.group.values[rows])]
        identities = keys.item_identities(names, *stamps)
        for ring in self._all_keys(step, len(rows)) or [self._keys_of_rows(step, rows)]:
            yield RowItems(plan, step.number, names, ring, identities)

    def export_rows(self, plan: Plan, step: int, handle: Column) -> Derived:
        """Return rows by handle, without those that have ended."""
        table = self._plans.get(plan)
        if table is None:  # released
            nothing = np.zeros(0, np.uint64)
            return Derived(plan, step, nothing, nothing, nothing, nothing, (nothing,) * len(plan.steps[step].bound))
        held = table.steps[step]
        return self._rows_at(held, self._living(held, as_array(handle)))

    def link_items(self) -> Iterator[LinkItems]:
        """Yield all later links of live groups, a step of a plan at a time."""
        for table in list(self._plans.values()):
            for step in table.steps[1:]:
                if step.links:
                    group = np.array(sorted(step.links), np.int64)
                    ids = keys.fmix_array(table.groups.index.keys[group])
                    place = np.full(len(group), step.number, np.uint64)
                    identities = keys.item_identities(ids, place, *_sinces(table, group))
                    own = as_array(self.query_keys(table.plan, step.number, group))
                    for ring in self._all_keys(step, len(group)) or [own]:
                        yield LinkItems(table.plan, step.number, table.groups.index.keys[group], ring, identities)

    def export_links(self, plan: Plan, handle: Column) -> Groups:
        """Return groups by handle, without those that have ended."""
        table = self._plans.get(plan)
        if table is None:  # released
            nothing = np.zeros(0, np.uint64)
            return Groups(nothing, nothing, nothing, nothing, (nothing,) * plan.constant_count)
        numbers = table.groups.index.find(as_array(handle))
        numbers = numbers[numbers >= 0]
        return self.export_groups(plan, numbers[table.groups.since_min.values[numbers] != _NEVER])[0]

    @staticmethod
    def _all_keys(step: StepRows, count: int) -> list[U64]:
        """Return the keys of all buckets, a column for each, if the step has no role."""
        if step.compiled.step.role != keys.ANY:
            return []
        return [np.full(count, key, np.uint64) for key in keys.BUCKET_KEYS]

    def ended_groups(self) -> list[int]:
        """Return the identities of groups known to have ended."""
        return list(self._ended)

    def ended_among(self, plan: Plan, group: Column) -> list[int]:
        """Return the identities of the ended groups among some groups of a plan."""
        groups, numbers = self._plan_table(plan).groups, as_array(group, np.int64)
        ended = np.unique(numbers[groups.since_min.values[numbers] == _NEVER])
        found: list[int] = groups.index.keys[ended].tolist()
        return found


def _sinces(table: PlanTable, group: npt.NDArray[Any]) -> list[U64]:
    return [table.groups.since_min.values[group], table.groups.since_max.values[group]]
