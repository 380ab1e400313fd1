"""The client: publish, subscribe and ask at one node."""

from __future__ import annotations

import asyncio
import json
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from p2prdf import hlc
from p2prdf.client.ledger import Ledger
from p2prdf.client.publishing import Progress, Publisher, Source
from p2prdf.client.session import Session, open_session
from p2prdf.client.subscription import Subscription
from p2prdf.client.token import Token, query_mark
from p2prdf.errors import LocalProtocolError, P2PRDFError, Unavailable, error_from_code
from p2prdf.wire import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from p2prdf.rdf.dictionary import TermNames

__all__ = ["Client", "Subscription", "connect"]

ACKNOWLEDGED_MAX: Final = 16_384
"""Identities in one message."""
ACKNOWLEDGE_AGAIN_SECONDS: Final = 1.0
"""After an acknowledgement that the home did not confirm it is sent again."""
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
        session.on_ended = self._sub_ended
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
        acknowledge: str = messages.INDEXED,
        busy_seconds: float = 60.0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> int:
        """Publish triples; return their number when all of them are acknowledged.

        ``triples``: (asynchronous) iterable of triples of canonical N-Triples terms, or of
        :class:`p2prdf.rdf.ntriples.TripleBatch`.  ``publisher`` and ``first_event`` number the
        publication events: to publish something again after a failure without it counting twice,
        give the same numbers again.  By default the publisher is a fresh random number.
        ``acknowledge``: ``indexed``, when all of them are where queries find them; ``accepted``, as soon as enough
        nodes (``copies_min``) keep them, who see to it that they will be.  What is asked for is never lowered.
        ``busy_seconds``: how long to go on trying at a node that is busy.
        ``on_progress`` is called as acknowledgements come in.

        Raises DataRefused, Busy, Unavailable.  One publication at a time: concurrent calls queue up.
        """
        if batch_triples < 1 or first_event < 0:
            raise LocalProtocolError("batch_triples must be positive, first_event must not be negative")
        if acknowledge not in messages.LEVELS:
            raise LocalProtocolError(f"level {acknowledge!r} is neither {' nor '.join(messages.LEVELS)}")
        async with self._publishing:
            work = Publisher(
                self._session,
                publisher=secrets.randbits(64) if publisher is None else publisher,
                first_event=first_event,
                credit=self._credit,
                silence_seconds=self.timeout_seconds,
                busy_seconds=busy_seconds,
                on_progress=on_progress,
                level=acknowledge,
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
        mark = query_mark(query, algorithm, per_event=per_event)
        answer = await self._session.ask(
            lambda request: messages.ClientSubscribe(
                request, query, algorithm, per_event, float(lease_seconds)
            ),
            timeout_seconds=self.timeout_seconds,
        )
        return self._begin(answer, Ledger(), mark, auto_acknowledge=auto_acknowledge)

    async def attach(self, token: bytes | int, *, auto_acknowledge: bool = True) -> Subscription:
        """Take up an earlier subscription, at any node.

        ``token``: from :meth:`Subscription.token`; its solutions do not come again.  With the subscription's number
        alone all solutions come that were not acknowledged.

        Raises TokenRefused, SubscriptionGone if the subscription was ended or its lease ran out, Unavailable.
        """
        known = Token(0, token, 0, 0, ()) if isinstance(token, int) else Token.decode(token)
        ledger = Ledger(given=known.given, lost=known.lost, unsettled=known.unsettled)
        have = list(known.unsettled)
        while len(have) > ACKNOWLEDGED_MAX:
            some, have = have[:ACKNOWLEDGED_MAX], have[ACKNOWLEDGED_MAX:]
            await self._session.ask(
                lambda request, some=some: messages.ClientAcknowledge(request, known.subscription, some),  # type: ignore[misc]
                timeout_seconds=self.timeout_seconds,
            )
        answer = await self._session.ask(
            lambda request: messages.ClientAttach(request, known.subscription, have),
            timeout_seconds=self.timeout_seconds,
        )
        subscription = self._begin(answer, ledger, known.query, auto_acknowledge=auto_acknowledge)
        self.acknowledge(subscription, ledger.dealt_with)
        return subscription

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
        self, answer: messages.ClientSubscribed, ledger: Ledger, mark: int, *, auto_acknowledge: bool
    ) -> Subscription:
        subscription = Subscription(
            self, answer.subscription, answer.names, hlc.seconds(answer.since), answer.order, ledger,
            query_mark=mark, auto_acknowledge=auto_acknowledge,
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

    def _sub_ended(self, message: messages.ClientEnded) -> None:
        held = self._subscriptions.pop(message.subscription, None)
        if held is not None:
            reason = f"subscription {message.subscription:016x}: {message.text}"
            held.end(error_from_code(message.code, reason))

    def _lost(self, error: P2PRDFError) -> None:
        for subscription in self._subscriptions.values():
            subscription.end(error)
        self._subscriptions.clear()

    def acknowledge(self, subscription: Subscription, identities: list[int]) -> None:
        """Tell the node that solutions are dealt with, and note when all replicas know.

        If that cannot be said now they stay unsettled, and are acknowledged again with the next attachment.
        """
        if self._session.lost is not None:
            return
        for start in range(0, len(identities), ACKNOWLEDGED_MAX):
            some = identities[start : start + ACKNOWLEDGED_MAX]
            answer = self._session.start(
                lambda request, some=some: messages.ClientAcknowledge(request, subscription.id, some)  # type: ignore[misc]
            )
            answer.add_done_callback(partial(self._settled, subscription, some))

    def _settled(self, subscription: Subscription, identities: list[int], answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        if answer.exception() is None:
            subscription.ledger.settle(identities)
        elif self._session.lost is None and self._subscriptions.get(subscription.id) is subscription:
            again = partial(self.acknowledge, subscription, identities)
            asyncio.get_running_loop().call_later(ACKNOWLEDGE_AGAIN_SECONDS, again)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise LocalProtocolError(f"{address.strip()!r} is not host:port")
    return host, int(port)
