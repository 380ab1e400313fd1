"""Configuration and state shared by the handlers of a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from p2prdf.errors import Busy, LocalProtocolError, QueryRefused
from p2prdf.gateway.access import Access
from p2prdf.gateway.capacity import capacity
from p2prdf.gateway.connections import Connections
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.survey import Survey
from p2prdf.rdf.dataset_clauses import with_dataset
from p2prdf.reasoning.ruled_query import RULED_BYTES_MAX

if TYPE_CHECKING:
    from p2prdf.client.services import Endpoints
    from p2prdf.client.update import Loader
    from p2prdf.gateway.webhooks.host import WebhookHost
    from p2prdf.rdf.remote_contexts import Contexts

__all__ = [
    "GATEWAY", "Gateway", "GatewayConfig", "check_query", "check_settled", "check_since", "in_dataset", "seconds_of",
    "update_dataset",
]  # fmt: skip

_OF_QUERIES: Final = ("default-graph-uri", "named-graph-uri")
_OF_UPDATES: Final = ("using-graph-uri", "using-named-graph-uri")
_GRAPHS_MAX: Final = 1000
"""Most graphs that the parameters of a request name."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Bounds of a gateway, for all clients together unless stated otherwise."""

    queries_max: int = 16
    """Queries and updates at a time; further ones wait up to five seconds, then they are refused as busy."""
    publications_max: int = 16
    """Publications at a time; further ones wait up to five seconds, then they are refused as busy."""
    subscribers_max: int = 512
    """Open server-sent event streams and WebSockets; each has a connection to a node."""
    socket_subscriptions_max: int = 64
    """Subscriptions of one WebSocket."""
    query_characters_max: int = 262_144
    update_statements_max: int = 200_000
    """Most statements that one update changes, and most solutions of one WHERE; the gateway holds them in memory."""
    query_seconds_max: float = 60.0
    """Longest time that a query may request, and the default."""
    lease_seconds_max: float = 3600.0
    """Longest lease of a subscription beyond its connection."""
    body_bytes_max: int = 1 << 34
    """Most bytes of one publication."""
    body_silence_seconds: float = 60.0
    """Longest silence within a body; then the request is refused."""
    drain_seconds: float = 20.0
    """Time for pending requests when the gateway stops."""

    def validate(self) -> None:
        """Raise LocalProtocolError for an invalid bound."""
        for name in ("queries_max", "publications_max", "subscribers_max", "socket_subscriptions_max",
                     "query_characters_max", "update_statements_max", "query_seconds_max", "lease_seconds_max",
                     "body_bytes_max", "body_silence_seconds", "drain_seconds"):  # fmt: skip
            value = getattr(self, name)
            if not (0 < value < math.inf):
                raise LocalProtocolError(f"{name}: {value} is not a positive number")


@dataclass(slots=True)
class Gateway:
    """A running gateway."""

    config: GatewayConfig
    connections: Connections
    access: Access
    survey: Survey
    webhooks: WebhookHost | None = None
    """Delivery of webhooks; None: disabled."""
    loader: Loader | None = None
    """Fetches the documents of LOAD; None: LOAD is refused."""
    endpoints: Endpoints | None = None
    """Asks the endpoints of SERVICE; None: SERVICE is refused."""
    contexts: Contexts | None = None
    """Fetches contexts at other addresses of JSON-LD; None: they are refused."""
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("p2prdf.gateway"))
    subscribers: int = 0
    """Open server-sent event streams and WebSockets."""
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Requests answered, by path and status."""
    leaving: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when open streams must end."""
    _turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._turns = asyncio.Semaphore(self.config.queries_max)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for capacity for a query.  Raises Busy after five seconds."""
        async with capacity(self._turns, "the gateway has its maximum of queries in progress"):
            yield

    @contextlib.contextmanager
    def delivering(self) -> Iterator[None]:
        """Count a subscriber.  Raises Busy if there are too many."""
        if self.subscribers >= self.config.subscribers_max:
            raise Busy(f"{self.subscribers:,} subscribers are connected, the maximum", retry_after=5.0)
        self.subscribers += 1
        try:
            yield
        finally:
            self.subscribers -= 1


GATEWAY: Final = web.AppKey("gateway", Gateway)


def in_dataset(query: str, parameters: Mapping[str, Sequence[str]]) -> str:
    """Return a query over the graphs that the protocol's parameters name, instead of those of its FROM clauses.

    Empty values name no graph.  Raises QueryRefused for parameters of updates.
    """
    _refuse_graphs(parameters, _OF_UPDATES, "a query takes default-graph-uri and named-graph-uri")
    default, named = ([each for each in parameters.get(name, ()) if each] for name in _OF_QUERIES)
    if not default and not named:
        return query
    if len(default) + len(named) > _GRAPHS_MAX:
        raise Refused(HTTPStatus.BAD_REQUEST, f"more than {_GRAPHS_MAX} graphs in one request")
    return with_dataset(query, default, named, bytes_max=RULED_BYTES_MAX)


def update_dataset(parameters: Mapping[str, Sequence[str]]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the graphs of USING and of USING NAMED that the protocol's parameters name; empty values name none.

    Raises QueryRefused for parameters of queries.
    """
    _refuse_graphs(parameters, _OF_QUERIES, "an update takes using-graph-uri and using-named-graph-uri")
    using, named = ([each for each in parameters.get(name, ()) if each] for name in _OF_UPDATES)
    if len(using) + len(named) > _GRAPHS_MAX:
        raise Refused(HTTPStatus.BAD_REQUEST, f"more than {_GRAPHS_MAX} graphs in one request")
    return using, named


def _refuse_graphs(parameters: Mapping[str, Sequence[str]], names: Iterable[str], reason: str) -> None:
    for name in names:
        if any(parameters.get(name, ())):
            raise QueryRefused(f"not supported: {reason}", construct=name)


def check_query(text: str, config: GatewayConfig) -> None:
    """Raise Refused for a query that is too long."""
    if len(text) > config.query_characters_max:
        reason = f"a query of {len(text):,} characters; at most {config.query_characters_max:,} are accepted"
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)


def check_since(since: object) -> str | None:
    """Return the parameter ``since``, None if it is missing.  Raises Refused unless it is ``now`` or ``beginning``."""
    if since is None:
        return None
    if since not in ("now", "beginning"):
        raise Refused(HTTPStatus.BAD_REQUEST, f"since: {str(since)[:80]!r} is neither now nor beginning")
    return str(since)


def check_settled(value: object) -> bool | None:
    """Return the parameter ``settled``, a JSON value or a text; None if it is missing: the default of the query.

    Raises Refused unless it is ``true`` or ``false``.
    """
    if value is None:
        return None
    if value not in (True, False, "true", "false"):
        raise Refused(HTTPStatus.BAD_REQUEST, f"settled: {str(value)[:40]!r} is neither true nor false")
    return value in (True, "true")


def seconds_of(text: str | None, name: str, *, most: float, default: float = math.inf) -> float:
    """Return a parameter in seconds; ``default`` if it is missing, at most ``most``.

    Raises Refused for an invalid number.
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
