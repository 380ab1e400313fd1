"""Replica sets of keys: the ``r`` peers that store each key, computed for whole columns of keys.

Replicas of a key are the closest peers, one of each failure zone.  If there are fewer zones than ``r``, the closest
remaining peers follow.  Rank 0 is the closest peer, the *primary*.  All rows are computed once for a view; a key then
costs one search.

*Clockwise*: one row for each peer, found by binary search.

*XOR*: a binary decision tree: an inner node tests a bit of the key, a leaf is a row.  A table over the first bits of
the key replaces the top of the tree.  Random positions of N peers give about 2 N nodes, little more than log2 N deep.
Adversarial positions can give 64^r nodes; members are trusted.

Why the tree is correct and small: docs/explanation/design/replication.md.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from p2prdf.overlay.ownership import I64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from p2prdf.keys import U64

__all__ = ["ReplicaMap"]

_BITS: Final = 64
_TABLE_BITS_MAX: Final = 16

Row: TypeAlias = tuple[int, ...]
_Rows: TypeAlias = "list[Row]"
_Places: TypeAlias = "list[int]"
_Bools: TypeAlias = npt.NDArray[np.bool_]


class ReplicaMap:
    """The replica sets of one view, immutable."""

    __slots__ = ("_fellows", "_finder", "_held", "_rows", "_table", "replicas", "size")

    def __init__(self, contacts: Sequence[tuple[int, int, str]], metric: str, replicas: int):
        """Compute the map of all peers, each a (ring position, contact number, failure zone); at least one.

        ``metric`` is "kademlia" (XOR) or "chord" (clockwise).  A peer of zone "" is a zone of its own.  Positions and
        numbers must be distinct.
        """
        assert contacts
        assert replicas >= 1
        ranked = sorted(contacts)
        positions = [key for key, _, _ in ranked]
        assert len(set(positions)) == len(positions)
        assert len({number for _, number, _ in ranked}) == len(ranked)
        self.replicas = replicas
        self.size = len(ranked)
        choice = _Choice(_zone_numbers([zone for _, _, zone in ranked]), replicas)
        self._finder: _Finder = _FINDERS[metric](positions, choice)
        self._rows: _Rows = [tuple(ranked[place][1] for place in row) for row in self._finder.rows]
        padding = (-1,) * replicas
        self._table: I64 = np.array([(*row, *padding)[:replicas] for row in self._rows], np.int64)
        self._held: dict[int, _Bools] = {}
        self._fellows: dict[int, Row] = {}

    def ranks(self, key: int) -> Row:
        """Return the contact numbers of a key's replicas, primary first; with few peers fewer than ``r``."""
        return self._rows[self._finder.find(key)]

    def column(self, keys: U64) -> I64:
        """Return :meth:`ranks` for a column of keys, as one row of ``replicas`` numbers each, padded with -1."""
        return self._table.take(self._finder.find_column(keys), axis=0)

    def primaries(self, keys: U64) -> I64:
        """Return the contact number of each key's primary."""
        return self._table[:, 0].take(self._finder.find_column(keys))

    def first_present(self, keys: U64, absent: Iterable[int]) -> I64:
        """Return the first replica of each key that is not ``absent``; -1 if all are."""
        return self._first_present(absent).take(self._finder.find_column(keys))

    def all_covered(self, absent: Iterable[int]) -> bool:
        """Return whether each key has a replica that is not ``absent``."""
        return bool((self._first_present(absent) >= 0).all())

    def _first_present(self, absent: Iterable[int]) -> I64:
        present = (self._table >= 0) & ~np.isin(self._table, list(absent))
        first = present.argmax(axis=1)
        rows = np.arange(len(self._table))
        return np.where(present[rows, first], self._table[rows, first], -1)

    def stretches(self, keys: U64) -> I64:
        """Return the range of each key; all keys of one range have the same replicas."""
        return self._finder.find_column(keys)

    def holds(self, keys: U64, number: int) -> _Bools:
        """Return for each key whether a contact is one of its replicas."""
        return self.kept(number).take(self._finder.find_column(keys))

    def shares(self, number: int, other: int) -> bool:
        """Return whether two contacts are both replicas of some key."""
        return bool((self.kept(number) & self.kept(other)).any())

    def fellows(self, number: int) -> Row:
        """Return the contacts that share keys with a contact, ascending, without the contact itself."""
        fellows = self._fellows.get(number)
        if fellows is None:
            found = np.unique(self._table[self.kept(number)])
            fellows = self._fellows[number] = tuple(each for each in found.tolist() if each not in (-1, number))
        return fellows

    def kept(self, number: int) -> _Bools:
        """Return for each range whether a contact stores it; the array must not be changed."""
        holding = self._held.get(number)
        if holding is None:
            holding = self._held[number] = (self._table == number).any(axis=1)
        return holding

    def list(self, keys: Iterable[int]) -> _Rows:
        """Return :meth:`ranks` for a few keys in a plain list."""
        rows = self._rows
        return [rows[place] for place in self._finder.find_each(keys)]


