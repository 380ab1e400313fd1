"""The client: publish, subscribe and ask at one node."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self

from p2prdf import hlc
from p2prdf.client.publishing import Progress, Publisher, Source
from p2prdf.client.session import Session, open_session
from p2prdf.client.solutions import Batch, Solution
from p2prdf.columns import as_list
from p2prdf.errors import LocalProtocolError, P2PRDFError, Unavailable
from p2prdf.wire import messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from types import TracebackType

    from p2prdf.rdf.dictionary import TermNames

__all__ = ["Client", "Subscription", "connect"]

ACKNOWLEDGE_EVERY: Final = 256
"""Solutions taken one by one are acknowledged in steps of so many, and when none is waiting."""
EARLY_ROWS_MAX: Final = 100_000
"""Solutions kept for subscriptions whose confirmation is still on its way."""


class connect:  # noqa: N801 - used like a function
    """Connect to a node: ``async with connect("host:port") as client``, or ``await connect(...)``.

    Several addresses, separated by commas, are tried in turn.  ``connect_seconds``: deadline for each.
    ``timeout_seconds``: deadline for the answer to a request.
    Raises Unavailable when no address answers.
    """

    def __init__(self, addresses: str, *, connect_seconds: float = 5.0, timeout_seconds: float = 30.0):
        self._addresses = [_split(part) for part in addresses.split(",") if part.strip()]
        if not self._addresses:
            raise LocalProtocolError(f"no address in {addresses!r}")
        self._connect_seconds = connect_seconds
        self._timeout_seconds = timeout_seconds
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._client is not None
        await self._client.close()

    async def _connect(self) -> Client:
        reasons = []
        for host, port in self._addresses:
            try:
                session = await open_session(host, port, connect_seconds=self._connect_seconds)
            except P2PRDFError as error:
                reasons.append(error)
                continue
            return Client(session, timeout_seconds=self._timeout_seconds)
        if len(reasons) == 1:
            raise reasons[0]
        raise Unavailable("no node answers: " + "; ".join(str(reason) for reason in reasons)) from reasons[-1]


class Client:
    """A connection to one node.  Made by :func:`connect`."""

    def __init__(self, session: Session, *, timeout_seconds: float):
        welcome = session.welcome.result()
        self.peer_key = f"{welcome.peer.key:016x}"
        """The node's ring position, in hexadecimal digits."""
        self.peer_address = f"{welcome.peer.host}:{welcome.peer.port}"
        self.timeout_seconds = timeout_seconds
        self._credit = welcome.publications_max
        self._publishing = asyncio.Lock()
        self._session = session
        self._subscriptions: dict[int, Subscription] = {}
        self._early: dict[int, list[tuple[messages.ClientRows, TermNames]]] = {}
        self._early_rows = 0
        session.on_rows = self._rows
        session.on_ended = self._taken_over
        session.on_lost = self._lost

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection.  Subscriptions live on for their lease."""
        self._session.close()
        await self._session.closed()

    # --- publish ---------------------------------------------------------------------------------

    async def publish(
        self,
        triples: Source,
        *,
        publisher: int | None = None,
        first_event: int = 0,
        batch_triples: int = 1000,
        busy_seconds: float = 60.0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> int:
        """Publish triples; return their number when all of them are at their owners.

        ``triples``: (asynchronous) iterable of triples of canonical N-Triples terms, or of
        :class:`p2prdf.rdf.ntriples.TripleBatch`.  ``publisher`` and ``first_event`` number the
        publication events: to publish something again after a failure without it counting twice,
        give the same numbers again.  By default the publisher is a fresh random number.
        ``busy_seconds``: how long to go on trying at a node that is busy.
        ``on_progress`` is called as acknowledgements come in.

        Raises DataRefused, Busy, Unavailable.  One publication at a time: concurrent calls queue up.
        """
        if batch_triples < 1 or first_event < 0:
            raise LocalProtocolError("batch_triples must be positive, first_event must not be negative")
        async with self._publishing:
            work = Publisher(
                self._session,
                publisher=secrets.randbits(64) if publisher is None else publisher,
                first_event=first_event,
                credit=self._credit,
                silence_seconds=self.timeout_seconds,
                busy_seconds=busy_seconds,
                on_progress=on_progress,
            )
            return await work.run(triples, batch_triples)

    # --- subscribe -------------------------------------------------------------------------------

    async def subscribe(
        self,
        query: str,
        *,
        algorithm: str = "csbv",
        per_event: bool = False,
        lease_seconds: float = 60.0,
        auto_acknowledge: bool = True,
    ) -> Subscription:
        """Leave a standing SPARQL SELECT query; when this returns, every later publication counts.

        ``algorithm``: ``csbv`` or ``cqc``.  ``per_event``: solutions per publication event instead of
        per triple.  ``lease_seconds``: how long the subscription outlives this connection.
        ``auto_acknowledge``: acknowledge a solution when the next one is asked for; otherwise call
        :meth:`Subscription.acknowledge`.

        Raises QueryRefused (with the position in its text), Busy, Unavailable.
        """
        if algorithm not in ("csbv", "cqc"):
            raise LocalProtocolError(f"algorithm {algorithm!r} is neither csbv nor cqc")
        if not 0 < lease_seconds < float("inf"):
            raise LocalProtocolError(f"a lease of {lease_seconds} s is not a positive number of seconds")
        answer = await self._session.ask(
            lambda request: messages.ClientSubscribe(
                request, query, algorithm, per_event, float(lease_seconds)
            ),
            timeout_seconds=self.timeout_seconds,
        )
        return self._begin(answer, 0, auto_acknowledge=auto_acknowledge)

    async def attach(
        self, subscription: int, after: int = 0, *, auto_acknowledge: bool = True
    ) -> Subscription:
        """Take up an earlier subscription, at any node, from the solution after ``after`` on.

        Raises LocalProtocolError if there is no such subscription, Unavailable.
        """
        answer = await self._session.ask(
            lambda request: messages.ClientAttach(request, subscription, after),
            timeout_seconds=self.timeout_seconds,
        )
        return self._begin(answer, after, auto_acknowledge=auto_acknowledge)

    async def unsubscribe(self, subscription: int) -> None:
        """End a subscription.  Raises LocalProtocolError if there is none, Unavailable."""
        await self._session.ask(
            lambda request: messages.ClientUnsubscribe(request, subscription),
            timeout_seconds=self.timeout_seconds,
        )
        held = self._subscriptions.pop(subscription, None)
        if held is not None:
            held.end(None)

    async def status(self) -> dict[str, Any]:
        """Return the node's state (docs/operations.md lists the keys)."""
        answer = await self._session.ask(messages.ClientStatus, timeout_seconds=self.timeout_seconds)
        state: dict[str, Any] = json.loads(answer.json)
        return state

    # --- solutions -------------------------------------------------------------------------------

    def _begin(
        self, answer: messages.ClientSubscribed, after: int, *, auto_acknowledge: bool
    ) -> Subscription:
        subscription = Subscription(
            self, answer.subscription, answer.names, hlc.seconds(answer.since), answer.order, after,
            auto_acknowledge=auto_acknowledge,
        )  # fmt: skip
        before = self._subscriptions.pop(answer.subscription, None)
        if before is not None:
            before.end(Unavailable(f"subscription {answer.subscription} was attached again"))
        self._subscriptions[answer.subscription] = subscription
        for rows, terms in self._early.pop(answer.subscription, ()):
            self._early_rows -= len(rows)
            subscription.take(rows, terms)
        if self._session.lost is not None:
            subscription.end(self._session.lost)
        return subscription

    def _rows(self, rows: messages.ClientRows, terms: TermNames) -> None:
        subscription = self._subscriptions.get(rows.subscription)
        if subscription is not None:
            subscription.take(rows, terms)
        elif self._early_rows + len(rows) <= EARLY_ROWS_MAX:
            # The confirmation was read in the same chunk, and its waiter has not run yet.
            self._early.setdefault(rows.subscription, []).append((rows, terms))
            self._early_rows += len(rows)

    def _taken_over(self, subscription: int) -> None:
        held = self._subscriptions.pop(subscription, None)
        if held is not None:
            held.end(Unavailable(f"subscription {subscription} was attached by another client"))

    def _lost(self, error: P2PRDFError) -> None:
        for subscription in self._subscriptions.values():
            subscription.end(error)
        self._subscriptions.clear()

    def acknowledge(self, subscription: int, sequence: int) -> None:
        """Tell the node that everything up to ``sequence`` is dealt with."""
        self._session.tell(messages.ClientAcknowledge(subscription, sequence))


