"""A complete view of the overlay, by :mod:`p2prdf.overlay.swim` over sealed datagrams.

The machine decides everything about the view.  What is left is its driver: one socket, one timer, knocks, and the way
in.

The way in.  A node without bootstrap addresses begins a view of its own.  A node with bootstrap addresses greets them
with probes, and the machine joins by a node that answers as a member.  If all nodes of a cluster start at once, no node
answers as a member.  Then one of them begins a view: if all addresses answer, the node with the lowest key; if some are
silent, any node that has met another node for ``CREATE_SECONDS`` (up to twice as long, at random), or for
``MINORITY_SECONDS`` if more than half of the addresses are silent.  The nodes that it has met join by it.

*No islands.*  A node that has met no other node begins no view: its names may resolve late.  It tries again, every two
seconds or so, and :attr:`SwimMembership.joining` says why it is not ready.  There are two exceptions: the setting
``first``, unless the node remembers other members, and bootstrap addresses that are literally its own.

Later the addresses are greeted from time to time, and members that are not known by then are introduced to the machine,
which makes one of the two views.

Numbers of the node's own probes, to addresses at which it does not know who is there, have the highest bit set;
the machine's never have.

*Knocks.*  The machine asks to have a connection tried when a peer is silent.  All that is told is a refusal: no
process listens there.  Whatever else comes of it, it is closed without a word.

*Other times.*  A datagram whose time differs by more than ten seconds is not heard: it may be a copy.  Its sender is
asked for its time by a probe.  A probe is answered whatever its time is, by :class:`OtherTime`, which counts whatever
its own time is: the number that it repeats was sent just now.  So both sides measure each other, and the smaller view
is fenced (:mod:`p2prdf.overlay.swim_clock`).  A copy of an old datagram leads to one probe, and to nothing else.

*Fencing.*  A node that cannot be relied on for new work says why (:attr:`SwimMembership.fenced`), and takes none.
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
    Knock,
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
)
from p2prdf.wire.contract import ClusterEntered, ContactLost, ContactSeen, DoorsMet, OwnersFound, Trace
from p2prdf.wire.messages import Contact
from p2prdf_node.envelopes import Envelopes
from p2prdf_node.logs import LineLimit
from p2prdf_node.members import CONFIRM_PINGS, Address, Doors, Spawn
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
"""As long as no member was met, and none is to be the first for want of one."""
RETRY_SECONDS_ALONE: Final = 1.0
"""Others may be just starting."""
RETRY_SECONDS_UNREACHED: Final = 2.0
"""After some seconds in which no bootstrap address was reached."""
STARTING_SECONDS: Final = 5.0
"""For so long nodes that are started together may be slower than this one."""
MINORITY_SECONDS: Final = 20.0
"""Wait of nodes that have met no more than half of their bootstrap addresses; up to twice as long, at random."""
RETRY_SECONDS_MAX: Final = 5.0
HAILS_MAX: Final = 256
"""Own probes under way; one more counts as unanswered."""
KNOCKS_MAX: Final = 64
"""Connections being tried; further ones are not."""
KNOCK_SECONDS: Final = 1.0
FEW_SECONDS: Final = 10.0
"""For so long after its start a node takes no work with at most half of the members that it remembers.

Members of another time, if there are any, make themselves known within that time.
"""
ASK_TIME_SECONDS: Final = 5.0
"""So often a member with a clock too different to be heard is asked for its time, at most."""
ASK_TIME_MAX: Final = 16
"""Such members that are asked within that time."""
LOG_LINES_PER_SECOND: Final = 20

_HAIL: Final = 1 << 63
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
    """Return the machine's settings: times in proportion to those of pings."""
    return SwimConfig(
        probe_seconds=config.ping_seconds,
        probe_timeout_seconds=config.ping_timeout_seconds,
        examine_seconds=1.2 * config.ping_timeout_seconds,
        suspicion_seconds=(config.ping_strikes + 1) * config.ping_seconds,
        linked_seconds=config.ping_strikes_linked * config.ping_seconds,
        gossip_seconds=config.ping_seconds / 5,
        exchange_seconds=4 * config.ping_seconds,
    )


