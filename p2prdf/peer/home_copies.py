"""The copies of a home: what the replicas of a home's key know of its subscriptions.

A home is a key like others, kept by a replica set.  Links send answers to all of it, so each replica has them.  Records
of subscriptions, acknowledgements and ends come from the primary, which tells its fellows and, where it matters, waits
for them:

* a *record* is safe at as many replicas as copies are needed before the subscriber is told that its query is live;
* an *acknowledgement* is known to all fellows before the subscriber is told that the answers are settled, for then it
  forgets them, and nobody may tell them again;
* an *end* is told to all, and remembered: nothing that comes later brings back what has ended.

All three only ever add to what is known, in any order: a record that comes twice is merged, answers are a set,
an acknowledgement may come before its answer.  What comes before the record it belongs to waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import as_array, as_list
from p2prdf.continuous.home import Home, Subscription, subscription_home
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange
from p2prdf.peer.repair import Items
from p2prdf.store.result_log import Chunk
from p2prdf.wire.messages import (
    Contact,
    EndSubscription,
    KeepAcknowledged,
    KeepAnswers,
    KeepSubscription,
    Message,
)

__all__ = ["HOME", "HomeCopies", "HomeKind"]

HOME: Final = 18
"""The kind of items that homes keep (:mod:`p2prdf.peer.items` has the others)."""
WAITING_MAX: Final = 4096
"""Messages that wait for the record they belong to."""


class HomeCopies:
    """What a replica of homes is told, and tells its fellows."""

    def __init__(self, exchange: Exchange, home: Home, engine: Engine, pump: Callable[[Subscription], None]):
        self._exchange = exchange
        self._home = home
        self._engine = engine
        self._pump = pump
        self._waiting: list[tuple[Contact, Message]] = []
        self.slices = engine.cutter.slices
        self.again: Callable[[Contact, Message], None] = lambda _, __: None
        """Takes in a message that has waited for a record."""

    # --- telling ---------------------------------------------------------------------------------

    def tell(self, key: int, message: Message, tokens: tuple[int, ...] = ()) -> None:
        """Keep a message, and have all fellows keep it."""
        self._exchange.persist(message)
        for fellow in self._exchange.fellows(key) if self._exchange.replicated else ():
            self._exchange.send(fellow, message, tokens)

    def tell_all(self, key: int, message: Message, done: Callable[[], None]) -> None:
        """Do as :meth:`tell`, and call ``done`` when all fellows have it."""
        token = self._exchange.token(done)
        self.tell(key, message, (token,))
        self._exchange.release((token,))

    def record(self, subscription: Subscription) -> KeepSubscription:
        """Return the record of a subscription."""
        group = subscription.group
        assert group.plan is not None
        opener, opening = subscription.opened_by
        return KeepSubscription(
            group.identity, group.query, group.algorithm.value, group.per_event, group.plan.order, opener, opening,
            group.since_min, group.since_max, group.youngest, subscription.number, subscription.since,
            subscription.lease_seconds, subscription.subscriber, subscription.request, subscription.changed,
        )  # fmt: skip

    def changed(self, subscription: Subscription, tokens: tuple[int, ...] = ()) -> None:
        """Keep a record that is new or has changed, here and at the fellows."""
        subscription.changed = self._exchange.tick()
        self._home.changes += 1
        self.tell(subscription_home(subscription.number), self.record(subscription), tokens)

    def ended(self, number: int, group: int) -> None:
        """Tell that a subscription has ended, and the group if it was the last one (else 0)."""
        make = self._exchange.columns.column
        self.tell(subscription_home(number), EndSubscription(make([number]), make([group])))

    # --- being told ------------------------------------------------------------------------------

    def wait(self, sender: Contact, message: Message) -> None:
        """Keep a message until the record comes that it belongs to."""
        self._waiting.append((sender, message))
        if len(self._waiting) > WAITING_MAX:
            self._exchange.trace("answers-without-record", dropped=1)
            del self._waiting[0]

    def retry(self) -> None:
        """Take in again what has waited."""
        waiting, self._waiting = self._waiting, []
        for sender, message in waiting:
            self.again(sender, message)

    @property
    def waiting(self) -> int:
        """Messages that wait for a record."""
        return len(self._waiting)

    def keep_subscription(self, _: Contact, message: KeepSubscription) -> None:
        """Take in a record."""
        subscription, news = self._home.adopt(message, self._exchange.now)
        if subscription is None or not news:
            return
        subscription.cut_off = not self._is_there(subscription.subscriber)
        self._exchange.persist(message)
        self._exchange.clock = max(self._exchange.clock, message.since, message.changed)
        if self._waiting:
            self.retry()

    def _is_there(self, contact: Contact) -> bool:
        return self._exchange.cache.number(contact) >= 0

    def end_subscription(self, _: Contact, message: EndSubscription) -> None:
        """Take in ends."""
        news = False
        for number, group in zip(as_list(message.subscriptions), as_list(message.groups), strict=True):
            news = self._home.end(number, group) or news
            if group:
                self._engine.end_groups([group])
        if news:
            self._exchange.persist(message)

    def keep_answers(self, sender: Contact, message: KeepAnswers) -> None:
        """Take in answers of one subscription."""
        subscription = self._home.subscriptions.get(message.subscription)
        if subscription is None:
            if message.subscription not in self._home.ended:
                self.wait(sender, message)
            return
        if subscription.log.append(message.identity, message.born, message.bindings):
            self._home.changes += 1
            self._exchange.persist(message)
            self._pump(subscription)

    def keep_acknowledged(self, sender: Contact, message: KeepAcknowledged) -> None:
        """Take in what a subscriber is done with, or what was dropped."""
        subscription = self._home.subscriptions.get(message.subscription)
        if subscription is None:
            if message.subscription not in self._home.ended:
                self.wait(sender, message)
            return
        self._home.changes += 1
        if message.lost:
            subscription.log.lose(message.identity)
            self._exchange.persist(message)
        elif len(subscription.log.acknowledge(message.identity)):
            self._exchange.persist(message)


class HomeKind:
    """Records, answers, acknowledgements and ends as items, for repair and snapshots."""

    number = HOME

    def __init__(self, home: Home, copies: HomeCopies, exchange: Exchange):
        self._home, self._copies, self._exchange = home, copies, exchange
        self._places: list[tuple[int, int, int]] = []  # first place, subscription (0: an end), count of answers
        self._ends: list[tuple[int, int]] = []

    @property
    def version(self) -> int:
        """What changes when anything held does."""
        return self._home.changes

    def items(self) -> Items:
        """Return all: per subscription its record, then its answers; then the ends."""
        found_keys, found_ids = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        self._places = []
        first = 0
        for number, each in self._home.subscriptions.items():
            if each.opening and not each.changed:
                continue  # not recorded yet
            identities, done = (as_array(column) for column in each.log.state())
            mark = np.uint64(keys.fmix(number))
            answers = keys.item_identities(identities ^ mark, done.astype(np.uint64))
            record = keys.item_identity(number, each.changed, each.group.since_min, each.group.since_max)
            count = len(answers)
            found_keys.append(np.full(count + 1, subscription_home(number), np.uint64))
            found_ids += [np.array([record], np.uint64), answers]
            self._places.append((first, number, count))
            first += count + 1
        self._ends = list(self._home.ended.items())
        self._places.append((first, 0, len(self._ends)))
        found_keys.append(np.array([subscription_home(number) for number, _ in self._ends], np.uint64))
        found_ids.append(np.array([keys.item_identity(number, 1) for number, _ in self._ends], np.uint64))
        total = first + len(self._ends)
        return Items(np.concatenate(found_keys), np.concatenate(found_ids), np.arange(total, dtype=np.int64))

    def messages(self, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return what is at some places as messages: a record before what belongs to it, the done before the open."""
        make = self._exchange.columns.column
        for first, number, count in list(self._places):
            here = places[(places >= first) & (places <= first + count)] - first
            if not number:
                ends = [self._ends[place] for place in here.tolist() if place < count]
                if ends:
                    yield EndSubscription(make([each for each, _ in ends]), make([group for _, group in ends]))
                continue
            subscription = self._home.subscriptions.get(number)
            if subscription is None or not len(here):
                continue
            yield self._copies.record(subscription)
            done, lost, chunks = subscription.log.export([place - 1 for place in here.tolist() if place])
            if len(done):
                yield KeepAcknowledged(number, done)
            if len(lost):
                yield KeepAcknowledged(number, lost, lost=True)
            for chunk in chunks:
                yield from self._answers(number, chunk)

    def _answers(self, number: int, chunk: Chunk) -> Iterator[Message]:
        for start, stop in self._copies.slices(len(chunk), chunk.bindings):
            part = chunk.part(start, stop)
            yield KeepAnswers(number, part.identity, part.born, part.bindings)

