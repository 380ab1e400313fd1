"""The identity of a cluster, and the merge of two clusters that meet.

A cluster has an *identity*: 64 random bits.  Every member stores it (:class:`ClusterKnown`) and sends it to every peer
that it meets.  A peer without an identity adopts the one that it receives.  If no peer of the view has one, the peer
with the lowest key draws it once it has caught up.

Two peers with different identities belong to clusters that were founded apart.  The lowest known identity is that of
the cluster, the others are *former* ones.  Sets of identities grow by union, so all members agree in the end.  A member
that was away during a merge returns with a former identity, and adopts the present one.

A peer *merges* from the arrival of another identity until it has compared all data with the other replicas and every
peer of the view has sent the same identity.  Meanwhile one-time queries are refused.

Design: docs/explanation/design/membership.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from p2prdf.columns import as_list
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.messages import FORMER_MAX, ClusterKnown, Contact, Message

__all__ = ["Cluster"]

STEADY_SECONDS: Final = 2.0
"""Minimum duration of a merge after the last peer was met, so that a growing view can settle."""
LOOK_SECONDS: Final = 0.25
"""Interval in seconds between two checks of the end of a merge."""
_IDENTITY_BITS: Final = 64


class Cluster(Component):
    """The identity of its cluster, as one peer knows it.

    ``settled`` returns whether this peer lacks no data that another replica has.
    """

    def __init__(
        self, messenger: Messenger, *, settled: Callable[[], bool]
    ):
        self._messenger, self._settled = messenger, settled
        self._identities: tuple[int, ...] = ()
        """All known identities, ascending; of more than ``FORMER_MAX`` former ones, the lowest."""
        self.merges = 0
        """How often this peer has met another cluster, in this process."""
        self._entered = False
        self._met: dict[int, Contact] = {}
        self._told: dict[int, int] = {}
        """By key of each peer met: the identity that it sent."""
        self._steady_since: float | None = None
        """During a merge: when it began, or when the last peer was met."""
        self._look_at = 0.0

    @property
    def identity(self) -> int:
        """The identity of this peer's cluster, 0 if it is not known."""
        return self._identities[0] if self._identities else 0

    @property
    def former(self) -> tuple[int, ...]:
        """The identities of clusters that were merged with this one."""
        return self._identities[1:]

    @property
    def merging(self) -> str | None:
        """Why one-time queries are refused, with the remedy, or None while no merge is under way."""
        if self._steady_since is None:
            return None
        return (
            f"two clusters have met, and cluster {self.identity:016x} takes in the data of the other: a query would be"
            " answered in parts; ask again when the status of all nodes shows no merge (P2prdfClustersMerged in"
            " docs/reference/operations.md)"
        )

    # --- contract ---------------------------------------------------------------------------------

    def handlers(self) -> Handlers:
        """Return the handler of identities that other peers send."""
        return {ClusterKnown: self.known}

    def restorers(self) -> Restorers:
        """Return the method that restores the identity."""
        return {ClusterKnown: self.restore}

    def kept(self) -> Iterable[Message]:
        """Return the record of the identity, if it is known."""
        if self.identity:
            yield self.record()

    def status(self) -> Mapping[str, object]:
        """Return the identity, and whether two clusters merge."""
        return {
            "cluster": f"{self.identity:016x}" if self.identity else None,
            "merging": self.merging,
            "cluster_merges": self.merges,
        }

    # --- from the driver and other peers ----------------------------------------------------------

    def enter(self) -> None:
        """Note that the overlay has founded a cluster with this peer, or has joined one."""
        self._entered = self.dirty = True
        self._tell_all()

    def met(self, contact: Contact) -> None:
        """Send the identity of this cluster to a newly known peer."""
        if contact.key == self._messenger.own.key:
            return
        self.dirty = True
        self._told.pop(contact.key, None)
        self._met[contact.key] = contact
        if self._steady_since is not None:
            self._steady_since = self._messenger.now
        if self._entered:
            self._tell(contact, asks=True)

    def lost(self, contact: Contact) -> None:
        """Forget a peer that is gone."""
        self.dirty = True
        self._told.pop(contact.key, None)
        self._met.pop(contact.key, None)

    def known(self, sender: Contact, message: ClusterKnown) -> None:
        """Handle the identity that another peer has sent."""
        told = {message.identity, self._told.get(sender.key, 0)} - {0}
        self._told[sender.key] = min(told, default=0)  # messages overtake each other, and identities only decrease
        before = self._identities
        every = {*before, message.identity, *as_list(message.former)} - {0}
        self._identities = tuple(sorted(every)[: FORMER_MAX + 1])
        if self._identities == before:
            if message.asks or message.identity != self.identity:
                self._tell(sender)
            return
        if before:
            self._begin_merge(sender, message, before)
        self._messenger.persist(self.record())
        self._tell_all()

    def restore(self, kept: ClusterKnown) -> None:
        """Restore the identity of an earlier process; the last record counts."""
        self._identities = tuple(each for each in (kept.identity, *as_list(kept.former)) if each)

    def record(self) -> ClusterKnown:
        """Return the message for other peers and for the next process."""
        members = max(self._messenger.members.most, self._messenger.cache.size)
        return ClusterKnown(self.identity, members, self._messenger.columns.column(self.former))

    # --- time --------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When to check again."""
        if self._may_draw:
            return self._messenger.now
        return None if self._steady_since is None else self._look_at

    def wake(self) -> None:
        """Draw an identity if the cluster has none; end a merge that has settled."""
        now = self._messenger.now
        if self._may_draw:
            self._identities = (self._messenger.draw(_IDENTITY_BITS) or 1,)
            self._messenger.trace("cluster-named", cluster=f"{self.identity:016x}")
            self._messenger.persist(self.record())
            self._tell_all()
        if self._steady_since is None or now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        agreed = all(self._told.get(key) == self.identity for key in self._met)
        if agreed and now >= self._steady_since + STEADY_SECONDS and self._settled():
            self._steady_since = None
            self._messenger.trace("cluster-merged", cluster=f"{self.identity:016x}")

    # --- inside ------------------------------------------------------------------------------------

    @property
    def _may_draw(self) -> bool:
        """Whether this peer draws the identity: no peer has one, and its key is the lowest."""
        if self.identity or not self._entered or not self._messenger.recovery.caught_up:
            return False
        own = self._messenger.own.key
        return all(own < key and self._told.get(key) == 0 for key in self._met)

    def _begin_merge(self, sender: Contact, message: ClusterKnown, before: tuple[int, ...]) -> None:
        self.merges += 1
        self._steady_since = self._look_at = self._messenger.now
        others = [f"{each:016x}" for each in self._identities if each not in before]
        self._messenger.trace(
            "clusters-met", own=f"{before[0]:016x}", own_members=self._messenger.members.most, other=", ".join(others),
            sender=str(sender), sender_members=message.members, cluster=f"{self.identity:016x}",
            reason="two clusters were begun apart and merge now; see P2prdfClustersMerged in"
            " docs/reference/operations.md",
        )  # fmt: skip

    def _tell(self, contact: Contact, *, asks: bool = False) -> None:
        self._messenger.send(contact, replace(self.record(), asks=asks))

    def _tell_all(self) -> None:
        if self._entered:
            for contact in self._met.values():
                self._tell(contact, asks=self._told.get(contact.key) is None)
