"""Driver of SWIM (:mod:`p2prdf.overlay.swim`) over sealed datagrams: a complete view of the overlay.

The state machine decides everything about the view.  This driver owns one socket, one timer, TCP probes (``TcpProbe``),
and the way into the view (docs/explanation/design/membership.md).

*Joining.*  A node without bootstrap addresses begins a view.  Otherwise it probes them, and the state machine joins
through a member that answers.  Without a member, one node begins a view: if all addresses answer, the node with the
lowest key; if some are silent, any node that has met others for ``CREATE_SECONDS``, or for ``MINORITY_SECONDS`` if
most are silent (up to twice as long, at random).  A node that has met no other node retries, because names may
resolve late, except with ``first`` (unless it remembers other members) or if all addresses are its own.  Later it
probes the addresses from time to time, and the state machine merges a second view.

*Probes.*  The driver's own probes have the highest bit of their number set; the state machine's never have.  A TCP
probe of a silent peer only reports a refusal: no process listens there.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, assert_never

import structlog

from p2prdf import keys
from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.swim import Swim
from p2prdf.overlay.swim_config import SwimConfig
from p2prdf.overlay.swim_messages import (
    Answer,
    Broken,
    Create,
    Introduce,
    Leave,
    OtherTime,
    Packet,
    Post,
    Probe,
    Record,
    Refused,
    Stranger,
    SwimEffect,
    SwimRequest,
    TcpProbe,
)
from p2prdf.wire.contract import ClusterEntered, ContactLost, ContactSeen, OwnersFound, SeedsReached, Trace
from p2prdf.wire.messages import Contact
from p2prdf_node.envelopes import Envelopes
from p2prdf_node.logs import LineLimit
from p2prdf_node.members import CONFIRM_PINGS, Address, Seeds, Spawn
from p2prdf_node.seal import Keyring
from p2prdf_node.swim_codec import DATAGRAM_BYTES_MAX, decode, encode

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from p2prdf_node.config import NodeConfig

__all__ = ["SwimMembership"]

CREATE_SECONDS: Final = 1.0
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_STARTING: Final = 0.2
"""Pause between attempts of a starting node until it has met a member or begun a view."""
RETRY_SECONDS_ALONE: Final = 1.0
"""Pause of a member that knows no other node: others may be just starting."""
RETRY_SECONDS_UNREACHED: Final = 2.0
"""Pause of a node that has reached no bootstrap address for STARTING_SECONDS."""
STARTING_SECONDS: Final = 5.0
"""Time for which nodes that start together may be slower than this one."""
MINORITY_SECONDS: Final = 20.0
"""Wait of nodes that have met at most half of their bootstrap addresses; up to twice as long, at random."""
RETRY_SECONDS_MAX: Final = 5.0
PROBES_MAX: Final = 256
"""Probes of this driver in flight; one more counts as unanswered."""
TCP_PROBES_MAX: Final = 64
"""TCP probes in flight; further ones are skipped."""
TCP_PROBE_SECONDS: Final = 1.0
FEW_SECONDS: Final = 10.0
"""Time after the start in which a node with at most half of the members that it remembers takes no work.

