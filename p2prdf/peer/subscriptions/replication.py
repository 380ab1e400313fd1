"""Replication of a coordinator: records, acknowledgements and ends, so that any replica can continue.

Every replica of a coordinator's key stores the records of its subscriptions, their solutions and the
acknowledgements. A message is stored before it is acknowledged.

- *Record.*  It goes out while the query is installed; the subscriber is told when ``copies_min`` replicas have it. If
  the primary fails earlier, the entry peer asks the next one.  That one continues with the stamp of the record, or,
  without a record, opens the subscription anew: the subscriber was not told.
- *Acknowledgement.*  It is stable when all present replicas have it.  A replica that does not know the subscription
  yet refuses it, so that it is repeated.
- *Move.*  Two primaries that did not see each other may have moved a subscription; the later stamp wins.  A replica
  that learns of a move tells the former entry peer; its subscriber attaches again.
- *End.*  It goes to all replicas and is remembered (:mod:`p2prdf.continuous.ends`).  A subscriber that misses it
  hears of it at the next renewal.

Anti-entropy and restarts use the same messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from p2prdf import hlc
from p2prdf.columns import Column, as_list
from p2prdf.continuous.counts import Mark
from p2prdf.continuous.home import Home, Subscription, subscription_home
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Restorers
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.messages import (
    Contact,
    EndSubscription,
    KeepAcknowledged,
    KeepAnswers,
    KeepReported,
    KeepSubscription,
    MembersKnown,
    Message,
    SubscriptionClosed,
)

__all__ = ["RecordReplication"]

_TOLD: Final = (KeepSubscription, EndSubscription, KeepAcknowledged, KeepAnswers, KeepReported)


class RecordReplication:
    """The records of subscriptions, exchanged with the other replicas.

    ``kept`` is called with the subscription of a new record, and whether it was unknown; ``changed`` with one that has
    solutions to deliver; ``learned`` with each name after its record or end; ``orphan`` with a subscription of an ended
    group; ``late`` with one that was unknown when solutions of its group were recorded, and these solutions if they are
    known; ``told_elsewhere`` with one that another replica has delivered to.
    """

    def __init__(
        self, messenger: Messenger, by_key: ByKey, home: Home, *, kept: Callable[[Subscription, bool], None],
        changed: Callable[[Subscription], None], learned: Callable[[int, bool], None],
        orphan: Callable[[Subscription], None], late: Callable[[Subscription, Column | None], None],
        told_elsewhere: Callable[[Subscription], None],
    ):  # fmt: skip
        self._messenger = messenger
        self._placement = messenger.placement
        self._by_key = by_key
        self._home = home
        self._kept, self._changed, self._learned, self._orphan, self._late = kept, changed, learned, orphan, late
        self._told_elsewhere = told_elsewhere
        self._columns = messenger.columns
        self._youngest: dict[int, int] = {}
        """During a restore, by group, the latest stamp of a solution that the earlier incarnation recorded."""

    # --- telling ---------------------------------------------------------------------------------

    def tell(self, key: int, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Store a message and send it to the other replicas of a key, once there are enough of them."""
        self._messenger.persist(message)
        self._send_when_enough(key, message, tokens)

    def _send_when_enough(self, key: int, message: Message, tokens: tuple[int, ...]) -> None:
        if self._messenger.members.short_of_peers and tokens:
            self._messenger.wait_for_peers(partial(self._send_when_enough, key, message, tokens), tokens)
        else:
            self._send(key, message, tokens)

    def _send(self, key: int, message: Message, tokens: tuple[int, ...]) -> None:
        for fellow in self._placement.fellows(key):
            self._messenger.send(fellow, message, tokens)

    def tell_subscription(self, subscription: Subscription, tokens: tuple[int, ...] = ()) -> None:
        """Send the record of a new subscription."""
        self.tell(subscription_home(subscription.number), self._home.record_of(subscription), tokens)

    def tell_moved(self, subscription: Subscription, tokens: tuple[int, ...] = ()) -> None:
        """Send the record of a moved subscription to the replicas that are there."""
        record = self._home.record_of(subscription)
        self._messenger.persist(record)
        self._send(subscription_home(subscription.number), record, tokens)

    def tell_ended(self, subscription: int, group: int, stamp: int, tokens: tuple[int, ...] = ()) -> None:
        """Send the end of a subscription, and that of its group unless ``group`` is 0."""
        self.tell(subscription_home(subscription), self._end_of(subscription, group, stamp), tokens)

    def tell_end_again(self, subscription: int, stamp: int, tokens: tuple[int, ...]) -> None:
        """Send a recorded end of a subscription again, once there are enough replicas."""
        self._send_when_enough(subscription_home(subscription), self._end_of(subscription, 0, stamp), tokens)

    def _end_of(self, subscription: int, group: int, stamp: int) -> EndSubscription:
        make = self._columns.column
        return EndSubscription(make([subscription]), make([group]), make([stamp]))

    def acknowledge(self, subscription: Subscription, identity: Column, tokens: tuple[int, ...] = ()) -> None:
        """Record acknowledged solutions and send them to the other replicas, which may not know them."""
        log = subscription.log
        elsewhere = log.lacks(identity)
        news = self._home.acknowledge(subscription, identity)
        known = dict.fromkeys(as_list(identity))
        if elsewhere:  # identities that the log has no room for stay between the subscriber and this peer
            names = list(known)
            known = dict.fromkeys(name for name, taken in zip(names, log.knows(names), strict=True) if taken)
        gaps = [each for each in as_list(news) if each not in known]  # solutions that were reported lost with them
        every = self._columns.column([*known, *gaps]) if gaps or elsewhere else identity
        message = KeepAcknowledged(subscription.number, every)
        if len(news):
            self._messenger.persist(message)
        if len(every):
            self._send(subscription_home(subscription.number), message, tokens)
        if elsewhere:
            self._told_elsewhere(subscription)

    def end_group(self, group: int, stamp: int) -> None:
        """End a group without subscriptions, and tell the other replicas."""
        message = self._end_of(0, group, stamp)
        self.take_end(message)
        self._send(subscription_home(group), message, ())

    def tell_one(self, to: Contact, name: int, subscription: bool) -> None:
        """Send one replica the records or the end of a name."""
        stamp = self._home.ends.stamp(name, subscription=subscription)
        if stamp is not None:
            pair = (name, 0) if subscription else (0, name)
            self._by_key.reply(to, self._end_of(*pair, stamp))
            return
        held = self._home.subscriptions.get(name) if subscription else None
        if held is not None and self._home.is_orphan(held):
            return  # the end of its group is sent by itself; the replica would answer the record with that end
        group = None if subscription else self._home.find(name)
        for each in [held] if held is not None else group.subscriptions.values() if group is not None else ():
            if each.group.planned:
                self._by_key.reply(to, self._home.record_of(each))

    def reroute(self, message: Message, tokens: tuple[int, ...]) -> bool:
        """Send a message for a lost replica to the present ones; return False for other messages."""
        if not isinstance(message, _TOLD) or (isinstance(message, KeepAnswers) and not message.told):
            return False
        send = self._send if isinstance(message, KeepAcknowledged) else self._send_when_enough
        for key in _keys_of(message):
            send(key, message, tokens)
        return True

    # --- taking in -------------------------------------------------------------------------------

    def take_subscription(self, sender: Contact, record: KeepSubscription) -> None:
        """Store the record of a subscription."""
        late = self._home.comes_late(record)
        held = self._home.subscriptions.get(record.subscription)
        before = None if held is None else (held.subscriber, held.request)
        subscription, news = self._home.keep(record, self._messenger.now)
        if subscription is None:
            self._end_with_group(record)
            if sender.key != self._messenger.own.key:
                self.tell_one(sender, record.subscription, subscription=True)
                self.tell_one(sender, record.group, subscription=False)
            return
        if news:
            self._messenger.persist(record)
            if before is not None:
                self._tell_left(subscription, *before)
            self._kept(subscription, before is None)
            if late:
                self._late(subscription, None)
        self._learned(record.group, False)
        self._learned(record.subscription, True)

    def _end_with_group(self, record: KeepSubscription) -> None:
        """End an unknown subscription of an ended group.

        Its primary should end it, but that may be this peer, which has not caught up before it has accepted the
        messages that depend on the record.
        """
        number, stamp = record.subscription, self._home.ends.stamp(record.group, subscription=False)
        if stamp is None or number in self._home.subscriptions or self._home.ends.has(number, subscription=True):
            return
        self.take_end(self._end_of(number, 0, stamp))
        if not self._messenger.restoring:
            self._by_key.reply(record.subscriber, SubscriptionClosed(0, number))

    def _tell_left(self, subscription: Subscription, subscriber: Contact, request: int) -> None:
        """Tell the former entry peer of a subscription that another one delivers it."""
        if subscriber.key != subscription.subscriber.key:
            self._tell(subscriber, SubscriptionClosed(request, subscription.number, elsewhere=True))

    def tell_subscriber(self, subscription: Subscription) -> None:
        """Tell the entry peer of a subscription that it has ended."""
        if not subscription.cut_off:
            self._tell(subscription.subscriber, SubscriptionClosed(0, subscription.number))

    def _tell(self, subscriber: Contact, message: SubscriptionClosed) -> None:
        """Send a message to an entry peer if it is reachable."""
        if not self._messenger.restoring and self._placement.may_be_there(subscriber):
            self._by_key.reply(subscriber, message)

    def take_end(self, message: EndSubscription) -> None:
        """Record the ends of subscriptions and groups."""
        columns = (as_list(message.subscriptions), as_list(message.groups), as_list(message.times))
        self._messenger.persist(message)
        for subscription, group, stamp in zip(*columns, strict=True):
            orphans: list[Subscription] = []
            if subscription:
                orphans += self._home.take_end(subscription, stamp, subscription=True)
                self._learned(subscription, True)
            if group:
                orphans += self._home.take_end(group, stamp, subscription=False)
                self._learned(group, False)
            for each in orphans:
                self._orphan(each)

    def take_acknowledged(self, message: KeepAcknowledged) -> None:
        """Record acknowledged or lost solutions; refuse them while the subscription is unknown."""
        subscription = self._known(message.subscription)
        if subscription is None:
            return
        elsewhere = subscription.log.lacks(message.identity)
        if message.lost:
            subscription.log.lose(message.identity)
            self._home.version += 1
            self._messenger.persist(message)
        elif len(self._home.acknowledge(subscription, message.identity, surely=True)):
            self._messenger.persist(message)
        if elsewhere:
            self._told_elsewhere(subscription)
        self._changed(subscription)

    def take_answers(self, message: KeepAnswers) -> None:
        """Record solutions that are owed to a subscription; refuse them while the subscription is unknown."""
        subscription = self._known(message.subscription)
        if subscription is not None and self._home.owe(
            subscription, message.identity, message.born, message.bindings
        ):
            self._messenger.persist(message)
            self._told_elsewhere(subscription)
            self._changed(subscription)
            for other, answers in self._home.lacking(subscription, message.identity, message.born):
                self._late(other, answers)

    def take_reported(self, message: KeepReported) -> None:
        """Record the last report of a subscription."""
        subscription = self._known(message.subscription)
        if subscription is not None and self._home.reported(
            subscription, message.upto, message.number, message.last
        ):
            self._messenger.persist(message)

    def tell_reported(self, subscription: Subscription, mark: Mark) -> None:
        """Record the last report of a subscription, and tell the other replicas."""
        if self._home.reported(subscription, *mark):
            self.tell(subscription_home(subscription.number), KeepReported(subscription.number, *mark))

    def _known(self, number: int) -> Subscription | None:
        subscription = self._home.subscriptions.get(number)
        kept_here = self._placement.rank(subscription_home(number)) >= 0  # below 0: the sender has an old view
        if subscription is None and kept_here and not self._home.ends.has(number, subscription=True):
            self._messenger.inbox.refuse()
        return subscription

    # --- after a restart -------------------------------------------------------------------------

    def restorers(self) -> Restorers:
        """Return the methods that take back records."""
        return {
            KeepSubscription: self._restore_subscription, EndSubscription: self._restore_end,
            KeepAcknowledged: self.take_acknowledged, KeepAnswers: self._restore_answers,
            KeepReported: self.take_reported, MembersKnown: lambda _: self.restored(),
        }  # fmt: skip

    def _restore_subscription(self, message: KeepSubscription) -> None:
        self.take_subscription(self._messenger.own, message)
        self._youngest[message.group] = max(self._youngest.get(message.group, 0), message.youngest)
        self._messenger.advance(max(message.since, message.since_max, message.youngest, message.changed))

    def _restore_end(self, message: EndSubscription) -> None:
        self.take_end(message)
        self._messenger.advance(max(as_list(message.times), default=0))

    def _restore_answers(self, message: KeepAnswers) -> None:
        self.take_answers(message)
        self._messenger.advance(max(map(hlc.plain, as_list(message.born)), default=0))

    def restored(self) -> None:
        """Note that a snapshot, or all records, are here.

        A snapshot omits solutions that all known subscriptions had acknowledged.  A subscription that is learned from
        now on may be owed them.
        """
        for identity, youngest in self._youngest.items():
            group = self._home.find(identity) or self._home.left.get(identity)
            if group is not None:
                group.recorded = max(group.recorded, youngest)
        self._youngest.clear()


def _keys_of(message: Message) -> list[int]:
    match message:
        case KeepSubscription() | KeepAcknowledged() | KeepAnswers() | KeepReported():
            return [subscription_home(message.subscription)]
        case EndSubscription():
            pairs = zip(as_list(message.subscriptions), as_list(message.groups), strict=True)
            return list({subscription_home(subscription or group): None for subscription, group in pairs})
    return []
