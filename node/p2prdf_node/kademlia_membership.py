"""Kademlia membership: live peers, and the peers closest to a key.

The routing table is that of the ``kademlia`` package, and nothing else of it is in use, for measured reasons: its
crawler returns dead peers and never the caller; its storage can be made to answer 50 bytes with 60,000; one lost
datagram evicts a peer; every datagram of any sender starts a task.

A peer enters the table only after it has answered *our* ping at its claimed address; neither hearsay nor a forged
sender address adds anyone.  Lookups (:class:`p2prdf.overlay.kademlia.Lookup`) keep a few calls in flight and return
only peers that answered.  A monitor pings all peers in the table and removes a peer after ``ping_strikes`` unanswered
pings in a row.

*Small overlays become complete.*  A new peer looks up its own key and some distant ones, and each call introduces it
to the called peer.  Two peers that arrive together may still miss each other; so each round of the monitor asks one
peer in turn for its neighbours, and the first rounds are quick.

*Slow is not dead.*  A busy process answers late.  A missed ping does not count if this process itself was late, and
counts for less while a TCP connection with the peer is open.  A broken connection triggers several pings at once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final

import structlog
from kademlia.node import Node
from kademlia.routing import RoutingTable

from p2prdf.overlay.kademlia import FindNode, Leaving, Lookup, Nodes, Ping, Pong, closest
from p2prdf.overlay.membership import Packet
from p2prdf.wire.contract import OwnersFound
from p2prdf.wire.messages import Contact
from p2prdf_node.datagram_codec import Codec
from p2prdf_node.members import Environment, Members

__all__ = ["BUCKET_PEERS", "CODEC", "KademliaMembership"]

BUCKET_PEERS: Final = 20
"""Kademlia's k: peers per bucket and per reply.  A reply of some 1 kB fits one datagram."""
MEETINGS_MAX: Final = 64
"""Claimed peers being pinged for the first time; further claims are ignored, as they are repeated."""
LOOKUPS_MAX: Final = 32
"""Lookups that run at once."""
QUICK_ROUNDS: Final = 10
QUICK_SECONDS: Final = 0.1

CODEC: Final = Codec(Packet, (Ping, Pong, FindNode, Nodes, Leaving), arrays_max=BUCKET_PEERS)

log = structlog.get_logger("membership")


@dataclass(slots=True)
class _Member:
    """A peer in the routing table."""

    contact: Contact
    strikes: int = 0


class _NoPings:
    """The table's protocol: it asks for a test of its oldest peer, but the failure detector tests all peers."""

    async def call_ping(self, _node: Any) -> None:
        """Do nothing."""


