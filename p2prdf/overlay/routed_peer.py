"""The calls of a Chord and a Kademlia peer that do not depend on the overlay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, assert_never

from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Packet
from p2prdf.overlay.routed_messages import Answer, Leaving, Ping, Pong, RingEffect, RingMessage, RingRequest
from p2prdf.wire.contract import FindOwner

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.lookups import Lookups
    from p2prdf.overlay.talk import Talk
    from p2prdf.wire.messages import Contact

__all__ = ["RoutedPeer"]


class RoutedPeer(ABC):
    """One peer of an overlay without a view, without input or output; a subclass makes its parts and handlers."""

    own: Contact
    member: bool
    _talk: Talk
    _searches: Lookups[Any]
    _handlers: dict[type[RingMessage], Callable[[Any, Contact], None]]

    def submit(self, request: RingRequest, *, now: float) -> list[RingEffect]:
        """Handle a request of the driver."""
        self._talk.observe(now)
        match request:
            case Create():
                self._create()
            case Introduce(contact):
                if contact.key != self.own.key:
                    self._introduce(contact)
            case FindOwner(key):
                self._searches.find_owner(key)
            case Broken(key):
                suspected = self._talk.contacts.find(key)
                if suspected is not None:
                    self._talk.ping(suspected)
            case Leave():
                self._leave()
            case _:
                assert_never(request)
        return self._talk.flush()

    def receive(self, packet: Packet, *, now: float) -> list[RingEffect]:
        """Handle a message of another peer.  No content makes this raise."""
        self._talk.observe(now)
        sender, message = packet.sender, packet.message
        if sender.key == self.own.key:
            self._from_own_position(message, sender)
        elif type(message) in self._handlers:
            self._talk.contacts.spoke(sender)
            self._handlers[type(message)](message, sender)
            if not isinstance(message, Answer | Leaving):  # answers and goodbyes have been evaluated already
                self._talk.meet(sender)
        return self._talk.flush()

    def contacts(self) -> list[Contact]:
        """Return the live peers: those that have answered as members."""
        return self._talk.contacts.live()

    def fell_silent(self, contact: Contact) -> bool:
        """Return whether a peer has recently stopped answering without a goodbye."""
        return self._talk.contacts.is_silent(contact, self._talk.now)

    def _on_ping(self, message: Ping, sender: Contact) -> None:
        self._talk.post(sender, Pong(message.request, self.member))

    def _from_own_position(self, message: RingMessage, sender: Contact) -> None:
        """Answer pings of another peer with this peer's position, so that it finds the conflict; ignore the rest."""
        if sender == self.own:
            return
        if isinstance(message, Ping):
            self._on_ping(message, sender)
        elif isinstance(message, Pong):
            self._talk.answer(message, sender)
        else:
            self._talk.trace("position_taken", by=str(sender))

    @abstractmethod
    def wants(self, contact: Contact) -> bool:
        """Return whether the routing table needs a peer, even if the contacts are full."""

    @abstractmethod
    def met(self, contact: Contact) -> None:
        """Note that a peer is live."""

    @abstractmethod
    def drop(self, contact: Contact) -> None:
        """Remove a lost peer from the routing table."""

    @abstractmethod
    def _create(self) -> None: ...

    @abstractmethod
    def _introduce(self, contact: Contact) -> None: ...

    @abstractmethod
    def _leave(self) -> None: ...
