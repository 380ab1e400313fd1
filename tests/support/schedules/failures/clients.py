"""Clients that do not give up: a publisher that publishes again elsewhere, a subscriber that comes back.

A *publisher* numbers its events.  Whatever it has no acknowledgement for it publishes again, at another
peer, under the same numbers, until some peer acknowledges; or it is gone, and nobody will ever
know what it knew.

A *subscriber* is what the client library and an application are together.  Beside its output it
stores, in one step, a *token*: its subscription's number and the identities handed over that are not
settled yet.  When it or its peer crashes it attaches again with the token, at any peer.  What comes
again is dropped by the token and acknowledged again; so the output holds each answer once.  Answers
that were not stored before a crash were never handed over.
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
    """What clients share: they take any living peer, another one if they can."""

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
        """Return those of some peers that this client may turn to."""
        return nodes

    def _later(self, seconds_max: float, action: Callable[..., None], *arguments: object) -> None:
        self._world.schedule(self._random.uniform(0.0, seconds_max), action, *arguments)


@dataclass(slots=True, eq=False)
class RepeatedPublishing:
    """Triples that are published together under consecutive event numbers, as often as needed.

    ``stamps``: those that were acknowledged to the publisher.  ``unheard``: those acknowledged when it was gone.
    ``removed``: the triples are removed instead.  ``times``: they are elements of streams, of these event times.
    """

    publisher: int
    first_event: int
    triples: Sequence[Triple]
    first_at: float
    removed: bool = False
    attempts: int = 0
    stamps: list[int] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)
    """What the clock of the peer that acknowledged them showed before the turn in which it decided to."""
    unheard: list[int] = field(default_factory=list)
    completed_at: float | None = None
    gone: bool = False
    """The publisher crashed before it heard of an acknowledgement."""
    failures: list[Failed] = field(default_factory=list)
    times: Sequence[int] = ()

    @property
    def events(self) -> list[int]:
        """The identities of its events."""
        return [keys.event_id(self.publisher, self.first_event + number) for number in range(len(self.triples))]

    @property
    def statements(self) -> list[Triple]:
        """The triples as peers index them: in a named graph they have a qualified predicate.  Of elements none."""
        if self.times:
            return []
        parts: Sequence[tuple[str, ...]] = self.triples
        return [(each[0], qualified(each[1], each[3]) if each[3:] else each[1], each[2]) for each in parts]

    def log(self, until: float = math.inf) -> list[Publication]:
        """Return what was acknowledged until a clock showed some stamp, each event with the latest acknowledged."""
        stamps = [stamp for stamp, clock in zip(self.stamps, self.clocks, strict=True) if clock <= until]
        if not stamps:
            return []
        stamp = max(stamps)
        return [Publication(stamp, event, triple) for event, triple in zip(self.events, self.triples, strict=True)]

    @property
    def open(self) -> bool:
        """Whether somebody still waits for an acknowledgement."""
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
        """Publish triples, or remove them, ``at`` seconds from now, until that is acknowledged.

        Quads have their named graphs as fourth parts.  ``times``: the triples are elements, of these event times, with
        their streams as fourth parts.
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
        """Be gone, as far as one batch is concerned, before its acknowledgement was heard."""
        if publishing.open:
            self._world.happened["publisher-crash"] += 1
            publishing.gone = True

    def _attempt(self, publishing: RepeatedPublishing, after: int) -> None:
        """Publish, unless there was another attempt after that one."""
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
        """Hear of an acknowledgement by a peer, or that there will be none."""
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
        """Try again soon, if that was the latest attempt."""
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
    """The client of one subscription; what it holds and what is wrong with it is in ``record``.

    ``attachment`` counts its connections: events of an earlier one are ignored.  ``bookmarks``: it asks for
    bookmarks if the subscribers of its schedule do.
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
        """The peer that it turned to first."""
        self._stored_at = 0.0
        self._epochs: dict[int, int] = {}
        """Of each epoch of the connection, the last number."""

    # --- connecting ------------------------------------------------------------------------------

    def _reachable(self, nodes: list[Node]) -> list[Node]:
        """Return the peers at which its subscription may be known: two clusters know nothing of each other at first."""
        if self._first is None:
            return nodes
        first, views = self._world.nodes[self._first], self._world.views
        return [node for node in nodes if views.known_to_each_other(first, node)]

    def connect(self) -> None:
        """Subscribe, attach or unsubscribe, whichever is next."""
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
            machine.held.pop(record.subscription, None)  # what was attached here before ends with this
            make = record.attaching(node.columns)
        self._world.request(node, make, _Connection(self, self.attachment))

    def _lost_patience(self, attachment: int) -> None:
        if attachment == self.attachment and not self.attached and not self.absent:
            self.cut_off(attachment)

    def completed(self, attachment: int, node: Node, outcome: Outcome) -> None:
        """Hear how a request to subscribe, attach or unsubscribe ended."""
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
        """Ask for bookmarks at the peer of the present connection, if there is one and its subscription is open."""
        if self.peer is not None and self.attached and not self._closing:
            self._want_bookmarks(self._world.nodes[self.peer])

    def _want_bookmarks(self, node: Node) -> None:
        if self._world.failures.bookmarks and self.bookmarks and self.record.subscription is not None:
            urgent = self._random.random() < 0.3 or self._world.failures.hurried
            self._world.submit(node, contract.WantBookmarks(self.record.subscription, urgent))

    def cut_off(self, attachment: int) -> None:
        """Lose the connection, and come back."""
        if attachment == self.attachment:
            self.attached = False
            self.attachment += 1
            self._later(_AGAIN_SECONDS, self.connect)

    def unsubscribe(self) -> None:
        """End the subscription, however often that takes."""
        if self.record.subscription is not None and not self._closing:
            self._closing = True
            self.record.closing_at = self._world.now
            if not self.absent:
                self.connect()

    # --- crashing --------------------------------------------------------------------------------

    def crash(self, away_seconds: float) -> None:
        """Lose everything but output and token, and come back after some time."""
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
        """Take answers in hand; they count once they are stored."""
        if attachment != self.attachment:
            return
        rows = self.record.read(notify, node.dictionary)
        wait = self._random.uniform(0.0, self._world.failures.handle_seconds_max)
        if not self.record.concerned(notify):
            wait = 0.0  # a client drops withdrawals of what it never had before its application sees any of it
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
        """Within an epoch answers come in order and once; what is left out of it was settled."""
        last = self._epochs.get(notify.epoch)
        if last is not None and notify.first - notify.lost <= last:
            self.record.complaints.append(f"answer {notify.first} follows answer {last} of epoch {notify.epoch:x}")
        self._epochs[notify.epoch] = notify.first + len(notify.identity) - 1

    # --- acknowledging ---------------------------------------------------------------------------

    def _acknowledge(self, attachment: int, node: Node, identities: Sequence[int]) -> None:
        """Tell that answers are stored, until they are settled or the connection is lost."""
        if attachment == self.attachment and identities:
            acknowledgement = _Acknowledgement(self, attachment, identities)
            self._world.request(node, self.record.acknowledging(node.columns.column(identities)), acknowledgement)

    def acknowledged(self, attachment: int, node: Node, identities: Sequence[int], outcome: Outcome) -> None:
        """Hear what is settled; what could not be told is told again."""
        if attachment != self.attachment:
            return
        if isinstance(outcome, contract.Settled):  # after what came before it
            wait = max(0.0, self._stored_at - self._world.now)
            self._world.schedule(wait, self._settle, attachment, identities)
        else:
            self._later(_AGAIN_SECONDS, self._acknowledge, attachment, node, identities)

    def _settle(self, attachment: int, identities: Sequence[int]) -> None:
        if attachment == self.attachment:
            self.record.settled(identities)

    def ended(self, attachment: int, why: str) -> None:
        """Be told that nothing more comes here; come back unless that was asked for."""
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
        """The connection is lost: what it was for is in the token."""
