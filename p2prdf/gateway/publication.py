"""Publication and deletion of RDF over HTTP.

The body streams to the overlay; ``body_bytes_max`` bounds its length.  A body that states its length and has at most
``CHECKED_BYTES_MAX`` is read and parsed before any of it is published, so that a malformed one publishes nothing.
A request without ``Idempotency-Key`` is a new publication each time.  With one, statements are identified by key and
content: a repeated request, after a lost response, changes nothing, and the body's blank nodes keep their names.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import IO, Final, cast

from aiohttp import web

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.gateway.access import Permission
from p2prdf.gateway.bodies import Body, BodyFile, check_charset, syntax_of
from p2prdf.gateway.connections import Line
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.state import GATEWAY, Gateway
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import Syntax, TripleBatch, read_triples
from p2prdf.wire.trace_context import parse_traceparent

__all__ = ["CHECKED_BYTES_MAX", "publish", "retract"]

CHECKED_BYTES_MAX: Final = 8 << 20
"""Longest body, expanded, that is parsed before it is published."""
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
    syntax = syntax_of(request.content_type)
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
    batches = _Batches(request, syntax, mark.hex(), gateway, removed=removed)
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
        self, request: web.Request, syntax: Syntax, publication_id: str, gateway: Gateway, *, removed: bool
    ):
        self._request = request
        self._syntax = syntax
        self._removed = removed
        self._publication_id = publication_id
        self._gateway = gateway

    async def read(self, line: Line) -> AsyncIterator[TripleBatch]:
        """Yield the batches.  Raises DataRefused with the line, Refused for an oversized body, Unavailable."""
        loop = asyncio.get_running_loop()
        body = BodyFile(Body(self._request, self._gateway.config), loop)
        try:
            batches = await loop.run_in_executor(line.reader, self._opened, body)
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

    def _opened(self, body: BodyFile) -> Iterator[TripleBatch]:
        """Return the batches of a body; a short one is parsed as a whole before."""
        if self._request.content_length is not None:
            head = bytearray()
            while len(head) <= CHECKED_BYTES_MAX and (piece := body.read(1 << 18)):
                head += piece
            if len(head) <= CHECKED_BYTES_MAX:
                for batch in self._parsed(io.BytesIO(head)):
                    if self._removed:
                        self._check_named(batch)
                return self._parsed(io.BytesIO(head))
            body.push_back(bytes(head))
        live = self._syntax.as_it_arrives  # each complete part is sent at once, even if the rest of the body is late
        stream = cast("IO[bytes]", body if live else io.BufferedReader(body, 1 << 18))
        return self._parsed(stream, live=live)

    def _parsed(self, stream: IO[bytes], *, live: bool = False) -> Iterator[TripleBatch]:
        return read_triples(
            stream, publication_id=self._publication_id, syntax=self._syntax, strict=True, source="body", live=live,
            contexts=self._gateway.contexts,
        )  # fmt: skip

    def _check_named(self, batch: TripleBatch) -> None:
        """Raise DataRefused for a blank node in a deletion.

        A blank node is local to its body, so the deletion cannot match, but peers would keep the tombstone.
        """
        own = terms.skolem_prefix(self._publication_id)
        within = terms.is_triple
        if any(
            term.startswith(own) or (within(term) and own in term)
            for column in (batch.s, batch.o, batch.g) for term in column
        ):
            raise DataRefused("a blank node is local to its body, so it cannot be deleted", source="body")
