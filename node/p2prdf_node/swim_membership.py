"""Membership of a node by a complete view: SWIM (:mod:`p2prdf.overlay.swim`).

The state machine decides everything about the view.  This module adds its TCP probes, which only report a refusal (no
process listens there), the clocks of members whose datagrams are refused for their time, and the seeds.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf.overlay.membership import Introduce
from p2prdf.overlay.swim import Swim
from p2prdf.overlay.swim_config import SwimConfig
from p2prdf.overlay.swim_messages import (
    Answer,
    OtherTime,
    Packet,
    Probe,
    Refused,
    Stranger,
    TcpProbe,
)
from p2prdf.wire.contract import OwnersFound, SeedsReached
from p2prdf_node.members import Environment, Members

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact
    from p2prdf_node.config import NodeConfig
    from p2prdf_node.seeds import Address

__all__ = ["SwimMembership"]

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


class SwimMembership(Members[Packet]):
    """SWIM membership of one peer.

    ``Environment.known`` receives all members once, when the view has become complete, and ``SeedsReached`` when all
    nodes behind the bootstrap addresses are in the view and answer; the latter again after a member was lost.
    """

    _machine: Swim

    def __init__(self, environment: Environment):
        config = environment.config
        machine = Swim(
            environment.contact, settings_of(config), now=environment.now(), zone=config.zone,
            linked=environment.linked,
            entropy=random.Random(secrets.randbits(128)),  # noqa: S311 - the order of probes guards nothing
        )  # fmt: skip
        super().__init__(
            environment, machine, f"{config.overlay} view", Packet, answers=(Answer,), untimely=self._hear_stranger
        )
        self._asked_time: dict[int, float] = {}
        self._introduced: set[int] = set()
        self._seeds_reached = False
        self._tcp_probes: dict[Contact, None] = {}

    # --- calls of the daemon -------------------------------------------------------------------------

    @property
    def joining(self) -> str | None:
        """Reason why this node is not a member yet, with the remedy; None for a member."""
        return None if self.entered.is_set() else self._machine.clocks.reason or super().joining

    @property
    def fenced(self) -> str | None:
        """Reason why this node must take no new work, or None."""
        swim = self._machine
        if (reason := swim.clocks.reason) is not None:
            return reason
        if swim.out:
            return "another live node has this node's ring position"
        if not swim.complete and self.entered.is_set():
            return f"there are more nodes than a view can hold ({swim.config.view_max}): setting membership"
        here, remembered = len(swim.living) + 1, self.environment.remembered()
        if 2 * here <= remembered and time.monotonic() < self._began + FEW_SECONDS:
            return (
                f"this node has just started, and sees {here} of {remembered} remembered nodes: the others may"
                f" have different clocks; it waits for {FEW_SECONDS:g} s"
            )
        return None

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {**super().status(), "membership": "view", "fenced": self.fenced, **self._machine.status()}

    async def find_owners(self, key: int) -> OwnersFound:
        """Return all live peers, the owner of a key first, once the view is complete; none if they are too many."""
        await self.entered.wait()
        if self._datagrams.closed or not self._machine.complete:
            return OwnersFound(key, (), complete=False)
        return self._owners(key)

    def _owners(self, key: int) -> OwnersFound:
        everyone = [self.contact, *self.contacts()]
        before = None
        if self.environment.config.overlay == "chord":
            everyone.sort(key=lambda contact: (contact.key - key) % (1 << 64))
            before = everyone[-1]
        else:
            everyone.sort(key=lambda contact: contact.key ^ key)
        return OwnersFound(key, tuple(everyone), complete=True, before=before)

    # --- joining ---------------------------------------------------------------------------------

    @property
    def _is_inside(self) -> bool:
        return self.entered.is_set()

    def _packet(self, message: Any) -> Packet:
        return Packet(self._machine.greeting, int(self.environment.now() * 1e6), message, ())

    def _question(self, number: int) -> Packet:
        return self._packet(Probe(number))

    def _sender(self, packet: Packet) -> Contact:
        return packet.sender.contact

    def _is_member(self, answer: Packet) -> bool:
        return answer.sender.incarnation > 0

    def _begin(self, met: str) -> None:
        super()._begin(met)
        if met == "nobody":  # setting first: the operator says that there is no other node to wait for
            self.environment.known(SeedsReached())

    def _is_asked(self, address: Address, known: set[Address]) -> bool:
        return super()._is_asked(address, known) or (not self._seeds_reached and address in self._seeds.named)

    def _note_answers(self, answers: dict[Address, Packet | None], found: dict[Contact, bool]) -> None:
        self._note_seeds(answers)
        for contact in [contact for contact, is_member in found.items() if is_member]:
            self._submit(Introduce(contact))

    def _note_seeds(self, answers: dict[Address, Packet | None]) -> None:
        """Report once that all nodes behind the bootstrap addresses are in the view and have just answered."""
        if self._seeds_reached or self._seeds.unresolved or not (self._seeds.named and self.entered.is_set()):
            return
        own = self.contact.host, self.contact.port
        answered = [answers.get(address) for address in self._seeds.named if address != own]
        here = [self.contact, *self.contacts()]
        if all(each is not None and each.sender.contact in here for each in answered):
            self._seeds_reached = True
            self.environment.known(SeedsReached())

    # --- packets and effects ---------------------------------------------------------------------

    def _received(self, packet: Packet) -> None:
        if isinstance(packet.message, OtherTime):
            self._hear_stranger(packet)
            return
        excluded = self.environment.excluded
        living = [each for each in packet.gossip if each.state.living and excluded(each.key)]
        if living:  # gossip of members that do not know yet that these are cut off
            packet = replace(packet, gossip=tuple(each for each in packet.gossip if each not in living))
        super()._received(packet)
        sender = packet.sender
        if not self._machine.member and sender.incarnation and sender.key not in self._introduced:
            self._introduced.add(sender.key)  # the sender has this node's address; this node itself may have no seed
            self._submit(Introduce(sender.contact))

    def _enter(self) -> None:
        self.environment.known(self._owners(self.contact.key))
        super()._enter()

    def _note_lost(self, contact: Contact) -> None:  # noqa: ARG002
        self._seeds_reached = False

    def _effect(self, effect: TcpProbe) -> None:
        contact = effect.contact
        if contact not in self._tcp_probes and len(self._tcp_probes) < TCP_PROBES_MAX:
            self._tcp_probes[contact] = None
            self.environment.spawn(self._tcp_probe(contact), "tcp_probe")

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

    # --- members with a different clock ----------------------------------------------------------

    def _hear_stranger(self, packet: Packet) -> None:
        """Use only the clock of a packet from a member with a different clock, and send this node's clock.

        A datagram with a time more than ten seconds off may be a replay and is not processed;
        its sender is probed instead.  A probe of any time is answered by :class:`OtherTime`, which also counts at any
        time: it repeats a number sent just now.  So both sides measure the difference, and the smaller view is fenced
        (:mod:`p2prdf.overlay.swim_clock`).  A replay causes one probe and nothing else.
        """
        contact, message, swim = packet.sender.contact, packet.message, self._machine
        if contact.key == self.contact.key:
            return
        if isinstance(message, Probe):
            members = len(swim.living) + 1 if swim.member else 0
            self._datagrams.send(self._packet(OtherTime(message.request, members)), contact)
        asked_at = self._datagrams.asked_at(message.request) if isinstance(message, OtherTime) else None
        if asked_at is None:
            self._ask_time(contact)
        else:
            assert isinstance(message, OtherTime)
            ahead = packet.clock / 1e6 - (asked_at + self.environment.now()) / 2
            self._submit(Stranger(contact, ahead, message.members))
            self._datagrams.settle(message.request, None)

    def _ask_time(self, contact: Contact) -> None:
        """Probe a member with a different clock, at most every ASK_TIME_SECONDS."""
        now = time.monotonic()
        self._asked_time = {key: at for key, at in self._asked_time.items() if at > now - ASK_TIME_SECONDS}
        if contact.key not in self._asked_time and len(self._asked_time) < ASK_TIME_MAX:
            self._asked_time[contact.key] = now
            self.environment.spawn(self._probe_clock(contact), "time of a stranger")

    async def _probe_clock(self, contact: Contact) -> None:
        await self._ping((contact.host, contact.port))
