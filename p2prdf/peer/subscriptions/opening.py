"""Opening of subscriptions: the coordinator plans a query, advertises its indexes, stamps it and installs it.

A new query goes through four stages, each of which may wait for other peers:

1. *Rates*: owners count the triples of each pattern, so that the rarest pattern comes first.
2. *Advertisement*: every peer learns the indexes and keywords of the plan, so that it indexes triples accordingly.
3. *Stamp and installation*: the query is stored at the replicas of its first pattern (CQC: of all patterns), while
   the record goes to the other replicas of the coordinator (:mod:`p2prdf.peer.subscriptions.replication`).
4. The subscriber is told that the subscription is live.

An equal query joins the group at the third stage.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from typing import Final

from p2prdf import hlc, keys
from p2prdf.columns import Columns, as_list
from p2prdf.continuous.home import Group, Home, Subscription
from p2prdf.continuous.leaf import Leaf
from p2prdf.continuous.order import evaluation_order
from p2prdf.errors import Busy, QueryRefused
from p2prdf.peer.joins.index_advertisements import IndexAdvertisements
from p2prdf.peer.joins.keyword_index import KeywordIndex
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Component
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.subscriptions.replication import RecordReplication
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import word_parts_of
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Plan, constant_mask
from p2prdf.rdf.reach import Reach
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import (
    AdvertiseIndexes,
    AdvertiseKeywords,
    Contact,
    Groups,
    IndexQuery,
    Message,
    OpenSubscription,
    RatesRequest,
    RatesResponse,
    SubscriptionOpened,
    SubscriptionRefused,
)

_NO_HISTORY: Final = (
    "what was published before is kept only as far as standing queries needed it: this cluster runs with"
    " `indexes = on-demand`; nodes with `indexes = all`, the default, answer every query over everything published"
    " to them"
)
_NO_EVENTS: Final = (
    "a query per event has no history: nodes keep each triple once, not each of its publications; ask without"
    " per event, or only from now on"
)

_WORDS_SECONDS: Final = 60.0

__all__ = ["Opening", "opened_message", "rates_wanted", "steps_that_wait"]


class Opening(Component):
    """Openings in progress at a coordinator.

    ``begin`` begins to deliver a live subscription; ``wait`` holds a request that comes too early.
    """

    def __init__(
        self,
        messenger: Messenger,
        by_key: ByKey,
        home: Home,
        tables: Tables,
        dictionary: TermDictionary,
        *,
        indexes: IndexAdvertisements,
        words: KeywordIndex,
        records: RecordReplication,
        begin: Callable[[Subscription], None],
        wait: Callable[[Message], None],
    ):
        self._messenger = messenger
        self._by_key = by_key
        self._home = home
        self._tables = tables
        self._columns = tables.columns
        self._dictionary = dictionary
        self._indexes = indexes
        self._words = words
        self._records = records
        self._begin = begin
        self._wait = wait
        self._confirmed = messenger.config.fixed_roles
        self._confirmed_words: dict[int, None] = {}
        self._confirmed_at = 0
        """Stamp of the last confirmation of indexes or keywords by all peers."""
        self._planning: dict[int, tuple[Leaf, float]] = {}
        self._settling: list[tuple[float, int]] = []

    # --- opening ---------------------------------------------------------------------------------

    def open(self, sender: Contact, message: OpenSubscription) -> None:
        """Open a subscription."""
        if not self._by_key.at_owner(message.key, message, sender):
            return
        if not self._messenger.placement.speaks_for(message.key):
            self._wait(message)
            return
        known = self._home.opened(message.subscriber, message.request)
        if known is not None:
            if known.installed and not known.opening:
                self._by_key.reply(message.subscriber, opened_message(known, message.request))
            elif not known.installed:  # the primary that should have told has failed
                known.installed = known.opening = True
                self._make_live(known.group, [known], known.since)
            return
        group, new = self._home.open_group(message, self._messenger.tick())
        if any(each.request == message.request and each.subscriber == message.subscriber for each in group.waiting):
            return
        group.waiting.append(message)
        if new:
            self._begin_planning(group)
        elif group.planned:
            self._advertise(group)

    def _begin_planning(self, group: Group) -> None:
        try:
            for leaf in group.leaves:
                self._dictionary.intern_all(leaf.query.constants)
        except Busy as error:
            self._refuse(group, error)
            return
        for leaf in group.leaves:
            self._ask_rates(leaf)
        self._planned(group)

    def _ask_rates(self, leaf: Leaf) -> None:
        """Ask the owners of the keys of patterns how many triples they have under them."""
        questions = rates_wanted(leaf.query, self._dictionary, self._columns, leaf.identity, self._messenger.own)
        if not questions:
            self._plan(leaf)
            return
        self._planning[leaf.identity] = (leaf, self._messenger.now + self._messenger.config.rates_seconds)
        self.dirty = True
        leaf.unanswered = len(questions)
        for key, message in questions:
            self._by_key.to_owner(key, message)

    def _refuse(self, group: Group, error: Busy) -> None:
        for opening in group.waiting:
            self._by_key.reply(opening.subscriber, SubscriptionRefused(opening.request, error.code, str(error)))
        group.waiting.clear()
        self._home.drop(group)

    def rates(self, message: RatesResponse) -> None:
        """Take the count of an owner; plan when all have answered."""
        entry = self._planning.get(message.request)
        if entry is None:
            return
        leaf = entry[0]
        for position, count in zip(as_list(message.position), as_list(message.counts), strict=True):
            leaf.unanswered -= 1
            if count and 0 <= position < len(leaf.query.patterns):
                leaf.counts[position] = count - 1
        if leaf.unanswered <= 0:
            self._plan(leaf)
            self._planned(leaf.group)

    def _plan(self, leaf: Leaf) -> None:
        self._planning.pop(leaf.identity, None)
        order = evaluation_order(leaf.query, leaf.counts)
        leaf.plan = leaf.plan_in(order)

    def _planned(self, group: Group) -> None:
        """Continue with the next stage when all leaves have plans."""
        if not group.planned and all(leaf.plan is not None for leaf in group.leaves):
            group.planned = True
            self._advertise(group)

    # --- advertising -----------------------------------------------------------------------------

    def _advertise(self, group: Group) -> None:
        """Advertise the indexes and keywords of a plan to every peer, then install the query."""
        missing = group.roles & ~self._confirmed
        words = [each for each in self._words_of(group) if each not in self._confirmed_words]
        if not missing and not words:
            self._install(group, exact=False)
            return
        if not self._words.room_for(words):
            self._refuse(group, Busy("queries wait by too many words", retry_after=_WORDS_SECONDS))
            return
        gap = self._messenger.cache.gap()
        if gap is not None:  # the view has a gap
            self._messenger.park([gap], partial(self._advertise, group))
            return
        since = self._messenger.tick()
        told: list[Message] = []
        if missing:
            self._indexes.add(missing, since)
            told.append(AdvertiseIndexes(missing, since))
        if words:
            advertised = AdvertiseKeywords(self._columns.column(words, "uint32"), self._columns.full(len(words), since))
            self._words.add(advertised)
            told.append(advertised)

        def done() -> None:
            self._confirmed |= missing
            self._confirmed_words.update(dict.fromkeys(words))
            self._confirmed_at = self._messenger.tick()
            self._install(group, exact=True)

        token = self._messenger.token(done)
        for contact in self._messenger.cache.contacts():
            if contact.key != self._messenger.own.key:
                for message in told:
                    self._messenger.send(contact, message, (token,))
        self._messenger.release((token,))

    def _words_of(self, group: Group) -> list[int]:
        """Return the predicates qualified by keywords in the patterns of a query."""
        constants = [each for leaf in group.leaves for each in leaf.query.constants if word_parts_of(each) is not None]
        return self._dictionary.intern_all(dict.fromkeys(constants))

    # --- installing ------------------------------------------------------------------------------

    def _install(self, group: Group, *, exact: bool) -> None:
        """Stamp the waiting subscriptions and install the query at its owners."""
        waiting, group.waiting = group.waiting, []
        waiting = [each for each in waiting if self._home.opened(each.subscriber, each.request) is None]
        if not waiting:
            return
        messenger = self._messenger
        stamp = messenger.tick()
        now = hlc.floor(stamp)
        if exact or group.youngest >= now or self._confirmed_at >= now:
            now = hlc.Stamp(stamp)
        joins = bool(group.subscriptions)
        opened = []
        for opening in waiting:
            since = hlc.Stamp(opening.since) if 0 < opening.since < now else now
            roles = group.roles_of_the_past if group.windowed else group.roles if since < now else 0
            if roles & ~messenger.config.fixed_roles:
                reason = _NO_EVENTS if group.per_event and messenger.config.indexes == "all" else _NO_HISTORY
                refused = SubscriptionRefused(opening.request, QueryRefused.code, reason)
                self._by_key.reply(opening.subscriber, refused)
                continue
            try:
                opened.append(self._home.subscribe(group, opening, since, messenger.now, stamp))
            except Busy as error:
                self._by_key.reply(opening.subscriber, SubscriptionRefused(opening.request, error.code, str(error)))
        if opened:
            self._make_live(group, opened, min(each.since for each in opened) if joins else 0)
        elif not group.subscriptions:
            self._home.drop(group)

    def _make_live(self, group: Group, opened: list[Subscription], refresh: int) -> None:
        """Replicate the records of subscriptions, install their query, and tell the subscribers."""
        messenger = self._messenger
        if messenger.members.short_of_peers:
            messenger.wait_for_peers(partial(self._make_live, group, opened, refresh))
            return

        def live() -> None:
            for subscription in opened:
                self._tell_when_past(subscription)

        token = messenger.token(live, sparing=True)
        for subscription in opened:
            self._records.tell_subscription(subscription, (token,))
        self._let_wait(group, refresh, (token,))
        messenger.release((token,))

    def derive_again(self, subscription: Subscription) -> None:
        """Derive all solutions of a subscription again: some may have gone to other subscriptions of its group only.

        This happens when its coordinator was a peer that did not know it, because copies were lost or cut off.
        """
        if subscription.group.planned:
            group = subscription.group
            self._let_wait(group, hlc.FIRST if group.windowed else subscription.since, ())

    def _let_wait(self, group: Group, refresh: int, tokens: tuple[int, ...]) -> None:
        """Install a query at all replicas of the keys of its first pattern; in CQC, of all its patterns."""
        for leaf in group.leaves:
            assert leaf.plan is not None
            groups = self._columns_of(leaf)
            for step in steps_that_wait(leaf.plan):
                message = IndexQuery(leaf.plan, step, groups, refresh)
                for key in self.install_keys(leaf, step):
                    self._by_key.to_all(key, message, tokens)

    def _columns_of(self, leaf: Leaf) -> Groups:
        make, group = self._columns.column, leaf.group
        lease = hlc.from_seconds(self._messenger.now + self._messenger.config.group_lease_seconds)
        params = self._dictionary.intern_all(leaf.query.constants)
        return Groups(
            make([leaf.identity]), make([group.since_min]), make([group.since_max]), make([lease]),
            tuple(make([term], "uint32") for term in params),
        )  # fmt: skip

    def install_keys(self, leaf: Leaf, step: int) -> list[int]:
        """Return the ring keys under which the pattern of a step waits."""
        assert leaf.plan is not None
        at = leaf.plan.steps[step]
        if at.role == keys.ANY:
            return [int(keys.bucket_key(bucket)) for bucket in range(keys.BUCKETS)]
        hashes = [self._dictionary.hashes[term] for term in self._dictionary.intern_all(leaf.query.constants)]
        parts = [hashes[~slot] if slot < 0 else 0 for slot in at.pattern]
        return [int(keys.role_key(at.role, *parts))]

    def _tell_when_past(self, subscription: Subscription) -> None:
        """Tell the subscriber once the clocks of all peers are past the stamp of its subscription.

        A publication after that must get a later stamp at every peer: commit wait (Spanner, OSDI 2012), with the
        permitted clock skew.
        """
        since = subscription.since
        past = hlc.seconds(since) + (0.0 if since == hlc.floor(since) else 0.001)
        heapq.heappush(self._settling, (past + self._messenger.config.clock_skew_seconds, subscription.number))
        self.dirty = True
        self._tell_settled()

    def _tell_settled(self) -> None:
        while self._settling and self._settling[0][0] <= self._messenger.now:
            _, number = heapq.heappop(self._settling)
            subscription = self._home.subscriptions.get(number)
            if subscription is not None and subscription.opening:
                subscription.opening = False
                self._tell_opened(subscription)

    def _tell_opened(self, subscription: Subscription) -> None:
        self._by_key.reply(subscription.subscriber, opened_message(subscription, subscription.request))
        self._begin(subscription)  # also if it is delivered already: solutions that came during the opening follow now

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Plan queries without their late rates, and tell the subscribers of live subscriptions."""
        self._tell_settled()
        for leaf, due in list(self._planning.values()):
            if due <= self._messenger.now:
                self._plan(leaf)
                self._planned(leaf.group)

    @property
    def deadline(self) -> float | None:
        """The time of the next plan or message."""
        due = [at for _, at in self._planning.values()]
        if self._settling:
            due.append(self._settling[0][0])
        return min(due, default=None)


