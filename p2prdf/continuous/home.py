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

Replicas.  Each replica of a home keeps all of this.  Only one of them, the primary, makes subscriptions, delivers
and ends them; the others take in its *records*.  All that is kept grows only: subscriptions and answers are added,
answers become acknowledged, subscriptions become ended and stay so.  So records may come in any order and more
than once, from the primary, from repair or from a former life.  The one thing that changes, where a subscription
is delivered, is stamped, and the later stamp counts.

Standing queries that are more than conjunctive (:mod:`p2prdf.rdf.algebra`) have a group of several *leaves*: each is
evaluated in the network as a conjunctive query, under an identity of its own, and its answers are kept here for as long
as they are true.  What follows from them is worked out where the subscription is delivered from
(:mod:`p2prdf.peer.evaluation`), and is told by the same logs.

Ended names are remembered for a day, so that a replica that was away cannot bring a subscription
back.  One that was away for longer brings back what will end again with its lease.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf import hlc, keys
from p2prdf.columns import Column, Columns, as_list
from p2prdf.continuous.contents import Contents
from p2prdf.continuous.counts import Mark
from p2prdf.continuous.ends import Ends
from p2prdf.continuous.leaf import Change, CountedAnswers, ElementAnswers, Leaf, LeafAnswers
from p2prdf.errors import Busy, RemoteProtocolError
from p2prdf.hlc import GONE
from p2prdf.rdf.algebra import LEAVES_MAX, CountWindow, StandingQuery
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.reach import Reach, reach_of
from p2prdf.store.result_log import Chunk, ResultLog, withdrawals
from p2prdf.wire.messages import Contact, KeepSubscription, OpenSubscription, Query

if TYPE_CHECKING:
    from p2prdf.continuous.evaluation import Evaluation

__all__ = [
    "GROUP_BITS", "SUBSCRIPTION_BITS", "Group", "Home", "Known", "Subscription", "group_home", "group_of", "home_key",
    "subscription_home",
]  # fmt: skip

GROUP_BITS = 20
"""Low bits of a leaf's identity that tell generations of its group apart, and below these leaves."""
LEAF_BITS = (LEAVES_MAX - 1).bit_length()
"""Low bits that tell the leaves of a group apart; a group's own identity is that of its first leaf."""

SUBSCRIPTION_BITS = 20
"""Low bits of a subscription's number that tell those of one query apart."""
LEFT_MAX = 4096
"""So many groups are remembered that have not ended, though no subscription of them is known,"""
LEFT_ANSWERS_MAX = 100_000
"""and together so many answers of their leaves."""
_LOOK_SECONDS = 0.1
"""A subscription whose lease ran out is looked at again no sooner, however short its lease is."""


class Known(enum.IntEnum):
    """What a replica knows of a group or subscription."""

    UNKNOWN = 0
    """Nothing, although it has compared what it keeps with others."""
    UNSURE = 1
    """Nothing yet."""
    LIVES = 2
    ENDED = 3
    LEFT = 4
    """Of a group, no subscription any more, and not that it has ended."""


def home_key(query: Query, algorithm: Algorithm, *, per_event: bool = False, salt: int = 0) -> keys.Key:
    """Return the ring key of a query's home; equal for equal queries of equal salt, whatever their variable names."""
    return _home_key(_canonical(query, algorithm, salt, per_event=per_event))


def _home_key(canonical: str) -> keys.Key:
    return keys.Key(keys.text_key(canonical) >> SUBSCRIPTION_BITS << SUBSCRIPTION_BITS)


def _canonical(query: Query, algorithm: Algorithm, salt: int, *, per_event: bool) -> str:
    """Spell what is the same for queries that are evaluated together, and for no others."""
    if isinstance(query, StandingQuery):
        from p2prdf.rdf.standing.form import canonical_bytes  # it takes SPARQL's grammar along: only when it is needed

        canonical = repr((canonical_bytes(query), algorithm.value, per_event))
    else:
        canonical = repr((
            query.patterns, query.constants, query.answer, query.distinct,
            [(f.text, f.variables) for f in query.filters], algorithm.value, per_event,
            *([int(query.concludes)] if query.concludes else ()),
        ))  # fmt: skip
    return f"{canonical} {salt}" if salt else canonical


