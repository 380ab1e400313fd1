"""Requests to the state machine of a membership, and its effects, as SWIM and Chord have them in common.

Such a machine takes requests by ``submit``, packets of other peers by ``receive``, and the time by ``wake``, at its
``deadline``.  Each call returns effects for the driver.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from p2prdf.wire.compiled import one_of
from p2prdf.wire.datagrams import PEER
from p2prdf.wire.fields import Declared, message
from p2prdf.wire.messages import Contact

__all__ = ["Broken", "Create", "Introduce", "Leave", "Packet", "Post", "RoutedMessage"]


class RoutedMessage(Declared):
    """A message of an overlay without a view."""

    __slots__ = ()


@message(111)
class Packet(Declared):
    """A message as it travels, in an overlay that adds only the sender."""

    sender: Annotated[Contact, PEER]
    message: Annotated[Any, one_of(RoutedMessage)]


# --- into the machine ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """Begin an overlay of this peer alone, unless it is a member already."""


@dataclass(frozen=True, slots=True)
class Introduce:
    """This peer has just answered: join through it, or find out whether it knows other members."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Broken:
    """A connection with the peer of this key broke: test at once whether it lives."""

    key: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Announce that this peer leaves, and ignore all further packets.

    ``in_order``: this peer has handed over all its data.  If not, the members of a view receive the state dead, and
    wait for this peer as for lost ones.  A ring does not distinguish the two.
    """

    in_order: bool = True


# --- out of the machine --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Post:
    """Send a packet to a peer once, without retries."""

    to: Contact
    packet: Any

    @property
    def message(self) -> Any:
        """The packet's message."""
        return self.packet.message
