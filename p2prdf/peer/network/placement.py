"""Placement: the peers that keep the data under a key.

There are two systems.  *Routed*: each key has one owner, found by lookups, by the address cache or from hop to hop.
*Replicated*: each key has a primary and further replicas, found in the complete view of the ring.  The components of a
peer send data to destinations, and need not know which of the two it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from p2prdf.columns import Column, as_list

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger

__all__ = ["NOBODY", "UNKNOWN", "Placement", "Replicated", "Routed"]

UNKNOWN: Final = -1
"""In place of a contact number: the destination is not known yet."""
NOBODY: Final = -2
"""In place of a contact number: the data goes to no peer."""


class Placement(Protocol):
    """The peers that keep the data under keys.  Contact number 0 is this peer."""

    splits_hot_keys: bool
    """Whether a key may be split into sub-keys at other peers."""

    @property
    def known(self) -> bool:
        """Whether this peer can tell which data it keeps."""
        ...

    def destinations(self, ring: Column, *, arrived: bool = False) -> Sequence[Column]:
        """Return the contact number of each key's peer by rank, the primary first, or UNKNOWN.

        ``arrived``: the data came from another peer.  It takes the next hop, and data that this peer keeps goes no
        further (NOBODY).
        """
        ...

    def owners(self, ring: Column) -> Sequence[Column]:
        """Return the contact numbers as :meth:`destinations` does, never a hop on the way."""
        ...

    def keepers(self, ring: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """Return the contact numbers of the peers of each key, the primary first, as far as known, for arrived data."""
        ...

    def wanted(self, ring: Sequence[int]) -> Sequence[int]:
        """Return the keys to look up for the unknown destinations of some keys."""
        ...

    def leads_any(self, ring: Sequence[int]) -> bool:
        """Return whether this peer is the primary of one of these keys, or may be."""
        ...

    def note_passing(self, tokens: Sequence[int], ring: Column, owners: Column) -> None:
        """Note keys of data that is passed on, so that its sender learns their owners."""
        ...


class Routed:
    """One owner per key."""

    splits_hot_keys = True
    known = True

    def __init__(self, messenger: Messenger):
        self._messenger = messenger

    def destinations(self, ring: Column, *, arrived: bool = False) -> Sequence[Column]:
        """Return the owner or the next hop of each key."""
        return [self._messenger.next_hops(ring) if arrived else self._messenger.first_hops(ring)]

    def owners(self, ring: Column) -> Sequence[Column]:
        """Return the owner of each key."""
        return [self._messenger.owners(ring)]

    def keepers(self, ring: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """Return the closest known peer of each key."""
        return [(number,) for number in as_list(self._messenger.closest_known(self._messenger.columns.column(ring)))]

    def wanted(self, ring: Sequence[int]) -> Sequence[int]:
        """Return the keys themselves."""
        return ring

    def leads_any(self, ring: Sequence[int]) -> bool:  # noqa: ARG002
        """Return True: a peer keeps alone the data that comes to it."""
        return True

    def note_passing(self, tokens: Sequence[int], ring: Column, owners: Column) -> None:
        """Note the keys; with direct routing the sender learns of each at once."""
        self._messenger.tell_later(tokens, ring, owners)


class Replicated:
    """A primary and further replicas per key, from the view of the ring."""

    splits_hot_keys = False

    def __init__(self, messenger: Messenger):
        self._messenger = messenger

    @property
    def known(self) -> bool:
        """Whether the whole ring is known."""
        return self._messenger.replica_map is not None

    def destinations(self, ring: Column, *, arrived: bool = False) -> Sequence[Column]:
        """Return the replicas of each key by rank: as many ranks as replicas or, if they are fewer, peers."""
        found = self._messenger.replica_map
        if found is None:
            return [self._messenger.columns.full(len(ring), UNKNOWN, "int64")]
        ranks = min(found.replicas, found.size)
        if isinstance(ring, list):
            rows = found.list(ring)
            if arrived:
                rows = [tuple(NOBODY if number else 0 for number in row) if 0 in row else row for row in rows]
            return [[row[rank] for row in rows] for rank in range(ranks)]
        matrix = found.column(ring)
        if arrived:
            mine = (matrix == 0).any(axis=1)
            matrix = np.where(mine[:, None] & (matrix != 0), NOBODY, matrix)
        return [matrix[:, rank] for rank in range(ranks)]

    def owners(self, ring: Column) -> Sequence[Column]:
        """Return the replicas of each key by rank."""
        return self.destinations(ring)

    def keepers(self, ring: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """Return the replicas of each key; the ring must be known."""
        found = self._messenger.replica_map
        assert found is not None, "the caller asks first whether the placement is known"
        return found.list(ring)

    def wanted(self, ring: Sequence[int]) -> Sequence[int]:  # noqa: ARG002
        """Return a key in a gap of the view: once that gap is known, all replicas are."""
        return [self._messenger.cache.gap() or 0]

    def leads_any(self, ring: Sequence[int]) -> bool:
        """Return whether this peer is the primary of one of these keys, or the ring is not known."""
        found = self._messenger.replica_map
        return found is None or any(ranks[0] == 0 for ranks in found.list(ring))

    def note_passing(self, tokens: Sequence[int], ring: Column, owners: Column) -> None:
        """Do nothing: all peers know the ring."""
