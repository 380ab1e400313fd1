"""The interface of a metric to the address cache: the owner of a key among the known peers."""

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
"""Number of contacts that a stale zone loses at once: about as many as one lookup restores."""


class Ownership(Protocol):
    """Ownership by one metric, over the sorted ring positions of all live contacts.

    The list of positions belongs to the cache: it is never empty, and :meth:`changed` reports each change of it.  A
    *place* is an index into the list.  A *zone* is a range of the ring in which all live peers are known; zones prove
    the owners of keys.
    """

    def changed(self) -> None:
        """Note that a position was added or removed.  Zones stay: see the address cache."""
        ...

    def learn(self, key: int, positions: Sequence[int], complete: bool, before: int | None, /) -> None:
        """Add the result of a lookup of ``key``: these positions, nearest first, none missing.

        ``complete``: no other peers exist.  ``before``: the last position before the key, if known.
        """
        ...

    def forget(self, key: int) -> None:
        """Drop the zone around a key; of a large zone only a part with about ``FORGET_CONTACTS`` contacts."""
        ...

    def gap(self) -> int | None:
        """Return a key outside all zones, or None if they cover the ring."""
        ...

    @property
    def zones(self) -> list[tuple[int, int]]:
        """The zones as (first key, last key), disjoint and ascending."""
        ...

    def nearest(self, key: int) -> int:
        """Return the place of the contact nearest to a key, regardless of zones."""
        ...

    def nearest_column(self, keys: U64) -> I64:
        """Apply :meth:`nearest` to a column of keys."""
        ...

    def owner(self, key: int) -> int:
        """Return the place of a key's owner, or -1 if no zone proves it."""
        ...

    def owner_column(self, keys: U64) -> I64:
        """Apply :meth:`owner` to a column of keys."""
        ...

    def toward(self, key: int) -> int:
        """Return the place of the next contact on the way to a key's owner.

        The result is the own peer's place if no contact is nearer.
        """
        ...

    def toward_column(self, keys: U64) -> I64:
        """Apply :meth:`toward` to a column of keys."""
        ...

    def before(self, place: int) -> int:
        """Return the place of the last peer before another if it is proven, else -1; always -1 by XOR."""
        ...

    def closest(self, key: int, count: int) -> list[int]:
        """Return the places of the ``count`` contacts nearest to a key, nearest first."""
        ...
