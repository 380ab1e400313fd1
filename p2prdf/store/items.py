"""Stored state as items under ring keys, for anti-entropy and snapshots.

A peer holds a grow-only set of items under ring keys: triples per index, waiting rows, and the later links of CQC
queries.  An item changes in one way only: it gets *later* (a triple is published again, a row is renewed, a group
gains a subscription), and the later of two states wins.  Two copies are therefore equal if they have the same *item
identities*, 64-bit names of item and state, and a copy is brought up to date by inserting the items that it lacks.

A *handle* finds an item again after any change of the tables: the place of a triple, the identity of a row or of a
group.  Items that have ended meanwhile are not exported.

A triple has the same item identity in all its indexes, and a row that waits for a pattern without constants has the
same under the keys of all buckets.  A digest over several keys should add identities or mix the keys in: with
exclusive-or two equal identities cancel out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from p2prdf.columns import Column
from p2prdf.rdf.query import Plan

__all__ = [
    "ENDED_MAX", "ITEMS_AT_ONCE", "NOT_SEEN", "LinkItems", "RowItems", "Seen", "TripleColumns", "TripleItems",
    "remember",
]  # fmt: skip

ITEMS_AT_ONCE = 65_536
"""Rows per :class:`RowItems`: some ten milliseconds of work."""

ENDED_MAX = 100_000
"""Bound on the remembered ended groups; beyond it the oldest are forgotten."""


class Seen(NamedTuple):
    """A reader's position in the triples of one kind."""

    rows: int
    touched: int
    layout: int = 0
    """The numbering of the triples that the position refers to."""


NOT_SEEN: Final = Seen(-1, 0)


class TripleItems(NamedTuple):
    """Triples held in one index: handles, ring keys, item identities."""

    handle: Column
    ring_keys: Column
    identities: Column


class TripleColumns(NamedTuple):
    """Triples as they are inserted; ``event`` is 0 for set semantics."""

    s: Column
    p: Column
    o: Column
    time: Column
    event: Column
    roles: Column


class RowItems(NamedTuple):
    """Waiting rows at a step of a plan (queries at step 0): handles, ring keys, item identities."""

    plan: Plan
    step: int
    handle: Column
    ring_keys: Column
    identities: Column


class LinkItems(NamedTuple):
    """Groups with a later link of a CQC query: handles, ring keys, item identities."""

    plan: Plan
    step: int
    handle: Column
    ring_keys: Column
    identities: Column


def remember(ended: dict[int, None], identity: int) -> None:
    """Record the end of a group."""
    ended[identity] = None
    if len(ended) > ENDED_MAX:
        del ended[next(iter(ended))]
