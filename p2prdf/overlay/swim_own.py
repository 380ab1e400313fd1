"""This peer's identity in the view: incarnation, refutations, and conflicts of two peers with one key.

Only the member itself raises its incarnation: to *refute* a state that others hold of it, and when a process starts.
The upper bits of an incarnation are the start time of the process in milliseconds.  If the clock went back, they are
the number of the earlier process plus one.

Two peers have one key if a data directory was copied.  Both would answer for the same key, so one of them stays out.  A
peer that hears of its key alive at another address starts a *challenge*: it probes that address and tries to connect.
Mostly nothing answers there, because the other process was an earlier one of this peer.  If a peer answers, a joining
peer stays out, and of two members the one with the lower address stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from p2prdf.overlay.swim_messages import LIFE_SHIFT, Probe, Record, State

if TYPE_CHECKING:
    from p2prdf.overlay.swim_config import Entropy
    from p2prdf.overlay.swim_messages import SwimMessage
    from p2prdf.overlay.timers import Timers
    from p2prdf.wire.messages import Contact

__all__ = ["CHALLENGE_PROBES", "CHALLENGE_SECONDS", "Own", "Society"]

CHALLENGE_PROBES: Final = 5
CHALLENGE_SECONDS: Final = 0.1
"""Pause between two probes of a challenge."""


class Society(Protocol):
    """The part of :class:`~p2prdf.overlay.swim.Swim` that this module uses."""

    now: float

    def post(self, to: Contact, message: SwimMessage) -> None:
        """Send a message with gossip."""
        ...

    def tcp_probe(self, contact: Contact) -> None:
        """Start a TCP probe."""
        ...

    def refuted(self, claimed: Record) -> None:
        """Gossip the raised incarnation, which refutes ``claimed``."""
        ...

    def admitted(self) -> None:
        """Act as a member: no other peer has this peer's key."""
        ...

    def position_taken(self, twin: Contact) -> None:
        """Stay out: another live peer has the key."""
        ...


@dataclass(slots=True, eq=False)
class _Challenge:
    """A challenge under way; ``claim``: the state with the other address."""

    claim: Record


class Own:
    """This peer's own state and its defence."""

    def __init__(
        self, contact: Contact, zone: str, society: Society, timers: Timers, entropy: Entropy
    ):
        self.record = Record(contact, zone, int(society.now * 1000) << LIFE_SHIFT, State.ALIVE)
        self.member = False
        self.former: Record | None = None
        """The highest known state of this peer's key, while this peer is no member."""
        self._society, self._timers, self._entropy = society, timers, entropy
        self._challenge: _Challenge | None = None

    @property
    def known_as(self) -> Record | None:
        """The live state that other members have of this peer's key, if any."""
        if self.member:
            return self.record
        return self.former if self.former is not None and self.former.state.living else None

    def on_state(self, record: Record) -> None:
        """Handle a state of this peer's key that another peer sent."""
        if not self.member:
            if self.former is None or record.rank > self.former.rank:
                self.former = record
        elif record.rank > self.record.rank:
            if record.contact == self.record.contact:
                self._refute(record)
            elif self._challenge is None:
                self._begin(record)

    def apply(self) -> None:
        """Become a member, after a challenge if another peer may live under the key."""
        former = self.former
        if former is None or not former.state.living or former.contact == self.record.contact:
            self.admit()
        elif self._challenge is None:
            self._begin(former)

    def admit(self) -> None:
        """Become a member, with an incarnation above all known states of the key."""
        former, self.former = self.former, None
        if former is not None and former.incarnation >= self.record.incarnation:
            self._raise(former)
        self.member = True
        self._society.admitted()

    def met(self, twin: Record) -> None:
        """Handle a packet of another live peer with this peer's key."""
        challenge, self._challenge = self._challenge, None
        if not self.member:
            if challenge is not None:
                self._society.position_taken(twin.contact)
            return
        if challenge is None and twin.rank <= self.record.rank:
            return  # the other peer has the lower rank, so it starts the challenge
        own = self.record.contact
        if (own.host, own.port) < (twin.contact.host, twin.contact.port):
            self._refute(twin)
            return
        self.member = False
        self.former = twin
        self._society.position_taken(twin.contact)

    def refused(self, contact: Contact) -> None:
        """Handle a refused connection: if the challenged address refuses, the challenge ends."""
        if self._challenge is not None and self._challenge.claim.contact == contact:
            self._unchallenged(self._challenge)

    # --- inside ----------------------------------------------------------------------------------

    def _raise(self, record: Record) -> None:
        """Outrank a state: in the same process by one more, else with a later process number."""
        if record.life == self.record.life:
            incarnation = record.incarnation + 1
        else:
            incarnation = max(record.life, self.record.life) + 1 << LIFE_SHIFT
        self.record = replace(self.record, incarnation=incarnation)

    def _refute(self, record: Record) -> None:
        self._raise(record)
        self._society.refuted(record)

    def _begin(self, claim: Record) -> None:
        self._challenge = challenge = _Challenge(claim)
        self._society.tcp_probe(claim.contact)
        self._again(challenge, CHALLENGE_PROBES)

    def _again(self, challenge: _Challenge, times: int) -> None:
        if self._challenge is not challenge:
            return
        if times:
            self._society.post(challenge.claim.contact, Probe(self._entropy.getrandbits(62)))
            self._timers.at(self._society.now + CHALLENGE_SECONDS, lambda: self._again(challenge, times - 1))
        else:
            self._unchallenged(challenge)

    def _unchallenged(self, challenge: _Challenge) -> None:
        """End a challenge that nothing answered: the key belongs to this peer."""
        self._challenge = None
        if self.member:
            self._refute(challenge.claim)
        else:
            self.former = challenge.claim
            self.admit()
