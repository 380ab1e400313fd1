"""Ring positions of many peers as a column, and the owners of keys among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf import keys
from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.clockwise import ClockwiseOwnership
from p2prdf.overlay.xor import XorOwnership

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from p2prdf.keys import U64
    from p2prdf.overlay.ownership import Ownership

__all__ = ["OVERLAYS", "Places", "even_positions", "random_positions"]

OVERLAYS: Final[dict[str, Callable[[list[int]], Ownership]]] = {
    "chord": ClockwiseOwnership,
    "kademlia": XorOwnership,
}
"""Ownership by overlay, with the code of the daemon's address cache."""


class Places:
    """All peers of a ring, numbered by position; the address cache's code decides ownership."""

    def __init__(self, positions: Iterable[int], overlay: str = "chord"):
        if overlay not in OVERLAYS:
            raise LocalProtocolError(f"overlay: {overlay!r} is none of {', '.join(OVERLAYS)}")
        self.overlay = overlay
        ranked = sorted(positions)
        self.positions: U64 = np.array(ranked, np.uint64)
        self._ownership = OVERLAYS[overlay](ranked)

    def __len__(self) -> int:
        return len(self.positions)

    def owners(self, ring_keys: U64) -> npt.NDArray[np.int64]:
        """Return the number of each key's owner."""
        return self._ownership.nearest_column(ring_keys)


def random_positions(peers: int, seed: int) -> list[int]:
    """Return ``peers`` different random positions."""
    rng = np.random.default_rng(seed)
    found: dict[int, None] = {}
    while len(found) < peers:
        for position in rng.integers(0, 1 << 64, size=peers - len(found), dtype=np.uint64).tolist():
            found[position] = None
    return list(found)


def even_positions(peers: int) -> list[int]:
    """Return the positions of ``peers`` evenly placed peers."""
    return [keys.even_key(ordinal) for ordinal in range(peers)]
