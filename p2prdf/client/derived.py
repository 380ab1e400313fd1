"""Derived graphs: the results of a CONSTRUCT query, published back as a named graph and kept current.

A derived graph is a goal, not a log. The client compares the graph, by a one-time query, with the results, by a
standing query with history up to its first bookmark. It publishes the missing triples, deletes the others, and
follows the standing query. With settled delivery each step is one transaction, so the graph shows only results
that were true together. It stores no state, so it may crash at any moment and start again anywhere; two
clients that derive the same graph do the same work. Each query has a graph of its own, so its deletions leave
triples that others published elsewhere.

A graph derived from itself, through any number of others, would support itself forever. A client therefore
publishes, in the graph ``REGISTRY``, the graphs that its query reads, then reads the registry, and starts only
if there is no cycle. If several clients close a cycle at the same moment, at least the last reader sees it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from p2prdf.client.query import end
from p2prdf.errors import QueryRefused, TransactionTooLarge, Unavailable
from p2prdf.rdf import quads, terms

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.client.solutions import Solution

__all__ = ["DEFAULT", "READS", "REGISTRY", "Answered", "Derived", "Goal", "derive", "drop", "keep", "register"]

REGISTRY: Final = "<urn:p2prdf:derivations>"
"""The graph that lists, for each derived graph, the graphs it is derived from."""
READS: Final = "<urn:p2prdf:reads>"
DEFAULT: Final = "<urn:p2prdf:default-graph>"
"""Stands for the default graph in the registry."""
_LEASE_SECONDS: Final = 30.0

_Edges: TypeAlias = Mapping[str, Iterable[str]]


@dataclass(frozen=True, slots=True)
class Derived:
    """A step of a derivation: the numbers of triples published and deleted, all acknowledged.

    ``as_of``: the graph reflects all publications up to this time (seconds since the epoch), and possibly later
    ones.
    """

    added: int
    removed: int
    as_of: float


class Goal(Protocol):
    """The present content of a graph, and its target content by the results of a query."""

    def take(self, solutions: Iterable[Solution]) -> None:
        """Take in new and retracted solutions."""
        ...

    def due(self) -> tuple[list[Triple], list[Triple]]:
        """Return the triples to publish and the triples to delete, for the graph to reach its target."""
        ...

    def reached(self) -> None:
        """Note that the triples of :meth:`due` were published and deleted."""
        ...


async def derive(
    client: Client, query: str, graph: str, *, algorithm: str, timeout_seconds: float, settled: bool | None
) -> AsyncGenerator[Derived, None]:
    """Keep a graph equal to the results of a query; see :meth:`p2prdf.client.Client.derive`."""
    steps = keep(
        client, query, graph, _Answers, algorithm=algorithm, timeout_seconds=timeout_seconds, settled=settled
    )
    async with contextlib.aclosing(steps):
        async for step in steps:
            yield step


async def keep(
    client: Client, query: str, graph: str, goal_of: Callable[[Iterable[Triple]], Goal], *, algorithm: str,
    timeout_seconds: float, settled: bool | None,
) -> AsyncGenerator[Derived, None]:  # fmt: skip
    """Keep a graph at its goal; ``goal_of`` makes the goal from the graph's present triples."""
    reads = _reads(query)
    graph = terms.parse_term(graph)
    if terms.kind(graph) is not terms.Kind.IRI:
        raise QueryRefused(f"{graph} is not an IRI, so it cannot name a graph", construct="graph")
    await register(client, graph, reads, timeout_seconds)
    held = await client.query(_contents(graph), timeout_seconds=timeout_seconds)
    goal = goal_of(map(_triple, held.rows))
    subscription = await client.subscribe(
        query, algorithm=algorithm, lease_seconds=_LEASE_SECONDS, since="beginning", bookmarks=True,
        hurry=True, settled=settled,
    )  # fmt: skip
    try:
        async for batch in subscription.batches():
            if batch.lost:
                raise Unavailable(f"the coordinator dropped {batch.lost} solutions: too many for this client")
            goal.take(batch)
            if batch.bookmark is not None and batch.bookmark > subscription.opened:
                added, removed = goal.due()
                await _change(client, graph, added, removed, together=subscription.settled)
                goal.reached()
                yield Derived(len(added), len(removed), batch.bookmark)
        raise Unavailable("the subscription of the derived graph's query ended")
    finally:
        await end(client, subscription)


async def _change(client: Client, graph: str, added: list[Triple], removed: list[Triple], *, together: bool) -> None:
    """Publish and delete triples of a graph; ``together``: in one transaction, if it can hold them."""
    if together:
        with contextlib.suppress(TransactionTooLarge):
            async with client.transaction(graph=graph) as transaction:
                transaction.retract(removed)
                transaction.publish(added)
            return
    if removed:
        await client.retract(removed, graph=graph)
    if added:
        await client.publish(added, graph=graph)


async def drop(client: Client, graph: str, *, timeout_seconds: float) -> int:
    """Empty a derived graph and unregister it; see :meth:`p2prdf.client.Client.drop_derived`."""
    graph = terms.parse_term(graph)
    held = await client.query(_contents(graph), timeout_seconds=timeout_seconds)
    count = await client.retract([_triple(row) for row in held.rows], graph=graph) if held.rows else 0
    await _unregister(client, graph, await _registered(client, graph, timeout_seconds))
    return count


