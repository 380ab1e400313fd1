"""Owners of keys from a global view: the reference for lookups and checkers."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from p2prdf.wire.messages import Contact

__all__ = ["Ring"]

_BITS = 64


def _by_xor(positions: list[int], key: int, count: int) -> list[int]:
    """Return the places closest to a key by XOR, closest first.

    The closest positions share the longest prefixes with the key, and positions with a common prefix are neighbours in
    sorted order.  So widening one range finds them.
    """
    low, high = 0, len(positions)
    for free in range(_BITS - 1, -1, -1):
        prefix = key >> free << free
        inner_low = bisect_left(positions, prefix, low, high)
        inner_high = bisect_left(positions, prefix + (1 << free), inner_low, high)
        if inner_high - inner_low < count:
            break
        low, high = inner_low, inner_high
    return sorted(range(low, high), key=lambda place: positions[place] ^ key)[:count]


def _clockwise(positions: list[int], key: int, count: int) -> list[int]:
    """Return the places at or after a key, clockwise."""
    first, size = bisect_left(positions, key), len(positions)
    return [(first + step) % size for step in range(min(count, size))]


_CLOSEST: Final[dict[str, Callable[[list[int], int, int], list[int]]]] = {
    "kademlia": _by_xor,
    "chord": _clockwise,
}


class Ring:
    """All peers of a simulation, sorted by ring position; ``overlay`` defines the distance."""

    __slots__ = ("_closest", "_contacts", "_keys")

    def __init__(self, contacts: Iterable[Contact], overlay: str = "kademlia"):
        self._contacts = sorted(contacts, key=lambda contact: contact.key)
        self._keys = [contact.key for contact in self._contacts]
        self._closest = _CLOSEST[overlay]
        assert len(set(self._keys)) == len(self._keys), "two peers have one ring position"

    def __len__(self) -> int:
        return len(self._contacts)

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._contacts)

    def closest(self, key: int, count: int) -> tuple[Contact, ...]:
        """Return the ``count`` peers closest to a key, closest first."""
        return tuple(self._contacts[place] for place in self._closest(self._keys, key, count))

    def owner(self, key: int) -> Contact:
        """Return the peer closest to a key."""
        return self.closest(key, 1)[0]

    def before(self, key: int) -> Contact:
        """Return the last peer before a key, clockwise."""
        return self._contacts[bisect_left(self._keys, key) - 1]
