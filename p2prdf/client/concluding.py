"""Rules in the network: the nodes derive facts from the default graph and keep them in a named graph.

A rule is registered like a query (:mod:`p2prdf.reasoning.insertions`) and delivers no solutions: the owners of
the derived facts publish them. This module registers the rules, keeps their leases alive and ends them. Several
clients may hold the same rules and graph. A client that returns before the leases run out finds the graph
unchanged.
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
"""Bound on the rules registered by one call, including the copy rules for published predicates."""
_AT_ONCE: Final = 16


class Concluding:
    """Rules registered with the nodes; ``rules`` is their number."""

    def __init__(self, subscriptions: Sequence[Subscription]):
        self._subscriptions = subscriptions
        self.rules = len(subscriptions)

    async def watch(self) -> None:
        """Wait until a rule ends.  Raises the reason: Unavailable, SubscriptionGone."""
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
    """Register rules with the nodes; see :meth:`p2prdf.client.Client.conclude`."""
    from p2prdf.reasoning.insertions import insertions  # imported late: the parser is slow to load

    graph = terms.parse_term(graph)
    if terms.kind(graph) is not terms.Kind.IRI:
        raise QueryRefused(f"{graph} is not an IRI, so it cannot name a graph", construct="graph")
    texts = insertions(rules, graph)
    if not 0 < len(texts) <= RULES_MAX:
        raise LocalProtocolError(f"{len(texts)} rules: register 1 to {RULES_MAX} in one call")
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
