"""Light tables as items: see :mod:`p2prdf.store.items`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from p2prdf import keys
from p2prdf.columns import Column, as_list
from p2prdf.hlc import GONE
from p2prdf.rdf.query import Plan
from p2prdf.store.items import ITEMS_AT_ONCE, LinkItems, RowItems, Seen, TripleColumns, TripleItems
from p2prdf.store.light_state import BEGIN, ROLES, TERMS, TIME, LightState, Row, StepTable, Triple
from p2prdf.store.tables import NEVER, Derived, identity_of_group
from p2prdf.wire.messages import Groups

__all__ = ["LightItems"]


class LightItems(LightState):
    """The light tables as items."""

    def triple_version(self, per_event: bool) -> int:
        """Return a number that grows whenever a triple (or event) becomes a new item."""
        return len(self._events if per_event else self._triples) + self._triple_changes[per_event]

    @property
    def waiting_version(self) -> int:
        """A number that grows whenever a row or link is added, changed or ended."""
        return self._row_count + self._changes

    def changed_triples(self, per_event: bool, seen: Seen) -> tuple[Column | None, Seen]:
        """Return None and the number of items: changes are not recorded here, for there are few items."""
        del seen
        return None, Seen(len(self._events if per_event else self._triples), 0)

    def _listed(self, *, per_event: bool) -> list[Triple]:
        """Return all triples (or publication events) in order of insertion; each keeps its place."""
        held = self._events if per_event else self._triples
        listed = self._in_order[per_event]
        if len(listed) < len(held):
            listed.extend(islice(held.values(), len(listed), None))
        return listed

    def triple_items(self, role: int, per_event: bool, handle: Column | None = None) -> TripleItems:
        """Return all triples (or publication events) held in an index, or those among some handles."""
        listed = self._listed(per_event=per_event)
        some = range(len(listed)) if handle is None else as_list(handle)
        index = [at for at in some if listed[at][ROLES] >> role & 1]
        s, p, o = ([listed[at][TERMS][place] for at in index] for place in range(3))
        identities = [keys.item_identity(self._identity_of(listed[at]), listed[at][TIME]) for at in index]
        return TripleItems(index, self.triple_keys(role, s, p, o), identities)

    def export_triples(self, role: int, per_event: bool, handle: Column) -> TripleColumns:
        """Return triples by handle, with the bit of that index alone."""
        listed = self._listed(per_event=per_event)
        bit = keys.role_bit(role, per_event=per_event)
        return self._columns_of([(listed[at], bit, per_event) for at in as_list(handle)])

    def triples_since(self, stamp: int) -> TripleColumns:
        """Return all triples and publication events with a time from ``stamp`` on, with all their indexes."""
        return self._columns_of([
            (triple, triple[ROLES] << (keys.EVENT_SHIFT if per_event else 0), per_event)
            for per_event, held in ((False, self._triples), (True, self._events))
            for triple in held.values()
            if max(triple[BEGIN], triple[TIME] & ~GONE) >= stamp
        ])  # fmt: skip

    def _columns_of(self, triples: list[tuple[Triple, int, bool]]) -> TripleColumns:
        """Return triples, each with its indexes and whether it is an event, as columns.

        An interval is exported as the deletion that it begins after and its own publication or end.
        """
        rows = [
            (*triple[TERMS], time, self._identity_of(triple) if event else 0, bits)
            for triple, bits, event in triples
            for time in (triple[BEGIN] and triple[BEGIN] | GONE, triple[TIME])
            if time
        ]
        return TripleColumns(*(map(list, zip(*rows, strict=True)) if rows else ([] for _ in range(6))))

    def row_items(self) -> Iterator[RowItems]:
        """Yield all waiting rows of live groups, a step of a plan (or a part of it) at a time."""
        for table in list(self._plans.values()):
            for step in table.steps:
                names = list(step.rows)
                for start in range(0, len(names), ITEMS_AT_ONCE):
                    rows = self._living(step, names[start : start + ITEMS_AT_ONCE])
                    if rows:
                        yield from self._items_of(step, rows)

    def _items_of(self, step: StepTable, rows: list[Row]) -> Iterator[RowItems]:
        names = [row.identity for row in rows]
        identities = [
            keys.item_identity(row.identity, row.oldest, row.group.since_min, row.group.since_max) for row in rows
        ]
        for ring in self._all_keys(step, len(rows)) or [self._keys_of_rows(step, rows)]:
            yield RowItems(step.plan.plan, step.number, names, ring, identities)

    def export_rows(self, plan: Plan, step: int, handle: Column) -> Derived:
        """Return rows by handle, without those that have ended."""
        table = self._plans.get(plan.identity)
        if table is None:  # released
            return Derived(plan, step, [], [], [], [], tuple([] for _ in plan.steps[step].bound))
        held = table.steps[step]
        return self._rows_at(held, self._living(held, as_list(handle)))

    def link_items(self) -> Iterator[LinkItems]:
        """Yield all later links of live groups, a step of a plan at a time."""
        for table in list(self._plans.values()):
            for place, step in enumerate(table.steps[1:], 1):
                if step.links:
                    numbers = sorted(step.links)
                    groups = [table.groups[number] for number in numbers]
                    identities = [
                        keys.item_identity(identity_of_group(each.identity), place, each.since_min, each.since_max)
                        for each in groups
                    ]
                    own = as_list(self.query_keys(table.plan, place, numbers))
                    for ring in self._all_keys(step, len(numbers)) or [own]:
                        yield LinkItems(table.plan, place, [each.identity for each in groups], ring, identities)

    def export_links(self, plan: Plan, handle: Column) -> Groups:
        """Return groups by handle, without those that have ended."""
        table = self._plans.get(plan.identity)
        if table is None:  # released
            return Groups([], [], [], [], tuple([] for _ in range(plan.constant_count)))
        found = (table.by_id.get(each) for each in as_list(handle))
        return self.export_groups(plan, [each.number for each in found if each and each.since_min != NEVER])[0]

    @staticmethod
    def _all_keys(step: StepTable, count: int) -> list[list[int]]:
        """Return the keys of all buckets, a column for each, if the step has no role."""
        return [[key] * count for key in keys.BUCKET_KEYS] if step.compiled.step.role == keys.ANY else []

    def ended_groups(self) -> list[int]:
        """Return the identities of groups known to have ended."""
        return list(self._ended)

    def ended_among(self, plan: Plan, group: Column) -> list[int]:
        """Return the identities of the ended groups among some groups of a plan."""
        groups = self._plan_table(plan).groups
        found = (groups[number] for number in dict.fromkeys(as_list(group)))
        return [each.identity for each in found if each.since_min == NEVER]
