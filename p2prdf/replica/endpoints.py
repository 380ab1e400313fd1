"""Other SPARQL endpoints that one-time queries call by SERVICE, on hosts that the operator permits.

A query names the endpoint, so its author could make this process send requests with its network access
(server-side request forgery). As for the documents of LOAD (:mod:`p2prdf.replica.loading`), only listed hosts are
asked, names are resolved once and their addresses checked, and redirects are not followed. Answers are uncompressed,
bounded in bytes and rows, and parsed in a thread. No request is repeated. The caller sets the deadline.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp

from p2prdf.errors import DataRefused, TargetRefused, Unavailable
from p2prdf.rdf.query_results import RESULT_FORMATS, Solutions, read_solutions
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.pinned_resolver import PinnedResolver

__all__ = ["WebEndpoints"]

_ACCEPT: Final = "application/sparql-results+json, application/sparql-results+xml;q=0.8"
_AGAIN: Final = (408, 425, 429)
_IDLE_SECONDS: Final = 30.0
_EXCERPT: Final = 200


class WebEndpoints:
    """Asks endpoints over HTTP; for the argument ``endpoints`` of :meth:`p2prdf.client.Client.query`."""

    def __init__(self, hosts: Hosts, *, bytes_max: int = 16 << 20):
        """``hosts``: the permitted ones; ``bytes_max``: size of the largest answer."""
        self._hosts = hosts
        self._bytes_max = bytes_max

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL that is not HTTP, and for a host that is not permitted."""
        self._hosts.check(url)

    async def ask(self, url: str, query: str, *, scope: str, rows_max: int) -> Solutions:
        """Return the solutions of a SELECT query; ``scope`` names their blank nodes.

        Raises TargetRefused, Unavailable, and DataRefused for an answer without solutions or out of bounds.
        """
        self.check(url)
        connector = aiohttp.TCPConnector(resolver=PinnedResolver(self._hosts), use_dns_cache=False)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_IDLE_SECONDS, sock_read=_IDLE_SECONDS)
        headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity"}
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector, timeout=timeout, auto_decompress=False, trust_env=False,
                    cookie_jar=aiohttp.DummyCookieJar(),
                ) as session,
                session.post(url, data={"query": query}, headers=headers, allow_redirects=False) as answer,
            ):  # fmt: skip
                body = await self._body(answer, url)
                self._check_answer(answer, body, url)
                kind = answer.content_type
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError) and (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise Unavailable(f"{url}: {str(error) or 'no answer in time'}") from None
        return await asyncio.to_thread(read_solutions, body, kind, scope=scope, source=url, rows_max=rows_max)

    def _check_answer(self, answer: aiohttp.ClientResponse, body: bytes, url: str) -> None:
        """Raise the error of an answer without solutions."""
        status = f"{answer.status} {answer.reason or ''}".rstrip()
        if 300 <= answer.status < 400:
            where = answer.headers.get("Location", "")[:_EXCERPT]
            raise TargetRefused(f"{url}: redirects are not followed; name the final address ({status} {where!r})")
        if answer.status in _AGAIN or answer.status >= 500:
            raise Unavailable(f"{url}: the endpoint answers {status}")
        if answer.status != 200:
            excerpt = " ".join(body[: 2 * _EXCERPT].decode(errors="replace").split())[:_EXCERPT]
            raise DataRefused(f"the endpoint answers {status}: {excerpt!r}", source=url)
        if (encoding := answer.headers.get("Content-Encoding", "identity").lower()) not in ("identity", ""):
            raise DataRefused(f"the endpoint compresses the answer as {encoding[:40]!r} without request", source=url)
        if answer.content_type not in RESULT_FORMATS:
            reason = f"the endpoint answers with {answer.content_type[:80]}, which is no SPARQL result in JSON or XML"
            raise DataRefused(reason, source=url)

    async def _body(self, answer: aiohttp.ClientResponse, url: str) -> bytes:
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > self._bytes_max:
                raise DataRefused(f"more than {self._bytes_max:,} bytes; ask for less", source=url)
        return bytes(body)
