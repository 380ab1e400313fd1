"""Subscription coordinator: deduplicates solutions and delivers them to subscriptions in order.

The coordinator of a query is the owner of the hash of the query's canonical form.  Equal queries therefore share one
*group*, which is evaluated once for several subscriptions.  The coordinator stamps the ``since`` of each
subscription, installs the query, drops repeated solutions and keeps the log of each subscription until
acknowledgement.

A subscription is owed a solution if ``since`` is at or before ``oldest``, the stamp of the earliest triple that the
solution uses.  A solution that arrives again with a later ``oldest``, after a triple was published again, is new only
to the subscriptions in between.  Each log knows its own solutions, so the order of arrival does not matter.

A standing query that is more than conjunctive (:mod:`p2prdf.rdf.algebra`) has a group of several *leaves*.  The
network evaluates each leaf as a conjunctive query with an identity of its own;
:mod:`p2prdf.peer.subscriptions.evaluation` computes the solutions of the whole query.

The primary alone makes, delivers and ends subscriptions; the other replicas take in its *records*.  Records only add:
subscriptions, solutions, acknowledgements, ends.  They may arrive repeatedly and in any order.  The address of delivery
is the exception: the later stamp wins.

Ends are remembered for a day, so a replica that was down for less cannot restore an ended subscription.  A
subscription that an older replica restores ends again with its lease.  See docs/explanation/design/coordinators.md.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterable

from p2prdf import hlc, keys
from p2prdf.columns import Column, Columns, as_list
from p2prdf.continuous.delivered_set import DeliveredSet
from p2prdf.continuous.ends import Ends
from p2prdf.continuous.events import EventAnswers
from p2prdf.continuous.identities import (
    GROUP_BITS,
    LEAF_BITS,
    SUBSCRIPTION_BITS,
    canonical_text,
    digest_of,
    group_home,
    group_of,
    home_key,
    key_of_text,
    subscription_home,
)  # fmt: skip
from p2prdf.continuous.leaf import Change, CountedAnswers, ElementAnswers, Leaf, LeafAnswers
from p2prdf.continuous.records import Group, Known, Subscription
from p2prdf.errors import Busy, RemoteProtocolError
from p2prdf.hlc import GONE
from p2prdf.rdf.algebra import CountWindow, StandingQuery
from p2prdf.rdf.query import Algorithm
from p2prdf.store.result_log import Chunk, ResultLog, withdrawals
from p2prdf.wire.messages import Contact, KeepSubscription, OpenSubscription, Query

__all__ = [
    "GROUP_BITS", "SUBSCRIPTION_BITS", "Group", "Home", "Known", "Subscription", "group_home", "group_of", "home_key",
    "subscription_home",
]  # fmt: skip

LEFT_MAX = 4096
"""Bound on the remembered orphaned groups: groups without a known subscription that are not known to have ended."""
LEFT_ANSWERS_MAX = 100_000
"""Bound on the solutions that the leaves of all orphaned groups hold together."""
_CHECK_SECONDS = 0.1
"""Minimum seconds between two checks of an expired subscription, however short its lease is."""


def _no_answers(query: StandingQuery, number: int, hash_of: Callable[[int], int]) -> LeafAnswers:
    """Return an empty store for the solutions of a leaf."""
    if query.is_settled:
        return EventAnswers(hash_of)
    window, report = query.windows[number], query.report
    if isinstance(window, CountWindow):
        return CountedAnswers(window)
    if window is not None and report is not None:
        return ElementAnswers(window, report.every)
    return LeafAnswers()


def _answers_of_leaves(group: Group) -> int:
    return sum(len(leaf.answers) for leaf in group.leaves if leaf.answers is not None)


class Home:
    """The groups and subscriptions kept at one peer.  Pure bookkeeping: the peer sends the messages."""

    def __init__(
        self, columns: Columns, *, log_rows_max: int, log_characters_max: int = 1 << 62,
        characters_of: Callable[[tuple[Column, ...]], int] = lambda _: 0, own: int = 0,
        to_check: Callable[[], None] = lambda: None, hash_of: Callable[[int], int] = lambda term: term,
    ):  # fmt: skip
        """``characters_of`` estimates the length of the texts of columns of terms; ``own`` is the key of this peer.
        ``hash_of`` returns the hash of a term.

        ``to_check`` is called when a lease has begun or a group is orphaned.
        """
        self._to_check = to_check
        self._hash_of = hash_of
        self._columns = columns
        self._log_rows_max = log_rows_max
        self._log_characters_max = log_characters_max
        self._characters_of = characters_of
        self._own = own
        self._joined: dict[bytes, Group] = {}
        """The group that new subscriptions of a query join, by digest of the query."""
        self._by_identity: dict[int, Group] = {}
        self.left: dict[int, Group] = {}
        """Orphaned groups, oldest first: no subscription is known here, nor that the group has ended."""
        self._left_answers = 0
        self.subscriptions: dict[int, Subscription] = {}
        self.by_slot: dict[int, Subscription | Leaf] = {}
        self.ends = Ends()
        self._opened: dict[tuple[int, int], int] = {}
        self._leases: list[tuple[float, int]] = []
        self._names = 0
        self._slots = 0
        self.version = 0
        """Changes with every change that other replicas should know."""
        self.answers = 0
        self.repeated = 0
        self._dropped_before = 0
        """Solutions dropped unacknowledged from subscriptions that have ended."""

    # --- finding ---------------------------------------------------------------------------------

    def find(self, identity: int) -> Group | None:
        """Return the live group with this identity or with a leaf of this identity."""
        return self._by_identity.get(group_of(identity))

    def leaf(self, identity: int) -> Leaf | None:
        """Return the leaf with this identity, if its group is live."""
        group, number = self.find(identity), identity & (1 << LEAF_BITS) - 1
        return None if group is None or number >= len(group.leaves) else group.leaves[number]

    def opened(self, subscriber: Contact, request: int) -> Subscription | None:
        """Return the subscription that an opening has led to; openings are sent again when in doubt."""
        number = self._opened.get((subscriber.key, request))
        return None if number is None else self.subscriptions.get(number)

    def known(self, name: int, *, subscription: bool) -> Known:
        """Return this replica's knowledge of a group or subscription."""
        if not subscription:
            name = group_of(name)
        if name in (self.subscriptions if subscription else self._by_identity):
            return Known.LIVES
        return Known.ENDED if self.ends.has(name, subscription=subscription) else Known.UNKNOWN

    # --- making ----------------------------------------------------------------------------------

    def _name(self, home: int, stamp: int, bits: int, *, subscription: bool) -> int:
        """Return an identity that has not been used lately and is not remembered to have ended.

        A query may end and be opened again while messages of its previous generation are in flight.  A peer in
        another network partition may coordinate the same query and assign identities in the same millisecond.  Raises
        Busy if all identities of this coordinator's key are in use or remembered.
        """
        if not self._names:
            self._names = keys.fmix(stamp ^ self._own)
        for _ in range(1 << bits):
            self._names += 1
            number = self._names & ((1 << bits) - 1)
            name = home | number << (0 if subscription else LEAF_BITS)
            if self.known(name, subscription=subscription) is Known.UNKNOWN and name not in self.left:
                return name
        raise Busy("no identity is free for this query: all are in use or ended within the last day", retry_after=3600)

    def open_group(self, opening: OpenSubscription, stamp: int) -> tuple[Group, bool]:
        """Return the group of an equal query, or a new one (True), made at ``stamp``."""
        algorithm = Algorithm(opening.algorithm)
        canonical = canonical_text(opening.query, algorithm, opening.salt, per_event=opening.per_event)
        group = self._joined.get(digest_of(canonical))
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
        group = Group(group_home(identity), identity, query, algorithm, per_event, salt, digest_of(canonical))
        if isinstance(query, StandingQuery):
            for number, each in enumerate(query.leaves):
                window, answers = query.windows[number], _no_answers(query, number, self._hash_of)
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
        """Add a subscription to a planned group at ``stamp`` (``since`` if that is 0).  Raises Busy."""
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
        contents = DeliveredSet(reports=query.is_stream) if isinstance(query, StandingQuery) else None
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
        self._to_check()
        return subscription

    def reported(self, subscription: Subscription, upto: int, number: int = 0, last: int = 0) -> bool:
        """Record the event time (ms) up to which reports are made; return whether that is progress.

        For windows by count, ``number`` is the number of the last report and ``last`` a hash of its last element's
        triple.
        """
        if (upto, number) <= (subscription.reported, subscription.counted):
            return False
        subscription.reported, subscription.counted, subscription.last = upto, number, last
        self.version += 1
        self._forget_reported(subscription.group)
        return True

    @property
    def windowed(self) -> list[Group]:
        """The groups of windowed queries with at least one subscription."""
        return [group for group in self._by_identity.values() if group.windowed]

    def _forget_reported(self, group: Group) -> None:
        """Let the leaves of a windowed query forget the solutions that no subscription needs for its next report."""
        if group.windowed:
            upto = min(each.reported for each in group.subscriptions.values())
            for leaf in group.leaves:
                if isinstance(leaf.answers, ElementAnswers):
                    leaf.answers.reported(upto)

    # --- records ---------------------------------------------------------------------------------

    def record_of(self, subscription: Subscription) -> KeepSubscription:
        """Return the record of a subscription for other replicas, without its solutions."""
        group = subscription.group
        query = dataclasses.replace(group.query, names=subscription.names)
        return KeepSubscription(
            group.identity, query, group.algorithm.value, group.per_event, group.order, *subscription.opened_by,
            group.since_min, group.since_max, group.youngest, subscription.number, subscription.since,
            subscription.lease_seconds, subscription.subscriber, subscription.request, subscription.changed,
            group.salt, subscription.owner,
        )  # fmt: skip

    def keep(self, record: KeepSubscription, now: float) -> tuple[Subscription | None, bool]:
        """Take in a record; return its subscription and whether the record changed anything here.

        Returns None for the subscription if it or its group has ended.  Raises RemoteProtocolError if the record
        belongs to another query.
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
        """Return whether solutions recorded here for other subscriptions may be owed to this unknown one as well."""
        left = self.left.get(record.group)
        group = left or self._by_identity.get(record.group)
        # solutions of leaves are kept independently of subscriptions
        if group is None or isinstance(group.query, StandingQuery):
            return False
        return record.subscription not in self.subscriptions and bool(left or group.subscriptions) and (
            record.since <= group.recorded
        )  # fmt: skip

    def _group_of(self, record: KeepSubscription) -> Group:
        """Return the group that a record describes: an orphaned one, or a new one."""
        algorithm = Algorithm(record.algorithm)
        canonical = canonical_text(record.query, algorithm, record.salt, per_event=record.per_event)
        if not key_of_text(canonical) == subscription_home(record.subscription) == subscription_home(record.group):
            raise RemoteProtocolError(f"subscription {record.subscription:016x} is recorded for another query")
        if record.group != group_of(record.group):
            raise RemoteProtocolError(f"{record.group:016x} is not the identity of a group")
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
        """Deliver a subscription to another peer from now on, as its request ``request`` asked."""
        subscription.subscriber, subscription.request = subscriber, request
        subscription.changed = max(stamp, subscription.changed + 1)
        self.version += 1

    # --- ending ----------------------------------------------------------------------------------

    def close(self, number: int, stamp: int, *, ends_group: bool = True) -> Group | None:
        """End a subscription; return its group if this was its last subscription.

        With ``ends_group`` the group ends too.  Otherwise another replica may know further subscriptions: the group
        is only orphaned here.
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
            self._orphan(group)
        return group

    def take_end(self, name: int, stamp: int, *, subscription: bool) -> list[Subscription]:
        """Record an end reported by another replica; return the subscriptions that lost their group.

        Such subscriptions exist only if two replicas both acted as primary, and one ended the group while the other
        let a subscription join.  The solutions are lost, so the caller can only report the end to the subscribers.
        """
        self.ends.add(name, stamp, subscription=subscription)
        self.version += 1
        if subscription:
            held = self._forget(name)
            if held is not None and not held.group.subscriptions and not held.group.waiting:
                self._orphan(held.group)
            return []
        self.forget_left(name)
        group = self._by_identity.get(name)
        if group is None:
            return []
        self.drop(group)
        return list(group.subscriptions.values())

    def is_orphan(self, subscription: Subscription) -> bool:
        """Return whether a subscription has lost its group, see :meth:`take_end`."""
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
        """Solutions dropped before acknowledgement, over all subscriptions that this peer has ever held."""
        return self._dropped_before + sum(each.log.dropped_total for each in self.subscriptions.values())

    def drop(self, group: Group) -> None:
        """Forget a group."""
        if self._joined.get(group.digest) is group:
            del self._joined[group.digest]
        if self._by_identity.pop(group.identity, None) is not None:
            for leaf in group.leaves:
                self.by_slot.pop(leaf.slot, None)

    def _orphan(self, group: Group) -> None:
        """Orphan a group, until a record of a further subscription arrives, or the group's end.

        The group keeps the stamp of its last recorded solution, and the solutions of its leaves as long as there is
        room.
        """
        self.drop(group)
        if self.ends.has(group.identity, subscription=False):
            return
        group.looks = 0
        if isinstance(group.query, StandingQuery) and (
            self._left_answers + _answers_of_leaves(group) > LEFT_ANSWERS_MAX
        ):
            for number, leaf in enumerate(group.leaves):
                leaf.answers = _no_answers(group.query, number, self._hash_of)
        self.left[group.identity] = group
        self._to_check()
        self._left_answers += _answers_of_leaves(group)
        if len(self.left) > LEFT_MAX:
            self.forget_left(next(iter(self.left)))

    def forget_left(self, identity: int) -> Group | None:
        """Remove a group from the orphaned groups and return it; None if it is not among them."""
        group = self.left.pop(identity, None)
        if group is not None:
            self._left_answers -= _answers_of_leaves(group)
        return group

    def left_records(self) -> list[tuple[Group, KeepSubscription, int]]:
        """Return for each orphaned group with known plans the last record and the stamp of that subscription's end."""
        found = []
        for group in self.left.values():
            if group.last is not None:
                stamp = self.ends.stamp(group.last.subscription, subscription=True)
                if stamp is not None:
                    found.append((group, dataclasses.replace(group.last, youngest=group.youngest), stamp))
        return found

    def answered_left(self, identity: int, oldest: Column, born: Column) -> bool:
        """Return whether solutions belong to an orphaned group of a conjunctive query, which does not hold solutions.

        The group notes their latest stamp, so that they are derived again for a later subscription that they are owed
        to.
        """
        group = self.left.get(group_of(identity))
        if group is None or isinstance(group.query, StandingQuery):
            return False
        for at, latest in zip(as_list(oldest), as_list(born), strict=True):
            group.recorded = max(group.recorded, at if at < GONE else hlc.plain(latest))
        group.youngest = max(group.youngest, group.recorded)
        return True

    def live_groups(self) -> list[Group]:
        """Return all live groups."""
        return list(self._by_identity.values())

    def live_leaves(self) -> list[Leaf]:
        """Return the leaves of all live standing queries that are not conjunctive."""
        return [leaf for group in self._by_identity.values() for leaf in group.leaves if leaf.answers is not None]

    # --- leases ----------------------------------------------------------------------------------

    def renew(self, subscription: Subscription, now: float) -> None:
        """Extend a subscription by another lease."""
        subscription.lease_until = now + subscription.lease_seconds

    def expired(self, now: float) -> list[int]:
        """Return the subscriptions whose lease ran out.  The caller renews those that continue."""
        found: list[int] = []
        again: list[tuple[float, int]] = []
        while self._leases and self._leases[0][0] <= now:
            _, number = heapq.heappop(self._leases)
            subscription = self.subscriptions.get(number)
            if subscription is None:
                continue
            if subscription.lease_until <= now:
                found.append(number)  # check again in case the caller keeps it
                again.append((now + max(subscription.lease_seconds, _CHECK_SECONDS), number))
            else:  # renewed meanwhile: check again when the new lease ends
                again.append((subscription.lease_until, number))
        for each in again:  # pushed after the loop: a lease of length 0 would expire endlessly within it
            heapq.heappush(self._leases, each)
        return found

    @property
    def deadline(self) -> float | None:
        """The time of the next check for leases that ran out."""
        while self._leases and self._leases[0][1] not in self.subscriptions:
            heapq.heappop(self._leases)
        return self._leases[0][0] if self._leases else None

    # --- answers ---------------------------------------------------------------------------------

    def record(
        self, group: Group, identity: Column, oldest: Column, born: Column, bindings: tuple[Column, ...]
    ) -> list[Subscription]:
        """Append solutions to the logs; return the subscriptions whose log gained any."""
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
        """Take in the solutions of a leaf of a standing query; return the changes they cause."""
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
        """Take in solutions of which those at the places ``over`` are retracted."""
        take, column = self._columns.take, self._columns.column
        gone = dict.fromkeys(over)
        left = column([at for at in range(len(identity)) if at not in gone], "int64")
        self.answers -= len(left)  # the nested call counts them again
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
        """Take in solutions and retractions that another replica owes a subscription; return whether any is new here.
        """
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
        """Return the group's other subscriptions, each with those of the solutions that it lacks and may be owed.

        The peer that recorded the solutions may not have known those subscriptions.  A solution whose latest triple
        precedes a subscription is not owed to it.  A later one may still use an earlier triple, and then is not owed
        either.
        """
        found: list[tuple[Subscription, Column]] = []
        if subscription.contents is not None:  # each subscription computes its own solutions
            return found
        for other in subscription.group.subscriptions.values():
            if other is not subscription:
                young = [at for at, each in enumerate(as_list(born)) if hlc.plain(each) >= other.since]
                some = self._columns.take(identity, self._columns.column(young, "int64"))
                if other.log.lacks(some):
                    found.append((other, some))
        return found

    def acknowledge(self, subscription: Subscription, identity: Column, *, surely: bool = False) -> Column:
        """Record a subscriber's acknowledgement; return the identities that were not acknowledged before.

        ``surely``: another replica knows of the acknowledgement.
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
        """Drop solutions older than ``age_seconds``; return the subscriptions that lost any."""
        before = hlc.from_seconds(max(0.0, now - age_seconds))
        return [each for each in self.subscriptions.values() if each.log.expire(before)]

    def chunks(self, subscription: Subscription, *, window: int, chunk_max: int) -> Iterable[Chunk]:
        """Return the chunks that a subscription may be sent now."""
        return subscription.log.take(window, chunk_max)
