"""What a Chord peer looks up: owners for the application, its fingers, and its own place.

A lookup (:mod:`p2prdf.overlay.chord_lookup`) asks only peers before the key; those at or after it are as the
predecessor told.  Before an outcome is given to the application, they are asked whether they live, which costs one
more round trip; who does not is left out, and that leaves no gap.  Leaving out unasked who fell silent lately
would save a timeout, but one that came back would be missing.
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
"""A peer that says nothing so often is stepped over; whether it is gone is for others to find out."""


class Place(Protocol):
    """Where on the ring this peer is."""

    member: bool
    successors: tuple[Contact, ...]

    @property
    def table(self) -> ChordTable:
        """The routing table."""
        ...

    def changed(self) -> None:
        """Take note that a finger has changed."""
        ...


class Searches:
    """All lookups of one peer."""

    def __init__(self, talk: Talk, place: Place):
        self.fingers: dict[int, Contact] = {}
        """By power of two: the first peer that far ahead, for those beyond the successor list."""
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
        """Look up the owners of a key, once this peer is a member; the outcome is an effect."""
        if self._stopped or len(self._waiting) >= self._talk.config.lookups_waiting_max:
            self._talk.count("lookups_refused")
            self._talk.effect(OwnersFound(key, (), complete=False))
        else:
            self._waiting.append(key)
            self.start()

    @property
    def waiting(self) -> int:
        """Number of lookups that have not begun."""
        return len(self._waiting)

    def start(self) -> None:
        """Begin as many lookups as may be under way."""
        if self._starting or not self._place.member:
            return  # one that ends at once comes back here, and must not nest
        self._starting = True
        while self._waiting and self._under_way < self._talk.config.lookups_max:
            self._under_way += 1
            lookup = self._lookup(self._waiting.popleft(), self._place.table)
            self.search(lookup, partial(self._found, self._talk.now))
        self._starting = False

    def _found(self, began_at: float, lookup: Lookup) -> None:
        """Ask everyone in the outcome that has not answered since the lookup began, all at once."""
        contacts, own = self._talk.contacts, self._talk.own
        doubtful = {
            contact: None
            for contact in lookup.result
            if contact != own and not contacts.answered_since(contact, began_at)
        }
        for contact in list(doubtful):
            self._talk.check(contact, partial(self._checked, lookup, doubtful, contact))
        if not doubtful:
            self._tell(lookup)

    def _checked(self, lookup: Lookup, doubtful: dict[Contact, None], contact: Contact, lives: bool) -> None:
        if not lives:
            lookup.failed(contact)
        del doubtful[contact]
        if not doubtful:
            self._tell(lookup)

    def _tell(self, lookup: Lookup) -> None:
        self._under_way -= 1
        self._talk.contacts.tell(tuple(contact for contact in lookup.result if contact != self._talk.own))
        self._talk.effect(OwnersFound(lookup.target, lookup.result, lookup.complete, lookup.before))
        self.start()

    def stop(self) -> None:
        """Fail what waits, and begin nothing more."""
        self._stopped = True
        while self._waiting:
            self._talk.effect(OwnersFound(self._waiting.popleft(), (), complete=False))

    # --- for the ring ----------------------------------------------------------------------------

    def find_place(self, door: Contact, done: Callable[[Lookup], None]) -> None:
        """Look up the own position by somebody who need not be of the own ring."""
        own = self._talk.own
        self.search(self._lookup(own.key, ChordTable(own, None, (door,), ())), done)

    def probe(self, contact: Contact, hint: Callable[[Contact], None]) -> None:
        """Ask somebody, of this ring or another, for the own successor; one after the other."""
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
            for contact in lookup.result[:2]:  # the own ring names this peer first
                if contact != own:
                    hint(contact)
        self._probe_next(hint)

    def fix_finger(self) -> None:
        """Look up the next finger, from the longest down to those that the successor list makes needless."""
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
        """How far ahead the successor list goes."""
        return ahead(self._talk.own.key, self._place.successors[-1].key)

    def _fixed(self, bit: int, lookup: Lookup) -> None:
        """Take in a finger, and the same for all shorter ones if nobody lies in between."""
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
        """Take a peer that is gone out of the fingers."""
        for bit in [bit for bit, finger in self.fingers.items() if finger == contact]:
            del self.fingers[bit]

    # --- any lookup ------------------------------------------------------------------------------

    def _lookup(self, key: int, table: ChordTable) -> Lookup:
        return Lookup(key, self._talk.own, table, count=self._talk.config.successors)

    def search(self, lookup: Lookup, done: Callable[[Lookup], None]) -> None:
        """Carry a lookup on as far as it goes without waiting."""
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
