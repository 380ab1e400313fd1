"""The SWIM membership protocol of one peer: a complete view of all members, without a leader.

Replication needs a complete view, so that all peers name the same replicas of a key.  Views may differ for a moment:
anti-entropy corrects misplaced items.  They must become equal soon after the last change.

The protocol is SWIM (Das, Gupta, Motivala, DSN 2002).  :mod:`p2prdf.overlay.swim_probe` detects silent members; this
module keeps and merges member states.

Invariant: a member state (:class:`~p2prdf.overlay.swim_messages.Record`) is a member, an incarnation and a state.
States of one member are ordered by incarnation, which only the member itself raises, then alive < suspect < dead <
left.  A table keeps the highest.  Taking the maximum is associative, commutative and idempotent, so members that have
received the same states hold equal tables, in any order of messages.  A live member can always outrank a false state.

Additions to SWIM, rejected designs and detection times: docs/explanation/design/membership.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log10
from typing import TYPE_CHECKING, Final, assert_never

from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Post
from p2prdf.overlay.swim_clock import Clocks
from p2prdf.overlay.swim_config import ZONE_CHARACTERS_MAX, Entropy, SwimConfig
from p2prdf.overlay.swim_gossip import Dissemination
from p2prdf.overlay.swim_messages import (
    GOSSIP_BYTES_MAX,
    Answer,
    Gossip,
    OtherTime,
    Packet,
    Probe,
    ProbeReport,
    ProbeRequest,
    PushPull,
    Record,
    Refused,
    State,
    Stranger,
    SwimEffect,
    SwimMessage,
    SwimRequest,
    SyncStates,
    TcpProbe,
)
from p2prdf.overlay.swim_own import Own
from p2prdf.overlay.swim_probe import Prober, sample
from p2prdf.overlay.swim_table import GossipQueue, Table
from p2prdf.overlay.timers import Timers
from p2prdf.wire.contract import ContactLost, ContactSeen, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.wire.messages import Contact

__all__ = ["Swim"]

ANNOUNCE_MAX: Final = 16
"""A new member sends its own state to so many members at once; gossip informs the others."""
GOODBYES_MAX: Final = 64
SUSPECTS_PROBED_BY: Final = 32
"""Up to this number of members, every member probes a suspected one."""
CLOCKS_AT_START: Final = 8
"""A new member measures the clocks of so many members at once."""


@dataclass(slots=True, eq=False)
class _Suspicion:
    """The time that a suspected member has to refute."""

    began: float
    excuses: int = 0


class Swim:
    """The membership state machine of one peer, without input or output.

    ``now`` is in seconds since the epoch, here and in every call, and never goes back.  ``linked`` tells whether a
    connection with the peer of a key is established.
    """

    def __init__(
        self,
        own: Contact,
        config: SwimConfig | None = None,
        *,
        now: float,
        entropy: Entropy,
        zone: str = "",
        linked: Callable[[int], bool] | None = None,
    ):
        assert len(zone) <= ZONE_CHARACTERS_MAX
        self.config = config or SwimConfig()
        self.own = own
        self.now = now
        self.complete = False
        """Whether the view is complete: it has equalled another member's view, and has not been full since."""
        self.counts: dict[str, int] = {}
        self._entropy = entropy
        self._linked = linked or (lambda _: False)
        self._left = False
        self._effects: list[SwimEffect] = []
        self._timers = Timers()
        self._self = Own(own, zone, self, self._timers, entropy)
        self._table = Table(self.config)
        self.living = self._table.living
        self._gossip = GossipQueue(self.config)
        self.clocks = Clocks(self.config)
        self._clock_reported = False
        self._prober = Prober(self, self._timers, self.config, entropy)
        self._suspicions: dict[int, _Suspicion] = {}
        self._dissemination = Dissemination(
            self, self._self, self._table, self._gossip, self._timers, self.config, entropy
        )

    @property
    def member(self) -> bool:
        """Whether this peer is a member of the view."""
        return self._self.member

    @property
    def record(self) -> Record:
        """The member state that this peer reports of itself."""
        return self._self.record

    @property
    def greeting(self) -> Record:
        """The sender's state in each packet: incarnation 0 while this peer is no member."""
        return self.record if self.member else replace(self.record, incarnation=0)

    @property
    def out(self) -> bool:
        """Whether this peer cannot join because another live peer has its key."""
        return not self.member and self.counts.get("position_taken", 0) > 0

    # --- the contract ----------------------------------------------------------------------------

    def submit(self, request: SwimRequest, *, now: float) -> list[SwimEffect]:
        """Handle a request of the driver."""
        self._begin(now)
        if self._left:
            return []
        match request:
            case Create():
                if not self.member:
                    self._self.admit()
            case Introduce(contact):
                if not self.member or contact not in self.contacts():
                    self._dissemination.introduced(contact)
            case Broken(key):
                if key in self.living:
                    self._prober.rapid_probe(self.living[key].contact)
            case Refused(contact):
                self._prober.refused(contact)
                self._self.refused(contact)
            case Stranger(contact, offset, members):
                self.clocks.meet_stranger(contact, offset, members, self.now)
            case Leave(in_order):
                self._leave(State.LEFT if in_order else State.DEAD)
            case _:
                assert_never(request)
        return self._end()

    def receive(self, packet: Packet, *, now: float) -> list[SwimEffect]:
        """Handle a packet.  No content makes this raise."""
        self._begin(now)
        sender = packet.sender
        if self._left or sender.contact == self.own:
            return []
        if sender.incarnation:
            self._hear(sender)
        synced = isinstance(packet.message, SyncStates)
        for record in packet.gossip:
            self._merge(record, synced=synced)
        self._take(packet)
        if sender.incarnation:
            self._prober.heard(sender.contact)
        return self._end()

    def wake(self, *, now: float) -> list[SwimEffect]:
        """Run the timers that are due."""
        self._begin(now)
        if self._timers.run(self.now):
            self._prober.trouble()
            self._count("late")
        return self._end()

    @property
    def deadline(self) -> float | None:
        """The time at which to call ``wake``."""
        return self._timers.deadline

    def contacts(self) -> list[Contact]:
        """Return the live other members, including suspected ones."""
        return [record.contact for record in self.living.values()]

    def status(self) -> dict[str, object]:
        """Return counters, sizes and the state of each member, as plain JSON values."""
        return {
            "member": self.member,
            "complete": self.complete,
            "incarnation": self.record.incarnation,
            "zone": self.record.zone,
            "refused_full": self._table.refused,
            "probing": self._prober.under_way,
            "gossip": len(self._gossip),
            "health": self._prober.score,
            "clock_suspect": self.clocks.suspect,
            "strangers": [each.described() for each in self.clocks.strangers.values()],
            "members": [self._described(record) for record in (*self.living.values(), *self._table.gone)],
            **self.counts,
        }

    def _described(self, record: Record) -> dict[str, object]:
        offset = self.clocks.offset(record.contact.key)
        return {
            "key": f"{record.contact.key:016x}",
            "host": record.contact.host,
            "port": record.contact.port,
            "zone": record.zone,
            "state": record.state.name.lower(),
            "incarnation": record.incarnation,
            "offset_seconds": None if offset is None else round(offset, 4),
        }

    # --- inside ----------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        self.now = max(self.now, now)

    def _end(self) -> list[SwimEffect]:
        if self.clocks.strangers:
            self._judge_clock()
        effects, self._effects = self._effects, []
        return effects

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def _trace(self, event: str, **fields: object) -> None:
        self._count(event)
        self._effects.append(Trace(event, fields))

    def post(self, to: Contact, message: SwimMessage, gossip: tuple[Record, ...] | None = None) -> None:
        """Send a message with gossip; a state of the receiver other than alive goes first."""
        if gossip is None:
            known = self._table.get(to.key)
            ill = known if known is not None and known.state is not State.ALIVE else None
            gossip = self._gossip.take(GOSSIP_BYTES_MAX - _bytes(message), len(self.living) + 1, ill)
        self._effects.append(Post(to, Packet(self.greeting, int(self.now * 1e6), message, gossip)))

    def tcp_probe(self, contact: Contact) -> None:
        """Start a TCP probe: the driver tries to connect."""
        self._effects.append(TcpProbe(contact))

    def some(self, count: int) -> list[Contact]:
        """Return some live other members, in random order."""
        return [record.contact for record in sample(list(self.living.values()), count, self._entropy)]

    # --- messages --------------------------------------------------------------------------------

    def _hear(self, sender: Record) -> None:
        """Merge a sender's state of itself."""
        if sender.contact.key == self.own.key:
            self._self.met(sender)
        else:
            self._merge(sender)

    def _take(self, packet: Packet) -> None:
        sender, message = packet.sender.contact, packet.message
        match message:
            case Probe(request):
                self.post(sender, Answer(request))
                return  # the answer's gossip also carries the sender's state
            case Answer():
                asked_at = self._prober.answered(sender, message) if packet.sender.incarnation else None
                if asked_at is not None and sender.key in self.living:
                    self.clocks.measure(sender.key, packet.clock / 1e6, asked_at, self.now)
                    self._judge_clock()
            case ProbeRequest():
                self._prober.help(sender, message)
            case ProbeReport():
                self._prober.reported(message)
            case PushPull():
                self._dissemination.push_pulled(sender, message)
                return
            case Gossip() | SyncStates() | OtherTime():
                pass
            case _:
                assert_never(message)
        known = self._table.get(sender.key)
        if known is not None and known.state > State.ALIVE and packet.sender.rank < known.rank:
            self.post(sender, Gossip())  # the sender does not know its own state here

    def tidy(self) -> None:
        """Forget members that have been dead for long, and old measurements."""
        self._table.forget(self.now)
        self._judge_clock()

    def _judge_clock(self) -> None:
        self.clocks.judge(self.now, len(self.living))
        if self.complete and self.clocks.suspect != self._clock_reported:  # an incomplete view serves no client
            self._clock_reported = self.clocks.suspect
            if self.clocks.reason is None:
                self._trace("clock_trusted")
            else:
                self._trace("clock_suspect", reason=self.clocks.reason)

    # --- member states --------------------------------------------------------------------------

    def _merge(self, record: Record, *, synced: bool = False) -> None:
        """Merge a received state if it outranks the known one; ``synced``: from a push-pull sync, maybe old."""
        if record.contact.key == self.own.key:
            self._self.on_state(record)
        elif self._table.better(record):
            if synced and record.state is State.DEAD and record.contact.key in self.living:
                record = replace(record, state=State.SUSPECT)
                if not self._table.better(record):
                    return
            self._set_state(record, "reported")

    def _set_state(self, record: Record, reason: str) -> None:
        """Store a higher state and apply its consequences."""
        key = record.contact.key
        before = self.living.get(key)
        if not self._table.put(record, self.now):
            if self.complete:
                self.complete = False
                self._trace("view_full", view_max=self.config.view_max)
            return
        if self.complete:  # a joining peer receives only states that the others have
            self._dissemination.pass_on(record)
        if not record.state.living:
            self._forget(key)
            if before is not None:
                self._report_lost(before, "left" if record.state is State.LEFT else reason)
            return
        if before is not None and (before.contact != record.contact or before.life != record.life):
            self._forget(key)
            self._report_lost(before, "restarted" if before.contact == record.contact else "moved")
            before = None
        if before is None:
            self.clocks.meet(key)
            self._effects.append(ContactSeen(record.contact, record.zone))
            self._trace("peer_seen", peer=str(record.contact))
        if record.state is State.SUSPECT:
            self._suspect(record)
        else:
            self._suspicions.pop(key, None)

    def _forget(self, key: int) -> None:
        """Stop watching a member."""
        self._suspicions.pop(key, None)
        self._prober.gone(key)
        self.clocks.forget(key)

    def _report_lost(self, record: Record, reason: str) -> None:
        self._effects.append(ContactLost(record.contact, left=reason == "left"))
        self._trace("peer_gone", peer=str(record.contact), reason=reason)

    def _suspect(self, record: Record) -> None:
        key = record.contact.key
        self._count("suspected")
        suspicion = self._suspicions[key] = _Suspicion(self.now)
        self._timers.at(self.now + self._patience, lambda: self._suspicion_over(key, suspicion))
        if len(self.living) <= SUSPECTS_PROBED_BY:
            self._prober.probe(record.contact)

    @property
    def _patience(self) -> float:
        """How long a suspected member may refute.  A member that distrusts itself waits longer (Lifeguard)."""
        return self.config.suspicion_seconds * max(1.0, log10(len(self.living) + 1)) * (1 + self._prober.score)

    def _suspicion_over(self, key: int, suspicion: _Suspicion) -> None:
        """Declare a suspected member dead after its time, unless it may just be busy."""
        if self._suspicions.get(key) is not suspicion:
            return
        until = suspicion.began + self.config.linked_seconds
        if self.now < until and self._linked(key):
            again = min(until, self.now + self.config.probe_seconds)
        elif self.now < self._timers.grace_until and suspicion.excuses < 3:
            suspicion.excuses += 1
            again = self._timers.grace_until
        else:
            self._set_state(replace(self.living[key], state=State.DEAD), "silent")
            return
        self._timers.at(again, lambda: self._suspicion_over(key, suspicion))

    # --- results of probing (Hub) ----------------------------------------------------------------

    def silent(self, contact: Contact, *, refused: bool) -> None:
        """Declare a silent member dead if it refused connections, else suspect it."""
        record = self.living.get(contact.key)
        if record is None or record.contact != contact:
            return
        if refused:
            self._set_state(replace(record, state=State.DEAD), "refused")
        elif record.state is State.ALIVE:
            self._set_state(replace(record, state=State.SUSPECT), "silent")

    # --- this peer's identity (Society) -----------------------------------------------------------

    def refuted(self, claimed: Record) -> None:
        """Gossip this peer's raised incarnation."""
        if claimed.state is not State.ALIVE:
            self._prober.trouble()
        self._count("refuted")
        self._dissemination.pass_on(self.record)

    def position_taken(self, twin: Contact) -> None:
        """Stay out of the view, and try again later through the known members."""
        self._trace("position_taken", by=str(twin))
        self._dissemination.left_out()

    def admitted(self) -> None:
        """Start to act as a member."""
        self.complete = True
        self._trace("view_joined", members=len(self.living) + 1)
        self._prober.start()
        self._dissemination.joined()
        self._dissemination.pass_on(self.record)
        for contact in self.some(ANNOUNCE_MAX):
            self.post(contact, Gossip(), (self.record,))
        for contact in self.some(CLOCKS_AT_START):
            self._prober.probe(contact)

    def _leave(self, state: State) -> None:
        self._left = True
        if self.member:
            self._self.record = replace(self.record, state=state)
            for contact in self.some(GOODBYES_MAX):
                self.post(contact, Gossip(), ())
        self._timers.clear()


def _bytes(message: SwimMessage) -> int:
    """Return the number of bytes by which a message reduces the room for gossip."""
    return 9 * len(message.digests) if isinstance(message, PushPull) else 0
