"""``p2prdf mcp``: tools for language models, by the Model Context Protocol on standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import PEER_DEFAULT, Peer

if TYPE_CHECKING:
    from p2prdf.client import Client
    from p2prdf.gateway.access import Access

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
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --listen: lines of TOKEN read|write|read,write [CLIENT]."),
    ] = None,
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
                access, host, port = _access(listen, tokens)
                server = server_of(Tools(connections, bounds), watches, access=access, read_only=read_only)
                await serve_http(server, access, host, port, lambda url: print(f"ready {url}", flush=True))
        finally:
            await connections.close()

    run(action())


def _access(listen: str, tokens: Path | None) -> tuple[Access, str, int]:
    """Return the access control, and the host and port to listen at.  Raises LocalProtocolError."""
    from p2prdf.errors import LocalProtocolError
    from p2prdf.gateway.access import Access, is_loopback, read_tokens
    from p2prdf_node.addresses import split_address

    try:
        host, port = split_address(listen)
    except ValueError as error:
        raise LocalProtocolError(f"--listen: {error}") from None
    known = None if tokens is None else read_tokens(tokens)
    if known is None and not is_loopback(host):
        raise LocalProtocolError(f"--listen {listen}: everybody could publish there: give --tokens")
    return Access(known, (), loopback=is_loopback(host)), host, port