Members with a different clock, if there are any, are detected within that time.
"""
ASK_TIME_SECONDS: Final = 5.0
"""Least time between two probes of a member with a clock too different."""
ASK_TIME_MAX: Final = 16
"""Most such members that are probed within that time."""
LOG_LINES_PER_SECOND: Final = 20

_OWN_PROBE: Final = 1 << 63
_LEVELS: Final = {
    "peer_seen": "info",
    "peer_gone": "info",
    "view_joined": "info",
    "clock_trusted": "info",
    "position_taken": "error",
    "clock_suspect": "error",
    "view_full": "error",
}

log = structlog.get_logger("membership")


def settings_of(config: NodeConfig) -> SwimConfig:
    """Return the settings of the state machine; its times are proportional to those of pings."""
    return SwimConfig(
        probe_seconds=config.ping_seconds,
        probe_timeout_seconds=config.ping_timeout_seconds,
        rapid_probe_seconds=1.2 * config.ping_timeout_seconds,
        suspicion_seconds=(config.ping_strikes + 1) * config.ping_seconds,
        linked_seconds=config.ping_strikes_linked * config.ping_seconds,
        gossip_seconds=config.ping_seconds / 5,
        sync_seconds=4 * config.ping_seconds,
    )


class SwimMembership:
    """SWIM membership of one peer (:class:`p2prdf_node.members.Members`).

    ``clock`` is the node's clock, which others compare with theirs.  ``lost`` also receives whether a member left in
    order; such a member is not waited for.  ``known`` receives all members once, when the view has become complete,
    and ``SeedsReached`` when all nodes behind the bootstrap addresses are in the view and answer; the latter again
    after a member was lost.  ``excluded`` tells which members are cut off, by key; their packets are refused.
    ``remembered`` returns the most members that this node has known in any incarnation, itself included.
    """

    def __init__(
        self,
        config: NodeConfig,
        claim: tuple[bytes, str, int],
        *,
        clock: Callable[[], float],
        seen: Callable[[Contact, str], None],
        lost: Callable[[Contact, bool], None],
        known: Callable[[OwnersFound | SeedsReached | ClusterEntered], None],
        linked: Callable[[int], bool],
        spawn: Spawn,
        excluded: Callable[[int], bool] = lambda _key: False,
        keyring: Keyring | None = None,
        remembered: Callable[[], int] = lambda: 1,
    ):
        self.config = config
        self.claim = claim
        self.contact = Contact(keys.node_key(claim[0]), claim[1], claim[2])
        self.joined = asyncio.Event()
        self._clock, self._seen, self._lost, self._known, self._spawn = clock, seen, lost, known, spawn
        self._excluded, self._excluded_count = excluded, 0
        self._envelopes = Envelopes(
            keyring or Keyring([config.seal_key]), self.contact.key, f"{config.overlay} view", lambda: self._clock()
        )
        self._seeds = Seeds(config.bootstrap)
        self._lines = LineLimit(LOG_LINES_PER_SECOND)
        self._malformed = 0
        self._asked_time: dict[int, float] = {}
        self._swim = Swim(
            self.contact, settings_of(config), now=clock(), zone=config.zone, linked=linked,
            entropy=random.Random(secrets.randbits(128)),  # noqa: S311 - the order of probes guards nothing
        )  # fmt: skip
        self.entered = self._complete = asyncio.Event()
        self._remembered = remembered
        self._began = time.monotonic()
        self._introduced: set[int] = set()
        self._seeds_reached = False
        self._probes: dict[int, asyncio.Future[Record | None]] = {}
        self._probed_at: dict[int, float] = {}
        self._tcp_probes: dict[Contact, None] = {}
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
        """Join a view, later find and merge other views; runs until cancelled."""
        if not self.config.bootstrap:
            self._submit(Create())
        pause = RETRY_SECONDS_MIN
        share = random.uniform(1, 2)  # noqa: S311 - guards nothing
        met, since = "", time.monotonic()
        while True:
            before, met = met, await self._probe_seeds()
            if met != before:
                since = time.monotonic()
            if not self._complete.is_set() and time.monotonic() >= since + self._patience(met) * share:
                self._found(met)
            pause = min(2 * pause, self._pause_max(met))
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing

    def _patience(self, met: str) -> float:
        """Return how long an outcome must last before this node begins a view; infinite: it must not."""
        match met:
            case "only itself":
                return 0.0
            case "only higher keys":
                return 2 * self.config.ping_timeout_seconds
            case "a majority":
                return CREATE_SECONDS
            case "a minority":
                return MINORITY_SECONDS
            case "nobody" if self.config.first and self._remembered() <= 1:
                return CREATE_SECONDS
            case _:
                return float("inf")

    def _found(self, met: str) -> None:
        """Begin a view of this node alone."""
        log.info("view_begun", met=met)
        self._submit(Create())
        if met == "nobody":  # setting first: the operator says that there is no other node to wait for
            self._known(SeedsReached())

    def _pause_max(self, met: str) -> float:
        if self._swim.living:
            return RETRY_SECONDS_MAX
        if self._complete.is_set() or met == "a member":
            return RETRY_SECONDS_ALONE
        is_late = met == "nobody" and time.monotonic() >= self._began + STARTING_SECONDS
        return RETRY_SECONDS_UNREACHED if is_late else RETRY_SECONDS_STARTING

    def stop(self, *, in_order: bool = True) -> None:
        """Announce that this peer leaves (``in_order``) or fails, and close."""
        self._submit(Leave(in_order))
        self._stopped = True
        self._complete.set()
        if self._timer is not None:
            self._timer.cancel()
        for probe in self._probes.values():
            probe.cancel()
        if self._transport is not None:
            self._transport.close()

    def contacts(self) -> list[Contact]:
        """Return the live peers in the view."""
        return self._swim.contacts()

    @property
    def joining(self) -> str | None:
        """Reason why this node is not a member yet, with the remedy; None for a member."""
        return None if self._complete.is_set() else self._swim.clocks.reason or self._seeds.problem()

    @property
    def fenced(self) -> str | None:
        """Reason why this node must take no new work, or None."""
        if (reason := self._swim.clocks.reason) is not None:
            return reason
        if self._swim.out:
            return "another live node has this node's ring position"
        if not self._swim.complete and self._complete.is_set():
            return f"there are more nodes than a view can hold ({self._swim.config.view_max}): setting membership"
        here, remembered = len(self._swim.living) + 1, self._remembered()
        if 2 * here <= remembered and time.monotonic() < self._began + FEW_SECONDS:
            return (
                f"this node has just started, and sees {here} of {remembered} remembered nodes: the others may"
                f" have different clocks; it waits for {FEW_SECONDS:g} s"
            )
        return None

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {
            "overlay": self.config.overlay,
            "membership": "view",
            "peers": len(self._swim.living),
            "fenced": self.fenced,
            "joining": self.joining,
            "datagrams_refused": {
                **self._envelopes.refused,
                "malformed": self._malformed,
                "revoked": self._excluded_count,
            },
            **self._swim.status(),
        }

    async def find_owners(self, key: int) -> OwnersFound:
        """Return all live peers, the owner of a key first, once the view is complete; none if they are too many."""
        await self._complete.wait()
        if self._stopped or not self._swim.complete:
            return OwnersFound(key, (), complete=False)
        return self._owners(key)

    async def confirm(self, contact: Contact) -> bool:
        """Tell whether the peer ``contact`` answers at its claimed address."""
        if contact in self._swim.contacts():
            return True
        for _ in range(CONFIRM_PINGS):
            answer = await self._probe((contact.host, contact.port))
            if answer is not None:
                return answer.contact == contact
        return False

    def suspect(self, key: int) -> None:
        """Probe a peer at once, because a connection with it broke or was refused."""
        self._submit(Broken(key))

    def _owners(self, key: int) -> OwnersFound:
        everyone = [self.contact, *self._swim.contacts()]
        before = None
        if self.config.overlay == "chord":
            everyone.sort(key=lambda contact: (contact.key - key) % (1 << 64))
            before = everyone[-1]
        else:
            everyone.sort(key=lambda contact: contact.key ^ key)
        return OwnersFound(key, tuple(everyone), complete=True, before=before)

    # --- the way in ------------------------------------------------------------------------------

    async def _probe_seeds(self) -> str:
        """Probe all seeds without a known peer behind them; return the best outcome (see :meth:`_patience`)."""
        addresses = await self._seeds.addresses()
        known = {(contact.host, contact.port) for contact in self._swim.contacts()}
        own = self.claim[1], self.claim[2]
        # While joining, probe known nodes too: only a member can admit this node.
        strangers = [each for each in addresses if each != own and (each not in known or not self._complete.is_set())]
        if self._seeds.only(own) and all(address == own for address in addresses):
            self._note_seeds({})
            return "only itself"
        seeds = [] if self._seeds_reached else [each for each in self._seeds.named if each not in (own, *strangers)]
        asked = [*strangers, *seeds]
        answers = dict(zip(asked, await asyncio.gather(*map(self._probe, asked)), strict=True))
        self._note_seeds(answers)
        answers = {address: answers[address] for address in strangers}
        others = [each for each in answers.values() if each is not None and each.contact != self.contact]
        for each in others:
            if each.incarnation:
                self._submit(Introduce(each.contact))
        if any(each.incarnation for each in others):
            return "a member"
        is_all = not self._seeds.unresolved and None not in answers.values()
        if is_all and others and all(self.contact.key < each.contact.key for each in others):
            return "only higher keys"
        if not others:
            return "nobody"
        return "a majority" if self._seeds.majority(len({each.contact for each in others}), own) else "a minority"

    def _note_seeds(self, answers: dict[Address, Record | None]) -> None:
        """Report once that all nodes behind the bootstrap addresses are in the view and have just answered."""
        if self._seeds_reached or self._seeds.unresolved or not (self._seeds.named and self._complete.is_set()):
            return
        answered = [answers.get(address) for address in self._seeds.named if address != self.claim[1:]]
        here = [self.contact, *self._swim.contacts()]
        if all(each is not None and each.contact in here for each in answered):
            self._seeds_reached = True
            self._known(SeedsReached())

    async def _probe(self, address: Address) -> Record | None:
        """Return the own record of the member at an address; None after a timeout, or if its clock differs."""
        if len(self._probes) >= PROBES_MAX or self._stopped:
            return None
        number = _OWN_PROBE | secrets.randbits(63)
        future: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        self._probes[number], self._probed_at[number] = future, self._clock()
        self._send(Packet(self._swim.greeting, int(self._clock() * 1e6), Probe(number), ()), address, 0)
        try:
            async with asyncio.timeout(self.config.ping_timeout_seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._probes[number], self._probed_at[number]

    async def _tcp_probe(self, contact: Contact) -> None:
        """Try to connect to a peer; report a refused connection."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TCP_PROBE_SECONDS):
                transport, _ = await loop.create_connection(asyncio.Protocol, contact.host, contact.port)
            transport.close()
        except ConnectionRefusedError:
            self._submit(Refused(contact))
        except (OSError, TimeoutError) as error:
            log.debug("tcp_probe_failed", peer=str(contact), reason=str(error) or "no connection in time")
        finally:
            del self._tcp_probes[contact]

    # --- driving the state machine -------------------------------------------------------------------

    def _submit(self, request: SwimRequest) -> None:
        if not self._stopped:
            self._carry_out(self._swim.submit(request, now=self._clock()))

    def received(self, datagram: bytes, address: Address) -> None:
        """Process a datagram."""
        payload = self._envelopes.open(datagram, address, lambda notice: self._send_sealed(notice, address))
        if self._stopped:
            return
        untimely = payload is None
        if untimely:
            payload = self._envelopes.open_untimely(datagram)
        packet = None if payload is None else self._decoded(payload, address, counted=not untimely)
        if packet is None:
            return
        if untimely or isinstance(packet.message, OtherTime):
            self._hear_stranger(packet)
            return
        living = [each for each in packet.gossip if each.state.living and self._excluded(each.contact.key)]
        if living:  # gossip of members that do not know yet that these are cut off
            packet = replace(packet, gossip=tuple(each for each in packet.gossip if each not in living))
        message = packet.message
        future = self._probes.get(message.request) if isinstance(message, Answer) else None
        if future is not None and not future.done():
            future.set_result(packet.sender)
        self._carry_out(self._swim.receive(packet, now=self._clock()))
        sender = packet.sender
        if not self._swim.member and sender.incarnation and sender.contact.key not in self._introduced:
            self._introduced.add(sender.contact.key)  # the sender has this node's address; this node may have no seed
            self._submit(Introduce(sender.contact))

    def _decoded(self, payload: bytes, address: Address, *, counted: bool) -> Packet | None:
        """Return the packet of a genuine datagram; None if it is malformed or its sender is cut off."""
        try:
            packet = decode(payload)
        except RemoteProtocolError as error:
            self._malformed += counted  # an untimely one already counts as refused for its time
            if counted and self._lines.allow(time.monotonic()):
                log.warning("datagram_malformed", sender=str(address), reason=str(error))
            return None
        if self._excluded(packet.sender.contact.key):
            self._excluded_count += counted
            return None
        return packet

    def _hear_stranger(self, packet: Packet) -> None:
        """Use only the clock of a packet from a member with a different clock, and send this node's clock.

        A datagram with a time more than ten seconds off may be a replay and is not processed;
        its sender is probed instead.  A probe of any time is answered by :class:`OtherTime`, which also counts at any
        time: it repeats a number sent just now.  So both sides measure the difference, and the smaller view is fenced
        (:mod:`p2prdf.overlay.swim_clock`).  A replay causes one probe and nothing else.
        """
        contact, message = packet.sender.contact, packet.message
        if contact.key == self.contact.key:
            return
        now = self._clock()
        if isinstance(message, Probe):
            told = OtherTime(message.request, len(self._swim.living) + 1 if self._swim.member else 0)
            self._send(Packet(self._swim.greeting, int(now * 1e6), told, ()), (contact.host, contact.port), contact.key)
        future = self._probes.get(message.request) if isinstance(message, OtherTime) else None
        if future is None:
            self._ask_time(contact)
        elif not future.done():
            assert isinstance(message, OtherTime)
            asked_at = self._probed_at[message.request]
            self._submit(Stranger(contact, packet.clock / 1e6 - (asked_at + now) / 2, message.members))
            future.set_result(None)

    def _ask_time(self, contact: Contact) -> None:
        """Probe a member with a different clock, at most every ASK_TIME_SECONDS."""
        now = time.monotonic()
        self._asked_time = {key: at for key, at in self._asked_time.items() if at > now - ASK_TIME_SECONDS}
        if contact.key not in self._asked_time and len(self._asked_time) < ASK_TIME_MAX:
            self._asked_time[contact.key] = now
            self._spawn(self._ask((contact.host, contact.port)), "time of a stranger")

    async def _ask(self, address: Address) -> None:
        await self._probe(address)

    def _wake(self) -> None:
        self._timer = None
        self._carry_out(self._swim.wake(now=self._clock()))

    def _carry_out(self, effects: list[SwimEffect]) -> None:
        self._arm()
        for effect in effects:
            match effect:
                case Post(to, packet):
                    self._send(packet, (to.host, to.port), to.key)
                case TcpProbe(contact):
                    if contact not in self._tcp_probes and len(self._tcp_probes) < TCP_PROBES_MAX:
                        self._tcp_probes[contact] = None
                        self._spawn(self._tcp_probe(contact), "tcp_probe")
                case ContactSeen(contact, zone):
                    self.joined.set()
                    self._seen(contact, zone)
                case ContactLost(contact, left):
                    self._seeds_reached = False
                    self._lost(contact, left)
                case Trace(event, fields):
                    level = _LEVELS.get(event, "debug")
                    if level == "debug" or self._lines.allow(time.monotonic()):
                        getattr(log, level)(event, **fields)
                case _:
                    assert_never(effect)
        if self._swim.complete and not self._complete.is_set():
            self._complete.set()
            self._known(self._owners(self.contact.key))
            self._known(ClusterEntered())

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._swim.deadline
        if deadline is not None and not self._stopped:
            wait = max(0.0, deadline - self._clock())
            self._timer = asyncio.get_running_loop().call_later(wait, self._wake)

    def _send(self, packet: Packet, address: Address, receiver: int) -> None:
        payload = encode(packet)
        assert len(payload) <= DATAGRAM_BYTES_MAX, f"{type(packet.message).__name__} of {len(payload)} bytes"
        self._send_sealed(self._envelopes.seal(payload, receiver), address)

    def _send_sealed(self, datagram: bytes, address: Address) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(datagram, address)


class _Protocol(asyncio.DatagramProtocol):
    """Adapter of asyncio's datagram protocol."""

    def __init__(self, membership: SwimMembership):
        self._membership = membership

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Pass a datagram on."""
        self._membership.received(data, addr[:2])

    def error_received(self, exc: Exception) -> None:
        """Ignore an error report: probes detect an unreachable peer."""
