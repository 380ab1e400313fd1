"""Columnar tables: forgetting of stream elements and of rows that contain them (:mod:`p2prdf.store.horizons`).

Superseded intervals of triples are forgotten, too; their rows are used again (:mod:`p2prdf.store.triple_table`).

Triples and rows are numbered, and hash indexes, postings and digests refer to these numbers.  These structures only
add; removing single entries would burden all of them, and rebuilding everything at once would block the peer for some
microseconds per triple.

A forgotten item is first only *dead*: it has no index and no time, so it is neither joined nor exported.  When most
items are dead, the tables of events, their join indexes and the steps of their plans are copied, a piece at a time
and in order, while the old ones stay in use.  New items are at the end and are reached by the copy; changes to copied
items are recorded and repeated at the end.  Then the copies replace the originals.  Each element is copied once per
forgotten element.

A recomputation that holds an old step or table over a pause continues with it; it no longer changes.  If a join
index, step or plan is made meanwhile, or rows of ended groups are dropped, the copy starts again.

Rejected: reuse of slots (each structure would have to know all references to a row); a table per range of event time
(each would have to be searched).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.grow import GrowingColumn
from p2prdf.store.columnar_items import ColumnarItems
from p2prdf.store.columnar_texts import TextRows
from p2prdf.store.full_text import FullText
from p2prdf.store.join_indexes import JoinIndex, PlanTable, StepRows
from p2prdf.store.tables import NEVER
from p2prdf.store.triple_table import TripleTable

__all__ = ["DEAD_MIN", "ColumnarForgetting"]

LOOKED_AT: Final = 16_384
"""Triples, or rows, checked per call: about a millisecond."""
INTERVALS_AT_ONCE: Final = 512
"""Triples looked at, and intervals forgotten, per call: a few milliseconds."""
COPIED: Final = 1024
"""Triples, or rows, copied per call: a few milliseconds, with all seven indexes."""
DEAD_MIN: Final = 8192
"""Number of dead items that does not justify the copy."""

U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_NEVER = np.uint64(NEVER)


class ColumnarForgetting(ColumnarItems):
    """Columnar tables that forget stream elements and superseded intervals."""

    _sweep: Iterator[None] | None = None
    _sweep_again = False
    _layout: _Layout | None = None

    # --- arrivals --------------------------------------------------------------------------------

    def _leave_out_old(self, predicates: npt.NDArray[Any], times: U64, roles: npt.NDArray[np.uint32]) -> None:
        """Remove the indexes from the elements that are forgotten already."""
        old = self.horizons.old(times, predicates)
        if len(old):
            self._sizes.elements_late += int(np.count_nonzero(roles[old]))
            roles[old] = 0

    def _not_old(self, table: PlanTable, oldest: U64, group: I64) -> npt.NDArray[np.bool_] | None:
        """Return which rows of a plan have no forgotten element; None: all of them."""
        old = self._old_rows(table, oldest, group)
        if not len(old):
            return None
        known = np.ones(len(oldest), np.bool_)
        known[old] = False
        return known

    def _old_rows(self, table: PlanTable, oldest: U64, group: npt.NDArray[Any]) -> I64:
        """Return the places of rows of a plan that have a forgotten element."""
        places = self.horizons.perhaps_old(oldest)
        if not len(places):
            return places
        groups, which = np.unique(group[places], return_inverse=True)
        params = [column.values[groups].tolist() for column in table.groups.params]
        constants = zip(*params, strict=True) if params else [()] * len(groups)
        return self.horizons.before(oldest, places, which, map(self.horizons.stream_of, constants))

    # --- held items ------------------------------------------------------------------------------

    def forget(self, stream: int, before: int) -> bool:
        """Forget elements of a stream before an event time; return whether that time is later than before."""
        grown = self.horizons.grow(stream, before)
        self._sweep_again |= grown
        return grown

    @property
    def superseded(self) -> bool:
        """Whether superseded intervals may be held."""
        return bool(self._superseded)

    def forget_superseded(self, before: int) -> None:
        """Forget the intervals that ended before a stamp and are not the first of their triple."""
        self.superseded_before = before
        self._superseded.look_at_all()

    @property
    def forgetting(self) -> bool:
        """Whether there are items to check or to copy."""
        due = bool(self.superseded_before and self._superseded.due)
        return due or self._sweep is not None or self._sweep_again or self._layout is not None

    def forget_some(self) -> None:
        """Check some of the held items, or copy some."""
        if self.superseded_before and self._superseded.due:
            self._forget_intervals()
            return
        if self._layout is not None:
            if not self._layout.go_on():
                self._replace(self._layout)
                self._layout = None
            return
        if self._sweep is None:
            if not self._sweep_again:
                return
            self._sweep_again, self._sweep = False, self._sweeping()
        if next(self._sweep, self) is self:
            self._sweep = None
            self._begin_layout()

    def _forget_intervals(self) -> None:
        """Look at some triples, and forget some intervals: one triple may have very many."""
        left, triples = INTERVALS_AT_ONCE, self._superseded.take(INTERVALS_AT_ONCE)
        for place, first in enumerate(triples):
            if left <= 0:
                self._superseded.look_again(triples[place:])
                return
            gone, rows = self._triples.forget(first, self.superseded_before, left)
            self._sizes.intervals_forgotten += rows
            if gone == left:
                self._superseded.look_again([first])
            left -= max(1, gone)

    def _sweeping(self) -> Iterator[None]:
        table = self._events
        for start in range(0, len(table), LOOKED_AT):
            stop = min(start + LOOKED_AT, len(table))
            old = self.horizons.old(table.time.values[start:stop], table.p.values[start:stop])
            if len(old):
                self._forget_elements(start + old)
            yield
        for plan in list(self._plans.values()):
            for step in plan.steps[1:] if plan.plan.per_event else ():
                start = 0
                while start < len(step):
                    part = slice(start, start + LOOKED_AT)
                    old = self._old_rows(plan, step.oldest.values[part], step.group.values[part])
                    self._forget_rows(step, start + old)
                    start += LOOKED_AT
                    yield

    def _forget_elements(self, rows: I64) -> None:
        table = self._events
        self._sizes.triple_roles -= int(_ROLES_IN[table.roles.values[rows]].sum())
        self._sizes.elements_forgotten += len(rows)
        table.roles.values[rows] = 0
        table.time.values[rows] = 0
        table.dead += len(rows)
        table.touched(rows, anything=True)

    def _forget_rows(self, step: StepRows, rows: I64) -> None:
        step.oldest.values[rows] = 0
        step.dead += len(rows)
        self._sizes.rows -= len(rows)
        self._sizes.rows_forgotten += len(rows)
        self._changes += 2 * len(rows)  # there are fewer items, and the version must grow

    # --- the copy --------------------------------------------------------------------------------

    def _begin_layout(self) -> None:
        """Begin the copy if most items are dead."""
        plans = [plan for plan in self._plans.values() if plan.plan.per_event]
        dead = self._events.dead + sum(step.dead for plan in plans for step in plan.steps)
        held = len(self._events) + sum(len(step) for plan in plans for step in plan.steps)
        if dead > DEAD_MIN and 2 * dead > held:
            of_events = {role: each for (per_event, role), each in self._join_indexes.items() if per_event}
            self._layout = _Layout(self._events, of_events, plans, self._full_text)

    def _laid_out_anew(self, *, per_event: bool) -> None:
        """Drop the copy: join indexes or steps are made or renumbered."""
        if per_event and self._layout is not None:
            _part(self._layout.join_indexes)
            self._layout = None
            self._sweep_again = True

    def _changed_again(self, rows: I64) -> None:
        """Record changes to known events."""
        if self._layout is not None:
            self._layout.changed.append(rows)

    def _renewed(self, step: StepRows, rows: I64) -> None:
        """Record changes to known rows."""
        if self._layout is not None:
            self._layout.renewed.append((step, rows))

    def _replace(self, layout: _Layout) -> None:
        """Replace the originals by the copy."""
        fresh = layout.table
        fresh.version, fresh.layout = self._events.version + 1, self._events.layout + 1
        self._events = fresh
        _part({role: self._join_indexes[True, role] for role in layout.join_indexes})
        for role, join_indexes in layout.join_indexes.items():
            self._join_indexes[True, role] = join_indexes
        for plan, steps in layout.steps:
            for old, new in zip(plan.steps, steps, strict=True):
                ended = len(old) - old.dead - len(new)
                self._changes += 2 * ended
                if new.number:
                    self._sizes.rows -= ended
                else:
                    self._sizes.queries -= ended
            plan.steps = steps


def _part(join_indexes: dict[int, list[JoinIndex]]) -> None:
    """Release unused join indexes and their steps, which refer to each other.

    Otherwise only the garbage collector would find them.  It runs by the number of objects, and these are few but as
    large as all held items.  A caller that continues with an old step needs its join index, never the reverse.
    """
    for each in join_indexes.values():
        for join_index in each:
            join_index.steps.clear()


class _Layout:
    """The copy so far: events, their join indexes and the steps of their plans."""

    def __init__(
        self, table: TripleTable, join_indexes: dict[int, list[JoinIndex]], plans: list[PlanTable], full_text: FullText
    ):
        self._old = table
        self.table = TripleTable(per_event=True, room=2 * (len(table) - table.dead))
        self.join_indexes = {
            role: [JoinIndex(self.table, old.mask) for old in each] for role, each in join_indexes.items()
        }
        pairs = [
            pair for role, each in join_indexes.items() for pair in zip(each, self.join_indexes[role], strict=True)
        ]
        fresh = {id(old): new for old, new in pairs}
        for old, new in pairs:
            new.texts = None if old.texts is None else TextRows(full_text)
        self.steps = [(plan, [self._empty(step, fresh[id(step.join_index)]) for step in plan.steps]) for plan in plans]
        self._moved = GrowingColumn(np.int64)
        """The new number by row; -1: the row was dead."""
        self._rows_moved = {id(step): GrowingColumn(np.int64) for plan in plans for step in plan.steps}
        self.changed: list[I64] = []
        self.renewed: list[tuple[StepRows, I64]] = []
        self._held = 0

    @staticmethod
    def _empty(step: StepRows, join_index: JoinIndex) -> StepRows:
        """Return a step without rows, in another join index."""
        made = StepRows(step.plan, step.number, step.compiled, join_index, step.place, step.condition)
        made.bindings = [GrowingColumn(np.uint32) for _ in step.bindings]
        made.links, made.any_over = step.links, step.any_over
        join_index.place_at(made, len(step.join_index.steps))
        return made

    def go_on(self) -> bool:
        """Copy some items; return whether there are more."""
        pairs = [pair for plan, steps in self.steps for pair in zip(plan.steps, steps, strict=True)]
        held = len(self._old) + sum(len(old) for old, _ in pairs)
        left = max(COPIED, 2 * (held - self._held)) if self._held else COPIED  # more than have arrived since
        self._held = held
        left -= self._copy_events(left)
        for old, new in pairs:
            if left > 0:
                left -= self._copy_rows(old, new, left)
        if left <= 0:
            return True
        self._do_again({id(old): new for old, new in pairs})
        return False

    def _copy_events(self, most: int) -> int:
        old, first = self._old, len(self._moved)
        count = min(most, len(old) - first)
        rows = first + np.flatnonzero(old.roles.values[first : first + count])
        self._moved.extend(count, -1)
        if len(rows):
            s, p, o = (old.terms(rows, at) for at in range(3))
            moved = self.table.insert(s, p, o, old.event.values[rows])
            self._moved.values[rows] = moved
            self.table.time.values[moved] = old.time.values[rows]
            self.table.roles.values[moved] = old.roles.values[rows]
            self._store(moved, old.roles.values[rows])
        return count

    def _store(self, rows: I64, roles: U16) -> None:
        for role, join_indexes in self.join_indexes.items():
            some = rows[roles >> np.uint16(role) & np.uint16(1) != 0]
            for join_index in join_indexes if len(some) else ():
                join_index.triples.append(join_index.ordinals_of(some), some)

    def _copy_rows(self, old: StepRows, new: StepRows, most: int) -> int:
        moved = self._rows_moved[id(old)]
        first = len(moved)
        count = min(most, len(old) - first)
        part = slice(first, first + count)
        living = old.plan.groups.since_min.values[old.group.values[part]] != _NEVER
        rows = old.true(first + np.flatnonzero(living))
        moved.extend(count, -1)
        if len(rows):
            moved.values[rows] = np.arange(len(new), len(new) + len(rows))
            new.index.insert(old.index.keys[rows])
            new.store(old.group.values[rows], old.oldest.values[rows], old.born.values[rows], [
                column.values[rows] for column in old.bindings
            ])  # fmt: skip
        return count

    def _do_again(self, fresh: dict[int, StepRows]) -> None:
        """Repeat the changes to items that were copied before."""
        for rows in self.changed:
            rows = rows[self._moved.values[rows] >= 0]
            moved = self._moved.values[rows]
            self.table.time.values[moved] = self._old.time.values[rows]
            more = self._old.roles.values[rows] & ~self.table.roles.values[moved]
            self.table.roles.values[moved] |= more
            self._store(moved, more)
        for old, rows in self.renewed:
            moved_rows = self._rows_moved[id(old)].values[rows]
            rows, moved_rows = rows[moved_rows >= 0], moved_rows[moved_rows >= 0]
            new = fresh[id(old)]
            new.oldest.values[moved_rows] = old.oldest.values[rows]
            new.born.values[moved_rows] = old.born.values[rows]
            new.any_over |= old.any_over


_ROLES_IN: Final = np.array([bits.bit_count() for bits in range(1 << keys.EVENT_SHIFT)])
"""The number of indexes in each set of indexes."""
