"""The groups of a plan as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from p2prdf.columns import as_array
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.rdf.query import Plan
from p2prdf.store.tables import NEVER
from p2prdf.wire.messages import Groups

__all__ = ["GroupTable"]

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_NEVER = np.uint64(NEVER)


class GroupTable:
    """The groups of one plan as columns."""

    def __init__(self, plan: Plan):
        self.index = HashIndex()
        self.since_min, self.since_max, self.lease, self.first_heard = (GrowingColumn(np.uint64) for _ in range(4))
        self.params = [GrowingColumn(np.uint32) for _ in range(plan.constant_count)]
        self.ended = 0

    def __len__(self) -> int:
        return len(self.since_min)

    @property
    def nbytes(self) -> int:
        """Bytes taken by columns and index."""
        columns = (self.since_min, self.since_max, self.lease, self.first_heard, *self.params)
        return self.index.nbytes + sum(column.nbytes for column in columns)

    def add(self, groups: Groups, gone: dict[int, None], settled: int) -> tuple[I64, bool]:
        """Take in or widen groups; return their numbers, and whether a known one was widened.

        New groups in ``gone`` have ended here, those with ``NEVER`` as ``since_min`` at their sender: both are taken in
        as ended.  ``settled``: that of the tables (:class:`p2prdf.store.tables.Tables`), recorded for new groups.
        """
        ids = as_array(groups.ids)
        since_min, since_max, lease = (
            as_array(column) for column in (groups.since_min, groups.since_max, groups.lease)
        )
        numbers, fresh = self.index.insert(ids)
        count = int(np.count_nonzero(fresh))
        if count:
            for column in (self.since_min, self.since_max, self.lease):
                column.extend(count)
            self.since_min.values[-count:] = _NEVER
            self.first_heard.extend(count, settled)
            for held, given in zip(self.params, groups.params, strict=True):
                held.append(as_array(given, np.uint32)[fresh])
        widened = False
        if count < len(ids):
            since_min = self._without_ended(numbers, since_min, fresh)
            widened = bool(
                (since_min < self.since_min.values[numbers])[~fresh].any()
                or (since_max > self.since_max.values[numbers])[~fresh].any()
            )
        if count:
            since_min, since_max = self._as_ended(ids, since_min, since_max, gone, fresh)
        np.minimum.at(self.since_min.values, numbers, since_min)
        np.maximum.at(self.since_max.values, numbers, since_max)
        np.maximum.at(self.lease.values, numbers, lease)
        return numbers, widened

    def _as_ended(
        self, ids: U64, since_min: U64, since_max: U64, gone: dict[int, None], fresh: npt.NDArray[np.bool_]
    ) -> tuple[U64, U64]:
        """Take in groups as ended that have ended already, here or at their sender."""
        known = ids[fresh & (since_min == _NEVER)].tolist()
        if gone:
            known += [each for each in ids[fresh & (since_min != _NEVER)].tolist() if each in gone]
        if not known:
            return since_min, since_max
        self.ended += len(known)
        ended = np.isin(ids, np.array(known, np.uint64))
        return np.where(ended, _NEVER, since_min), np.where(ended, np.maximum(since_max, np.uint64(1)), since_max)

    def _without_ended(self, numbers: I64, since_min: U64, fresh: npt.NDArray[np.bool_]) -> U64:
        """Keep ended groups ended despite later arrivals: an identity is not used again."""
        ended = (self.since_min.values[numbers] == _NEVER) & ~fresh
        ended &= self.since_max.values[numbers] != 0  # otherwise it is new in this very batch
        return np.where(ended, _NEVER, since_min)

    def keep(self, kept: I64) -> None:
        """Keep only the groups with some numbers; they are numbered anew in that order."""
        ids = self.index.keys[kept]
        self.index = HashIndex()
        self.index.insert(ids)
        self.since_min, self.since_max, self.lease, self.first_heard = (
            column.only(kept) for column in (self.since_min, self.since_max, self.lease, self.first_heard)
        )
        self.params = [column.only(kept) for column in self.params]
        self.ended = int(np.count_nonzero(self.since_min.values == _NEVER))
