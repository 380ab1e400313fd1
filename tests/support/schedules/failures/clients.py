"""Persistent clients: publishers that repeat publications at other peers, subscribers that reconnect.

A *publisher* numbers its events.  It repeats an unacknowledged publication under the same numbers at another peer until
a peer acknowledges it, or it crashes for good.

A *subscriber* combines client library and application.  With its output it stores, atomically, a *token*: the number
of its subscription and the identities of delivered answers that are not settled yet.  After a crash of its own or of
its peer it attaches with the token, at any peer.  The token recognises repeated answers, which the subscriber drops and
acknowledges again, so the output has each answer once.  Answers that were not stored before a crash do not count as
delivered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.errors import SubscriptionGone
from p2prdf.rdf.quads import qualified
from p2prdf.sim.oracle import Publication, Triple
from p2prdf.wire import contract
from p2prdf.wire.contract import Failed, Notify, Outcome, Published
from p2prdf.wire.messages import ACCEPTED, INDEXED
from schedules.failures.subscriber import ResumingSubscriber

if TYPE_CHECKING:
    from p2prdf.sim.world import Node
    from schedules.failures.world import FailingWorld

__all__ = ["Publisher", "RepeatedPublishing", "SubscriberClient"]

_SUBSCRIBE_PATIENCE_SECONDS = 12.0
_AGAIN_SECONDS = 0.3


class _AtSomePeer:
    """Common part of clients: they choose any live peer, if possible another one."""

    def __init__(self, world: FailingWorld, random: Random):
        self._world = world
        self._random = random
        self.peer: int | None = None

    def _elsewhere(self) -> Node | None:
        living = self._reachable(self._world.serving())
        others = [node for node in living if node.index != self.peer] or living
        if not others:
            return None
        node = self._random.choice(others)
        self.peer = node.index
        return node

    def _reachable(self, nodes: list[Node]) -> list[Node]:
        """Return the peers that this client may use."""
        return nodes

    def _later(self, seconds_max: float, action: Callable[..., None], *arguments: object) -> None:
        self._world.schedule(self._random.uniform(0.0, seconds_max), action, *arguments)


@dataclass(slots=True, eq=False)
class RepeatedPublishing:
    """Triples that are published together under consecutive event numbers, and repeated if necessary.

    ``stamps``: stamps that were acknowledged to the publisher.  ``unheard``: stamps that were acknowledged after its
    crash.  ``removed``: the triples are deleted.  ``times``: they are elements of streams, with these event times.
    """

    publisher: int
    first_event: int
    triples: Sequence[Triple]
    first_at: float
    removed: bool = False
    attempts: int = 0
    stamps: list[int] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    """For each stamp, the acknowledging peer's clock before the turn of the decision."""
    unheard: list[int] = field(default_factory=list)
    completed_at: float | None = None
    gone: bool = False
    """Whether the publisher crashed before it got an acknowledgement."""
    failures: list[Failed] = field(default_factory=list)
    times: Sequence[int] = ()

    @property
    def events(self) -> list[int]:
        """The identities of its events."""
        return [keys.event_id(self.publisher, self.first_event + number) for number in range(len(self.triples))]

    @property
    def statements(self) -> list[Triple]:
        """The triples as peers index them, with a qualified predicate in a named graph; none for elements."""
        if self.times:
            return []
        parts: Sequence[tuple[str, ...]] = self.triples
        return [(each[0], qualified(each[1], each[3]) if each[3:] else each[1], each[2]) for each in parts]

    def log(self, until: float = math.inf) -> list[Publication]:
        """Return the publications acknowledged until a clock showed ``until``, each event with its latest stamp."""
        stamps = [stamp for stamp, clock in zip(self.stamps, self.clocks, strict=True) if clock <= until]
        if not stamps:
            return []
        stamp = max(stamps)
        return [Publication(stamp, event, triple) for event, triple in zip(self.events, self.triples, strict=True)]

    @property
    def open(self) -> bool:
        """Whether the publisher still waits for an acknowledgement."""
        return not self.stamps and not self.gone


