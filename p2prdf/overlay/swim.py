"""One member of a view: who is there, known completely by everyone, and agreed on without a leader.

The problem
-----------
Copies need a *complete* view: whoever stores or looks for something under a key must name the same few peers.  It
need not be the same view at every moment, for repair puts right what was stored by an old one, but all views must
become equal soon after things stop changing; who is gone must be noticed within about a second; and who is merely
busy must not be taken for gone, for then its keys move for nothing.

The idea
--------
SWIM (Das, Gupta, Motivala, "SWIM: scalable weakly-consistent infection-style process group membership protocol",
DSN 2002).  Everyone probes everyone else in turn, the load of each member is constant, and what
is found out travels with the probes, like a rumour.  Who is silent is *suspected* first.  A suspected member that
lives hears of it and objects.  :mod:`p2prdf.overlay.swim_probe` finds out who is silent; here is what is believed.

The invariant
-------------
A belief is a member, an incarnation and a state.  Beliefs about one member are ordered: first by incarnation, which
only the member itself raises, then alive < suspect < dead < left.  A table keeps the highest.  Taking the highest
is associative, commutative and idempotent, so two members that have heard the same believe the same, in
whatever order and however often they heard it; and a member that lives can always say something higher
than what is said about it.  That is all the agreement there is, and it is enough: what is
wrong about the living is corrected by them, what is wrong about the dead by probes.

What is added to SWIM
---------------------
* *Everything is compared now and then.*  Rumours may miss somebody.  Two members compare one number for each part of
  the ring and exchange what differs.  That is done with the dead, too: so two halves of a parted network, each of
  which has declared the other dead, find together again.
* *A refused connection*, together with silence, is death at once, without suspicion: no process is there to object.
* *Old beliefs are milder than news.*  That a member is dead counts at once if it is news.  In a comparison it may be
  what the other side of a partition has believed for long, and is taken for a suspicion.  Otherwise both sides, when
  they find together again, would lose everybody for a moment.  (HashiCorp's memberlist does so, too.)
* *Lives.*  A process that starts again under the same key is another life, with a higher incarnation, made of the time.
  For the peer, that is one lost and one seen: what the former life had in memory is gone.  A clock that went
  back does not hurt: a newcomer first hears what is believed of its key, and begins above that.
* *One key, two peers*: only one of them can be a member (:mod:`p2prdf.overlay.swim_own`).

Rejected: agreeing on each change of the view (Rapid; a log of views): the changes could be followed in one order, but a
majority would have to be reachable, and nothing here needs that order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log10
from typing import TYPE_CHECKING, Final, assert_never

from p2prdf.overlay.swim_clock import Clocks
from p2prdf.overlay.swim_config import ZONE_CHARACTERS_MAX, Entropy, SwimConfig
from p2prdf.overlay.swim_exchange import Exchange
from p2prdf.overlay.swim_messages import (
    NEWS_BYTES_MAX,
    Answer,
    AskProbe,
    Broken,
    Compare,
    Create,
    Gossip,
    Introduce,
    Knock,
    Leave,
    OtherTime,
    Packet,
    Post,
    Probe,
    Record,
    Refused,
    Report,
    Share,
    State,
    Stranger,
    SwimEffect,
    SwimMessage,
    SwimRequest,
)
from p2prdf.overlay.swim_own import Own
from p2prdf.overlay.swim_probe import Prober, sample
from p2prdf.overlay.swim_table import News, Table
from p2prdf.overlay.timers import Timers
from p2prdf.wire.contract import ContactLost, ContactSeen, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.wire.messages import Contact

__all__ = ["Swim"]

ANNOUNCE_MAX: Final = 16
"""Members that a newcomer tells of itself; rumour tells the others."""
GOODBYES_MAX: Final = 64
SUSPECTS_PROBED_BY: Final = 32
"""In a view of at most so many members everyone probes a member that is suspected."""
CLOCKS_AT_START: Final = 8
"""Members whose clocks a newcomer measures at once."""


@dataclass(slots=True, eq=False)
class _Suspicion:
    """A member's time to object."""

    began: float
    excuses: int = 0


