"""Simulated peers that are asked once: answers of one-time and standing queries through the whole overlay.

A *read* does the same as the client library (:mod:`p2prdf.client.query`): it subscribes to a query that counts
triples from the beginning on, takes answers until the first bookmark later than its opening, and ends the
subscription.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Literal

from p2prdf.columns import as_list
from p2prdf.errors import error_from_code
from p2prdf.hlc import FIRST, GONE
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.faults import CALM, Faults
from p2prdf.sim.world import Node, WorldOptions
from p2prdf.wire import contract
from p2prdf.wire.messages import WITHDRAWN, Query
from schedules.failures.clients import Publisher, RepeatedPublishing, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

__all__ = ["Peers", "Read", "Terms", "Triple"]

Triple = tuple[str, str, str]
Terms = tuple[str | None, ...]
PEERS = 7
_BATCH_MAX = 4096


def understood(text: str) -> tuple[Query, tuple[str, ...]]:
    """Return a query as a node takes it, and the names of its columns."""
    standing = parse_query(text)
    simple = standing.conjunctive
    return (standing if simple is None or simple.distinct else simple), standing.names


class Read:
    """One query asked once at one peer; ``rows`` are the answer when ``done``."""

    def __init__(self, world: FailingWorld, node: Node, text: str, salt: int):
        self.query, self.names = understood(text)
        self.text = text
        self.done = False
        self.refused: contract.Failed | None = None
        self.seconds = world.now
        """Time of the beginning; when done, the duration."""
        self._world = world
        self._node = node
        self._held: dict[int, tuple[str, ...]] = {}
        self._subscription: int | None = None
        self._opened = 0
        asked = world.request(
            node,
            lambda number: contract.Subscribe(
                number, self.query, Algorithm.CSBV, False, 30.0, FIRST, salt, once=True
            ),
            self,
        )
        assert asked is not None, "the peer that is asked is dead"

    @property
    def rows(self) -> Counter[Terms]:
        """The bag of solutions; None is unbound.  Raises the error with which the query was refused."""
        assert self.done, f"not answered yet: {self.text}"
        if self.refused is not None:
            raise error_from_code(self.refused.code, self.refused.text)
        return Counter(tuple(term or None for term in row) for row in self._held.values())

    # --- callbacks of the world --------------------------------------------------------------

    def completed(self, node: Node, _: int, outcome: contract.Outcome) -> None:
        match outcome:
            case contract.Subscribed():
                self._subscription, self._opened = outcome.subscription, outcome.opened
                self._world.machines[node.index].listeners[outcome.subscription] = self
                self._world.submit(node, contract.WantBookmarks(outcome.subscription, urgent=True))
            case contract.Failed():
                self.done, self.refused = True, outcome

    def notified(self, node: Node, notify: contract.Notify) -> None:
        assert not notify.lost
        columns = [node.dictionary.texts(as_list(column)) for column in notify.bindings]
        identities = as_list(notify.identity)
        for place, (identity, born) in enumerate(zip(identities, as_list(notify.born), strict=True)):
            if born >= GONE:
                self._held.pop(identity ^ WITHDRAWN, None)
            else:
                self._held[identity] = tuple(column[place] for column in columns)
        seen = node.columns.column(list(identities))
        subscription = notify.subscription
        self._world.request(node, lambda number: contract.AcknowledgeAnswers(number, subscription, seen), _Ignored())

    def bookmarked(self, bookmark: contract.Bookmark) -> None:
        if bookmark.stamp > self._opened and not self.done:
            self.done, self.seconds = True, self._world.now - self.seconds
            self._world.schedule(0.0, self._end)

    def _end(self) -> None:
        if self._world.alive(self._node):
            subscription = self._subscription
            assert subscription is not None
            self._world.machines[self._node.index].listeners.pop(subscription, None)
            self._world.request(self._node, lambda number: contract.Unsubscribe(number, subscription), _Ignored())

    def ended(self, why: str) -> None:
        assert self.done, f"{self.text}: {why}"

    def cut_off(self, _: Node) -> None:
        assert self.done, f"the peer that was asked has crashed: {self.text}"


class _Ignored:
    """A requester that ignores the outcome."""

    def completed(self, node: Node, request: int, outcome: contract.Outcome) -> None:
        pass

    def cut_off(self, node: Node) -> None:
        pass


class Peers:
    """Seven peers that keep three copies of everything, and clients of them."""

    def __init__(
        self, overlay: str, *, seed: int = 1, tables: Literal["lists", "arrays"] = "lists",
        faults: Faults = CALM, by_words: bool = False, forgets: bool = False, reads: bool = False, peers: int = PEERS,
    ):  # fmt: skip
        """``by_words``: ``keyword_routing``; ``forgets``: ``forget_intervals``; ``reads``: ``read_queries``."""
        config = PeerConfig(
            hot_keys=False, replicas=3, copies_min=2, durable=True, keyword_routing=by_words,
            forget_intervals=forgets, read_queries=reads,
        )  # fmt: skip
        options = WorldOptions(peers=peers, seed=seed, overlay=overlay, config=config, tables=tables, faults=faults)
        self.world = FailingWorld(options, Failures(publisher_crash_probability=0.0, bookmarks=True))
        self.random = Random(f"p2prdf reads {overlay} {seed}")
        self.publisher = Publisher(self.world, "publisher", Random(f"p2prdf reads' publisher {overlay} {seed}"))
        self.world.run_for(5.0)

    def publish(self, triples: list[Triple], *, removed: bool = False) -> None:
        """Publish, or remove, triples in large batches and wait until all is acknowledged."""
        for start in range(0, len(triples), _BATCH_MAX):
            batch = self.publisher.publish(0.0, triples[start : start + _BATCH_MAX], removed=removed)
            self.until_acknowledged([batch])

    def until_acknowledged(self, batches: list[RepeatedPublishing]) -> None:
        """Go on until publications are acknowledged."""
        self.world.run_until(lambda: not any(each.open for each in batches))

    def ask(self, text: str, at: int | None = None) -> Read:
        """Begin to read at a peer, by default at any live one."""
        node = self.random.choice(self.world.living()) if at is None else self.world.nodes[at]
        return Read(self.world, node, text, self.random.getrandbits(32) + 1)

    def read(self, *texts: str, at: int | None = None) -> list[Counter[Terms]]:
        """Ask some queries at once and return their answers."""
        reads = [self.ask(text, at) for text in texts]
        self.world.run_until(lambda: all(each.done for each in reads), 120.0)
        return [each.rows for each in reads]

    def subscribe(self, text: str) -> SubscriberClient:
        """Subscribe to a query from now on."""
        query, _ = understood(text)
        record = ResumingSubscriber(text, query, Algorithm.CSBV, False, 86_400.0, text)
        client = SubscriberClient(self.world, record, Random(text))
        client.connect()
        self.world.run_until(lambda: client.attached)
        return client

    def until_told(self, clients: list[SubscriberClient]) -> None:
        """Go on until subscribers have been told all consequences of the publications acknowledged by now."""
        now = max((stamp for each in self.publisher.published for stamp in each.stamps), default=0)

        def told() -> bool:
            return all(each.record.bookmarks and each.record.bookmarks[-1][0] > now for each in clients)

        self.world.run_until(told)
