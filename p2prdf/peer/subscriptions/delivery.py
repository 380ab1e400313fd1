"""Delivery: solutions arrive at their coordinator and go out to subscribers, which attach, renew and acknowledge.

All replicas of a coordinator record the solutions; the primary alone delivers them.  Delivery runs in *epochs*
(:mod:`p2prdf.store.result_log`): an attaching subscriber and a new primary begin one each, and it contains every
solution that is not known to be acknowledged.  Solutions therefore reach the entry peer at least once, and the entry
peer drops repetitions by identity until the coordinator reports them stable.

A peer serves a subscription when it is the primary of the coordinator's key and has compared its records with the
other replicas since its start and since the last arrival of a peer (:attr:`Recovery.caught_up`).  Until then requests
wait, and nothing is delivered.  While views differ, two peers may act as the primary, and a subscriber gets solutions
from both.  docs/explanation/design/coordinators.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from p2prdf.columns import Column, as_list
from p2prdf.continuous.home import Group, Home, Subscription, group_home, subscription_home
from p2prdf.continuous.leaf import Leaf
from p2prdf.continuous.settled import SettledEvaluation
from p2prdf.errors import NotAllowed, RemoteProtocolError, SubscriptionGone
from p2prdf.peer.joins.engine import Engine
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.retention import Retention
from p2prdf.peer.subscriptions.evaluation import Evaluations
from p2prdf.peer.subscriptions.opening import opened_message
from p2prdf.peer.subscriptions.replication import RecordReplication
from p2prdf.peer.subscriptions.unresolved import Unresolved
from p2prdf.peer.subscriptions.windows import Windows
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import (
    Answers,
    AttachSubscription,
    BookmarksRequest,
    BookmarksResponse,
    CloseSubscription,
    Contact,
    Deliver,
    Delivered,
    GroupsGone,
    KeepRetracted,
    Message,
    RenewSubscriptions,
    Rows,
    SettledAnswers,
    SubscriptionClosed,
    SubscriptionRefused,
)

__all__ = ["Delivery", "another_clients"]

_CHUNK_ROWS_MAX = 4096
_MARKS_MAX = 16_384
"""Subscriptions per message of a mark."""
_TOO_SLOW = (
    "solutions of a settled subscription were dropped, because the subscriber was too slow or too long away (settings"
    " solutions_pending_max and retention_seconds)"
)
_EPOCH_BITS = 16
"""Random low bits of an epoch, which tell two coordinators apart; the other bits are a time in milliseconds."""
HAND_OVER_SECONDS = 2.0
"""Seconds for which a former primary that has caught up continues to deliver."""
HAND_OVER_SECONDS_MAX = 20.0
"""Seconds for which a former primary continues to deliver at most, while it has not caught up.

