"""Descriptions of resources (DESCRIBE), by several one-time queries.

One query finds the resources; others, each for some nodes, find their triples and with them further blank nodes. Each
query counts all publications acknowledged before it, so the description does. A change during the evaluation may count
for some of the nodes only.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from p2prdf.client.query import Result, answer_once
from p2prdf.errors import QueryRefused, Unavailable
from p2prdf.rdf import terms

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.rdf.standing.descriptions import Description

__all__ = ["NODES_MAX", "SOLUTIONS_MAX", "TRIPLES_MAX", "answer"]

NODES_MAX: Final = 10_000
"""Most resources and blank nodes of one description."""
SOLUTIONS_MAX: Final = 100_000
"""Most solutions of WHERE."""
TRIPLES_MAX: Final = 1_000_000
"""Most triples of one description."""
_QUERIES: Final = 4
"""Queries for triples at a time."""


async def answer(
    client: Client, query: str, *, algorithm: str, timeout_seconds: float, symmetric: bool = False,
    rows_max: int | None = None, of_seconds: float | None = None,
) -> Result:  # fmt: skip
    """Answer a query once, a DESCRIBE included; see :meth:`p2prdf.client.Client.query`.

    ``rows_max``, ``of_seconds``: as in :func:`p2prdf.client.query.answer_once`; a description has its own bounds.

    Raises QueryRefused for a description of more nodes, solutions or triples than the bounds.
    """
    description: Description | None = None
    if re.search(r"describe|\\u", query, re.IGNORECASE):
        from p2prdf.reasoning.ruled_query import parse_ruled_description  # imported late: the parser is slow to load

        description = await asyncio.to_thread(parse_ruled_description, query)
    if description is None:
        return await answer_once(
            client, query, algorithm=algorithm, timeout_seconds=timeout_seconds, of_seconds=of_seconds,
            rows_max=rows_max,
        )  # fmt: skip
    from p2prdf.rdf.algebra import TRIPLE_NAMES

    describing = _Describing(client, description, algorithm, timeout_seconds, of_seconds, symmetric=symmetric)
    await describing.run()
    return Result(TRIPLE_NAMES, list(describing.triples), describing.as_of, describing.stamp)


class _Describing:
    """One evaluation: the nodes that are known, the triples found, and the deadline."""

    def __init__(
        self, client: Client, description: Description, algorithm: str, timeout_seconds: float,
        of_seconds: float | None, *, symmetric: bool,
    ):  # fmt: skip
        self.triples: dict[tuple[str | None, ...], None] = {}
        self.as_of = 0.0
        self.stamp = 0
        self._client = client
        self._description = description
        self._algorithm = algorithm
        self._symmetric = symmetric
        self._of_seconds = of_seconds or timeout_seconds
        self._deadline = asyncio.get_running_loop().time() + timeout_seconds
        self._known: dict[str, None] = {}

    async def run(self) -> None:
        """Find the resources, then the triples of all nodes, level by level."""
        found: list[str | None] = [*self._description.resources]
        if self._description.query:
            solutions = await self._rows(self._description.query, SOLUTIONS_MAX, "solutions of WHERE")
            found += itertools.chain.from_iterable(solutions)
        level = self._fresh(found)
        graphs = self._description.graphs
        while level and graphs != ():
            size = self._description.nodes_max(symmetric=self._symmetric)
            parts = [level[at : at + size] for at in range(0, len(level), size)]
            blanks: dict[str | None, None] = {}
            for at in range(0, len(parts), _QUERIES):
                for rows in await self._together(parts[at : at + _QUERIES]):
                    self.triples.update(dict.fromkeys(rows))
                    blanks.update((term, None) for row in rows for term in row if terms.is_skolem(term or ""))
                    await asyncio.sleep(0)
                if len(self.triples) > TRIPLES_MAX:
                    raise _too_many("triples", TRIPLES_MAX)
            level = self._fresh(blanks)

    def _fresh(self, found: Iterable[str | None]) -> list[str]:
        """Return the IRIs and blank nodes among some terms that were unknown; they are known now."""
        fresh = [
            term for term in dict.fromkeys(found) if term is not None and term[0] == "<" and term not in self._known
        ]
        self._known.update(dict.fromkeys(fresh))
        if len(self._known) > NODES_MAX:
            raise _too_many("resources and blank nodes", NODES_MAX)
        return fresh

    async def _together(self, parts: list[list[str]]) -> list[list[tuple[str | None, ...]]]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._rows(
                        self._description.triples(nodes, symmetric=self._symmetric), TRIPLES_MAX, "triples"
                    ))
                    for nodes in parts
                ]  # fmt: skip
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _rows(self, query: str, most: int, what: str) -> list[tuple[str | None, ...]]:
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise Unavailable(f"the description was not complete within {self._of_seconds:g} s")
        result = await answer_once(
            self._client, query, algorithm=self._algorithm, timeout_seconds=left, of_seconds=self._of_seconds,
            rows_max=most + 1,
        )  # fmt: skip
        if len(result.rows) > most:
            raise _too_many(what, most)
        self.as_of = min(self.as_of or result.as_of, result.as_of)
        self.stamp = min(self.stamp or result.stamp, result.stamp)
        return result.rows


def _too_many(what: str, most: int) -> QueryRefused:
    reason = f"more than {most:,} {what}; describe fewer resources (LIMIT), or use CONSTRUCT"
    return QueryRefused(reason, construct="DESCRIBE")
