"""What peers of a Chord ring say to each other, and what goes into and comes out of the machine.

Every question carries a number that its answer repeats.  Numbers of one life of a peer go up from a random
one, so that an answer to a former life is not taken for one to this.
"""

from __future__ import annotations

from dataclasses import dataclass

from p2prdf.wire.contract import ContactLost, ContactSeen, FindOwner, OwnersFound, Trace
from p2prdf.wire.messages import Contact

__all__ = [
    "Answer", "Create", "FindSuccessor", "GetRing", "Introduce", "Leave", "Leaving", "Names", "NotMember", "Notify",
    "Ping", "Pong", "Post", "Question", "Reading", "Ring", "RingBusy", "RingEffect", "RingMessage", "RingRequest",
    "Suspect",
]  # fmt: skip


# --- questions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ping:
    """To anyone: are you there, and a member?  Answered at once, by Pong."""

    request: int


@dataclass(frozen=True, slots=True)
class GetRing:
    """To a successor, or to somebody about to become one: what are your predecessor and successors?

    Answered by Ring; by RingBusy while the asked peer is itself about to change them (Zave 2017, section on
    the shared-state abstraction); by NotMember.
    """

    request: int


@dataclass(frozen=True, slots=True)
class FindSuccessor:
    """To any member, on behalf of a lookup: who is at or after ``key``, or before it?  Answered by Names."""

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
    """Answer to GetRing: the successor list is nearest first and ends with the answerer if it came round."""

    request: int
    predecessor: Contact | None
    successors: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class RingBusy:
    """Answer to GetRing: ask again in a moment."""

    request: int


@dataclass(frozen=True, slots=True)
class Names:
    """Answer to FindSuccessor (:meth:`p2prdf.overlay.chord_lookup.ChordTable.answer`)."""

    request: int
    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class NotMember:
    """Answer to GetRing and FindSuccessor of a peer that has not joined or is leaving."""

    request: int


# --- told without an answer ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notify:
    """To the first successor: I hold you for that, so I may be your predecessor."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """To everyone known: I am gone.  ``successors``: my list, for whoever knew nobody but me."""

    successors: tuple[Contact, ...]


Question = Ping | GetRing | FindSuccessor
Answer = Pong | Ring | RingBusy | Names | NotMember
Reading = Ring | RingBusy | NotMember
"""The answers to GetRing."""

RingMessage = Question | Answer | Notify | Leaving


# --- into the machine ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """Be a ring of one, if not a member already."""


@dataclass(frozen=True, slots=True)
class Introduce:
    """This peer has just answered: join by it, or see whether it belongs to another ring."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Suspect:
    """Ping the peer of this key at once, because a connection with it broke."""

    key: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Tell everyone known that this peer goes, and answer nothing more."""


RingRequest = Create | Introduce | FindOwner | Suspect | Leave
"""FindOwner is the peer's own effect, as it is."""


# --- out of the machine --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Post:
    """Send a message to a peer, once."""

    to: Contact
    message: RingMessage


RingEffect = Post | ContactSeen | ContactLost | OwnersFound | Trace
"""All but Post and Trace go to the peer as they are."""
