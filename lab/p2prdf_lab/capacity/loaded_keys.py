"""Load of each key, and the terms of the busiest keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import as_array
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.store.compiled import GROUP, compile_step

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.rdf.query import Plan
    from p2prdf.store.tables import Derived

__all__ = ["LoadedKey", "LoadedKeys"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class LoadedKey:
    """A key: its index, the terms of its constant parts in the index's order, and its triples and rows."""

    key: int
    role: str
    terms: tuple[str, ...]
    triples: int
    rows: int

    @property
    def load(self) -> int:
        """Processing load."""
        return self.triples + self.rows


class LoadedKeys:
    """Counts triples and partial results by key.  Memory: some 50 bytes for each distinct key."""

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._index = HashIndex()
        self._triples, self._rows = (GrowingColumn(np.int64) for _ in range(2))
        self._role = GrowingColumn(np.uint8)
        self._parts = [GrowingColumn(np.uint32) for _ in range(3)]
        self.plans: dict[Plan, list[U32]] = {}
        """The constants of each plan's groups, by group number: one column for each constant."""

    def add_triples(self, role: int, ring_keys: U64, s: U32, p: U32, o: U32) -> None:
        """Count triples of one index."""
        self._add(self._triples, role, ring_keys, (s, p, o))

    def add_rows(self, rows: Derived, ring_keys: U64) -> None:
        """Count partial results."""
        compiled = compile_step(rows.plan, rows.step)
        params, group = self.plans[rows.plan], as_array(rows.group, np.int64)
        none = np.zeros(len(group), np.uint32)
        parts = []
        for source in compiled.route:
            if source is None:
                parts.append(none)
            elif source[0] == GROUP:
                parts.append(params[source[1]][group])
            else:
                parts.append(as_array(rows.bindings[source[1]], np.uint32))
        self._add(self._rows, compiled.step.role, ring_keys, (parts[0], parts[1], parts[2]))

    def _add(self, counts: GrowingColumn, role: int, ring_keys: U64, parts: tuple[U32, U32, U32]) -> None:
        ordinals, fresh = self._index.insert(ring_keys)
        new = int(np.count_nonzero(fresh))
        if new:
            for column in (self._triples, self._rows):
                column.extend(new)
            self._role.extend(new, role)
            for held, given in zip(self._parts, parts, strict=True):
                held.append(given[fresh])
        np.add.at(counts.values, ordinals, 1)

    def __len__(self) -> int:
        return len(self._index)

    def busiest(self, count: int) -> list[LoadedKey]:
        """Return the keys with the highest load, busiest first."""
        load = self._triples.values + self._rows.values
        places = np.argsort(-load, kind="stable")[:count].tolist()
        return [self._spelled(place) for place in places]

    def _spelled(self, place: int) -> LoadedKey:
        role = int(self._role.values[place])
        terms = tuple(
            self._dictionary.text(int(part.values[place]))
            for bit, part in zip((keys.S, keys.P, keys.O), self._parts, strict=True)
            if role & bit
        )
        return LoadedKey(
            int(self._index.keys[place]), keys.ROLE_NAMES[role], terms, int(self._triples.values[place]),
            int(self._rows.values[place]),
        )  # fmt: skip
