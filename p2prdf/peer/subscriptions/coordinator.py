"""The coordinator of subscriptions: the component that joins opening, delivery, replication and evaluation.

:mod:`~p2prdf.peer.subscriptions.opening` opens subscriptions, :mod:`~p2prdf.peer.subscriptions.delivery` delivers
solutions, :mod:`~p2prdf.peer.subscriptions.replication` keeps the replicas of a coordinator alike, and
:mod:`~p2prdf.peer.subscriptions.unresolved` deals with unknown names.  This module ends subscriptions and groups, and
answers peers that hold rows of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_list
from p2prdf.continuous.home import Group, Home, Subscription, subscription_home
from p2prdf.errors import RemoteProtocolError
from p2prdf.peer.joins.engine import Engine
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Component, Handlers, Restorers, earliest
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.retention import Retention
from p2prdf.peer.subscriptions.delivery import Delivery
from p2prdf.peer.subscriptions.opening import Opening, steps_that_wait
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import (
    Answers,
    AttachSubscription,
    BookmarksRequest,
    CloseSubscription,
    Contact,
    Delivered,
    EndSubscription,
    GroupLeases,
    GroupsGone,
    KeepAcknowledged,
    KeepAnswers,
    KeepGroups,
    KeepReported,
    KeepRetracted,
    KeepSubscription,
    Message,
    NamesRequest,
    NamesResponse,
    OpenSubscription,
    RatesRequest,
    RatesResponse,
    RenewSubscriptions,
    SubscriptionClosed,
)

__all__ = ["Coordinator"]

_LATE_MAX: Final = 1024
"""Messages of solutions remembered for a subscription that may lack them; with more, all are derived again."""
_LEFT_SECONDS: Final = 1.0
"""Seconds between two checks whether orphaned groups can be ended."""
_LOOKS_MAX: Final = 60
"""Checks of an orphaned group that another peer coordinates, before it is left to its lease."""
_LOOKED_AT_MAX: Final = 1024
"""Orphaned groups checked at once: questions about unknown names share a bounded space."""
_RETENTION_PART: Final = 0.01
"""Delay of the expiry of solutions, as a part of their maximal age."""


def _nothing() -> None:
    """Do nothing."""


class Coordinator(Component):
    """The queries and subscriptions that this peer keeps as a coordinator or its replica."""

    def __init__(
        self,
        messenger: Messenger,
        engine: Engine,
        tables: Tables,
        dictionary: TermDictionary,
        home: Home,
        retention: Retention,
    ):
        self._messenger = messenger
        self._placement = messenger.placement
        self._engine = engine
        self._tables = tables
        self._dictionary = dictionary
        self._columns = tables.columns
        self.home = home
        self._by_key = ByKey(messenger)
        self._late: dict[int, tuple[Subscription, list[Column] | None]] = {}
        """Subscriptions that a replica did not know when it recorded solutions of their group, with these solutions."""
        self._delivery = Delivery(
            messenger, self._by_key, home, engine, dictionary, retention, orphan=self._end_orphan, late=self._note_late,
            too_large=self._end_too_large,
        )  # fmt: skip
        self.unknown, self.records = self._delivery.unknown, self._delivery.records
        self.evaluations, self.windows = self._delivery.evaluations, self._delivery.windows
        self._opening = Opening(
            messenger, self._by_key, self.home, tables, dictionary, indexes=engine.indexes, words=engine.words,
            records=self.records, begin=self._delivery.begin, wait=self.unknown.wait,
        )  # fmt: skip
        self._left_at: float | None = None
        """The time of the next check of orphaned groups (:meth:`_end`)."""
        self._retention_at: float | None = None
        self.at_owner, self.to_owner, self.reply = self._by_key.at_owner, self._by_key.to_owner, self._by_key.reply
        self.to_all = self._by_key.to_all
        self.local_answers, self.tell_marks = self._delivery.local_answers, self._delivery.tell_marks
        self.contact_lost, self.contact_back = self._delivery.contact_lost, self._delivery.contact_back
        self.reroute = self.records.reroute
        messenger.signals.view_changed.connect(self.view_changed)
        messenger.signals.caught_up.connect(self.view_changed)
        messenger.signals.home_changed.connect(self.mark_dirty)

    @property
    def parts(self) -> tuple[Component, ...]:
        """The components that continue openings, unknown names and failed evaluations."""
        return self._opening, self.unknown, self.evaluations

    @property
    def has_marks(self) -> bool:
        """Whether marks of settled subscriptions wait for the end of the turn (:meth:`tell_marks`)."""
        return self._delivery.has_marks

    def handlers(self) -> Handlers:
        """Return the handlers of subscriptions, of their solutions and of messages between their replicas."""
        records, unknown, delivery = self.records, self.unknown, self._delivery
        return {
            OpenSubscription: self._opening.open,
            AttachSubscription: delivery.attach,
            CloseSubscription: self._close,
            EndSubscription: self._take_end,
            RenewSubscriptions: delivery.renew,
            Answers: delivery.answers,
            Delivered: delivery.delivered,
            BookmarksRequest: delivery.bookmarks,
            RatesRequest: self._get_rates,
            KeepGroups: self.keep,
            KeepSubscription: records.take_subscription,
            KeepAcknowledged: lambda _, message: records.take_acknowledged(message),
            KeepAnswers: lambda _, message: records.take_answers(message),
            KeepReported: lambda _, message: records.take_reported(message),
            KeepRetracted: lambda _, message: delivery.withdrawn(message),
            NamesRequest: lambda sender, message: unknown.tell(sender, message, records.tell_one),
            NamesResponse: unknown.told,
        }

    def status(self) -> Mapping[str, object]:
        """Return counters of the subscriptions that this peer keeps."""
        home = self.home
        return {
            "subscriptions_coordinated": len(home.subscriptions),
            "solutions": home.answers,
            "solutions_repeated": home.repeated,
            "solutions_held": sum(len(each.log) for each in home.subscriptions.values()),
            "solutions_dropped": home.dropped,
            "records_unresolved": len(self.unknown),
        }

    # --- after a restart -------------------------------------------------------------------------

    def restorers(self) -> Restorers:
        """Return the methods that take back records, solutions and retractions."""
        return {Answers: self._restore_answers, KeepRetracted: self._restore_withdrawn, **self.records.restorers()}

    def _restore_answers(self, message: Answers) -> None:
        self._delivery.take_held(message)
        stamps = (each for each in as_list(message.rows.born) if not hlc.is_element(each))
        self._messenger.advance(max(stamps, default=0))

    def _restore_withdrawn(self, message: KeepRetracted) -> None:
        self._delivery.withdrawn(message)
        self._messenger.advance(message.youngest)

    def restored(self) -> None:
        """Note that all records are here."""
        self.records.restored()

    def kept(self) -> Iterator[Message]:
        """Return the solutions that wait for the record of their group."""
        return self.unknown.messages()

    # --- rates -----------------------------------------------------------------------------------

    def rates(self, message: RatesResponse) -> None:
        """Take the number of triples that an owner counted under a pattern."""
        self._opening.rates(message)

    def _get_rates(self, sender: Contact, message: RatesRequest) -> None:
        """Answer how many triples match one pattern: of a split key this peer's share times the number of shares."""
        if len(message) != 1 or as_list(message.roles)[0] not in keys.ROLES:
            raise RemoteProtocolError("rates are asked for one pattern at a time, under one role")
        role = as_list(message.roles)[0]
        pattern = [as_list(column)[0] for column in (message.s, message.p, message.o)]
        key = keys.role_key(role, *(self._dictionary.hashes[term] for term in pattern))
        if self._by_key.at_owner(key, message, sender):
            sub_keys = 1 << self._engine.hot.depth(role, key)
            indexed = self._engine.indexes.counted >> role & 1
            count = self._tables.count(role, *pattern) * sub_keys + 1 if indexed else 0
            self.reply(message.asker, RatesResponse(message.request, message.position, self._columns.column([count])))

    def view_changed(self) -> None:
        """Deliver the subscriptions that this peer leads now, and end subscriptions of ended groups."""
        self._delivery.view_changed()
        for subscription in [each for each in self.home.subscriptions.values() if self.home.is_orphan(each)]:
            self._end_orphan(subscription)

    # --- closing ---------------------------------------------------------------------------------

    def _close(self, sender: Contact, message: CloseSubscription) -> None:
        """End a subscription."""
        self._engine.introductions.ended(sender.key, [message.subscription])
        self._delivery.close(sender, message, self._end)

    def _take_end(self, sender: Contact, message: EndSubscription) -> None:
        """Record the ends of subscriptions that another replica tells."""
        self._engine.introductions.ended(sender.key, as_list(message.subscriptions))
        self.records.take_end(message)

    def _end(self, subscription: Subscription, done: Callable[[], None] = _nothing) -> None:
        """End a subscription, and its group after the last one; call ``done`` when enough replicas know.

        Another subscription may have joined the group in a part of the network that this peer does not see.  An ended
        group cannot return, so the group stays orphaned until all its replicas have heard of the end and know no other
        subscription.
        """
        number, stamp = subscription.number, self._messenger.tick()
        ends_group = not self._placement.replicated or self.home.is_orphan(subscription)
        group = self.home.close(number, stamp, ends_group=ends_group)
        tokens = [self._messenger.token(done, sparing=True)]
        if group is not None and not ends_group:
            tokens.append(self._messenger.token(self._look_at_left))
        told = tuple(tokens)
        self.records.tell_ended(number, group.identity if group is not None and ends_group else 0, stamp, told)
        self._messenger.release(told)
        if group is not None and ends_group:
            self._end_group(group)

    def _look_at_left(self) -> None:
        self._left_at = self._messenger.now
        self.dirty = True

    def _end_left(self) -> None:
        """End the orphaned groups of which no replica knows a subscription.

        The primary of a group asks the other replicas.  While a peer is missing, and not missing for long, it does not
        ask: only the missing peer may know a subscription.
        """
        messenger = self._messenger
        self._left_at = messenger.now + _LEFT_SECONDS
        if messenger.members.somebody_missing or not (self._placement.known and messenger.recovery.caught_up):
            return
        for identity, group in list(islice(self.home.left.items(), _LOOKED_AT_MAX)):
            group.looks += 1
            if self._placement.speaks_for(subscription_home(identity)):
                self.unknown.when_nowhere(identity, partial(self._end_unknown, identity))
            elif group.looks > _LOOKS_MAX:  # its primary does not know it: it ends with its lease
                self.home.forget_left(identity)

    def _end_unknown(self, identity: int) -> None:
        """End a group that no replica knows."""
        group = self.home.left.get(identity)
        if group is not None:
            self.records.end_group(identity, self._messenger.tick())
            self._end_group(group)

    def _end_orphan(self, subscription: Subscription) -> None:
        """End a subscription of a group that another peer has ended, and tell its subscriber."""
        if self._messenger.restoring or not self._placement.speaks_for(subscription_home(subscription.number)):
            return
        self._messenger.trace("subscription-orphaned", subscription=subscription.number)
        self._by_key.reply(subscription.subscriber, SubscriptionClosed(0, subscription.number))
        self._end(subscription)

    def _end_too_large(self, subscription: Subscription, why: str) -> None:
        """End a subscription that exceeds a bound, and tell its subscriber the reason."""
        self._messenger.trace("subscription-too-large", subscription=subscription.number, reason=why)
        self._by_key.reply(subscription.subscriber, SubscriptionClosed(0, subscription.number, why=why))
        self._end(subscription)

    def _end_group(self, group: Group) -> None:
        """Tell all peers that may hold rows of a group that it has ended."""
        if not group.planned:
            return
        self._engine.end_groups([leaf.identity for leaf in group.leaves])
        for leaf in group.leaves:
            assert leaf.plan is not None
            gone = GroupsGone(self._columns.column([leaf.identity]))
            for step in steps_that_wait(leaf.plan):
                for key in self._opening.install_keys(leaf, step):
                    self._by_key.to_all(key, gone)

    # --- leases of groups ------------------------------------------------------------------------

    def keep(self, sender: Contact, message: KeepGroups) -> None:
        """Tell a peer that holds rows which of their groups are alive."""
        alive: list[int] = []
        gone: list[int] = []
        for identity in as_list(message.groups):
            one = replace(message, groups=self._columns.column([identity]))
            if not self._by_key.at_owner(subscription_home(identity), one, sender):
                continue
            if self.home.find(identity):
                alive.append(identity)
            elif self.unknown.is_gone(identity, subscription=False):
                gone.append(identity)
            else:
                self.unknown.hold_holder(identity, message.holder)
        lease = hlc.from_seconds(self._messenger.now + self._messenger.config.group_lease_seconds)
        if alive:
            self._by_key.reply(
                message.holder, GroupLeases(self._columns.column(alive), self._columns.column([lease] * len(alive)))
            )
        if gone:
            self._by_key.reply(message.holder, GroupsGone(self._columns.column(gone)))

    # --- missed solutions ------------------------------------------------------------------------

    @property
    def owes(self) -> bool:
        """Whether solutions are to be derived again for a subscription, once all copies are in place everywhere."""
        return bool(self._late)

    def _note_late(self, subscription: Subscription, answers: Column | None) -> None:
        held = self._late.get(subscription.number, (subscription, []))[1]
        if answers is None or held is None or len(held) >= _LATE_MAX:
            self._late[subscription.number] = (subscription, None)
        else:
            self._late[subscription.number] = (subscription, [*held, answers])

    def derive_again(self) -> None:
        """Derive solutions again for subscriptions that may lack some: no copy is missing now."""
        late, self._late = self._late, {}
        for subscription, answers in late.values():
            if self.home.subscriptions.get(subscription.number) is not subscription:
                continue
            if answers is not None and not any(map(subscription.log.lacks, answers)):
                continue  # the solutions arrived in the meantime
            self._messenger.trace("subscription-late", subscription=subscription.number)
            self._opening.derive_again(subscription)

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """End subscriptions after their lease, drop solutions that are too old."""
        messenger = self._messenger
        for number in self.home.expired(messenger.now):
            subscription = self.home.subscriptions[number]
            if self._placement.speaks_for(subscription_home(number)):
                messenger.trace("subscription-expired", subscription=number)
                self._end(subscription)
            else:  # only its primary knows whether it was renewed
                self.home.renew(subscription, messenger.now)
        if not self.home.left:
            self._left_at = None
        elif self._left_at is None:
            self._left_at = messenger.now + _LEFT_SECONDS
        elif messenger.now >= self._left_at:
            self._end_left()
        if self._retention_at is not None and messenger.now >= self._retention_at:
            self._retention_at = None
            self.home.ends.expire(messenger.now)
            for subscription in self.home.expire_answers(messenger.now, messenger.config.retention_seconds):
                self._delivery.pump(subscription)
        if self._retention_at is None and (self.home.subscriptions or self.home.ends):
            wait = max(1.0, messenger.config.retention_seconds * _RETENTION_PART)
            self._retention_at = messenger.now + wait

    @property
    def deadline(self) -> float | None:
        """The time of the next lease end, check or expiry."""
        return earliest(self.home.deadline, self._left_at, self._retention_at)
