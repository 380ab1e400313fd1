"""Who should be here: how many peers there are, which of them are missing, and who lost what it knew.

The problem.  A peer that sees few others cannot tell whether there are few, whether the others are down, or whether it
is cut off; and one whose disk was lost cannot tell whether it is new.  But some things may only be done when those who
may know better are here: to speak for a subscription, to say that an answer is settled or that all has come, to take
one copy for enough.

The idea.  Each counts: the most peers that there have ever been (which is kept, and told when copies are compared),
those that left in order, those that it lost, and when.  Whoever is missing is waited for, 20 s at most.  A peer that
began with an empty disk, and had been there before, is as good as missing until it has been told all again; so it says
what it lacks (:class:`Lacks`), keeps that, and is told whether it had been there.

What is not known is taken for what is safe: who starts again takes all whom it meets for old; who begins with nothing
takes those that it was told of, and does not see, for peers that know more.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from p2prdf.overlay.address_cache import AddressCache
from p2prdf.peer.network.config import PeerConfig
from p2prdf.peer.network.recovery import Recovery
from p2prdf.wire.messages import Contact, MembersKnown, Message

__all__ = ["MISSING_SECONDS", "Lacks", "Members"]

MISSING_SECONDS: Final = 20.0
"""Who is missing for so long is taken to be gone."""
_ALONE_SECONDS = 5.0
"""How long who began with nothing, as all others did whom it sees, waits for one who did not."""
_UNSTEADY_SECONDS = 40.0
"""While others come and go, who began with nothing waits for so long more at the most."""
_CUT_OFF_SECONDS = 600.0


class Lacks(IntEnum):
    """What a peer that began with nothing, an empty disk, has not been given yet of what others know.

    Its copies count as lost until then, so fewer failures are survived: others take it for missing when they decide
    whether enough of those are here who may know what was acknowledged.
    """

    NOTHING = 0
    COPIES = 1
    """It has not compared all with all who keep the same."""
    HOMES = 2
    """Nor what homes keep."""
    OTHERS = 3
    """Nor has it met anybody who lacks less, though it was told of others to join: they may be away."""


class Members:
    """The members as one peer knows them, itself included."""

    def __init__(
        self, own: Contact, config: PeerConfig, cache: AddressCache, *, now: Callable[[], float],
        recovery: Recovery, persist: Callable[[Message], None], fewer_needed: Callable[[], None],
    ):  # fmt: skip
        """``cache`` has those that are seen.  ``fewer_needed`` is called when fewer copies may be enough than were.
        """
        self._own, self._config, self._cache = own, config, cache
        self._now, self._recovery, self._persist, self._fewer_needed = now, recovery, persist, fewer_needed
        self._replicated = config.replicas > 1
        self.most = 1
        """The most peers that there have ever been at once, as far as known."""
        self._gone = 0
        """How many of these were missing for long when another was lost."""
        self._lost_at: dict[int, float] = {}
        self._began: float | None = None
        self._fewer_since = 0.0  # when this peer began, or lost another
        self.restored = False
        """Whether this peer began with what a former life had kept."""
        self.lacks = Lacks.OTHERS if config.joins and self._replicated else Lacks.HOMES
        self.returned = False
        """Whether others knew this peer before it began with nothing: who is new took nothing along when it began."""
        self.jump = 0, 0
        """The first stamp of the latest life that began long after all stamps known, and the latest of these."""
        self.doors_met = False
        """Whether all are here whom this peer was told of to join by."""
        self.lacking: dict[int, Lacks] = {}
        """By key of each other that began with nothing what it lacked when it was last heard of,"""
        self._blank: set[int] = set()
        """The keys of those that were heard of without what homes keep,"""
        self._returned: set[int] = set()
        """and of those that had been there before."""

    # --- this peer's life ------------------------------------------------------------------------

    def observe(self) -> None:
        """Note the time, as the life begins."""
        if self._began is None:
            self._began = self._fewer_since = self._now()

    def begin_anew(self) -> None:
        """Count the time from now on: what was kept has been read, which may have taken long."""
        self._began = None

    def begin_restored(self) -> None:
        """Note that a former life has kept something: it lacked nothing, unless it kept that as well."""
        if not self.restored:
            self.restored, self.lacks = True, Lacks.NOTHING

    def away(self, seconds: float) -> None:
        """Note for how long this peer was away before it started again.

        If nobody waited for it any more, others settled what it does not know: that it was told all counts no more.
        """
        if self._replicated and self.restored and seconds >= MISSING_SECONDS and self.lacks < Lacks.HOMES:
            self.lacks, self.returned = Lacks.HOMES, True
            self._persist(self.record())

    def restore(self, kept: MembersKnown) -> None:
        """Take back what a former life knew; the last of it counts."""
        self.most = kept.count
        self.lacks, self.returned = Lacks(kept.lacks), kept.returned
        self.jump = kept.jumped, kept.before

    def note_jump(self, jumped: int, before: int) -> None:
        """Note the first stamp of this life, which is long after all that were known, and the latest of these.

        Either the clock has jumped ahead or the peer was away; the next life sees which.
        """
        self.jump = jumped, before

    def record(self) -> MembersKnown:
        """Return what the next life is to know."""
        lacks = self.lacks if self._replicated else Lacks.NOTHING
        return MembersKnown(self.most, int(lacks), bool(lacks) and self.returned, *self.jump)

    # --- who is here -----------------------------------------------------------------------------

    def seen(self, contact: Contact) -> bool:
        """Take in a peer that was heard of; return whether it was not known."""
        lost = self._lost_at.pop(contact.key, None) is not None
        young = self._began is not None and self._now() - self._began < MISSING_SECONDS
        if lost or (young and self.restored):
            self.came_back(contact)  # or so it may be: who starts again does not know who is new
        new = self._cache.seen(contact)
        self._gone = min(self._gone, max(0, self.most - self._cache.size))
        return new

    def lost(self, contact: Contact, *, left: bool) -> None:
        """Forget a peer, which has ``left`` in order or is lost."""
        known = self._cache.number(contact) > 0
        if known and not left:
            if self._now() >= self._fewer_since + MISSING_SECONDS:  # whoever is missing by now is not waited for again
                self._gone = max(0, self.most - self._cache.size)
            self._fewer_since = self._now()
        if self._replicated and not left and known:
            self._lost_at[contact.key] = self._now()
        if not left and self.lacks == Lacks.OTHERS:
            self.doors_met = False
        self._blank.discard(contact.key)
        self._cache.lost(contact)
        if left and known:
            self.count(left=1)

    def count(self, *, left: int = 0) -> None:
        """Note how many peers there are, or that some of them have left in order: these are not missing.

        Never fewer than copies are needed: what was promised with them is promised still.
        """
        before = self.most
        fewest = min(before, self._config.copies_min)
        self.most = max(before - left, fewest, self._cache.size)
        if before != self.most:
            self._persist(self.record())

    @property
    def expected(self) -> int:
        """How many there should be: those that are here, or are missing and not for long."""
        here = self._cache.size
        return here if self._now() >= self._fewer_since + MISSING_SECONDS else max(here, self.most - self._gone)

    def hear(self, expected: int, *, known: bool, complete: bool = False) -> None:
        """Note how many another knows that there should be, and whether it had known this peer before.

        Who began with nothing, or was away, does not know who is missing, nor who is gone for good: that it takes over
        from one that misses nobody (``complete``).
        """
        if known and self.lacks and not self.returned:
            self.returned = True
            self._persist(self.record())
        if (self.lacks >= Lacks.HOMES or not self._recovery.caught_up) and expected > self.most:
            self.most = expected
            self._persist(self.record())
        elif complete and 0 < expected < self.expected:
            self._gone = self.most - expected

    @property
    def alone(self) -> bool:
        """Whether this peer has seeds and has met no other member in any life: it is no cluster by itself.

        :class:`p2prdf.wire.contract.DoorsMet` ends that: the overlay has begun a cluster with this peer.
        """
        return self._config.joins and self._replicated and self.most == 1 and not self.doors_met

    # --- copies ----------------------------------------------------------------------------------

    @property
    def copies(self) -> int:
        """How many peers are there to keep one item, this one included."""
        return min(self._config.replicas, self._cache.size)

    @property
    def copies_needed(self) -> int:
        """How many copies must be safe before anything counts as done: as configured.

        A cluster that has never had so many members needs all of them.  An empty peer with seeds does not know how many
        members the cluster has had.  It needs ``copies_min`` until another member reports that number, however long it
        is alone.
        """
        if self.alone or (self._config.joins and self.lacks >= Lacks.HOMES):
            return self._config.copies_min
        return min(self._config.copies_min, self.most)

    @property
    def spare(self) -> int:
        """How many peers may be outstanding while every item has the copies that it needs."""
        return max(0, self.copies - self.copies_needed)

    @property
    def short_of_peers(self) -> bool:
        """Whether fewer peers are there than copies are needed."""
        return self.copies < self.copies_needed

    # --- who lost what it knew -------------------------------------------------------------------

    @property
    def told_by_others(self) -> bool:
        """Whether anybody is here who did not begin with nothing as well; nobody else is waited for long.

        At the first start of all there is nobody; after a power cut others may still be reading their disks.  Nor is
        there anybody to wait for if nobody but itself is behind the addresses that it was told of.
        """
        if self.doors_met and self._cache.size == 1:
            return True
        others = (each.key for each in self._cache.contacts() if each.key != self._own.key)
        knows = any(self.lacking.get(key, Lacks.NOTHING) < Lacks.HOMES for key in others)
        return knows or self._began is None or self._now() >= self._began + _ALONE_SECONDS

    @property
    def alone_until(self) -> float | None:
        """Until when somebody else is waited for who did not begin with nothing; None if nobody is."""
        return None if self._began is None or self.told_by_others else self._began + _ALONE_SECONDS

    @property
    def first_at(self) -> float | None:
        """When this peer, and whom it sees, are the first of a network, as far as they know; None: now, or never.

        Not at once if it began with nothing, as all whom it sees, and was told of others to join: these may know what
        it did before it lost its disk, and be away.
        """
        if self.lacks < Lacks.OTHERS or self.doors_met:
            return None
        if self._began is None or self.alone:
            return self._now() + MISSING_SECONDS
        at = min(self._fewer_since, self._began + _UNSTEADY_SECONDS) + MISSING_SECONDS
        return at if self._now() < at else None

    def lacks_less(self, lacks: Lacks) -> None:
        """Note what this peer still lacks, in this life and the next ones."""
        if lacks < self.lacks:
            self.lacks = lacks
            self._persist(self.record())
            self._fewer_needed()

    def came_back(self, contact: Contact) -> None:
        """Note that a peer had been there before its present life."""
        self._returned.add(contact.key)

    def knows_before(self, contact: Contact) -> bool:
        """Return whether a peer had been there before its present life."""
        return contact.key in self._returned

    def note_lacking(self, contact: Contact, lacks: Lacks, *, returned: bool = False) -> None:
        """Note what another lacks that began with nothing, and whether it was told that it had been there before."""
        if returned:
            self._returned.add(contact.key)
        if lacks >= Lacks.HOMES:
            self._blank.add(contact.key)
        if lacks:
            self.lacking[contact.key] = lacks
        else:
            self.lacking.pop(contact.key, None)
            self._returned.discard(contact.key)

    def keep_lacking(self, fellows: set[int]) -> None:
        """Forget what all but some others lack: nothing is kept with these any more."""
        for key in self.lacking.keys() - fellows:
            del self.lacking[key]

    def _count_lacking(self, least: Lacks) -> int:
        """Return how many of those that are here lost what they knew, this one among them.

        Who lost all that it knew does not know who had been there before: all count to it who lack as much.
        """
        lost = self.returned and self.lacks >= Lacks.HOMES
        lacking = sum(lacks >= least for key, lacks in self.lacking.items() if lost or key in self._returned)
        return lacking + (self.returned and self.lacks >= least)

    # --- who is missing --------------------------------------------------------------------------

    @property
    def waits_for_peers_until(self) -> float | None:
        """Until when this peer does not speak for others: perhaps none of those is here who knew what was told.

        What subscribers have acknowledged is known to all who keep a home.  If fewer peers are missing than keep a
        key, one of them is here; for each of those here that began with nothing and was told nothing, this one among
        them, one fewer may be missing.  Whoever is missing for long is taken to be gone.
        """
        missing = self._missing_until(max(1, self._config.replicas - self._count_lacking(Lacks.HOMES)))
        return missing if missing is not None else self.first_at

    @property
    def copies_missing(self) -> bool:
        """Whether as many peers are missing, and not for long, as make something safe: they alone may know of it.

        Those that lost what they knew, and were not given all of it yet, are as good as missing.
        """
        return self._missing_until(max(1, self.copies_needed - self._count_lacking(Lacks.COPIES))) is not None

    def _missing_until(self, count: int) -> float | None:
        until = self._fewer_since + MISSING_SECONDS
        if self.expected - self._cache.size >= count and self._now() < until:
            return until
        return self._lost_together_until(count)

    @property
    def lost_together_until(self) -> float | None:
        """Until when as many peers are missing as keep a key, lost one by one or at once; None if fewer are.

        They may be more than are missing of the most that were ever seen together.
        """
        return self._lost_together_until(max(1, self._config.replicas - self._count_lacking(Lacks.HOMES)))

    def _lost_together_until(self, count: int) -> float | None:
        if len(self._lost_at) < count:
            return None
        until = sorted(self._lost_at.values())[-count] + MISSING_SECONDS
        return until if self._now() < until else None

    @property
    def somebody_missing(self) -> bool:
        """Whether a peer that was lost not long ago, or that a former life knew, may live where it is not seen."""
        return self.lost_within(MISSING_SECONDS) or (self._replicated and self.expected > self._known_here)

    @property
    def _known_here(self) -> int:
        """How many of those that there should be are here: to who starts again those are not that begin with nothing.

        They may be new, and fill the places of others.
        """
        young = self.restored and self._now() < self._fewer_since + MISSING_SECONDS
        return self._cache.size - (len(self._blank) if young else 0)

    @property
    def complete(self) -> bool:
        """Whether this peer knows how many there are: it is in step, and misses nobody."""
        return self._recovery.caught_up and not (self.lacks or self.somebody_missing)

    @property
    def perhaps_cut_off(self) -> bool:
        """Whether a peer was lost within some minutes and is not back: this one may not hear what matters."""
        return self.lost_within(_CUT_OFF_SECONDS)

    def lost_within(self, seconds: float) -> bool:
        """Return whether a peer was lost within some time, ten minutes at the most, and is not back."""
        if not self._lost_at:
            return False
        now = self._now()
        self._lost_at = {key: at for key, at in self._lost_at.items() if now - at < _CUT_OFF_SECONDS}
        return any(now - at < seconds for at in self._lost_at.values())