class Swim:
    """One member, without input or output.

    ``now`` is in seconds since the epoch, here and in every call, and never goes back.  ``linked`` tells whether a
    connection with the peer of a key stands.
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
        """Whether the view is all there is: it was equal to another member's once, and has had room since."""
        self.counts: dict[str, int] = {}
        self._entropy = entropy
        self._linked = linked or (lambda _: False)
        self._left = False
        self._effects: list[SwimEffect] = []
        self._timers = Timers()
        self._self = Own(own, zone, self, self._timers, entropy)
        self._table = Table(self.config)
        self.living = self._table.living
        self._news = News(self.config)
        self.clocks = Clocks(self.config)
        self._clock_reported = False
        self._prober = Prober(self, self._timers, self.config, entropy)
        self._suspicions: dict[int, _Suspicion] = {}
        self._exchange = Exchange(self, self._self, self._table, self._news, self._timers, self.config, entropy)

    @property
    def member(self) -> bool:
        """Whether this peer is a member of the view."""
        return self._self.member

    @property
    def record(self) -> Record:
        """What this peer says of itself."""
        return self._self.record

    @property
    def greeting(self) -> Record:
        """What this peer says of itself with everything: incarnation 0 while it is no member."""
        return self.record if self.member else replace(self.record, incarnation=0)

    @property
    def out(self) -> bool:
        """Whether this peer stays out because another one has its key."""
        return not self.member and self.counts.get("position_taken", 0) > 0

    # --- the contract ----------------------------------------------------------------------------

    def submit(self, request: SwimRequest, *, now: float) -> list[SwimEffect]:
        """Take a request of the driver."""
        self._begin(now)
        if self._left:
            return []
        match request:
            case Create():
                if not self.member:
                    self._self.admit()
            case Introduce(contact):
                if not self.member or contact not in self.contacts():
                    self._exchange.introduced(contact)
            case Broken(key):
                if key in self.living:
                    self._prober.examine(self.living[key].contact)
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
        """Take in a packet.  Nothing in it can make this raise."""
        self._begin(now)
        sender = packet.sender
        if self._left or sender.contact == self.own:
            return []
        if sender.incarnation:
            self._hear(sender)
        shared = isinstance(packet.message, Share)
        for record in packet.news:
            self._merge(record, shared=shared)
        self._take(packet)
        if sender.incarnation:
            self._prober.heard(sender.contact)
        return self._end()

    def wake(self, *, now: float) -> list[SwimEffect]:
        """Do what is due."""
        self._begin(now)
        if self._timers.run(self.now):
            self._prober.trouble()
            self._count("late")
        return self._end()

    @property
    def deadline(self) -> float | None:
        """When to call ``wake``."""
        return self._timers.deadline

    def contacts(self) -> list[Contact]:
        """Return the living others, the suspected among them."""
        return [record.contact for record in self.living.values()]

    def status(self) -> dict[str, object]:
        """Return counters and sizes, and what is believed of each member, as plain JSON values."""
        return {
            "member": self.member,
            "complete": self.complete,
            "incarnation": self.record.incarnation,
            "zone": self.record.zone,
            "refused_full": self._table.refused,
            "probing": self._prober.under_way,
            "news": len(self._news),
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

    def post(self, to: Contact, message: SwimMessage, news: tuple[Record, ...] | None = None) -> None:
        """Send a message, with news: first of all what is said about the receiver, if that is not good."""
        if news is None:
            known = self._table.get(to.key)
            ill = known if known is not None and known.state is not State.ALIVE else None
            news = self._news.take(NEWS_BYTES_MAX - _bytes(message), len(self.living) + 1, ill)
        self._effects.append(Post(to, Packet(self.greeting, int(self.now * 1e6), message, news)))

    def knock(self, contact: Contact) -> None:
        """Have a connection tried."""
        self._effects.append(Knock(contact))

    def some(self, count: int) -> list[Contact]:
        """Return some living others, in random order."""
        return [record.contact for record in sample(list(self.living.values()), count, self._entropy)]

    # --- messages --------------------------------------------------------------------------------

    def _hear(self, sender: Record) -> None:
        """Take in that a member speaks, and what it says about itself."""
        if sender.contact.key == self.own.key:
            self._self.met(sender)
        else:
            self._merge(sender)

    def _take(self, packet: Packet) -> None:
        sender, message = packet.sender.contact, packet.message
        match message:
            case Probe(request):
                self.post(sender, Answer(request))
                return  # which also tells the sender what is said about it
            case Answer():
                asked_at = self._prober.answered(sender, message) if packet.sender.incarnation else None
                if asked_at is not None and sender.key in self.living:
                    self.clocks.measure(sender.key, packet.clock / 1e6, asked_at, self.now)
                    self._judge_clock()
            case AskProbe():
                self._prober.help(sender, message)
            case Report():
                self._prober.reported(message)
            case Compare():
                self._exchange.compared(sender, message)
                return
            case Gossip() | Share() | OtherTime():
                pass
            case _:
                assert_never(message)
        known = self._table.get(sender.key)
        if known is not None and known.state > State.ALIVE and packet.sender.rank < known.rank:
            self.post(sender, Gossip())  # it does not know what is said about it

    def tidy(self) -> None:
        """Forget who has been gone for long, and measurements that are old."""
        self._table.forget(self.now)
        self._judge_clock()

    def _judge_clock(self) -> None:
        self.clocks.judge(self.now, len(self.living))
        if self.complete and self.clocks.suspect != self._clock_reported:  # before, it serves nobody anyway
            self._clock_reported = self.clocks.suspect
            if self.clocks.reason is None:
                self._trace("clock_trusted")
            else:
                self._trace("clock_suspect", reason=self.clocks.reason)

    # --- beliefs ---------------------------------------------------------------------------------

    def _merge(self, record: Record, *, shared: bool = False) -> None:
        """Take in what somebody believes, if that is news here; ``shared``: it may have been believed for long."""
        if record.contact.key == self.own.key:
            self._self.said(record)
        elif self._table.better(record):
            if shared and record.state is State.DEAD and record.contact.key in self.living:
                record = replace(record, state=State.SUSPECT)
                if not self._table.better(record):
                    return
            self._believe(record, "told")

    def _believe(self, record: Record, reason: str) -> None:
        """Put a better belief into the table, and draw all conclusions."""
        key = record.contact.key
        before = self.living.get(key)
        if not self._table.put(record, self.now):
            if self.complete:
                self.complete = False
                self._trace("view_full", view_max=self.config.view_max)
            return
        if self.complete:  # a newcomer is told what everybody knows
            self._exchange.pass_on(record)
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
        self._timers.at(self.now + self._patience, lambda: self._objected(key, suspicion))
        if len(self.living) <= SUSPECTS_PROBED_BY:
            self._prober.probe(record.contact)

    @property
    def _patience(self) -> float:
        """How long a suspected member may refute.  A member that distrusts itself waits longer (Lifeguard)."""
        return self.config.suspicion_seconds * max(1.0, log10(len(self.living) + 1)) * (1 + self._prober.score)

    def _objected(self, key: int, suspicion: _Suspicion) -> None:
        """Declare a suspected member dead that has not objected, unless it may just be busy."""
        if self._suspicions.get(key) is not suspicion:
            return
        until = suspicion.began + self.config.linked_seconds
        if self.now < until and self._linked(key):
            again = min(until, self.now + self.config.probe_seconds)
        elif self.now < self._timers.grace_until and suspicion.excuses < 3:
            suspicion.excuses += 1
            again = self._timers.grace_until
        else:
            self._believe(replace(self.living[key], state=State.DEAD), "silent")
            return
        self._timers.at(again, lambda: self._objected(key, suspicion))

    # --- what probing finds out (Hub) ------------------------------------------------------------

    def silent(self, contact: Contact, *, refused: bool) -> None:
        """Believe a silent member to be dead, or suspect it."""
        record = self.living.get(contact.key)
        if record is None or record.contact != contact:
            return
        if refused:
            self._believe(replace(record, state=State.DEAD), "refused")
        elif record.state is State.ALIVE:
            self._believe(replace(record, state=State.SUSPECT), "silent")

    # --- the own identity (Society) --------------------------------------------------------------

    def objected(self, believed: Record) -> None:
        """Tell others of the raised incarnation."""
        if believed.state is not State.ALIVE:
            self._prober.trouble()
        self._count("objected")
        self._exchange.pass_on(self.record)

    def position_taken(self, twin: Contact) -> None:
        """Stay out, and try to join again later by whoever is known."""
        self._trace("position_taken", by=str(twin))
        self._exchange.left_out()

    def admitted(self) -> None:
        """Begin to be a member."""
        self.complete = True
        self._trace("view_joined", members=len(self.living) + 1)
        self._prober.start()
        self._exchange.joined()
        self._exchange.pass_on(self.record)
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
    """Return how much room a message takes from news."""
    return 9 * len(message.digests) if isinstance(message, Compare) else 0
