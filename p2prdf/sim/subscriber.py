"""Test clients of simulated peers: their requests, and all answers that they got.

Checkers of test runs compare a client's record with the oracle, so it also has protocol violations.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.sim.oracle import Publication, Row, Triple
from p2prdf.wire.messages import WITHDRAWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
    from p2prdf.wire.contract import Failed, Notify

__all__ = ["Publishing", "Subscriber"]


@dataclass(slots=True, eq=False)
class Publishing:
    """One publish request and its outcome; ``stamp`` is None until it is acknowledged.

    ``graph``: the graph of each triple, empty if all are of the default graph.  ``removed``: the triples are deleted.
    ``after``: a lower bound for the request's stamp.
    """

    peer: int
    publisher: int
    first_event: int
    triples: Sequence[Triple]
    at: float
    graph: tuple[str, ...] = ()
    removed: bool = False
    after: int = 0
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
    """One subscription: its request, its outcome and its deliveries.

    ``complaints``: violations that a subscriber can see: a repeated answer identity, a gap in the sequence, a reported
    loss, answers after the end.
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
    epoch: int = 0
    last: int = 0
    acknowledged: int = 0
    """Answers of :attr:`rows` that were acknowledged."""
    rows: list[Row] = field(default_factory=list)
    retracted: dict[int, Row] = field(default_factory=dict)
    """Solutions that were delivered and retracted later, by the identity of the retraction."""
    born: list[int] = field(default_factory=list)
    delivered_at: list[float] = field(default_factory=list)
    identities: dict[int, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    settling: list[int] = field(default_factory=list)
    """Identities of retractions that are not acknowledged yet."""

    @property
    def held(self) -> list[Row]:
        """The rows that were not retracted, in the order of their delivery."""
        gone = Counter(self.retracted.values())
        found = []
        for row in reversed(self.rows):
            if gone[row]:
                gone[row] -= 1
            else:
                found.append(row)
        return found[::-1]

    @property
    def bag(self) -> Counter[Row]:
        """The rows held, as a bag."""
        return Counter(self.rows)

    def unacknowledged(self) -> list[int]:
        """Return the identities of the answers that were not acknowledged, as acknowledged from now on."""
        found = list(self.identities)[self.acknowledged :]
        self.acknowledged += len(found)
        found += self.settling
        self.settling.clear()
        return found

    def take(self, notify: Notify, dictionary: TermDictionary, now: float) -> None:
        """Record a delivery."""
        if self.closed_at is not None:
            self.complaints.append(f"answers {notify.first}.. came after the subscription's end")
        if notify.epoch != self.epoch:
            self.epoch, self.last = notify.epoch, 0
        if notify.lost:
            self.complaints.append(f"told that {notify.lost} answers before {notify.first} are lost")
        elif notify.first != self.last + 1:
            self.complaints.append(f"answer {notify.first} follows answer {self.last}")
        columns = [dictionary.texts(as_list(column)) for column in notify.bindings]
        identities = as_list(notify.identity)
        born = as_list(notify.born)
        for place, identity in enumerate(identities):
            sequence = notify.first + place
            row = tuple(column[place] for column in columns)
            if born[place] >= GONE:
                self.settling.append(identity)
                if identity ^ WITHDRAWN in self.identities:
                    self.retracted[identity] = row
                else:  # its triple was deleted without having been published
                    self.settling.append(identity ^ WITHDRAWN)
                continue
            if identity in self.identities:
                first = self.identities[identity]
                self.complaints.append(
                    f"answer {identity:#018x} {row} came twice, as number {first} and {sequence}"
                )
            self.identities[identity] = sequence
            self.rows.append(row)
            self.born.append(born[place])
            self.delivered_at.append(now)
        self.last = notify.first + len(identities) - 1
