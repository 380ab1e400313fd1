"""SPARQL UPDATE as publications and deletions.

``INSERT DATA`` is a publication, ``DELETE DATA`` a deletion. ``DELETE WHERE`` is a one-time query
(:mod:`p2prdf.client.query`) and the deletion of the triples in its solutions. Each operation begins when the
one before is acknowledged, so a query counts all of it.

There is no transaction: no node holds all data, so none can lock out other readers and writers. A subscriber
sees each operation separately, and triples published during a ``DELETE WHERE`` may stay. An update that fails
half way may be repeated from its beginning: repeated publications and deletions change nothing. Only blank
nodes are new each time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from p2prdf.errors import QueryRefused

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.rdf.update import DeleteWhere, Operation, Statement

__all__ = ["Updated", "carry_out"]


@dataclass(frozen=True, slots=True)
class Updated:
    """Numbers of triples published and deleted, including those that changed nothing."""

    inserted: int
    deleted: int


async def carry_out(client: Client, text: str, *, timeout_seconds: float) -> Updated:
    """Execute an update; see :meth:`p2prdf.client.Client.update`."""
    from p2prdf.rdf.update import DeleteData, DeleteWhere, InsertData  # imported late: the parser is slow to load

    # A megabyte of text takes seconds to parse; other coroutines run meanwhile.
    operations = await asyncio.to_thread(_parsed, text)
    inserted = deleted = 0
    for operation in operations:
        match operation:
            case InsertData():
                inserted += await client.publish(operation.triples)
            case DeleteData():
                deleted += await client.retract(operation.triples)
            case DeleteWhere():
                deleted += await client.retract(await _found(client, operation, timeout_seconds))
            case _:
                assert_never(operation)
    return Updated(inserted, deleted)


def _parsed(text: str) -> tuple[Operation, ...]:
    """Return the operations of an update; later stages refuse none of them for its form."""
    from p2prdf.rdf.standing.query import parse_query
    from p2prdf.rdf.update import DeleteWhere, parse_update

    operations = parse_update(text, scope=secrets.token_hex(8))
    for operation in operations:
        if isinstance(operation, DeleteWhere) and operation.patterns:
            try:
                parse_query(operation.select)
            except QueryRefused as error:  # its position refers to a query that the user did not write
                raise QueryRefused(error.reason, construct="DELETE WHERE") from None
    return operations


async def _found(client: Client, operation: DeleteWhere, timeout_seconds: float) -> Iterable[Statement]:
    """Return the triples that the patterns match now, each once."""
    if not operation.patterns or any(s.startswith('"') for s, *_ in operation.patterns):
        return ()  # no triple has a literal as its subject
    if len(operation.patterns) == 1 and not operation.variables:
        return operation.patterns  # deleting a triple that does not exist changes nothing
    result = await client.query(operation.select, timeout_seconds=timeout_seconds)
    return _each_once(operation, result.rows)


def _each_once(operation: DeleteWhere, rows: Iterable[tuple[str | None, ...]]) -> Iterator[Statement]:
    """Yield the triples of the solutions lazily, so a large result does not block other coroutines."""
    seen: set[Statement] = set()
    for row in rows:
        for triple in operation.triples_of(row):
            if triple not in seen:
                seen.add(triple)
                yield triple
