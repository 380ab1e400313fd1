"""Columnar tables: the end of groups, and the release of their plans and rows.

A group ends at once: its rows are joined and exported no more.  They stay in their columns until
:meth:`ColumnarEnding.release_ended`, since callers hold numbers of groups.  A plan without live groups is then released
as a whole.  In another plan the ended groups and their rows are released once they outnumber the live ones, so each is
released at the cost of one other.  The identity of an ended group is remembered apart from its plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from p2prdf.columns import as_array
from p2prdf.store.columnar_forget import ColumnarForgetting
from p2prdf.store.items import remember
from p2prdf.store.join_indexes import PlanTable, StepRows
from p2prdf.store.tables import NEVER

__all__ = ["ColumnarEnding"]

I64 = npt.NDArray[np.int64]

_NEVER = np.uint64(NEVER)


class ColumnarEnding(ColumnarForgetting):
    """Columnar tables that release ended groups."""

    def end_groups(self, ids: Sequence[int]) -> None:
        """End groups for good."""
        wanted = np.array(list(dict.fromkeys(ids)), np.uint64)
        for table in self._plans_with(wanted):
            groups = table.groups
            numbers = groups.index.find(wanted)
            numbers = numbers[numbers >= 0]
            numbers = numbers[groups.since_min.values[numbers] != _NEVER]
            if not len(numbers):
                continue
            groups.since_min.values[numbers] = _NEVER
            groups.ended += len(numbers)
            for step in table.steps:
                step.links.difference_update(numbers.tolist())
            self._changes += 1
            self._with_ended[table.plan] = table
        for identity in wanted.tolist():
            if identity not in self._ended:
                remember(self._ended, identity)
                self._changes += 1

    @property
    def has_ended(self) -> bool:
        """Whether plans with ended groups wait for their release."""
        return bool(self._with_ended)

    def release_ended(self) -> None:
        """Release plans without live groups, and ended groups where they outnumber the live ones."""
        plans, self._with_ended = self._with_ended, {}
        for table in plans.values():
            if table.groups.ended == len(table.groups):
                self._release_plan(table)
            else:
                self._release_groups(table)

    def _release_plan(self, table: PlanTable) -> None:
        self._laid_out_anew(per_event=table.plan.per_event)
        del self._plans[table.plan]
        self._unfile_groups(table, table.groups.index.keys)
        self._overlapping.pop(table.plan, None)
        for step in table.steps:
            self._keep_rows(step, np.zeros(0, np.int64))
            step.join_index.drop(step)
            self._full_text.release(step.condition)
        table.steps.clear()  # steps refer to their plan, so only the garbage collector would find them

    def _release_groups(self, table: PlanTable) -> None:
        groups = table.groups
        living = groups.since_min.values != _NEVER
        kept = [np.flatnonzero(living[step.group.values]) for step in table.steps]
        held = len(groups) + sum(len(step) for step in table.steps)
        if 2 * (held - int(np.count_nonzero(living)) - sum(map(len, kept))) <= held:
            return
        self._laid_out_anew(per_event=table.plan.per_event)
        numbers = np.cumsum(living) - 1
        for step, rows in zip(table.steps, kept, strict=True):
            self._keep_rows(step, step.true(rows))
            step.group.values[:] = numbers[step.group.values]
            step.links = set(numbers[as_array(list(step.links), np.int64)].tolist())
        self._unfile_groups(table, groups.index.keys[~living])
        groups.keep(np.flatnonzero(living))
        if table.plan.per_event and self._sweep is not None:
            self._sweep_again = True  # rows may have moved to numbers that it has passed

    def _keep_rows(self, step: StepRows, rows: I64) -> None:
        """Release all rows of a step except some; they were no items, so the version stays."""
        released = len(step) - step.dead - len(rows)
        if len(rows) < len(step):
            step.keep(rows)
        self._changes += released
        if step.number:
            self._sizes.rows -= released
        else:
            self._sizes.queries -= released
