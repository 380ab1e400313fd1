"""The tools as a model sees them: names, arguments with their bounds, texts, and the form of answers.

Permissions: nodes check those of the server's client.  A read-only server has no tools that write.  Over HTTP each
request has a bearer token, which :class:`p2prdf.gateway.access.Access` checks as in a gateway.
"""

from __future__ import annotations

import contextlib
import functools
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from p2prdf.errors import Busy, NotAllowed, P2PRDFError, SubscriptionGone, Unavailable
from p2prdf.gateway.access import Access, Permission
from p2prdf.gateway.problems import Refused
from p2prdf.rdf.terms import spelled

if TYPE_CHECKING:
    from p2prdf.mcp.tools import Row, Tools
    from p2prdf.mcp.watches import Watches

__all__ = ["serve_http", "server_of"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
_Tool = Callable[..., Awaitable[Any]]
_INSTRUCTIONS: Final = """\
Queries and changes RDF data in a p2prdf overlay by SPARQL 1.1, and watches standing queries.
Explore unknown data by aggregates first: SELECT ?class (COUNT(*) AS ?n) WHERE { ?s a ?class } GROUP BY ?class, and
SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p. Declare all prefixes. Named graphs are read by GRAPH ?g.
To wait for new data use watch_start once, then watch_poll with the token of each answer instead of repeated queries.
"""
_READS: Final = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_WATCHES: Final = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=False)
_WRITES: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
_REMEDIES: Final[tuple[tuple[type[P2PRDFError], str], ...]] = (
    (Busy, "wait, then call again"),
    (NotAllowed, "use another graph or query, or ask the operator for the permission"),
    (SubscriptionGone, "start it again with watch_start"),
    (Unavailable, "call again, with a longer timeout_seconds or a narrower query if it ran out of time"),
)

