"""One peer of a Kademlia overlay without a view: live peers, maintenance, lookups.

A peer becomes a contact only after it has answered *our* ping at its claimed address, if its bucket has room; neither
hearsay nor a forged sender address adds anyone.  A peer is a member as soon as another member has answered it.

*Small overlays become complete.*  A new member looks up its own key and some distant ones, and each request introduces
it to the asked peer.  Two peers that arrive together may still miss each other; so each round of maintenance asks one
contact in turn for the peers closest to this peer, or to a random key.  The first rounds are quick.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from p2prdf import keys
from p2prdf.overlay.kademlia import Lookup, closest
from p2prdf.overlay.lookups import Lookups
from p2prdf.overlay.routed_config import RoutedConfig
from p2prdf.overlay.routed_messages import (
    Answer,
    FindOwners,
    Leaving,
    Names,
    NotMember,
    Ping,
    Pong,
    RingEffect,
    RingMessage,
)
from p2prdf.overlay.routed_peer import RoutedPeer
from p2prdf.overlay.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.wire.messages import Contact

__all__ = ["BUCKET_PEERS", "Buckets", "Kademlia"]

BUCKET_PEERS: Final = 20
"""Kademlia's k: peers per bucket and per answer.  An answer of some 1 kB fits one datagram."""
_QUICK_ROUNDS: Final = 10
_QUICK_SECONDS: Final = 0.1
_SILENCES: Final = 2
_DISTANT: Final = (0x00, 0x80, 0x40, 0xC0)
"""Changes of the first byte of the own key: that key, and one in each distant quarter."""


class Buckets(Protocol):
    """The routing table: buckets of at most ``BUCKET_PEERS`` live peers by distance."""

    def has_room(self, contact: Contact) -> bool:
        """Return whether the table would take a peer."""
        ...

    def add(self, contact: Contact) -> None:
        """Add a live peer."""
        ...

    def remove(self, contact: Contact) -> None:
        """Remove a peer, if it is in the table."""
        ...


class Kademlia(RoutedPeer):
    """One peer of a Kademlia overlay, without input or output.

    ``first_request`` and ``patience``: as in :class:`~p2prdf.overlay.chord.Chord`.
    """

    def __init__(
        self,
        own: Contact,
        buckets: Buckets,
        config: RoutedConfig | None = None,
        *,
        first_request: int = 0,
        patience: Callable[[Contact], int] | None = None,
    ):
        self.own = own
        self.config = config or RoutedConfig(contacts_max=0)
        self.member = False
        self._left = False
        self._buckets = buckets
        self._talk = Talk(own, self.config, self, first_request=first_request, patience=patience)
        self._searches = Lookups(self._talk, self, self._lookup)
        self._rounds = 0
        self._tend_at: float | None = None
        self._handlers: dict[type[RingMessage], Callable[[Any, Contact], None]] = {
            Ping: self._on_ping,
            FindOwners: self._on_find_owners,
            Leaving: lambda _, sender: self._talk.lose(sender, "left"),
            **dict.fromkeys((Pong, Names, NotMember), self._talk.answer),
        }

    # --- time ------------------------------------------------------------------------------------

    def wake(self, *, now: float) -> list[RingEffect]:
        """Run the actions that are due."""
        self._talk.observe(now)
        self._talk.wake()
        if self._tend_at is not None and self._tend_at <= self._talk.now:
            self._tend()
        return self._talk.flush()

    @property
    def deadline(self) -> float | None:
        """The time of the next call of :meth:`wake`."""
        return min((at for at in (self._talk.deadline, self._tend_at) if at is not None), default=None)

    def status(self) -> dict[str, Any]:
        """Return counters for people and monitoring."""
        return {
            "member": self.member,
            "questions": self._talk.waiting,
            "lookups_waiting": self._searches.waiting,
            "counts": dict(self._talk.counts),
        }

    # --- callbacks of the parts ------------------------------------------------------------------

    def wants(self, contact: Contact) -> bool:
        """Return whether the routing table has room for a peer, or knows its key under another address."""
        known = self._talk.contacts.find(contact.key)
        return self._buckets.has_room(contact) or (known is not None and self._talk.contacts.is_live(known))

    def met(self, contact: Contact) -> None:
        """Add a live peer to the routing table."""
        self._buckets.add(contact)
        self._create()

    def drop(self, contact: Contact) -> None:
        """Remove a lost peer from the routing table."""
        self._buckets.remove(contact)

    # --- inside ----------------------------------------------------------------------------------

    def _create(self) -> None:
        if not self.member and not self._left:
            self.member = True
            self._tend_at = self._talk.now
            self._searches.start()
            for flipped in _DISTANT if self.contacts() else ():
                self._searches.search(self._lookup(self.own.key ^ flipped << 56), self._looked_around)

    def _introduce(self, contact: Contact) -> None:
        self._talk.ping(contact)

    def _looked_around(self, _lookup: Lookup) -> None:
        """Do nothing: the answers have introduced this peer and others."""

    def _lookup(self, key: int) -> Lookup:
        return Lookup(key, self.own, self.contacts(), count=BUCKET_PEERS)

    def _on_find_owners(self, message: FindOwners, sender: Contact) -> None:
        if self.member:
            others = [contact for contact in self.contacts() if contact.key != sender.key]
            self._talk.post(sender, Names(message.request, tuple(closest(others, message.key, BUCKET_PEERS - 1))))
        else:
            self._talk.post(sender, NotMember(message.request))

    def _tend(self) -> None:
        """Ping contacts without a recent answer, and ask one for its neighbours."""
        pause = _QUICK_SECONDS if self._rounds < _QUICK_ROUNDS else self.config.tend_seconds
        self._tend_at = self._talk.now + pause * self._talk.spread(0.25)
        self._rounds += 1
        since = self._talk.now - self.config.tend_seconds / 2
        live = self.contacts()
        for contact in live:
            if not self._talk.contacts.answered_since(contact, since):
                self._talk.ping(contact)
        if live:
            target = self.own.key if self._rounds % 2 else keys.fmix(self.own.key + self._rounds)
            asked = live[self._rounds // 2 % len(live)]
            self._talk.ask(partial(FindOwners, key=target), asked, self._exchanged, lambda: None, _SILENCES)

    def _exchanged(self, answer: Answer) -> None:
        """Ping the named peers that are unknown."""
        for contact in answer.contacts if isinstance(answer, Names) else ():
            if contact.key != self.own.key:
                self._talk.meet(contact)

    def _leave(self) -> None:
        """Announce the departure to all contacts; afterwards answer as a non-member."""
        for contact in self.contacts() if self.member else ():
            self._talk.post(contact, Leaving(()))
        self._left = True
        self.member = False
        self._tend_at = None
        self._talk.stop()
        self._searches.stop()
