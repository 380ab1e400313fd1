"""Rejoin: everything that waits under some keys is probed again with all triples held.

The problem.  Of the peers that store an item only one joins it, the primary of its key; the others store and
keep quiet.  When another becomes primary, nobody can say which of the pairs that meet there have been joined and
whether what came of them has arrived: the one who knew may be gone, with what it had under way.

The idea.  Results have the same identity whoever derives them, whenever.  So the new primary derives everything
again and sends it; whoever knows it drops it.  Nothing needs to be remembered about what was joined: not by triples
that are only stored, not by rows, not by what is under way.  (What is derived may be later than it was before, never
earlier: a triple that was published again is joined as of now, also with rows that were late enough without it.)

The invariant: *each compatible pair of a row and a triple that are both held when the rejoin begins is derived*,
in one of its pieces, if the row's key is chosen and its group lives.  What comes in meanwhile is joined on its
way in, as ever; or it is only stored, and the rejoin finds it or not.

A rejoin may be long, and between two pieces anything may be inserted, ended or compacted.  So it holds no row
numbers over a pause, which change when the rows of ended groups are dropped, but identities of rows.  Places in
the postings of a key are safe to hold: triples are only ever added, at the end.

Rejected: a bit per pair or per row that says "joined".  It would have to be as durable as what was sent, and would
still not tell whether it arrived.
"""

from __future__ import annotations

from collections.abc import Iterator

from p2prdf.store.tables import Derived

__all__ = ["in_pieces", "part_max"]


def part_max(pairs_max: int) -> int:
    """Return the most pairs that are joined at once, or rows looked at, for pieces of ``pairs_max``."""
    return max(1, pairs_max // 2)


def in_pieces(parts: Iterator[tuple[int, list[Derived]]], pairs_max: int) -> Iterator[list[Derived]]:
    """Put parts of at most half a piece together to pieces of ``pairs_max``; a part comes with its cost.

    A piece may be empty: so much was looked at, and nothing came of it.
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
