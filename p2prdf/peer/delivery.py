"""Answers come together at their home and go out to subscribers, who attach, renew and acknowledge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from p2prdf.columns import Column, as_list
from p2prdf.continuous.home import Home, Subscription, subscription_home
from p2prdf.errors import SubscriptionGone
from p2prdf.peer.by_key import ByKey
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange
from p2prdf.peer.opening import opened_message
from p2prdf.wire.messages import (
    Answers,
    AttachSubscription,
    Contact,
    Deliver,
    Delivered,
    GroupsGone,
    RenewSubscriptions,
    Rows,
    SettledAnswers,
    SubscriptionClosed,
    SubscriptionRefused,
)

__all__ = ["Delivery"]

_CHUNK_ROWS_MAX = 4096


class Delivery:
    """What the subscriptions of a home are told."""

    def __init__(
        self, exchange: Exchange, by_key: ByKey, home: Home, engine: Engine, draw: Callable[[int], int]
    ):
        """``draw`` returns so many random bits."""
        self._draw = draw
        self._exchange = exchange
        self._by_key = by_key
        self._home = home
        self._engine = engine
        self._columns = exchange.columns

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
            self._by_key.reply(sender, GroupsGone(self._columns.column(gone)))

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
            group = self._home.find(ids[place])
            if group is None:
                gone.append(ids[place])
                continue
            touched = self._home.record(
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
        for chunk in self._home.chunks(subscription, window=window, chunk_max=_CHUNK_ROWS_MAX):
            for start, stop in self._engine.cutter.slices(len(chunk), chunk.bindings):
                part = chunk.part(start, stop)
                self._by_key.reply(
                    subscription.subscriber,
                    Deliver(
                        subscription.number, part.first, part.lost, part.identity, part.born, part.bindings,
                        subscription.epoch,
                    ),
                )  # fmt: skip

    def begin(self, subscription: Subscription) -> None:
        """Begin another epoch of a subscription: tell all that is not acknowledged, numbered from 1."""
        subscription.epoch = self._draw(64)
        subscription.log.restart()
        self.pump(subscription)

    def contact_lost(self, contact: Contact) -> None:
        """Keep what a peer that is gone was to be told, until it is there again or the lease is over."""
        for subscription in self._home.subscriptions.values():
            if subscription.subscriber.key == contact.key:
                subscription.cut_off = True

    def contact_back(self, contact: Contact) -> None:
        """Go on telling a peer that is there again."""
        for subscription in list(self._home.subscriptions.values()):
            if subscription.subscriber.key == contact.key:
                self._resume(subscription)

    def _resume(self, subscription: Subscription) -> None:
        """Send anew what was on its way to a subscriber that was cut off."""
        if subscription.cut_off:
            subscription.cut_off = False
            self.begin(subscription)

    def delivered(self, sender: Contact, message: Delivered) -> None:
        """Forget what a subscriber acknowledged and send it more."""
        if not self._by_key.at_owner(subscription_home(message.subscription), message, sender):
            return
        subscription = self._home.subscriptions.get(message.subscription)
        if subscription is None:
            self._by_key.reply(message.subscriber, _unknown(message.request, message.subscription))
            return
        subscription.log.acknowledge(message.identity)
        self._by_key.reply(message.subscriber, SettledAnswers(message.request, message.subscription))
        self.pump(subscription)

    # --- attaching and renewing ------------------------------------------------------------------

    def attach(self, sender: Contact, message: AttachSubscription) -> None:
        """Deliver a subscription somewhere else from now on."""
        if not self._by_key.at_owner(subscription_home(message.subscription), message, sender):
            return
        subscription = self._home.subscriptions.get(message.subscription)
        if subscription is None or subscription.opening:
            self._by_key.reply(message.subscriber, _unknown(message.request, message.subscription))
            return
        subscription.log.acknowledge(message.have)
        here = subscription.subscriber.key == message.subscriber.key
        if here and subscription.request == message.request:  # it came before
            self._by_key.reply(message.subscriber, opened_message(subscription, message.request))
            return
        if not here:  # it is delivered there no longer
            closed = SubscriptionClosed(subscription.request, subscription.number, elsewhere=True)
            self._by_key.reply(subscription.subscriber, closed)
        subscription.subscriber, subscription.request = message.subscriber, message.request
        subscription.cut_off = False
        subscription.lease_until = self._exchange.now + subscription.lease_seconds
        self._by_key.reply(message.subscriber, opened_message(subscription, message.request))
        self.begin(subscription)

    def renew(self, sender: Contact, message: RenewSubscriptions) -> None:
        """Let subscriptions live for another lease."""
        for number in as_list(message.subscriptions):
            one = replace(message, subscriptions=self._columns.column([number]))
            if not self._by_key.at_owner(subscription_home(number), one, sender):
                continue
            subscription = self._home.subscriptions.get(number)
            if subscription is not None:
                subscription.lease_until = self._exchange.now + subscription.lease_seconds
                self._resume(subscription)


def _unknown(request: int, subscription: int) -> SubscriptionRefused:
    return SubscriptionRefused(
        request, SubscriptionGone.code, f"no subscription {subscription:016x}: it was ended, or its lease ran out"
    )
