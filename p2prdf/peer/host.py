"""The home side of a peer: subscriptions are opened, planned, installed and answered here.

Opening a query that nobody waits for yet goes through four stages, each of which may need other
peers: *rates* are asked for, so that the rarest pattern comes first; the roles of the plan are
*advertised* to every peer, so that triples are indexed where the plan will look; the query is
*stamped* and *installed* at the owners of its first pattern (CQC: of all its patterns); then the
subscriber is told that it is live.  Equal queries join the group at the third stage.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_list
from p2prdf.continuous.home import Group, Home, Subscription, subscription_home
from p2prdf.continuous.order import evaluation_order
from p2prdf.errors import Busy, LocalProtocolError
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, Plan, constant_mask, make_plan
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import (
    Advertise,
    Answers,
    AttachSubscription,
    CloseSubscription,
    Contact,
    Deliver,
    Delivered,
    GetRates,
    GroupLeases,
    Groups,
    GroupsGone,
    IndexQuery,
    KeepGroups,
    Message,
    OpenSubscription,
    Rates,
    RenewSubscriptions,
    Rows,
    SubscriptionClosed,
    SubscriptionOpened,
    SubscriptionRefused,
)

__all__ = ["Host"]

_CHUNK_ROWS_MAX = 4096


class Host:
    """Queries and subscriptions whose home is this peer."""

    def __init__(
        self,
        exchange: Exchange,
        engine: Engine,
        tables: Tables,
        dictionary: TermDictionary,
        to_self: Callable[[Message], None],
        add_roles: Callable[[int], None],
    ):
        self._exchange = exchange
        self._engine = engine
        self._tables = tables
        self._columns = tables.columns
        self._dictionary = dictionary
        self._to_self = to_self
        self._add_roles = add_roles
        self.home = Home(tables.columns, log_rows_max=exchange.config.answers_pending_max)
        self._confirmed = exchange.config.fixed_roles
        self._confirmed_at = 0
        """Stamp of the last time that roles were confirmed by all peers."""
        self._planning: dict[int, tuple[Group, float]] = {}
        self._settling: list[tuple[float, int]] = []
        self._next_request = 0

    # --- routing by key --------------------------------------------------------------------------

    def at_owner(self, key: int, message: Message, sender: Contact) -> bool:
        """Return whether this peer owns ``key``; if not, pass the message on to who does."""
        config = self._exchange.config
        if message.hops >= config.hops_max:  # type: ignore[union-attr]  # only routed messages come here
            return True
        owner = as_list(self._exchange.closest_known([key]))[0]
        if owner == 0:
            return True
        self._exchange.pass_on(sender, self._exchange.contact(owner), message)
        return False

    def to_owner(self, key: int, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Send a message to the owner of a key, which may be this peer."""
        exchange = self._exchange
        owner = exchange.owner(key)
        if owner is None:
            exchange.hold(tokens)

            def again() -> None:
                self.to_owner(key, message, tokens)
                exchange.release(tokens)

            exchange.park([key], again)
        elif owner.key == exchange.own.key:
            self._to_self(message)
        else:
            exchange.send(owner, message, tokens)

    def reply(self, to: Contact, message: Message) -> None:
        """Send a message to a peer, which may be this one."""
        if to.key == self._exchange.own.key:
            self._to_self(message)
        else:
            self._exchange.send(to, message)

    # --- opening ---------------------------------------------------------------------------------

    def open(self, sender: Contact, message: OpenSubscription) -> None:
        """Open a subscription."""
        if not self.at_owner(message.key, message, sender):
            return
        known = self.home.opened(message.subscriber, message.request)
        if known is not None:
            if known.group.plan is not None and not known.opening:
                self._tell_opened(known)
            return
        group, new = self.home.open_group(message, self._exchange.tick())
        if any(each.request == message.request and each.subscriber == message.subscriber for each in group.waiting):
            return
        group.waiting.append(message)
        if new:
            self._ask_rates(group)
        elif group.plan is not None:
            self._advertise(group)

    def _ask_rates(self, group: Group) -> None:
        """Ask the owners of the patterns' keys how many triples came under them."""
        query = group.query
        try:
            terms = self._dictionary.intern_all(query.constants)
        except Busy as error:
            self._refuse(group, error)
            return
        self._planning[group.identity] = (group, self._exchange.now + self._exchange.config.rates_seconds)
        wanted = [
            (at, constant_mask(pattern)) for at, pattern in enumerate(query.patterns) if constant_mask(pattern)
        ]
        if len(query.patterns) == 1 or not wanted:
            self._plan(group)
            return
        group.unanswered = len(wanted)
        hashes = self._dictionary.hashes
        for at, role in wanted:
            triple = [terms[~slot] if slot < 0 else terms[0] for slot in query.patterns[at]]
            key = keys.role_key(role, *(hashes[term] for term in triple))
            position, roles, s, p, o = (self._columns.column([each], "uint32") for each in (at, role, *triple))
            message = GetRates(group.identity, self._exchange.own, position, roles, s, p, o)
            self.to_owner(key, message)

    def _refuse(self, group: Group, error: Busy) -> None:
        for opening in group.waiting:
            self.reply(opening.subscriber, SubscriptionRefused(opening.request, error.code, str(error)))
        group.waiting.clear()
        self.home.drop(group)

    def rates(self, message: Rates) -> None:
        """Note what an owner counted; plan when all have answered."""
        entry = self._planning.get(message.request)
        if entry is None:
            return
        group = entry[0]
        for position, count in zip(as_list(message.position), as_list(message.counts), strict=True):
            group.unanswered -= 1
            if count and 0 <= position < len(group.query.patterns):
                group.counts[position] = count - 1
        if group.unanswered <= 0:
            self._plan(group)

    def count_rates(self, message: GetRates, indexed: int, *, sub_keys: int) -> None:
        """Answer how many triples there are under the parts asked for: what this peer holds of so many equal shares."""
        counts = [
            self._tables.count(role, s, p, o) * sub_keys + 1 if indexed >> role & 1 else 0
            for role, s, p, o in zip(
                *(as_list(column) for column in (message.roles, message.s, message.p, message.o)), strict=True
            )
        ]
        self.reply(message.asker, Rates(message.request, message.position, self._columns.column(counts)))

    def _plan(self, group: Group) -> None:
        del self._planning[group.identity]
        order = evaluation_order(group.query, group.counts)
        group.plan = make_plan(group.query, order, group.algorithm, per_event=group.per_event)
        self._advertise(group)

    # --- advertising -----------------------------------------------------------------------------

    def _advertise(self, group: Group) -> None:
        """See to it that every peer indexes under the roles of a plan, then install."""
        assert group.plan is not None
        missing = group.plan.roles & ~self._confirmed
        if not missing:
            self._install(group, exact=False)
            return
        gap = self._exchange.cache.gap()
        if gap is not None:  # not all peers are known yet
            self._exchange.park([gap], partial(self._advertise, group))
            return
        self._add_roles(missing)

        def done() -> None:
            self._confirmed |= missing
            self._confirmed_at = self._exchange.tick()
            self._install(group, exact=True)

        token = self._exchange.token(done)
        for contact in self._exchange.cache.contacts():
            if contact.key != self._exchange.own.key:
                self._exchange.send(contact, Advertise(missing), (token,))
        self._exchange.release((token,))

    # --- installing ------------------------------------------------------------------------------

    def _install(self, group: Group, *, exact: bool) -> None:
        """Stamp the subscriptions that wait and let the query wait at its owners."""
        if not group.waiting:
            return
        exchange = self._exchange
        plan = group.plan
        assert plan is not None
        stamp = exchange.tick()
        since = hlc.floor(stamp)
        if exact or group.youngest >= since or self._confirmed_at >= since:
            since = hlc.Stamp(stamp)
        refresh = since if group.subscriptions else 0
        opened = [
            self.home.subscribe(group, opening, since, exchange.now) for opening in group.waiting
        ]
        group.waiting.clear()

        def live() -> None:
            for subscription in opened:
                self._tell_when_past(subscription)

        token = exchange.token(live, exchange.spare)
        groups = self._columns_of(group)
        last = len(plan.steps) if plan.algorithm is Algorithm.CQC else 1
        for step in range(last):
            message = IndexQuery(plan, step, groups, refresh)
            for key in self._install_keys(plan, step, group):
                self.to_owner(key, message, (token,))
        exchange.release((token,))

    def _columns_of(self, group: Group) -> Groups:
        make = self._columns.column
        lease = hlc.from_seconds(self._exchange.now + self._exchange.config.group_lease_seconds)
        params = self._dictionary.intern_all(group.query.constants)
        return Groups(
            make([group.identity]), make([group.since_min]), make([group.since_max]), make([lease]),
            tuple(make([term], "uint32") for term in params),
        )  # fmt: skip

    def _install_keys(self, plan: Plan, step: int, group: Group) -> list[int]:
        """Return the ring keys at which a step's pattern waits."""
        at = plan.steps[step]
        if at.role == keys.ANY:
            return [int(keys.bucket_key(bucket)) for bucket in range(keys.BUCKETS)]
        hashes = [self._dictionary.hashes[term] for term in self._dictionary.intern_all(group.query.constants)]
        parts = [hashes[~slot] if slot < 0 else 0 for slot in at.pattern]
        return [int(keys.role_key(at.role, *parts))]

    def _tell_when_past(self, subscription: Subscription) -> None:
        """Tell that a subscription is live once every peer's clock is past its stamp.

        Whoever publishes after having been told must get a later stamp, also at a peer that has
        heard nothing of it: commit-wait, with the skew that clocks are allowed.
        """
        since = subscription.since
        past = hlc.seconds(since) + (0.0 if since == hlc.floor(since) else 0.001)
        heapq.heappush(self._settling, (past + self._exchange.config.clock_skew_seconds, subscription.number))
        self._tell_settled()

    def _tell_settled(self) -> None:
        while self._settling and self._settling[0][0] <= self._exchange.now:
            _, number = heapq.heappop(self._settling)
            subscription = self.home.subscriptions.get(number)
            if subscription is not None and subscription.opening:
                subscription.opening = False
                self._tell_opened(subscription)

    def _tell_opened(self, subscription: Subscription) -> None:
        self.reply(subscription.subscriber, _opened(subscription, subscription.request))
        self.pump(subscription)

    # --- answers ---------------------------------------------------------------------------------

    def answers(self, sender: Contact, message: Answers) -> None:
        """Take in answers from other peers; those of ended groups are told off."""
        misplaced = message.hops < self._exchange.config.hops_max and any(
            owner != 0
            for owner in as_list(
                self._exchange.closest_known(
                    self._columns.column([subscription_home(each) for each in as_list(message.groups)])
                )
            )
        )
        if misplaced:
            tokens = self._exchange.arrivals.keep(self._exchange.arrivals.current)
            self._engine.pass_on_answers(message, tokens)
            self._exchange.release(tokens)
            return
        gone = self.record(message.groups, message.rows)
        if gone:
            self.reply(sender, GroupsGone(self._columns.column(gone)))

    def local_answers(self, groups: Column, rows: Rows) -> None:
        """Take in answers that this peer derived itself."""
        gone = self.record(groups, rows)
        if gone:
            self._engine.end_groups(gone)

    def record(self, groups: Column, rows: Rows) -> list[int]:
        """Record answers and hand them on; return the groups that have ended."""
        ids = as_list(groups)
        gone = []
        take = self._columns.take
        large = set(self._engine.cutter.too_large(rows.bindings))
        if large:  # it could never be delivered, and everything after it would wait
            self._exchange.trace("answer-too-large", answers=len(large))
            rows = self._engine.cutter.without(rows, large)
        for place, index in self._columns.split(rows.group):
            group = self.home.find(ids[place])
            if group is None:
                gone.append(ids[place])
                continue
            touched = self.home.record(
                group, take(rows.identity, index), take(rows.oldest, index), take(rows.born, index),
                tuple(take(column, index) for column in rows.bindings),
            )  # fmt: skip
            for subscription in touched:
                self.pump(subscription)
        return gone

    def pump(self, subscription: Subscription) -> None:
        """Send a subscriber what it may be told now."""
        if subscription.opening or subscription.cut_off:
            return
        window = self._exchange.config.answers_window
        for chunk in self.home.chunks(subscription, window=window, chunk_max=_CHUNK_ROWS_MAX):
            for start, stop in self._engine.cutter.slices(len(chunk), chunk.bindings):
                part = chunk.part(start, stop)
                self.reply(
                    subscription.subscriber,
                    Deliver(subscription.number, part.first, part.lost, part.identity, part.born, part.bindings),
                )

    def contact_lost(self, contact: Contact) -> None:
        """Keep what a peer that is gone was to be told, until it is there again or the lease is over."""
        for subscription in self.home.subscriptions.values():
            if subscription.subscriber.key == contact.key:
                subscription.cut_off = True

    def contact_back(self, contact: Contact) -> None:
        """Go on telling a peer that is there again."""
        for subscription in list(self.home.subscriptions.values()):
            if subscription.subscriber.key == contact.key:
                self._resume(subscription)

    def _resume(self, subscription: Subscription) -> None:
        """Send anew what was on its way to a subscriber that was cut off."""
        if subscription.cut_off:
            subscription.cut_off = False
            subscription.log.rewind(subscription.log.acknowledged)
            self.pump(subscription)

    def delivered(self, sender: Contact, message: Delivered) -> None:
        """Forget what a subscriber acknowledged and send it more."""
        if not self.at_owner(subscription_home(message.subscription), message, sender):
            return
        subscription = self.home.subscriptions.get(message.subscription)
        if subscription is not None:
            subscription.log.acknowledge(message.sequence)
            self.pump(subscription)

    # --- attaching, renewing, closing ------------------------------------------------------------

    def attach(self, sender: Contact, message: AttachSubscription) -> None:
        """Deliver a subscription somewhere else from now on."""
        if not self.at_owner(subscription_home(message.subscription), message, sender):
            return
        subscription = self.home.subscriptions.get(message.subscription)
        if subscription is None or subscription.opening:
            self.reply(message.subscriber, _unknown(message.request, message.subscription))
            return
        if subscription.subscriber.key != message.subscriber.key:  # it is delivered there no longer
            self.reply(subscription.subscriber, SubscriptionClosed(0, subscription.number))
        subscription.subscriber = message.subscriber
        subscription.cut_off = False
        subscription.lease_until = self._exchange.now + subscription.lease_seconds
        subscription.log.rewind(message.after)
        self.reply(message.subscriber, _opened(subscription, message.request))
        self.pump(subscription)

    def renew(self, sender: Contact, message: RenewSubscriptions) -> None:
        """Let subscriptions live for another lease."""
        for number in as_list(message.subscriptions):
            one = replace(message, subscriptions=self._columns.column([number]))
            if not self.at_owner(subscription_home(number), one, sender):
                continue
            subscription = self.home.subscriptions.get(number)
            if subscription is not None:
                subscription.lease_until = self._exchange.now + subscription.lease_seconds
                self._resume(subscription)

    def close(self, sender: Contact, message: CloseSubscription) -> None:
        """End a subscription."""
        if not self.at_owner(subscription_home(message.subscription), message, sender):
            return
        self.end(message.subscription)
        self.reply(message.subscriber, SubscriptionClosed(message.request, message.subscription))

    def end(self, number: int) -> None:
        """End a subscription, and its group if it was the last one."""
        group = self.home.close(number)
        if group is None or group.plan is None:
            return
        self._engine.end_groups([group.identity])
        last = len(group.plan.steps) if group.algorithm is Algorithm.CQC else 1
        gone = GroupsGone(self._columns.column([group.identity]))
        for step in range(last):
            for key in self._install_keys(group.plan, step, group):
                self.to_owner(key, gone)

    # --- leases of groups ------------------------------------------------------------------------

    def keep(self, sender: Contact, message: KeepGroups) -> None:
        """Tell a holder which groups still live."""
        alive: list[int] = []
        gone: list[int] = []
        for identity in as_list(message.groups):
            one = replace(message, groups=self._columns.column([identity]))
            if self.at_owner(subscription_home(identity), one, sender):
                (alive if self.home.find(identity) else gone).append(identity)
        lease = hlc.from_seconds(self._exchange.now + self._exchange.config.group_lease_seconds)
        if alive:
            self.reply(
                message.holder, GroupLeases(self._columns.column(alive), self._columns.column([lease] * len(alive)))
            )
        if gone:
            self.reply(message.holder, GroupsGone(self._columns.column(gone)))

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Do what is due: plan without missing rates, tell what is live, end what nobody renewed."""
        self._tell_settled()
        for group, due in list(self._planning.values()):
            if due <= self._exchange.now:
                self._plan(group)
        for number in self.home.expired(self._exchange.now):
            self._exchange.trace("subscription-expired", subscription=number)
            self.end(number)

    @property
    def deadline(self) -> float | None:
        """When something is due."""
        due = [at for _, at in self._planning.values()]
        if self._settling:
            due.append(self._settling[0][0])
        if self.home.deadline is not None:
            due.append(self.home.deadline)
        return min(due, default=None)


def _opened(subscription: Subscription, request: int) -> SubscriptionOpened:
    plan = subscription.group.plan
    assert plan is not None
    return SubscriptionOpened(
        request, subscription.number, subscription.since, subscription.lease_seconds, subscription.names, plan.order
    )


def _unknown(request: int, subscription: int) -> SubscriptionRefused:
    return SubscriptionRefused(
        request, LocalProtocolError.code, f"no subscription {subscription:016x}: it was ended, or its lease ran out"
    )