class Answered:
    """The triples that a query's results currently contain.

    A solution and the retraction of an equal one may overtake each other, so each triple has a count.
    """

    def __init__(self) -> None:
        self._answers: Counter[Triple] = Counter()
        self.touched: dict[Triple, None] = {}
        """Triples with a new or retracted solution since the last :meth:`forget_touched`."""

    def take(self, solutions: Iterable[Solution]) -> None:
        """Take in new and retracted solutions."""
        for solution in solutions:
            triple = _triple(solution.terms)
            self._answers[triple] += -1 if solution.removed else 1
            self.touched[triple] = None

    def __contains__(self, triple: Triple) -> bool:
        return self._answers[triple] > 0

    def forget_touched(self) -> None:
        """Clear the list of touched triples, and the counts that are zero."""
        for each in self.touched:
            if not self._answers[each]:
                del self._answers[each]
        self.touched.clear()


class _Answers:
    """The goal of a graph that equals the results of a query."""

    def __init__(self, held: Iterable[Triple]):
        self._held = set(held)
        self._answered = Answered()
        self._answered.touched = dict.fromkeys(self._held)

    def take(self, solutions: Iterable[Solution]) -> None:
        self._answered.take(solutions)

    def due(self) -> tuple[list[Triple], list[Triple]]:
        answered, held = self._answered, self._held
        missing = [each for each in answered.touched if each in answered and each not in held]
        return missing, [each for each in answered.touched if each not in answered and each in held]

    def reached(self) -> None:
        for each in self._answered.touched:
            if each in self._answered:
                self._held.add(each)
            else:
                self._held.discard(each)
        self._answered.forget_touched()


def _triple(row: tuple[str | None, ...]) -> Triple:
    s, p, o = row
    assert s is not None
    assert p is not None
    assert o is not None
    return s, p, o


def _contents(graph: str) -> str:
    return f"SELECT ?s ?p ?o {{ GRAPH {graph} {{ ?s ?p ?o }} }}"


# --- circles -------------------------------------------------------------------------------------


def _reads(query: str) -> list[str]:
    """Return the graphs that a query reads, as the registry names them.  Raises QueryRefused."""
    from p2prdf.rdf.algebra import Form  # imported late: the parser is slow to load
    from p2prdf.rdf.reach import ANY, graphs_read
    from p2prdf.reasoning.ruled_query import parse_ruled

    parsed = parse_ruled(query)
    if parsed.form is not Form.CONSTRUCT:
        raise QueryRefused("a derived graph needs a CONSTRUCT query", construct=parsed.form.name)
    found = graphs_read(parsed)
    if ANY in found:
        reason = "the query reads all graphs, the derived one included; name the graphs to read"
        raise QueryRefused(reason, construct="GRAPH")
    return sorted(DEFAULT if each == quads.DEFAULT else each for each in found)


async def register(client: Client, graph: str, reads: list[str], timeout_seconds: float) -> None:
    """Register the sources of a derived graph.

    Raises QueryRefused, and unregisters them, if they close a cycle.
    """
    former = await _registered(client, graph, timeout_seconds)
    await client.publish([(graph, READS, source) for source in reads], graph=REGISTRY)
    found = await client.query(
        f"SELECT ?graph ?source {{ GRAPH {REGISTRY} {{ ?graph {READS} ?source }} }}", timeout_seconds=timeout_seconds
    )
    edges: dict[str, list[str]] = {}
    for derived, source in found.rows:
        if derived != graph:
            edges.setdefault(str(derived), []).append(str(source))
    way = _way(edges, reads, graph)
    if way:
        with contextlib.suppress(Unavailable):  # a leftover edge may only report a cycle that does not exist
            await _unregister(client, graph, set(reads).difference(former))
        reason = f"{graph} would be derived from itself: it reads {', which reads '.join(way)}"
        raise QueryRefused(reason, construct="derived graph")
    await _unregister(client, graph, set(former).difference(reads))


async def _registered(client: Client, graph: str, timeout_seconds: float) -> list[str]:
    """Return the registered sources of a derived graph."""
    query = f"SELECT ?source {{ GRAPH {REGISTRY} {{ {graph} {READS} ?source }} }}"
    return [str(source) for (source,) in (await client.query(query, timeout_seconds=timeout_seconds)).rows]


async def _unregister(client: Client, graph: str, sources: Iterable[str]) -> None:
    edges = [(graph, READS, source) for source in sources]
    if edges:
        await client.retract(edges, graph=REGISTRY)


def _way(edges: _Edges, begin: Iterable[str], goal: str) -> list[str]:
    """Return a path from one of the graphs ``begin`` to ``goal``, both included; empty if there is none."""
    came_from: dict[str, str] = dict.fromkeys(begin, "")
    to_visit = list(came_from)
    while to_visit:
        here = to_visit.pop()
        if here == goal:
            way = [here]
            while came_from[way[0]]:
                way.insert(0, came_from[way[0]])
            return way
        for each in edges.get(here, ()):
            if each not in came_from:
                came_from[each] = here
                to_visit.append(each)
    return []
