"""Names are resolved once for a connection, and the address is looked at before it is used."""

from __future__ import annotations

import socket
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

__all__ = ["PinnedResolver"]


class Places(Protocol):
    """Who knows where a host may be (:class:`p2prdf.replica.hosts.Hosts`)."""

    def check_address(self, host: str, address: str) -> None:
        """Raise TargetRefused if a host must not be at an address."""
        ...


class PinnedResolver(AbstractResolver):
    """Resolves a name for one connection, and refuses addresses where it must not lead.

    A name that leads somewhere else a moment later is no way around: the connection is made to an address that was
    looked at.  Hosts that are written as addresses are not resolved; who makes the connection checks those.
    """

    def __init__(self, places: Places):
        self._places = places
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host; the connection is made to one of these."""
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            self._places.check_address(host, each["host"])
        return found

    async def close(self) -> None:
        """Nothing is held."""
        await self._resolver.close()
