"""One-time queries of fault schedules, and the checker of their answers.

A client asks at any serving peer and reads up to the first bookmark.  For a query that only grows, the answer lies
between the results over the triples acknowledged before the question and over the triples published by its end.  If
the peer read the triples itself, no triple changed meanwhile, and each publication had one attempt, then all stamps
are known, and the answer of any query equals the result over the graph as of the bookmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.columns import as_list
from p2prdf.hlc import FIRST, GONE
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire import contract
from p2prdf.wire.messages import WITHDRAWN
from p2prdf_lab.workloads.random_queries import draw_query, draw_vocabulary, sparql_text
from schedules.checkers import Problem, describe_bag
from schedules.standing import draw_standing, only_grows, standing_answers

if TYPE_CHECKING:
    from p2prdf.sim.oracle import Row, Triple
    from p2prdf.sim.world import Node
    from p2prdf.wire.contract import Bookmark, Notify, Outcome
    from p2prdf.wire.messages import Query
    from schedules.failures.clients import RepeatedPublishing
    from schedules.failures.world import FailingWorld

__all__ = ["AskedQueries"]

_LEASE_SECONDS: Final = 30.0
_STANDING: Final = 0.5
"""Share of queries that need not be conjunctive."""


@dataclass(slots=True, eq=False)
class _Asked:
    """One query at one peer, its client and its listener."""

    world: FailingWorld
    node: Node
    query: Query
    text: str
    asked_at: float
    before: tuple[int, int]
    """How many queries the peer had opened as subscriptions, and had read with later changes."""
    answered_at: float | None = None
    stamp: int = 0
    is_exact: bool = False
    refused: str = ""
    rows: dict[int, Row] = field(default_factory=dict)
    subscription: int | None = None
    opened: int = 0

    def ask(self) -> None:
        """Ask the query."""
        self.world.request(
            self.node,
            lambda request: contract.Subscribe(
                request, self.query, Algorithm.CSBV, False, _LEASE_SECONDS, FIRST, once=True
            ),
            self,
        )

    def completed(self, node: Node, _request: int, outcome: Outcome) -> None:
        """Wait for answers and a bookmark, or note a refusal."""
        if isinstance(outcome, contract.Subscribed):
            self.subscription, self.opened = outcome.subscription, outcome.opened
            self.world.machines[node.index].listeners[outcome.subscription] = self
            self.world.submit(node, contract.WantBookmarks(outcome.subscription, urgent=True))
        elif isinstance(outcome, contract.Failed):
            self.refused = outcome.code

    def notified(self, node: Node, notify: Notify) -> None:
        """Store answers."""
        columns = [node.dictionary.texts(as_list(column)) for column in notify.bindings]
        for place, (identity, born) in enumerate(zip(as_list(notify.identity), as_list(notify.born), strict=True)):
            if born < GONE:
                self.rows[identity] = tuple(column[place] for column in columns)
            else:
                self.rows.pop(identity ^ WITHDRAWN, None)

    def bookmarked(self, bookmark: Bookmark) -> None:
        """Note the answer and end the query."""
        if self.subscription is None or bookmark.stamp <= self.opened:
            return
        self.answered_at, self.stamp = self.world.now, bookmark.stamp
        self.is_exact = _counters(self.node) == self.before
        subscription, self.subscription = self.subscription, None
        self.world.machines[self.node.index].listeners.pop(subscription, None)
        self.world.request(self.node, lambda request: contract.Unsubscribe(request, subscription), self)

    def ended(self, why: str) -> None:
        """Handle the end of the subscription: the query has no answer."""
        del why
        self.subscription = None

    def cut_off(self, node: Node) -> None:
        """Handle the loss of the peer: the query has no answer."""
        del node
        self.subscription = None


class AskedQueries:
    """Asks one-time queries during a schedule, and checks the answers at its end."""

    def __init__(
        self, world: FailingWorld, random: Random, published: Callable[[], Sequence[RepeatedPublishing]],
    ):  # fmt: skip
        """``published`` returns all publications in the default graph."""
        self._world, self._random, self._published = world, random, published
        self._asked: list[_Asked] = []

    def plan(self, count: int) -> None:
        """Draw the times of some queries."""
        for _ in range(count):
            self._world.schedule(self._random.uniform(0.0, self._world.failures.span_seconds), self._ask)

    def _begun(self, until: float) -> list[RepeatedPublishing]:
        every = [each for each in self._published() if not each.times and all(len(one) == 3 for one in each.triples)]
        return [each for each in every if each.first_at <= until]

    def _ask(self) -> None:
        world, random = self._world, self._random
        triples = [triple for each in self._begun(world.now) for triple in each.triples]
        nodes = world.serving()
        if not triples or not nodes:
            return
        vocabulary, node = draw_vocabulary(random), random.choice(nodes)
        query: Query
        if random.random() < _STANDING:
            text = draw_standing(random, triples, vocabulary)
            standing = parse_query(text)
            simple = standing.conjunctive
            query = standing if simple is None or simple.distinct else simple
        else:
            query = draw_query(random, triples, vocabulary)
            text = sparql_text(query)
        asked = _Asked(world, node, query, text, world.now, _counters(node))
        self._asked.append(asked)
        asked.ask()

    def judge(self) -> list[Problem]:
        """Return the wrong answers."""
        problems = []
        for each in self._asked:
            if each.answered_at is None:
                self._world.happened["query-unanswered"] += 1
                continue
            self._world.happened["query-answered"] += 1
            problems += self._judged(each, each.answered_at)
        return problems

    def _judged(self, asked: _Asked, until: float) -> list[Problem]:
        begun, bag = self._begun(until), Counter(asked.rows.values())
        where = f"query of peer {asked.node.index} at {asked.asked_at - self._world.started:.3f}: {asked.text}"
        problems = []
        if only_grows(asked.query):
            must = standing_answers(asked.query, _acknowledged(begun, asked.asked_at))
            if missing := must - bag:
                text = f"{missing.total()} of {must.total()} answers missing, {describe_bag(missing)}"
                problems.append(Problem("missing", where, text))
            if extra := bag - standing_answers(asked.query, _possible(begun, asked.asked_at)):
                problems.append(Problem("extra", where, f"{extra.total()} answers too many, {describe_bag(extra)}"))
        if asked.is_exact and all(each.attempts == len(each.stamps) == 1 for each in begun):
            self._world.happened["query-compared"] += 1
            expected = standing_answers(asked.query, _graph_at(begun, asked.stamp))
            if expected != bag:
                text = f"not as of {asked.stamp:x}: {describe_bag(expected - bag)} / {describe_bag(bag - expected)}"
                problems.append(Problem("state", where, text))
        return problems


def _counters(node: Node) -> tuple[int, int]:
    one_time = node.peer._edge.one_time
    return one_time.opened, one_time.late


def _acknowledged(begun: Sequence[RepeatedPublishing], before: float) -> list[Triple]:
    """Return the triples acknowledged before a time, without deleted triples."""
    removed = {triple for each in begun if each.removed for triple in each.triples}
    return [
        triple
        for each in begun
        if not each.removed and each.completed_at is not None and each.completed_at <= before
        for triple in dict.fromkeys(each.triples)
        if triple not in removed
    ]


def _possible(begun: Sequence[RepeatedPublishing], before: float) -> list[Triple]:
    """Return the published triples, without triples with a later deletion acknowledged before a time."""
    removals: dict[Triple, int] = {}
    for each in begun:
        if each.removed and each.completed_at is not None and each.completed_at <= before:
            removals.update((triple, max(removals.get(triple, 0), *each.stamps)) for triple in each.triples)
    possible: dict[Triple, None] = {}
    for each in begun:
        if not each.removed:
            certain = each.attempts == len(each.stamps) == 1
            possible.update(
                (triple, None) for triple in each.triples if not (certain and removals.get(triple, 0) >= each.stamps[0])
            )
    return list(possible)


def _graph_at(begun: Sequence[RepeatedPublishing], stamp: int) -> list[Triple]:
    """Return the triples of the graph as of a stamp: of equal stamps the deletion decides."""
    last: dict[Triple, tuple[int, bool]] = {}
    for each in begun:
        if each.stamps[0] <= stamp:
            for triple in each.triples:
                last[triple] = max(last.get(triple, (0, False)), (each.stamps[0], each.removed))
    return [triple for triple, (_, removed) in last.items() if not removed]
