"""The membership as one peer knows it: expected size, missing members, members without data.

A peer that sees few members cannot tell a small cluster from a failure or a partition, and one with an empty disk
cannot tell whether it is new.  Members that know more must be present before a peer serves a subscription, reports a
solution as stable or a result as complete, or accepts a single copy as sufficient.

Each peer records the largest number of members that ever existed (durable, and exchanged in anti-entropy), the members
that left in order or were lost, and the times of the losses.  It waits for a missing member, up to ``MISSING_SECONDS``.
A returning peer with an empty disk counts as missing until the others have filled it (:class:`RecoveryState`, durable).

Unknown facts are assumed to be the safe case: to a restarted peer every peer is an old member, and to an empty peer its
unreachable seeds have data.

Design: docs/explanation/design/replication.md, "Loss of a disk".
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from p2prdf.overlay.address_cache import AddressCache
from p2prdf.peer.network.config import PeerConfig
from p2prdf.peer.network.recovery import Recovery
from p2prdf.wire.messages import Contact, MembersKnown, Message

__all__ = ["MISSING_SECONDS", "Members", "MembersOfOneCopy", "RecoveryState"]

MISSING_SECONDS: Final = 20.0
"""A member that has been missing for so many seconds is taken to be gone."""
_ALONE_SECONDS = 5.0
"""Seconds that an empty peer, seeing only empty peers, waits before it assumes a fresh cluster."""
_UNSTEADY_SECONDS = 40.0
"""Upper bound in seconds on extending the wait of an empty peer while other members come and go."""
_CUT_OFF_SECONDS = 600.0


class RecoveryState(IntEnum):
    """The data that a peer which started with an empty disk has not received yet from the other members.

    Its copies count as lost until then, so the cluster tolerates fewer failures.  The other members count the peer as
    missing when they decide whether enough members that may know of acknowledgements are present.  The levels are
    ordered: each one includes the lower ones.
    """

    COMPLETE = 0
    DATA = 1
    """The peer has not compared all of its data with all other replicas."""
    SUBSCRIPTIONS = 2
    """As ``DATA``, and the peer lacks the state of the subscription coordinators."""
    UNKNOWN = 3
    """As ``SUBSCRIPTIONS``, and the peer has seeds but has met no member that lacks less: one may be away."""


class Members:
    """The members as one peer knows them, including itself."""

    def __init__(
        self, own: Contact, config: PeerConfig, cache: AddressCache, *, now: Callable[[], float],
        recovery: Recovery, persist: Callable[[Message], None], fewer_needed: Callable[[], None],
    ):  # fmt: skip
        """``cache`` holds the visible members.

        ``fewer_needed`` is called when the number of copies needed may have fallen.
        """
        self._own, self._config, self._cache = own, config, cache
        self._now, self._recovery, self._persist, self._fewer_needed = now, recovery, persist, fewer_needed
        self.most = 1
        """The largest number of members that ever existed at once, as far as this peer knows."""
        self._gone = 0
        """The number of members among ``most`` that had been missing for long when another member was lost."""
        self._lost_at: dict[int, float] = {}
        self.began: float | None = None
        """The time at which this process started; None until it is observed."""
        self._fewer_since = 0.0  # when this process began, or last lost a member
        self.restored = False
        """Whether this peer started with data that an earlier process had stored."""
        self.lacks = RecoveryState.UNKNOWN if config.has_seeds else RecoveryState.SUBSCRIPTIONS
        self.returned = False
        """Whether other members knew this peer before it started empty: a new peer has lost no data."""
        self.jump = 0, 0
        """First stamp of the last process that started long after all known stamps, and the latest of those."""
        self.seeds_reached = False
        """Whether this peer has reached all of its seeds."""
        self.lacking: dict[int, RecoveryState] = {}
        """By key of each other member that started empty: the data that it lacks by its last report."""
        self._blank: set[int] = set()
        """The keys of the members that lack the coordinators' state by their last report."""
        self._returned: set[int] = set()
        """The keys of the members that existed before their present process."""

    # --- start and restart -----------------------------------------------------------------------

    def begin(self) -> None:
        """Record the time at which this process starts."""
        self.began = self._fewer_since = self._now()

    def begin_anew(self) -> None:
        """Restart the clock: reading the stored data may have taken long."""
        self.began = None

    def begin_restored(self) -> None:
        """Note that an earlier process has stored data.

        This peer then lacks nothing, unless its stored record says otherwise.
        """
        if not self.restored:
            self.restored, self.lacks = True, RecoveryState.COMPLETE

    def away(self, seconds: float) -> None:
        """Note for how many seconds this peer was away before it restarted.

        If the others had stopped waiting for it, they have made solutions stable that it does not know.  It then no
        longer counts as filled.
        """
        if self.restored and seconds >= MISSING_SECONDS and self.lacks < RecoveryState.SUBSCRIPTIONS:
            self.lacks, self.returned = RecoveryState.SUBSCRIPTIONS, True
            self._persist(self.record())

    def restore(self, kept: MembersKnown) -> None:
        """Take over the record that an earlier process has stored; the latest record wins."""
        self.most = kept.count
        self.lacks, self.returned = RecoveryState(kept.lacks), kept.returned
        self.jump = kept.jumped, kept.before

    def note_jump(self, jumped: int, before: int) -> None:
        """Note the first stamp of this process, long after all known stamps, and the latest of those.

        Either the clock has jumped ahead or the peer was away.  The next process can tell which.
        """
        self.jump = jumped, before

    def record(self) -> MembersKnown:
        """Return the record that is stored for the next process of this peer."""
        return MembersKnown(self.most, int(self.lacks), bool(self.lacks) and self.returned, *self.jump)

    # --- present members -------------------------------------------------------------------------

    def seen(self, contact: Contact) -> bool:
        """Add a visible peer to the members; return whether it was unknown."""
        lost = self._lost_at.pop(contact.key, None) is not None
        young = self.began is not None and self._now() - self.began < MISSING_SECONDS
        if lost or (young and self.restored):
            self.came_back(contact)  # a restarted peer cannot tell a new member from an old one
        new = self._cache.seen(contact)
        self._gone = min(self._gone, max(0, self.most - self._cache.size))
        return new

    def lost(self, contact: Contact, *, left: bool) -> None:
        """Remove a member that has ``left`` in order or is lost."""
        known = self._cache.number(contact) > 0
        if known and not left:
            if self._now() >= self._fewer_since + MISSING_SECONDS:  # members missing by now are not waited for again
                self._gone = max(0, self.most - self._cache.size)
            self._fewer_since = self._now()
        if not left and known:
            self._note_loss(contact)
        if not left and self.lacks == RecoveryState.UNKNOWN:
            self.seeds_reached = False
        self._blank.discard(contact.key)
        self._cache.lost(contact)
        if left and known:
            self.count(left=1)

    def _note_loss(self, contact: Contact) -> None:
        self._lost_at[contact.key] = self._now()

    def count(self, *, left: int = 0) -> None:
        """Update the number of members; ``left`` of them have left in order and are not missing.

        The number does not sink below ``copies_min``: acknowledgements already given relied on that many copies.
        """
        before = self.most
        fewest = min(before, self._config.copies_min)
        self.most = max(before - left, fewest, self._cache.size)
        if before != self.most:
            self._persist(self.record())

    @property
    def expected(self) -> int:
        """How many members there should be: present, or missing for less than ``MISSING_SECONDS``."""
        here = self._cache.size
        return here if self._now() >= self._fewer_since + MISSING_SECONDS else max(here, self.most - self._gone)

    def hear(self, expected: int, *, known: bool, complete: bool = False) -> None:
        """Note how many members another peer expects, and whether it knew this peer before (``known``).

        A peer that started empty, was away or has not caught up does not know which members are missing, and adopts a
        larger number.  A smaller number means that members are gone for good.  It is adopted only from a peer that has
        caught up and misses no member (``complete``).
        """
        if known and self.lacks and not self.returned:
            self.returned = True
            self._persist(self.record())
        if (self.lacks >= RecoveryState.SUBSCRIPTIONS or not self._recovery.caught_up) and expected > self.most:
            self.most = expected
            self._persist(self.record())
        elif complete and 0 < expected < self.expected:
            self._gone = self.most - expected

    @property
    def alone(self) -> bool:
        """Whether this peer has seeds and no process of it has met a member: it is no cluster by itself.

        :class:`p2prdf.wire.contract.SeedsReached` ends that: the overlay has founded a cluster with this peer.
        """
        return self._config.has_seeds and self.most == 1 and not self.seeds_reached

    # --- copies ----------------------------------------------------------------------------------

    @property
    def copies(self) -> int:
        """How many present members can store one item, including this one."""
        return min(self._config.replicas, self._cache.size)

    @property
    def copies_needed(self) -> int:
        """How many copies must be safe before an acknowledgement, as configured.

        A cluster that has never had so many members needs copies at all of them.  An empty peer with seeds does not
        know how many members the cluster has had.  It needs ``copies_min`` until another member reports that number,
        however long it is alone.
        """
        if self.alone or (self._config.has_seeds and self.lacks >= RecoveryState.SUBSCRIPTIONS):
            return self._config.copies_min
        return min(self._config.copies_min, self.most)

    @property
    def spare(self) -> int:
        """How many peers may have unacknowledged messages while every item has the copies that it needs."""
        return max(0, self.copies - self.copies_needed)

    @property
    def short_of_peers(self) -> bool:
        """Whether fewer members are present than copies are needed."""
        return self.copies < self.copies_needed

    # --- members without data --------------------------------------------------------------------

    @property
    def told_by_others(self) -> bool:
        """Whether a member with data is present, or the wait for one is over.

        When a cluster starts for the first time, no member has data.  After a power cut, other members may still be
        reading their disks, so the wait lasts ``_ALONE_SECONDS``.  It ends at once if the peer has reached all seeds
        and sees only itself.
        """
        if self.seeds_reached and self._cache.size == 1:
            return True
        if self.began is None or self._now() >= self.began + _ALONE_SECONDS:
            return True
        others = (each.key for each in self._cache.contacts() if each.key != self._own.key)
        return any(self.lacking.get(key, RecoveryState.COMPLETE) < RecoveryState.SUBSCRIPTIONS for key in others)

    @property
    def alone_until(self) -> float | None:
        """Until when this peer waits for a member with data; None if it does not wait."""
        return None if self.began is None or self.told_by_others else self.began + _ALONE_SECONDS

    @property
    def first_at(self) -> float | None:
        """When this peer may assume that the members it sees founded the network.

        None: it may do so now, or the question does not arise.  An empty peer that sees only empty peers and has
        unreached seeds waits: members behind these seeds may have data that this peer stored before it lost its disk.
        """
        if self.lacks < RecoveryState.UNKNOWN or self.seeds_reached:
            return None
        if self.began is None or self.alone:
            return self._now() + MISSING_SECONDS
        at = min(self._fewer_since, self.began + _UNSTEADY_SECONDS) + MISSING_SECONDS
        return at if self._now() < at else None

    def lacks_less(self, lacks: RecoveryState) -> None:
        """Note, durably, that this peer lacks less than before."""
        if lacks < self.lacks:
            self.lacks = lacks
            self._persist(self.record())
            self._fewer_needed()

    def came_back(self, contact: Contact) -> None:
        """Note that a peer existed before its present process."""
        self._returned.add(contact.key)

    def knows_before(self, contact: Contact) -> bool:
        """Return whether a peer existed before its present process."""
        return contact.key in self._returned

    def note_lacking(self, contact: Contact, lacks: RecoveryState, *, returned: bool = False) -> None:
        """Note which data another peer lacks.

        ``returned``: other members knew that peer before it started empty.
        """
        if returned:
            self._returned.add(contact.key)
        if lacks >= RecoveryState.SUBSCRIPTIONS:
            self._blank.add(contact.key)
        if lacks:
            self.lacking[contact.key] = lacks
        else:
            self.lacking.pop(contact.key, None)
            self._returned.discard(contact.key)

    def keep_lacking(self, fellows: set[int]) -> None:
        """Forget the reports of all peers except ``fellows``: the others no longer share keys with this peer."""
        for key in self.lacking.keys() - fellows:
            del self.lacking[key]

    def _count_lacking(self, least: RecoveryState) -> int:
        """Return how many present members, including this one, lost data and still lack at least ``least``.

        A peer that lost all of its data does not know which members existed before.  It counts every member with that
        lack.
        """
        lost = self.returned and self.lacks >= RecoveryState.SUBSCRIPTIONS
        lacking = 0
        if lost or self._returned:
            lacking = sum(lacks >= least for key, lacks in self.lacking.items() if lost or key in self._returned)
        return lacking + (self.returned and self.lacks >= least)

    # --- missing members -------------------------------------------------------------------------

    @property
    def waits_for_peers_until(self) -> float | None:
        """Until when this peer serves no subscription: the replicas that know more may all be absent.

        All replicas of a coordinator know the subscribers' acknowledgements.  If fewer members are missing than a key
        has replicas, one of those replicas is present.  Each present member that lost its data and has not been filled,
        including this one, lowers that number by one; if all present members have, any missing one is waited for.  A
        member that has been missing for ``MISSING_SECONDS`` is taken to be gone.
        """
        missing = self._missing_until(self._all_copies(self._config.replicas, RecoveryState.SUBSCRIPTIONS))
        return missing if missing is not None else self.first_at

    @property
    def copies_missing(self) -> bool:
        """Whether so many members went missing lately that they alone may have an acknowledged item.

        Members that lost their data and are not refilled completely count as missing.
        """
        return self._missing_until(self._all_copies(self.copies_needed, RecoveryState.DATA)) is not None

    def _all_copies(self, copies: int, least: RecoveryState) -> int:
        """Return how many missing members may have all copies of an item among them.

        ``copies`` of it were stored; present members that lack at least ``least`` have lost theirs.  In a network with
        fewer members than replicas all of them had the item: if each present member has lost its copy, a single missing
        one may have the last.
        """
        lacking = self._count_lacking(least)
        return max(1, copies - lacking) if lacking < self._cache.size else 1

    def _missing_until(self, count: int) -> float | None:
        until = self._fewer_since + MISSING_SECONDS
        if self.expected - self._cache.size >= count and self._now() < until:
            return until
        return self._lost_together_until(count)

    @property
    def lost_together_until(self) -> float | None:
        """Until when as many members are missing as a key has replicas; None if fewer are.

        They may be lost singly or together, and there may be more of them than are missing from the largest number of
        members ever seen at once.
        """
        return self._lost_together_until(self._all_copies(self._config.replicas, RecoveryState.SUBSCRIPTIONS))

    def _lost_together_until(self, count: int) -> float | None:
        if len(self._lost_at) < count:
            return None
        until = sorted(self._lost_at.values())[-count] + MISSING_SECONDS
        return until if self._now() < until else None

    @property
    def somebody_missing(self) -> bool:
        """Whether a member, lost recently or known to an earlier process, may be alive but invisible."""
        return self.lost_within(MISSING_SECONDS) or self.expected > self._known_here

    @property
    def _known_here(self) -> int:
        """How many of the expected members are present.  A restarted peer does not count empty members.

        Those may be new, and take the places of old members that are missing.
        """
        young = self.restored and self._now() < self._fewer_since + MISSING_SECONDS
        return self._cache.size - (len(self._blank) if young else 0)

    @property
    def complete(self) -> bool:
        """Whether this peer knows the number of members: it has caught up and misses no member."""
        return self._recovery.caught_up and not (self.lacks or self.somebody_missing)

    @property
    def perhaps_cut_off(self) -> bool:
        """Whether a member lost within the last ten minutes is not back: this peer may miss messages."""
        return self.lost_within(_CUT_OFF_SECONDS)

    def lost_within(self, seconds: float) -> bool:
        """Return whether a member was lost within the last ``seconds``, at most ten minutes, and is not back."""
        if not self._lost_at:
            return False
        now = self._now()
        self._lost_at = {key: at for key, at in self._lost_at.items() if now - at < _CUT_OFF_SECONDS}
        return any(now - at < seconds for at in self._lost_at.values())


class MembersOfOneCopy(Members):
    """The members if each item has one copy: nobody else has the data of a missing member, so none is waited for."""

    def __init__(
        self, own: Contact, config: PeerConfig, cache: AddressCache, *, now: Callable[[], float],
        recovery: Recovery, persist: Callable[[Message], None], fewer_needed: Callable[[], None],
    ):  # fmt: skip
        super().__init__(own, config, cache, now=now, recovery=recovery, persist=persist, fewer_needed=fewer_needed)
        self.lacks = RecoveryState.COMPLETE

    def restore(self, kept: MembersKnown) -> None:
        """Take over the number of members."""
        super().restore(kept)
        self.lacks, self.returned = RecoveryState.COMPLETE, False

    def away(self, seconds: float) -> None:
        """Do nothing: no other member has data of this peer."""

    def _note_loss(self, contact: Contact) -> None:
        pass

    @property
    def somebody_missing(self) -> bool:
        """Return False: no other member knows the state of subscriptions of this peer."""
        return False
