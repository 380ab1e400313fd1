"""Rows of a columnar join index that wait for a text, by full-text condition (:mod:`p2prdf.store.full_text`).

A *pair* is a condition that waits under a key (given by its ordinal in the join index).  Pairs are numbered by an
index of packed numbers; rows are postings of their pairs, and pairs are postings of their keys.  A row costs as much
as one without a text, and a key with many conditions also has an index of them.

A pair without rows leaves the index of texts.  When most pairs have none, the join index files all rows anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p2prdf.columns import ARRAYS
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.store.full_text import FEW_MAX, FullText
from p2prdf.store.postings import Postings
from p2prdf.store.triple_table import pack

if TYPE_CHECKING:
    from p2prdf.text import FullTextIndex

__all__ = ["TextRows"]

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

_KEY = np.uint64((1 << 32) - 1)
_CONDITION = np.uint64(32)
_REWRITE_MIN = 4096


class TextRows:
    """Keys to conditions to rows; a row is given by its step and its number there."""

    def __init__(self, full_text: FullText):
        self._full_text = full_text
        self._pairs = HashIndex()
        self._living = GrowingColumn(np.int32)
        """The number of rows of each pair."""
        self._under = Postings()
        """Pairs by key."""
        self._waiting = Postings()
        """Places in the two columns of rows, by pair."""
        self._step = GrowingColumn(np.uint32)
        self._row = GrowingColumn(np.int32)
        """Row numbers; -1 for a removed row."""
        self._gone = 0
        self._indexes: dict[int, FullTextIndex] = {}
        """For keys with more than FEW_MAX conditions: an index of pairs by condition."""

    def empty(self) -> TextRows:
        """Return a new one without rows."""
        return TextRows(self._full_text)

    @property
    def mostly_idle(self) -> bool:
        """Whether most pairs have no row."""
        return 2 * int(np.count_nonzero(self._living.values)) < len(self._living)

    @property
    def nbytes(self) -> int:
        """Bytes used by columns and postings, without the indexes of texts, which are objects."""
        parts = (self._pairs, self._living, self._under, self._waiting, self._step, self._row)
        return sum(part.nbytes for part in parts)

    def append(self, condition: int, step: int, ordinals: I64, rows: I64) -> None:
        """Let rows of a step wait under keys."""
        count = len(rows)
        pairs, fresh = self._pairs.insert(_packed(condition, ordinals))
        if fresh.any():
            self._living.extend(int(np.count_nonzero(fresh)))
            self._under.append(ordinals[fresh], pairs[fresh])
        idle = self._living.values[pairs] == 0
        np.add.at(self._living.values, pairs, 1)
        self._waiting.append(pairs, np.arange(len(self._row), len(self._row) + count))
        self._step.extend(count, step)
        self._row.append(rows)
        begun = np.unique(pairs[idle])
        if len(begun):
            self._begin(begun)

    def renumber(self, condition: int, step: int, ordinals: I64, numbers: I64) -> None:
        """Give the rows of a step new numbers, by their old ones; -1 removes a row.

        ``ordinals``: the keys under which they wait.
        """
        pairs = self._pairs.find(_packed(condition, np.unique(ordinals)))
        at, places = self._waiting.expand(pairs)
        own = (self._step.values[places] == step) & (self._row.values[places] >= 0)
        at, places = at[own], places[own]
        now = numbers[self._row.values[places]]
        self._row.values[places] = now
        gone = pairs[at[now < 0]]
        np.subtract.at(self._living.values, gone, 1)
        self._gone += len(gone)
        gone = np.unique(gone)
        self._end(gone[self._living.values[gone] == 0])
        if self._gone * 2 > len(self._row) > _REWRITE_MIN:
            self._rewrite()

    def met_by(self, ordinals: I64, objects: U32) -> tuple[I64, npt.NDArray[Any], I64]:
        """Return the rows with a condition that the text of a triple's object satisfies, by the keys of the triples.

        Returns for each row the place of its triple, its step, and its number there.
        """
        askers, pairs = self._satisfied(ordinals, objects)
        at, places = self._waiting.expand(pairs)
        rows = self._row.values[places]
        held = rows >= 0
        return askers[at[held]], self._step.values[places[held]], rows[held].astype(np.int64)

    def _satisfied(self, ordinals: I64, objects: U32) -> tuple[I64, I64]:
        """Return the pairs with a satisfied condition, and for each the place of its triple."""
        counts = self._under.counts(ordinals)
        askers: list[int] = []
        found: list[int] = []
        text_of = self._full_text.text
        for at in np.flatnonzero(counts > FEW_MAX).tolist():
            index = self._indexes.get(int(ordinals[at]))
            text = None if index is None else text_of(int(objects[at]))
            if index is not None and text is not None:
                satisfied = self._full_text.satisfied(index, text)
                askers += [at] * len(satisfied)
                found += satisfied
        few = np.flatnonzero((counts > 0) & (counts <= FEW_MAX))
        if len(few):
            needle, pairs = self._under.expand(ordinals[few])
            conditions = self._pairs.keys[pairs] >> _CONDITION
            tried = (few[needle].tolist(), pairs.tolist(), conditions.tolist(), self._living.values[pairs].tolist())
            for at, pair, condition, living in zip(*tried, strict=True):
                text = text_of(int(objects[at])) if living else None
                if text is not None and self._full_text.holds(condition, text):
                    askers.append(at)
                    found.append(pair)
        return np.array(askers, np.int64), np.array(found, np.int64)

    def _begin(self, pairs: I64) -> None:
        """Add pairs that had no row to the indexes of their keys."""
        ordinals = (self._pairs.keys[pairs] & _KEY).astype(np.int64)
        many = self._under.counts(ordinals) > FEW_MAX
        pairs = pairs[many]
        for ordinal, places in ARRAYS.split(ordinals[many]):
            index = self._indexes.get(ordinal)
            if index is not None:
                for name, number in self._named(pairs[places]):
                    index.add(name, self._full_text.query(number))
                continue
            under = self._under.expand(np.array([ordinal]))[1]
            self._indexes[ordinal] = self._full_text.index(self._named(under[self._living.values[under] > 0]))

    def _end(self, pairs: I64) -> None:
        """Remove pairs that have no row any more from the indexes of their keys."""
        for pair, ordinal in zip(pairs.tolist(), (self._pairs.keys[pairs] & _KEY).tolist(), strict=True):
            index = self._indexes.get(ordinal)
            if index is not None:
                index.remove(pair)
                if not len(index):
                    del self._indexes[ordinal]

    def _named(self, pairs: npt.NDArray[Any]) -> list[tuple[int, int]]:
        """Return pairs with the numbers of their conditions."""
        return list(zip(pairs.tolist(), (self._pairs.keys[pairs] >> _CONDITION).tolist(), strict=True))

    def _rewrite(self) -> None:
        """Forget the removed rows."""
        owners, places = self._waiting.expand(np.arange(len(self._pairs)))
        held = self._row.values[places] >= 0
        step, row = self._step.values[places[held]], self._row.values[places[held]]
        self._waiting, self._gone = Postings(), 0
        self._step, self._row = GrowingColumn(np.uint32), GrowingColumn(np.int32)
        self._waiting.append(owners[held], np.arange(len(row)))
        self._step.append(step)
        self._row.append(row)


def _packed(condition: int, ordinals: I64) -> npt.NDArray[np.uint64]:
    return pack(np.full(len(ordinals), condition), ordinals)
