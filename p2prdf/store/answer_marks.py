"""Delivery states: one per solution identity, for as long as the subscription lives.

An acknowledged solution may be derived again at any time, by a retry, by a new primary, by another replica.  Its
identity therefore stays known, at little cost: a number of arrival (*ordinal*), found through an index by identity,
and one byte of state.  There are two implementations: lists with a dictionary for tiny peers (some 100 bytes per
solution), arrays with a hash index for batches (some 25).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from p2prdf.columns import ARRAYS, Column, Columns, as_array, as_list
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex

__all__ = ["ArrayMarks", "ListMarks", "Mark", "Marks", "Ordinals", "make_marks"]

Ordinals: TypeAlias = "range | list[int]"
"""Ordinals, ascending; a range (of step 1) if they are consecutive."""


class Mark(enum.IntEnum):
    """The delivery state of a solution."""

    PENDING = 0
    """To be delivered."""
    SENT = 1
    """Delivered in this epoch, not acknowledged."""
    DONE = 2
    """Acknowledged, perhaps before it was recorded."""
    LOST = 3
    """Dropped; the loss is still to be reported to the subscriber."""
    REPORTED = 4
    """Dropped, and the loss was reported in this epoch."""
    DROPPED = 5
    """Delivered in this epoch, then dropped: lost only if it must be delivered again."""
    OVER = 6
    """Retracted before it was delivered here: it is no longer delivered."""


class Marks(Protocol):
    """Identities with ordinals 0, 1, 2, ... in order of arrival, and their states."""

    def __len__(self) -> int: ...

    def insert(self, identity: Column, mark: Mark) -> list[int]:
        """Add the unknown identities in a state; return their places in ``identity``, ascending."""
        ...

    def find(self, identity: Column) -> list[int]:
        """Return the ordinals of the known identities, in order."""
        ...

    def knows(self, identity: Column) -> list[bool]:
        """Return for each identity whether it is known."""
        ...

    def move(self, ordinals: list[int], sources: tuple[Mark, ...], mark: Mark) -> list[int]:
        """Set the state of the ordinals with a state in ``sources``; return these ordinals, in order."""
        ...

    def move_all(self, source: Mark, mark: Mark) -> int:
        """Set the state of all entries in a state; return their number."""
        ...

    def count(self, mark: Mark) -> int:
        """Return the number of entries in a state."""
        ...

    def having(self, marks: tuple[Mark, ...]) -> list[int]:
        """Return the ordinals in one of the states, ascending."""
        ...

    def places(self, ordinals: Ordinals, marks: tuple[Mark, ...]) -> list[int]:
        """Return the places, in an ascending stretch of ordinals, of those in one of the states."""
        ...

    def identities(self, ordinals: list[int]) -> Column:
        """Return the identities of ordinals."""
        ...

    def state(self) -> tuple[Column, Column]:
        """Return all identities, and for each 1 if it is acknowledged, else 0."""
        ...


class ListMarks:
    """Delivery states in a dictionary and plain lists."""

    def __init__(self) -> None:
        self._ordinal: dict[int, int] = {}
        self._marks = bytearray()
        self._identity: list[int] = []

    def __len__(self) -> int:
        return len(self._identity)

    def insert(self, identity: Column, mark: Mark) -> list[int]:
        """Add the unknown identities in a state."""
        known = self._ordinal
        fresh = []
        for place, each in enumerate(as_list(identity)):
            if each not in known:
                known[each] = len(self._identity)
                self._identity.append(each)
                fresh.append(place)
        self._marks += bytes((mark,)) * len(fresh)
        return fresh

    def find(self, identity: Column) -> list[int]:
        """Return the ordinals of the known identities."""
        return [ordinal for each in as_list(identity) if (ordinal := self._ordinal.get(each, -1)) >= 0]

    def knows(self, identity: Column) -> list[bool]:
        """Return for each identity whether it is known."""
        return [each in self._ordinal for each in as_list(identity)]

    def move(self, ordinals: list[int], sources: tuple[Mark, ...], mark: Mark) -> list[int]:
        """Set the state of some ordinals."""
        moved = []
        for each in ordinals:
            if self._marks[each] in sources:
                self._marks[each] = mark
                moved.append(each)
        return moved

    def move_all(self, source: Mark, mark: Mark) -> int:
        """Set the state of all entries in a state."""
        found = self._marks.count(source)
        if found:
            self._marks = self._marks.replace(bytes((source,)), bytes((mark,)))
        return found

    def count(self, mark: Mark) -> int:
        """Return the number of entries in a state."""
        return self._marks.count(mark)

    def having(self, marks: tuple[Mark, ...]) -> list[int]:
        """Return the ordinals in one of the states."""
        return [ordinal for ordinal, mark in enumerate(self._marks) if mark in marks]

    def places(self, ordinals: Ordinals, marks: tuple[Mark, ...]) -> list[int]:
        """Return the places of those in one of the states."""
        if isinstance(ordinals, range):
            found: Iterable[int] = self._marks[ordinals.start : ordinals.stop]
        else:
            found = [self._marks[each] for each in ordinals]
        return [place for place, mark in enumerate(found) if mark in marks]

    def identities(self, ordinals: list[int]) -> Column:
        """Return the identities of ordinals."""
        return [self._identity[each] for each in ordinals]

    def state(self) -> tuple[Column, Column]:
        """Return all identities, and which are acknowledged."""
        return list(self._identity), [int(mark == Mark.DONE) for mark in self._marks]


_FEW: Final = 16
"""Number of elements up to which a loop is faster than numpy's fixed cost."""


