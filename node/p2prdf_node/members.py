"""What the daemon asks of an overlay, and what all overlays need to find others: addresses to join by."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from p2prdf_node.config import split_address

if TYPE_CHECKING:
    from p2prdf.wire.contract import OwnersFound
    from p2prdf.wire.messages import Contact

__all__ = ["CONFIRM_PINGS", "RESOLVE_SECONDS", "Address", "Doors", "Members", "Spawn"]

CONFIRM_PINGS: Final = 8
"""A peer that connects is pinged so often before it is turned away; it may be busy sending."""
LOST_MAX: Final = 64
"""Lost peers remembered, to be tried again for ``LOST_SECONDS``."""
LOST_SECONDS: Final = 600.0
RESOLVE_SECONDS: Final = 5.0

Address = tuple[str, int]
Spawn = Callable[[Coroutine[Any, Any, None], str], object]

log = structlog.get_logger("membership")


class Members(Protocol):
    """The overlay as one node sees it: who is there, and who owns a key.

    Made from the settings and the node's claim, with ``seen`` and ``lost``, called with each contact that comes
    to be known as live or is gone; ``linked``, which tells whether a TCP connection with a peer stands;
    ``spawn``, which starts a task of the daemon; ``barred``, which tells which keys are out, because
    certificates are revoked: whoever speaks for one is no member; and ``keyring``, the keys that seal datagrams.
    """

    contact: Contact
    joined: asyncio.Event
    """Set once somebody else is known."""

    @property
    def fenced(self) -> str | None:
        """Why this node must take no new work, or None."""
        ...

    async def start(self, bound: socket.socket) -> None:
        """Begin to answer on a bound datagram socket."""
        ...

    async def run(self) -> None:
        """Join and watch over the overlay until cancelled."""
        ...

    def stop(self, *, in_order: bool = True) -> None:
        """Tell others that this node leaves, and close; ``in_order``: others have what they are to keep then."""
        ...

    def contacts(self) -> list[Contact]:
        """Return the live peers that are watched over."""
        ...

    def status(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        ...

    async def find_owners(self, key: int) -> OwnersFound:
        """Look up the live peers closest to a key."""
        ...

    async def confirm(self, contact: Contact) -> bool:
        """Tell whether a peer of this cluster answers at the address that ``contact`` claims."""
        ...

    def suspect(self, key: int) -> None:
        """Find out at once whether a peer lives, because a connection with it broke or was refused."""
        ...


class Doors:
    """Addresses to join by: those of the settings, and of peers that were lost not long ago.

    The latter so that two halves of a parted network find together again.
    """

    def __init__(self, bootstrap: tuple[str, ...]):
        self._bootstrap = bootstrap
        self._family = socket.AF_UNSPEC
        self._lost_at: dict[Address, float] = {}
        self.unresolved = 0
        """Names that did not resolve at the last attempt."""
        self.named: list[Address] = []
        """What the others resolved to, without addresses of peers that were lost."""

    def use(self, bound: socket.socket) -> None:
        """Resolve names for the family of the own socket."""
        self._family = bound.family

    def lost(self, address: Address) -> None:
        """Remember where a peer was that fell silent."""
        while len(self._lost_at) >= LOST_MAX:
            del self._lost_at[next(iter(self._lost_at))]
        self._lost_at[address] = time.monotonic()

    def found(self, address: Address) -> None:
        """Forget a lost peer that is back."""
        self._lost_at.pop(address, None)

    async def addresses(self) -> list[Address]:
        """Resolve the names and return all addresses, each once."""
        found = [await self._resolve(text) for text in self._bootstrap]
        self.unresolved = found.count(None)
        self.named = [address for each in found for address in each or ()]
        forget = time.monotonic() - LOST_SECONDS
        self._lost_at = {address: at for address, at in self._lost_at.items() if at > forget}
        return list(dict.fromkeys([*self.named, *self._lost_at]))

    async def _resolve(self, text: str) -> list[Address] | None:
        host, port = split_address(text)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await loop.getaddrinfo(host, port, family=self._family, type=socket.SOCK_DGRAM)
        except (OSError, TimeoutError, UnicodeError) as error:
            log.warning("bootstrap_unresolved", address=text, reason=str(error) or "no answer in time")
            return None
        return [(str(entry[4][0]), int(entry[4][1])) for entry in found]
