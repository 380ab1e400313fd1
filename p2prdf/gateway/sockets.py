"""Subscriptions over WebSockets, in the messages of SEPA, with resume tokens and acknowledgements added.

A client sends, as JSON::

    {"subscribe": {"sparql": "SELECT ...", "alias": "mine", "authorization": "Bearer ..."}}
    {"unsubscribe": {"spuid": "..."}}

and receives notifications (:mod:`p2prdf.gateway.notification`), the first of which holds all current solutions,
errors (``{"error": CODE, "status_code": 400, "error_description": TEXT, "alias": ...}``) and ``{"unsubscribed":
{"spuid": ...}}``.  A subscription ends with its socket.

With ``"acknowledge": true`` in ``subscribe``, each notification has a ``token``, and the client sends
``{"acknowledge": {"spuid": ..., "sequence": n}}`` after it has processed all notifications up to n.  It may resume
from the token of any unacknowledged notification, with ``{"subscribe": {"resume": TOKEN}}``, here or at another
gateway, within ``lease`` seconds.  If that message also has ``sparql``, the token must belong to that query.
``"since": "now"`` leaves out the solutions that exist already.

With ``"settled": true``, or where it is the default, each notification tells a state of the graph, as of its ``mark``.
A client that acknowledges gets a large change in several notifications, the last of them with the ``mark``: nodes send
only so many unacknowledged solutions, and no mark before they have sent all of its solutions.  Marks without a change
are not told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from http import HTTPStatus
from typing import Any, Final

from aiohttp import WSMsgType, web

from p2prdf.client import Batch, Client, Solution, Subscription
from p2prdf.errors import Busy, P2PRDFError, Unavailable
from p2prdf.gateway.access import Permission
from p2prdf.gateway.notification import Row, changes, results, resumed, token_text
from p2prdf.gateway.problems import Refused, broken_off, described
from p2prdf.gateway.state import GATEWAY, Gateway, check_query, check_settled, check_since, in_dataset, seconds_of

__all__ = ["handle"]

_MESSAGE_BYTES_MAX: Final = 1 << 20
_HEARTBEAT_SECONDS: Final = 30.0
_SOLUTIONS_MAX: Final = 1000
"""Most solutions of a notification, except the first."""
_GOODBYE_SECONDS: Final = 5.0
_REST_SECONDS: Final = 1.0
"""How long to wait for the rest of a change: a node may wait for acknowledgements (setting ``solutions_window``)."""
_SPUID: Final = "p2prdf://subscription/"
_UNDER_WAY_MAX: Final = 64
"""Most unacknowledged notifications; then the gateway waits for the client."""
_SUBSCRIBE: Final = frozenset({
    "sparql", "alias", "authorization", "since", "acknowledge", "resume", "lease", "default-graph-uri",
    "named-graph-uri", "settled",
})  # fmt: skip

_IGNORED: Final = frozenset({"httpsAgent", "headers"})
"""HTTP options of SEPA's JavaScript client, which it sends with every message."""


async def handle(request: web.Request) -> web.StreamResponse:
    """Serve one socket until either side closes it."""
    gateway = request.app[GATEWAY]
    socket = web.WebSocketResponse(heartbeat=_HEARTBEAT_SECONDS, max_msg_size=_MESSAGE_BYTES_MAX)
    if not socket.can_prepare(request):
        raise Refused(
            HTTPStatus.UPGRADE_REQUIRED, "a WebSocket is opened here; server-sent events are at /events",
            headers={"Upgrade": "websocket"},
        )  # fmt: skip
    authorization = request.headers.get("Authorization", "")
    name = ""
    with contextlib.suppress(Refused):  # the message may hold the token
        name = gateway.access.check_token(authorization, Permission.READ)
    with gateway.delivering():
        async with await gateway.connections.own(name) as client:
            await socket.prepare(request)
            try:
                await _Socket(gateway, {name: client}, socket, authorization).serve()
            except Exception as error:
                raise broken_off(request, error) from error
    return socket


