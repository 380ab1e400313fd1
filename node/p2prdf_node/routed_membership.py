"""Membership of a node without a view: Chord (:mod:`p2prdf.overlay.chord`), Kademlia (``kademlia_peer``).

The state machine decides everything about the overlay.  This module passes it lookups, and the peers that it does not
know yet: a node that is no member joins through any peer that answers or pings it.

Of the ``kademlia`` package only the routing table is in use, for measured reasons: its crawler returns dead peers and
never the caller; its storage can be made to answer 50 bytes with 60,000; one lost datagram evicts a peer; every
datagram of any sender starts a task.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from kademlia.node import Node
from kademlia.routing import RoutingTable

from p2prdf.overlay.chord import Chord, ChordConfig
from p2prdf.overlay.kademlia_peer import BUCKET_PEERS, Kademlia
from p2prdf.overlay.membership import Introduce, Packet
from p2prdf.overlay.routed_config import RoutedConfig
from p2prdf.overlay.routed_messages import Ping, Pong
from p2prdf.wire.contract import FindOwner, OwnersFound
from p2prdf_node.datagrams import OWN_QUESTION
from p2prdf_node.members import Environment, Members

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact
    from p2prdf_node.seeds import Address

__all__ = ["RoutedMembership"]


class _Buckets:
    """The routing table of the ``kademlia`` package, which is also its protocol."""

    def __init__(self, own: Contact):
        self._own = _node(own)
        self._table: Any = RoutingTable(self, BUCKET_PEERS, self._own)

    def has_room(self, contact: Contact) -> bool:
        """Return whether the bucket of a peer has room, or can be split."""
        bucket = self._table.buckets[self._table.get_bucket_for(_node(contact))]
        return len(bucket) < BUCKET_PEERS or bucket.has_in_range(self._own) or bucket.depth() % 5 != 0

    def add(self, contact: Contact) -> None:
        """Add a live peer."""
        self._table.add_contact(_node(contact))

    def remove(self, contact: Contact) -> None:
        """Remove a peer, if it is in the table."""
        self._table.remove_contact(_node(contact))

    async def call_ping(self, _node: Any) -> None:
        """Do nothing: the table asks for a test of its oldest peer, but maintenance tests all peers."""


def _node(contact: Contact) -> Any:
    """Return the package's form of a contact: its identifiers have 160 bits, of which a key is the first 64."""
    return Node(contact.key.to_bytes(8, "big") + bytes(12), contact.host, contact.port)


class RoutedMembership(Members[Packet]):
    """Membership of one peer that knows some others, in the overlay of the settings."""

    _machine: Chord | Kademlia

    def __init__(self, environment: Environment):
        config, own = environment.config, environment.contact
        times: dict[str, Any] = {
            "tend_seconds": config.ping_seconds,
            "timeout_seconds": config.ping_timeout_seconds,
            "silences": config.ping_strikes,
        }
        choices: dict[str, Any] = {"first_request": secrets.randbits(62), "patience": self._silences}
        machine = (
            Chord(own, ChordConfig(stabilise_seconds=config.ping_seconds, **times), **choices)
            if config.overlay == "chord"
            else Kademlia(own, _Buckets(own), RoutedConfig(contacts_max=0, **times), **choices)
        )
        super().__init__(environment, machine, config.overlay, Packet, answers=(Pong,))
        self._callers: set[int] = set()
        self._finding: dict[int, list[asyncio.Future[OwnersFound]]] = {}

    def stop(self, *, in_order: bool = True) -> None:
        """Tell all known peers that this one leaves, and close."""
        super().stop(in_order=in_order)
        for key in list(self._finding):
            self._effect(OwnersFound(key, (), complete=False))

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {**super().status(), "routing": self._machine.status()}

    async def find_owners(self, key: int) -> OwnersFound:
        """Look up the live peers closest to a key; lookups beyond a bound fail at once."""
        await self.entered.wait()
        if self._datagrams.closed:
            return OwnersFound(key, (), complete=False)
        future: asyncio.Future[OwnersFound] = asyncio.get_running_loop().create_future()
        waiting = self._finding.setdefault(key, [])
        waiting.append(future)
        if len(waiting) == 1:
            self._submit(FindOwner(key))
        return await future

    # --- parts of this membership ----------------------------------------------------------------

    @property
    def _is_inside(self) -> bool:
        return self._machine.member

    def _question(self, number: int) -> Packet:
        return Packet(self.contact, Ping(number))

    def _is_member(self, answer: Packet) -> bool:
        return bool(answer.message.member)

    def _note_answers(self, answers: dict[Address, Packet | None], found: dict[Contact, bool]) -> None:  # noqa: ARG002
        self._callers.clear()
        for contact in found:
            self._submit(Introduce(contact))

    def _received(self, packet: Packet) -> None:
        message, sender = packet.message, packet.sender
        if isinstance(message, Pong) and message.request & OWN_QUESTION:
            return
        if isinstance(message, Ping) and not self.entered.is_set() and sender.key not in self._callers:
            self._callers.add(sender.key)  # the caller has this node's address; this node itself may have no seed
            self._submit(Introduce(sender))
        super()._received(packet)

    def _effect(self, effect: OwnersFound) -> None:
        for future in self._finding.pop(effect.key, ()):
            if not future.done():
                future.set_result(effect)

    def _note_lost(self, contact: Contact) -> None:
        if self._machine.fell_silent(contact):
            self._seeds.lost((contact.host, contact.port))

    def _silences(self, contact: Contact) -> int:
        config = self.environment.config
        return config.ping_strikes_linked if self.environment.linked(contact.key) else config.ping_strikes