class Publisher(_AtSomePeer):
    """One identity that publishes batches, several at a time if they overlap."""

    def __init__(self, world: FailingWorld, name: str, random: Random):
        super().__init__(world, random)
        self.identity = keys.text_key(name)
        self._next_event = 0
        self.published: list[RepeatedPublishing] = []
        self._open: dict[int, RepeatedPublishing] = {}

    def publish(
        self, at: float, triples: Sequence[tuple[str, ...]], *, removed: bool = False, times: Sequence[int] = ()
    ) -> RepeatedPublishing:
        """Publish or delete triples, ``at`` seconds from now, with repeats until an acknowledgement.

        The fourth part of a quad is its named graph.  ``times``: the triples are elements with these event times, and
        their fourth parts are streams.
        """
        publishing = RepeatedPublishing(
            self.identity, self._next_event, tuple(triples), self._world.now + at, removed,  # type: ignore[arg-type]
            times=tuple(times),
        )  # fmt: skip
        self._next_event += len(publishing.triples)
        self.published.append(publishing)
        self._world.schedule(at, self._attempt, publishing, 0)
        return publishing

    def crash(self, publishing: RepeatedPublishing) -> None:
        """Crash before the acknowledgement of one batch; later batches are not affected."""
        if publishing.open:
            self._world.happened["publisher-crash"] += 1
            publishing.gone = True

    def _attempt(self, publishing: RepeatedPublishing, after: int) -> None:
        """Publish, unless there was a later attempt."""
        if not publishing.open or publishing.attempts != after:
            return
        failures, world = self._world.failures, self._world
        patience = self._random.uniform(failures.patience_min_seconds, failures.patience_max_seconds)
        publishing.attempts += 1
        node = self._elsewhere()
        if node is not None:
            intern, make = node.dictionary.intern_all, node.columns.column
            s, p, o, *graph = (make(intern(terms), "uint32") for terms in zip(*publishing.triples, strict=True))
            number = world.request(
                node,
                lambda request: contract.Publish(
                    request, publishing.publisher, publishing.first_event, s, p, o,
                    ACCEPTED if failures.accepted else INDEXED, publishing.removed, graph=tuple(graph),
                    times=(make(publishing.times),) if publishing.times else (),
                ),
                _Attempt(self, publishing, publishing.attempts),
            )
            what = "removals" if publishing.removed else "events"
            world.say(node, f"request {number}: {what} {publishing.first_event}.. attempt {publishing.attempts}")
            if publishing.attempts == 1 and self._random.random() < failures.publisher_crash_probability:
                self._later(0.3, self.crash, publishing)
        world.schedule(patience, self._attempt, publishing, publishing.attempts)

    def completed(
        self, publishing: RepeatedPublishing, attempt: int, node: Node, request: int, outcome: Outcome
    ) -> None:
        """Handle an acknowledgement by a peer, or a failure."""
        match outcome:
            case Published(time) if publishing.gone:
                publishing.unheard.append(time)
            case Published(time):
                publishing.stamps.append(time)
                publishing.clocks.append(self._world.decided_at(node, request))
                publishing.completed_at = self._world.now
                if self._world.on_acknowledged is not None and not self._world.failures.accepted:
                    self._world.on_acknowledged(publishing, time)
            case Failed():
                publishing.failures.append(outcome)
                self.again(publishing, attempt)

    def again(self, publishing: RepeatedPublishing, attempt: int) -> None:
        """Try again soon, if this was the latest attempt."""
        self._later(_AGAIN_SECONDS, self._attempt, publishing, attempt)


class _Attempt:
    """One request of a publisher at one peer."""

    def __init__(self, publisher: Publisher, publishing: RepeatedPublishing, number: int):
        self._publisher = publisher
        self._publishing = publishing
        self._number = number

    def completed(self, node: Node, request: int, outcome: Outcome) -> None:
        self._publisher.completed(self._publishing, self._number, node, request, outcome)

    def cut_off(self, _: Node) -> None:
        self._publisher.again(self._publishing, self._number)


