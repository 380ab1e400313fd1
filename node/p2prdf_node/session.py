"""One client: its requests in, outcomes and solutions out.

How much may be under way, and why, is told in :mod:`p2prdf_node.clients`.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf.columns import as_list
from p2prdf.errors import (
    Busy,
    DataRefused,
    LocalProtocolError,
    NodeLeaving,
    NotAllowed,
    P2PRDFError,
    RemoteProtocolError,
    Unavailable,
    error_from_code,
)
from p2prdf.keys import term_hash
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.reach import Reach, reach_of
from p2prdf.wire import contract, messages
from p2prdf.wire.trace_context import TraceContext, parse_traceparent
from p2prdf_node.quota import Bucket
from p2prdf_node.rights import Verb

if TYPE_CHECKING:
    from p2prdf_node.clients import Clients
    from p2prdf_node.connection import Connection

__all__ = ["ACTIONS", "ClientSession", "Pending", "client_error"]

EVENTS_MAX: Final = (1 << 63) - 1
"""Largest number of a publication's first event."""
FRAME_ANSWERS: Final = 4096
"""Solutions in one frame."""
FRAMES_TIMED: Final = 64
"""Frames of a subscription whose acknowledgement is waited for to count how long it took."""
LEASE_SECONDS_MIN: Final = 1.0
"""The shortest lease of a client: one that is over before its subscription is open would be opened for nobody."""
QUERY_SECONDS: Final = 600.0
"""So long a one-time query of who may not subscribe is delivered at most,"""
QUERY_LEASE_SECONDS: Final = 60.0
"""and so long it outlives its connection."""

log = structlog.get_logger("clients")


@dataclass(slots=True)
class _Delivery:
    """Solutions of one subscription on their way to one client."""

    subscription: int
    live: bool
    """Whether the client has been told of it; what comes in before waits."""
    once: bool = False
    """It is a query that is to be answered once."""
    until: float = math.inf
    """When it is cut off, in monotonic seconds."""
    reach: Reach | None = None
    """What it is about; None as long as that is not known."""
    waiting: deque[contract.Notify | contract.Bookmark] = field(default_factory=deque)
    """At most a window of solutions, for the home sends no more than is acknowledged; of bookmarks the last alone."""
    timed: dict[int, float] = field(default_factory=dict)
    """When the last solution of each frame was written, by identity; of frames not acknowledged the latest alone."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A request the peer is working on."""

    session: ClientSession
    request: int
    kind: str
    names: tuple[str, ...] = ()
    subscription: int = 0
    began: float = 0.0
    """Of a publication: the monotonic time at which it came."""
    level: str = ""
    once: bool = False
    reach: Reach | None = None
    size: int = 0
    """Bytes of a publication."""