Query = Annotated[str, Field(description="A SPARQL 1.1 query: SELECT, ASK, CONSTRUCT or DESCRIBE.", min_length=1)]
Standing = Annotated[str, Field(description="A SPARQL 1.1 query: SELECT, ASK or CONSTRUCT.", min_length=1)]
Rows = Annotated[int, Field(description="Most rows of the answer.", ge=1, le=5_000)]
Seconds = Annotated[float, Field(description="Deadline in seconds.", gt=0, le=60)]
Token = Annotated[str, Field(description="The token of watch_start or of the last answer.", max_length=64)]
QueryFormat = Annotated[
    Literal["tsv", "csv", "json", "xml", "table", "nt", "rdf", "jsonld"] | None,
    Field(description="Format; nt, rdf and jsonld are for CONSTRUCT and DESCRIBE, others for all. Default: tsv or nt."),
]
Syntax = Annotated[
    Literal["ttl", "nt", "nq", "trig", "rdf", "jsonld"],
    Field(description="Format: Turtle, N-Triples, N-Quads, TriG, RDF/XML or JSON-LD."),
]


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn errors into results that a model reads: code, reason and remedy."""
    try:
        yield
    except P2PRDFError as error:
        remedy = next((text for kind, text in _REMEDIES if isinstance(error, kind)), "")
        text = str(error)
        raise ToolError(f"[{error.code}] {text}{f'; {remedy}' if remedy and remedy not in text else ''}") from None
    except OSError as error:
        raise ToolError(f"[system] the state of watches: {error}; tell the operator of this server") from None


def _reported(tool: Callable[_P, Awaitable[_T]]) -> Callable[_P, Awaitable[_T]]:
    @functools.wraps(tool)
    async def reporting(*given: _P.args, **how: _P.kwargs) -> _T:
        with _told():
            return await tool(*given, **how)

    return reporting


class _Session:
    """The tools of one server, with the permissions of each request."""

    def __init__(self, tools: Tools, watches: Watches, access: Access | None):
        self._tools = tools
        self._watches = watches
        self._access = access

    def _client(self, context: Context[Any, Any], permission: Permission) -> str:
        """Return the client that a request acts as.  Raises Refused without the permission."""
        if self._access is None:
            return ""
        return self._access.check_token((context.headers or {}).get("authorization", ""), permission)

    def _reads(self, context: Context[Any, Any]) -> bool:
        with contextlib.suppress(P2PRDFError):
            self._client(context, Permission.READ)
            return True
        return False

    async def query(
        self, context: Context[Any, Any], query: Query, format: QueryFormat = None, rows_max: Rows = 100,  # noqa: A002
        timeout_seconds: Seconds = 30.0,
    ) -> CallToolResult:  # fmt: skip
        """Answer a SPARQL query once, over all data published so far.

        The answer is text in the chosen format; a second text, and the flag more, say if rows are missing.
        """
        name = self._client(context, Permission.READ)
        answer = await self._tools.query(
            name, query, wanted=format, rows_max=rows_max, timeout_seconds=timeout_seconds
        )
        about = {"rows": answer.rows, "rows_total": answer.rows_total, "more": answer.more, "as_of": answer.as_of}
        return _result(answer.text, answer.remark, about)

    async def explain(
        self, context: Context[Any, Any],
        query: Annotated[str, Field(description="A query, or the 16 hexadecimal digits that begin a watch's token.")],
    ) -> str:  # fmt: skip
        """Explain the evaluation of a query: plan, places, rates, and the step that blocks. Nothing is registered."""
        return await self._tools.explain(self._client(context, Permission.READ), query)

    async def publish(
        self, context: Context[Any, Any], data: Annotated[str, Field(description="RDF statements.")],
        format: Syntax = "ttl",  # noqa: A002
        graph: Annotated[str | None, Field(description="IRI of the graph; by default the default graph.")] = None,
    ) -> str:  # fmt: skip
        """Publish RDF statements. Malformed data publishes nothing. Standing queries see the statements at once."""
        name = self._client(context, Permission.WRITE)
        count = await self._tools.publish(name, data, syntax=format, graph=graph, removed=False)
        return f"{count:,} statements published and indexed"

    async def delete(
        self, context: Context[Any, Any], data: Annotated[str, Field(description="RDF statements.")],
        format: Syntax = "ttl",  # noqa: A002
        graph: Annotated[str | None, Field(description="IRI of the graph; by default the default graph.")] = None,
    ) -> str:  # fmt: skip
        """Delete exactly these RDF statements; to delete by a pattern use update."""
        name = self._client(context, Permission.WRITE)
        count = await self._tools.publish(name, data, syntax=format, graph=graph, removed=True)
        return f"{count:,} statements deleted"

    async def update(
        self, context: Context[Any, Any],
        update: Annotated[str, Field(description="A SPARQL 1.1 update.", min_length=1)],
        timeout_seconds: Seconds = 60.0,
    ) -> str:  # fmt: skip
        """Execute a SPARQL 1.1 update: INSERT, DELETE, with WHERE; CLEAR, DROP, COPY, MOVE, ADD and others."""
        name = self._client(context, Permission.WRITE)
        done = await self._tools.update(
            name, update, timeout_seconds=timeout_seconds, reads=self._reads(context)
        )
        return f"{done.inserted:,} statements inserted, {done.deleted:,} deleted"

    async def watch_start(
        self, context: Context[Any, Any], query: Standing,
        since: Annotated[
            Literal["now", "beginning"] | None,
            Field(description="now (default): only new solutions; beginning: present ones, too."),
        ] = None,
        lease_seconds: Annotated[
            float, Field(description="Lifetime without a call of watch_poll.", ge=60, le=604_800)
        ] = 86_400.0,
        settled: Annotated[
            bool | None,
            Field(description="true: answers of watch_poll with a mark give exact states, also of OPTIONAL, MINUS and"
                              " aggregates; present solutions come, too."),
        ] = None,
    ) -> str:  # fmt: skip
        """Start a durable subscription to a standing query; return the token for watch_poll.

        It collects solutions while nobody reads them, also over restarts of this server.
        """
        name = self._client(context, Permission.READ)
        watch, names = await self._watches.start(name, query, since=since, lease_seconds=lease_seconds, settled=settled)
        return _json({"token": watch.token, "columns": names})

    async def watch_poll(
        self, context: Context[Any, Any], token: Token,
        wait_seconds: Annotated[
            float, Field(description="How long to wait if there is no new solution yet.", ge=0, le=50)
        ] = 20.0,
        solutions_max: Annotated[int, Field(description="Most solutions of the answer.", ge=1, le=1_000)] = 100,
    ) -> str:  # fmt: skip
        """Return the solutions since the last answer; wait for one if there are none yet.

        Solutions are added, or removed if they are not true any more. The answer acknowledges the one before it;
        its token continues after it. If an answer was lost, the same token reads it again. ``mark``, of a settled
        watch: the solutions so far are the exact result as of this time; null: poll on first.
        """
        name = self._client(context, Permission.READ)
        found = await self._watches.poll(name, token, wait_seconds=wait_seconds, solutions_max=solutions_max)
        told: dict[str, Any] = {
            "token": found.token, "columns": found.names,
            "changes": [{"removed" if gone else "added": _terms(row)} for gone, row in found.changes],
            "more": found.full,
        }  # fmt: skip
        if found.settled:  # null: a part; the next answer goes on to the mark
            told["mark"] = found.mark
        if found.lost:
            told["lost"] = f"{found.lost:,} solutions were dropped: ask the whole result with query"
        if found.repeated:
            told["repeated"] = "the state of this watch is missing here: solutions of the last answer may repeat"
        return _json(told)

    async def watch_stop(self, context: Context[Any, Any], token: Token) -> str:
        """End a watch."""
        await self._watches.stop(self._client(context, Permission.READ), token)
        return "ended"

    async def watch_list(self, context: Context[Any, Any]) -> str:
        """List the watches with their queries and the tokens to continue with."""
        found = self._watches.of(self._client(context, Permission.READ))
        return _json([{"token": each.token, "query": each.query[:2_000], "since": each.since} for each in found])


def server_of(
    tools: Tools, watches: Watches, *, access: Access | None = None, read_only: bool = False
) -> MCPServer[Any]:
    """Return a server with the tools; ``access`` checks the bearer tokens of requests over HTTP."""
    session = _Session(tools, watches, access)
    server: MCPServer[Any] = MCPServer(
        "p2prdf", title="p2prdf: RDF publish/subscribe", instructions=_INSTRUCTIONS, version=version("p2prdf"),
        log_level="WARNING", subscriptions=False,
    )  # fmt: skip
    offered: list[tuple[ToolAnnotations, list[_Tool]]] = [
        (_READS, [session.query, session.explain, session.watch_list]),
        (_WATCHES, [session.watch_start, session.watch_poll, session.watch_stop]),
        (_WRITES, [] if read_only else [session.publish, session.delete, session.update]),
    ]
    for hints, tools_of in offered:
        for tool in tools_of:
            server.add_tool(_reported(tool), annotations=hints, structured_output=False)
    return server


async def serve_http(
    server: MCPServer[Any], access: Access, host: str, port: int, ready: Callable[[str], None]
) -> None:
    """Serve requests by streamable HTTP at ``/mcp`` until cancelled or stopped by a signal.

    Each request stands alone, so a client may use any number of servers.  ``ready`` receives the URL.  Raises OSError
    if the address cannot be bound.
    """
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    app = server.streamable_http_app(
        stateless_http=True, json_response=True,
        # The SDK's own check knows three names of loopback, and permits each web server of this machine.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )  # fmt: skip
    config = uvicorn.Config(_checked(app, access), log_level="warning", timeout_graceful_shutdown=5)
    with socket.create_server((host, port), family=family) as listening:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}/mcp")
        await uvicorn.Server(config).serve(sockets=[listening])


def _checked(app: _App, access: Access) -> _App:
    """Return the application behind checks of web sites and of the bearer token; tools check its permissions."""

    async def checked(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            try:
                access.check_site(given)
                access.check_token(given.get("authorization", ""), None)
            except Refused as error:
                headers = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
                headers.append((b"content-type", b"application/problem+json"))
                body = json.dumps({"title": error.code, "status": int(error.status), "detail": str(error)})
                await send({"type": "http.response.start", "status": int(error.status), "headers": headers})
                await send({"type": "http.response.body", "body": body.encode()})
                return
        await app(scope, receive, send)

    return checked


def _result(text: str, remark: str, about: dict[str, Any]) -> CallToolResult:
    content = [TextContent(type="text", text=each) for each in (text, remark) if each]
    return CallToolResult(content=[*content], structured_content=about)


def _terms(row: Row) -> list[str | None]:
    return [None if term is None else spelled(term) for term in row]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
