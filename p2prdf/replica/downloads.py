"""Files over HTTP: complete or not at all, within bounds; "absent" is distinguished from "no answer".

- **Complete**: a file counts when its announced length has arrived and, if compressed, its trailer matches.
  Otherwise it is discarded and requested again. A plain file of unknown length is refused: it could end
  anywhere.
- **Absent** (404, 410) is an answer. After no answer, or an error of the server (5xx, 408, 425, 429), the
  request is repeated with doubling pauses, then Unavailable. Other failures are refused at once.
- **Bounds**: bytes as received and uncompressed, the times of a download and of a silence in it, and redirects.
  Redirects lead to HTTP and HTTPS only, never from HTTPS to HTTP, and to no private network except that of the
  user's host (:mod:`p2prdf.replica.hosts`).
- **Unchanged** (304) is requested only where the server's dates distinguish versions. They count seconds, so a
  version younger than two might change within the same second.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

import aiohttp

from p2prdf.errors import DataRefused, LocalProtocolError, TargetRefused, Unavailable
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.pinned_resolver import PinnedResolver

__all__ = ["Damaged", "DownloadConfig", "Downloads", "Page", "Saved", "checked_source"]

_GONE: Final = (404, 410)
_AGAIN: Final = (408, 425, 429)
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_PAUSE_MAX: Final = 30.0
_PIECE: Final = 1 << 20
_FRESH_SECONDS: Final = 2.0
_T = TypeVar("_T")


class Damaged(DataRefused):
    """The server's file is damaged or incomplete; perhaps it is still being written."""


@dataclass(frozen=True, slots=True)
class DownloadConfig:
    """Bounds of downloads.

    ``attempts``: attempts per file, with pauses of ``pause_seconds``, twice that, and so on, up to half a
    minute (62 s in all). ``damaged_attempts``: how many of them may find the file damaged. ``idle_seconds``:
    without a byte; ``total_seconds``: for one attempt. ``stored_bytes_max``: as received; ``plain_bytes_max``:
    uncompressed.
    """

    attempts: int = 8
    damaged_attempts: int = 3
    pause_seconds: float = 0.5
    idle_seconds: float = 30.0
    total_seconds: float = 900.0
    stored_bytes_max: int = 256 << 20
    plain_bytes_max: int = 2 << 30
    redirects_max: int = 5

    def validate(self) -> None:
        """Raise LocalProtocolError for values out of bounds."""
        for name in ("attempts", "damaged_attempts", "stored_bytes_max", "plain_bytes_max"):
            if getattr(self, name) < 1:
                raise LocalProtocolError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.idle_seconds <= 0 or self.total_seconds <= 0 or self.pause_seconds < 0 or self.redirects_max < 0:
            raise LocalProtocolError("times of downloads must be positive, pauses and redirects not negative")


@dataclass(frozen=True, slots=True)
class Page:
    """A small text of a server.  ``validators``: headers of a conditional request, empty if impossible."""

    body: bytes
    is_html: bool
    validators: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Saved:
    """A downloaded file; ``compressed``: with gzip.  ``validators``: as those of a Page."""

    url: str
    path: Path
    compressed: bool
    validators: Mapping[str, str] = field(default_factory=dict)


def checked_source(url: str) -> str:
    """Return the URL of changesets.

    Raises DataRefused for other schemes than HTTP and HTTPS, for a URL without a host, and for one with
    credentials, a query or a fragment; messages do not repeat credentials.
    """
    parts = _check_web(url)
    if parts.query or parts.fragment:
        raise DataRefused("a URL of changesets has neither a query nor a fragment", source=parts.hostname or "")
    return f"{parts.scheme}://{parts.netloc}{parts.path or '/'}"


def _check_web(url: str) -> SplitResult:
    shown = "the URL" if "@" in url else repr(url[:200])
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DataRefused(f"{shown} is malformed") from None
    if "@" in parts.netloc:
        raise DataRefused(f"a URL must not contain credentials, since others can read it ({parts.hostname})")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise DataRefused(f"{shown} is not an http:// or https:// URL with a host")
    return parts


class _Failed(Exception):
    """An attempt must be repeated; after the last attempt, ``error`` is raised."""

    def __init__(self, error: Unavailable | Damaged):
        self.error = error