def rates_wanted(
    query: ConjunctiveQuery, dictionary: TermDictionary, columns: Columns, request: int, asker: Contact
) -> list[tuple[int, RatesRequest]]:
    """Return the questions for the order of the patterns of a query, each with the key of the owner that answers.

    There is none for one pattern, or without constants.  Raises Busy if the dictionary has no room for the constants.
    """
    wanted = [(at, mask) for at, pattern in enumerate(query.patterns) if (mask := constant_mask(pattern))]
    if len(query.patterns) == 1 or not wanted:
        return []
    terms = dictionary.intern_all(query.constants)
    hashes = dictionary.hashes
    questions = []
    for at, role in wanted:
        triple = [terms[~slot] if slot < 0 else terms[0] for slot in query.patterns[at]]
        key = int(keys.role_key(role, *(hashes[term] for term in triple)))
        position, roles, s, p, o = (columns.column([each], "uint32") for each in (at, role, *triple))
        questions.append((key, RatesRequest(request, asker, position, roles, s, p, o)))
    return questions


def opened_message(subscription: Subscription, request: int, asker: str = "") -> SubscriptionOpened:
    """Return the message that a subscription is live, with its query only where permissions are checked.

    ``asker``: the client that asked, unless it is the owner.
    """
    reach = subscription.group.reach if subscription.owner or asker else Reach()
    return SubscriptionOpened(
        request, subscription.number, subscription.since, subscription.lease_seconds, subscription.names,
        subscription.group.order, subscription.changed, subscription.epoch, reach.reads, reach.writes,
    )  # fmt: skip


def steps_that_wait(plan: Plan) -> range:
    """Return the installed steps: the first in CSBV, all in CQC."""
    return range(len(plan.steps) if plan.algorithm is Algorithm.CQC else 1)
