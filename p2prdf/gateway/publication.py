"""Publication and deletion of RDF over HTTP.

The body streams to the overlay; ``body_bytes_max`` bounds its length.
A request without ``Idempotency-Key`` is a new publication each time.  With one, statements are identified by key and
content: a repeated request, after a lost response, changes nothing, and the body's blank nodes keep their names.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import secrets
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import IO, Final, cast

from aiohttp import web

from p2prdf.errors import DataRefused, LocalProtocolError, Unavailable
from p2prdf.gateway.access import Permission
from p2prdf.gateway.connections import Line
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.state import GATEWAY, GatewayConfig, check_charset
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import Syntax, TripleBatch, read_triples
from p2prdf.wire.trace_context import parse_traceparent

__all__ = ["RDF_TYPES", "publish", "retract"]

RDF_TYPES: Final = {
    "application/n-triples": Syntax.N_TRIPLES, "application/n-quads": Syntax.N_QUADS, "text/turtle": Syntax.TURTLE,
    "application/trig": Syntax.TRIG,
}  # fmt: skip
"""Accepted media types.  RDF/XML is not accepted: its entities can expand a small body enormously."""
_LEVELS: Final = {"indexed": HTTPStatus.OK, "accepted": HTTPStatus.ACCEPTED}
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


async def publish(request: web.Request) -> web.StreamResponse:
    """Publish the body; respond when all of it is acknowledged."""
    return await _send(request, removed=False)


async def retract(request: web.Request) -> web.StreamResponse:
    """Delete the body's statements; respond when the deletion is acknowledged."""
    return await _send(request, removed=True)


async def _send(request: web.Request, *, removed: bool) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.WRITE)
    syntax = RDF_TYPES.get(request.content_type)
    if syntax is None:
        known = ", ".join(RDF_TYPES)
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {request.content_type}: not one of {known}")
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Encoding: {encoding}: send bodies uncompressed")
    check_charset(request)
    graph = request.query.get("graph")
    named = None if graph is None else terms.iri(graph)
    level = request.query.get("level", "indexed")
    if level not in _LEVELS:
        raise Refused(HTTPStatus.BAD_REQUEST, f"level: {level[:80]!r} is neither {' nor '.join(_LEVELS)}")
    key = request.headers.get("Idempotency-Key")
    if key is not None and (removed or _KEY.fullmatch(key) is None):
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            "Idempotency-Key: not for deletions, which may be repeated without one" if removed
            else "Idempotency-Key: 1 to 255 visible ASCII characters",
        )  # fmt: skip
    trace = _trace(request)
    mark = secrets.token_bytes(16) if key is None else hashlib.blake2b(key.encode(), digest_size=16).digest()
    batches = _Batches(request, syntax, mark.hex(), gateway.config, removed=removed)
    async with gateway.connections.line(name) as line:
        if removed:
            count = await line.client.retract(batches.read(line), graph=named, acknowledge=level, trace=trace)
        else:
            count = await line.client.publish(
                batches.read(line), publisher=int.from_bytes(mark[:8], "big"), by_content=key is not None,
                graph=named, acknowledge=level, trace=trace,
            )  # fmt: skip
    return web.json_response({"statements": count, "acknowledged": level}, status=_LEVELS[level])


def _trace(request: web.Request) -> str | None:
    """Return the trace context of a publication; an invalid header is ignored, as W3C Trace Context requires."""
    given = request.headers.get("traceparent")
    if given is None:
        return None
    try:
        context = parse_traceparent(given)
    except LocalProtocolError:
        return None
    return None if context is None else str(context)


class _Batches:
    """A body as batches of statements, parsed in a thread on demand."""

    def __init__(
        self, request: web.Request, syntax: Syntax, publication_id: str, config: GatewayConfig, *, removed: bool
    ):
        self._request = request
        self._syntax = syntax
        self._removed = removed
        self._publication_id = publication_id
        self._config = config

    async def read(self, line: Line) -> AsyncIterator[TripleBatch]:
        """Yield the batches.  Raises DataRefused with the line, Refused for an oversized body, Unavailable."""
        loop = asyncio.get_running_loop()
        body = _Body(self._request, loop, self._config)
        live = self._syntax.by_lines  # each complete line is sent at once, even if the rest of the body is late
        stream = cast("IO[bytes]", body if live else io.BufferedReader(body, 1 << 18))
        batches = read_triples(
            stream, publication_id=self._publication_id, syntax=self._syntax,
            strict=True, source="body", live=live,
        )  # fmt: skip
        try:
            while (batch := await loop.run_in_executor(line.reader, next, batches, None)) is not None:
                if self._removed:
                    self._check_named(batch)
                yield batch
        except (DataRefused, OSError) as error:
            if body.error is not None:
                raise body.error from None
            if isinstance(error, OSError):
                raise DataRefused(str(error), source="body") from None
            raise
        finally:
            body.give_up()

    def _check_named(self, batch: TripleBatch) -> None:
        """Raise DataRefused for a blank node in a deletion.

        A blank node is local to its body, so the deletion cannot match, but peers would keep the tombstone.
        """
        own = terms.skolem_prefix(self._publication_id)
        if any(term.startswith(own) for column in (batch.s, batch.o, batch.g) for term in column):
            raise DataRefused("a blank node is local to its body, so it cannot be deleted", source="body")


class _Body(io.RawIOBase):
    """A request's body as a file for a thread."""

    def __init__(self, request: web.Request, loop: asyncio.AbstractEventLoop, config: GatewayConfig):
        super().__init__()
        self._content = request.content
        self._loop = loop
        self._config = config
        self._left = b""
        self._total = 0
        self._given_up = False
        self._waiting: asyncio.Task[bytes] | None = None
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Wait for bytes; called in a thread."""
        if not self._left:
            if self._given_up:
                raise OSError("the request has ended")
            try:
                self._left = asyncio.run_coroutine_threadsafe(self._more(), self._loop).result()
            except Exception as error:
                self.error = error if isinstance(error, Refused | Unavailable) else None
                raise OSError(f"the body breaks off: {error}") from error
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def give_up(self) -> None:
        """Make a reading thread end; one that waited for bytes would block the next user of the line."""
        self._given_up = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _more(self) -> bytes:
        if self._given_up:
            raise Unavailable("the request has ended")
        self._waiting = asyncio.current_task()
        try:
            async with asyncio.timeout(self._config.body_silence_seconds):
                found = await self._content.readany()
        except TimeoutError:
            raise Refused(
                HTTPStatus.REQUEST_TIMEOUT, f"no bytes of the body arrived for {self._config.body_silence_seconds:g} s"
            ) from None
        self._total += len(found)
        if self._total > self._config.body_bytes_max:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {self._config.body_bytes_max:,} bytes"
            )
        return found
