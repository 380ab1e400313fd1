"""The spread of triples: their destinations under one index, and the marks that tell each receiver its part.

With several replicas of a key, its primary joins a triple and the others only store it.  With one, a key with too many
arrivals is split, and the receiver joins all that it stores (:mod:`p2prdf.peer.joins.hot_keys`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from p2prdf import keys
from p2prdf.columns import Column, as_list
from p2prdf.peer.network.batches import probed_roles
from p2prdf.peer.network.component import Component

if TYPE_CHECKING:
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.store.tables import Derived
    from p2prdf.wire.messages import Contact

__all__ = ["Destinations", "Spread"]

_FEW: Final = 8
"""Triples up to which a loop costs less than vector operations."""

Destinations: TypeAlias = "tuple[Column, list[tuple[Column, Column | None]]]"
"""The keys of triples, and by rank their contact numbers and marks for the receivers."""


class Spread(Component):
    """The spread over the replicas of each key.  No key is split."""

    restless = False
    """Whether the next turn has work to do."""

    def __init__(self, messenger: Messenger):
        self._messenger = messenger
        self._placement = messenger.placement
        self._columns = messenger.columns

    @property
    def splits(self) -> dict[tuple[int, int], int]:
        """The depth of each split key, by index and key."""
        return {}

    @property
    def unsettled(self) -> int:
        """Number of keys with a greater depth that senders may not use yet."""
        return 0

    @property
    def held(self) -> int:
        """Number of keys with sub-keys that this peer was asked to hold."""
        return 0

    def status(self) -> Mapping[str, object]:
        """Return how many keys are split, and how many sub-keys are held."""
        return {
            "keys_split": len(self.splits), "depth_max": max(self.splits.values(), default=0),
            "keys_migrating": self.unsettled, "sub_keys_held": self.held,
        }  # fmt: skip

    # --- triples ---------------------------------------------------------------------------------

    def spread(self, role: int, batch: TripleBatch, ring: Column, *, arrived: bool) -> Destinations:
        """Return the destinations of triples with the keys ``ring``; the first one joins them.

        ``arrived``: the triples came from another peer, and those that this peer keeps go no further.
        """
        first, *others = self._placement.destinations(ring, arrived=arrived)
        primary = self._columns.full(len(batch), 1 << (role + keys.PRIMARY_SHIFT), "uint32")
        return ring, [(first, primary), *((each, None) for each in others)]

    def few(self, batch: TripleBatch, hashes: keys.U64, *, arrived: bool) -> list[tuple[int, list[int]]] | None:
        """Return the indexes of each triple by contact number, with marks, as ``spread`` does for one index.

        ``hashes``: the hash of each term.  None: the batch is too large for a loop, or the ring is not known.
        """
        found = self._placement.replica_map
        if len(batch.s) > _FEW or found is None:
            return None
        count = len(batch.s)
        masks: dict[int, list[int]] = {}
        columns = map(as_list, (batch.s, batch.p, batch.o, batch.roles))
        for at, (s, p, o, roles) in enumerate(zip(*columns, strict=True)):
            under = keys.triple_keys(roles, int(hashes[s]), int(hashes[p]), int(hashes[o]))
            for (role, _), row in zip(under, found.list([key for _, key in under]), strict=True):
                bits = roles & (1 << role | 1 << (role + keys.EVENT_SHIFT))
                mine = arrived and 0 in row
                for rank, number in enumerate(row):
                    if mine and number:
                        continue
                    if number not in masks:
                        masks[number] = [0] * count
                    masks[number][at] |= bits if rank else bits | 1 << (role + keys.PRIMARY_SHIFT)
        return sorted(masks.items())

    def probed(self, roles: Column) -> Column | None:
        """Return per triple the indexes under which this peer joins it; None: under all."""
        return probed_roles(roles)

    def keeps_all(self, batch: TripleBatch, union: int) -> bool:  # noqa: ARG002
        """Return whether all triples of sub-keys may stay, their sender having the same view of the ring."""
        return True

    def count_triples(self, batch: TripleBatch) -> None:
        """Note triples that this peer keeps."""

    # --- rows ------------------------------------------------------------------------------------

    def count_rows(self, rows: Derived, *, copied: bool) -> None:
        """Note rows that this peer stores."""

    def copy_rows(self, rows: Derived) -> None:
        """Copy rows that are about to be stored here to other peers that keep triples under their key."""

    def end_groups(self, ids: list[int]) -> None:
        """Tell these peers of groups that have ended."""

    def depth(self, role: int, key: int) -> int:  # noqa: ARG002
        """Return the depth that senders may use for a key this peer owns."""
        return 0

    # --- peers and time --------------------------------------------------------------------------

    def met(self) -> None:
        """Note that a peer has come."""

    def lost(self, contact: Contact) -> None:
        """Note that a peer is lost."""

    def turn(self) -> None:
        """Do the work that is due."""
