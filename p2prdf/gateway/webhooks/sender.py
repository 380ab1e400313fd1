"""Posts requests to receivers: only to hosts on the operator's list, with checked addresses, without redirects.

A client that registers a webhook makes gateways send requests to its URL, so the rules for replicas' endpoints apply
(:mod:`p2prdf.replica.hosts`).  Of a response only the status counts; an excerpt of the body is read for error
messages.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from p2prdf.errors import TargetRefused
from p2prdf.gateway.webhooks.keys import signature
from p2prdf.gateway.webhooks.message import Request
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.pinned_resolver import PinnedResolver

__all__ = ["Outcome", "Sender"]

_GONE: Final = 410
_EXCERPT_BYTES: Final = 300
_EXCERPT_SECONDS: Final = 2.0


class Outcome(NamedTuple):
    """Outcome of a request: ``taken`` by the receiver, or the receiver is ``gone`` for good, or an error."""

    taken: bool
    gone: bool
    error: str


class Sender:
    """The HTTP sender of all webhooks of a gateway.  Each webhook has at most one request in flight; no other bound."""

    def __init__(
        self, hosts: Hosts, *, plain: bool = False, timeout_seconds: float = 10.0,
        now: Callable[[], float] = time.time,
    ):  # fmt: skip
        """``plain``: URLs may also use ``http``.  ``timeout_seconds``: deadline of the receiver's response."""
        self.hosts = hosts
        self.outcomes: Counter[str] = Counter()
        """Requests by outcome: the hundreds of statuses, ``unanswered``, ``refused``."""
        self._plain = plain
        self._timeout_seconds = timeout_seconds
        self._now = now
        self._session: aiohttp.ClientSession | None = None

    def check(self, url: str) -> None:
        """Raise TargetRefused for a URL that must not be posted to."""
        self.hosts.check(url)
        if not self._plain and urlsplit(url).scheme != "https":
            raise TargetRefused(f"webhooks are posted over https, and over http only if the operator allows it: {url}")

    async def post(self, url: str, request: Request, secret: str) -> Outcome:
        """Send a request once."""
        seconds = int(self._now())
        headers = {
            "Content-Type": "application/json; charset=utf-8", "User-Agent": "p2prdf-webhooks/1",
            "Accept-Encoding": "identity",
            "webhook-id": request.name, "webhook-timestamp": str(seconds),
            "webhook-signature": signature(secret, request.name, seconds, request.body),
        }  # fmt: skip
        try:
            self.check(url)
            async with self._opened().post(url, data=request.body, headers=headers, allow_redirects=False) as answer:
                self.outcomes[f"{answer.status // 100}xx"] += 1
                if 200 <= answer.status < 300:
                    return Outcome(True, False, "")
                if 300 <= answer.status < 400:
                    return Outcome(False, False, f"it answers {answer.status}, a redirect, which is not followed")
                said = await _excerpt(answer)
                return Outcome(False, answer.status == _GONE, f"it answers {answer.status}{said}")
        except TargetRefused as error:
            self.outcomes["refused"] += 1
            return Outcome(False, False, str(error))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.outcomes["unanswered"] += 1
            what = f"no answer within {self._timeout_seconds:g} s" if isinstance(error, TimeoutError) else str(error)
            return Outcome(False, False, what or type(error).__name__)

    async def close(self) -> None:
        """Close the HTTP session."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=PinnedResolver(self.hosts), use_dns_cache=False, limit=0)
            options: dict[str, Any] = {"trust_env": False, "cookie_jar": aiohttp.DummyCookieJar()}
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=self._timeout_seconds), auto_decompress=False,
                **options,
            )  # fmt: skip
        return self._session


async def _excerpt(answer: aiohttp.ClientResponse) -> str:
    """Return the beginning of a receiver's response; the rest is not read."""
    try:
        async with asyncio.timeout(_EXCERPT_SECONDS):
            found = await answer.content.read(_EXCERPT_BYTES)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return ""
    text = found.decode(errors="replace").strip()
    return f": {text!r}" if text else ""
