"""The client: publish, subscribe and query through any node of an overlay."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Final, Self

from p2prdf import hlc
from p2prdf.client.attachments import Attachments
from p2prdf.client.channel_store import ChannelStore
from p2prdf.client.cohort import Cohort, check_cohort, cohort_mark
from p2prdf.client.concluding import Concluding, conclude
from p2prdf.client.derived import Derived, derive, drop
from p2prdf.client.describing import answer
from p2prdf.client.export import Export, begin_export
from p2prdf.client.feed import LINGER_SECONDS
from p2prdf.client.interest_store import InterestStore
from p2prdf.client.ledger import Ledger
from p2prdf.client.pieces import Quad, Source, Triple
from p2prdf.client.publishing import Effort, Progress, Publisher, PublishOptions
from p2prdf.client.query import Result, answer_together, check_after
from p2prdf.client.rule_store import add_rules, named_rules, remove_rules
from p2prdf.client.ruled import derive_by_rules
from p2prdf.client.services import NO_ENDPOINTS, Endpoints, ServiceBounds, answer_with_services
from p2prdf.client.sessions import Address, Sessions
from p2prdf.client.stream import Stream
from p2prdf.client.subscription import Subscription
from p2prdf.client.token import Token, query_mark
from p2prdf.client.transaction import Transaction
from p2prdf.client.update import Loader, UpdateBounds, Updated, carry_out
from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.wire import messages

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from p2prdf.client.event_times import Time
    from p2prdf.client.session import Session
    from p2prdf.reasoning import Rule
    from p2prdf.tls import Tls

__all__ = ["BEGINNING", "NOW", "Client", "Subscription", "connect"]

NOW: Final = "now"
BEGINNING: Final = "beginning"
"""The values of ``since`` that are not times: publications from now on, or all publications."""
_TIME_MAX: Final = 1e10
"""Upper bound of a time in seconds since 1970; times in milliseconds exceed it and are refused."""


class connect:  # noqa: N801 - used like a function
    """Connect to a node: ``async with connect("host:port") as client``, or ``await connect(...)``.

    Give several addresses separated by commas; the first connection tries each of them once, in order. When the
    node leaves, fails or stops answering, the client reconnects by itself, to another node if possible. It
    knows the given addresses and those that nodes report. Publications, subscriptions and requests continue
    there.

    ``connect_seconds``: deadline of one connection attempt.
    ``timeout_seconds``: deadline of a node's answer to one request.
    ``reconnect_seconds``: how long to try to reconnect before all open calls and subscriptions raise
    Unavailable; a later call tries for as long again. 0: never reconnect; the end of the connection raises at
    once.
    ``ping_seconds``: ping a node that has sent nothing for this long.
    ``on_reconnect``: called with the address after each reconnection. The logger ``p2prdf.client`` reports
    losses and reconnections.
    ``tls``: our certificate and the trusted authorities, for nodes that use TLS: a context, or a
    :class:`p2prdf.Tls`, which reads its files again for each connection. The other side must have a node's
    certificate; its address does not matter.
    ``speaks_for``: act as the client of this name; our certificate needs the permission for it.
    ``linger_seconds``: default of :meth:`Client.publish`.

    Raises TlsRefused if either side does not trust the other or only one side uses TLS, NotAllowed if we may
    not act for ``speaks_for``, and Unavailable if no address answers.
    """

    def __init__(
        self,
        addresses: str,
        *,
        connect_seconds: float = 5.0,
        timeout_seconds: float = 30.0,
        reconnect_seconds: float = 60.0,
        ping_seconds: float = 15.0,
        on_reconnect: Callable[[str], None] | None = None,
        tls: Tls | ssl.SSLContext | None = None,
        speaks_for: str = "",
        linger_seconds: float = LINGER_SECONDS,
    ):
        if not (0 <= reconnect_seconds < float("inf") and ping_seconds > 0):
            raise LocalProtocolError(
                f"reconnect_seconds {reconnect_seconds} is negative, or ping_seconds {ping_seconds} not positive"
            )
        self._addresses = [_split(part) for part in addresses.split(",") if part.strip()]
        if not self._addresses:
            raise LocalProtocolError(f"no address in {addresses!r}")
        self._connect_seconds = connect_seconds
        self._timeout_seconds = timeout_seconds
        self._reconnect_seconds = reconnect_seconds
        self._ping_seconds = ping_seconds
        self._on_reconnect = on_reconnect
        self._tls = tls
        self._speaks_for = speaks_for
        self._linger_seconds = _linger(linger_seconds)
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
        client = Client(
            Sessions(
                self._addresses,
                connect_seconds=self._connect_seconds,
                timeout_seconds=self._timeout_seconds,
                reconnect_seconds=self._reconnect_seconds,
                ping_seconds=self._ping_seconds,
                on_reconnect=self._on_reconnect,
                tls=self._tls,
                speaks_for=self._speaks_for,
            ),
            linger_seconds=self._linger_seconds,
        )
        await client.open()
        return client


class Client:
    """A connection to an overlay, through one node at a time.  Made by :func:`connect`."""

    def __init__(self, sessions: Sessions, *, linger_seconds: float = LINGER_SECONDS):
        self._sessions = sessions
        self._linger_seconds = linger_seconds
        self._attachments = Attachments(sessions)
        self._streams: dict[Stream, None] = {}
        sessions.on_session = self._use
        sessions.on_down = self._attachments.down

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def peer_key(self) -> str:
        """Ring position of the node in use, or of the last one, as 16 hexadecimal digits."""
        return f"{self._sessions.peer.key:016x}"

    @property
    def peer_address(self) -> str:
        """Address of the node in use, or of the last one, as that node reports it."""
        return f"{self._sessions.peer.host}:{self._sessions.peer.port}"

    @property
    def others(self) -> list[str]:
        """Addresses of other nodes, as reported by the node in use."""
        return self._sessions.others

    @property
    def interests(self) -> InterestStore:
        """Interests that are registered in the overlay; interest workers maintain their targets."""
        return InterestStore(self)

    @property
    def channels(self) -> ChannelStore:
        """Semantic channels that are registered in the overlay; channel workers evaluate them."""
        return ChannelStore(self)

    async def open(self) -> None:
        """Connect.  Called by :func:`connect`."""
        await self._sessions.open()

    async def close(self) -> None:
        """Close the connection.

        Subscriptions survive until their leases run out; streams send no more heartbeats.
        """
        for stream in list(self._streams):
            stream.stop()
        self._sessions.close()
        await self._sessions.closed()

    def _use(self, session: Session) -> None:
        """Move subscriptions and streams to a new session."""
        self._attachments.use(session)
        for stream in self._streams:
            stream.use(session)

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
        graph: str | None = None,
        by_content: bool = False,
        effort: Effort | None = None,
        on_refused: Callable[[Quad, DataRefused], None] | None = None,
        trace: str | None = None,
        linger_seconds: float | None = None,
        if_unchanged: int | Mapping[str, int] | None = None,
    ) -> int:
        """Publish triples; return their number when all of them are acknowledged.

        ``triples``: an iterable or asynchronous iterable of triples. Terms are canonical N-Triples text, or
        terms of rdflib or pyoxigraph; an object may be a Python value. A fourth item names the graph (an IRI;
        None: ``graph``). Items may also be a :class:`p2prdf.rdf.ntriples.TripleBatch` or
        :class:`p2prdf.client.TermColumns`; the latter may be deletions.
        ``graph``: IRI of the graph for items that name none; None: the default graph.
        ``publisher``, ``first_event``: number the publication events. To repeat a failed publication without
        counting it twice, give the same numbers again. By default the publisher is a fresh random number.
        ``by_content``: identify an event by its content instead of its number: the same triple of the same
        publisher counts once, in any order and division into calls.
        ``acknowledge``: ``indexed``: all owners have indexed the triples, so queries find them. ``accepted``:
        enough nodes (``copies_min``) hold them durably and will index them. The level is never lowered.
        ``busy_seconds``: how long to retry at a node that is busy.
        ``on_progress``: called as acknowledgements arrive. ``effort``: is filled in with counts and times.
        ``on_refused``: called with each statement (subject, predicate, object, graph) that nodes refuse and
        with the reason; the others are published. Without it, the first refusal raises DataRefused and nothing
        of its frame is published.
        ``trace``: a W3C ``traceparent``, under which nodes log the publication's first four frames. A node that
        does not know traces closes the connection. A ``traceparent`` without the sampled flag traces nothing.
        ``batch_triples``, ``linger_seconds``: a batch is sent when it is full, or ``linger_seconds`` after its
        first triple while the source yields nothing. A source that is neither sized nor asynchronous (a
        generator, a file) may block, so a thread of its own reads it.
        ``if_unchanged``: publish one :meth:`transaction` with this condition, with its bounds and its error
        ChangedMeanwhile. Only ``publisher``, ``acknowledge``, ``busy_seconds`` and ``graph`` go with it.

        After the loss of a node the client sends unacknowledged frames to the next one, under the same numbers.
        Concurrent calls run side by side, each with its own errors, and are not ordered: let one call end before
        the next where order matters.

        Raises DataRefused, Busy, Unavailable.
        """
        if if_unchanged is not None:
            others = (on_progress, effort, on_refused, trace, linger_seconds)
            if first_event or by_content or any(each is not None for each in others):
                reason = "a publication with if_unchanged is one transaction: beside it only publisher, acknowledge,"
                raise LocalProtocolError(f"{reason} busy_seconds and graph are taken")
            transaction = self.transaction(
                publisher=publisher, graph=graph, acknowledge=acknowledge, busy_seconds=busy_seconds,
                if_unchanged=if_unchanged,
            )  # fmt: skip
            if isinstance(triples, AsyncIterable):
                async for each in triples:
                    transaction.publish([each])
            else:
                transaction.publish(triples)
            await transaction.commit()
            return len(transaction)
        return await self._publish(triples, PublishOptions(
            publisher=publisher, first_event=first_event, batch_triples=batch_triples, acknowledge=acknowledge,
            busy_seconds=busy_seconds, on_progress=on_progress, graph=graph, by_content=by_content, effort=effort,
            on_refused=on_refused, trace=trace, linger_seconds=linger_seconds,
        ))  # fmt: skip

    async def retract(
        self,
        triples: Source,
        *,
        publisher: int | None = None,
        first_event: int = 0,
        batch_triples: int = 1000,
        acknowledge: str = messages.INDEXED,
        busy_seconds: float = 60.0,
        on_progress: Callable[[Progress], None] | None = None,
        graph: str | None = None,
        trace: str | None = None,
        linger_seconds: float | None = None,
    ) -> int:
        """Delete triples; return their number when all deletions are acknowledged.

        A deletion ends all earlier publications of its triple: nodes retract the solutions made from them
        (:attr:`p2prdf.client.Solution.removed`). Later publications of the triple count again. Deleting a
        triple that was never published is allowed. A deletion from one graph does not affect other graphs.
        Arguments and errors are those of :meth:`publish`.
        """
        return await self._publish(triples, PublishOptions(
            removed=True, publisher=publisher, first_event=first_event, batch_triples=batch_triples,
            acknowledge=acknowledge, busy_seconds=busy_seconds, on_progress=on_progress, graph=graph, trace=trace,
            linger_seconds=linger_seconds,
        ))  # fmt: skip

    def transaction(
        self, *, publisher: int | None = None, graph: str | None = None, acknowledge: str = messages.INDEXED,
        busy_seconds: float = 60.0, if_unchanged: int | Mapping[str, int] | None = None,
    ) -> Transaction:  # fmt: skip
        """Return a transaction: statements to add and to delete that take effect together, at one stamp.

        It is a context manager that commits at the end of the block; see :class:`p2prdf.client.Transaction`.
        ``graph``: of statements that name none.
        ``if_unchanged``: publish only if the subjects of its statements (64 at most) are unchanged, in all graphs,
        since this stamp: that of a query's result (:attr:`p2prdf.client.Result.stamp`) or of a bookmark. A mapping
        gives stamps of some of the subjects. Otherwise the commit raises ChangedMeanwhile, and nothing is
        published. Transactions without a condition are not stopped.
        The other arguments are those of :meth:`publish`.
        """
        number = secrets.randbits(64) if publisher is None else publisher
        options = PublishOptions(publisher=number, acknowledge=acknowledge, busy_seconds=busy_seconds)
        return Transaction(lambda: Publisher(self._sessions, options), graph, if_unchanged)

    async def _publish(self, triples: Source, options: PublishOptions) -> int:
        linger = options.linger_seconds
        work = Publisher(self._sessions, options)
        return await work.run(triples, self._linger_seconds if linger is None else _linger(linger))

    def stream(
        self,
        iri: str,
        *,
        publisher: int | None = None,
        first_event: int = 0,
        lateness: float = 0.0,
        live: bool = False,
        late: str = "raise",
        began: Time | None = None,
    ) -> Stream:
        """Return a publisher of a stream, a context manager.

        ``publisher``, ``first_event``: number the elements. To continue after a failure, give the same
        publisher and the number of the first element to publish again (:attr:`Stream.events`).
        ``began``: earliest event time of the stream so far. Give it when continuing, for subscribers that ask
        for the whole stream.
        ``lateness``: how many seconds an element may be older than the latest element before it.
        ``live``: event times follow the clock, so windows close, ``lateness`` seconds later, even while nothing
        is published.
        ``late``: treatment of an element that exceeds the lateness: ``raise`` LateElement, or ``send`` it.

        Raises DataRefused if ``iri`` is not an IRI, LocalProtocolError for other bad arguments.
        """
        stream = Stream(
            self._sessions, self.publish, iri, publisher=publisher, first_event=first_event, lateness=lateness,
            live=live, late=late, began=began, forget=self._forget_stream, linger_seconds=self._linger_seconds,
        )  # fmt: skip
        self._streams[stream] = None
        return stream

    def _forget_stream(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    # --- subscribe -------------------------------------------------------------------------------

    async def subscribe(
        self,
        query: str,
        *,
        algorithm: str = "csbv",
        per_event: bool = False,
        lease_seconds: float = 60.0,
        auto_acknowledge: bool = True,
        bookmarks: bool = False,
        busy_seconds: float = 60.0,
        since: float | str | None = None,
        alone: bool = False,
        hurry: bool = False,
        ordered: bool = False,
        once: bool = False,
        rules: str | Iterable[Rule] = (),
        settled: bool | None = None,
    ) -> Subscription:
        """Register a standing SPARQL query (SELECT, ASK, CONSTRUCT); every later publication counts.

        ``since``: publications from this time on count: ``now`` (default), ``beginning``, or a past time in seconds
        since the epoch. Solutions from earlier publications arrive as the backfill finds them, each once.
        ``algorithm``: ``csbv`` or ``cqc``. ``per_event``: one solution per publication event instead of one per
        triple.
        ``lease_seconds``: how long the subscription outlives this connection.
        ``auto_acknowledge``: acknowledge a solution when the next one is requested; otherwise call
        :meth:`Subscription.acknowledge`.
        ``bookmarks``: report about every second up to which time all solutions have arrived
        (:attr:`Batch.bookmark`); ``hurry``: eight times a second for the first half minute.
        ``ordered``: append the sort keys of ORDER BY as further columns (:func:`p2prdf.rdf.ordering.in_order`).
        ``once``: only the present solutions are wanted; this needs the permission to query, not to subscribe.
        ``alone``: do not share the evaluation with equal queries.
        ``rules``: facts derived by these rules count as well: rules, or the name (a canonical IRI) under which
        the overlay stores them (:meth:`add_rules`). The query text may contain rules, too
        (:mod:`p2prdf.reasoning.ruled_query`).
        ``settled``: deliver states of the graph only.  At each mark (:attr:`Batch.bookmark`), the solutions delivered
        and not retracted are the answer to the graph as of the mark's time.  All triples count (``since`` is
        ``beginning``).  False: immediate delivery.  None: the node's default (setting ``default_delivery``), which
        may be settled for queries that are not monotone, unless ``since`` or ``per_event`` excludes it.
        ``busy_seconds``: how long to retry at a node that is busy.

        If the node fails before it answers, the client registers the query at the next node. A subscription
        that the first node may have opened ends by itself, at the latest when its lease runs out.

        Raises QueryRefused (with the position in the query), Busy, Unavailable.
        """
        _check_opening(algorithm, lease_seconds)
        by_default = settled is None and since in (None, BEGINNING) and not (per_event or ordered or once)
        since = (BEGINNING if settled else NOW) if since is None else since
        if settled and (per_event or ordered or once or since != BEGINNING):
            reason = "settled delivery is of all triples: not per event, ordered or once; leave since out"
            raise LocalProtocolError(reason)
        query = await self._with_rules(query, rules)
        mark = query_mark(query, algorithm, per_event=per_event)
        stamp = _stamp(since)
        nonce = secrets.randbits(32) + 1 if alone else 0
        session, answer = await self._sessions.ask(
            lambda request: messages.ClientSubscribe(
                request, query, algorithm, per_event, float(lease_seconds), stamp, nonce, ordered, once,
                settled is True, by_default=by_default,
            ),
            busy_seconds=busy_seconds,
        )
        subscription = self._subscription(
            answer, Ledger(), mark, auto_acknowledge=auto_acknowledge, bookmarks=bookmarks, hurry=hurry,
            settled=answer.settled,
        )  # fmt: skip
        self._attachments.add(session, subscription)
        return subscription

    async def cohort(
        self, *queries: str, token: bytes | None = None, algorithm: str = "csbv", lease_seconds: float = 60.0,
        auto_acknowledge: bool = True, busy_seconds: float = 60.0, once: bool = False,
    ) -> Cohort:  # fmt: skip
        """Register several standing queries with settled delivery that advance together to one stamp after the other.

        After each advance with a stamp, the solutions of every query are its answer to the graph as of that stamp.
        All queries together have at most 32 different patterns. One refused query refuses all, and the error names
        it; whatever ends one ends all.
        ``token``: resume the cohort of :meth:`Cohort.token`, at any node; the queries may then be left out.
        ``once``: only the first advances are wanted; this needs the permission to query, not to subscribe.
        Other arguments are those of :meth:`subscribe`.

        Raises QueryRefused, Busy, Unavailable; with a token also the errors of :meth:`attach`.
        """
        if queries or token is None:
            check_cohort(queries)
        mark = cohort_mark(queries, algorithm)
        if token is not None:
            if queries:
                Token.decode(token).check_mark(mark)
            held = await self.attach(token, auto_acknowledge=False)
            try:
                return Cohort(held, auto_acknowledge=auto_acknowledge)
            except QueryRefused:
                self._attachments.remove(held.id)
                raise
        for query in queries:
            await self._with_rules(query, ())
        _check_opening(algorithm, lease_seconds)
        session, answer = await self._sessions.ask(
            lambda request: messages.ClientSubscribe(
                request, "", algorithm, False, float(lease_seconds), hlc.FIRST, once=once, settled=True,
                cohort=queries,
            ),
            busy_seconds=busy_seconds,
        )
        subscription = self._subscription(answer, Ledger(), mark, auto_acknowledge=False, bookmarks=False, settled=True)
        cohort = Cohort(subscription, auto_acknowledge=auto_acknowledge)
        self._attachments.add(session, subscription)
        return cohort

    async def attach(
        self, token: bytes | int, *, query: str | None = None, algorithm: str = "csbv", per_event: bool = False,
        rules: str | Iterable[Rule] = (), auto_acknowledge: bool = True, bookmarks: bool = False, again: bool = False,
    ) -> Subscription:  # fmt: skip
        """Resume an earlier subscription, at any node.

        ``token``: from :meth:`Subscription.token`; solutions that it covers are not delivered again. With the
        subscription's number instead, all unacknowledged solutions are delivered.
        ``again``: the application took solutions after it made the token and reads them again. For a solution
        retracted since, only the retraction may arrive.
        ``query``, with ``algorithm``, ``per_event`` and ``rules`` as in :meth:`subscribe`: the expected query.
        A token of another query raises TokenMismatch. White space, comments and prefixes do not matter. A
        number cannot be compared with a query. The subscription keeps its delivery, settled or immediate.
        Other arguments are those of :meth:`subscribe`.

        Raises TokenRefused, SubscriptionGone if the subscription was ended or its lease ran out, Unavailable.
        """
        known = Token(0, token, 0, 0, ()) if isinstance(token, int) else Token.decode(token)
        mark = known.query
        if query is not None:
            if isinstance(token, int):
                raise LocalProtocolError("a subscription's number cannot be compared with a query: give a resume token")
            query = await self._with_rules(query, rules)
            known.check(query, algorithm, per_event=per_event)
            mark = query_mark(query, algorithm, per_event=per_event)
        ledger = Ledger(delivered=known.delivered, lost=known.lost, unstable=known.unstable, again=again)
        session, answer = await self._attachments.attach(known.subscription, list(known.unstable))
        subscription = self._subscription(
            answer, ledger, mark, auto_acknowledge=auto_acknowledge, bookmarks=bookmarks, settled=known.settled
        )
        self._attachments.add(session, subscription)
        self._attachments.acknowledge(subscription, ledger.dealt_with)
        return subscription

    async def query(
        self, query: str, *, algorithm: str = "csbv", timeout_seconds: float = 60.0, rules: str | Iterable[Rule] = (),
        symmetric: bool = False, endpoints: Endpoints | None = None, service_bounds: ServiceBounds | None = None,
    ) -> Result:  # fmt: skip
        """Answer a SPARQL query (SELECT, ASK, CONSTRUCT, DESCRIBE) once, over all triples published and not deleted.

        The result counts every publication acknowledged before the call; concurrent ones may count. Rows are in
        the order of ORDER BY, otherwise in none. Nodes with ``indexes = on-demand`` refuse one-time queries.
        ``rules``: as in :meth:`subscribe`.
        ``symmetric``: DESCRIBE returns triples with the resource as object, too.
        ``endpoints``: asks the endpoints of SERVICE; without it SERVICE is refused, and SERVICE SILENT has no effect.
        ``service_bounds``: of the requests.

        Raises QueryRefused, Busy, Unavailable (also after ``timeout_seconds``).
        """
        query = await self._with_rules(query, rules)
        if "service" in query.lower():
            return await answer_with_services(
                self, query, endpoints or NO_ENDPOINTS, service_bounds, algorithm=algorithm,
                timeout_seconds=timeout_seconds, symmetric=symmetric,
            )  # fmt: skip
        return await answer(
            self, query, algorithm=algorithm, timeout_seconds=timeout_seconds, symmetric=symmetric
        )

    async def snapshot(
        self, *queries: str, after: int = 0, algorithm: str = "csbv", timeout_seconds: float = 60.0
    ) -> list[Result]:
        """Answer several SPARQL queries (SELECT, ASK, CONSTRUCT) once, all of them as of one stamp.

        Each result is the answer to the graph as of :attr:`Result.stamp`, each transaction as a whole. Publications of
        this client that were acknowledged before the call count. Rows are in no order. The queries are a
        :meth:`cohort`, with its bounds.
        ``after``: the result is not earlier than this stamp, such as that of another client's transaction
        (:attr:`Transaction.stamp`) or result.

        Raises LocalProtocolError if ``after`` is no stamp, StampRefused if it is in the future, QueryRefused, Busy,
        Unavailable (also after ``timeout_seconds``).
        """
        check_after(after)
        after = max(after, self._sessions.latest)
        return await answer_together(self, queries, after=after, algorithm=algorithm, timeout_seconds=timeout_seconds)

    async def _with_rules(self, query: str, rules: str | Iterable[Rule]) -> str:
        try:
            query.encode()
        except UnicodeEncodeError as error:
            reason = f"unpaired surrogate at character {error.start + 1}"
            raise QueryRefused(reason, construct="text") from None
        if not rules:
            return query
        from p2prdf.reasoning.ruled_query import with_rules  # imported late: the parser is slow to load

        if isinstance(rules, str):
            name, rules = rules, (await self.rules()).get(rules, ())
            if not rules:
                raise QueryRefused(f"no rules are stored under the name {name}", construct="rules")
        return with_rules(query, rules)

    async def add_rules(self, name: str, rules: Iterable[Rule]) -> int:
        """Store rules in the overlay under a name (a canonical IRI); return the number of rules given.

        The rules join those already stored under the name. Queries registered with the name earlier keep the
        rules of their registration. Make rules with :func:`p2prdf.reasoning.parse_rules` or
        :func:`p2prdf.reasoning.instantiate`.

        Raises LocalProtocolError if there are no rules, DataRefused, Busy, Unavailable.
        """
        return await add_rules(self, name, rules)

    async def rules(self, *, timeout_seconds: float = 60.0) -> dict[str, tuple[Rule, ...]]:
        """Return the rules stored in the overlay, by name.  Raises the errors of :meth:`query`."""
        return await named_rules(self, timeout_seconds=timeout_seconds)

    async def remove_rules(self, name: str, *, timeout_seconds: float = 60.0) -> int:
        """Delete the rules of a name; return their number.  Raises the errors of :meth:`query`."""
        return await remove_rules(self, name, timeout_seconds=timeout_seconds)

    async def update(
        self, update: str, *, timeout_seconds: float = 60.0, using: Sequence[str] = (), using_named: Sequence[str] = (),
        loader: Loader | None = None, bounds: UpdateBounds | None = None, reads: bool = True,
        endpoints: Endpoints | None = None, service_bounds: ServiceBounds | None = None,
        if_unchanged: int | str | None = None,
    ) -> Updated:  # fmt: skip
        """Execute a SPARQL 1.1 update; return when all its changes are acknowledged.

        Operations run in order. A WHERE is a one-time query (see :meth:`query`), for which the effects of earlier
        operations count. The changes are published together, deletions first, at the end and before a WHERE that
        follows a change. Concurrent updates do not lock each other: a WHERE counts all changes acknowledged before
        it and possibly some concurrent ones, and for each statement the later change decides. Each call makes new
        blank nodes.
        ``timeout_seconds``: deadline of all queries and LOADs together.
        ``using``, ``using_named``: IRIs of the graphs that WHERE reads, without ``<>``, as USING and USING NAMED.
        ``loader``: fetches the documents of LOAD, which is refused without one. ``bounds``: of its changes.
        ``reads``: False: refuse operations that read data. ``endpoints``, ``service_bounds``: as for :meth:`query`.
        ``if_unchanged``: publish only if the changed subjects (64 at most) are unchanged since a stamp, as in
        :meth:`transaction`; ``"read"``: since WHERE was evaluated, so that no concurrent conditional update of a
        subject is lost. Such an update is one transaction: no WHERE may follow a change.

        Raises QueryRefused for a malformed or oversized update and for an operation that fails without SILENT;
        ChangedMeanwhile if a condition does not hold; TransactionTooLarge for a conditional update that is too
        large; NotAllowed, DataRefused, Busy, Unavailable. An error before the first publication changes nothing; a
        later one leaves the operations before it done.
        """
        return await carry_out(
            self, update, timeout_seconds=timeout_seconds, using=using, using_named=using_named, loader=loader,
            bounds=bounds, reads=reads, endpoints=endpoints, service_bounds=service_bounds, if_unchanged=if_unchanged,
        )  # fmt: skip

    def derive(
        self, query: str, graph: str, *, algorithm: str = "csbv", timeout_seconds: float = 60.0,
        settled: bool | None = None,
    ) -> AsyncGenerator[Derived, None]:  # fmt: skip
        """Keep a named graph equal to the results of a CONSTRUCT query, while the caller iterates.

        Yields when the graph first equals the results, then with each bookmark, about every second. It starts
        by comparing graph and results, so any process may stop or crash and any other may start again. Close
        the generator to end its subscription at once; otherwise the lease ends it after 30 s.
        ``graph``: IRI of the graph, as a canonical term. It belongs to this derivation: other triples in it are
        deleted.
        ``timeout_seconds``: deadline of each one-time query at the start.
        ``settled``: the graph equals the results as of each mark (:meth:`subscribe`), several times a second while
        they change. Each step is one transaction, up to its bounds (:meth:`transaction`). The default is
        that of the query.

        Queries that read the graph itself, directly or through other derived graphs, or all graphs (``GRAPH
        ?g``), are refused: the graph would support itself.

        Raises QueryRefused, DataRefused, Busy, Unavailable.
        """
        return derive(
            self, query, graph, algorithm=algorithm, timeout_seconds=timeout_seconds, settled=settled
        )

    def derive_by_rules(
        self, rules: Sequence[Rule], graph: str, *, facts: Iterable[Triple] = (), unsaid: Iterable[str] = (),
        algorithm: str = "csbv", timeout_seconds: float = 60.0, settled: bool | None = None,
    ) -> AsyncGenerator[Derived, None]:  # fmt: skip
        """Keep a named graph equal to the facts that rules derive from the default graph.

        Like :meth:`derive`, it works while the caller iterates, but rules may be recursive. The graph holds
        every derived triple that is not published in the default graph, and drops it when it no longer follows.
        This process holds all base and derived facts in memory.
        ``rules``: from :func:`p2prdf.reasoning.parse_rules` or, for an ontology,
        :func:`p2prdf.reasoning.instantiate`. They read the default graph, the derived triples and ``facts``.
        ``facts``: further base facts; they are in the derived graph, too.
        ``unsaid``: terms (such as anonymous classes) of triples that serve as premises but are not published.
        ``settled``: as in :meth:`derive`.

        Raises the errors of :meth:`derive`, and LocalProtocolError for an empty list of rules, for a variable
        as predicate in a body, and for more than 32 predicates in all bodies.
        """
        return derive_by_rules(
            self, rules, graph, facts=facts, unsaid=unsaid, algorithm=algorithm, timeout_seconds=timeout_seconds,
            settled=settled,
        )  # fmt: skip

    def conclude(
        self, rules: Iterable[Rule], graph: str, *, since: float | str = BEGINNING, lease_seconds: float = 60.0,
        timeout_seconds: float = 60.0,
    ) -> AbstractAsyncContextManager[Concluding]:
        """Register rules with the nodes, which keep the derived facts in a named graph.

        The rules stand while the context lasts, or while another client holds the same ones. Like
        :meth:`derive_by_rules`, but the nodes join the bodies, and the owners of the derived facts publish
        them. For each predicate in a rule's head, the graph holds the derived facts and the triples published
        in the default graph. A fact without derivation is deleted, cycles included; a fact that a cycle may
        support is deleted and returns moments later if another derivation remains. Cycles through this graph
        are allowed; cycles through other derived graphs are refused.

        ``graph``: its IRI, as a canonical term. ``since``: publications from this time on count.
        ``lease_seconds``: how long the rules outlive this connection; when the last lease runs out, the derived
        facts are deleted.
        ``timeout_seconds``: deadline of each one-time query at the start.

        Raises QueryRefused for rules with a variable as predicate and for other rules that queries may not
        contain, LocalProtocolError for none or more than 512, DataRefused, Busy, Unavailable.
        """
        return conclude(
            self, rules, graph, since=since, lease_seconds=lease_seconds, timeout_seconds=timeout_seconds
        )

    async def drop_derived(self, graph: str, *, timeout_seconds: float = 60.0) -> int:
        """Delete all triples of a derived graph and its registration; return the number of triples.

        A client that still derives the graph publishes only later changes.  Raises QueryRefused, Busy,
        Unavailable.
        """
        return await drop(self, graph, timeout_seconds=timeout_seconds)

    async def unsubscribe(self, subscription: int) -> None:
        """End a subscription.  Ending it twice is no error.  Raises Unavailable."""
        await self._sessions.ask(lambda request: messages.ClientUnsubscribe(request, subscription))
        self._attachments.remove(subscription)

    async def status(self) -> dict[str, Any]:
        """Return the state of the node in use (docs/reference/operations.md lists the keys).

        After a reconnection this is another node. To query one node only, connect with ``reconnect_seconds=0``.
        """
        _, answer = await self._sessions.ask(messages.ClientStatus)
        state: dict[str, Any] = json.loads(answer.json)
        return state

    async def stamp(self) -> int:
        """Return the time of the node in use, as a stamp (:mod:`p2prdf.hlc`).

        The stamp is later than those of all earlier publications of this client, and earlier than those of
        later ones.
        """
        state = await self.status()
        self._sessions.latest = max(int(state["stamp"]), self._sessions.latest + 1)
        return self._sessions.latest

    async def explain(
        self, query_or_subscription: str | int | Subscription, *, algorithm: str = "csbv", per_event: bool = False
    ) -> dict[str, Any]:
        """Return the plan of a query, or the state of a subscription with the work that it waits for.

        ``query_or_subscription``: a query, a subscription, or its number (an integer or 16 hexadecimal digits).
        ``algorithm`` and ``per_event`` apply to a query, which is not registered. docs/reference/explain.md
        lists the keys; ``findings`` names the blocking step. The call takes up to three seconds if nodes do not
        answer; the result lists these as missing.

        Raises QueryRefused, SubscriptionGone if there is no such subscription, Busy, Unavailable.
        """
        if algorithm not in ("csbv", "cqc"):
            raise LocalProtocolError(f"algorithm {algorithm!r} is neither csbv nor cqc")
        what = query_or_subscription
        if isinstance(what, str) and re.fullmatch("[0-9a-fA-F]{16}", what):
            what = int(what, 16)
        number = what if isinstance(what, int) else 0 if isinstance(what, str) else what.id
        query = what if isinstance(what, str) else ""
        if not 0 < number < 1 << 64 and not isinstance(what, str):
            raise LocalProtocolError(f"{number} is not the number of a subscription")
        _, answer = await self._sessions.ask(
            lambda request: messages.ClientExplain(request, number, query, algorithm, per_event)
        )
        explanation: dict[str, Any] = json.loads(answer.json)
        return explanation

    async def export(self, *, stream: str = "") -> Export:
        """Begin an export of all statements as of one stamp, while publications go on.

        ``stream``: export the elements of this stream (its IRI) instead. The client must be permitted to query all
        graphs. Takes about a second. Call :meth:`Export.end` after the last page.

        Raises NotAllowed, Busy, DataRefused if ``stream`` is not an IRI, LocalProtocolError if the nodes do not
        keep all statements, Unavailable if no stamp is found within 20 s because the cluster is changing.
        """
        return await begin_export(self._sessions, stream)

    def continue_export(self, number: int, stamp: int) -> Export:
        """Return an export that an earlier process began; its next page comes from :meth:`Export.pages`."""
        return Export(self._sessions, number, stamp)

    async def subscriptions(self, *, after: int = 0) -> dict[str, Any]:
        """Return the subscriptions of all clients that the node in use coordinates and delivers.

        At most 64, in the order of their numbers, beginning after ``after``; ``total`` counts all of them.
        docs/reference/http.md lists the keys. Raises Unavailable.
        """
        if not 0 <= after < 1 << 64:
            raise LocalProtocolError(f"{after} is not the number of a subscription")
        _, answer = await self._sessions.ask(lambda request: messages.ClientListSubscriptions(request, after))
        listed: dict[str, Any] = json.loads(answer.json)
        return listed

    async def expel(self, member: int, *, expelled: bool = True) -> list[dict[str, Any]]:
        """Expel a member, or readmit it, at the node in use; return the decisions known there.

        ``member``: its key; 0: change nothing and only return the decisions. The node informs the other
        members, which follow a decision of two members or of an administrator. So repeat the call at each node,
        as ``p2prdf member expel`` does. The client needs the permission ``administer``.

        Raises NotAllowed, LocalProtocolError if the node would expel itself, Unavailable.
        """
        _, answer = await self._sessions.ask(lambda request: messages.ClientExpel(request, member, expelled))
        found: list[dict[str, Any]] = json.loads(answer.json)["members"]
        return found

    async def introduced(self, member: int, *, after: int = 0) -> dict[str, Any]:
        """Return the statements and deletions that a member introduced at the node in use, at most 500.

        ``next`` is the value of ``after`` for the next call, or None. ``since`` is the stamp from which the
        node's record is complete. The client needs the permission ``administer``. Raises NotAllowed,
        Unavailable.
        """
        _, answer = await self._sessions.ask(lambda request: messages.ClientListIntroduced(request, member, after))
        found: dict[str, Any] = json.loads(answer.json)
        return found

    async def histories(self, statements: Sequence[tuple[str, str, str]]) -> list[list[list[Any]]]:
        """Return the recorded events of each statement (at most 500) at the node in use.

        A statement is its subject, ``term`` and object as returned by :meth:`introduced`. An event consists of
        its stamp, whether it was a deletion, the key of the member that introduced it, and whether that member
        was the origin itself. Raises the errors of :meth:`introduced`.
        """
        texts = tuple(text for statement in statements for text in statement)
        _, answer = await self._sessions.ask(lambda request: messages.ClientListIntroduced(request, 0, 0, texts))
        found: list[list[list[Any]]] = json.loads(answer.json)["histories"]
        return found

    def _subscription(
        self, answer: messages.ClientSubscribed, ledger: Ledger, mark: int, *, auto_acknowledge: bool, bookmarks: bool,
        hurry: bool = False, settled: bool = False,
    ) -> Subscription:  # fmt: skip
        return Subscription(
            self, answer.subscription, answer.names, hlc.seconds(answer.since), answer.order, ledger,
            opened=hlc.seconds(answer.opened), query_mark=mark, auto_acknowledge=auto_acknowledge, bookmarks=bookmarks,
            hurry=hurry, settled=settled,
        )  # fmt: skip

    def acknowledge(self, subscription: Subscription, identities: list[int]) -> None:
        """Acknowledge solutions at the node.  Called by a subscription."""
        self._attachments.acknowledge(subscription, identities)


def _check_opening(algorithm: str, lease_seconds: float) -> None:
    if algorithm not in ("csbv", "cqc"):
        raise LocalProtocolError(f"algorithm {algorithm!r} is neither csbv nor cqc")
    if not 0 < lease_seconds < float("inf"):
        raise LocalProtocolError(f"a lease of {lease_seconds} s is not a positive number of seconds")


def _stamp(since: float | str) -> int:
    """Return the stamp of a value of ``since``; 0 means now."""
    if since in (NOW, BEGINNING):
        return 0 if since == NOW else hlc.FIRST
    if isinstance(since, str) or not 0 < since < _TIME_MAX:
        raise LocalProtocolError(f"since {since!r} is neither {NOW!r} nor {BEGINNING!r} nor a time in seconds")
    return hlc.from_seconds(since)


def _linger(seconds: float) -> float:
    if not 0 <= seconds < float("inf"):
        raise LocalProtocolError(f"linger_seconds {seconds} is not a number of seconds, zero or more")
    return seconds


def _split(address: str) -> Address:
    host, _, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise LocalProtocolError(f"{address.strip()!r} is not host:port")
    return host, int(port)