def _digest(canonical: str) -> bytes:
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _no_answers(query: StandingQuery, number: int) -> LeafAnswers:
    """Return what holds the answers of a leaf, empty."""
    window, report = query.windows[number], query.report
    if isinstance(window, CountWindow):
        return CountedAnswers(window)
    if window is not None and report is not None:
        return ElementAnswers(window, report.every)
    return LeafAnswers()


def _answers_of_leaves(group: Group) -> int:
    return sum(len(leaf.answers) for leaf in group.leaves if leaf.answers is not None)


def group_home(group_id: int) -> int:
    """Return the ring key of the home of a group, or of one of its leaves."""
    return group_id >> GROUP_BITS << GROUP_BITS


def group_of(leaf: int) -> int:
    """Return the identity of the group of a leaf."""
    return leaf >> LEAF_BITS << LEAF_BITS


def subscription_home(subscription: int) -> int:
    """Return the ring key of a subscription's home."""
    return subscription >> SUBSCRIPTION_BITS << SUBSCRIPTION_BITS


@dataclass(slots=True, eq=False)
class Subscription:
    """One subscriber's interest in a group."""

    number: int
    group: Group
    subscriber: Contact
    request: int
    """By which it was opened or attached at its subscriber's peer."""
    names: tuple[str, ...]
    since: int
    lease_seconds: float
    lease_until: float
    log: ResultLog
    opened_by: tuple[int, int]
    """The peer and the number of the request that opened it."""
    changed: int
    """Stamps where it is delivered."""
    slot: int
    """Names it among the leaves and subscriptions of this peer."""
    contents: Contents | None
    """What it was told and is still true; None if its query is conjunctive."""
    owner: str = ""
    """The client that opened it; "" if nobody was asked who it is."""
    reported: int = -1
    """Of a query with windows: the event time (ms) up to which reports are made and kept, or not asked for."""
    counted: int = 0
    """Of one with a window by count: the number of the last of these reports,"""
    last: int = 0
    """and a hash of its last element's triple."""
    evaluation: Evaluation | None = None
    """Of a query that is not conjunctive, while it is evaluated here."""
    epoch: int = 0
    """Names the numbering of what is handed out now."""
    opening: bool = False
    """Not yet known to be installed at all its owners."""
    installed: bool = False
    """Whether this peer has seen to it, in this life, that it is installed."""
    delivered: bool = False
    """Whether this peer hands out its answers."""
    until: float = 0.0
    """If another is to hand them out now: until when this peer goes on, lest nobody does meanwhile."""
    cut_off: bool = False
    """Its subscriber's peer is believed to be gone: nothing is sent."""


    def may(self, client: str) -> bool:
        """Tell whether a client may have to do with it; "": nobody asks who it is."""
        return not client or not self.owner or client == self.owner

    @property
    def mark(self) -> Mark:
        """How far reports are that are made and kept, or not asked for."""
        return Mark(self.reported, self.counted, self.last)


