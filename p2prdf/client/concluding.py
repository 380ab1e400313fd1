"""Rules in the network: what follows from the default graph is concluded by the nodes, and kept in a graph by them.

A rule is left like a query (:mod:`p2prdf.reasoning.insertions`), and has no answers: what it concludes is published by
the owners of the facts (:mod:`p2prdf.peer.gates`).  So all that is to be done here is to leave the rules, to stay, lest
their leases run out, and to end them.  Several may do so for the same rules and graph, and whoever comes back within a
lease finds all as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from p2prdf.client.derived import DEFAULT, register
from p2prdf.client.query import end
from p2prdf.errors import LocalProtocolError, QueryRefused, Unavailable
from p2prdf.rdf import terms

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.subscription import Subscription
    from p2prdf.reasoning import Rule

__all__ = ["RULES_MAX", "Concluding", "conclude"]

RULES_MAX: Final = 512
"""Rules left by one call, those among them that say what was published of a predicate."""
_AT_ONCE: Final = 16


class Concluding:
    """Rules that are left in the network; ``rules``: how many."""

    def __init__(self, subscriptions: Sequence[Subscription]):
        self._subscriptions = subscriptions
        self.rules = len(subscriptions)

    async def watch(self) -> None:
        """Wait as long as all rules stand.  Raises what ends one: Unavailable, SubscriptionGone."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._subscriptions:
                tasks.create_task(_stands(each))


async def _stands(subscription: Subscription) -> None:
    async for _ in subscription.batches():
        pass
    raise Unavailable("a rule has ended")


@contextlib.asynccontextmanager
async def conclude(
    client: Client, rules: Iterable[Rule], graph: str, *, since: float | str, lease_seconds: float,
    timeout_seconds: float,
) -> AsyncIterator[Concluding]:  # fmt: skip
    """Leave rules in the network; as :meth:`p2prdf.client.Client.conclude`."""
    from p2prdf.reasoning.insertions import insertions  # only who reasons pays for SPARQL's grammar

    graph = terms.parse_term(graph)
    if terms.kind(graph) is not terms.Kind.IRI:
        raise QueryRefused(f"{graph} is no IRI, so no name of a graph", construct="graph")
    texts = insertions(rules, graph)
    if not 0 < len(texts) <= RULES_MAX:
        raise LocalProtocolError(f"{len(texts)} rules are to be left, and 1 to {RULES_MAX} may be")
    await register(client, graph, [DEFAULT], timeout_seconds)
    left: list[Subscription] = []
    gate = asyncio.Semaphore(_AT_ONCE)

    async def leave(text: str) -> None:
        async with gate:
            left.append(await client.subscribe(text, lease_seconds=lease_seconds, since=since))

    try:
        try:
            async with asyncio.TaskGroup() as tasks:
                for text in texts:
                    tasks.create_task(leave(text))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        yield Concluding(left)
    finally:
        await asyncio.gather(*(end(client, each) for each in left))
