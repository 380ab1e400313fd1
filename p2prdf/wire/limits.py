"""Version and bounds of frames."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Hashable, MutableMapping
from typing import Final, Generic, TypeVar

import numpy as np

__all__ = [
    "CELLS_FREE", "COLUMNS_MAX", "ELEMENTS_MAX", "FEW", "FRAME_BYTES_MAX", "LENGTH", "MESSAGES_MAX", "PLANS_BYTES_MAX",
    "PLANS_MAX", "PLAN_BYTES_MAX", "PLAN_PARTS_MAX", "ROWS_MAX", "TERMS_MAX", "TERM_BYTES_MAX", "VERSION", "WIDTHS",
    "Memo",
]  # fmt: skip

VERSION: Final = 6
LENGTH: Final = struct.Struct(">I")
"""The length of a frame's body, in front of it."""
FRAME_BYTES_MAX: Final = 8 << 20
TERM_BYTES_MAX: Final = 4 << 20
"""Maximum size of one term: half a frame."""
TERMS_MAX: Final = 1 << 18
"""Maximum number of distinct terms per frame: more than ROWS_MAX rows of three columns contain."""
ROWS_MAX: Final = 1 << 16
"""Maximum number of rows per message."""
MESSAGES_MAX: Final = 1 << 13
"""Maximum number of messages per frame."""
ELEMENTS_MAX: Final = TERMS_MAX + (1 << 18)
"""Maximum number of parts of all msgpack arrays in a frame."""
CELLS_FREE: Final = 1 << 16
"""Number of cells in columns of equal values that every frame may have, besides one for each of its bytes."""
COLUMNS_MAX: Final = 256
"""Maximum number of bindings or constants of one message."""
PLAN_BYTES_MAX: Final = 64 << 10
PLAN_PARTS_MAX: Final = 1024
"""Maximum length of each list in a plan."""
PLANS_MAX: Final = 128
"""Maximum number of plans in a memo that nothing else holds."""
PLANS_BYTES_MAX: Final = 4 << 20

FEW: Final = 32
"""Up to so many rows a loop is faster than ten numpy calls."""
WIDTHS: Final = {
    width: (letter, np.dtype(f"<u{width}")) for width, letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
}
"""Letter of :mod:`struct` and numpy type of a packed column, by its width in bytes."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Plans and their encodings: those in use, and the most recently used others.

    At most PLANS_MAX plans, and PLANS_BYTES_MAX encoded bytes, are held that are not in use.
    """

    def __init__(self, in_use: MutableMapping[K, V]) -> None:
        """``in_use``: an empty mapping that refers weakly to the plans."""
        self._in_use = in_use
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K) -> V | None:
        """Return the value of a key, None if there is none."""
        held = self._held.get(key)
        if held is None:
            return self._in_use.get(key)
        self._held.move_to_end(key)
        return held[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Store the value of a new key; the least recently used ones are dropped if there is no room."""
        self._in_use[key] = value
        self._held[key] = value, size
        self._size += size
        while len(self._held) > PLANS_MAX or self._size > PLANS_BYTES_MAX:
            _, (_, size) = self._held.popitem(last=False)
            self._size -= size
