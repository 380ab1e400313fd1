"""The seed addresses through which a node joins an overlay.

A node with bootstrap addresses does not begin a cluster because it is alone: names may resolve late.  It keeps trying
until it has reached another node, unless the setting ``first`` is given (docs/explanation/design/membership.md).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from typing import Final

import structlog

from p2prdf_node.addresses import split_address

__all__ = ["RESOLVE_SECONDS", "Address", "Seeds", "look_up"]

LOST_MAX: Final = 64
"""Lost peers that are remembered, and tried again for ``LOST_SECONDS``."""
LOST_SECONDS: Final = 600.0
RESOLVE_SECONDS: Final = 5.0
"""Longest wait of one attempt for the lookup of a name; the lookup goes on for the attempts after it."""
LOOKUPS_MAX: Final = 3
"""Unanswered lookups of one name: a resolver that is down must not take all threads."""
UNRESOLVED_LOG_SECONDS: Final = 10.0
"""Least time between two log lines about one name that does not resolve."""

Address = tuple[str, int]

log = structlog.get_logger("membership")


async def look_up(host: str, port: int, family: int) -> list[Address]:
    """Resolve a name by the system's resolver.  Raises OSError, UnicodeError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM)
    return [(str(entry[4][0]), int(entry[4][1])) for entry in found]


class Seeds:
    """Seeds: the bootstrap addresses, and the addresses of recently lost peers.

    Lost peers are tried so that the two halves of a partitioned network merge again.
    """

    def __init__(self, bootstrap: tuple[str, ...]):
        self._bootstrap = bootstrap
        self._family = socket.AF_UNSPEC
        self._lost_at: dict[Address, float] = {}
        self._lookups: dict[str, set[asyncio.Task[list[Address]]]] = {}
        self._logged_at: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        """Bootstrap addresses that did not resolve at the last attempt, with the reasons."""
        self.unresolved = 0
        """Number of names that did not resolve at the last attempt."""
        self.named: list[Address] = []
        """Addresses that the bootstrap names resolved to, without those of lost peers."""

    def use(self, bound: socket.socket) -> None:
        """Resolve names for the address family of this node's socket."""
        self._family = bound.family

    def lost(self, address: Address) -> None:
        """Remember the address of a peer that failed."""
        while len(self._lost_at) >= LOST_MAX:
            del self._lost_at[next(iter(self._lost_at))]
        self._lost_at[address] = time.monotonic()

    def found(self, address: Address) -> None:
        """Forget a lost peer that is back."""
        self._lost_at.pop(address, None)

    async def addresses(self) -> list[Address]:
        """Resolve the names and return all addresses, each once."""
        found = await asyncio.gather(*map(self._resolve, self._bootstrap))
        self.unresolved = found.count(None)
        self.named = [address for each in found for address in each or ()]
        forget = time.monotonic() - LOST_SECONDS
        self._lost_at = {address: at for address, at in self._lost_at.items() if at > forget}
        return list(dict.fromkeys([*self.named, *self._lost_at]))

    def only(self, own: Address) -> bool:
        """Tell whether all bootstrap addresses are literal addresses of this node, so that it has no other seed.

        A name that resolves only to this node proves nothing: it may resolve to further nodes later.
        """
        literal = all(_is_literal(split_address(text)[0]) for text in self._bootstrap)
        return literal and not self.unresolved and all(address == own for address in self.named)

    def majority(self, reached: int, own: Address) -> bool:
        """Tell whether this node and the ``reached`` bootstrap addresses are a majority of all of them."""
        known = len({*self.named, own}) + self.unresolved
        return 2 * (reached + 1) > known

    def problem(self) -> str:
        """Return the bootstrap addresses that have not been reached, and the remedy."""
        each = [f"{text} ({self.reasons.get(text, 'no answer')})" for text in self._bootstrap]
        return (
            f"this node has joined no cluster: none of its bootstrap addresses has been reached: {', '.join(each)};"
            " correct the names, the network or the cluster secret, or begin a cluster at one node (setting first)"
        )

    async def _resolve(self, text: str) -> list[Address] | None:
        """Return the addresses of a name, or None if the lookup fails or is late; a late lookup goes on."""
        host, port = split_address(text)
        lookups = self._lookups.setdefault(text, set())
        if len(lookups) < LOOKUPS_MAX:
            lookups.add(asyncio.ensure_future(look_up(host, port, self._family)))
        done, _ = await asyncio.wait(lookups, timeout=RESOLVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        lookups -= done
        reason = "no answer in time"
        for lookup in done:
            error = lookup.exception()
            if error is None:
                self.reasons.pop(text, None)
                return lookup.result()
            if not isinstance(error, OSError | UnicodeError):
                raise error
            reason = str(error) or type(error).__name__
        self.reasons[text] = f"the name does not resolve: {reason}"
        now = time.monotonic()
        if now >= self._logged_at.get(text, -UNRESOLVED_LOG_SECONDS) + UNRESOLVED_LOG_SECONDS:
            self._logged_at[text] = now
            log.warning("bootstrap_unresolved", address=text, reason=reason)
        return None


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
