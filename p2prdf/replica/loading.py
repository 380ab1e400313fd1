"""Documents of LOAD, fetched over HTTP from hosts that the operator permits.

An update names the document, so its author could make this process send requests with its network access
(server-side request forgery). Only listed hosts are asked, names are resolved once and their addresses checked
(:mod:`p2prdf.replica.hosts`), and redirects are not followed. The body is uncompressed, bounded in bytes, and
parsed in a thread, up to a number of statements. The caller sets the deadline.
"""

from __future__ import annotations

import asyncio
import io
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from p2prdf.errors import DataRefused, QueryRefused, TargetRefused, Unavailable
from p2prdf.interest import Triple
from p2prdf.rdf.ntriples import Syntax, detect, read_triples
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.pinned_resolver import PinnedResolver

__all__ = ["WebLoader"]

_SYNTAXES: Final = {
    "text/turtle": Syntax.TURTLE, "application/n-triples": Syntax.N_TRIPLES, "application/rdf+xml": Syntax.RDF_XML,
}  # fmt: skip
_BY_NAME: Final = ("text/plain", "application/octet-stream", "application/xml", "text/xml")
"""Media types of servers that do not know RDF: the name of the document decides."""
_AGAIN: Final = (408, 425, 429)
_IDLE_SECONDS: Final = 30.0


class WebLoader:
    """Fetches documents in Turtle, N-Triples and RDF/XML; a loader of :meth:`p2prdf.client.Client.update`."""

    def __init__(self, hosts: Hosts, *, bytes_max: int = 64 << 20):
        """``hosts``: the permitted ones; ``bytes_max``: size of the largest document."""
        self._hosts = hosts
        self._bytes_max = bytes_max

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL that is not HTTP, and for a host that is not permitted."""
        self._hosts.check(url)

    async def load(self, url: str, *, publication_id: str, statements_max: int) -> list[Triple]:
        """Return the triples of a document; blank nodes are named after ``publication_id``.

        Raises TargetRefused, Unavailable, DataRefused for a document that is malformed, too long or in another
        format, and QueryRefused for one with more than ``statements_max`` statements.
        """
        self.check(url)
        headers = {"Accept": ", ".join(_SYNTAXES), "Accept-Encoding": "identity"}
        connector = aiohttp.TCPConnector(resolver=PinnedResolver(self._hosts), use_dns_cache=False)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_IDLE_SECONDS, sock_read=_IDLE_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session,
                session.get(url, headers=headers, allow_redirects=False) as answer,
            ):
                syntax = self._syntax(answer, url)
                body = await self._body(answer, url)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{url}: {str(error) or 'no answer in time'}") from None
        return await asyncio.to_thread(_parsed, body, url, syntax, publication_id, statements_max)

    def _syntax(self, answer: aiohttp.ClientResponse, url: str) -> Syntax:
        """Return the format of an answer.  Raises the error of an answer without a document."""
        status = f"{answer.status} {answer.reason or ''}".rstrip()
        if 300 <= answer.status < 400:
            where = answer.headers.get("Location", "")[:200]
            raise TargetRefused(f"{url}: redirects are not followed; load the final address ({status} {where!r})")
        if answer.status in _AGAIN or answer.status >= 500:
            raise Unavailable(f"{url}: the server answers {status}")
        if answer.status != 200:
            raise DataRefused(f"the server answers {status}", source=url)
        if (encoding := answer.headers.get("Content-Encoding", "identity").lower()) not in ("identity", ""):
            raise DataRefused(f"the server compresses it as {encoding[:40]!r} without request", source=url)
        kind = answer.content_type
        if kind in _SYNTAXES:
            return _SYNTAXES[kind]
        if kind in _BY_NAME:
            found, compressed = detect(urlsplit(url).path)
            if found in _SYNTAXES.values() and not compressed:
                return found
        known = ", ".join(_SYNTAXES)
        raise DataRefused(f"{kind[:80]} is not loaded, only {known}; publish the document instead", source=url)

    async def _body(self, answer: aiohttp.ClientResponse, url: str) -> bytes:
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > self._bytes_max:
                reason = f"more than {self._bytes_max:,} bytes; publish the document instead"
                raise DataRefused(reason, source=url)
        return bytes(body)


def _parsed(body: bytes, url: str, syntax: Syntax, publication_id: str, statements_max: int) -> list[Triple]:
    found: list[Triple] = []
    batches = read_triples(
        io.BytesIO(body), publication_id=publication_id, syntax=syntax, strict=True, source=url, base=url
    )
    for batch in batches:
        found += zip(batch.s, batch.p, batch.o, strict=True)
        if len(found) > statements_max:
            reason = f"{url} has more than {statements_max:,} statements; publish the document instead"
            raise QueryRefused(reason, construct="LOAD")
    return found
