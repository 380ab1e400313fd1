"""SPARQL 1.1 Protocol: queries and updates over HTTP.

Queries come in the URL (``GET``, ``HEAD``), as a form, or as the body (``application/sparql-query``); updates as a form
or as the body (``application/sparql-update``).  A query is answered once, over all published data
(:meth:`p2prdf.client.Client.query`).  The protocol's parameters ``default-graph-uri`` and ``named-graph-uri`` replace
the FROM clauses of a query; ``using-graph-uri`` and ``using-named-graph-uri`` are USING and USING NAMED of an update.
"""

from __future__ import annotations

import asyncio
import functools
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qs

from aiohttp import web

from p2prdf.client import Result, UpdateBounds
from p2prdf.client.tables import TableFormat, are_available, encoded
from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.gateway.access import Permission
from p2prdf.gateway.bodies import text_of
from p2prdf.gateway.negotiation import chosen, chosen_coding
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.state import GATEWAY, Gateway, check_query, in_dataset, seconds_of, update_dataset
from p2prdf.rdf import terms, zstd
from p2prdf.rdf.algebra import Form
from p2prdf.rdf.code_points import without_mark
from p2prdf.rdf.federation import without_services
from p2prdf.rdf.graph_formats import GraphFormat, respelled
from p2prdf.rdf.result_formats import Format, boolean, writer
from p2prdf.reasoning.ruled_query import result_form

__all__ = ["GRAPH_TYPES", "RESULT_TYPES", "TABLE_TYPES", "accepted", "handle", "write_graph"]

RESULT_TYPES: Final = {
    "application/sparql-results+json": Format.JSON, "application/sparql-results+xml": Format.XML,
    "text/csv": Format.CSV, "text/tab-separated-values": Format.TSV, "application/json": Format.JSON,
    "application/xml": Format.XML, "text/xml": Format.XML,
}  # fmt: skip
"""Media types of SELECT and ASK."""
TABLE_TYPES: Final = {
    "application/vnd.apache.arrow.stream": TableFormat.ARROW, "application/vnd.apache.parquet": TableFormat.PARQUET,
}  # fmt: skip
"""Further media types of SELECT, if pyarrow is installed."""
GRAPH_TYPES: Final = {
    "application/n-triples": GraphFormat.N_TRIPLES, "text/turtle": GraphFormat.TURTLE,
    "application/rdf+xml": GraphFormat.RDF_XML, "application/ld+json": GraphFormat.JSON_LD,
    "application/trig": GraphFormat.TURTLE, "application/n-quads": GraphFormat.N_TRIPLES,
    "text/plain": GraphFormat.N_TRIPLES, "application/x-jelly-rdf": GraphFormat.JELLY,
}  # fmt: skip
"""Media types of graphs: CONSTRUCT, DESCRIBE, the Graph Store Protocol.

A triple is written in the same way in Turtle and TriG, and in N-Triples and N-Quads.
"""
_T = TypeVar("_T")
_QUERY: Final = "application/sparql-query"
_UPDATE: Final = "application/sparql-update"
_FORM: Final = "application/x-www-form-urlencoded"
_VARY: Final = {"Vary": "Accept, Accept-Encoding"}
_COMPRESSED_BYTES: Final = 1024
"""Shortest response that is compressed."""
_FIELDS_MAX: Final = 64
_ROWS: Final = 1000
"""Rows written between two checks of the client's reading."""


class _Packing(Protocol):
    """Compresses a response."""

    def compress(self, data: bytes, /) -> bytes:
        """Return compressed bytes, possibly none yet."""
        ...

    def flush(self) -> bytes:
        """Return the last bytes."""
        ...


class _Asked(NamedTuple):
    """A request: a query, or an update."""

    text: str
    is_update: bool
    timeout_seconds: float
    using: Sequence[str] = ()
    using_named: Sequence[str] = ()
    """The graphs that the WHERE of an update reads."""
    symmetric: bool = False
    """Whether DESCRIBE returns triples with the resource as object, too."""


