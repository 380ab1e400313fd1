"""Messages between peers of an overlay without a view: those of a Chord ring, of which Kademlia uses a part.

Each question has a number that its answer repeats.  The numbers of a process start at a random one, so that no answer
to an earlier process of the peer is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Post
from p2prdf.wire.contract import ContactLost, ContactSeen, FindOwner, OwnersFound, Trace
from p2prdf.wire.messages import Contact

__all__ = [
    "RING_MESSAGES", "Answer", "Changed", "FindOwners", "GetRing", "Leaving", "Names", "NotMember", "Notify",
    "Ping", "Pong", "Question", "Reading", "Ring", "RingBusy", "RingEffect", "RingMessage", "RingRequest",
]  # fmt: skip


# --- questions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ping:
    """To any peer: ask whether it lives and is a member.  Answered at once by Pong."""

    request: int


@dataclass(frozen=True, slots=True)
class GetRing:
    """To a successor or a possible one: ask for its predecessor and successors.

    Answered by Ring; by RingBusy while the asked peer may change its pointers (Zave 2017, section on the shared-state
    abstraction); by NotMember.
    """

    request: int


@dataclass(frozen=True, slots=True)
class FindOwners:
    """To any member, for a lookup: ask for the peers nearest to ``key``.  Answered by Names."""

    request: int
    key: int


# --- answers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pong:
    """Answer to Ping."""

    request: int
    member: bool


@dataclass(frozen=True, slots=True)
class Ring:
    """Answer to GetRing: the successors, nearest first; the sender is the last if its list goes around."""

    request: int
    predecessor: Contact | None
    successors: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class RingBusy:
    """Answer to GetRing: ask again in a moment."""

    request: int


@dataclass(frozen=True, slots=True)
class Names:
    """Answer to FindOwners: in a ring :meth:`p2prdf.overlay.chord_lookup.ChordTable.answer`, else the closest peers."""

    request: int
    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class NotMember:
    """Answer to GetRing and FindOwners of a peer that has not joined or is leaving."""

    request: int


# --- messages without an answer ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notify:
    """To the first successor: the sender may be its predecessor."""


@dataclass(frozen=True, slots=True)
class Changed:
    """To the predecessor, or to a notifier that is not the predecessor: the sender's pointers have changed."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """To all contacts: the sender leaves.  ``successors``: its list, for peers without other contacts."""

    successors: tuple[Contact, ...]


Question = Ping | GetRing | FindOwners
Answer = Pong | Ring | RingBusy | Names | NotMember
Reading = Ring | RingBusy | NotMember
"""The answers to GetRing."""

RingMessage = Question | Answer | Notify | Changed | Leaving
RING_MESSAGES = (
    Ping, Pong, GetRing, Ring, RingBusy, NotMember, FindOwners, Names, Notify, Changed, Leaving,
)  # fmt: skip
"""All messages; the places are their kinds on the wire."""


RingRequest = Create | Introduce | FindOwner | Broken | Leave
"""FindOwner is the peer's own effect, passed on unchanged."""

RingEffect = Post | ContactSeen | ContactLost | OwnersFound | Trace
"""The driver passes all effects except Post and Trace on to the peer."""
