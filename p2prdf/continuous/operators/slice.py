"""Slice: ORDER BY with LIMIT and OFFSET, maintained."""

from __future__ import annotations

from collections.abc import Callable

from p2prdf.continuous.operators.ranked import Ranked
from p2prdf.continuous.operators.zset import Delta, OfOne, Row, add
from p2prdf.rdf.ordering import OrderKey

__all__ = ["Slice"]


class Slice(OfOne):
    """Output: the rows at the places from ``offset`` to ``offset + limit`` of the sorted bag of rows above zero.

    ``partition``: columns; rows that differ in them are sorted and counted apart.

    ``key`` must be different for different rows, so the slice is independent of the history.  Holds the input.  A
    changed row costs one insertion into the order (:mod:`~p2prdf.continuous.operators.ranked`), and the rows that it
    pushes over the ends of the slice: at most its change of multiplicity.
    """

    def __init__(
        self, key: Callable[[Row], OrderKey], offset: int, limit: int | None, partition: tuple[int, ...] = ()
    ):
        super().__init__()
        self._key = key
        self._start = offset
        self._stop = None if limit is None else offset + limit
        self._partition = partition
        self._ranked: dict[Row, Ranked[Row]] = {}

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        out: Delta = {}
        for row, before, after in self._changed(changes[0]):
            if after != before:
                self._move(row, before, after - before, out)
        return out

    def _move(self, row: Row, before: int, more: int, out: Delta) -> None:
        """Change a row's multiplicity.

        The change of a slice is the difference between the changes of two prefixes of the order, one per end.
        """
        part, key = tuple(row[at] for at in self._partition), self._key(row)
        ranked = self._ranked.setdefault(part, Ranked[Row]())
        total = ranked.total
        place = ranked.rank(key) + min(before, before + more)  # the place of the first copy that comes or goes
        ends = [(self._start, -1)] if self._stop is None else [(self._stop, 1), (self._start, -1)]
        if self._stop is None:
            add(out, row, more)
        if more < 0:
            ranked.change(key, row, more)
        for end, sign in ends:
            inside = min(max(end - place, 0), abs(more))
            if inside:
                # Copies that come before an end push as many rows over it; copies that go let as many in.
                direction = sign if more > 0 else -sign
                add(out, row, direction * inside)
                for other, times in ranked.between(end - inside, min(end, total, ranked.total)):
                    add(out, other, -direction * times)
        if more > 0:
            ranked.change(key, row, more)
        if not ranked.total:
            del self._ranked[part]
