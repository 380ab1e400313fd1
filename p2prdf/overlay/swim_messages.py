"""What members of a view say to each other, and what goes into and comes out of the machine.

Everything that is said travels in a :class:`Packet`, with who says it, its clock, and news of others.  Every
question carries a number that its answer repeats.  Numbers of one life of a peer go up from a random one, so
that an answer to a former life is not taken for one to this.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from p2prdf.wire.contract import ContactLost, ContactSeen, Trace
from p2prdf.wire.messages import Contact

__all__ = [
    "BUCKETS", "LIFE_SHIFT", "NEWS_BYTES_MAX", "Answer", "AskProbe", "Broken", "Compare", "Create", "Gossip",
    "Introduce", "Knock", "Leave", "OtherTime", "Packet", "Post", "Probe", "Record", "Refused", "Report", "Share",
    "State", "Stranger", "SwimEffect", "SwimMessage", "SwimRequest",
]  # fmt: skip

BUCKETS = 32
"""Parts of the ring whose members are compared by one number each; a power of two."""
LIFE_SHIFT = 16
"""An incarnation's upper bits name a life of its member: another process is another life."""
NEWS_BYTES_MAX = 1100
"""News in one packet, by :attr:`Record.bytes`; with the longest message it is still one datagram."""


class State(IntEnum):
    """What is believed of a member.  Of one incarnation the later state is the stronger belief."""

    ALIVE = 0
    SUSPECT = 1
    """Silent: it has some time to object, by a higher incarnation."""
    DEAD = 2
    LEFT = 3
    """It said goodbye."""

    @property
    def living(self) -> bool:
        """Whether it counts as a member of the view."""
        return self <= State.SUSPECT


@dataclass(frozen=True, slots=True)
class Record:
    """One belief about one member.

    ``incarnation`` is raised by the member alone.  Beliefs are ordered by :attr:`rank`, and the highest one
    counts, so it does not matter in which order they come, nor how often.
    """

    contact: Contact
    zone: str
    incarnation: int
    state: State

    @property
    def rank(self) -> tuple[int, int, str, int]:
        """What decides between two beliefs about one member; the address only if two peers have one key."""
        return self.incarnation, self.state, self.contact.host, self.contact.port

    @property
    def life(self) -> int:
        """Which of its member's lives it is about."""
        return self.incarnation >> LIFE_SHIFT

    @property
    def bytes(self) -> int:
        """At most so many bytes does it take on its way."""
        return 34 + len(self.contact.host) + len(self.zone)


# --- between members -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probe:
    """To anyone: are you there?  Answered at once, by Answer."""

    request: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to Probe."""

    request: int


@dataclass(frozen=True, slots=True)
class OtherTime:
    """Answer to a Probe whose time is too far from the receiver's clock; nothing else in such a packet is heard.

    ``members``: how many the sender sees, itself included; 0 while it is no member.
    """

    request: int
    members: int


@dataclass(frozen=True, slots=True)
class AskProbe:
    """To some members: probe another for me, for it does not answer me (SWIM, section 3.1).  Answered by Report."""

    request: int
    target: Contact


@dataclass(frozen=True, slots=True)
class Report:
    """Answer to AskProbe: whether the target answered.  ``heard`` false shows that the asked one is well itself."""

    request: int
    heard: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """To anyone: a number for each part of the ring, equal if the same living members are known there.

    Answered by Compare with ``reply``; both also share what they know of the parts that differ.
    """

    digests: tuple[int, ...]
    reply: bool


@dataclass(frozen=True, slots=True)
class Gossip:
    """To some members: nothing but news."""


@dataclass(frozen=True, slots=True)
class Share:
    """To whom a comparison showed to differ: as news, all that is believed of a part of the ring, for however long."""


SwimMessage = Probe | Answer | OtherTime | AskProbe | Report | Compare | Gossip | Share


@dataclass(frozen=True, slots=True)
class Packet:
    """A message as it travels.

    ``sender`` is the sender's own belief about itself; its incarnation is 0 while it is no member.  ``clock``: the
    sender's, in microseconds since the epoch.
    """

    sender: Record
    clock: int
    message: SwimMessage
    news: tuple[Record, ...]


# --- into the machine ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """Be a member of a view of one, if not a member already."""


@dataclass(frozen=True, slots=True)
class Introduce:
    """This member has just answered: join by it, or see whether it knows others."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Broken:
    """A connection with the peer of this key broke: find out at once whether it lives."""

    key: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A connection to this peer was refused: no process listens there."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Stranger:
    """A member of this cluster has answered a probe by :class:`OtherTime`: neither hears the other.

    ``offset``: by how many seconds its clock is ahead.  ``members``: as it said.
    """

    contact: Contact
    offset: float
    members: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Tell everyone known that this peer goes, and answer nothing more.

    ``in_order``: it leaves nothing behind that others lack.  Otherwise they are told that it is dead, which it would be
    found to be anyway: whoever waits for peers that were lost waits for it, too.
    """

    in_order: bool = True


SwimRequest = Create | Introduce | Broken | Refused | Stranger | Leave


# --- out of the machine --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Post:
    """Send a packet to a peer, once."""

    to: Contact
    packet: Packet


@dataclass(frozen=True, slots=True)
class Knock:
    """Try to connect to this peer, and submit Refused if that is refused; nothing otherwise."""

    contact: Contact


SwimEffect = Post | Knock | ContactSeen | ContactLost | Trace
"""ContactSeen and ContactLost go to the peer as they are."""
