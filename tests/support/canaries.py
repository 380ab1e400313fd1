"""Canaries: a server that nobody must ask, and secrets that nobody must reveal."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

__all__ = ["CanaryServer", "Secret", "canary_server"]


@dataclass
class CanaryServer:
    """A server that records each connection; its answer is acceptable to most parsers."""

    url: str = ""
    hits: list[bytes] = field(default_factory=list)


@contextlib.asynccontextmanager
async def canary_server() -> AsyncIterator[CanaryServer]:
    """Listen on loopback, where a query can name it."""
    canary = CanaryServer()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        canary.hits.append(b"")
        canary.hits[-1] = await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/turtle\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    async with server:
        canary.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield canary


class Secret:
    """A secret that is recognised in any text, also in base64 and hex."""

    def __init__(self, text: str = "") -> None:
        self.text = text or f"canary{secrets.token_hex(16)}"

    def told_in(self, said: bytes | str) -> list[str]:
        """Return the spellings of the secret that a text contains."""
        data = said if isinstance(said, bytes) else said.encode("utf-8", "surrogateescape")
        raw = self.text.encode()
        spelled = {"itself": raw, "hex": raw.hex().encode(), "HEX": raw.hex().upper().encode(), "repr": repr(raw)[2:-1].encode()}  # noqa: E501
        for behind in range(3):  # as a part of something longer it begins at any of three byte offsets
            whole = base64.b64encode(b"x" * behind + raw)
            spelled[f"base64 from {behind}"] = whole[4 * (behind > 0) : 4 * ((behind + len(raw)) // 3)]
        return [name for name, each in spelled.items() if each in data]