class SubscriberClient(_AtSomePeer):
    """The client of one subscription; ``record`` has its answers and problems.

    ``attachment`` counts its connections: events of an earlier one are ignored.  ``bookmarks``: it requests bookmarks
    if the subscribers of its schedule do.
    """

    def __init__(
        self, world: FailingWorld, record: ResumingSubscriber, random: Random, *, bookmarks: bool = True
    ):  # fmt: skip
        super().__init__(world, random)
        self.record = record
        self.bookmarks = bookmarks
        self.on_live: Callable[[], None] = lambda: None
        self.attached = False
        self.absent = False
        self.attachment = 0
        self._closing = False
        self._first: int | None = None
        """Index of the first peer that it used."""
        self._stored_at = 0.0
        self._epochs: dict[int, int] = {}
        """The last number of each epoch of the connection."""

    # --- connecting ------------------------------------------------------------------------------

    def _reachable(self, nodes: list[Node]) -> list[Node]:
        """Return the peers that may know the subscription: two clusters are separate at first."""
        if self._first is None:
            return nodes
        first, views = self._world.nodes[self._first], self._world.views
        return [node for node in nodes if views.known_to_each_other(first, node)]

    def connect(self) -> None:
        """Subscribe, attach or unsubscribe, by the state of the subscription."""
        record = self.record
        if self.absent or record.closed_at is not None or (self.attached and not self._closing):
            return
        self.attachment += 1
        self._epochs.clear()
        self._world.schedule(_SUBSCRIBE_PATIENCE_SECONDS, self._lost_patience, self.attachment)
        node = self._elsewhere()
        if node is None:
            self._later(_AGAIN_SECONDS, self.connect)
            return
        if self._first is None:
            self._first = node.index
        if record.subscription is None:
            make = record.opening()
        elif self._closing:
            make = record.closing()
        else:
            machine = self._world.machines[node.index]
            machine.listeners[record.subscription] = _Connection(self, self.attachment)
            machine.held.pop(record.subscription, None)  # ends an earlier attachment at this peer
            make = record.attaching(node.columns)
        self._world.request(node, make, _Connection(self, self.attachment))

    def _lost_patience(self, attachment: int) -> None:
        if attachment == self.attachment and not self.attached and not self.absent:
            self.cut_off(attachment)

    def completed(self, attachment: int, node: Node, outcome: Outcome) -> None:
        """Handle the outcome of a request to subscribe, attach or unsubscribe."""
        record = self.record
        if attachment != self.attachment or record.closed_at is not None:
            return
        match outcome:
            case contract.Subscribed():
                record.opened(outcome, self._world.now)
                listeners = self._world.machines[node.index].listeners
                listeners[outcome.subscription] = _Connection(self, self.attachment)
                self.attached = not self._closing
                self._want_bookmarks(node)
                self.on_live()
                if self._closing:
                    self.connect()
            case contract.Attached():
                self.attached = True
                self._want_bookmarks(node)
                self._acknowledge(attachment, node, list(record.unsettled))
            case contract.Unsubscribed():
                record.closed_at = self._world.now
                self.attached = False
            case contract.Failed():
                record.failures.append(outcome)
                self.cut_off(attachment)

    def want_bookmarks(self) -> None:
        """Request bookmarks on the current connection, if there is one with an open subscription."""
        if self.peer is not None and self.attached and not self._closing:
            self._want_bookmarks(self._world.nodes[self.peer])

    def _want_bookmarks(self, node: Node) -> None:
        if self._world.failures.bookmarks and self.bookmarks and self.record.subscription is not None:
            urgent = self._random.random() < 0.3 or self._world.failures.hurried
            self._world.submit(node, contract.WantBookmarks(self.record.subscription, urgent))

    def cut_off(self, attachment: int) -> None:
        """Handle the loss of the connection: reconnect."""
        if attachment == self.attachment:
            self.attached = False
            self.attachment += 1
            self._later(_AGAIN_SECONDS, self.connect)

    def unsubscribe(self) -> None:
        """End the subscription, with repeats if necessary."""
        if self.record.subscription is not None and not self._closing:
            self._closing = True
            self.record.closing_at = self._world.now
            if not self.absent:
                self.connect()

    # --- crashing --------------------------------------------------------------------------------

    def crash(self, away_seconds: float) -> None:
        """Lose all state except output and token, and reconnect after some time."""
        if self.absent:
            return
        self._world.happened["subscriber-crash"] += 1
        self.absent, self.attached = True, False
        self.attachment += 1
        number = self.record.subscription
        if number is not None and self.peer is not None:
            machine = self._world.machines[self.peer]
            if machine.listeners.pop(number, None) is not None:
                machine.held.pop(number, None)
                self._world.submit(self._world.nodes[self.peer], contract.Detach(number))
        self._world.schedule(away_seconds, self._return)

    def _return(self) -> None:
        self.absent = False
        self.connect()

    # --- answers ---------------------------------------------------------------------------------

    def notified(self, attachment: int, node: Node, notify: Notify) -> None:
        """Begin to store answers; they count when they are stored."""
        if attachment != self.attachment:
            return
        rows = self.record.read(notify, node.dictionary)
        wait = self._random.uniform(0.0, self._world.failures.handle_seconds_max)
        if not self.record.concerned(notify):
            wait = 0.0  # the client library drops retractions of unknown answers at once
        self._stored_at = max(self._stored_at, self._world.now) + wait
        self._world.schedule(self._stored_at - self._world.now, self._store, attachment, node, notify, rows)

    def _store(self, attachment: int, node: Node, notify: Notify, rows: list[tuple[str, ...]]) -> None:
        if attachment != self.attachment:
            return
        self._check_numbers(notify)
        self._acknowledge(attachment, node, self.record.store(notify, rows, self._world.now))

    def bookmarked(self, attachment: int, bookmark: contract.Bookmark) -> None:
        """Store a bookmark after the answers before it."""
        if attachment == self.attachment:
            wait = max(0.0, self._stored_at - self._world.now)
            self._world.schedule(wait, self._store_bookmark, attachment, bookmark.stamp)

    def _store_bookmark(self, attachment: int, stamp: int) -> None:
        if attachment == self.attachment:
            self.record.bookmark(stamp)

    def _check_numbers(self, notify: Notify) -> None:
        """Check that answers of an epoch come in order and once; missing numbers were settled."""
        last = self._epochs.get(notify.epoch)
        if last is not None and notify.first - notify.lost <= last:
            self.record.complaints.append(f"answer {notify.first} follows answer {last} of epoch {notify.epoch:x}")
        self._epochs[notify.epoch] = notify.first + len(notify.identity) - 1

    # --- acknowledging ---------------------------------------------------------------------------

    def _acknowledge(self, attachment: int, node: Node, identities: Sequence[int]) -> None:
        """Acknowledge stored answers, with repeats until they are settled or the connection is lost."""
        if attachment == self.attachment and identities:
            acknowledgement = _Acknowledgement(self, attachment, identities)
            self._world.request(node, self.record.acknowledging(node.columns.column(identities)), acknowledgement)

    def acknowledged(self, attachment: int, node: Node, identities: Sequence[int], outcome: Outcome) -> None:
        """Handle the outcome of an acknowledgement: settle the answers, or repeat it."""
        if attachment != self.attachment:
            return
        if isinstance(outcome, contract.Settled):  # after earlier answers
            wait = max(0.0, self._stored_at - self._world.now)
            self._world.schedule(wait, self._settle, attachment, identities)
        else:
            self._later(_AGAIN_SECONDS, self._acknowledge, attachment, node, identities)

    def _settle(self, attachment: int, identities: Sequence[int]) -> None:
        if attachment == self.attachment:
            self.record.settled(identities)

    def ended(self, attachment: int, why: str) -> None:
        """Handle the end of an attachment; reconnect unless the client requested the end."""
        if attachment == self.attachment and not self._closing:
            if why.startswith(SubscriptionGone.code):
                self.record.complaints.append(f"told that the subscription is gone: {why}")
            self.cut_off(attachment)


class _Connection:
    """A subscriber's connection to one peer."""

    def __init__(self, client: SubscriberClient, attachment: int):
        self._client = client
        self._attachment = attachment

    def completed(self, node: Node, _: int, outcome: Outcome) -> None:
        self._client.completed(self._attachment, node, outcome)

    def notified(self, node: Node, notify: Notify) -> None:
        self._client.notified(self._attachment, node, notify)

    def bookmarked(self, bookmark: contract.Bookmark) -> None:
        self._client.bookmarked(self._attachment, bookmark)

    def cut_off(self, _: Node) -> None:
        self._client.cut_off(self._attachment)

    def ended(self, why: str) -> None:
        self._client.ended(self._attachment, why)


class _Acknowledgement:
    """One acknowledgement of a subscriber on its way."""

    def __init__(self, client: SubscriberClient, attachment: int, identities: Sequence[int]):
        self._client = client
        self._attachment = attachment
        self._identities = identities

    def completed(self, node: Node, _: int, outcome: Outcome) -> None:
        self._client.acknowledged(self._attachment, node, self._identities, outcome)

    def cut_off(self, _: Node) -> None:
        """Ignore the loss of the connection: the token has the unsettled answers."""
