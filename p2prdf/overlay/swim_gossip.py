"""Dissemination of member states: gossip, push-pull syncs, and the first sync of a joining peer.

*Gossip.*  A new state travels with every packet.  While there are new states, a few members also receive a packet with
nothing else every ``gossip_seconds``; the first round starts at once.

*Push-pull syncs.*  From time to time two members compare one digest for each part of the ring, and exchange the states
of the parts that differ.  One sync in four goes to a member believed dead, if there is any.  If it lives, it learns
that and refutes, and both sides of a healed partition find each other.

*Joining* is a sync.  A joining peer syncs with seeds until its digests equal theirs.  It then knows all members,
including any state of its own key, and becomes a member.  If the view changes all the time, digests may never be equal:
after ``JOINS_MAX`` replies the peer joins with the states that it has received.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from p2prdf.overlay.swim_messages import Gossip, PushPull, State, SyncStates
from p2prdf.overlay.swim_probe import sample
from p2prdf.overlay.swim_table import pages

if TYPE_CHECKING:
    from p2prdf.overlay.swim_config import Entropy, SwimConfig
    from p2prdf.overlay.swim_messages import Record, SwimMessage
    from p2prdf.overlay.swim_own import Own
    from p2prdf.overlay.swim_table import GossipQueue, Table
    from p2prdf.overlay.timers import Timers
    from p2prdf.wire.messages import Contact

__all__ = ["Dissemination", "Member"]

SEEDS_MAX: Final = 16
JOINS_MAX: Final = 20
SEEDS_AT_ONCE: Final = 2
JOIN_PAUSES_MAX: Final = 10
"""Maximum pause between two attempts to join, as a multiple of the first pause."""
DEAD_SYNC_FRACTION: Final = 0.25
"""Fraction of syncs that go to a member believed dead, if there is any."""


class Member(Protocol):
    """The part of :class:`~p2prdf.overlay.swim.Swim` that this module uses."""

    now: float

    def post(self, to: Contact, message: SwimMessage, gossip: tuple[Record, ...] | None = None) -> None:
        """Send a message, with pending gossip or with exactly these states."""
        ...

    def some(self, count: int) -> list[Contact]:
        """Return some live other members, in random order."""
        ...

    def tidy(self) -> None:
        """Do periodic housekeeping."""
        ...


class Dissemination:
    """Gossip and push-pull syncs of one member."""

    def __init__(
        self, member: Member, own: Own, table: Table, gossip: GossipQueue, timers: Timers, config: SwimConfig,
        entropy: Entropy,
    ):  # fmt: skip
        self._member, self._own, self._table, self._gossip = member, own, table, gossip
        self._timers, self._config, self._entropy = timers, config, entropy
        self._seeds: dict[Contact, None] = {}
        self._joins = 0
        self._answers = 0
        self._syncing = False
        self._round_scheduled = False
        self._last_round_at = 0.0

    # --- gossip ----------------------------------------------------------------------------------

    def pass_on(self, record: Record) -> None:
        """Gossip a member state, starting at once."""
        self._gossip.add(record)
        self._schedule_round()

    def _schedule_round(self) -> None:
        if not self._round_scheduled:
            self._round_scheduled = True
            self._timers.at(max(self._member.now, self._last_round_at + self._config.gossip_seconds), self._send_round)

    def _send_round(self) -> None:
        self._round_scheduled = False
        self._last_round_at = self._member.now
        if not self._table.living:
            self._gossip.clear()
        for contact in self._member.some(self._config.gossip_peers):
            if len(self._gossip):
                self._member.post(contact, Gossip())
        if len(self._gossip):
            self._schedule_round()

    # --- joining ---------------------------------------------------------------------------------

    def introduced(self, contact: Contact) -> None:
        """Sync with a peer that has just answered: to join, or because it may know other members."""
        if self._own.member:
            self._member.post(contact, self._own_digests())
            return
        self._seeds[contact] = None
        while len(self._seeds) > SEEDS_MAX:
            del self._seeds[next(iter(self._seeds))]
        if not self._syncing:
            self._syncing = True
            self._sync()

    def joined(self) -> None:
        """Start periodic syncs as a member."""
        self._seeds.clear()
        if not self._syncing:
            self._syncing = True
            self._timers.at(self._member.now + self._config.sync_seconds, self._sync)

    def left_out(self) -> None:
        """Keep trying to join, through the members that are known."""
        self._seeds = dict.fromkeys(self._member.some(SEEDS_MAX)) or self._seeds

    # --- push-pull syncs --------------------------------------------------------------------------

    def _own_digests(self, *, reply: bool = False) -> PushPull:
        return PushPull(self._table.digests(self._own.known_as), reply)

    def _sync(self) -> None:
        """Start a sync: with seeds while joining, later with any member, sometimes a dead one."""
        if self._own.member:
            dead = [record.contact for record in self._table.gone if record.state is State.DEAD]
            lost = dead and (not self._table.living or self._entropy.random() < DEAD_SYNC_FRACTION)
            partners = sample(dead, 1, self._entropy) if lost else self._member.some(1)
            pause = self._config.sync_seconds * (0.75 + self._entropy.random() / 2)
        else:
            self._joins += 1
            partners = sample(list(self._seeds), SEEDS_AT_ONCE, self._entropy)
            pause = self._config.join_seconds * min(self._joins, JOIN_PAUSES_MAX)
        for contact in partners:
            self._member.post(contact, self._own_digests())
        self._member.tidy()
        self._timers.at(self._member.now + pause, self._sync)

    def push_pulled(self, sender: Contact, theirs: PushPull) -> None:
        """Answer a sync with the states that differ and this peer's digests.  A joining peer sends no states."""
        ours = self._own_digests()
        differ = [one != other for one, other in zip(ours.digests, theirs.digests, strict=True)]
        if self._own.member:
            if any(differ):
                for page in pages(self._table.of_buckets(differ, self._own.record)):
                    self._member.post(sender, SyncStates(), page)
            if not theirs.reply:
                self._member.post(sender, replace(ours, reply=True))
        elif theirs.reply:
            self._answers += 1
            if not any(differ) or self._answers >= JOINS_MAX:
                self._own.apply()
