"""Join of the columnar tables: waiting rows with triples, one step and many pairs at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import ARRAYS
from p2prdf.hlc import COUNTER_BITS, ELEMENT, GONE
from p2prdf.store.columnar_state import ColumnarState
from p2prdf.store.compiled import ROW, Source
from p2prdf.store.intervals import LATE
from p2prdf.store.join_indexes import RELEASED, JoinIndex, StepRows
from p2prdf.store.rejoin import in_pieces, part_max
from p2prdf.store.tables import REJOIN_PAIRS_MAX, Chosen, Derived

__all__ = ["ColumnarJoin"]

_GONE = np.uint64(GONE)
_PLAIN_TIME = np.uint64(GONE - 1)
_ELEMENT = np.uint64(ELEMENT)
_COUNTER_BITS = np.uint64(COUNTER_BITS)
"""Number of low bits of a stamp that are not its time."""

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


class ColumnarJoin(ColumnarState):
    """The state of the columnar tables, and the join of waiting rows with triples."""

    def _probe_waiting(
        self, join_index: JoinIndex, ordinals: I64, rows: I64, prior: U64 | None, met: U64, out: list[Derived]
    ) -> None:
        """Join triples (republished after ``prior``) with the rows that wait under their keys.

        ``met``: per triple the stamp from which on ended rows are joined with it.
        """
        needle, waiting = join_index.waiting.expand(ordinals)
        if len(needle):
            steps = join_index.waiting_step.values[waiting]
            waiting = join_index.waiting_row.values[waiting].astype(np.int64)
            before = None if prior is None else prior[needle]
            self._join_pairs(join_index, steps, waiting, rows[needle], before, met[needle], out)
        if join_index.texts is not None:
            needle, steps, waiting = join_index.texts.met_by(ordinals, join_index.table.terms(rows, 2))
            if len(needle):
                before = None if prior is None else prior[needle]
                names = self._identities(join_index.table, rows)[needle]
                self._join_pairs(join_index, steps, waiting, rows[needle], before, met[needle], out, names)

    def _join_pairs(
        self, join_index: JoinIndex, steps: npt.NDArray[Any], rows: I64, triples: I64, prior: U64 | None, met: U64,
        out: list[Derived], names: U64 | None = None,
    ) -> None:  # fmt: skip
        """Join waiting rows, given by their steps in the join index and their numbers there, with triples.

        ``names``: the identities of the triples, if the caller has few pairs of many steps.
        """
        for number, index in ARRAYS.split(steps):
            if number == RELEASED:
                continue
            step = join_index.steps[number]
            assert step is not None, "rows wait at it"
            if step.any_over:
                living = step.oldest.values[rows[index]] != _GONE
                index = index[living | (step.born.values[rows[index]] >= met[index])]
            if len(index) == len(steps):
                self._join(step, rows, triples, prior, 0, out, names)
            elif len(index):
                before = None if prior is None else prior[index]
                self._join(step, rows[index], triples[index], before, 0, out, None if names is None else names[index])

    def _probe_triples(
        self, step: StepRows, rows: I64, ordinals: I64, since: U64 | None, met: U64, refresh: int,
        out: list[Derived],
    ) -> None:  # fmt: skip
        """Join stored rows with the triples held (since a stamp per row).

        ``met``: per row the stamp from which on ended triples are joined with it.
        """
        needle, triples = step.join_index.triples.expand(ordinals)
        if len(needle) == 0:
            return
        triples = triples.astype(np.int64, copy=False)
        if since is not None:
            young = step.join_index.table.time.values[triples] >= since[needle]
            needle, triples = needle[young], triples[young]
        if step.join_index.table.any_over:
            time = step.join_index.table.time.values[triples]
            wanted = (time < _GONE) | (time & _PLAIN_TIME >= met[needle])
            needle, triples = needle[wanted], triples[wanted]
        self._join(step, rows[needle], triples, None, refresh, out)

    def _join(
        self, step: StepRows, rows: I64, triples: I64, prior: U64 | None, refresh: int, out: list[Derived],
        names: U64 | None = None,
    ) -> None:  # fmt: skip
        """Extend rows by triples with the terms of their keys, where the pair counts.

        A result has ended if its row or its triple has.
        """
        table, compiled = step.join_index.table, step.compiled
        groups = step.plan.groups
        group = step.group.values[rows].astype(np.int64)
        time = table.time.values[triples]
        counts_until = time
        if table.any_over:
            over = time >= _GONE
            time = time & _PLAIN_TIME
            counts_until = time.copy()
            counts_until[over] = np.maximum(time[over] + np.uint64(LATE), table.heard(triples[over]))
        good = counts_until >= groups.since_min.values[group]
        if table.dead:
            good &= time != 0
        if step.dead:
            good &= step.oldest.values[rows] != 0
        if prior is not None:
            wanted = groups.since_max.values[group] > prior
            if not wanted.all():
                self._skipped = True
                good &= wanted
        for first, second in compiled.equal:
            good &= table.terms(triples, first) == table.terms(triples, second)
        for at in compiled.never_literal:
            good &= ~self._dictionary.literal_array()[table.terms(triples, at)]
        if compiled.span_ms:
            wide = self._too_far_apart(step, rows, time)
            self._sizes.too_wide += int((good & wide).sum())
            good &= ~wide
        if not good.all():
            rows, triples, group, time = rows[good], triples[good], group[good], time[good]
            names = None if names is None else names[good]
        for number, sources in compiled.filters:
            if not len(rows):
                return
            passed = self._passes(step, number, sources, rows, triples)
            if not passed.all():
                rows, triples, group, time = rows[passed], triples[passed], group[passed], time[passed]
                names = None if names is None else names[passed]
        if not len(rows):
            return
        self._sizes.joined += len(rows)
        out.append(self._derive(step, rows, triples, group, time, refresh, names))

    @staticmethod
    def _too_far_apart(step: StepRows, rows: I64, time: U64) -> Bools:
        """Return which pairs no window holds together: their elements are its range or more apart."""
        oldest = np.minimum(step.oldest.values[rows], time)
        apart = (np.maximum(step.born.values[rows], time) >> _COUNTER_BITS) - (oldest >> _COUNTER_BITS)
        wide: Bools = (apart >= np.uint64(step.compiled.span_ms)) & (oldest >= _ELEMENT)
        return wide

    def _derive(
        self, step: StepRows, rows: I64, triples: I64, group: I64, time: U64, refresh: int, names: U64 | None
    ) -> Derived:
        """Return the rows derived from pairs of waiting rows and triples."""
        table, compiled = step.join_index.table, step.compiled
        identities = self._identities(table, triples) if names is None else names
        oldest = step.oldest.values[rows]
        over = oldest == _GONE if step.any_over else None
        oldest = np.minimum(oldest, time)
        if table.any_over:
            ended = table.time.values[triples] >= _GONE
            over = ended if over is None else over | ended
        if over is not None:
            oldest = np.where(over, _GONE, oldest)
        return Derived(
            step.plan.plan,
            step.number + 1,
            group,
            step.index.keys[rows] + keys.contributions(identities, compiled.step.position),
            oldest,
            np.maximum(step.born.values[rows], time),
            tuple([self._joined_terms(step, source, rows, triples) for source in compiled.output]),
            refresh,
        )

    @staticmethod
    def _joined_terms(step: StepRows, source: Source, rows: I64, triples: I64) -> U32:
        kind, at = source
        if kind == ROW:
            bound: U32 = step.bindings[at].values[rows]
            return bound
        table = step.join_index.table
        terms: U32 = (table.s, table.p, table.o)[at].values[triples]
        return terms

    def _passes(
        self, step: StepRows, number: int, sources: tuple[Source, ...], rows: I64, triples: I64
    ) -> npt.NDArray[np.bool_]:
        columns = [self._joined_terms(step, source, rows, triples).tolist() for source in sources]
        passes = step.plan.filters.passes
        if not columns:
            return np.full(len(rows), passes(number, ()))
        return np.array([passes(number, terms) for terms in zip(*columns, strict=True)], np.bool_)

    # --- recomputation ---------------------------------------------------------------------------

    def rejoin(self, chosen: Chosen, pairs_max: int = REJOIN_PAIRS_MAX) -> Iterator[list[Derived]]:
        """Join all rows that wait under chosen ring keys with all triples held, in pieces of bounded work."""
        return in_pieces(self._rejoin_parts(chosen, part_max(pairs_max)), pairs_max)

    def _rejoin_parts(self, chosen: Chosen, size: int) -> Iterator[tuple[int, list[Derived]]]:
        for table in list(self._plans.values()):
            for step in table.steps:
                if len(step.join_index.triples) and self._step_chosen(step, chosen):
                    names = step.index.keys.copy()
                    for start in range(0, len(names), size):
                        yield from self._rejoin_rows(step, names[start : start + size], chosen, size)

    @staticmethod
    def _step_chosen(step: StepRows, chosen: Chosen) -> bool:
        """Return whether rows of a step can be chosen; without a role all are, or none is."""
        role = step.compiled.step.role
        return role != keys.ANY or bool(np.any(chosen(role, np.array(keys.BUCKET_KEYS, np.uint64))))

    def _rejoin_rows(
        self, step: StepRows, names: U64, chosen: Chosen, size: int
    ) -> Iterator[tuple[int, list[Derived]]]:
        """Join some rows of a step, given by identity, if their keys are chosen."""
        rows = self._living(step, names)
        if step.compiled.step.role != keys.ANY:
            ring = self._keys_of_rows(step, rows)
            rows = rows[np.asarray(chosen(step.compiled.step.role, ring), np.bool_)]
        if step.any_over and self.stable_before:
            rows = rows[(step.oldest.values[rows] != _GONE) | (step.born.values[rows] >= self.stable_before)]
        looked_at, names = len(names), step.index.keys[rows]
        ordinals = step.ordinal.values[rows]
        counts = step.join_index.triples.counts(ordinals)
        ends = np.cumsum(counts)
        yield looked_at, []
        total = int(ends[-1]) if len(ends) else 0
        for first in range(0, total, size):
            pairs = np.arange(first, min(first + size, total))
            at = np.searchsorted(ends, pairs, side="right")
            triples = step.join_index.triples.at(ordinals[at], pairs - (ends - counts)[at])
            low = int(at[0])
            # row numbers may have changed in the last pause
            rows = step.index.find(names[low : int(at[-1]) + 1])[at - low]
            held = rows >= 0
            if step.join_index.table.any_over and self.stable_before:
                time = step.join_index.table.time.values[triples]
                held &= (time < _GONE) | (time & _PLAIN_TIME >= self.stable_before)
            out: list[Derived] = []
            self._join(step, rows[held], triples[held].astype(np.int64, copy=False), None, 0, out)
            yield len(pairs), out