class ClientSession:
    """One client.  Handler of its connection after its ClientHello."""

    def __init__(self, clients: Clients, connection: Connection, hello: messages.ClientHello):
        if hello.version != messages.CLIENT_VERSION:
            raise RemoteProtocolError(
                f"version {hello.version} of the client protocol is not spoken here, {messages.CLIENT_VERSION} is"
            )
        now = time.monotonic()
        self.account = clients.accounts.open(connection.identity, hello.speaks_for, now)
        self.connection = connection
        self.held: deque[tuple[float, messages.ClientPublish, TraceContext | None, int]] = deque()
        """Publications that wait: when they came, their traces, and their bytes."""
        self._traces: dict[int, TraceContext | None] = {}
        """By request, those of publications that are to follow."""
        self.under_way = 0
        self.subscribing = 0
        """Subscriptions that are being opened,"""
        self._querying = 0
        """and of these the one-time queries."""
        self._speaks_for = hello.speaks_for
        self._clients = clients
        self._config = clients.config
        self._deliveries: dict[int, _Delivery] = {}
        self._triples = Bucket(clients.config.publish_triples_per_second, now)
        self._bytes = Bucket(clients.config.publish_bytes_per_second, now)
        self._received = connection.received
        self._room = True
        self._dismissed = False
        self.account.sessions[self] = None
        clients.sessions[self] = None
        connection.handler = self
        connection.named = True
        version = messages.CLIENT_VERSION
        welcome = messages.ClientWelcome(clients.own, self._config.publications_max, version, clients.others())
        connection.send([welcome])

    @property
    def answers_waiting(self) -> int:
        """Solutions that wait until this client takes some."""
        return sum(
            len(each.identity)
            for delivery in self._deliveries.values()
            for each in delivery.waiting
            if isinstance(each, contract.Notify)
        )

    @property
    def waits(self) -> bool:
        """Whether this client waits for a publication to be taken, or for its query to be parsed."""
        return bool(self.held or self.under_way or self.subscribing)

    def held_count(self, *, once: bool) -> int:
        """Return how many one-time queries (``once``), or else subscriptions, it has or is opening."""
        found = sum(delivery.once == once for delivery in self._deliveries.values())
        return found + (self._querying if once else self.subscribing - self._querying)

    def is_live(self, subscription: int) -> bool:
        """Tell whether a subscription that is delivered here was confirmed."""
        delivery = self._deliveries.get(subscription)
        return delivery is not None and delivery.live

    def dismiss(self, reason: P2PRDFError) -> None:
        """Tell the client why its connection is closed, once, and close it."""
        if not self._dismissed:
            self._dismissed = True
            self.error(0, reason.code, str(reason))
            self.connection.close()

    def error(self, request: int, code: str, text: str) -> None:
        """Tell the client that a request failed."""
        self._clients.counts[f"errors_{code}"] += 1
        self.connection.send([client_error(error_from_code(code, text), request)])

    # --- Handler ---------------------------------------------------------------------------------

    def take(self, connection: Connection, message: Any) -> None:  # noqa: ARG002
        """Deal with a request; errors of the request are answered, errors of the protocol raised."""
        if type(message) not in ACTIONS:
            raise RemoteProtocolError(f"a client sent {type(message).__name__}, which is no request")
        verbs, action = ACTIONS[type(message)]
        try:
            self.account.rights.check(verbs)
            action(self, message)
        except RemoteProtocolError:
            raise
        except P2PRDFError as error:
            request = getattr(message, "request", None)
            if request is None and isinstance(error, NotAllowed):  # it is not answered: it has no effect, and counts
                self._clients.counts[f"errors_{error.code}"] += 1
                return
            self.error(request or 0, error.code, str(error))

    def writable(self, *, room: bool) -> None:
        """Neither answer nor read while the client does not read."""
        self._room = room
        if room:
            for delivery in list(self._deliveries.values()):
                self._pump(delivery)
            self.connection.release("writing")
        else:
            self.connection.hold("writing")

    def refused(self, connection: Connection, error: P2PRDFError) -> None:  # noqa: ARG002
        """Tell the client why it is closed."""
        self.error(0, error.code, str(error))

    def closed(self, reason: str) -> None:
        """Detach the client's subscriptions."""
        log.debug("client_gone", address=self.connection.address, reason=reason)
        self._clients.sessions.pop(self, None)
        self.account.sessions.pop(self, None)
        self.account.open_bytes -= sum(size for _, _, _, size in self.held)
        self.held.clear()
        for subscription in list(self._deliveries):
            self._clients.forget(subscription, self)
            self._clients.submit(contract.Detach(subscription))
        self._deliveries.clear()

    # --- publications ----------------------------------------------------------------------------

    def _publish(self, message: messages.ClientPublish) -> None:
        trace = self._traces.pop(message.request, None)
        self._refuse_new_work()
        if self.under_way + len(self.held) >= 2 * self._config.publications_max:
            raise RemoteProtocolError(f"more publications than the credit of {self._config.publications_max}")
        self._clients.terms.check(message.s, message.p, message.o, *message.graph)
        if len(message) == 0:
            raise DataRefused("a publication without triples")
        if message.level not in messages.LEVELS:
            raise LocalProtocolError(f"level {message.level!r} is neither {' nor '.join(messages.LEVELS)}")
        if message.first_event > EVENTS_MAX:
            raise DataRefused(f"event number {message.first_event} is more than {EVENTS_MAX}")
        if message.times and message.by_content:
            raise DataRefused("elements of a stream are numbered: the same triple may be there at several times")
        self._check_rows(message)
        size = self.connection.frame_bytes
        self.account.begin_publication(size)
        self._bytes.take(self.connection.received - self._received)
        self._received = self.connection.received
        self.held.append((time.monotonic(), message, trace, size))
        self._clients.schedule()
        self._credit()

    def _trace(self, message: messages.ClientTrace) -> None:
        """Note that the publication of the same request, which follows, is to be traced."""
        if len(self._traces) >= 2 * self._config.publications_max:
            raise RemoteProtocolError(f"{len(self._traces)} traces of publications that did not follow")
        try:
            self._traces[message.request] = parse_traceparent(message.traceparent)
        except LocalProtocolError as error:
            raise RemoteProtocolError(str(error)) from None

    def _check_rows(self, message: messages.ClientPublish) -> None:
        graph = message.graph[0] if message.graph else None
        rights, m = self.account.rights, message
        rights.check_rows(self._clients.dictionary, m.s, m.p, m.o, graph, removed=m.removed)

    def _heartbeat(self, message: messages.ClientHeartbeat) -> None:
        """Pass on how far a publisher is, also while the node stops: what it had to say is said."""
        self.account.rights.check_stream(message.stream)
        stream, publisher = term_hash(message.stream), self.account.publisher(message.publisher)
        said = contract.Heartbeat(stream, publisher, message.began, message.upto, message.opening)
        self._clients.submit(said)

    def _end_stream(self, message: messages.ClientEndStream) -> None:
        self._refuse_new_work()
        self.account.rights.check_stream(message.stream)
        stream, publisher = term_hash(message.stream), self.account.publisher(message.publisher)
        self._clients.ask(
            Pending(self, message.request, "end-stream"),
            lambda number: contract.EndStream(
                number, stream, publisher, message.began, message.upto, message.opening
            ),
        )

    def _credit(self) -> None:
        if self.under_way + len(self.held) >= self._config.publications_max:
            self.connection.hold("credit")
        else:
            self.connection.release("credit")

    def admit_one(self) -> int:
        """Give the first waiting publication to the peer; return its number of triples."""
        began, m, trace, size = self.held.popleft()
        self._triples.take(len(m))
        self.account.take_triples(len(m))
        publisher = self.account.publisher(m.publisher)
        self.under_way += 1
        self._clients.counts["publications"] += 1
        self._clients.counts["triples"] += len(m)
        self._clients.ask(
            Pending(self, m.request, "publish", size=size, began=began, level=m.level),
            lambda number: contract.Publish(
                number, publisher, m.first_event, m.s, m.p, m.o, m.level, m.removed, m.after, m.graph, m.by_content,
                m.times, trace,
            ),
        )
        return len(m)

    def quota_wait(self, now: float) -> float:
        """Return the seconds until this client may publish again: 0 if it may now."""
        return max(self._triples.wait(now), self._bytes.wait(now), self.account.wait(now))

    def refuse_held(self, now: float) -> None:
        """Refuse the publications that wait for too long at monotonic time ``now``."""
        while self.held and self.held[0][0] < now - self._config.admission_seconds:
            _, message, _, size = self.held.popleft()
            self.account.open_bytes -= size
            busy = self._why_held(now)
            self.error(message.request, busy.code, str(busy))
            self._credit()

    def _why_held(self, now: float) -> Busy:
        if (refusal := self._clients.refusal()) is not None:
            return Busy(refusal)
        if (busy := self._clients.busy()) is not None:
            return busy
        if (wait := self.account.wait(now)) > 0:
            reason = f"{self.account.rights.who} has used up its quota (triples_per_second in its rights)"
            return Busy(reason, retry_after=round(wait, 3))
        if (wait := self.quota_wait(now)) > 0:
            return Busy("this client has used up its quota (publish_..._per_second)", retry_after=round(wait, 3))
        return Busy("the node has no room for publications now")

    # --- subscriptions ---------------------------------------------------------------------------

    def _subscribe(self, message: messages.ClientSubscribe) -> None:
        rights = self.account.rights
        rights.check((Verb.QUERY if message.once else Verb.SUBSCRIBE,))
        self._refuse_new_work()
        if message.algorithm not in (a.value for a in Algorithm):
            raise LocalProtocolError(f"algorithm {message.algorithm!r} is neither csbv nor cqc")
        lease_max = self._config.lease_seconds_max
        if not LEASE_SECONDS_MIN <= message.lease_seconds <= lease_max:
            bounds = f"{LEASE_SECONDS_MIN:g} to {lease_max:g} s"
            raise LocalProtocolError(f"a lease of {message.lease_seconds} s is not within {bounds}")
        if message.lease_seconds > QUERY_LEASE_SECONDS and not self._may_subscribe:
            reason = f"a lease of {message.lease_seconds:g} s is more than {QUERY_LEASE_SECONDS:g} s"
            raise NotAllowed(f"{reason}, and {rights.who} may not subscribe")
        self._refuse_when_full(once=message.once)
        if self._clients.short() and (busy := self._clients.busy()) is not None:
            raise busy  # it would wait for the nodes that are missing
        self.subscribing += 1
        self._querying += message.once
        self._clients.spawn(self._parse_and_subscribe(message), "subscribe")

    async def _parse_and_subscribe(self, message: messages.ClientSubscribe) -> None:
        pending = Pending(self, message.request, "subscribe", once=message.once)
        try:
            query = await self._clients.parser.parse(message.query, ordered=message.ordered)
            self.account.rights.check_query(query)
        except P2PRDFError as error:
            self.failed(pending, error.code, str(error))
            return
        if self not in self._clients.sessions:
            self.subscribing -= 1
            self._querying -= message.once
            return
        self._clients.ask(
            replace(pending, names=query.names, reach=None if self.account.rights.unbounded else reach_of(query)),
            lambda number: _subscribe_request(number, query, message, self.account.owner),
        )

    def _attach(self, message: messages.ClientAttach) -> None:
        self._refuse_new_work()
        once = not self._may_subscribe
        self._refuse_when_full(once=once)
        self.account.check_attach(time.monotonic())
        self._clients.check_holder(message.subscription, self)
        # Solutions may come in before the confirmation: they wait.
        self._begin(message.subscription, live=False, once=once)
        self._clients.ask(
            Pending(self, message.request, "attach", subscription=message.subscription, once=once),
            lambda number: contract.Attach(number, message.subscription, message.have, self.account.asks),
        )

    @property
    def _may_subscribe(self) -> bool:
        rights = self.account.rights
        return rights.unbounded or Verb.SUBSCRIBE in rights.verbs

    @property
    def _asks(self) -> str:
        """By what the client is known where it ends subscriptions, or has them explained: "" if it may all."""
        return "" if Verb.ADMINISTER in self.account.rights.verbs else self.account.asks

    def _unsubscribe(self, message: messages.ClientUnsubscribe) -> None:
        self._clients.ask(
            Pending(self, message.request, "unsubscribe"),
            lambda number: contract.Unsubscribe(number, message.subscription, self._asks),
        )

    def _acknowledge(self, message: messages.ClientAcknowledge) -> None:
        delivery = self._deliveries.get(message.subscription)
        if delivery is not None and delivery.timed:
            now = time.monotonic()
            for identity in delivery.timed.keys() & set(as_list(message.identity)):
                self._clients.answer_seconds.observe(now - delivery.timed.pop(identity))
        self._clients.ask(
            Pending(self, message.request, "acknowledge"),
            lambda number: contract.AcknowledgeAnswers(
                number, message.subscription, message.identity, self.account.asks
            ),
        )

    def notify(self, effect: contract.Notify) -> None:
        """Write solutions, or keep them until the client takes some."""
        delivery = self._deliveries[effect.subscription]
        delivery.waiting.append(effect)
        self._pump(delivery)

    def bookmark(self, effect: contract.Bookmark) -> None:
        """Write a bookmark after the solutions before it."""
        delivery = self._deliveries[effect.subscription]
        if delivery.waiting and isinstance(delivery.waiting[-1], contract.Bookmark):
            delivery.waiting.pop()
        delivery.waiting.append(effect)
        self._pump(delivery)

    def _want_bookmarks(self, message: messages.ClientWantBookmarks) -> None:
        if message.subscription in self._deliveries:
            self._clients.submit(contract.WantBookmarks(message.subscription, message.urgent))

    def _pump(self, delivery: _Delivery) -> None:
        while delivery.live and delivery.waiting and self._room:
            effect = delivery.waiting.popleft()
            if isinstance(effect, contract.Bookmark):
                self.connection.send([messages.ClientBookmark(effect.subscription, effect.stamp)])
            else:
                self._write_rows(delivery, effect)

    def _write_rows(self, delivery: _Delivery, effect: contract.Notify) -> None:
        """Write solutions in frames of moderate size; what the socket has no room for waits again."""
        rows = len(effect.identity)
        count = min(rows, FRAME_ANSWERS)  # none if there is only a loss to tell
        while True:
            try:
                self.connection.send([_rows_of(effect, count)])
                break
            except LocalProtocolError:  # long terms: not so many fit a frame
                if count <= 1:
                    raise
                count = (count + 1) // 2
        self._clients.counts["answers"] += count
        if count:
            delivery.timed[int(effect.identity[count - 1])] = time.monotonic()
            if len(delivery.timed) > FRAMES_TIMED:
                del delivery.timed[next(iter(delivery.timed))]
        if count < rows:
            delivery.waiting.appendleft(_rest_of(effect, count))

    def ended(self, subscription: int, code: str, text: str) -> None:
        """Tell the client that it gets nothing more of a subscription."""
        self._deliveries.pop(subscription, None)
        self.connection.send([messages.ClientEnded(subscription, code, text)])

    # --- outcomes --------------------------------------------------------------------------------

    def succeeded(self, pending: Pending, outcome: contract.Outcome) -> None:
        """Answer a request that the peer has completed."""
        request = pending.request
        match outcome:
            case contract.Published(stamp):
                self.under_way -= 1
                self.account.open_bytes -= pending.size
                self._clients.publication_seconds[pending.level].observe(time.monotonic() - pending.began)
                self.connection.send([messages.ClientPublished(request, stamp)])
                self._credit()
            case contract.Subscribed(subscription, since, order, opened):
                self.subscribing -= 1
                self._querying -= pending.once
                if (refusal := self._refusal(pending.once, pending.reach)) is not None:  # its rights have changed
                    self._clients.end_orphan(subscription, self)
                    self.error(request, refusal.code, str(refusal))
                    return
                self._begin(subscription, live=True, once=pending.once, reach=pending.reach)
                self.connection.send(
                    [messages.ClientSubscribed(request, subscription, since, pending.names, order, opened)]
                )
            case contract.Attached(subscription, since, names, order, reads, writes):
                delivery = self._deliveries.get(subscription)
                reach = Reach(reads, writes)
                if delivery is not None and (refusal := self._refusal(delivery.once, reach)) is not None:
                    self._drop(subscription)
                    self.error(request, refusal.code, str(refusal))
                elif delivery is not None:  # not taken over or ended meanwhile
                    delivery.live, delivery.reach = True, reach
                    self.connection.send(
                        [messages.ClientSubscribed(request, subscription, since, names, order)]
                    )
                    self._pump(delivery)
            case contract.Explained(json):
                self.connection.send([messages.ClientExplained(request, json)])
            case contract.StreamEnded():
                self.connection.send([messages.ClientStreamEnded(request)])
            case contract.Settled(subscription):
                self.connection.send([messages.ClientSettled(request, subscription)])
            case contract.Unsubscribed(subscription) if pending.kind != "orphan":
                self._end(subscription)
                self.connection.send([messages.ClientUnsubscribed(request, subscription)])
            case _:
                assert not isinstance(outcome, contract.Failed)

    def failed(self, pending: Pending, code: str, text: str) -> None:
        """Answer a request that failed."""
        if pending.kind == "publish":
            self.under_way -= 1
            self.account.open_bytes -= pending.size
        elif pending.kind == "subscribe":
            self.subscribing -= 1
            self._querying -= pending.once
        elif pending.kind == "attach":
            self._end(pending.subscription)
            if code == NotAllowed.code:
                self.account.was_anothers(time.monotonic())
        if self in self._clients.sessions and pending.kind != "orphan":
            self.error(pending.request, code, text)
            self._credit()

    def _begin(self, subscription: int, *, live: bool, once: bool, reach: Reach | None = None) -> None:
        self._clients.deliver_to(subscription, self)
        until = math.inf if self._may_subscribe else time.monotonic() + QUERY_SECONDS
        self._deliveries[subscription] = _Delivery(subscription, live, once, until, reach)

    def _end(self, subscription: int) -> None:
        self._deliveries.pop(subscription, None)
        self._clients.forget(subscription, self)

    def _drop(self, subscription: int) -> None:
        """Deliver a subscription no more; it lives on for its lease."""
        self._end(subscription)
        self._clients.submit(contract.Detach(subscription))

    # --- rights that change ----------------------------------------------------------------------

    def _refusal(self, once: bool, reach: Reach | None) -> NotAllowed | None:
        """Tell why a subscription, or a one-time query, may not be delivered, or None."""
        rights = self.account.rights
        try:
            rights.check((Verb.QUERY if once else Verb.SUBSCRIBE,))
            if reach is not None:
                rights.check_reach(reach)
        except NotAllowed as error:
            return error
        return None

    def rights_changed(self) -> None:
        """Hold the client to the rights that it has now: what is open and not allowed any more ends here."""
        try:
            self._clients.accounts.may_stay(self.connection.identity, self._speaks_for)
        except NotAllowed as error:
            self.dismiss(error)
            return
        for _ in range(len(self.held)):
            at, message, trace, size = self.held.popleft()
            try:
                self.account.rights.check((Verb.REMOVE if message.removed else Verb.PUBLISH,))
                self._check_rows(message)
            except NotAllowed as error:
                self.account.open_bytes -= size
                self.error(message.request, error.code, str(error))
            else:
                self.held.append((at, message, trace, size))
        self._credit()
        for delivery in [each for each in self._deliveries.values() if each.live]:
            if (refusal := self._refusal(delivery.once, delivery.reach)) is not None:
                self._cut_off(delivery, refusal)

    def cut_off_overdue(self, now: float) -> None:
        """End one-time queries that take too long, of a client that may not subscribe."""
        for delivery in [each for each in self._deliveries.values() if each.until < now]:
            text = f"a query took more than {QUERY_SECONDS:g} s, and {self.account.rights.who} may not subscribe"
            self._cut_off(delivery, NotAllowed(text))

    def _cut_off(self, delivery: _Delivery, reason: NotAllowed) -> None:
        self._drop(delivery.subscription)
        self._clients.counts[f"errors_{reason.code}"] += 1
        self.connection.send([messages.ClientEnded(delivery.subscription, reason.code, str(reason))])

    # --- refusals --------------------------------------------------------------------------------

    def _refuse_when_full(self, *, once: bool) -> None:
        self.account.check_room(once=once)
        if len(self._deliveries) + self.subscribing >= self._config.subscriptions_max:
            text = f"this client has {len(self._deliveries)} subscriptions (setting subscriptions_max)"
            raise Busy(text, retry_after=60)
        if self._clients.subscriptions >= self._config.node_subscriptions_max:
            text = f"this node delivers {self._clients.subscriptions} subscriptions (setting node_subscriptions_max)"
            raise Busy(text, retry_after=60)

    def _refuse_new_work(self) -> None:
        if self._clients.stopping:
            raise NodeLeaving
        if (refusal := self._clients.refusal()) is not None:
            raise Unavailable(refusal)

    def _explain(self, message: messages.ClientExplain) -> None:
        self._refuse_new_work()
        if message.subscription:
            self._clients.ask(
                Pending(self, message.request, "explain"),
                lambda number: contract.Explain(number, message.subscription, owner=self._asks),
            )
        else:
            self._clients.spawn(self._parse_and_explain(message), "explain")

    async def _parse_and_explain(self, message: messages.ClientExplain) -> None:
        pending = Pending(self, message.request, "explain")
        try:
            query = _as_asked(await self._clients.parser.parse(message.query), per_event=message.per_event)
            self.account.rights.check_query(query)
        except P2PRDFError as error:
            self.failed(pending, error.code, str(error))
            return
        if self in self._clients.sessions:
            algorithm = Algorithm(message.algorithm)
            self._clients.ask(
                pending, lambda number: contract.Explain(number, 0, query, algorithm, message.per_event)
            )

    def _ping(self, message: messages.ClientPing) -> None:
        self.connection.send([messages.ClientPong(message.request)])

    def _status(self, message: messages.ClientStatus) -> None:
        self.connection.send([messages.ClientStatusReply(message.request, self._clients.status())])

    def _list(self, message: messages.ClientListSubscriptions) -> None:
        told = self._clients.listed(message.after)
        self.connection.send([messages.ClientSubscriptionsListed(message.request, told)])


