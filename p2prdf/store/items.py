"""What tables hold, as items under ring keys: for comparing copies, and for writing them down.

Everything a peer holds is a grow-only set of items under ring keys: triples per role, rows that wait, and the later
links of CQC queries.  An item can change in one way only, it gets *later* (a triple is published again, a row is
renewed, a group gets another subscription), and of two states of it the later one counts.  So two copies are the
same if they have the same *item identities*, 64-bit names of item and state, and either can be brought up to date
by inserting what the other has and it has not.

An item is found again by its *handle*, which stays true whatever happens to the tables: the place of a triple,
the identity of a row, the number of a group.  What has ended meanwhile is left out of what is exported.

A triple has the same item identity under all its roles, and a row that waits for a pattern without constants has
the same under the keys of all buckets.  A fingerprint of several keys should add identities up, or mix the keys in:
with exclusive-or two that are equal count for nothing.
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
"""Ended groups remembered of which nothing was ever held here; beyond it the oldest are forgotten."""


class Seen(NamedTuple):
    """How far somebody has looked at the triples of one kind."""

    rows: int
    touched: int
    layout: int = 0
    """Which numbering of the triples this is about."""


NOT_SEEN: Final = Seen(-1, 0)


class TripleItems(NamedTuple):
    """Triples held under one role: handles, ring keys, item identities."""

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
    """Rows that wait at a step of a plan (queries at step 0): handles, ring keys, item identities."""

    plan: Plan
    step: int
    handle: Column
    ring_keys: Column
    identities: Column


class LinkItems(NamedTuple):
    """Groups for which a later link of a CQC query is held: their numbers, ring keys, item identities."""

    plan: Plan
    step: int
    group: Column
    ring_keys: Column
    identities: Column


def remember(ended: dict[int, None], identity: int) -> None:
    """Note that a group has ended of which nothing is held."""
    ended[identity] = None
    if len(ended) > ENDED_MAX:
        del ended[next(iter(ended))]
