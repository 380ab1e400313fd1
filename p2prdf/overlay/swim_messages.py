"""Messages between members of a view, and the requests and effects that only the SWIM state machine has.

Each message travels in a :class:`Packet`, with the sender's state and clock, and with gossip.  Each question has a
number that its answer repeats.  The numbers of a process start at a random one, so that no answer to an earlier process
under the same key is mistaken for an answer to this one.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

from p2prdf.errors import RemoteProtocolError
from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Post
from p2prdf.overlay.swim_config import is_zone
from p2prdf.wire import validation as check
from p2prdf.wire.compiled import one_of
from p2prdf.wire.contract import ContactLost, ContactSeen, Trace
from p2prdf.wire.datagrams import PEER
from p2prdf.wire.fields import Declared, checked, message, number, part, several
from p2prdf.wire.messages import Contact, Number

__all__ = [
    "BUCKETS", "GOSSIP_BYTES_MAX", "LIFE_SHIFT", "Answer", "Gossip", "OtherTime", "Packet", "Probe",
    "ProbeReport", "ProbeRequest", "PushPull", "Record", "Refused", "State", "Stranger", "SwimEffect", "SwimMessage",
    "SwimRequest", "SyncStates", "TcpProbe",
]  # fmt: skip

BUCKETS = 32
"""Number of parts of the ring with a digest each; a power of two."""
LIFE_SHIFT = 16
"""The bits of an incarnation above this one name the process (its *life*), the lower ones count refutations."""
GOSSIP_BYTES_MAX = 1100
"""Maximum size of the gossip in one packet, by :attr:`Record.bytes`; with any message it fits one datagram."""

RECORD_BYTES = 34
"""Maximum size of an encoded state without host and zone."""
INCARNATIONS_MAX = 1 << 62
"""Bound of incarnations, below 64 bits, so that a higher incarnation always exists."""


class State(IntEnum):
    """The state of a member.  Within one incarnation a higher state outranks a lower one."""

    ALIVE = 0
    SUSPECT = 1
    """Silent: the member may refute for some time, by a higher incarnation."""
    DEAD = 2
    LEFT = 3
    """The member has left in order."""

    @property
    def living(self) -> bool:
        """Whether the member counts as live."""
        return self <= State.SUSPECT


def _state(value: Any) -> State:
    return State(check.integer(value, State.LEFT))


def _zone(value: Any) -> str:
    if not is_zone(check.text(value)):
        raise RemoteProtocolError(f"{check.shown(value)} is no failure zone")
    return value  # type: ignore[no-any-return]  # a string, as was just seen


def _digests(value: Any) -> tuple[int, ...]:
    return tuple(map(check.integer, check.exactly(value, BUCKETS, "digests")))


@part
class Record(Declared):
    """One state of one member.

    Only the member itself raises ``incarnation``.  States are ordered by :attr:`rank` and the highest counts, so order
    and repetition of arrival do not matter.
    """

    contact: Annotated[Contact, PEER]
    zone: Annotated[str, checked("str", _zone)]
    incarnation: Annotated[int, number(INCARNATIONS_MAX - 1)]
    state: Annotated[State, checked("int", _state, "int({v})")]

    @property
    def key(self) -> int:
        """The member's ring position."""
        return self.contact.key

    @property
    def rank(self) -> tuple[int, int, str, int]:
        """The order of states of one member.  The address decides only if two peers have one key."""
        return self.incarnation, self.state, self.contact.host, self.contact.port

    @property
    def life(self) -> int:
        """The number of the process that the state is about."""
        return self.incarnation >> LIFE_SHIFT

    @property
    def bytes(self) -> int:
        """Maximum number of encoded bytes."""
        return RECORD_BYTES + len(self.contact.host) + len(self.zone)


# --- between members -----------------------------------------------------------------------------


@message(103)
class Probe(Declared):
    """To any peer: a ping.  Answered at once by Answer."""

    request: Number


@message(104)
class Answer(Declared):
    """Answer to Probe."""

    request: Number


@message(110)
class OtherTime(Declared):
    """Answer to a Probe with a time too far from the answering peer's clock.

    The answering peer ignores the rest of such a packet.

    ``members``: number of members that the sender sees, itself included; 0 while it is no member.
    """

    request: Number
    members: Number


@message(105)
class ProbeRequest(Declared):
    """To some members: probe a silent target on my behalf (SWIM, section 3.1).  Answered by ProbeReport."""

    request: Number
    target: Annotated[Contact, PEER]


@message(106)
class ProbeReport(Declared):
    """Answer to ProbeRequest: whether the target answered.  Even ``heard`` = False shows that the helper is live."""

    request: Number
    heard: bool


@message(107)
class PushPull(Declared):
    """To any peer: starts a push-pull sync.  Digests of equal sets of live members are equal.

    Answered by PushPull with ``reply``.  Both sides also send the states of the parts that differ, by SyncStates.
    """

    digests: Annotated[tuple[int, ...], checked("digests", _digests)]
    reply: bool


@message(108)
class Gossip(Declared):
    """To some members: gossip only."""


@message(109)
class SyncStates(Declared):
    """To the partner of a sync: all states of a differing part of the ring, as gossip.  They may be old."""


SwimMessage = Probe | Answer | OtherTime | ProbeRequest | ProbeReport | PushPull | Gossip | SyncStates


@message(125)
class Packet(Declared):
    """A message as it travels.

    ``sender``: the sender's state of itself; its incarnation is 0 while the sender is no member.  ``clock``: the
    sender's time, in microseconds since the epoch.
    """

    sender: Record
    clock: Number
    message: Annotated[SwimMessage, one_of(SwimMessage)]
    gossip: Annotated[tuple[Record, ...], several(Record, GOSSIP_BYTES_MAX // RECORD_BYTES)]


# --- into the machine ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """A connection to this peer was refused: no process listens at its address."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Stranger:
    """A peer of this cluster has answered a probe by :class:`OtherTime`: neither reads the other.

    ``offset``: the seconds by which its clock is ahead.  ``members``: as in its answer.
    """

    contact: Contact
    offset: float
    members: int


SwimRequest = Create | Introduce | Broken | Refused | Stranger | Leave


# --- out of the machine --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TcpProbe:
    """Try to connect to this peer (TCP probe), and submit Refused if the connection is refused."""

    contact: Contact


SwimEffect = Post | TcpProbe | ContactSeen | ContactLost | Trace
"""The driver passes ContactSeen and ContactLost on to the peer."""