async def handle(request: web.Request) -> web.StreamResponse:
    """Answer a request to the SPARQL endpoint."""
    gateway = request.app[GATEWAY]
    asked = await _asked(request, gateway)
    name = gateway.access.check(request, Permission.WRITE if asked.is_update else Permission.READ)
    if asked.is_update:
        async with gateway.turn():
            client = await gateway.connections.client(name)
            most = gateway.config.update_statements_max
            update = functools.partial(
                client.update, timeout_seconds=asked.timeout_seconds, using=asked.using, using_named=asked.using_named,
                loader=gateway.loader, reads=gateway.access.permits(request, Permission.READ),
                bounds=UpdateBounds(most, most), endpoints=gateway.endpoints,
            )  # fmt: skip
            try:
                done = await update(asked.text)
            except QueryRefused as error:
                done = await update(_based(request, asked.text, error))
        # 200 with a body rather than 204: SEPA's Python client treats every other status as a failure.
        return web.json_response({"inserted": done.inserted, "deleted": done.deleted})
    wanted: Format | GraphFormat | TableFormat
    async with gateway.turn():
        # In a thread, because parsing a long query takes a while.
        federated = "service" in asked.text.lower()
        text, form = await asyncio.to_thread(_parsed, request, asked.text, federated=federated)
        media_type, wanted = accepted(request, _offered(form))
        client = await gateway.connections.client(name)
        result = await client.query(
            text, timeout_seconds=asked.timeout_seconds, symmetric=asked.symmetric, endpoints=gateway.endpoints
        )
    if isinstance(wanted, Format):
        if form is Form.ASK:
            return web.Response(text=boolean(wanted, bool(result)), content_type=media_type, headers=_VARY)
        return await _written(request, media_type, wanted, result)
    if isinstance(wanted, TableFormat):
        return await _table(request, media_type, wanted, result)
    return await write_graph(request, media_type, wanted, result)


def _offered(form: Form) -> Mapping[str, Format | GraphFormat | TableFormat]:
    if form is Form.CONSTRUCT:
        return GRAPH_TYPES
    return {**RESULT_TYPES, **TABLE_TYPES} if form is Form.SELECT and are_available() else RESULT_TYPES


def accepted(request: web.Request, offered: Mapping[str, _T]) -> tuple[str, _T]:
    """Return the media type that a request prefers, and its value in ``offered``.  Raises Refused (406)."""
    return chosen(",".join(request.headers.getall("Accept", [])) or None, offered)


async def write_graph(
    request: web.Request, media_type: str, wanted: GraphFormat, result: Result
) -> web.StreamResponse:
    """Write the triples of a result.  Raises Refused (406) if the format cannot hold one of them."""
    if wanted.by_lines:
        return await _written(request, media_type, Format.N_TRIPLES, result)
    try:
        body = await asyncio.to_thread(lambda: respelled("".join(_texts(Format.N_TRIPLES, result)), wanted))
    except DataRefused as error:
        raise _not_written(media_type, GRAPH_TYPES, error) from None
    return await _whole(request, media_type, body)


async def _whole(request: web.Request, media_type: str, body: bytes) -> web.Response:
    """Return a response with a body, compressed in a thread."""
    headers = dict(_VARY)
    packing = _packing(request, headers, len(body))
    if packing is not None:
        body = await asyncio.to_thread(_packed, packing, body)
    return web.Response(body=body, content_type=media_type, headers=headers)


def _packed(packing: _Packing, body: bytes) -> bytes:
    return packing.compress(body) + packing.flush()


async def _table(
    request: web.Request, media_type: str, wanted: TableFormat, result: Result
) -> web.StreamResponse:
    """Write a result in a binary format.  Raises Refused (406) for a result without columns."""
    try:
        body = await asyncio.to_thread(lambda: encoded(result.to_arrow(), wanted))
    except LocalProtocolError as error:
        raise _not_written(media_type, RESULT_TYPES, error) from None
    return await _whole(request, media_type, body)


def _parsed(request: web.Request, text: str, *, federated: bool) -> tuple[str, Form]:
    """Return the text of a query and the form of its result.  Raises QueryRefused.

    ``federated``: it may call other endpoints.
    """

    def form(text: str) -> Form:
        return result_form(without_services(text) if federated else text)

    try:
        return text, form(text)
    except QueryRefused as error:
        text = _based(request, text, error)
    return text, form(text)


def _based(request: web.Request, text: str, error: QueryRefused) -> str:
    """Return a text that was refused for a relative IRI with the endpoint as its base; raise any other refusal.

    Only such a text gets a base, so that refusals of all others name the columns of the request.
    """
    if error.construct != "IRI":
        raise error
    return f"BASE {terms.iri(str(request.url.with_query(None)))} {without_mark(text)}"


