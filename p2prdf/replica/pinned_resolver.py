"""A resolver that resolves names once per connection and checks the address before its use."""

from __future__ import annotations

import socket
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

__all__ = ["PinnedResolver"]


class Places(Protocol):
    """The check of addresses (:class:`p2prdf.replica.hosts.Hosts`)."""

    def check_address(self, host: str, address: str) -> None:
        """Raise TargetRefused if a host must not have an address."""
        ...


class PinnedResolver(AbstractResolver):
    """Resolves a name for one connection, and refuses forbidden addresses.

    A name that changes its address between check and use (DNS rebinding) is no way around: the connection goes
    to a checked address. Hosts written as addresses are not resolved; the caller checks those.
    """

    def __init__(self, places: Places):
        self._places = places
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host, all of them checked."""
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            self._places.check_address(host, each["host"])
        return found

    async def close(self) -> None:
        """Close the underlying resolver."""
        await self._resolver.close()
