"""State of the columnar tables: stored items and their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import ARRAYS, Column, as_array
from p2prdf.grow import GrowingColumn
from p2prdf.hlc import ELEMENT, GONE
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Filter, Plan
from p2prdf.store.columnar_texts import TextRows
from p2prdf.store.compiled import CompiledStep, compile_step
from p2prdf.store.full_text import NO_CONDITION, FullText
from p2prdf.store.group_table import GroupTable
from p2prdf.store.horizons import Horizons
from p2prdf.store.intervals import Superseded
from p2prdf.store.join_indexes import JoinIndex, PlanTable, StepRows
from p2prdf.store.tables import NEVER, Chosen, Derived, Ends, FilterFunction, PlanFilters, Sizes, stride
from p2prdf.store.triple_table import TripleTable
from p2prdf.wire.messages import Groups

__all__ = ["ColumnarState"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_NEVER = np.uint64(NEVER)


class ColumnarState(Ends):
    """Triples, join indexes, plans with groups and rows, and the ring keys of all these."""

    def __init__(
        self, dictionary: TermDictionary, compile_filter: Callable[[Filter], FilterFunction],
        leads: Chosen | None = None, *, forgets: bool = False,
    ):  # fmt: skip
        """``leads`` returns whether this peer joins under keys; ``forgets``: superseded intervals may be forgotten."""
        self.columns = ARRAYS
        self.settled = 0
        self._leads = leads
        self.horizons = Horizons(dictionary)
        self._dictionary = dictionary
        self._compile_filter = compile_filter
        self._full_text = FullText(dictionary)
        self._plans: dict[Plan, PlanTable] = {}
        self._plan_of: dict[int, PlanTable] = {}
        """The plan of each group, by its identity."""
        self._overlapping: dict[Plan, PlanTable] = {}
        """Plans with a group that another plan had first; they are searched for every group."""
        self._with_ended: dict[Plan, PlanTable] = {}
        """Plans with ended groups that are not released."""
        self._superseded: Superseded[int] = Superseded(noted=forgets)
        self._triples = TripleTable(per_event=False, superseded=self._superseded)
        self._events = TripleTable(per_event=True)
        self._join_indexes: dict[tuple[bool, int], list[JoinIndex]] = {}
        self._hashed: tuple[Any, ...] = (None,) * 6
        self._sizes = Sizes()
        self._skipped = False
        """Whether a join was ever skipped because no subscription was late enough for it."""
        self._widened = False
        self._changes = 0
        """Changes of items that the numbers of held items do not show."""
        self._ended: dict[int, None] = {}
        """Groups that have ended, oldest first."""

    # --- plans and join indexes ------------------------------------------------------------------

    def _laid_out_anew(self, *, per_event: bool) -> None:
        """Hook: join indexes or steps are made or renumbered."""

    def _join_index(self, per_event: bool, role: int, mask: int) -> JoinIndex:
        """Return a join index; a new one is built from the triples stored in its index."""
        join_indexes = self._join_indexes.setdefault((per_event, role), [])
        for join_index in join_indexes:
            if join_index.mask == mask:
                return join_index
        table = self._events if per_event else self._triples
        join_index = JoinIndex(table, mask)
        self._laid_out_anew(per_event=per_event)
        rows = table.rows_under(role)
        if len(rows):
            join_index.triples.append(join_index.ordinals_of(rows), rows)
        join_indexes.append(join_index)
        return join_index

    def _plan_table(self, plan: Plan) -> PlanTable:
        table = self._plans.get(plan)
        if table is not None:
            return table
        self._laid_out_anew(per_event=plan.per_event)
        table = PlanTable(plan, PlanFilters(plan, self._dictionary, self._compile_filter), GroupTable(plan))
        for place, at in enumerate(plan.steps):
            join_index = self._join_index(plan.per_event, at.role, at.mask)
            condition = self._full_text.use(plan, at)
            if condition != NO_CONDITION and join_index.texts is None:
                join_index.texts = TextRows(self._full_text)
            step = StepRows(table, place, compile_step(plan, place), join_index, -1, condition)
            step.bindings = [GrowingColumn(np.uint32) for _ in at.bound]
            step.place = join_index.place(step)
            table.steps.append(step)
        self._plans[plan] = table
        return table

    def add_groups(self, plan: Plan, groups: Groups) -> Column:
        """Take in groups, or widen known ones; return this peer's numbers for them."""
        table = self._plan_table(plan)
        before, ended = len(table.groups), table.groups.ended
        numbers, widened = table.groups.add(groups, self._ended, self.settled)
        if len(table.groups) > before:
            self._file_groups(table, before)
        if table.groups.ended > ended:
            self._with_ended[plan] = table
        self._changes += widened
        self._widened |= widened
        return numbers

    def _file_groups(self, table: PlanTable, before: int) -> None:
        """File a plan under its groups from a number on; a group that another plan has, too, is a rare case."""
        for each in table.groups.index.keys[before:].tolist():
            if self._plan_of.setdefault(each, table) is not table:
                self._overlapping[table.plan] = table

    def _unfile_groups(self, table: PlanTable, ids: U64) -> None:
        """Forget the plan of released groups."""
        for each in ids.tolist():
            if self._plan_of.get(each) is table:
                del self._plan_of[each]

    def _plans_with(self, wanted: U64) -> list[PlanTable]:
        """Return the plans that may have one of some groups, each once; other plans are not visited."""
        found = [*self._overlapping.values()]
        found += [self._plan_of[each] for each in wanted.tolist() if each in self._plan_of]
        return list({id(each): each for each in found}.values())

    @property
    def ever_removed(self) -> bool:
        """Whether a deletion of a triple was ever received."""
        return self._triples.any_over

    def take_widened(self) -> bool:
        """Return whether, since the last call, a group was widened after a join was skipped for it."""
        widened, self._widened = self._widened and self._skipped, False
        return widened

    def extend_leases(self, ids: Sequence[int], leases: Sequence[int]) -> None:
        """Extend the leases of groups to the given stamps."""
        latest: dict[int, int] = {}
        for each, lease in zip(ids, leases, strict=True):
            latest[each] = max(lease, latest.get(each, 0))
        wanted, until = np.array(list(latest), np.uint64), np.array(list(latest.values()), np.uint64)
        for table in self._plans_with(wanted):
            numbers = table.groups.index.find(wanted)
            known = numbers >= 0
            np.maximum.at(table.groups.lease.values, numbers[known], until[known])

    def expired_groups(self, now: int, limit: int) -> list[int]:
        """Return up to ``limit`` identities of groups whose lease ended before stamp ``now``."""
        found: list[int] = []
        for table in self._plans.values():
            groups = table.groups
            expired = (groups.lease.values < np.uint64(now)) & (groups.since_min.values != _NEVER)
            found.extend(groups.index.keys[np.flatnonzero(expired)[: limit - len(found)]].tolist())
            if len(found) >= limit:
                break
        return found

    # --- for messages and routing ----------------------------------------------------------------

    def export_groups(self, plan: Plan, group: Column) -> tuple[Groups, Column]:
        """Return the distinct groups among ``group`` for a message, and each row's place among them."""
        held = self._plan_table(plan).groups
        chosen, places = np.unique(as_array(group, np.int64), return_inverse=True)
        groups = Groups(
            held.index.keys[chosen], held.since_min.values[chosen], held.since_max.values[chosen],
            held.lease.values[chosen], tuple(column.values[chosen] for column in held.params),
        )  # fmt: skip
        return groups, places.astype(np.uint32)

    def waiting_rows(self, role: int, key: int) -> list[Derived]:
        """Return all rows, including queries, that wait under a ring key; scans all rows of its index."""
        found = []
        for table in self._plans.values():
            for step in table.steps:
                if step.compiled.step.role == role and len(step):
                    rows = step.true(np.flatnonzero(table.groups.since_min.values[step.group.values] != _NEVER))
                    rows = rows[self._keys_of_rows(step, rows) == np.uint64(key)]
                    if len(rows):
                        found.append(self._rows_at(step, rows))
        return found

    @staticmethod
    def _rows_at(step: StepRows, rows: I64) -> Derived:
        """Return held rows, by number, as new columns."""
        return Derived(
            step.plan.plan, step.number, step.group.values[rows].astype(np.int64), step.index.keys[rows],
            step.oldest.values[rows], step.born.values[rows], tuple(column.values[rows] for column in step.bindings),
        )  # fmt: skip

    def group_ids(self, plan: Plan, group: Column) -> Column:
        """Return the identities of groups by this peer's numbers."""
        ids: U64 = self._plan_table(plan).groups.index.keys[as_array(group, np.int64)]
        return ids

    def row_keys(self, rows: Derived) -> Column:
        """Return the ring key at which each row waits; its step must have a role."""
        compiled = self._plan_table(rows.plan).steps[rows.step].compiled
        group = as_array(rows.group, np.int64)
        return self._route_keys(rows.plan, compiled, group, rows.bindings)

    def query_keys(self, plan: Plan, step: int, group: Column) -> Column:
        """Return the ring key of a step's pattern by its own constants, per group."""
        return self._route_keys(plan, self._plan_table(plan).steps[step].compiled, as_array(group, np.int64), ())

    def _route_keys(self, plan: Plan, compiled: CompiledStep, group: I64, bindings: Sequence[Column]) -> U64:
        table = self._plan_table(plan)
        hashes = self._dictionary.hash_array()
        nothing = np.zeros(len(group), np.uint64)
        columns = [as_array(column, np.uint32) for column in bindings]
        parts = [
            nothing if source is None else hashes[table.terms(source, group, columns)]
            for source in compiled.route
        ]
        return self._role_keys(compiled.step.role, *parts)

    def _keys_of_rows(self, step: StepRows, rows: I64) -> U64:
        """Return the ring keys of held rows."""
        group = step.group.values[rows].astype(np.int64)
        bindings = [column.values[rows] for column in step.bindings]
        return self._route_keys(step.plan.plan, step.compiled, group, bindings)

    @staticmethod
    def _living(step: StepRows, names: U64) -> I64:
        """Return the numbers of the held rows with some identities and a live group."""
        rows = step.index.find(names)
        rows = rows[rows >= 0]
        living: I64 = rows[step.plan.groups.since_min.values[step.group.values[rows]] != _NEVER]
        return step.true(living)

    def triple_keys(self, role: int, s: Column, p: Column, o: Column) -> Column:
        """Return the ring key of each triple under a role."""
        if not (self._hashed[0] is s and self._hashed[1] is p and self._hashed[2] is o):
            hashes = self._dictionary.hash_array()
            self._hashed = (s, p, o, *(hashes[as_array(column, np.uint32)] for column in (s, p, o)))
        return self._triple_keys(role, *self._hashed[3:])

    def _triple_keys(self, role: int, *parts: U64) -> U64:
        """Return the ring keys of triples by the hashes of their terms."""
        if role == keys.ANY:
            bucket = keys.triple_ids(*parts) % np.uint64(keys.BUCKETS)
            table = np.array(keys.BUCKET_KEYS, np.uint64)
            chosen: U64 = table[bucket.astype(np.int64)]
            return chosen
        return self._role_keys(role, *parts)

    def _identities(self, table: TripleTable, rows: I64) -> U64:
        """Return the identities of validity intervals, or of publication events."""
        if table.per_event:
            events: U64 = table.event.values[rows]
            return events
        hashes = self._dictionary.hash_array()
        s, p, o = table.s.values[rows], table.p.values[rows], table.o.values[rows]
        if len(rows) == 1:
            identity = keys.triple_id(int(hashes[s[0]]), int(hashes[p[0]]), int(hashes[o[0]]))
            identities = np.array([identity], np.uint64)
        else:
            identities = keys.triple_ids(hashes[s], hashes[p], hashes[o])
        begins = table.begins(rows)
        if begins is None or not begins.any():
            return identities
        return np.where(begins == 0, identities, keys.item_identities(identities, begins))

    @staticmethod
    def _role_keys(role: int, s: U64, p: U64, o: U64) -> U64:
        """Return the ring keys of columns of term hashes."""
        return keys.role_keys(role, s, p, o)

    def count(self, role: int, s: int, p: int, o: int) -> int:
        """Return the number of triples held in an index under constant parts."""
        for join_index in self._join_indexes.get((False, role), ()):
            if join_index.mask == role and role != keys.SPO:
                key = join_index.keys_of(*(np.array([term], np.uint32) for term in (s, p, o)))
                ordinal = join_index.index.find(key)
                return int(join_index.triples.counts(ordinal)[0]) if ordinal[0] >= 0 else 0
        table = self._triples
        chosen = table.roles.values >> np.uint16(role) & np.uint16(1) != 0
        for bit, column, term in ((keys.S, table.s, s), (keys.P, table.p, p), (keys.O, table.o, o)):
            if role & bit:
                chosen &= column.values == term
        return int(np.count_nonzero(chosen))

    def some_waiting(self, group: int, step: int, most: int) -> tuple[Derived | None, int]:
        """Return at most ``most`` rows of a group at a step, evenly chosen, and the number of all."""
        wanted = np.array([group], np.uint64)
        for table in self._plans_with(wanted):
            number = int(table.groups.index.find(wanted)[0])
            if number >= 0 and step < len(table.steps) and table.groups.since_min.values[number] != _NEVER:
                held = table.steps[step]
                rows = held.true(np.flatnonzero(held.group.values == number))
                return (self._rows_at(held, rows[:: stride(len(rows), most)]) if len(rows) else None), len(rows)
        return None, 0

    def some_triples(
        self, role: int, mask: int, parts: tuple[int, int, int], most: int, *, per_event: bool
    ) -> tuple[tuple[Column, Column, Column, Column], float]:
        """Return valid triples (or events) of an index with the given parts, and the number each stands for."""
        table = self._events if per_event else self._triples
        join_index = next((each for each in self._join_indexes.get((per_event, role), ()) if each.mask == mask), None)
        if join_index is not None and mask != keys.SPO:  # the key of a whole triple exists only after it is stored
            ordinal = join_index.index.find(join_index.keys_of(*(np.array([part], np.uint32) for part in parts)))
            rows = join_index.triples.expand(ordinal)[1].astype(np.int64)
            step = stride(len(rows), most)
            rows = rows[::step]
        else:
            step = stride(len(table), most)
            rows = np.arange(0, len(table), step)
            rows = rows[table.roles.values[rows] >> np.uint16(role) & np.uint16(1) != 0]
            for at, bit in enumerate((keys.S, keys.P, keys.O)):
                if mask & bit:
                    rows = rows[table.terms(rows, at) == parts[at]]
        time = table.time.values[rows]
        living = (time > 0) & (time < np.uint64(GONE))
        rows = rows[living]
        s, p, o = (table.terms(rows, at) for at in range(3))
        return (s, p, o, time[living]), float(step)

    def triples_at(
        self, role: int, parts: tuple[int, int, int], most: int
    ) -> tuple[tuple[Column, Column, Column, Column] | None, int]:
        """Return the valid triples under a key of an index, unless there are more, and the stamp of its latest change.
        """
        join_index, table = self._join_index(False, role, role), self._triples
        ordinal = join_index.index.find(join_index.keys_of(*(np.array([part], np.uint32) for part in parts)))
        rows = join_index.triples.expand(ordinal)[1].astype(np.int64)
        time = table.time.values[rows]
        latest = int((time & np.uint64(GONE - 1)).max(initial=0))
        living = (time > 0) & (time < np.uint64(GONE))
        rows = rows[living]
        if len(rows) > most:
            return None, latest
        s, p, o = (table.terms(rows, at) for at in range(3))
        return (s, p, o, time[living]), latest

    def latest_news(self, subject: int) -> int:
        """Return the stamp of the latest publication or deletion of a subject under the index s; 0: there is none."""
        join_index = self._join_index(False, keys.S, keys.S)
        ordinal = join_index.index.find_one(subject)
        if ordinal < 0:
            return 0
        rows = join_index.triples.expand(np.array([ordinal]))[1].astype(np.int64)
        if not len(rows):
            return 0
        begins = self._triples.begins(rows)
        latest = int((self._triples.time.values[rows] & np.uint64(GONE - 1)).max())
        return latest if begins is None else max(latest, int(begins.max()))

    def sizes(self) -> Sizes:
        """Return the sizes and loads."""
        sizes = replace(self._sizes)
        sizes.queries += sum(len(step.links) for table in self._plans.values() for step in table.steps)
        sizes.triples = len(self._triples) + len(self._events) - self._triples.dead - self._events.dead
        sizes.triple_roles -= self._triples.free_roles
        sizes.elements = int(np.count_nonzero(self._events.time.values >= np.uint64(ELEMENT)))
        sizes.plans = len(self._plans)
        tables = list(self._plans.values())
        sizes.groups = sum(len(table.groups) - table.groups.ended for table in tables)
        sizes.bytes = self.nbytes
        return sizes

    @property
    def held(self) -> int:
        """Number of triples and partial results held."""
        return len(self._triples) + len(self._events) - self._triples.dead - self._events.dead + self._sizes.rows

    @property
    def nbytes(self) -> int:
        """Bytes used by all columns and indexes."""
        join_indexes = [join_index for join_indexes in self._join_indexes.values() for join_index in join_indexes]
        plans = list(self._plans.values())
        return (
            self._triples.nbytes
            + self._events.nbytes
            + sum(join_index.nbytes for join_index in join_indexes)
            + sum(table.groups.nbytes + sum(step.nbytes for step in table.steps) for table in plans)
        )
