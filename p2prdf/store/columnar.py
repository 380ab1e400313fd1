"""Columnar tables: the contract of :mod:`p2prdf.store.light` on numpy columns, whole batches at once.

- :class:`~p2prdf.hash_index.HashIndex` gives each distinct key a dense ordinal.  The ordinal of a triple, or of a
  row's identity, is its row number, so one probe answers both whether it is known and where.
- :class:`~p2prdf.store.postings.Postings` holds a contiguous run of row numbers per ordinal, so the matches of a
  batch are one gather.
- A join index has *one* hash index of its join keys for triples and waiting rows: storing a triple finds
  the ordinal of the waiting rows.

Keys are packed identifiers, not hashes: two terms in 64 bits, three through the ordinal of the first two.  A probe
needs no verification, and a collision cannot join rows that do not match.  Rejected: sorted runs merged by size, with
a binary search per run and probe and log n moves of every row.

Join indexes are built when the first plan waits in them, from the rows that have the index, and kept.  Indexing under
all seven keys therefore costs a peer only the join indexes in use.

A batch may contain a triple twice, in two publications.  The second must find the table as the first left it, so the
batch is processed in rounds of distinct triples; exact repetitions are taken once.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Column, as_array
from p2prdf.hlc import GONE
from p2prdf.rdf.query import Plan
from p2prdf.store.columnar_ending import ColumnarEnding
from p2prdf.store.columnar_join import ColumnarJoin
from p2prdf.store.join_indexes import JoinIndex, StepRows
from p2prdf.store.tables import NEVER, Derived
from p2prdf.store.triple_table import TripleTable, later_times

__all__ = ["ColumnarTables"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
U16 = npt.NDArray[np.uint16]
Bools = npt.NDArray[np.bool_]

_NEVER = np.uint64(NEVER)
_GONE = np.uint64(GONE)
_PLAIN_TIME = np.uint64(GONE - 1)
_PLAIN = (1 << keys.EVENT_SHIFT) - 1
_ROLES_IN = tuple(tuple(role for role in range(8) if bits >> role & 1) for bits in range(1 << 8))
"""The indexes in each set of indexes."""


class ColumnarTables(ColumnarJoin, ColumnarEnding):
    """:class:`p2prdf.store.tables.Tables` on numpy columns."""

    # --- triples ---------------------------------------------------------------------------------

    def add_triples(
        self, s: Column, p: Column, o: Column, time: Column, event: Column, roles: Column,
        probed: Column | None = None,
    ) -> list[Derived]:  # fmt: skip
        """Store triples under their indexes and join them with the waiting rows in ``probed`` indexes."""
        array = np.asarray
        bits = array(roles, np.uint32)
        joined = None if probed is None else array(probed, np.uint32)
        columns = (
            array(s, np.uint32), array(p, np.uint32), array(o, np.uint32), array(time, np.uint64),
            array(event, np.uint64),
        )  # fmt: skip
        out: list[Derived] = []
        plain = bits & np.uint32(_PLAIN)
        events = np.where(columns[3] < _GONE, bits >> np.uint32(keys.EVENT_SHIFT), np.uint32(0))
        if self.horizons:
            self._leave_out_old(columns[1], columns[3], events)
        for table, wanted, shift in ((self._triples, plain, 0), (self._events, events, keys.EVENT_SHIFT)):
            chosen = wanted != 0
            count = np.count_nonzero(chosen)
            some = None if joined is None else ((joined >> np.uint32(shift)) & np.uint32(_PLAIN)).astype(np.uint16)
            if count == len(wanted):
                self._add(table, columns, wanted, some, out)
            elif count:
                some = None if some is None else some[chosen]
                self._add(table, tuple(column[chosen] for column in columns), wanted[chosen], some, out)
        return out

    def _add(
        self, table: TripleTable, columns: tuple[npt.NDArray[Any], ...], bits: U32, probed: U16 | None,
        out: list[Derived],
    ) -> None:  # fmt: skip
        if len(bits) == 0:
            return
        s, p, o, time, event = columns
        before = len(table)
        rows = table.insert(s, p, o, event)
        # a publisher that renumbers events may reuse a forgotten number
        if table.per_event and table.dead and (rows < before).any():
            living = (table.roles.values[rows] != 0) | (rows >= before)
            rows, time, bits = rows[living], time[living], bits[living]
            probed = None if probed is None else probed[living]
        if table.each_once(rows):
            self._add_round(table, rows, time, bits, probed, out)
            return
        # An exact repetition within a batch changes nothing, and a batch may hold a hundred thousand of them.
        once = _first_places((rows, time, bits) if probed is None else (rows, time, bits, probed))
        for places in table.rounds(rows[once]):
            chosen = once[places]
            some = None if probed is None else probed[chosen]
            self._add_round(table, rows[chosen], time[chosen], bits[chosen], some, out)

    def _add_round(
        self, table: TripleTable, rows: I64, time: U64, bits: U32, probed: U16 | None, out: list[Derived]
    ) -> None:
        """Store publications of different triples, and deletions."""
        divided = table.divided(rows, time)
        if divided is None:
            self._add_distinct(table, rows, time, bits, probed, out)
            return
        whole = ~divided
        if whole.any():
            some = None if probed is None else probed[whole]
            self._add_distinct(table, rows[whole], time[whole], bits[whole], some, out)
        places = np.flatnonzero(divided)
        chosen = (rows[places].tolist(), time[places].tolist(), bits[places].tolist())
        found = [table.resolve(*each) for each in zip(*chosen, strict=True)]
        counts = [len(each) for each in found]
        if sum(counts):
            at = np.repeat(places, counts)
            changed = np.array([row for each in found for row, _, _ in each], np.int64)
            times = np.array([stamp for each in found for _, stamp, _ in each], np.uint64)
            had = np.array([roles for each in found for _, _, roles in each], np.uint32)
            some = None if probed is None else probed[at]
            self._add_distinct(table, changed, times, bits[at], some, out, had)

    def _add_distinct(
        self, table: TripleTable, rows: I64, time: U64, named: U32, probed: U16 | None, out: list[Derived],
        had: U32 | None = None,
    ) -> None:  # fmt: skip
        """Store distinct triples; new indexes first, then republished triples.

        ``named``: the indexes of the message; ``had``: those of the interval that each came from.
        """
        bits = named if had is None else named | had
        held = table.roles.values[rows]
        prior = table.time.values[rows]
        fresh = bits.astype(np.uint16) & ~held
        now = later_times(prior, time)
        later = now > prior
        table.time.values[rows] = now
        table.roles.values[rows] = held | fresh
        changed = (now != prior) | (fresh != 0)
        if table.any_over and not table.per_event:
            self._note_ends_of(now[changed & (now >= _GONE)] & _PLAIN_TIME)
        again = rows[changed & (held != 0)]
        table.touched(again, anything=bool(changed.any()))
        if table.per_event and len(again):
            self._changed_again(again)
        if probed is not None:
            if had is not None or held.any():  # else the message names all indexes
                others = (fresh | np.where(later, held, np.uint16(0))) & probed & ~named.astype(np.uint16)
                probed = probed & ~self._led_elsewhere(table, rows, others)
            self._store_only(table, rows, fresh & ~probed)
            fresh &= probed
        begins = (prior == 0) & (now < _GONE)
        self._each_role(table, rows, fresh, None, self._met_from(now, begins & (held == 0)), out)
        if held.any():
            again = np.where(later, held, np.uint16(0))
            if probed is not None:
                again &= probed
            if again.any():
                met = self._met_from(now, begins)
                if self.settled:  # an ended row was joined when the triple came, or when the row ended
                    met[(prior > 0) & (prior < _GONE)] = _NEVER
                self._each_role(table, rows, again, np.where(now < _GONE, prior, np.uint64(0)), met, out)

    def _led_elsewhere(self, table: TripleTable, rows: I64, bits: U16) -> U16:
        """Return those indexes of ``bits`` in which other peers join the rows."""
        elsewhere = np.zeros_like(bits)
        if self._leads is None or not bits.any():
            return elsewhere
        for role, chosen in _by_role(bits):
            some = rows if chosen is None else rows[chosen]
            ring = self.triple_keys(role, *(table.terms(some, position) for position in range(3)))
            bit = np.where(np.asarray(self._leads(role, ring), np.bool_), np.uint16(0), np.uint16(1 << role))
            elsewhere[slice(None) if chosen is None else chosen] |= bit
        return elsewhere
    def _note_ends_of(self, ends: U64) -> None:
        if len(ends):
            self._note_ends(int(ends.min()), int(ends.max()))

    def _met_from(self, times: U64, begins: Bools) -> U64:
        """Return per triple the stamp before which ended rows are not joined with it; ``begins``: it is new here."""
        met = np.full(len(times), self._ended_from, np.uint64)
        return np.where(begins, np.maximum(met, times + np.uint64(1)), met) if self.settled else met

    def _each_role(
        self, table: TripleTable, rows: I64, bits: U16, prior: U64 | None, met: U64, out: list[Derived]
    ) -> None:
        """Store and probe (``prior`` None), or probe again, the rows of each index in ``bits``."""
        for role, chosen in _by_role(bits):
            some = rows if chosen is None else rows[chosen]
            before = prior if prior is None or chosen is None else prior[chosen]
            if role == keys.ANY:  # several peers join there
                ended = np.full(len(some), self._ended_from, np.uint64)
            else:
                ended = met if chosen is None else met[chosen]
            self._sizes.processing_load += len(some)
            if before is None:
                self._sizes.triple_roles += len(some)
            for join_index in self._join_indexes.get((table.per_event, role), ()):
                self._store_and_probe(join_index, some, before, ended, out)

    def _store_only(self, table: TripleTable, rows: I64, bits: U16) -> None:
        """Store the rows of each index in ``bits``, for another peer to join."""
        for role, chosen in _by_role(bits):
            some = rows if chosen is None else rows[chosen]
            self._sizes.triple_roles += len(some)
            for join_index in self._join_indexes.get((table.per_event, role), ()):
                join_index.triples.append(join_index.ordinals_of(some), some)

    def _store_and_probe(
        self, join_index: JoinIndex, rows: I64, prior: U64 | None, met: U64, out: list[Derived]
    ) -> None:
        ordinals = join_index.ordinals_of(rows)
        if prior is None:
            join_index.triples.append(ordinals, rows)
        self._probe_waiting(join_index, ordinals, rows, prior, met, out)

    # --- queries and rows ------------------------------------------------------------------------

    def add_queries(
        self, plan: Plan, step: int, group: Column, refresh: int, probed: Column | None = None
    ) -> list[Derived]:
        """Let groups wait for their first pattern (step 0), or mark the triples that a later link must keep."""
        table = self._plan_table(plan)
        numbers = as_array(group, np.int64)
        if step > 0:
            links = table.steps[step].links
            before = len(links)
            living = table.groups.since_min.values[numbers] != _NEVER
            links.update(numbers[living].tolist())
            self._changes += len(links) - before
            return []
        count = len(numbers)
        identity = keys.fmix_array(table.groups.index.keys[numbers])
        return self.add_rows(
            Derived(
                plan, 0, numbers, identity, np.full(count, _NEVER), np.zeros(count, np.uint64), (), refresh
            ),
            probed,
        )

    def add_rows(self, rows: Derived, probed: Column | None = None) -> list[Derived]:
        """Store partial results and join them, or the ``probed`` ones, with the triples held."""
        table = self._plan_table(rows.plan)
        step = table.steps[rows.step]
        group = as_array(rows.group, np.int64)
        columns = [group, as_array(rows.identity), as_array(rows.oldest), as_array(rows.born)]
        columns += [as_array(column, np.uint32) for column in rows.bindings]
        joined = None if probed is None else as_array(probed, np.bool_)
        if rows.step:
            self._sizes.processing_load += len(group) if joined is None else int(np.count_nonzero(joined))
        alive = table.groups.since_min.values[group] != _NEVER
        if not alive.all():
            columns = [column[alive] for column in columns]
            joined = None if joined is None else joined[alive]
        if self.horizons and rows.step:
            known = self._not_old(table, columns[2], group if alive.all() else group[alive])
            if known is not None:
                columns = [column[known] for column in columns]
                joined = None if joined is None else joined[known]
        if len(columns[0]) == 0:
            return []
        out: list[Derived] = []
        self._add_alive_rows(step, columns, joined, rows.refresh, out)
        return out

    def _add_alive_rows(
        self, step: StepRows, columns: list[npt.NDArray[Any]], probed: Bools | None, refresh: int, out: list[Derived]
    ) -> None:
        group, identity, oldest, born, *bindings = columns
        step.any_over = step.any_over or bool((oldest == _GONE).any())
        numbers, fresh = step.index.insert(identity)
        count = int(np.count_nonzero(fresh))
        if count == len(fresh):
            ordinals = self._append_rows(step, group, oldest, born, bindings)
            self._probe_new(step, numbers, ordinals, probed, refresh, out)
            return
        if count:
            ordinals = self._append_rows(
                step, group[fresh], oldest[fresh], born[fresh], [column[fresh] for column in bindings]
            )
            self._probe_new(step, numbers[fresh], ordinals, _chosen(probed, fresh), refresh, out)
        known = ~fresh
        self._renew_rows(step, numbers[known], oldest[known], born[known], _chosen(probed, known), refresh, out)

    def _probe_new(
        self, step: StepRows, numbers: I64, ordinals: I64, probed: Bools | None, refresh: int, out: list[Derived]
    ) -> None:
        if probed is not None:
            numbers, ordinals = numbers[probed], ordinals[probed]
        met = np.full(len(numbers), self._ended_from, np.uint64)
        if self.settled and step.compiled.step.role != keys.ANY:
            begins = np.where(step.oldest.values[numbers] == _GONE, np.uint64(0), step.born.values[numbers])
            heard = step.plan.groups.first_heard.values[step.group.values[numbers]]
            met = np.maximum(met, np.maximum(begins, heard) + np.uint64(1))
        self._probe_triples(step, numbers, ordinals, None, met, refresh, out)

    def _append_rows(
        self, step: StepRows, group: I64, oldest: U64, born: U64, bindings: list[npt.NDArray[Any]]
    ) -> I64:
        """Store new rows; return the ordinals of their keys in the join index."""
        ordinals = step.store(group, oldest, born, bindings)
        if step.any_over:
            self._note_ends_of(born[oldest == _GONE])
        if step.number:
            self._sizes.rows += len(group)
        else:
            self._sizes.queries += len(group)
        return ordinals

    def _renew_rows(
        self, step: StepRows, numbers: I64, oldest: U64, born: U64, probed: Bools | None, refresh: int,
        out: list[Derived],
    ) -> None:  # fmt: skip
        """Probe for the changes of known rows: a later ``oldest``, or a backfill."""
        held = step.oldest.values[numbers]
        later = oldest > held
        since = np.full(len(numbers), refresh or NEVER, np.uint64)
        counts = later & ((step.plan.groups.since_max.values[step.group.values[numbers]] > held) | (oldest == _GONE))
        self._skipped |= bool((later & ~counts).any())
        since[counts] = np.minimum(since[counts], held[counts] + np.uint64(1))
        since[counts & (oldest == _GONE)] = 0
        if step.any_over:
            self._note_ends_of(born[later & (oldest == _GONE)])
        self._changes += bool(later.any())
        np.maximum.at(step.oldest.values, numbers, oldest)
        np.maximum.at(step.born.values, numbers[later], born[later])
        if step.plan.plan.per_event and later.any():
            self._renewed(step, numbers[later])
        probe = since != _NEVER
        if probed is not None:
            probe &= probed
        if probe.any():
            numbers = numbers[probe]
            # An ended triple was joined when its row came, or when it ended.
            alone = self.settled and not refresh and step.compiled.step.role != keys.ANY
            met = np.full(len(numbers), GONE if alone else self._ended_from, np.uint64)
            self._probe_triples(step, numbers, step.ordinal.values[numbers], since[probe], met, refresh, out)


def _first_places(columns: Sequence[npt.NDArray[Any]]) -> I64:
    """Return the first place of each distinct row of some columns, ascending."""
    order = np.lexsort(columns[::-1])  # stable: of equal rows the first place comes first
    differs = np.zeros(len(order), bool)
    differs[:1] = True
    for column in columns:
        of_order = column[order]
        differs[1:] |= of_order[1:] != of_order[:-1]
    return np.sort(order[differs])


def _by_role(bits: U16) -> list[tuple[int, Bools | None]]:
    """Return each role in a column of sets, and the places where it occurs; None: everywhere."""
    if len(bits) == 1:
        union = int(bits[0])
        return [(role, None) for role in _ROLES_IN[union & 0xFF]]
    union, found = int(np.bitwise_or.reduce(bits)), []
    for role in _ROLES_IN[union & 0xFF]:
        chosen = (bits >> np.uint16(role)) & np.uint16(1) != 0
        found.append((role, None if chosen.all() else chosen))
    return found


def _chosen(probed: Bools | None, places: Bools) -> Bools | None:
    return None if probed is None else probed[places]