def _zone_numbers(zones: Sequence[str]) -> tuple[int, ...]:
    """Number the zones; a peer without a zone gets a number of its own."""
    numbers: dict[str, int] = {}
    return tuple(
        numbers.setdefault(zone, len(numbers)) if zone else len(zones) + place for place, zone in enumerate(zones)
    )


class _Choice:
    """Selection of the replicas from peers in order of closeness."""

    __slots__ = ("crowded", "replicas", "zone", "zones")

    def __init__(self, zone: tuple[int, ...], replicas: int):
        self.zone = zone
        self.replicas = replicas
        self.zones = min(len(set(zone)), replicas)
        self.crowded = self.zones < replicas  # rows are completed with peers of the same zones

    def take(self, order: Iterable[int]) -> Row:
        """Return the row for peers in order of closeness; omitted peers must not affect it."""
        taken: list[int] = []
        left: list[int] = []
        zones: set[int] = set()
        for place in order:
            if len(zones) < self.zones and self.zone[place] not in zones:
                zones.add(self.zone[place])
                taken.append(place)
            else:
                left.append(place)
        return tuple(taken + left)[: self.replicas]


class _Finder(Protocol):
    """The distinct rows of places (indices into the sorted positions), and the search for a key's row."""

    rows: _Rows

    def find(self, key: int) -> int: ...

    def find_each(self, keys: Iterable[int]) -> Iterable[int]: ...

    def find_column(self, keys: U64) -> I64: ...


class _Clockwise:
    """Row i belongs to the keys between the positions i - 1 and i, the latter included."""

    __slots__ = ("_column", "_positions", "rows")

    def __init__(self, positions: list[int], choice: _Choice):
        self._positions = positions
        self._column: U64 = np.array(positions, np.uint64)
        size = len(positions)
        found: dict[int, Row] = {}
        nearest: list[int] = []  # the nearest peer of each of the nearest zones, nearest first
        for step in range(2 * size, 0, -1):  # the first round finds the nearest zones, the second one the rows
            place = step % size
            others = [each for each in nearest if choice.zone[each] != choice.zone[place]]
            nearest = [place, *others][: choice.replicas]
            # The peers that complete a row are among as many next peers as a row has.
            after = range(place, place + (min(size, choice.replicas) if choice.crowded else 0))
            filling = (each % size for each in after)
            found[place] = tuple(dict.fromkeys((*nearest, *filling)))[: choice.replicas]
        self.rows = [found[place] for place in range(size)]

    def find(self, key: int) -> int:
        place = bisect_left(self._positions, key)
        return place if place < len(self._positions) else 0

    def find_each(self, keys: Iterable[int]) -> Iterable[int]:
        return map(self.find, keys)

    def find_column(self, keys: U64) -> I64:
        places = np.searchsorted(self._column, keys)
        places[places == len(self._column)] = 0
        return places


_Sets: TypeAlias = "list[list[int]]"


