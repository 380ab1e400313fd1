"""The messenger of a peer: clock, address cache, outbox, and operations that wait for a lookup.

All messages leave through this module, and it resolves the owners of keys.  An operation that cannot be routed yet is
*parked* as a call; a lookup is started, and its outcome runs all parked calls again.  An operation whose messages must
all arrive (a publication, an advertisement, an installation, a forwarded message) holds a *completion counter*
(:mod:`p2prdf.peer.network.completions`).  Each message sent or parked for it increments the counter, each
acknowledgement decrements it, and at zero its call runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from p2prdf import hlc, keys
from p2prdf.columns import Column, Columns, as_array, as_list
from p2prdf.errors import P2PRDFError, StampRefused
from p2prdf.overlay.address_cache import AddressCache
from p2prdf.overlay.outbox import Outbox, Transfer
from p2prdf.peer.network.completions import Completions
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.peer.network.config import PeerConfig
from p2prdf.peer.network.inbox import Inbox
from p2prdf.peer.network.pace import Pace
from p2prdf.peer.network.placement import UNKNOWN, placement_of
from p2prdf.peer.network.quorum import Members, MembersOfOneCopy
from p2prdf.peer.network.recovery import Recovery, RecoveryOfOneCopy
from p2prdf.peer.network.signals import Signals
from p2prdf.peer.network.tracing import Traces
from p2prdf.wire.contract import Effect, FindOwner, OwnersFound, Persist, Send, Trace
from p2prdf.wire.messages import (
    Acknowledge,
    BookmarksRequest,
    BookmarksResponse,
    Contact,
    CountsRequest,
    CountsResponse,
    DigestDiff,
    Envelope,
    KeyDepth,
    LoadRequest,
    LoadResponse,
    LowWatermark,
    MembersKnown,
    Message,
    NotOwner,
    PublisherReport,
    ReadTriples,
    RetentionReport,
    RootDigests,
    StreamReport,
    Traced,
    TriplesRead,
    WatchWatermarks,
)

__all__ = ["Messenger"]

_LOOKUP_RETRY_SECONDS = 1.0
_ATTEMPTS_MAX = 5
_APART_BITS = 14
"""Random bits in the 16-bit counter of a stamp, which may thus run a fraction of a millisecond ahead."""
_UNRELIABLE = (
    Acknowledge, NotOwner, LoadRequest, LoadResponse, KeyDepth, RootDigests, DigestDiff, WatchWatermarks,
    LowWatermark, StreamReport,
    PublisherReport, RetentionReport, BookmarksRequest, BookmarksResponse, CountsRequest, CountsResponse, Traced,
    ReadTriples, TriplesRead,
)  # fmt: skip


class Messenger(Component):
    """The messenger of a peer."""

    def __init__(
        self, own: Contact, config: PeerConfig, columns: Columns, first_transfer: int = 0, pace: Pace | None = None,
        draw: Callable[[int], int] | None = None,
    ):  # fmt: skip
        """``draw`` returns the given number of random bits."""
        self.own = own
        self.config = config
        self.placement = placement_of(self)
        self.pace = pace or Pace(config.turn_budget_seconds)
        self.columns = columns
        self.now = 0.0
        self.present = 0
        """The stamp of ``now``, without a counter."""
        self.stamp_bound = hlc.from_seconds(config.drift_max_seconds)
        """The latest stamp that this peer accepts; a later one is from the future."""
        self.clock = 0
        self.effects: list[Effect] = []
        self.after_turn: list[Callable[[], None]] = []
        """Calls for the time when all received items are stored."""
        self.strays: dict[int, Contact] = {}
        """By key lost peers to which a message was sent that had been buffered before the loss."""
        self.put_since_cut: list[Message] | None = None
        """Messages put into the outbox since a consistent cut, during the turn of the cut; else None."""
        self._on_closed: Callable[[Sequence[Transfer]], None] = lambda _: None
        self.restoring = False
        copies = self.placement.replicated
        self.recovery = Recovery() if copies else RecoveryOfOneCopy()
        self.signals = Signals()
        self.to_self: deque[Message] = deque()
        """Messages that turned out to be for this peer; handled in the next turn."""
        self._obsolete: dict[type[Message], Callable[[Any], bool]] = {}
        self.cache = AddressCache(own, config.overlay)
        self.contact = self.cache.contact
        self.outbox = Outbox(
            window=config.window_transfers,
            retry_seconds=config.retry_seconds,
            retry_max_seconds=4 * config.retry_seconds,
            first=first_transfer,
        )
        self.members = (Members if copies else MembersOfOneCopy)(
            own, config, self.cache, now=lambda: self.now, recovery=self.recovery, persist=self.persist,
            fewer_needed=self._see_whether_enough,
        )  # fmt: skip
        self._tokens = tokens = Completions(lambda: self.members.spare)
        self.token, self.hold, self.release = tokens.token, tokens.hold, tokens.release
        self.inbox = Inbox(tokens, self._tell_owners)
        self.draw = draw or self._draw
        self.traces = Traces(self, self.draw)
        self.recovery.requires(lambda: not self.members.copies_missing)
        self._parked: list[Callable[[], None]] = []
        self._lookups: set[int] = set()
        self._wanted: dict[int, None] = {}
        self._found: dict[int, int] = {}
        self.retry_lookups_at: float | None = None
        """When failed lookups are repeated."""
        self._view: int | None = None
        self._short: list[Callable[[], None]] = []
        self.life = 0
        """The stamp at which this process began; 0: nothing has happened in it yet."""
        self._kept = False
        """Whether this process has stored any record."""
        self.zones: dict[int, str] = {}
        """The failure zone of each peer that has one, by its key."""
        self._corrections: dict[Contact, dict[int, Contact]] = {}
        self.sent = 0
        self.lookups = 0
        self.passed_on = 0
        self.refused = 0
        """Messages of other peers that were refused."""

    # --- contract --------------------------------------------------------------------------------

    def handlers(self) -> Handlers:
        """Return the handlers of acknowledgements, corrections and spans."""
        return {
            Acknowledge: lambda sender, message: self.acknowledged(sender, message.transfers),
            NotOwner: self._not_owner,
            Traced: lambda _, message: self.traces.told(message),
        }

    def restorers(self) -> Restorers:
        """Return the method that restores the members."""
        return {MembersKnown: self.members.restore}

    def kept(self) -> Iterable[Message]:
        """Return the record of the members."""
        yield self.members.record()

    def status(self) -> Mapping[str, object]:
        """Return the counters of messages, lookups and members."""
        members = self.members
        return {
            "contacts": [str(each) for each in self.cache.contacts()],
            "sent": self.sent,
            "outbox": len(self.outbox),
            "retries": self.outbox.retries,
            "batches_waiting": self.parked,
            "lookups": self.lookups,
            "forwarded": self.passed_on,
            "forwarding": self.inbox.waiting,
            "operations_pending": self.undertakings,
            "refused": self.refused,
            "address_cache_size": self.cache.size,
            "address_cache_hits": self.cache.hits,
            "address_cache_misses": self.cache.misses,
            "replicas": self.config.replicas,
            "copies": members.copies,
            "copies_needed": members.copies_needed,
            "members_max": members.most,
            "in_sync": self.recovery.caught_up,
            "recovery": members.lacks.name.lower(),
            "receiving_handoff": self.recovery.receiving,
            **self.traces.status(),
        }

    def note_refused(self, sender: Contact, error: P2PRDFError) -> None:
        """Count and trace a message that its handler has refused."""
        self.refused += 1
        self.trace("message-refused", code=error.code, reason=str(error), sender=str(sender))

    def _not_owner(self, _: Contact, message: NotOwner) -> None:
        """Learn which peers are closer to keys; this peer's message has been forwarded to them."""
        for contact, before in zip_longest(message.contacts, message.before):
            self.placement.corrected(contact, before)

    # --- clock -----------------------------------------------------------------------------------

    def observe(self, now: float) -> None:
        """Note the driver's time, which is monotonic."""
        if now > self.now:
            self.now, self.present = now, hlc.from_seconds(now)
            self.stamp_bound = hlc.from_seconds(now + self.config.drift_max_seconds)
        if self.members.began is None:
            self.members.begin()

    def tick(self) -> int:
        """Return a stamp after all known ones."""
        self.clock = hlc.tick(self.clock, self.now)
        return self.clock

    def tick_apart(self) -> int:
        """Return a stamp as :meth:`tick` does, randomised so that other peers are unlikely to issue it."""
        apart = self.draw(_APART_BITS)
        self.clock = self.tick() + apart
        return self.clock

    def _draw(self, bits: int) -> int:
        """Return pseudo-random bits, for a peer without a source of randomness."""
        return keys.fmix(self.tick() ^ keys.fmix(self.own.key)) >> 64 - bits

    def merge(self, remote: int) -> None:
        """Advance the clock to that of a received envelope, as :func:`p2prdf.hlc.merge` does."""
        self.clock = max(self.clock, self.present, remote if remote <= self.stamp_bound else 0)

    def check_stamp(self, stamp: int, what: str) -> None:
        """Raise StampRefused for a stamp from the future; ``what`` names the stamped object."""
        if stamp > self.stamp_bound:
            raise StampRefused(
                f"{what} is stamped {hlc.shown(stamp)}, and this node takes stamps up to"
                f" {hlc.shown(self.stamp_bound)}, {self.config.drift_max_seconds:g} s ahead of its clock: compare the"
                " clocks of both sides, set the wrong one right and restart that process"
            )

    def advance(self, stamp: int) -> None:
        """Advance the clock past a stamp of an earlier process, unless the stamp is from the future."""
        if stamp <= self.stamp_bound:
            self.clock = max(self.clock, stamp)

    def trace(self, event: str, **fields: object) -> None:
        """Report an event to the driver, for a log line or a counter."""
        self.effects.append(Trace(event, fields))

    def persist(self, message: Message) -> None:
        """Have the driver store a message for :meth:`Peer.restore` after a restart."""
        if not self.config.durable or self.restoring:
            return
        if self.members.lacks and not (self._kept or self.members.restored or isinstance(message, MembersKnown)):
            # else the next process would take these records for all data of the peer
            self.effects.append(Persist(self.members.record()))
        self._kept = True
        self.effects.append(Persist(message))

    # --- owners of keys --------------------------------------------------------------------------

    def owners(self, ring_keys: Column) -> Column:
        """Return the contact number of each key's owner: 0 is this peer, -1 not known yet."""
        if isinstance(ring_keys, list):
            if self.config.address_cache:
                numbers = self.cache.resolve_list(ring_keys)
            else:
                numbers = [-1] * len(ring_keys)
            return self.with_found(ring_keys, numbers)
        if not self.config.address_cache:
            return np.array(self.owners(ring_keys.tolist()), np.int64)
        found = self.cache.resolve(ring_keys)
        return self.with_found(ring_keys, found)

    def with_found(self, ring_keys: Column, numbers: Column) -> Column:
        """Fill in the result of the lookup that has just ended."""
        if not self._found:
            return numbers
        if isinstance(ring_keys, list):
            pairs = zip(ring_keys, as_list(numbers), strict=True)
            return [self._found.get(key, UNKNOWN) if number < 0 else number for key, number in pairs]
        for at in np.flatnonzero(as_array(numbers, np.int64) < 0).tolist():
            numbers[at] = self._found.get(int(ring_keys[at]), UNKNOWN)
        return numbers

    @property
    def view(self) -> int:
        """A hash of the known ring: 0 if it is incomplete, else equal for equal knowledge.

        Two peers with equal views agree on every owner, so a receiver need not check the routing of the other.
        """
        if self._view is None:
            self._view = 0
            if self.placement.sees_ring:
                self._view = sum(self.placement.mark(contact) for contact in self.cache.contacts()) & (1 << 64) - 1
        return self._view

    def _ring_changed(self) -> None:
        self._view = None
        self.placement.ring_changed()

    def seen(self, contact: Contact, zone: str = "") -> bool:
        """Add a visible peer and its failure zone; return whether it was unknown."""
        self._ring_changed()
        if zone:
            self.zones[contact.key] = zone
        else:
            self.zones.pop(contact.key, None)
        return self.members.seen(contact)

    def told(self, owner: Contact, before: Contact | None) -> None:
        """Learn the owner of a forwarded message's key: of all keys after ``before``, if that is known."""
        self._ring_changed()
        if before is None:
            self.cache.seen(owner)
        else:
            self.cache.learn(owner.key, [owner], complete=False, before=before)

    def closest_known(self, ring_keys: Column) -> Column:
        """Return the contact number of the closest known peer per key."""
        if isinstance(ring_keys, list):
            return self.cache.nearest_known_list(ring_keys)
        return self.cache.nearest_known(ring_keys)

    def owner(self, key: int) -> Contact | None:
        """Return the owner of one key, or None if it is not known yet."""
        number = as_list(self.owners([key]))[0]
        return None if number < 0 else self.contact(number)

    def is_known(self, contact: Contact) -> bool:
        """Return whether a peer is known to be alive, or is this one."""
        return contact.key == self.own.key or self.cache.number(contact) >= 0

    def addressed(self, number: int) -> Contact:
        """Return the contact that a buffered message was routed to, under its number at that time.

        If that peer was lost meanwhile, the next :meth:`resend` returns it, and the message is routed again.
        """
        contact = self.contact(number)
        if not self.is_known(contact):
            self.strays[contact.key] = contact
        return contact

    def park(self, wanted: Sequence[int], again: Callable[[], None], tokens: tuple[int, ...] = ()) -> None:
        """Run ``again`` when a lookup has learned about the keys ``wanted``; completion counters wait for it."""
        self._parked.append(self._later(again, tokens))
        if self.config.address_cache:
            # One lookup reveals a whole zone, so a few keys are looked up first.
            wanted = wanted[: max(1, self.config.lookups_max // 4)]
        for key in wanted:
            if key not in self._lookups:
                self._wanted[key] = None
        self._start_lookups()

    def _start_lookups(self) -> None:
        if self.retry_lookups_at is not None:
            return
        while self._wanted and len(self._lookups) < self.config.lookups_max:
            key = next(iter(self._wanted))
            del self._wanted[key]
            self._lookups.add(key)
            self.lookups += 1
            self.effects.append(FindOwner(key))

    def owners_found(self, found: OwnersFound) -> None:
        """Handle the outcome of a lookup and retry the parked operations."""
        self._lookups.discard(found.key)
        if not found.contacts:
            self._wanted[found.key] = None
            self.retry_lookups_at = self.now + _LOOKUP_RETRY_SECONDS
            return
        self.cache.learn(found.key, found.contacts, found.complete, found.before)
        self._ring_changed()
        self.peers_came()
        self._found[found.key] = self.cache.nearest_known_list([found.contacts[0].key])[0]
        self.retry_parked()
        self._found.clear()

    def retry_parked(self) -> None:
        """Retry all operations that wait for a lookup."""
        parked, self._parked = self._parked, []
        self._wanted.clear()
        for again in parked:
            again()

    @property
    def undertakings(self) -> int:
        """Number of pending operations, such as publications and forwarded messages."""
        return len(self._tokens)

    @property
    def parked(self) -> int:
        """Number of batches that wait for a lookup, or for more peers."""
        return len(self._parked) + len(self._short)

    # --- too few peers ---------------------------------------------------------------------------

    def note_misplaced(self, rows: int) -> None:
        """Count rows that this peer stores although it may not be their replica."""
        self.recovery.misplaced += rows
        self.signals.misplaced.emit()

    def wait_for_peers(self, again: Callable[[], None], tokens: tuple[int, ...] = ()) -> None:
        """Run ``again`` when another peer has come; completion counters wait for it."""
        self._short.append(self._later(again, tokens))

    def _later(self, again: Callable[[], None], tokens: tuple[int, ...]) -> Callable[[], None]:
        """Return a call of ``again`` for which completion counters are held, in the trace of now."""
        self.hold(tokens)

        def run() -> None:
            again()
            self.release(tokens)

        return self.traces.later(run)

    def peers_came(self) -> None:
        """Retry the operations that had too few peers."""
        self.members.count()
        self._see_whether_enough()

    def _see_whether_enough(self) -> None:
        if not self.members.short_of_peers:
            waiting, self._short = self._short, []
            for again in waiting:
                again()

    # --- sending ---------------------------------------------------------------------------------

    def send(self, to: Contact, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Send a message until it is acknowledged; a copy already in flight for these counters suffices."""
        assert to.key != self.own.key, "a message to oneself is handled, not sent"
        if isinstance(message, _UNRELIABLE):
            self._out(to, message, 0)
            return
        if self.outbox.holds(to, message, tokens):
            return
        if tokens:
            self.hold(tokens, to.key)
        if self.put_since_cut is not None:
            self.put_since_cut.append(message)
        transfer = self.outbox.put(to, message, tokens, self.now)
        if transfer is not None:
            self._out(to, message, transfer.number)

    def _out(self, to: Contact, message: Message, number: int) -> None:
        self.sent += 1
        to = self.cache.present(to)  # its address may have changed since the first attempt
        self.clock = max(self.clock, self.present)
        if self.traces.live and (traced := self.traces.before(to, message)) is not None:
            self.effects.append(Send(to, Envelope(0, self.clock, traced)))
        self.effects.append(Send(to, Envelope(number, self.clock, message)))

    def pass_on(self, sender: Contact, owner: Contact, message: Any) -> None:
        """Forward the current message to a closer peer; it is acknowledged when it has arrived there."""
        self.not_mine(sender, owner)
        tokens = self.inbox.keep(self.inbox.current)
        self.send(owner, replace(message, hops=message.hops + 1), tokens)
        self.release(tokens)

    def _tell_owners(self, sender: Contact, ring_keys: Sequence[int]) -> None:
        for number in sorted(set(self.cache.nearest_known_list(ring_keys))):
            self._correct(sender, self.contact(number))

    def not_mine(self, sender: Contact, owner: Contact) -> None:
        """Count a forwarded message, and send its sender the address of the closer peer."""
        self.passed_on += 1
        self._correct(sender, owner)

    def _correct(self, sender: Contact, owner: Contact) -> None:
        if sender.key not in (self.own.key, owner.key):
            self._corrections.setdefault(sender, {})[owner.key] = owner

    @property
    def owes_acknowledgements(self) -> bool:
        """Whether received messages are not acknowledged yet."""
        return bool(self.inbox.done or self._corrections)

    def flush_acknowledgements(self) -> None:
        """Acknowledge the messages stored here, or at the next hop, since the last call.

        Corrections precede acknowledgements, because an acknowledged sender may forward its knowledge of owners.
        """
        for sender, owners in self._corrections.items():
            proven = {owner: before for owner in owners.values() if (before := self.cache.before(owner))}
            others = tuple(owner for owner in owners.values() if owner not in proven)
            if proven:
                self.send(sender, NotOwner(tuple(proven), tuple(proven.values())))
            if others:
                self.send(sender, NotOwner(others))
        self._corrections.clear()
        for sender, numbers in self.inbox.take_done().items():
            self.send(sender, Acknowledge(self.columns.column(numbers)))

    def acknowledged(self, sender: Contact, numbers: Column) -> None:
        """Close acknowledged messages in flight."""
        to_close = as_list(numbers)
        while to_close:
            closed, started = self.outbox.acknowledge(sender, to_close, self.now)
            to_close = [each.number for each in started if self._is_obsolete(each.message)]
            dropped = dict.fromkeys(to_close)
            for transfer in started:
                if transfer.number not in dropped:
                    self._out(transfer.to, transfer.message, transfer.number)
            self._on_closed(closed)
            for transfer in closed:
                if transfer.tokens:
                    self.release(transfer.tokens, transfer.to.key)

    def when_closed(self, receiver: Callable[[Sequence[Transfer]], None]) -> None:
        """Call ``receiver`` with the messages that receivers have acknowledged."""
        self._on_closed = receiver

    def obsolete_if(self, kind: type[Message], condition: Callable[[Any], bool]) -> None:
        """Stop repeating messages of a type once they fulfil a condition."""
        self._obsolete[kind] = condition

    def _is_obsolete(self, message: Message) -> bool:
        condition = self._obsolete.get(type(message))
        return condition is not None and condition(message)

    def resend(self) -> list[Contact]:
        """Repeat overdue messages, and failed lookups.

        Returns the peers that are not in the address cache any more and have not answered for long, or were lost before
        a buffered message left (:meth:`addressed`).
        """
        gone = {key: each for key, each in self.strays.items() if self.cache.number(each) < 0}  # others are back
        self.strays = {}
        for transfer in self.outbox.overdue(self.now):
            if transfer.attempts > _ATTEMPTS_MAX and self.cache.number(transfer.to) < 0:
                gone[transfer.to.key] = transfer.to
            elif self._is_obsolete(transfer.message):
                self.acknowledged(transfer.to, self.columns.column([transfer.number]))
            else:
                self._out(transfer.to, transfer.message, transfer.number)
        if self.retry_lookups_at is not None and self.now >= self.retry_lookups_at:
            self.retry_lookups_at = None
            self._start_lookups()
        return list(gone.values())

    def give_up(self, contact: Contact, *, left: bool = False) -> list[Transfer]:
        """Forget a peer that has ``left`` or is lost; return its messages in flight, counters still held."""
        self.members.lost(contact, left=left)
        self._tokens.fewer()
        self._ring_changed()
        return self.outbox.lost(contact)
