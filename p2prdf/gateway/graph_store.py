"""SPARQL 1.1 Graph Store HTTP Protocol: graphs are read and written as wholes.

A graph is named in the query (``/graphs?graph=IRI``, ``/graphs?default``), or the URL of the request is its name
(``/graphs/PATH``).  Reading is a one-time query.  Writing publishes one change set, as SPARQL updates do
(:mod:`p2prdf.client.change_set`): it deletes the statements that are not wanted, then adds those that are missing.  So
an unchanged statement is untouched, and subscribers see differences only.  A body is parsed as a whole before any of it
is published.

A graph exists while it holds a statement.  Names of blank nodes are derived from graph and body: repeating a PUT
changes nothing.  A change is one transaction where it fits one.  A larger one is published in parts, deletions first,
so a reader may see the graph between them.  A change may be repeated after a failure.  It does not lock the graph: a
writer may have read it before the change of another one.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import secrets
from collections.abc import Collection, Sized
from http import HTTPStatus
from typing import Final, cast

from aiohttp import BodyPartReader, web

from p2prdf.client import Client
from p2prdf.client.change_set import ChangeSet
from p2prdf.errors import DataRefused
from p2prdf.gateway.access import Permission
from p2prdf.gateway.bodies import check_charset, read_whole, syntax_of, too_long
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.sparql import GRAPH_TYPES, accepted, write_graph
from p2prdf.gateway.state import GATEWAY, Gateway
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.remote_contexts import Contexts
from p2prdf.rdf.update_operations import in_graph
from p2prdf.replica.rdf_patch import read_patch

__all__ = ["GRAPH_BYTES_MAX", "GRAPH_STATEMENTS_MAX", "PATCH_TYPE", "create", "patch", "post", "put", "read", "remove"]

GRAPH_BYTES_MAX: Final = 64 << 20
"""Longest body, expanded."""
GRAPH_STATEMENTS_MAX: Final = 1_000_000
"""Most statements of a body."""
PATCH_TYPE: Final = "application/rdf-patch"
_DATASET_TYPES: Final = ("application/n-quads", "application/trig")
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
    wanted = await _parsed(request, gateway, data, _base(request, graph), graph)
    async with gateway.turn(), gateway.connections.line(name) as line:
        present = await _present(gateway, line.client, graph)
        created = graph != DEFAULT and not present and bool(wanted)
        return await _change(line.client, graph, wanted, present, created=created)


async def post(request: web.Request) -> web.StreamResponse:
    """Add statements to a graph."""
    gateway, name, graph = _writer(request)
    wanted = await _posted(request, gateway, graph)
    reads = gateway.access.permits(request, Permission.READ)
    async with gateway.turn(), gateway.connections.line(name) as line:
        asked = f"ASK {{ GRAPH {graph} {{ ?s ?p ?o }} }}"
        exists = graph == DEFAULT or not reads or bool(
            await line.client.query(asked, timeout_seconds=gateway.config.query_seconds_max)
        )
        return await _change(line.client, graph, wanted, created=not exists and bool(wanted))


async def create(request: web.Request) -> web.StreamResponse:
    """Add statements to the graph that the query names, or to a new graph with a name of its own.

    A body in a format of datasets (N-Quads, TriG) names its graphs itself.
    """
    if request.query_string:
        return await post(request)
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.WRITE)
    if request.content_type in _DATASET_TYPES:
        check_charset(request)
        data = await read_whole(request, gateway.config, GRAPH_BYTES_MAX)
        changes = await asyncio.to_thread(_dataset, syntax_of(request.content_type), data, gateway.contexts)
        async with gateway.connections.line(name) as line:
            return await _published(line.client, DEFAULT, changes)
    graph = terms.iri(f"{request.scheme}://{request.host}/graphs/{secrets.token_hex(16)}")
    wanted = await _posted(request, gateway, graph)
    async with gateway.connections.line(name) as line:
        return await _change(line.client, graph, wanted, created=True)


async def remove(request: web.Request) -> web.StreamResponse:
    """Delete the statements of a graph.  Raises Refused (404) for a named graph without statements."""
    gateway, name, graph = _writer(request, reads=True)
    async with gateway.turn(), gateway.connections.line(name) as line:
        present = await _present(gateway, line.client, graph)
        if graph != DEFAULT and not present:
            raise _absent(graph)
        return await _change(line.client, graph, {}, present)


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
    changes = await asyncio.to_thread(_patched, data, graph)
    async with gateway.connections.line(name) as line:
        return await _published(line.client, graph, changes)


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
        reason = "one graph is named: ?graph=IRI, or ?default"
        if request.method in ("GET", "HEAD") and not names + others:
            reason += "; for all graphs use p2prdf export"  # which has no bound on their size
        raise Refused(HTTPStatus.BAD_REQUEST, reason)
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


def _base(request: web.Request, graph: str) -> str:
    """Return the base of relative IRIs in a body: the name of the graph, or the URL of the default graph."""
    return f"{request.scheme}://{request.host}{request.rel_url.raw_path_qs}" if graph == DEFAULT else graph[1:-1]


async def _posted(request: web.Request, gateway: Gateway, graph: str) -> dict[Triple, None]:
    """Return the statements of a body, or of all parts of a form with files."""
    base = _base(request, graph)
    if request.content_type != _MULTIPART:
        return await _parsed(request, gateway, await read_whole(request, gateway.config, GRAPH_BYTES_MAX), base)
    found: dict[Triple, None] = {}
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
                        raise too_long(GRAPH_BYTES_MAX)
                size += len(data)
                kind = part.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                found |= await asyncio.to_thread(_triples, syntax_of(kind), bytes(data), base, gateway.contexts)
                _check_count(found)
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the form did not arrive in time") from None
    except (ValueError, LookupError, AssertionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from None
    return found


async def _parsed(
    request: web.Request, gateway: Gateway, data: bytes, base: str, graph: str | None = None
) -> dict[Triple, None]:
    """Return the statements of a body, each once, in its order; see :func:`_triples`."""
    syntax = syntax_of(request.content_type)
    check_charset(request)
    return await asyncio.to_thread(_triples, syntax, data, base, gateway.contexts, graph)


def _triples(
    syntax: Syntax, data: bytes, base: str, contexts: Contexts | None, graph: str | None = None
) -> dict[Triple, None]:
    """Parse a whole body.  Raises DataRefused for a statement in a graph of its own, Refused for too many.

    The names of blank nodes are derived from the body and ``graph``; without a graph they are new.
    """
    mark = secrets.token_bytes(16)
    if graph is not None:
        digest = hashlib.blake2b(f"{graph}\n".encode(), digest_size=16)
        digest.update(data)
        mark = digest.digest()
    found: dict[Triple, None] = {}
    batches = read_triples(
        io.BytesIO(data), publication_id=mark.hex(), syntax=syntax, strict=True, source="body", base=base,
        contexts=contexts,
    )  # fmt: skip
    for batch in batches:
        if any(batch.g):
            raise DataRefused("a graph has triples; publish statements with graphs at /publish", source="body")
        found |= dict.fromkeys(zip(batch.s, batch.p, batch.o, strict=True))
        _check_count(found)
    return found


def _dataset(syntax: Syntax, data: bytes, contexts: Contexts | None) -> ChangeSet:
    """Return the insertion of all statements of a body into their graphs.  Raises DataRefused, Refused for too many."""
    found: dict[tuple[str, Triple], None] = {}
    batches = read_triples(
        io.BytesIO(data), publication_id=secrets.token_hex(16), syntax=syntax, strict=True, source="body",
        contexts=contexts,
    )  # fmt: skip
    for batch in batches:
        triples = zip(batch.s, batch.p, batch.o, strict=True)
        graphs = batch.g or [DEFAULT] * len(batch.s)
        found |= dict.fromkeys(zip(graphs, triples, strict=True))
        _check_count(found)
    changes = ChangeSet(len(found))
    changes.insert(in_graph(triple, graph) for graph, triple in found)
    return changes


def _check_count(found: Sized) -> None:
    if len(found) > GRAPH_STATEMENTS_MAX:
        reason = f"the body has more than {GRAPH_STATEMENTS_MAX:,} statements; publish them at /publish"
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)


def _patched(data: bytes, graph: str) -> ChangeSet:
    """Return the changes of a patch."""
    try:
        lines = io.StringIO(data.decode("utf-8-sig"), newline="\n")
    except UnicodeDecodeError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not in UTF-8: {error}") from None
    changes = ChangeSet(len(data))  # each statement has at least one byte
    for changeset in read_patch(lines, source="body"):
        changes.delete(in_graph(each, graph) for each in changeset.removed)
        changes.insert(in_graph(each, graph) for each in changeset.added)
    return changes


# --- the overlay -------------------------------------------------------------------------------------------------


def _all_of(graph: str) -> str:
    """Return the query for the statements of a graph."""
    pattern = "?s ?p ?o" if graph == DEFAULT else f"GRAPH {graph} {{ ?s ?p ?o }}"
    return f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ {pattern} }}"


async def _present(gateway: Gateway, client: Client, graph: str) -> list[Triple]:
    result = await client.query(_all_of(graph), timeout_seconds=gateway.config.query_seconds_max)
    return cast("list[Triple]", result.rows)


def _difference(graph: str, wanted: dict[Triple, None], present: Collection[Triple]) -> ChangeSet:
    """Return the changes that make a graph of the present statements the wanted one."""
    held = set(present)
    changes = ChangeSet(len(wanted) + len(held))
    changes.delete(in_graph(each, graph) for each in present if each not in wanted)
    changes.insert(in_graph(each, graph) for each in wanted if each not in held)
    return changes


async def _change(
    client: Client, graph: str, wanted: dict[Triple, None], present: Collection[Triple] = (), *, created: bool = False
) -> web.Response:
    """Publish a difference, and return the response.  A million statements are compared in a thread."""
    return await _published(client, graph, await asyncio.to_thread(_difference, graph, wanted, present), created)


async def _published(client: Client, graph: str, changes: ChangeSet, created: bool = False) -> web.Response:
    """Publish changes, and return the response; ``Location`` names a created graph."""
    deleted, inserted = await changes.publish(client)
    return web.json_response(
        {"added": inserted, "deleted": deleted}, status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": graph[1:-1]} if created else {},
    )  # fmt: skip


def _absent(graph: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, f"the graph {graph[:200]} has no statements")
