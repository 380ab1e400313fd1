"""Subscriptions as server-sent events: what a browser, or ``curl``, reads without any library.

Each event is one notification (:mod:`p2prdf.gateway.notification`), and its ``id`` the resume token after it; that of
the event ``opened`` is the one before all of them.  A client that reconnects sends the last one (``Last-Event-ID``;
browsers do so by themselves), to this gateway or another, and is told what followed.

The problem
-----------
Nobody says what has arrived.  An answer that is acknowledged to its home comes no more, so it must not be
acknowledged while it may still be in a buffer on its way; but the home gives out only so many that are not, and the
token names each of them, and has to fit into a header.

The idea
--------
An answer that is still in a buffer on this side has not arrived: the kernel knows what the other side's system has not
confirmed.  Of those that it has confirmed, answers are acknowledged when ``BEHIND`` others have arrived after them, or
after ``QUIET_SECONDS``.  So who breaks off, however slow it was, and comes back is told everything once.  Who falls
behind by more than ``BEHIND`` answers that its own system had taken in, and then loses them, has lost them: who must
not acknowledges for itself (:mod:`p2prdf.gateway.sockets`).  Who takes nothing is told no more than ``_UNSETTLED_MAX``.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import json
import math
import sys
import termios
import time
from collections import deque
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web

from p2prdf.client import Batch, Client, Subscription
from p2prdf.errors import P2PRDFError, QueryRefused, Unavailable
from p2prdf.gateway.access import Right
from p2prdf.gateway.notification import changes, resumed, token_text
from p2prdf.gateway.problems import Refused, broken_off, described
from p2prdf.gateway.state import ELSEWHERE, GATEWAY, Gateway, check_query, check_since, seconds_of, text_of

__all__ = ["handle"]

BEHIND: Final = 256
"""So many answers that arrived later, one is taken to have been read."""
QUIET_SECONDS: Final = 30.0
_EVENT_SOLUTIONS: Final = 128
"""Most of one event; with those behind, and acknowledgements under way, a token of some 5,000 characters."""
_UNSETTLED_MAX: Final = 512
_SETTLED_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = (0.01, 0.5)
"""Between two looks whether a reader has taken something: at first, and at most."""
_KEEP_ALIVE_SECONDS: Final = 15.0
_LEASE_SECONDS: Final = 60.0
"""So long an answer waits for a client that does not say how long: browsers come back within seconds."""
_ANSWER: Final = "text/event-stream"


async def handle(request: web.Request) -> web.StreamResponse:
    """Tell a subscription's answers as they come, until either side goes away."""
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Right.READ)
    with gateway.delivering():
        async with await gateway.connections.own(name) as client:
            subscription = await _opened(request, gateway, client)
            response = web.StreamResponse(
                headers={
                    "Content-Type": f"{_ANSWER}; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
                }
            )  # fmt: skip
            await response.prepare(request)
            try:
                await _Teller(gateway, subscription, response, request).tell()
            except ConnectionError:
                pass  # whoever read is gone; its query stands for its lease
            except Exception as error:
                raise broken_off(request, error) from error
    return response


async def _opened(request: web.Request, gateway: Gateway, client: Client) -> Subscription:
    """Leave the query that is asked about, or take up the subscription that was told of before."""
    token = request.headers.get("Last-Event-ID") or request.query.get("last-event-id")
    for name in ELSEWHERE:
        if name in request.query:
            raise QueryRefused("a query chooses its graphs by GRAPH, pattern by pattern", construct=name)
    query = request.query.get("query")
    if request.method == "POST" and (request.can_read_body or not token):
        if request.content_type != "application/sparql-query":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: a query is application/sparql-query")
        query = await text_of(request)
    if not query and not token:
        raise Refused(HTTPStatus.BAD_REQUEST, "query: there is none, and no Last-Event-ID")
    check_query(query or "", gateway.config)
    if token:
        return await resumed(client, token, query or None)
    assert query
    since = check_since(request.query.get("since", "now"))
    most = gateway.config.lease_seconds_max
    lease = seconds_of(request.query.get("lease"), "lease", most=most, default=_LEASE_SECONDS)
    return await client.subscribe(query, since=since, lease_seconds=lease, auto_acknowledge=False)


class _Sent(NamedTuple):
    """An event with answers: when it was sent, up to which one, and how many bytes had been written with it."""

    when: float
    upto: int
    written: int


