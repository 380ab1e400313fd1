"""Who this peer is to others: its incarnation, its objections, and whether its key is its own.

Only the member itself raises its incarnation: to *object* to what is believed of it, and when it begins another
life.  The upper bits of an incarnation name the life, and are the milliseconds at which it began; should the clock
have gone back, they are one more than those of the life before.

One key may belong to two peers, if a data directory was copied.  That would be two answers to every question about
the key, so one of them stays out.  Whoever hears that its key is alive at another address *challenges*: it probes there
and has a connection tried.  Most often nobody answers, as it was its own former life.  Otherwise a newcomer
waits, and of two members the one with the lower address stays.
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
    """The member that this is the identity of."""

    now: float

    def post(self, to: Contact, message: SwimMessage) -> None:
        """Send a message, with news."""
        ...

    def knock(self, contact: Contact) -> None:
        """Have a connection tried."""
        ...

    def objected(self, believed: Record) -> None:
        """Tell others of the raised incarnation, which objects to ``believed``."""
        ...

    def admitted(self) -> None:
        """Be a member: the key is this peer's own."""
        ...

    def position_taken(self, twin: Contact) -> None:
        """Stay out: another live peer has the key."""
        ...


@dataclass(slots=True, eq=False)
class _Challenge:
    """Finding out whether another peer with the own key lives."""

    said: Record


class Own:
    """The own belief about this peer, and its defence."""

    def __init__(
        self, contact: Contact, zone: str, society: Society, timers: Timers, entropy: Entropy
    ):
        self.record = Record(contact, zone, int(society.now * 1000) << LIFE_SHIFT, State.ALIVE)
        self.member = False
        self.former: Record | None = None
        """While this peer is no member: the highest belief about its key."""
        self._society, self._timers, self._entropy = society, timers, entropy
        self._challenge: _Challenge | None = None

    @property
    def known_as(self) -> Record | None:
        """What members take for living under this peer's key."""
        if self.member:
            return self.record
        return self.former if self.former is not None and self.former.state.living else None

    def said(self, record: Record) -> None:
        """Take in what somebody believes of this peer's key."""
        if not self.member:
            if self.former is None or record.rank > self.former.rank:
                self.former = record
        elif record.rank > self.record.rank:
            if record.contact == self.record.contact:
                self._object(record)
            elif self._challenge is None:
                self._begin(record)

    def apply(self) -> None:
        """Become a member, if nobody else lives under the key."""
        former = self.former
        if former is None or not former.state.living or former.contact == self.record.contact:
            self.admit()
        elif self._challenge is None:
            self._begin(former)

    def admit(self) -> None:
        """Become a member, above all that is believed of the key."""
        former, self.former = self.former, None
        if former is not None and former.incarnation >= self.record.incarnation:
            self._raise(former)
        self.member = True
        self._society.admitted()

    def met(self, twin: Record) -> None:
        """Deal with a live peer that has the own key: only one of the two can be a member."""
        challenge, self._challenge = self._challenge, None
        if not self.member:
            if challenge is not None:
                self._society.position_taken(twin.contact)
            return
        if challenge is None and twin.rank <= self.record.rank:
            return  # it will notice
        own = self.record.contact
        if (own.host, own.port) < (twin.contact.host, twin.contact.port):
            self._object(twin)
            return
        self.member = False
        self.former = twin
        self._society.position_taken(twin.contact)

    def refused(self, contact: Contact) -> None:
        """Take note that no process listens at an address."""
        if self._challenge is not None and self._challenge.said.contact == contact:
            self._unchallenged(self._challenge)

    # --- inside ----------------------------------------------------------------------------------

    def _raise(self, record: Record) -> None:
        """Go above a belief: in the same life, or to a life after the one it is about."""
        if record.life == self.record.life:
            incarnation = record.incarnation + 1
        else:
            incarnation = max(record.life, self.record.life) + 1 << LIFE_SHIFT
        self.record = replace(self.record, incarnation=incarnation)

    def _object(self, record: Record) -> None:
        self._raise(record)
        self._society.objected(record)

    def _begin(self, said: Record) -> None:
        self._challenge = challenge = _Challenge(said)
        self._society.knock(said.contact)
        self._again(challenge, CHALLENGE_PROBES)

    def _again(self, challenge: _Challenge, times: int) -> None:
        if self._challenge is not challenge:
            return
        if times:
            self._society.post(challenge.said.contact, Probe(self._entropy.getrandbits(62)))
            self._timers.at(self._society.now + CHALLENGE_SECONDS, lambda: self._again(challenge, times - 1))
        else:
            self._unchallenged(challenge)

    def _unchallenged(self, challenge: _Challenge) -> None:
        """Nobody is at the other address: the key is this peer's."""
        self._challenge = None
        if self.member:
            self._object(challenge.said)
        else:
            self.former = challenge.said
            self.admit()
