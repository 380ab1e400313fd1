"""Driver 1: any number of peers in virtual time, driven by one heap of events and one seed.

The world has the duties of the daemon, without sockets, clocks and tasks:

1. ``submit`` and ``receive`` with the peer's own (perhaps wrong) time, effects carried out in order;
2. one timer per peer, re-armed after every call; a peer with work that is due at once wakes after
   a random delay, and envelopes that arrive meanwhile join its batch;
3. ``Send`` goes over :class:`~p2prdf.sim.network.Network`, which loses, duplicates and delays;
4. ``FindOwner`` runs a lookup of FindNode and Nodes messages over that same network;
5. ``Completed`` and ``Notify`` go to test clients (:mod:`p2prdf.sim.subscriber`).

Nothing else is random and nothing waits: the same options give the same trace.  Virtual time
jumps from event to event, so an hour of leases costs as much as the envelopes in it.

By default all peers share one term dictionary and envelopes pass by reference: their columns are
never changed after sending.  With ``through_codec`` each peer has a dictionary of its own and
every envelope is really encoded and decoded.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Literal, assert_never

from p2prdf import keys
from p2prdf.columns import ARRAYS, LISTS, Columns
from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.address_cache import OVERLAYS
from p2prdf.peer import Pace, Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.sim.faults import CALM, Faults
from p2prdf.sim.handover import handed_over
from p2prdf.sim.lookups import Lookups
from p2prdf.sim.network import Counts, Network
from p2prdf.sim.ring import Ring
from p2prdf.sim.subscriber import Publishing, Subscriber
from p2prdf.sim.virtual_time import Restless, Timer, VirtualTime
from p2prdf.wire import contract
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.contract import (
    Bookmark,
    Completed,
    Effect,
    Ended,
    FindOwner,
    Notify,
    Persist,
    Request,
    Send,
    Span,
    Trace,
)
from p2prdf.wire.describe import describe
from p2prdf.wire.messages import Acknowledge, Contact, Envelope, FindNode, Nodes, Query
from p2prdf.wire.trace_context import TraceContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from p2prdf.sim.oracle import Publication, Triple

__all__ = ["Node", "World", "WorldOptions"]

_LENGTH_BYTES = 4
"""Length prefix of a frame, which simulated envelopes do not have."""

_TURNS_MAX = 10_000
"""A peer that sets its timer more often than this in one instant makes no progress."""


_CALM_SECONDS = 3


@contextmanager
def _collector_off() -> Iterator[None]:
    """Disable the garbage collector while thousands of peers are created (three times faster)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """Configuration of a world; with ``seed`` it determines every event.

    ``overlay``: "kademlia" or "chord"; the peers' ``config`` follows it.
    ``tables``: "lists", "arrays", or "mixed" (drawn per peer).
    ``bucket``: peers per bucket of the routing tables or per successor list, and per lookup.
    ``places``: ring positions are random, or even: peer i at :func:`p2prdf.keys.even_key` of i.
    ``routing_contacts``: each peer knows its routing table at the start, beside its neighbourhood.
    ``quiet_horizon_seconds``: timers beyond this do not keep the world from rest; longer than any retry, shorter than
    leases.
    ``start_seconds``: start of virtual time, so late that a slow clock does not become negative.
    ``events_max``: more events than this are taken for a livelock.
    """

    peers: int = 7
    seed: int = 0
    overlay: str = "kademlia"
    tables: Literal["lists", "arrays", "mixed"] = "lists"
    config: PeerConfig = field(default_factory=PeerConfig)
    faults: Faults = CALM
    through_codec: bool = False
    bucket: int = 8
    places: Literal["random", "even"] = "random"
    routing_contacts: bool = True
    quiet_horizon_seconds: float = 60.0
    events_max: int = 100_000_000
    start_seconds: float = 1_000_000.0

    def validate(self) -> None:
        """Raise LocalProtocolError for invalid options."""
        if self.peers < 1:
            raise LocalProtocolError(f"a world of {self.peers} peers: there must be at least 1")
        if self.overlay not in OVERLAYS:
            raise LocalProtocolError(f"overlay {self.overlay!r}: there are {' and '.join(OVERLAYS)}")
        if self.config.overlay not in (PeerConfig().overlay, self.overlay):
            raise LocalProtocolError(f"peers of overlay {self.config.overlay!r} in a world of {self.overlay!r}")
        if self.bucket < 1:
            raise LocalProtocolError(f"buckets of {self.bucket} contacts: there must be at least 1")
        self.faults.validate()