class Downloads:
    """Downloads from one source, with persistent connections."""

    def __init__(
        self, source: str, config: DownloadConfig | None = None, *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):  # fmt: skip
        """``source``: the user's URL; its host may be on any network.  ``pause``: the function that waits."""
        self.config = config or DownloadConfig()
        self.config.validate()
        self.requests = 0
        """Number of requests sent."""
        self._typed = urlsplit(checked_source(source)).hostname
        self._pause = pause
        self._session: aiohttp.ClientSession | None = None

    async def exists(self, url: str) -> bool:
        """Return whether a file exists."""

        async def once() -> bool:
            async with self._answer("HEAD", url, {}) as answer:
                if answer.status not in (405, 501):
                    return self._is_there(answer, url)
            async with self._answer("GET", url, {}) as answer:  # the body is not read
                return self._is_there(answer, url)

        return await self._until_answered(url, once)

    async def page(self, url: str, bytes_max: int, known: Page | None = None) -> Page | None:
        """Return a small text; ``known`` itself if that is unchanged, None if there is none.

        A forbidden page (401, 403) counts as absent.
        """

        async def once() -> Page | None:
            headers = {"Cache-Control": "no-cache", **({} if known is None else known.validators)}
            async with self._answer("GET", url, headers) as answer:
                if answer.status == 304 and known is not None and known.validators:
                    return known
                if answer.status in (401, 403) or not self._is_there(answer, url):
                    return None
                body = bytearray()
                async for piece in self._pieces(answer, url, bytes_max):
                    body += piece
                if answer.headers.get("Content-Encoding", "identity").lower() not in ("identity", ""):
                    body = _unpacked(bytes(body), url, bytes_max)
                return Page(bytes(body), answer.content_type == "text/html", _validators(answer.headers))

        return await self._until_answered(url, once)

    async def file(self, url: str, path: Path, *, compressed: bool, known: Saved | None = None) -> Saved | None:
        """Download a file completely and check it; return ``known`` if it is unchanged, None if absent.

        ``compressed``: with gzip, by its name; the server may also declare compression. Raises Unavailable,
        Damaged, and DataRefused for a file that is too large or forbidden.
        """

        async def once() -> Saved | None:
            async with self._answer("GET", url, {} if known is None else known.validators) as answer:
                if answer.status == 304 and known is not None and known.validators:
                    return known
                if not self._is_there(answer, url):
                    return None
                encoding = answer.headers.get("Content-Encoding", "identity").lower()
                if encoding not in ("identity", "gzip", "x-gzip", ""):
                    reason = f"the server compresses it as {encoding[:40]!r} without request"
                    raise DataRefused(reason, source=url)
                packed = compressed or encoding.endswith("gzip")
                chunked = "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
                announced = chunked or answer.content_length is not None
                if not (packed or announced):
                    reason = "the server gives no length and the file is not compressed, so it could be incomplete"
                    raise DataRefused(reason, source=url)
                bytes_max = self.config.stored_bytes_max if packed else self.config.plain_bytes_max
                with path.open("wb") as out:
                    async for piece in self._pieces(answer, url, bytes_max):
                        out.write(piece)
                saved = Saved(url, path, packed, _validators(answer.headers))
            if packed:
                await self._check(saved.path, url, announced=announced)
            return saved

        return await self._until_answered(url, once)

    async def rest(self, attempt: int) -> None:
        """Wait after the given attempt (from 1) before the next one."""
        await self._pause(min(self.config.pause_seconds * 2 ** (attempt - 1), _PAUSE_MAX))

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def check_address(self, host: str, address: str) -> None:
        """Raise TargetRefused for a forbidden address: only the user's host may be on a private network."""
        Hosts([], private=host == self._typed).check_address(host, address)

    # --- one attempt ---------------------------------------------------------------------------------------

    async def _until_answered(self, url: str, once: Callable[[], Awaitable[_T]]) -> _T:
        damaged = 0
        for attempt in range(1, self.config.attempts + 1):
            try:
                return await once()
            except _Failed as failed:
                error: Unavailable | Damaged = failed.error
            except TargetRefused as refused:
                raise DataRefused(str(refused), source=url) from None
            except aiohttp.InvalidURL as invalid:
                raise DataRefused(f"invalid request: {invalid}", source=url) from None
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as failure:
                error = Unavailable(f"{url}: {str(failure) or 'no answer in time'}")
            damaged += isinstance(error, Damaged)
            if attempt == self.config.attempts or damaged == self.config.damaged_attempts:
                raise error
            await self.rest(attempt)
        raise AssertionError("there is at least one attempt")

    @asynccontextmanager
    async def _answer(self, method: str, url: str, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and follow redirects."""
        at = url
        for _ in range(self.config.redirects_max + 1):
            self._check_literal(urlsplit(at).hostname or "")
            self.requests += 1
            async with self._opened().request(method, at, headers=dict(headers), allow_redirects=False) as answer:
                if answer.status not in _REDIRECTS:
                    yield answer
                    return
                where = answer.headers.get("Location")
            if where is None:
                raise DataRefused("a redirect that leads nowhere", source=url)
            try:
                following = urljoin(at, where)
                _check_web(following)
            except ValueError:
                raise DataRefused("a redirect that leads nowhere", source=url) from None
            except DataRefused as refused:
                raise DataRefused(f"a redirect that is not followed: {refused.reason}", source=url) from None
            if at.startswith("https:") and not following.startswith("https:"):
                raise DataRefused("a redirect from HTTPS to HTTP is not followed", source=url)
            at = following
        raise DataRefused(f"more than {self.config.redirects_max} redirects", source=url)

    def _check_literal(self, host: str) -> None:
        """Check a host written as an address, which no resolver sees."""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        self.check_address(host, host)

    def _is_there(self, answer: aiohttp.ClientResponse, url: str) -> bool:
        status = answer.status
        if status in _GONE:
            return False
        if status in _AGAIN or status >= 500:
            raise _Failed(Unavailable(f"{url}: the server answers {status} {answer.reason or ''}".rstrip()))
        if status != 200:
            raise DataRefused(f"the server answers {status} {answer.reason or ''}".rstrip(), source=url)
        return True

    async def _pieces(self, answer: aiohttp.ClientResponse, url: str, bytes_max: int) -> AsyncIterator[bytes]:
        """Yield a body; its end must match the announced length."""
        length = answer.content_length
        count = 0
        if length is not None and length > bytes_max:
            raise DataRefused(f"{length:,} bytes, more than {bytes_max:,}", source=url)
        async for piece in answer.content.iter_any():
            count += len(piece)
            if count > bytes_max:
                raise DataRefused(f"more than {bytes_max:,} bytes", source=url)
            yield piece
        if length is not None and count != length:
            raise _Failed(Unavailable(f"{url}: received {count:,} of {length:,} bytes"))

    async def _check(self, path: Path, url: str, *, announced: bool) -> None:
        """Read a compressed file to its end."""
        try:
            size = await asyncio.to_thread(_plain_size, path, self.config.plain_bytes_max)
        except EOFError:
            if announced:
                raise _Failed(Damaged("the compressed file is incomplete on the server", source=url)) from None
            raise _Failed(Unavailable(f"{url}: the compressed file is truncated")) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise _Failed(Damaged(f"damaged compression: {error}", source=url)) from None
        if size > self.config.plain_bytes_max:
            raise DataRefused(f"more than {self.config.plain_bytes_max:,} bytes when uncompressed", source=url)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=PinnedResolver(self), use_dns_cache=False, limit=2)
            timeout = aiohttp.ClientTimeout(
                total=self.config.total_seconds, connect=self.config.idle_seconds, sock_read=self.config.idle_seconds
            )
            # Bodies are kept as received: a server's declaration of compression cannot hide their size.
            options: dict[str, Any] = {
                "trust_env": False, "cookie_jar": aiohttp.DummyCookieJar(), "auto_decompress": False,
                "headers": {"Accept-Encoding": "identity"},
            }  # fmt: skip
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, **options)
        return self._session


def _unpacked(body: bytes, url: str, bytes_max: int) -> bytearray:
    """Return the text of a page compressed without request."""
    try:
        found = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise DataRefused(f"the server compresses it without request: {error}", source=url) from None
    if len(found) > bytes_max:
        raise DataRefused(f"more than {bytes_max:,} bytes when uncompressed", source=url)
    return bytearray(found)


def _plain_size(path: Path, bytes_max: int) -> int:
    """Return the uncompressed size of a file, or a number above the bound.  Raises gzip's errors."""
    size = 0
    if not path.stat().st_size:
        raise EOFError
    with gzip.open(path, "rb") as stream:
        while size <= bytes_max and (piece := stream.read(_PIECE)):
            size += len(piece)
    return size


def _validators(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers of a conditional request; none where the answer could be wrong."""
    modified, date, tag = (headers.get(name) for name in ("Last-Modified", "Date", "ETag"))
    if modified is not None:
        try:
            age = parsedate_to_datetime(date or "") - parsedate_to_datetime(modified)
            if age.total_seconds() < _FRESH_SECONDS:
                return {}
        except (ValueError, TypeError):
            return {}
    if tag is not None:
        return {"If-None-Match": tag}
    return {} if modified is None else {"If-Modified-Since": modified}