def client_error(error: P2PRDFError, request: int = 0) -> messages.ClientError:
    """Return an error as a client is told it."""
    if isinstance(error, Busy):
        return messages.ClientError(request, error.code, error.reason, error.retry_after)
    return messages.ClientError(request, error.code, str(error))


def _subscribe_request(
    number: int, query: messages.Query, m: messages.ClientSubscribe, owner: str
) -> contract.Subscribe:
    query = _as_asked(query, per_event=m.per_event)
    return contract.Subscribe(
        number, query, Algorithm(m.algorithm), m.per_event, m.lease_seconds, m.since, m.salt, owner
    )


def _as_asked(query: messages.Query, *, per_event: bool) -> messages.Query:
    if per_event and isinstance(query, StandingQuery) and query.conjunctive is not None:
        return query.conjunctive  # SELECT DISTINCT: of events nothing is withdrawn
    return query


def _rows_of(effect: contract.Notify, count: int) -> messages.ClientRows:
    """Return the first ``count`` solutions as a client is told them."""
    return messages.ClientRows(
        effect.subscription, effect.first, effect.lost, effect.identity[:count], effect.born[:count],
        tuple(column[:count] for column in effect.bindings), effect.epoch,
    )  # fmt: skip


def _rest_of(effect: contract.Notify, count: int) -> contract.Notify:
    """Return the solutions after the first ``count``."""
    return contract.Notify(
        effect.subscription, effect.first + count, 0, effect.identity[count:], effect.born[count:],
        tuple(column[count:] for column in effect.bindings), effect.epoch,
    )  # fmt: skip


