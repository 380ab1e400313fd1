"""SPARQL 1.1 Graph Store HTTP Protocol: graphs are read and written as wholes.

A graph is named in the query (``/graphs?graph=IRI``, ``/graphs?default``), or the URL of the request is its name
(``/graphs/PATH``).  Reading is a one-time query.  Writing is the publication of the statements that are missing and the
deletion of those that are not wanted, so that an unchanged statement is untouched and subscribers see differences only.
A body is parsed as a whole before any of it is published.

A graph exists while it holds a statement.  Names of blank nodes are derived from graph and body: repeating a PUT
changes nothing.  A change is one transaction where it fits one, and may be repeated after a failure.  It does not lock
the graph: a writer may have read it before the change of another one.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, cast

from aiohttp import BodyPartReader, web

from p2prdf.client import Client
from p2prdf.errors import DataRefused, TransactionTooLarge
from p2prdf.gateway.access import Permission
from p2prdf.gateway.bodies import Body, check_charset, read_whole, syntax_of
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.sparql import GRAPH_TYPES, accepted, write_graph
from p2prdf.gateway.state import GATEWAY, Gateway
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.quads import DEFAULT
from p2prdf.replica.rdf_patch import read_patch

__all__ = ["GRAPH_BYTES_MAX", "GRAPH_STATEMENTS_MAX", "PATCH_TYPE", "create", "patch", "post", "put", "read", "remove"]

GRAPH_BYTES_MAX: Final = 64 << 20
"""Longest body, expanded."""
GRAPH_STATEMENTS_MAX: Final = 1_000_000
"""Most statements of a body."""
PATCH_TYPE: Final = "application/rdf-patch"
_MULTIPART: Final = "multipart/form-data"
_PARTS_MAX: Final = 1000

Triple = tuple[str, str, str]


async def read(request: web.Request) -> web.StreamResponse:
    """Return a graph.  Raises Refused (404) for a named graph without statements."""
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.READ)
    graph = _target(request)
    media_type, wanted = accepted(request, GRAPH_TYPES)
    async with gateway.turn():
        client = await gateway.connections.client(name)
        result = await client.query(_all_of(graph), timeout_seconds=gateway.config.query_seconds_max)
    if graph != DEFAULT and not result:
        raise _absent(graph)
    return await write_graph(request, media_type, wanted, result)


async def put(request: web.Request) -> web.StreamResponse:
    """Replace the statements of a graph."""
    gateway, name, graph = _writer(request, reads=True)
    data = await read_whole(request, gateway.config, GRAPH_BYTES_MAX)
    wanted = await _parsed(request, data, f"{graph}\n".encode() + data)
    async with gateway.turn(), gateway.connections.line(name) as line:
        present = await _present(gateway, line.client, graph)
        added, deleted = wanted.keys() - present, present - wanted.keys()
        await _change(line.client, graph, [each for each in wanted if each in added], sorted(deleted))
    return _told(graph, len(added), len(deleted), created=graph != DEFAULT and not present and bool(wanted))


async def post(request: web.Request) -> web.StreamResponse:
    """Add statements to a graph."""
    gateway, name, graph = _writer(request)
    wanted = await _posted(request, gateway)
    reads = gateway.access.permits(request, Permission.READ)
    async with gateway.turn(), gateway.connections.line(name) as line:
        asked = f"ASK {{ GRAPH {graph} {{ ?s ?p ?o }} }}"
        exists = graph == DEFAULT or not reads or bool(
            await line.client.query(asked, timeout_seconds=gateway.config.query_seconds_max)
        )
        await _change(line.client, graph, wanted, ())
    return _told(graph, len(wanted), 0, created=not exists and bool(wanted))


async def create(request: web.Request) -> web.StreamResponse:
    """Add statements to the graph that the query names, or to a new graph with a name of its own."""
    if request.query_string:
        return await post(request)
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.WRITE)
    wanted = await _posted(request, gateway)
    graph = terms.iri(f"{request.scheme}://{request.host}/graphs/{secrets.token_hex(16)}")
    async with gateway.connections.line(name) as line:
        await _change(line.client, graph, wanted, ())
    return _told(graph, len(wanted), 0, created=True)


async def remove(request: web.Request) -> web.StreamResponse:
    """Delete the statements of a graph.  Raises Refused (404) for a named graph without statements."""
    gateway, name, graph = _writer(request, reads=True)
    async with gateway.turn(), gateway.connections.line(name) as line:
        present = await _present(gateway, line.client, graph)
        if graph != DEFAULT and not present:
            raise _absent(graph)
        await _change(line.client, graph, (), sorted(present))
    return _told(graph, 0, len(present), created=False)


async def patch(request: web.Request) -> web.StreamResponse:
    """Apply an RDF Patch to a graph: the last row of each statement decides."""
    gateway, name, graph = _writer(request)
    if request.content_type != PATCH_TYPE:
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {request.content_type}: a patch is {PATCH_TYPE}",
            headers={"Accept-Patch": PATCH_TYPE},
        )  # fmt: skip
    check_charset(request)
    data = await read_whole(request, gateway.config, GRAPH_BYTES_MAX)
    changes = await asyncio.to_thread(_patched, data)
    added, deleted = ([each for each, is_added in changes.items() if is_added is way] for way in (True, False))
    async with gateway.connections.line(name) as line:
        await _change(line.client, graph, added, deleted)
    return _told(graph, len(added), len(deleted), created=False)


# --- requests ----------------------------------------------------------------------------------------------------


def _target(request: web.Request) -> str:
    """Return the canonical IRI of the graph that a request names, or ``DEFAULT``.

    Raises Refused unless it names one, DataRefused for a name that is no IRI.
    """
    if "path" in request.match_info:
        if request.query_string:
            raise Refused(HTTPStatus.BAD_REQUEST, "the URL is the name of a graph: it takes no parameters")
        return terms.iri(f"{request.scheme}://{request.host}{request.rel_url.raw_path}")
    names, others = request.query.getall("graph", []), request.query.getall("default", [])
    if len(names) + len(others) != 1 or any(others):
        raise Refused(HTTPStatus.BAD_REQUEST, "one graph is named: ?graph=IRI, or ?default")
    return terms.iri(names[0]) if names else DEFAULT


def _writer(request: web.Request, *, reads: bool = False) -> tuple[Gateway, str, str]:
    """Return the gateway, the client that a writing request acts as, and its graph.

    ``reads``: the response depends on the present statements.  Raises Refused.
    """
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.WRITE)
    if reads:
        gateway.access.check(request, Permission.READ)
    return gateway, name, _target(request)


async def _posted(request: web.Request, gateway: Gateway) -> dict[Triple, None]:
    """Return the statements of a body, or of all parts of a form with files."""
    if request.content_type != _MULTIPART:
        return await _parsed(request, await read_whole(request, gateway.config, GRAPH_BYTES_MAX))
    found: dict[Triple, None] = {}
    Body(request, gateway.config)  # refuses a compressed form
    if "Content-Encoding" in request.headers:
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding: forms with files are sent uncompressed")
    size = count = 0
    try:
        async with asyncio.timeout(gateway.config.body_silence_seconds):
            parts = await request.multipart()
            while (part := await parts.next()) is not None:
                count += 1
                if not isinstance(part, BodyPartReader) or count > _PARTS_MAX:
                    raise Refused(HTTPStatus.BAD_REQUEST, f"a form has at most {_PARTS_MAX} files, without parts")
                data = bytearray()
                while piece := await part.read_chunk():
                    data += piece
                    if size + len(data) > GRAPH_BYTES_MAX:
                        raise _too_long()
                size += len(data)
                kind = part.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                found |= await asyncio.to_thread(_triples, syntax_of(kind), bytes(data), secrets.token_hex(16))
                _check_count(found)
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the form did not arrive in time") from None
    except (ValueError, LookupError, AssertionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from None
    return found


async def _parsed(request: web.Request, data: bytes, scope: bytes | None = None) -> dict[Triple, None]:
    """Return the statements of a body, each once, in its order; ``scope`` determines the names of blank nodes."""
    syntax = syntax_of(request.content_type)
    check_charset(request)
    mark = secrets.token_bytes(16) if scope is None else hashlib.blake2b(scope, digest_size=16).digest()
    return await asyncio.to_thread(_triples, syntax, data, mark.hex())


def _triples(syntax: Syntax, data: bytes, publication_id: str) -> dict[Triple, None]:
    """Parse a whole body.  Raises DataRefused for a statement in a graph of its own, Refused for too many."""
    found: dict[Triple, None] = {}
    batches = read_triples(
        io.BytesIO(data), publication_id=publication_id, syntax=syntax, strict=True, source="body"
    )
    for batch in batches:
        if any(batch.g):
            raise DataRefused("a graph has triples; publish statements with graphs at /publish", source="body")
        found |= dict.fromkeys(zip(batch.s, batch.p, batch.o, strict=True))
        _check_count(found)
    return found


def _check_count(found: dict[Triple, None]) -> None:
    if len(found) > GRAPH_STATEMENTS_MAX:
        reason = f"the body has more than {GRAPH_STATEMENTS_MAX:,} statements; publish them at /publish"
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)


def _too_long() -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {GRAPH_BYTES_MAX:,} bytes")


def _patched(data: bytes) -> dict[Triple, bool]:
    """Return whether each statement of a patch is added or deleted in the end."""
    try:
        lines = io.StringIO(data.decode("utf-8-sig"), newline="\n")
    except UnicodeDecodeError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not in UTF-8: {error}") from None
    changes: dict[Triple, bool] = {}
    for changeset in read_patch(lines, source="body"):
        changes |= dict.fromkeys(changeset.removed, False) | dict.fromkeys(changeset.added, True)
    return changes


# --- the overlay -------------------------------------------------------------------------------------------------


def _all_of(graph: str) -> str:
    """Return the query for the statements of a graph."""
    pattern = "?s ?p ?o" if graph == DEFAULT else f"GRAPH {graph} {{ ?s ?p ?o }}"
    return f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ {pattern} }}"


async def _present(gateway: Gateway, client: Client, graph: str) -> set[Triple]:
    result = await client.query(_all_of(graph), timeout_seconds=gateway.config.query_seconds_max)
    return set(cast("list[Triple]", result.rows))


async def _change(client: Client, graph: str, added: Iterable[Triple], deleted: Iterable[Triple]) -> None:
    """Change a graph by one transaction.

    A change that is too large for one is made in parts: statements are added, then others deleted, so that a graph that
    keeps statements exists throughout.
    """
    name = None if graph == DEFAULT else graph
    transaction = client.transaction(graph=name)
    try:
        transaction.retract(deleted)
        transaction.publish(added)
    except TransactionTooLarge:
        pass
    else:
        await transaction.commit()
        return
    if added:
        await client.publish(list(added), graph=name)
    if deleted:
        await client.retract(list(deleted), graph=name)


def _told(graph: str, added: int, deleted: int, *, created: bool) -> web.Response:
    """Return the response to a change; ``Location`` names a created graph."""
    return web.json_response(
        {"added": added, "deleted": deleted}, status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": graph[1:-1]} if created else {},
    )  # fmt: skip


def _absent(graph: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, f"the graph {graph[:200]} has no statements")
