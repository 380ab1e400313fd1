"""One peer of a Chord ring: joining, stabilisation, lookups.

The published protocol (Stoica et al. 2001) can break the ring.  This peer follows Zave's corrected one (IEEE TSE 2017):

* *Join* (:mod:`p2prdf.overlay.chord_join`): adopt the successor list of the last peer before the own position.
* *Stabilise*, periodically: read the first successor s, or the next one if s is gone, and adopt its list.  If a live
  peer between this peer and s is known, read and adopt that one.  Then notify the first successor.
* *Changed*: a peer with new pointers informs its predecessor, which stabilises.
* *Rectify*, when notified: check the predecessor.  The notifier replaces it if it is gone or further away.

Reading and adopting are one step: a peer with a query under way (one at a time) answers GetRing by RingBusy.

Invariant: each successor list contains a live member, and at least R + 1 members are skipped by no list, R being the
lists' length.  Proof, deviations, merged rings: docs/explanation/design/routing.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from p2prdf.overlay.chord_join import Joining
from p2prdf.overlay.chord_lookup import ChordTable, ahead, between, successor_list
from p2prdf.overlay.chord_search import Searches
from p2prdf.overlay.routed_config import ChordConfig
from p2prdf.overlay.routed_messages import (
    Changed,
    FindOwners,
    GetRing,
    Leaving,
    Names,
    Notify,
    NotMember,
    Ping,
    Pong,
    Ring,
    RingBusy,
    RingEffect,
    RingMessage,
)
from p2prdf.overlay.routed_peer import RoutedPeer
from p2prdf.overlay.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.wire.messages import Contact

__all__ = ["Chord", "ChordConfig"]

_HINTS_MAX: Final = 16
_PROBE_ROUNDS: Final = 8
"""Every so many rounds another peer is asked for this peer's successor."""


@dataclass(slots=True, eq=False)
class _Query:
    """A change of the own pointers under way.  Callbacks of a finished query do nothing."""

    began_at: float


