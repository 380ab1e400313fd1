"""The gateway's connections to nodes: one for all who ask, one for each who subscribes, and some for those who publish.

A connection carries one publication at a time, so that each of several clients that publish needs one of its own.
They are made when they are needed and kept; who finds none in time is told that the gateway is busy.  A subscriber's
ends with it, which is how nodes learn that nobody reads any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from p2prdf.client import Client
from p2prdf.errors import Busy

__all__ = ["Connections", "Line"]

_WAIT_SECONDS: Final = 5.0


class Line:
    """What one publication needs: a connection, and a thread to read its body in."""

    def __init__(self, client: Client):
        self.client = client
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="body")


class Connections:
    """All connections of a gateway."""

    def __init__(self, connect: Callable[[], Awaitable[Client]], *, publications_max: int):
        self._connect = connect
        self._publications = asyncio.Semaphore(publications_max)
        self._free: list[Line] = []
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The one for queries."""
        assert self._client is not None, "open comes first"
        return self._client

    async def open(self) -> None:
        """Connect.  Raises Unavailable if no node answers."""
        self._client = await self._connect()

    async def own(self) -> Client:
        """Return a new one, which whoever asked for it closes.  Raises Unavailable."""
        return await self._connect()

    @contextlib.asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        """Lend what a publication needs.  Raises Busy if there is none in time, Unavailable."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._publications.acquire()
        except TimeoutError:
            raise Busy("as many publications as the gateway takes at a time are under way", retry_after=1.0) from None
        try:
            line = self._free.pop() if self._free else Line(await self._connect())
            try:
                yield line
            finally:
                self._free.append(line)
        finally:
            self._publications.release()

    async def close(self) -> None:
        """Close them all."""
        for line in self._free:
            line.reader.shutdown(wait=False, cancel_futures=True)
            await line.client.close()
        if self._client is not None:
            await self._client.close()
