"""Recomputation: all rows that wait under some keys are joined again with all triples held.

Of the peers that store an item only one joins it, the primary of its key.  A new primary cannot know which pairs were
joined and whether the solutions arrived: the former primary may be lost with its messages in flight.  Solutions have
the same identity wherever and whenever they are derived, so the new primary derives and sends everything again, and
the receivers drop known identities.  No record of past joins is needed.  A derived solution may be later than before,
never earlier: a republished triple is joined with its current stamp.

The invariant: *each compatible pair of a row and a triple that are both held when the recomputation begins is
derived* in one of its pieces, if the row's key is chosen and its group is live.  New arrivals are joined as usual; if
they are only stored, the recomputation may or may not find them.

Between two pieces the tables may change in any way.  Across a pause only identities of rows are held, since row
numbers change when the rows of ended groups are dropped.  Places in the postings of a key are stable: triples are
only added, at the end.

Rejected: a bit "joined" per pair or row.  It would have to be as durable as the messages and would not show whether
they arrived.
"""

from __future__ import annotations

from collections.abc import Iterator

from p2prdf.store.tables import Derived

__all__ = ["in_pieces", "part_max"]


def part_max(pairs_max: int) -> int:
    """Return the bound on pairs joined, or rows looked at, in one step of a piece of ``pairs_max``."""
    return max(1, pairs_max // 2)


def in_pieces(parts: Iterator[tuple[int, list[Derived]]], pairs_max: int) -> Iterator[list[Derived]]:
    """Combine parts of at most half a piece into pieces of ``pairs_max``; each part comes with its cost.

    A piece may be empty, if its cost went into rows without matches.
    """
    piece: list[Derived] = []
    spent = 0
    for cost, derived in parts:
        piece += derived
        spent += cost
        if spent > pairs_max - part_max(pairs_max):
            yield piece
            piece, spent = [], 0
    if piece:
        yield piece
