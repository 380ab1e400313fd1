"""A digest index: the items of one type that a peer holds, with digests of the part it shares.

A scan of all items for each question would be slow, while few items have changed since the last one.  All keys of an
*arc* of the ring have the same replicas (:class:`p2prdf.overlay.replicas.ReplicaMap`), and a peer replicates few
arcs. The index is a table of sums of hashed identities, one row per arc and one column per bucket (the low bits of an
identity).  The digest shared with a peer is the sum of some rows; fewer buckets are sums of columns.  A change of an
item is a subtraction and an addition, in any order.

A new view rebuilds the table with one search per key.  Memory: some 20 bytes per item, and the table with at most
16,384 columns.

For each misplaced item,
the index records a replica that has confirmed it (:meth:`DigestIndex.elsewhere`): some 30 bytes
each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex

if TYPE_CHECKING:
    from p2prdf.overlay.replicas import ReplicaMap

__all__ = ["Changes", "DigestIndex", "Items", "Source", "buckets_of"]

BUCKETS_MAX: Final = 1 << 14
BUCKET_ITEMS: Final = 32
"""Approximate number of items per bucket."""
_GROWN: Final = 4
"""Factor by which the items may exceed ``BUCKET_ITEMS`` per bucket before buckets are added."""
_SIEVE: Final = np.uint64((1 << 16) - 1)
_TOLD_FACTOR: Final = 2
"""Bound on confirmed identities, as a multiple of the items held."""
_NOTHING: Final = -1
"""Stands for an arc: there is no item."""

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Items:
    """Items of one type: key and identity of each, and the row id by which its source finds it."""

    keys: U64
    identities: U64
    places: I64

    def __len__(self) -> int:
        return len(self.identities)

    def only(self, chosen: npt.NDArray[Any]) -> Items:
        """Return some of the items."""
        return Items(self.keys[chosen], self.identities[chosen], self.places[chosen])

    def ordered(self) -> Items:
        """Return the items by ascending identity."""
        return self.only(np.argsort(self.identities))


@dataclass(slots=True)
class Changes:
    """All items (``whole``), or the new and changed ones and the row ids that have become empty."""

    whole: bool
    items: Items
    gone: I64 = field(default_factory=lambda: np.zeros(0, np.int64))


class Source(Protocol):
    """The origin of the items of one type."""

    @property
    def dense(self) -> bool:
        """Whether row ids count from 0 with few gaps; only then may changes be other than whole."""
        ...

    @property
    def version(self) -> int:
        """A number that changes whenever an item does."""
        ...

    def changes(self) -> Changes:
        """Return the changes since the last call."""
        ...


class DigestIndex:
    """The digest index of one item type."""

    def __init__(self, source: Source):
        self._source = source
        self._version: int | None = None
        self._key, self._identity = GrowingColumn(np.uint64), GrowingColumn(np.uint64)
        """Key and identity of each item; the identity is 0 where there is no item."""
        self._stretch = GrowingColumn(np.int32)
        """Per item the number of its arc; -1, the last one, where there is no item."""
        self._told, self._told_by = HashIndex(), GrowingColumn(np.int32)
        """Identities that another peer has confirmed, and the number of that contact, or 0."""
        self._place: I64 | None = None
        """Row ids of the items; None: each item lies at its row id."""
        self._map: ReplicaMap | None = None
        self._stretches: I64 = np.zeros(0, np.int64)
        """Per row of the table its arc."""
        self._row_of: I32 = np.zeros(0, np.int32)
        """Per arc its row of the table."""
        self._sums: U64 = np.zeros((0, 1), np.uint64)

    def __len__(self) -> int:
        """Return the approximate number of items: empty row ids count as well."""
        return len(self._identity)

    # --- keeping up ------------------------------------------------------------------------------

    def update(self, found: ReplicaMap | None) -> None:
        """Apply the changes of the source and the replica map; later questions are answered as of now.

        Without a map only :meth:`find` and :meth:`all` may be used.
        """
        version = self._source.version
        if version != self._version:
            changes = self._source.changes()
            self._version = version
            if changes.whole:
                self._replace(changes.items)
            else:
                self._drop(changes.gone, found)
                self._renew(changes.items, found)
        self.follow(found)

    def follow(self, found: ReplicaMap | None) -> None:
        """Apply a replica map."""
        if self._map is not found:
            self._map = found
            if found is not None:
                self._spread(found)

    def _replace(self, items: Items) -> None:
        self._map = None
        self._key, self._identity, self._stretch = (GrowingColumn(each) for each in (np.uint64, np.uint64, np.int32))
        if self._source.dense:
            self._write(items)
        else:
            self._key.append(items.keys)
            self._identity.append(items.identities)
            self._stretch.extend(len(items))
            self._place = items.places

    def _write(self, items: Items) -> None:
        more = int(items.places.max(initial=-1)) + 1 - len(self)
        if more > 0:
            self._key.extend(more)
            self._identity.extend(more)
            self._stretch.extend(more, _NOTHING)
        self._key.values[items.places] = items.keys
        self._identity.values[items.places] = items.identities

    def _drop(self, places: I64, found: ReplicaMap | None) -> None:
        """Note that some row ids are empty now."""
        known = places[places < len(self)]
        known = known[self._identity.values[known] != 0]
        if found is not None and self._map is found:
            self._sum(known, np.subtract)
        self._identity.values[known] = 0
        self._stretch.values[known] = _NOTHING

    def _renew(self, items: Items, found: ReplicaMap | None) -> None:
        """Store new and changed items."""
        if found is None or self._map is not found:  # a rebuild will compute all sums
            self._map = None
            self._write(items)
            return
        known = items.places[items.places < len(self)]
        self._sum(known, np.subtract)
        self._write(items)
        self._stretch.values[items.places] = found.stretches(items.keys)
        self._sum(items.places, np.add)
        buckets = self._sums.shape[1]
        if buckets < BUCKETS_MAX and len(self) > _GROWN * BUCKET_ITEMS * buckets:
            self._sum_all()

    def _spread(self, found: ReplicaMap) -> None:
        """Find the arc of each item, and compute all sums."""
        kept = found.kept(0)
        self._stretches = np.flatnonzero(kept)
        self._row_of = np.full(len(kept) + 1, _NOTHING, np.int32)  # one more row, for "no arc"
        self._row_of[self._stretches] = np.arange(len(self._stretches), dtype=np.int32)
        if len(self):
            stretches = found.stretches(self._key.values)
            stretches[self._identity.values == 0] = _NOTHING
            self._stretch.values[:] = stretches
        self._sum_all()

    def _sum_all(self) -> None:
        self._sums = np.zeros((len(self._stretches), bucket_count(len(self))), np.uint64)
        self._sum(np.arange(len(self)), np.add)

    def _sum(self, index: I64, add: np.ufunc) -> None:
        """Add some items to the table, or subtract them."""
        rows = self._row_of[self._stretch.values[index]]
        kept = rows >= 0
        identities = self._identity.values[index[kept]]
        buckets = self._sums.shape[1]
        at = rows[kept].astype(np.int64) * buckets + buckets_of(identities, buckets)
        add.at(self._sums.reshape(-1), at, keys.fmix_array(identities))

    # --- items shared with another replica -------------------------------------------------------

    def _rows_with(self, number: int) -> Bools:
        """Return which rows of the table a contact replicates as well."""
        assert self._map is not None
        rows: Bools = self._map.kept(number)[self._stretches]
        return rows

    def total(self, number: int) -> int:
        """Return the digest of the items that a contact replicates as well."""
        return int(self._sums[self._rows_with(number)].sum(dtype=np.uint64)) if len(self) else 0

    def sums(self, number: int, buckets: int | None = None) -> U64:
        """Return the digest per bucket of the items that a contact replicates as well; 0 for an empty one.

        ``buckets`` is a power of two, or None for the size of this index.
        """
        rows, own = self._rows_with(number), self._sums.shape[1]
        wanted = own if buckets is None else buckets
        if wanted <= own:
            sums: U64 = self._sums[rows].sum(axis=0, dtype=np.uint64).reshape(-1, wanted).sum(axis=0, dtype=np.uint64)
            return sums
        identities = self._identity.values[self._kept_by_both(number)[self._stretch.values]]
        sums = np.zeros(wanted, np.uint64)
        np.add.at(sums, buckets_of(identities, wanted), keys.fmix_array(identities))
        return sums

    def _kept_by_both(self, number: int) -> Bools:
        """Return for each arc, and for "no arc", whether this peer and a contact replicate it."""
        assert self._map is not None
        return np.append(self._map.kept(0) & self._map.kept(number), False)

    def shared(self, number: int, buckets: int, chosen: npt.NDArray[Any]) -> Items:
        """Return the items in some buckets that a contact replicates as well."""
        flags = np.zeros(buckets, np.bool_)
        flags[chosen.astype(np.int64)] = True
        candidates = np.flatnonzero(flags[buckets_of(self._identity.values, buckets)])
        kept = self._kept_by_both(number)[self._stretch.values[candidates]]
        return self._at(candidates[kept])

    # --- all items -------------------------------------------------------------------------------

    def _at(self, index: I64) -> Items:
        places = index if self._place is None else self._place[index]
        return Items(self._key.values[index], self._identity.values[index], places)

    def all(self) -> Items:
        """Return all items."""
        return self._at(np.flatnonzero(self._identity.values))

    def elsewhere(self) -> Items:
        """Return the misplaced items that no present replica of their key has confirmed."""
        assert self._map is not None
        foreign = np.flatnonzero(np.append(~self._map.kept(0), False)[self._stretch.values])
        ordinals = self._told.find(self._identity.values[foreign])
        told = np.where(ordinals >= 0, self._told_by.values[ordinals], 0) if len(self._told) else ordinals * 0
        wanted = told == 0
        for number in np.unique(told[~wanted]).tolist():
            by = told == number
            wanted[by] = ~self._map.kept(number)[self._stretch.values[foreign[by]]]
        return self._at(foreign[wanted])

    def told(self, identities: U64, number: int) -> None:
        """Note that a contact has confirmed some items, under any keys."""
        if len(self._told) > _TOLD_FACTOR * max(len(self), BUCKETS_MAX):  # most of these are not held any more
            self._told, self._told_by = HashIndex(), GrowingColumn(np.int32)
        ordinals, fresh = self._told.insert(identities)
        self._told_by.extend(int(np.count_nonzero(fresh)))
        self._told_by.values[ordinals] = number

    def forget(self, number: int) -> None:
        """Note that a contact, and perhaps its data, is gone."""
        self._told_by.values[self._told_by.values == number] = 0

    def find(self, identities: U64) -> Items:
        """Return the items with the given identities."""
        return self._at(self._index_of(identities))

    def _index_of(self, identities: U64) -> I64:
        if not len(identities) or not len(self):
            return np.zeros(0, np.int64)
        sieve = np.zeros(int(_SIEVE) + 1, np.bool_)
        sieve[(identities & _SIEVE).astype(np.int64)] = True
        held = self._identity.values
        candidates = np.flatnonzero(sieve[(held & _SIEVE).astype(np.int64)])
        found: I64 = candidates[np.isin(held[candidates], identities)]
        return found


def bucket_count(count: int) -> int:
    """Return the number of buckets for so many items, a power of two."""
    return int(min(1 << (count // BUCKET_ITEMS).bit_length(), BUCKETS_MAX)) if count >= BUCKET_ITEMS else 1


def buckets_of(identities: U64, buckets: int) -> I64:
    """Return the bucket of each identity; ``buckets`` is a power of two."""
    return (identities & np.uint64(buckets - 1)).astype(np.int64)
