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
from p2prdf.peer.home_copies import HomeCopies
from p2prdf.peer.opening import opened_message
from p2prdf.wire.messages import (
    Answers,
    AttachSubscription,
    Contact,
    Deliver,
    Delivered,
    GroupsGone,
    KeepAcknowledged,
    Message,
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
        self.copies = HomeCopies(exchange, home, engine, self.pump)

    # --- answers ---------------------------------------------------------------------------------

    def answers(self, sender: Contact, message: Answers) -> None:
        """Take in answers from other peers; those of ended groups are told off."""
        if self._exchange.replicated:
            self._answer_copies(sender, message)
            return
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
        self._exchange.persist(message)
        gone = self.record(message.groups, message.rows)
        if gone:
            self._by_key.reply(sender, GroupsGone(self._columns.column(gone)))

    def _answer_copies(self, sender: Contact, message: Answers) -> None:
        """Keep answers whose home this peer keeps; others go to all who do, once."""
        exchange = self._exchange
        homes = [subscription_home(each) for each in as_list(message.groups)]
        if message.hops < exchange.config.hops_allowed and any(exchange.rank(home) < 0 for home in homes):
            tokens = exchange.arrivals.keep(exchange.arrivals.current)
            self._engine.pass_on_answers(message, tokens)
            exchange.release(tokens)
            return
        self.take(sender, message)

    def take(self, sender: Contact, message: Answers) -> None:
        """Record answers; those whose subscription is not known wait for its record, unless it has ended."""
        self._exchange.persist(message)
        unknown = self.record(message.groups, message.rows)
        gone = [each for each in unknown if self._home.has_ended(each)]
        if gone:
            self._by_key.reply(sender, GroupsGone(self._columns.column(gone)))
        early = {each for each in unknown if each not in gone}
        if early:
            ids, rows, take = as_list(message.groups), message.rows, self._columns.take
            for place, index in self._columns.split(rows.group):
                if ids[place] in early:
                    part = Rows(
                        self._columns.full(len(index), 0, "uint32"), take(rows.identity, index),
                        take(rows.oldest, index), take(rows.born, index),
                        tuple(take(column, index) for column in rows.bindings),
                    )  # fmt: skip
                    self.copies.wait(sender, Answers(self._columns.column([ids[place]]), part, message.hops))

    def local_answers(self, groups: Column, rows: Rows) -> None:
        """Take in answers that this peer derived itself."""
        message = Answers(groups, rows)
        if self._exchange.replicated:
            self.take(self._exchange.own, message)
            return
        self._exchange.persist(message)
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
        if not subscription.speaking or subscription.opening or subscription.cut_off:
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
        subscription.speaking = self._speaks_for(subscription)
        if not subscription.speaking:
            return
        subscription.epoch = self._draw(64)
        subscription.log.restart()
        self.pump(subscription)

    def _speaks_for(self, subscription: Subscription) -> bool:
        """Return whether this peer delivers a subscription: it is the primary of its home, and in step."""
        exchange = self._exchange
        if not exchange.replicated:
            return True
        return exchange.in_step() and exchange.rank(subscription_home(subscription.number)) == 0

    def view_changed(self) -> None:
        """Begin to deliver what has become this peer's to deliver, and cease with what no longer is."""
        for subscription in list(self._home.subscriptions.values()):
            if not self._speaks_for(subscription):
                subscription.speaking = False
            elif not subscription.speaking and not subscription.opening:
                subscription.lease_until = self._exchange.now + subscription.lease_seconds
                self.begin(subscription)
        self.copies.retry()

    def _unknown_yet(self, sender: Contact, message: Message) -> bool:
        """Return whether a subscription that is not known may come to be; the message waits for that."""
        if not self._exchange.replicated or self._exchange.in_step():
            return False
        self.copies.wait(sender, message)
        return True

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
        settled = SettledAnswers(message.request, message.subscription)
        if subscription is None:
            if not self._unknown_yet(sender, message):
                self._by_key.reply(message.subscriber, settled)
            return
        self._acknowledge(subscription, message.identity, lambda: self._by_key.reply(message.subscriber, settled))
        self.pump(subscription)

    def _acknowledge(self, subscription: Subscription, identity: Column, done: Callable[[], None]) -> None:
        """Note what a subscriber is done with; ``done`` is called when all replicas have."""
        subscription.log.acknowledge(identity)
        self._home.changes += 1
        home = subscription_home(subscription.number)
        self.copies.tell_all(home, KeepAcknowledged(subscription.number, identity), done)

    # --- attaching and renewing ------------------------------------------------------------------

    def attach(self, sender: Contact, message: AttachSubscription) -> None:
        """Deliver a subscription somewhere else from now on."""
        if not self._by_key.at_owner(subscription_home(message.subscription), message, sender):
            return
        subscription = self._home.subscriptions.get(message.subscription)
        if subscription is None and self._unknown_yet(sender, message):
            return
        if subscription is None or subscription.opening:
            self._by_key.reply(message.subscriber, _unknown(message.request, message.subscription))
            return
        if len(message.have):
            self._acknowledge(subscription, message.have, _nothing)
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
        self.copies.changed(subscription)
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


def _nothing() -> None:
    """Nobody waits."""


def _unknown(request: int, subscription: int) -> SubscriptionRefused:
    return SubscriptionRefused(
        request, SubscriptionGone.code, f"no subscription {subscription:016x}: it was ended, or its lease ran out"
    )
