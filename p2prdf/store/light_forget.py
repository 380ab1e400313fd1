"""Light tables: forgetting of stream elements and of rows that contain them (:mod:`p2prdf.store.horizons`).

Superseded intervals of triples are forgotten, too.

Each call looks at some hundreds of items and removes the forgotten ones from their lists.  Each removal scans the
whole list, so these tables suit few triples only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from p2prdf import keys
from p2prdf.hlc import GONE
from p2prdf.store.compiled import GROUP
from p2prdf.store.full_text import NO_CONDITION
from p2prdf.store.light_items import LightItems
from p2prdf.store.light_state import IDENTITY, ROLES, TERMS, TIME, JoinIndex, Row, StepTable, Triple

__all__ = ["LightForgetting"]

_AT_ONCE: Final = 512
"""Elements, or rows, looked at per call."""


class LightForgetting(LightItems):
    """Light tables that forget stream elements and superseded intervals."""

    _sweep: Iterator[None] | None = None
    _sweep_again = False

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

    def _forget_intervals(self, terms: tuple[int, int, int]) -> None:
        def held_at(begin: int, place: int) -> int:
            held = self._triples.get((*terms, begin) if begin else terms)
            value: int = held[place] if held else 0
            return value

        begins = self._intervals.forget(
            terms, self.superseded_before, partial(held_at, place=TIME), partial(held_at, place=ROLES), _AT_ONCE
        )
        if len(begins) == _AT_ONCE:
            self._superseded.look_again([terms])
        if begins:
            self._triples[terms][TIME] = GONE | self._intervals.first_end(terms)
            self._in_order[False].clear()
            self._triple_changes[False] += 1
        for begin in begins:
            held = self._triples.pop((*terms, begin), None)
            if held is None:  # nothing was published between two deletions
                continue
            self._sizes.processing_load += held[ROLES].bit_count()  # as in _drop_elements
            for join_index in self._join_indexes_in(held[ROLES]):
                key = join_index.key_of(terms)
                join_index.triples[key] = [each for each in join_index.triples[key] if each is not held]
            self._sizes.intervals_forgotten += 1
            self._triple_changes[False] += 2
        if not self._intervals.divides(terms):
            self._superseded.undivided(terms)

    @property
    def forgetting(self) -> bool:
        """Whether there may be items to drop."""
        return bool(self.superseded_before and self._superseded.due) or self._sweep is not None or self._sweep_again

    def forget_some(self) -> None:
        """Look at some of the held items, and drop the forgotten ones."""
        if self.superseded_before and self._superseded.due:
            for terms in self._superseded.take(_AT_ONCE):
                self._forget_intervals(terms)
            return
        if self._sweep is None:
            if not self._sweep_again:
                return
            self._sweep_again = False
            self._sweep = self._sweeping()
        if next(self._sweep, self) is self:
            self._sweep = None

    def _sweeping(self) -> Iterator[None]:
        names = list(self._events)
        for start in range(0, len(names), _AT_ONCE):
            self._drop_elements([
                held
                for each in names[start : start + _AT_ONCE]
                if (held := self._events.get(each)) is not None and self.horizons.is_old(held[TIME], held[TERMS][1:2])
            ])  # fmt: skip
            yield
        for table in list(self._plans.values()):
            for step in table.steps[1:] if table.plan.per_event else ():
                names = list(step.rows)
                for start in range(0, len(names), _AT_ONCE):
                    rows = self._living(step, names[start : start + _AT_ONCE])
                    self._drop_rows(step, [row for row in rows if self.horizons.is_old(row.oldest, row.group.params)])
                    yield

    @staticmethod
    def _join_key(table: StepTable, row: Row) -> Any:
        """Return the terms under which a row waits in its join index."""
        parts = [row.group.params[at] if source == GROUP else row.bindings[at] for source, at in table.compiled.key]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _drop_elements(self, old: list[Triple]) -> None:
        if not old:
            return
        gone: set[int] = set()
        under: dict[JoinIndex, dict[Any, None]] = {}
        for triple in old:
            gone.add(triple[IDENTITY])
            del self._events[triple[IDENTITY]]
            # sizes() counts a check for each index that holds it
            self._sizes.processing_load += triple[ROLES].bit_count()
            for join_index in self._join_indexes_in(triple[ROLES] << keys.EVENT_SHIFT):
                under.setdefault(join_index, {})[join_index.key_of(triple[TERMS])] = None
        for join_index, join_keys in under.items():
            for key in join_keys:
                left = [each for each in join_index.triples[key] if each[IDENTITY] not in gone]
                if left:
                    join_index.triples[key] = left
                else:
                    del join_index.triples[key]
        self._in_order[True].clear()
        self._triple_changes[True] += 2 * len(old)  # there are fewer items, and the version must grow
        self._sizes.elements_forgotten += len(old)

    def _drop_rows(self, step: StepTable, old: list[Row]) -> None:
        if not old:
            return
        gone = {row.identity for row in old}
        for key in dict.fromkeys(self._join_key(step, row) for row in old):
            if step.condition != NO_CONDITION:
                assert step.join_index.texts is not None, "it was made with the step"
                step.join_index.texts.drop_rows(key, step, gone)
                continue
            waiting = step.join_index.waiting
            left = [each for each in waiting[key] if each[0] is not step or each[1].identity not in gone]
            if left:
                step.join_index.waiting[key] = left
            else:
                del step.join_index.waiting[key]
        for identity in gone:
            del step.rows[identity]
        self._row_count -= len(old)
        self._changes += 2 * len(old)
        self._sizes.rows_forgotten += len(old)
