"""Join indexes as columns: triples and waiting rows of one kind, role and mask meet here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import ARRAYS
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.rdf.query import Plan
from p2prdf.store.columnar_texts import TextRows
from p2prdf.store.compiled import GROUP, CompiledStep, Source
from p2prdf.store.full_text import NO_CONDITION
from p2prdf.store.group_table import GroupTable
from p2prdf.store.postings import Postings
from p2prdf.store.tables import PlanFilters
from p2prdf.store.triple_table import TripleTable, pack

__all__ = ["RELEASED", "JoinIndex", "PlanTable", "StepRows"]

RELEASED = (1 << 32) - 1
"""In place of a step in a join index: the row was released with its group."""

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


@dataclass(eq=False)
class StepRows:
    """Rows that wait at one step of a plan: a row per ordinal of its identity."""

    plan: PlanTable
    number: int
    compiled: CompiledStep
    join_index: JoinIndex
    place: int
    """Its number among the steps of the join index."""
    condition: int
    """The full-text condition that files its rows, or NO_CONDITION (:mod:`p2prdf.store.full_text`)."""
    index: HashIndex = field(default_factory=HashIndex)
    group: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint32))
    oldest: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint64))
    born: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint64))
    bindings: list[GrowingColumn] = field(default_factory=list)
    ordinal: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.int64))
    links: set[int] = field(default_factory=set)
    any_over: bool = False
    """Whether a row here has ever ended."""
    dead: int = 0
    """Number of forgotten rows; their ``oldest`` is 0 (:mod:`p2prdf.store.columnar_forget`)."""

    def __len__(self) -> int:
        return len(self.group)

    def true(self, rows: I64) -> I64:
        """Return the rows that are not forgotten, among some."""
        return rows[self.oldest.values[rows] != 0] if self.dead else rows

    def store(self, group: npt.NDArray[Any], oldest: U64, born: U64, bindings: Sequence[npt.NDArray[Any]]) -> I64:
        """Store rows with identities that the index has just received; return the ordinals of their keys."""
        join_index = self.join_index
        first, count = len(self), len(group)
        self.group.append(group)
        self.oldest.append(oldest)
        self.born.append(born)
        for held, given in zip(self.bindings, bindings, strict=True):
            held.append(given)
        ordinals, _ = join_index.index.insert(self.join_keys(group, bindings))
        self.ordinal.append(ordinals)
        rows = np.arange(first, first + count)
        if self.condition == NO_CONDITION:
            place = len(join_index.waiting_row)
            join_index.waiting.append(ordinals, np.arange(place, place + count))
            join_index.waiting_step.extend(count, self.place)
            join_index.waiting_row.append(rows)
        else:
            assert join_index.texts is not None, "it was made with the step"
            join_index.texts.append(self.condition, self.place, ordinals, rows)
        return ordinals

    def keep(self, kept: I64) -> None:
        """Release all rows except those at some places."""
        held, ordinals = len(self), self.ordinal.values
        identities = self.index.keys[kept]
        self.index = HashIndex()
        self.index.insert(identities)
        self.group, self.oldest, self.born, self.ordinal = (
            column.only(kept) for column in (self.group, self.oldest, self.born, self.ordinal)
        )
        self.bindings = [column.only(kept) for column in self.bindings]
        self.dead = 0
        numbers = np.full(held, -1, np.int64)
        numbers[kept] = np.arange(len(kept))
        self.join_index.renumber(self, ordinals, numbers)

    def join_keys(self, group: npt.NDArray[Any], bindings: Sequence[npt.NDArray[Any]]) -> U64:
        """Return the exact keys under which rows wait in the join index."""
        empty = np.zeros(len(group), np.uint32)
        sources = iter(self.compiled.key)
        parts = [
            self.plan.terms(next(sources), group, bindings) if self.join_index.mask & bit else empty
            for bit in (keys.S, keys.P, keys.O)
        ]
        return self.join_index.keys_of(*parts)

    @property
    def nbytes(self) -> int:
        """Bytes used by columns and indexes."""
        columns = (self.group, self.oldest, self.born, self.ordinal, *self.bindings)
        return self.index.nbytes + sum(column.nbytes for column in columns)


class JoinIndex:
    """A join index: triples and waiting rows of one kind, role and mask, by one index of keys."""

    def __init__(self, triples: TripleTable, mask: int):
        self.table = triples
        self.mask = mask
        # The table already numbers pairs of predicate and object: their join index needs none of its own.
        self.by_pair = mask == keys.P | keys.O and not triples.per_event
        self.index = triples.pairs if self.by_pair else HashIndex()
        self.triples = Postings()
        self.waiting = Postings()
        self.texts: TextRows | None = None
        """Rows that wait for a text; ``waiting`` does not contain them."""
        self.steps: list[StepRows | None] = []
        """The steps by their place; None: a free place, which no waiting row names."""
        self._free: dict[int, None] = {}
        self.waiting_step = GrowingColumn(np.uint32)
        self.waiting_row = GrowingColumn(np.uint32)
        self.released = 0
        """Number of waiting rows that were released; their step is ``RELEASED``."""

    @property
    def nbytes(self) -> int:
        """Bytes used by columns and indexes."""
        parts = (self.triples, self.waiting, self.waiting_step, self.waiting_row)
        texts = 0 if self.texts is None else self.texts.nbytes
        return sum(part.nbytes for part in parts) + texts + (0 if self.by_pair else self.index.nbytes)

    def place(self, step: StepRows) -> int:
        """Return a place for a new step."""
        if self._free:
            at, _ = self._free.popitem()
            self.steps[at] = step
            return at
        self.steps.append(step)
        return len(self.steps) - 1

    def place_at(self, step: StepRows, places: int) -> None:
        """Place a step where it is in an index that this one replaces, which has so many places."""
        if not self.steps:
            self.steps = [None] * places
            self._free = dict.fromkeys(range(places))
        self.steps[step.place] = step
        del self._free[step.place]

    def drop(self, step: StepRows) -> None:
        """Release a step without rows."""
        self.steps[step.place] = None
        self._free[step.place] = None
        while self.steps and self.steps[-1] is None:
            self.steps.pop()
            del self._free[len(self.steps)]
        if self.texts is not None and self.texts.mostly_idle:
            self._file_texts_anew(self.texts)

    def renumber(self, step: StepRows, ordinals: I64, numbers: I64) -> None:
        """Give the rows of a step new numbers, by their old ones; -1 releases a row.

        ``ordinals``: the keys under which they wait.  When most waiting rows are released, the others are filed anew.
        """
        if step.condition != NO_CONDITION:
            assert self.texts is not None, "it was made with the step"
            self.texts.renumber(step.condition, step.place, ordinals, numbers)
            return
        places = np.flatnonzero(self.waiting_step.values == step.place)
        now = numbers[self.waiting_row.values[places]]
        gone = now < 0
        self.waiting_step.values[places[gone]] = RELEASED
        self.waiting_row.values[places[~gone]] = now[~gone]
        self.released += int(np.count_nonzero(gone))
        if 2 * self.released > len(self.waiting_row):
            self._file_anew()

    def _file_anew(self) -> None:
        held = np.flatnonzero(self.waiting_step.values != RELEASED)
        steps, rows = self.waiting_step.values[held], self.waiting_row.values[held]
        ordinals = np.zeros(len(held), np.int64)
        for number, index in ARRAYS.split(steps):
            step = self.steps[number]
            assert step is not None, "rows wait at it"
            ordinals[index] = step.ordinal.values[rows[index]]
        self.waiting, self.released = Postings(), 0
        self.waiting_step, self.waiting_row = GrowingColumn(np.uint32), GrowingColumn(np.uint32)
        self.waiting.append(ordinals, np.arange(len(held)))
        self.waiting_step.append(steps)
        self.waiting_row.append(rows)

    def _file_texts_anew(self, texts: TextRows) -> None:
        left = [each for each in self.steps if each is not None and each.condition != NO_CONDITION]
        self.texts = texts.empty() if left else None
        for step in left:
            assert self.texts is not None, "it was made above"
            self.texts.append(step.condition, step.place, step.ordinal.values, np.arange(len(step)))

    def keys_of(self, s: U32, p: U32, o: U32) -> U64:
        """Return the exact keys of triples (or of the parts the mask names) under the mask."""
        parts = [part for bit, part in ((keys.S, s), (keys.P, p), (keys.O, o)) if self.mask & bit]
        return _packed(parts, len(s)) if len(parts) < 3 else self.table.pair_keys(s, p, o)[0]

    def ordinals_of(self, rows: I64) -> I64:
        """Return the ordinals of the keys of stored triples."""
        table = self.table
        if self.by_pair:
            return table.pair.values[rows].astype(np.int64)
        mask = self.mask
        bits = ((keys.S, table.s), (keys.P, table.p), (keys.O, table.o))
        parts = [column.values[rows] for bit, column in bits if mask & bit]
        found = _packed(parts, len(rows)) if len(parts) < 3 else table.pair_keys(*parts)[0]
        return self.index.insert(found)[0]


def _packed(parts: Sequence[U32], count: int) -> U64:
    """Return exact keys of up to two columns of terms."""
    if not parts:
        return np.zeros(count, np.uint64)
    return pack(*parts) if len(parts) == 2 else parts[0].astype(np.uint64)


@dataclass(eq=False)
class PlanTable:
    """The groups and rows that a peer holds for one plan."""

    plan: Plan
    filters: PlanFilters
    groups: GroupTable
    steps: list[StepRows] = field(default_factory=list)

    def terms(self, source: Source, group: npt.NDArray[Any], bindings: Sequence[npt.NDArray[Any]]) -> U32:
        """Return the terms of rows in one place: a constant of their groups, or a binding."""
        kind, at = source
        terms: U32 = self.groups.params[at].values[group] if kind == GROUP else bindings[at]
        return terms
