"""Operations behind the tools: bounded queries, publications, updates and explanations.

A language model pays for each character that it reads, so answers are bounded in rows and characters, and say that
they are cut and how to read the rest.  Errors name the reason and the remedy, for a model that tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import secrets
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client import UpdateBounds
from p2prdf.client.describing import answer
from p2prdf.errors import DataRefused, QueryRefused
from p2prdf.gateway.capacity import capacity
from p2prdf.rdf import terms
from p2prdf.rdf.algebra import Form
from p2prdf.rdf.graph_formats import GraphFormat, respelled
from p2prdf.rdf.ntriples import Syntax, TripleBatch, read_triples
from p2prdf.rdf.result_formats import Format, boolean, writer
from p2prdf.reasoning.ruled_query import result_form

if TYPE_CHECKING:
    from p2prdf.client import Client
    from p2prdf.client.update import Updated
    from p2prdf.gateway.connections import Connections

__all__ = ["Answer", "Row", "ToolBounds", "Tools", "cut"]

Row = tuple[str | None, ...]
_TERM_CHARACTERS: Final = 24
"""Estimated characters of a term besides its own text: quotes, names and separators of the format."""
_GRAPHS: Final = {"rdf": GraphFormat.RDF_XML, "jsonld": GraphFormat.JSON_LD}


@dataclass(frozen=True, slots=True)
class ToolBounds:
    """Bounds of the tools of one server."""

    calls_max: int = 8
    """Calls of tools at a time, without waiting watches; further ones wait up to five seconds."""
    rows_max: int = 5_000
    """Most rows of one answer."""
    characters_max: int = 200_000
    """Most characters of one answer, by an estimate."""
    rows_read_max: int = 100_000
    """Most solutions of a query, including those beyond the answer."""
    query_characters_max: int = 262_144
    query_seconds_max: float = 60.0
    publication_characters_max: int = 4 << 20
    statements_max: int = 50_000
    """Most statements of a publication; most solutions and changed statements of an update."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a query: text in the chosen format, and the number of rows in it and in the result."""

    text: str
    rows: int
    rows_total: int
    as_of: str
    """Time up to which all publications count."""
    remark: str = ""
    """Reason why rows are missing, and the way to read them."""

    @property
    def more(self) -> bool:
        """Whether the result has rows that are not in the text."""
        return self.rows < self.rows_total


