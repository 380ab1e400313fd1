"""The client: publish, subscribe and ask at whichever node answers."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any, Final, Self

from p2prdf import hlc
from p2prdf.client.attachments import Attachments
from p2prdf.client.channel_store import ChannelStore
from p2prdf.client.concluding import Concluding, conclude
from p2prdf.client.derived import Derived, derive, drop
from p2prdf.client.feed import LINGER_SECONDS
from p2prdf.client.interest_store import InterestStore
from p2prdf.client.ledger import Ledger
from p2prdf.client.pieces import Quad, Source, Triple
from p2prdf.client.publishing import Effort, Progress, Publisher
from p2prdf.client.query import Result, answer_once
from p2prdf.client.rule_store import add_rules, named_rules, remove_rules
from p2prdf.client.ruled import derive_by_rules
from p2prdf.client.sessions import Address, Sessions
from p2prdf.client.stream import Stream
from p2prdf.client.subscription import Subscription
from p2prdf.client.token import Token, query_mark
from p2prdf.client.update import Updated, carry_out
from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.rdf.quads import DEFAULT
from p2prdf.wire import messages
from p2prdf.wire.trace_context import parse_traceparent

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from p2prdf.client.event_times import Time
    from p2prdf.client.session import Session
    from p2prdf.reasoning import Rule
    from p2prdf.tls import Tls

__all__ = ["BEGINNING", "NOW", "Client", "Subscription", "connect"]

NOW: Final = "now"
BEGINNING: Final = "beginning"
"""From when on triples count, beside times."""
_TIME_MAX: Final = 1e10
"""Later than any time that is past."""


class connect:  # noqa: N801 - used like a function
    """Connect to a node: ``async with connect("host:port") as client``, or ``await connect(...)``.

    Several addresses, separated by commas, are tried in turn.  ``connect_seconds``: deadline for each.
    ``timeout_seconds``: deadline for the answer to a request at one node.

    When the node goes away later, or stops answering, the client connects again by itself, at another address before
    the same one; it knows the addresses given and those that nodes tell.  Publications, subscriptions and requests go
    on there.  ``reconnect_seconds``: how long to try before everything that is open raises Unavailable; a call after
    that tries again as long.  0: the connection is all there is, and its end is told at once.
    ``linger_seconds``: an incomplete batch of a source that keeps :meth:`Client.publish` waiting is sent after so long.
    ``ping_seconds``: after so long without a word from the node it is asked whether it is there.
    ``on_reconnect`` is called with each new address; the logger ``p2prdf.client`` tells of losses and reconnections.
    ``speaks_for``: the name of a client in whose place to speak, which our certificate must have the right to.
    ``tls``: our certificate and whom to trust, where nodes speak TLS: a :class:`p2prdf.Tls`, whose files are read again
    for each connection, or a context.  The other side must be a node; where it runs does not matter.

    Raises TlsRefused when we or the node are not trusted, or only one of us speaks TLS, NotAllowed when we may not
    speak for another, and Unavailable when no address answers: the first connection is tried once.
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
            raise LocalProtocolError(f"{reconnect_seconds} s to reconnect or {ping_seconds} s to a ping make no sense")
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
    """A connection to one node, and after that to another.  Made by :func:`connect`."""

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
        """Ring position of the node that is used, or was used last, in hexadecimal digits."""
        return f"{self._sessions.peer.key:016x}"

    @property
    def peer_address(self) -> str:
        """Its address, as it tells it."""
        return f"{self._sessions.peer.host}:{self._sessions.peer.port}"

    @property
    def others(self) -> list[str]:
        """Addresses of other nodes, as the one that is used told them."""
        return self._sessions.others

    @property
    def interests(self) -> InterestStore:
        """Interests that are registered in the overlay, whose targets keepers keep."""
        return InterestStore(self)

    @property
    def channels(self) -> ChannelStore:
        """Semantic channels that are registered in the overlay, which hosts evaluate."""
        return ChannelStore(self)

    async def open(self) -> None:
        """Connect.  Called by :func:`connect`."""
        await self._sessions.open()

    async def close(self) -> None:
        """Close the connection.  Subscriptions live on for their lease; streams say nothing any more."""
        for stream in list(self._streams):
            stream.stop()
        self._sessions.close()
        await self._sessions.closed()

    def _use(self, session: Session) -> None:
        """Go on at a new session."""
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
    ) -> int:
        """Publish triples; return their number when all of them are acknowledged.

        ``triples``: (asynchronous) iterable of triples of canonical N-Triples terms (or terms of rdflib or pyoxigraph,
        and for literals values of Python), of triples with a fourth term, the
        IRI of the graph they belong to (None: of none), of :class:`p2prdf.rdf.ntriples.TripleBatch` or of
        :class:`p2prdf.client.TermColumns`, some of which may be removals.
        ``graph``: the IRI of the graph that what names none belongs to, by default the default graph.
        ``publisher`` and ``first_event`` number the publication events: to publish something again after a failure
        without it counting twice, give the same numbers again.  By default the publisher is a fresh random number.
        ``by_content``: instead of by number an event is known by what it says: the same triple from the same publisher
        again is no other event, in whatever order and parts it comes.
        ``acknowledge``: ``indexed``, when all of them are where queries find them; ``accepted``, as soon as enough
        nodes (``copies_min``) keep them, who see to it that they will be.  What is asked for is never lowered.
        ``busy_seconds``: how long to go on trying at a node that is busy.
        ``on_progress`` is called as acknowledgements come in.  ``effort`` is filled in with what it took.
        ``on_refused`` is called with each statement (subject, predicate, object, graph) that nodes refuse, and why, and
        the rest is published; otherwise the first of them raises DataRefused, and nothing of its frame is published.
        ``trace``: a W3C ``traceparent``; nodes log what becomes of the publication under it (of its first four frames).
        A node that does not know traces ends the connection.  One whose sender does not record traces nothing.
        ``batch_triples``, ``linger_seconds``: a batch is sent when it is full, and, while the source keeps us waiting,
        so long after its first triple.  A source that is neither sized nor asynchronous (a generator, a file) is read
        in a thread of its own, for it may block.

        What the node had not acknowledged when it went away is sent again to the next one, under the same numbers.
        Concurrent calls are under way side by side, each with errors of its own, and are not ordered: await one before
        the next where order matters.  Raises DataRefused, Busy, Unavailable.
        """
        return await self._publish(
            triples, publisher, first_event, batch_triples, acknowledge, busy_seconds, on_progress, graph,
            removed=False, by_content=by_content, effort=effort, on_refused=on_refused, trace=trace,
            linger=linger_seconds,
        )  # fmt: skip

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
        """Remove triples; return their number when all removals are acknowledged.

        What was published before is not true any more: answers made of it are withdrawn
        (:attr:`p2prdf.client.Solution.removed`).  What is published later counts as ever.  A triple that nobody has
        published may be removed, too.  What is removed from one graph stays in others.  Arguments and errors are those
        of :meth:`publish`.
        """
        return await self._publish(
            triples, publisher, first_event, batch_triples, acknowledge, busy_seconds, on_progress, graph, removed=True,
            trace=trace, linger=linger_seconds,
        )  # fmt: skip

    async def _publish(
        self, triples: Source, publisher: int | None, first_event: int, batch_triples: int, acknowledge: str,
        busy_seconds: float, on_progress: Callable[[Progress], None] | None, graph: str | None, *, removed: bool,
        by_content: bool = False, effort: Effort | None = None,
        on_refused: Callable[[Quad, DataRefused], None] | None = None, trace: str | None = None,
        linger: float | None = None,
    ) -> int:  # fmt: skip
        if batch_triples < 1 or first_event < 0:
            raise LocalProtocolError("batch_triples must be positive, first_event must not be negative")
        if by_content and first_event:
            raise LocalProtocolError("events that are known by their content have no numbers to begin with")
        if acknowledge not in messages.LEVELS:
            raise LocalProtocolError(f"level {acknowledge!r} is neither {' nor '.join(messages.LEVELS)}")
        context = None if trace is None else parse_traceparent(trace)
        work = Publisher(
            self._sessions,
            publisher=secrets.randbits(64) if publisher is None else publisher,
            first_event=first_event,
            busy_seconds=busy_seconds,
            on_progress=on_progress,
            level=acknowledge,
            removed=removed,
            graph=graph or DEFAULT,
            by_content=by_content,
            effort=effort,
            on_refused=on_refused,
            traceparent="" if context is None else str(context),
        )
        return await work.run(triples, batch_triples, self._linger_seconds if linger is None else _linger(linger))

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
        """Return a publisher of a stream: ``async with client.stream(iri) as stream: await stream.publish(triples)``.

        ``publisher`` and ``first_event`` number its elements: who goes on after a failure gives the same publisher and
        the number of the first element to be published again (:attr:`Stream.events`), and, for those who ask for all
        of the stream, when it ``began``.
        ``lateness``: by how many seconds an element may be older than the latest before it.  ``live``: event times are
        those of the clock, so windows close, ``lateness`` seconds later, while nothing is published.
        ``late``: what becomes of an element that comes too late all the same: ``raise`` LateElement, or ``send``.

        Raises DataRefused if ``iri`` is none, LocalProtocolError.
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
        since: float | str = NOW,
        alone: bool = False,
        hurry: bool = False,
        ordered: bool = False,
        once: bool = False,
        rules: str | Iterable[Rule] = (),
    ) -> Subscription:
        """Leave a standing SPARQL query (SELECT, ASK, CONSTRUCT); when this returns, every later publication counts.

        ``rules``: what follows by them counts as well; rules, or the name (an IRI, canonical) under which some are kept
        (:meth:`add_rules`). A query as text may bring its own (:mod:`p2prdf.reasoning.ruled_query`).

        ``since``: from when on triples count: ``now``, ``beginning``, or a time (seconds since the epoch) that is past.
        What was published before comes as soon as it is found, and once, whatever is published meanwhile.
        ``algorithm``: ``csbv`` or ``cqc``.  ``per_event``: solutions per publication event instead of
        per triple.  ``lease_seconds``: how long the subscription outlives this connection.
        ``auto_acknowledge``: acknowledge a solution when the next one is asked for; otherwise call
        :meth:`Subscription.acknowledge`.  ``alone``: do not evaluate it together with equal queries.
        ``bookmarks``: about every second tell up to which time everything has come (:attr:`Batch.bookmark`);
        ``hurry``: in the first half minute eight times a second.
        ``ordered``: solutions have what ORDER BY orders them by in columns of their own, behind the others
        (:func:`p2prdf.rdf.ordering.in_order`).  ``once``: the answers so far are all that is wanted: it needs the right
        to query, not that to subscribe.
        ``busy_seconds``: how long to go on trying at a node that is busy.

        If the node goes away before it has answered, the query is left again at the next one.  The subscription that
        the first may have made then is nobody's: it ends by itself, at the latest after its lease.

        Raises QueryRefused (with the position in its text), Busy, Unavailable.
        """
        if algorithm not in ("csbv", "cqc"):
            raise LocalProtocolError(f"algorithm {algorithm!r} is neither csbv nor cqc")
        if not 0 < lease_seconds < float("inf"):
            raise LocalProtocolError(f"a lease of {lease_seconds} s is not a positive number of seconds")
        query = await self._with_rules(query, rules)
        mark, stamp = query_mark(query, algorithm, per_event=per_event), _stamp(since)
        salt = secrets.randbits(32) + 1 if alone else 0
        session, answer = await self._sessions.ask(
            lambda request: messages.ClientSubscribe(
                request, query, algorithm, per_event, float(lease_seconds), stamp, salt, ordered, once
            ),
            busy_seconds=busy_seconds,
        )
        subscription = self._subscription(
            answer, Ledger(), mark, auto_acknowledge=auto_acknowledge, bookmarks=bookmarks, hurry=hurry
        )
        self._attachments.add(session, subscription)
        return subscription

    async def attach(
        self, token: bytes | int, *, query: str | None = None, algorithm: str = "csbv", per_event: bool = False,
        rules: str | Iterable[Rule] = (), auto_acknowledge: bool = True, bookmarks: bool = False, again: bool = False,
    ) -> Subscription:  # fmt: skip
        """Take up an earlier subscription, at any node.

        ``token``: from :meth:`Subscription.token`; its solutions do not come again.  With the subscription's number
        alone all solutions come that were not acknowledged.  ``again``: solutions were taken since the token was made,
        and are to be read again; one that is not true any more may come as a removed one alone.  Other arguments as in
        :meth:`subscribe`.

        ``query``, with ``algorithm``, ``per_event`` and ``rules`` as in :meth:`subscribe`: the query whose solutions
        the caller expects.  A token of another query raises TokenMismatch.  Spelling does not matter: white space,
        comments, and prefixes may differ.  A number names no query, so it cannot be compared.

        Raises TokenRefused, SubscriptionGone if the subscription was ended or its lease ran out, Unavailable.
        """
        known = Token(0, token, 0, 0, ()) if isinstance(token, int) else Token.decode(token)
        mark = known.query
        if query is not None:
            if isinstance(token, int):
                raise LocalProtocolError("a subscription's number names no query to compare: give a resume token")
            query = await self._with_rules(query, rules)
            known.check(query, algorithm, per_event=per_event)
            mark = query_mark(query, algorithm, per_event=per_event)
        ledger = Ledger(given=known.given, lost=known.lost, unsettled=known.unsettled, again=again)
        session, answer = await self._attachments.take_up(known.subscription, list(known.unsettled))
        subscription = self._subscription(
            answer, ledger, mark, auto_acknowledge=auto_acknowledge, bookmarks=bookmarks
        )
        self._attachments.add(session, subscription)
        self._attachments.acknowledge(subscription, ledger.dealt_with)
        return subscription

    async def query(
        self, query: str, *, algorithm: str = "csbv", timeout_seconds: float = 60.0, rules: str | Iterable[Rule] = ()
    ) -> Result:
        """Answer a SPARQL query (SELECT, ASK, CONSTRUCT) once, over what is published and not removed.

        ``rules``: as in :meth:`subscribe`.

        The answer counts all that was acknowledged before this was called; what is published meanwhile may count.
        Solutions come in the order that ORDER BY asks for, else in none; one by what DISTINCT has thrown away is
        refused.  Nodes that run with ``indexes = on-demand`` refuse it: QueryRefused.

        Raises QueryRefused, Busy, Unavailable (also if it takes more than ``timeout_seconds``).
        """
        query = await self._with_rules(query, rules)
        return await answer_once(self, query, algorithm=algorithm, timeout_seconds=timeout_seconds)

    async def _with_rules(self, query: str, rules: str | Iterable[Rule]) -> str:
        try:
            query.encode()
        except UnicodeEncodeError as error:
            reason = f"half of a pair of surrogates at character {error.start + 1}"
            raise QueryRefused(reason, construct="text") from None
        if not rules:
            return query
        from p2prdf.reasoning.ruled_query import with_rules  # it takes SPARQL's grammar along

        if isinstance(rules, str):
            name, rules = rules, (await self.rules()).get(rules, ())
            if not rules:
                raise QueryRefused(f"no rules are kept under the name {name}", construct="rules")
        return with_rules(query, rules)

    async def add_rules(self, name: str, rules: Iterable[Rule]) -> int:
        """Keep rules in the overlay under a name (an IRI, canonical), beside those that are there; return how many.

        Queries left with the name before go on with the rules that there were then.  Rules are made by
        :func:`p2prdf.reasoning.parse_rules` or :func:`p2prdf.reasoning.instantiate`.

        Raises LocalProtocolError if there are none, DataRefused, Busy, Unavailable.
        """
        return await add_rules(self, name, rules)

    async def rules(self, *, timeout_seconds: float = 60.0) -> dict[str, tuple[Rule, ...]]:
        """Return the rules that are kept in the overlay, by name.  Raises what :meth:`query` raises."""
        return await named_rules(self, timeout_seconds=timeout_seconds)

    async def remove_rules(self, name: str, *, timeout_seconds: float = 60.0) -> int:
        """Forget the rules of a name; return how many there were.  Raises what :meth:`query` raises."""
        return await remove_rules(self, name, timeout_seconds=timeout_seconds)

    async def update(self, update: str, *, timeout_seconds: float = 60.0) -> Updated:
        """Carry a SPARQL UPDATE out: INSERT DATA, DELETE DATA and DELETE WHERE; return when all is acknowledged.

        Operations are carried out in order, each after the one before it was acknowledged.  Nothing is atomic: others
        may see, and publish, what they like in between; if this raises, some may have been carried out.  DELETE WHERE
        removes what its patterns find when it is begun, and needs what :meth:`query` needs; ``timeout_seconds``: how
        long each of its queries may take.  Blank nodes of INSERT DATA are new ones, each time.

        Raises QueryRefused for what is malformed or not supported (nothing has been done then, unless nodes refuse a
        DELETE WHERE as they keep no history), DataRefused, Busy, Unavailable.
        """
        return await carry_out(self, update, timeout_seconds=timeout_seconds)

    def derive(
        self, query: str, graph: str, *, algorithm: str = "csbv", timeout_seconds: float = 60.0
    ) -> AsyncGenerator[Derived, None]:
        """Publish what a CONSTRUCT answers back into a named graph, and keep that so, for as long as one iterates.

        Yields when the graph has come to hold what the query answers, and then with each bookmark, about every second.
        Close the generator (``contextlib.aclosing``) and its subscription ends at once, else with its lease, in 30 s.
        Both are compared when it begins, so it may be stopped, or killed, at any moment and begun again by anybody.
        ``graph``: its IRI, as a canonical term.  The graph is the derivation's own: what else is in it is removed.
        ``timeout_seconds``: how long each of the one-time queries may take by which it begins.

        A query that reads the graph, itself or by way of other derived graphs, is refused, and so is one that reads all
        (``GRAPH ?g``): the graph would hold itself up.

        Raises QueryRefused, DataRefused, Busy, Unavailable.
        """
        return derive(self, query, graph, algorithm=algorithm, timeout_seconds=timeout_seconds)

    def derive_by_rules(
        self, rules: Sequence[Rule], graph: str, *, facts: Iterable[Triple] = (), unsaid: Iterable[str] = (),
        algorithm: str = "csbv", timeout_seconds: float = 60.0,
    ) -> AsyncGenerator[Derived, None]:  # fmt: skip
        """Keep in a graph what follows from the default graph by rules, for as long as one iterates.

        As :meth:`derive`, but rules may call themselves.  All that follows, over however many rules, and that nobody
        has published into the default graph, comes to stand in the graph, and leaves it when it does not follow any
        more.  Rules see the default graph and what follows from it, and ``facts``, which stand in the derived graph,
        too.  All of that is held in memory here.  Triples with terms ``unsaid`` (classes without names, say) lead on to
        others and are not published themselves.  Rules are made by :func:`p2prdf.reasoning.parse_rules`, or, for an
        ontology, by :func:`p2prdf.reasoning.instantiate`.

        Raises what :meth:`derive` raises, and LocalProtocolError for no rules, for bodies with a variable as predicate,
        and for those with more than 32 predicates.
        """
        return derive_by_rules(
            self, rules, graph, facts=facts, unsaid=unsaid, algorithm=algorithm, timeout_seconds=timeout_seconds
        )

    def conclude(
        self, rules: Iterable[Rule], graph: str, *, since: float | str = BEGINNING, lease_seconds: float = 60.0,
        timeout_seconds: float = 60.0,
    ) -> AbstractAsyncContextManager[Concluding]:
        """Leave rules in the network, for as long as the context lasts, or somebody else leaves the same ones.

        As :meth:`derive_by_rules`, but nothing is worked out here: bodies are joined by the nodes, and the owners of
        what follows publish it.  In the graph is all that holds of the predicates that rules conclude, also what of
        these was published into the default graph.  What follows no more is removed, also if it held itself up in a
        circle; a fact that may have done so goes, and comes again a moment later if there are reasons left.  Circles
        through the graph are allowed, circles over other derived graphs refused.

        ``graph``: its IRI, as a canonical term.  ``since``: from when on triples count.  ``lease_seconds``: how long
        rules outlive this connection; when the last lease has run out, what they concluded is removed.
        ``timeout_seconds``: for each of the questions asked first.

        Raises QueryRefused for rules with a variable as predicate and other rules that no query may bring,
        LocalProtocolError for none or more than 512, DataRefused, Busy, Unavailable.
        """
        return conclude(
            self, rules, graph, since=since, lease_seconds=lease_seconds, timeout_seconds=timeout_seconds
        )

    async def drop_derived(self, graph: str, *, timeout_seconds: float = 60.0) -> int:
        """Remove all that is in a derived graph, and forget that it is one; return how many triples that were.

        Whoever still derives it publishes nothing again but what changes.  Raises QueryRefused, Busy, Unavailable.
        """
        return await drop(self, graph, timeout_seconds=timeout_seconds)

    async def unsubscribe(self, subscription: int) -> None:
        """End a subscription; to end one that has ended is no error.  Raises Unavailable."""
        await self._sessions.ask(lambda request: messages.ClientUnsubscribe(request, subscription))
        self._attachments.remove(subscription)

    async def status(self) -> dict[str, Any]:
        """Return the state of the node that is used (docs/reference/operations.md lists the keys).

        After a reconnection that is another one; to ask one node and no other, connect with ``reconnect_seconds=0``.
        """
        _, answer = await self._sessions.ask(messages.ClientStatus)
        state: dict[str, Any] = json.loads(answer.json)
        return state

    async def stamp(self) -> int:
        """Return the time by the clock of the node that is used, as a stamp (:mod:`p2prdf.hlc`).

        It is after the stamps of all that this client has published so far, and before those of what it will.
        """
        state = await self.status()
        self._sessions.latest = max(int(state["stamp"]), self._sessions.latest + 1)
        return self._sessions.latest

    async def explain(
        self, query_or_subscription: str | int | Subscription, *, algorithm: str = "csbv", per_event: bool = False
    ) -> dict[str, Any]:
        """Return how a query would be evaluated or, given a subscription or its number, how it is and what waits where.

        The number may be text, too: 16 hexadecimal digits.  ``algorithm`` and ``per_event`` are those that a query
        would be left with.  Nothing is left standing.  docs/reference/explain.md lists the keys; ``findings`` name the
        blocking step.  Takes up to three seconds if nodes do not answer: these are named as missing.

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

    async def subscriptions(self, *, after: int = 0) -> dict[str, Any]:
        """Return the subscriptions, of whoever, whose home is the node that is used and hands out their answers.

        In the order of their numbers, beginning after ``after``: at most 64, the number of all in ``total``.
        docs/reference/http.md lists the keys.  Raises Unavailable.
        """
        if not 0 <= after < 1 << 64:
            raise LocalProtocolError(f"{after} is not the number of a subscription")
        _, answer = await self._sessions.ask(lambda request: messages.ClientListSubscriptions(request, after))
        told: dict[str, Any] = json.loads(answer.json)
        return told

    async def expel(self, member: int, *, expelled: bool = True) -> list[dict[str, Any]]:
        """Expel a member, named by its key, at the node that is used, or readmit it; return the decisions known there.

        The node tells the other members, which take it from two of them or from an administrator.  So do it at each
        node; ``p2prdf member expel`` does.  Member 0: only return the decisions.  The client needs the permission
        ``administer``.  Raises NotAllowed, LocalProtocolError if the node is to expel itself, Unavailable.
        """
        _, answer = await self._sessions.ask(lambda request: messages.ClientExpel(request, member, expelled))
        found: list[dict[str, Any]] = json.loads(answer.json)["members"]
        return found

    async def introduced(self, member: int, *, after: int = 0) -> dict[str, Any]:
        """Return statements and deletions that a member introduced at the node that is used (at most 500).

        ``next`` is the number for ``after`` in the next call, or None; ``since`` the stamp from which on the record of
        the node is complete.  The client needs the permission ``administer``.  Raises NotAllowed, Unavailable.
        """
        _, answer = await self._sessions.ask(lambda request: messages.ClientListIntroduced(request, member, after))
        found: dict[str, Any] = json.loads(answer.json)
        return found

    async def histories(self, statements: Sequence[tuple[str, str, str]]) -> list[list[list[Any]]]:
        """Return for each statement (at most 500) the events that the node in use recorded: the member and the time.

        A statement is named by subject, ``term`` and object of :meth:`introduced`.  Each event of it has a stamp,
        whether it was a deletion, the member's key, and whether the member was the origin itself.  Raises as
        :meth:`introduced`.
        """
        texts = tuple(text for statement in statements for text in statement)
        _, answer = await self._sessions.ask(lambda request: messages.ClientListIntroduced(request, 0, 0, texts))
        found: list[list[list[Any]]] = json.loads(answer.json)["histories"]
        return found

    def _subscription(
        self, answer: messages.ClientSubscribed, ledger: Ledger, mark: int, *, auto_acknowledge: bool, bookmarks: bool,
        hurry: bool = False,
    ) -> Subscription:  # fmt: skip
        return Subscription(
            self, answer.subscription, answer.names, hlc.seconds(answer.since), answer.order, ledger,
            opened=hlc.seconds(answer.opened), query_mark=mark, auto_acknowledge=auto_acknowledge, bookmarks=bookmarks,
            hurry=hurry,
        )  # fmt: skip

    def acknowledge(self, subscription: Subscription, identities: list[int]) -> None:
        """Called by a subscription: tell the node that solutions are dealt with."""
        self._attachments.acknowledge(subscription, identities)


def _stamp(since: float | str) -> int:
    """Return the stamp of a time; 0: now."""
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
