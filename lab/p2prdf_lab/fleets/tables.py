"""The tables of a fleet (:mod:`p2prdf_lab.fleets.fleet` has the argument), and its encodings of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import ARRAYS, Column
from p2prdf.grow import GrowingColumn
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.store.backlog import joined
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.tables import Derived

__all__ = ["KEY_ENCODINGS", "FleetTables", "Travelling", "joined_rows", "paper_keys"]

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_SEED = np.uint64(0x9E3779B97F4A7C15)


def paper_keys(role: int, s: U64, p: U64, o: U64) -> U64:
    """Return the ring keys by the paper's bare concatenation of the constant parts.

    The index does not enter: a term has one key as a subject and as an object, and two terms in one order have one key
    in any two places.  (Concatenated texts that are equal by chance, as ab+c and a+bc, have different keys: parts enter
    by their hashes.)
    """
    h = np.zeros(max(len(s), len(p), len(o)), np.uint64)
    for bit, part in ((keys.S, s), (keys.P, p), (keys.O, o)):
        if role & bit:
            h = keys.fmix_array((h + _SEED) ^ part)
    return h


KEY_ENCODINGS: dict[str, Callable[[int, U64, U64, U64], U64]] = {"typed": keys.role_keys, "paper": paper_keys}
"""Encodings of keys: ``typed`` is the daemon's, ``paper`` is for comparison with the paper's figures."""


@dataclass(slots=True)
class Travelling(Derived):
    """Rows with the stored triple that caused each and, if messages are counted, the key where it was derived."""

    cause: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    origin: U64 = field(default_factory=lambda: np.zeros(0, np.uint64))


class FleetTables(ColumnarTables):
    """The daemon's columnar tables; rows have cause and origin, and rows of the last step may be only counted."""

    def __init__(self, dictionary: TermDictionary, encoding: str, *, list_answers: bool, trace: bool):
        super().__init__(dictionary, compile_filter)
        self._encode = KEY_ENCODINGS[encoding]
        self._list_answers = list_answers
        self._trace = trace
        self._waiting_last: dict[Any, GrowingColumn] = {}
        self._arriving: tuple[int, I64] | None = None
        self.answers = 0

    def _role_keys(self, role: int, s: U64, p: U64, o: U64) -> U64:  # type: ignore[override]
        return self._encode(role, s, p, o)

    def add_rows(self, rows: Derived, probed: Column | None = None) -> list[Derived]:
        """Store partial results, all of them new, and join them with the stored triples."""
        step = self._plan_table(rows.plan).steps[rows.step]
        held = len(step)
        if isinstance(rows, Travelling):
            self._arriving = (held, rows.cause)
        derived = super().add_rows(rows, probed)
        self._arriving = None
        assert len(step) - held in (0, len(rows)), "each pair is joined once, so every row is new"
        return derived

    def _add_alive_rows(self, step: Any, columns: Any, probed: Any, refresh: int, out: list[Derived]) -> None:
        if self._list_answers or not step.compiled.last or not step.number:
            super()._add_alive_rows(step, columns, probed, refresh, out)
            return
        group, _, _, _, *bindings = columns
        ordinals, _ = step.join_index.index.insert(step.join_keys(group, bindings))
        counts = self._waiting_last.setdefault(step.join_index, GrowingColumn(np.int64))
        counts.extend(max(0, len(step.join_index.index) - len(counts)))
        np.add.at(counts.values, ordinals, 1)
        self._sizes.rows += len(ordinals)
        self.answers += int(step.join_index.triples.counts(ordinals).sum())

    def _probe_waiting(
        self, join_index: Any, ordinals: I64, rows: I64, prior: U64 | None, met: U64, out: list[Derived]
    ) -> None:
        super()._probe_waiting(join_index, ordinals, rows, prior, met, out)
        counts = self._waiting_last.get(join_index)
        if counts is not None and prior is None:
            known = ordinals[ordinals < len(counts)]
            self.answers += int(counts.values[known].sum())

    def _derive(
        self, step: Any, rows: I64, triples: I64, group: I64, time: U64, refresh: int, names: U64 | None
    ) -> Derived:
        derived = super()._derive(step, rows, triples, group, time, refresh, names)
        if step.compiled.last:
            self.answers += len(rows)
        cause = triples
        if self._arriving is not None:
            first, causes = self._arriving
            # All triples of a batch are stored at once, so a row may meet a triple that was published after its own.
            cause = np.maximum(causes[rows - first], triples)
        if not self._trace:
            return _travelling(derived, cause, np.zeros(0, np.uint64))
        bindings = [column.values[rows] for column in step.bindings]
        origin = self._route_keys(step.plan.plan, step.compiled, group, bindings)
        return _travelling(derived, cause, origin)


def _travelling(rows: Derived, cause: I64, origin: U64) -> Travelling:
    return Travelling(
        rows.plan, rows.step, rows.group, rows.identity, rows.oldest, rows.born, rows.bindings, rows.refresh, cause,
        origin,
    )  # fmt: skip


def joined_rows(parts: list[Derived]) -> Derived:
    """Return rows of one plan and step as one."""
    if len(parts) == 1:
        return parts[0]
    whole = joined(parts, ARRAYS)
    told = [part for part in parts if isinstance(part, Travelling)]
    if not told:
        return whole
    cause = np.concatenate([part.cause for part in told])
    return _travelling(whole, cause, np.concatenate([part.origin for part in told]))
