"""Who owns a key, seen from above: the truth that lookups approach and checkers compare with."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from p2prdf.wire.messages import Contact

__all__ = ["Ring"]

_BITS = 64


class Ring:
    """All peers of a simulation, sorted by ring position.

    The peers closest to a key by XOR share its longest prefixes, and peers that share a prefix
    lie side by side in sorted order: so the closest few are found by widening one range.
    """

    __slots__ = ("_contacts", "_keys")

    def __init__(self, contacts: Iterable[Contact]):
        self._contacts = sorted(contacts, key=lambda contact: contact.key)
        self._keys = [contact.key for contact in self._contacts]
        assert len(set(self._keys)) == len(self._keys), "two peers have one ring position"

    def __len__(self) -> int:
        return len(self._contacts)

    def closest(self, key: int, count: int) -> tuple[Contact, ...]:
        """Return the ``count`` peers closest to a key, closest first."""
        low, high = 0, len(self._keys)
        for free in range(_BITS - 1, -1, -1):
            prefix = key >> free << free
            inner_low = bisect_left(self._keys, prefix, low, high)
            inner_high = bisect_left(self._keys, prefix + (1 << free), inner_low, high)
            if inner_high - inner_low < count:
                break
            low, high = inner_low, inner_high
        near = sorted(self._contacts[low:high], key=lambda contact: contact.key ^ key)
        return tuple(near[:count])

    def owner(self, key: int) -> Contact:
        """Return the peer closest to a key."""
        return self.closest(key, 1)[0]
