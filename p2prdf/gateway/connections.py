"""The gateway's connections to nodes: one for all who ask, one for each who subscribes, and some for those who publish.

Each publication has a connection of its own, so one client's bulk of data takes no other client's share of the node.
They are made when they are needed and kept; who finds none in time is told that the gateway is busy.  A subscriber's
ends with it, which is how nodes learn that nobody reads any more.

Each speaks for one client of the overlay (``name``), or for the gateway itself (""): there are these for each name that
a token has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from p2prdf.client import Client
from p2prdf.errors import Busy, Unavailable

__all__ = ["Connections", "Line"]

_WAIT_SECONDS: Final = 5.0


class Line:
    """What one publication needs: a connection, and a thread to read its body in."""

    def __init__(self, client: Client, name: str):
        self.client = client
        self.name = name
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="body")


class Connections:
    """All connections of a gateway."""

    def __init__(self, connect: Callable[[str], Awaitable[Client]], *, publications_max: int):
        """``connect`` is given the name of the client to speak for."""
        self._connect = connect
        self._publications_max = publications_max
        self._publications = asyncio.Semaphore(publications_max)
        self._lent = 0
        self._free: list[Line] = []
        """Those that were used longest ago come first."""
        self._clients: dict[str, Client] = {}
        self._connecting: dict[str, asyncio.Lock] = {}

    async def client(self, name: str = "") -> Client:
        """Return the one for queries.  Raises Unavailable, and NotAllowed if the gateway may not speak for a client."""
        async with self._connecting.setdefault(name, asyncio.Lock()):
            if name not in self._clients:
                self._clients[name] = await self._connect(name)
            return self._clients[name]

    @property
    def used(self) -> Client:
        """The one that speaks for the gateway itself.  Raises Unavailable if no node has answered yet."""
        if "" not in self._clients:
            raise Unavailable("no node has answered this gateway yet")
        return self._clients[""]

    async def open(self) -> None:
        """Connect.  Raises Unavailable if no node answers."""
        await self.client()

    async def own(self, name: str = "") -> Client:
        """Return a new one, which whoever asked for it closes.  Raises as :meth:`client`."""
        return await self._connect(name)

    @contextlib.asynccontextmanager
    async def line(self, name: str = "") -> AsyncIterator[Line]:
        """Lend what a publication needs.  Raises Busy if there is none in time, and as :meth:`client`."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._publications.acquire()
        except TimeoutError:
            raise Busy("as many publications as the gateway takes at a time are under way", retry_after=1.0) from None
        self._lent += 1
        try:
            line = await self._line(name)
            try:
                yield line
            finally:
                self._free.append(line)
        finally:
            self._lent -= 1
            self._publications.release()

    async def _line(self, name: str) -> Line:
        """Take a free line of a name, or make one; as many are kept as may be lent at a time."""
        for line in reversed(self._free):
            if line.name == name:
                self._free.remove(line)
                return line
        if self._free and len(self._free) + self._lent > self._publications_max:
            await _closed(self._free.pop(0))
        return Line(await self._connect(name), name)

    async def close(self) -> None:
        """Close them all."""
        for line in self._free:
            await _closed(line)
        for client in self._clients.values():
            await client.close()


async def _closed(line: Line) -> None:
    line.reader.shutdown(wait=False, cancel_futures=True)
    await line.client.close()
