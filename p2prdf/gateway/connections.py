"""The gateway's connections to nodes: one shared for queries, one per subscriber, and a pool for publications.

Each publication has a connection of its own, so that bulk data of one client takes no other client's share of the
node.  These connections are opened on demand and kept; a publication that finds none within 5 s is refused as busy.
A subscriber's connection ends with the subscriber, so that nodes learn of the end.

Each connection acts as one client of the overlay (``name``), or as the gateway itself (""); tokens determine the names.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from p2prdf.client import Client
from p2prdf.errors import Unavailable
from p2prdf.gateway.capacity import capacity

__all__ = ["Connections", "Line"]


class Line:
    """Resources of one publication: a connection, and a thread that reads the body."""

    def __init__(self, client: Client, name: str):
        self.client = client
        self.name = name
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="body")


class Connections:
    """All connections of a gateway."""

    def __init__(self, connect: Callable[[str], Awaitable[Client]], *, publications_max: int):
        """``connect`` opens a connection that acts as the client of a name."""
        self._connect = connect
        self._publications_max = publications_max
        self._publications = asyncio.Semaphore(publications_max)
        self._lent = 0
        self._free: list[Line] = []
        """Idle lines, least recently used first."""
        self._clients: dict[str, Client] = {}
        self._connecting: dict[str, asyncio.Lock] = {}

    async def client(self, name: str = "") -> Client:
        """Return the shared connection for queries.  Raises Unavailable; NotAllowed if the gateway may not act as
        ``name``."""
        async with self._connecting.setdefault(name, asyncio.Lock()):
            if name not in self._clients:
                self._clients[name] = await self._connect(name)
            return self._clients[name]

    @property
    def used(self) -> Client:
        """The connection that acts as the gateway itself.  Raises Unavailable if no node has answered yet."""
        if "" not in self._clients:
            raise Unavailable("no node has answered this gateway yet")
        return self._clients[""]

    async def open(self) -> None:
        """Connect to a node.  Raises Unavailable if none answers."""
        await self.client()

    async def own(self, name: str = "") -> Client:
        """Return a new connection, which the caller closes.  Raises the errors of :meth:`client`."""
        return await self._connect(name)

    @contextlib.asynccontextmanager
    async def line(self, name: str = "") -> AsyncIterator[Line]:
        """Lend a line to a publication.  Raises Busy if none is free within 5 s, and the errors of :meth:`client`."""
        async with capacity(self._publications, "the gateway has its maximum of publications in progress"):
            self._lent += 1
            try:
                line = await self._line(name)
                try:
                    yield line
                finally:
                    self._free.append(line)
            finally:
                self._lent -= 1

    async def _line(self, name: str) -> Line:
        """Return an idle line of a name, or open one; at most ``publications_max`` lines exist, lent ones included."""
        for line in reversed(self._free):
            if line.name == name:
                self._free.remove(line)
                return line
        if self._free and len(self._free) + self._lent > self._publications_max:
            await _closed(self._free.pop(0))
        return Line(await self._connect(name), name)

    async def close(self) -> None:
        """Close all connections."""
        for line in self._free:
            await _closed(line)
        for client in self._clients.values():
            await client.close()


async def _closed(line: Line) -> None:
    line.reader.shutdown(wait=False, cancel_futures=True)
    await line.client.close()
