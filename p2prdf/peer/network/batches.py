"""Batches of triples in flight to their owners, and their division by index and owner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from p2prdf import hlc, keys
from p2prdf.columns import Column, Columns, Index, as_array, as_list
from p2prdf.peer.network.placement import NOBODY, UNKNOWN
from p2prdf.wire.messages import Contact, IndexTriples

__all__ = [
    "TripleBatch", "joined_batches", "part_of_batch", "probed_roles", "roles_by_owner", "rows_with", "union",
    "unmarked", "unresolved", "youngest",
]  # fmt: skip

_BOTH_KINDS = 1 | 1 << keys.EVENT_SHIFT

_FEW = 4
"""Rows up to which a loop costs less than vector operations."""


@dataclass(slots=True)
class TripleBatch:
    """Triples in flight to their owners, as in IndexTriples, with completion counters."""

    s: Column
    p: Column
    o: Column
    time: Column
    event: Column
    roles: Column
    hops: int = 0
    tokens: tuple[int, ...] = ()
    sender: Contact | None = None
    """The peer that sent the batch; None: this one."""
    origin: int = 0
    published: int = 0
    began: int = 0
    complete: int = 0
    stamp: int = 0
    words: int = 0
    introducer: int = 0
    """As in IndexTriples."""

    def __len__(self) -> int:
        return len(self.s)

    def columns(self) -> tuple[Column, Column, Column, Column, Column, Column]:
        """Return the six columns."""
        return (self.s, self.p, self.o, self.time, self.event, self.roles)

    def message(self, *, hops: int = 0, view: int = 0) -> IndexTriples:
        """Return the batch as a message."""
        said = (self.origin, self.published, self.began, self.complete, self.stamp, self.words, self.introducer)
        return IndexTriples(*self.columns(), hops, view, *said)

    @classmethod
    def received(
        cls, message: IndexTriples, *, hops: int = 0, tokens: tuple[int, ...] = (), sender: Contact | None = None,
        introducer: int = 0,
    ) -> TripleBatch:  # fmt: skip
        """Return the triples of a message as a batch."""
        return cls(
            message.s, message.p, message.o, message.time, message.event, message.roles, hops, tokens, sender,
            message.origin, message.published, message.began, message.complete, message.stamp, message.words,
            introducer,
        )  # fmt: skip

    @classmethod
    def of(cls, columns: Iterable[Column], hops: int, tokens: tuple[int, ...]) -> TripleBatch:
        """Make a batch of six columns."""
        s, p, o, time, event, roles = columns
        return cls(s, p, o, time, event, roles, hops, tokens)


def _as_of(batch: TripleBatch, other: TripleBatch) -> None:
    """Copy the data about its origin from another batch."""
    batch.origin, batch.published, batch.began, batch.complete, batch.stamp, batch.words, batch.introducer = (
        other.origin, other.published, other.began, other.complete, other.stamp, other.words, other.introducer,
    )  # fmt: skip


def joined_batches(columns: Columns, batches: list[TripleBatch]) -> TripleBatch:
    """Return several batches as one without a sender; the data about its origin is that of the first.

    Elements of streams are joined only with elements, except in batches that are stored at once and sent to no peer.
    """
    if len(batches) == 1:
        return batches[0]
    concat = columns.concat
    joined = zip(*(batch.columns() for batch in batches), strict=True)
    tokens = tuple(chain.from_iterable(batch.tokens for batch in batches))
    whole = TripleBatch.of((concat(column) for column in joined), batches[0].hops, tokens)
    _as_of(whole, batches[0])
    whole.stamp = max(batch.stamp for batch in batches)
    return whole


def part_of_batch(columns: Columns, batch: TripleBatch, index: Index) -> TripleBatch:
    """Return some rows of a batch, as a batch of its own."""
    if len(index) == len(batch.s):
        return replace(batch)
    take = columns.take
    part = TripleBatch.of((take(column, index) for column in batch.columns()), batch.hops, batch.tokens)
    part.sender = batch.sender
    _as_of(part, batch)
    return part


def probed_roles(roles: Column) -> Column:
    """Return per triple the indexes under which its receiver, their primary, joins it.

    A triple has one time for all its indexes, so a repeated publication is joined under all indexes that hold the
    triple when it first arrives.  Indexes that are not named are included, because the receiver may be their primary as
    well.
    """
    plain = (1 << keys.MARK_SHIFT) - 1
    if isinstance(roles, list):
        return [(each >> keys.PRIMARY_SHIFT) * _BOTH_KINDS | ~each & plain for each in roles]
    primary = roles >> np.uint32(keys.PRIMARY_SHIFT)
    found: Column = primary * np.uint32(_BOTH_KINDS) | ~roles & np.uint32(plain)
    return found


def unmarked(roles: Column) -> Column:
    """Return sets of indexes without the marks of sub-keys and primaries."""
    plain = (1 << keys.MARK_SHIFT) - 1
    return [each & plain for each in roles] if isinstance(roles, list) else roles & roles.dtype.type(plain)


def union(roles: Column) -> int:
    """Return the union of sets of indexes."""
    if isinstance(roles, list):
        found = 0
        for each in set(roles):
            found |= each
        return found
    return int(np.bitwise_or.reduce(roles)) if len(roles) else 0


def rows_with(roles: Column, bits: int) -> Index | None:
    """Return the rows with one of ``bits``; None for all rows."""
    if isinstance(roles, list):
        index = [at for at, each in enumerate(roles) if each & bits]
        return None if len(index) == len(roles) else index
    flags = (roles & roles.dtype.type(bits)) != 0
    return None if flags.all() else np.flatnonzero(flags)


def unresolved(ring: Column, owners: Column) -> list[int]:
    """Return keys with unknown owners; for a numpy column, at most 64 of them."""
    if isinstance(owners, list):
        return [key for key, owner in zip(ring, owners, strict=True) if owner == UNKNOWN]
    missing = np.flatnonzero(owners == UNKNOWN)
    return as_array(ring)[missing[:64]].tolist() if len(missing) else []


def roles_by_owner(
    count: int, places: list[tuple[int, Index | None, Column, Column | None]], roles: Column
) -> list[tuple[int, Column]]:
    """Return, per owner, the indexes of each row that concern it (0: none), with their marks."""
    if isinstance(roles, list) or count <= _FEW:
        masks: dict[int, list[int]] = {}
        roles = as_list(roles)
        for bits, index, owners, marks in places:
            for at, owner in zip(range(count) if index is None else index, as_list(owners), strict=True):
                mask = masks.get(owner)
                if mask is None:
                    mask = masks[owner] = [0] * count
                mask[at] |= roles[at] & bits
            if marks is not None:
                where = zip(range(count) if index is None else index, as_list(owners), as_list(marks), strict=True)
                for at, owner, mark in where:
                    masks[owner][at] |= mark
        return sorted(masks.items())
    if not places:
        return []
    present = np.bincount(np.concatenate([as_array(owners, np.int64) for _, _, owners, _ in places]) - NOBODY)
    found = np.flatnonzero(present) + NOBODY
    table = np.zeros((len(found), count), np.uint32)
    every = np.arange(count)
    for bits, index, owners, marks in places:
        at = every if index is None else index
        rank = np.searchsorted(found, owners) if len(found) > 1 else 0
        table[rank, at] |= roles[at] & np.uint32(bits) if marks is None else roles[at] & np.uint32(bits) | marks
    return [(int(owner), table[rank]) for rank, owner in enumerate(found)]


def youngest(batch: TripleBatch) -> int:
    """Return the latest stamp of a publication or deletion in a non-empty batch; 0 if none is known."""
    if isinstance(batch.time, list):
        stamps = (stamp for stamp in map(hlc.plain, batch.time) if stamp < hlc.ELEMENT)
        return max(batch.stamp, *stamps, 0)
    times = batch.time & np.uint64(hlc.GONE - 1)
    return max(batch.stamp, int(times[times < np.uint64(hlc.ELEMENT)].max(initial=0)))
