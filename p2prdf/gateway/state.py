"""What the handlers of a gateway share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from p2prdf.errors import Busy, LocalProtocolError
from p2prdf.gateway.access import Access
from p2prdf.gateway.connections import Connections
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.survey import Survey

if TYPE_CHECKING:
    from p2prdf.gateway.webhooks.host import WebhookHost

__all__ = [
    "ELSEWHERE", "GATEWAY", "Gateway", "GatewayConfig", "check_charset", "check_query", "check_since", "seconds_of",
    "text_of",
]  # fmt: skip

ELSEWHERE: Final = ("default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri")
"""Parameters of the SPARQL protocol that choose graphs outside of the query, which are refused."""
_WAIT_SECONDS: Final = 5.0
_CHARSETS: Final = ("utf-8", "utf8", "us-ascii", "ascii")


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Bounds of a gateway, each of which is one to all clients together unless it says otherwise."""

    queries_max: int = 16
    """Queries and updates that are answered at a time; others wait for five seconds, then they are refused as busy."""
    publications_max: int = 16
    """Publications under way at a time, the same."""
    subscribers_max: int = 512
    """Server-sent events and WebSockets at a time; each has a connection to a node."""
    socket_subscriptions_max: int = 64
    """Subscriptions of one WebSocket."""
    query_characters_max: int = 262_144
    query_seconds_max: float = 60.0
    """The longest that a query may be asked to take, and what it may take if nothing is asked."""
    lease_seconds_max: float = 3600.0
    """The longest that a subscription may be asked to outlive its connection."""
    body_bytes_max: int = 1 << 34
    """Most bytes of one publication."""
    body_silence_seconds: float = 60.0
    """A body of which nothing comes for so long is given up."""
    drain_seconds: float = 20.0
    """How long requests under way may take when the gateway is told to stop."""

    def validate(self) -> None:
        """Raise LocalProtocolError for a bound that is none."""
        for name in ("queries_max", "publications_max", "subscribers_max", "socket_subscriptions_max",
                     "query_characters_max", "query_seconds_max", "lease_seconds_max", "body_bytes_max",
                     "body_silence_seconds", "drain_seconds"):  # fmt: skip
            value = getattr(self, name)
            if not (0 < value < math.inf):
                raise LocalProtocolError(f"{name}: {value} is not a positive number")


@dataclass(slots=True)
class Gateway:
    """A gateway at work."""

    config: GatewayConfig
    connections: Connections
    access: Access
    survey: Survey
    webhooks: WebhookHost | None = None
    """None: this gateway has none."""
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("p2prdf.gateway"))
    subscribers: int = 0
    """Server-sent events and WebSockets that are open."""
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Requests answered, by path and status."""
    leaving: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is time to end what goes on for ever."""
    _turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(self.config.queries_max)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn to ask a query.  Raises Busy if it does not come in time."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise Busy("as many queries as the gateway takes at a time are under way", retry_after=1.0) from None
        try:
            yield
        finally:
            self._turns.release()

    @contextlib.contextmanager
    def delivering(self) -> Iterator[None]:
        """Count a subscriber.  Raises Busy if there are too many."""
        if self.subscribers >= self.config.subscribers_max:
            raise Busy(f"{self.subscribers:,} subscribers are here, which is the most", retry_after=5.0)
        self.subscribers += 1
        try:
            yield
        finally:
            self.subscribers -= 1


GATEWAY: Final = web.AppKey("gateway", Gateway)


def check_charset(request: web.Request) -> None:
    """Raise Refused for a body that is said not to be in UTF-8.

    Python has more character sets, of which some (Punycode) take time that grows with the square of the text.
    """
    charset = request.charset
    if charset is not None and charset.lower() not in _CHARSETS:
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"charset={charset[:80]}: bodies are in UTF-8")


async def text_of(request: web.Request) -> str:
    """Return the body of a request, without a byte order mark.  Raises Refused if it is not in UTF-8."""
    check_charset(request)
    try:
        return (await request.read()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not in UTF-8: {error}") from None


def check_query(text: str, config: GatewayConfig) -> None:
    """Raise Refused for a query that is too long."""
    if len(text) > config.query_characters_max:
        reason = f"a query of {len(text):,} characters; at most {config.query_characters_max:,} are taken"
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)


def check_since(since: object) -> str:
    """Return from when on publications count.  Raises Refused for what is no such time."""
    if since not in ("now", "beginning"):
        raise Refused(HTTPStatus.BAD_REQUEST, f"since: {str(since)[:80]!r} is neither now nor beginning")
    return str(since)


def seconds_of(text: str | None, name: str, *, most: float, default: float = math.inf) -> float:
    """Return a number of seconds that a parameter gives; if there is none ``default``, and ``most`` at most.

    Raises Refused if it is none.
    """
    if text is None:
        return min(most, default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= most:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: {text[:80]!r} is not a number of seconds up to {most:g}")
    return seconds
