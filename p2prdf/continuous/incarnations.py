"""Identities of delivered solutions, and the deliveries that bring the delivered set to the current output.

The identity of a conjunctive query's solution follows from its triples.  A row of another standing query may come, go
and come again, and may have several copies.  Its identity therefore follows from the row, the number of the copy, and
the number of times that this copy came before.  Of each copy at most one such *incarnation* holds at a time; the next
one follows the retraction.

The next incarnation follows from the identities in the result log, which all replicas keep.  A new primary looks up
incarnation after incarnation of each row that holds now or was delivered.  It knows nothing of other rows, and must
not repeat an incarnation that came and went.  Each planned delivery is therefore looked up first; if it is over
already, the next incarnation is taken (:meth:`Incarnations.changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from p2prdf import keys
from p2prdf.continuous.operators.zset import Row
from p2prdf.wire.messages import WITHDRAWN

__all__ = ["Incarnations"]

_MASK: Final = (1 << 64) - 1
_COPY: Final = 0x9E3779B97F4A7C15
_TURN: Final = 0xC2B2AE3D27D4EB4F


class Incarnations:
    """The incarnations of each row."""

    def __init__(self, hash_of: Callable[[int], int]):
        """``hash_of`` returns the hash of a term by its number, also for the unbound term."""
        self._hash_of = hash_of
        self._turns: dict[Row, list[int]] = {}
        """Number of deliveries and retractions per copy: odd while the copy is delivered."""

    def identity(self, row: Row, copy: int, turn: int) -> int:
        """Return the identity of an incarnation."""
        found = 0
        for place, term in enumerate(row):
            found += keys.contribution(self._hash_of(term), place)
        return keys.fmix(keys.fmix(found & _MASK) + copy * _COPY + turn * _TURN & _MASK)

    def count(self, row: Row) -> int:
        """Return the number of copies of a row that are delivered."""
        return sum(turns & 1 for turns in self._turns.get(row, ()))

    def came_and_went(self, row: Row) -> bool:
        """Return whether a copy of a row was delivered and retracted."""
        return any(turns > 1 for turns in self._turns.get(row, ()))

    def change(self, row: Row, wanted: int) -> list[tuple[int, bool]]:
        """Set the number of delivered copies of a row; return the identities to deliver, each with whether it is a
        retraction.
        """
        found = []
        turns = self._turns.setdefault(row, [])
        missing = wanted - self.count(row)
        while missing > 0:
            copy = next((at for at, each in enumerate(turns) if not each & 1), len(turns))
            if copy == len(turns):
                turns.append(0)
            found.append((self.identity(row, copy, turns[copy] >> 1), False))
            turns[copy] += 1
            missing -= 1
        for copy in reversed(range(len(turns))) if missing < 0 else ():
            if missing < 0 and turns[copy] & 1:
                found.append((self.identity(row, copy, turns[copy] >> 1) ^ WITHDRAWN, True))
                turns[copy] += 1
                missing += 1
        return found

    def changes(
        self, wanted: Mapping[Row, int], knows: Callable[[list[int]], list[bool]]
    ) -> list[tuple[Row, int, bool]]:
        """Set the number of delivered copies of some rows.

        Returns the deliveries, as in :meth:`change` with the row in front, without those that the log knows already.
        """
        found: list[tuple[Row, int, bool]] = []
        while wanted:
            news = [(row, *each) for row, count in wanted.items() for each in self.change(row, count)]
            coming = [identity for _, identity, over in news if not over]
            known = {identity for identity, told in zip(coming, knows(coming), strict=True) if told}
            found += [each for each in news if each[1] not in known]
            met = [(row, identity) for row, identity, _ in news if identity in known]
            over = knows([identity ^ WITHDRAWN for _, identity in met])
            again: dict[Row, int] = {}
            for (row, identity), went in zip(met, over, strict=True):
                if went:
                    self._note_over(row, identity)
                    again[row] = wanted[row]
            wanted = again
        return found

    def _note_over(self, row: Row, identity: int) -> None:
        turns = self._turns[row]
        copy = next(at for at, each in enumerate(turns) if each and self.identity(row, at, each - 1 >> 1) == identity)
        turns[copy] += 1

    def names(self, row: Row) -> list[int]:
        """Return the identities of the delivered copies."""
        turns = enumerate(self._turns.get(row, ()))
        return [self.identity(row, copy, each >> 1) for copy, each in turns if each & 1]

    def forget(self) -> None:
        """Forget all rows."""
        self._turns.clear()

    def recall(self, rows: Iterable[Row], knows: Callable[[list[int]], list[bool]]) -> None:
        """Look up the deliveries of some rows; ``knows`` returns for identities whether the log knows them."""
        open_ = [(row, 0, 0) for row in dict.fromkeys(rows)]
        for row, _, _ in open_:
            self._turns[row] = []
        while open_:
            names = [self.identity(*each) for each in open_]
            told, over = knows(names), knows([name ^ WITHDRAWN for name in names])
            following = []
            for (row, copy, turn), came, went in zip(open_, told, over, strict=True):
                turns = self._turns[row]
                if came or went:
                    if turn == 0:
                        turns.append(0)
                    turns[copy] = 2 * turn + 1 + bool(went)
                    if went:
                        following.append((row, copy, turn + 1))
                    else:
                        following.append((row, copy + 1, 0))
                elif turn:
                    following.append((row, copy + 1, 0))
            open_ = following