@dataclass(slots=True, eq=False)
class Node:
    """One peer with the state that its driver keeps for it."""

    index: int
    contact: Contact
    peer: Peer
    dictionary: TermDictionary
    columns: Columns
    codec: FrameCodec | None
    skew: float
    timer: Timer | None = None
    turn_comes: bool = False
    """Whether the timer was set for work that is due already."""
    turns: int = 0
    turned_at: float = 0.0
    next_event: int = 0
    busy_until: float = 0.0
    """End of the current work, if work takes time; before it the peer neither wakes nor receives envelopes."""
    held: list[tuple[Envelope, Contact]] = field(default_factory=list)
    """Envelopes that wait for the end of a turn without remaining budget."""
    requests: dict[int, Publishing | Subscriber] = field(default_factory=dict)
    subscribers: dict[int, Subscriber] = field(default_factory=dict)
    early: dict[int, list[Notify]] = field(default_factory=dict)

    @property
    def publisher(self) -> int:
        """The identity under which this peer's test client publishes."""
        return keys.text_key(f"publisher at {self.contact}")


def _busy(node: Node) -> bool:
    """Return whether a peer with replicas has pending work, or a client of the peer waits."""
    status = node.peer.status()
    return bool(node.requests or not node.peer.quiet or status["recomputing"] or not status["in_sync"])