class ArrayMarks:
    """Delivery states in a hash index and an array."""

    def __init__(self) -> None:
        self._index = HashIndex()
        self._marks = GrowingColumn(np.uint8)

    def __len__(self) -> int:
        return len(self._index)

    def insert(self, identity: Column, mark: Mark) -> list[int]:
        """Add the unknown identities in a state."""
        if len(identity) == 1:
            places = [0] if self._index.insert_one(int(identity[0]))[1] else []
        elif len(identity) <= _FEW:
            insert_one = self._index.insert_one
            places = [place for place, each in enumerate(as_list(identity)) if insert_one(each)[1]]
        else:
            places = np.flatnonzero(self._index.insert(as_array(identity))[1]).tolist()
        self._marks.extend(len(places), mark)
        return places

    def find(self, identity: Column) -> list[int]:
        """Return the ordinals of the known identities."""
        if len(identity) == 1:
            ordinal = self._index.find_one(int(identity[0]))
            return [ordinal] if ordinal >= 0 else []
        if len(identity) <= _FEW:
            find_one = self._index.find_one
            return [ordinal for each in as_list(identity) if (ordinal := find_one(each)) >= 0]
        found = self._index.find(as_array(identity))
        ordinals: list[int] = found[found >= 0].tolist()
        return ordinals

    def knows(self, identity: Column) -> list[bool]:
        """Return for each identity whether it is known."""
        if len(identity) <= _FEW:
            find_one = self._index.find_one
            return [find_one(each) >= 0 for each in as_list(identity)]
        flags: list[bool] = (self._index.find(as_array(identity)) >= 0).tolist()
        return flags

    def move(self, ordinals: list[int], sources: tuple[Mark, ...], mark: Mark) -> list[int]:
        """Set the state of some ordinals; an ordinal named twice is returned once."""
        marks = self._marks.values
        if len(ordinals) <= _FEW:
            moved = []
            for each in ordinals:
                if int(marks[each]) in sources:
                    marks[each] = mark
                    moved.append(each)
            return moved
        array = np.array(list(dict.fromkeys(ordinals)), np.int64)
        chosen = array[_among(marks[array], sources)]
        marks[chosen] = mark
        found: list[int] = chosen.tolist()
        return found

    def move_all(self, source: Mark, mark: Mark) -> int:
        """Set the state of all entries in a state."""
        marks = self._marks.values
        flags = marks == source
        marks[flags] = mark
        return int(np.count_nonzero(flags))

    def count(self, mark: Mark) -> int:
        """Return the number of entries in a state."""
        return int(np.count_nonzero(self._marks.values == mark))

    def having(self, marks: tuple[Mark, ...]) -> list[int]:
        """Return the ordinals in one of the states."""
        found: list[int] = np.flatnonzero(_among(self._marks.values, marks)).tolist()
        return found

    def places(self, ordinals: Ordinals, marks: tuple[Mark, ...]) -> list[int]:
        """Return the places of those in one of the states."""
        values = self._marks.values
        if isinstance(ordinals, range):
            found = values[ordinals.start : ordinals.stop]
        else:
            found = values[np.array(ordinals, np.int64)]
        if len(found) <= _FEW:
            return [place for place, mark in enumerate(found.tolist()) if mark in marks]
        places: list[int] = np.flatnonzero(_among(found, marks)).tolist()
        return places

    def identities(self, ordinals: list[int]) -> Column:
        """Return the identities of ordinals."""
        return self._index.keys[np.array(ordinals, np.int64)]

    def state(self) -> tuple[Column, Column]:
        """Return all identities, and which are acknowledged."""
        return self._index.keys.copy(), (self._marks.values == Mark.DONE).astype(np.uint64)


def _among(marks: npt.NDArray[np.uint8], wanted: tuple[Mark, ...]) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = marks == wanted[0]
    for each in wanted[1:]:
        flags |= marks == each
    return flags


def make_marks(columns: Columns) -> Marks:
    """Return empty delivery states for a kind of columns."""
    return ArrayMarks() if columns is ARRAYS else ListMarks()