class Tools:
    """Operations of one server."""

    def __init__(self, connections: Connections, bounds: ToolBounds):
        self.bounds = bounds
        self.connections = connections
        self._calls = asyncio.Semaphore(self.bounds.calls_max)

    @contextlib.asynccontextmanager
    async def _client(self, name: str) -> AsyncIterator[Client]:
        """Lend the connection of a client.  Raises Busy if there are too many calls, Unavailable."""
        async with capacity(self._calls, "the server has its maximum of calls in progress"):
            yield await self.connections.client(name)

    async def query(
        self, name: str, query: str, *, wanted: str | None, rows_max: int, timeout_seconds: float
    ) -> Answer:
        """Answer a query once, as the client of a name.

        Raises QueryRefused, also for a result beyond ``rows_read_max`` and for a format that the query form lacks.
        """
        self._check_length(query)
        form = await asyncio.to_thread(result_form, query)
        kind = _format_of(wanted, form)
        most = self.bounds.rows_read_max
        async with self._client(name) as client:
            result = await answer(
                client, query, algorithm="csbv", timeout_seconds=min(timeout_seconds, self.bounds.query_seconds_max),
                rows_max=most + 1,
            )  # fmt: skip
        as_of = datetime.fromtimestamp(result.as_of, UTC).isoformat(timespec="milliseconds")
        if form is Form.ASK:
            assert isinstance(kind, Format)
            return Answer(boolean(kind, bool(result)), 1, 1, as_of)
        if len(result.rows) > most:
            raise QueryRefused(
                f"more than {most:,} solutions: add conditions, LIMIT, or an aggregate such as COUNT",
                construct="result",
            )
        rows = cut(result.rows, min(rows_max, self.bounds.rows_max), self.bounds.characters_max)
        text = await asyncio.to_thread(_spelled, kind, result.names, rows)
        remark = ""
        if len(rows) < len(result.rows):
            remark = (
                f"{len(rows):,} of {len(result.rows):,} rows are shown: raise rows_max (at most"
                f" {self.bounds.rows_max:,} rows and {self.bounds.characters_max:,} characters), or page by ORDER BY,"
                " LIMIT and OFFSET"
            )
        return Answer(text, len(rows), len(result.rows), as_of, remark)

    async def publish(self, name: str, data: str, *, syntax: str, graph: str | None, removed: bool) -> int:
        """Publish or delete statements; return their number when all are acknowledged.

        The whole text is parsed before any of it is published.  Raises DataRefused with the line.
        """
        if len(data) > self.bounds.publication_characters_max:
            raise DataRefused(
                f"{len(data):,} characters; one call takes {self.bounds.publication_characters_max:,}: publish in parts"
            )
        named = None if graph is None else terms.iri(graph)
        batches = await asyncio.to_thread(self._parsed, data, Syntax(syntax), removed=removed)
        async with self._client(name) as client:
            return await (client.retract if removed else client.publish)(batches, graph=named)

    def _parsed(self, data: str, syntax: Syntax, *, removed: bool) -> list[TripleBatch]:
        mark, count, found = secrets.token_hex(16), 0, []
        try:
            stream = io.BytesIO(data.encode())
        except UnicodeEncodeError as error:
            raise DataRefused(f"unpaired surrogate at character {error.start + 1}", source="data") from None
        own = terms.skolem_prefix(mark)
        for batch in read_triples(stream, publication_id=mark, syntax=syntax, strict=True, source="data"):
            count += len(batch.s)
            if count > self.bounds.statements_max:
                raise DataRefused(f"more than {self.bounds.statements_max:,} statements: publish in parts")
            if removed and any(term.startswith(own) for column in (batch.s, batch.o, batch.g) for term in column):
                raise DataRefused(
                    "a blank node is local to its text, so it cannot be deleted: use the tool update with a WHERE",
                    source="data",
                )
            found.append(batch)
        return found

    async def update(self, name: str, update: str, *, timeout_seconds: float, reads: bool) -> Updated:
        """Execute an update.  Raises QueryRefused, NotAllowed for one that reads data without ``reads``."""
        self._check_length(update)
        most = self.bounds.statements_max
        async with self._client(name) as client:
            return await client.update(
                update, timeout_seconds=min(timeout_seconds, self.bounds.query_seconds_max),
                bounds=UpdateBounds(most, most), reads=reads,
            )  # fmt: skip

    async def explain(self, name: str, query: str) -> str:
        """Return the plan of a query, or the state of the subscription with this number, as JSON.

        A plan beyond ``characters_max`` is cut to its findings and the key ``more``.
        """
        self._check_length(query)
        async with self._client(name) as client:
            found: dict[str, Any] = await client.explain(query)
        text = json.dumps(found, ensure_ascii=False, indent=1)
        if len(text) > self.bounds.characters_max:
            shorter = {name: found[name] for name in ("findings",) if name in found}
            text = json.dumps({**shorter, "more": True}, ensure_ascii=False)
            if len(text) > self.bounds.characters_max:
                text = json.dumps({"more": True})
        return text

    def _check_length(self, text: str) -> None:
        if len(text) > self.bounds.query_characters_max:
            raise QueryRefused(
                f"{len(text):,} characters; at most {self.bounds.query_characters_max:,} are accepted", construct="text"
            )


def cut(rows: Iterable[Row], rows_max: int, characters_max: int) -> list[Row]:
    """Return the first rows, up to a number of rows and of estimated characters."""
    found: list[Row] = []
    for row in rows:
        characters_max -= sum(_TERM_CHARACTERS + len(term) for term in row if term is not None)
        if len(found) >= rows_max or characters_max < 0:
            break
        found.append(row)
    return found


def _format_of(wanted: str | None, form: Form) -> Format | GraphFormat:
    """Return the format of an answer.  Raises QueryRefused for a format that the query form lacks."""
    if wanted is None:
        return Format.N_TRIPLES if form is Form.CONSTRUCT else Format.TSV
    graph = wanted in _GRAPHS or wanted == Format.N_TRIPLES
    if graph and form is not Form.CONSTRUCT:
        reason = f"format {wanted} is for CONSTRUCT and DESCRIBE: ask for tsv, csv, json, xml or table"
        raise QueryRefused(reason, construct=form.name)
    return _GRAPHS[wanted] if wanted in _GRAPHS else Format(wanted)


def _spelled(kind: Format | GraphFormat, names: tuple[str, ...], rows: list[Row]) -> str:
    buffer = io.StringIO(newline="")
    out = writer(kind if isinstance(kind, Format) else Format.N_TRIPLES, names, buffer.write)
    out.rows(rows)
    out.end()
    return buffer.getvalue() if isinstance(kind, Format) else respelled(buffer.getvalue(), kind).decode()
