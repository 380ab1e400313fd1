"""SPARQL 1.1 Update as one-time queries, publications and deletions.

The changes of all operations are collected in one change set (:mod:`p2prdf.client.change_set`). The WHERE of an
operation is a one-time query (:mod:`p2prdf.client.query`), which counts every acknowledged publication; so the set
is published, and acknowledged, before a WHERE that follows a change. An update with a single WHERE, or without any,
is published as a whole, after everything that can be refused was checked. A WHERE may call other endpoints
(:mod:`p2prdf.client.services`).

Two concurrent updates do not lock each other: each WHERE counts all changes acknowledged before it and possibly
some of the concurrent ones, and for each statement the change with the later stamp decides. An update that fails
half way may be repeated from its beginning: repeated changes have no further effect. Only blank nodes are new each
time.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, assert_never

from p2prdf.client.change_set import ChangeSet
from p2prdf.client.query import answer_once
from p2prdf.client.services import NO_ENDPOINTS, ServiceBounds, check_services, with_solutions
from p2prdf.errors import LocalProtocolError, NotAllowed, P2PRDFError, QueryRefused, Unavailable
from p2prdf.rdf import terms
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.update_operations import (
    Clear,
    Create,
    DeleteData,
    InsertData,
    Load,
    Manner,
    Modify,
    Target,
    Transfer,
    in_graph,
    is_system_graph,
)

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.client.services import Endpoints
    from p2prdf.rdf.update_operations import Changes, Operation, Statement

__all__ = ["Loader", "UpdateBounds", "Updated", "carry_out"]

READ: Final = "read"
"""As a version: the stamp as of which the update reads."""
_STEPS: Final = 10_000
"""Statements and values made between two turns of other coroutines."""


@dataclass(frozen=True, slots=True)
class Updated:
    """Numbers of statements that the operations inserted and deleted, including those that changed nothing."""

    inserted: int
    deleted: int


@dataclass(frozen=True, slots=True)
class UpdateBounds:
    """Bounds of an update: solutions of one WHERE or statements of one graph, and statements changed in all."""

    solutions_max: int = 1_000_000
    statements_max: int = 1_000_000

    def validate(self) -> None:
        """Raise LocalProtocolError for a bound that is not positive."""
        if self.solutions_max < 1 or self.statements_max < 1:
            raise LocalProtocolError("solutions_max and statements_max must be positive")


class Loader(Protocol):
    """Fetches the documents of LOAD, as :class:`p2prdf.replica.loading.WebLoader` does."""

    def check(self, url: str) -> None:
        """Raise P2PRDFError for a document that may not be loaded."""
        ...

    async def load(self, url: str, *, publication_id: str, statements_max: int) -> Sequence[Triple]:
        """Return the triples of a document.  Raises P2PRDFError; the caller sets the deadline."""
        ...


async def carry_out(
    client: Client, text: str, *, timeout_seconds: float, using: Sequence[str] = (), using_named: Sequence[str] = (),
    loader: Loader | None = None, bounds: UpdateBounds | None = None, reads: bool = True,
    endpoints: Endpoints | None = None, service_bounds: ServiceBounds | None = None,
    if_unchanged: int | str | None = None,
) -> Updated:  # fmt: skip
    """Execute an update; see :meth:`p2prdf.client.Client.update`."""
    bounds, service_bounds = bounds or UpdateBounds(), service_bounds or ServiceBounds()
    bounds.validate()
    service_bounds.validate()
    if isinstance(if_unchanged, str) and if_unchanged != READ:
        raise LocalProtocolError(f"if_unchanged={if_unchanged!r} is neither a stamp nor {READ!r}")
    endpoints = (endpoints or NO_ENDPOINTS) if "service" in text.lower() else None
    scope = secrets.token_hex(8)
    # A megabyte of text takes seconds to parse; other coroutines run meanwhile.
    operations = await asyncio.to_thread(_parsed, text, scope, using, using_named, endpoints)
    if not reads:
        _refuse_reading(operations)
    services = None if endpoints is None else (endpoints, service_bounds)
    conditional = if_unchanged is not None
    execution = _Execution(client, scope, loader, services, bounds, timeout_seconds, conditional=conditional)
    execution.check(operations)
    for operation in operations:
        await execution.execute(operation)
    await execution.changes.publish(client, if_unchanged=execution.version(if_unchanged))
    return Updated(execution.inserted, execution.deleted)


def _parsed(
    text: str, scope: str, using: Sequence[str], using_named: Sequence[str], endpoints: Endpoints | None
) -> tuple[Operation, ...]:
    from p2prdf.rdf.update import Using, parse_update  # imported late: the parser is slow to load

    chosen = Using(tuple(map(terms.iri, using)), tuple(map(terms.iri, using_named)))
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    operations = parse_update(text, scope=scope, using=chosen, now=now, services=endpoints is not None)
    if endpoints is not None:
        for each in operations:
            if isinstance(each, Modify) and each.query:
                try:
                    check_services(each.query, endpoints)
                except QueryRefused as error:
                    raise _unplaced(error) from None
    return operations


def _refuse_reading(operations: Iterable[Operation]) -> None:
    """Raise NotAllowed for an operation whose effect, and so the answer, depends on data."""
    for each in operations:
        if isinstance(each, Clear | Create | Transfer) or (isinstance(each, Modify) and each.query):
            what = each.construct if isinstance(each, Modify) else type(each).__name__.upper()
            raise NotAllowed(f"{what}: the update reads data, which needs the permission to read, too")


class _Execution:
    """Executes the operations of one update, in order."""

    def __init__(
        self, client: Client, scope: str, loader: Loader | None, services: tuple[Endpoints, ServiceBounds] | None,
        bounds: UpdateBounds, timeout_seconds: float, *, conditional: bool = False,
    ):  # fmt: skip
        self.changes = ChangeSet(bounds.statements_max)
        self.inserted = self.deleted = 0
        self._client = client
        self._conditional = conditional
        self._read = 0
        """The stamp of the earliest WHERE; 0: there was none."""
        self._scope = scope
        self._prefix = terms.skolem_prefix(scope)
        self._loader = loader
        self._services = services
        self._bounds = bounds
        self._timeout_seconds = timeout_seconds
        self._deadline = asyncio.get_running_loop().time() + timeout_seconds
        self._number = 0

    def check(self, operations: Iterable[Operation]) -> None:
        """Raise QueryRefused for a LOAD that is not allowed, before any operation runs."""
        for each in operations:
            if isinstance(each, Load) and not each.silent:
                self._check_load(each)

    def version(self, if_unchanged: int | str | None) -> int | None:
        """Return the stamp since which the changed subjects must be unchanged.  Raises LocalProtocolError."""
        if not isinstance(if_unchanged, str):
            return if_unchanged
        if self.changes and not self._read:
            raise LocalProtocolError(f"if_unchanged={READ!r}: the update reads nothing; give the stamp of a query")
        return self._read or None

    async def execute(self, operation: Operation) -> None:
        """Add the changes of an operation to the set."""
        self._number += 1
        match operation:
            case InsertData():
                self._insert(operation.triples)
            case DeleteData():
                self._delete(operation.triples)
            case Modify():
                await self._modify(operation)
            case Clear():
                await self._clear(operation)
            case Create():
                await self._create(operation)
            case Transfer():
                await self._transfer(operation)
            case Load():
                await self._load(operation)
            case _:
                assert_never(operation)

    def _insert(self, statements: Sequence[Statement]) -> None:
        self.changes.insert(statements)
        self.inserted += len(statements)

    def _delete(self, statements: Sequence[Statement]) -> None:
        self.changes.delete(statements)
        self.deleted += len(statements)

    # --- WHERE -------------------------------------------------------------------------------

    async def _modify(self, operation: Modify) -> None:
        if operation.query and self.changes:
            if self._conditional:
                reason = "a conditional update is one transaction, so no WHERE follows a change"
                raise QueryRefused(reason, construct="WHERE")
            await self.changes.publish(self._client)  # the query is to see the effect of earlier operations
        rows: Sequence[Sequence[str | None]] = [()]
        if operation.query:
            rows = await self._rows(await self._with_solutions(operation.query), operation.construct)
        found: Changes = ({}, {})
        row_number = 0

        def fresh(name: str) -> str:
            return f"{self._prefix}~{self._number}.{row_number}.{name[2:]}>"  # "~" does not occur in labels

        add = operation.changes(fresh)
        steps = len(operation.delete) + len(operation.insert) + len(operation.marks) * len(operation.variables)
        rows_at_a_time = max(1, _STEPS // max(1, steps))
        for row_number, row in enumerate(rows):
            add(_unmarked(row, operation.marks) if operation.marks else row, found)
            if row_number % rows_at_a_time == rows_at_a_time - 1:
                self.changes.check_size(max(map(len, found)))
                await asyncio.sleep(0)
        deleted, inserted = map(tuple, found)
        self._delete(deleted)
        self._insert(inserted)

    async def _with_solutions(self, query: str) -> str:
        """Return the query of a WHERE with the solutions of other endpoints instead of its calls."""
        if self._services is None:
            return query
        endpoints, bounds = self._services
        left = max(0.0, self._deadline - asyncio.get_running_loop().time())
        try:
            return await with_solutions(
                self._client, query, endpoints, bounds, algorithm="csbv", timeout_seconds=left,
                of_seconds=self._timeout_seconds,
            )  # fmt: skip
        except QueryRefused as error:
            raise _unplaced(error) from None

    async def _rows(self, query: str, construct: str) -> list[tuple[str | None, ...]]:
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise Unavailable(f"the update was not evaluated within {self._timeout_seconds:g} s")
        most = self._bounds.solutions_max
        result = await answer_once(
            self._client, query, algorithm="csbv", timeout_seconds=left, of_seconds=self._timeout_seconds,
            rows_max=most + 1, exact=self._conditional,
        )  # fmt: skip
        if len(result.rows) > most:
            reason = f"more than {most:,} solutions; change them in parts, for example by LIMIT in a sub-SELECT"
            raise QueryRefused(reason, construct=construct)
        self._read = min(self._read or result.stamp, result.stamp)
        return result.rows

    # --- whole graphs ------------------------------------------------------------------------

    async def _contents(self, graph: str, construct: str) -> list[Statement]:
        """Return the statements of a graph, an IRI or ``DEFAULT``, after the earlier operations."""
        pattern = "?s ?p ?o" if graph == DEFAULT else f"GRAPH {graph} {{ ?s ?p ?o }}"
        rows = await self._rows(f"SELECT ?s ?p ?o WHERE {{ {pattern} }}", construct)
        held = (in_graph(_triple(row), graph) for row in rows)
        return list(self.changes.applied(held, (graph,)))

    async def _clear(self, operation: Clear) -> None:
        graph = operation.graph
        if not isinstance(graph, Target):
            self._delete(await self._contents(graph, "CLEAR"))
            return
        if graph is Target.ALL:
            self._delete(await self._contents(DEFAULT, "CLEAR ALL"))
        rows = await self._rows("SELECT ?s ?p ?o ?g WHERE { GRAPH ?g { ?s ?p ?o } }", f"CLEAR {graph.value}")
        held = ((*_triple(row[:3]), str(row[3])) for row in rows)
        self._delete([each for each in self.changes.applied(held, None) if not is_system_graph(each[-1])])

    async def _create(self, operation: Create) -> None:
        if not operation.silent and await self._exists(operation.graph, "CREATE"):
            reason = f"the graph {operation.graph} exists; use CREATE SILENT if it may, or CLEAR it"
            raise QueryRefused(reason, construct="CREATE")

    async def _exists(self, graph: str, construct: str) -> bool:
        if graph == DEFAULT:
            return True
        if self.changes.touches(graph):
            return bool(await self._contents(graph, construct))
        return bool(await self._rows(f"ASK {{ GRAPH {graph} {{ ?s ?p ?o }} }}", construct))

    async def _transfer(self, operation: Transfer) -> None:
        source, target, manner = operation.source, operation.target, operation.manner
        if source == target:
            return
        moved = await self._contents(source, manner.value)
        if not moved and source != DEFAULT:
            if operation.silent:
                return
            reason = f"the graph {source} does not exist (it holds no triple); use {manner.value} SILENT if it may not"
            raise QueryRefused(reason, construct=manner.value)
        if manner is not Manner.ADD:
            self._delete(await self._contents(target, manner.value))
        self._insert([in_graph((each[0], each[1], each[2]), target) for each in moved])
        if manner is Manner.MOVE:
            self._delete(moved)

    # --- documents ---------------------------------------------------------------------------

    def _check_load(self, operation: Load) -> Loader:
        if self._loader is None:
            reason = "no document is loaded unless its host is permitted (--load-from); or publish it instead"
            raise QueryRefused(reason, construct="LOAD")
        try:
            self._loader.check(operation.url)
        except P2PRDFError as error:
            raise QueryRefused(str(error), construct="LOAD") from None
        return self._loader

    async def _load(self, operation: Load) -> None:
        try:
            loader = self._check_load(operation)
            async with asyncio.timeout_at(self._deadline):
                found = await loader.load(
                    operation.url, publication_id=f"{self._scope}.{self._number}",
                    statements_max=self._bounds.statements_max,
                )  # fmt: skip
        except TimeoutError:
            if not operation.silent:
                raise Unavailable(f"{operation.url} was not loaded within {self._timeout_seconds:g} s") from None
        except P2PRDFError:
            if not operation.silent:
                raise
        else:
            for start in range(0, len(found), _STEPS):
                self._insert([in_graph(each, operation.graph) for each in found[start : start + _STEPS]])
                await asyncio.sleep(0)


def _unplaced(error: QueryRefused) -> QueryRefused:
    """Return a refusal without its position, which is that in the query of an operation."""
    return QueryRefused(error.reason, construct=error.construct)


def _unmarked(row: Sequence[str | None], marks: Iterable[str]) -> list[str | None]:
    """Return a solution with a new UUID for each mark."""
    found = list(row)
    for mark in marks:
        new = str(uuid.uuid4())
        found = [None if term is None else term.replace(mark, new) for term in found]
    return found


def _triple(row: Sequence[str | None]) -> Triple:
    s, p, o = row
    assert s is not None
    assert p is not None
    assert o is not None
    return s, p, o
