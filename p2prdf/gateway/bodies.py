"""Request bodies: media types, content codings, bounds.

A body may be compressed with gzip or Zstandard.  A small compressed body can expand enormously, so the bounds hold for
the expanded body, and an expansion by more than ``EXPANSION_MAX`` is refused; pieces of bounded size are expanded on
demand.  A large one can expand to nothing (empty members), so the bounds hold for the compressed body, too.
"""

from __future__ import annotations

import asyncio
import io
import zlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from p2prdf.errors import DataRefused, Unavailable
from p2prdf.gateway.problems import Refused
from p2prdf.rdf import zstd
from p2prdf.rdf.ntriples import Syntax

if TYPE_CHECKING:
    from p2prdf.gateway.state import GatewayConfig

__all__ = [
    "CODINGS", "EXPANSION_MAX", "RDF_TYPES", "Body", "BodyFile", "check_charset", "read_whole", "syntax_of", "text_of",
    "too_long",
]  # fmt: skip

RDF_TYPES: Final = {
    "application/n-triples": Syntax.N_TRIPLES, "application/n-quads": Syntax.N_QUADS, "text/turtle": Syntax.TURTLE,
    "application/trig": Syntax.TRIG, "application/rdf+xml": Syntax.RDF_XML, "application/ld+json": Syntax.JSON_LD,
    "application/x-jelly-rdf": Syntax.JELLY,
}  # fmt: skip
"""Media types of RDF that are read."""
_REFUSED_TYPES: Final = {
    **dict.fromkeys(("text/n3", "text/rdf+n3"), "N3 has formulas and rules beyond RDF: send Turtle as text/turtle"),
    **dict.fromkeys(("application/vnd.hdt", "application/x-hdt"), "HDT is not read: send N-Triples"),
}
CODINGS: Final = ("gzip", "x-gzip", "zstd")
"""Content codings of bodies, besides identity."""
_WINDOW_BYTES_MAX: Final = 1 << 23
"""Most memory for a Zstandard frame, as RFC 9659 requires of HTTP."""
EXPANSION_MAX: Final = 200
"""Most bytes from one compressed byte, on average over a body that expands to more than a mebibyte."""
_EXPANDED_FREELY: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 18
_CHARSETS: Final = ("utf-8", "utf8", "us-ascii", "ascii")


def syntax_of(media_type: str) -> Syntax:
    """Return the format of a media type.  Raises Refused (415) for all others."""
    syntax = RDF_TYPES.get(media_type)
    if syntax is None:
        reason = _REFUSED_TYPES.get(media_type, f"not one of {', '.join(RDF_TYPES)}")
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {media_type}: {reason}",
            headers={"Accept-Post": ", ".join(RDF_TYPES)},
        )  # fmt: skip
    return syntax


def check_charset(request: web.Request) -> None:
    """Raise Refused for a body that declares a charset other than UTF-8.

    Python supports further charsets; decoding some of them (Punycode) takes quadratic time.
    """
    charset = request.charset
    if charset is not None and charset.lower() not in _CHARSETS:
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"charset={charset[:80]}: bodies are in UTF-8")


async def text_of(request: web.Request, config: GatewayConfig) -> str:
    """Return the body of a request, without a byte order mark.

    Raises Refused for another charset, bytes that are not in UTF-8, and a body too long for any query.
    """
    check_charset(request)
    data = await read_whole(request, config, 4 * config.query_characters_max)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not in UTF-8: {error}") from None


async def read_whole(request: web.Request, config: GatewayConfig, bytes_max: int) -> bytes:
    """Return the expanded body of a request.  Raises Refused for more than ``bytes_max`` bytes."""
    body = Body(request, config, bytes_max)
    found = []
    while piece := await body.next():
        found.append(piece)
    return b"".join(found)


def too_long(bytes_max: int) -> Refused:
    """Return the refusal (413) of a body that is too long."""
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {bytes_max:,} bytes")