Far less than the time for which entry peers recognise repetitions (:mod:`p2prdf.peer.entry.dedup`).
"""


class Delivery:
    """Delivery of the subscriptions that one peer coordinates."""

    def __init__(
        self, messenger: Messenger, by_key: ByKey, home: Home, engine: Engine, dictionary: TermDictionary,
        retention: Retention, *, orphan: Callable[[Subscription], None],
        late: Callable[[Subscription, Column | None], None], too_large: Callable[[Subscription, str], None],
    ):  # fmt: skip
        """``orphan``, ``late``, ``too_large``: see :class:`RecordReplication` and :class:`Evaluations`."""
        self._begun = 0
        """The time of the last epoch."""
        self._incomplete: set[int] = set()
        """Subscriptions with records from a handoff that is not complete."""
        self._marks: dict[tuple[int, int], tuple[Contact, list[tuple[int, int, int]]]] = {}
        """By key of an entry peer and mark the subscriptions that have reached it in this turn.

        Each with its epoch and the number of the last solution before the mark.
        """
        self._messenger = messenger
        self._placement = messenger.placement
        self._by_key = by_key
        self._home = home
        self._engine = engine
        self._too_large = too_large
        self._columns = messenger.columns
        self.unknown = Unresolved(messenger, by_key, home, self.take_held)
        self.records = RecordReplication(
            messenger, by_key, home, kept=self.kept, changed=self.pump, learned=self._learned, orphan=orphan, late=late,
            told_elsewhere=self._told_elsewhere,
        )  # fmt: skip
        self.evaluations = Evaluations(messenger, home, dictionary, self.records, engine.chunker, self.pump, too_large)
        self.windows = Windows(messenger, home, self.evaluations, retention, too_large)
        messenger.obsolete_if(Deliver, self._is_obsolete)
        messenger.signals.handoff_done.connect(self._complete)

    def _learned(self, name: int, subscription: bool) -> None:
        self.unknown.learned(name, subscription=subscription)

    def _told_elsewhere(self, subscription: Subscription) -> None:
        self.evaluations.told_elsewhere(subscription)

    # --- answers ---------------------------------------------------------------------------------

    def answers(self, sender: Contact, message: Answers) -> None:
        """Record solutions of another peer, and tell it which groups have ended."""
        if self._misplaced(message):
            tokens = self._messenger.inbox.keep(self._messenger.inbox.current)
            self._engine.pass_on_answers(message, tokens)
            self._messenger.release(tokens)
            return
        known = self._home.answers - self._home.repeated
        gone = self.record(message.groups, message.rows, sender)
        if message.suspect:
            self._engine.audit.found(message.suspect, self._home.answers - self._home.repeated - known, sender)
        if gone:
            self._by_key.reply(sender, GroupsGone(self._columns.column(gone)))

    def _misplaced(self, message: Answers) -> bool:
        """Return whether solutions belong to other peers, to which they are to be passed on.

        A replica passes solutions on to all replicas.  Peers with different views do so only once
        (:attr:`Placement.hops_max`): after that, solutions stay here and are offered to their replicas later.
        """
        placement = self._messenger.placement
        if not placement.belongs_elsewhere([subscription_home(each) for each in as_list(message.groups)]):
            return False
        if message.hops < placement.hops_max:
            return True
        self._messenger.note_misplaced(len(message.rows))
        return False

    def local_answers(self, groups: Column, rows: Rows) -> None:
        """Record solutions that this peer derived itself."""
        gone = self.record(groups, rows, self._messenger.own)
        if gone:
            self._engine.end_groups(gone)

    def record(self, groups: Column, rows: Rows, sender: Contact | None) -> list[int]:
        """Record solutions and deliver them; return the groups that have ended.

        Solutions of an unknown group wait for its record.  Without room for them, their sender sends them again.
        """
        work = None
        if self._messenger.traces.live:
            work = self._messenger.traces.answers(rows.identity, rows.born, rows.oldest)
        try:
            return self._record(groups, rows, sender)
        finally:
            if work is not None:
                work.end()

    def _record(self, groups: Column, rows: Rows, sender: Contact | None) -> list[int]:
        ids = as_list(groups)
        gone: list[int] = []
        touched: dict[int, Subscription] = {}
        held = False
        large = set(self._engine.chunker.too_large(rows.bindings))
        if large:  # it could never be delivered, and everything after it would wait
            self._messenger.trace("answer-too-large", answers=len(large))
            rows = self._engine.chunker.without(rows, large)
        parts = self._columns.split(rows.group)
        # before any is recorded: the message is accepted as a whole or refused
        groups_found = [self._checked(ids[place], len(rows.bindings)) for place, _ in parts]
        for (place, index), group in zip(parts, groups_found, strict=True):
            part = self._engine.chunker.of_one_group(rows, index)
            if group is not None and isinstance(group.query, StandingQuery):
                held |= self._record_leaf(self._home.leaf(ids[place]), part)
            elif group is not None:
                for each in self._home.record(group, part.identity, part.oldest, part.born, part.bindings):
                    touched[each.number] = each
            elif self.unknown.is_gone(ids[place], subscription=False):
                gone.append(ids[place])
            elif self._home.answered_left(ids[place], part.oldest, part.born) or self.unknown.hold_answers(
                ids[place], Answers(self._columns.column([ids[place]]), part), sender
            ):
                held = True
            else:
                self._messenger.inbox.refuse()
        if touched or held:
            self._messenger.persist(Answers(groups, rows))
        for subscription in touched.values():
            self.pump(subscription)
        return gone

    def _checked(self, identity: int, width: int) -> Group | None:
        """Return the group of solutions, if it is live.  Raises RemoteProtocolError if they do not fit its query."""
        group = self._home.find(identity)
        if group is None:
            return None
        leaf = self._home.leaf(identity)
        if leaf is None or width != len(leaf.query.answer):
            raise RemoteProtocolError(f"answers of {width} columns to {identity:016x}, which has no such")
        return group

    def _record_leaf(self, leaf: Leaf | None, rows: Rows) -> bool:
        """Record solutions of a leaf of a standing query; return whether any is new."""
        assert leaf is not None, "it was checked"
        before = self._home.version
        changes = self._home.record_leaf(leaf, rows.identity, rows.oldest, rows.born, rows.bindings)
        self.evaluations.changed(leaf, changes)
        return self._home.version != before

    def withdrawn(self, message: KeepRetracted) -> None:
        """Record retracted solutions of a leaf, or hold the message until the leaf is known or has ended."""
        leaf = self._home.leaf(message.leaf)
        if leaf is not None and leaf.answers is not None:
            before = leaf.answers.version
            self.evaluations.changed(leaf, leaf.answers.withdraw(as_list(message.identity), message.youngest))
            if leaf.answers.version != before:
                self._home.version += 1
                self._messenger.persist(message)
        elif self._home.find(message.leaf) is not None:
            raise RemoteProtocolError(f"withdrawals of answers to {message.leaf:016x}, which is no leaf of its query")
        elif not self._messenger.restoring and self._placement.rank(group_home(message.leaf)) < 0:
            return  # its sender has an old view; anti-entropy brings it to the present replicas
        elif self.unknown.is_nowhere(message.leaf):
            return  # an ended group needs no retractions: accept the message, so that it is not sent again
        elif self.unknown.hold_withdrawn(message):
            self._messenger.persist(message)
        else:
            self._messenger.inbox.refuse()

    def take_held(self, message: Answers | KeepRetracted) -> None:
        """Record held solutions of a group that has become known, or offer them to its coordinator, another peer."""
        if isinstance(message, KeepRetracted):
            self.withdrawn(message)
            return
        if not self._messenger.restoring:
            homes = [subscription_home(each) for each in as_list(message.groups)]
            if any(self._placement.rank(home) < 0 for home in homes):
                self._messenger.note_misplaced(len(message.rows))
        self.record(message.groups, message.rows, None)

    # --- handing out -----------------------------------------------------------------------------

    def pump(self, subscription: Subscription) -> None:
        """Send a subscriber the solutions that its window allows.

        A primary that has begun to deliver continues while it compares its records with peers that came.  At worst
        these know acknowledgements that it does not know.  Such solutions are not stable, so the entry peer recognises
        them when they come again.
        """
        messenger = self._messenger
        if not subscription.delivered or subscription.opening or subscription.cut_off:
            return
        if subscription.until:
            if messenger.now >= subscription.until:
                self._stop(subscription)
                return
        elif not messenger.recovery.caught_up and self._placement.rank(subscription_home(subscription.number)) != 0:
            return
        window = messenger.config.solutions_window
        for chunk in self._home.chunks(subscription, window=window, chunk_max=_CHUNK_ROWS_MAX):
            for start, stop in self._engine.chunker.slices(len(chunk), chunk.bindings) or [(0, 0)]:
                part = chunk.part(start, stop)
                self._by_key.reply(
                    subscription.subscriber,
                    Deliver(
                        subscription.number, part.first, part.lost, part.identity, part.born, part.bindings,
                        subscription.epoch, subscription.marked,
                    ),
                )  # fmt: skip
        if isinstance(subscription.evaluation, SettledEvaluation):
            self._tell_mark(subscription, subscription.evaluation)

    def _tell_mark(self, subscription: Subscription, evaluation: SettledEvaluation) -> None:
        """Tell the subscriber a mark behind its solutions, and begin with the next one.

        A subscriber that has lost solutions would never hold a state of the graph again, so its subscription ends.
        """
        log = subscription.log
        if log.dropped_total or log.lost_total:
            self._too_large(subscription, _TOO_SLOW)
        elif log.handed_out:
            if evaluation.reached > subscription.marked:
                subscription.marked = evaluation.reached
                _, rows = self._marks.setdefault(
                    (subscription.subscriber.key, subscription.marked), (subscription.subscriber, [])
                )
                rows.append((subscription.number, subscription.epoch, log.sent))
            if evaluation.go_on():
                self.evaluations.waiting[subscription.number] = subscription

    @property
    def has_marks(self) -> bool:
        """Whether marks wait for the end of the turn."""
        return bool(self._marks)

    def tell_marks(self) -> None:
        """Send the marks of this turn: one message for each entry peer and mark, whatever the number of subscriptions.

        Solutions that were sent behind a mark name it, too (``Deliver.mark``), so none is lost by waiting.
        """
        make = self._columns.column
        marks, self._marks = self._marks, {}
        for (_, stamp), (subscriber, rows) in marks.items():
            for start in range(0, len(rows), _MARKS_MAX):
                number, epoch, sent = zip(*rows[start : start + _MARKS_MAX], strict=True)
                self._by_key.reply(
                    subscriber, BookmarksResponse(stamp, make(number), make(epoch), make(sent), exact=True)
                )

    def _is_obsolete(self, message: Deliver) -> bool:
        """Return whether a delivery belongs to an earlier epoch: a later epoch repeats all that is not acknowledged.

        Sent again, the delivery could reach a peer to which the subscriber has returned, long after its solutions
        became stable at another peer.
        """
        subscription = self._home.subscriptions.get(message.subscription)
        return subscription is None or not subscription.delivered or subscription.epoch != message.epoch

    def begin(self, subscription: Subscription) -> None:
        """Begin another epoch of a subscription: deliver all that is not acknowledged, numbered from 1.

        After an incomplete handoff a subscription waits (:meth:`_complete`): acknowledgements may be in flight.
        """
        if subscription.number in self._incomplete:
            return
        self.evaluations.begin(subscription)
        self.windows.begin(subscription)
        # Epochs of one coordinator ascend, so that subscribers recognise earlier ones; coordinators never share one.
        self._begun = max(self._begun + 1, self._messenger.tick() >> _EPOCH_BITS)
        subscription.epoch = self._begun << _EPOCH_BITS | self._messenger.draw(64) >> 64 - _EPOCH_BITS
        subscription.delivered, subscription.until, subscription.marked = True, 0.0, 0
        subscription.log.restart()
        self.pump(subscription)

    def kept(self, subscription: Subscription, first: bool) -> None:
        """Deliver a subscription that another replica has made or moved, if this peer is the primary."""
        if first and self._messenger.recovery.receiving:
            self._incomplete.add(subscription.number)
        if not self._messenger.restoring and self._placement.speaks_for(subscription_home(subscription.number)):
            self._reach(subscription)
            self.begin(subscription)
        else:  # deliveries at the former entry peer say nothing about the new one
            self._stop(subscription)

    def _complete(self) -> None:
        """Deliver the subscriptions that waited for the end of a handoff."""
        incomplete, self._incomplete = self._incomplete, set()
        for subscription in map(self._home.subscriptions.get, sorted(incomplete)):
            if subscription is not None and self._placement.speaks_for(subscription_home(subscription.number)):
                self._reach(subscription)
                self.begin(subscription)

    def view_changed(self) -> None:
        """Begin to deliver the subscriptions that this peer leads now, and stop the others."""
        messenger = self._messenger
        if not messenger.recovery.caught_up:  # the signal caught_up calls again
            for subscription in self._home.subscriptions.values():
                self._hand_over(subscription, self._placement.rank(subscription_home(subscription.number)))
            return
        for subscription in list(self._home.subscriptions.values()):
            home = subscription_home(subscription.number)
            mine = self._placement.speaks_for(home)
            if mine and (subscription.until or not subscription.delivered):
                self._home.renew(subscription, messenger.now)
                self._reach(subscription)
                self.begin(subscription)
            elif mine and subscription.cut_off and messenger.is_known(subscription.subscriber):
                self._resume(subscription)  # its record came before this peer had caught up
            elif mine:
                self.pump(subscription)
            else:
                self._hand_over(subscription, self._placement.rank(home))
        self.unknown.view_changed()

    def _hand_over(self, subscription: Subscription, rank: int) -> None:
        """Continue to deliver after another peer has become the primary: it delivers when it has caught up.

        Both peers compare their records with each other, so the other one has about caught up when this one has.
        ``HAND_OVER_SECONDS`` later this one stops.  The entry peer recognises solutions that both deliver by their
        identities.
        """
        over = rank < 0 or (subscription.until and self._messenger.now >= subscription.until)
        if over or (rank > 0 and subscription.group.settled):  # the solutions of two peers together are no state
            self._stop(subscription)
        elif rank > 0 and subscription.delivered:
            caught_up = self._messenger.recovery.caught_up
            until = self._messenger.now + (HAND_OVER_SECONDS if caught_up else HAND_OVER_SECONDS_MAX)
            subscription.until = min(subscription.until or until, until)

    def _stop(self, subscription: Subscription) -> None:
        subscription.delivered, subscription.until = False, 0.0
        self.evaluations.stop(subscription)

    def _reach(self, subscription: Subscription) -> None:
        """Note whether the entry peer of a subscriber is reachable."""
        subscription.cut_off = not self._placement.may_be_there(subscription.subscriber)

    def contact_lost(self, contact: Contact) -> None:
        """Keep the solutions for an entry peer that is lost until it returns or the lease runs out."""
        for subscription in self._home.subscriptions.values():
            if subscription.subscriber.key == contact.key:
                subscription.cut_off = True

    def contact_back(self, contact: Contact) -> None:
        """Continue to deliver to an entry peer that has returned."""
        for subscription in list(self._home.subscriptions.values()):
            if subscription.subscriber.key == contact.key:
                self._resume(subscription)

    def _resume(self, subscription: Subscription) -> None:
        """Begin a new epoch of a subscription after its entry peer has returned."""
        if subscription.cut_off:
            subscription.cut_off = False
            if subscription.until:
                self._stop(subscription)
            elif subscription.delivered:
                self.begin(subscription)

    # --- requests --------------------------------------------------------------------------------

    def _find(
        self, sender: Contact, message: AttachSubscription | CloseSubscription | Delivered | RenewSubscriptions,
        number: int,
    ) -> tuple[bool, Subscription | None]:  # fmt: skip
        """Return whether to handle a request now, and its subscription or None if there is no such subscription."""
        key = subscription_home(number)
        if not self._by_key.at_owner(key, message, sender):
            return False, None
        if not self._placement.speaks_for(key):
            self.unknown.wait(message)
            return False, None
        subscription = self._home.subscriptions.get(number)
        if subscription is None and not self.unknown.is_gone(number, subscription=True):
            self.unknown.hold_request(number, message)
            return False, None
        return True, subscription

    def _is_anothers(
        self, subscription: Subscription | None, message: AttachSubscription | CloseSubscription | Delivered
    ) -> bool:
        """Return whether a subscription belongs to another client than the one that asks; refuse the request then."""
        if subscription is None or subscription.may(message.owner):
            return False
        text = another_clients(message.subscription)
        self._by_key.reply(message.subscriber, SubscriptionRefused(message.request, NotAllowed.code, text))
        return True

    def delivered(self, sender: Contact, message: Delivered) -> None:
        """Record an acknowledgement, report it stable when all replicas have it, and send further solutions.

        While a peer is missing, no acknowledgement is stable: the missing peer may be alive and deliver the same
        solutions, or this peer may be the one that is cut off.  The entry peer asks again, and is answered when the
        missing peer has returned and knows the acknowledgement, or has been away for long.  An acknowledgement is not
        stable either if further replicas came while the others were told.
        """
        now, subscription = self._find(sender, message, message.subscription)
        if not now or self._is_anothers(subscription, message):
            return
        keepers = self._keepers(message.subscription)

        def settled() -> None:
            if self._messenger.members.somebody_missing or not keepers.issuperset(self._keepers(message.subscription)):
                return
            told = SettledAnswers(message.request, message.subscription)
            if subscription is not None and subscription.subscriber.key == message.subscriber.key:
                told = replace(told, epoch=subscription.epoch, sent=subscription.log.sent)
            self._by_key.reply(message.subscriber, told)

        token = self._messenger.token(settled)
        if subscription is not None:  # an ended subscription delivers nothing
            self.records.acknowledge(subscription, message.identity, (token,))
            self.pump(subscription)
        self._messenger.release((token,))

    def _keepers(self, number: int) -> set[int | None]:
        """Return the keys of the replicas of a subscription, or a set of None while the view has gaps."""
        found = self._placement.replica_set(subscription_home(number))
        return {None} if found is None else {each.key for each in found}

    def attach(self, sender: Contact, message: AttachSubscription) -> None:
        """Deliver a subscription at another entry peer from now on."""
        now, subscription = self._find(sender, message, message.subscription)
        if not now or self._is_anothers(subscription, message):
            return
        if subscription is None or subscription.opening:
            self._by_key.reply(message.subscriber, _unknown(message.request, message.subscription))
            return
        if len(message.have):
            self.records.acknowledge(subscription, message.have)
        self._home.renew(subscription, self._messenger.now)
        here = subscription.subscriber.key == message.subscriber.key
        if here and subscription.request == message.request:  # a repetition
            self._by_key.reply(message.subscriber, opened_message(subscription, message.request, message.owner))
            return
        if not here:  # the former entry peer delivers no longer
            closed = SubscriptionClosed(subscription.request, subscription.number, elsewhere=True)
            self._by_key.reply(subscription.subscriber, closed)
        self._home.deliver_to(subscription, message.subscriber, message.request, self._messenger.tick())

        def opened() -> None:
            told: Message
            if self._home.ends.has(message.subscription, subscription=True):  # ended since the request
                told = _unknown(message.request, message.subscription)
            elif subscription.subscriber.key == message.subscriber.key:
                told = opened_message(subscription, message.request, message.owner)
            else:  # attached elsewhere since, perhaps by an attempt that was given up long ago
                told = SubscriptionClosed(message.request, subscription.number, elsewhere=True)
            self._by_key.reply(message.subscriber, told)

        token = self._messenger.token(opened)
        self.records.tell_moved(subscription, (token,))
        subscription.cut_off = False
        self.begin(subscription)
        self._messenger.release((token,))

    def renew(self, sender: Contact, message: RenewSubscriptions) -> None:
        """Renew the leases of subscriptions that the sender delivers; tell it which are delivered elsewhere or gone."""
        for number, request in zip(as_list(message.subscriptions), as_list(message.requests), strict=True):
            make = self._columns.column
            one = replace(message, subscriptions=make([number]), requests=make([request]))
            now, subscription = self._find(sender, one, number)
            if not now:
                continue
            if subscription is None:
                self._by_key.reply(message.subscriber, SubscriptionClosed(0, number))
            elif subscription.opening:
                continue
            elif subscription.subscriber.key != message.subscriber.key:
                self._by_key.reply(message.subscriber, SubscriptionClosed(request, number, elsewhere=True))
            else:
                if subscription.request != request:  # an attach request that was given up arrived after this one
                    self._home.deliver_to(subscription, message.subscriber, request, self._messenger.tick())
                    self.records.tell_moved(subscription)
                self._home.renew(subscription, self._messenger.now)
                self._resume(subscription)

    def bookmarks(self, _: Contact, message: BookmarksRequest) -> None:
        """Report the subscriptions without undelivered solutions; the sender asks again about the others.

        Both must have the same view, because a former coordinator may lack solutions.
        """
        messenger = self._messenger
        if message.view != messenger.view:
            return
        found = [
            subscription
            for number in as_list(message.subscriptions)
            if (subscription := self._home.subscriptions.get(number)) is not None
            and subscription.subscriber.key == message.subscriber.key
            and self._placement.speaks_for(subscription_home(number))
            and subscription.delivered
            and not (subscription.opening or subscription.cut_off)
            and subscription.log.handed_out
            and self.evaluations.settled(subscription)
        ]
        if found:
            make = self._columns.column
            told = BookmarksResponse(
                message.upto, make([each.number for each in found]), make([each.epoch for each in found]),
                make([each.log.sent for each in found]),
            )  # fmt: skip
            self._by_key.reply(message.subscriber, told)

    def close(
        self, sender: Contact, message: CloseSubscription, end: Callable[[Subscription, Callable[[], None]], None]
    ) -> None:
        """End a subscription by ``end``; tell the sender and the subscriber when enough replicas know."""
        now, subscription = self._find(sender, message, message.subscription)
        if not now or self._is_anothers(subscription, message):
            return

        def closed() -> None:
            self._by_key.reply(message.subscriber, SubscriptionClosed(message.request, message.subscription))
            if subscription is not None and subscription.subscriber.key != message.subscriber.key:
                self.records.tell_subscriber(subscription)

        if subscription is None:
            self._when_ended(message.subscription, closed)
        else:
            end(subscription, closed)

    def _when_ended(self, number: int, done: Callable[[], None]) -> None:
        """Call ``done`` when enough replicas know an end that is recorded here, or at once without a record.

        The client that ended the subscription may ask again, because too few replicas were there to answer it.
        """
        stamp = self._home.ends.stamp(number, subscription=True)
        token = self._messenger.token(done, sparing=True)
        if stamp is not None:
            self.records.tell_end_again(number, stamp, (token,))
        self._messenger.release((token,))


def another_clients(subscription: int) -> str:
    """Return the refusal of a request for the subscription of another client."""
    return f"subscription {subscription:016x} is another client's"


def _unknown(request: int, subscription: int) -> SubscriptionRefused:
    return SubscriptionRefused(
        request, SubscriptionGone.code, f"no subscription {subscription:016x}: it was ended, or its lease ran out"
    )
