"""The durable state of a subscriber, and its requests to peers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf.columns import as_list
from p2prdf.hlc import FIRST, GONE
from p2prdf.wire import contract
from p2prdf.wire.messages import SURE, WITHDRAWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from p2prdf.columns import Column, Columns
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.rdf.query import Algorithm
    from p2prdf.sim.oracle import Row
    from p2prdf.wire.contract import Failed, Notify, Request, Subscribed
    from p2prdf.wire.messages import Query

__all__ = ["ResumingSubscriber"]


@dataclass(slots=True, eq=False)
class ResumingSubscriber:
    """A subscriber's output and token, which survive its crashes, and the requests that follow from them.

    The output is ``rows``, ``born`` and ``identities``.  The token is the ``number`` of the subscription and
    ``unsettled``, the identities of answers that may be repeated.  ``complaints``: violations that a subscriber can
    see, a repeated answer that the token did not recognise, and a reported loss.
    """

    name: str
    query: Query
    algorithm: Algorithm
    per_event: bool
    lease_seconds: float
    text: str = ""
    """Text of a query that is checked against the final triples: one that is not conjunctive, or has history."""
    history: bool = False
    """Whether triples count from the beginning on."""
    subscription: int | None = None
    since: int | None = None
    opened_at: float | None = None
    closing_at: float | None = None
    closed_at: float | None = None
    unsettled: dict[int, None] = field(default_factory=dict)
    repeats: int = 0
    """Repeated answers that the token recognised."""
    rows: list[Row] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    identities: dict[int, int] = field(default_factory=dict)
    heard: set[int] = field(default_factory=set)
    """Identities of all deliveries, with retractions of unknown answers."""
    withdrawn: dict[int, Row] = field(default_factory=dict)
    """Retracted answers, by the identity of the retraction."""
    bookmarks: list[tuple[int, int]] = field(default_factory=list)
    """Each bookmark with the number of answers stored before it."""
    complaints: list[str] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)

    @property
    def bag(self) -> Counter[Row]:
        """The rows without retracted ones, as a bag."""
        return Counter(self.rows) - Counter(self.withdrawn.values())

    # --- requests --------------------------------------------------------------------------------

    def opening(self) -> Callable[[int], Request]:
        """Return the request to subscribe."""
        return lambda request: contract.Subscribe(
            request, self.query, self.algorithm, self.per_event, self.lease_seconds, FIRST if self.history else 0
        )

    def attaching(self, columns: Columns) -> Callable[[int], Request]:
        """Return the request to attach, with the token."""
        assert self.subscription is not None
        subscription, have = self.subscription, columns.column(list(self.unsettled))
        return lambda request: contract.Attach(request, subscription, have)

    def acknowledging(self, identities: Column) -> Callable[[int], Request]:
        """Return the request to acknowledge stored answers."""
        assert self.subscription is not None
        subscription = self.subscription
        return lambda request: contract.AcknowledgeAnswers(request, subscription, identities)

    def closing(self) -> Callable[[int], Request]:
        """Return the request to unsubscribe."""
        assert self.subscription is not None
        subscription = self.subscription
        return lambda request: contract.Unsubscribe(request, subscription)

    # --- outcomes --------------------------------------------------------------------------------

    def opened(self, outcome: Subscribed, now: float) -> None:
        """Record that the query is live."""
        self.subscription, self.since, self.opened_at = outcome.subscription, outcome.since, now

    def read(self, notify: Notify, dictionary: TermDictionary) -> list[Row]:
        """Return the rows of a delivery."""
        columns = [dictionary.texts(as_list(column)) for column in notify.bindings]
        return [tuple(column[place] for column in columns) for place in range(len(notify.identity))]

    def concerned(self, notify: Notify) -> bool:
        """Return whether a delivery has an answer, or the retraction of a stored one."""
        times = zip(as_list(notify.identity), as_list(notify.born), strict=True)
        return any(time < GONE or time & SURE or each ^ WITHDRAWN in self.unsettled for each, time in times)

    def store(self, notify: Notify, rows: list[Row], now: float) -> list[int]:
        """Store new rows together with the token; return the identities to acknowledge."""
        done = list(as_list(notify.identity))
        self.heard.update(done)
        if self.closed_at is not None:
            self.complaints.append(f"answers {notify.first}.. came after the subscription's end, at {now}")
        if notify.lost:
            self.complaints.append(f"told that {notify.lost} answers before {notify.first} are lost")
        born = as_list(notify.born)
        for place, (identity, row) in enumerate(zip(as_list(notify.identity), rows, strict=True)):
            if identity in self.unsettled:
                self.repeats += 1
                continue
            if born[place] >= GONE:
                done += self._withdraw(identity, row, sure=bool(born[place] & SURE))
                continue
            if identity in self.identities:
                self.complaints.append(f"answer {identity:#018x} {row} was handed over twice")
            self.identities[identity] = len(self.rows)
            self.unsettled[identity] = None
            if identity ^ WITHDRAWN in self.withdrawn:
                self.complaints.append(f"answer {identity:#018x} {row} was handed over after it was taken back")
            self.rows.append(row)
            self.born.append(born[place])
        return done

    def _withdraw(self, identity: int, row: Row, *, sure: bool) -> list[int]:
        """Retract an answer if it was stored; return further identities to acknowledge: its own, if it was not."""
        answer = identity ^ WITHDRAWN
        had = sure or answer in self.unsettled
        self.unsettled[identity] = None
        if not had:
            self.unsettled[answer] = None
            return [answer]
        if identity in self.withdrawn:
            self.complaints.append(f"answer {answer:#018x} {row} was taken back twice")
        if answer not in self.identities:
            self.complaints.append(f"answer {answer:#018x} {row} was taken back and had never been handed over")
        self.withdrawn[identity] = row
        return []

    def bookmark(self, stamp: int) -> None:
        """Store a bookmark."""
        self.bookmarks.append((stamp, len(self.rows)))

    def settled(self, identities: Sequence[int]) -> None:
        """Remove settled identities from the token: their answers are not repeated."""
        for identity in identities:
            self.unsettled.pop(identity, None)
