"""SPARQL UPDATE as publications and removals.

The idea.  ``INSERT DATA`` is a publication, ``DELETE DATA`` a removal.  ``DELETE WHERE`` is a one-time query
(:mod:`p2prdf.client.query`) and the removal of the triples that its solutions are made of.  Each operation begins when
the one before it is acknowledged, so a query counts all of it.

There is no transaction: nobody holds all data, so nobody can keep others from reading or writing in between.  Who
subscribes sees each operation for itself; what others publish while a ``DELETE WHERE`` is answered may stay.  An update
that fails half way may be repeated from its beginning: what is published or removed again changes nothing, but for
blank nodes, which are new ones each time.
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
    """How many triples an update published and removed, those too that had been there, or not been there, before."""

    inserted: int
    deleted: int


async def carry_out(client: Client, text: str, *, timeout_seconds: float) -> Updated:
    """Carry an update out; as :meth:`p2prdf.client.Client.update`."""
    from p2prdf.rdf.update import DeleteData, DeleteWhere, InsertData  # only who updates pays for SPARQL's grammar

    # A text of a megabyte takes seconds, in which other coroutines are to go on.
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
    """Return the operations of a text, none of which will be refused for its form when its turn has come."""
    from p2prdf.rdf.standing.query import parse_query
    from p2prdf.rdf.update import DeleteWhere, parse_update

    operations = parse_update(text, scope=secrets.token_hex(8))
    for operation in operations:
        if isinstance(operation, DeleteWhere) and operation.patterns:
            try:
                parse_query(operation.select)
            except QueryRefused as error:  # its place is that in a query which nobody wrote
                raise QueryRefused(error.reason, construct="DELETE WHERE") from None
    return operations


async def _found(client: Client, operation: DeleteWhere, timeout_seconds: float) -> Iterable[Statement]:
    """Return what the patterns stand for now, each triple once."""
    if not operation.patterns or any(s.startswith('"') for s, *_ in operation.patterns):
        return ()  # no triple has a literal as its subject
    if len(operation.patterns) == 1 and not operation.variables:
        return operation.patterns  # if it is not there, removing it changes nothing
    result = await client.query(operation.select, timeout_seconds=timeout_seconds)
    return _each_once(operation, result.rows)


def _each_once(operation: DeleteWhere, rows: Iterable[tuple[str | None, ...]]) -> Iterator[Statement]:
    """Yield the triples of the solutions; made as they are sent, so a large result keeps nobody waiting."""
    seen: set[Statement] = set()
    for row in rows:
        for triple in operation.triples_of(row):
            if triple not in seen:
                seen.add(triple)
                yield triple
