"""Chord membership of a node (:mod:`p2prdf.overlay.chord`): live peers and ownership of keys, without a view.

The state machine decides everything about the ring.  This module passes it lookups, and the peers that it does not know
yet: a node outside of a ring joins through any peer that answers or pings it.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final

from p2prdf.overlay.chord import Chord, ChordConfig
from p2prdf.overlay.chord_config import SUCCESSORS_MAX
from p2prdf.overlay.chord_lookup import WAYS_ON
from p2prdf.overlay.chord_messages import RING_MESSAGES, Ping, Pong
from p2prdf.overlay.membership import Packet
from p2prdf.wire.contract import FindOwner, OwnersFound
from p2prdf_node.datagram_codec import Codec
from p2prdf_node.datagrams import OWN_QUESTION
from p2prdf_node.members import Environment, MachineMembers

if TYPE_CHECKING:
    from p2prdf.wire.messages import Contact

__all__ = ["CODEC", "CONTACTS_MAX", "ChordMembership"]

CONTACTS_MAX: Final = SUCCESSORS_MAX + WAYS_ON
CODEC: Final = Codec(Packet, RING_MESSAGES, arrays_max=CONTACTS_MAX)


class ChordMembership(MachineMembers[Packet]):
    """Chord membership of one peer."""

    def __init__(self, environment: Environment):
        super().__init__(environment, "chord", CODEC, answers=(Pong,))
        config = environment.config
        self._machine: Chord = Chord(
            self.contact,
            ChordConfig(
                stabilise_seconds=config.ping_seconds,
                tend_seconds=config.ping_seconds,
                timeout_seconds=config.ping_timeout_seconds,
                silences=config.ping_strikes,
            ),
            first_request=secrets.randbits(62),
            patience=self._silences,
        )
        self._callers: set[int] = set()
        self._finding: dict[int, list[asyncio.Future[OwnersFound]]] = {}

    def stop(self, *, in_order: bool = True) -> None:
        """Tell all known peers that this one leaves, and close."""
        super().stop(in_order=in_order)
        for key in list(self._finding):
            self._effect(OwnersFound(key, (), complete=False))

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {**super().status(), "ring": self._machine.status()}

    async def find_owners(self, key: int) -> OwnersFound:
        """Look up the first live peers at or after a key; lookups beyond a bound fail at once."""
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

    async def _note_answers(self, found: dict[Contact, bool]) -> None:
        self._callers.clear()
        await super()._note_answers(found)

    def _received(self, packet: Packet) -> None:
        message, sender = packet.message, packet.sender
        if isinstance(message, Pong) and message.request & OWN_QUESTION:
            return
        if isinstance(message, Ping) and not self.entered.is_set() and sender.key not in self._callers:
            self._callers.add(sender.key)  # the caller has this node's address; this node itself may have no seed
            self._introduce(sender)
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
