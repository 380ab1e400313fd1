"""Kademlia membership: live peers, and the peers closest to a key.

A peer enters the table only after it has answered *our* ping at its claimed address; neither hearsay nor a forged
sender address adds anyone.  Lookups (:class:`p2prdf.overlay.kademlia.Lookup`) keep a few calls in flight and return
only peers that answered.  A monitor pings all peers in the table and removes a peer after ``ping_strikes`` unanswered
pings in a row.

*Small overlays become complete.*  A new peer looks up its own identifier and some distant ones, and each call
introduces it to the called peer.  Two peers that arrive together may still miss each other; so each round of the
monitor asks one peer in turn for its neighbours, and the first rounds are quick.  Until a seed answers, the node
retries with growing pauses.  Seeds and recently lost peers are also pinged later, so that the halves of a partitioned
network merge.

*Slow is not dead.*  A busy process answers late.  A missed ping does not count if this process itself was late, and
counts for less while a TCP connection with the peer is open.  A broken connection triggers several pings at once.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf import keys
from p2prdf.overlay.kademlia import Lookup
from p2prdf.wire.contract import ClusterEntered, OwnersFound
from p2prdf.wire.messages import Contact
from p2prdf_node.discovery import BUCKET_PEERS, ID_BYTES, Claim, Datagrams
from p2prdf_node.members import CONFIRM_PINGS, Address, Seeds, Spawn
from p2prdf_node.seal import Keyring

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from p2prdf_node.config import NodeConfig

__all__ = ["Membership"]

MEETINGS_MAX: Final = 64
"""Claimed peers being pinged for the first time; further claims are ignored, as they are repeated."""
LOOKUPS_MAX: Final = 32
"""Lookups that run at once."""
QUICK_ROUNDS: Final = 10
QUICK_SECONDS: Final = 0.1
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_MAX: Final = 5.0
FIRST_SECONDS: Final = 1.0
"""Time for which a node with the setting ``first`` waits for an answer before it begins an overlay."""

log = structlog.get_logger("membership")


@dataclass(slots=True)
class _Member:
    """A peer in the routing table."""

    claim: Claim
    contact: Contact
    strikes: int = 0

    @property
    def address(self) -> Address:
        return self.claim[1], self.claim[2]


class Membership:
    """Kademlia membership of one peer (:class:`p2prdf_node.members.Members`).

    ``seen`` and ``lost`` are called with each contact that enters or leaves the table; ``linked`` tells whether a TCP
    connection with a peer is open; ``spawn`` starts a task of the daemon.
    """

    def __init__(
        self,
        config: NodeConfig,
        claim: Claim,
        *,
        seen: Callable[[Contact], None],
        lost: Callable[[Contact], None],
        linked: Callable[[int], bool],
        spawn: Spawn,
        known: Callable[[ClusterEntered], None] = lambda _: None,
        excluded: Callable[[int], bool] = lambda _key: False,
        keyring: Keyring | None = None,
        remembered: Callable[[], int] = lambda: 1,
    ):
        self.config = config
        self.claim = claim
        self.contact = Contact(keys.node_key(claim[0]), claim[1], claim[2])
        self.joined = asyncio.Event()
        self.entered = asyncio.Event()
        self.fenced: str | None = None
        self._seen, self._lost, self._linked, self._spawn = seen, lost, linked, spawn
        self._known, self._remembered = known, remembered
        self._excluded, self._excluded_count = excluded, 0
        self._datagrams = Datagrams(
            claim, self, keyring=keyring or Keyring([config.seal_key]), timeout_seconds=config.ping_timeout_seconds
        )
        self._members: dict[int, _Member] = {}
        self._keys_by_address: dict[Address, int] = {}
        self._meetings: set[Claim] = set()
        self._seeds = Seeds(config.bootstrap)
        self._lookups = asyncio.Semaphore(LOOKUPS_MAX)
        self._turn = 0
        self._stopped = False

    # --- calls of the daemon -------------------------------------------------------------------------

    async def start(self, bound: socket.socket) -> None:
        """Begin to answer on a bound datagram socket."""
        self._seeds.use(bound)
        await self._datagrams.listen(bound)

    async def run(self) -> None:
        """Join and maintain the overlay until cancelled."""
        if not self.config.bootstrap:
            self._enter("nobody")
        else:
            self._spawn(self._rejoin_for_ever(), "rejoin")
        await self._monitor()

    def stop(self, *, in_order: bool = True) -> None:  # noqa: ARG002 - with one copy nothing is handed off
        """Tell the neighbours that this peer leaves, and close."""
        self._stopped = True
        self.entered.set()
        for member in self._members.values():
            self._datagrams.leave(member.address)
        self._datagrams.close()

    @property
    def joining(self) -> str | None:
        """Reason why this node is not a member yet, with the remedy; None for a member."""
        return None if self.entered.is_set() else self._seeds.problem()

    def contacts(self) -> list[Contact]:
        """Return the live peers in the table."""
        return [member.contact for member in self._members.values()]

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        refused = {**self._datagrams.refused, "revoked": self._excluded_count}
        peers = len(self._members)
        return {"overlay": "kademlia", "peers": peers, "joining": self.joining, "datagrams_refused": refused}

    async def find_owners(self, key: int) -> OwnersFound:
        """Look up the live peers closest to a key; at most ``LOOKUPS_MAX`` at a time, others wait.

        A node that has not joined an overlay waits: alone it would seem to own all keys.
        """
        await self.entered.wait()
        async with self._lookups:
            lookup = await self._lookup(key.to_bytes(8, "big") + bytes(ID_BYTES - 8))
        return OwnersFound(key, lookup.result, lookup.complete)

    async def confirm(self, contact: Contact) -> bool:
        """Tell whether the peer ``contact`` answers at its claimed address."""
        member = self._members.get(contact.key)
        if member is not None and member.contact == contact:
            return True
        for _ in range(CONFIRM_PINGS):
            answer = await self._datagrams.ping((contact.host, contact.port))
            if answer is not None:
                return keys.node_key(answer[0]) == contact.key
        return False

    def suspect(self, key: int) -> None:
        """Ping a peer at once, because a connection with it broke or was refused."""
        member = self._members.get(key)
        if member is not None and self._excluded(key):
            self._remove(member, "revoked")
        elif member is not None:
            self._spawn(self._cross_examine(member), "suspect")

    # --- calls of the datagram driver (Listener) -----------------------------------------------------

    def heard(self, claim: Claim) -> None:
        """Note a peer that sent or was named in a message; ping it if it is new."""
        if self._excluded(keys.node_key(claim[0])):
            self._excluded_count += 1
            return
        if claim[0] == self.claim[0] or claim in self._meetings or len(self._meetings) >= MEETINGS_MAX:
            return
        known = self._members.get(keys.node_key(claim[0]))
        if known is None or known.claim != claim:
            self._meetings.add(claim)
            self._spawn(self._meet(claim), "meet")

    def left(self, claim: Claim) -> None:
        """Remove a peer that announced its departure."""
        member = self._members.get(keys.node_key(claim[0]))
        if member is not None and member.claim == claim:
            self._remove(member, "left")

    def neighbours(self, key: bytes, *, without: bytes) -> list[Claim]:
        """Return the peers in the table closest to ``key``."""
        target = int.from_bytes(key, "big")
        others = (member.claim for member in self._members.values() if member.claim[0] != without)
        return sorted(others, key=lambda claim: int.from_bytes(claim[0], "big") ^ target)[: BUCKET_PEERS - 1]

    def key_at(self, address: Address) -> int:
        """Return the key of the peer at an address; 0 if the address is unknown."""
        return self._keys_by_address.get(address, 0)

    # --- the table -------------------------------------------------------------------------------

    async def _meet(self, claim: Claim) -> None:
        try:
            if await self._datagrams.ping(claim[1:]) == claim:
                self._add(claim)
        finally:
            self._meetings.discard(claim)

    def _add(self, claim: Claim) -> None:
        """Add a peer to the table; it has just answered a ping."""
        if self._excluded(keys.node_key(claim[0])):
            return
        known = self._members.get(keys.node_key(claim[0]))
        if known is not None:
            if known.claim == claim:
                return
            self._remove(known, "moved")
        stale = self._members.get(self.key_at(claim[1:]))
        if stale is not None:
            self._remove(stale, "replaced")
        self._datagrams.add(claim)
        self._follow_table()

    def _remove(self, member: _Member, reason: str) -> None:
        log.info("peer_gone", peer=str(member.contact), reason=reason)
        if reason == "silent":
            self._seeds.lost(member.address)
        self._datagrams.remove(member.claim)
        self._follow_table()

    def _follow_table(self) -> None:
        """Report the peers that a change of the routing table added and removed.

        The table decides: it may keep a new peer only as a replacement, and promote one when another leaves.
        """
        table = {int(keys.node_key(claim[0])): claim for claim in self._datagrams.table()}
        for key in [key for key in self._members if key not in table]:
            member = self._members.pop(key)
            self._keys_by_address.pop(member.address, None)
            self._lost(member.contact)
        for key, claim in table.items():
            if key not in self._members:
                member = _Member(claim, Contact(key, claim[1], claim[2]))
                self._members[key] = member
                self._keys_by_address[member.address] = key
                self._seeds.found(member.address)
                log.info("peer_seen", peer=str(member.contact))
                self._seen(member.contact)
        if self._members:
            self._note_entered()

    # --- joining and monitoring ----------------------------------------------------------------------

    async def _rejoin_for_ever(self) -> None:
        pause = RETRY_SECONDS_MIN
        first_at = time.monotonic() + FIRST_SECONDS
        while True:
            if await self._join():
                self.joined.set()
                pause = RETRY_SECONDS_MAX
            elif self.config.first and self._remembered() <= 1 and time.monotonic() >= first_at:
                self._enter("nobody")
            elif self._seeds.only(self.claim[1:]):
                self._enter("only itself")
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing
            pause = min(pause * 2, RETRY_SECONDS_MAX if self._members else 1.0)

    def _enter(self, met: str) -> None:
        """Begin an overlay of this node alone."""
        if not self.entered.is_set():
            log.info("overlay_begun", met=met)
            self._note_entered()

    def _note_entered(self) -> None:
        """Report once that this node is a member: it has begun an overlay or met another node."""
        if not self.entered.is_set():
            self.entered.set()
            self._known(ClusterEntered())

    async def _join(self) -> bool:
        """Ping seeds that are not in the table; tell whether any peer is known."""
        own = self.claim[1:]
        addresses = await self._seeds.addresses()
        strangers = [address for address in addresses if address not in self._keys_by_address and address != own]
        claims = await asyncio.gather(*(self._datagrams.ping(address) for address in strangers))
        newcomers = [
            claim
            for claim in claims
            if claim is not None and claim != self.claim and keys.node_key(claim[0]) not in self._members
        ]
        for claim in newcomers:
            self._add(claim)
        if newcomers:
            await self._look_around()
        return bool(self._members)

    async def _look_around(self) -> None:
        """Look up this peer's own identifier and one in each distant quarter of the ring."""
        own = self.claim[0]
        for flipped in (0x00, 0x80, 0x40, 0xC0):
            await self._lookup(bytes([own[0] ^ flipped]) + own[1:])

    async def _monitor(self) -> None:
        for _ in range(QUICK_ROUNDS):
            await asyncio.sleep(QUICK_SECONDS)
            await self._exchange()
        while True:
            await asyncio.gather(self._exchange(), *(self._check(m) for m in list(self._members.values())))
            await asyncio.sleep(self.config.ping_seconds)

    async def _exchange(self) -> None:
        """Ask one peer in turn for its neighbours closest to this peer, or to a random identifier."""
        members = list(self._members.values())
        if members:
            self._turn += 1
            target = self.claim[0] if self._turn % 2 else secrets.token_bytes(ID_BYTES)
            await self._ask(members[self._turn // 2 % len(members)].contact, target)

    async def _cross_examine(self, member: _Member) -> None:
        """Ping a peer until it answers or is removed."""
        for _ in range(self.config.ping_strikes):
            await self._check(member)
            if not member.strikes:
                return

    async def _check(self, member: _Member) -> None:
        """Ping a peer, and remove it after too many unanswered pings."""
        began = time.monotonic()
        answer = await self._datagrams.ping(member.address)
        if self._stopped or self._members.get(member.contact.key) is not member:
            return
        if answer is not None:
            if answer == member.claim:
                member.strikes = 0
            else:
                self._remove(member, "replaced")
                self.heard(answer)
            return
        late = time.monotonic() - began - self.config.ping_timeout_seconds
        if late > self.config.ping_timeout_seconds:
            return  # this process was stalled, and the answer may lie unread in the socket
        member.strikes += 1
        linked = self._linked(member.contact.key)
        if member.strikes >= (self.config.ping_strikes_linked if linked else self.config.ping_strikes):
            self._remove(member, "silent")

    # --- lookups ---------------------------------------------------------------------------------

    async def _lookup(self, target: bytes) -> Lookup:
        """Query peers, a few at a time, until those closest to an identifier have all answered."""
        lookup = Lookup(int(keys.node_key(target)), self.contact, self.contacts(), count=BUCKET_PEERS)
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

    async def _ask(self, contact: Contact, target: bytes) -> list[Contact] | None:
        """Return the peers closest to ``target`` that one peer knows, itself first; None if it does not answer."""
        claims = await self._datagrams.find_node((contact.host, contact.port), target)
        if claims is None:
            return None
        for claim in claims:
            self.heard(claim)
        found = [Contact(keys.node_key(claim[0]), claim[1], claim[2]) for claim in claims]
        # Another peer at that address means that the queried one is gone.
        return found if found[0] == contact else None
