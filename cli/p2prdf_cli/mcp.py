"""``p2prdf mcp``: tools for language models, by the Model Context Protocol on standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.listening import Tokens, listening
from p2prdf_cli.options import PEER_DEFAULT, Peer

if TYPE_CHECKING:
    from p2prdf.client import Client

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(mcp)


def mcp(
    peer: Peer = PEER_DEFAULT,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tools that publish, delete or update.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="State of watches. (default: ~/.local/state/p2prdf/watches)")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve by HTTP at /mcp instead; beyond loopback only with --tokens."),
    ] = None,
    tokens: Tokens = None,
) -> None:
    """Serve tools for language models by the Model Context Protocol (MCP).

    Hosts of models start this command and speak with it over standard input and
    output. Tools: query, explain, publish, delete, update, and watches: durable
    subscriptions that are read by repeated calls. Takes the extra mcp.

    \b
    Examples:
      p2prdf mcp --peer 127.0.0.1:7400
      p2prdf --tls-ca ca.pem --tls-cert me.pem --tls-key me.key mcp --read-only
      p2prdf mcp --listen 0.0.0.0:7490 --tokens tokens.txt
    """
    if tokens is not None and listen is None:
        raise typer.BadParameter("--tokens goes with --listen")

    async def action() -> None:
        from p2prdf.errors import LocalProtocolError

        try:
            from p2prdf.mcp.server import serve_http, server_of
        except ImportError as error:
            raise LocalProtocolError(f"this command takes the extra mcp (pip install 'p2prdf[mcp]'): {error}") from None
        from p2prdf.gateway.connections import Connections
        from p2prdf.mcp.tools import ToolBounds, Tools
        from p2prdf.mcp.watches import Watches
        from p2prdf_cli.publish_state import state_folder

        async def connected(name: str) -> Client:
            return await connect(peer, speaks_for=name)

        bounds = ToolBounds()
        connections = Connections(connected, publications_max=1)
        watches = Watches(
            connections, state or state_folder() / "watches", query_characters_max=bounds.query_characters_max,
            characters_max=bounds.characters_max,
        )  # fmt: skip
        try:
            if listen is None:
                await server_of(Tools(connections, bounds), watches, read_only=read_only).run_stdio_async()
            else:
                access, host, port = listening(listen, tokens)
                server = server_of(Tools(connections, bounds), watches, access=access, read_only=read_only)
                await serve_http(server, access, host, port, lambda url: print(f"ready {url}", flush=True))
        finally:
            await connections.close()

    run(action())
