"""Columnar tables forget elements of streams, and rows made of them (:mod:`p2prdf.store.horizons`).

The problem.  Triples and rows are numbered, and all that finds them holds their numbers: hash indexes, postings, the
places that fingerprints are summed by.  Taking single ones out of all that would burden each of these structures,
which know but additions; making all of it anew at once would hold everything up, some microseconds a triple.

The idea.  What is forgotten is first only *dead*: it has no role and no time, so nothing meets it and nobody is told of
it.  That is a pass over columns, a piece at a time.  When most of what is held is dead, tables of events, their lanes
and the steps of the plans that are joined with them are *laid out* anew beside, also a piece at a time, in the order
they have; meanwhile all goes on in the old ones.  What comes is at their end, so the pass comes to it; what changes of
that which was copied already is noted, and done again at the end.  Then the new take the place of the old.  Each
element is copied once for one that is forgotten.

Whoever holds a step or a table over a pause, as a rejoin does, goes on with the old one, in which nothing changes any
more.  If a lane, a step or a plan is made meanwhile, or rows of ended groups are dropped, it is begun anew.

Rejected: slots that are used again (each structure would have to know all references to a row), and a table per
stretch of event time (everything would have to be looked for in each of them).
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
from p2prdf.store.lanes import Lane, PlanTable, StepRows
from p2prdf.store.tables import NEVER
from p2prdf.store.triple_table import TripleTable

__all__ = ["DEAD_MIN", "ColumnarForgetting"]

LOOKED_AT: Final = 16_384
"""Triples, or rows, looked at per call for what is old: about a millisecond."""
COPIED: Final = 1024
"""Triples, or rows, copied per call: a few milliseconds, with all seven roles."""
DEAD_MIN: Final = 8192
"""So many dead ones are not worth the copying."""

U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_NEVER = np.uint64(NEVER)


class ColumnarForgetting(ColumnarItems):
    """Columnar tables that forget."""

    _sweep: Iterator[None] | None = None
    _sweep_again = False
    _layout: _Layout | None = None

    # --- what comes ------------------------------------------------------------------------------

    def _leave_out_old(self, predicates: npt.NDArray[Any], times: U64, roles: npt.NDArray[np.uint32]) -> None:
        """Take the roles from those that are forgotten already."""
        old = self.horizons.old(times, predicates)
        if len(old):
            self._sizes.elements_late += int(np.count_nonzero(roles[old]))
            roles[old] = 0

    def _not_old(self, table: PlanTable, oldest: U64, group: I64) -> npt.NDArray[np.bool_] | None:
        """Return which rows of a plan have no forgotten element; None: that is so for all."""
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

    # --- what is held ----------------------------------------------------------------------------

    def forget(self, stream: int, before: int) -> bool:
        """Forget elements of a stream from before an event time; return whether that is news."""
        grown = self.horizons.grow(stream, before)
        self._sweep_again |= grown
        return grown

    @property
    def forgetting(self) -> bool:
        """Whether something is to be looked at or copied."""
        return self._sweep is not None or self._sweep_again or self._layout is not None

    def forget_some(self) -> None:
        """Look at some of what is held, or copy some."""
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

    def _sweeping(self) -> Iterator[None]:
        table = self._events
        for start in range(0, len(table), LOOKED_AT):
            stop = min(start + LOOKED_AT, len(table))
            old = self.horizons.old(table.time.values[start:stop], table.p.values[start:stop])
            if len(old):
                self._forget_elements(start + old)
            yield
        for plan in list(self._plans.values()):
            for place in range(1, len(plan.steps) if plan.plan.per_event else 0):
                start = 0
                while start < len(step := plan.steps[place]):
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
        self._changes += 2 * len(rows)  # there are fewer, and the version is to grow

    # --- laid out anew ---------------------------------------------------------------------------

    def _begin_layout(self) -> None:
        """Have what lives copied, if more is dead."""
        plans = [plan for plan in self._plans.values() if plan.plan.per_event]
        dead = self._events.dead + sum(step.dead for plan in plans for step in plan.steps)
        held = len(self._events) + sum(len(step) for plan in plans for step in plan.steps)
        if dead > DEAD_MIN and 2 * dead > held:
            lanes = {role: lanes for (per_event, role), lanes in self._lanes.items() if per_event}
            self._layout = _Layout(self._events, lanes, plans, self._full_text)

    def _laid_out_anew(self, *, per_event: bool) -> None:
        """Drop what was copied: lanes or steps are made, or numbered anew."""
        if per_event and self._layout is not None:
            _part(self._layout.lanes)
            self._layout = None
            self._sweep_again = True

    def _changed_again(self, rows: I64) -> None:
        """Take note that events have changed that were there before."""
        if self._layout is not None:
            self._layout.changed.append(rows)

    def _renewed(self, step: StepRows, rows: I64) -> None:
        """Take note that rows have changed that were there before."""
        if self._layout is not None:
            self._layout.renewed.append((step, rows))

    def _replace(self, layout: _Layout) -> None:
        """Let what was laid out take the place of what it was copied from."""
        fresh = layout.table
        fresh.version, fresh.layout = self._events.version + 1, self._events.layout + 1
        self._events = fresh
        _part({role: self._lanes[True, role] for role in layout.lanes})
        for role, lanes in layout.lanes.items():
            self._lanes[True, role] = lanes
        for plan, steps in layout.steps:
            for old, new in zip(plan.steps, steps, strict=True):
                ended = len(old) - old.dead - len(new)
                self._changes += 2 * ended
                if new.number:
                    self._sizes.rows -= ended
                else:
                    self._sizes.queries -= ended
            plan.steps = steps


def _part(lanes: dict[int, list[Lane]]) -> None:
    """Let lanes that are not used any more go, with their steps: these know each other.

    So only the garbage collector would find them, and that comes round by the number of objects: these are few, and
    as large as all that is held.  Who goes on with an old step needs its lane, never the other way round.
    """
    for each in lanes.values():
        for lane in each:
            lane.steps.clear()


class _Layout:
    """Events, their lanes and the steps of their plans, as far as they are copied."""

    def __init__(self, table: TripleTable, lanes: dict[int, list[Lane]], plans: list[PlanTable], full_text: FullText):
        self._old = table
        self.table = TripleTable(per_event=True, room=2 * (len(table) - table.dead))
        self.lanes = {role: [Lane(self.table, lane.mask) for lane in each] for role, each in lanes.items()}
        pairs = [pair for role, each in lanes.items() for pair in zip(each, self.lanes[role], strict=True)]
        fresh = {id(old): new for old, new in pairs}
        for old, new in pairs:
            new.texts = None if old.texts is None else TextRows(full_text)
        self.steps = [(plan, [self._empty(step, fresh[id(step.lane)]) for step in plan.steps]) for plan in plans]
        for _, new in pairs:
            new.steps.sort(key=lambda step: step.place)
        self._moved = GrowingColumn(np.int64)
        """By row its new number, -1: it was dead."""
        self._rows_moved = {id(step): GrowingColumn(np.int64) for plan in plans for step in plan.steps}
        self.changed: list[I64] = []
        self.renewed: list[tuple[StepRows, I64]] = []
        self._held = 0

    @staticmethod
    def _empty(step: StepRows, lane: Lane) -> StepRows:
        """Return a step without rows, in another lane."""
        made = StepRows(step.plan, step.number, step.compiled, lane, step.place, step.condition)
        made.bindings = [GrowingColumn(np.uint32) for _ in step.bindings]
        made.links, made.any_over = step.links, step.any_over
        lane.steps.append(made)
        return made

    def go_on(self) -> bool:
        """Copy some; return whether there is more."""
        pairs = [pair for plan, steps in self.steps for pair in zip(plan.steps, steps, strict=True)]
        held = len(self._old) + sum(len(old) for old, _ in pairs)
        left = max(COPIED, 2 * (held - self._held)) if self._held else COPIED  # more than has come since
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
        for role, lanes in self.lanes.items():
            some = rows[roles >> np.uint16(role) & np.uint16(1) != 0]
            for lane in lanes if len(some) else ():
                lane.triples.append(lane.ordinals_of(some), some)

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
        """Do what has changed since it was copied."""
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
"""How many roles there are in each set of them."""
