"""Driver of Chord (:mod:`p2prdf.overlay.chord`) over sealed datagrams: membership and ownership of keys.

The state machine decides everything about the ring.  This driver owns one socket, one timer, and the way into the ring.

*Joining.*  A node without bootstrap addresses creates a ring.  A node with bootstrap addresses pings them, and the
state machine joins through a member that answers.  If all nodes start at once, no member answers: a node that has met
other nodes for ``CREATE_SECONDS`` (up to twice as long, at random) creates a ring.  A node that has met no other node
waits indefinitely, except with the setting ``first`` or if all bootstrap addresses are its own.  Later it pings the
addresses from time to time and introduces unknown peers to the state machine, which detects whether they belong to
another ring and merges the two.

The driver's own pings, to addresses without a known peer, use request numbers with the highest bit set; the state
machine's numbers never have it.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from typing import TYPE_CHECKING, Any, Final, assert_never

import structlog

from p2prdf import keys
from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.chord import Chord, ChordConfig
from p2prdf.overlay.chord_messages import (
    Create,
    Introduce,
    Leave,
    Ping,
    Pong,
    Post,
    RingEffect,
    RingMessage,
    RingRequest,
    Suspect,
)
from p2prdf.wire.contract import ClusterEntered, ContactLost, ContactSeen, FindOwner, OwnersFound, Trace
from p2prdf.wire.messages import Contact
from p2prdf_node.chord_codec import DATAGRAM_BYTES_MAX, decode, encode
from p2prdf_node.envelopes import Envelopes
from p2prdf_node.logs import LineLimit
from p2prdf_node.members import CONFIRM_PINGS, Address, Seeds, Spawn
from p2prdf_node.seal import Keyring

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from p2prdf_node.config import NodeConfig

__all__ = ["ChordMembership"]

CREATE_SECONDS: Final = 1.0
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_MAX: Final = 5.0
PINGS_MAX: Final = 256
"""Pings of this driver in flight; one more counts as unanswered."""
LOG_LINES_PER_SECOND: Final = 20

_OWN_PING: Final = 1 << 63
_LEVELS: Final = {
    "peer_seen": "info",
    "peer_gone": "info",
    "ring_joined": "info",
    "position_taken": "error",
    "successors_lost": "warning",
    "answer_malformed": "warning",
}

log = structlog.get_logger("membership")


class ChordMembership:
    """Chord membership of one peer (:class:`p2prdf_node.members.Members`)."""

    def __init__(
        self,
        config: NodeConfig,
        claim: tuple[bytes, str, int],
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
        self._envelopes = Envelopes(keyring or Keyring([config.seal_key]), self.contact.key, "chord")
        self._seeds = Seeds(config.bootstrap)
        self._lines = LineLimit(LOG_LINES_PER_SECOND)
        self._malformed = 0
        self._chord = Chord(
            self.contact,
            ChordConfig(
                stabilise_seconds=config.ping_seconds,
                tend_seconds=config.ping_seconds,
                timeout_seconds=config.ping_timeout_seconds,
                silences=config.ping_strikes,
            ),
            first_request=secrets.randbits(62),
            patience=self._patience,
        )
        self._pings: dict[int, asyncio.Future[tuple[Contact, bool]]] = {}
        self._callers: set[int] = set()
        self._finding: dict[int, list[asyncio.Future[OwnersFound]]] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    # --- calls of the daemon -------------------------------------------------------------------------

    async def start(self, bound: socket.socket) -> None:
        """Begin to answer on a bound datagram socket."""
        self._seeds.use(bound)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(self), sock=bound)

    async def run(self) -> None:
        """Join a ring, later find and merge other rings; runs until cancelled."""
        if not self.config.bootstrap:
            self._submit(Create())
        pause = RETRY_SECONDS_MIN
        patience = CREATE_SECONDS * random.uniform(1, 2)  # noqa: S311 - guards nothing
        before, since = "", time.monotonic()
        while True:
            met = await self._ping_seeds()
            if met != before:
                before, since = met, time.monotonic()
            may_found = met == "no member" or (met == "nobody" and self.config.first and self._remembered() <= 1)
            is_first = met == "only itself" or (may_found and time.monotonic() > since + patience)
            if not self._chord.member and is_first:
                log.info("ring_created", met=met)
                self._submit(Create())
            # A node that is alone asks at least every second: others may be just starting.
            pause = min(2 * pause, RETRY_SECONDS_MAX if self._chord.contacts() else 1.0)
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing

    def stop(self, *, in_order: bool = True) -> None:  # noqa: ARG002 - with one copy nothing is handed off
        """Tell all known peers that this one leaves, and close."""
        self._submit(Leave())
        self._stopped = True
        self.entered.set()
        if self._timer is not None:
            self._timer.cancel()
        for ping in self._pings.values():
            ping.cancel()
        for lookups in self._finding.values():
            for lookup in lookups:
                lookup.cancel()
        if self._transport is not None:
            self._transport.close()

    @property
    def joining(self) -> str | None:
        """Reason why this node is not a member yet, with the remedy; None for a member."""
        return None if self.entered.is_set() else self._seeds.problem()

    def contacts(self) -> list[Contact]:
        """Return the live peers that this one monitors."""
        return self._chord.contacts()

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {
            "overlay": "chord",
            "peers": len(self._chord.contacts()),
            "joining": self.joining,
            "datagrams_refused": {
                **self._envelopes.refused,
                "malformed": self._malformed,
                "revoked": self._excluded_count,
            },
            "ring": self._chord.status(),
        }

    async def find_owners(self, key: int) -> OwnersFound:
        """Look up the first live peers at or after a key; lookups beyond a bound fail at once."""
        await self.entered.wait()
        if self._stopped:
            return OwnersFound(key, (), complete=False)
        future: asyncio.Future[OwnersFound] = asyncio.get_running_loop().create_future()
        waiting = self._finding.setdefault(key, [])
        waiting.append(future)
        if len(waiting) == 1:
            self._submit(FindOwner(key))
        return await future

    async def confirm(self, contact: Contact) -> bool:
        """Tell whether the peer ``contact`` answers at its claimed address."""
        if contact in self._chord.contacts():
            return True
        for _ in range(CONFIRM_PINGS):
            answer = await self._ping((contact.host, contact.port))
            if answer is not None:
                return answer[0] == contact
        return False

    def suspect(self, key: int) -> None:
        """Ping a peer at once, because a connection with it broke or was refused."""
        self._submit(Suspect(key))

    # --- the way in ------------------------------------------------------------------------------

    async def _ping_seeds(self) -> str:
        """Ping all seeds without a known peer behind them; return the best outcome.

        Outcomes: "a member", "no member", "nobody", and "only itself" if every seed is this node's own address.  A
        node outside a ring also pings known nodes: two nodes that know each other may both be waiting for a ring.
        """
        addresses = await self._seeds.addresses()
        self._callers.clear()
        known = {(contact.host, contact.port) for contact in self._chord.contacts()} if self._chord.member else set()
        own = self.claim[1], self.claim[2]
        strangers = [address for address in addresses if address not in known and address != own]
        met = "only itself" if self._seeds.only(own) and all(address == own for address in addresses) else "nobody"
        for answer in await asyncio.gather(*map(self._ping, strangers)):
            if answer is not None and answer[0] != self.contact:
                met = "a member" if answer[1] or met == "a member" else "no member"
                self._submit(Introduce(answer[0]))
        return met

    async def _ping(self, address: Address) -> tuple[Contact, bool] | None:
        """Return the peer that answers at an address and whether it is a member; None after a timeout."""
        if len(self._pings) >= PINGS_MAX or self._stopped:
            return None
        number = _OWN_PING | secrets.randbits(63)
        future: asyncio.Future[tuple[Contact, bool]] = asyncio.get_running_loop().create_future()
        self._pings[number] = future
        self._send(Ping(number), address, 0)
        try:
            async with asyncio.timeout(self.config.ping_timeout_seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._pings[number]

    # --- driving the state machine -------------------------------------------------------------------

    def _submit(self, request: RingRequest) -> None:
        if not self._stopped:
            self._carry_out(self._chord.submit(request, now=time.monotonic()))

    def received(self, datagram: bytes, address: Address) -> None:
        """Process a datagram."""
        payload = self._envelopes.open(datagram, address, lambda notice: self._send_sealed(notice, address))
        if payload is None or self._stopped:
            return
        try:
            message, sender = decode(payload)
        except RemoteProtocolError as error:
            self._malformed += 1
            if self._lines.allow(time.monotonic()):
                log.warning("datagram_malformed", sender=str(address), reason=str(error))
            return
        if self._excluded(sender.key):
            self._excluded_count += 1
            return
        if isinstance(message, Pong) and message.request & _OWN_PING:
            future = self._pings.get(message.request)
            if future is not None and not future.done():
                future.set_result((sender, message.member))
            return
        if isinstance(message, Ping) and not self.entered.is_set() and sender.key not in self._callers:
            self._callers.add(sender.key)  # the caller has this node's address; this node may have no seed itself
            self._submit(Introduce(sender))
        self._carry_out(self._chord.receive(message, sender=sender, now=time.monotonic()))

    def _wake(self) -> None:
        self._timer = None
        self._carry_out(self._chord.wake(now=time.monotonic()))

    def _carry_out(self, effects: list[RingEffect]) -> None:
        if self._chord.member and not self.entered.is_set():
            self.entered.set()
            self._known(ClusterEntered())
        self._arm()
        for effect in effects:
            match effect:
                case Post(to, message):
                    self._send(message, (to.host, to.port), to.key)
                case ContactSeen(contact):
                    self._seeds.found((contact.host, contact.port))
                    self.joined.set()
                    self._seen(contact)
                case ContactLost(contact):
                    if self._chord.fell_silent(contact):
                        self._seeds.lost((contact.host, contact.port))
                    self._lost(contact)
                case OwnersFound(key):
                    for future in self._finding.pop(key, ()):
                        if not future.done():
                            future.set_result(effect)
                case Trace(event, fields):
                    level = _LEVELS.get(event, "debug")
                    if level == "debug" or self._lines.allow(time.monotonic()):
                        getattr(log, level)(event, **fields)
                case _:
                    assert_never(effect)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._chord.deadline
        if deadline is not None and not self._stopped:
            wait = max(0.0, deadline - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._wake)

    def _send(self, message: RingMessage, address: Address, receiver: int) -> None:
        payload = encode(message, self.claim)
        assert len(payload) <= DATAGRAM_BYTES_MAX, f"{type(message).__name__} of {len(payload)} bytes"
        self._send_sealed(self._envelopes.seal(payload, receiver), address)

    def _send_sealed(self, datagram: bytes, address: Address) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(datagram, address)

    def _patience(self, contact: Contact) -> int:
        return self.config.ping_strikes_linked if self._linked(contact.key) else self.config.ping_strikes


class _Protocol(asyncio.DatagramProtocol):
    """The socket's end."""

    def __init__(self, membership: ChordMembership):
        self._membership = membership

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Pass a datagram on."""
        self._membership.received(data, addr[:2])

    def error_received(self, exc: Exception) -> None:
        """Ignore an error report: pings detect an unreachable peer."""
