"""Light tables: the end of groups, and the release of their plans.

Rows of an ended group are dropped at once.  The group stays under its number, which callers may hold, until
:meth:`LightEnding.release_ended`; its identity is remembered apart from its plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from p2prdf.store.full_text import NO_CONDITION
from p2prdf.store.items import remember
from p2prdf.store.light_forget import LightForgetting
from p2prdf.store.light_state import Group, PlanTable, StepTable
from p2prdf.store.tables import NEVER

__all__ = ["LightEnding"]


class LightEnding(LightForgetting):
    """Light tables that release ended groups."""

    def end_groups(self, ids: Sequence[int]) -> None:
        """End groups for good."""
        for identity in ids:
            if identity not in self._ended:
                remember(self._ended, identity)
                self._changes += 1
            table = self._owners.pop(identity, None)
            if table is None:
                continue
            self._changes += 1
            group = table.by_id[identity]
            group.since_min, group.since_max = NEVER, 0
            self._with_ended[table.plan.identity] = table
            for step in table.steps:
                step.links.discard(group.number)
                ended = [row for row in step.rows.values() if row.group is group]
                for row in ended:
                    del step.rows[row.identity]
                    self._row_count -= 1
                    self._changes += 1  # so that the version does not fall
                for key in dict.fromkeys(self._join_key(step, row) for row in ended):
                    self._drop_waiting(step, key, group)

    @staticmethod
    def _drop_waiting(step: StepTable, key: Any, group: Group) -> None:
        """Remove a group's rows under one key of a step from its join index."""
        if step.condition != NO_CONDITION:
            assert step.join_index.texts is not None, "it was made with the step"
            step.join_index.texts.drop(key, step, group)
            return
        left = [each for each in step.join_index.waiting[key] if each[0] is not step or each[1].group is not group]
        if left:
            step.join_index.waiting[key] = left
        else:
            del step.join_index.waiting[key]

    @property
    def has_ended(self) -> bool:
        """Whether plans with ended groups wait for their release."""
        return bool(self._with_ended)

    def release_ended(self) -> None:
        """Release plans without live groups, and ended groups where they outnumber the live ones."""
        plans, self._with_ended = self._with_ended, {}
        for table in plans.values():
            living = [group for group in table.groups if group.since_min != NEVER]
            if not living:
                del self._plans[table.plan.identity]
                for step in table.steps:
                    self._full_text.release(step.condition)
                table.steps.clear()  # steps refer to their plan, so only the garbage collector would find them
            elif 2 * len(living) < len(table.groups):
                self._release_groups(table, living)

    @staticmethod
    def _release_groups(table: PlanTable, living: list[Group]) -> None:
        numbers = {group.number: number for number, group in enumerate(living)}
        for step in table.steps:
            step.links = {numbers[each] for each in step.links}
        for group in living:
            group.number = numbers[group.number]
        table.groups = living
        table.by_id = {group.identity: group for group in living}