async def _asked(request: web.Request, gateway: Gateway) -> _Asked:
    """Parse a request.  Raises Refused for violations of the protocol."""
    parameters = {name: request.query.getall(name) for name in request.query}
    text: str | None = None
    is_update = False
    if request.method == "POST":
        kind = request.content_type
        if kind in (_QUERY, _UPDATE):
            text, is_update = await text_of(request, gateway.config), kind == _UPDATE
        elif kind == _FORM:
            for name, values in _fields(await text_of(request, gateway.config)).items():
                parameters.setdefault(name, []).extend(values)
        else:
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {kind}: not one of {_QUERY}, {_UPDATE}, {_FORM}"
            )
    given = [(name == "update", each) for name in ("query", "update") for each in parameters.get(name, ())]
    if text is not None:
        given.append((is_update, text))
    if len(given) != 1:
        raise Refused(HTTPStatus.BAD_REQUEST, f"exactly one query or update is expected, not {len(given)}")
    is_update, text = given[0]
    if is_update and request.method != "POST":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "an update is sent by POST", headers={"Allow": "POST"})
    check_query(text, gateway.config)
    using, using_named = update_dataset(parameters) if is_update else ((), ())
    if not is_update:
        text = in_dataset(text, parameters)
    timeout = seconds_of(parameters.get("timeout", [None])[0], "timeout", most=gateway.config.query_seconds_max)
    symmetric = parameters.get("symmetric", ["false"])[0]
    if symmetric not in ("true", "false"):
        raise Refused(HTTPStatus.BAD_REQUEST, f"symmetric: {symmetric[:80]!r} is neither true nor false")
    return _Asked(text, is_update, timeout, using, using_named, symmetric == "true")


def _fields(form: str) -> dict[str, list[str]]:
    try:
        return parse_qs(form, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except ValueError as error:  # UnicodeDecodeError is one
        raise Refused(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from None


async def _written(request: web.Request, media_type: str, wanted: Format, result: Result) -> web.StreamResponse:
    """Write rows as fast as the client reads them."""
    pieces = _texts(wanted, result)
    # If the first part shows that the format cannot hold the result, an error is still possible.
    try:
        first = next(pieces)
    except DataRefused as error:
        raise _not_written(media_type, RESULT_TYPES, error) from None
    headers = {"Content-Type": f"{media_type}; charset=utf-8", **_VARY}
    packing = _packing(request, headers, len(first))
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        for piece in itertools.chain([first], pieces):
            data = piece.encode()
            await response.write(data if packing is None else packing.compress(data))
    except DataRefused as error:
        request.app[GATEWAY].logger.warning("answer aborted: %s", error)
        if request.transport is not None:
            request.transport.abort()  # the only way to mark the response as incomplete
        return response
    await response.write_eof(b"" if packing is None else packing.flush())
    return response


def _packing(request: web.Request, headers: dict[str, str], size: int) -> _Packing | None:
    """Return the compressor of a response, and name its coding in the headers; None: it is sent as it is.

    ``size``: bytes of the response, or of its start.
    """
    if request.method == "HEAD" or size < _COMPRESSED_BYTES:
        return None
    accept = ",".join(request.headers.getall("Accept-Encoding", []))
    coding = chosen_coding(accept, zstd=zstd.is_installed())
    if not coding:
        return None
    headers["Content-Encoding"] = coding
    return zstd.compressor() if coding == "zstd" else zlib.compressobj(wbits=31)


def _not_written(media_type: str, offered: Iterable[str], error: LocalProtocolError) -> Refused:
    """Return the refusal of a result that one format cannot hold; it names the others."""
    others = ", ".join(each for each in offered if each != media_type)
    return Refused(
        HTTPStatus.NOT_ACCEPTABLE, f"the answer cannot be written as {media_type}: {error}; ask for one of {others}"
    )


def _texts(wanted: Format, result: Result) -> Iterator[str]:
    """Yield a result in pieces of a thousand rows."""
    buffer = io.StringIO(newline="")
    out = writer(wanted, result.names, buffer.write)
    for start in range(0, max(1, len(result.rows)), _ROWS):
        out.rows(result.rows[start : start + _ROWS])
        if start + _ROWS >= len(result.rows):
            out.end()
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
