"""Growing columns: numpy arrays with spare room at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["GrowingColumn"]

_ROOM_MIN = 16


class GrowingColumn:
    """An array with append; amortised constant cost per value."""

    __slots__ = ("_room", "size", "values")

    def __init__(self, dtype: Any):
        self._room: npt.NDArray[Any] = np.empty(0, dtype)
        self.size = 0
        self.values: npt.NDArray[Any] = self._room
        """The values held, as a view: writing to it writes to the column."""

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        """Bytes allocated, spare room included."""
        return self._room.nbytes

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add values at the end."""
        end = self.size + len(values)
        if end > len(self._room):
            self._grow(end)
        self._room[self.size : end] = values
        self.size, self.values = end, self._room[:end]

    def extend(self, count: int, value: int = 0) -> None:
        """Add ``count`` equal values."""
        end = self.size + count
        if end > len(self._room):
            self._grow(end)
        self._room[self.size : end] = value
        self.size, self.values = end, self._room[:end]

    def only(self, index: npt.NDArray[Any]) -> GrowingColumn:
        """Return a new column of the values at some places."""
        chosen = GrowingColumn(self._room.dtype)
        chosen.append(self.values[index])
        return chosen

    def _grow(self, size: int) -> None:
        room = np.empty(max(_ROOM_MIN, size + (size >> 1)), self._room.dtype)
        room[: self.size] = self._room[: self.size]
        self._room = room
