"""The records of a subscription coordinator: subscriptions, their groups, and the knowledge of either.

:mod:`p2prdf.continuous.home` maintains them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf.continuous.counts import Mark
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.reach import Reach, reach_of
from p2prdf.wire.messages import Contact, KeepSubscription, OpenSubscription, Query

if TYPE_CHECKING:
    from p2prdf.continuous.delivered_set import DeliveredSet
    from p2prdf.continuous.evaluation import Evaluation
    from p2prdf.continuous.leaf import Leaf
    from p2prdf.store.result_log import ResultLog

__all__ = ["Group", "Known", "Subscription"]


class Known(enum.IntEnum):
    """A replica's knowledge of a group or subscription."""

    UNKNOWN = 0
    """This replica has compared its records with others and found none."""
    UNSURE = 1
    """This replica has no record yet and has not compared with others."""
    LIVES = 2
    ENDED = 3
    LEFT = 4
    """A group is orphaned: no subscription of it is known, nor that the group has ended."""


@dataclass(slots=True, eq=False)
class Subscription:
    """One subscriber's registration in a group."""

    number: int
    group: Group
    subscriber: Contact
    request: int
    """Number of the request that opened or attached it at the subscriber's peer."""
    names: tuple[str, ...]
    since: int
    lease_seconds: float
    lease_until: float
    log: ResultLog
    opened_by: tuple[int, int]
    """Key of the peer, and number of the request, that opened it."""
    changed: int
    """Stamp of the last change of the address of delivery."""
    slot: int
    """Number that identifies it among the leaves and subscriptions of this peer."""
    contents: DeliveredSet | None
    """The delivered solutions that still hold; None for a conjunctive query."""
    owner: str = ""
    """The client that opened it; "" if clients are not authenticated."""
    reported: int = -1
    """For windowed queries: event time (ms) up to which reports are made and replicated, or are not wanted; -1: none.
    """
    counted: int = 0
    """For a window by count: the number of the last report before ``reported``."""
    last: int = 0
    """For a window by count: a hash of the triple of that report's last element."""
    evaluation: Evaluation | None = None
    """The evaluation of a query that is not conjunctive, while this peer runs it."""
    epoch: int = 0
    """Identifies the current numbering of deliveries."""
    opening: bool = False
    """Whether some owners have not yet confirmed the installation."""
    installed: bool = False
    """Whether this peer, in this incarnation, has made sure of the installation."""
    delivered: bool = False
    """Whether this peer delivers the solutions."""
    until: float = 0.0
    """The time until which this peer continues to deliver after another peer became responsible: there is no gap."""
    cut_off: bool = False
    """Whether the subscriber's peer is believed to be gone; nothing is sent then."""
    marked: int = 0
    """For settled delivery: the last mark in this epoch; 0: none."""


    def may(self, client: str) -> bool:
        """Return whether a client may use it; "" stands for a client that is not authenticated."""
        return not client or not self.owner or client == self.owner

    @property
    def mark(self) -> Mark:
        """The progress of the reports that are made and replicated, or are not wanted."""
        return Mark(self.reported, self.counted, self.last)


@dataclass(slots=True, eq=False)
class Group:
    """A canonical query with at least one subscription.

    ``planned``: its leaves have plans.  The coordinator first asks for rates; ``waiting`` holds the openings that
    arrive meanwhile.  ``youngest``: the largest ``oldest`` of all solutions so far.
    """

    key: int
    identity: int
    query: Query
    algorithm: Algorithm
    per_event: bool
    salt: int = 0
    digest: bytes = b""
    """A digest of the canonical query.  It identifies the query; the few bits of a coordinator's key do not."""
    leaves: list[Leaf] = field(default_factory=list)
    planned: bool = False
    waiting: list[OpenSubscription] = field(default_factory=list)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    youngest: int = 0
    recorded: int = 0
    """The largest ``oldest`` of the solutions that were recorded here when they were derived."""
    since_min: int = 0
    since_max: int = 0
    looks: int = 0
    """Number of checks since the group was orphaned."""
    last: KeepSubscription | None = None
    """The record of the last subscription known here, if the group was orphaned after its plans were known."""
    _reach: Reach | None = None

    @property
    def reach(self) -> Reach:
        """The graphs that the query reads."""
        if self._reach is None:
            self._reach = reach_of(self.query)
        return self._reach

    @property
    def order(self) -> tuple[int, ...]:
        """The order in which patterns are evaluated, leaf after leaf, as positions among the patterns of all leaves."""
        order: list[int] = []
        for leaf in self.leaves:
            assert leaf.plan is not None
            first = len(order)
            order += [first + position for position in leaf.plan.order]
        return tuple(order)

    @property
    def roles(self) -> int:
        """The indexes (permutations) in which triples must be stored for it."""
        return self._roles_of(self.leaves)

    @property
    def windowed(self) -> bool:
        """Whether it has windows over streams.

        Its patterns outside streams then match all triples, also earlier ones.
        """
        return any(leaf.window is not None for leaf in self.leaves)

    @property
    def settled(self) -> bool:
        """Whether its subscribers are told states at marks only."""
        return isinstance(self.query, StandingQuery) and self.query.is_settled

    @property
    def roles_of_the_past(self) -> int:
        """The indexes whose earlier triples count, whenever a subscription begins."""
        return self._roles_of(leaf for leaf in self.leaves if leaf.window is None) if self.windowed else 0

    @staticmethod
    def _roles_of(leaves: Iterable[Leaf]) -> int:
        roles = 0
        for leaf in leaves:
            assert leaf.plan is not None
            roles |= leaf.plan.roles
        return roles