class Chord(RoutedPeer):
    """One peer of a ring, without input or output.

    ``first_request``: a random number below 2^63, so that no answer to an earlier process of this peer is accepted.
    ``patience`` returns how many unanswered questions in a row prove a peer gone; by default ``config.silences``.
    """

    def __init__(
        self,
        own: Contact,
        config: ChordConfig | None = None,
        *,
        first_request: int = 0,
        patience: Callable[[Contact], int] | None = None,
    ):
        self.own = own
        self.config = config or ChordConfig()
        self.member = False
        self.predecessor: Contact | None = None
        self.successors: tuple[Contact, ...] = (own,)
        self._left = False
        self._talk = Talk(own, self.config, self, first_request=first_request, patience=patience)
        self._searches: Searches = Searches(self._talk, self)
        self._table: ChordTable | None = None
        self._query: _Query | None = None
        self._notifier: Contact | None = None
        self._joining = Joining(self._talk, self._searches, self.config, self._become_member)
        self._hints: dict[int, Contact] = {}
        self._rounds = 0
        self._rested_from = 0.0
        self._pressed = 0
        self._pressed_at = 0.0
        self._stabilise_at: float | None = None
        self._tend_at: float | None = None
        self._handlers: dict[type[RingMessage], Callable[[Any, Contact], None]] = {
            Ping: self._on_ping,
            GetRing: self._on_get_ring,
            FindOwners: self._on_find_owners,
            Notify: self._on_notify,
            Changed: self._on_changed,
            Leaving: self._on_leaving,
            **dict.fromkeys((Pong, Ring, RingBusy, Names, NotMember), self._talk.answer),
        }

    # --- time ------------------------------------------------------------------------------------

    def wake(self, *, now: float) -> list[RingEffect]:
        """Run the actions that are due."""
        self._talk.observe(now)
        self._talk.wake()
        self._joining.wake()
        if self._stabilise_at is not None and self._stabilise_at <= self._talk.now and self._query is None:
            self._stabilise_at = None
            self._stabilise()
        if self._tend_at is not None and self._tend_at <= self._talk.now:
            self._tend()
        return self._talk.flush()

    @property
    def deadline(self) -> float | None:
        """The time of the next call of :meth:`wake`."""
        stabilise_at = self._stabilise_at if self._query is None else None
        due = (self._talk.deadline, self._joining.deadline, stabilise_at, self._tend_at)
        return min((at for at in due if at is not None), default=None)

    # --- state -----------------------------------------------------------------------------------

    @property
    def table(self) -> ChordTable:
        """The routing table: the ring's pointers and all other live contacts."""
        if self._table is None:
            others = dict.fromkeys([*self._searches.fingers.values(), *self._talk.contacts.live()])
            self._table = ChordTable(self.own, self.predecessor, self.successors, tuple(others))
        return self._table

    @property
    def fingers(self) -> dict[int, Contact]:
        """The known fingers beyond the successor list, by exponent of their distance 2^i."""
        return dict(self._searches.fingers)

    def status(self) -> dict[str, Any]:
        """Return pointers and counters for people and monitoring."""
        return {
            "member": self.member,
            "predecessor": str(self.predecessor) if self.predecessor else None,
            "successors": [str(contact) for contact in self.successors],
            "fingers": len(set(self._searches.fingers.values())),
            "questions": self._talk.waiting,
            "lookups_waiting": self._searches.waiting,
            "counts": dict(self._talk.counts),
        }

    # --- callbacks of the parts ------------------------------------------------------------------

    def changed(self) -> None:
        """Discard the routing table, so that the next use rebuilds it."""
        self._table = None

    def wants(self, contact: Contact) -> bool:
        """Return whether the ring's pointers contain a peer, or may have to."""
        return between(self.own.key, contact.key, self.successors[0].key) or contact in self._named()

    def met(self, contact: Contact) -> None:
        """Note that a peer is live; read it soon if it is closer than the first successor."""
        self._table = None
        if between(self.own.key, contact.key, self.successors[0].key):
            self._hurry()

    def drop(self, contact: Contact) -> None:
        """Remove a peer from all pointers."""
        self._table = None
        if contact in self.successors:
            first = self.successors[0]
            self.successors = tuple(other for other in self.successors if other != contact) or (self.own,)
            if self.successors[0] == self.own:
                self._talk.trace("successors_lost", last=str(contact))
            if first == contact:
                self._hurry()
        if contact == self.predecessor:
            self.predecessor = None
        if contact == self._notifier:
            self._notifier = None
        self._hints.pop(contact.key, None)
        self._searches.drop(contact)

    def _named(self) -> list[Contact]:
        """Return all contacts in the ring's pointers."""
        named = [*self.successors, *self._searches.fingers.values()]
        if self.predecessor is not None:
            named.append(self.predecessor)
        return [contact for contact in dict.fromkeys(named) if contact.key != self.own.key]

    # --- membership ------------------------------------------------------------------------------

    def _create(self) -> None:
        if not self.member and not self._left:
            self._become_member((self.own,))

    def _introduce(self, contact: Contact) -> None:
        if self._left:
            return
        if self.member:
            self._searches.probe(contact, self._hint)
        else:
            self._joining.introduce(contact)

    def _become_member(self, successors: tuple[Contact, ...]) -> None:
        self._joining.stop()
        self.member = True
        self._talk.trace("ring_joined", alone=successors[0] == self.own)
        self._set_successors(successors)
        self._stabilise_at = self._tend_at = self._talk.now
        self._searches.start()

    def _step_back(self, rival: Contact) -> None:
        """Stop being a member, because another peer has this position; try to join again later."""
        self._talk.trace("position_taken", by=str(rival))
        seed = self.successors[0]
        self.member = False
        self.predecessor = self._notifier = self._query = None
        self.successors = (self.own,)
        self._table = None
        self._stabilise_at = self._tend_at = None
        self._joining.later(seed)

    # --- stabilise -------------------------------------------------------------------------------

    def _hurry(self) -> None:
        """Stabilise as soon as no query is under way, after a minimum pause."""
        if self.member:
            self._stabilise_at = max(self._talk.now, self._rested_from + self.config.retry_seconds)

    def _hint(self, contact: Contact) -> None:
        """Have a contact read at the next stabilisation, if it may be closer than the first successor."""
        if between(self.own.key, contact.key, self.successors[0].key) and len(self._hints) < _HINTS_MAX:
            self._hints[contact.key] = contact
            self._hurry()

    def _stabilise(self) -> None:
        query = self._query = _Query(self._talk.now)
        self._read_first(query)

    def _read_first(self, query: _Query) -> None:
        first = self.successors[0]
        if first == self.own:
            self._read_closer(query, self.predecessor)
        else:
            self._talk.read(first, partial(self._first_read, query, first))

    def _first_read(self, query: _Query, first: Contact, ring: Ring | RingBusy | None) -> None:
        if self._query is not query:
            return
        if ring is None:  # and the first successor has been dropped
            self._read_first(query)
        elif isinstance(ring, RingBusy):
            self._put_off(query)
        else:
            self._set_successors(successor_list(self.own, first, ring.successors, self.config.successors))
            rival = ring.predecessor
            if rival is not None and rival.key == self.own.key and rival != self.own:
                self._talk.check(rival, partial(self._rival_checked, query, rival))
            else:
                self._read_closer(query, ring.predecessor)

    def _rival_checked(self, query: _Query, rival: Contact, lives: bool) -> None:
        """Leave the position to a live rival that the successor knows.

        A rival that does not answer was an earlier process of this peer; the query continues.
        """
        if self._query is not query:
            return
        if not lives:
            self._read_closer(query, None)
            return
        self._step_back(rival)

    def _read_closer(self, query: _Query, reported: Contact | None) -> None:
        """Read the closest peer before the first successor, so that it may replace it."""
        closer = self._closer(reported)
        if closer is None:
            self._stabilised(query)
        else:
            self._talk.read(closer, partial(self._closer_read, query, closer))

    def _closer(self, reported: Contact | None) -> Contact | None:
        """Return the next known peer clockwise before the first successor."""
        candidates = [*self._hints.values(), *self._talk.contacts.live()]
        if reported is not None and not self._talk.contacts.is_silent(reported, self._talk.now):
            candidates.append(reported)
        self._hints.clear()
        first = self.successors[0].key
        near = [contact for contact in candidates if between(self.own.key, contact.key, first)]
        return min(near, key=lambda contact: ahead(self.own.key, contact.key), default=None)

    def _closer_read(self, query: _Query, closer: Contact, ring: Ring | RingBusy | None) -> None:
        if self._query is not query:
            return
        if isinstance(ring, Ring):
            self._set_successors(successor_list(self.own, closer, ring.successors, self.config.successors))
        if isinstance(ring, RingBusy):
            self._put_off(query)
        else:
            self._stabilised(query)

    def _stabilised(self, query: _Query) -> None:
        """End a stabilisation: notify the first successor, and pause."""
        if self.successors[0] != self.own:
            self._talk.post(self.successors[0], Notify())
        self._rest(query, self.config.stabilise_seconds)

    def _put_off(self, query: _Query) -> None:
        """Abort a stabilisation for a moment, because the peer to read is busy."""
        self._talk.count("busy_met")
        self._rest(query, self.config.retry_seconds)

    def _rest(self, query: _Query, pause: float) -> None:
        # A peer with a query under way cannot be read, so pause for about as long as the query took.
        self._query = None
        self._rested_from = self._talk.now
        pause = max(pause, self._talk.now - query.began_at)
        self._stabilise_at = self._talk.now + pause * self._talk.spread(0.25)
        self._rectify()

    def _set_successors(self, successors: tuple[Contact, ...]) -> None:
        if successors != self.successors:
            self.successors = successors
            self._pressed = 0
            self._inform_predecessor()
            self._pointers_changed()

    def _inform_predecessor(self) -> None:
        """Inform the predecessor, so that changes propagate back along the ring at once."""
        if self.predecessor is not None:
            self._talk.post(self.predecessor, Changed())

    def _on_changed(self, _message: Changed, sender: Contact) -> None:
        """Stabilise soon; after repeated messages later and later, as earlier stabilisations did not help."""
        if sender == self.successors[0] and self.member:
            now, period = self._talk.now, self.config.stabilise_seconds
            self._pressed = self._pressed + 1 if now - self._pressed_at < 2 * period else 0
            self._pressed_at = now
            pause = min(self.config.retry_seconds * 2 ** min(self._pressed, 8), period)
            self._stabilise_at = min(self._stabilise_at or now + period, max(now, self._rested_from + pause))

    def _pointers_changed(self) -> None:
        """Ping the contacts that are now in the pointers and not known to be live."""
        self._table = None
        named = self._named()
        self._talk.contacts.keep(named)
        for contact in named:
            if not self._talk.contacts.is_live(contact):
                self._talk.ping(contact)

    # --- rectify ---------------------------------------------------------------------------------

    def _on_notify(self, _message: Notify, sender: Contact) -> None:
        if self.member:
            if self._notifier is None or between(self._notifier.key, sender.key, self.own.key):
                self._notifier = sender
            self._rectify()

    def _rectify(self) -> None:
        """Check the closest notifier, after the current query if one is under way."""
        if self._query is not None or self._notifier is None:
            return
        notifier, self._notifier = self._notifier, None
        if self.predecessor is None:
            self._set_predecessor(notifier)
        elif self.predecessor != notifier:
            query = self._query = _Query(self._talk.now)
            self._talk.check(self.predecessor, partial(self._predecessor_checked, query, notifier))

    def _predecessor_checked(self, query: _Query, notifier: Contact, _lives: bool) -> None:
        """Adopt the notifier if the predecessor is gone (and has been dropped) or further away."""
        if self._query is not query:
            return
        self._query = None
        if self.predecessor is None or between(self.predecessor.key, notifier.key, self.own.key):
            self._set_predecessor(notifier)
        elif self.predecessor != notifier:
            self._talk.post(notifier, Changed())  # it does not know the predecessor yet
        self._rectify()

    def _set_predecessor(self, contact: Contact) -> None:
        self._inform_predecessor()  # the former predecessor has a new successor
        self.predecessor = contact
        self._pointers_changed()
        if self.successors[0] == self.own:
            self._hurry()

    # --- maintenance -----------------------------------------------------------------------------

    def _tend(self) -> None:
        """Ping contacts without a recent answer, repair one finger, and sometimes look up the own position."""
        self._tend_at = self._talk.now + self.config.tend_seconds * self._talk.spread(0.25)
        self._rounds += 1
        since = self._talk.now - self.config.tend_seconds / 2
        live = self._talk.contacts.live()
        for contact in dict.fromkeys([*self._named(), *live]):
            if not self._talk.contacts.answered_since(contact, since):
                self._talk.ping(contact)
        self._searches.fix_finger()
        if live and self._rounds % _PROBE_ROUNDS == 0:
            self._searches.probe(live[self._rounds // _PROBE_ROUNDS % len(live)], self._hint)

    # --- answers ---------------------------------------------------------------------------------

    def _on_get_ring(self, message: GetRing, sender: Contact) -> None:
        if not self.member:
            self._talk.post(sender, NotMember(message.request))
        elif self._query is not None:
            self._talk.post(sender, RingBusy(message.request))
        else:
            self._talk.post(sender, Ring(message.request, self.predecessor, self.successors))

    def _on_find_owners(self, message: FindOwners, sender: Contact) -> None:
        if self.member:
            self._talk.post(sender, Names(message.request, self.table.answer(message.key)))
        else:
            self._talk.post(sender, NotMember(message.request))

    # --- leaving ---------------------------------------------------------------------------------

    def _on_leaving(self, message: Leaving, sender: Contact) -> None:
        self._talk.lose(sender, "left")
        for contact in message.successors[:_HINTS_MAX]:
            self._hint(contact)

    def _leave(self) -> None:
        """Announce the departure to all contacts; afterwards answer as a non-member."""
        if self.member:
            for contact in dict.fromkeys([*self._named(), *self._talk.contacts.live()]):
                self._talk.post(contact, Leaving(self.successors))
        self._left = True
        self.member = False
        self._query = self._stabilise_at = self._tend_at = None
        self._joining.stop()
        self._talk.stop()
        self._searches.stop()