@dataclass(slots=True, eq=False)
class Group:
    """A canonical query with at least one subscription.

    ``planned``: its leaves have plans.  Rates are asked for before; ``waiting`` are the openings that came
    meanwhile.  ``youngest`` is the largest ``oldest`` that an answer came with.
    """

    key: int
    identity: int
    query: Query
    algorithm: Algorithm
    per_event: bool
    salt: int = 0
    digest: bytes = b""
    """Of the canonical query, long enough to be no other's: two queries may share the few bits of their home's key."""
    leaves: list[Leaf] = field(default_factory=list)
    planned: bool = False
    waiting: list[OpenSubscription] = field(default_factory=list)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    youngest: int = 0
    recorded: int = 0
    """The largest ``oldest`` of the answers that were recorded here as they were derived."""
    since_min: int = 0
    since_max: int = 0
    looks: int = 0
    """How often it was looked at since it was left."""
    last: KeepSubscription | None = None
    """The record of the subscription that was the last one known here, if it was left and its plans were known."""
    _reach: Reach | None = None

    @property
    def reach(self) -> Reach:
        """The graphs that its query is about."""
        if self._reach is None:
            self._reach = reach_of(self.query)
        return self._reach

    @property
    def order(self) -> tuple[int, ...]:
        """The patterns of all leaves in order of evaluation, one leaf after the other, by position in all of them."""
        order: list[int] = []
        for leaf in self.leaves:
            assert leaf.plan is not None
            first = len(order)
            order += [first + position for position in leaf.plan.order]
        return tuple(order)

    @property
    def roles(self) -> int:
        """The roles under which triples must be indexed for it."""
        return self._roles_of(self.leaves)

    @property
    def windowed(self) -> bool:
        """Whether it has windows of streams.  Then all that is no stream counts from the beginning on."""
        return any(leaf.window is not None for leaf in self.leaves)

    @property
    def roles_of_the_past(self) -> int:
        """The roles under which what was published before counts, whenever subscriptions begin."""
        return self._roles_of(leaf for leaf in self.leaves if leaf.window is None) if self.windowed else 0

    @staticmethod
    def _roles_of(leaves: Iterable[Leaf]) -> int:
        roles = 0
        for leaf in leaves:
            assert leaf.plan is not None
            roles |= leaf.plan.roles
        return roles