class _Decisions:
    """The decision tree; a node is (bit, child for 0, child for 1), and row i is written ~i."""

    __slots__ = (
        "_below", "_bit", "_choice", "_positions", "_shift", "_sides", "_table", "_table_list", "_tree", "rows",
    )  # fmt: skip

    def __init__(self, positions: list[int], choice: _Choice):
        self._positions = positions
        self._choice = choice
        self._tree: list[tuple[int, int, int]] = []
        number: dict[Row, int] = {}
        root = self._grow([list(range(len(positions)))], number)
        self.rows = list(number)
        self._bit: U64 = np.array([bit for bit, _, _ in self._tree], np.uint64)
        self._sides: I64 = np.array([sides for _, *sides in self._tree], np.int64).reshape(-1, 2)
        depth = min(len(positions).bit_length() + 5, _TABLE_BITS_MAX)
        self._below = _BITS - depth
        self._shift = np.uint64(self._below)
        prefixes = np.arange(1 << depth, dtype=np.uint64) << self._shift
        self._table: I64 = self._descend(prefixes, np.full(len(prefixes), root), self._below)
        self._table_list: list[int] = self._table.tolist()

    # --- construction ----------------------------------------------------------------------------

    def _grow(self, sets: _Sets, number: dict[Row, int]) -> int:
        """Return the node that decides the order of these sets; at most 64 levels deep."""
        positions = self._positions
        spread = [positions[peers[0]] ^ positions[peers[-1]] for peers in sets]
        bit = max(spread).bit_length() - 1
        if bit < 0:
            row = self._choice.take(peers[0] for peers in sets)
            return ~number.setdefault(row, len(number))
        halves = [
            self._split(peers, bit) if differ >> bit else (peers, [])
            for peers, differ in zip(sets, spread, strict=True)
        ]
        unset = self._grow(self._trim(half for low, high in halves for half in (low, high)), number)
        put = self._grow(self._trim(half for low, high in halves for half in (high, low)), number)
        if unset == put:
            return unset
        self._tree.append((bit, unset, put))
        return len(self._tree) - 1

    def _split(self, peers: list[int], bit: int) -> tuple[list[int], list[int]]:
        """Split ascending places at the highest bit in which they differ."""
        positions = self._positions
        middle = positions[peers[-1]] >> bit << bit
        cut = bisect_left(peers, middle, key=positions.__getitem__)
        return peers[:cut], peers[cut:]

    def _trim(self, sets: Iterable[list[int]]) -> _Sets:
        """Drop peers that cannot be in the row, for any lower bits of the key."""
        zone, replicas, crowded = self._choice.zone, self._choice.replicas, self._choice.crowded
        trimmed: _Sets = []
        seen: set[int] = set()
        count = 0
        for peers in sets:
            if not peers:
                continue
            fills = crowded and count < replicas
            kept = peers if fills or not seen else [place for place in peers if zone[place] not in seen]
            if kept:
                trimmed.append(kept)
                seen.update(zone[place] for place in kept)
            count += len(peers)
            if len(seen) >= self._choice.zones and not (crowded and count < replicas):
                break
        return trimmed

    # --- search ----------------------------------------------------------------------------------

    def find(self, key: int) -> int:
        return self.find_each((key,))[0]

    def find_each(self, keys: Iterable[int]) -> _Places:
        tree, table, below = self._tree, self._table_list, self._below
        found: _Places = []
        for key in keys:
            node = table[key >> below]
            while node >= 0:
                bit, unset, put = tree[node]
                node = put if key >> bit & 1 else unset
            found.append(~node)
        return found

    def find_column(self, keys: U64) -> I64:
        nodes = self._table.take((keys >> self._shift).view(np.int64))
        return ~self._descend(keys, nodes, 0)

    def _descend(self, keys: U64, nodes: I64, lowest: int) -> I64:
        """Follow the keys' bits down to ``lowest``, or to leaves; ``nodes`` is changed."""
        pending = np.flatnonzero(nodes >= 0)
        at, wanted = nodes[pending], keys[pending]
        while len(pending):
            bit = self._bit[at]
            at = np.where(bit >= lowest, self._sides[at, ((wanted >> bit) & np.uint64(1)).view(np.int64)], at)
            nodes[pending] = at
            on = np.flatnonzero((at >= 0) & (bit >= lowest))
            pending, at, wanted = pending[on], at[on], wanted[on]
        return nodes


_FINDERS: Final[dict[str, Callable[[list[int], _Choice], _Finder]]] = {"kademlia": _Decisions, "chord": _Clockwise}
