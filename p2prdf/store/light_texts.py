"""Rows of a light join index that wait for a text, by full-text condition (:mod:`p2prdf.store.full_text`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p2prdf.store.full_text import FEW_MAX, FullText

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from p2prdf.store.light_state import Group, Row, StepTable
    from p2prdf.text import FullTextIndex

__all__ = ["TextRows"]

_Rows = list[tuple["StepTable", "Row"]]


class TextRows:
    """By the terms under the join index's mask: conditions, and the rows of each."""

    def __init__(self, full_text: FullText):
        self._full_text = full_text
        self._under: dict[Any, dict[int, _Rows]] = {}
        self._indexes: dict[Any, FullTextIndex] = {}
        """For keys with more than FEW_MAX conditions."""

    def add(self, key: Any, table: StepTable, row: Row) -> None:
        """Let a row wait under a key."""
        conditions = self._under.setdefault(key, {})
        rows = conditions.get(table.condition)
        if rows is not None:
            rows.append((table, row))
            return
        conditions[table.condition] = [(table, row)]
        index = self._indexes.get(key)
        if index is not None:
            index.add(table.condition, self._full_text.query(table.condition))
        elif len(conditions) > FEW_MAX:
            self._indexes[key] = self._full_text.index((each, each) for each in conditions)

    def drop(self, key: Any, table: StepTable, group: Group) -> None:
        """Remove a group's rows that wait at a step under a key."""
        self._drop(key, table, lambda row: row.group is group)

    def drop_rows(self, key: Any, table: StepTable, gone: Container[int]) -> None:
        """Remove rows, given by their identities, that wait at a step under a key."""
        self._drop(key, table, lambda row: row.identity in gone)

    def _drop(self, key: Any, table: StepTable, gone: Callable[[Row], bool]) -> None:
        conditions = self._under[key]
        left = [each for each in conditions[table.condition] if each[0] is not table or not gone(each[1])]
        if left:
            conditions[table.condition] = left
            return
        del conditions[table.condition]
        index = self._indexes.get(key)
        if index is not None:
            index.remove(table.condition)
        if not conditions:
            del self._under[key]
            self._indexes.pop(key, None)

    def met_by(self, key: Any, term: int) -> Sequence[tuple[StepTable, Row]]:
        """Return the rows under a key with a condition that the text of a term satisfies."""
        conditions = self._under.get(key)
        if conditions is None:
            return ()
        text = self._full_text.text(term)
        if text is None:
            return ()
        index = self._indexes.get(key)
        if index is not None:
            satisfied = self._full_text.satisfied(index, text)
        else:
            satisfied = [each for each in conditions if self._full_text.holds(each, text)]
        return [each for number in satisfied for each in conditions[number]]