class KademliaMembership(Members[Packet]):
    """Kademlia membership of one peer."""

    def __init__(self, environment: Environment):
        super().__init__(environment, "kademlia", CODEC, answers=(Pong, Nodes))
        self._table: Any = RoutingTable(_NoPings(), BUCKET_PEERS, _node(self.contact))
        self._members: dict[int, _Member] = {}
        self._meetings: set[Contact] = set()
        self._lookups = asyncio.Semaphore(LOOKUPS_MAX)
        self._turn = 0

    # --- calls of the daemon -------------------------------------------------------------------------

    async def run(self) -> None:
        """Join and maintain the overlay until cancelled."""
        self.environment.spawn(super().run(), "join")
        for _ in range(QUICK_ROUNDS):
            await asyncio.sleep(QUICK_SECONDS)
            await self._exchange()
        while True:
            await asyncio.gather(self._exchange(), *map(self._check, list(self._members.values())))
            await asyncio.sleep(self.environment.config.ping_seconds)

    def stop(self, *, in_order: bool = True) -> None:  # noqa: ARG002 - with one copy nothing is handed off
        """Tell the neighbours that this peer leaves, and close."""
        self.entered.set()
        for contact in self.contacts():
            self._send(Leaving(), contact)
        self._datagrams.close()

    def contacts(self) -> list[Contact]:
        """Return the live peers in the table."""
        return [member.contact for member in self._members.values()]

    async def find_owners(self, key: int) -> OwnersFound:
        """Look up the live peers closest to a key; at most ``LOOKUPS_MAX`` at a time, others wait."""
        await self.entered.wait()
        async with self._lookups:
            lookup = await self._lookup(key)
        return OwnersFound(key, lookup.result, lookup.complete)

    def suspect(self, key: int) -> None:
        """Ping a peer at once, because a connection with it broke or was refused."""
        member = self._members.get(key)
        if member is not None and self.environment.excluded(key):
            self._remove(member, "revoked")
        elif member is not None:
            self.environment.spawn(self._cross_examine(member), "suspect")

    # --- messages --------------------------------------------------------------------------------

    def _send(self, message: Any, to: Contact) -> None:
        self._datagrams.send(Packet(self.contact, message), to)

    def _question(self, number: int) -> Packet:
        return Packet(self.contact, Ping(number))

    def _received(self, packet: Packet) -> None:
        sender = packet.sender
        match packet.message:
            case Ping(request):
                self._hear(sender)
                self._send(Pong(request), sender)
            case FindNode(request, key):
                self._hear(sender)
                others = [contact for contact in self.contacts() if contact.key != sender.key]
                self._send(Nodes(request, tuple(closest(others, key, BUCKET_PEERS - 1))), sender)
            case Leaving():
                member = self._members.get(sender.key)
                if member is not None and member.contact == sender:
                    self._remove(member, "left")

    def _hear(self, contact: Contact) -> None:
        """Note a peer that sent or was named in a message; ping it if it is new."""
        if self.environment.excluded(contact.key) or contact.key == self.contact.key:
            return
        known = self._members.get(contact.key)
        is_new = known is None or known.contact != contact
        if is_new and contact not in self._meetings and len(self._meetings) < MEETINGS_MAX:
            self._meetings.add(contact)
            self.environment.spawn(self._meet(contact), "meet")

    # --- the table -------------------------------------------------------------------------------

    async def _meet(self, contact: Contact) -> None:
        try:
            answer = await self._ping((contact.host, contact.port))
            if answer is not None and answer.sender == contact:
                self._introduce(contact)
        finally:
            self._meetings.discard(contact)

    def _introduce(self, contact: Contact) -> None:
        """Add a peer to the table; it has just answered a ping."""
        if self.environment.excluded(contact.key):
            return
        known = self._members.get(contact.key)
        if known is not None:
            if known.contact == contact:
                return
            self._remove(known, "moved")
        for member in list(self._members.values()):
            if (member.contact.host, member.contact.port) == (contact.host, contact.port):
                self._remove(member, "replaced")
        self._table.add_contact(_node(contact))
        self._follow_table()

    def _remove(self, member: _Member, reason: str) -> None:
        log.info("peer_gone", peer=str(member.contact), reason=reason)
        if reason == "silent":
            self._seeds.lost((member.contact.host, member.contact.port))
        self._table.remove_contact(_node(member.contact))
        self._follow_table()

    def _follow_table(self) -> None:
        """Report the peers that a change of the routing table added and removed.

        The table decides: it may keep a new peer only as a replacement, and promote one when another leaves.
        """
        nodes = [node for bucket in self._table.buckets for node in bucket.get_nodes()]
        contacts = [Contact(node.long_id >> 96, node.ip, node.port) for node in nodes]
        table = {contact.key: contact for contact in contacts}
        for key in [key for key in self._members if key not in table]:
            self.environment.lost(self._members.pop(key).contact, False)
        for key, contact in table.items():
            if key not in self._members:
                self._members[key] = _Member(contact)
                self._seeds.found((contact.host, contact.port))
                log.info("peer_seen", peer=str(contact))
                self.environment.seen(contact, "")
        if self._members:
            self._enter()

    # --- joining and monitoring ----------------------------------------------------------------------

    def _begin(self, met: str) -> None:  # noqa: ARG002
        self._enter()

    async def _note_answers(self, found: dict[Contact, bool]) -> None:
        """Add the peers that have answered; for new ones look up the own key and one in each distant quarter."""
        is_new = any(contact.key not in self._members for contact in found)
        await super()._note_answers(found)
        for flipped in (0x00, 0x80, 0x40, 0xC0) if is_new else ():
            await self._lookup(self.contact.key ^ flipped << 56)
        if self._members:
            self.joined.set()

    async def _exchange(self) -> None:
        """Ask one peer in turn for its neighbours closest to this peer, or to a random key."""
        contacts = self.contacts()
        if contacts:
            self._turn += 1
            target = self.contact.key if self._turn % 2 else secrets.randbits(64)
            await self._ask(contacts[self._turn // 2 % len(contacts)], target)

    async def _cross_examine(self, member: _Member) -> None:
        """Ping a peer until it answers or is removed."""
        for _ in range(self.environment.config.ping_strikes):
            await self._check(member)
            if not member.strikes:
                return

    async def _check(self, member: _Member) -> None:
        """Ping a peer, and remove it after too many unanswered pings."""
        began, config, contact = time.monotonic(), self.environment.config, member.contact
        answer = await self._ping((contact.host, contact.port), contact.key)
        if self._datagrams.closed or self._members.get(contact.key) is not member:
            return
        if answer is not None:
            if answer.sender == contact:
                member.strikes = 0
            else:
                self._remove(member, "replaced")
                self._hear(answer.sender)
            return
        if time.monotonic() - began > 2 * config.ping_timeout_seconds:
            return  # this process was stalled, and the answer may lie unread in the socket
        member.strikes += 1
        is_linked = self.environment.linked(contact.key)
        if member.strikes >= (config.ping_strikes_linked if is_linked else config.ping_strikes):
            self._remove(member, "silent")

    # --- lookups ---------------------------------------------------------------------------------

    async def _lookup(self, target: int) -> Lookup:
        """Query peers, a few at a time, until those closest to a key have all answered."""
        lookup = Lookup(target, self.contact, self.contacts(), count=BUCKET_PEERS)
        calls: dict[asyncio.Task[None], None] = {}
        async with asyncio.TaskGroup() as group:

            async def call(contact: Contact) -> None:
                found = await self._ask(contact, target)
                if found is None:
                    lookup.failed(contact)
                else:
                    lookup.answered(contact, found)
                go_on()

            def go_on() -> None:
                for contact in lookup.requests():
                    calls[group.create_task(call(contact))] = None
                if lookup.done:  # peers without an answer by now are farther than those that answered
                    for task in calls:
                        task.cancel()

            go_on()
        return lookup

    async def _ask(self, contact: Contact, target: int) -> list[Contact] | None:
        """Return the peers closest to ``target`` that one peer knows, itself first; None if it does not answer."""
        answer = await self._datagrams.ask(
            lambda number: Packet(self.contact, FindNode(number, target)), (contact.host, contact.port), contact.key
        )
        if answer is None or not isinstance(answer.message, Nodes):
            return None
        found = [answer.sender, *answer.message.contacts]
        for each in found:
            self._hear(each)
        # Another peer at that address means that the queried one is gone.
        return found if answer.sender == contact else None


def _node(contact: Contact) -> Any:
    """Return the package's form of a contact: its identifiers have 160 bits, of which a key is the first 64."""
    return Node(contact.key.to_bytes(8, "big") + bytes(12), contact.host, contact.port)