class _Held:
    """A subscription of a socket."""

    def __init__(self, subscription: Subscription, alias: str | None, *, acknowledges: bool):
        self.subscription = subscription
        self.alias = alias
        self.acknowledges = acknowledges
        self.spuid = f"{_SPUID}{subscription.id:016x}"
        self.sequence = 0
        self.sent: deque[tuple[int, int]] = deque()
        """Unacknowledged notifications: number, and number of the last solution."""
        self.room = asyncio.Event()
        self.room.set()
        self.task: asyncio.Task[None] | None = None

    def acknowledge(self, sequence: int) -> None:
        """Note that the client has processed all notifications up to ``sequence``."""
        upto = 0
        while self.sent and self.sent[0][0] <= sequence:
            upto = self.sent.popleft()[1]
        if upto:
            self.subscription.acknowledge(upto)
        if len(self.sent) < _UNDER_WAY_MAX:
            self.room.set()


class _Socket:
    """One WebSocket and its subscriptions."""

    def __init__(
        self, gateway: Gateway, clients: dict[str, Client], socket: web.WebSocketResponse, authorization: str
    ):
        """``clients``: connections by client name; the first acts for the socket's opener, tokens may add others."""
        self._gateway = gateway
        self._clients = clients
        self._given = list(clients)
        self._connecting = asyncio.Lock()
        self._socket = socket
        self._authorization = authorization
        self._held: dict[str, _Held] = {}
        self._opening = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        stop = asyncio.ensure_future(self._gateway.stopping.wait())
        stop.add_done_callback(lambda _: self._spawn(self._leave()) if not stop.cancelled() else None)
        try:
            async for message in self._socket:
                if message.type is WSMsgType.TEXT:
                    await self._handle(message.data)
                else:
                    await self._send_error(Refused(HTTPStatus.BAD_REQUEST, "messages are text: JSON objects"), None)
        finally:
            stop.cancel()
            await self._end()

    async def _leave(self) -> None:
        await self._socket.close(code=1001, message=b"the gateway stops")

    async def _end(self) -> None:
        tasks = [*self._tasks, *(held.task for held in self._held.values() if held.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(P2PRDFError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                for held in self._held.values():
                    if not held.acknowledges:
                        await held.subscription.unsubscribe()
        for name in self._clients.keys() - self._given:
            await self._clients[name].close()

    # --- messages of the client --------------------------------------------------------------------------------------

    async def _handle(self, text: str) -> None:
        alias: str | None = None
        try:
            kind, body = _read(text)
            alias = body.get("alias") if isinstance(body.get("alias"), str) else None
            if kind == "subscribe":
                self._subscribe(body, alias)
            elif kind == "unsubscribe":
                await self._unsubscribe(body)
            else:
                self._acknowledge(body)
        except P2PRDFError as error:
            await self._send_error(error, alias)

    def _subscribe(self, body: dict[str, Any], alias: str | None) -> None:
        authorization = body.get("authorization", self._authorization)
        said = authorization if isinstance(authorization, str) else ""
        name = self._gateway.access.check_token(said, Permission.READ)
        if len(self._held) + self._opening >= self._gateway.config.socket_subscriptions_max:
            most = self._gateway.config.socket_subscriptions_max
            raise Busy(f"{most} subscriptions are open on this socket, the maximum", retry_after=5.0)
        wanted = _Wanted(body, self._gateway)
        self._opening += 1
        self._spawn(self._open(wanted, alias, name))

    async def _speaker(self, name: str) -> Client:
        """Return this socket's connection that acts as a client; each subscription may bring its own token."""
        async with self._connecting:
            if name not in self._clients:
                self._clients[name] = await self._gateway.connections.own(name)
            return self._clients[name]

    async def _open(self, wanted: _Wanted, alias: str | None, name: str) -> None:
        try:
            subscription = await wanted.open(await self._speaker(name))
        except P2PRDFError as error:
            await self._send_error(error, alias)
            return
        finally:
            self._opening -= 1
        held = _Held(subscription, alias, acknowledges=wanted.acknowledges)
        former = self._held.get(held.spuid)
        if former is not None and former.task is not None:
            former.task.cancel()
        self._held[held.spuid] = held
        held.task = asyncio.create_task(self._deliver(held, first=wanted.token is None))

    async def _unsubscribe(self, body: dict[str, Any]) -> None:
        held = self._known(body)
        if held.task is not None:
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
        await held.subscription.unsubscribe()
        self._held.pop(held.spuid, None)
        await self._send({"unsubscribed": _named(held)})

    def _acknowledge(self, body: dict[str, Any]) -> None:
        held, sequence = self._known(body), body.get("sequence")
        if not isinstance(sequence, int) or not 0 <= sequence < max(1, held.sequence):
            raise Refused(HTTPStatus.BAD_REQUEST, f"acknowledge: {sequence!r} is not the number of a notification")
        held.acknowledge(sequence)

    def _known(self, body: dict[str, Any]) -> _Held:
        held = self._held.get(str(body.get("spuid")))
        if held is None:
            named = str(body.get("spuid"))[:80]
            raise Refused(HTTPStatus.NOT_FOUND, f"spuid: {named!r} is no subscription of this socket")
        return held

    # --- messages to the client --------------------------------------------------------------------------------------

    async def _deliver(self, held: _Held, *, first: bool) -> None:
        try:
            batches = held.subscription.batches(solutions_max=_SOLUTIONS_MAX)
            if first:
                await self._deliver_first(held, batches)
            if held.subscription.settled:
                await self._deliver_states(held, batches, between_marks=not first)
            else:
                async for batch in batches:
                    await self._deliver_batch(held, batch)
            raise Unavailable("the subscription has ended")
        except P2PRDFError as error:
            self._held.pop(held.spuid, None)
            await self._send_error(error, held.alias, held.spuid)

    async def _deliver_first(self, held: _Held, batches: AsyncIterator[Batch]) -> None:
        """Send the present result as one notification."""
        true: dict[int, Row] = {}
        mark = None
        async for batch in batches:
            if batch.lost:
                raise Unavailable("the coordinator dropped solutions: there are too many")
            for solution in batch:
                if solution.removed:
                    true.pop(solution.identity, None)
                else:
                    true[solution.identity] = solution.terms
            # No token has been sent, so no client can resume from here; unacknowledged solutions would only
            # stop the coordinator from sending the rest.
            held.subscription.acknowledge()
            if batch.bookmark is not None and batch.bookmark > held.subscription.opened:
                mark = batch.bookmark
                break
        names = held.subscription.names
        first: dict[str, Any] = {"addedResults": results(names, true.values()), "removedResults": results(names, ())}
        await self._notify(held, first | ({"mark": mark} if held.subscription.settled else {}))

    async def _deliver_states(self, held: _Held, batches: AsyncIterator[Batch], *, between_marks: bool) -> None:
        """Send the changes up to each mark.

        ``between_marks``: the client may have solutions later than its last mark, so it needs the next one, although
        there may be no further change.
        """
        news: list[Solution] = []
        async with contextlib.aclosing(_with_silences(batches, _REST_SECONDS)) as heard:
            async for batch in heard:
                news += batch or ()
                is_part = held.acknowledges and bool(news) and (batch is None or len(news) >= _SOLUTIONS_MAX)
                if batch is not None and batch.bookmark is not None and (news or between_marks):
                    await self._notify(held, changes(held.subscription.names, news) | {"mark": batch.bookmark})
                    news, between_marks = [], False
                elif is_part:
                    await self._notify(held, changes(held.subscription.names, news))
                    news, between_marks = [], True
                elif not held.acknowledges:  # otherwise the coordinator would not send the rest of a large change
                    held.subscription.acknowledge()

    async def _deliver_batch(self, held: _Held, batch: Batch) -> None:
        if batch.lost:
            await self._send({"gap": {**_named(held), "lost": batch.lost}})
        if len(batch):
            await self._notify(held, changes(held.subscription.names, batch))

    async def _notify(self, held: _Held, what: dict[str, Any]) -> None:
        subscription = held.subscription
        given = subscription.ledger.delivered
        notification = {**_named(held), "sequence": held.sequence, **what}
        if held.acknowledges:
            notification["token"] = token_text(subscription)
            held.sent.append((held.sequence, given))
            if len(held.sent) >= _UNDER_WAY_MAX:
                held.room.clear()
        held.sequence += 1
        await self._send({"notification": notification})
        if held.acknowledges:
            await held.room.wait()
        else:
            subscription.acknowledge()

    async def _send_error(self, error: P2PRDFError, alias: str | None, spuid: str | None = None) -> None:
        status, problem, _ = described(error)
        said: dict[str, Any] = {
            "error": error.code, "status_code": int(status), "error_description": problem["detail"]
        }
        said |= {name: problem[name] for name in ("construct", "line", "column") if name in problem}
        if alias is not None:
            said["alias"] = alias
        if spuid is not None:
            said["spuid"] = spuid
        await self._send(said)

    async def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):  # the loop that reads the socket notices its end
            await self._socket.send_str(json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _with_silences(batches: AsyncIterator[Batch], seconds: float) -> AsyncGenerator[Batch | None, None]:
    """Yield batches, and None after each silence of ``seconds``."""
    waiting = asyncio.ensure_future(anext(batches, None))
    try:
        while True:
            await asyncio.wait((waiting,), timeout=seconds)
            if not waiting.done():
                yield None
                continue
            batch = waiting.result()
            if batch is None:
                return
            yield batch
            waiting = asyncio.ensure_future(anext(batches, None))
    finally:
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError, P2PRDFError):
            await waiting


class _Wanted:
    """A validated subscribe request."""

    def __init__(self, body: dict[str, Any], gateway: Gateway):
        """Raises Refused, TokenRefused, QueryRefused for an invalid request."""
        unknown = sorted(set(body) - _SUBSCRIBE - _IGNORED)
        if unknown:
            raise Refused(HTTPStatus.BAD_REQUEST, f"subscribe: {unknown[0][:80]!r} is not known")
        self.token = _text(body, "resume") if "resume" in body else None
        self.query = _text(body, "sparql") if self.token is None or "sparql" in body else ""
        check_query(self.query, gateway.config)
        if self.query:
            names = ("default-graph-uri", "named-graph-uri")
            self.query = in_dataset(self.query, {name: _graphs(body, name) for name in names})
        self.since = check_since(body.get("since", "beginning"))
        self.settled = check_settled(body.get("settled"))
        self.acknowledges = self.token is not None or body.get("acknowledge") is True
        lease = body.get("lease")
        most = gateway.config.lease_seconds_max if self.acknowledges else 60.0
        self.lease = seconds_of(None if lease is None else str(lease), "lease", most=most)

    async def open(self, client: Client) -> Subscription:
        """Subscribe, or resume the subscription of the token."""
        if self.token is not None:
            return await resumed(client, self.token, self.query or None, self.settled)
        return await client.subscribe(
            self.query, since=self.since, lease_seconds=self.lease, auto_acknowledge=False,
            bookmarks=True, hurry=True, settled=self.settled,
        )  # fmt: skip


def _read(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a message: its kind and its members.  Raises Refused if it is malformed."""
    try:
        message = json.loads(text)
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # "\ud800" is valid JSON, but no text
        raise Refused(HTTPStatus.BAD_REQUEST, f"half a surrogate pair is not a character: {text[:80]!r}") from None
    except (ValueError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, f"not JSON: {text[:80]!r}") from None
    members = message if isinstance(message, dict) else {}
    known = [each for each in ("subscribe", "unsubscribe", "acknowledge") if each in members]
    if len(known) != 1:
        raise Refused(HTTPStatus.BAD_REQUEST, "a message has one of subscribe, unsubscribe and acknowledge")
    body = message[known[0]]
    if isinstance(body, str):  # SEPA's first format, with the other members beside
        others = {name: value for name, value in message.items() if name != known[0]}
        body = {"sparql" if known[0] == "subscribe" else "spuid": body, **others}
    if not isinstance(body, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{known[0]}: not an object")
    return known[0], body


def _graphs(body: dict[str, Any], name: str) -> list[str]:
    """Return the graphs that a member of a message names: a text or a list of texts."""
    value = body.get(name) or []
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: neither an IRI nor a list of IRIs")
    return found


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: missing")
    return value


def _named(held: _Held) -> dict[str, str]:
    return {"spuid": held.spuid, **({} if held.alias is None else {"alias": held.alias})}
