"""The home of subscriptions: where answers come together, once, and go out in order.

The home of a query is the owner of the hash of its canonical form, so equal queries meet here
and are evaluated once: they are one *group* with several subscriptions.  The home stamps each
subscription's ``since``, has the query installed, drops answers it has already seen, decides
which subscriptions an answer is owed to, and keeps each one's log until it is acknowledged.

Which subscriptions are owed an answer?  Those whose ``since`` is not after the oldest of its
triples (``oldest``).  An answer that comes again with a later ``oldest``, because one of its
triples was published again, is new just to the subscriptions in between: each subscription's log
knows what it has had, so the order in which answers come does not matter.

The stamp.  A subscription counts triples published in the millisecond of its stamp, as the
paper's pubT >= subscrT does; but if an answer is already recorded with such a young ``oldest``
(or the roles had to be advertised first), the exact clock is taken: it is after everything that
led to what is recorded, so no answer owed to the newcomer has gone by.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from p2prdf import keys
from p2prdf.columns import Column, Columns, as_list
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Plan, make_plan
from p2prdf.store.result_log import Chunk, ResultLog
from p2prdf.wire.messages import Contact, KeepSubscription, OpenSubscription

__all__ = [
    "GROUP_BITS", "SUBSCRIPTION_BITS", "Group", "Home", "Subscription", "group_home", "home_key",
    "subscription_home",
]  # fmt: skip

GROUP_BITS = 16
"""Low bits of a group's identity that tell its generations apart; the rest is its home key."""

ENDED_MAX = 100_000
"""Ended subscriptions that are remembered."""

SUBSCRIPTION_BITS = 20
"""Low bits of a subscription's number that tell those of one query apart."""


def home_key(query: ConjunctiveQuery, algorithm: Algorithm, *, per_event: bool = False) -> keys.Key:
    """Return the ring key of a query's home; equal for equal queries, whatever their variable names."""
    canonical = repr((
        query.patterns, query.constants, query.answer, query.distinct,
        [(f.text, f.variables) for f in query.filters], algorithm.value, per_event,
    ))  # fmt: skip
    return keys.Key(keys.text_key(canonical) >> SUBSCRIPTION_BITS << SUBSCRIPTION_BITS)


def group_home(group_id: int) -> int:
    """Return the ring key of a group's home."""
    return group_id >> GROUP_BITS << GROUP_BITS


def subscription_home(subscription: int) -> int:
    """Return the ring key of a subscription's home."""
    return subscription >> SUBSCRIPTION_BITS << SUBSCRIPTION_BITS


@dataclass(slots=True)
class Subscription:
    """One subscriber's interest in a group."""

    number: int
    group: Group
    subscriber: Contact
    request: int
    names: tuple[str, ...]
    since: int
    lease_seconds: float
    lease_until: float
    log: ResultLog
    opened_by: tuple[int, int]
    """The peer and the number of the request that opened it."""
    epoch: int = 0
    """Names the numbering of what is handed out now."""
    opening: bool = True
    """Not yet known to be installed at all its owners."""
    speaking: bool = False
    """Whether it is delivered from here: this peer is the primary of the home, and in step."""
    changed: int = 0
    """Stamp of the last change of its record; 0: not recorded yet."""
    adopted: bool = False
    """Known from another replica's record alone: perhaps not installed everywhere."""
    cut_off: bool = False
    """Its subscriber's peer is believed to be gone: nothing is sent."""


@dataclass(slots=True, eq=False)
class Group:
    """A canonical query with at least one subscription.

    ``plan`` is None while rates are being asked for; ``waiting`` are the openings that came
    meanwhile.  ``youngest`` is the largest ``oldest`` that an answer came with.
    """

    key: int
    identity: int
    query: ConjunctiveQuery
    algorithm: Algorithm
    per_event: bool
    plan: Plan | None = None
    waiting: list[OpenSubscription] = field(default_factory=list)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    youngest: int = 0
    since_min: int = 0
    since_max: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    unanswered: int = 0
    """Rates asked for and not told yet."""


