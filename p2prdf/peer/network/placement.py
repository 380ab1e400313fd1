"""Placement: the peers that keep the data under a key.

There are two systems.  *Routed*: each key has one owner, found by lookups and by the address cache, or from hop to hop
(*Recursive*).  *Replicated*: each key has a primary and further replicas, found in the complete view of the ring.  The
components of a peer send data to destinations, and need not know which system it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Column, as_array, as_list
from p2prdf.overlay import multisend
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.wire.messages import Contact

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger

__all__ = ["NOBODY", "UNKNOWN", "Placement", "Recursive", "Replicated", "Routed", "placement_of"]

UNKNOWN: Final = -1
"""In place of a contact number: the destination is not known yet."""
NOBODY: Final = -2
"""In place of a contact number: the data goes to no peer."""
_KEY_BITS: Final = 64
_NOTED_MAX: Final = 64
_RENEW_SECONDS_MAX: Final = 30.0


class Placement(ABC):
    """The peers that keep the data under keys.  Contact number 0 is this peer."""

    replicated: bool
    """Whether other peers keep copies of the items of this peer."""
    hops_max: int
    """Hops of queries and solutions, after which their receiver keeps them: views of the ring disagree."""
    row_hops_max: int
    """Hops of triples and rows."""
    answers_misrouted: bool
    """Whether a peer answers a request that has come to it by its last hop, although it does not own the key."""
    renewal_seconds_max: float
    """Longest interval between renewals of a subscriber's lease."""

    def __init__(self, messenger: Messenger):
        self._messenger = messenger
        self._map: ReplicaMap | None = None

    # --- replica sets ----------------------------------------------------------------------------

    @property
    def replica_map(self) -> ReplicaMap | None:
        """The replica sets of all keys, or None while the view is incomplete."""
        cache = self._messenger.cache
        if self._map is None and cache.gap() is None:
            self._map = self.map_of(cache.contacts())
        return self._map

    def map_of(self, contacts: Sequence[Contact]) -> ReplicaMap:
        """Return the replica sets that would result from a set of members."""
        messenger = self._messenger
        members = [(each.key, messenger.cache.number(each), messenger.zones.get(each.key, "")) for each in contacts]
        return ReplicaMap(members, messenger.config.overlay, messenger.config.replicas)

    def ring_changed(self) -> None:
        """Note that peers came or went."""
        self._map = None

    @abstractmethod
    def replica_set(self, key: int) -> list[Contact] | None:
        """Return the replicas of a key, the primary first, or None: not known yet.

        This peer may be one of them.
        """

    @abstractmethod
    def fellows(self, key: int) -> list[Contact]:
        """Return the other replicas of a key, as far as they are known."""

    def rank(self, key: int) -> int:
        """Return this peer's rank in a key's replica set: 0 for the primary, -1 if it is not a member."""
        for rank, contact in enumerate(self.replica_set(key) or ()):
            if contact.key == self._messenger.own.key:
                return rank
        return -1

    @abstractmethod
    def speaks_for(self, key: int) -> bool:
        """Return whether this peer is the active primary of a key: it has caught up with the other replicas."""

    @abstractmethod
    def may_keep(self, key: int) -> bool:
        """Return whether this peer is a replica of a key, or may be one."""

    @abstractmethod
    def leads_any(self, ring: Sequence[int]) -> bool:
        """Return whether this peer is the primary of one of these keys, or may be."""

    @abstractmethod
    def leads(self, role: int, ring: Column) -> Sequence[bool] | npt.NDArray[np.bool_]:
        """Return for each key of an index whether this peer is its primary, or may be."""

    @abstractmethod
    def belongs_elsewhere(self, ring: Sequence[int]) -> bool:
        """Return whether other peers keep the data under one of these keys, and this one does not."""

    @abstractmethod
    def counts_here(self, ring: Column) -> list[bool]:
        """Return for each key whether this peer counts triples that it holds under it, so that all counts add up."""

    # --- destinations ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def known(self) -> bool:
        """Whether this peer can tell which data it keeps."""

    @abstractmethod
    def destinations(self, ring: Column, *, arrived: bool = False) -> Sequence[Column]:
        """Return the contact number of each key's peer by rank, the primary first, or UNKNOWN.

        ``arrived``: the data came from another peer.  It takes the next hop, and data that this peer keeps goes no
        further (NOBODY).
        """

    @abstractmethod
    def owners(self, ring: Column) -> Sequence[Column]:
        """Return the contact numbers as :meth:`destinations` does, never a hop on the way."""

    @abstractmethod
    def keepers(self, ring: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """Return the contact numbers of the peers of each key, the primary first, as far as they are known."""

    @abstractmethod
    def wanted(self, ring: Sequence[int]) -> Sequence[int]:
        """Return the keys to look up for the unknown destinations of some keys."""

    def note_passing(self, tokens: Sequence[int], ring: Column, owners: Column) -> None:  # noqa: B027
        """Note keys of data that is passed on, so that its sender learns their owners in the end."""

    def passed(self, sender: Contact, to: Contact) -> None:
        """Note that triples or rows are passed on, and tell the sender their owner."""
        self._messenger.not_mine(sender, to)

    # --- the view --------------------------------------------------------------------------------

    @property
    def sees_ring(self) -> bool:
        """Whether this peer knows the whole ring and chooses destinations by that knowledge."""
        return self._messenger.cache.gap() is None

    @abstractmethod
    def mark(self, contact: Contact) -> int:
        """Return a peer's contribution to the hash of a view."""

    @abstractmethod
    def corrected(self, owner: Contact, before: Contact | None) -> None:
        """Handle a report of the owner of a forwarded message's key: of all keys after ``before``, if known."""

    @abstractmethod
    def may_be_there(self, contact: Contact) -> bool:
        """Return whether a peer may be alive."""

    @property
    @abstractmethod
    def follows_view(self) -> bool:
        """Whether a change of the view can bring data under keys that this peer did not lead before."""

    @property
    @abstractmethod
    def tentative_stamp(self) -> int:
        """The stamp at which a low watermark confirms results of now; 0: no other peer can know more."""


class Routed(Placement):
    """One owner per key; a message with unknown owners waits for lookups."""

    replicated = False
    known = True
    answers_misrouted = True
    renewal_seconds_max = inf  # while the owner is away, another peer would answer that the subscription is gone
    tentative_stamp = 0

    def __init__(self, messenger: Messenger):
        super().__init__(messenger)
        self.hops_max = self.row_hops_max = messenger.config.hops_max

    def replica_set(self, key: int) -> list[Contact] | None:
        """Return the owner."""
        owner = self._messenger.owner(key)
        return None if owner is None else [owner]

    def fellows(self, key: int) -> list[Contact]:  # noqa: ARG002
        """Return nobody."""
        return []

    def speaks_for(self, key: int) -> bool:  # noqa: ARG002
        """Return True: a peer keeps alone the data that comes to it."""
        return True

    def may_keep(self, key: int) -> bool:  # noqa: ARG002
        """Return True, as for :meth:`speaks_for`."""
        return True

    def leads_any(self, ring: Sequence[int]) -> bool:  # noqa: ARG002
        """Return True, as for :meth:`speaks_for`."""
        return True

    def leads(self, role: int, ring: Column) -> Sequence[bool]:  # noqa: ARG002
        """Return True for all, as for :meth:`speaks_for`."""
        return [True] * len(ring)

    def belongs_elsewhere(self, ring: Sequence[int]) -> bool:
        """Return whether this peer knows closer peers."""
        return any(as_list(self._messenger.closest_known(self._messenger.columns.column(ring))))

    def counts_here(self, ring: Column) -> list[bool]:
        """Return True for all: the triples of a split key are at several peers, and each has no copy."""
        return [True] * len(ring)

    def destinations(self, ring: Column, *, arrived: bool = False) -> Sequence[Column]:
        """Return the owner of each key; for arrived data the closest known peer."""
        return [self._messenger.closest_known(ring) if arrived else self._messenger.owners(ring)]

    def owners(self, ring: Column) -> Sequence[Column]:
        """Return the owner of each key."""
        return [self._messenger.owners(ring)]

    def keepers(self, ring: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """Return the closest known peer of each key."""
        return [(number,) for number in as_list(self._messenger.closest_known(self._messenger.columns.column(ring)))]

    def wanted(self, ring: Sequence[int]) -> Sequence[int]:
        """Return the keys themselves."""
        return ring

    def mark(self, contact: Contact) -> int:
        """Return a hash of the peer's key."""
        return keys.fmix(contact.key)

    def corrected(self, owner: Contact, before: Contact | None) -> None:
        """Learn the owner."""
        self._messenger.told(owner, before)

    def may_be_there(self, contact: Contact) -> bool:  # noqa: ARG002
        """Return True: this peer does not know all others."""
        return True

    @property
    def follows_view(self) -> bool:
        """Whether this peer may have restarted with data that it has not joined."""
        return self._messenger.config.durable


class Recursive(Routed):
    """One owner per key; triples and rows go from peer to peer (:mod:`p2prdf.overlay.multisend`)."""

    def __init__(self, messenger: Messenger):
        super().__init__(messenger)
        self.row_hops_max = self.hops_max + _KEY_BITS

    def destinations(self, ring: Column, *, arrived: bool = False) -> Sequence[Column]:  # noqa: ARG002
        """Return the next hop of each key."""
        cache, learned = self._messenger.cache, self._messenger.config.address_cache
        hops: Column
        if isinstance(ring, list):
            hops = multisend.next_hops_list(cache, ring, learned=learned)
        else:
            hops = multisend.next_hops(cache, ring, learned=learned)
        return [self._messenger.with_found(ring, hops)]

    def note_passing(self, tokens: Sequence[int], ring: Column, owners: Column) -> None:
        """Note a sample of the keys.

        A report covers all keys of an owner, and later messages reveal the other owners.
        """
        if self._messenger.config.address_cache:
            away = np.flatnonzero(as_array(owners, np.int64) > 0)
            some = away[:: len(away) // _NOTED_MAX + 1].tolist()
            self._messenger.inbox.note(tokens, [int(ring[at]) for at in some])

    def passed(self, sender: Contact, to: Contact) -> None:  # noqa: ARG002
        """Count the message: the next peer is not the owner, and the sender learns of that one by the way back."""
        self._messenger.passed_on += 1

    @property
    def sees_ring(self) -> bool:
        """Whether this peer knows the whole ring; without an address cache it does not use its knowledge."""
        return self._messenger.config.address_cache and super().sees_ring


class Replicated(Placement):
    """A primary and further replicas per key, from the view of the ring."""

    replicated = True
    hops_max = row_hops_max = 1
    """A peer that is no replica in its own view sends items to all replicas in that view.

    If these disagree again, they store the items and offer them later.
    """
    answers_misrouted = False  # the primary alone may report that something does not exist; the sender asks again
    renewal_seconds_max = _RENEW_SECONDS_MAX  # a renewal reveals an end that was lost
    follows_view = True

    @property
    def known(self) -> bool:
        """Whether the whole ring is known."""
        return self.replica_map is not None

    @property
    def tentative_stamp(self) -> int:
        """The present stamp: other peers may know more."""
        return self._messenger.clock

    def replica_set(self, key: int) -> list[Contact] | None:
        """Return the replicas by rank."""
        found = self.replica_map
        return None if found is None else [self._messenger.contact(number) for number in found.ranks(key)]

    def fellows(self, key: int) -> list[Contact]:
        """Return the replicas other than this peer."""
        found = self.replica_map
        return [] if found is None else [self._messenger.contact(number) for number in found.ranks(key) if number]

    def rank(self, key: int) -> int:
        """Return this peer's rank in a key's replica set: 0 for the primary, -1 if it is not a member."""
        found = self.replica_map
        ranks = () if found is None else found.ranks(key)
        return ranks.index(0) if 0 in ranks else -1

    def speaks_for(self, key: int) -> bool:
        """Return whether this peer is the primary and has caught up."""
        return self._messenger.recovery.caught_up and self.rank(key) == 0

    def may_keep(self, key: int) -> bool:
        """Return whether this peer is a replica, or the ring is not known."""
        return not self.known or self.rank(key) >= 0

    def leads_any(self, ring: Sequence[int]) -> bool:
        """Return whether this peer is the primary of one of these keys, or the ring is not known."""
        found = self.replica_map
        return found is None or any(ranks[0] == 0 for ranks in found.list(ring))

    def leads(self, role: int, ring: Column) -> Sequence[bool] | npt.NDArray[np.bool_]:  # noqa: ARG002
        """Return for each key whether this peer is its primary, or the ring is not known."""
        found = self.replica_map
        if found is None:
            return [True] * len(ring)
        if isinstance(ring, list):
            return [ranks[0] == 0 for ranks in found.list(ring)]
        led: npt.NDArray[np.bool_] = found.primaries(ring) == 0
        return led

    def belongs_elsewhere(self, ring: Sequence[int]) -> bool:
        """Return whether this peer is no replica of one of these keys; False while the ring is not known."""
        found = self.replica_map
        if found is None:
            return False
        if len(ring) == 1:
            return 0 not in found.ranks(ring[0])
        return not found.holds(np.array(ring, np.uint64), 0).all()

    def counts_here(self, ring: Column) -> list[bool]:
        """Return whether this peer is the owner: all replicas hold the triples."""
        return [number == 0 for number in as_list(self._messenger.closest_known(ring))]

    def destinations(self, ring: Column, *, arrived: bool = False) -> Sequence[Column]:
        """Return the replicas of each key by rank: as many ranks as replicas or, if they are fewer, peers."""
        found = self.replica_map
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
        """Return the replicas of each key, or the closest known peer while the ring is not known."""
        found = self.replica_map
        if found is not None:
            return found.list(ring)
        return [(number,) for number in as_list(self._messenger.closest_known(self._messenger.columns.column(ring)))]

    def wanted(self, ring: Sequence[int]) -> Sequence[int]:  # noqa: ARG002
        """Return a key in a gap of the view: once that gap is known, all replicas are."""
        return [self._messenger.cache.gap() or 0]

    def mark(self, contact: Contact) -> int:
        """Return a hash of the peer's key and failure zone, on which the replica sets depend."""
        zone = self._messenger.zones.get(contact.key)
        return keys.fmix(contact.key ^ keys.text_key(zone)) if zone else keys.fmix(contact.key)

    def corrected(self, owner: Contact, before: Contact | None) -> None:
        """Do nothing: a report could bring back a peer that is gone.  The view alone decides."""

    def may_be_there(self, contact: Contact) -> bool:
        """Return whether the peer is known, or the ring is not."""
        return self._messenger.is_known(contact) or not self.known


def placement_of(messenger: Messenger) -> Placement:
    """Return the placement for the configured number of copies and way of routing."""
    if messenger.config.replicas > 1:
        return Replicated(messenger)
    return Recursive(messenger) if messenger.config.multisend == "recursive" else Routed(messenger)
