"""Derived graphs: what a CONSTRUCT answers, published back as a named graph, and kept so.

The idea.  A derived graph is a goal and not a log: it is to hold what the query answers.  So whoever derives it first
compares the two, the graph by a one-time query and the answers by a standing one with history up to its first bookmark;
publishes what is missing and removes what is too much; and then goes on with every change that the standing query
tells.  Nothing is remembered in between: it may be killed at any moment and begun again anywhere, and two that derive
the same graph do the same.  What comes of it are triples like any others, for whoever subscribes to the graph.

A graph for each query, and nobody else's, is what makes removals right: what is derived no more leaves this graph, and
stays where others have published it.

It is also the *origin* by which circles are found.  A graph that is derived from itself, over however many others,
would hold itself up for ever, for each triple in it would be a reason for another.  So who derives first says, in the
graph ``REGISTRY``, which graphs the query reads; then asks what these are derived from; and begins only if its own is
not among that.  Of several that close a circle at the same moment at least the one that asks last sees it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from p2prdf.client.query import end
from p2prdf.errors import QueryRefused, Unavailable
from p2prdf.rdf import quads, terms

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.client.solutions import Solution

__all__ = ["DEFAULT", "READS", "REGISTRY", "Answered", "Derived", "Goal", "derive", "drop", "keep", "register"]

REGISTRY: Final = "<urn:p2prdf:derivations>"
"""The graph that says of each derived graph which graphs it is derived from."""
READS: Final = "<urn:p2prdf:reads>"
DEFAULT: Final = "<urn:p2prdf:default-graph>"
"""Stands for the default graph in the registry."""
_LEASE_SECONDS: Final = 30.0

_Edges: TypeAlias = Mapping[str, Iterable[str]]


@dataclass(frozen=True, slots=True)
class Derived:
    """A step of a derivation: so many triples were published and removed, and all of that is acknowledged.

    ``as_of``: the graph holds what follows from all that was published up to this time (seconds since the epoch), and
    perhaps of what is newer.
    """

    added: int
    removed: int
    as_of: float


class Goal(Protocol):
    """What a graph holds, and what it is to hold by what a query has answered."""

    def take(self, solutions: Iterable[Solution]) -> None:
        """Take in what was answered and withdrawn."""
        ...

    def due(self) -> tuple[list[Triple], list[Triple]]:
        """Return what is to be published and what is to be removed for the graph to hold what it is to hold."""
        ...

    def reached(self) -> None:
        """Note that this has been done."""
        ...


async def derive(
    client: Client, query: str, graph: str, *, algorithm: str, timeout_seconds: float
) -> AsyncGenerator[Derived, None]:
    """Keep a graph equal to what a query answers; as :meth:`p2prdf.client.Client.derive`."""
    steps = keep(client, query, graph, _Answers, algorithm=algorithm, timeout_seconds=timeout_seconds)
    async with contextlib.aclosing(steps):
        async for step in steps:
            yield step


async def keep(
    client: Client, query: str, graph: str, goal_of: Callable[[Iterable[Triple]], Goal], *, algorithm: str,
    timeout_seconds: float,
) -> AsyncGenerator[Derived, None]:  # fmt: skip
    """Keep a graph at a goal, which is made of what the graph holds, and follows what a query answers."""
    reads = _reads(query)
    graph = terms.parse_term(graph)
    if terms.kind(graph) is not terms.Kind.IRI:
        raise QueryRefused(f"{graph} is no IRI, so no name of a graph", construct="graph")
    await register(client, graph, reads, timeout_seconds)
    held = await client.query(_contents(graph), timeout_seconds=timeout_seconds)
    goal = goal_of(map(_triple, held.rows))
    subscription = await client.subscribe(
        query, algorithm=algorithm, lease_seconds=_LEASE_SECONDS, since="beginning", bookmarks=True, hurry=True
    )
    try:
        async for batch in subscription.batches():
            if batch.lost:
                raise Unavailable(f"{batch.lost} answers were dropped at the query's home: there are too many")
            goal.take(batch)
            if batch.bookmark is not None and batch.bookmark > subscription.opened:
                added, removed = goal.due()
                if removed:
                    await client.retract(removed, graph=graph)
                if added:
                    await client.publish(added, graph=graph)
                goal.reached()
                yield Derived(len(added), len(removed), batch.bookmark)
        raise Unavailable("the subscription of the derived graph's query has ended")
    finally:
        await end(client, subscription)


async def drop(client: Client, graph: str, *, timeout_seconds: float) -> int:
    """Empty a derived graph, and forget that it is one; as :meth:`p2prdf.client.Client.drop_derived`."""
    graph = terms.parse_term(graph)
    held = await client.query(_contents(graph), timeout_seconds=timeout_seconds)
    count = await client.retract([_triple(row) for row in held.rows], graph=graph) if held.rows else 0
    await _unregister(client, graph, await _registered(client, graph, timeout_seconds))
    return count


class Answered:
    """The triples that a query answers now.

    An answer and the withdrawal of one that was equal may overtake each other, so answers are counted.
    """

    def __init__(self) -> None:
        self._answers: Counter[Triple] = Counter()
        self.touched: dict[Triple, None] = {}
        """Those of which something was heard since they were last forgotten."""

    def take(self, solutions: Iterable[Solution]) -> None:
        """Take in what was answered and withdrawn."""
        for solution in solutions:
            triple = _triple(solution.terms)
            self._answers[triple] += -1 if solution.removed else 1
            self.touched[triple] = None

    def __contains__(self, triple: Triple) -> bool:
        return self._answers[triple] > 0

    def forget_touched(self) -> None:
        """Forget which were touched."""
        for each in self.touched:
            if not self._answers[each]:
                del self._answers[each]
        self.touched.clear()


class _Answers:
    """A graph that is to hold what a query answers."""

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
    from p2prdf.rdf.algebra import Form  # only who derives pays for SPARQL's grammar
    from p2prdf.rdf.graphs_read import ANY, graphs_read
    from p2prdf.reasoning.ruled_query import parse_ruled

    parsed = parse_ruled(query)
    if parsed.form is not Form.CONSTRUCT:
        raise QueryRefused("a graph is derived by CONSTRUCT", construct=parsed.form.name)
    found = graphs_read(parsed)
    if ANY in found:
        reason = "the query reads all graphs, so the derived graph as well; name the graphs it is to read"
        raise QueryRefused(reason, construct="GRAPH")
    return sorted(DEFAULT if each == quads.DEFAULT else each for each in found)


async def register(client: Client, graph: str, reads: list[str], timeout_seconds: float) -> None:
    """Say what a graph is derived from.  Raises QueryRefused, and takes it back, if that closes a circle."""
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
        with contextlib.suppress(Unavailable):  # at worst a circle is seen later that is none
            await _unregister(client, graph, set(reads).difference(former))
        reason = f"{graph} would be derived from itself: it reads {', which reads '.join(way)}"
        raise QueryRefused(reason, construct="derived graph")
    await _unregister(client, graph, set(former).difference(reads))


async def _registered(client: Client, graph: str, timeout_seconds: float) -> list[str]:
    """Return the graphs that a graph is said to be derived from."""
    query = f"SELECT ?source {{ GRAPH {REGISTRY} {{ {graph} {READS} ?source }} }}"
    return [str(source) for (source,) in (await client.query(query, timeout_seconds=timeout_seconds)).rows]


async def _unregister(client: Client, graph: str, sources: Iterable[str]) -> None:
    edges = [(graph, READS, source) for source in sources]
    if edges:
        await client.retract(edges, graph=REGISTRY)


def _way(edges: _Edges, begin: Iterable[str], goal: str) -> list[str]:
    """Return a way from one of some graphs to the goal, both ends included; empty if there is none."""
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