class Home:
    """Groups and subscriptions that live at one peer.  Pure bookkeeping: the peer does the sending."""

    def __init__(
        self, columns: Columns, *, log_rows_max: int, log_characters_max: int = 1 << 62,
        characters_of: Callable[[tuple[Column, ...]], int] = lambda _: 0,
    ):  # fmt: skip
        """``characters_of`` estimates the text of the rows of some columns of terms."""
        self._columns = columns
        self._log_rows_max = log_rows_max
        self._log_characters_max = log_characters_max
        self._characters_of = characters_of
        self.groups: dict[int, Group] = {}
        self._by_identity: dict[int, Group] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self._opened: dict[tuple[int, int], int] = {}
        self._leases: list[tuple[float, int]] = []
        self._names = 0
        self._ended_groups: dict[int, None] = {}
        self.ended: dict[int, int] = {}
        """Subscriptions that have ended, the last ``ENDED_MAX``, and for each the group that ended with it, or 0."""
        self.changes = 0
        """Grows with everything that other replicas should know."""
        self.answers = 0
        self.repeated = 0

    def find(self, identity: int) -> Group | None:
        """Return the live group of this identity."""
        return self._by_identity.get(identity)

    def opened(self, subscriber: Contact, request: int) -> Subscription | None:
        """Return what an opening has led to, if it came before (it is sent again when in doubt)."""
        number = self._opened.get((subscriber.key, request))
        return None if number is None else self.subscriptions.get(number)

    def _name(self, stamp: int, bits: int) -> int:
        """Return the low bits of a new name: not among the last 65,000 of this home.

        A query may end and come again while messages of its former life are still under way.
        """
        if not self._names:
            self._names = keys.fmix(stamp)
        self._names += 1
        return self._names & ((1 << bits) - 1)

    def open_group(self, opening: OpenSubscription, stamp: int) -> tuple[Group, bool]:
        """Return the group of an equal query, or a new one (True), made at ``stamp``."""
        group = self.groups.get(opening.key)
        if group is not None:
            return group, False
        identity = group_home(opening.key) | self._name(stamp, GROUP_BITS)
        group = Group(
            opening.key, identity, opening.query, Algorithm(opening.algorithm), opening.per_event
        )
        self.groups[opening.key] = group
        self._by_identity[identity] = group
        return group, True

    def subscribe(self, group: Group, opening: OpenSubscription, since: int, now: float) -> Subscription:
        """Add a subscription to a group whose plan is known."""
        identity = subscription_home(opening.key) | self._name(since, SUBSCRIPTION_BITS)
        while identity in self.subscriptions:
            identity = subscription_home(opening.key) | self._name(since, SUBSCRIPTION_BITS)
        subscription = Subscription(
            identity, group, opening.subscriber, opening.request, opening.query.names, since, opening.lease_seconds,
            now + opening.lease_seconds, ResultLog(self._columns, self._log_rows_max, self._log_characters_max),
            (opening.subscriber.key, opening.request),
        )  # fmt: skip
        group.since_min = min(group.since_min, since) if group.subscriptions else since
        group.since_max = max(group.since_max, since)
        group.subscriptions[identity] = subscription
        self.subscriptions[identity] = subscription
        self._opened[subscription.opened_by] = identity
        heapq.heappush(self._leases, (subscription.lease_until, identity))
        return subscription

    def adopt(self, record: KeepSubscription, now: float) -> tuple[Subscription | None, bool]:
        """Take in a record of another replica; return the subscription (None: ended), and whether that is news."""
        if record.subscription in self.ended or record.group in self._ended_groups:
            return None, False
        group = self._by_identity.get(record.group)
        if group is None:
            algorithm = Algorithm(record.algorithm)
            plan = make_plan(record.query, record.order, algorithm, per_event=record.per_event)
            group = Group(
                group_home(record.group), record.group, record.query, algorithm, record.per_event, plan,
                since_min=record.since_min,
            )  # fmt: skip
            self.groups.setdefault(group.key, group)
            self._by_identity[record.group] = group
        before = (group.since_min, group.since_max)
        group.since_min = min(group.since_min, record.since_min)
        group.since_max = max(group.since_max, record.since_max)
        group.youngest = max(group.youngest, record.youngest)
        news = before != (group.since_min, group.since_max)
        known = self.subscriptions.get(record.subscription)
        if known is None:
            known = Subscription(
                record.subscription, group, record.subscriber, record.request, record.query.names, record.since,
                record.lease_seconds, now + record.lease_seconds,
                ResultLog(self._columns, self._log_rows_max, self._log_characters_max),
                (record.opener, record.opening), opening=False, adopted=True,
            )  # fmt: skip
            group.subscriptions[known.number] = self.subscriptions[known.number] = known
            self._opened[known.opened_by] = known.number
            heapq.heappush(self._leases, (known.lease_until, known.number))
        if record.changed > known.changed:
            known.changed, known.subscriber, known.request = record.changed, record.subscriber, record.request
            news = True
        self.changes += news
        return known, news

    def end(self, number: int, group: int) -> bool:
        """Take in that a subscription has ended, and with it a group (or 0); return whether that is news."""
        if number in self.ended:
            return False
        self.close(number)
        if group:
            known = self._by_identity.get(group)
            if known is not None:
                self.drop(known)
        self.note_end(number, group)
        return True

    def note_end(self, number: int, group: int) -> None:
        """Remember that a subscription has ended, and with it a group, or 0."""
        self.changes += 1
        self.ended[number] = group
        if group:
            self._ended_groups[group] = None
        if len(self.ended) > ENDED_MAX:
            gone = self.ended.pop(next(iter(self.ended)))
            self._ended_groups.pop(gone, None)

    def has_ended(self, group: int) -> bool:
        """Return whether a group is known to have ended."""
        return group in self._ended_groups

    def renew(self, number: int, now: float) -> None:
        """Let a subscription live for another lease, whose primary is another peer."""
        subscription = self.subscriptions[number]
        subscription.lease_until = now + subscription.lease_seconds
        heapq.heappush(self._leases, (subscription.lease_until, number))

    def close(self, number: int) -> Group | None:
        """End a subscription; return its group if that was the last one."""
        subscription = self.subscriptions.pop(number, None)
        if subscription is None:
            return None
        self._opened.pop(subscription.opened_by, None)
        group = subscription.group
        del group.subscriptions[number]
        if group.subscriptions or group.waiting:
            return None
        self.drop(group)
        return group

    def drop(self, group: Group) -> None:
        """Forget a group."""
        if self.groups.get(group.key) is group:
            del self.groups[group.key]
        self._by_identity.pop(group.identity, None)

    def expired(self, now: float) -> list[int]:
        """Return the subscriptions whose lease ran out."""
        found = []
        while self._leases and self._leases[0][0] <= now:
            _, number = heapq.heappop(self._leases)
            subscription = self.subscriptions.get(number)
            if subscription is None:
                continue
            if subscription.lease_until <= now:
                found.append(number)
            else:  # renewed meanwhile: look again then
                heapq.heappush(self._leases, (subscription.lease_until, number))
        return found

    @property
    def deadline(self) -> float | None:
        """When to look for leases that ran out."""
        return self._leases[0][0] if self._leases else None

    def record(
        self, group: Group, identity: Column, oldest: Column, born: Column, bindings: tuple[Column, ...]
    ) -> list[Subscription]:
        """Take answers in; return the subscriptions that got something new in their logs."""
        count = len(identity)
        if not count:
            return []
        self.answers += count
        self.changes += 1
        oldests = as_list(oldest)
        group.youngest = max(group.youngest, max(oldests))
        last = min(oldests)
        characters = self._characters_of(bindings)
        touched = []
        most = 0
        for subscription in group.subscriptions.values():
            if last >= subscription.since:
                new = subscription.log.append(identity, born, bindings, characters)
            else:
                index = self._columns.column([at for at in range(count) if oldests[at] >= subscription.since], "int64")
                take = self._columns.take
                new = subscription.log.append(
                    take(identity, index), take(born, index), tuple(take(column, index) for column in bindings),
                    characters * len(index) // count,
                )  # fmt: skip
            if new:
                touched.append(subscription)
                most = max(most, new)
        self.repeated += count - most
        return touched

    def chunks(self, subscription: Subscription, *, window: int, chunk_max: int) -> Iterable[Chunk]:
        """Hand out what a subscription may be told now."""
        return subscription.log.take(window, chunk_max)
