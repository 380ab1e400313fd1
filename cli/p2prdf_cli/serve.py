"""``p2prdf serve``: long-running services beside nodes."""

from __future__ import annotations

from typing import Final

import typer

from p2prdf_cli.channel_serve import channels
from p2prdf_cli.commands import Commands
from p2prdf_cli.exits import EXIT_CODES_HELP
from p2prdf_cli.gateway import gateway
from p2prdf_cli.replica_serve import interests

__all__ = ["register"]

_HELP: Final = """Run a service beside the nodes until stopped: HTTP, interests or channels.

\b
Examples:
  p2prdf serve gateway --peer 127.0.0.1:7400
  p2prdf serve interests --allow-host db1.example.org:3030
  p2prdf serve channels
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("gateway", epilog=EXIT_CODES_HELP)(gateway)
    commands.command("interests", epilog=EXIT_CODES_HELP)(interests)
    commands.command("channels", epilog=EXIT_CODES_HELP)(channels)
    app.add_typer(commands, name="serve", help=_HELP)
