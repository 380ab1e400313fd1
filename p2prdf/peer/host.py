"""The home side of a peer: its subscriptions from their opening to their end.

Opening is told in :mod:`p2prdf.peer.opening`, delivering in :mod:`p2prdf.peer.delivery`; here is what
holds them together, how subscriptions and groups end, and what holders of their rows ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.continuous.home import Home, subscription_home
from p2prdf.peer.by_key import ByKey
from p2prdf.peer.delivery import Delivery
from p2prdf.peer.engine import Engine
from p2prdf.peer.exchange import Exchange
from p2prdf.peer.opening import Opening
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import (
    Answers,
    CloseSubscription,
    Contact,
    EndSubscription,
    GetRates,
    GroupLeases,
    GroupsGone,
    KeepAcknowledged,
    KeepAnswers,
    KeepGroups,
    KeepSubscription,
    Message,
    Rates,
    SubscriptionClosed,
)

__all__ = ["Host"]


class Host:
    """Queries and subscriptions whose home is this peer."""

    def __init__(
        self,
        exchange: Exchange,
        engine: Engine,
        tables: Tables,
        dictionary: TermDictionary,
        to_self: Callable[[Message], None],
        add_roles: Callable[[int, int], None],
        draw: Callable[[int], int],
    ):
        """``draw`` returns so many random bits."""
        self._exchange = exchange
        self._engine = engine
        self._tables = tables
        self._columns = tables.columns
        self.home = Home(tables.columns, log_rows_max=exchange.config.answers_pending_max)
        self._by_key = ByKey(exchange, to_self)
        self._delivery = Delivery(exchange, self._by_key, self.home, engine, draw)
        self._opening = Opening(
            exchange, self._by_key, self.home, tables, dictionary, self._delivery.copies,
            add_roles=add_roles, begin=self._delivery.begin,
        )  # fmt: skip
        self.copies = self._delivery.copies
        self.view_changed = self._delivery.view_changed
        self.at_owner, self.to_owner, self.reply = self._by_key.at_owner, self._by_key.to_owner, self._by_key.reply
        self.open = self._opening.open
        self.answers, self.local_answers = self._delivery.answers, self._delivery.local_answers
        self.delivered, self.attach, self.renew = (
            self._delivery.delivered, self._delivery.attach, self._delivery.renew,
        )  # fmt: skip
        self.contact_lost, self.contact_back = self._delivery.contact_lost, self._delivery.contact_back

    # --- rates -----------------------------------------------------------------------------------

    def rates(self, message: Rates) -> None:
        """Note what an owner counted."""
        self._opening.rates(message)

    def count_rates(self, message: GetRates, indexed: int, *, sub_keys: int) -> None:
        """Answer how many triples there are under the parts asked for: what this peer holds of so many equal shares."""
        counts = [
            self._tables.count(role, s, p, o) * sub_keys + 1 if indexed >> role & 1 else 0
            for role, s, p, o in zip(
                *(as_list(column) for column in (message.roles, message.s, message.p, message.o)), strict=True
            )
        ]
        self.reply(message.asker, Rates(message.request, message.position, self._columns.column(counts)))

    # --- closing ---------------------------------------------------------------------------------

    def close(self, sender: Contact, message: CloseSubscription) -> None:
        """End a subscription."""
        if not self._by_key.at_owner(subscription_home(message.subscription), message, sender):
            return
        self.end(message.subscription)
        self._by_key.reply(message.subscriber, SubscriptionClosed(message.request, message.subscription))

    def end(self, number: int) -> None:
        """End a subscription, and its group if it was the last one."""
        known = self.home.subscriptions.get(number)
        group = self.home.close(number)
        if known is not None and known.changed:
            ended = 0 if group is None else group.identity
            self.home.note_end(number, ended)
            self.copies.ended(number, ended)
        if group is None or group.plan is None:
            return
        self._engine.end_groups([group.identity])
        last = len(group.plan.steps) if group.algorithm is Algorithm.CQC else 1
        gone = GroupsGone(self._columns.column([group.identity]))
        for step in range(last):
            for key in self._opening.install_keys(group.plan, step, group):
                self._by_key.to_all(key, gone)

    # --- leases of groups ------------------------------------------------------------------------

    def keep(self, sender: Contact, message: KeepGroups) -> None:
        """Tell a holder which groups still live."""
        alive: list[int] = []
        gone: list[int] = []
        for identity in as_list(message.groups):
            one = replace(message, groups=self._columns.column([identity]))
            if self._by_key.at_owner(subscription_home(identity), one, sender):
                lives = self.home.find(identity) or not (self._exchange.in_step() or self.home.has_ended(identity))
                (alive if lives else gone).append(identity)
        lease = hlc.from_seconds(self._exchange.now + self._exchange.config.group_lease_seconds)
        if alive:
            self._by_key.reply(
                message.holder, GroupLeases(self._columns.column(alive), self._columns.column([lease] * len(alive)))
            )
        if gone:
            self._by_key.reply(message.holder, GroupsGone(self._columns.column(gone)))

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Do what is due: go on with openings, end what nobody renewed."""
        self._opening.wake()
        for number in self.home.expired(self._exchange.now):
            if self._exchange.replicated and not self.home.subscriptions[number].speaking:
                self.home.renew(number, self._exchange.now)  # its primary decides
                continue
            self._exchange.trace("subscription-expired", subscription=number)
            self.end(number)

    # --- after a restart -------------------------------------------------------------------------

    def restore(self, message: Message) -> bool:
        """Take back what was kept of a home; False if it is not of one."""
        own = self._exchange.own
        match message:
            case KeepSubscription():
                self.copies.keep_subscription(own, message)
            case KeepAnswers():
                self.copies.keep_answers(own, message)
            case KeepAcknowledged():
                self.copies.keep_acknowledged(own, message)
            case EndSubscription():
                self.copies.end_subscription(own, message)
            case Answers():
                self._delivery.take(own, message)
            case _:
                return False
        return True

    @property
    def deadline(self) -> float | None:
        """When something is due."""
        due = [at for at in (self._opening.deadline, self.home.deadline) if at is not None]
        return min(due, default=None)
