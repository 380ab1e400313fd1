"""The entry side of a peer: what its local application asks for.

A publication is stamped here, once, and indexed at the owners of its keys; it is complete when
all of them have taken it in.  A subscription is opened at its home and its solutions come back
here, perhaps out of order or twice; they are put in order and handed on once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from p2prdf import keys
from p2prdf.columns import Column
from p2prdf.continuous.home import home_key, subscription_home
from p2prdf.peer.batches import TripleBatch
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange
from p2prdf.peer.host import Host
from p2prdf.wire.contract import (
    AcknowledgeAnswers,
    Attach,
    Attached,
    Completed,
    Detach,
    Failed,
    Notify,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from p2prdf.wire.messages import (
    AttachSubscription,
    CloseSubscription,
    Deliver,
    Delivered,
    OpenSubscription,
    RenewSubscriptions,
    SubscriptionClosed,
    SubscriptionOpened,
    SubscriptionRefused,
)

__all__ = ["Entry"]

@dataclass(slots=True)
class _Local:
    """A subscription whose subscriber is here."""

    number: int
    lease_seconds: float
    told: int = 0
    renew_at: float = 0.0
    early: dict[int, Deliver] = field(default_factory=dict)


@dataclass(slots=True)
class _Pending:
    """A request that a home has not answered yet."""

    request: int
    kind: type
    lease_seconds: float
    due: float
    subscription: int = 0


class Entry:
    """Requests of the local application."""

    def __init__(self, exchange: Exchange, engine: Engine, host: Host, roles: Callable[[], int]):
        self._exchange = exchange
        self._engine = engine
        self._host = host
        self._roles = roles
        self._columns = exchange.columns
        self._locals: dict[int, _Local] = {}
        self._orphans: dict[int, list[Deliver]] = {}
        self._pending: dict[int, _Pending] = {}
        self._renewals: list[tuple[float, int]] = []
        self._deadlines: list[tuple[float, int]] = []
        self.published = 0
        self.publications_open = 0
        self.rows_open = 0

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, message: Publish) -> None:
        """Stamp triples and index them."""
        count = len(message.s)
        if self._engine.cutter.too_large((message.s, message.p, message.o)):
            limit = self._exchange.config.message_bytes_max
            self._complete(message.request, Failed("data-refused", f"a triple of more than {limit} characters"))
            return
        stamp = self._exchange.tick()
        self.publications_open += 1
        self.rows_open += count
        self._engine.roll_forward.begin(stamp)

        def done() -> None:
            self._engine.roll_forward.end(stamp)
            self.publications_open -= 1
            self.rows_open -= count
            self._complete(message.request, Published(stamp))

        token = self._exchange.token(done, self._exchange.spare)
        roles = self._roles()
        self.published += count
        if roles and count:
            make = self._columns.column
            events: Column
            if isinstance(self._columns.full(0, 0), list):
                events = [keys.event_id(message.publisher, message.first_event + at) for at in range(count)]
            else:
                events = keys.event_ids(message.publisher, message.first_event, count)
            adopt = self._columns.adopt
            batch = TripleBatch(
                adopt(message.s, "uint32"), adopt(message.p, "uint32"), adopt(message.o, "uint32"),
                self._columns.full(count, stamp), make(events) if isinstance(events, list) else events,
                self._columns.full(count, roles, "uint32"), 0, (token,), None,
                self._exchange.own.key, roles, self._engine.roll_forward.began,
            )  # fmt: skip
            self._engine.route_triples(batch)
        self._exchange.release((token,))

    def _complete(self, request: int, outcome: Published | Subscribed | Attached | Unsubscribed | Failed) -> None:
        self._exchange.effects.append(Completed(request, outcome))

    # --- subscribing -----------------------------------------------------------------------------

    def _expect(self, request: int, kind: type, lease_seconds: float = 0.0, subscription: int = 0) -> None:
        due = self._exchange.now + self._exchange.config.request_seconds
        self._pending[request] = _Pending(request, kind, lease_seconds, due, subscription)
        heapq.heappush(self._deadlines, (due, request))

    def _keep(self, local: _Local) -> None:
        """Deliver a subscription here, and renew its lease three times as often as needed."""
        self._locals[local.number] = local
        self._renew_later(local)

    def _renew_later(self, local: _Local) -> None:
        local.renew_at = self._exchange.now + local.lease_seconds / 3
        heapq.heappush(self._renewals, (local.renew_at, local.number))

    def subscribe(self, request: Subscribe) -> None:
        """Open a subscription at its home."""
        self._expect(request.request, Subscribe, request.lease_seconds)
        key = home_key(request.query, request.algorithm, per_event=request.per_event)
        message = OpenSubscription(
            request.request, key, request.query, request.algorithm.value, request.per_event,
            self._exchange.own, request.lease_seconds,
        )  # fmt: skip
        self._host.to_owner(key, message)

    def attach(self, request: Attach) -> None:
        """Take up a subscription again."""
        self._expect(request.request, Attach, subscription=request.subscription)
        self._keep(_Local(request.subscription, self._exchange.config.request_seconds, request.after))
        message = AttachSubscription(request.request, request.subscription, request.after, self._exchange.own)
        self._host.to_owner(subscription_home(request.subscription), message)

    def detach(self, request: Detach) -> None:
        """The subscriber left; its lease runs on."""
        self._locals.pop(request.subscription, None)

    def unsubscribe(self, request: Unsubscribe) -> None:
        """End a subscription."""
        self._expect(request.request, Unsubscribe)
        message = CloseSubscription(request.request, request.subscription, self._exchange.own)
        self._host.to_owner(subscription_home(request.subscription), message)

    def acknowledge(self, request: AcknowledgeAnswers) -> None:
        """Tell the home how far the subscriber is."""
        message = Delivered(request.subscription, request.sequence)
        self._host.to_owner(subscription_home(request.subscription), message)

    def opened(self, message: SubscriptionOpened) -> None:
        """A subscription is live, or delivered here again."""
        pending = self._pending.pop(message.request, None)
        if pending is None:
            return  # told twice
        if pending.kind is Attach:
            local = self._locals.get(message.subscription)
            if local is not None:
                local.lease_seconds = message.lease_seconds
                self._renew_later(local)
            self._complete(message.request, Attached(message.subscription, message.since, message.names, message.order))
            return
        self._keep(_Local(message.subscription, pending.lease_seconds))
        self._complete(message.request, Subscribed(message.subscription, message.since, message.order))
        for early in self._orphans.pop(message.subscription, []):
            self.deliver(early)

    def refused(self, message: SubscriptionRefused) -> None:
        """The home refused a request."""
        pending = self._pending.pop(message.request, None)
        if pending is not None:
            self._fail(pending, Failed(message.code, message.text))

    def _fail(self, pending: _Pending, failed: Failed) -> None:
        if pending.kind is Attach:  # there is nothing to be delivered here
            self._locals.pop(pending.subscription, None)
        self._complete(pending.request, failed)

    def closed(self, message: SubscriptionClosed) -> None:
        """A subscription is ended."""
        self._locals.pop(message.subscription, None)
        if self._pending.pop(message.request, None) is not None:
            self._complete(message.request, Unsubscribed(message.subscription))

    # --- solutions -------------------------------------------------------------------------------

    def deliver(self, message: Deliver) -> None:
        """Hand solutions to the local subscriber, in order and once."""
        local = self._locals.get(message.subscription)
        if local is None:
            opening = any(each.kind is Subscribe for each in self._pending.values())
            if opening and len(self._orphans) < 4096:  # told before the opening was: messages overtake
                self._orphans.setdefault(message.subscription, []).append(message)
            return
        held = local.early.get(message.first)
        if message.first + len(message) - 1 > local.told and (held is None or len(held) < len(message)):
            local.early[message.first] = message
        while local.early:
            first = min(local.early)
            following = local.early[first]
            if first - following.lost > local.told + 1:
                return  # one before it is still on its way
            del local.early[first]
            known = max(0, local.told + 1 - first)  # told already: it was cut otherwise the last time
            if known >= len(following):
                continue
            local.told = first + len(following) - 1
            self._exchange.effects.append(
                Notify(
                    following.subscription, first + known, 0 if known else following.lost, following.identity[known:],
                    following.born[known:], tuple(column[known:] for column in following.bindings),
                )
            )  # fmt: skip

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Renew leases; fail what was not answered."""
        now = self._exchange.now
        while self._renewals and self._renewals[0][0] <= now:
            due, number = heapq.heappop(self._renewals)
            local = self._locals.get(number)
            if local is None or due != local.renew_at:
                continue  # gone, or kept anew since
            self._renew_later(local)
            message = RenewSubscriptions(self._columns.column([number]))
            self._host.to_owner(subscription_home(number), message)
        while self._deadlines and self._deadlines[0][0] <= now:
            due, request = heapq.heappop(self._deadlines)
            pending = self._pending.get(request)
            if pending is not None and pending.due == due:
                del self._pending[request]
                self._fail(pending, Failed("unavailable", "the home of the query did not answer in time"))
        if not self._pending and self._orphans:
            self._orphans.clear()

    @property
    def deadline(self) -> float | None:
        """When something is due."""
        while self._deadlines and self._deadlines[0][1] not in self._pending:
            heapq.heappop(self._deadlines)
        while self._renewals and self._renewals[0][1] not in self._locals:
            heapq.heappop(self._renewals)
        due = [timers[0][0] for timers in (self._renewals, self._deadlines) if timers]
        return min(due, default=None)

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions whose subscriber is here."""
        return len(self._locals)