class _Teller:
    """Writes the events of one subscription."""

    def __init__(
        self, gateway: Gateway, subscription: Subscription, response: web.StreamResponse, request: web.Request
    ):
        self._gateway = gateway
        self._subscription = subscription
        self._response = response
        self._transport = request.transport
        self._written = 0
        """Bytes of events; with what HTTP puts around them it is some more."""
        self._on_way: deque[_Sent] = deque()
        self._arrived: deque[_Sent] = deque()
        """What the other side's system has confirmed, as far as it is not acknowledged."""
        self._last = 0
        """The last answer that has arrived."""

    async def tell(self) -> None:
        """Write until the subscription or the connection ends."""
        opened = {"subscription": f"{self._subscription.id:016x}", "vars": list(self._subscription.names)}
        await self._write("opened", opened, token_text(self._subscription))  # or who is cut off now asks anew
        batches = self._subscription.batches(solutions_max=_EVENT_SOLUTIONS)
        try:
            async for batch in _timed(batches, self._gateway.stopping, _KEEP_ALIVE_SECONDS):
                if batch is None:
                    await self._response.write(b": \n\n")
                else:
                    await self._tell(batch)
                self._acknowledge()
            if self._gateway.stopping.is_set():
                await self._write("leaving", {"detail": "the gateway stops: go on at another one"})
        except P2PRDFError as error:
            await self._write("error", described(error)[1])

    async def _tell(self, batch: Batch) -> None:
        await self._until_settled()
        if batch.lost:
            await self._write("gap", {"lost": batch.lost})
        if len(batch):
            await self._write("notification", changes(self._subscription.names, batch), token_text(self._subscription))
            self._on_way.append(_Sent(time.monotonic(), batch.last, self._written))

    async def _until_settled(self) -> None:
        """Wait until a token is small enough: for the reader, and for acknowledgements that are on their way."""
        deadline, pause = time.monotonic() + _SETTLED_SECONDS, _LOOK_SECONDS[0]
        while (before := self._subscription.unsettled) > _UNSETTLED_MAX:
            if self._transport is None or self._transport.is_closing():
                raise ConnectionResetError("whoever read is gone")
            self._acknowledge()
            if self._on_way:  # a reader is waited for, as it is by every write
                deadline = time.monotonic() + _SETTLED_SECONDS
            elif time.monotonic() > deadline:
                raise Unavailable("acknowledgements of answers are not confirmed")
            await asyncio.sleep(pause)
            gone_on = self._subscription.unsettled < before
            pause = _LOOK_SECONDS[0] if gone_on else min(2 * pause, _LOOK_SECONDS[1])

    async def _write(self, event: str, data: dict[str, Any], token: str = "") -> None:
        mark = f"id: {token}\n" if token else ""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))  # without line feeds
        body = f"event: {event}\n{mark}data: {text}\n\n".encode()
        self._written += len(body)
        await self._response.write(body)

    def _acknowledge(self) -> None:
        """Acknowledge what was read, as far as that can be known."""
        under_way = _under_way(self._transport)
        # Not all of what is under way counts as written here, so nothing is taken to have arrived too soon.
        while self._on_way and self._written - self._on_way[0].written >= under_way:
            self._arrived.append(self._on_way.popleft())
            self._last = self._arrived[-1].upto
        done, now = 0, time.monotonic()
        while self._arrived and (
            self._last - self._arrived[0].upto >= BEHIND or now - self._arrived[0].when >= QUIET_SECONDS
        ):
            done = self._arrived.popleft().upto
        if done:
            self._subscription.acknowledge(done)


async def _timed(batches: AsyncIterator[Batch], stopping: asyncio.Event, seconds: float) -> AsyncIterator[Batch | None]:
    """Yield batches, and None when none has come for so long, until it is time to stop."""
    waiting = asyncio.ensure_future(anext(batches, None))
    stop = asyncio.ensure_future(stopping.wait())
    try:
        while True:
            await asyncio.wait((waiting, stop), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if stop.done():
                return
            if not waiting.done():
                yield None
                continue
            batch = await waiting
            if batch is None:
                raise Unavailable("the subscription has ended")
            yield batch
            waiting = asyncio.ensure_future(anext(batches, None))
    finally:
        for task in (waiting, stop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, P2PRDFError):
                await task


def _under_way(transport: asyncio.Transport | None) -> float:
    """Return how many bytes that were written the other side's system has not confirmed; endless if it is gone."""
    if transport is None or transport.is_closing():
        return math.inf
    waiting = transport.get_write_buffer_size()
    sock = transport.get_extra_info("socket")
    if sock is None or not sys.platform.startswith("linux"):
        return waiting  # nothing more is known
    sent = array.array("i", [0])
    try:
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, sent)
    except (OSError, ValueError):  # it was closed this very moment
        return math.inf
    return waiting + sent[0]