class Body:
    """The expanded body of a request, in pieces."""

    def __init__(self, request: web.Request, config: GatewayConfig, bytes_max: int | None = None):
        """Raises Refused for an unknown content coding; ``bytes_max``: ``body_bytes_max`` without it."""
        coding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if coding not in (*CODINGS, "identity"):
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Encoding: {coding[:80]}: send gzip or zstd, or no coding",
                headers={"Accept-Encoding": "gzip, zstd"},
            )  # fmt: skip
        self._content = request.content
        self._config = config
        self._bytes_max = config.body_bytes_max if bytes_max is None else bytes_max
        self._packed = _expander(coding)
        self._received = self._expanded = 0

    async def next(self) -> bytes:
        """Return the next bytes, none at the end.

        Raises Refused for silence, for too many bytes and for damaged data.
        """
        while True:
            try:
                if self._packed is not None and (piece := self._packed.expand()):
                    break
                piece = await self._receive()
                if self._packed is None:
                    break
                if not piece:
                    self._packed.end()
                    break
            except zstd.Damaged as error:
                raise Refused(HTTPStatus.BAD_REQUEST, f"the compressed body is damaged: {error}") from None
            self._packed.feed(piece)
        self._expanded += len(piece)
        if self._expanded > self._bytes_max:
            raise too_long(self._bytes_max)
        if self._expanded > max(_EXPANDED_FREELY, EXPANSION_MAX * self._received):
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body expands to more than {EXPANSION_MAX} times its size"
            )
        return piece

    async def _receive(self) -> bytes:
        silence = self._config.body_silence_seconds
        try:
            async with asyncio.timeout(silence):
                found = await self._content.readany()
        except TimeoutError:
            raise Refused(
                HTTPStatus.REQUEST_TIMEOUT, f"no bytes of the body arrived for {silence:g} s"
            ) from None
        self._received += len(found)
        if self._received > self._bytes_max:
            raise too_long(self._bytes_max)
        return found


class _Gzip:
    """Expands gzip, of one member or several, in pieces of bounded size."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)
        self._begun = False
        self._pending = False
        """Whether the member may expand to more bytes without further input."""
        self._packed = b""

    def feed(self, data: bytes) -> None:
        """Take compressed bytes."""
        self._packed += data

    def expand(self) -> bytes:
        """Return some expanded bytes; none if more compressed bytes are needed.  Raises Damaged."""
        found = b""
        while (self._packed or self._pending) and not found:
            if self._member.eof:
                self._member = zlib.decompressobj(31)
                self._begun = False
            try:
                found = self._member.decompress(self._packed, _PIECE_BYTES)
            except zlib.error as error:
                raise zstd.Damaged(str(error)) from None
            self._begun = True
            self._pending = len(found) == _PIECE_BYTES and not self._member.eof
            self._packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return found

    def end(self) -> None:
        """Raise Damaged if the data ends within a member."""
        if not self._member.eof and self._begun:
            raise zstd.Damaged("it breaks off")


def _expander(coding: str) -> _Gzip | zstd.Expander | None:
    """Return the expander of a content coding.  Raises Refused (415) for Zstandard without its library."""
    if coding == "zstd":
        try:
            return zstd.Expander(_WINDOW_BYTES_MAX)
        except DataRefused as error:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Encoding: zstd: {error}") from None
    return None if coding == "identity" else _Gzip()


class BodyFile(io.RawIOBase):
    """A body as a file for a thread."""

    def __init__(self, body: Body, loop: asyncio.AbstractEventLoop):
        super().__init__()
        self._body = body
        self._loop = loop
        self._left = b""
        self._given_up = False
        self._waiting: asyncio.Task[bytes] | None = None
        self.error: Exception | None = None

    def readable(self) -> bool:
        """Return true."""
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

    def push_back(self, data: bytes) -> None:
        """Return bytes that were read, to be read again."""
        self._left = data + self._left

    def give_up(self) -> None:
        """Make a reading thread end; one that waited for bytes would block the next user of the line."""
        self._given_up = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _more(self) -> bytes:
        if self._given_up:
            raise Unavailable("the request has ended")
        self._waiting = asyncio.current_task()
        return await self._body.next()
