"""One client session: requests in, outcomes and solutions out.

:mod:`p2prdf_node.publications` handles its publications, :mod:`p2prdf_node.deliveries` the solutions of its
subscriptions.  :mod:`p2prdf_node.clients` explains the flow control.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf.errors import (
    Busy,
    DataRefused,
    LocalProtocolError,
    NotAllowed,
    P2PRDFError,
    RemoteProtocolError,
    Unavailable,
)
from p2prdf.hlc import FIRST
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.reach import ANY, Reach, reach_of
from p2prdf.rdf.standing.settling import default_delivery, settled_query
from p2prdf.wire import contract, messages
from p2prdf_node.cohorts import parse_cohort
from p2prdf_node.connection import Connection, Handler
from p2prdf_node.deliveries import Deliveries, Delivery
from p2prdf_node.pending import Pending
from p2prdf_node.permissions import Action
from p2prdf_node.publications import Publications

if TYPE_CHECKING:
    from p2prdf_node.clients import Clients

__all__ = ["HANDLERS", "ClientSession"]

LEASE_SECONDS_MIN: Final = 1.0
"""Shortest lease: a shorter one could end before the subscription is open."""
QUERY_SECONDS: Final = 600.0
"""Longest delivery of a one-time query to a client that may not subscribe."""
QUERY_LEASE_SECONDS: Final = 60.0
"""Longest lease of a one-time query of such a client, which outlives its connection by this time."""

log = structlog.get_logger("clients")


class ClientSession(Handler):
    """One client session; the handler of its connection after ClientHello.

    A client that violates the protocol gets a ClientError with request 0, and its connection is closed.
    Subscriptions of a closed connection are detached: they live on for their lease and can be attached at any node.
    """

    def __init__(self, clients: Clients, connection: Connection, hello: messages.ClientHello):
        if hello.version != messages.CLIENT_VERSION:
            raise RemoteProtocolError(
                f"version {hello.version} of the client protocol is unknown; this node has {messages.CLIENT_VERSION}"
            )
        now = time.monotonic()
        self.account = clients.accounts.open(connection.identity, hello.speaks_for, now)
        self.connection = connection
        self.publications: Publications = Publications(clients, self, now)
        self.deliveries: Deliveries = Deliveries(clients, self)
        self.subscribing = 0
        """Subscriptions and one-time queries being opened."""
        self._querying = 0
        """One-time queries being opened; ``subscribing`` counts them too."""
        self._speaks_for = hello.speaks_for
        self._clients = clients
        self._config = clients.config
        self._dismissed = False
        self.account.sessions[self] = None
        clients.sessions[self] = None
        connection.handler = self
        connection.named = True
        version = messages.CLIENT_VERSION
        welcome = messages.ClientWelcome(clients.own, self._config.publications_max, version, clients.others())
        connection.send([welcome])

    @property
    def waits(self) -> bool:
        """Whether this client waits for an acknowledgement, or for the outcome of its subscribe request."""
        return bool(self.publications.open or self.subscribing)

    def held_count(self, *, once: bool) -> int:
        """Return the number of one-time queries (``once``), or else subscriptions, open or being opened."""
        return self.deliveries.count(once=once) + (self._querying if once else self.subscribing - self._querying)

    def is_live(self, subscription: int) -> bool:
        """Tell whether a subscription that is delivered here is confirmed."""
        delivery = self.deliveries.find(subscription)
        return delivery is not None and delivery.live

    def dismiss(self, reason: P2PRDFError) -> None:
        """Tell the client, once, why its connection is closed, and close it."""
        if not self._dismissed:
            self._dismissed = True
            self.error(0, reason)
            self.connection.close()

    def error(self, request: int, error: P2PRDFError) -> None:
        """Tell the client that a request failed."""
        self._clients.counts[f"errors_{error.code}"] += 1
        self.connection.send([messages.client_error(error, request)])

    # --- Handler ---------------------------------------------------------------------------------

    def take(self, connection: Connection, message: Any) -> None:  # noqa: ARG002
        """Process a request; errors of the request are answered, violations of the protocol raised."""
        if type(message) not in HANDLERS:
            raise RemoteProtocolError(f"a client sent {type(message).__name__}, which is no request")
        actions, handler = HANDLERS[type(message)]
        try:
            self.account.permissions.check(actions)
            self.connection.in_use = True
            handler(self, message)
        except RemoteProtocolError:
            raise
        except P2PRDFError as error:
            request = getattr(message, "request", None)
            if request is None and isinstance(error, NotAllowed | DataRefused):  # without a number it is only counted
                self._clients.counts[f"errors_{error.code}"] += 1
                return
            self.error(request or 0, error)

    def writable(self, *, room: bool) -> None:
        """Stop answering and reading while the client's socket is full."""
        self.deliveries.writable(room=room)
        if room:
            self.connection.release("writing")
        else:
            self.connection.hold("writing")

    def refused(self, connection: Connection, error: P2PRDFError) -> None:  # noqa: ARG002
        """Tell the client why its connection is closed."""
        self.error(0, error)

    def closed(self, reason: str) -> None:
        """Detach the client's subscriptions."""
        log.debug("client_gone", address=self.connection.address, reason=reason)
        self._clients.sessions.pop(self, None)
        self.account.sessions.pop(self, None)
        self.publications.forget()
        self.deliveries.drop_all()

    # --- subscriptions ---------------------------------------------------------------------------

    def _subscribe(self, message: messages.ClientSubscribe) -> None:
        permissions = self.account.permissions
        permissions.check((Action.QUERY if message.once else Action.SUBSCRIBE,))
        self._clients.refuse_new_work()
        if message.algorithm not in (a.value for a in Algorithm):
            raise LocalProtocolError(f"algorithm {message.algorithm!r} is neither csbv nor cqc")
        lease_max = self._config.lease_seconds_max
        if not LEASE_SECONDS_MIN <= message.lease_seconds <= lease_max:
            bounds = f"{LEASE_SECONDS_MIN:g} to {lease_max:g} s"
            raise LocalProtocolError(f"a lease of {message.lease_seconds} s is not within {bounds}")
        if message.lease_seconds > QUERY_LEASE_SECONDS and not self._may_subscribe:
            reason = f"a lease of {message.lease_seconds:g} s is more than {QUERY_LEASE_SECONDS:g} s"
            raise NotAllowed(f"{reason}, and {permissions.who} may not subscribe")
        self._refuse_when_full(once=message.once)
        if self._clients.short() and (busy := self._clients.busy()) is not None:
            raise busy  # the subscription would wait for the missing nodes
        if message.once:
            self._clients.refuse_parts()
        self.subscribing += 1
        self._querying += message.once
        self._clients.spawn(self._parse_and_subscribe(message), "subscribe")

    async def _parse_and_subscribe(self, message: messages.ClientSubscribe) -> None:
        pending = Pending(self, message.request, "subscribe", once=message.once)
        try:
            query = await self._parse(message)
            self.account.permissions.check_query(query)
        except P2PRDFError as error:
            self.failed(pending, error)
            return
        if self not in self._clients.sessions:
            self.subscribing -= 1
            self._querying -= message.once
            return
        self._clients.ask(
            replace(
                pending, names=query.names, reach=None if self.account.permissions.unbounded else reach_of(query),
                settled=_is_settled(query),
            ),
            lambda number: _subscribe_request(number, query, message, self.account.owner),
        )

    async def _parse(self, message: messages.ClientSubscribe) -> messages.Query:
        """Return the query of a subscription, or the common one of a cohort."""
        if message.settled or message.cohort:
            _check_settled(message)
        if message.cohort:
            return await parse_cohort(self._clients.parser, message.cohort)
        query = await self._clients.parser.parse(message.query, ordered=message.ordered)
        if message.settled:
            return settled_query(query)
        by_default = message.by_default and self._config.default_delivery == "settled"
        # Settled delivery begins with the past, which nodes with indexes on demand do not hold.
        return default_delivery(query) if by_default and self._config.indexes == "all" else query

    def _attach(self, message: messages.ClientAttach) -> None:
        self._clients.refuse_new_work()
        once = not self._may_subscribe
        self._refuse_when_full(once=once)
        self.account.check_attach(time.monotonic())
        self._clients.check_holder(message.subscription, self)
        # Solutions that arrive before the confirmation wait.
        self._begin(message.subscription, live=False, once=once, request=message.request)
        self._clients.ask(
            Pending(self, message.request, "attach", subscription=message.subscription, once=once),
            lambda number: contract.Attach(number, message.subscription, message.have, self.account.requester),
        )

    @property
    def _may_subscribe(self) -> bool:
        permissions = self.account.permissions
        return permissions.unbounded or Action.SUBSCRIBE in permissions.actions

    @property
    def _requester(self) -> str:
        """Name sent when the client ends or explains subscriptions; "" for administrators: all are theirs to end."""
        return "" if Action.ADMINISTER in self.account.permissions.actions else self.account.requester

    def _unsubscribe(self, message: messages.ClientUnsubscribe) -> None:
        self._clients.ask(
            Pending(self, message.request, "unsubscribe"),
            lambda number: contract.Unsubscribe(number, message.subscription, self._requester),
        )

    def _acknowledge(self, message: messages.ClientAcknowledge) -> None:
        self.deliveries.acknowledged(message)
        self._clients.ask(
            Pending(self, message.request, "acknowledge"),
            lambda number: contract.AcknowledgeAnswers(
                number, message.subscription, message.identity, self.account.requester
            ),
        )

    def _want_bookmarks(self, message: messages.ClientWantBookmarks) -> None:
        if self.deliveries.find(message.subscription) is not None:
            self._clients.submit(contract.WantBookmarks(message.subscription, message.urgent))

    # --- outcomes --------------------------------------------------------------------------------

    def succeeded(self, pending: Pending, outcome: contract.Outcome) -> None:
        """Answer a request that the peer has completed."""
        request = pending.request
        match outcome:
            case contract.Published(stamp):
                self._clients.publication_seconds[pending.level].observe(time.monotonic() - pending.began)
                self.connection.send([messages.ClientPublished(request, stamp)])
                self.publications.done(pending)
            case contract.Subscribed(subscription, since, order, opened):
                self.subscribing -= 1
                self._querying -= pending.once
                if (refusal := self._refusal(pending.once, pending.reach)) is not None:  # permissions changed
                    self._clients.end_orphan(subscription, self)
                    self.error(request, refusal)
                    return
                self._begin(subscription, live=True, once=pending.once, reach=pending.reach)
                self.connection.send(
                    [messages.ClientSubscribed(
                        request, subscription, since, pending.names, order, opened, pending.settled
                    )]
                )
            case contract.Attached(subscription, since, names, order, reads, writes):
                delivery = self.deliveries.find(subscription)
                reach = Reach(reads, writes)
                if delivery is not None and (refusal := self._refusal(delivery.once, reach)) is not None:
                    self.deliveries.drop(subscription)
                    self.error(request, refusal)
                elif delivery is not None:
                    self.connection.send(
                        [messages.ClientSubscribed(request, subscription, since, names, order)]
                    )
                    self.deliveries.confirm(delivery, reach)
                else:  # another client took it, or it ended, before this client was told of it
                    self._clients.detach_if_unheld(subscription)
                    self.error(request, Unavailable("another client attached the subscription meanwhile"))
            case contract.Explained(text):
                self.connection.send([messages.ClientReply(request, text)])
            case contract.Expelled():
                self.connection.send([messages.ClientReply(request, self._clients.expulsions())])
            case contract.ExportBegun(export, stamp):
                self.connection.send([messages.ClientReply(request, json.dumps({"export": export, "stamp": stamp}))])
            case contract.ExportRead(upto, lines):
                self.connection.send([messages.ClientExportPage(request, upto, lines)])
            case contract.StreamEnded() | contract.Settled() | contract.ExportEnded():
                self.connection.send([messages.ClientDone(request)])
            case contract.Unsubscribed(subscription) if pending.kind != "orphan":
                self.deliveries.end(subscription)
                self.connection.send([messages.ClientDone(request)])
            case _:
                assert not isinstance(outcome, contract.Failed)

    def failed(self, pending: Pending, error: P2PRDFError) -> None:
        """Answer a request that failed."""
        if pending.kind == "publish":
            self.publications.done(pending)
        elif pending.kind == "subscribe":
            self.subscribing -= 1
            self._querying -= pending.once
        elif pending.kind == "attach":
            delivery = self.deliveries.find(pending.subscription)
            if delivery is not None and delivery.request == pending.request:  # a later attempt has its own delivery
                self.deliveries.end(pending.subscription)
            if isinstance(error, NotAllowed):
                self.account.note_foreign_attach(time.monotonic())
        if self in self._clients.sessions and pending.kind != "orphan":
            self.error(pending.request, error)

    def _begin(
        self, subscription: int, *, live: bool, once: bool, reach: Reach | None = None, request: int = 0
    ) -> None:
        until = math.inf if self._may_subscribe else time.monotonic() + QUERY_SECONDS
        self.deliveries.begin(Delivery(subscription, live, once, until, reach, request))

    # --- changes of permissions ----------------------------------------------------------------------

    def _refusal(self, once: bool, reach: Reach | None) -> NotAllowed | None:
        """Return why a subscription or one-time query may not be delivered, or None."""
        permissions = self.account.permissions
        try:
            permissions.check((Action.QUERY if once else Action.SUBSCRIBE,))
            if reach is not None:
                permissions.check_reach(reach)
        except NotAllowed as error:
            return error
        return None

    def permissions_changed(self) -> None:
        """Apply the client's current permissions: end the publications and deliveries that they no longer permit."""
        try:
            self._clients.accounts.may_stay(self.connection.identity, self._speaks_for)
        except NotAllowed as error:
            self.dismiss(error)
            return
        self.publications.permissions_changed()
        for delivery in self.deliveries.live():
            if (refusal := self._refusal(delivery.once, delivery.reach)) is not None:
                self._cut_off(delivery, refusal)

    def cut_off_overdue(self, now: float) -> None:
        """End one-time queries beyond QUERY_SECONDS of a client that may not subscribe."""
        for delivery in self.deliveries.overdue(now):
            text = f"a query took more than {QUERY_SECONDS:g} s, and {self.account.permissions.who} may not subscribe"
            self._cut_off(delivery, NotAllowed(text))

    def _cut_off(self, delivery: Delivery, reason: NotAllowed) -> None:
        self.deliveries.drop(delivery.subscription)
        self._clients.counts[f"errors_{reason.code}"] += 1
        self.connection.send([messages.ClientEnded(delivery.subscription, reason.code, str(reason))])

    # --- refusals --------------------------------------------------------------------------------

    def _refuse_when_full(self, *, once: bool) -> None:
        self.account.check_room(once=once)
        if len(self.deliveries) + self.subscribing >= self._config.subscriptions_max:
            text = f"this client has {len(self.deliveries)} subscriptions (setting subscriptions_max)"
            raise Busy(text, retry_after=60)
        if self._clients.subscriptions >= self._config.node_subscriptions_max:
            text = f"this node delivers {self._clients.subscriptions} subscriptions (setting node_subscriptions_max)"
            raise Busy(text, retry_after=60)

    def _explain(self, message: messages.ClientExplain) -> None:
        self._clients.refuse_new_work()
        if message.subscription:
            self._clients.ask(
                Pending(self, message.request, "explain"),
                lambda number: contract.Explain(number, message.subscription, owner=self._requester),
            )
        else:
            self._clients.spawn(self._parse_and_explain(message), "explain")

    async def _parse_and_explain(self, message: messages.ClientExplain) -> None:
        pending = Pending(self, message.request, "explain")
        try:
            query = _as_asked(await self._clients.parser.parse(message.query), per_event=message.per_event)
            self.account.permissions.check_query(query)
        except P2PRDFError as error:
            self.failed(pending, error)
            return
        if self in self._clients.sessions:
            algorithm = Algorithm(message.algorithm)
            self._clients.ask(
                pending, lambda number: contract.Explain(number, 0, query, algorithm, message.per_event)
            )

    def _ping(self, message: messages.ClientPing) -> None:
        self.connection.send([messages.ClientDone(message.request)])

    def _status(self, message: messages.ClientStatus) -> None:
        self.connection.send([messages.ClientReply(message.request, self._clients.status())])

    def _list(self, message: messages.ClientListSubscriptions) -> None:
        told = self._clients.listed(message.after)
        self.connection.send([messages.ClientReply(message.request, told)])

    def _expel(self, message: messages.ClientExpel) -> None:
        if not message.member:
            self.connection.send([messages.ClientReply(message.request, self._clients.expulsions())])
            return
        identity = self.connection.identity
        if identity is not None and identity.role == "node":  # a malicious member would expel all others
            raise NotAllowed(f"{identity} may not expel: it takes the certificate of a client that may administer")
        self._clients.ask(
            Pending(self, message.request, "expel"),
            lambda number: contract.Expel(number, message.member, message.expelled),
        )

    # --- exports ---------------------------------------------------------------------------------

    def _export(self, message: messages.ClientExport) -> None:
        self._check_export()
        self._clients.refuse_new_work()
        self._clients.refuse_parts()
        self._clients.ask(
            Pending(self, message.request, "export"), lambda number: contract.BeginExport(number, message.stream)
        )

    def _read_export(self, message: messages.ClientReadExport) -> None:
        self._check_export()
        self._clients.refuse_new_work()
        self._clients.ask(
            Pending(self, message.request, "export"),
            lambda number: contract.ReadExport(number, message.export, message.after),
        )

    def _end_export(self, message: messages.ClientEndExport) -> None:
        self._check_export()
        self._clients.ask(
            Pending(self, message.request, "export"), lambda number: contract.EndExport(number, message.export)
        )

    def _check_export(self) -> None:
        """Raise NotAllowed unless the client may read all graphs and streams."""
        self.account.permissions.check_reach(Reach((ANY,), ()))

    def _introduced(self, message: messages.ClientListIntroduced) -> None:
        self.connection.send([messages.ClientReply(message.request, self._clients.introduced(message))])


