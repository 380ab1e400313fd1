"""The test clients of simulated peers: what they asked for, and every answer they were handed.

A client's record is the evidence that :mod:`p2prdf.sim.checkers` judges, so it notes down
everything, also what must not happen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.sim.oracle import Publication, Row, Triple
from p2prdf.wire import contract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
    from p2prdf.sim.world import Node, World
    from p2prdf.wire.contract import Failed, Notify, Request, Subscribed

__all__ = ["Publishing", "ResumingSubscriber", "Subscriber"]


@dataclass(slots=True, eq=False)
class Publishing:
    """One publish request and its outcome; ``stamp`` is None until it is acknowledged."""

    peer: int
    publisher: int
    first_event: int
    triples: Sequence[Triple]
    at: float
    stamp: int | None = None
    completed_at: float | None = None
    failed: Failed | None = None

    def log(self) -> list[Publication]:
        """Return its publications; none if it is not acknowledged."""
        if self.stamp is None:
            return []
        return [
            Publication(self.stamp, keys.event_id(self.publisher, self.first_event + number), triple)
            for number, triple in enumerate(self.triples)
        ]


@dataclass(slots=True, eq=False)
class Subscriber:
    """One subscription: its request, its outcome and what was delivered.

    ``complaints`` are the things that a subscriber can see by itself: an answer identity handed
    over twice, a gap in the sequence, a loss that was told, answers after the end.
    """

    name: str
    peer: int
    query: ConjunctiveQuery
    algorithm: Algorithm
    per_event: bool
    lease_seconds: float
    at: float
    subscription: int | None = None
    since: int | None = None
    order: tuple[int, ...] = ()
    opened_at: float | None = None
    closed_at: float | None = None
    failed: Failed | None = None
    last: int = 0
    acknowledged: int = 0
    rows: list[Row] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    delivered_at: list[float] = field(default_factory=list)
    identities: dict[int, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    @property
    def bag(self) -> Counter[Row]:
        """The rows held, as a bag."""
        return Counter(self.rows)

    def take(self, notify: Notify, dictionary: TermDictionary, now: float) -> None:
        """Write down a delivery."""
        if self.closed_at is not None:
            self.complaints.append(f"answers {notify.first}.. came after the subscription's end")
        if notify.lost:
            self.complaints.append(f"told that {notify.lost} answers before {notify.first} are lost")
        elif notify.first != self.last + 1:
            self.complaints.append(f"answer {notify.first} follows answer {self.last}")
        columns = [dictionary.texts(as_list(column)) for column in notify.bindings]
        identities = as_list(notify.identity)
        for place, identity in enumerate(identities):
            sequence = notify.first + place
            row = tuple(column[place] for column in columns)
            if identity in self.identities:
                first = self.identities[identity]
                self.complaints.append(
                    f"answer {identity:#018x} {row} came twice, as number {first} and {sequence}"
                )
            self.identities[identity] = sequence
            self.rows.append(row)
        self.born.extend(as_list(notify.born))
        self.delivered_at.extend([now] * len(identities))
        self.last = notify.first + len(identities) - 1


@dataclass(slots=True, eq=False)
class ResumingSubscriber:
    """What survives a subscriber's crashes, its output and token, and the requests that follow from them.

    ``rows``, ``born`` and ``identities`` are the output; ``number`` of the subscription and ``last`` are
    the token.  ``complaints`` are what a subscriber can see by itself: an answer that it had before,
    and a loss that was told.
    """

    name: str
    query: ConjunctiveQuery
    algorithm: Algorithm
    per_event: bool
    lease_seconds: float
    subscription: int | None = None
    since: int | None = None
    opened_at: float | None = None
    closing_at: float | None = None
    closed_at: float | None = None
    last: int = 0
    repeats: int = 0
    """Answers that came again and were dropped by the token."""
    rows: list[Row] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    identities: dict[int, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)

    @property
    def bag(self) -> Counter[Row]:
        """The rows held, as a bag."""
        return Counter(self.rows)

    # --- requests --------------------------------------------------------------------------------

    def opening(self) -> Callable[[int], Request]:
        """Return what leaves the query."""
        return lambda request: contract.Subscribe(
            request, self.query, self.algorithm, self.per_event, self.lease_seconds
        )

    def attaching(self) -> Callable[[int], Request]:
        """Return what takes the subscription up again, with the token."""
        assert self.subscription is not None
        subscription = self.subscription
        return lambda request: contract.Attach(request, subscription, self.last)

    def closing(self) -> Callable[[int], Request]:
        """Return what ends the subscription."""
        assert self.subscription is not None
        subscription = self.subscription
        return lambda request: contract.Unsubscribe(request, subscription)

    # --- outcomes --------------------------------------------------------------------------------

    def opened(self, outcome: Subscribed, now: float) -> None:
        """Note that the query is live."""
        self.subscription, self.since, self.opened_at = outcome.subscription, outcome.since, now

    def read(self, notify: Notify, dictionary: TermDictionary) -> list[Row]:
        """Return the rows of a delivery."""
        columns = [dictionary.texts(as_list(column)) for column in notify.bindings]
        return [tuple(column[place] for column in columns) for place in range(len(notify.identity))]

    def store(self, notify: Notify, rows: list[Row], now: float) -> None:
        """Store the rows that are new together with the token."""
        if self.closed_at is not None:
            self.complaints.append(f"answers {notify.first}.. came after the subscription's end, at {now}")
        if notify.lost:
            self.complaints.append(f"told that {notify.lost} answers before {notify.first} are lost")
        born = as_list(notify.born)
        for place, (identity, row) in enumerate(zip(as_list(notify.identity), rows, strict=True)):
            if notify.first + place <= self.last:
                self.repeats += 1
                continue
            if identity in self.identities:
                self.complaints.append(f"answer {identity:#018x} {row} was handed over twice")
            self.identities[identity] = len(self.rows)
            self.rows.append(row)
            self.born.append(born[place])
        self.last = max(self.last, notify.first + len(rows) - 1)

    def acknowledge(self, world: World, node: Node, notify: Notify) -> None:
        """Tell a peer that a delivery is stored."""
        world.submit(node, contract.AcknowledgeAnswers(notify.subscription, self.last))
