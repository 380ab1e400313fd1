"""Messages between peers of an overlay without a view: those of a Chord ring, of which Kademlia uses a part.

Each question has a number that its answer repeats.  The numbers of a process start at a random one, so that no answer
to an earlier process of the peer is accepted.
"""

from typing import Annotated

from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Post, RoutedMessage
from p2prdf.wire.contract import ContactLost, ContactSeen, FindOwner, OwnersFound, Trace
from p2prdf.wire.datagrams import PEER_OR_NONE, peers
from p2prdf.wire.fields import message
from p2prdf.wire.messages import Contact, Identity, Number

__all__ = [
    "CONTACTS_MAX", "Answer", "Changed", "FindOwners", "GetRing", "Leaving", "Names", "NotMember", "Notify",
    "Ping", "Pong", "Question", "Reading", "Ring", "RingBusy", "RingEffect", "RingMessage", "RingRequest",
]  # fmt: skip

CONTACTS_MAX = 20
"""Maximum number of contacts in one message: the successors and further names of Chord, a bucket of Kademlia."""


# --- questions -----------------------------------------------------------------------------------


@message(112)
class Ping(RoutedMessage):
    """To any peer: ask whether it lives and is a member.  Answered at once by Pong."""

    request: Number


@message(114)
class GetRing(RoutedMessage):
    """To a successor or a possible one: ask for its predecessor and successors.

    Answered by Ring; by RingBusy while the asked peer may change its pointers (Zave 2017, section on the shared-state
    abstraction); by NotMember.
    """

    request: Number


@message(118)
class FindOwners(RoutedMessage):
    """To any member, for a lookup: ask for the peers nearest to ``key``.  Answered by Names."""

    request: Number
    key: Identity


# --- answers -------------------------------------------------------------------------------------


@message(113)
class Pong(RoutedMessage):
    """Answer to Ping."""

    request: Number
    member: bool


@message(115)
class Ring(RoutedMessage):
    """Answer to GetRing: the successors, nearest first; the sender is the last if its list goes around."""

    request: Number
    predecessor: Annotated[Contact | None, PEER_OR_NONE]
    successors: Annotated[tuple[Contact, ...], peers(CONTACTS_MAX)]


@message(116)
class RingBusy(RoutedMessage):
    """Answer to GetRing: ask again in a moment."""

    request: Number


@message(119)
class Names(RoutedMessage):
    """Answer to FindOwners: in a ring :meth:`p2prdf.overlay.chord_lookup.ChordTable.answer`, else the closest peers."""

    request: Number
    contacts: Annotated[tuple[Contact, ...], peers(CONTACTS_MAX)]


@message(117)
class NotMember(RoutedMessage):
    """Answer to GetRing and FindOwners of a peer that has not joined or is leaving."""

    request: Number


# --- messages without an answer ------------------------------------------------------------------


@message(120)
class Notify(RoutedMessage):
    """To the first successor: the sender may be its predecessor."""


@message(121)
class Changed(RoutedMessage):
    """To the predecessor, or to a notifier that is not the predecessor: the sender's pointers have changed."""


@message(122)
class Leaving(RoutedMessage):
    """To all contacts: the sender leaves.  ``successors``: its list, for peers without other contacts."""

    successors: Annotated[tuple[Contact, ...], peers(CONTACTS_MAX)]


Question = Ping | GetRing | FindOwners
Answer = Pong | Ring | RingBusy | Names | NotMember
Reading = Ring | RingBusy | NotMember
"""The answers to GetRing."""

RingMessage = Question | Answer | Notify | Changed | Leaving

RingRequest = Create | Introduce | FindOwner | Broken | Leave
"""FindOwner is the peer's own effect, passed on unchanged."""

RingEffect = Post | ContactSeen | ContactLost | OwnersFound | Trace
"""The driver passes all effects except Post and Trace on to the peer."""
