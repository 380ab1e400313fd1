"""One bounded HTTP request to a host that the operator permits: for documents of LOAD and calls of SERVICE.

An update or a query names the URL, so its author could make this process send requests with its network access
(server-side request forgery). Only listed hosts are asked, names are resolved once and their addresses checked
(:mod:`p2prdf.replica.hosts`), and redirects are not followed. The body is uncompressed and bounded. No request is
repeated; proxies and cookies of the machine are not used. The caller sets the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import aiohttp

from p2prdf.errors import DataRefused, TargetRefused, Unavailable
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.pinned_resolver import PinnedResolver

__all__ = ["Fetched", "PermittedFetch"]

_AGAIN: Final = (408, 425, 429)
_IDLE_SECONDS: Final = 30.0
_EXCERPT: Final = 200


class Fetched(NamedTuple):
    """The body of a successful answer, and its media type."""

    body: bytes
    media_type: str


class PermittedFetch:
    """Sends requests to permitted hosts."""

    def __init__(self, hosts: Hosts, *, bytes_max: int, server: str, smaller: str):
        """``server``: the name of the other side in errors; ``smaller``: the remedy for a body above ``bytes_max``."""
        self._hosts = hosts
        self._bytes_max = bytes_max
        self._server = server
        self._smaller = smaller

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL that is not HTTP, and for a host that is not permitted."""
        self._hosts.check(url)

    async def fetch(
        self, url: str, *, accept: str, check_type: Callable[[str], object], form: dict[str, str] | None = None
    ) -> Fetched:
        """Return the answer to a GET request, or to a POST request with a form.

        ``check_type`` raises the error of a media type that is not wanted; the body of such an answer is not read.

        Raises TargetRefused, also for a redirect, Unavailable, and DataRefused for another status than 200, a
        compressed body, and one above ``bytes_max``.
        """
        self.check(url)
        connector = aiohttp.TCPConnector(resolver=PinnedResolver(self._hosts), use_dns_cache=False)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_IDLE_SECONDS, sock_read=_IDLE_SECONDS)
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector, timeout=timeout, auto_decompress=False, trust_env=False,
                    cookie_jar=aiohttp.DummyCookieJar(),
                ) as session,
                session.request(
                    "GET" if form is None else "POST", url, data=form, headers=headers, allow_redirects=False
                ) as answer,
            ):  # fmt: skip
                await self._check_answer(answer, url)
                check_type(answer.content_type)
                return Fetched(await self._body(answer, url), answer.content_type)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError) and (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise Unavailable(f"{url}: {str(error) or 'no answer in time'}") from None

    async def _check_answer(self, answer: aiohttp.ClientResponse, url: str) -> None:
        """Raise the error of an answer without content."""
        status = f"{answer.status} {answer.reason or ''}".rstrip()
        if 300 <= answer.status < 400:
            where = answer.headers.get("Location", "")[:_EXCERPT]
            raise TargetRefused(f"{url}: redirects are not followed; name the final address ({status} {where!r})")
        if answer.status in _AGAIN or answer.status >= 500:
            raise Unavailable(f"{url}: the {self._server} answers {status}")
        if answer.status != 200:
            begin = await answer.content.read(2 * _EXCERPT)
            excerpt = " ".join(begin.decode(errors="replace").split())[:_EXCERPT]
            raise DataRefused(f"the {self._server} answers {status}: {excerpt!r}", source=url)
        if (encoding := answer.headers.get("Content-Encoding", "identity").lower()) not in ("identity", ""):
            reason = f"the {self._server} compresses the answer as {encoding[:40]!r} without request"
            raise DataRefused(reason, source=url)

    async def _body(self, answer: aiohttp.ClientResponse, url: str) -> bytes:
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > self._bytes_max:
                raise DataRefused(f"more than {self._bytes_max:,} bytes; {self._smaller}", source=url)
        return bytes(body)