class World(VirtualTime):
    """Peers, their network and their clients.

    ``trace`` is called with one line per transfer, outcome and peer trace.  ``tap`` gets every envelope before it is
    sent and returns the envelope to send instead (None: none): tests use it to inject faults.
    """

    def __init__(self, options: WorldOptions, *, trace: Callable[[str], None] | None = None):
        options.validate()
        super().__init__(
            options.start_seconds, horizon_seconds=options.quiet_horizon_seconds, events_max=options.events_max
        )
        self.options = options
        self.trace = trace
        self.tap: Callable[[Node, Envelope], Envelope | None] | None = None
        self.traces: Counter[str] = Counter()
        self.spans: list[tuple[int, float, Span]] = []
        """Traced spans, each with the key of its peer and the end by the peer's clock."""
        self.publishings: list[Publishing] = []
        self.subscribers: list[Subscriber] = []
        self._request = 0
        self._random = self._generator("world")
        self.network = Network(options.faults, self._generator("network"))
        with _collector_off():
            self.nodes = self._make_nodes()
            self.by_key = {node.contact.key: node for node in self.nodes}
            self.ring = Ring((node.contact for node in self.nodes), options.overlay)
            self.lookups = Lookups(self)
            for node in self.nodes:
                self._introduce(node)

    @property
    def counts(self) -> Counts:
        """Counts of the transfers so far."""
        return self.network.counts

    # --- making ----------------------------------------------------------------------------------

    def _generator(self, name: str) -> Random:
        return Random(f"p2prdf {self.options.seed} {name}")  # text seeds do not depend on the hash seed

    def _make_nodes(self) -> list[Node]:
        places = self._generator("places")
        shared = TermDictionary()
        config = replace(self.options.config, overlay=self.options.overlay)
        contacts: dict[int, Contact] = {}
        while len(contacts) < self.options.peers:
            key = places.getrandbits(64)
            if self.options.places == "even":
                key = keys.even_key(len(contacts))
            contacts.setdefault(key, Contact(key, f"peer-{len(contacts)}.sim", 7400))
        return [
            self._make_node(index, contact, config, TermDictionary() if self.options.through_codec else shared)
            for index, contact in enumerate(contacts.values())
        ]

    def _make_node(
        self, index: int, contact: Contact, config: PeerConfig, dictionary: TermDictionary
    ) -> Node:
        options = self.options
        mixed = options.tables == "mixed" and self._random.random() < 0.5
        columns: Columns = ARRAYS if options.tables == "arrays" or mixed else LISTS
        entropy = self._generator(f"peer {index}")
        peer = Peer(contact, config, dictionary, columns=columns, entropy=entropy, pace=self._pace(index, config))
        skew_max = options.faults.skew_seconds_max
        skew = self._random.uniform(-skew_max, skew_max) if skew_max else 0.0
        codec = FrameCodec(dictionary, columns) if options.through_codec else None
        return Node(index, contact, peer, dictionary, columns, codec, skew)

    def _pace(self, index: int, config: PeerConfig) -> Pace:  # noqa: ARG002
        """Return the meter of a peer's work."""
        return Pace(config.turn_budget_seconds)

    def _introduce(self, node: Node) -> None:
        """Give a peer its neighbourhood and, if configured, its routing table; with replicas, all peers."""
        if self.options.config.replicas > 1:
            others = self.ring.closest(node.contact.key, len(self.ring))
            before = self.ring.before(node.contact.key) if self.options.overlay == "chord" else None
            self.submit(node, contract.OwnersFound(node.contact.key, others, complete=True, before=before))
            return
        routing = self.lookups.routing
        near = routing.neighbourhood(node.contact)
        self.submit(node, near)
        if self.options.routing_contacts and not near.complete:
            for contact in routing.known_to(node.contact):
                self.submit(node, contract.ContactSeen(contact))

    def owners(self, key: int) -> tuple[Contact, ...]:
        """Return the replicas of a key: its owner and, with replication, the next peers."""
        return self.ring.closest(key, self.options.config.replicas)

    def run_until_rest(self, limit_seconds: float = 900.0) -> None:
        """Run until nothing is under way; raises Restless if that takes longer than ``limit_seconds``.

        With replication, anti-entropy and renewals of subscriptions never end.  The world then rests after some calm
        seconds, in which replicas can compare.
        """
        config = self.options.config
        if config.replicas == 1:
            self.run_until_quiet(limit_seconds)
            return
        end, calm = self.now + limit_seconds, 0
        self.run_for(2 * config.repair_seconds)
        while calm < _CALM_SECONDS:
            if self.now > end:
                raise Restless(f"the world did not come to rest in {limit_seconds:g} s: {self.state()}")
            self.run_for(1.0)
            calm = 0 if any(map(_busy, self.nodes)) else calm + 1

    # --- scripting -------------------------------------------------------------------------------

    def publish(
        self, at: float, peer: int, triples: Sequence[Triple], trace: TraceContext | None = None,
        *, graph: Sequence[str] = (), removed: bool = False, after: int = 0,
    ) -> Publishing:  # fmt: skip
        """Have a client of ``peer`` publish or delete triples (canonical terms), ``at`` seconds from now.

        ``graph``: the graph of each triple, none at all for the default graph.
        """
        if not triples:
            raise LocalProtocolError("publish: there must be at least one triple")
        node = self.nodes[peer]
        publishing = Publishing(
            peer, node.publisher, node.next_event, tuple(triples), self.now + at, tuple(graph), removed, after
        )
        node.next_event += len(publishing.triples)
        self.publishings.append(publishing)
        self.schedule(at, self._submit_publishing, node, publishing, trace)
        return publishing

    def subscribe(
        self, at: float, peer: int, query: Query, algorithm: Algorithm = Algorithm.CSBV,
        *, per_event: bool = False, lease_seconds: float = 86_400.0,
    ) -> Subscriber:  # fmt: skip
        """Have a client of ``peer`` subscribe to a query, ``at`` seconds from now.

        The checkers of random runs support conjunctive queries only.
        """
        subscriber = Subscriber(
            f"subscriber {len(self.subscribers)}", peer, query, algorithm,  # type: ignore[arg-type]
            per_event, lease_seconds, self.now + at,
        )  # fmt: skip
        self.subscribers.append(subscriber)
        self.schedule(at, self._submit_subscribe, self.nodes[peer], subscriber)
        return subscriber

    def unsubscribe(self, at: float, subscriber: Subscriber) -> None:
        """Have a client end its subscription, ``at`` seconds from now, if it is live by then."""
        self.schedule(at, self._submit_unsubscribe, self.nodes[subscriber.peer], subscriber)

    def _submit_publishing(self, node: Node, publishing: Publishing, trace: TraceContext | None) -> None:
        intern, make = node.dictionary.intern_all, node.columns.column
        s, p, o = (make(intern(terms), "uint32") for terms in zip(*publishing.triples, strict=True))
        graph = (make(intern(publishing.graph), "uint32"),) if publishing.graph else ()
        request = self._new_request(node, publishing)
        wish = contract.Publish(
            request, publishing.publisher, publishing.first_event, s, p, o, removed=publishing.removed,
            after=publishing.after, graph=graph, trace=trace,
        )  # fmt: skip
        self.submit(node, wish)

    def _submit_subscribe(self, node: Node, subscriber: Subscriber) -> None:
        request = self._new_request(node, subscriber)
        wish = contract.Subscribe(
            request, subscriber.query, subscriber.algorithm, subscriber.per_event, subscriber.lease_seconds
        )
        self.submit(node, wish)

    def _submit_unsubscribe(self, node: Node, subscriber: Subscriber) -> None:
        if subscriber.subscription is not None:
            self.submit(
                node, contract.Unsubscribe(self._new_request(node, subscriber), subscriber.subscription)
            )

    def _new_request(self, node: Node, handle: Publishing | Subscriber) -> int:
        self._request += 1
        node.requests[self._request] = handle
        return self._request

    def log(self) -> list[Publication]:
        """Return every acknowledged publication so far."""
        return [publication for publishing in self.publishings for publication in publishing.log()]

    def state(self) -> str:
        """Describe the pending work, for an error message."""
        timers = sorted((node.timer.when, node.index) for node in self.nodes if node.timer is not None)[:5]
        waking = ", ".join(f"peer {index} in {when - self.now:.3f} s" for when, index in timers)
        unanswered = sum(len(node.requests) for node in self.nodes)
        return (
            f"at {self.now - self.options.start_seconds:.3f} s {self.under_way} transfers, lookups or scripts "
            f"are under way, {unanswered} requests unanswered; next to wake: {waking or 'nobody'}; "
            f"messages {dict(self.counts.messages.most_common(5))}"
        )

    # --- peers -----------------------------------------------------------------------------------

    def submit(self, node: Node, request: Request) -> None:
        """Give a request to a peer and carry out its effects."""
        self._carry_out(node, node.peer.submit(request, now=self.now + node.skew))

    def _receive_frame(self, node: Node, frame: bytes, sender: Contact) -> None:
        assert node.codec is not None
        for envelope in node.codec.decode(memoryview(frame)[_LENGTH_BYTES:], trusted=True):
            self._receive(node, envelope, sender)

    def _receive(self, node: Node, envelope: Envelope, sender: Contact) -> None:
        if isinstance(envelope.message, FindNode | Nodes):
            self.lookups.receive(node, envelope.message, sender)
        elif node.peer.turn_open and not isinstance(envelope.message, Acknowledge):
            node.held.append((envelope, sender))
        else:
            self._carry_out(node, node.peer.receive(envelope, sender=sender, now=self.now + node.skew))

    def _wake(self, node: Node) -> None:
        node.timer = None
        self._carry_out(node, node.peer.wake(now=self.now + node.skew))
        if node.held and not node.peer.turn_open:
            held, node.held = node.held, []
            for envelope, sender in held:
                self._receive(node, envelope, sender)

    def _carry_out(self, node: Node, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._perform(node, effect)
        self._arm(node)

    def _perform(self, node: Node, effect: Effect) -> None:
        match effect:
            case Send():
                self.send(node, effect.to, effect.envelope)
            case Completed():
                self._completed(node, effect)
            case Notify():
                self._notify(node, effect)
            case Bookmark():
                self._bookmark(node, effect)
            case FindOwner():
                self.lookups.start(node, effect.key)
            case Ended(subscription, code, text):
                self._ended(node, subscription, f"{code}: {text}")
            case Trace():
                self._traced(node, effect)
            case Span():
                self.spans.append((node.contact.key, self.now + node.skew, effect))
            case Persist():
                pass  # nothing outlives a simulation
            case _:
                assert_never(effect)

    def _arm(self, node: Node) -> None:
        if node.timer is not None and node.turn_comes:
            return  # due work waits for the turn
        deadline = node.peer.deadline
        if deadline is None:
            return
        when = deadline - node.skew
        while when + node.skew < deadline:  # rounded, if the clock is wrong by years
            when = math.nextafter(when, math.inf)
        turn_comes = when <= self.now
        if turn_comes:
            when = self.now
            turn_max = self.options.faults.turn_seconds_max
            if node.timer is not None and node.timer.when <= self.now + turn_max:
                node.turn_comes = True
                return
            if turn_max:
                when += self._random.uniform(0.0, turn_max)
        if node.timer is not None:
            if node.timer.when <= when:
                return  # waking early is harmless
            node.timer.cancelled = True
        node.turns = node.turns + 1 if node.turned_at == self.now else 0
        node.turned_at = self.now
        if node.turns > _TURNS_MAX:
            raise Restless(f"peer {node.index} spins without progress: {self.state()}")
        node.timer, node.turn_comes = self.set_timer(when, self._wake, node), turn_comes

    # --- network ---------------------------------------------------------------------------------

    def send(self, node: Node, to: Contact, envelope: Envelope) -> None:
        """Send an envelope; an envelope to the sender itself cannot be lost and is no hop."""
        if self.tap is not None:
            tapped = self.tap(node, envelope)
            if tapped is None:
                return
            envelope = tapped
        target = self.by_key.get(to.key)
        if self.trace is not None:
            self._say(node, f"to {to.host} #{envelope.transfer} {describe(envelope.message)}")
        if target is None:
            raise LocalProtocolError(f"{node.contact} sends to {to}, a peer that does not exist")
        fate = [0.0] if target is node else self.network.fate(envelope.message)
        if node.codec is not None:
            frame = node.codec.encode((envelope,))
            self.counts.bytes += len(frame) * len(fate)
            for delay in fate:
                self.schedule(delay, self._receive_frame, target, frame, node.contact)
        else:
            if target.columns is not node.columns:
                envelope = handed_over(envelope, target.columns)
            for delay in fate:
                self.schedule(delay, self._receive, target, envelope, node.contact)
        if self.trace is not None and len(fate) != 1:
            self._say(node, f"   #{envelope.transfer} is {'lost' if not fate else 'doubled'}")

    # --- clients ---------------------------------------------------------------------------------

    def _completed(self, node: Node, effect: Completed) -> None:
        handle = node.requests.pop(effect.request, None)
        if self.trace is not None:
            self._say(node, f"request {effect.request}: {effect.outcome}")
        if handle is None:
            raise LocalProtocolError(f"peer {node.index} completed unknown request {effect.request}")
        match effect.outcome:
            case contract.Failed():
                handle.failed = effect.outcome
            case contract.Published(time):
                assert isinstance(handle, Publishing)
                handle.stamp, handle.completed_at = time, self.now
            case contract.Subscribed(subscription, since, order):
                assert isinstance(handle, Subscriber)
                handle.subscription, handle.since, handle.order = subscription, since, order
                handle.opened_at = self.now
                node.subscribers[subscription] = handle
                for notify in node.early.pop(subscription, ()):
                    self._notify(node, notify)
            case contract.Unsubscribed():
                assert isinstance(handle, Subscriber)
                handle.closed_at = self.now
            case contract.Attached() | contract.Settled():
                pass

    def _notify(self, node: Node, notify: Notify) -> None:
        subscriber = node.subscribers.get(notify.subscription)
        if subscriber is None:
            node.early.setdefault(notify.subscription, []).append(notify)
            return
        if self.trace is not None:
            self._say(node, f"{subscriber.name} gets {len(notify.identity)} answers from {notify.first}")
        subscriber.take(notify, node.dictionary, self.now)
        wait = self.options.faults.acknowledge_seconds_max
        self.schedule(self._random.uniform(0.0, wait) if wait else 0.0, self._acknowledge, node, subscriber)

    def _bookmark(self, node: Node, bookmark: Bookmark) -> None:
        """Ignore bookmarks, which the clients of this driver do not request."""

    def _acknowledge(self, node: Node, subscriber: Subscriber) -> None:
        identity = subscriber.unacknowledged()
        if identity and subscriber.subscription is not None:
            request = self._new_request(node, subscriber)
            column = node.columns.column(identity)
            self.submit(node, contract.AcknowledgeAnswers(request, subscriber.subscription, column))

    def _ended(self, node: Node, subscription: int, why: str) -> None:
        subscriber = node.subscribers.get(subscription)
        if subscriber is not None and subscriber.closed_at is None:  # otherwise the client ended it and knows
            del node.subscribers[subscription]
            subscriber.complaints.append(f"its subscription ended by itself: {why}")

    # --- trace -----------------------------------------------------------------------------------

    def _traced(self, node: Node, effect: Trace) -> None:
        self.traces[effect.event] += 1
        if self.trace is not None:
            fields = " ".join(f"{name}={value}" for name, value in effect.fields.items())
            self._say(node, f"trace {effect.event} {fields}")

    def _say(self, node: Node, text: str) -> None:
        assert self.trace is not None
        self.trace(f"{self.now - self.options.start_seconds:12.6f} {node.contact.host:>12} {text}")