class Home:
    """Groups and subscriptions kept at one peer.  Pure bookkeeping: the peer does the sending."""

    def __init__(
        self, columns: Columns, *, log_rows_max: int, log_characters_max: int = 1 << 62,
        characters_of: Callable[[tuple[Column, ...]], int] = lambda _: 0, own: int = 0,
    ):  # fmt: skip
        """``characters_of`` estimates the text of the rows of some columns of terms; ``own`` is its peer's key."""
        self._columns = columns
        self._log_rows_max = log_rows_max
        self._log_characters_max = log_characters_max
        self._characters_of = characters_of
        self._own = own
        self._joined: dict[bytes, Group] = {}
        """By digest of the query: the group that new subscriptions of it join."""
        self._by_identity: dict[int, Group] = {}
        self.left: dict[int, Group] = {}
        """Groups that have not ended as far as known, though no subscription is known here any more; oldest first."""
        self._left_answers = 0
        self.subscriptions: dict[int, Subscription] = {}
        self.by_slot: dict[int, Subscription | Leaf] = {}
        self.ends = Ends()
        self._opened: dict[tuple[int, int], int] = {}
        self._leases: list[tuple[float, int]] = []
        self._names = 0
        self._slots = 0
        self.version = 0
        """Changes with everything that other replicas should know."""
        self.answers = 0
        self.repeated = 0
        self._dropped_before = 0
        """Answers dropped of subscriptions that have ended."""

    # --- finding ---------------------------------------------------------------------------------

    def find(self, identity: int) -> Group | None:
        """Return the live group of this identity, or of a leaf of this identity."""
        return self._by_identity.get(group_of(identity))

    def leaf(self, identity: int) -> Leaf | None:
        """Return the leaf of this identity, if its group lives."""
        group, number = self.find(identity), identity & (1 << LEAF_BITS) - 1
        return None if group is None or number >= len(group.leaves) else group.leaves[number]

    def opened(self, subscriber: Contact, request: int) -> Subscription | None:
        """Return what an opening has led to, if it came before (it is sent again when in doubt)."""
        number = self._opened.get((subscriber.key, request))
        return None if number is None else self.subscriptions.get(number)

    def known(self, name: int, *, subscription: bool) -> Known:
        """Return what is known of a group or subscription here."""
        if not subscription:
            name = group_of(name)
        if name in (self.subscriptions if subscription else self._by_identity):
            return Known.LIVES
        return Known.ENDED if self.ends.has(name, subscription=subscription) else Known.UNKNOWN

    # --- making ----------------------------------------------------------------------------------

    def _name(self, home: int, stamp: int, bits: int, *, subscription: bool) -> int:
        """Return a new name: none that was used lately, and none that is remembered to have ended.

        A query may end and come again while messages of its former life are still under way.  And another peer may be
        its home in another part of the network, and have begun to give names in the same millisecond.  Raises Busy if
        all names of this home are in use or remembered.
        """
        if not self._names:
            self._names = keys.fmix(stamp ^ self._own)
        for _ in range(1 << bits):
            self._names += 1
            number = self._names & ((1 << bits) - 1)
            name = home | number << (0 if subscription else LEAF_BITS)
            if self.known(name, subscription=subscription) is Known.UNKNOWN and name not in self.left:
                return name
        raise Busy("this query was left and ended too often today", retry_after=3600)

    def open_group(self, opening: OpenSubscription, stamp: int) -> tuple[Group, bool]:
        """Return the group of an equal query, or a new one (True), made at ``stamp``."""
        algorithm = Algorithm(opening.algorithm)
        canonical = _canonical(opening.query, algorithm, opening.salt, per_event=opening.per_event)
        group = self._joined.get(_digest(canonical))
        if group is not None:
            return group, False
        identity = self._name(group_home(opening.key), stamp, GROUP_BITS - LEAF_BITS, subscription=False)
        group = self._new_group(
            canonical, identity, opening.query, algorithm, opening.salt, per_event=opening.per_event
        )
        self._joined[group.digest] = group
        return group, True

    def _new_group(
        self, canonical: str, identity: int, query: Query, algorithm: Algorithm, salt: int, *, per_event: bool
    ) -> Group:  # fmt: skip
        group = Group(group_home(identity), identity, query, algorithm, per_event, salt, _digest(canonical))
        if isinstance(query, StandingQuery):
            for number, each in enumerate(query.leaves):
                window, answers = query.windows[number], _no_answers(query, number)
                leaf = Leaf(group, identity + number, each, answers=answers, window=window, slot=self._slot())
                group.leaves.append(leaf)
                self.by_slot[leaf.slot] = leaf
        else:
            group.leaves.append(Leaf(group, identity, query))
        self._by_identity[identity] = group
        return group

    def _slot(self) -> int:
        self._slots += 1
        return self._slots

    def subscribe(
        self, group: Group, opening: OpenSubscription, since: int, now: float, stamp: int = 0
    ) -> Subscription:  # fmt: skip
        """Add a subscription to a group whose plans are known, at ``stamp`` (``since`` if that is 0).

        Raises Busy.
        """
        opened = stamp or since
        number = self._name(subscription_home(opening.key), opened, SUBSCRIPTION_BITS, subscription=True)
        first = hlc.FIRST if group.windowed else since
        group.since_min = min(group.since_min, first) if group.subscriptions else first
        group.since_max = max(group.since_max, since)
        opened_by = (opening.subscriber.key, opening.request)
        subscription = self._add(
            group, number, opening.subscriber, opening.request, opening.query.names, since,
            opening.lease_seconds, opened_by, opened, now, opening.owner,
        )  # fmt: skip
        subscription.opening = subscription.installed = True
        return subscription

    def _add(
        self, group: Group, number: int, subscriber: Contact, request: int, names: tuple[str, ...], since: int,
        lease_seconds: float, opened_by: tuple[int, int], changed: int, now: float, owner: str,
    ) -> Subscription:  # fmt: skip
        query = group.query
        contents = Contents(reports=query.is_stream) if isinstance(query, StandingQuery) else None
        subscription = Subscription(
            number, group, subscriber, request, names, since, lease_seconds, now + lease_seconds,
            ResultLog(self._columns, self._log_rows_max, self._log_characters_max),
            opened_by, changed, self._slot(), contents, owner,
        )  # fmt: skip
        if group.windowed and since != hlc.FIRST:
            subscription.reported = hlc.seconds_ms(since)
        group.subscriptions[number] = subscription
        self.subscriptions[number] = subscription
        self._forget_reported(group)
        self.by_slot[subscription.slot] = subscription
        self._opened[opened_by] = number
        self.version += 1
        heapq.heappush(self._leases, (subscription.lease_until, number))
        return subscription

    def reported(self, subscription: Subscription, upto: int, number: int = 0, last: int = 0) -> bool:
        """Note up to which event time (ms) reports of a subscription are made; return whether that is news.

        ``number`` and ``last``: those of the last report, and of its last element, where windows are by count.
        """
        if (upto, number) <= (subscription.reported, subscription.counted):
            return False
        subscription.reported, subscription.counted, subscription.last = upto, number, last
        self.version += 1
        self._forget_reported(subscription.group)
        return True

    @property
    def windowed(self) -> list[Group]:
        """The groups of queries with windows that somebody is subscribed to."""
        return [group for group in self._by_identity.values() if group.windowed]

    def _forget_reported(self, group: Group) -> None:
        """Let the leaves of a query with windows forget what no subscription's next report needs."""
        if group.windowed:
            upto = min(each.reported for each in group.subscriptions.values())
            for leaf in group.leaves:
                if isinstance(leaf.answers, ElementAnswers):
                    leaf.answers.reported(upto)

    # --- records ---------------------------------------------------------------------------------

    def record_of(self, subscription: Subscription) -> KeepSubscription:
        """Return what another replica needs to know of a subscription, but for its answers."""
        group = subscription.group
        query = dataclasses.replace(group.query, names=subscription.names)
        return KeepSubscription(
            group.identity, query, group.algorithm.value, group.per_event, group.order, *subscription.opened_by,
            group.since_min, group.since_max, group.youngest, subscription.number, subscription.since,
            subscription.lease_seconds, subscription.subscriber, subscription.request, subscription.changed,
            group.salt, subscription.owner,
        )  # fmt: skip

    def keep(self, record: KeepSubscription, now: float) -> tuple[Subscription | None, bool]:
        """Take in a record; return its subscription, and whether anything in it was news here.

        None if the subscription, or its group, is ended.  Raises RemoteProtocolError if it belongs to another query.
        """
        if self.ends.has(record.subscription, subscription=True) or self.ends.has(record.group, subscription=False):
            return None, False
        group = self._by_identity.get(record.group) or self._group_of(record)
        first = not group.subscriptions
        group.since_min = record.since_min if first else min(group.since_min, record.since_min)
        group.since_max = max(group.since_max, record.since_max)
        group.youngest = max(group.youngest, record.youngest)
        held = self.subscriptions.get(record.subscription)
        if held is None:
            return self._add(
                group, record.subscription, record.subscriber, record.request, record.query.names, record.since,
                record.lease_seconds, (record.opener, record.opening), record.changed, now, record.owner,
            ), True  # fmt: skip
        if record.changed <= held.changed:
            return held, False
        held.subscriber, held.request, held.changed = record.subscriber, record.request, record.changed
        self.version += 1
        return held, True

    def comes_late(self, record: KeepSubscription) -> bool:
        """Return whether answers may have been recorded here for others that count for an unknown subscription, too."""
        left = self.left.get(record.group)
        group = left or self._by_identity.get(record.group)
        if group is None or isinstance(group.query, StandingQuery):  # what leaves answered is kept whoever is owed it
            return False
        return record.subscription not in self.subscriptions and bool(left or group.subscriptions) and (
            record.since <= group.recorded
        )  # fmt: skip

    def _group_of(self, record: KeepSubscription) -> Group:
        """Return a new group as a record tells it."""
        algorithm = Algorithm(record.algorithm)
        canonical = _canonical(record.query, algorithm, record.salt, per_event=record.per_event)
        if not _home_key(canonical) == subscription_home(record.subscription) == subscription_home(record.group):
            raise RemoteProtocolError(f"subscription {record.subscription:016x} is recorded for another query")
        if record.group != group_of(record.group):
            raise RemoteProtocolError(f"{record.group:016x} is no group's identity")
        left = self.forget_left(record.group)
        if left is not None:
            self._by_identity[left.identity] = left
            self._joined.setdefault(left.digest, left)
            self.by_slot.update((leaf.slot, leaf) for leaf in left.leaves if leaf.answers is not None)
            return left
        group = self._new_group(
            canonical, record.group, record.query, algorithm, record.salt, per_event=record.per_event
        )
        first = 0
        for leaf in group.leaves:
            count = len(leaf.query.patterns)
            order = [position - first for position in record.order[first : first + count]]
            leaf.plan = leaf.plan_in(order)
            first += count
        group.planned = True
        self._joined.setdefault(group.digest, group)
        return group

    def deliver_to(self, subscription: Subscription, subscriber: Contact, request: int, stamp: int) -> None:
        """Note that a subscription is delivered to a peer from now on, as it asked by ``request``."""
        subscription.subscriber, subscription.request = subscriber, request
        subscription.changed = max(stamp, subscription.changed + 1)
        self.version += 1

    # --- ending ----------------------------------------------------------------------------------

    def close(self, number: int, stamp: int, *, ends_group: bool = True) -> Group | None:
        """End a subscription; return its group if that was the last one, which ends it too.

        If another of it may be known elsewhere it is not ended (``ends_group``), but only forgotten here.
        """
        subscription = self._forget(number)
        if subscription is None:
            return None
        self.ends.add(number, stamp, subscription=True)
        group = subscription.group
        if group.subscriptions or group.waiting:
            return None
        if ends_group:
            self.drop(group)
            self.ends.add(group.identity, stamp, subscription=False)
        else:
            self._leave(group)
        return group

    def take_end(self, name: int, stamp: int, *, subscription: bool) -> list[Subscription]:
        """Note that another replica ended something; return subscriptions that are left without their group.

        There are such only if two replicas took themselves for the primary, and one ended the group while the
        other let somebody join it.  Their rows are gone, so all that can be done is to tell.
        """
        self.ends.add(name, stamp, subscription=subscription)
        self.version += 1
        if subscription:
            held = self._forget(name)
            if held is not None and not held.group.subscriptions and not held.group.waiting:
                self._leave(held.group)
            return []
        self.forget_left(name)
        group = self._by_identity.get(name)
        if group is None:
            return []
        self.drop(group)
        return list(group.subscriptions.values())

    def is_orphan(self, subscription: Subscription) -> bool:
        """Return whether a subscription is left without its group: :meth:`take_end`."""
        return self._by_identity.get(subscription.group.identity) is not subscription.group

    def _forget(self, number: int) -> Subscription | None:
        subscription = self.subscriptions.pop(number, None)
        if subscription is not None:
            self._dropped_before += subscription.log.dropped_total
            self._opened.pop(subscription.opened_by, None)
            group = subscription.group
            del group.subscriptions[number]
            group.last = self.record_of(subscription) if group.planned and not group.subscriptions else None
            del self.by_slot[subscription.slot]
            self.version += 1
        return subscription

    @property
    def dropped(self) -> int:
        """Answers dropped before they were acknowledged, of all subscriptions that there ever were here."""
        return self._dropped_before + sum(each.log.dropped_total for each in self.subscriptions.values())

    def drop(self, group: Group) -> None:
        """Forget a group."""
        if self._joined.get(group.digest) is group:
            del self._joined[group.digest]
        if self._by_identity.pop(group.identity, None) is not None:
            for leaf in group.leaves:
                self.by_slot.pop(leaf.slot, None)

    def _leave(self, group: Group) -> None:
        """Forget a group of which no subscription is known here, until somebody else's becomes known, or its end.

        What was answered here goes on then: of the answers it is known up to when some were recorded, and what leaves
        answered is held if there is room.
        """
        self.drop(group)
        if self.ends.has(group.identity, subscription=False):
            return
        group.looks = 0
        if isinstance(group.query, StandingQuery) and (
            self._left_answers + _answers_of_leaves(group) > LEFT_ANSWERS_MAX
        ):
            for number, leaf in enumerate(group.leaves):
                leaf.answers = _no_answers(group.query, number)
        self.left[group.identity] = group
        self._left_answers += _answers_of_leaves(group)
        if len(self.left) > LEFT_MAX:
            self.forget_left(next(iter(self.left)))

    def forget_left(self, identity: int) -> Group | None:
        """Take a group out of those that are left; return it, None if it is none of them."""
        group = self.left.pop(identity, None)
        if group is not None:
            self._left_answers -= _answers_of_leaves(group)
        return group

    def left_records(self) -> list[tuple[Group, KeepSubscription, int]]:
        """Return of each group that is left, and whose plans are known, the last record, and when that ended."""
        found = []
        for group in self.left.values():
            if group.last is not None:
                stamp = self.ends.stamp(group.last.subscription, subscription=True)
                if stamp is not None:
                    found.append((group, dataclasses.replace(group.last, youngest=group.youngest), stamp))
        return found

    def answered_left(self, identity: int, oldest: Column, born: Column) -> bool:
        """Return whether answers are to a group that is left, and of conjunctive queries: they need not be held.

        It is noted up to when there were some, so that they are derived again for a subscription that is owed them.
        """
        group = self.left.get(group_of(identity))
        if group is None or isinstance(group.query, StandingQuery):
            return False
        for at, latest in zip(as_list(oldest), as_list(born), strict=True):
            group.recorded = max(group.recorded, at if at < GONE else hlc.plain(latest))
        group.youngest = max(group.youngest, group.recorded)
        return True

    def live_groups(self) -> list[Group]:
        """Return all groups that live."""
        return list(self._by_identity.values())

    def live_leaves(self) -> list[Leaf]:
        """Return the leaves of all standing queries that live."""
        return [leaf for group in self._by_identity.values() for leaf in group.leaves if leaf.answers is not None]

    # --- leases ----------------------------------------------------------------------------------

    def renew(self, subscription: Subscription, now: float) -> None:
        """Let a subscription live for another lease."""
        subscription.lease_until = now + subscription.lease_seconds

    def expired(self, now: float) -> list[int]:
        """Return the subscriptions whose lease ran out.  Whoever lives on is to be renewed."""
        found: list[int] = []
        again: list[tuple[float, int]] = []
        while self._leases and self._leases[0][0] <= now:
            _, number = heapq.heappop(self._leases)
            subscription = self.subscriptions.get(number)
            if subscription is None:
                continue
            if subscription.lease_until <= now:
                found.append(number)  # and look again, if it is kept after all
                again.append((now + max(subscription.lease_seconds, _LOOK_SECONDS), number))
            else:  # renewed meanwhile: look again then
                again.append((subscription.lease_until, number))
        for each in again:  # not before all are seen: a lease of no length would be over again, and again
            heapq.heappush(self._leases, each)
        return found

    @property
    def deadline(self) -> float | None:
        """When to look for leases that ran out."""
        while self._leases and self._leases[0][1] not in self.subscriptions:
            heapq.heappop(self._leases)
        return self._leases[0][0] if self._leases else None

    # --- answers ---------------------------------------------------------------------------------

    def record(
        self, group: Group, identity: Column, oldest: Column, born: Column, bindings: tuple[Column, ...]
    ) -> list[Subscription]:
        """Take answers in; return the subscriptions that got something new in their logs."""
        count = len(identity)
        if not count:
            return []
        self.answers += count
        oldests = as_list(oldest)
        if max(oldests) == GONE:
            over = [at for at, each in enumerate(oldests) if each == GONE]
            return self._record_partly(group, over, identity, oldest, born, bindings)
        group.youngest = max(group.youngest, max(oldests))
        group.recorded = max(group.recorded, max(oldests))
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
        if touched:
            self.version += 1
        return touched

    def record_leaf(
        self, leaf: Leaf, identity: Column, oldest: Column, born: Column, bindings: tuple[Column, ...]
    ) -> list[Change]:
        """Take answers of a leaf of a standing query in; return what they change."""
        assert leaf.answers is not None
        self.answers += len(identity)
        oldests = as_list(oldest)
        youngest = max((each for each in oldests if each < hlc.ELEMENT), default=0)
        leaf.group.youngest = max(leaf.group.youngest, youngest)
        before = leaf.answers.version
        changes = leaf.answers.take(as_list(identity), oldests, as_list(born), [as_list(each) for each in bindings])
        self.repeated += len(identity) - sum(change.new for change in changes)
        self.version += leaf.answers.version != before
        return changes

    def _record_partly(
        self, group: Group, over: list[int], identity: Column, oldest: Column, born: Column,
        bindings: tuple[Column, ...],
    ) -> list[Subscription]:  # fmt: skip
        """Take in answers of which those at some places are taken back."""
        take, column = self._columns.take, self._columns.column
        gone = dict.fromkeys(over)
        left = column([at for at in range(len(identity)) if at not in gone], "int64")
        self.answers -= len(left)  # they are counted again
        rest = tuple(take(each, left) for each in bindings)
        touched = self.record(group, take(identity, left), take(oldest, left), take(born, left), rest)
        places = column(over, "int64")
        withdrawn = withdrawals(self._columns, take(identity, places))
        times = column([each | GONE for each in as_list(take(born, places))])
        contents = tuple(take(each, places) for each in bindings)
        characters = self._characters_of(contents)
        owed = [
            subscription
            for subscription in group.subscriptions.values()
            if subscription.log.withdraw(withdrawn, times, contents, characters)
        ]
        if owed:
            self.version += 1
        return list(dict.fromkeys([*touched, *owed]))

    def owe(self, subscription: Subscription, identity: Column, born: Column, bindings: tuple[Column, ...]) -> bool:
        """Take in answers, or withdrawals, that another replica owes a subscription; return whether any is new here."""
        new = 0
        times = as_list(born)
        for take_in, places in (
            (subscription.log.append, [at for at, each in enumerate(times) if each < GONE]),
            (subscription.log.withdraw, [at for at, each in enumerate(times) if each >= GONE]),
        ):
            if places:
                index, take = self._columns.column(places, "int64"), self._columns.take
                part = tuple(take(each, index) for each in bindings)
                new += take_in(take(identity, index), take(born, index), part, self._characters_of(part))
        if subscription.contents is not None:
            new += subscription.contents.take(subscription.log, identity, times, bindings)
        if new:
            self.version += 1
        return bool(new)

    def lacking(self, subscription: Subscription, identity: Column, born: Column) -> list[tuple[Subscription, Column]]:
        """Return other subscriptions of a group, with those of its answers that they lack and that may count for them.

        Whoever recorded the answers may not have known of those subscriptions.  What is born before one is not owed
        to it; what is born later may be made of older triples, and not be owed to it either.
        """
        found: list[tuple[Subscription, Column]] = []
        if subscription.contents is not None:  # each has what follows for it
            return found
        for other in subscription.group.subscriptions.values():
            if other is not subscription:
                young = [at for at, each in enumerate(as_list(born)) if hlc.plain(each) >= other.since]
                some = self._columns.take(identity, self._columns.column(young, "int64"))
                if other.log.lacks(some):
                    found.append((other, some))
        return found

    def acknowledge(self, subscription: Subscription, identity: Column, *, surely: bool = False) -> Column:
        """Note that a subscriber is done with answers; return the identities of those of which that is news.

        ``surely``: another replica knows of it.
        """
        log, contents = subscription.log, subscription.contents
        if contents is None:
            done = log.acknowledge(identity, surely=surely)
        else:
            done = contents.acknowledge(log, identity, surely=surely)
        if len(done):
            self.version += 1
        return done

    def expire_answers(self, now: float, age_seconds: float) -> list[Subscription]:
        """Drop answers that are too old to be told; return the subscriptions that lost some."""
        before = hlc.from_seconds(max(0.0, now - age_seconds))
        return [each for each in self.subscriptions.values() if each.log.expire(before)]

    def chunks(self, subscription: Subscription, *, window: int, chunk_max: int) -> Iterable[Chunk]:
        """Hand out what a subscription may be told now."""
        return subscription.log.take(window, chunk_max)
