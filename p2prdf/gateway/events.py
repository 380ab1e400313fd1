"""Subscriptions as server-sent events, which browsers and ``curl`` read without a library.

Each event is one notification (:mod:`p2prdf.gateway.notification`), and its ``id`` is the resume token after it; the
``id`` of the event ``opened`` precedes all notifications.  A client that reconnects, here or at another gateway,
sends the last ``id`` (``Last-Event-ID``, automatic in browsers) and receives the following notifications.

*Problem.*  HTTP has no acknowledgements.  An acknowledged solution is never sent again, so solutions in a buffer must
not be acknowledged; but the coordinator bounds unacknowledged solutions, and the token names each of them and must
fit a header.

*Solution.*  The kernel knows the bytes that the client's system has not confirmed; solutions in them have not
arrived.  A confirmed solution is acknowledged when ``BEHIND`` later ones are confirmed, or after ``QUIET_SECONDS``.
A client that breaks off, however slow, and resumes receives every solution once, unless it lost more than ``BEHIND``
confirmed ones unread; clients that need more acknowledge explicitly (:mod:`p2prdf.gateway.sockets`).  At most
``_UNSETTLED_MAX`` solutions are sent to a client that reads nothing.
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
from p2prdf.errors import P2PRDFError, Unavailable
from p2prdf.gateway.access import Permission
from p2prdf.gateway.bodies import text_of
from p2prdf.gateway.notification import changes, resumed, token_text
from p2prdf.gateway.problems import Refused, broken_off, described
from p2prdf.gateway.state import GATEWAY, Gateway, check_query, check_settled, check_since, in_dataset, seconds_of

__all__ = ["handle"]

BEHIND: Final = 256
"""Number of later confirmed solutions after which a solution counts as read."""
QUIET_SECONDS: Final = 30.0
_EVENT_SOLUTIONS: Final = 128
"""Most solutions of one event; with those behind and pending acknowledgements, a token of some 5,000 characters."""
_UNSETTLED_MAX: Final = 512
_SETTLED_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = (0.01, 0.5)
"""First and longest interval between checks whether a reader has received something."""
_KEEP_ALIVE_SECONDS: Final = 15.0
_LEASE_SECONDS: Final = 60.0
"""Default lease of a subscription beyond its connection: browsers reconnect within seconds."""
_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
}  # fmt: skip


async def handle(request: web.Request) -> web.StreamResponse:
    """Stream the solutions of a subscription until either side ends the connection."""
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.READ)
    if request.method == "HEAD":
        return web.Response(headers=_HEADERS)  # without a subscription
    with gateway.delivering():
        async with await gateway.connections.own(name) as client:
            subscription = await _opened(request, gateway, client)
            response = web.StreamResponse(headers=_HEADERS)
            await response.prepare(request)
            try:
                await _EventWriter(gateway, subscription, response, request).run()
            except ConnectionError:
                pass  # the reader is gone; its subscription lives on for its lease
            except Exception as error:
                raise broken_off(request, error) from error
    return response


async def _opened(request: web.Request, gateway: Gateway, client: Client) -> Subscription:
    """Open the subscription of the request, or resume the one of its token."""
    token = request.headers.get("Last-Event-ID") or request.query.get("last-event-id")
    query = request.query.get("query")
    if request.method == "POST" and (request.can_read_body or not token):
        if request.content_type != "application/sparql-query":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: a query is application/sparql-query")
        query = await text_of(request, gateway.config)
    if not query and not token:
        raise Refused(HTTPStatus.BAD_REQUEST, "query: missing, and there is no Last-Event-ID")
    check_query(query or "", gateway.config)
    if query:
        query = in_dataset(query, {name: request.query.getall(name) for name in request.query})
    settled = check_settled(request.query.get("settled"))
    if token:
        return await resumed(client, token, query or None, settled)
    assert query
    most = gateway.config.lease_seconds_max
    lease = seconds_of(request.query.get("lease"), "lease", most=most, default=_LEASE_SECONDS)
    since = check_since(request.query.get("since"))
    return await client.subscribe(query, since=since, lease_seconds=lease, auto_acknowledge=False, settled=settled)


class _Sent(NamedTuple):
    """A sent event: its time, the number of its last solution, and the bytes written up to its end."""

    when: float
    upto: int
    written: int


class _EventWriter:
    """Writes the events of one subscription."""

    def __init__(
        self, gateway: Gateway, subscription: Subscription, response: web.StreamResponse, request: web.Request
    ):
        self._gateway = gateway
        self._subscription = subscription
        self._response = response
        self._transport = request.transport
        self._written = 0
        """Bytes of events written; the framing of HTTP adds some more."""
        self._on_way: deque[_Sent] = deque()
        self._arrived: deque[_Sent] = deque()
        """Events confirmed by the client's system and not yet acknowledged."""
        self._last = 0
        """Number of the last confirmed solution."""

    async def run(self) -> None:
        """Write until the subscription or the connection ends."""
        opened: dict[str, Any] = {
            "subscription": f"{self._subscription.id:016x}", "vars": list(self._subscription.names)
        }
        if self._subscription.settled:
            opened["settled"] = True
        await self._write("opened", opened, token_text(self._subscription))  # a client cut off now resumes from here
        batches = self._subscription.batches(solutions_max=_EVENT_SOLUTIONS)
        try:
            async for batch in _timed(batches, self._gateway.stopping, _KEEP_ALIVE_SECONDS):
                if batch is None:
                    await self._response.write(b": \n\n")
                else:
                    await self._write_batch(batch)
                self._acknowledge()
            if self._gateway.stopping.is_set():
                await self._write("leaving", {"detail": "the gateway is stopping: continue at another one"})
        except P2PRDFError as error:
            await self._write("error", described(error)[1])

    async def _write_batch(self, batch: Batch) -> None:
        await self._until_settled()
        if batch.lost:
            await self._write("gap", {"lost": batch.lost})
        if len(batch):
            await self._write("notification", changes(self._subscription.names, batch), token_text(self._subscription))
            self._on_way.append(_Sent(time.monotonic(), batch.last, self._written))
        if batch.bookmark is not None:
            await self._write("mark", {"time": batch.bookmark})

    async def _until_settled(self) -> None:
        """Wait until the token is small enough: for the reader, and for pending acknowledgements."""
        deadline, pause = time.monotonic() + _SETTLED_SECONDS, _LOOK_SECONDS[0]
        while (before := self._subscription.unstable) > _UNSETTLED_MAX:
            if self._transport is None or self._transport.is_closing():
                raise ConnectionResetError("the reader is gone")
            self._acknowledge()
            if self._on_way:  # the reader sets the pace, as in every write
                deadline = time.monotonic() + _SETTLED_SECONDS
            elif time.monotonic() > deadline:
                raise Unavailable("acknowledgements of solutions are not confirmed")
            await asyncio.sleep(pause)
            gone_on = self._subscription.unstable < before
            pause = _LOOK_SECONDS[0] if gone_on else min(2 * pause, _LOOK_SECONDS[1])

    async def _write(self, event: str, data: dict[str, Any], token: str = "") -> None:
        mark = f"id: {token}\n" if token else ""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))  # without line feeds
        body = f"event: {event}\n{mark}data: {text}\n\n".encode()
        self._written += len(body)
        await self._response.write(body)

    def _acknowledge(self) -> None:
        """Acknowledge the solutions that count as read."""
        under_way = _under_way(self._transport)
        # Framing bytes count as unconfirmed but not as written, so no event counts as arrived too early.
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
    """Yield batches, and None after each silence of ``seconds``, until the gateway stops."""
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
    """Return the number of written bytes that the other side has not confirmed; infinite if it is gone."""
    if transport is None or transport.is_closing():
        return math.inf
    waiting = transport.get_write_buffer_size()
    sock = transport.get_extra_info("socket")
    if sock is None or not sys.platform.startswith("linux"):
        return waiting  # the kernel's buffer is unknown here
    sent = array.array("i", [0])
    try:
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, sent)
    except (OSError, ValueError):  # closed in between
        return math.inf
    return waiting + sent[0]