class Subscription:
    """Solutions of a standing query: ``async for solution in subscription``.

    ``id``: its number, for attaching again.  ``names``: projected names.  ``since``: publications from
    this time on count (seconds since the epoch).  ``order``: the patterns in order of evaluation.
    ``acknowledged``: the sequence number acknowledged last; store it with what was made of the
    solutions, and attach after it.  ``lost``: solutions dropped so far because this subscriber was slow.

    At most some 16,000 solutions are on their way unacknowledged; further ones wait at the home.
    """

    def __init__(
        self, client: Client, number: int, names: tuple[str, ...], since: float, order: tuple[int, ...],
        after: int, *, auto_acknowledge: bool,
    ):  # fmt: skip
        self.id = number
        self.names = names
        self.since = since
        self.order = order
        self.acknowledged = after
        self.lost = 0
        self._client = client
        self._auto = auto_acknowledge
        self._taken = after
        self._given = after
        self._batches: deque[Batch] = deque()
        self._current: Batch | None = None
        self._row = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._error: P2PRDFError | None = None

    def acknowledge(self, sequence: int | None = None) -> None:
        """Acknowledge every solution up to ``sequence``, by default up to the last one given out."""
        upto = self._given if sequence is None else sequence
        if upto > self._given:
            raise LocalProtocolError(f"solution {upto} is not given out yet, {self._given} is the last one")
        if upto > self.acknowledged:
            self.acknowledged = upto
            self._client.acknowledge(self.id, upto)

    async def unsubscribe(self) -> None:
        """End the subscription."""
        await self._client.unsubscribe(self.id)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Solution:
        if self._auto and self._given - self.acknowledged >= ACKNOWLEDGE_EVERY:
            self.acknowledge()
        while self._current is None or self._row >= len(self._current):
            if self._auto and not self._batches:
                self.acknowledge()
            self._current, self._row = await self._next_batch(), 0
        solution = self._current.solution(self._row)
        self._row += 1
        self._given = solution.sequence
        return solution

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield solutions as they came in, many at a time; acknowledged when the next batch is asked for."""
        while True:
            batch: Batch | None
            if self._current is not None and (batch := self._current.since(self._given)) is not None:
                self._current = None
            else:
                try:
                    batch = await self._next_batch()
                except StopAsyncIteration:
                    return
            self._given = batch.last
            yield batch
            if self._auto:
                self.acknowledge(batch.last)

    async def _next_batch(self) -> Batch:
        while not self._batches:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._batches.popleft()

    # --- called by the client --------------------------------------------------------------------

    def take(self, rows: messages.ClientRows, terms: TermNames) -> None:
        """Take in solutions; those that were here before are left out."""
        batch = Batch(
            self.names,
            rows.first,
            rows.lost,
            as_list(rows.identity),
            as_list(rows.born),
            tuple(terms.texts(as_list(column)) for column in rows.bindings),
        ).since(self._taken)
        if batch is None or len(batch) == 0:
            return
        self.lost += batch.lost
        self._taken = batch.last
        self._batches.append(batch)
        self._changed.set()

    def end(self, error: P2PRDFError | None) -> None:
        """End the iteration after what is already here, with an error or without."""
        self._ended = True
        self._error = error
        self._changed.set()


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise LocalProtocolError(f"{address.strip()!r} is not host:port")
    return host, int(port)