class SwimMembership:
    """The overlay as one peer sees it (:class:`p2prdf_node.members.Members`).

    ``clock`` is the node's, by which others measure theirs.  ``lost`` is told whether a member left in order: whoever
    did is not missing, so nobody waits for it.  ``known`` is called once, with all there is, when the
    view has become complete, and when all are in it, and answer, who are behind the bootstrap addresses, again if a
    member was lost.  ``barred`` tells which members are out, by their keys: what they say is not heard.
    ``remembered`` returns the most members that this node has known in any life, itself included.
    """

    def __init__(
        self,
        config: NodeConfig,
        claim: tuple[bytes, str, int],
        *,
        clock: Callable[[], float],
        seen: Callable[[Contact, str], None],
        lost: Callable[[Contact, bool], None],
        known: Callable[[OwnersFound | DoorsMet | ClusterEntered], None],
        linked: Callable[[int], bool],
        spawn: Spawn,
        barred: Callable[[int], bool] = lambda _key: False,
        keyring: Keyring | None = None,
        remembered: Callable[[], int] = lambda: 1,
    ):
        self.config = config
        self.claim = claim
        self.contact = Contact(keys.node_key(claim[0]), claim[1], claim[2])
        self.joined = asyncio.Event()
        self._clock, self._seen, self._lost, self._known, self._spawn = clock, seen, lost, known, spawn
        self._barred, self._barred_count = barred, 0
        self._envelopes = Envelopes(
            keyring or Keyring([config.seal_key]), self.contact.key, f"{config.overlay} view", lambda: self._clock()
        )
        self._doors = Doors(config.bootstrap)
        self._lines = LineLimit(LOG_LINES_PER_SECOND)
        self._malformed = 0
        self._asked_time: dict[int, float] = {}
        self._swim = Swim(
            self.contact, settings_of(config), now=clock(), zone=config.zone, linked=linked,
            entropy=random.Random(secrets.randbits(128)),  # noqa: S311 - who is asked when guards nothing
        )  # fmt: skip
        self.entered = self._complete = asyncio.Event()
        self._remembered = remembered
        self._began = time.monotonic()
        self._introduced: set[int] = set()
        self._doors_met = False
        self._hails: dict[int, asyncio.Future[Record | None]] = {}
        self._hailed_at: dict[int, float] = {}
        self._knocks: dict[Contact, None] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    # --- what the daemon calls -------------------------------------------------------------------

    async def start(self, bound: socket.socket) -> None:
        """Begin to answer on a bound datagram socket."""
        self._doors.use(bound)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(self), sock=bound)

    async def run(self) -> None:
        """Find the way into a view, and other views later, until cancelled."""
        if not self.config.bootstrap:
            self._submit(Create())
        pause = RETRY_SECONDS_MIN
        share = random.uniform(1, 2)  # noqa: S311 - guards nothing
        met, since = "", time.monotonic()
        while True:
            before, met = met, await self._greet()
            if met != before:
                since = time.monotonic()
            if not self._complete.is_set() and time.monotonic() >= since + self._patience(met) * share:
                self._found(met)
            pause = min(2 * pause, self._pause_max(met))
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing

    def _patience(self, met: str) -> float:
        """Return how long this node must have met the same before it begins a view; infinite: it must not."""
        match met:
            case "only itself":
                return 0.0
            case "only who come after it":
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
        if met == "nobody":  # the operator has said that there is no other node to wait for
            self._known(DoorsMet())

    def _pause_max(self, met: str) -> float:
        if self._swim.living:
            return RETRY_SECONDS_MAX
        if self._complete.is_set() or met == "a member":
            return RETRY_SECONDS_ALONE
        is_late = met == "nobody" and time.monotonic() >= self._began + STARTING_SECONDS
        return RETRY_SECONDS_UNREACHED if is_late else RETRY_SECONDS_STARTING

    def stop(self, *, in_order: bool = True) -> None:
        """Tell everyone known that this peer leaves, or that it is gone, and close."""
        self._submit(Leave(in_order))
        self._stopped = True
        self._complete.set()
        if self._timer is not None:
            self._timer.cancel()
        for hail in self._hails.values():
            hail.cancel()
        if self._transport is not None:
            self._transport.close()

    def contacts(self) -> list[Contact]:
        """Return the live peers of the view."""
        return self._swim.contacts()

    @property
    def joining(self) -> str | None:
        """Why this node is not a member yet, with the remedy, or None once it is."""
        return None if self._complete.is_set() else self._swim.clocks.reason or self._doors.problem()

    @property
    def fenced(self) -> str | None:
        """Why this node must take no new work, or None."""
        if (reason := self._swim.clocks.reason) is not None:
            return reason
        if self._swim.out:
            return "another live node has this node's place on the ring"
        if not self._swim.complete and self._complete.is_set():
            return f"there are more nodes than a view can hold ({self._swim.config.view_max}): setting membership"
        here, remembered = len(self._swim.living) + 1, self._remembered()
        if 2 * here <= remembered and time.monotonic() < self._began + FEW_SECONDS:
            return (
                f"this node has just started, and sees {here} of the {remembered} nodes that there were: the others may"
                f" have clocks of another time; it waits for {FEW_SECONDS:g} s"
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
                "revoked": self._barred_count,
            },
            **self._swim.status(),
        }

    async def find_owners(self, key: int) -> OwnersFound:
        """Return all live peers, the owner of a key first, as soon as all are known; none if they are too many."""
        await self._complete.wait()
        if self._stopped or not self._swim.complete:
            return OwnersFound(key, (), complete=False)
        return self._owners(key)

    async def confirm(self, contact: Contact) -> bool:
        """Tell whether a peer of this cluster answers at the address that ``contact`` claims."""
        if contact in self._swim.contacts():
            return True
        for _ in range(CONFIRM_PINGS):
            answer = await self._hail((contact.host, contact.port))
            if answer is not None:
                return answer.contact == contact
        return False

    def suspect(self, key: int) -> None:
        """Examine a peer at once, because a connection with it broke or was refused."""
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

    async def _greet(self) -> str:
        """Probe all doors that nobody known is behind; tell what was met there at best."""
        addresses = await self._doors.addresses()
        known = {(contact.host, contact.port) for contact in self._swim.contacts()}
        own = self.claim[1], self.claim[2]
        # While joining also those heard of already: it takes a member to join by.
        strangers = [each for each in addresses if each != own and (each not in known or not self._complete.is_set())]
        if self._doors.only(own) and all(address == own for address in addresses):
            self._see_doors({})
            return "only itself"
        doors = [] if self._doors_met else [each for each in self._doors.named if each not in (own, *strangers)]
        asked = [*strangers, *doors]
        answers = dict(zip(asked, await asyncio.gather(*map(self._hail, asked)), strict=True))
        self._see_doors(answers)
        answers = {address: answers[address] for address in strangers}
        others = [each for each in answers.values() if each is not None and each.contact != self.contact]
        for each in others:
            if each.incarnation:
                self._submit(Introduce(each.contact))
        if any(each.incarnation for each in others):
            return "a member"
        is_all = not self._doors.unresolved and None not in answers.values()
        if is_all and others and all(self.contact.key < each.contact.key for each in others):
            return "only who come after it"
        if not others:
            return "nobody"
        return "a majority" if self._doors.majority(len({each.contact for each in others}), own) else "a minority"

    def _see_doors(self, answers: dict[Address, Record | None]) -> None:
        """Tell that all are in the view, and have just answered, who are behind the bootstrap addresses."""
        if self._doors_met or self._doors.unresolved or not (self._doors.named and self._complete.is_set()):
            return
        answered = [answers.get(address) for address in self._doors.named if address != self.claim[1:]]
        here = [self.contact, *self._swim.contacts()]
        if all(each is not None and each.contact in here for each in answered):
            self._doors_met = True
            self._known(DoorsMet())

    async def _hail(self, address: Address) -> Record | None:
        """Return the record that the member at an address tells of itself; None: none in time, or of another time."""
        if len(self._hails) >= HAILS_MAX or self._stopped:
            return None
        number = _HAIL | secrets.randbits(63)
        future: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        self._hails[number], self._hailed_at[number] = future, self._clock()
        self._send(Packet(self._swim.greeting, int(self._clock() * 1e6), Probe(number), ()), address, 0)
        try:
            async with asyncio.timeout(self.config.ping_timeout_seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._hails[number], self._hailed_at[number]

    async def _knock(self, contact: Contact) -> None:
        """Try to connect to a peer."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(KNOCK_SECONDS):
                transport, _ = await loop.create_connection(asyncio.Protocol, contact.host, contact.port)
            transport.close()
        except ConnectionRefusedError:
            self._submit(Refused(contact))
        except (OSError, TimeoutError) as error:
            log.debug("knock_failed", peer=str(contact), reason=str(error) or "no connection in time")
        finally:
            del self._knocks[contact]

    # --- driving the machine ---------------------------------------------------------------------

    def _submit(self, request: SwimRequest) -> None:
        if not self._stopped:
            self._carry_out(self._swim.submit(request, now=self._clock()))

    def received(self, datagram: bytes, address: Address) -> None:
        """Take in a datagram."""
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
        living = [each for each in packet.news if each.state.living and self._barred(each.contact.key)]
        if living:  # others may not know yet that they are out
            packet = replace(packet, news=tuple(each for each in packet.news if each not in living))
        message = packet.message
        future = self._hails.get(message.request) if isinstance(message, Answer) else None
        if future is not None and not future.done():
            future.set_result(packet.sender)
        self._carry_out(self._swim.receive(packet, now=self._clock()))
        sender = packet.sender
        if not self._swim.member and sender.incarnation and sender.contact.key not in self._introduced:
            self._introduced.add(sender.contact.key)  # it has this node's address, which may have none of its own
            self._submit(Introduce(sender.contact))

    def _decoded(self, payload: bytes, address: Address, *, counted: bool) -> Packet | None:
        """Return the packet of a genuine datagram, or None: it is malformed, or its sender is expelled."""
        try:
            packet = decode(payload)
        except RemoteProtocolError as error:
            self._malformed += counted  # else it counts as refused for its time
            if counted and self._lines.allow(time.monotonic()):
                log.warning("datagram_malformed", sender=str(address), reason=str(error))
            return None
        if self._barred(packet.sender.contact.key):
            self._barred_count += counted
            return None
        return packet

    def _hear_stranger(self, packet: Packet) -> None:
        """Take from the packet of a member of another time only the time, and tell this node's."""
        contact, message = packet.sender.contact, packet.message
        if contact.key == self.contact.key:
            return
        now = self._clock()
        if isinstance(message, Probe):
            told = OtherTime(message.request, len(self._swim.living) + 1 if self._swim.member else 0)
            self._send(Packet(self._swim.greeting, int(now * 1e6), told, ()), (contact.host, contact.port), contact.key)
        future = self._hails.get(message.request) if isinstance(message, OtherTime) else None
        if future is None:
            self._ask_time(contact)
        elif not future.done():
            assert isinstance(message, OtherTime)
            asked_at = self._hailed_at[message.request]
            self._submit(Stranger(contact, packet.clock / 1e6 - (asked_at + now) / 2, message.members))
            future.set_result(None)

    def _ask_time(self, contact: Contact) -> None:
        """Probe a member whose datagrams are of another time, unless that was done just now."""
        now = time.monotonic()
        self._asked_time = {key: at for key, at in self._asked_time.items() if at > now - ASK_TIME_SECONDS}
        if contact.key not in self._asked_time and len(self._asked_time) < ASK_TIME_MAX:
            self._asked_time[contact.key] = now
            self._spawn(self._ask((contact.host, contact.port)), "time of a stranger")

    async def _ask(self, address: Address) -> None:
        await self._hail(address)

    def _wake(self) -> None:
        self._timer = None
        self._carry_out(self._swim.wake(now=self._clock()))

    def _carry_out(self, effects: list[SwimEffect]) -> None:
        self._arm()
        for effect in effects:
            match effect:
                case Post(to, packet):
                    self._send(packet, (to.host, to.port), to.key)
                case Knock(contact):
                    if contact not in self._knocks and len(self._knocks) < KNOCKS_MAX:
                        self._knocks[contact] = None
                        self._spawn(self._knock(contact), "knock")
                case ContactSeen(contact, zone):
                    self.joined.set()
                    self._seen(contact, zone)
                case ContactLost(contact, left):
                    self._doors_met = False
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
    """The socket's end."""

    def __init__(self, membership: SwimMembership):
        self._membership = membership

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Hand a datagram on."""
        self._membership.received(data, addr[:2])

    def error_received(self, exc: Exception) -> None:
        """Ignore an error report: an unreachable peer shows by its silence."""