def _subscribe_request(
    number: int, query: messages.Query, m: messages.ClientSubscribe, owner: str
) -> contract.Subscribe:
    query = _as_asked(query, per_event=m.per_event)
    return contract.Subscribe(
        number, query, Algorithm(m.algorithm), m.per_event, m.lease_seconds,
        FIRST if _is_settled(query) else m.since, m.salt, owner, m.once,
    )  # fmt: skip


def _is_settled(query: messages.Query) -> bool:
    return isinstance(query, StandingQuery) and query.is_settled


def _check_settled(message: messages.ClientSubscribe) -> None:
    once = message.once and not message.cohort
    if message.per_event or once or message.since != FIRST:
        raise LocalProtocolError("settled delivery is of a standing query over all triples, not of events")


def _as_asked(query: messages.Query, *, per_event: bool) -> messages.Query:
    if per_event and isinstance(query, StandingQuery) and query.conjunctive is not None:
        return query.conjunctive  # SELECT DISTINCT: solutions of events are never retracted
    return query


_HOLD: Final = (Action.SUBSCRIBE, Action.QUERY)
HANDLERS: Final[dict[type, tuple[tuple[Action, ...], Callable[[ClientSession, Any], None]]]] = {
    messages.ClientPublish: ((Action.PUBLISH, Action.REMOVE), lambda session, m: session.publications.publish(m)),
    # It has no effect without a publication, which is checked.
    messages.ClientTrace: ((), lambda session, m: session.publications.trace(m)),
    messages.ClientHeartbeat: ((Action.PUBLISH,), lambda session, m: session.publications.heartbeat(m)),
    messages.ClientEndStream: ((Action.PUBLISH,), lambda session, m: session.publications.end_stream(m)),
    messages.ClientSubscribe: (_HOLD, ClientSession._subscribe),
    messages.ClientAttach: (_HOLD, ClientSession._attach),
    messages.ClientUnsubscribe: ((*_HOLD, Action.ADMINISTER), ClientSession._unsubscribe),
    messages.ClientAcknowledge: (_HOLD, ClientSession._acknowledge),
    messages.ClientWantBookmarks: (_HOLD, ClientSession._want_bookmarks),
    messages.ClientPing: ((), ClientSession._ping),
    messages.ClientStatus: ((Action.OBSERVE,), ClientSession._status),
    messages.ClientExplain: ((Action.OBSERVE, Action.ADMINISTER), ClientSession._explain),
    messages.ClientListSubscriptions: ((Action.OBSERVE,), ClientSession._list),
    messages.ClientExport: ((Action.QUERY,), ClientSession._export),
    messages.ClientReadExport: ((Action.QUERY,), ClientSession._read_export),
    messages.ClientEndExport: ((Action.QUERY,), ClientSession._end_export),
    messages.ClientExpel: ((Action.ADMINISTER,), ClientSession._expel),
    messages.ClientListIntroduced: ((Action.ADMINISTER,), ClientSession._introduced),
}
"""Requests: the actions of which a client must be permitted one (empty: none needed), and the handler.

The handlers check the details: publish or remove, subscribe or query, and the graphs."""
