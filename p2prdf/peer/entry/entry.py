"""The entry side of a peer: requests of its local publishers and subscribers.

A publication is stamped here, once, and indexed at the owners of its keys.  It is complete when all of them have stored
it; its publisher may receive an earlier acknowledgement (:mod:`p2prdf.peer.replication.staging`).

A subscription is opened at its coordinator.  Its solutions arrive here, perhaps out of order or twice, and are
delivered in order and once within each epoch of a coordinator.  The last few epochs are tracked in parallel: their
numbers are random, so none is known to be the latest, and the current primary's messages need not arrive last.  The
subscriber drops solutions that arrive in two epochs, by identity.

Unanswered requests to a coordinator are repeated, to its present owner: a failover may have moved it, or lost the
pending answer.  All these requests are idempotent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from p2prdf import keys
from p2prdf.columns import Column, as_array, as_list
from p2prdf.continuous.home import home_key, subscription_home
from p2prdf.errors import Busy, DataRefused, P2PRDFError, QueryRefused, StampRefused, SubscriptionGone, Unavailable
from p2prdf.hlc import GONE
from p2prdf.peer.entry.dedup import RecentlyStable
from p2prdf.peer.entry.graphs import element_times, index_elements, index_quads
from p2prdf.peer.entry.one_time import OneTimeQueries
from p2prdf.peer.joins.engine import Engine
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.backfill import Backfill
from p2prdf.peer.progress.event_watermarks import Sources
from p2prdf.peer.progress.low_watermark import Known, Source
from p2prdf.peer.replication.conditions import Conditions, Requirement
from p2prdf.peer.replication.staging import Confirm
from p2prdf.peer.subscriptions.coordinator import Coordinator
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import is_directory
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire.contract import (
    AcknowledgeAnswers,
    Attach,
    Attached,
    Bookmark,
    Completed,
    Detach,
    Ended,
    EndStream,
    Failed,
    Heartbeat,
    Notify,
    Outcome,
    Publish,
    Published,
    Settled,
    StreamEnded,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    WantBookmarks,
)
from p2prdf.wire.limits import ROWS_MAX
from p2prdf.wire.messages import (
    ACCEPTED,
    AttachSubscription,
    BookmarksRequest,
    BookmarksResponse,
    CloseSubscription,
    Contact,
    Deliver,
    Delivered,
    KeepEnds,
    Message,
    OpenSubscription,
    Query,
    RenewSubscriptions,
    SettledAnswers,
    SubscriptionClosed,
    SubscriptionOpened,
    SubscriptionRefused,
)

__all__ = ["ClientEdge"]

_EPOCHS_MAX = 4
"""Epochs tracked per subscription; the one with the oldest message is forgotten first."""
_ORPHANS_MAX = 4096
"""Deliveries that arrived before the answer to the request that opened their subscription."""
_BOOKMARKS_MAX = 16_384
"""Subscriptions per request for bookmarks."""
_HURRY_SECONDS = 30.0
"""How many seconds an urgent reader receives bookmarks eight times a second."""
_RENEW_SOON_SECONDS = 1.0
_RENEWED_MAX = 1024
"""Leases renewed in one turn."""
_REPEAT_SECONDS = 2.0
"""Initial time to wait for a coordinator's answer; doubled each time."""


@dataclass(slots=True)
class _Epoch:
    """A numbering of solutions: the last one delivered, and those that arrived out of order."""

    told: int = 0
    early: dict[int, Deliver] = field(default_factory=dict)


@dataclass(slots=True)
class _Local:
    """A subscription with its subscriber at this peer."""

    number: int
    request: int
    """The request that opened or attached it here."""
    lease_seconds: float
    renew_at: float = 0.0
    epochs: dict[int, _Epoch] = field(default_factory=dict)
    first_epochs: dict[int, int] = field(default_factory=dict)
    """By key of the coordinator that answered an attach request: its epoch at that time."""
    early: list[tuple[Contact, Deliver]] = field(default_factory=list)
    """Deliveries that arrived before that answer."""
    bookmark: int | None = None
    """The last bookmark delivered, 0: none yet; None: bookmarks are not requested."""
    hurry_until: float = 0.0
    """Until when bookmarks are urgent."""
    taken: bool = False
    """Whether ``SubscriptionClosed(elsewhere=True)`` arrived while an attach request was pending.

    The lease is renewed after the attachment, to learn whether the subscription is still here.
    """
    seeking: Backfill | None = None
    """None: its coordinator has received all earlier solutions since it was opened or attached."""
    reaching: tuple[int, int, int, bool] | None = None
    """The next bookmark: an epoch, the number that must be delivered in it before, the stamp, and whether it is a mark
    (:class:`p2prdf.wire.messages.BookmarksResponse`)."""

    def told(self, number: int) -> int:
        """Return the number of the last solution of an epoch delivered to the subscriber."""
        found = self.epochs.get(number)
        return 0 if found is None else found.told

    def epoch(self, number: int) -> _Epoch:
        """Return an epoch, and mark it as the latest in use."""
        found = self.epochs.pop(number, None) or _Epoch()
        self.epochs[number] = found
        if len(self.epochs) > _EPOCHS_MAX:
            del self.epochs[next(iter(self.epochs))]
        return found


