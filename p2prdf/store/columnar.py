"""Tables on numpy columns: whole batches at once.

The same contract as :mod:`p2prdf.store.light`, the same steps, but each step is a vector
operation over the batch.  Three structures carry it:

* :class:`~p2prdf.hash_index.HashIndex` gives every distinct key a dense ordinal.  The
  ordinal of a triple is its row; the ordinal of a result's identity is its row; so "known?" and
  "where?" are one probe.
* :class:`~p2prdf.store.postings.Postings` holds, per ordinal, a contiguous run of rows, so the
  matches of a batch are one gather.
* a lane has *one* index of the keys under its mask, shared by its triples and its waiting rows:
  storing a triple finds the ordinal by which the waiting rows are found.

Keys are packed identifiers, never hashes: two terms in 64 bits, three by way of the ordinal of
the first two.  So a probe needs no verification, and no collision can join what does not match.

(Sorted runs merged by size were the alternative.  They need a binary search per run and probe,
and merges that touch every row log n times; the hash index is as compact and needs neither.)

Lanes are made on demand.  A triple's row says under which roles it is held; the index of a lane is
built when the first plan waits there, from the rows that have its role, and kept from then on.  So
indexing under all seven keys costs a peer only what somebody asks for.

A batch may hold one triple twice (the same statement in two publications).  The second must meet
the table as the first left it, so such a batch is worked off in rounds of distinct triples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import ARRAYS, Column, as_array
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Filter, Plan
from p2prdf.store.backlog import part_of
from p2prdf.store.compiled import GROUP, ROW, CompiledStep, Source, compile_step
from p2prdf.store.postings import Postings
from p2prdf.store.tables import NEVER, Derived, FilterFunction, PlanFilters, Sizes
from p2prdf.wire.messages import Groups

__all__ = ["ColumnarTables"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_SHIFT = np.uint64(32)
_NEVER = np.uint64(NEVER)
_PLAIN = (1 << keys.EVENT_SHIFT) - 1
_COMPACT_MIN = 4096


def _pack(high: npt.NDArray[Any], low: npt.NDArray[Any]) -> U64:
    packed: U64 = (high.astype(np.uint64) << _SHIFT) | low.astype(np.uint64, copy=False)
    return packed


class _TripleTable:
    """Triples (or publication events), each once: a row per ordinal of its identity."""

    def __init__(self, *, per_event: bool):
        self.per_event = per_event
        self.index = HashIndex()
        self.pairs = HashIndex()
        self.s, self.p, self.o = (GrowingColumn(np.uint32) for _ in range(3))
        self.time = GrowingColumn(np.uint64)
        self.roles = GrowingColumn(np.uint16)
        self.event = GrowingColumn(np.uint64)
        self.pair = GrowingColumn(np.int32)
        self._mark = GrowingColumn(np.int64)

    def __len__(self) -> int:
        return len(self.s)

    @property
    def nbytes(self) -> int:
        columns = (self.s, self.p, self.o, self.time, self.roles, self.event, self.pair, self._mark)
        return sum(column.nbytes for column in columns) + self.index.nbytes + self.pairs.nbytes

    def pair_keys(self, s: U32, p: U32, o: U32) -> tuple[U64, I64]:
        """Return exact keys of whole triples (the ordinal of predicate and object, and the subject),
        and those ordinals."""
        pairs, _ = self.pairs.insert(_pack(p, o))
        return _pack(pairs, s), pairs

    def insert(self, s: U32, p: U32, o: U32, event: U64) -> I64:
        """Return the row of each triple, adding rows (of no role and time 0) for new ones."""
        identity, pairs = (event, None) if self.per_event else self.pair_keys(s, p, o)
        rows, fresh = self.index.insert(identity)
        count = int(np.count_nonzero(fresh))
        if count:
            added: list[tuple[GrowingColumn, npt.NDArray[Any]]] = [(self.s, s), (self.p, p), (self.o, o)]
            added.append((self.event, event) if pairs is None else (self.pair, pairs))
            for column, values in added:
                column.append(values[fresh] if count < len(fresh) else values)
            self.time.extend(count)
            self.roles.extend(count)
            self._mark.extend(count)
        return rows

    def rounds(self, rows: I64) -> Iterator[I64 | None]:
        """Yield places in the batch such that each round names each row once; None: all at once."""
        mark = self._mark.values
        places = np.arange(len(rows))
        mark[rows[::-1]] = places[::-1]  # of several writers the first place stays
        if (mark[rows] == places).all():
            yield None
            return
        while len(places):
            mark[rows[places][::-1]] = places[::-1]
            first = mark[rows[places]] == places
            yield places[first]
            places = places[~first]

    def terms(self, rows: I64, position: int) -> U32:
        """Return the terms at one position of rows."""
        taken: U32 = (self.s, self.p, self.o)[position].values[rows]
        return taken


class _Groups:
    """The groups of one plan as columns."""

    def __init__(self, plan: Plan):
        self.index = HashIndex()
        self.since_min, self.since_max, self.lease = (GrowingColumn(np.uint64) for _ in range(3))
        self.params = [GrowingColumn(np.uint32) for _ in range(plan.constant_count)]
        self.ended = 0

    def __len__(self) -> int:
        return len(self.since_min)

    @property
    def nbytes(self) -> int:
        columns = (self.since_min, self.since_max, self.lease, *self.params)
        return self.index.nbytes + sum(column.nbytes for column in columns)

    def add(self, groups: Groups) -> I64:
        """Take in or widen groups; return their numbers."""
        ids = as_array(groups.ids)
        since_min, since_max, lease = (
            as_array(column) for column in (groups.since_min, groups.since_max, groups.lease)
        )
        numbers, fresh = self.index.insert(ids)
        count = int(np.count_nonzero(fresh))
        if count:
            for column in (self.since_min, self.since_max, self.lease):
                column.extend(count)
            self.since_min.values[-count:] = _NEVER
            for held, given in zip(self.params, groups.params, strict=True):
                held.append(as_array(given, np.uint32)[fresh])
        if count < len(ids):
            since_min = self._without_ended(numbers, since_min, fresh)
        np.minimum.at(self.since_min.values, numbers, since_min)
        np.maximum.at(self.since_max.values, numbers, since_max)
        np.maximum.at(self.lease.values, numbers, lease)
        return numbers

    def _without_ended(self, numbers: I64, since_min: U64, fresh: npt.NDArray[np.bool_]) -> U64:
        """An ended group stays so, whatever still arrives for it: its identity does not come again."""
        ended = (self.since_min.values[numbers] == _NEVER) & ~fresh
        ended &= self.since_max.values[numbers] != 0  # else it is new in this very batch
        return np.where(ended, _NEVER, since_min)


@dataclass(eq=False)
class _Step:
    """Rows that wait at one step of a plan: a row per ordinal of its identity."""

    plan: _PlanTable
    number: int
    compiled: CompiledStep
    lane: _Lane
    index: HashIndex = field(default_factory=HashIndex)
    group: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint32))
    oldest: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint64))
    born: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint64))
    bindings: list[GrowingColumn] = field(default_factory=list)
    ordinal: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.int64))
    links: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.group)

    @property
    def nbytes(self) -> int:
        columns = (self.group, self.oldest, self.born, self.ordinal, *self.bindings)
        return self.index.nbytes + sum(column.nbytes for column in columns)


class _Lane:
    """Triples and waiting rows of one kind, role and mask, by one index of keys."""

    def __init__(self, triples: _TripleTable, mask: int):
        self.table = triples
        self.mask = mask
        # The table already tells pairs of predicate and object apart: their lane needs no index of its own.
        self.by_pair = mask == keys.P | keys.O and not triples.per_event
        self.index = triples.pairs if self.by_pair else HashIndex()
        self.triples = Postings()
        self.waiting = Postings()
        self.steps: list[_Step] = []
        self.waiting_step = GrowingColumn(np.uint32)
        self.waiting_row = GrowingColumn(np.uint32)

    @property
    def nbytes(self) -> int:
        parts = (self.triples, self.waiting, self.waiting_step, self.waiting_row)
        return sum(part.nbytes for part in parts) + (0 if self.by_pair else self.index.nbytes)

    def keys_of(self, s: U32, p: U32, o: U32) -> U64:
        """Return the exact keys of triples (or of the parts the mask names) under the mask."""
        parts = [part for bit, part in ((keys.S, s), (keys.P, p), (keys.O, o)) if self.mask & bit]
        if len(parts) == 2:
            return _pack(parts[0], parts[1])
        if len(parts) == 1:
            return parts[0].astype(np.uint64)
        if not parts:
            return np.zeros(len(s), np.uint64)
        return self.table.pair_keys(s, p, o)[0]

    def ordinals_of(self, rows: I64) -> I64:
        """Return the ordinals of the keys of stored triples."""
        table = self.table
        if self.by_pair:
            return table.pair.values[rows].astype(np.int64)
        return self.index.insert(self.keys_of(*(table.terms(rows, position) for position in range(3))))[0]


@dataclass(eq=False)
class _PlanTable:
    plan: Plan
    filters: PlanFilters
    groups: _Groups
    steps: list[_Step] = field(default_factory=list)


class ColumnarTables:
    """:class:`p2prdf.store.tables.Tables` on numpy columns."""

    def __init__(self, dictionary: TermDictionary, compile_filter: Callable[[Filter], FilterFunction]):
        self.columns = ARRAYS
        self._dictionary = dictionary
        self._compile_filter = compile_filter
        self._plans: dict[Plan, _PlanTable] = {}
        self._triples = _TripleTable(per_event=False)
        self._events = _TripleTable(per_event=True)
        self._lanes: dict[tuple[bool, int], list[_Lane]] = {}
        self._hashed: tuple[Any, ...] = (None,) * 6
        self._sizes = Sizes()

    # --- triples ---------------------------------------------------------------------------------

    def add_triples(
        self, s: Column, p: Column, o: Column, time: Column, event: Column, roles: Column
    ) -> list[Derived]:
        """Store triples under their roles and join them with the rows that wait."""
        bits = as_array(roles, np.uint32)
        columns = (
            as_array(s, np.uint32), as_array(p, np.uint32), as_array(o, np.uint32), as_array(time), as_array(event),
        )  # fmt: skip
        out: list[Derived] = []
        plain = bits & np.uint32(_PLAIN)
        events = bits >> np.uint32(keys.EVENT_SHIFT)
        for table, wanted in ((self._triples, plain), (self._events, events)):
            chosen = wanted != 0
            count = np.count_nonzero(chosen)
            if count == len(wanted):
                self._add(table, columns, wanted, out)
            elif count:
                self._add(table, tuple(column[chosen] for column in columns), wanted[chosen], out)
        return out

    def _add(
        self, table: _TripleTable, columns: tuple[npt.NDArray[Any], ...], bits: U32, out: list[Derived]
    ) -> None:
        if len(bits) == 0:
            return
        s, p, o, time, event = columns
        rows = table.insert(s, p, o, event)
        for places in table.rounds(rows):
            if places is None:
                self._add_distinct(table, rows, time, bits, out)
            else:
                self._add_distinct(table, rows[places], time[places], bits[places], out)

    def _add_distinct(self, table: _TripleTable, rows: I64, time: U64, bits: U32, out: list[Derived]) -> None:
        """Store triples that are all different; new roles first, then what was published again."""
        held = table.roles.values[rows]
        prior = table.time.values[rows]
        fresh = bits.astype(np.uint16) & ~held
        later = time > prior
        table.time.values[rows] = np.where(later, time, prior)
        table.roles.values[rows] = held | fresh
        self._each_role(table, rows, fresh, None, out)
        if not table.per_event and held.any():
            again = np.where(later, held, np.uint16(0))
            if again.any():
                self._each_role(table, rows, again, prior, out)

    def _each_role(
        self, table: _TripleTable, rows: I64, bits: npt.NDArray[np.uint16], prior: U64 | None, out: list[Derived]
    ) -> None:
        """Store (``prior`` None) or probe again the rows of each role in ``bits``."""
        union = int(np.bitwise_or.reduce(bits))
        for role in range(8):
            if not union >> role & 1:
                continue
            chosen = (bits >> np.uint16(role)) & np.uint16(1) != 0
            whole = bool(chosen.all())
            some = rows if whole else rows[chosen]
            before = prior if prior is None or whole else prior[chosen]
            self._sizes.processing_load += len(some)
            if before is None:
                self._sizes.triple_roles += len(some)
            for lane in self._lanes.get((table.per_event, role), ()):
                self._store_and_probe(lane, some, before, out)

    def _store_and_probe(self, lane: _Lane, rows: I64, prior: U64 | None, out: list[Derived]) -> None:
        ordinals = lane.ordinals_of(rows)
        if prior is None:
            lane.triples.append(ordinals, rows)
        self._probe_waiting(lane, ordinals, rows, prior, out)

    def _probe_waiting(
        self, lane: _Lane, ordinals: I64, rows: I64, prior: U64 | None, out: list[Derived]
    ) -> None:
        """Join triples (published again after ``prior``) with the rows that wait under their keys."""
        needle, waiting = lane.waiting.expand(ordinals)
        if len(needle):
            self._join_pairs(lane, waiting, rows[needle], None if prior is None else prior[needle], out)

    def _join_pairs(
        self, lane: _Lane, waiting: npt.NDArray[Any], triples: I64, prior: U64 | None, out: list[Derived]
    ) -> None:
        """Join waiting rows (by their numbers in the lane) with triples, a step at a time."""
        steps = lane.waiting_step.values[waiting]
        rows = lane.waiting_row.values[waiting].astype(np.int64)
        for number, index in ARRAYS.split(steps):
            if len(index) == len(steps):
                self._join(lane.steps[number], rows, triples, prior, 0, out)
            else:
                before = None if prior is None else prior[index]
                self._join(lane.steps[number], rows[index], triples[index], before, 0, out)

    def _lane(self, per_event: bool, role: int, mask: int) -> _Lane:
        """Return a lane, indexing what is stored under its role if nothing has waited there before."""
        lanes = self._lanes.setdefault((per_event, role), [])
        for lane in lanes:
            if lane.mask == mask:
                return lane
        table = self._events if per_event else self._triples
        lane = _Lane(table, mask)
        rows = np.flatnonzero(table.roles.values >> np.uint16(role) & np.uint16(1))
        if len(rows):
            lane.triples.append(lane.ordinals_of(rows), rows)
        lanes.append(lane)
        return lane

    # --- groups and queries ----------------------------------------------------------------------

    def _plan_table(self, plan: Plan) -> _PlanTable:
        table = self._plans.get(plan)
        if table is not None:
            return table
        table = _PlanTable(plan, PlanFilters(plan, self._dictionary, self._compile_filter), _Groups(plan))
        for place, at in enumerate(plan.steps):
            lane = self._lane(plan.per_event, at.role, at.mask)
            step = _Step(table, place, compile_step(plan, place), lane)
            step.bindings = [GrowingColumn(np.uint32) for _ in at.bound]
            lane.steps.append(step)
            table.steps.append(step)
        self._plans[plan] = table
        return table

    def add_groups(self, plan: Plan, groups: Groups) -> Column:
        """Take in groups, or widen known ones, and return this peer's numbers for them."""
        return self._plan_table(plan).groups.add(groups)

    def add_queries(self, plan: Plan, step: int, group: Column, refresh: int) -> list[Derived]:
        """Let groups wait for their first pattern (step 0), or mark what a later link must keep."""
        table = self._plan_table(plan)
        numbers = as_array(group, np.int64)
        if step > 0:
            table.steps[step].links.update(numbers.tolist())
            return []
        count = len(numbers)
        identity = keys.fmix_array(table.groups.index.keys[numbers])
        return self.add_rows(
            Derived(
                plan, 0, numbers, identity, np.full(count, _NEVER), np.zeros(count, np.uint64), (), refresh
            )
        )

    def add_rows(self, rows: Derived) -> list[Derived]:
        """Store partial results and join them with the triples held."""
        table = self._plan_table(rows.plan)
        step = table.steps[rows.step]
        group = as_array(rows.group, np.int64)
        columns = [group, as_array(rows.identity), as_array(rows.oldest), as_array(rows.born)]
        columns += [as_array(column, np.uint32) for column in rows.bindings]
        if rows.step:
            self._sizes.processing_load += len(group)
        alive = table.groups.since_min.values[group] != _NEVER
        if not alive.all():
            columns = [column[alive] for column in columns]
        if len(columns[0]) == 0:
            return []
        out: list[Derived] = []
        self._add_alive_rows(step, columns, rows.refresh, out)
        return out

    def _add_alive_rows(
        self, step: _Step, columns: list[npt.NDArray[Any]], refresh: int, out: list[Derived]
    ) -> None:
        group, identity, oldest, born, *bindings = columns
        numbers, fresh = step.index.insert(identity)
        count = int(np.count_nonzero(fresh))
        if count == len(fresh):
            ordinals = self._append_rows(step, group, oldest, born, bindings)
            self._probe_triples(step, numbers, ordinals, None, refresh, out)
            return
        if count:
            ordinals = self._append_rows(
                step, group[fresh], oldest[fresh], born[fresh], [column[fresh] for column in bindings]
            )
            self._probe_triples(step, numbers[fresh], ordinals, None, refresh, out)
        known = ~fresh
        self._renew_rows(step, numbers[known], oldest[known], born[known], refresh, out)

    def _append_rows(
        self, step: _Step, group: I64, oldest: U64, born: U64, bindings: list[npt.NDArray[Any]]
    ) -> I64:
        """Store new rows; return the ordinals of their keys in the lane."""
        lane = step.lane
        first, count = len(step), len(group)
        step.group.append(group)
        step.oldest.append(oldest)
        step.born.append(born)
        for held, given in zip(step.bindings, bindings, strict=True):
            held.append(given)
        packed = self._row_lane_keys(step, group, bindings)
        ordinals, _ = lane.index.insert(packed)
        step.ordinal.append(ordinals)
        lane.waiting.append(ordinals, np.arange(len(lane.waiting_row), len(lane.waiting_row) + count))
        lane.waiting_step.extend(count, lane.steps.index(step))
        lane.waiting_row.append(np.arange(first, first + count))
        if step.number:
            self._sizes.rows += count
        else:
            self._sizes.queries += count
        return ordinals

    def _row_lane_keys(self, step: _Step, group: I64, bindings: Sequence[npt.NDArray[Any]]) -> U64:
        empty = np.zeros(len(group), np.uint32)
        sources = iter(step.compiled.key)
        parts = [
            self._waiting_terms(step.plan, next(sources), group, bindings) if step.lane.mask & bit else empty
            for bit in (keys.S, keys.P, keys.O)
        ]
        return step.lane.keys_of(*parts)

    @staticmethod
    def _waiting_terms(
        table: _PlanTable, source: Source, group: I64, bindings: Sequence[npt.NDArray[Any]]
    ) -> U32:
        kind, at = source
        terms: U32 = table.groups.params[at].values[group] if kind == GROUP else bindings[at]
        return terms

    def _renew_rows(
        self, step: _Step, numbers: I64, oldest: U64, born: U64, refresh: int, out: list[Derived]
    ) -> None:
        """Probe for what is new about rows already known: a later ``oldest``, or a refresh."""
        held = step.oldest.values[numbers]
        later = oldest > held
        since = np.full(len(numbers), refresh or NEVER, np.uint64)
        counts = later & (step.plan.groups.since_max.values[step.group.values[numbers]] > held)
        since[counts] = np.minimum(since[counts], held[counts] + np.uint64(1))
        np.maximum.at(step.oldest.values, numbers, oldest)
        np.maximum.at(step.born.values, numbers[later], born[later])
        probe = since != _NEVER
        if probe.any():
            numbers = numbers[probe]
            self._probe_triples(step, numbers, step.ordinal.values[numbers], since[probe], refresh, out)

    def _probe_triples(
        self, step: _Step, rows: I64, ordinals: I64, since: U64 | None, refresh: int, out: list[Derived]
    ) -> None:
        """Join stored rows with the triples held (since a stamp per row)."""
        needle, triples = step.lane.triples.expand(ordinals)
        if len(needle) == 0:
            return
        triples = triples.astype(np.int64, copy=False)
        if since is not None:
            young = step.lane.table.time.values[triples] >= since[needle]
            needle, triples = needle[young], triples[young]
        self._join(step, rows[needle], triples, None, refresh, out)

    # --- the join --------------------------------------------------------------------------------

    def _join(
        self, step: _Step, rows: I64, triples: I64, prior: U64 | None, refresh: int, out: list[Derived]
    ) -> None:
        """Extend rows by triples that have the terms of their keys, where the pair counts."""
        table, compiled = step.lane.table, step.compiled
        groups = step.plan.groups
        group = step.group.values[rows].astype(np.int64)
        time = table.time.values[triples]
        good = time >= groups.since_min.values[group]
        if prior is not None:
            good &= groups.since_max.values[group] > prior
        for first, second in compiled.equal:
            good &= table.terms(triples, first) == table.terms(triples, second)
        if compiled.never_literal:
            good &= ~self._dictionary.literal_array()[table.terms(triples, 2)]
        if not good.all():
            rows, triples, group, time = rows[good], triples[good], group[good], time[good]
        for number, sources in compiled.filters:
            if not len(rows):
                return
            passed = self._passes(step, number, sources, rows, triples)
            rows, triples, group, time = rows[passed], triples[passed], group[passed], time[passed]
        if not len(rows):
            return
        self._sizes.joined += len(rows)
        out.append(self._derive(step, rows, triples, group, time, refresh))

    def _derive(
        self, step: _Step, rows: I64, triples: I64, group: I64, time: U64, refresh: int
    ) -> Derived:
        """Return the rows that pairs of waiting rows and triples make."""
        compiled = step.compiled
        identities = self._identities(step.lane.table, triples)
        return Derived(
            step.plan.plan,
            step.number + 1,
            group,
            step.index.keys[rows] + keys.contributions(identities, compiled.step.position),
            np.minimum(step.oldest.values[rows], time),
            np.maximum(step.born.values[rows], time),
            tuple(self._joined_terms(step, source, rows, triples) for source in compiled.output),
            refresh,
        )

    @staticmethod
    def _joined_terms(step: _Step, source: Source, rows: I64, triples: I64) -> U32:
        kind, at = source
        if kind == ROW:
            bound: U32 = step.bindings[at].values[rows]
            return bound
        return step.lane.table.terms(triples, at)

    def _passes(
        self, step: _Step, number: int, sources: tuple[Source, ...], rows: I64, triples: I64
    ) -> npt.NDArray[np.bool_]:
        columns = [self._joined_terms(step, source, rows, triples).tolist() for source in sources]
        passes = step.plan.filters.passes
        if not columns:
            return np.full(len(rows), passes(number, ()))
        return np.array([passes(number, terms) for terms in zip(*columns, strict=True)], np.bool_)

    def _identities(self, table: _TripleTable, triples: I64) -> U64:
        if table.per_event:
            events: U64 = table.event.values[triples]
            return events
        hashes = self._dictionary.hash_array()
        return keys.triple_ids(*(hashes[table.terms(triples, position)] for position in range(3)))

    # --- ending ----------------------------------------------------------------------------------

    def end_groups(self, ids: Sequence[int]) -> None:
        """Forget groups and what waits for them."""
        wanted = np.array(list(ids), np.uint64)
        for table in self._plans.values():
            numbers = table.groups.index.find(wanted)
            numbers = numbers[numbers >= 0]
            since_min = table.groups.since_min.values
            numbers = numbers[since_min[numbers] != _NEVER]
            if not len(numbers):
                continue
            since_min[numbers] = _NEVER
            table.groups.ended += len(numbers)
            for step in table.steps:
                step.links.difference_update(numbers.tolist())
            self._compact(table)

    def _compact(self, table: _PlanTable) -> None:
        """Drop the rows of ended groups once they are the larger part."""
        for step in table.steps:
            if len(step) < _COMPACT_MIN:
                continue
            alive = table.groups.since_min.values[step.group.values] != _NEVER
            if np.count_nonzero(alive) * 2 < len(step):
                self._drop_rows(step, np.flatnonzero(alive))

    def _drop_rows(self, step: _Step, kept: I64) -> None:
        """Rebuild a step and the waiting rows of its lane with only ``kept`` of its rows."""
        dropped = len(step) - len(kept)
        if step.number:
            self._sizes.rows -= dropped
        else:
            self._sizes.queries -= dropped
        identities = step.index.keys[kept]
        step.index = HashIndex()
        step.index.insert(identities)
        for name in ("group", "oldest", "born", "ordinal"):
            column = getattr(step, name)
            values = column.values[kept]
            fresh = GrowingColumn(values.dtype)
            fresh.append(values)
            setattr(step, name, fresh)
        for place, column in enumerate(step.bindings):
            fresh = GrowingColumn(np.uint32)
            fresh.append(column.values[kept])
            step.bindings[place] = fresh
        lane = step.lane
        lane.waiting = Postings()
        lane.waiting_step = GrowingColumn(np.uint32)
        lane.waiting_row = GrowingColumn(np.uint32)
        for number, each in enumerate(lane.steps):
            first, count = len(lane.waiting_row), len(each)
            lane.waiting.append(each.ordinal.values, np.arange(first, first + count))
            lane.waiting_step.extend(count, number)
            lane.waiting_row.append(np.arange(count))

    def extend_leases(self, ids: Sequence[int], leases: Sequence[int]) -> None:
        """Let groups live until the stamps given."""
        wanted, until = np.array(list(ids), np.uint64), np.array(list(leases), np.uint64)
        for table in self._plans.values():
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
        """Return all rows that wait under a ring key, queries among them; a pass over all that wait under its role."""
        found = []
        for table in self._plans.values():
            for step in table.steps:
                if step.compiled.step.role == role and len(step):
                    group = step.group.values.astype(np.int64)
                    derived = Derived(
                        table.plan, step.number, group, step.index.keys.copy(), step.oldest.values.copy(),
                        step.born.values.copy(), tuple(column.values.copy() for column in step.bindings),
                    )  # fmt: skip
                    wanted = as_array(self.row_keys(derived)) == np.uint64(key)
                    wanted &= table.groups.since_min.values[group] != _NEVER
                    if wanted.any():
                        found.append(part_of(derived, np.flatnonzero(wanted), ARRAYS))
        return found

    def group_ids(self, plan: Plan, group: Column) -> Column:
        """Return the identities of groups by this peer's numbers."""
        ids: U64 = self._plan_table(plan).groups.index.keys[as_array(group, np.int64)]
        return ids

    def row_keys(self, rows: Derived) -> Column:
        """Return the ring key at which each row waits; its step must have a role."""
        compiled = compile_step(rows.plan, rows.step)
        group = as_array(rows.group, np.int64)
        return self._route_keys(rows.plan, compiled, group, rows.bindings)

    def query_keys(self, plan: Plan, step: int, group: Column) -> Column:
        """Return the ring key of a step's pattern by its own constants, per group."""
        return self._route_keys(plan, compile_step(plan, step), as_array(group, np.int64), ())

    def _route_keys(self, plan: Plan, compiled: CompiledStep, group: I64, bindings: Sequence[Column]) -> U64:
        table = self._plan_table(plan)
        hashes = self._dictionary.hash_array()
        nothing = np.zeros(len(group), np.uint64)
        columns = [as_array(column, np.uint32) for column in bindings]
        parts = [
            nothing if source is None else hashes[self._waiting_terms(table, source, group, columns)]
            for source in compiled.route
        ]
        return self._role_keys(compiled.step.role, *parts)

    def triple_keys(self, role: int, s: Column, p: Column, o: Column) -> Column:
        """Return the ring key of each triple under a role."""
        if not (self._hashed[0] is s and self._hashed[1] is p and self._hashed[2] is o):
            hashes = self._dictionary.hash_array()
            self._hashed = (s, p, o, *(hashes[as_array(column, np.uint32)] for column in (s, p, o)))
        parts = self._hashed[3:]
        if role == keys.ANY:
            bucket = keys.triple_ids(*parts) % np.uint64(keys.BUCKETS)
            table = np.array([keys.bucket_key(each) for each in range(keys.BUCKETS)], np.uint64)
            chosen: U64 = table[bucket.astype(np.int64)]
            return chosen
        return self._role_keys(role, *parts)

    @staticmethod
    def _role_keys(role: int, s: U64, p: U64, o: U64) -> U64:
        """Return the ring keys of columns of term hashes."""
        return keys.role_keys(role, s, p, o)

    def count(self, role: int, s: int, p: int, o: int) -> int:
        """Return how many triples the peer holds under a role and constant parts."""
        for lane in self._lanes.get((False, role), ()):
            if lane.mask == role and role != keys.SPO:
                ordinal = lane.index.find(lane.keys_of(*(np.array([term], np.uint32) for term in (s, p, o))))
                return int(lane.triples.counts(ordinal)[0]) if ordinal[0] >= 0 else 0
        table = self._triples
        chosen = table.roles.values >> np.uint16(role) & np.uint16(1) != 0
        for bit, column, term in ((keys.S, table.s, s), (keys.P, table.p, p), (keys.O, table.o, o)):
            if role & bit:
                chosen &= column.values == term
        return int(np.count_nonzero(chosen))

    def sizes(self) -> Sizes:
        """Return what is held and has been done."""
        sizes = replace(self._sizes)
        sizes.queries += sum(len(step.links) for table in self._plans.values() for step in table.steps)
        sizes.triples = len(self._triples) + len(self._events)
        sizes.plans = len(self._plans)
        tables = list(self._plans.values())
        sizes.groups = sum(len(table.groups) - table.groups.ended for table in tables)
        sizes.bytes = self.nbytes
        return sizes

    @property
    def held(self) -> int:
        """Triples and partial results held."""
        return len(self._triples) + len(self._events) + self._sizes.rows

    @property
    def nbytes(self) -> int:
        """Bytes taken by all columns and indexes."""
        lanes = [lane for lanes in self._lanes.values() for lane in lanes]
        plans = list(self._plans.values())
        return (
            self._triples.nbytes
            + self._events.nbytes
            + sum(lane.nbytes for lane in lanes)
            + sum(table.groups.nbytes + sum(step.nbytes for step in table.steps) for table in plans)
        )
