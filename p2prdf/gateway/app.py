"""The paths of a gateway, and the middleware in front of all of them.

The route table in :func:`application` is complete; :mod:`p2prdf.gateway.openapi` describes it at ``/openapi.json``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from p2prdf.client import Client
from p2prdf.client.services import Endpoints
from p2prdf.client.update import Loader
from p2prdf.errors import Unavailable
from p2prdf.gateway import console, events, graph_store, overview, publication, service, sockets, sparql
from p2prdf.gateway.access import Access, Permission
from p2prdf.gateway.connections import Connections
from p2prdf.gateway.metrics import exposition
from p2prdf.gateway.negotiation import chosen
from p2prdf.gateway.openapi import description
from p2prdf.gateway.problems import Handler, problems
from p2prdf.gateway.state import GATEWAY, Gateway, GatewayConfig
from p2prdf.gateway.survey import Survey
from p2prdf.gateway.webhooks import WebhookHost
from p2prdf.gateway.webhooks.handlers import routes
from p2prdf.monitoring.exposition import CONTENT_TYPE
from p2prdf.rdf.remote_contexts import Contexts

__all__ = ["GatewayConfig", "application"]

_READY_SECONDS: Final = 3.0


_GRAPH_PATH: Final = "/graphs/{path:(?s:.+)}"
"""A path may contain an encoded line feed."""
_INDEX: Final = {
    "console": "/console", "query": "/sparql", "update": "/sparql", "graphs": "/graphs", "publish": "/publish",
    "retract": "/retract", "events": "/events", "websocket": "/subscribe", "description": "/openapi.json",
    "void": "/.well-known/void",
    "health": "/healthz", "readiness": "/readyz",
}  # fmt: skip


_LINKS: Final = {
    "/console": "Console: queries, subscriptions, members of the overlay",
    "/sparql": "SPARQL endpoint; without a query it returns its service description",
    "/graphs?default": "Graph store: the default graph",
    "/openapi.json": "OpenAPI description of all paths",
    "/.well-known/void": "VoID description of the data",
    "/status": "State of the node in use",
    "/metrics": "Metrics for Prometheus",
}


def _page() -> str:
    """Return the page with links."""
    links = "".join(f'<li><a href="{path}">{path}</a>: {text}</li>\n' for path, text in _LINKS.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>p2prdf gateway</title></head>\n'
        f"<body><h1>p2prdf gateway</h1>\n<ul>\n{links}</ul></body></html>\n"
    )


async def _index(request: web.Request) -> web.StreamResponse:
    """Return a page with links to browsers, and the paths to programs."""
    accept = ",".join(request.headers.getall("Accept", [])) or None
    headers = {"Vary": "Accept"}
    if chosen(accept, {"application/json": False, "text/html": True})[1]:
        return web.Response(text=_page(), content_type="text/html", headers={**console.HEADERS, **headers})
    return web.json_response(_INDEX, headers=headers)


async def _health(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")


async def _state(gateway: Gateway, name: str = "") -> dict[str, Any]:
    """Return the state of the node in use.  Raises Unavailable after 3 s, because monitors do not wait."""
    try:
        async with asyncio.timeout(_READY_SECONDS):
            return await (await gateway.connections.client(name)).status()
    except TimeoutError:
        raise Unavailable(f"no node has answered within {_READY_SECONDS:g} s") from None


async def _readiness(request: web.Request) -> web.StreamResponse:
    """Tell whether the gateway accepts requests and a node answers."""
    gateway = request.app[GATEWAY]
    if gateway.leaving:
        raise Unavailable("the gateway is stopping: continue at another one")
    await _state(gateway)
    return web.Response(text="ready\n")


async def _status(request: web.Request) -> web.StreamResponse:
    """Return the state of the node in use, in the format of ``p2prdf status --json``."""
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.READ)
    return web.json_response(await _state(gateway, name))


async def _metrics(request: web.Request) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.READ)
    text = exposition(await _state(gateway, name), gateway)
    return web.Response(text=text, headers={"Content-Type": CONTENT_TYPE})


async def _openapi(_request: web.Request) -> web.StreamResponse:
    return web.json_response(description())


@web.middleware
async def _counted(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    resource = request.match_info.route.resource
    request.app[GATEWAY].answered["" if resource is None else resource.canonical, response.status] += 1
    return response


def application(
    connect: Callable[[str], Awaitable[Client]], access: Access, config: GatewayConfig | None = None,
    *, reach: Callable[[str], Awaitable[Client]] | None = None, webhooks: WebhookHost | None = None, wait: bool = False,
    loader: Loader | None = None, endpoints: Endpoints | None = None, contexts: Contexts | None = None,
) -> web.Application:  # fmt: skip
    """Return the application of a gateway; ``connect`` connects to the overlay as the client of a name.

    ``reach`` connects to the node at an address and to no other; without it ``/ring`` and ``/subscriptions`` only
    report the knowledge of the node in use.  ``webhooks`` delivers webhooks; without it the gateway has none.

    ``loader`` fetches the documents of LOAD in updates; without it LOAD is refused.  ``endpoints`` asks the endpoints
    of SERVICE in one-time queries and updates; without it SERVICE is refused.  ``contexts`` fetches the contexts at
    other addresses of JSON-LD in bodies; without it they are refused.

    ``wait``: start even if no node answers, and connect at the first request that a node can answer; without it the
    start of the application raises Unavailable.

    Raises LocalProtocolError for an invalid bound.
    """
    config = config or GatewayConfig()
    config.validate()
    app = web.Application(
        middlewares=[_counted, problems, access.middleware], client_max_size=4 * config.query_characters_max
    )
    connections = Connections(connect, publications_max=config.publications_max)
    survey = Survey(lambda: connections.used, reach)
    gateway = Gateway(config, connections, access, survey, webhooks, loader, endpoints, contexts)
    app[GATEWAY] = gateway
    described = [
        web.get("/", _index),
        web.get("/sparql", service.endpoint), web.post("/sparql", sparql.handle),
        web.get("/.well-known/void", service.void),
        *(route for path in ("/graphs", _GRAPH_PATH) for route in (
            web.get(path, graph_store.read), web.put(path, graph_store.put), web.delete(path, graph_store.remove),
            web.patch(path, graph_store.patch),
        )),
        web.post("/graphs", graph_store.create), web.post(_GRAPH_PATH, graph_store.post),
        web.post("/publish", publication.publish), web.post("/retract", publication.retract),
        web.get("/events", events.handle), web.post("/events", events.handle), web.get("/subscribe", sockets.handle),
        web.get("/ring", overview.ring), web.get("/subscriptions", overview.subscriptions),
        web.get("/explain", overview.explain), web.post("/explain", overview.explain),
        web.get("/console", console.page), web.get("/console/{name}", console.file),
        web.get("/status", _status), web.get("/metrics", _metrics), web.get("/openapi.json", _openapi),
        web.get("/healthz", _health), web.get("/readyz", _readiness), *routes(),
    ]  # fmt: skip
    app.add_routes(described)
    methods: dict[str, set[str]] = {}
    for route in described:
        methods.setdefault(route.path, {"OPTIONS"}).update((route.method, *(["HEAD"] if route.method == "GET" else ())))
    for path, names in methods.items():
        app.router.add_route("OPTIONS", path, _options(", ".join(sorted(names))))
    app.on_response_prepare.append(access.add_headers)
    if not wait:
        app.on_startup.append(_open)
    app.on_cleanup.append(_close)
    app.cleanup_ctx.append(_delivering)
    return app


def _options(methods: str) -> Handler:
    """Return a handler of OPTIONS for programs; CORS preflight requests are answered by the middleware."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=HTTPStatus.NO_CONTENT, headers={"Allow": methods})

    return answer


async def _open(app: web.Application) -> None:
    await app[GATEWAY].connections.open()


async def _close(app: web.Application) -> None:
    await app[GATEWAY].survey.close()
    await app[GATEWAY].connections.close()


async def _delivering(app: web.Application) -> AsyncIterator[None]:
    """Deliver webhooks while the gateway serves."""
    host = app[GATEWAY].webhooks
    if host is None:
        yield
        return
    task = asyncio.create_task(host.run_on())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await host.close()