@dataclass(slots=True)
class _Pending:
    """An unanswered request to a coordinator."""

    request: int
    kind: type
    key: int
    message: Message
    due: float
    asked: int
    """The key of the peer that received the request last."""
    subscription: int = 0
    lease_seconds: float = 0.0
    repeat_seconds: float = _REPEAT_SECONDS


class ClientEdge(Component):
    """Requests of the local application."""

    def __init__(
        self, messenger: Messenger, engine: Engine, coordinator: Coordinator, conditions: Conditions,
        dictionary: TermDictionary, sources: Sources,
    ):  # fmt: skip
        self._messenger = messenger
        self._dictionary = dictionary
        self._engine = engine
        self._coordinator = coordinator
        self._conditions = conditions
        self._columns = messenger.columns
        self._locals: dict[int, _Local] = {}
        self._wanting: dict[int, None] = {}
        """Local subscriptions for which bookmarks are, or were, requested."""
        self._hurried: list[_Local] = []
        """Local subscriptions with urgent bookmarks, now or before."""
        self.hurries = 0
        """Number of times that a local subscriber asked for urgent bookmarks."""
        self._orphans: dict[int, list[tuple[Contact, Deliver]]] = {}
        self._pending: dict[int, _Pending] = {}
        self._settled = RecentlyStable()
        self._renewals: list[tuple[float, int]] = []
        self._deadlines: list[tuple[float, int]] = []
        self._repeats: list[tuple[float, int]] = []
        self._sources = sources
        self.one_time = OneTimeQueries(messenger, dictionary, self.open_subscription)
        self.issued = 0
        """The stamp of the latest publication."""
        self.published = self._publications = 0
        self.publications_open = 0
        self.rows_open = 0

    # --- contract --------------------------------------------------------------------------------

    def handlers(self) -> Handlers:
        """Return the handlers of coordinators' messages to subscribers of this peer."""
        return {
            Deliver: self.deliver,
            SettledAnswers: lambda _, message: self.settled(message),
            BookmarksResponse: lambda _, message: self.bookmarks(message),
            SubscriptionOpened: self.opened,
            SubscriptionRefused: lambda _, message: self.refused(message),
            SubscriptionClosed: lambda _, message: self.closed(message),
        }

    def requests(self) -> Mapping[type[Any], Callable[[Any], None]]:
        """Return the handlers of requests of local publishers and subscribers."""
        return {
            Publish: self.publish, Heartbeat: self.heartbeat, EndStream: self.end_stream, Subscribe: self.subscribe,
            Attach: self.attach, Detach: self.detach, Unsubscribe: self.unsubscribe,
            AcknowledgeAnswers: self.acknowledge, WantBookmarks: self.want_bookmarks,
        }  # fmt: skip

    def status(self) -> Mapping[str, object]:
        """Return how many subscriptions and publications are attached to this peer."""
        return {
            "subscriptions_local": self.subscriptions, "published": self.published,
            "publications_open": self.publications_open,
        }  # fmt: skip

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, message: Publish) -> None:
        """Stamp triples and index them."""
        elements = bool(message.times)
        try:
            s, p, o, events = self._indexed(message)
            times = element_times(self._dictionary, message.times[0], message.graph[0]) if elements else None
        except (Busy, DataRefused) as error:
            self._complete(message.request, Failed(error.code, str(error)))
            return
        count = rows = len(s)
        refusal = self._refusal(message, s, p, o)
        if refusal:
            self._complete(message.request, Failed(DataRefused.code, refusal))
            return
        try:
            requirement = self._requirement(message)
        except (Busy, DataRefused, StampRefused) as error:
            self._complete(message.request, Failed(error.code, str(error)))
            return
        traces = self._messenger.traces
        traced = message.trace is not None or self._sampled()
        stamp = self._messenger.tick_apart() if traced else self._messenger.tick()
        self.issued = stamp
        indexed = traces.begin(stamp, message.trace, triples=len(message.s), rows=count) if traced else None
        self.publications_open += 1
        self.rows_open += count
        self._engine.redelivery.begin(stamp)
        acknowledged = False

        def acknowledge() -> None:
            nonlocal acknowledged
            if not acknowledged:
                acknowledged = True
                self._complete(message.request, Published(stamp))

        def refuse(error: P2PRDFError) -> None:
            nonlocal acknowledged
            acknowledged = True
            self._complete(message.request, Failed(error.code, str(error)))

        def done() -> None:
            self._engine.redelivery.end(stamp)
            self.publications_open -= 1
            self.rows_open -= rows
            acknowledge()
            if indexed is not None:
                indexed()

        token = self._messenger.token(done, sparing=True)
        roles, words = self._engine.indexes.used, self._engine.words
        full, concat, plain = self._columns.full, self._columns.concat, (1 << keys.EVENT_SHIFT) - 1
        time: Column
        if times is not None:  # an element is an event, not a fact
            roles = (roles | self._messenger.config.element_roles) & ~plain
            time, indexes = self._columns.adopt(times), full(count, roles, "uint32")
        else:  # a deletion affects facts only, not events
            deletions = count if message.removed else message.deletions
            added = count - deletions
            time = concat((full(deletions, stamp | GONE), full(added, stamp)))
            indexes = concat((full(deletions, roles & plain, "uint32"), full(added, roles, "uint32")))
            roles = roles if added else roles & plain
        self.published += len(message.s)
        if count:
            adopt = self._columns.adopt
            batch = TripleBatch(
                adopt(s, "uint32"), adopt(p, "uint32"), adopt(o, "uint32"),
                time, adopt(events), indexes, 0, (token,), None,
                self._messenger.own.key, roles, self._engine.redelivery.began, 0, stamp if elements else 0,
                words.digest,
            )  # fmt: skip
            self._engine.introductions.published(batch)
            if roles:
                wants = message.level == ACCEPTED and not elements

                def index(confirm: Confirm | None = None) -> None:
                    nonlocal rows
                    more = words.indexed(batch)
                    if more is not None:
                        rows += len(more)
                        self.rows_open += len(more)
                    self._engine.staging.index(
                        batch, *([] if more is None else [more]), accepted=acknowledge if wants else None,
                        atomic=message.atomic, confirm=confirm,
                    )  # fmt: skip

                self._index_if(requirement, stamp, batch, index, refuse)
            else:
                self._engine.indexes.remember(batch)  # a query may need it that this peer has not heard of yet
        traces.gathered()
        self._messenger.release((token,))

    def _refusal(self, message: Publish, s: Column, p: Column, o: Column) -> str:
        """Return why the triples of a publication are refused; "" if they are not."""
        chunker, limit = self._engine.chunker, self._messenger.config.message_bytes_max
        if chunker.too_large((s, p, o)):
            return f"a triple of more than {limit} characters"
        if not message.atomic:
            return ""
        if len(chunker.slices(len(s), (s, p, o), ROWS_MAX)) > 1:
            return f"a transaction of {len(s)} triples, with the directory of graphs: they fit no message"
        rows = list(zip(as_list(s), as_list(p), as_list(o), strict=True))
        both = set(rows[: message.deletions]).intersection(rows[message.deletions :])
        if both:
            statement = " ".join(self._dictionary.texts(next(iter(sorted(both)))))
            return f"a transaction deletes and adds {statement[:200]}: name each statement once, with its last change"
        return ""

    def _requirement(self, message: Publish) -> Requirement | None:
        """Return the condition of a publication; the clock passes the stamps that the client knows.

        Raises Busy, DataRefused, StampRefused.
        """
        self._messenger.check_stamp(message.after, "the latest publication that the client has heard of")
        self._messenger.merge(message.after)
        if not message.versions:
            return None
        if not self._messenger.config.fixed_roles >> keys.S & 1:
            reason = "a condition needs the index of subjects: nodes with indexes = all or csbv take conditional"
            raise DataRefused(f"{reason} transactions")
        if self._conditions.full:
            raise Busy("too many conditional transactions wait at this node")
        versions: dict[int, int] = {}
        for subject, version in zip(as_list(message.s), as_list(message.versions[0]), strict=True):
            if version:
                versions[subject] = min(version, versions.get(subject, version))
        latest = max(versions.values(), default=0)
        self._messenger.check_stamp(latest, "the version that a transaction depends on")
        self._messenger.merge(latest)
        return Requirement(versions, message.attempt) if versions else None

    def _index_if(
        self, requirement: Requirement | None, stamp: int, batch: TripleBatch,
        index: Callable[[Confirm | None], None], refuse: Callable[[P2PRDFError], None],
    ) -> None:  # fmt: skip
        """Index a publication if its condition holds; the batch's counters are held until that is known."""
        if requirement is None:
            index(None)
            return
        messenger, conditions = self._messenger, self._conditions
        messenger.hold(batch.tokens)

        def granted() -> None:
            index(confirm)
            messenger.release(batch.tokens)

        def refused(error: P2PRDFError) -> None:
            refuse(error)
            messenger.release(batch.tokens)

        def confirm(confirmed: Callable[[bool], None]) -> None:
            """Have the grants renewed with a new stamp: this peer may have been cut off since."""

            def withdrawn(error: P2PRDFError) -> None:
                refuse(Unavailable(f"the outcome of the transaction is unknown: {error}"))
                confirmed(False)

            conditions.require(
                messenger.tick(), requirement, batch.message(), lambda: confirmed(True), withdrawn, at_once=True
            )

        conditions.require(stamp, requirement, batch.message(), granted, refused)

    def _sampled(self) -> bool:
        """Return whether a publication is traced by sampling."""
        every = self._messenger.config.trace_every
        self._publications += 1
        return every > 0 and self._publications % every == 0

    def _indexed(self, message: Publish) -> tuple[Column, Column, Column, Column]:
        """Return a publication's triples and event identities; rows of the graph directory follow them."""
        count = len(message.s)
        events: Column
        if message.by_content:
            events = self._columns.full(count, 0)  # computed below from the indexed triples
        elif isinstance(self._columns.full(0, 0), list):
            events = [keys.event_id(message.publisher, message.first_event + at) for at in range(count)]
        else:
            events = keys.event_ids(message.publisher, message.first_event, count)
        s, p, o = message.s, message.p, message.o
        if message.times:
            if not message.graph or message.removed or len(message.times[0]) != count:
                raise DataRefused("an element has a stream and a time, and is not removed")
            p = index_elements(self._dictionary, p, *message.graph)
        elif message.graph:
            columns = s, p, o, *message.graph, events
            deletions = count if message.removed else message.deletions
            halves = [
                index_quads(self._dictionary, *(column[part] for column in columns), removed=removed)
                for removed, part in ((True, slice(deletions)), (False, slice(deletions, None)))
                if len(s[part])
            ]  # fmt: skip
            s, p, o, events = map(self._columns.concat, zip(*halves, strict=True))
        if message.by_content:
            hashes = self._dictionary.hash_array()
            parts = (hashes[as_array(column, np.intp)] for column in (s, p, o))
            events = keys.event_ids_by_content(message.publisher, *parts)
        return s, p, o, events

    def heartbeat(self, message: Heartbeat) -> None:
        """Note a publisher's watermark of a stream; the next low watermark reports it to other peers."""
        if not self._sources.take(message, self._messenger.now):
            self._messenger.trace("too-many-sources", publisher=message.publisher)

    @property
    def streams(self) -> frozenset[int]:
        """The streams with watermarks of publishers at this peer."""
        return self._sources.streams

    def sources(self, streams: Collection[int]) -> Iterable[Source]:
        """Return the watermarks of publishers of some streams at this peer."""
        return [each for each in self._sources.told(self._messenger.now) if each.stream in streams]

    def end_stream(self, request: EndStream) -> None:
        """Store a publisher's end of a stream at the replicas of the stream's key.

        It is acknowledged when enough copies are safe.
        """
        token = self._messenger.token(lambda: self._complete(request.request, StreamEnded()), sparing=True)
        each = (request.stream, request.publisher, request.opening, request.began, request.upto)
        columns = (self._columns.column([value]) for value in each)
        self._coordinator.to_all(request.stream, KeepEnds(*columns), (token,))
        self._messenger.release((token,))

    def _complete(self, request: int, outcome: Outcome) -> None:
        self._messenger.effects.append(Completed(request, outcome))

    # --- subscribing -----------------------------------------------------------------------------

    def _ask(
        self, request: Subscribe | Attach | Unsubscribe | AcknowledgeAnswers, key: int, message: Message,
        lease_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        """Send a request to the coordinator of ``key``, and repeat it until it is answered or times out."""
        number, now = request.request, self._messenger.now
        subscription = 0 if isinstance(request, Subscribe) else request.subscription
        due = now + self._messenger.config.request_seconds
        pending = _Pending(number, type(request), key, message, due, 0, subscription, lease_seconds)
        self._pending[number] = pending
        self.dirty = True
        heapq.heappush(self._deadlines, (due, number))
        heapq.heappush(self._repeats, (now + _REPEAT_SECONDS, number))
        self._send(pending)

    def _send(self, pending: _Pending) -> None:
        nearest = self._messenger.closest_known(self._columns.column([pending.key]))
        pending.asked = self._messenger.contact(as_list(nearest)[0]).key
        self._coordinator.to_owner(pending.key, pending.message)

    def contact_lost(self, contact: Contact) -> None:
        """Repeat to another peer the requests that a lost one has not answered."""
        for pending in list(self._pending.values()):
            if pending.asked == contact.key:
                self._send(pending)

    def _keep(self, local: _Local) -> None:
        """Deliver a subscription here, and renew its lease three times as often as needed, or more often."""
        self._locals[local.number] = local
        self._renew_later(local)

    def _renew_later(self, local: _Local) -> None:
        seconds = min(local.lease_seconds / 3, self._messenger.placement.renewal_seconds_max)
        local.renew_at = self._messenger.now + seconds
        heapq.heappush(self._renewals, (local.renew_at, local.number))
        self.dirty = True

    def _renew(self, *some: _Local) -> None:
        """Renew leases; the coordinators report the subscriptions that have ended or moved."""
        make, at = self._columns.column, dict[int, list[_Local]]()
        homes = as_list(self._messenger.owners(make([subscription_home(local.number) for local in some])))
        for local, home in zip(some, homes, strict=True):  # separately if the owner is not known yet
            at.setdefault(~local.number if home < 0 else home, []).append(local)
        for there in at.values():
            numbers, requests = make([each.number for each in there]), make([each.request for each in there])
            message = RenewSubscriptions(self._messenger.own, numbers, requests)
            self._coordinator.to_owner(subscription_home(there[0].number), message)

    def _renew_what_is_due(self) -> None:
        """Renew leases, with those due soon, so that coordinators receive few messages about many leases."""
        now, due = self._messenger.now, dict[int, _Local]()
        soon = now + _RENEW_SOON_SECONDS
        while self._renewals and self._renewals[0][0] <= (soon if due else now) and len(due) < _RENEWED_MAX:
            when, number = heapq.heappop(self._renewals)
            local = self._locals.get(number)
            if local is not None and when == local.renew_at:  # else it is gone, or was attached again
                due[number] = local
        for local in due.values():
            self._renew_later(local)
        if due:
            self._renew(*due.values())

    def subscribe(self, request: Subscribe) -> None:
        """Answer a one-time query here if possible; open any other query at its coordinator."""
        if not self.one_time.begin(request):
            self.open_subscription(request)

    def open_subscription(self, request: Subscribe) -> None:
        """Open a subscription at its coordinator."""
        why = _not_per_event(request.query) if request.per_event else ""
        rule = isinstance(request.query, ConjunctiveQuery) and request.query.concludes
        if rule and (request.per_event or request.algorithm is Algorithm.CQC):
            why = "a rule is evaluated per triple, by CSBV"
        if why:
            self._complete(request.request, Failed(QueryRefused.code, why))
            return
        try:
            query = self._waiting(request)
        except (QueryRefused, Busy) as error:
            self._complete(request.request, Failed(error.code, str(error)))
            return
        key = home_key(query, request.algorithm, per_event=request.per_event, salt=request.salt)
        message = OpenSubscription(
            request.request, key, query, request.algorithm.value, request.per_event,
            self._messenger.own, request.lease_seconds, request.since, request.salt, owner=request.owner,
        )  # fmt: skip
        self._ask(request, key, message, request.lease_seconds)

    def _waiting(self, request: Subscribe) -> Query:
        """Return the query in the form in which it is installed: with keyword routing where that is enabled.

        Only a query without ``since`` is routed by keywords, because earlier triples are not indexed by them.  Nor are
        events and derived facts, so queries per event and rules keep their form.
        """
        if not self._messenger.config.keyword_routing or request.since or request.per_event:
            return request.query
        from p2prdf.text.by_words import by_words  # imported on demand, because it loads the keyword index

        return by_words(request.query, self._engine.words.allowed)

    def attach(self, request: Attach) -> None:
        """Attach a subscription again."""
        self._give_up(request.subscription, Failed(Unavailable.code, "it was attached again"))
        self._keep(_Local(request.subscription, request.request, self._messenger.config.request_seconds))
        have = self._columns.adopt(request.have)
        message = AttachSubscription(
            request.request, request.subscription, self._messenger.own, have, owner=request.owner
        )
        self._ask(request, subscription_home(request.subscription), message)

    def detach(self, request: Detach) -> None:
        """Handle the departure of a subscriber; the lease remains."""
        self._give_up(request.subscription, Failed(Unavailable.code, "its subscriber left"))
        self.one_time.answered.pop(request.subscription, None)
        self._locals.pop(request.subscription, None)

    def _give_up(self, number: int, failed: Failed) -> None:
        """End attempts to attach a subscription: a repetition would take it from a later subscriber."""
        for pending in self._asked_about(number):
            if pending.kind is Attach:
                del self._pending[pending.request]
                self._fail(pending, failed)

    def _asked_about(self, number: int) -> list[_Pending]:
        """Return the unanswered requests about a subscription."""
        return [each for each in self._pending.values() if each.subscription == number]

    @property
    def wants_bookmarks(self) -> bool:
        """Whether a local subscriber requests bookmarks."""
        while self._wanting:
            local = self._locals.get(next(iter(self._wanting)))
            if local is not None and local.bookmark is not None:
                return True
            del self._wanting[next(iter(self._wanting))]
        return False

    def want_bookmarks(self, request: WantBookmarks) -> None:
        """Deliver bookmarks of a subscription from now on."""
        if self.one_time.want_bookmark(request.subscription):
            return
        local = self._locals.get(request.subscription)
        if local is None:
            return
        if request.urgent:
            self.hurries += 1
            local.hurry_until = self._messenger.now + _HURRY_SECONDS
            self._hurried.append(local)
        if local.bookmark is None:
            local.bookmark = 0
            self._wanting[local.number] = None

    @property
    def wants_bookmarks_soon(self) -> bool:
        """Whether a local subscriber needs bookmarks urgently."""
        now = self._messenger.now
        self._hurried = [
            each for each in self._hurried if each.hurry_until > now and self._locals.get(each.number) is each
        ]
        return bool(self._hurried)

    def low_watermark(self, known: Known) -> None:
        """Handle a low watermark: ask the coordinators whether they have delivered everything up to it.

        A subscription is left out until its coordinator has received all solutions that were true when it was opened or
        attached, of any stamp.
        """
        messenger, upto = self._messenger, known.upto
        at: dict[int, tuple[Contact, list[int]]] = {}
        for number in self._wanting:
            local = self._locals.get(number)
            if local is not None and local.bookmark is not None and local.bookmark < upto:
                if local.seeking is not None and not local.seeking.over(known):
                    continue
                local.seeking = None
                home = messenger.owner(subscription_home(local.number))
                if home is not None:
                    at.setdefault(home.key, (home, []))[1].append(local.number)
        for home, numbers in at.values():
            for start in range(0, len(numbers), _BOOKMARKS_MAX):
                some = self._columns.column(numbers[start : start + _BOOKMARKS_MAX])
                self._coordinator.reply(home, BookmarksRequest(messenger.own, upto, messenger.view, some))

    def bookmarks(self, message: BookmarksResponse) -> None:
        """Deliver bookmarks once all solutions before them have been delivered."""
        columns = (as_list(column) for column in (message.subscriptions, message.epoch, message.sent))
        for number, epoch, sent in zip(*columns, strict=True):
            local = self._locals.get(number)
            if local is None or (local.bookmark is None and not message.exact):
                continue
            if (local.bookmark or 0) < message.upto:
                local.reaching = (epoch, sent, message.upto, message.exact)
                self._tell_bookmark(local)

    def _tell_bookmark(self, local: _Local) -> None:
        if local.reaching is not None:
            epoch, sent, stamp, exact = local.reaching
            told = local.told(epoch)
            if told == sent or (told > sent and not exact):
                self._bookmark(local, stamp)

    def _bookmark(self, local: _Local, stamp: int) -> None:
        local.reaching, local.bookmark = None, stamp
        self._messenger.effects.append(Bookmark(local.number, stamp))

    def unsubscribe(self, request: Unsubscribe) -> None:
        """End a subscription."""
        if request.subscription in self.one_time.answered:
            del self.one_time.answered[request.subscription]
            self._complete(request.request, Unsubscribed(request.subscription))
            return
        message = CloseSubscription(request.request, request.subscription, self._messenger.own, owner=request.owner)
        self._ask(request, subscription_home(request.subscription), message)

    def acknowledge(self, request: AcknowledgeAnswers) -> None:
        """Report to the coordinator which solutions the subscriber has processed."""
        if request.subscription in self.one_time.answered:
            self._complete(request.request, Settled(request.subscription))
            return
        identity = self._columns.adopt(request.identity)
        if self._messenger.traces.live:
            self._messenger.traces.handed("acknowledge", request.subscription, identity)
        message = Delivered(
            self._messenger.own, request.request, request.subscription, identity, owner=request.owner
        )
        self._ask(request, subscription_home(request.subscription), message)

    def settled(self, message: SettledAnswers) -> None:
        """Report acknowledged solutions as stable, once all earlier deliveries of the coordinator are here.

        Messages overtake each other: a solution that was delivered again before its acknowledgement may still be in
        flight.  The answer is then ignored, and requested again.
        """
        local = self._locals.get(message.subscription)
        if local is not None and message.epoch and local.told(message.epoch) < message.sent:
            return
        pending = self._pending.pop(message.request, None)
        if pending is not None:
            if isinstance(pending.message, Delivered):
                identities = pending.message.identity
                self._settled.add(message.subscription, identities, message.epoch, self._messenger.now)
            self._complete(message.request, Settled(message.subscription))

    def opened(self, sender: Contact, message: SubscriptionOpened) -> None:
        """Handle the answer that a subscription is live, or is delivered here again."""
        pending = self._pending.pop(message.request, None)
        if pending is None:
            self._opened_again(message)
            return
        if pending.kind is Attach:
            local = self._locals.get(message.subscription)
            if local is not None:
                local.lease_seconds = message.lease_seconds
                local.seeking = _seeking(message)
                self._renew_later(local)
                if local.taken:
                    local.taken = False
                    self._renew(local)
            attached = Attached(
                message.subscription, message.since, message.names, message.order, message.reads, message.writes
            )
            self._complete(message.request, attached)
            if local is not None:
                local.first_epochs[sender.key] = message.epoch
                early, local.early = local.early, []
                for home, delivery in early:
                    self.deliver(home, delivery)
            return
        local = _Local(message.subscription, message.request, pending.lease_seconds)
        local.seeking = _seeking(message)
        self._keep(local)
        self._complete(message.request, Subscribed(message.subscription, message.since, message.order, message.opened))
        for home, delivery in self._orphans.pop(message.subscription, []):
            self.deliver(home, delivery)

    def _opened_again(self, message: SubscriptionOpened) -> None:
        """Ignore a repeated answer; end a duplicate that a second coordinator opened for the request."""
        for local in self._locals.values():
            if local.request == message.request and local.number != message.subscription:
                close = CloseSubscription(0, message.subscription, self._messenger.own)
                self._coordinator.to_owner(subscription_home(message.subscription), close)
                return

    def refused(self, message: SubscriptionRefused) -> None:
        """Handle the refusal of a request by the coordinator."""
        pending = self._pending.pop(message.request, None)
        if pending is not None:
            self._fail(pending, Failed(message.code, message.text))

    def _fail(self, pending: _Pending, failed: Failed) -> None:
        local = self._locals.get(pending.subscription)
        if pending.kind is Attach and local is not None and local.request == pending.request:
            del self._locals[local.number]  # not attached here
        elif pending.kind is Unsubscribe and local is not None:
            self._renew(local)  # it may have ended meanwhile: such a report was ignored in favour of this answer
        self._complete(pending.request, failed)

    def closed(self, message: SubscriptionClosed) -> None:
        """Handle the end of a subscription, or its delivery elsewhere.

        A pending unsubscription is answered first.  After that, a local subscriber and pending attach requests learn
        that the subscription is gone.  While unsubscriptions are unanswered, the report is ignored in favour of their
        answers.
        """
        number = message.subscription
        if message.elsewhere:
            self._closed_elsewhere(message, self._locals.get(number))
            return
        self._settled.end(number)
        if self._pending.pop(message.request, None) is not None:
            self._complete(message.request, Unsubscribed(number))
        if any(each.kind is Unsubscribe for each in self._asked_about(number)):
            return
        why = message.why or "it was ended, or its lease ran out"
        self._give_up(number, Failed(SubscriptionGone.code, f"no subscription {number:016x}: {why}"))
        local = self._locals.get(number)
        if local is not None:
            self._end(local, SubscriptionGone.code, why)

    def _closed_elsewhere(self, message: SubscriptionClosed, local: _Local | None) -> None:
        why = "it was attached by another client"
        pending = self._pending.get(message.request)
        if pending is not None and pending.kind is Attach:  # the coordinator answers again on each repetition
            del self._pending[message.request]
            self._fail(pending, Failed(Unavailable.code, why))
        elif local is not None and local.request == message.request:
            self._end(local, Unavailable.code, why)
        # it may have moved again before the attachment completes
        elif local is not None and local.request in self._pending:
            local.taken = True
        elif local is not None:  # it may be back here, or have moved again since
            self._renew(local)

    def _end(self, local: _Local, code: str, text: str) -> None:
        del self._locals[local.number]
        self._messenger.effects.append(Ended(local.number, code, text))

    # --- solutions -------------------------------------------------------------------------------

    def deliver(self, sender: Contact, message: Deliver) -> None:
        """Deliver solutions to the local subscriber, in order and once.

        Deliveries from before an attachment may still be in flight, although their solutions have become stable
        elsewhere meanwhile.  All deliveries therefore wait for the coordinator's answer.  Those of an earlier epoch
        than the answer's are dropped: a solution that is not stable arrives in the later epoch as well.
        """
        local = self._locals.get(message.subscription)
        if local is None:
            opening = any(each.kind is Subscribe for each in self._pending.values())
            if opening and len(self._orphans) < _ORPHANS_MAX:  # the answer may arrive after the first delivery
                self._orphans.setdefault(message.subscription, []).append((sender, message))
            return
        pending = self._pending.get(local.request)
        if pending is not None and pending.kind is Attach:
            local.early.append((sender, message))
            return
        if message.epoch < local.first_epochs.get(sender.key, 0):
            return
        epoch = local.epoch(message.epoch)
        held = epoch.early.get(message.first)
        if message.first + len(message) - 1 > epoch.told and (held is None or len(held) < len(message)):
            epoch.early[message.first] = message
        while epoch.early:
            first = min(epoch.early)
            following = epoch.early[first]
            if first - following.lost > epoch.told + 1:
                return  # an earlier delivery is still in flight
            del epoch.early[first]
            known = max(0, epoch.told + 1 - first)  # delivered already, in messages cut differently
            if known and known >= len(following):
                continue
            if not known and following.mark > (local.bookmark or 0):
                self._bookmark(local, following.mark)
            epoch.told = first + len(following) - 1
            self._notify(following, known)
        self._tell_bookmark(local)

    def _notify(self, message: Deliver, known: int) -> None:
        """Deliver the solutions after the first ``known`` ones, without those that became stable lately."""
        identity, born = message.identity[known:], message.born[known:]
        bindings = tuple(column[known:] for column in message.bindings)
        lost = 0 if known else message.lost
        places = self._settled.places_left(message.subscription, identity, message.epoch)
        if places is not None:
            if not places and not lost:
                return
            take, index = self._columns.take, self._columns.column(places, "int64")
            identity, born = take(identity, index), take(born, index)
            bindings = tuple(take(column, index) for column in bindings)
        born = self._settled.made_sure(message.subscription, identity, born, message.epoch)
        self._messenger.effects.append(
            Notify(message.subscription, message.first + known, lost, identity, born, bindings, message.epoch)
        )
        if self._messenger.traces.live:
            self._messenger.traces.handed("deliver", message.subscription, identity, born)

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Renew leases; fail requests that timed out."""
        now = self._messenger.now
        self._renew_what_is_due()
        while self._deadlines and self._deadlines[0][0] <= now:
            due, request = heapq.heappop(self._deadlines)
            pending = self._pending.get(request)
            if pending is not None and pending.due == due:
                del self._pending[request]
                self._fail(pending, Failed("unavailable", "the home of the query did not answer in time"))
        while self._repeats and self._repeats[0][0] <= now:
            _, request = heapq.heappop(self._repeats)
            pending = self._pending.get(request)
            if pending is not None:
                pending.repeat_seconds *= 2
                heapq.heappush(self._repeats, (now + pending.repeat_seconds, request))
                self._send(pending)
        if not self._pending:
            self._orphans.clear()
        self.dirty = bool(self._orphans)

    @property
    def deadline(self) -> float | None:
        """When the next action is due."""
        for timers in (self._deadlines, self._repeats):
            while timers and timers[0][1] not in self._pending:
                heapq.heappop(timers)
        while self._renewals and self._renewals[0][1] not in self._locals:
            heapq.heappop(self._renewals)
        due = [timers[0][0] for timers in (self._renewals, self._deadlines, self._repeats) if timers]
        return min(due, default=None)

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions with a subscriber at this peer."""
        return len(self._locals)


def _seeking(opened: SubscriptionOpened) -> Backfill:
    return Backfill(subscription_home(opened.subscription), opened.opened, len(opened.order))


def _not_per_event(query: Query) -> str:
    """Return why a query is not evaluated per event; "" if it is."""
    if isinstance(query, StandingQuery):
        return "per event only conjunctive queries are answered: a basic graph pattern with filters"
    if any(map(is_directory, query.constants)):
        return (
            "per event GRAPH takes an IRI, and patterns in it have predicates: that a graph has a predicate is "
            "published along with each statement of it, so there would be an answer for each of those"
        )
    return ""
