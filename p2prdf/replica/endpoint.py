"""A SPARQL 1.1 endpoint over HTTP, as a target and as a source.

A request without an answer may have taken effect. An update therefore has no effect unless the cursor is the
expected one (:mod:`p2prdf.replica.update_text`), and the cursor is read after each attempt. If it is the new
one, the update is done, whichever answer came; if it is the old one, the update is sent again, after a doubling
pause; any other cursor means that another writer is active.

Answers are bounded, redirects are not followed, and hosts must be on the operator's list
(:mod:`p2prdf.replica.hosts`).
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from p2prdf.errors import DataRefused, LocalProtocolError, TargetMoved, TargetRefused, Unavailable
from p2prdf.interest import Triple
from p2prdf.interest.expression import Interest
from p2prdf.rdf.ntriples import read_triples
from p2prdf.replica.credentials import Credentials
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.pinned_resolver import PinnedResolver
from p2prdf.replica.target import UPDATE_TRIPLES_MAX
from p2prdf.replica.update_text import cursor_name, cursor_text, page_text, pattern_page_text, update_text

__all__ = ["Endpoint", "EndpointConfig"]

_UNAVAILABLE: Final = (408, 425, 429, 500, 502, 503, 504)
_ANSWER_EXCERPT: Final = 300
_PAUSE_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """The address of an endpoint, and bounds of its requests.

    ``graph``: canonical IRI of the graph, None for the default graph. ``page_triples``: triples of one answer
    when reading; ``answer_bytes_max``: larger answers are refused. ``attempts``: attempts per request, with
    pauses of ``pause_seconds``, twice that, and so on, up to half a minute.
    """

    update_url: str
    query_url: str
    graph: str | None = None
    triples_max: int = UPDATE_TRIPLES_MAX
    page_triples: int = 50_000
    answer_bytes_max: int = 256 << 20
    timeout_seconds: float = 60.0
    attempts: int = 6
    pause_seconds: float = 0.5

    def validate(self) -> None:
        """Raise LocalProtocolError for values out of bounds."""
        for name in ("triples_max", "page_triples", "answer_bytes_max", "attempts"):
            if getattr(self, name) < 1:
                raise LocalProtocolError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.timeout_seconds <= 0 or self.pause_seconds < 0:
            raise LocalProtocolError("timeout_seconds must be positive, and pause_seconds not negative")


class Endpoint:
    """One graph of an endpoint."""

    respells = True

    def __init__(
        self, config: EndpointConfig, *, dataset: str, hosts: Hosts, credentials: Credentials | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):  # fmt: skip
        """``dataset``: the replicated dataset; each has its own cursor.  ``pause``: the function that waits."""
        config.validate()
        for url in (config.update_url, config.query_url):
            hosts.check(url)
        self.config = config
        self.triples_max = config.triples_max
        self.requests = 0
        """Number of requests sent."""
        self.bytes_sent = 0
        self._name = cursor_name(dataset, config.graph)
        self._hosts = hosts
        self._headers = {} if credentials is None else credentials.headers
        self._pause = pause
        self._session: aiohttp.ClientSession | None = None

    async def cursor(self) -> str | None:
        """Return the cursor, None if there is none.  Raises TargetRefused if there are several."""
        rows = await self._select(cursor_text(self._name))
        if len(rows) > 1:
            raise TargetRefused(f"{self.config.query_url} has {len(rows)} cursors for one replica")
        return rows[0]["at"]["value"] if rows else None

    async def update(
        self, removed: Iterable[Triple], added: Iterable[Triple], *, before: str | None, after: str
    ) -> None:
        """Change triples and cursor exactly once, despite lost requests and answers."""
        text = update_text(
            removed, added, graph=self.config.graph, name=self._name, before=before, after=after
        ).encode()
        failure: Unavailable | None = None
        for attempt in range(self.config.attempts):
            if attempt:
                await self._rest(attempt)
            failure = None
            try:
                await self._post(self.config.update_url, text, "application/sparql-update", {}, 1 << 20)
            except Unavailable as error:
                failure = error
            found = await self.cursor()
            if found == after:
                return
            if found != before:
                raise TargetMoved(f"{self.config.update_url}: the cursor is {found!r} instead of {before!r}")
            if failure is None:
                failure = Unavailable(f"{self.config.update_url} accepted the update and changed nothing")
        assert failure is not None, "there is at least one attempt"
        raise failure

    async def triples(self) -> AsyncIterator[Triple]:
        """Yield the graph's triples, in sorted pages."""
        async for triple in self._pages(lambda limit, offset: page_text(self.config.graph, limit=limit, offset=offset)):
            yield triple

    async def matching(self, interest: Interest, *, matched: bool) -> AsyncIterator[Triple]:
        """Yield the triples that match a pattern of an interest; with ``matched``, those of full matches."""
        for pattern in interest.patterns:

            def text(limit: int, offset: int, pattern: tuple[str, str, str] = pattern) -> str:
                return pattern_page_text(
                    interest, pattern, self.config.graph, matched=matched, limit=limit, offset=offset
                )

            async for triple in self._pages(text):
                yield triple

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # --- requests ----------------------------------------------------------------------------------------

    async def _pages(self, text: Callable[[int, int], str]) -> AsyncIterator[Triple]:
        size = self.config.page_triples
        offset = 0
        while True:
            body = await self._ask(text(size, offset), "application/n-triples", self.config.answer_bytes_max)
            count = 0
            for batch in read_triples(
                io.BytesIO(body), publication_id="endpoint", source=self.config.query_url, strict=True
            ):
                for triple in zip(batch.s, batch.p, batch.o, strict=True):
                    count += 1
                    if any(term.startswith("<urn:bnode:endpoint:") for term in triple):
                        reason = "a blank node: its label differs in each answer, so it could not be deleted later"
                        raise DataRefused(reason, source=self.config.query_url)
                    yield triple
            if not count:
                return
            offset += count  # a server may return fewer than requested

    async def _select(self, text: str) -> list[dict[str, dict[str, str]]]:
        body = await self._ask(text, "application/sparql-results+json", 1 << 20)
        try:
            rows = json.loads(body)["results"]["bindings"]
            assert isinstance(rows, list), "checked below"
        except (ValueError, KeyError, TypeError, AssertionError):
            raise TargetRefused(f"{self.config.query_url}: not a SPARQL result in JSON: {_shown(body)}") from None
        return rows

    async def _ask(self, text: str, accept: str, bytes_max: int) -> bytes:
        """Return the answer to a query, repeated while there is none."""
        for attempt in range(1, self.config.attempts + 1):
            try:
                return await self._post(
                    self.config.query_url, text.encode(), "application/sparql-query", {"Accept": accept}, bytes_max
                )
            except Unavailable:
                if attempt == self.config.attempts:
                    raise
            await self._rest(attempt)
        raise AssertionError("there is at least one attempt")

    async def _rest(self, attempt: int) -> None:
        await self._pause(min(self.config.pause_seconds * 2 ** (attempt - 1), _PAUSE_MAX))

    async def _post(self, url: str, body: bytes, kind: str, headers: Mapping[str, str], bytes_max: int) -> bytes:
        session = self._opened()
        self.requests += 1
        self.bytes_sent += len(body)
        try:
            async with session.post(
                url, data=body, headers={"Content-Type": f"{kind}; charset=utf-8", **headers}, allow_redirects=False
            ) as answer:
                found = bytearray()
                async for chunk in answer.content.iter_any():
                    found += chunk
                    if len(found) > bytes_max:
                        raise TargetRefused(f"{url}: an answer of more than {bytes_max:,} bytes; request smaller pages")
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{url}: {str(error) or type(error).__name__}") from None
        if status in _UNAVAILABLE:
            raise Unavailable(f"{url} answers {status}: {_shown(bytes(found))}")
        if not 200 <= status < 300:
            what = "redirects, but is not followed" if 300 <= status < 400 else f"refuses: {_shown(bytes(found))}"
            raise TargetRefused(f"{url} answers {status} and {what}")
        return bytes(found)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=PinnedResolver(self._hosts), use_dns_cache=False, limit=2)
            timeout = aiohttp.ClientTimeout(total=self.config.timeout_seconds)
            options: dict[str, Any] = {"trust_env": False, "cookie_jar": aiohttp.DummyCookieJar()}
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, headers=dict(self._headers), **options
            )
        return self._session


def _shown(body: bytes) -> str:
    text = body[:_ANSWER_EXCERPT].decode(errors="replace").strip()
    return repr(text)