_HOLD: Final = (Verb.SUBSCRIBE, Verb.QUERY)
ACTIONS: Final[dict[type, tuple[tuple[Verb, ...], Callable[[ClientSession, Any], None]]]] = {
    messages.ClientPublish: ((Verb.PUBLISH, Verb.REMOVE), ClientSession._publish),
    messages.ClientTrace: ((), ClientSession._trace),  # does nothing without a publication, which is looked at
    messages.ClientHeartbeat: ((Verb.PUBLISH,), ClientSession._heartbeat),
    messages.ClientEndStream: ((Verb.PUBLISH,), ClientSession._end_stream),
    messages.ClientSubscribe: (_HOLD, ClientSession._subscribe),
    messages.ClientAttach: (_HOLD, ClientSession._attach),
    messages.ClientUnsubscribe: ((*_HOLD, Verb.ADMINISTER), ClientSession._unsubscribe),
    messages.ClientAcknowledge: (_HOLD, ClientSession._acknowledge),
    messages.ClientWantBookmarks: (_HOLD, ClientSession._want_bookmarks),
    messages.ClientPing: ((), ClientSession._ping),
    messages.ClientStatus: ((Verb.OBSERVE,), ClientSession._status),
    messages.ClientExplain: ((Verb.OBSERVE, Verb.ADMINISTER), ClientSession._explain),
    messages.ClientListSubscriptions: ((Verb.OBSERVE,), ClientSession._list),
}
"""By request: the verbs of which the client must have one (none: everybody may), and who deals with it.

Whether it may publish or remove, subscribe or query, and what, is looked at there."""
