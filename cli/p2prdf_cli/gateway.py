"""``p2prdf serve gateway``: the HTTP gateway to nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import run
from p2prdf_cli.listening import Tokens, listening
from p2prdf_cli.loading import contexts_of, endpoints_of, loader_of
from p2prdf_cli.options import PEER_DEFAULT, Peer
from p2prdf_cli.registered import Wait

if TYPE_CHECKING:
    from p2prdf.client import Client
    from p2prdf.gateway.webhooks import WebhookHost

__all__ = ["gateway"]

_LISTEN: Final = "127.0.0.1:7480"
_MEMBER_SECONDS: Final = 2.0
"""Deadline for a connection to a node for its state."""


def gateway(
    peer: Peer = PEER_DEFAULT,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen at; beyond loopback only with --tokens.")
    ] = _LISTEN,
    tokens: Tokens = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Permitted origin of scripts (CORS); repeatable; *: all."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Longest deadline of a query.")] = 60.0,
    lease: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="Longest lease of a subscription without its client.")
    ] = 3600.0,
    subscribers: Annotated[int, typer.Option(min=1, metavar="N", help="Most open event streams and WebSockets.")] = 512,
    webhooks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Deliver webhooks; file with lines of NAME and KEY."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of webhooks; repeatable. (default: none)"),
    ] = None,
    load_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of LOAD; repeatable. (default: none)"),
    ] = None,
    service_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of SERVICE; repeatable. (default: none)"),
    ] = None,
    context_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of JSON-LD contexts; repeatable. (default: none)"),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Permit private and loopback addresses of these hosts.")
    ] = False,
    allow_http: Annotated[bool, typer.Option("--allow-http", help="Permit webhooks over http.")] = False,
    announce: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Time between SIGTERM (not ready any more) and the end.")
    ] = 0.0,
    wait: Wait = False,
) -> None:
    """Serve SPARQL, publications and subscriptions over HTTP until stopped.

    The gateway holds no state; any number may run. /sparql is a SPARQL 1.1
    endpoint; /publish and /retract take RDF; /events (SSE) and /subscribe
    (WebSocket) send solutions; /console is a web page. With --webhooks all gateways
    with the same keys post solutions to URLs. See docs/reference/http.md.

    \b
    Examples:
      p2prdf serve gateway --peer 127.0.0.1:7400
      p2prdf serve gateway --peer node1:7400,node2:7400 --listen 0.0.0.0:7480 --tokens tokens.txt
      p2prdf serve gateway --webhooks webhooks.keys --allow-host hooks.example.org
    """

    async def action() -> None:
        from p2prdf.errors import LocalProtocolError
        from p2prdf.gateway import GatewayConfig, application, serve

        access, host, port = listening(listen, tokens, origins=allow_origin or ())
        config = GatewayConfig(query_seconds_max=timeout, lease_seconds_max=lease, subscribers_max=subscribers)

        async def connected(name: str) -> Client:
            return await connect(peer, speaks_for=name)

        async def reached(address: str) -> Client:
            return await connect([address], reconnect_seconds=0, connect_seconds=_MEMBER_SECONDS)

        hosting = None
        if webhooks is not None:
            hosting = _hosting(peer, webhooks, allow_host or (), private=allow_private, plain=allow_http)
        elif allow_host or allow_http or (allow_private and not (load_from or service_from or context_from)):
            raise LocalProtocolError("--allow-host, --allow-private and --allow-http are for webhooks: --webhooks FILE")
        contexts = contexts_of(context_from or (), private=allow_private)
        app = application(
            connected, access, config, reach=reached, webhooks=hosting, wait=wait,
            loader=loader_of(load_from or (), private=allow_private, contexts=contexts),
            endpoints=endpoints_of(service_from or (), private=allow_private), contexts=contexts,
        )  # fmt: skip
        await serve(
            app, host, port, ready=lambda url: print(f"ready {url} console {url}/console", flush=True),
            announce_seconds=announce,
        )  # fmt: skip

    run(action())


def _hosting(peer: list[str], keys: Path, hosts: Iterable[str], *, private: bool, plain: bool) -> WebhookHost:
    """Return the host that delivers webhooks."""
    from p2prdf.gateway.webhooks import Sender, WebhookHost, read_keys
    from p2prdf.replica.hosts import Hosts

    allowed = Hosts(hosts, private=private)
    if not allowed.entries:
        print("p2prdf: no host is allowed, so nothing is posted: --allow-host", file=sys.stderr)

    async def spoken(name: str) -> Client:
        return await connect(peer, speaks_for=name)

    return WebhookHost(
        # A connection attempt to a silent address must end well before the lease.
        lambda reconnect_seconds: connect(peer, reconnect_seconds=reconnect_seconds, connect_seconds=_MEMBER_SECONDS),
        spoken, Sender(allowed, plain=plain), read_keys(keys),
    )  # fmt: skip
