"""The lookups of a Chord peer: owners for the application, its fingers, and its own position.

A lookup (:mod:`p2prdf.overlay.chord_lookup`) asks only peers before the key.  The owners that the predecessor names are
therefore pinged before the application receives them, which costs one round trip.  Owners that do not answer are left
out; the result still has no gap.  Rejected: to leave out recently silent peers without a ping, which would save a
timeout, but a peer that came back would be missing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from p2prdf.overlay.chord_lookup import ChordTable, Lookup, ahead
from p2prdf.overlay.lookups import Lookups

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.chord import Chord
    from p2prdf.overlay.talk import Talk
    from p2prdf.wire.messages import Contact

__all__ = ["Searches"]

_RING: Final = 1 << 64
_PROBES_MAX: Final = 16


class Searches(Lookups[Lookup]):
    """All lookups of one peer."""

    def __init__(self, talk: Talk, place: Chord):
        super().__init__(talk, place, lambda key: self._lookup(key, place.table))
        self.fingers: dict[int, Contact] = {}
        """The first peer at distance 2^i or more, by i, for distances beyond the successor list."""
        self._place = place
        self._bit = 63
        self._fixing = False
        self._probing = False
        self._to_probe: dict[Contact, None] = {}

    def _lookup(self, key: int, table: ChordTable) -> Lookup:
        return Lookup(key, self._talk.own, table, count=self._place.config.successors)

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
