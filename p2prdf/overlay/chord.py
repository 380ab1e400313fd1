"""One peer of a Chord ring: joining, keeping the ring together while peers come and go, looking up.

The problem
-----------
In Chord (Stoica et al. 2001) each peer points to its successors and to its predecessor, and repairs these
pointers from time to time.  As published the repairs can break the ring: Zave (2012) showed that none of the
claimed invariants holds, and gave operations that do keep one ("Reasoning about identifier spaces: how to make
Chord correct", IEEE TSE 2017).  This machine performs hers.

The idea
--------
* A member adopts a pointer only together with what the peer behind it says *now*: whoever adopts s as its first
  successor has just read the list of s, and takes s followed by that list, cut to length.
* *Join* (:mod:`p2prdf.overlay.chord_join`): take over the list of the last peer before the own position.
* *Stabilise*, now and then: read the first successor s; if it is gone, drop it and read the next.  Adopt its
  list.  If anyone live is known to lie between this peer and s (first of all the predecessor of s, but
  the argument holds for any member), read that one, and adopt it if it answers.  In any case notify the first
  successor in the end.
* *Changed*: whoever gets other pointers tells its predecessor, and whoever was notified in vain is told as well; they
  stabilise then.  So news goes back along the ring at once, and pauses only matter when messages are lost.
* *Rectify*, when notified: ping the predecessor; the notifier takes its place if that one is gone or if the
  notifier is closer.

Reading and writing as one step
-------------------------------
The proof takes "read the state of another, change the own" for one step.  Between a question and its answer
the own state is therefore undefined, and must not be told.  A peer with such a question under way (a *query*;
there is one at a time) answers RingBusy to GetRing.  Pings are answered at once, as they tell nothing of it.
Zave's rules let the asked peer keep the question until it is done.  Here it does not, and the asker gives up
and tries again a moment later: if everyone in a circle stabilises at once, each waiting for the next, nobody
waits for ever, nothing needs a bound, and as the pauses differ from peer to peer, one comes through.  Routing
(FindSuccessor) is no reading of state: whatever a lookup says is checked before it is adopted.

The invariant, and what it takes
--------------------------------
A *principal* is a member that no member skips: in no member's list, the member itself put in front, do two
neighbours have it strictly between them.  Zave's invariant: every member has a live successor in its list, and
there are at least R + 1 principals, R being the length of the lists.  It follows that there is one ring, in
order, that all members lead to.  It holds as long as no failure leaves a member without a live successor or
the ring with fewer principals, and a silent peer is a dead one.  (:mod:`p2prdf.sim.chord_world` checks it after every
step.)  A ring that begins with one member does not have it at first: until R + 1 have joined, the ring grows
correctly as long as nobody fails, and a failure may part it.

Beyond the theory
-----------------
What follows is not in the proof, and is needed in practice, where failures come as they like.

* A peer that has lost all successors is a ring of one, and goes on from any live peer it knows.
* Two rings are joined by whoever is introduced to a member of the other: it looks up its own successor there and,
  if that one is closer than its own, adopts it, read first as always.  Stabilising does the rest, as if the one
  ring had joined the other.  Every adoption shortens the way of a pointer, so of two rings none comes about that
  winds round twice, while nobody fails.  Of many that meet at once one might; it shows when a peer asks somebody else
  for its own successor, which is therefore done now and then in the own ring, too.
* Who leaves tells everyone it knows, which for them is a failure found early.
* Who answers but is no member (it restarted and has not joined again) is as good as gone.
* A position belongs to whoever had it first and lives.  A second one is not let in, and if it got in while the first
  was still joining, it goes when it finds the first to be the predecessor of its successor.

A list that has come round ends with the peer itself, and is shorter than R then; what other peers' lists lack
to that (they do not know of a newcomer yet) is never made up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, assert_never

from p2prdf.overlay.chord_config import ChordConfig
from p2prdf.overlay.chord_join import Joining
from p2prdf.overlay.chord_lookup import ChordTable, ahead, between, successor_list
from p2prdf.overlay.chord_messages import (
    Answer,
    Changed,
    Create,
    FindSuccessor,
    GetRing,
    Introduce,
    Leave,
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
    RingRequest,
    Suspect,
)
from p2prdf.overlay.chord_search import Searches
from p2prdf.overlay.chord_talk import Talk
from p2prdf.wire.contract import FindOwner

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.wire.messages import Contact

__all__ = ["Chord", "ChordConfig"]

_HINTS_MAX: Final = 16
_PROBE_ROUNDS: Final = 8
"""Every so many rounds somebody else is asked for the own successor."""


@dataclass(slots=True, eq=False)
class _Query:
    """A change of the own pointers under way.  Whatever belongs to one that is over does nothing."""

    began_at: float


class Chord:
    """One peer of a ring, without input or output.

    ``first_request``: a random number below 2^63, so that answers to a former life are not taken for answers to
    this.  ``patience`` says how many silences in a row prove a peer gone; ``config.silences`` if it is not given.
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
        self._searches = Searches(self._talk, self)
        self._table: ChordTable | None = None
        self._query: _Query | None = None
        self._notifier: Contact | None = None
        self._joining = Joining(self._talk, self._searches, self._become_member)
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
            FindSuccessor: self._on_find_successor,
            Notify: self._on_notify,
            Changed: self._on_changed,
            Leaving: self._on_leaving,
            **dict.fromkeys((Pong, Ring, RingBusy, Names, NotMember), self._talk.answer),
        }

    # --- the contract ----------------------------------------------------------------------------

    def submit(self, request: RingRequest, *, now: float) -> list[RingEffect]:
        """Take a request of the driver."""
        self._talk.observe(now)
        match request:
            case Create():
                if not self.member and not self._left:
                    self._become_member((self.own,))
            case Introduce(contact):
                self._introduce(contact)
            case FindOwner(key):
                self._searches.find_owner(key)
            case Suspect(key):
                suspected = self._talk.contacts.find(key)
                if suspected is not None:
                    self._talk.ping(suspected)
            case Leave():
                self._leave()
            case _:
                assert_never(request)
        return self._talk.flush()

    def receive(self, message: RingMessage, *, sender: Contact, now: float) -> list[RingEffect]:
        """Take a message of another peer; whatever it says, nothing is raised."""
        self._talk.observe(now)
        if sender.key == self.own.key:
            self._from_own_position(message, sender)
        else:
            self._talk.contacts.spoke(sender)
            self._handlers[type(message)](message, sender)
            if not isinstance(message, Answer | Leaving):  # an answer has told already who that is
                self._talk.meet(sender)
        return self._talk.flush()

    def wake(self, *, now: float) -> list[RingEffect]:
        """Do what is due."""
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
        """When to call :meth:`wake` next."""
        stabilise_at = self._stabilise_at if self._query is None else None
        due = (self._talk.deadline, self._joining.deadline, stabilise_at, self._tend_at)
        return min((at for at in due if at is not None), default=None)

    # --- what is known ---------------------------------------------------------------------------

    @property
    def table(self) -> ChordTable:
        """The routing table: the ring's pointers, and everyone else who answers."""
        if self._table is None:
            others = dict.fromkeys([*self._searches.fingers.values(), *self._talk.contacts.live()])
            self._table = ChordTable(self.own, self.predecessor, self.successors, tuple(others))
        return self._table

    @property
    def fingers(self) -> dict[int, Contact]:
        """The fingers found so far, by the power of two, beyond the successor list."""
        return dict(self._searches.fingers)

    def contacts(self) -> list[Contact]:
        """Return the live peers: those that have answered as members."""
        return self._talk.contacts.live()

    def fell_silent(self, contact: Contact) -> bool:
        """Tell whether a peer stopped answering lately, without a word."""
        return self._talk.contacts.is_silent(contact, self._talk.now)

    def status(self) -> dict[str, Any]:
        """Return the pointers and counts for people and monitoring."""
        return {
            "member": self.member,
            "predecessor": str(self.predecessor) if self.predecessor else None,
            "successors": [str(contact) for contact in self.successors],
            "fingers": len(set(self._searches.fingers.values())),
            "questions": self._talk.waiting,
            "lookups_waiting": self._searches.waiting,
            "counts": dict(self._talk.counts),
        }

    # --- what the parts call ---------------------------------------------------------------------

    def changed(self) -> None:
        """Have the routing table made anew."""
        self._table = None

    def wants(self, contact: Contact) -> bool:
        """Tell whether the ring points to a peer, or perhaps should."""
        return between(self.own.key, contact.key, self.successors[0].key) or contact in self._named()

    def met(self, contact: Contact) -> None:
        """Take note that a peer is live; read it soon if it is closer than the first successor."""
        self._table = None
        if between(self.own.key, contact.key, self.successors[0].key):
            self._hurry()

    def drop(self, contact: Contact) -> None:
        """Take a peer out of all pointers."""
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
        """Return everyone the ring's pointers name."""
        named = [*self.successors, *self._searches.fingers.values()]
        if self.predecessor is not None:
            named.append(self.predecessor)
        return [contact for contact in dict.fromkeys(named) if contact.key != self.own.key]

    # --- being a member or not -------------------------------------------------------------------

    def _introduce(self, contact: Contact) -> None:
        if contact.key == self.own.key or self._left:
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
        """Be no member any more, as another has this position; try to join again in case it goes."""
        self._talk.trace("position_taken", by=str(rival))
        door = self.successors[0]
        self.member = False
        self.predecessor = self._notifier = self._query = None
        self.successors = (self.own,)
        self._table = None
        self._stabilise_at = self._tend_at = None
        self._joining.later(door)

    # --- stabilise -------------------------------------------------------------------------------

    def _hurry(self) -> None:
        """Stabilise as soon as no query is under way, but not without a pause."""
        if self.member:
            self._stabilise_at = max(self._talk.now, self._rested_from + self.config.retry_seconds)

    def _hint(self, contact: Contact) -> None:
        """Have somebody read at the next stabilisation who may be closer than the first successor."""
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
        """Give way to a peer of the own position that the successor knows; go on if it is the own former life."""
        if self._query is not query:
            return
        if not lives:
            self._read_closer(query, None)
            return
        self._step_back(rival)

    def _read_closer(self, query: _Query, told: Contact | None) -> None:
        """Read whoever is closest before the first successor, so that it may take its place."""
        closer = self._closer(told)
        if closer is None:
            self._stabilised(query)
        else:
            self._talk.read(closer, partial(self._closer_read, query, closer))

    def _closer(self, told: Contact | None) -> Contact | None:
        """Return the next known peer clockwise that lies before the first successor."""
        candidates = [*self._hints.values(), *self._talk.contacts.live()]
        if told is not None and not self._talk.contacts.is_silent(told, self._talk.now):
            candidates.append(told)
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
        """End a stabilisation: notify the first successor, and rest."""
        if self.successors[0] != self.own:
            self._talk.post(self.successors[0], Notify())
        self._rest(query, self.config.stabilise_seconds)

    def _put_off(self, query: _Query) -> None:
        """Give a stabilisation up for a moment, as the peer to be read is busy."""
        self._talk.count("busy_met")
        self._rest(query, self.config.retry_seconds)

    def _rest(self, query: _Query, pause: float) -> None:
        # Whoever is hardly ever at rest can hardly ever be read: rest about as long as that took.
        self._query = None
        self._rested_from = self._talk.now
        pause = max(pause, self._talk.now - query.began_at)
        self._stabilise_at = self._talk.now + pause * self._talk.spread(0.25)
        self._rectify()

    def _set_successors(self, successors: tuple[Contact, ...]) -> None:
        if successors != self.successors:
            self.successors = successors
            self._pressed = 0
            self._tell_predecessor()
            self._pointers_changed()

    def _tell_predecessor(self) -> None:
        """Have the predecessor take over what is new, so that news travels back along the ring at once."""
        if self.predecessor is not None:
            self._talk.post(self.predecessor, Changed())

    def _on_changed(self, _message: Changed, sender: Contact) -> None:
        """Stabilise soon; less and less so if that is said again and again, for then it does not help."""
        if sender == self.successors[0] and self.member:
            now, period = self._talk.now, self.config.stabilise_seconds
            self._pressed = self._pressed + 1 if now - self._pressed_at < 2 * period else 0
            self._pressed_at = now
            pause = min(self.config.retry_seconds * 2 ** min(self._pressed, 8), period)
            self._stabilise_at = min(self._stabilise_at or now + period, max(now, self._rested_from + pause))

    def _pointers_changed(self) -> None:
        """Get to know those now pointed to."""
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
        """Deal with the best notifier, unless a query is under way: then when that is over."""
        if self._query is not None or self._notifier is None:
            return
        notifier, self._notifier = self._notifier, None
        if self.predecessor is None:
            self._set_predecessor(notifier)
        elif self.predecessor != notifier:
            query = self._query = _Query(self._talk.now)
            self._talk.check(self.predecessor, partial(self._predecessor_checked, query, notifier))

    def _predecessor_checked(self, query: _Query, notifier: Contact, _lives: bool) -> None:
        """Put the notifier in place if the predecessor is gone (and has been dropped) or further away."""
        if self._query is not query:
            return
        self._query = None
        if self.predecessor is None or between(self.predecessor.key, notifier.key, self.own.key):
            self._set_predecessor(notifier)
        elif self.predecessor != notifier:
            self._talk.post(notifier, Changed())  # it does not know of the predecessor
        self._rectify()

    def _set_predecessor(self, contact: Contact) -> None:
        self._tell_predecessor()  # that somebody has come in between
        self.predecessor = contact
        self._pointers_changed()
        if self.successors[0] == self.own:
            self._hurry()

    # --- tending ---------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Ping who has not answered for a while, repair one finger, and sometimes ask for the own place."""
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

    # --- answering -------------------------------------------------------------------------------

    def _on_ping(self, message: Ping, sender: Contact) -> None:
        self._talk.post(sender, Pong(message.request, self.member))

    def _on_get_ring(self, message: GetRing, sender: Contact) -> None:
        if not self.member:
            self._talk.post(sender, NotMember(message.request))
        elif self._query is not None:
            self._talk.post(sender, RingBusy(message.request))
        else:
            self._talk.post(sender, Ring(message.request, self.predecessor, self.successors))

    def _on_find_successor(self, message: FindSuccessor, sender: Contact) -> None:
        if self.member:
            self._talk.post(sender, Names(message.request, self.table.answer(message.key)))
        else:
            self._talk.post(sender, NotMember(message.request))

    def _from_own_position(self, message: RingMessage, sender: Contact) -> None:
        """Let somebody else who claims the own position find out that it is taken, and nothing more."""
        if sender == self.own:
            return
        if isinstance(message, Ping):
            self._on_ping(message, sender)
        elif isinstance(message, Pong):
            self._talk.answer(message, sender)
        else:
            self._talk.trace("position_taken", by=str(sender))

    # --- leaving ---------------------------------------------------------------------------------

    def _on_leaving(self, message: Leaving, sender: Contact) -> None:
        self._talk.lose(sender, "left")
        for contact in message.successors[:_HINTS_MAX]:
            self._hint(contact)

    def _leave(self) -> None:
        """Tell everyone known; say no more than that this is no member from now on."""
        if self.member:
            for contact in dict.fromkeys([*self._named(), *self._talk.contacts.live()]):
                self._talk.post(contact, Leaving(self.successors))
        self._left = True
        self.member = False
        self._query = self._stabilise_at = self._tend_at = None
        self._joining.stop()
        self._talk.stop()
        self._searches.stop()
