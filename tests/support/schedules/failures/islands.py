"""Two clusters that meet: one-time queries during the merge, and the checker of cluster identities.

A client asks a one-time query as clients of daemons do: it subscribes from the beginning on, reads up to the first
bookmark after the subscription, and ends it.  The peer refuses the query while two clusters merge.  Once a peer sees a
member of the other cluster, a query that it answers must hold every answer from the publications of both clusters that
were acknowledged before the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.columns import as_list
from p2prdf.hlc import FIRST, GONE
from p2prdf.rdf.query import Algorithm
from p2prdf.sim.oracle import Oracle, Publication
from p2prdf.wire import contract
from p2prdf.wire.messages import WITHDRAWN
from p2prdf_lab.workloads.random_queries import draw_query, draw_vocabulary, sparql_text
from schedules.checkers import Problem, describe_bag

if TYPE_CHECKING:
    from p2prdf.rdf.query import ConjunctiveQuery
    from p2prdf.sim.oracle import Row
    from p2prdf.sim.world import Node
    from p2prdf.wire.contract import Bookmark, Notify, Outcome
    from schedules.failures.clients import Publisher, RepeatedPublishing
    from schedules.failures.world import FailingWorld

__all__ = ["OneTimeQueries", "check_clusters"]

_QUERIES: Final = 12
_AROUND_SECONDS: Final = 6.0
"""Half of the queries are asked within this time after the clusters meet."""
_LEASE_SECONDS: Final = 30.0


def check_clusters(world: FailingWorld) -> list[Problem]:
    """Return the faults in the identities that peers know at rest: one cluster, and no meeting unheard of."""
    problems = []
    clusters = {node.index: node.peer.cluster for node in world.living()}
    named = sorted({cluster.identity for cluster in clusters.values()})
    if len(named) != 1:
        text = ", ".join(f"{each:016x}" for each in named)
        problems.append(Problem("clusters", "world", f"peers belong to {len(named)} clusters: {text}"))
    apart = world.views.identities
    for index, cluster in clusters.items():
        known = {cluster.identity, *cluster.former}
        if missing := apart - known:
            text = ", ".join(f"{each:016x}" for each in sorted(missing))
            problems.append(Problem("clusters", f"peer {index}", f"has not heard that its cluster met {text}"))
        if len(apart) < 2 and cluster.merges:
            problems.append(Problem("clusters", f"peer {index}", "reports a cluster that never was"))
    return problems


class OneTimeQueries:
    """Asks one-time queries while two clusters meet, and checks the answers."""

    def __init__(self, world: FailingWorld, random: Random, publishers: Sequence[Publisher]):
        self._world, self._random, self._publishers = world, random, publishers
        self.problems: list[Problem] = []

    def plan(self) -> None:
        """Draw the times of the queries."""
        random, failures = self._random, self._world.failures
        for number in range(_QUERIES):
            near = number % 2 == 0
            least = failures.islands_seconds if near else 0.0
            most = least + _AROUND_SECONDS if near else failures.span_seconds
            self._world.schedule(random.uniform(least, most), self._ask)

    def _ask(self) -> None:
        world, random = self._world, self._random
        triples = [triple for each in self._published() for triple in each.triples]
        nodes = world.serving()
        if not triples or not nodes:
            return
        vocabulary = draw_vocabulary(random)
        query = draw_query(random, triples, vocabulary)
        node = random.choice(nodes)
        if node.peer.cluster.merging is not None:
            world.happened["query-refused"] += 1
            return
        _OneTimeQuery(self, world, node, query).ask()

    def _published(self) -> list[RepeatedPublishing]:
        """Return all publications in the default graph: of triples, not of quads or elements of streams."""
        every = [each for publisher in self._publishers for each in publisher.published]
        return [each for each in every if not each.times and all(len(triple) == 3 for triple in each.triples)]

    def acknowledged(self) -> list[Publication]:
        """Return all publications that are acknowledged by now."""
        return [publication for each in self._published() if not each.removed for publication in each.log()]

    def answered(self, query: _OneTimeQuery) -> None:
        """Check an answer: it must have all results of publications acknowledged before and never deleted."""
        self._world.happened["query-answered"] += 1
        removed = {triple for each in self._published() if each.removed for triple in each.triples}
        log = [publication for publication in query.before if publication.triple not in removed]
        must = Oracle(log).answers(query.query, 0, per_event=False)
        if missing := must - query.bag:
            where = f"query of peer {query.node.index} at {query.asked_at:.3f}: {sparql_text(query.query)}"
            text = f"{missing.total()} of {must.total()} answers missing, {describe_bag(missing)}"
            self.problems.append(Problem("parts", where, text))


class _OneTimeQuery:
    """One query at one peer, its client and its listener."""

    def __init__(self, queries: OneTimeQueries, world: FailingWorld, node: Node, query: ConjunctiveQuery):
        self._queries, self._world = queries, world
        self.node, self.query = node, query
        self.asked_at = world.now - world.started
        whole = world.views.sees_other_island(node)
        self.before = queries.acknowledged() if whole else []
        self._subscription: int | None = None
        self._opened = 0
        self._rows: dict[int, Row] = {}

    @property
    def bag(self) -> Counter[Row]:
        """The answers."""
        return Counter(self._rows.values())

    def ask(self) -> None:
        """Subscribe to the query."""
        self._world.request(
            self.node,
            lambda request: contract.Subscribe(request, self.query, Algorithm.CSBV, False, _LEASE_SECONDS, FIRST),
            self,
        )

    def completed(self, node: Node, _request: int, outcome: Outcome) -> None:
        """Wait for answers and a bookmark, or handle a refusal."""
        if isinstance(outcome, contract.Subscribed):
            self._subscription, self._opened = outcome.subscription, outcome.opened
            self._world.machines[node.index].listeners[outcome.subscription] = self
            self._world.submit(node, contract.WantBookmarks(outcome.subscription, urgent=True))
        elif isinstance(outcome, contract.Failed):
            self._world.happened["query-failed"] += 1

    def notified(self, node: Node, notify: Notify) -> None:
        """Store answers."""
        columns = [node.dictionary.texts(as_list(column)) for column in notify.bindings]
        for place, (identity, born) in enumerate(zip(as_list(notify.identity), as_list(notify.born), strict=True)):
            if born < GONE:
                self._rows[identity] = tuple(column[place] for column in columns)
            else:
                self._rows.pop(identity ^ WITHDRAWN, None)

    def bookmarked(self, bookmark: Bookmark) -> None:
        """End the query: all answers are here, unless two clusters have met meanwhile."""
        if self._subscription is None or bookmark.stamp <= self._opened:
            return
        if self.node.peer.cluster.merging is None:
            self._queries.answered(self)
        else:
            self._world.happened["query-refused"] += 1
        subscription, self._subscription = self._subscription, None
        self._world.machines[self.node.index].listeners.pop(subscription, None)
        self._world.request(self.node, lambda request: contract.Unsubscribe(request, subscription), self)

    def ended(self, why: str) -> None:
        """Handle the end of the subscription."""
        del why
        self._subscription = None

    def cut_off(self, node: Node) -> None:
        """Handle the loss of the peer: the query has no answer."""
        del node
        self._subscription = None
