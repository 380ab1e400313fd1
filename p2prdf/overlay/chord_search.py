"""The lookups of a Chord peer: owners for the application, its fingers, and its own position.

A lookup (:mod:`p2prdf.overlay.chord_lookup`) asks only peers before the key.  The owners that the predecessor names are
therefore pinged before the application receives them, which costs one round trip.  Owners that do not answer are left
out; the result still has no gap.  Rejected: to leave out recently silent peers without a ping, which would save a
timeout, but a peer that came back would be missing.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from p2prdf.overlay.chord_lookup import ChordTable, Lookup, ahead
from p2prdf.overlay.chord_messages import Answer, FindSuccessor, Names
from p2prdf.wire.contract import OwnersFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.chord_talk import Talk
    from p2prdf.wire.messages import Contact

__all__ = ["Place", "Searches"]

_RING: Final = 1 << 64
_PROBES_MAX: Final = 16
_SILENCES: Final = 2
"""A lookup skips a peer after so many unanswered requests.  A ping decides whether it is gone."""


class Place(Protocol):
    """The ring state that searches use."""

    member: bool
    successors: tuple[Contact, ...]

    @property
    def table(self) -> ChordTable:
        """The routing table."""
        ...

    def changed(self) -> None:
        """Note that a finger has changed."""
        ...


class Searches:
    """All lookups of one peer."""

    def __init__(self, talk: Talk, place: Place):
        self.fingers: dict[int, Contact] = {}
        """The first peer at distance 2^i or more, by i, for distances beyond the successor list."""
        self._talk = talk
        self._place = place
        self._bit = 63
        self._fixing = False
        self._probing = False
        self._to_probe: dict[Contact, None] = {}
        self._waiting: deque[int] = deque()
        self._under_way = 0
        self._starting = False
        self._stopped = False

    # --- for the application ---------------------------------------------------------------------

    def find_owner(self, key: int) -> None:
        """Look up the owners of a key as soon as this peer is a member; the outcome is an effect."""
        if self._stopped or len(self._waiting) >= self._talk.config.lookups_waiting_max:
            self._talk.count("lookups_refused")
            self._talk.effect(OwnersFound(key, (), complete=False))
        else:
            self._waiting.append(key)
            self.start()

    @property
    def waiting(self) -> int:
        """Number of lookups that have not started."""
        return len(self._waiting)

    def start(self) -> None:
        """Start as many lookups as may be in flight."""
        if self._starting or not self._place.member:
            return  # a lookup that ends at once calls this method again, and must not nest
        self._starting = True
        while self._waiting and self._under_way < self._talk.config.lookups_max:
            self._under_way += 1
            lookup = self._lookup(self._waiting.popleft(), self._place.table)
            self.search(lookup, partial(self._found, self._talk.now))
        self._starting = False

    def _found(self, began_at: float, lookup: Lookup) -> None:
        """Ping all owners in the result that have not answered since the lookup began."""
        contacts, own = self._talk.contacts, self._talk.own
        unchecked = {
            contact: None
            for contact in lookup.result
            if contact != own and not contacts.answered_since(contact, began_at)
        }
        for contact in list(unchecked):
            self._talk.check(contact, partial(self._checked, lookup, unchecked, contact))
        if not unchecked:
            self._report(lookup)

    def _checked(self, lookup: Lookup, unchecked: dict[Contact, None], contact: Contact, lives: bool) -> None:
        if not lives:
            lookup.failed(contact)
        del unchecked[contact]
        if not unchecked:
            self._report(lookup)

    def _report(self, lookup: Lookup) -> None:
        self._under_way -= 1
        self._talk.contacts.remember(tuple(contact for contact in lookup.result if contact != self._talk.own))
        self._talk.effect(OwnersFound(lookup.target, lookup.result, lookup.complete, lookup.before))
        self.start()

    def stop(self) -> None:
        """Fail the queued lookups, and start no more."""
        self._stopped = True
        while self._waiting:
            self._talk.effect(OwnersFound(self._waiting.popleft(), (), complete=False))

    # --- for the ring ----------------------------------------------------------------------------

    def find_place(self, seed: Contact, done: Callable[[Lookup], None]) -> None:
        """Look up the own position through a peer that may belong to another ring."""
        own = self._talk.own
        self.search(self._lookup(own.key, ChordTable(own, None, (seed,), ())), done)

    def probe(self, contact: Contact, hint: Callable[[Contact], None]) -> None:
        """Ask a peer of this or another ring for this peer's successor; one request at a time."""
        if len(self._to_probe) < _PROBES_MAX:
            self._to_probe[contact] = None
        if not self._probing:
            self._probe_next(hint)

    def _probe_next(self, hint: Callable[[Contact], None]) -> None:
        self._probing = bool(self._to_probe) and not self._stopped
        if self._probing:
            contact = next(iter(self._to_probe))
            del self._to_probe[contact]
            self.find_place(contact, partial(self._probed, hint))

    def _probed(self, hint: Callable[[Contact], None], lookup: Lookup) -> None:
        own = self._talk.own
        if lookup.before != own:
            for contact in lookup.result[:2]:  # this peer's own ring names this peer first
                if contact != own:
                    hint(contact)
        self._probe_next(hint)

    def fix_finger(self) -> None:
        """Look up the next finger, from the longest to those that the successor list makes unnecessary."""
        if self._fixing:
            return
        own, reach = self._talk.own, self._reach
        if 1 << self._bit <= reach:
            for bit in [bit for bit in self.fingers if 1 << bit <= reach]:
                del self.fingers[bit]
                self._place.changed()
            self._bit = 63
        if 1 << self._bit > reach:
            self._fixing = True
            key = (own.key + (1 << self._bit)) % _RING
            self.search(self._lookup(key, self._place.table), partial(self._fixed, self._bit))

    @property
    def _reach(self) -> int:
        """The distance that the successor list covers."""
        return ahead(self._talk.own.key, self._place.successors[-1].key)

    def _fixed(self, bit: int, lookup: Lookup) -> None:
        """Store a finger, also for all shorter distances if no peer lies between."""
        self._fixing = False
        own, before = self._talk.own, lookup.before
        found = lookup.result[0] if lookup.result else own
        shortest = bit
        if before is not None:
            nobody_beyond = max(self._reach, ahead(own.key, before.key) if before != own else 0)
            while shortest > 0 and 1 << (shortest - 1) > nobody_beyond:
                shortest -= 1
        for same in range(shortest, bit + 1):
            self.fingers.pop(same, None)
            if found != own:
                self.fingers[same] = found
        self._bit = (shortest - 1) % 64
        if found != own and not self._talk.contacts.is_live(found):
            self._talk.ping(found)
        self._place.changed()

    def drop(self, contact: Contact) -> None:
        """Remove a lost peer from the fingers."""
        for bit in [bit for bit, finger in self.fingers.items() if finger == contact]:
            del self.fingers[bit]

    # --- all lookups -----------------------------------------------------------------------------

    def _lookup(self, key: int, table: ChordTable) -> Lookup:
        return Lookup(key, self._talk.own, table, count=self._talk.config.successors)

    def search(self, lookup: Lookup, done: Callable[[Lookup], None]) -> None:
        """Continue a lookup as far as possible without waiting."""
        for contact in lookup.requests():
            self._talk.ask(
                partial(FindSuccessor, key=lookup.target),
                contact,
                partial(self._answered, lookup, done, contact),
                partial(self._failed, lookup, done, contact),
                _SILENCES,
            )
        if lookup.done:
            done(lookup)

    def _answered(self, lookup: Lookup, done: Callable[[Lookup], None], contact: Contact, answer: Answer) -> None:
        if isinstance(answer, Names):
            lookup.answered(contact, answer.contacts)
        else:
            lookup.failed(contact)
        self.search(lookup, done)

    def _failed(self, lookup: Lookup, done: Callable[[Lookup], None], contact: Contact) -> None:
        if self._talk.contacts.is_live(contact):
            self._talk.ping(contact)
        lookup.failed(contact)
        self.search(lookup, done)
