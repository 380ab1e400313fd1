"""What an address cache asks of a metric: who of the peers known owns a key, and where that is proven."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.keys import U64

__all__ = ["FORGET_CONTACTS", "I64", "Ownership"]

I64 = npt.NDArray[np.int64]

FORGET_CONTACTS: Final = 8
"""How much a stale zone loses at once: about what one lookup brings back."""


class Ownership(Protocol):
    """Ownership by one metric, over the sorted ring positions of all live contacts.

    The list of positions is the cache's: it holds one position at least, and every change of it is
    told by :meth:`changed`.  Peers are named by their *place* in it.  A *zone* is a stretch of the
    ring all of whose live peers are among the positions; from the zones follows which keys have a
    proven owner.
    """

    def changed(self) -> None:
        """Note that a position came or went.  Zones stay as they are: see the address cache."""
        ...

    def learn(self, key: int, positions: Sequence[int], complete: bool, before: int | None, /) -> None:
        """Take in that a lookup of ``key`` found these positions, nearest first and none missing.

        ``complete``: no other peers exist.  ``before``: the last position before the key, if known.
        """
        ...

    def forget(self, key: int) -> None:
        """Drop the zone around a key; of one with many contacts only about ``FORGET_CONTACTS``."""
        ...

    def gap(self) -> int | None:
        """Return a key outside all zones, or None when they cover the ring."""
        ...

    @property
    def zones(self) -> list[tuple[int, int]]:
        """The zones as (first key, last key), disjoint and ascending."""
        ...

    def nearest(self, key: int) -> int:
        """Return the place of the contact nearest to a key, whatever the zones."""
        ...

    def nearest_column(self, keys: U64) -> I64:
        """Do for a column what :meth:`nearest` does for one key."""
        ...

    def owner(self, key: int) -> int:
        """Return the place of a key's owner, or -1 where no zone proves who that is."""
        ...

    def owner_column(self, keys: U64) -> I64:
        """Do for a column what :meth:`owner` does for one key."""
        ...

    def toward(self, key: int) -> int:
        """Return the place of the contact that is nearest to a key's owner on the way there.

        It is the own peer's place if no contact is nearer than that.
        """
        ...

    def toward_column(self, keys: U64) -> I64:
        """Do for a column what :meth:`toward` does for one key."""
        ...

    def before(self, place: int) -> int:
        """Return the place of the peer proven to be the last before another; -1 if none is, or it means nothing."""
        ...

    def closest(self, key: int, count: int) -> list[int]:
        """Return the places of the ``count`` contacts nearest to a key, nearest first."""
        ...
