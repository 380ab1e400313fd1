"""Ideal routing tables of simulated peers: those of a converged Kademlia network, and of a stabilised Chord ring."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from p2prdf.overlay.chord_lookup import ChordTable, ahead

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact

__all__ = ["chord_tables", "kademlia_tables"]

_RING: Final = 1 << 64
_TABLES_MAX: Final = 4096


def kademlia_tables(contacts: Iterable[Contact], bucket: int = 8) -> dict[int, list[Contact]]:
    """Return the routing table of each peer, by its key, in a fully converged network.

    For each prefix length a table holds all peers that agree with its own key exactly up to there, or ``bucket`` of
    them, evenly spread and different for every peer.  Deterministic.
    """
    ranked = sorted(contacts, key=lambda contact: contact.key)
    positions = [contact.key for contact in ranked]
    assert all(a < b for a, b in pairwise(positions)), "keys are unique"
    return {contact.key: _kademlia_table(ranked, positions, contact.key, bucket) for contact in ranked}


def _kademlia_table(ranked: list[Contact], positions: list[int], own: int, bucket: int) -> list[Contact]:
    table = []
    low, high = 0, len(ranked)
    while high - low > 1:
        # Skip empty buckets: go to the highest bit in which the remaining keys differ.
        bit = (positions[low] ^ positions[high - 1]).bit_length() - 1
        middle = bisect_left(positions, positions[high - 1] >> bit << bit, low, high)
        if own >> bit & 1:
            first, end, low = low, middle, middle
        else:
            first, end, high = middle, high, middle
        size = end - first
        if size <= bucket:
            table += ranked[first:end]
        else:
            turn = own % size
            table += [ranked[first + (turn + number * size // bucket) % size] for number in range(bucket)]
    return table


def chord_tables(contacts: Iterable[Contact], successors: int = 8) -> Mapping[int, ChordTable]:
    """Return the table of each peer, by its key, in a fully stabilised ring.

    Finger i is the first peer at or after own + 2^i; duplicates are dropped.  Tables are computed on demand and a few
    thousand are kept, so tens of thousands of peers are cheap.
    """
    return _ChordTables(contacts, successors)


class _ChordTables(Mapping[int, ChordTable]):
    """Tables computed on demand from the sorted list of all peers."""

    def __init__(self, contacts: Iterable[Contact], successors: int):
        assert successors >= 1
        self._ranked = sorted(contacts, key=lambda contact: contact.key)
        self._keys = [contact.key for contact in self._ranked]
        assert all(a < b for a, b in pairwise(self._keys)), "keys are unique"
        self._successors = successors
        self._made: dict[int, ChordTable] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __getitem__(self, key: int) -> ChordTable:
        table = self._made.get(key)
        if table is None:
            place = bisect_left(self._keys, key)
            if self._keys[place : place + 1] != [key]:
                raise KeyError(key)
            if len(self._made) >= _TABLES_MAX:
                del self._made[next(iter(self._made))]
            table = self._made[key] = self._table(place)
        return table

    def _table(self, place: int) -> ChordTable:
        size = len(self._keys)
        own = self._ranked[place]
        following = [self._ranked[(place + step) % size] for step in range(1, min(size, self._successors) + 1)]
        fingers: dict[int, Contact] = {}
        # All fingers shorter than the distance to the first successor are that successor.
        for bit in range(ahead(own.key, following[0].key).bit_length() - 1, 64):
            finger = self._ranked[bisect_left(self._keys, (own.key + (1 << bit)) % _RING) % size]
            fingers[finger.key] = finger
        fingers.pop(own.key, None)
        return ChordTable(own, self._ranked[place - 1], tuple(following), tuple(fingers.values()))
